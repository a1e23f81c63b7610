"""What an edit template may know about the function it works in, and the names of the fix patterns.

The pattern names are the rows of the table of TSSB-3M (Richter and Wehrheim, MSR 2022, arXiv 2201.12046); :mod:`harness.agents.repair_order` has
their frequencies.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness.agents.repair_source import Edit, Function, Source, Types, make_edit

BINARY_OPERATOR = "Change Binary Operator"
BINARY_OPERAND = "Change Binary Operand"
NUMERIC_LITERAL = "Change Numeric Literal"
BOOLEAN_LITERAL = "Change Boolean Literal"
UNARY_OPERATOR = "Change Unary Operator"
IDENTIFIER = "Change Identifier Used"
ATTRIBUTE = "Change Attribute Used"
FUNCTION_NAME = "Wrong Function Name"
AROUND = "Add Function Around Expression"
METHOD_CALL = "Add Method Call"
MORE_ARGUMENTS = "Same Function More Args"
LESS_ARGUMENTS = "Same Function Less Args"
SWAP_ARGUMENTS = "Same Function Swap Args"
MORE_SPECIFIC = "More Specific If"
LESS_SPECIFIC = "Less Specific If"
ELEMENTS = "Add Elements To Iterable"
BY_ONE = "adjust by one"


class Context:
    """What a template may know: the file, the function it stands in, and the types seen there at run time."""

    def __init__(self, source: Source, name: str, function: Function, types: Types, exception: str, attributes: tuple[str, ...]) -> None:
        self.source = source
        self.name = name
        self.function = function
        self.types = types
        self.exception = exception
        self.attributes = attributes
        arguments = function.args
        self.parameters = tuple(
            a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.arg not in ("self", "cls")
        )
        assigned = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.locals = tuple(dict.fromkeys((*self.parameters, *sorted(assigned))))

    def edit(
        self, node: ast.AST, changes: list[tuple[int, int, str]], family: str, pattern: str, cause: str, remedy: str
    ) -> Iterator[Edit]:
        """At most one edit, placed at the node's line."""
        line = getattr(node, "lineno", self.function.lineno)
        found = make_edit(
            self.source,
            changes,
            family=family,
            pattern=pattern,
            place=line,
            function=self.name,
            cause=f"in {self.name}, {cause}",
            remedy=remedy,
        )
        if found:
            yield found

    def swap(self, node: ast.expr, text: str, family: str, pattern: str, cause: str, remedy: str) -> Iterator[Edit]:
        """Replace one expression by ``text``."""
        return self.edit(node, [(self.source.start(node), self.source.end(node), text)], family, pattern, cause, remedy)

    def operator(self, left: ast.expr, right: ast.expr, old: str, new: str) -> list[tuple[int, int, str]]:
        """The change that turns the operator between two operands into another; [] where it cannot be found."""
        start, end = self.source.end(left), self.source.start(right)
        gap = self.source.between(start, end)
        pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, old.split())) + r"(?!\w)" if old[0].isalpha() else re.escape(old)
        match = re.search(pattern, gap)
        if not match:
            return []
        offset = start + len(gap[: match.start()].encode())
        return [(offset, offset + len(match.group().encode()), new)]

    def known(self, node: ast.expr) -> str:
        """The name under which types of ``node`` were seen ("x", "self.x"), "" for anything else."""
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return f"self.{node.attr}"
        return ""

    def line(self, node: ast.AST) -> str:
        """The source line of ``node``, for a sentence about it."""
        return self.source.lines[getattr(node, "lineno", 1) - 1].strip()[:80]
