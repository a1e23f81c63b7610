"""What the added and removed lines of a patch look like: the small questions that the catalogue of fixes asks of each hunk."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..patches import hunks
from .names import is_python
from .signals import Signals


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


def code_lines(lines: tuple[str, ...]) -> list[str]:
    """Lines that are neither empty nor comments nor bare strings."""
    return [line for line in lines if line and not line.startswith(("#", '"""', "'''", "//", "*"))]


def swaps(hunk: Hunk) -> list[tuple[list[str], list[str]]]:
    """For each removed line that has a near twin among the added ones: the tokens that only one of them has."""
    swaps = []
    for old, new in zip(code_lines(hunk.removed), code_lines(hunk.added), strict=False):
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


def gained(hunk: Hunk, pattern: str) -> bool:
    """The added lines match a pattern more often than the removed ones."""
    added, removed = "\n".join(code_lines(hunk.added)), "\n".join(code_lines(hunk.removed))
    return len(re.findall(pattern, added, re.MULTILINE)) > len(re.findall(pattern, removed, re.MULTILINE))


def mutable_default(hunk: Hunk) -> bool:
    """A list, dict or set as default in a signature gave way to None."""
    return any(re.search(r"\bdef\b.*=\s*(?:\[\]|\{\}|set\(\)|list\(\)|dict\(\))", line) for line in hunk.removed) and any(
        "None" in line for line in hunk.added
    )


def comparison(hunk: Hunk) -> bool:
    """Only a comparison operator differs."""
    return any(len(a) <= 2 and len(b) <= 2 and set(a) | set(b) and (set(a) | set(b)) <= _COMPARE | {"not"} for a, b in swaps(hunk))


def off_by_one(hunk: Hunk) -> bool:
    """Only a plus or minus one differs."""
    return any((b in (["+", "1"], ["-", "1"]) and not a) or (a in (["+", "1"], ["-", "1"]) and not b) for a, b in swaps(hunk))


def arithmetic(hunk: Hunk) -> bool:
    """Only an arithmetic operator differs."""
    return any(len(a) <= 1 and len(b) <= 1 and set(a) | set(b) and (set(a) | set(b)) <= set("+-*/%") for a, b in swaps(hunk))


def logic(hunk: Hunk) -> bool:
    """Only and, or or not differs."""
    return any({*a, *b} <= {"and", "or", "not"} and (a or b) for a, b in swaps(hunk))


def turned_round(hunk: Hunk) -> bool:
    """One line with the same words in another order."""
    pairs = list(zip(code_lines(hunk.removed), code_lines(hunk.added), strict=False))
    return any(a != b and sorted(_TOKEN.findall(a)) == sorted(_TOKEN.findall(b)) for a, b in pairs) and len(pairs) <= 2


def moved(hunk: Hunk) -> bool:
    """The same lines in another order."""
    return len(code_lines(hunk.removed)) > 0 and sorted(code_lines(hunk.removed)) == sorted(code_lines(hunk.added))


def one_call_swapped(hunk: Hunk) -> bool:
    """Only one name differs."""
    return any(
        len(a) == 1 and len(b) == 1 and a[0].isidentifier() and b[0].isidentifier() and a[0] not in {"True", "False", "None"}
        for a, b in swaps(hunk)
    )


def flag_flipped(hunk: Hunk) -> bool:
    """Only a True, False, None, 0 or 1 differs."""
    return any(len(a) == 1 and len(b) == 1 and {a[0], b[0]} <= {"True", "False", "None", "0", "1"} for a, b in swaps(hunk))


def literal_changed(hunk: Hunk) -> bool:
    """Only one literal differs."""
    return any(
        len(a) == 1 and len(b) == 1 and (a[0][0] in "'\"" or a[0].isdigit()) and (b[0][0] in "'\"" or b[0].isdigit())
        for a, b in swaps(hunk)
    )


def constant_for_value(hunk: Hunk) -> bool:
    """A constant gave way to a name."""
    return any(
        len(a) == 1 and (a[0].isdigit() or a[0] in {"True", "False", "None"}) and b and b[0].isidentifier() and len(b) <= 4
        for a, b in swaps(hunk)
    )


def argument(hunk: Hunk) -> bool:
    """A call got one more argument."""
    if any(line.startswith(("except", "raise", "def ", "import", "from ", "if ", "elif ")) for line in (*hunk.removed, *hunk.added)):
        return False
    return any(
        not a and 2 <= len(b) <= 8 and b.count("(") == b.count(")") and "(" in new and (b[0] == "," or (b[-1] == "," and "=" in b))
        for (a, b), new in zip(swaps(hunk), code_lines(hunk.added), strict=False)
    )


def pattern_changed(hunk: Hunk) -> bool:
    """A regular expression changed."""
    both = [line for line in (*hunk.removed, *hunk.added) if re.search(r"\bre\.|\br['\"]|_re\b|regex|pattern", line, re.IGNORECASE)]
    return any(line in hunk.removed for line in both) and any(line in hunk.added for line in both)


def only_removed(hunk: Hunk) -> bool:
    """Lines were taken out and none added."""
    return bool(code_lines(hunk.removed)) and not code_lines(hunk.added)


def widened(hunk: Hunk) -> bool:
    """A condition got one more "or"."""
    return any(not a and b and b[0] in {"or", "|"} for a, b in swaps(hunk)) or any(not a and b and b[-1] in {"or"} for a, b in swaps(hunk))


def narrowed(hunk: Hunk) -> bool:
    """A condition got one more "and"."""
    return any(not a and b and (b[0] == "and" or b[-1] == "and") for a, b in swaps(hunk))
