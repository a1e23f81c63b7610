"""What the added and removed lines of a patch look like: the small questions that the catalogue of fixes asks of each hunk."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..patches import Hunk as PatchHunk
from .names import is_python
from .places import Place


@dataclass(frozen=True, slots=True)
class Hunk:
    """Added and removed lines of one place of one source file, without indentation.

    ``around`` is what stays there: the lines between, and the edited functions of the file as the agent saw them before.
    """

    path: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    around: str = ""

    @property
    def before(self) -> str:
        """What was there before the change, as far as it is known."""
        return self.around + "\n" + "\n".join(self.removed)


def source_hunks(real: tuple[PatchHunk, ...], places: tuple[Place, ...]) -> tuple[Hunk, ...]:
    """The hunks of the edited source files, in the order of the patch."""
    seen: dict[str, str] = {}
    for place in places:
        seen[place.path] = seen.get(place.path, "") + "\n" + place.owner + "\n" + place.seen
    return tuple(
        Hunk(
            h.path,
            tuple(line.strip() for line in h.removed),
            tuple(line.strip() for line in h.added),
            "\n".join((h.section, *(line[1:] for line in h.lines if line.startswith(" ")))) + seen.get(h.path, ""),
        )
        for h in real
    )


def statements_only(lines: tuple[str, ...]) -> list[str]:
    """Lines of code without comments, imports, texts in triple quotes and lines that are plain prose."""
    result: list[str] = []
    quoted = False
    for line in lines:
        fences = len(re.findall(r'"""|\'\'\'', line))
        if fences % 2:
            quoted = not quoted
        if fences or quoted or line.startswith(("#", '"', "'", "import ", "from ", "//", "*", ">>>")):
            continue
        if re.fullmatch(r"[\w'`,.;:()-]+(?: [\w'`,.;:()\"-]+){3,}", line) and not re.match(
            r"(?:if|elif|for|while|return|raise|with|assert|yield|not|and|or|lambda|def|class|del)\b", line
        ):
            continue
        result.append(re.sub(r"\s#\s.*", "", line))
    return result


def _words(lines: list[str]) -> dict[str, int]:
    """Dotted names in code with how often each occurs, without ``self``; texts are left out."""
    counts: dict[str, int] = {}
    for line in lines:
        for word in re.findall(r"(?<![\w'\".])[A-Za-z_][\w.]*\w(?![\w'\"])", re.sub(r"(['\"])(?:\\.|(?!\1).)*\1", "''", line)):
            name = word.removeprefix("self.").removeprefix("cls.")
            counts[name] = counts.get(name, 0) + 1
    return counts


def delta(found: tuple[Hunk, ...], path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that the change of one file lets go and brings in, most telling first, at most 3 each: words, never lines.

    A name counts only where the rest of the place does not hold it as well. What the patch itself defines (functions, classes, variables,
    parameters) is no gain, Python's own words and names of one to three letters say nothing.
    """
    mine = [h for h in found if h.path == path]
    gone = _words([line for h in mine for line in statements_only(h.removed)])
    come = _words([line for h in mine for line in statements_only(h.added)])
    # Texts and comments count too here: what the place spoke of before is nothing new.
    rest = {word.removeprefix("self.").removeprefix("cls.") for h in mine for word in re.findall(r"[A-Za-z_][\w.]*\w", h.around)}
    imported = {word for h in mine for line in h.removed if "import" in line for word in re.findall(r"\w+", line)}
    defined = {
        name
        for h in mine
        for line in h.added
        for name in (
            *re.findall(r"\b(?:def|class) (\w+)", line),
            *re.findall(r"^([A-Za-z_]\w*)(?:, \w+)*(?:\s*:[^=]+)? = ", line),
            *re.findall(r"\b(?:for|as) (\w+)", line),
            *re.findall(r"(\w+)\s*[:=,)]", line if line.startswith("def ") else ""),
            *re.findall(r"(?<![\w.])(\w+)=(?!=)", line),
        )
    }
    # What was there before in any form: as a whole, and the parts of its dotted names.
    old = imported | {part for name in (*gone, *rest) for part in _parts(name)}
    new = {part for name in (*come, *rest) for part in _parts(name)}

    def telling(mine: dict[str, int], other: set[str]) -> tuple[str, ...]:
        only = [
            name
            for name in mine
            if name not in other
            and name.split(".")[0] not in defined
            and len(name) > 3
            and not is_python(name.rsplit(".", 1)[-1])
            and not is_python(name)
            and ("." in name or "_" in name.strip("_") or re.search(r"[a-z][A-Z]|^[A-Z][a-z]+[A-Z]|^[A-Z]\w{4,}", name))
        ]
        order = sorted(only, key=lambda n: (-("." in n or "_" in n or bool(re.search(r"[a-z][A-Z]", n))), -mine[n], n))
        return tuple(order[:3])

    return telling(gone, new), telling(come, old)


def _parts(name: str) -> list[str]:
    """Every run of parts of a dotted name: of ``a.b.c`` also ``a.b`` and ``b.c``."""
    parts = name.split(".")
    return [".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)]


def exchanged(found: tuple[Hunk, ...], path: str) -> tuple[str, str] | None:
    """The few words by which one line of a file differs from the one it replaces, old and new; None unless it is the one change there is."""
    mine = [h for h in found if h.path == path]
    pairs = [(statements_only(h.removed), statements_only(h.added)) for h in mine if statements_only(h.removed) or statements_only(h.added)]
    if len(pairs) != 1 or len(pairs[0][0]) != 1 or len(pairs[0][1]) != 1:
        return None
    found_swaps = swaps(Hunk(path, tuple(pairs[0][0]), tuple(pairs[0][1])))
    if len(found_swaps) != 1:
        return None
    old, new = (_joined(tokens).strip(" ,") for tokens in found_swaps[0])
    if any(
        text and (not re.search(r"\w", text) or text.endswith("=") or any(text.count(a) != text.count(b) for a, b in ("()", "[]")))
        for text in (old, new)
    ):
        return None
    return (old, new) if max(len(old), len(new)) <= 30 and "`" not in old + new and (old or len(new) > 3) and old != new else None


def _joined(tokens: list[str]) -> str:
    text = re.sub(r"(?<=[(\[.]) | (?=[)\].,(\[:])|(?<=(?<!\w)[rbfuRBFU]) (?=['\"])", "", " ".join(tokens))
    return re.sub(r" ?= ?(?=[\w'\"])", "=", text) if "==" not in text else text.replace("= =", "==")


_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\"|[<>=!]=|[-+*/%<>=&|]|[^\s\w]")
_COMPARE = {"<", "<=", ">", ">=", "==", "!="}


def code_lines(lines: tuple[str, ...]) -> list[str]:
    """Lines that are neither empty nor comments nor bare strings."""
    return [line for line in lines if line and not line.startswith(("#", '"""', "'''", "//", "*"))]


def swaps(hunk: Hunk) -> list[tuple[list[str], list[str]]]:
    """For each removed line that has a near twin among the added ones: the tokens that only one of them has."""
    return [_differing(old, new) for old, new in twins(hunk)]


def _differing(old: str, new: str) -> tuple[list[str], list[str]]:
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    start, end = _same_ends(a, b)
    return a[start : len(a) - end], b[start : len(b) - end]


def _same_ends(a: list[str], b: list[str]) -> tuple[int, int]:
    """How many tokens two lines share at their starts and at their ends."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return start, end


def twins(hunk: Hunk) -> list[tuple[str, str]]:
    """Removed lines with the added line that takes the place of each, where the two are much alike."""
    found = []
    for old, new in zip(code_lines(hunk.removed), code_lines(hunk.added), strict=False):
        a, b = _TOKEN.findall(old), _TOKEN.findall(new)
        if sum(_same_ends(a, b)) >= max(2, min(len(a), len(b)) // 3):
            found.append((old, new))
    return found


def gained(hunk: Hunk, pattern: str) -> bool:
    """The added lines match a pattern more often than the removed ones."""
    added, removed = "\n".join(code_lines(hunk.added)), "\n".join(code_lines(hunk.removed))
    return len(re.findall(pattern, added, re.MULTILINE)) > len(re.findall(pattern, removed, re.MULTILINE))


def mutable_default(hunk: Hunk) -> bool:
    """A list, dict or set as default in a signature gave way to None."""
    names = [m for line in hunk.removed for m in re.findall(r"(\w+)\s*=\s*(?:\[\]|\{\}|set\(\)|list\(\)|dict\(\))\s*[,)]", line)]
    return any(re.search(rf"\b{name}(?:\s*:[^=,]+)?\s*=\s*None\s*[,)]", line) for name in names for line in hunk.added)


def comparison(hunk: Hunk) -> bool:
    """Only a comparison operator differs."""
    return any(len(a) == len(b) == 1 and {*a, *b} <= _COMPARE for a, b in swaps(hunk))


def off_by_one(hunk: Hunk) -> bool:
    """Only a plus or minus one differs."""
    one = (["+", "1"], ["-", "1"])
    for (a, b), (old, new) in zip(swaps(hunk), twins(hunk), strict=True):
        if (b in one and not a) or (a in one and not b):
            longer = _TOKEN.findall(new if b else old)
            marks = {longer[i - 1] for i in range(1, len(longer) - 1) if longer[i : i + 2] in one}
            # After a word such as return, or a comma, it is the number minus one.
            if any(re.fullmatch(r"[\w)\]]+", mark) and mark not in {"return", "in", "and", "or", "not", "yield"} for mark in marks):
                return True
    return False


def arithmetic(hunk: Hunk) -> bool:
    """Only an arithmetic operator differs."""
    return any(len(a) == len(b) == 1 and {*a, *b} <= set("+-*/%") for a, b in swaps(hunk))


def logic(hunk: Hunk) -> bool:
    """Only and, or or not differs."""
    return any({*a, *b} <= {"and", "or", "not"} and (a or b) for a, b in swaps(hunk))


def turned_round(hunk: Hunk) -> bool:
    """One line with the same words in another order."""
    pairs = list(zip(code_lines(hunk.removed), code_lines(hunk.added), strict=False))

    def things(line: str) -> list[str]:
        return [token for token in _TOKEN.findall(line) if token[0].isalnum() or token[0] in "_'\""]

    # Brackets that move change the grouping, not the order.
    return len(pairs) <= 2 and any(things(a) != things(b) and sorted(_TOKEN.findall(a)) == sorted(_TOKEN.findall(b)) for a, b in pairs)


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
    for (a, b), (old, new) in zip(swaps(hunk), twins(hunk), strict=True):
        if a or not 2 <= len(b) <= 8 or b.count("(") != b.count(")") or not (b[0] == "," or (b[-1] == "," and "=" in b)):
            continue
        tokens = _TOKEN.findall(new)
        opened: list[int] = []
        for i in range(_same_ends(_TOKEN.findall(old), tokens)[0]):
            if tokens[i] in "([{":
                opened.append(i)
            elif tokens[i] in ")]}" and opened:
                opened.pop()
        if opened and tokens[opened[-1]] == "(" and opened[-1] > 0 and re.fullmatch(r"\w+|[)\]]", tokens[opened[-1] - 1]):
            return True
    return False


def pattern_changed(hunk: Hunk) -> bool:
    """The text of a regular expression changed."""
    hint = re.compile(r"\bre\.\w+\(|\br['\"]|_re\b|regex", re.IGNORECASE)
    return any(
        hint.search(old) and hint.search(new) and _texts(old) != _texts(new) and _texts(old) and _texts(new) for old, new in twins(hunk)
    )


def _texts(line: str) -> list[str]:
    return [token for token in _TOKEN.findall(line) if token[0] in "'\""]


def only_removed(hunk: Hunk) -> bool:
    """Lines were taken out and none added."""
    return bool(code_lines(hunk.removed)) and not code_lines(hunk.added)


def _conditions(hunk: Hunk, word: str) -> bool:
    """A condition (not a value with a fallback) got one more part, joined by ``word``."""
    for (a, b), (_, new) in zip(swaps(hunk), twins(hunk), strict=True):
        if a or not b or word not in (b[0], b[-1]):
            continue
        if re.match(r"(?:return|yield|raise|[\w.\[\]]+ = )", new) or re.search(rf"\w=[\w.]+ {word}\b", new):
            continue
        return True
    return False


def widened(hunk: Hunk) -> bool:
    """A condition got one more "or"."""
    return _conditions(hunk, "or")


def narrowed(hunk: Hunk) -> bool:
    """A condition got one more "and"."""
    return _conditions(hunk, "and")


_NONE = re.compile(r"([A-Za-z_][\w.]*(?:\[[^\]]*\])?)\s+is (?:not )?None\b")


def none_guard(hunk: Hunk) -> bool:
    """A value that was there before is checked for None, and was not before in any form."""
    if adds_function(hunk):
        return False
    added = "\n".join(code_lines(hunk.added))
    fresh = set(re.findall(r"^([A-Za-z_]\w*) = ", added, re.MULTILINE))
    for name in _NONE.findall(added):
        known = re.search(rf"(?<![\w.]){re.escape(name)}\s+is (?:not )?None\b", hunk.before) or none_for_false(hunk)
        if not known and re.split(r"[.(\[]", name)[0] not in fresh:
            return True
    return False


def none_for_false(hunk: Hunk) -> bool:
    """A check for None took the place of one for truth."""
    return any(
        re.search(rf"\b(?:if|and|or|not|while)\s+(?:not )?{re.escape(name)}\s*(?::|\band\b|\bor\b|\)|else\b|$)", old)
        and not re.search(rf"{re.escape(name)}\s+is (?:not )?None", old)
        for old, new in twins(hunk)
        for name in _NONE.findall(new)
    )


_LENGTH = re.compile(r"\blen\(([\w.\[\]]+)\) *(?:==|!=|>=|<=|>|<) *(?:[01]\b|len\()|\b([\w.]+)\.(?:size|empty)\b")


def emptiness(hunk: Hunk) -> bool:
    """The length or emptiness of a value is checked that was not checked before."""
    if adds_function(hunk):
        return False
    conditions = "\n".join(line for line in code_lines(hunk.added) if re.search(r"\b(?:if|elif|while|and|or|assert)\b", line))
    for match in _LENGTH.finditer(conditions):
        if match[0] not in hunk.before:
            return True
    for name in re.findall(r"\bif not ([\w.]+)(?::| and\b)", conditions):
        # "not x" asks for emptiness only where x is known to hold things.
        whole = hunk.before + "\n" + "\n".join(hunk.added)
        holds = re.search(
            rf"\bin {re.escape(name)}\b|\blen\({re.escape(name)}\)|(?<![\w.]){re.escape(name)}\[[\d:-]|\*{re.escape(name)}\b", whole
        )
        if holds and f"not {name}" not in hunk.before:
            return True
    return False


def adds_function(hunk: Hunk) -> bool:
    """The hunk defines a function or class that was not there."""
    return gained(hunk, r"^(?:async )?(?:def|class) ")


def copied(hunk: Hunk) -> bool:
    """A value is copied where it was used as it is, without a new branch around that."""
    return (
        gained(hunk, r"\.copy\(\)|\bdeepcopy\(|\bcopy\(|\{\*\*") and not gained(hunk, r"^(?:el)?if\b|^except\b") and not adds_function(hunk)
    )


def caught(hunk: Hunk) -> bool:
    """Code that was there before is put into a try, or a try gets one more except."""
    if not gained(hunk, r"^except\b") or adds_function(hunk):
        return False
    added = code_lines(hunk.added)
    if not any(line.startswith("try") for line in added):
        return True
    first = set(re.findall(r"\w{3,}", " ".join(added)))
    return any(
        len(words) > 1 and len(words & first) >= 0.7 * len(words)
        for old in code_lines(hunk.removed)
        if (words := set(re.findall(r"\w{3,}", old)))
    )


def type_branch(hunk: Hunk) -> bool:
    """A condition asks for one more type."""
    return not adds_function(hunk) and gained(
        hunk,
        r"^(?:el)?if\b.*\b(?:isinstance|issubclass)\(|\b(?:and|or|if|not) .*\b(?:isinstance|issubclass)\(|\btype\([\w.]+\) (?:is|==|in)\b",
    )
