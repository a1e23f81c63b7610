"""Edit templates for calls, names, values and their types. The catalogue is that of :mod:`harness.agents.repair_expressions`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from harness.agents.repair_context import (
    AROUND,
    ATTRIBUTE,
    ELEMENTS,
    FUNCTION_NAME,
    IDENTIFIER,
    LESS_ARGUMENTS,
    METHOD_CALL,
    MORE_ARGUMENTS,
    SWAP_ARGUMENTS,
    Context,
)
from harness.agents.repair_source import Edit

_CALLS = {
    "min": ("max",),
    "max": ("min",),
    "any": ("all",),
    "all": ("any",),
    "append": ("extend",),
    "extend": ("append",),
    "keys": ("values", "items"),
    "values": ("keys", "items"),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
    "find": ("rfind",),
    "rfind": ("find",),
    "index": ("rindex",),
    "split": ("rsplit",),
    "rsplit": ("split",),
    "partition": ("rpartition",),
    "rpartition": ("partition",),
    "lstrip": ("strip", "rstrip"),
    "rstrip": ("strip", "lstrip"),
    "strip": ("rstrip", "lstrip"),
    "lower": ("upper", "casefold"),
    "upper": ("lower",),
    "floor": ("ceil",),
    "ceil": ("floor",),
    "int": ("round", "float"),
    "round": ("int",),
    "add": ("discard",),
    "intersection": ("union",),
    "union": ("intersection",),
    "issubset": ("issuperset",),
    "issuperset": ("issubset",),
    "match": ("fullmatch", "search"),
    "search": ("match", "fullmatch"),
    "fullmatch": ("match", "search"),
    "isdigit": ("isalnum",),
    "isalpha": ("isalnum",),
    "update": ("setdefault",),
}


def calls(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Another function of the same kind; swapped, missing or superfluous arguments."""
    if not isinstance(node, ast.Call):
        return
    function, source = node.func, c.source
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    end = source.end(function)
    for other in _CALLS.get(name, ()):
        span = [(end - len(name.encode()), end, other)]
        yield from c.edit(
            node, span, "call", FUNCTION_NAME, f"`{c.line(node)}` calls `{name}` where another function is meant", f"call `{other}`"
        )
    plain = [a for a in node.args if not isinstance(a, ast.Starred)]
    for first, second in pairwise(plain):
        one, two = source.segment(first), source.segment(second)
        span = [(source.start(first), source.end(first), two), (source.start(second), source.end(second), one)]
        yield from c.edit(node, span, "argument", SWAP_ARGUMENTS, f"the arguments of `{name}` are swapped", f"pass `{two}, {one}`")
    close = source.end(node) - 1
    comma = ", " if node.args or node.keywords else ""
    given = {k.arg for k in node.keywords}
    if name in ("sort", "sorted", "reversed") and "reverse" not in given:
        yield from c.edit(
            node, [(close, close, f"{comma}reverse=True")], "argument", MORE_ARGUMENTS, f"`{name}` orders the wrong way", "sort in reverse"
        )
    if name == "get" and len(node.args) == 1:
        for default in ('""', "0", "[]", "{}"):
            cause = f"`{source.segment(node)}` gives None for a missing key"
            yield from c.edit(node, [(close, close, f", {default}")], "missing-key", MORE_ARGUMENTS, cause, f"use {default} as the default")
    if name in ("min", "max") and len(node.args) == 1 and "default" not in given:
        for default in ("0", "None", '""'):
            cause = f"`{source.segment(node)}` fails on an empty sequence"
            yield from c.edit(
                node, [(close, close, f", default={default}")], "empty-guard", MORE_ARGUMENTS, cause, f"give default={default}"
            )
    if name in ("split", "rsplit") and len(node.args) == 1:
        cause = f"`{source.segment(node)}` splits at every separator"
        yield from c.edit(node, [(close, close, ", 1")], "text", MORE_ARGUMENTS, cause, "split once")
        if isinstance(node.args[0], ast.Constant) and node.args[0].value == " ":
            cause = f"`{source.segment(node)}` keeps empty parts where blanks repeat"
            yield from c.swap(node.args[0], "", "text", LESS_ARGUMENTS, cause, "split at any white space")
    target = next((f for _, f in source.functions() if f.name == name), None)
    if target:
        accepted = [a.arg for a in (*target.args.args, *target.args.kwonlyargs)]
        for parameter in accepted[len(node.args) + (1 if accepted[:1] == ["self"] else 0) :]:
            if parameter in c.locals and parameter not in given:
                cause = f"`{parameter}` is not passed on to `{name}`"
                yield from c.edit(
                    node, [(close, close, f"{comma}{parameter}={parameter}")], "argument", MORE_ARGUMENTS, cause, "pass it on"
                )
    for keyword in node.keywords:
        if keyword.arg and isinstance(keyword.value, ast.Constant):
            begin = source.start(keyword.value) - len(f"{keyword.arg}=".encode())
            gap = source.between(source.start(node), begin).rstrip()
            cut = len(source.between(source.start(node), begin).encode()) - len(gap.rstrip(",").rstrip().encode())
            cause = f"`{keyword.arg}={source.segment(keyword.value)}` should not be given to `{name}`"
            yield from c.edit(
                node, [(begin - cut, source.end(keyword.value), "")], "argument", LESS_ARGUMENTS, cause, f"drop `{keyword.arg}`"
            )


def names(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Another variable of the same scope, another attribute of the same object."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in c.locals:
        for other in c.locals:
            if other != node.id and (not c.types.of(other) or c.types.may_be(node.id, *c.types.of(other))):
                cause = f"`{c.line(node)}` uses the wrong variable `{node.id}`"
                yield from c.swap(node, other, "variable", IDENTIFIER, cause, f"use `{other}`")
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in c.attributes:
        seen = c.types.of(f"self.{node.attr}")
        for other in c.attributes:
            known = c.types.of(f"self.{other}")
            if other != node.attr and (not seen or not known or seen & known):
                cause = f"`{c.line(node)}` uses the wrong attribute `{node.attr}`"
                yield from c.swap(node, f"self.{other}", "attribute", ATTRIBUTE, cause, f"use `self.{other}`")


def conversions(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Copies, text normalisation and type conversion around a value."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call) or not isinstance(
        getattr(node, "ctx", ast.Load()), ast.Load
    ):
        return
    parent, text, known = c.source.parents.get(node), c.source.segment(node), c.known(node)
    kept = (isinstance(parent, ast.Return | ast.Assign | ast.AnnAssign) and parent.value is node) or isinstance(parent, ast.keyword)
    passed = isinstance(parent, ast.Call) and node in parent.args
    if known and (kept or passed or isinstance(parent, ast.Dict | ast.Tuple | ast.List)):
        for kind in ("list", "dict", "set"):
            if kind in c.types.of(known):
                cause = f"`{c.line(node)}` shares the mutable `{text}` instead of a copy"
                yield from c.swap(node, f"{kind}({text})", "copy", AROUND, cause, f"copy it with `{kind}({text})`")
    if isinstance(parent, ast.For) and parent.iter is node and known:
        yield from c.swap(
            node, f"list({text})", "copy", AROUND, f"`{text}` changes while the loop walks over it", f"walk over a copy, `list({text})`"
        )
    used = isinstance(parent, ast.Compare | ast.Subscript) or kept or passed
    if isinstance(parent, ast.Subscript) and parent.slice is not node:
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("strip", "lower", "casefold", "upper"):
        inner = c.source.segment(node.func.value)
        yield from c.swap(node, inner, "text", METHOD_CALL, f"`{text}` changes text that should stay as it is", f"use `{inner}`")
    if used and c.types.may_be(known, "str"):
        for method in ("strip", "lower"):
            cause = f"`{c.line(node)}` takes `{text}` as it comes, with stray white space or another case"
            yield from c.swap(node, f"{text}.{method}()", "text", METHOD_CALL, cause, f"normalise it with `.{method}()`")
    if used or isinstance(parent, ast.BinOp | ast.FormattedValue):
        for kind, seen in (("int", ("str", "float")), ("str", ("int", "float", "NoneType")), ("float", ("str", "int"))):
            if c.types.may_be(known, *seen):
                cause = f"`{c.line(node)}` uses `{text}` as the wrong type"
                yield from c.swap(node, f"{kind}({text})", "conversion", AROUND, cause, f"convert it with `{kind}({text})`")


def kinds(node: ast.AST, c: Context) -> Iterator[Edit]:
    """Wider ``except`` clauses and ``isinstance`` tests."""
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        text = c.source.segment(node.type)
        inside = text[1:-1].rstrip(", ") if isinstance(node.type, ast.Tuple) else text
        for name in dict.fromkeys((c.exception, "ValueError", "TypeError", "KeyError", "AttributeError", "IndexError")):
            if name and name not in text:
                cause = f"the handler for {text} lets {name} through"
                yield from c.swap(node.type, f"({inside}, {name})", "exception", ELEMENTS, cause, f"catch {name} too")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and len(node.args) == 2:
        kind, text = node.args[1], c.source.segment(node.args[1])
        inside = text[1:-1].rstrip(", ") if isinstance(kind, ast.Tuple) else text
        for other in ("tuple", "list", "set", "dict", "str", "int", "float"):
            if not re.search(rf"\b{other}\b", text):
                cause = f"`{c.source.segment(node)}` leaves {other} out"
                yield from c.swap(kind, f"({inside}, {other})", "type-check", ELEMENTS, cause, f"accept {other} too")
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
        for other in ("ValueError", "KeyError", "TypeError", "IndexError"):
            if other != node.exc.func.id:
                cause = f"`{c.line(node)}` raises the wrong kind of error"
                yield from c.swap(node.exc.func, other, "exception", FUNCTION_NAME, cause, f"raise {other}")


TEMPLATES = (calls, names, conversions, kinds)
