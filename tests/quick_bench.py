"""A dataset whose hidden tests take no time, an agent that plays a part, and runs of both in this process: for tests of whole experiments.

Each issue asks for one word in one file. Its hidden test is one ``grep`` that prints what pytest would; attempts are scripted, look like real ones to what
judges and distils them, and are the same from run to run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.agents import Agent, Assignment
from harness.cli import run as run_cli
from harness.environments import Environment
from harness.events import RunState, read_events, read_state
from harness.grading import Grader
from swe_memory.bank import MemoryBank
from swe_memory.records import Action, Step, Trajectory, Usage
from tests.small_bench import git

PARTS = ("ledger", "basket", "parcel", "ticket", "voucher", "coupon", "invoice", "receipt")


def part_of(number: int) -> str:
    """The word that issue ``number`` is about, and the name of its file."""
    return PARTS[number % len(PARTS)] + ("" if number < len(PARTS) else "abcdefghij"[number // len(PARTS) - 1])


def issue_id(number: int) -> str:
    """Of issue ``number``, from 0: two repositories in turn."""
    return f"acme__{'left' if number % 2 == 0 else 'right'}-{number + 1}"


def write_quick_bench(folder: Path, issues: int = 4) -> tuple[Path, Path]:
    """(dataset file, folder of repositories) with so many issues, of two repositories in turn, at most 80."""
    bases = {}
    for name in ("left", "right"):
        repository = folder / "repositories" / f"acme__{name}"
        (repository / "shop").mkdir(parents=True)
        for part in map(part_of, range(max(issues, len(PARTS)))):
            (repository / "shop" / f"{part}.py").write_text(f"def total_{part}(goods):\n    return 'wrong'\n", encoding="utf-8")
        git(repository, "init", "-q", "-b", "main")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "Start")
        bases[name] = git(repository, "rev-parse", "HEAD").strip()
    rows = [_row(number, bases) for number in range(issues)]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path, folder / "repositories"


def _row(number: int, bases: Mapping[str, str]) -> dict[str, Any]:
    name, part = ("left", "right")[number % 2], part_of(number)
    hidden = f"tests/test_{part}.py::test_total"
    said = f"grep -q right shop/{part}.py && echo 'PASSED {hidden}' || echo 'FAILED {hidden} - wrong'"
    script = f"#!/bin/bash\nset -uxo pipefail\n: '>>>>> Start Test Output'\n{said}\n: '>>>>> End Test Output'\n"
    return {
        "repo": f"acme/{name}",
        "instance_id": issue_id(number),
        "base_commit": bases[name],
        "patch": fix(part),
        "test_patch": "diff --git a/tests/x.py b/tests/x.py\n",
        "problem_statement": f"The total of a {part} is wrong\n\nAsked for the total of goods in a {part}, total_{part} answers with another word.\n",
        "hints_text": "",
        "created_at": f"2024-{1 + number // 28:02}-{1 + number % 28:02}T00:00:00Z",
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps([hidden]),
        "PASS_TO_PASS": "[]",
        "image": "none",
        "eval_script": script,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


def fix(part: str) -> str:
    """The patch that resolves the issue about ``part``."""
    path = f"shop/{part}.py"
    change = f"@@ -1,2 +1,2 @@\n def total_{part}(goods):\n-    return 'wrong'\n+    return 'right'\n"
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{change}"


class Scripted:
    """Plays an attempt: looks, changes the file, and says what each call used. At the issues in ``gives_up`` (numbers from 0) it hands in nothing.

    ``collected``: the change is left in the working copy to be collected, else it is handed in as a patch. ``before`` is called before it begins.
    """

    name = "repair"
    model = ""
    users_environment = False

    def __init__(
        self,
        *,
        gives_up: Callable[[int], bool] = lambda number: number % 3 == 2,
        collected: bool = True,
        usage: Usage = Usage(1, 100, 10, 0.25),
        before: Callable[[Assignment, Environment], None] = lambda _, __: None,
    ) -> None:
        self._gives_up, self._collected, self._usage, self._before = gives_up, collected, usage, before

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        number = int(work.issue.id.rpartition("-")[2]) - 1
        part = part_of(number)
        self._before(work, environment)
        steps = []
        for thought, command, output, code in _script(part, gives_up=self._gives_up(number)):
            work.meter.check()
            work.meter.add(self._usage)
            if self._collected and command.startswith("sed"):
                environment.execute(command)
            steps.append(Step(thought, (Action(command, output, code),)))
        patch = None if self._collected else "" if self._gives_up(number) else fix(part)
        cost = None if self._usage.cost is None else self._usage.cost * len(steps)
        return Trajectory(
            tuple(steps), "Submitted", patch, work.issue.id, work.issue.text, agent=self.name, reported_calls=len(steps), cost=cost
        )


def _script(part: str, *, gives_up: bool) -> list[tuple[str, str, str, int]]:
    """(thought, command, output, return code) of each step."""
    see = f"cat <<'EOF' > see.py\nfrom shop.{part} import total_{part}\nassert total_{part}([]) == 'right'\nEOF"
    trace = f"Traceback (most recent call last):\n  File 'see.py', line 2\nAssertionError: total_{part} says wrong\n"
    steps = [("I'll write a script to see it.", see, "", 0), ("Run it.", "python see.py", trace, 1)]
    if gives_up:
        return [*steps, ("I cannot find out why.", f"cat shop/{part}.py", "def total\n", 0)]
    why = f"The issue is that `total_{part}` returns the wrong word, because nobody asked for another."
    return [
        *steps,
        (why, f"sed -i s/wrong/right/ shop/{part}.py", "", 0),
        ("Run the script again.", "python see.py", "", 0),
        ("Now the tests.", f"python -m pytest tests/test_{part}.py", "3 passed in 0.1s\n", 0),
    ]


# -- running it ------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """A dataset on disk, and ``swe-memory run`` on it."""

    dataset: Path
    repositories: Path

    def run(self, out: Path, *more: object, agent: Agent | None = None) -> Result:
        """What the command does with these flags, and with ``agent`` in place of the named one; an error is in it."""
        flags = [str(flag) for flag in ("--dataset", self.dataset, "--repositories", self.repositories, "--out", out, *more)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("harness.scheduler.make_agent", lambda *_, **__: agent or Scripted())
            return CliRunner().invoke(run_cli, flags)

    def good(self, out: Path, *more: object, agent: Agent | None = None) -> RunState:
        """The state after a run that must end well."""
        result = self.run(out, *more, agent=agent)
        assert result.exit_code == 0, (result.output, result.exception)
        return read_state(out / "events.jsonl")


def make_bench(folder: Path, issues: int = 4) -> Bench:
    """See :func:`write_quick_bench`."""
    return Bench(*write_quick_bench(folder, issues))


@contextmanager
def one_grading_process() -> Iterator[None]:
    """All runs meanwhile ask one process that has swebench loaded, which takes most of a second, instead of starting one each."""
    real = Grader._ask
    with Grader() as shared, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grader, "_ask", lambda _, request: real(shared, request))
        patch.setattr(Grader, "start", lambda _: shared)
        yield


def arms(*names: str) -> list[str]:
    """Flags that name them."""
    return [part for name in names for part in ("--arm", name)]


# -- what a run came to ----------------------------------------------------------------------------------------------------------------------

ONCE = ("finished", "graded", "learned", "frozen")
"""Events that come once for each attempt or bank, however often the run was killed."""


def facts(out: Path) -> dict[str, Any]:
    """Everything of a finished run that must depend on neither kills, times nor workers."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        whole = path.name in ("preds.json", "experiment.json", "report.json", "patch.diff") or path.parent.name == "recalls"
        if whole or path.name.endswith(".traj.json"):
            found[name] = path.read_bytes()
        elif path.name == "bank.lance":
            found[name] = bank_facts(path)
    found["results"] = _timeless(json.loads((out / "results.json").read_text()))
    # How many drafts were refused is not known any more where a kill came between the bank and the journal.
    drop = ("at", "t", "seconds", "rejected", "trajectory_sha256")  # the files themselves are compared
    events = [{key: value for key, value in event.items() if key not in drop} for event in read_events(out / "events.jsonl")[0]]
    lines = [(event["event"], json.dumps(event, sort_keys=True)) for event in events]
    found["events"] = Counter(line for kind, line in lines if kind in ONCE)
    # An attempt that was killed is started again, and what it used is used.
    found["started"] = {line for kind, line in lines if kind == "started"}
    found["usage"] = {line for kind, line in lines if kind == "usage"}
    return found


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two facts differ, a line for each place."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other}, key=str)
        return [line for name in names for line in differences(one.get(name), other.get(name), f"{where}/{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for place, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{where}/{place}")]
    return [] if one == other else [f"{where}: {str(one)[:300]} | {str(other)[:300]}"]


# What depends on times and folders' names, or on what killed attempts used.
_LOOSE = {"run", "sources", "seconds", "usage", "sentences", "threats", "cost", "tokens", "input_tokens", "output_tokens"}
_LOOSE |= {"per_resolved", "measures", "steps", "memory_usage"}


def _timeless(value: Any) -> Any:
    """Results without :data:`_LOOSE`."""
    if isinstance(value, dict):
        return {name: _timeless(part) for name, part in value.items() if name not in _LOOSE}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def bank_facts(path: Path) -> dict[str, Any]:
    """All that a bank says, times and random names aside."""
    with MemoryBank.open(path, create=False, read_only=True) as bank:
        return {
            "version": bank.version,
            "experiences": [repr(experience) for experience in bank.experiences()],
            "items": [repr(item) for item in bank.items()],
            "uses": [repr(use) for use in bank.uses()],
        }
