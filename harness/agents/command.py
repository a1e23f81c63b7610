"""Any program as the agent: ``command: my-agent --repo {workdir} --issue {issue_file} --hints {memory_file} --out {patch_file}``.

The text after ``command:`` is one bash command, run at the root of the agent's fresh copy of the repository with the user's own environment variables. What
stands in braces is replaced by a quoted value (:mod:`harness.agents.command_template`):

====================  =============================================================================================
``{workdir}``         the copy of the repository
``{issue_file}``      the issue's text, as it was reported
``{memory_file}``     what memory says about it, to be put into the prompt; an empty file where it says nothing
``{patch_file}``      the program may write its patch there (a unified diff, UTF-8)
``{log_file}``        the program may append its steps there as it goes (JSON lines, :mod:`harness.agents.command_log`)
``{trajectory_file}`` or leave its trajectory there, in any format that :mod:`swe_memory.trajectories` reads
``{issue_id}`` ``{repo}`` ``{base_commit}``
                      of the issue
``{call_limit}``      calls (model turns) that an attempt may make
``{seconds}``         its time limit in seconds, 0 for none
====================  =============================================================================================

The patch is the patch file where it holds something, else what the program changed in the working copy, whether it committed that or not. How the attempt
ends is read from the exit code:

==========================  =========================================================================================
``Submitted``               0, with a patch or without
``ExitedWithN``             any other; its patch counts all the same
``KilledBySignalN``         a signal ended it (also where the shell says so: 128 + N)
``TimeLimitExceeded``       the time was over; everything that it started was ended
``LimitsExceeded``          it was ended at the limit of calls; ``TokenLimitExceeded`` and ``CostLimitExceeded`` likewise. Only a log makes that
                            possible while it runs: a program without one has to see to ``{call_limit}`` itself
an infra failure            75 (``EX_TEMPFAIL`` of sysexits.h): the program says that it was not its fault (the API is down, say). The attempt is not judged
                            and is tried again
==========================  =========================================================================================
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.agents.command_log import Unreadable, bounded_steps, read_left
from harness.agents.command_tail import LogTail
from harness.agents.command_template import CommandTemplate
from harness.files import to_bytes
from harness.metering import STATUS
from harness.workdir import MOST_BYTES
from swe_memory.errors import InfraError, TrajectoryError, UsageError
from swe_memory.records import Step, Trajectory, Usage

if TYPE_CHECKING:
    from harness.agents import Assignment
    from harness.environments import Environment, Execution

CALLS_UNKNOWN = "how many calls it made is not known: the program left neither a log nor a trajectory"
"""Stands among the notes exactly where a trajectory's ``reported_calls`` is None."""
PRINTED = "what the program printed last:"
"""Begins the note with the end of its output."""

_TEMPORARY = 75  # EX_TEMPFAIL
_NOT_FOUND = (126, 127)  # what a shell says of a program that it cannot run, or cannot find
_NEVER_STARTED = ("bash: cannot start", "bash: cannot keep")  # what the local environment says
_LARGEST_TRAJECTORY = 64 * 2**20  # bytes
_PRINTED_CHARS = 2_000
_AGAIN = "The attempt does not count and is tried again. See to the program, or to what it needs."
_FILES = {
    "issue_file": "issue.md",
    "memory_file": "memory.md",
    "patch_file": "patch.diff",
    "log_file": "log.jsonl",
    "trajectory_file": "trajectory.json",
}


class CommandAgent:
    """See the module. Raises UsageError for a command that cannot work (see :meth:`CommandTemplate.parse`). Holds nothing of an attempt."""

    model = ""
    users_environment = True

    def __init__(self, command: str) -> None:
        self._template = CommandTemplate.parse(command)
        self.name = self._template.name

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        """Run the program; see :class:`harness.agents.Agent`. The trajectory's patch is None where the program wrote none into its file.

        Raises UsageError where the copy of the repository is not on this machine, InfraError where it was not the program that failed.
        """
        if work.workdir is None:
            what = f"{self.name} is a program on this machine, but its copy of the repository is somewhere else"
            raise UsageError(what, "Let it run in the local environment.")
        scratch = work.scratch.resolve()
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            files = {name: scratch / file for name, file in _FILES.items()}
            files["issue_file"].write_bytes(to_bytes(work.issue.text))
            files["memory_file"].write_bytes(to_bytes(work.memory))
            workdir = work.workdir.resolve()
        except OSError as error:
            raise InfraError(f"cannot write the agent's files into {scratch}: {error.strerror}") from error
        values = {**{name: str(path) for name, path in files.items()}, **_values(work, workdir)}
        left = work.meter.seconds_left
        stop = threading.Event()
        with LogTail(files["log_file"], work.meter, stop) as log:
            execution = environment.execute(self._template.fill(values), timeout=math.inf if left is None else left, stop=stop)
        printed = _printed(execution.output, values)
        found = _from_log(log) if log.steps else self._from_file(work, files["trajectory_file"])
        self._check_machine(execution, printed, stopped=stop.is_set())
        work.notes.extend(log.notes)
        status = _status(execution)
        if log.limit is not None:
            status = STATUS[log.limit]
        elif (found.reported_calls or 0) > work.limits.calls:
            status = STATUS["calls"]
        if found.reported_calls is None:
            work.notes.append(CALLS_UNKNOWN)
        steps = tuple(_without_paths(step, values) for step in found.steps)
        patch = self._patch(work, files["patch_file"])
        if printed:
            work.notes.append(f"{PRINTED} {printed}")
        return replace(found, steps=steps, exit_status=status, patch=patch, issue_id=work.issue.id, task=work.issue.text, agent=self.name)

    def _check_machine(self, execution: Execution, printed: str, *, stopped: bool) -> None:
        """Raises InfraError where it was not the program that failed."""
        if execution.timed_out or stopped:
            return
        if execution.returncode == _TEMPORARY:
            said = f" It printed: {printed}" if printed else ""
            raise InfraError(f"{self.name} ended with exit code {_TEMPORARY}, a temporary failure by its own account.{said}", _AGAIN)
        if execution.returncode in _NOT_FOUND and (execution.output.startswith(_NEVER_STARTED) or not self._template.available):
            raise InfraError(f"{self.name} cannot be started any more: {printed or 'it is gone'}", _AGAIN)

    def _patch(self, work: Assignment, path: Path) -> str | None:
        """What the program wrote into its patch file, None for nothing. A last newline is added where it is missing: no diff applies without it."""
        try:
            patch = read_left(path, MOST_BYTES).decode("utf-8-sig")
        except Unreadable as why:
            work.notes.append(f"the patch file {why}; what the program changed in the working copy was taken")
            return None
        except UnicodeDecodeError as error:
            work.notes.append(f"the patch file is not UTF-8 (byte {error.start}); what the program changed in the working copy was taken")
            return None
        if not patch.strip():
            if "patch_file" in self._template.placeholders:
                work.notes.append("the program wrote no patch file; what it changed in the working copy was taken")
            return None
        return patch if patch.endswith("\n") else f"{patch}\n"

    def _from_file(self, work: Assignment, path: Path) -> Trajectory:
        """What the trajectory file tells, and to the meter as well; an empty trajectory where it tells nothing."""
        from swe_memory.trajectories import load_trajectory, parse_json

        try:
            data = read_left(path, _LARGEST_TRAJECTORY)
            if not data.strip():
                return Trajectory(())
            read = load_trajectory(parse_json(data, "the trajectory file"))
        except Unreadable as why:
            work.notes.append(f"the trajectory file {why}")
            return Trajectory(())
        except (TrajectoryError, ValueError, ArithmeticError, RecursionError) as error:
            what = error.what.replace("the given JSON", "the trajectory file") if isinstance(error, TrajectoryError) else ""
            work.notes.append(what or f"the trajectory file cannot be read: {error}")
            return Trajectory(())
        calls, sent, received = (_count(each) for each in (read.reported_calls, read.input_tokens, read.output_tokens))
        calls = max(calls or 0, read.calls)
        cost = read.cost if read.cost is not None and 0 <= read.cost < math.inf else None
        if read.exit_status and read.exit_status != "Submitted":
            work.notes.append(f"the trajectory file says how it ended: {read.exit_status[:200]}")
        work.meter.add(Usage(calls, sent or 0, received or 0, cost))
        return Trajectory(
            bounded_steps(read.steps),
            format=read.format,
            model=read.model[:200],
            reported_calls=calls,
            cost=cost,
            input_tokens=sent,
            output_tokens=received,
        )


def _values(work: Assignment, workdir: Path) -> dict[str, str]:
    issue, limits = work.issue, work.limits
    return {
        "workdir": str(workdir),
        "issue_id": issue.id,
        "repo": issue.repo,
        "base_commit": issue.base_commit,
        "call_limit": str(limits.calls),
        "seconds": "0" if limits.seconds is None else f"{limits.seconds:g}",
    }


def _from_log(log: LogTail) -> Trajectory:
    usage = log.usage
    return Trajectory(
        tuple(log.steps),
        format="json-lines",
        reported_calls=len(log.steps),
        cost=usage.cost,
        input_tokens=usage.input_tokens if log.counted else None,
        output_tokens=usage.output_tokens if log.counted else None,
    )


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < 2**53 else None


def _status(execution: Execution) -> str:
    if execution.timed_out:
        return STATUS["seconds"]
    code = execution.returncode
    number = -code if code < 0 else code - 128  # a shell that outlives its program tells its signal so
    if number in set(signal.Signals):
        return f"KilledBySignal{number}"
    return "Submitted" if code == 0 else f"ExitedWith{code}"


def _printed(output: str, values: Mapping[str, str]) -> str:
    """The end of what the program printed, without secrets."""
    from swe_memory.safety import clean, redact

    text, _ = redact(clean(output[-10 * _PRINTED_CHARS :]))
    text = _named(text, values).replace(values["workdir"], "{workdir}").strip()
    return text if len(text) <= _PRINTED_CHARS else f"... {text[-_PRINTED_CHARS:]}"


def _named(text: str, values: Mapping[str, str]) -> str:
    """``text`` with the names of the agent's files for their paths, which differ from run to run and say nothing."""
    if os.path.dirname(values["log_file"]) in text:  # noqa: PTH120
        for name in _FILES:
            text = text.replace(values[name], f"{{{name}}}")
    return text


def _without_paths(step: Step, values: Mapping[str, str]) -> Step:
    actions = tuple(replace(a, command=_named(a.command, values), output=_named(a.output, values)) for a in step.actions)
    return Step(_named(step.thought, values), actions, _named(step.feedback, values))
