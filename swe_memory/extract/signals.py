"""What happened in an attempt, as counts and flags: read from commands and outputs, never from grading data.

Shared by the rules extractor and the rules judge. Nothing here keeps an instance id or a repository's name, so a judge that is fitted on
these counts cannot have memorised either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..patches import edited_paths, edited_symbols, files, is_test_path, source_paths
from ..records import Action, Issue, Trajectory
from .commands import Kind, Part, parse

Outcome3 = Literal["passed", "failed", "unclear"]

_TAIL = 6000
_FAILED = re.compile(
    r"\b[1-9]\d* (?:failed|errors?|exceptions?|failures?)\b|FAILED \(|\bFAILED\b.*::|^(?:FAIL|ERROR): |^E  +\w|Traceback \(most recent call last\)|"
    r"DO \*NOT\* COMMIT|^(?:\w+\.)*\w*(?:Error|Exception|Interrupt): |Segmentation fault|command not found",
    re.MULTILINE,
)
_PASSED = re.compile(
    r"\b[1-9]\d* passed\b|^OK(?: \(.*\))?$|\bRan [1-9]\d* tests?\b|tests finished: [1-9]\d* passed|All tests passed|^ok\b", re.MULTILINE
)
_REPORTED = re.compile(r"\b\d+ (?:passed|failed)\b|\bRan \d+ tests?\b|tests finished: \d+|^(?:FAILED|ERROR)\b", re.MULTILINE)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MISSING = re.compile(
    r"No module named ['\"]?(?P<module>[\w.]+)|(?P<command>[\w./-]+): (?:command not found|not found)|can't open file|"
    r"No such file or directory|Permission denied|(?P<error>ImproperlyConfigured|AppRegistryNotReady|UnicodeEncodeError|OperationalError): |"
    r"file or directory not found|unrecognized arguments|usage: ",
)
_WAIVED = re.compile(
    r"(?:seems?|appears?|is|are|was|were|looks?) (?:\w+ )?(?:unrelated|pre-existing|preexisting)|not (?:related to|caused by) my|"
    r"(?:was|were|is|are|been) (?:already )?failing before|environment (?:issue|problem)|can(?:'t| safely)? ignore",
    re.IGNORECASE,
)
_REREADS = re.compile(
    r"\b(?:PR|issue|description|ticket|task|report|user|reporter) (?:says|said|mentions?|asks?|suggests?|wants?|states?|describes?|claims?)\b",
    re.IGNORECASE,
)
_SCRIPT = re.compile(r"\.(?:py|sh|js|ts|rb|pl|php|R|java)$")
_NO_SCRIPT = {"setup.py", "conftest.py"}
_ASKS = {"--version", "-V", "--help", "-h"}
_DOUBT = re.compile(r"\b(?:wait|hmm|strange|confus\w+|weird|unexpected\w*|actually)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Event:
    """One simple command in its place: ``step`` counts from 0; ``result`` is None for commands that check nothing.

    ``source`` says that an edit (or revert) touched a file that is not a scratch file; ``own`` that a check ran a file the agent wrote itself.
    """

    step: int
    kind: Kind
    part: Part
    result: Outcome3 | None = None
    source: tuple[str, ...] = ()
    own: bool = False


def outcome_of(action: Action) -> Outcome3:
    """How a check ended, by its return code and its output: ``unclear`` where neither says."""
    tail = _ANSI.sub("", action.output[-_TAIL:])
    failed = bool(_FAILED.search(tail))
    if action.returncode not in (0, None) or (failed and not (action.returncode == 0 and _PASSED.search(tail) and "Traceback" not in tail)):
        return "failed"
    return "passed" if action.returncode == 0 or _PASSED.search(tail) else "unclear"


def thought_of(text: str) -> str:
    """A thought as prose: without its label and without fenced code."""
    return re.sub(r"^\s*(?:THOUGHT|DISCUSSION|Thought)\s*:?\s*", "", re.sub(r"```.*?(?:```|\Z)", " ", text, flags=re.DOTALL)).strip()


@dataclass(frozen=True)
class Signals:
    """The events of an attempt and what follows from them. Cheap to make; derived values are computed when asked for."""

    events: tuple[Event, ...]
    trajectory: Trajectory
    issue: Issue
    patch: str
    paths: tuple[str, ...]
    sources: tuple[str, ...]
    scratch: frozenset[str]

    @cached_property
    def edits(self) -> tuple[Event, ...]:
        """Edits of files that are in the final patch and are not tests or scratch files, in order."""
        return tuple(e for e in self.events if e.kind == "edit" and e.source)

    @cached_property
    def checks(self) -> tuple[Event, ...]:
        """Runs of tests and of the agent's own scripts, in order."""
        return tuple(e for e in self.events if e.result is not None)

    @cached_property
    def tests(self) -> tuple[Event, ...]:
        """Runs of tests that the repository had, in order."""
        return tuple(e for e in self.events if e.kind == "test" and not e.own)

    @cached_property
    def tried(self) -> tuple[Event, ...]:
        """Edits of files that were there before, whether or not they stayed: the attempts at a change."""
        return tuple(
            e
            for e in self.events
            if e.kind == "edit" and any("/" in p and p not in self.scratch and not p.startswith("/") for p in e.part.paths)
        )

    @property
    def first_edit(self) -> int | None:
        """The step of the first source edit."""
        return self.edits[0].step if self.edits else None

    @property
    def last_edit(self) -> int | None:
        """The step of the last source edit."""
        return self.edits[-1].step if self.edits else None

    @cached_property
    def checks_after_last_edit(self) -> tuple[Event, ...]:
        """What was run after the last source edit."""
        return tuple(e for e in self.checks if self.last_edit is not None and e.step >= self.last_edit)

    @cached_property
    def tests_after_last_edit(self) -> tuple[Event, ...]:
        """The repository's tests that were run after the last source edit."""
        return tuple(e for e in self.checks_after_last_edit if e.kind == "test" and not e.own)

    @cached_property
    def reproduced(self) -> bool:
        """Whether the agent tried the fault by something of its own before the first source edit, and again (the same or another) after the last one.

        A script file, a test that it wrote, a program given by ``-c`` or as a here-document and a module that is run count alike.
        """
        return bool(self.edits) and any(self._tries(e) for e in self.events[: self.events.index(self.edits[0])]) and self.tried_after

    @cached_property
    def tried_after(self) -> bool:
        """Whether something of the agent's own was run after the last source edit, as :attr:`reproduced` counts it."""
        return bool(self.edits) and any(self._tries(e) for e in self.events[len(self.events) - self.events[::-1].index(self.edits[-1]) :])

    def _tries(self, event: Event) -> bool:
        """Whether a check runs something of the agent's own that may show the fault: not the repository's tests, nor a look at what is installed."""
        if event.result is None or not event.own:
            return False
        words = event.part.words
        if event.kind == "test" or any(_SCRIPT.search(word) and word.rsplit("/", 1)[-1] not in _NO_SCRIPT for word in words):
            return True
        # `import boxes; print(boxes.__version__)` and `python -m pip` try nothing: a program has to name something that is edited, a module its package.
        if "-m" in words[:-1]:
            package = words[words.index("-m") + 1].split(".")[0]
            return not _ASKS.intersection(words) and any(package in path.rsplit(".", 1)[0].split("/") for path in self.sources)
        return not self._edited_names.isdisjoint(re.findall(r"[A-Za-z_]\w*", event.part.body))

    @cached_property
    def _edited_names(self) -> frozenset[str]:
        """Modules, folders below the top one, functions and classes that the patch edits; the top folder alone for a package's ``__init__``."""
        names = {symbol for dotted in edited_symbols(self.patch) for symbol in dotted.split(".")}
        for path in self.sources:
            parts = path.rsplit(".", 1)[0].removesuffix("/__init__").split("/")
            names.update(parts[1:] or parts)
        return frozenset(names)

    @cached_property
    def broke_tests(self) -> tuple[Event, ...]:
        """Repository test runs that failed after the first source edit and before the attempt changed a test file: what the change broke."""
        first = self.first_edit
        own = self.first_test_edit
        return tuple(
            e for e in self.tests if e.result == "failed" and first is not None and e.step >= first and (own is None or e.step < own)
        )

    @cached_property
    def first_test_edit(self) -> int | None:
        """The step of the first edit of a test file in a folder (also one that was taken back later)."""
        return next((e.step for e in self.events if e.kind == "edit" and any("/" in p and is_test_path(p) for p in e.part.paths)), None)

    @cached_property
    def edited_tests(self) -> tuple[str, ...]:
        """Test files in the final patch that existed before: their expectations were changed or added to."""
        new = set(re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)", self.patch, re.MULTILINE))
        return tuple(path for path in self.paths if is_test_path(path) and path not in new)

    @cached_property
    def waived(self) -> tuple[int, ...]:
        """Steps whose thought calls a failure unrelated or pre-existing."""
        return tuple(i for i, step in enumerate(self.trajectory.steps) if _WAIVED.search(thought_of(step.thought)))

    @cached_property
    def environment_errors(self) -> tuple[Event, ...]:
        """Checks that failed because of how they were run: missing module or file, wrong runner, missing settings."""
        found = []
        for event in self.checks:
            actions = self.trajectory.steps[event.step].actions
            if event.result == "failed" and any(_MISSING.search(a.output[-_TAIL:]) for a in actions):
                found.append(event)
        return tuple(found)

    @cached_property
    def repeated(self) -> int:
        """The largest number of times that one command (not a check) was given word for word without a source edit in between."""
        best = 0
        seen: dict[str, int] = {}
        edited = {e.step for e in self.events if e.kind in {"edit", "revert"}}
        for i, step in enumerate(self.trajectory.steps):
            if i in edited:
                seen.clear()
                continue
            for action in step.actions:
                seen[action.command] = seen.get(action.command, 0) + 1
                best = max(best, seen[action.command])
        return best

    @cached_property
    def changed_lines(self) -> int:
        """Added plus removed lines of source files."""
        total = 0
        counting = False
        for line in self.patch.splitlines():
            if line.startswith("diff --git "):
                counting = any(line.endswith(f" b/{path}") for path in self.sources)
            elif counting and line[:1] in "+-" and not line.startswith(("+++", "---")):
                total += 1
        return total

    @cached_property
    def seen_paths(self) -> tuple[str, ...]:
        """Files that were read, searched or edited by name, in order of first sight."""
        return tuple(
            dict.fromkeys(p for e in self.events if e.kind in {"read", "search", "edit", "test"} for p in e.part.paths if "." in p)
        )

    def count(self, *kinds: Kind) -> int:
        """How many simple commands were of these kinds."""
        return sum(e.kind in kinds for e in self.events)

    @cached_property
    def doubts(self) -> int:
        """How often a thought stopped to wonder: wait, strange, actually."""
        return sum(len(_DOUBT.findall(thought_of(step.thought))) for step in self.trajectory.steps)

    @cached_property
    def rereads(self) -> int:
        """How often a thought went back to what the issue says: a sign that it can be read in more than one way."""
        return sum(len(_REREADS.findall(thought_of(step.thought))) for step in self.trajectory.steps)

    @cached_property
    def output_size(self) -> int:
        """Characters of output that all commands gave together: how much had to be looked at."""
        return sum(len(action.output) for step in self.trajectory.steps for action in step.actions)


def signals(issue: Issue, trajectory: Trajectory) -> Signals:
    """Read an attempt's events. Linear in its size; outputs are looked at only at their ends."""
    patch = trajectory.patch or ""
    paths = edited_paths(patch)
    sources = source_paths(patch)
    # Tests that the attempt added are its own, though they stay in the patch.
    scratch: set[str] = {file.path for file in files(patch) if file.created and is_test_path(file.path)}
    writers: dict[str, tuple[str, ...]] = {}
    events: list[Event] = []
    for number, step in enumerate(trajectory.steps):
        for action in step.actions:
            parts = parse(action.command)
            results = _results(parts, action)
            for part, result in zip(parts, results, strict=True):
                events.append(_event(number, part, result, paths, sources, scratch, writers))
    return Signals(tuple(events), trajectory, issue, patch, paths, sources, frozenset(scratch))


def _results(parts: tuple[Part, ...], action: Action) -> list[Outcome3]:
    """How each check of one line ended. There is one return code for all of them: where several could have failed, tests did only if they say so."""
    whole = outcome_of(action)
    checks = [i for i, part in enumerate(parts) if part.kind in {"test", "run"}]
    if whole != "failed" or len(checks) < 2:
        return [whole] * len(parts)
    reported = bool(_REPORTED.search(_ANSI.sub("", action.output[-_TAIL:])))
    tests = [i for i in checks if parts[i].kind == "test"]
    guilty = tests[-1] if reported and tests else next((i for i in checks if parts[i].kind == "run"), checks[-1])
    return ["failed" if i == guilty else ("passed" if i < guilty else "unclear") for i in range(len(parts))]


def _event(
    number: int,
    part: Part,
    result: Outcome3,
    paths: tuple[str, ...],
    sources: tuple[str, ...],
    scratch: set[str],
    writers: dict[str, tuple[str, ...]],
) -> Event:
    if part.kind in {"edit", "revert"}:
        touched = _touched(part.paths, sources) or (
            _touched(_named(part.body, sources), sources) if part.words[0].startswith("python") else ()
        )
        for path in part.paths:
            if (
                ">>" not in part.text  # what is added to was there before
                and part.kind == "edit"
                and part.words[0] in {"cat", "tee", "echo", "printf", "cp"}
                and not any(_same(path, known) for known in paths)
            ):
                scratch.add(path)
                named = _named(part.body, sources)
                if named and ".write" in part.body:
                    writers[path] = named
        return Event(number, part.kind, part, None, touched)
    if part.kind in {"run", "test"}:
        written = tuple(p for path in (*part.paths, part.words[0]) for p in writers.get(path, ()))
        if written:
            return Event(number, "edit", part, None, written)
        given = [path for path in part.paths if not path.endswith(("runtests.py", "manage.py", "setup.py"))]
        own = bool(given) and all(path in scratch or path.split("::")[0] in scratch for path in given)
        own = own or (part.kind == "run")
        return Event(number, part.kind, part, result, (), own)
    return Event(number, part.kind, part)


def _same(path: str, known: str) -> bool:
    return path == known or path.endswith("/" + known) or (known.endswith("/" + path) and "/" in path)


def _touched(found: tuple[str, ...], sources: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(known for known in sources if any(_same(path, known) for path in found))


def _named(body: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(known for known in sources if known in body)
