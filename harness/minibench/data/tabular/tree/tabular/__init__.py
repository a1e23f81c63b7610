"""Small tables for terminals and text files."""

from tabular.columns import Column
from tabular.reader import read_delimited
from tabular.render import render
from tabular.table import Table

__all__ = ["Column", "Table", "read_delimited", "render"]
