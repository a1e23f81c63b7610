"""What the rules know about one attempt, gathered once and handed to each rule."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ..patches import edited_symbols, files, hunks, is_test_path
from ..records import Attempt, ItemDraft, Polarity, Reach
from .catalogue import Shape, shapes_of
from .commands import clean_path
from .names import repository_words
from .prose import Roles, Statement, abstract, roles_of, statements
from .shapes import delta
from .signals import Signals, signals, thought_of
from .testing import Pitfall, TestRun, covering_tests, found_by, pitfalls, test_run, wrong_runners
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
    def shapes(self) -> tuple[Shape, ...]:
        """What kind of change the patch is."""
        return shapes_of(self.found)

    @cached_property
    def delta(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names that the change of the main file let go and brought in."""
        return delta(self.found, self.main_path)

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
        """The function that the change of the main file is about, "" where none can be told; special methods with their class.

        The patch names functions at the outer level and those whose ``def`` is near; git's hunk headers name only the class of a method. Where
        there is only a class, the method that the agent spoke most about, among those it had seen defined in that file, is taken.
        """
        symbols = self.symbols.get(self.main_path, ())
        spoken = Counter(
            re.findall(
                r"[A-Za-z_]\w*", " ".join(thought_of(s.thought) for s in self.found.trajectory.steps[: (self.found.last_edit or 0) + 1])
            )
        )
        added = [n for n in self._defined_in_patch if n in symbols]
        plain = added or [s for s in symbols if re.match(r"_*[a-z]", s)]
        if plain:
            symbol = max(plain, key=lambda n: (spoken[n], -plain.index(n)))
        else:
            near = {n for n in self._defined_in_main if not n.startswith("__") and spoken[n] >= 3 and len(n) > 3}
            symbol = (
                max(near, key=lambda n: (spoken[n], n)) if near else max(symbols, key=lambda n: (spoken[n], -symbols.index(n)), default="")
            )
        if symbol.startswith("__") and symbol in symbols:
            owner = next((s for s in reversed(symbols[: symbols.index(symbol)]) if re.match(r"_*[A-Z]", s)), "")
            symbol = f"{owner}.{symbol}" if owner else symbol
        return symbol

    @cached_property
    def _defined_in_patch(self) -> tuple[str, ...]:
        """Functions that the patch adds to the main file, where it takes nothing away."""
        found = [h for h in hunks(self.found.patch) if h.path == self.main_path]
        if any(line.strip() for h in found for line in h.removed):
            return ()
        return tuple(m[1] for h in found for line in h.added if (m := re.match(r"\s*(?:async )?def (\w+)", line)))

    @cached_property
    def _defined_in_main(self) -> frozenset[str]:
        """Functions whose definition was shown when the main file was read or searched."""
        names: set[str] = set()
        for event in self.found.events:
            if event.kind in {"read", "search"} and self.main_path and self.main_path in event.part.text:
                for action in self.found.trajectory.steps[event.step].actions:
                    names.update(re.findall(r"\bdef (\w+)", action.output[:40_000]))
        return frozenset(names)

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
