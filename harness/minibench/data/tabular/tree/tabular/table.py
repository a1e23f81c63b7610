"""The table itself: columns and rows, without any idea of how they are shown."""

from tabular.columns import as_column


class Table:
    """Rows under named columns.

    ``columns`` are :class:`tabular.columns.Column` objects or names, ``rows`` are sequences with one value a column.
    """

    def __init__(self, columns, rows=None, title=""):
        self.columns = [as_column(column) for column in columns]
        names = [column.name for column in self.columns]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"there are two columns {name!r}")
        self.title = title
        self.rows = [] if rows is None else rows
        for row in self.rows:
            self._check(row)

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def _check(self, row):
        if len(row) != len(self.columns):
            raise ValueError(f"a row of {len(row)} values does not fit {len(self.columns)} columns")

    def index(self, name):
        """The position of the column called ``name``."""
        for position, column in enumerate(self.columns):
            if column.name == name:
                return position
        known = ", ".join(column.name for column in self.columns)
        raise KeyError(f"no column {name!r}; there are {known}")

    def add_row(self, *values):
        """Add one row; give one value a column."""
        self._check(values)
        self.rows.append(values)

    def column(self, name):
        """All values under ``name``, from top to bottom."""
        position = self.index(name)
        return [row[position] for row in self.rows]

    def sorted_by(self, name, reverse=False):
        """A new table, ordered by one column. Blank cells come last, whichever way the order goes."""
        position = self.index(name)
        filled = [row for row in self.rows if row[position] is not None]
        blank = [row for row in self.rows if row[position] is None]
        filled.sort(key=lambda row: row[position], reverse=reverse)
        return Table(self.columns, filled + blank, self.title)

    def where(self, name, test):
        """A new table with the rows whose value under ``name`` passes ``test``."""
        position = self.index(name)
        return Table(self.columns, [row for row in self.rows if test(row[position])], self.title)

    def select(self, *names):
        """A new table with only these columns, in this order."""
        positions = [self.index(name) for name in names]
        columns = [self.columns[position] for position in positions]
        return Table(columns, [tuple(row[position] for position in positions) for row in self.rows], self.title)

    def total(self, name):
        """The sum of a column; blank cells count as nothing."""
        return sum(value for value in self.column(name) if value is not None)
