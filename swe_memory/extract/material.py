"""What the rules know about one attempt, gathered once and handed to each rule."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ..patches import Hunk as PatchHunk
from ..patches import is_test_path
from ..records import Attempt, ItemDraft, Polarity, Reach
from .catalogue import VAGUE, Shape, shape_of
from .commands import clean_path
from .names import repository_words
from .places import Place, places, real_hunks
from .prose import Roles, Statement, abstract, roles_of, statements
from .shapes import Hunk, delta, exchanged, source_hunks
from .signals import Signals, signals, thought_of
from .testing import Pitfall, TestRun, covering_tests, found_by, pitfalls, test_run, wrong_runners
from .validate import MAX_TITLE, squeeze

_BUILTIN_ERROR = re.compile(
    r"\b(TypeError|ValueError|KeyError|IndexError|AttributeError|NameError|UnboundLocalError|ZeroDivisionError|RecursionError|OverflowError|AssertionError|"
    r"UnicodeDecodeError|UnicodeEncodeError|NotImplementedError|ImportError|StopIteration|RuntimeError|DeprecationWarning|UserWarning|FutureWarning)\b"
)


_GENERATED = re.compile(r"(?:parsetab|lextab|_pb2|\.min|\.generated)\.\w+$")
MANY_PLACES = 3
"""A change of more functions than this, none of which holds most of it, is named by its class or file."""


@dataclass(frozen=True)
class Material:
    """One attempt and what is known about it; everything derived is computed when first asked for."""

    attempt: Attempt

    @cached_property
    def found(self) -> Signals:
        """Events, counts and flags."""
        return signals(self.attempt.issue, self.attempt.trajectory)

    @cached_property
    def _statements(self) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        return statements(self.found)

    @cached_property
    def causes(self) -> tuple[Statement, ...]:
        """The agent's sentences about why, best first."""
        return self._statements[0]

    @cached_property
    def fixes(self) -> tuple[Statement, ...]:
        """The agent's sentences about what the change does, best first."""
        return self._statements[1]

    @cached_property
    def shape(self) -> Shape | None:
        """What kind of change the main file's is, where all its hunks are of one kind and that kind says something; None otherwise."""
        kinds = {shape_of(h) for h in self.changes if h.path == self.main_path}
        only = kinds.pop() if len(kinds) == 1 else None
        return only if only not in VAGUE else None

    @cached_property
    def delta(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names that the change of the main file let go and brought in."""
        return delta(self.changes, self.main_path)

    @cached_property
    def exchanged(self) -> tuple[str, str] | None:
        """The few words that the change of the main file exchanged, where that is all of it."""
        return exchanged(self.changes, self.main_path)

    @cached_property
    def hunks(self) -> tuple[PatchHunk, ...]:
        """The hunks of source files that change what the code does: without debug output and comments."""
        return real_hunks(self.found)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The functions (else classes) that the patch changes."""
        return places(self.found, self.hunks)

    @cached_property
    def changes(self) -> tuple[Hunk, ...]:
        """Added and removed lines of each hunk, with what stays around them."""
        return source_hunks(self.hunks, self.places)

    @cached_property
    def changed_lines(self) -> int:
        """Added plus removed lines that do something."""
        return sum(bool(line.strip()) for h in self.hunks for line in (*h.added, *h.removed))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The source files that the patch really changes."""
        return tuple(dict.fromkeys(h.path for h in self.hunks))

    @cached_property
    def names(self) -> frozenset[str]:
        """Words of this repository."""
        common = {
            "init",
            "main",
            "test",
            "call",
            "copy",
            "join",
            "save",
            "write",
            "read",
            "equals",
            "update",
            "values",
            "check",
            "where",
            "query",
        }
        spots = {name.lower() for p in self.places for name in (p.owner, p.function) if len(name) > 3 and not name.startswith("__")}
        return repository_words(self.attempt) | (spots - common)

    @cached_property
    def roles(self) -> Roles:
        """Which names are functions, classes, attributes."""
        return roles_of(self.found)

    @cached_property
    def run(self) -> TestRun | None:
        """How tests were run here."""
        return test_run(self.found)

    @cached_property
    def wrong(self) -> tuple[str, ...]:
        """Test runners that are not there."""
        return wrong_runners(self.found, self.run)

    @cached_property
    def covering(self) -> tuple[str, ...]:
        """Tests that cover the edited files."""
        return covering_tests(self.found)

    @cached_property
    def found_by(self) -> str:
        """The command that showed where the tests are."""
        return found_by(self.found)

    @cached_property
    def pitfalls(self) -> tuple[Pitfall, ...]:
        """Environment errors with their remedies."""
        return pitfalls(self.found)

    @cached_property
    def symptom(self) -> str:
        """The built-in exception or warning that the issue is about, "" where there is none (a wrong result, say)."""
        early = "\n".join(
            action.output[-3000:]
            for i, step in enumerate(self.found.trajectory.steps)
            if self.found.first_edit is None or i < self.found.first_edit
            for action in step.actions
        )
        shown = set(_BUILTIN_ERROR.findall(early))
        return next((name for name in reversed(_BUILTIN_ERROR.findall(self.attempt.issue.text)) if name in shown), "")

    @cached_property
    def symbols(self) -> dict[str, tuple[str, ...]]:
        """Changed functions (else classes) of each edited source file, files in the order of the patch."""
        return {path: tuple(dict.fromkeys(p.name for p in self.places if p.path == path and p.name)) for path in self.sources}

    @cached_property
    def added(self) -> frozenset[str]:
        """Names of the functions that the patch itself defines in the main file."""
        mine = [p for p in self.places if p.path == self.main_path and p.name]
        return frozenset(p.name for p in mine if p.added) - {p.name for p in mine if not p.added}

    @cached_property
    def main_path(self) -> str:
        """The source file with the most changed lines, "" for a patch without source."""
        sizes = {
            path: 0 if _GENERATED.search(path) else sum(len(h.added) + len(h.removed) for h in self.hunks if h.path == path)
            for path in self.sources
        }
        return max(sizes, key=lambda path: (sizes[path], -self.sources.index(path)), default="")

    @cached_property
    def main(self) -> Place | None:
        """The place of the main file with the most changed lines; of several, one that was there before and whose function is known."""
        mine = [p for p in self.places if p.path == self.main_path and p.name]
        owners = {p.owner for p in mine}
        if len(mine) > MANY_PLACES and max(p.size for p in mine) * 2 < sum(p.size for p in mine):
            owner = owners.pop() if len(owners) == 1 else ""
            return Place(self.main_path, owner, "", False, sum(p.size for p in mine)) if owner else None
        spoken = Counter(
            re.findall(
                r"[A-Za-z_]\w*", " ".join(thought_of(s.thought) for s in self.found.trajectory.steps[: (self.found.last_edit or 0) + 1])
            )
        )
        return max(mine, key=lambda p: (not p.added, bool(p.function), p.size, spoken[p.function or p.owner], -mine.index(p)), default=None)

    @property
    def main_symbol(self) -> str:
        """The name of the main place, "" where neither patch nor listings tell it."""
        return self.main.name if self.main is not None else ""

    @cached_property
    def place(self) -> str:
        """The main place as prose: "`symbol` in `path`", or the path alone."""
        new = "the new " if self.main_symbol in self.added else ""
        return f"{new}`{self.main_symbol}` in `{self.main_path}`" if self.main_symbol else f"`{self.main_path}`"

    @cached_property
    def scope(self) -> str:
        """Everything that was changed, as prose: functions of the one file, or the files."""
        if len(self.sources) > 1:
            return listing(self.sources, 4)
        names = self.symbols.get(self.main_path, ())
        return f"{listing(names, 3)} in `{self.main_path}`" if len(names) > 1 else self.place

    @cached_property
    def trail(self) -> tuple[str, ...]:
        """Source files looked into before the first edit, the edited one last: how the place was found. At most 4."""
        seen: list[str] = []
        for event in self.found.events:
            if self.found.first_edit is not None and event.step > self.found.first_edit:
                break
            if event.kind in {"read", "search"}:
                seen += [
                    p
                    for p in event.part.paths
                    if re.search(r"/[\w-]+\.\w{1,4}$", p) and not is_test_path(p) and p not in self.found.scratch
                ]
        suffix = self.main_path[self.main_path.rfind(".") :] if "." in self.main_path else ""
        cleaned = dict.fromkeys(clean_path(p) for p in seen if not p.startswith("/"))
        folders = {p.split("/", 1)[0] for p in self.found.scratch}
        order = [p for p in cleaned if p != self.main_path and p.endswith(suffix) and p.split("/", 1)[0] not in folders]
        return (*order[-3:], self.main_path) if order and self.main_path else ()

    def general(self, text: str) -> str:
        """The sentence without names of the repository, "" where too little is left."""
        return abstract(text, self.names, self.roles)

    def draft(self, title: str, description: str, content: str, kind: str, reach: Reach) -> ItemDraft:
        """A draft with this attempt's polarity and a title that fits."""
        polarity: Polarity = "success" if self.attempt.verdict.outcome == "resolved" else "failure"
        return ItemDraft(fit(title), squeeze(description), squeeze(content), kind, polarity, reach)


def fit(title: str, limit: int = MAX_TITLE) -> str:
    """A title of at most ``limit`` characters, cut at a word and never inside code quotes."""
    title = squeeze(title)
    if len(title) <= limit:
        return title
    cut = title[: limit - 3].rsplit(" ", 1)[0]
    if cut.count("`") % 2:
        cut = cut.rsplit("`", 1)[0].rstrip()
    return cut.rstrip(" ,;:(") + "..."


def short_path(path: str, keep: int = 3) -> str:
    """The last parts of a path: enough to recognise it."""
    return "/".join(path.split("/")[-keep:])


def listing(words: tuple[str, ...] | list[str], most: int = 4) -> str:
    """ "`a`, `b` and `c`"; "and 3 more" beyond ``most``."""
    shown = [f"`{w}`" for w in words[:most]]
    if len(words) > most:
        return ", ".join(shown) + f" and {len(words) - most} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def plural(count: int, word: str) -> str:
    """ "1 run", "3 runs"."""
    return f"{count} {word}" + ("" if count == 1 else "s")


def lower_first(text: str) -> str:
    """The sentence as a continuation: first letter small unless it is code or a name."""
    return text[0].lower() + text[1:] if len(text) > 1 and text[0].isupper() and text[1].islower() else text
