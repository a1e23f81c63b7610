"""Edit templates that add, move or drop statements: guards, defaults, returns, order.

After TBar (Liu et al., ISSTA 2019: null and range checkers, missed statements, moved and removed statements) and GenProg's deletion (Le Goues et
al.), put into Python terms.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from harness.agents.repair_context import MORE_SPECIFIC, Context
from harness.agents.repair_source import Edit

GUARD = "add guard"
TRUTHINESS = "test for None"
DEFAULT = "mutable default"
RETURN = "add return"
EXIT = "early exit"
ORDER = "move or drop statement"
LOOKUP = "safe lookup"

_EMPTY = {
    "list": "[]",
    "str": '""',
    "dict": "{}",
    "int": "0",
    "float": "0.0",
    "tuple": "()",
    "set": "set()",
    "bool": "False",
    "NoneType": "None",
}


def _results(c: Context) -> tuple[str, ...]:
    """What a guard may return: the empty value of each type the function was seen to return, then the usual ones."""
    seen = [_EMPTY[kind] for kind in sorted(c.types.of("return") - {"NoneType"}) if kind in _EMPTY]
    return tuple(dict.fromkeys((*seen, "None", '""', "[]", "0")))[: len(seen) + 2]


def _body_start(c: Context) -> tuple[ast.stmt, str]:
    """The first statement after the docstring, and the indentation of the body."""
    body = c.function.body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str) and len(body) > 1:
        first = body[1]
    return first, " " * first.col_offset


def _before(statement: ast.stmt, text: str, c: Context) -> list[tuple[int, int, str]]:
    """Insert lines before a statement that begins its own line."""
    offset = c.source.line_start(statement.lineno)
    return [(offset, offset, text)]


def guards(c: Context) -> Iterator[Edit]:
    """A parameter that is None or empty is answered before it is used."""
    first, pad = _body_start(c)
    if first.lineno <= c.function.lineno:
        return
    for name in c.parameters:
        seen = c.types.failing.get(name, ())
        if c.types.is_none(name):
            cause = f"`{name}` may be None and is used without a check (missing None guard)"
            for value in _results(c):
                text = f"{pad}if {name} is None:\n{pad}    return {value}\n"
                yield from c.edit(first, _before(first, text, c), "none-guard", GUARD, cause, f"return {value} when `{name}` is None")
            for kind in sorted(c.types.of(name) - {"NoneType"}) or ["str", "list", "dict"]:
                if kind in _EMPTY:
                    text = f"{pad}if {name} is None:\n{pad}    {name} = {_EMPTY[kind]}\n"
                    yield from c.edit(
                        first, _before(first, text, c), "none-guard", GUARD, cause, f"use {_EMPTY[kind]} when `{name}` is None"
                    )
        elif set(seen) & {"list", "tuple", "str", "dict", "set", "int", "float"} and c.exception in (
            "IndexError",
            "ZeroDivisionError",
            "ValueError",
        ):
            cause = f"an empty or zero `{name}` is not handled (missing guard for the empty case)"
            for value in _results(c):
                text = f"{pad}if not {name}:\n{pad}    return {value}\n"
                yield from c.edit(first, _before(first, text, c), "empty-guard", GUARD, cause, f"return {value} when `{name}` is empty")


def none_uses(node: ast.AST, c: Context) -> Iterator[Edit]:
    """None at the place of use: a default, a narrower condition, a test for None instead of truth; a skipped element; a safe look-up."""
    source = c.source
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        test = node.test
        bare = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
        if isinstance(bare, ast.Name | ast.Attribute | ast.Subscript | ast.Call) and not isinstance(bare, ast.Constant):
            text = source.segment(bare)
            new = f"{text} is None" if bare is not test else f"{text} is not None"
            cause = f"`{source.segment(test)}` takes an empty or zero value for a missing one"
            yield from c.swap(test, new, "truthiness", TRUTHINESS, cause, f"test `{new}`")
        for name in dict.fromkeys(n.id for n in ast.walk(test) if isinstance(n, ast.Name)):
            if c.types.is_none(name):
                text = source.segment(test)
                inner = f"({text})" if isinstance(test, ast.BoolOp) else text
                cause = f"the condition `{text}` is evaluated although `{name}` may be None"
                yield from c.swap(
                    test, f"{name} is not None and {inner}", "none-guard", MORE_SPECIFIC, cause, f"check `{name} is not None` first"
                )
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        value, default = (source.segment(v) for v in node.values)
        cause = f"`{source.segment(node)}` replaces a valid empty or zero value"
        new = f"({value} if {value} is not None else {default})"
        yield from c.swap(node, new, "truthiness", TRUTHINESS, cause, f"use the default only when `{value}` is None")
    elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and c.types.is_none(node.target.id):
        inside, name = node.body[0], node.target.id
        text = f"{' ' * inside.col_offset}if {name} is None:\n{' ' * inside.col_offset}    continue\n"
        if inside.lineno > node.lineno:
            yield from c.edit(
                inside, _before(inside, text, c), "none-guard", GUARD, f"`{name}` may be None in the loop (missing None guard)", "skip it"
            )
    elif isinstance(node, ast.Name | ast.Attribute | ast.Call) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        known, parent = c.known(node), source.parents.get(node)
        missing = (known and c.types.is_none(known)) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        )
        used = isinstance(parent, ast.Attribute | ast.Subscript | ast.BinOp | ast.Compare | ast.comprehension | ast.For) or (
            isinstance(parent, ast.Call) and node in parent.args
        )
        if missing and used and isinstance(node, ast.Name) and node.id not in c.parameters:
            yield from _guard_before(node, node.id, c)
        if missing and used and len(getattr(node, "args", [0])) == 1:
            for kind in sorted(c.types.of(known) - {"NoneType"} if known else ()) or ["str", "list", "dict", "int"]:
                if kind in _EMPTY:
                    text = source.segment(node)
                    cause = f"`{text}` may be None where it is used (missing None guard)"
                    yield from c.swap(node, f"({text} or {_EMPTY[kind]})", "none-guard", GUARD, cause, f"use {_EMPTY[kind]} in its place")
    elif (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and not isinstance(node.slice, ast.Slice)
        and c.exception == "KeyError"
    ):
        base, key = source.segment(node.value), source.segment(node.slice)
        for default in ("", ', ""', ", 0", ", []"):
            new = f"{base}.get({key}{default})"
            yield from c.swap(
                node, new, "missing-key", LOOKUP, f"`{source.segment(node)}` fails for a missing key", f"look it up with `{new}`"
            )


def _guard_before(node: ast.AST, name: str, c: Context) -> Iterator[Edit]:
    """Answer a local that is None before the statement that uses it (TBar's null checker)."""
    statement = c.source.statement(node)
    pad = " " * statement.col_offset
    if c.source.lines[statement.lineno - 1].strip() != c.source.segment(statement).split("\n")[0].strip():
        return  # it shares its line with another one
    holder, looping = c.source.parents.get(statement), False
    while holder is not None and holder is not c.function:
        looping = looping or isinstance(holder, ast.For | ast.While)
        holder = c.source.parents.get(holder)
    cause = f"`{name}` may be None and is used without a check (missing None guard)"
    for answer in (*(f"return {value}" for value in _results(c)), *(["continue"] if looping else [])):
        text = f"{pad}if {name} is None:\n{pad}    {answer}\n"
        yield from c.edit(node, _before(statement, text, c), "none-guard", GUARD, cause, f"`{answer}` when `{name}` is None")


def defaults(c: Context) -> Iterator[Edit]:
    """A mutable default shared between calls."""
    arguments = c.function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    first, pad = _body_start(c)
    for argument, default in pairs:
        literal = isinstance(default, ast.List | ast.Dict | ast.Set)
        made = isinstance(default, ast.Call) and isinstance(default.func, ast.Name) and default.func.id in ("list", "dict", "set")
        if (literal or made) and first.lineno > c.function.lineno:
            text = c.source.segment(default)
            guard = f"{pad}if {argument.arg} is None:\n{pad}    {argument.arg} = {text}\n"
            span = [(c.source.start(default), c.source.end(default), "None"), *_before(first, guard, c)]
            cause = f"the mutable default `{argument.arg}={text}` is shared between calls"
            yield from c.edit(c.function, span, "mutable-default", DEFAULT, cause, "use None and make a new one inside")


def shared_attributes(c: Context) -> Iterator[Edit]:
    """A mutable class attribute shared between instances: make it in ``__init__``."""
    holder = c.source.parents.get(c.function)
    if c.function.name != "__init__" or not isinstance(holder, ast.ClassDef):
        return
    first, pad = _body_start(c)
    for node in holder.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(target, ast.Name) and isinstance(value, ast.List | ast.Dict | ast.Set) and first.lineno > c.function.lineno:
            text = f"{pad}self.{target.id} = {c.source.segment(value)}\n"
            cause = f"the mutable class attribute `{target.id}` is shared between instances"
            yield from c.edit(c.function, _before(first, text, c), "mutable-default", DEFAULT, cause, "make one for each instance")


def returns(c: Context) -> Iterator[Edit]:
    """A result that is computed and not returned."""
    last = c.function.body[-1]
    pad = " " * last.col_offset
    end = c.source.line_start((last.end_lineno or last.lineno) + 1)
    if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):
        offset = c.source.start(last)
        cause = f"`{c.source.segment(last)[:60]}` is computed and not returned"
        yield from c.edit(last, [(offset, offset, "return ")], "return", RETURN, cause, "return it")
    if not isinstance(last, ast.Return | ast.Raise):
        for name in [n for n in c.locals if n not in c.parameters] + list(c.parameters):
            cause = f"the function ends without returning `{name}`"
            text = f"{pad}return {name}\n"
            if end == len(c.source.text.encode()) + 1:
                end, text = end - 1, "\n" + text
            yield from c.edit(last, [(end, end, text)], "return", RETURN, cause, f"return `{name}`")


def exits(node: ast.AST, c: Context) -> Iterator[Edit]:
    """``break``, ``continue`` and ``return`` inside a loop that leave too early or too late."""
    source = c.source
    if isinstance(node, ast.Break | ast.Continue):
        new = "continue" if isinstance(node, ast.Break) else "break"
        cause = f"the loop is left by the wrong statement at line {node.lineno}"
        yield from c.edit(node, [(source.start(node), source.end(node), new)], "early-exit", EXIT, cause, f"use `{new}`")
    elif isinstance(node, ast.Return):
        loop: ast.AST | None = source.parents.get(node)
        if isinstance(loop, ast.For | ast.While) and loop.body[-1] is node and len(loop.body) > 1:
            assert loop.end_lineno is not None
            cut = (source.line_start(node.lineno), source.line_start((node.end_lineno or node.lineno) + 1), "")
            after = source.line_start(loop.end_lineno + 1)
            text = f"{' ' * loop.col_offset}{source.segment(node)}\n"
            changes = [(cut[0], cut[1], text)] if after == cut[1] else [cut, (after, after, text)]
            yield from c.edit(node, changes, "early-exit", EXIT, "the loop returns in its first round (too early)", "return after the loop")


def moves(node: ast.AST, c: Context) -> Iterator[Edit]:
    """A statement at the wrong place or too many."""
    source = c.source
    bodies = [b for b in (getattr(node, "body", None), getattr(node, "orelse", None)) if isinstance(b, list)]
    for body in bodies:
        plain = [s for s in body if isinstance(s, ast.stmt)]
        for here, after in pairwise(plain):
            if isinstance(here, ast.Expr) and isinstance(here.value, ast.Constant):
                continue
            start, middle = source.line_start(here.lineno), source.line_start(after.lineno)
            end = source.line_start((after.end_lineno or after.lineno) + 1)
            one, two = source.between(start, middle), source.between(middle, min(end, len(source.text.encode())))
            two = two if two.endswith("\n") else two + "\n"
            cause = f"`{source.lines[here.lineno - 1].strip()[:60]}` happens before what must come first (wrong order)"
            yield from c.edit(here, [(start, end, two + one)], "order", ORDER, cause, "swap it with the next statement")
        for statement in plain:
            if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign) and len(plain) > 1:
                start, end = source.line_start(statement.lineno), source.line_start((statement.end_lineno or statement.lineno) + 1)
                text = source.segment(statement)
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    yield from c.edit(
                        statement, [(start, end, "")], "superfluous", ORDER, f"`{text[:60]}` should not happen here", "drop it"
                    )


FUNCTION_TEMPLATES = (guards, defaults, shared_attributes, returns)
NODE_TEMPLATES = (none_uses, exits, moves)
