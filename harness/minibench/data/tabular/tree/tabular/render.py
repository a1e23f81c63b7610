"""Tables as text: plain, Markdown, CSV."""

from tabular.cells import pad, to_text
from tabular.layout import GAP, header_lines, row_lines, total_width, widths


def render(table, style="plain"):
    """``table`` as text in one of the styles "plain", "markdown" and "csv", without a newline at the end."""
    if style not in STYLES:
        raise ValueError(f"style must be one of {', '.join(sorted(STYLES))}, not {style!r}")
    return STYLES[style](table)


def _plain(table):
    sizes = widths(table)
    gap = " " * GAP
    lines = []
    if table.title:
        lines.append(table.title.center(total_width(table)).rstrip())
    heads = [header_lines(column) for column in table.columns]
    for number in range(max(len(head) for head in heads)):
        texts = [head[number] if number < len(head) else "" for head in heads]
        lines.append(_join(texts, sizes, table.columns, gap))
    lines.append(gap.join("-" * size for size in sizes))
    for row in table:
        for texts in row_lines(row, table.columns):
            lines.append(_join(texts, sizes, table.columns, gap))
    return "\n".join(lines)


def _join(texts, sizes, columns, gap):
    cells = [pad(text, size, column.align) for text, size, column in zip(texts, sizes, columns)]
    return gap.join(cells).rstrip()


def _markdown(table):
    marks = {"left": ":--", "right": "--:", "center": ":-:"}
    lines = ["| " + " | ".join(_escape(column.name) for column in table.columns) + " |"]
    lines.append("| " + " | ".join(marks[column.align] for column in table.columns) + " |")
    for row in table:
        texts = [_escape(to_text(value, column.decimals)) for value, column in zip(row, table.columns)]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _escape(text):
    return text.replace("|", "\\|")


def _csv(table):
    lines = [",".join(_quote(column.name) for column in table.columns)]
    for row in table:
        lines.append(",".join(_quote(to_text(value, column.decimals)) for value, column in zip(row, table.columns)))
    return "\n".join(lines)


def _quote(text):
    if any(mark in text for mark in ',"\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


STYLES = {"plain": _plain, "markdown": _markdown, "csv": _csv}
