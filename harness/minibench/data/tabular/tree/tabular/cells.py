"""What happens inside one cell: from a value to text of a bounded width."""

ELLIPSIS = "…"
BLANK = ""


def to_text(value, decimals=None):
    """The text of a value.

    ``None`` is a blank cell, floats are written with ``decimals`` places if that is given, and line breaks become spaces.
    """
    if value is None:
        return BLANK
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and decimals is not None:
        return f"{value:.{decimals}f}"
    return " ".join(str(value).split("\n"))


def shorten(text, width):
    """Cut ``text`` to ``width`` characters; a cut text ends in an ellipsis."""
    if width < 1:
        raise ValueError("width must be at least 1")
    if len(text) <= width:
        return text
    return text[: width - 1].rstrip() + ELLIPSIS


def wrap(text, width):
    """Break ``text`` at spaces into lines of at most ``width`` characters.

    A word that is longer than ``width`` is broken wherever needed. There is always at least one line.
    """
    if width < 1:
        raise ValueError("width must be at least 1")
    lines = []
    line = ""
    for word in text.split():
        while len(word) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(word[:width])
            word = word[width:]
        if not word:
            continue
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line = f"{line} {word}"
        else:
            lines.append(line)
            line = word
    if line or not lines:
        lines.append(line)
    return lines


def pad(text, width, align="left"):
    """Fill ``text`` with spaces up to ``width``."""
    if align == "right":
        return text.rjust(width)
    if align == "center":
        return text.center(width)
    return text.ljust(width)
