"""Runs on the small dataset through the command line, and an agent that does what it is told to."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from harness.agents import Assignment
from harness.cli import run
from harness.environments import Environment
from swe_memory.records import Action, Step, Trajectory

FIX = "sed -i 's/points > limit/points >= limit/' shop/marks.py"
"""What resolves the first issue of the small dataset."""


def arguments(bench: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    where = ["--dataset", str(bench[0]), "--repositories", str(bench[1]), "--out", str(out)]
    return [*where, "--call-limit", "16", "--protocol", "online", *more]


def invoke(bench: tuple[Path, Path], out: Path, *more: str) -> Result:
    return CliRunner().invoke(run, arguments(bench, out, *more))


class Scripted:
    """An agent that runs one command and submits what it is told to; None leaves the patch to be collected."""

    name = "repair"
    model = ""
    users_environment = False

    def __init__(self, command: str = "true", patch: str | None = None, error: Exception | None = None) -> None:
        self.command, self.patch, self.error = command, patch, error

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        done = environment.execute(self.command)
        if self.error:
            raise self.error
        steps = (Step("I act.", (Action(self.command, done.output, done.returncode),)),)
        return Trajectory(steps, "Submitted", self.patch, work.issue.id, "task", "mini-swe-agent-1.1", "none", self.name, 1, 0.0)
