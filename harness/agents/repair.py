"""An agent without a language model, in the line of template-based program repair (GenProg 2009, TBar 2019).

It exists to exercise the instrument with a real and cheap agent: it fixes real faults in real repositories through bash commands, counted and limited like
any agent's. What it does with memory says nothing about what a language model would do with it.

How it goes about an issue: look at the repository, write down and run the issue's own reproduction, run the repository's tests, compare which lines the
reproduction runs with those of passing tests, read the suspicious files, then test one hypothesis after the other until the reproduction passes and no
test that passed before fails; submit. One command is one call. One call tests one hypothesis: one kind of fault at one line, with up to eight ways to
mend it, as anybody would write a loop for. With a limit on calls, the order decides what gets fixed. The text of a recalled item, when there is one,
changes nothing but that *order*: its words are read by the same table as the words of the issue (:mod:`harness.agents.repair_order`).
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.agents.repair_localise import SCRIPT, SPECTRUM, Place, last_error, raised, read_spectrum, reproduction, spread
from harness.agents.repair_order import Hints, families_of_error, rank
from harness.agents.repair_source import Edit, Source
from harness.agents.repair_templates import candidates
from harness.agents.repair_try import try_command
from harness.metering import LimitReached
from harness.parsing import parse
from harness.statistics.estimates import count
from swe_memory.records import Action, Issue, Step, Trajectory, Usage

if TYPE_CHECKING:
    from harness.agents import Assignment, Limits, Meter
    from harness.environments import Environment, Execution

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
STABLE = "sed -E 's/ in [0-9.]+s$//; s/0x[0-9a-f]{6,}/0x/g'"
"""Cuts times and addresses out of what a command prints, so that the same attempt leaves the same trajectory."""
TASK = "Please fix this issue in the repository of the working directory:\n\n<pr_description>\n{text}\n</pr_description>\n"


class _Session:
    """The calls of one attempt: each is one thought and one command, recorded."""

    def __init__(self, environment: Environment, limits: Limits, meter: Meter) -> None:
        self._environment = environment
        self._limits = limits
        self._meter = meter
        self.steps: list[Step] = []

    @property
    def left(self) -> int:
        """Calls that remain."""
        return self._limits.calls - len(self.steps)

    def run(self, thought: str, command: str, *, reserve: int = 1) -> Execution:
        """One call. Raises :class:`LimitReached` where a limit is reached, or it would leave fewer than ``reserve`` calls."""
        if self.left <= reserve:
            raise LimitReached("calls")
        self._meter.check()
        return self.last(thought, command)

    def last(self, thought: str, command: str) -> Execution:
        """One call without a reserve; the caller has seen that one is left."""
        execution = self._environment.execute(command, timeout=self._limits.command_seconds)
        self.steps.append(Step(thought, (Action(command, execution.output, execution.returncode),)))
        self._meter.add(Usage(calls=1))
        return execution


class RepairAgent:
    """See the module. ``files`` is how many suspicious files it reads at most."""

    name = "repair"
    model = ""
    users_environment = False

    def __init__(self, *, files: int = 4) -> None:
        self.files = files

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        """Try to resolve the issue; see :class:`harness.agents.Agent`. Exit status: ``Submitted``, or that of the limit which was reached.

        Same issue, repository, memory text and call limit give the same commands.
        """
        issue = work.issue
        session = _Session(environment, work.limits, work.meter)
        try:
            patch, status = self._work(issue, session, work.memory), "Submitted"
        except LimitReached as reached:
            patch, status = "", reached.status
            if session.left:
                session.last(
                    "The call limit is reached and no edit was found that passes the reproduction and the tests. I leave the files as they were.",
                    f"git checkout -q -- . && rm -f {SCRIPT} && git status --short",
                )
        steps = tuple(session.steps)
        return Trajectory(
            steps, status, patch, issue.id, TASK.format(text=issue.text), "mini-swe-agent-1.1", "none", self.name, len(steps), 0.0
        )

    def _work(self, issue: Issue, session: _Session, memory: str) -> str:
        issue_hints, hints = Hints.read(issue.text), Hints.read(memory)
        opening = "I start with the layout of the repository."
        if hints.families or memory:
            about = ", ".join(sorted(hints.families, key=lambda f: (-hints.families[f], f))[:3])
            opening += (
                f" There is a note from a past attempt; it makes me try first: {about}."
                if about
                else " There is a note from a past attempt."
            )
        listing = session.run(opening, "git log --oneline | head -5 && git ls-files").output
        prefix = "PYTHONPATH=src " if re.search(r"^src/\S+\.py$", listing, re.MULTILINE) else ""
        program = reproduction(issue.text)
        if not program:
            return self._give_up(session, "The issue holds no reproduction that I can run, so there is nothing to check an edit against.")
        run = f"set -o pipefail; {prefix}timeout 20 python -B {SCRIPT} 2>&1 | {STABLE}"
        write = f"cat > {SCRIPT} <<'REPRODUCTION'\n{program}REPRODUCTION\n{run}"
        first = session.run("I write down the reproduction from the issue and run it to see it fail.", write)
        if first.returncode == 0:
            return self._give_up(session, "The reproduction passes already, so I cannot tell a fix from no fix.")
        exception = last_error(first.output)
        what = f"It fails with {exception}." if exception else "It fails."
        spectrum = f"{prefix}timeout 90 python -B - <<'SPECTRUM'\n{SPECTRUM}SPECTRUM"
        seen = session.run(f"{what} I run the existing tests and compare the lines they run with those of the reproduction.", spectrum)
        tests, baseline = tests_after(seen.output, prefix)
        places = read_spectrum(seen.output)
        if not places:
            return self._give_up(session, "The reproduction runs no function of this repository, so I do not know where to look.")
        sources = self._read(session, places)
        ranked = self._edits(places, sources, issue_hints, hints, first.output)
        imports = standard_imports([parse(program), *(source.tree for source in sources.values())])
        undo = ""
        for number, ways in enumerate(ranked, 1):
            first_way = ways[0]
            others = f" or {count(len(ways) - 1, 'other way', 'other ways')}" if len(ways) > 1 else ""
            what = f"{first_way.cause} ({first_way.family}) at {first_way.path}:{first_way.place}"
            tried = session.run(
                f"Hypothesis {number}: {what}. I try: {first_way.remedy}{others}.", undo + try_command(ways, prefix, tests, imports)
            )
            undo = "git checkout -q -- . && " if tried.timed_out else ""
            worked = re.search(r"^way (\d+): works$", tried.output, re.MULTILINE)
            if tried.returncode == 0 and worked:
                return self._submit(session, ways[int(worked[1]) - 1], baseline)
        return self._give_up(session, "None of my edits makes the reproduction pass with the tests still passing.")

    def _read(self, session: _Session, places: list[Place]) -> dict[str, Source]:
        """The most suspicious files, one ``cat`` each."""
        worth: dict[str, float] = {}
        for place in places:
            worth[place.path] = max(worth.get(place.path, 0.0), max(place.suspicion.values(), default=0.0))
        sources = {}
        for path in sorted(worth, key=lambda p: (-worth[p], p))[: self.files]:
            text = session.run(f"The reproduction runs through {path}; I read it.", f"cat -- {shlex.quote(path)}").output
            try:
                sources[path] = Source(path, text)
            except (SyntaxError, ValueError):
                continue
        return sources

    def _edits(self, places: list[Place], sources: dict[str, Source], issue: Hints, hints: Hints, output: str) -> list[tuple[Edit, ...]]:
        exception = last_error(output)
        edits: list[Edit] = []
        suspicion: dict[tuple[str, int], float] = {}
        for place in places:
            source = sources.get(place.path)
            function = next((f for name, f in source.functions() if name == place.function), None) if source else None
            if source and function:
                suspicion |= spread(place, function)
                edits += candidates(source, place, exception)
        return rank(edits, raised(suspicion, output), issue, hints, families_of_error(exception, output))

    def _submit(self, session: _Session, edit: Edit, baseline: str) -> str:
        cause = edit.cause[0].upper() + edit.cause[1:]
        thought = (
            f"Root cause: {cause} ({edit.family}). Fix: {edit.remedy}, in {edit.path}. "
            f"The reproduction passes now and so do the tests that passed before. {baseline} I submit the change."
        )
        done = session.last(thought, f"rm -f {SCRIPT} && echo {SUBMIT} && git diff")
        _, _, patch = done.output.partition(f"{SUBMIT}\n")
        return patch

    def _give_up(self, session: _Session, why: str) -> str:
        session.run(f"{why} I submit no change.", f"git checkout -q -- . && rm -f {SCRIPT} && echo {SUBMIT}", reserve=0)
        return ""


def standard_imports(trees: Iterable[ast.Module]) -> tuple[str, ...]:
    """Modules of the standard library that these files import at their top level, sorted."""
    names = set()
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return tuple(sorted(name for name in names if name.split(".")[0] in sys.stdlib_module_names - {"__future__", "this", "antigravity"}))


def tests_after(output: str, prefix: str) -> tuple[str, str]:
    """From what the spectrum says: the command that must succeed after an edit (tests that fail already are left out), and a sentence about them."""
    failing = re.findall(r"^failing test: (.+)$", output, re.MULTILINE)
    passing = re.search(r"^passing tests: (\d+)$", output, re.MULTILINE)
    if not passing or passing[1] == "0":
        return "true", "No test passed before, so there is none to keep."
    skip = "".join(f" --deselect {shlex.quote(name)}" for name in failing)
    command = f"{prefix}timeout 90 python -B -m pytest -q -p no:cacheprovider -x{skip} 2>&1 | {STABLE}"
    return command, f"{count(len(failing), 'test', 'tests')} failed before." if failing else "All tests passed before."
