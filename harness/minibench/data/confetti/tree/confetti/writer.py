"""Documents as text."""


def dumps(document, align=False):
    """``document`` as text that :func:`confetti.loads` reads back. With ``align`` the equals signs of a section stand below each other."""
    blocks = []
    for section in document.sections():
        lines = [f"[{section}]"] if section else []
        keys = document.keys(section)
        width = max(len(key) for key in keys) if align else 0
        for key in keys:
            lines.extend(_lines(key, document.get(section, key), width))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _lines(key, value, width):
    if value is None:
        return [key]
    first, *rest = value.split("\n")
    lines = [f"{key.ljust(width)} = {first}".rstrip()]
    lines.extend(f"    {line}" for line in rest)
    return lines
