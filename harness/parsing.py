"""Python source to syntax tree, from several threads."""

from __future__ import annotations

import ast
import threading

_one_at_a_time = threading.Lock()


def parse(text: str, name: str = "<unknown>") -> ast.Module:
    """:func:`ast.parse`, one at a time: CPython 3.11 counts the depth of trees for all threads together, so that parsing side by side may raise SystemError
    (cpython issue 106905). Raises SyntaxError or ValueError for what is no Python."""
    with _one_at_a_time:
        return ast.parse(text, name)
