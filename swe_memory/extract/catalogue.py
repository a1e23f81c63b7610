"""What kind of change a patch is: a missing guard, a wrong boundary, a swapped call, an argument passed on ...

A small catalogue in the line of the fix templates of template-based program repair (Kim et al. 2013, PAR; Liu et al. 2019, TBar), read off
the added and removed lines of a patch. It names the shape and says what the shape teaches; it keeps no line of the patch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .shapes import (
    Hunk,
    adds_function,
    argument,
    arithmetic,
    caught,
    code_lines,
    comparison,
    constant_for_value,
    copied,
    emptiness,
    flag_flipped,
    gained,
    literal_changed,
    logic,
    moved,
    mutable_default,
    narrowed,
    none_for_false,
    none_guard,
    off_by_one,
    one_call_swapped,
    only_removed,
    pattern_changed,
    turned_round,
    type_branch,
    widened,
)

MAX_LINES = 14
"""Larger hunks do several things at once: naming one of them would be a guess."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of fix: ``name`` completes "the fix was ...", ``lesson`` is advice for the next bug that looks alike, ``check`` how to know."""

    name: str
    lesson: str
    check: str


_RULES: tuple[tuple[Callable[[Hunk], bool], Shape], ...] = (
    (
        lambda h: gained(h, r"^(?:async )?def ") and not code_lines(h.removed),
        Shape(
            "adding or overriding a method",
            "When a type lacks one operation that its siblings have, read how they implement it and follow their conventions.",
            "compare with a sibling that works",
        ),
    ),
    (
        turned_round,
        Shape(
            "swapping operands or arguments",
            "When a ratio, a difference or a comparison comes out inverted, hold the order of operands and arguments against their names.",
            "use two values that differ a lot",
        ),
    ),
    (
        mutable_default,
        Shape(
            "replacing a mutable default argument",
            "State that leaks from one call or object to the next points at a mutable default or a shared container: default to `None` and build it inside.",
            "call it twice and compare",
        ),
    ),
    (
        off_by_one,
        Shape(
            "moving a boundary by one",
            "A result that is one short or one too many is a boundary: check the first, the last and the empty case before and after the change.",
            "try the first, the last and one past the last",
        ),
    ),
    (
        comparison,
        Shape(
            "correcting a comparison operator",
            "When only the edge value behaves wrongly, read the comparison operators on its way first: strict against inclusive, equality against identity.",
            "try the value on the edge and its two neighbours",
        ),
    ),
    (
        arithmetic,
        Shape(
            "correcting an arithmetic operator",
            "When a sign, scale or size is wrong, compare each operator with the formula term by term.",
            "work one small case out by hand",
        ),
    ),
    (
        logic,
        Shape(
            "correcting a logical operator",
            "When a condition fires too often or never, write down its truth table: `and`, `or` and a lost `not` are easily swapped.",
            "try one input for each branch",
        ),
    ),
    (
        copied,
        Shape(
            "copying before changing",
            "When one element's state shows up in the next, something shared is changed in place: copy it before each use.",
            "use two elements with different values and check the second",
        ),
    ),
    (
        none_for_false,
        Shape(
            "asking for None instead of falsehood",
            "An empty container, zero or an empty text is a value: where absence is meant, ask for `is None`, not for truth.",
            "try it with the value absent, empty and present",
        ),
    ),
    (
        none_guard,
        Shape(
            "adding a missing None guard",
            "When an optional value may be absent, guard it with `is None` where it is used, and see what the neighbouring branches do in that case.",
            "try it with the value absent, empty and present",
        ),
    ),
    (
        emptiness,
        Shape(
            "adding a missing check for emptiness or length",
            "Empty input and mismatched lengths slip through checks such as `all()`, indexing by `[0]` and `zip`: test for them before.",
            "try empty input, one element and mismatched lengths",
        ),
    ),
    (
        caught,
        Shape(
            "catching an exception",
            "Catch the narrowest exception at the place that can give a meaningful answer, and keep what the caller relied on.",
            "check that other errors still come through",
        ),
    ),
    (
        type_branch,
        Shape(
            "adding a branch for one more type",
            "When one type of input is handled wrongly, look for the chain of type checks and add the missing branch before the more general one.",
            "try each type that the chain knows, and a subclass",
        ),
    ),
    (
        lambda h: gained(
            h, r"IGNORECASE|re\.I\b|casefold\(|\.(?:lower|upper)\(\) *(?:==|!=|in\b|not in\b)|(?:==|!=|\bin) [\w.]+\.(?:lower|upper)\(\)"
        ),
        Shape(
            "ignoring case",
            "If a format ignores case, every comparison with a literal on the way has to, not only the first pattern.",
            "try lower, upper and mixed case through the whole path",
        ),
    ),
    (
        lambda h: gained(h, r"re\.escape\(|\bquote\w*\(|\bescape\w*\("),
        Shape(
            "escaping special characters",
            "Text that goes into a pattern, a command or markup has to be escaped where it enters.",
            "try a value with special characters in it",
        ),
    ),
    (
        lambda h: gained(h, r"\bsuper\(\)"),
        Shape(
            "calling the parent's method",
            "When an override loses behaviour, compare it with the parent's method and call that for all but the special case.",
            "try the special case and the parent's ordinary case",
        ),
    ),
    (
        moved,
        Shape(
            "changing the order of statements",
            "When a value is right at the end but wrong when it is used, look for statements in the wrong order.",
            "print the value just before its use",
        ),
    ),
    (
        flag_flipped,
        Shape(
            "changing a default or flag",
            "A changed default reaches every caller: list the callers before changing it.",
            "run the tests of the callers",
        ),
    ),
    (
        constant_for_value,
        Shape(
            "using the value instead of a constant",
            "A constant where a computed value belongs works for the simple case and breaks the nested one: try an example one level deeper.",
            "nest the example once more",
        ),
    ),
    (
        pattern_changed,
        Shape(
            "changing a pattern",
            "Before widening a pattern, list what it must go on rejecting; the existing tests usually hold those cases.",
            "try one match and one near miss for each alternative",
        ),
    ),
    (
        widened,
        Shape(
            "widening a condition",
            "When one case is missed, widen the condition that selects it instead of handling the case again later.",
            "try a case that must stay outside",
        ),
    ),
    (
        narrowed,
        Shape(
            "narrowing a condition",
            "When a branch takes cases that it should not, narrow its condition and let the rest fall through to the existing path.",
            "try a case on each side of the new condition",
        ),
    ),
    (
        argument,
        Shape(
            "passing one more argument",
            "A setting that has no effect is often dropped by one call on the way: follow it from the "
            "entry point down and look for the call that does not pass it on.",
            "set it to an unusual value and look at the far end",
        ),
    ),
    (
        one_call_swapped,
        Shape(
            "using another call or name",
            "When a value has the wrong form, look for a sibling call that gives the right one before converting by hand.",
            "compare both calls on the failing value",
        ),
    ),
    (
        literal_changed,
        Shape(
            "changing a literal",
            "Look for other places that spell the same literal, and change them together.",
            "search for the old literal",
        ),
    ),
    (
        lambda h: gained(h, r"\bsorted\(|\.sort\(|\breversed\(|\.order_by\("),
        Shape(
            "fixing an order",
            "When the result has the right elements in the wrong order, look for the step that forgets the order, not for the last one that shows it.",
            "use an input whose order differs from the default",
        ),
    ),
    (
        lambda h: gained(h, r"\b(?:int|float|str|bool|list|tuple|set|array|asarray|astype)\("),
        Shape("converting a value", "When types do not match, convert once where the value enters.", "try both types"),
    ),
    (
        only_removed,
        Shape(
            "removing code",
            "Sometimes the fault is a special case that is no longer needed: see what breaks without it.",
            "run the tests with it removed",
        ),
    ),
    (
        lambda h: gained(h, r"\breturn\b"),
        Shape(
            "adding an early return",
            "Answer the special case first and let the ordinary path stay as it is.",
            "try the special and the ordinary case",
        ),
    ),
    (
        lambda h: gained(h, r"^(?:el)?if\b"),
        Shape(
            "handling a missed case",
            "List the cases that the code tells apart and look for the one it never considered.",
            "try one input for each case",
        ),
    ),
)


def shapes_of(found: tuple[Hunk, ...]) -> tuple[Shape, ...]:
    """The shapes of a patch, the catalogue's order within each hunk, each once; () for what the catalogue does not know."""
    return tuple(dict.fromkeys(shape for hunk in found if (shape := shape_of(hunk)) is not None))


def shape_of(hunk: Hunk) -> Shape | None:
    """The shape of one hunk, None for a large one and for one that the catalogue does not know."""
    if len(code_lines(hunk.removed)) + len(code_lines(hunk.added)) > MAX_LINES:
        return None
    # A hunk that brings a function holds many new tokens: none of them says what was wrong with the old ones.
    rules = _RULES[:1] if adds_function(hunk) else _RULES
    return next((shape for matches, shape in rules if matches(hunk)), None)


_VAGUE_NAMES = {
    "adding or overriding a method",
    "handling a missed case",
    "adding an early return",
    "converting a value",
    "changing a literal",
    "changing a default or flag",
    "using another call or name",
    "removing code",
}
VAGUE = frozenset(shape for _, shape in _RULES if shape.name in _VAGUE_NAMES)
"""Shapes that fit so many patches that naming one is no advice."""
