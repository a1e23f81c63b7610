"""One attempt's stages: run and grade, each acknowledged in the journal before the next begins.

What is graded, and later learned from, is the trajectory as it was written, read back, so that an attempt that is picked up after a kill is the same
attempt, to the byte. Nothing here knows what an arm is for: whether a failure is the machine's is decided by the error alone.
"""

from __future__ import annotations

import shutil
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.agents import Agent, Assignment
from harness.agents.command import CALLS_UNKNOWN
from harness.events import Journal, write_file
from harness.layout import Cell
from harness.metering import STATUS, LimitReached, Limits, Meter
from harness.tasks import Stopped
from harness.trajectory_file import (
    add_prediction,
    file_sha256,
    patch_sha256,
    prediction_name,
    read_as_it_is,
    read_trajectory,
    trajectory_document,
    trajectory_path,
)
from swe_memory.errors import InfraError, ModelError, SweMemoryError, TrajectoryError
from swe_memory.rate import Stopped as WaitStopped
from swe_memory.records import Action, Issue, Step, Trajectory, Usage, Verdict

if TYPE_CHECKING:
    from harness.environments import Environment, Execution
    from harness.equipment import Grades
    from harness.instances import Instance
    from harness.places import Place, Places

_LONGEST_TRACEBACK = 8_000  # characters

Stage = Literal["run", "grade", "learn"]


@dataclass(frozen=True, slots=True)
class Given:
    """What memory gave to an attempt: the bank's id ("" for none), the record of the recall (None in an arm without memory), and the prompt text."""

    bank: str = ""
    record: Mapping[str, Any] | None = None
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all attempts of a run share.

    ``judge`` gives the verdict that memory learns from, or None where nobody asks for one. ``folder`` is the run's, ``places`` makes working
    copies, ``halt`` stops attempts under way, ``testing`` bounds how many test runs go on side by side, ``spent`` is told what each model call used.
    """

    agent: Agent
    limits: Limits
    judge: Callable[[Cell, Issue, Trajectory, bool], Verdict | None]
    grader: Grades
    journal: Journal
    folder: Path
    places: Places
    halt: threading.Event
    testing: threading.Semaphore
    spent: Callable[[Usage], None] = lambda _: None
    test_seconds: float = 300.0

    def place(self, cell: Cell) -> Path:
        """The folder of an attempt's stream."""
        return self.folder / cell.arm.folder / cell.stream

    def prediction_name(self, cell: Cell) -> str:
        """What the predictions of an attempt's stream are called."""
        return prediction_name(self.agent.name, self.agent.model, cell.arm.name)


def where(cell: Cell) -> dict[str, str]:
    """How events name an attempt."""
    return {"arm": cell.arm.name, "stream": cell.stream, "issue": cell.issue}


class Stoppable:
    """An environment that refuses to go on once the run is halted."""

    def __init__(self, environment: Environment, halt: threading.Event) -> None:
        self._environment = environment
        self._halt = halt

    def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:
        """See :class:`harness.environments.Environment`."""
        if self._halt.is_set():
            raise Stopped
        execution = self._environment.execute(command, timeout=timeout, stop=stop)
        if self._halt.is_set():
            raise Stopped
        return execution

    def close(self) -> None:
        """See :class:`harness.environments.Environment`."""
        self._environment.close()


def guarded(journal: Journal, cell: Cell, stage: Stage, work: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """One stage of an attempt. Raises InfraError where the machine failed (written down as ``failed``): nothing is judged or learned then.

    An error that nobody foresaw counts as one, with its traceback in the journal: it must not end a run of days. What is wrong with the whole run (its
    bank, its journal, its settings, its key) is raised as it is and ends the run.
    """
    try:
        return work()
    except Exception as error:
        told: dict[str, str] = {}
        if isinstance(error, WaitStopped):
            raise Stopped from error
        if isinstance(error, SweMemoryError) and not isinstance(error, InfraError | TrajectoryError | ModelError):
            raise
        if isinstance(error, ModelError) and getattr(error, "stop", False):
            raise
        if not isinstance(error, SweMemoryError | OSError):
            told["traceback"] = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
        reason = f"{type(error).__name__}: {error}" if told else str(error)
        journal.append("failed", **where(cell), stage=stage, reason=reason, **told)
        hint = "It was not judged and not learned from; --resume tries it again."
        raise InfraError(f"{cell.issue} ({cell.arm.name}): {reason}", hint) from error


def run_stage(setting: Setting, cell: Cell, instance: Instance, given: Given) -> Mapping[str, Any]:
    """Let the agent work on a fresh copy of the repository; the ``finished`` event. An attempt that was started before begins anew."""
    setting.journal.append("started", **where(cell), bank=given.bank or None, recall=given.record)
    began = time.monotonic()
    if cell.arm.kind == "gold":
        with setting.places.open(cell, instance, users_environment=False):
            pass  # an issue that no attempt can begin on is found out here, too
        return _finish(setting, cell, Trajectory((), "Gold", instance.grading.patch, cell.issue), began, [])
    notes: list[str] = []
    with setting.places.open(cell, instance, users_environment=setting.agent.users_environment) as place:
        meter = Meter(setting.limits, lambda usage: _spent(setting, cell, usage))
        work = Assignment(instance.issue, given.prompt, setting.limits, meter, place.workdir, place.scratch, notes)
        trajectory = _agent(setting, work, Stoppable(place.environment, setting.halt))
        if CALLS_UNKNOWN in notes:  # what it cost is not known either, and no budget in dollars may take that for nothing
            _spent(setting, cell, Usage(cost=None))
        if trajectory.patch is None:
            trajectory = _collected(trajectory, place, notes)
        steps = _plain_steps(trajectory, place)
        prepared = dict(place.prepared)
    trajectory = replace(trajectory, issue_id=cell.issue, steps=steps)
    about = {**where(cell), "recall": given.record, "notes": notes, **({"prepared": prepared} if prepared else {})}
    write_file(trajectory_path(setting.place(cell), cell.issue), trajectory_document(trajectory, given.prompt, about, setting.limits))
    # What is graded is the patch as it is read back: a reader drops what no patch can hold (a NUL, half a surrogate pair, text that is no diff).
    trajectory = replace(trajectory, patch=read_as_it_is(setting.place(cell), cell.issue).patch)
    add_prediction(setting.place(cell), cell.issue, setting.prediction_name(cell), trajectory.patch or "")
    return _finish(setting, cell, trajectory, began, notes)


def _finish(setting: Setting, cell: Cell, trajectory: Trajectory, began: float, notes: list[str]) -> Mapping[str, Any]:
    counted = CALLS_UNKNOWN not in notes
    return setting.journal.append(
        "finished",
        **where(cell),
        exit_status=trajectory.exit_status,
        calls=trajectory.calls if counted else None,
        actions=trajectory.actions if counted else None,
        cost=trajectory.cost,
        limit=next((limit for limit, status in STATUS.items() if status == trajectory.exit_status), ""),
        patch_sha256=patch_sha256(trajectory.patch),
        trajectory_sha256=file_sha256(trajectory_path(setting.place(cell), cell.issue)),
        seconds=round(time.monotonic() - began, 3),
        notes=notes,
    )


def _spent(setting: Setting, cell: Cell, usage: Usage) -> None:
    """Write down what a call of the agent used, before anything follows from it."""
    write_usage(setting.journal, cell, "agent", usage)
    setting.spent(usage)


def write_usage(journal: Journal, cell: Cell, role: str, usage: Usage, bank: str = "") -> None:
    """A ``usage`` event."""
    more = {"bank": bank} if bank else {}
    spent = {"calls": usage.calls, "input": usage.input_tokens, "output": usage.output_tokens, "cost": usage.cost}
    journal.append("usage", **where(cell), role=role, **spent, **more)


def _agent(setting: Setting, work: Assignment, environment: Environment) -> Trajectory:
    """The agent's run. An agent that crashes has failed its attempt, as one that gives up has; a run of days must not end with it."""
    issue, name = work.issue, setting.agent.name
    try:
        return setting.agent.run(work, environment)
    except LimitReached as reached:
        return Trajectory((), reached.status, None, issue.id, issue.text, agent=name)
    except (SweMemoryError, OSError):
        raise
    except Exception as error:
        return Trajectory((), f"AgentError: {type(error).__name__}: {error}"[:200], "", issue.id, issue.text, agent=name)


def _collected(trajectory: Trajectory, place: Place, notes: list[str]) -> Trajectory:
    """With the patch that the agent left to be collected; where none can be taken, that is how its attempt ended."""
    from harness.workdir import PatchRefused

    try:
        return replace(trajectory, patch=place.patch())
    except PatchRefused as error:
        notes.append(place.plain(f"no patch was taken: {error.what}"))
        return replace(trajectory, patch="", exit_status=error.status)


def _plain_steps(trajectory: Trajectory, place: Place) -> tuple[Step, ...]:
    def plain(step: Step) -> Step:
        actions = tuple(Action(place.plain(action.command), place.plain(action.output), action.returncode) for action in step.actions)
        return Step(place.plain(step.thought), actions, place.plain(step.feedback))

    return tuple(map(plain, trajectory.steps))


def grade_stage(setting: Setting, cell: Cell, instance: Instance, finished: Mapping[str, Any]) -> Mapping[str, Any]:
    """Grade a finished attempt by the hidden tests and, where memory learns from it, judge it; the ``graded`` event."""
    if cell.arm.kind == "gold":
        patch: str | None = instance.grading.patch
        trajectory = None
    else:
        trajectory = read_trajectory(setting.place(cell), cell.issue, finished)
        patch = trajectory.patch
    logs = setting.place(cell) / "logs" / cell.issue
    shutil.rmtree(logs, ignore_errors=True)
    with setting.testing:
        if setting.halt.is_set():
            raise Stopped
        grade = setting.grader.grade(instance, patch, timeout=setting.test_seconds, logs=logs)
    if grade.outcome == "infra":
        raise InfraError(grade.reason)
    verdict = setting.judge(cell, instance.issue, trajectory, grade.resolved) if trajectory else None
    return setting.journal.append(
        "graded",
        **where(cell),
        resolved=grade.resolved,
        outcome=grade.outcome,
        reason=grade.reason,
        flags=list(grade.flags),
        verdict=verdict_record(verdict) if verdict else None,
    )


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """A verdict as the journal keeps it."""
    return {
        "outcome": verdict.outcome,
        "source": verdict.source,
        "reason": verdict.reason,
        "confidence": verdict.confidence,
        "model": verdict.model,
        "prompt": verdict.prompt,
    }


def verdict_from(record: Mapping[str, Any]) -> Verdict:
    """The verdict of a record."""
    return Verdict(
        record["outcome"], record["source"], record["reason"], record["confidence"], record.get("model", ""), record.get("prompt", "")
    )
