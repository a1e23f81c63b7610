"""In which order candidate edits are tried: how common the kind of fix is, how suspicious the place is, and what the words of the issue and of a hint point at.

The prior is the number of isolated single-statement fixes of each pattern in TSSB-3M (Richter and Wehrheim, MSR 2022, 3 million Python fixes; thousands,
from the data set's own table). A pattern's mass is shared by all its candidates in proportion to how suspicious their lines are, so that the order is by
the chance per try. Fixes that TSSB-3M cannot contain because they add or move statements (guards, defaults, returns, order; in TBar's and GenProg's
catalogues) get the median mass of the table. Nothing here was fitted to any bench.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from harness.agents.repair_source import Edit

PRIOR = {
    "Change Identifier Used": 237.0,
    "Change Binary Operand": 174.0,
    "Same Function More Args": 150.0,
    "Wrong Function Name": 134.0,
    "Add Function Around Expression": 117.0,
    "Change Attribute Used": 104.0,
    "Change Numeric Literal": 97.0,
    "More Specific If": 68.0,
    "Add Method Call": 60.0,
    "Add Elements To Iterable": 57.0,
    "Same Function Less Args": 50.0,
    "Change Boolean Literal": 37.0,
    "Change Binary Operator": 29.0,
    "Less Specific If": 22.0,
    "Change Unary Operator": 15.0,
    "Same Function Swap Args": 8.0,
}
UNLISTED = 53.5
"""The median of the table's full twenty rows (between 57 and 50): the mass of what it cannot contain."""

WORDS = {
    "boundary": r"boundar\w*|inclusive|exclusive|at least|at most|exactly|edge case\w*|threshold|limit|last|first|equal",
    "comparison": r"comparison\w*|compares?|compared|wrong way|inverted|opposite|operator\w*",
    "logic": r"wrong condition|either|both|neither|logical|joins its parts|operator\w*",
    "condition": r"condition\w*|too strict|too narrow",
    "negation": r"negat\w*|inverted|opposite|wrong way round",
    "arithmetic": r"arithmetic\w*|sum|total|average|divid\w*|division|multipl\w*|subtract\w*|percent\w*|operands?|accumulat\w*|overwritten|operator\w*",
    "off-by-one": r"off[- ]by[- ]one|one (?:element|item|short|too many|too few|off|less|more)|last|first|slice\w*|index\w*|range|missing the",
    "constant": r"constant|number|flag|literal|default value",
    "call": r"calls? the wrong|another function|minimum|maximum|prefix|suffix",
    "argument": r"arguments?|keyword|passed|parameter\w*|swapped|order|sort\w*|descending|ascending|reverse\w*|ignored",
    "missing-key": r"keyerror|missing keys?|unknown keys?|look[- ]?ups?",
    "empty-guard": r"empty|zerodivisionerror|division by zero|indexerror|no (?:items|elements|rows|values)",
    "none-guard": r"(?-i:None)|nonetype|null|optional|missing value\w*",
    "truthiness": r"zero|falsy|truthy|truthiness|empty (?:string|list|value)\w*|ignored|explicit\w*",
    "variable": r"wrong variable|another variable|mixed up|instead of",
    "attribute": r"wrong attribute|attribute",
    "copy": r"cop(?:y|ies|ied)|shar(?:es|ed|ing)|alias\w*|mutat\w*|mutable|modif(?:y|ies|ied)|while iterating|leaks?|in place|unchanged",
    "text": r"white ?space|blank\w*|spaces?|strip\w*|case|upper\w*|lower\w*|trailing|leading|normali[sz]\w*|separator",
    "conversion": r"typeerror|converts?|conversion|types?|string|integer|float",
    "exception": r"exception|handler|raises?|catch\w*|caught|uncaught",
    "type-check": r"tuple|isinstance|subclass\w*|types?",
    "mutable-default": r"mutable|default\w*|shared between|remember\w*|leaks?|second call|previous call|earlier calls?|state",
    "return": r"returns? none|returns? nothing|not returned|missing return|without returning",
    "early-exit": r"only the first|first round|too early|stops? (?:at|after)|break|continue",
    "order": r"wrong order|order of|too early|too late",
    "superfluous": r"twice|duplicat\w*|superfluous|should not",
}
"""What a reader takes the words of a text to point at, by family of fault. The same table reads issues and hints. It is a crude reader: a place that a
text names is raised, whether the text praises it or warns of it."""

RAISED = {
    "IndexError": ("off-by-one", "empty-guard"),
    "KeyError": ("missing-key", "exception"),
    "ZeroDivisionError": ("empty-guard", "boundary"),
    "RecursionError": ("boundary", "off-by-one"),
    "UnboundLocalError": ("variable", "order"),
    "NameError": ("variable",),
}


@dataclass(frozen=True, slots=True)
class Hints:
    """What a text points at: families of fault with a count of distinct words, and identifiers that it names."""

    families: dict[str, int]
    names: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Hints:
        """Read any text: an issue, or the prompt text of a recalled item. No structure is expected in it."""
        found = {family: len({m.lower() for m in re.findall(rf"\b(?:{words})\b", text, re.IGNORECASE)}) for family, words in WORDS.items()}
        words = re.findall(r"[A-Za-z_][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+)*(?:\.py)?", text)
        parts = {part for word in words for part in re.split(r"/|\.py$", word) if part}
        return cls({family: n for family, n in found.items() if n}, frozenset(parts))

    def family_factor(self, family: str, step: float, cap: float) -> float:
        """1 for a family that is not pointed at, growing by ``step`` with each distinct word up to ``cap``."""
        return min(cap, 1.0 + step * self.families.get(family, 0))

    def names_place(self, path: str, function: str) -> int:
        """2 where the function (or its class) is named, 1 where only the module is, else 0."""
        stem = path.rsplit("/", 1)[-1].removesuffix(".py")
        if any(_telling(part) and part in self.names for part in function.split(".")):
            return 2
        return 1 if _telling(stem) and stem in self.names else 0


def _telling(name: str) -> bool:
    """Whether a name is long enough to be meant when it appears among other words."""
    return len(name) > 3 and not name.startswith("__")


def families_of_error(exception: str, output: str) -> tuple[str, ...]:
    """The families of fault that an error of this type, with this output, is the usual sign of."""
    missing = ("none-guard",) if exception in ("TypeError", "AttributeError") and "NoneType" in output else ()
    return (*RAISED.get(exception, ()), *missing)


def rank(
    edits: list[Edit], suspicion: dict[tuple[str, int], float], issue: Hints, hint: Hints, expected: Collection[str], *, ways: int = 8
) -> list[tuple[Edit, ...]]:
    """Hypotheses, most promising first: each is one kind of fault at one line, with up to ``ways`` ways to mend it, the best first.

    ``suspicion`` maps (path, line) to a weight; edits of other lines are left out.
    The issue's words raise what they point at a little, the ``expected`` families of the observed error and a hint more. A
    hypothesis is worth the sum of its ways. Ties go by path, line and the order in which templates were tried, so that the result depends on nothing else.
    """
    reached = [e for e in edits if suspicion.get((e.path, e.place), 0.0) > 0]
    unique = list({(e.path, e.first, e.old, e.new): e for e in reversed(reached)}.values())[::-1]
    weights = [suspicion[e.path, e.place] for e in unique]
    shares: dict[str, float] = {}
    for edit, weight in zip(unique, weights, strict=True):
        shares[edit.pattern] = shares.get(edit.pattern, 0.0) + weight

    def score(position: int) -> float:
        edit = unique[position]
        value = PRIOR.get(edit.pattern, UNLISTED) * weights[position] / shares[edit.pattern]
        value *= issue.family_factor(edit.family, 0.25, 1.5) * (1.0, 1.25, 1.5)[issue.names_place(edit.path, edit.function)]
        value *= 2.0 if edit.family in expected else 1.0
        return value * hint.family_factor(edit.family, 1.0, 3.0) * (1.0, 1.25, 2.0)[hint.names_place(edit.path, edit.function)]

    scores = [round(score(position), 9) for position in range(len(unique))]
    groups: dict[tuple[str, int, str], list[int]] = {}
    for position in sorted(range(len(unique)), key=lambda i: (-scores[i], i)):
        edit = unique[position]
        groups.setdefault((edit.path, edit.place, edit.family), []).append(position)
    parts = [(key, members[i : i + ways]) for key, members in groups.items() for i in range(0, len(members), ways)]
    parts.sort(key=lambda part: (-round(sum(scores[i] for i in part[1]), 6), part[0][:2], part[1]))
    return [tuple(unique[i] for i in members) for _, members in parts]
