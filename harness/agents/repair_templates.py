"""All candidate edits of one function: every template on every node."""

from __future__ import annotations

import ast

from harness.agents import repair_expressions, repair_values
from harness.agents.repair_context import Context
from harness.agents.repair_localise import Place
from harness.agents.repair_source import Edit, Source
from harness.agents.repair_statements import FUNCTION_TEMPLATES, NODE_TEMPLATES


def attributes_of(holder: ast.AST | None) -> tuple[str, ...]:
    """Names that the class assigns on ``self``, sorted."""
    if not isinstance(holder, ast.ClassDef):
        return ()
    nodes = (n for n in ast.walk(holder) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return tuple(sorted({n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == "self"}))


def candidates(source: Source, place: Place, exception: str) -> list[Edit]:
    """Every edit that a template proposes in the function of ``place``, in a fixed order; those of annotations and docstrings are left out.

    ``exception`` is the type of error that the reproduction ended with, "" for none.
    """
    edits: list[Edit] = []
    for name, function in source.functions():
        if name != place.function:
            continue
        holder = source.parents.get(function)
        context = Context(source, name, function, place.types, exception, attributes_of(holder))
        for whole in FUNCTION_TEMPLATES:
            edits += whole(context)
        skipped = {n for a in ast.walk(function.args) if isinstance(a, ast.arg) and a.annotation for n in ast.walk(a.annotation)}
        skipped |= set(ast.walk(function.returns)) if function.returns else set()
        for node in ast.walk(function):
            if node in skipped:
                continue
            for template in (*repair_expressions.TEMPLATES, *repair_values.TEMPLATES):
                edits += template(node, context)
            for other in NODE_TEMPLATES:
                edits += other(node, context)
    return edits
