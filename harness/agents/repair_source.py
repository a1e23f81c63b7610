"""Source text as the repair agent reads it, and edits as small replacements in that text.

Edits are found on the syntax tree but made in the text, so that a patch touches nothing but what it means to change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.parsing import parse

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edit:
    """One candidate fix: lines ``first`` .. ``first + len(old) - 1`` (1-based) of ``path`` become ``new``.

    ``family`` is the kind of fault it assumes ("boundary", "none-guard", ...), ``pattern`` the row of the published frequency table that its prior
    comes from, ``place`` the line whose suspicion it inherits, ``cause`` and ``remedy`` plain sentences.
    """

    path: str
    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    family: str
    pattern: str
    place: int
    function: str
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Types:
    """Type names seen at run time in one function: local name (or "self.attribute", or "return") -> sorted type names.

    ``failing`` comes from the run of the reproduction, ``passing`` from the repository's own tests.
    """

    failing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    passing: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, name: str) -> frozenset[str]:
        """Everything that was seen for ``name``."""
        return frozenset(self.failing.get(name, ())) | frozenset(self.passing.get(name, ()))

    def is_none(self, name: str) -> bool:
        """Whether the reproduction ran with None in ``name``."""
        return "NoneType" in self.failing.get(name, ())

    def may_be(self, name: str, *types: str) -> bool:
        """Whether one of ``types`` was seen, or nothing is known."""
        seen = self.of(name)
        return not seen or bool(seen & set(types))


class Source:
    """One parsed file. Raises SyntaxError for text that is not Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = parse(text)
        self.lines = text.split("\n")
        self._data = text.encode()
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line.encode()) + 1)
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def start(self, node: ast.expr | ast.stmt | ast.excepthandler) -> int:
        """Offset in bytes of the node's first character."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.excepthandler) -> int:
        """Offset in bytes after the node's last character."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The node's own text."""
        return self.between(self.start(node), self.end(node))

    def between(self, start: int, end: int) -> str:
        """The text between two byte offsets."""
        return self._data[start:end].decode()

    def line_start(self, line: int) -> int:
        """Offset in bytes at which 1-based ``line`` begins (one past the last line: the end)."""
        return self._starts[line - 1]

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function with its qualified name, in order of appearance; nested functions are part of the outer one."""

        def visit(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
            for node in body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield prefix + node.name, node
                elif isinstance(node, ast.ClassDef):
                    yield from visit(node.body, f"{prefix}{node.name}.")
                elif isinstance(node, ast.If | ast.Try):
                    yield from visit(node.body, prefix)

        yield from visit(self.tree.body, "")

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that ``node`` belongs to."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def replaced(self, *changes: tuple[int, int, str]) -> str:
        """The whole text with each (start, end, replacement), offsets in bytes, carried out. Changes must not overlap."""
        data = self._data
        for start, end, replacement in sorted(changes, reverse=True):
            data = data[:start] + replacement.encode() + data[end:]
        return data.decode()


def make_edit(
    source: Source, changes: list[tuple[int, int, str]], *, family: str, pattern: str, place: int, function: str, cause: str, remedy: str
) -> Edit | None:
    """The edit that carries out ``changes``, or None where the result is not Python or means the same."""
    text = source.replaced(*changes)
    try:
        tree = parse(text)
    except (SyntaxError, ValueError):
        return None
    if ast.dump(tree) == ast.dump(source.tree):
        return None
    before, after = source.lines, text.split("\n")
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = tuple(before[head : len(before) - tail]), tuple(after[head : len(after) - tail])
    return Edit(source.path, head + 1, old, new, family, pattern, place, function, cause, remedy)
