"""What kind of change a patch is: a missing guard, a wrong boundary, a swapped call, an argument passed on ...

A small catalogue in the line of the fix templates of template-based program repair (Kim et al. 2013, PAR; Liu et al. 2019, TBar), read off
the added and removed lines of a patch. It names the shape and says what the shape teaches; it keeps no line of the patch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..patches import hunks
from .names import is_python
from .signals import Signals

MAX_LINES = 14
"""Larger hunks do several things at once: naming one of them would be a guess."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of fix: ``name`` completes "the fix was ...", ``lesson`` is advice for the next bug that looks alike, ``check`` how to know."""

    name: str
    lesson: str
    check: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """Added and removed lines of one place of one source file, without indentation; ``context`` is what the hunk header names."""

    path: str
    context: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


def source_hunks(found: Signals) -> tuple[Hunk, ...]:
    """The hunks of the edited source files, in the order of the patch."""
    return tuple(
        Hunk(h.path, h.section, tuple(line.strip() for line in h.removed), tuple(line.strip() for line in h.added))
        for h in hunks(found.patch)
        if h.path in found.sources
    )


def delta(found: Signals, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that the change of one file lets go and brings in, most telling first, at most 3 each: words, never lines.

    Python's own words and names of local variables of one or two letters are left out.
    """
    gone: dict[str, int] = {}
    come: dict[str, int] = {}
    for hunk in source_hunks(found):
        if hunk.path != path:
            continue
        for lines, counts in ((hunk.removed, gone), (hunk.added, come)):
            for line in lines:
                if line.startswith(("#", '"', "'", "import ", "from ")):
                    continue
                for word in re.findall(r"(?<![\w'\"])[A-Za-z_][\w.]*\w(?![\w'\"])", re.sub(r"(['\"])(?:\\.|(?!\1).)*\1", "''", line)):
                    name = word.removeprefix("self.").removeprefix("cls.")
                    if len(name) > 3 and not is_python(name.rsplit(".", 1)[-1]) and not is_python(name):
                        counts[name] = counts.get(name, 0) + 1

    def telling(mine: dict[str, int], other: dict[str, int]) -> tuple[str, ...]:
        only = [name for name in mine if name not in other]
        only = [
            name for name in only if "." in name or "_" in name.strip("_") or re.search(r"[a-z][A-Z]|^[A-Z][a-z]+[A-Z]|^[A-Z]\w{4,}", name)
        ]
        order = sorted(only, key=lambda n: (-("." in n or "_" in n or bool(re.search(r"[a-z][A-Z]", n))), -mine[n], n))
        return tuple(order[:3])

    return telling(gone, come), telling(come, gone)


_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\"|[<>=!]=|[-+*/%<>=&|]|[^\s\w]")
_COMPARE = {"<", "<=", ">", ">=", "==", "!="}


def _code(lines: tuple[str, ...]) -> list[str]:
    return [line for line in lines if line and not line.startswith(("#", '"""', "'''", "//", "*"))]


def _swaps(hunk: Hunk) -> list[tuple[list[str], list[str]]]:
    """For each removed line that has a near twin among the added ones: the tokens that only one of them has."""
    swaps = []
    for old, new in zip(_code(hunk.removed), _code(hunk.added), strict=False):
        a, b = _TOKEN.findall(old), _TOKEN.findall(new)
        start = 0
        while start < min(len(a), len(b)) and a[start] == b[start]:
            start += 1
        end = 0
        while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
            end += 1
        if start + end >= max(2, min(len(a), len(b)) // 3):
            swaps.append((a[start : len(a) - end], b[start : len(b) - end]))
    return swaps


def _gained(hunk: Hunk, pattern: str) -> bool:
    added, removed = "\n".join(_code(hunk.added)), "\n".join(_code(hunk.removed))
    return len(re.findall(pattern, added, re.MULTILINE)) > len(re.findall(pattern, removed, re.MULTILINE))


def _mutable_default(hunk: Hunk) -> bool:
    return any(re.search(r"\bdef\b.*=\s*(?:\[\]|\{\}|set\(\)|list\(\)|dict\(\))", line) for line in hunk.removed) and any(
        "None" in line for line in hunk.added
    )


def _comparison(hunk: Hunk) -> bool:
    return any(len(a) <= 2 and len(b) <= 2 and set(a) | set(b) and (set(a) | set(b)) <= _COMPARE | {"not"} for a, b in _swaps(hunk))


def _off_by_one(hunk: Hunk) -> bool:
    return any((b in (["+", "1"], ["-", "1"]) and not a) or (a in (["+", "1"], ["-", "1"]) and not b) for a, b in _swaps(hunk))


def _arithmetic(hunk: Hunk) -> bool:
    return any(len(a) <= 1 and len(b) <= 1 and set(a) | set(b) and (set(a) | set(b)) <= set("+-*/%") for a, b in _swaps(hunk))


def _logic(hunk: Hunk) -> bool:
    return any({*a, *b} <= {"and", "or", "not"} and (a or b) for a, b in _swaps(hunk))


def _moved(hunk: Hunk) -> bool:
    return len(_code(hunk.removed)) > 0 and sorted(_code(hunk.removed)) == sorted(_code(hunk.added))


def _one_call_swapped(hunk: Hunk) -> bool:
    return any(
        len(a) == 1 and len(b) == 1 and a[0].isidentifier() and b[0].isidentifier() and a[0] not in {"True", "False", "None"}
        for a, b in _swaps(hunk)
    )


def _flag_flipped(hunk: Hunk) -> bool:
    return any(len(a) == 1 and len(b) == 1 and {a[0], b[0]} <= {"True", "False", "None", "0", "1"} for a, b in _swaps(hunk))


def _literal(hunk: Hunk) -> bool:
    return any(
        len(a) == 1 and len(b) == 1 and (a[0][0] in "'\"" or a[0].isdigit()) and (b[0][0] in "'\"" or b[0].isdigit())
        for a, b in _swaps(hunk)
    )


def _constant_for_value(hunk: Hunk) -> bool:
    return any(
        len(a) == 1 and (a[0].isdigit() or a[0] in {"True", "False", "None"}) and b and b[0].isidentifier() and len(b) <= 4
        for a, b in _swaps(hunk)
    )


def _argument(hunk: Hunk) -> bool:
    if any(line.startswith(("except", "raise", "def ", "import", "from ", "if ", "elif ")) for line in (*hunk.removed, *hunk.added)):
        return False
    return any(
        not a and 2 <= len(b) <= 8 and b.count("(") == b.count(")") and "(" in new and (b[0] == "," or (b[-1] == "," and "=" in b))
        for (a, b), new in zip(_swaps(hunk), _code(hunk.added), strict=False)
    )


def _regex(hunk: Hunk) -> bool:
    both = [line for line in (*hunk.removed, *hunk.added) if re.search(r"\bre\.|\br['\"]|_re\b|regex|pattern", line, re.IGNORECASE)]
    return any(line in hunk.removed for line in both) and any(line in hunk.added for line in both)


def _only_removed(hunk: Hunk) -> bool:
    return bool(_code(hunk.removed)) and not _code(hunk.added)


def _widened(hunk: Hunk) -> bool:
    return any(not a and b and b[0] in {"or", "|"} for a, b in _swaps(hunk)) or any(
        not a and b and b[-1] in {"or"} for a, b in _swaps(hunk)
    )


def _narrowed(hunk: Hunk) -> bool:
    return any(not a and b and (b[0] == "and" or b[-1] == "and") for a, b in _swaps(hunk))


_RULES: tuple[tuple[Callable[[Hunk], bool], Shape], ...] = (
    (_mutable_default, Shape("replacing a mutable default argument", "State that leaks from one call or object to the next points at a mutable default or a shared container: default to `None` and build it inside.", "call it twice and compare")),
    (_off_by_one, Shape("moving a boundary by one", "A result that is one short or one too many is a boundary: check the first, the last and the empty case before and after the change.", "try the first, the last and one past the last")),
    (_comparison, Shape("correcting a comparison operator", "When only the edge value behaves wrongly, read the comparison operators on its way first: strict against inclusive, equality against identity.", "try the value on the edge and its two neighbours")),
    (_arithmetic, Shape("correcting an arithmetic operator", "When a sign, scale or size is wrong, compare each operator with the formula term by term.", "work one small case out by hand")),
    (_logic, Shape("correcting a logical operator", "When a condition fires too often or never, write down its truth table: `and`, `or` and a lost `not` are easily swapped.", "try one input for each branch")),
    (lambda h: _gained(h, r"\.copy\(\)|deepcopy\(|\{\*\*|\bcopy\("), Shape("copying before changing", "When one element's state shows up in the next, something shared is changed in place: copy it before each use.", "use two elements with different values and check the second")),
    (lambda h: _gained(h, r"\bis (?:not )?None\b"), Shape("adding a missing None guard", "When an optional value may be absent, guard it with `is None` where it is used, and see what the neighbouring branches do in that case.", "try it with the value absent, empty and present")),
    (lambda h: _gained(h, r"\blen\([\w.]+\) *(?:==|!=|>|<|>=) *(?:0|1|len)\b|\.size\b|if not [\w.]+:"), Shape("adding a missing check for emptiness or length", "Empty input and mismatched lengths slip through checks such as `all()`, indexing by `[0]` and `zip`: test for them before.", "try empty input, one element and mismatched lengths")),
    (lambda h: _gained(h, r"\bexcept\b"), Shape("catching an exception", "Catch the narrowest exception at the place that can give a meaningful answer, and keep what the caller relied on.", "check that other errors still come through")),
    (lambda h: _gained(h, r"\bisinstance\(|\bissubclass\(|\btype\("), Shape("adding a branch for one more type", "When one type of input is handled wrongly, look for the chain of type checks and add the missing branch before the more general one.", "try each type that the chain knows, and a subclass")),
    (lambda h: _gained(h, r"IGNORECASE|\.lower\(\)|\.upper\(\)|casefold"), Shape("ignoring case", "If a format ignores case, every comparison with a literal on the way has to, not only the first pattern.", "try lower, upper and mixed case through the whole path")),
    (lambda h: _gained(h, r"re\.escape|\bquote\(|escape\w*\("), Shape("escaping special characters", "Text that goes into a pattern, a command or markup has to be escaped where it enters.", "try a value with special characters in it")),
    (lambda h: _gained(h, r"\bsuper\(\)"), Shape("calling the parent's method", "When an override loses behaviour, compare it with the parent's method and call that for all but the special case.", "try the special case and the parent's ordinary case")),
    (_moved, Shape("changing the order of statements", "When a value is right at the end but wrong when it is used, look for statements in the wrong order.", "print the value just before its use")),
    (_flag_flipped, Shape("changing a default or flag", "A changed default reaches every caller: list the callers before changing it.", "run the tests of the callers")),
    (_constant_for_value, Shape("using the value instead of a constant", "A constant where a computed value belongs works for the simple case and breaks the nested one: try an example one level deeper.", "nest the example once more")),
    (_regex, Shape("changing a pattern", "Before widening a pattern, list what it must go on rejecting; the existing tests usually hold those cases.", "try one match and one near miss for each alternative")),
    (_widened, Shape("widening a condition", "When one case is missed, widen the condition that selects it instead of handling the case again later.", "try a case that must stay outside")),
    (_narrowed, Shape("narrowing a condition", "When a branch takes cases that it should not, narrow its condition and let the rest fall through to the existing path.", "try a case on each side of the new condition")),
    (_argument, Shape("passing an argument on", "A setting that has no effect is often dropped by one call on the way: follow it from the entry point down and look for the call that does not pass it on.", "set it to an unusual value and look at the far end")),
    (_one_call_swapped, Shape("using another call or name", "When a value has the wrong form, look for a sibling call that gives the right one before converting by hand.", "compare both calls on the failing value")),
    (_literal, Shape("changing a literal", "Look for other places that spell the same literal, and change them together.", "search for the old literal")),
    (lambda h: _gained(h, r"\bsorted\(|\.sort\(|reversed\(|order"), Shape("fixing an order", "When the result has the right elements in the wrong order, look for the step that forgets the order, not for the last one that shows it.", "use an input whose order differs from the default")),
    (lambda h: _gained(h, r"\b(?:int|float|str|bool|list|tuple|set|array|asarray|astype)\("), Shape("converting a value", "When types do not match, convert once where the value enters.", "try both types")),
    (lambda h: _gained(h, r"^(?:async )?def "), Shape("adding or overriding a method", "When a type lacks one operation that its siblings have, read how they implement it and follow their conventions.", "compare with a sibling that works")),
    (_only_removed, Shape("removing code", "Sometimes the fault is a special case that is no longer needed: see what breaks without it.", "run the tests with it removed")),
    (lambda h: _gained(h, r"\breturn\b"), Shape("adding an early return", "Answer the special case first and let the ordinary path stay as it is.", "try the special and the ordinary case")),
    (lambda h: _gained(h, r"^(?:el)?if\b"), Shape("handling a missed case", "List the cases that the code tells apart and look for the one it never considered.", "try one input for each case")),
)  # fmt: skip


def shapes_of(found: Signals) -> tuple[Shape, ...]:
    """The shapes of a patch, the catalogue's order within each hunk, each once; () for what the catalogue does not know."""
    result: list[Shape] = []
    for hunk in source_hunks(found):
        if len(_code(hunk.removed)) + len(_code(hunk.added)) > MAX_LINES:
            continue
        for matches, shape in _RULES:
            if matches(hunk):
                result.append(shape)
                break
    return tuple(dict.fromkeys(result))


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
