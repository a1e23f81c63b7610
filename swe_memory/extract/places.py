"""Where a patch really changed something: its hunks without debug prints and comments, and the function around each changed place.

A diff's header names only the class of a method (git's default), so the function is looked up in the file listings that the agent saw; where no
listing shows it, the class or nothing is named. Nothing is guessed from how often a name was spoken of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ..patches import Hunk, hunks
from .commands import parse
from .signals import Signals

_DEBUG = re.compile(
    r"(?:print\s*\(|pprint\s*\(|pp\(|console\.(?:log|debug)\(|(?:\w+\.)*log(?:ger|ging)?\.debug\(|sys\.std(?:err|out)\.write\(|import (?:i?pdb|traceback|sys)$|"
    r"(?:i?pdb\.)?set_trace\(|breakpoint\(|traceback\.print_|warnings\.warn\(['\"]DEBUG|import i?pdb|System\.out\.print|fmt\.Print|eprintln!|dbg!)"
)
_COMMENT = re.compile(r"#|//|/\*|\*/")
_DEFINITION = re.compile(r"\s*(?:async\s+)?(def|class|cdef class)\s+(\w+)")
_METHOD = re.compile(r"\bdef \w+\((?:self|cls|mcs)\b")
_NUMBERED = re.compile(r"^\s*\d+(?:\t|[:|-] ?|\s\s?(?=\S)|\s(?=\s))|^\s*\d+$")
_CUT = re.compile(r"elided|truncated|omitted|^--$|^\.\.\.$|^@@ |</?output|</?returncode")


@dataclass(frozen=True, slots=True)
class Place:
    """One changed spot: its class and function ("" where unknown), whether the patch itself defines the function, how many lines changed.

    ``seen`` is the text of the function as it was before, as far as a listing showed it whole; "" where none did.
    """

    path: str
    owner: str
    function: str
    added: bool
    size: int
    seen: str = ""

    @property
    def name(self) -> str:
        """The function (a special method with its class), else the class."""
        if self.function.startswith("__") and self.owner:
            return f"{self.owner}.{self.function}"
        return self.function or self.owner


def is_noise(lines: Sequence[str]) -> bool:
    """Whether lines are all blank, comments or debug output (also a call of it over several lines)."""
    depth = 0
    for line in lines:
        text = line.strip()
        if not text:
            continue
        if depth <= 0 and not _COMMENT.match(text) and not _DEBUG.match(text):
            return False
        if not _COMMENT.match(text):
            bare = re.sub(r"(['\"])(?:\\.|(?!\1).)*\1", "", text)
            depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
    return True


def real_hunks(found: Signals) -> tuple[Hunk, ...]:
    """The hunks of the source files, without added debug output and comments; all of them where a patch holds nothing else."""
    everything = [h for h in hunks(found.patch) if h.path in found.sources]
    cleaned = [_without_noise(h) for h in everything]
    kept = [h for h in cleaned if any(line[:1] in "+-" and line[1:].strip() for line in h.lines)]
    return tuple(kept or everything)


def _without_noise(hunk: Hunk) -> Hunk:
    """The hunk with each run of changes that only adds noise left out, and each that only changes comments taken for context."""
    lines: list[str] = []
    for changed, group in groupby(hunk.lines, key=lambda line: line[:1] in "+-"):
        run = list(group)
        removed = [line[1:] for line in run if line.startswith("-") and line[1:].strip()]
        added = [line[1:] for line in run if line.startswith("+")]
        only_comments = all(_COMMENT.match(line.strip()) for line in removed)
        if changed and only_comments and is_noise(added):
            lines += [" " + line for line in removed]
        else:
            lines += run
    return replace(hunk, lines=tuple(lines))


def places(found: Signals, real: tuple[Hunk, ...]) -> tuple[Place, ...]:
    """The changed spots of a patch in its order, one for each function (or class, or constant) of each file."""
    listings: dict[str, tuple[list[list[str]], dict[int, str]]] = {}
    merged: dict[tuple[str, str, str], Place] = {}
    for hunk in real:
        owners: dict[str, str] = {}
        for number, (owner, function, added) in _enclosing(hunk).items():
            seen = ""
            if not added or not owner:
                if hunk.path not in listings:
                    listings[hunk.path] = _listings(found, hunk.path), _numbered(found, hunk.path)
                shown = _look_up(hunk, number, listings[hunk.path][0]) or _by_number(hunk, number, listings[hunk.path][1])
                if shown is not None and added:
                    owner = shown[0] if not shown[1] else ""
                elif shown is not None:
                    owner, function = owner or shown[0], function or shown[1]
                    seen = shown[2] if shown[1] == function else ""
            # One look-up tells the class for all lines of the function.
            owner = owners.setdefault(function, owner) or owner
            key = (hunk.path, owner if not function or function.startswith("__") else "", function)
            old = merged.get(key)
            merged[key] = (
                replace(old, size=old.size + 1, added=old.added and added, seen=old.seen or seen)
                if old
                else Place(hunk.path, owner, function, added, 1, seen)
            )
    return tuple(merged.values())


def _indent(line: str) -> int:
    text = line.expandtabs()
    return len(text) - len(text.lstrip())


def _enclosing(hunk: Hunk) -> dict[int, tuple[str, str, bool]]:
    """For each changed line that holds something: class, outermost existing function around it (or the new one), whether the function is new."""
    stack: list[tuple[int, str, str, bool]] = []
    section = _DEFINITION.match(hunk.section)
    if section:
        # Git takes the indentation away; a method has at least one step of it.
        stack.append((max(_indent(hunk.section), 4 if _METHOD.search(hunk.section) else 0), section[1][-5:], section[2], False))
    stated = stack[0] if stack else None
    result: dict[int, tuple[str, str, bool]] = {}
    gone = {m[2] for line in hunk.removed if (m := _DEFINITION.match(line))}
    for number, line in enumerate(hunk.lines):
        text = line[1:]
        if not text.strip() or text.strip()[0] in ")]}#":
            if text.strip() and line[:1] in "+-" and stack:
                result[number] = _names(stack)
            continue
        while stack and stack[-1][0] >= _indent(text):
            stack.pop()
        if match := _DEFINITION.match(text):
            if _METHOD.search(text) and stack and stack[-1] is stated and stated[1] == "def":
                stack.pop()  # a method does not stand inside another function
            stack.append((_indent(text), match[1][-5:], match[2], line.startswith("+") and match[2] not in gone))
        if line[:1] in "+-":
            constant = re.match(r"([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)", text)
            if stack:
                result[number] = _names(stack)
            elif constant:
                result[number] = ("", constant[1], False)
            else:
                result[number] = ("", "", False)
    return {n: names for n, names in result.items() if not re.match(r"(?:from \S+ )?import\b", hunk.lines[n][1:].strip())}


def _names(stack: list[tuple[int, str, str, bool]]) -> tuple[str, str, bool]:
    owner = next((name for _, kind, name, _ in stack if kind == "class"), "")
    # A new helper inside an existing function is a change of that function.
    existing = [name for _, kind, name, new in stack if kind == "def" and not new]
    fresh = [name for _, kind, name, new in stack if kind == "def" and new]
    if existing:
        return owner, existing[-1], False
    if fresh:
        return owner, fresh[0], True
    return owner, "", any(new for *_, new in stack)


def _listings(found: Signals, path: str) -> list[list[str]]:
    """What the agent was shown of a file, without line numbers: only outputs of a single look, so that what stands together is together."""
    result: list[list[str]] = []
    for event in found.events:
        if event.kind != "read" or not any(_same_file(p, path) for p in event.part.paths):
            continue
        for action in found.trajectory.steps[event.step].actions:
            rows = action.output[:200_000].split("\n")
            filled = [row for row in rows if row.strip()]
            numbered = sum(bool(_NUMBERED.match(row)) for row in filled) > 0.8 * len(filled) if filled else False
            result.append([_bare(row) for row in rows] if numbered else rows)
    return result


def _bare(row: str) -> str:
    """A row of a numbered listing without its number; the form of cat -n, nl, grep -n and of editors."""
    match = re.match(r"^\s*\d+(?:\t|[:|-] ?)(.*)$", row)
    return match[1] if match else re.sub(r"^\s*\d+ ?", "", row)


def _look_up(hunk: Hunk, number: int, listings: list[list[str]]) -> tuple[str, str, str] | None:
    """Class, function and the function's text around a changed line, where the listings show one and the same; None otherwise."""
    before = [line[1:].rstrip() for line in hunk.lines[:number] if not line.startswith("+")][-3:]
    after = [line[1:].rstrip() for line in hunk.lines[number:] if not line.startswith("+")][:3]
    wanted = before + after
    if sum(bool(line.strip()) for line in wanted) < 2:
        return None
    depth = min((_indent(line[1:]) for line in hunk.lines[number : number + 1]), default=0)
    answers: dict[tuple[str, str], str] = {}
    for rows in listings:
        stripped = [row.rstrip() for row in rows]
        for start in range(len(stripped) - len(wanted) + 1):
            if stripped[start] == wanted[0] and stripped[start : start + len(wanted)] == wanted:
                found = _walk(stripped, start + len(before), depth)
                if found is not None:
                    answers[found[:2]] = max(answers.get(found[:2], ""), found[2], key=len)
    if len(answers) != 1:
        return None
    (owner, function), text = answers.popitem()
    return owner, function, text


def _numbered(found: Signals, path: str) -> dict[int, str]:
    """Lines of a file by number, from every listing before its first edit: with numbers, or of a range that the command names."""
    edited = next((e.step for e in found.edits if path in e.source), len(found.trajectory.steps))
    known: dict[int, str] = {}
    for event in found.events:
        if event.step >= edited:
            break
        if event.kind not in {"read", "search"} or not any(_same_file(p, path) for p in event.part.paths):
            continue
        text = event.part.text
        for action in found.trajectory.steps[event.step].actions:
            rows = action.output[:100_000].split("\n")
            span = re.search(r"sed -n ['\"]?(\d+),\d+p['\"]?(?![;\d])", text) if len(parse(action.command)) == 1 else None
            whole = (
                re.match(r"(?:cat|head)\b", text) and len(parse(action.command)) == 1 and "<" not in action.command and "cat -" not in text
            )
            for number, row in enumerate(rows):
                if _CUT.search(row) and span is None and len(row) < 200 and not re.match(r"\s*\d+", row) and "<" in row:
                    break
                if span is not None or whole:
                    known.setdefault(number + (int(span[1]) if span is not None else 1), row.rstrip())
                elif match := re.match(r"^(?:[\w./-]+[:-])?\s*(\d+)(?:\t|[:-])(.*)$", row):
                    known.setdefault(int(match[1][:8]), match[2].rstrip())
    return known


def _same_file(shown: str, path: str) -> bool:
    return shown == path or shown.endswith("/" + path) or ("/" in shown and path.endswith("/" + shown))


def _by_number(hunk: Hunk, number: int, known: dict[int, str]) -> tuple[str, str, str] | None:
    """What stands around a changed line, by its number, as long as the numbered lines above it have no gap and agree with the hunk."""
    old = [line[1:].rstrip() for line in hunk.lines if not line.startswith("+")]
    pairs = [(known[hunk.old_start + i], line) for i, line in enumerate(old) if hunk.old_start + i in known and line]
    if len(pairs) < 2 or any(a != b for a, b in pairs):
        return None
    at = hunk.old_start + sum(not line.startswith("+") for line in hunk.lines[:number])
    first = at
    while first - 1 in known:
        first -= 1
    last = at
    while last in known:
        last += 1
    return _walk([known[n] for n in range(first, last)], at - first, _indent(hunk.lines[number][1:]))


def _walk(rows: list[str], at: int, depth: int) -> tuple[str, str, str] | None:
    """The nearest definition above a row that is less indented, and its class where that is shown too."""
    owner, function, text, limit = "", "", "", depth
    quoted = False
    for number in range(at - 1, -1, -1):
        row = rows[number]
        if _CUT.search(row):
            break
        if row.count('"""') % 2 or row.count("'''") % 2:
            quoted = not quoted
        if not row.strip() or quoted or _indent(row) >= limit or row.strip()[0] in ")]}#\"'":
            continue
        limit = _indent(row)
        match = _DEFINITION.match(row)
        if match and match[1] == "def" and not function:
            function, text = match[2], _body(rows, number)
        elif match and match[1] != "def":
            owner = match[2]
            break
        elif limit == 0:
            break
    return (owner, function, text) if function or owner else None


def _body(rows: list[str], start: int) -> str:
    """The text of a function from its first row on, "" where the listing ends before it does."""
    depth = _indent(rows[start])
    for number in range(start + 1, len(rows)):
        row = rows[number]
        if _CUT.search(row):
            return ""
        if row.strip() and _indent(row) <= depth and row.strip()[0] not in ")]}":
            return "\n".join(rows[start:number])
    return ""
