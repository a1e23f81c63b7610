"""How wide each column becomes, and which lines each cell fills."""

from tabular.cells import shorten, to_text, wrap

GAP = 2


def cell_lines(value, column):
    """The lines that ``value`` fills under ``column``."""
    text = to_text(value, column.decimals)
    if column.max_width is None:
        return [text]
    if column.overflow == "wrap":
        return wrap(text, column.max_width)
    return [shorten(text, column.max_width)]


def header_lines(column):
    """The lines of a column's name; names are bounded like cells are."""
    return cell_lines(column.name, column)


def widths(table):
    """The width of each column: its widest line."""
    found = []
    for position, column in enumerate(table.columns):
        lines = list(header_lines(column))
        for row in table:
            lines.extend(cell_lines(row[position], column))
        found.append(max(len(line) for line in lines))
    return found


def total_width(table):
    """The width of the whole table in plain text."""
    columns = widths(table)
    return sum(columns) + GAP * (len(columns) - 1)


def row_lines(row, columns):
    """A row as a list of lines, each a list with one text a column."""
    cells = [cell_lines(value, column) for value, column in zip(row, columns)]
    height = max(len(lines) for lines in cells)
    return [[lines[number] if number < len(lines) else "" for lines in cells] for number in range(height)]
