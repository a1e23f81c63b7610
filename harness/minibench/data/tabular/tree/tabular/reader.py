"""Delimited text to tables."""

from tabular.columns import Column
from tabular.table import Table


def guess(text):
    """The value that ``text`` stands for: a whole number, a number, or the text itself. A blank is ``None``."""
    text = text.strip()
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def split(line, delimiter):
    """The fields of one line. A field in double quotes may hold the delimiter, and a quote written twice."""
    fields = []
    field = ""
    quoted = False
    position = 0
    while position < len(line):
        mark = line[position]
        if quoted:
            if mark == '"' and line[position + 1 : position + 2] == '"':
                field += '"'
                position += 1
            elif mark == '"':
                quoted = False
            else:
                field += mark
        elif mark == '"' and not field.strip():
            quoted = True
            field = ""
        elif mark == delimiter:
            fields.append(field)
            field = ""
        else:
            field += mark
        position += 1
    fields.append(field)
    return fields


def read_delimited(text, delimiter=",", title=""):
    """A table from delimited text whose first line names the columns.

    Columns that hold only numbers are aligned to the right. Short lines are filled with blanks; blank lines are left out.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("there is no header line")
    names = [name.strip() for name in split(lines[0], delimiter)]
    rows = []
    for number, line in enumerate(lines[1:], 2):
        fields = split(line, delimiter)
        if len(fields) > len(names):
            raise ValueError(f"line {number} has {len(fields)} fields, the header {len(names)}")
        values = [guess(field) for field in fields]
        rows.append(tuple(values + [None] * (len(names) - len(values))))
    columns = []
    for position, name in enumerate(names):
        values = [row[position] for row in rows if row[position] is not None]
        numeric = bool(values) and all(isinstance(value, (int, float)) for value in values)
        columns.append(Column(name, align="right" if numeric else "left"))
    return Table(columns, rows, title)
