"""What the rules know about one attempt, gathered once and handed to each rule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ..patches import edited_symbols, files, is_test_path
from ..records import Attempt, ItemDraft, Polarity, Reach
from .commands import clean_path
from .names import repository_words
from .prose import Roles, Statement, abstract, roles_of, statements
from .shapes import Shape, shapes_of
from .signals import Signals, signals
from .testing import Pitfall, TestRun, covering_tests, pitfalls, test_run, wrong_runners
from .validate import MAX_TITLE, squeeze

_BUILTIN_ERROR = re.compile(
    r"\b(TypeError|ValueError|KeyError|IndexError|AttributeError|NameError|UnboundLocalError|ZeroDivisionError|RecursionError|OverflowError|AssertionError|"
    r"UnicodeDecodeError|UnicodeEncodeError|NotImplementedError|ImportError|StopIteration|RuntimeError|DeprecationWarning|UserWarning|FutureWarning)\b"
)


@dataclass(frozen=True)
class Material:
    """One attempt and what is known about it; everything derived is computed when first asked for."""

    attempt: Attempt

    @cached_property
    def found(self) -> Signals:
        """Events, counts and flags."""
        return signals(self.attempt.issue, self.attempt.trajectory)

    @cached_property
    def causes(self) -> tuple[Statement, ...]:
        """The agent's sentences about why, best first."""
        return statements(self.found, fix=False)

    @cached_property
    def fixes(self) -> tuple[Statement, ...]:
        """The agent's sentences about what the change does, best first."""
        return statements(self.found, fix=True)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """What kind of change the patch is."""
        return shapes_of(self.found)

    @cached_property
    def names(self) -> frozenset[str]:
        """Words of this repository."""
        return repository_words(self.attempt)

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
        """Edited functions and classes of each edited source file, files in the order of the patch."""
        result = {}
        for file in files(self.found.patch):
            if file.path in self.found.sources:
                text = f"diff --git a/{file.path} b/{file.path}\n--- a/{file.path}\n+++ b/{file.path}\n" + "\n".join(
                    h.text for h in file.hunks
                )
                result[file.path] = edited_symbols(text + "\n")
        return result

    @cached_property
    def main_path(self) -> str:
        """The source file with the most changed lines, "" for a patch without source."""
        sizes = {
            file.path: sum(len(h.added) + len(h.removed) for h in file.hunks)
            for file in files(self.found.patch)
            if file.path in self.found.sources
        }
        return max(sizes, key=lambda path: (sizes[path], -self.found.sources.index(path)), default="")

    @cached_property
    def main_symbol(self) -> str:
        """The edited function of the main file (a class where no function is named), "" where none is."""
        symbols = self.symbols.get(self.main_path, ())
        plain = [s for s in symbols if re.match(r"_*[a-z]", s.rsplit(".", 1)[-1])]
        return (plain or list(symbols) or [""])[0]

    @cached_property
    def place(self) -> str:
        """The main place as prose: "`symbol` in `path`", or the path alone."""
        return f"`{self.main_symbol}` in `{self.main_path}`" if self.main_symbol else f"`{self.main_path}`"

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
        order = [clean_path(p) for p in dict.fromkeys(seen) if p != self.main_path and not p.startswith("/")]
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
