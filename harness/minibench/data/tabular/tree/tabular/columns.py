"""Columns: a name, and how the cells under it are shown."""

ALIGNMENTS = ("left", "right", "center")
OVERFLOWS = ("shorten", "wrap")


class Column:
    """One column of a table.

    ``max_width`` bounds the cells; ``overflow`` says what happens to longer ones. ``decimals`` is for floats.
    """

    def __init__(self, name, align="left", max_width=None, overflow="shorten", decimals=None):
        if align not in ALIGNMENTS:
            raise ValueError(f"align must be one of {', '.join(ALIGNMENTS)}, not {align!r}")
        if overflow not in OVERFLOWS:
            raise ValueError(f"overflow must be one of {', '.join(OVERFLOWS)}, not {overflow!r}")
        self.name = name
        self.align = align
        self.max_width = max_width
        self.overflow = overflow
        self.decimals = decimals

    def __repr__(self):
        return f"Column({self.name!r}, align={self.align!r})"

    def renamed(self, name):
        """The same column under another name."""
        return Column(name, self.align, self.max_width, self.overflow, self.decimals)


def as_column(value):
    """A column from a column or a plain name."""
    return value if isinstance(value, Column) else Column(str(value))
