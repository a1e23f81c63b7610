"""Edit templates for operators, conditions and numbers.

The catalogue follows the single-statement patterns of TSSB-3M (Richter and Wehrheim, MSR 2022) and the fix patterns of TBar (Liu et al., ISSTA 2019),
put into Python terms.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from harness.agents.repair_context import (
    BINARY_OPERAND,
    BINARY_OPERATOR,
    BOOLEAN_LITERAL,
    BY_ONE,
    LESS_SPECIFIC,
    MORE_SPECIFIC,
    NUMERIC_LITERAL,
    UNARY_OPERATOR,
    Context,
)
from harness.agents.repair_source import Edit

_BOUNDARY = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
_COMPARISON = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">"),
    ast.Gt: (">", "<"),
    ast.LtE: ("<=", ">="),
    ast.GtE: (">=", "<="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("/",)),
    ast.Div: ("/", ("//", "*")),
    ast.FloorDiv: ("//", ("/", "%")),
    ast.Mod: ("%", ("//",)),
}


def compares(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Boundary and comparison operators."""
    if not isinstance(node, ast.Compare):
        return
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        text = c.source.segment(node)
        for table, family in ((_BOUNDARY, "boundary"), (_COMPARISON, "comparison")):
            if type(operator) in table:
                old, new = table[type(operator)]
                if changes := c.operator(left, right, old, new):
                    cause = (
                        f"the comparison `{text}` treats the boundary value wrongly"
                        if family == "boundary"
                        else f"the comparison `{text}` tests the wrong way"
                    )
                    yield from c.edit(node, changes, family, BINARY_OPERATOR, cause, f"use `{new}` instead of `{old}`")
        left = right


def logic(node: ast.AST, c: Context) -> Iterator[Edit]:
    """``and`` / ``or``, superfluous conditions, negations."""
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        changes: list[tuple[int, int, str]] = []
        for left, right in pairwise(node.values):
            changes += c.operator(left, right, old, new)
        text = c.source.segment(node)
        yield from c.edit(
            node, changes, "logic", BINARY_OPERATOR, f"the condition `{text}` joins its parts wrongly", f"use `{new}` instead of `{old}`"
        )
        if len(node.values) == 2:
            for kept, dropped in ((0, 1), (1, 0)):
                gone = c.source.segment(node.values[dropped])
                pattern = LESS_SPECIFIC if old == "and" else MORE_SPECIFIC
                yield from c.swap(
                    node,
                    c.source.segment(node.values[kept]),
                    "condition",
                    pattern,
                    f"the condition `{text}` has a part too many",
                    f"drop `{gone}`",
                )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        sign = "not" if isinstance(node.op, ast.Not) else "-"
        cause = f"`{c.source.segment(node)}` is the opposite of what is meant"
        yield from c.swap(node, c.source.segment(node.operand), "negation", UNARY_OPERATOR, cause, f"drop the `{sign}`")
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        test = node.test
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)) and not isinstance(test, ast.Compare):
            text = c.source.segment(test)
            yield from c.swap(test, f"not ({text})", "negation", UNARY_OPERATOR, f"the test `{text}` is the wrong way round", "negate it")


def arithmetic(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Arithmetic operators and the order of operands."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        text = c.source.segment(node)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant | ast.JoinedStr):
            return
        old, others = _ARITHMETIC[type(node.op)]
        for new in others:
            if changes := c.operator(node.left, node.right, old, new):
                yield from c.edit(
                    node,
                    changes,
                    "arithmetic",
                    BINARY_OPERATOR,
                    f"`{text}` uses the wrong arithmetic operator",
                    f"use `{new}` instead of `{old}`",
                )
        if old in ("-", "/", "//", "%"):
            left, right = c.source.segment(node.left), c.source.segment(node.right)
            span = [
                (c.source.start(node.left), c.source.end(node.left), right),
                (c.source.start(node.right), c.source.end(node.right), left),
            ]
            yield from c.edit(
                node, span, "arithmetic", BINARY_OPERAND, f"`{text}` has its operands the wrong way round", "swap the operands"
            )
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        old, others = _ARITHMETIC[type(node.op)]
        text = c.source.segment(node)
        for new in (*(f"{other}=" for other in others), "="):
            if changes := c.operator(node.target, node.value, f"{old}=", new):
                yield from c.edit(
                    node,
                    changes,
                    "arithmetic",
                    BINARY_OPERATOR,
                    f"`{text}` updates with the wrong operator",
                    f"use `{new}` instead of `{old}=`",
                )
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and not isinstance(node.targets[0], ast.Tuple):
        before = [n for n in ast.walk(c.function) if isinstance(n, ast.Assign | ast.AugAssign) and n is not node and n.lineno < node.lineno]
        name = c.source.segment(node.targets[0])
        targets = {c.source.segment(t) for n in before for t in (n.targets if isinstance(n, ast.Assign) else [n.target])}
        if name in targets and (changes := c.operator(node.targets[0], node.value, "=", "+=")):
            yield from c.edit(
                node, changes, "arithmetic", BINARY_OPERATOR, f"`{name}` is overwritten where it should grow", "use `+=` instead of `=`"
            )


def _countable(node: ast.AST, c: Context) -> bool:
    """Whether the expression stands where an index, a bound or a count is expected."""
    parent = c.source.parents.get(node)
    if isinstance(parent, ast.Slice):
        return True
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        return isinstance(node, ast.BinOp | ast.Call) or c.types.may_be(c.known(node) if isinstance(node, ast.expr) else "", "int")
    if (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id in ("range", "enumerate")
        and node in parent.args
    ):
        return isinstance(parent.func, ast.Name) and parent.func.id == "range"
    return isinstance(parent, ast.Compare | ast.Return) and isinstance(node, ast.BinOp | ast.Call | ast.Name)


def by_one(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Off-by-one: a literal next to what it should be, a bound that needs ``+ 1`` or ``- 1``, or has it without need."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        parent = c.source.parents[node]
        near = isinstance(parent, ast.Slice | ast.Subscript | ast.Compare | ast.BinOp) or (
            isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in ("range", "enumerate")
        )
        family = "off-by-one" if near else "constant"
        for number in (node.value + 1, node.value - 1):
            cause = f"the number {node.value} in `{c.line(node)}` is off by one"
            yield from c.swap(node, str(number), family, NUMERIC_LITERAL, cause, f"use {number}")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        value = str(not node.value)
        yield from c.swap(node, value, "constant", BOOLEAN_LITERAL, f"the flag in `{c.line(node)}` is the wrong way round", f"use {value}")
    elif isinstance(node, ast.expr) and isinstance(node, ast.BinOp | ast.Name | ast.Call | ast.Attribute):
        text = c.source.segment(node)
        one = isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value == 1
        if isinstance(node, ast.BinOp) and one and isinstance(node.op, ast.Add | ast.Sub):
            cause = f"`{text}` is off by one"
            yield from c.swap(
                node, c.source.segment(node.left), "off-by-one", BINARY_OPERAND, cause, f"use `{c.source.segment(node.left)}`"
            )
        elif _countable(node, c) and not (isinstance(node, ast.Name | ast.Attribute) and not c.types.may_be(c.known(node), "int")):
            for sign in ("+", "-"):
                cause = f"`{text}` in `{c.line(node)}` stops or starts one element off (off by one)"
                yield from c.swap(node, f"{text} {sign} 1", "off-by-one", BY_ONE, cause, f"use `{text} {sign} 1`")


TEMPLATES = (compares, logic, arithmetic, by_one)
