"""One attempt from recall to learning, each stage acknowledged in the journal before the next begins; and the trajectory file of an attempt.

What is learned from is the trajectory as it was written, read back, so that an attempt that is picked up after a kill is the same attempt, to the byte.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.agents import Agent, Assignment, Limits
from harness.metering import Meter
from harness.events import AttemptState, Journal, write_file
from harness.files import remove_tree, to_bytes
from swe_memory.errors import InfraError, SweMemoryError, TrajectoryError
from swe_memory.records import Action, Issue, Judge, Recall, Trajectory, Verdict

if TYPE_CHECKING:
    from harness.environments import Environment, Execution
    from harness.grading import Grader
    from harness.instances import Instance
    from harness.workdir import Workdir
    from swe_memory.bank import MemoryBank

SYSTEM = "You fix one issue in a git repository by bash commands, one a turn."
TESTBED = "/testbed"
"""How the working copy's path is written in a recorded trajectory: the real one differs from run to run and says nothing."""

_LONGEST_TRACEBACK = 8_000  # characters
_predictions = threading.Lock()


@dataclass(frozen=True, slots=True)
class Setting:
    """What all attempts of one stream share. ``bank`` is None in an arm without memory, ``judge`` where
    the hidden tests' verdict is learned from; ``folder`` is ARM/ORDER-RERUN, ``scratch`` holds working copies,
    ``halt`` stops an attempt under way, ``variables`` are added to the environment of the agent's commands."""

    arm: str
    stream: str
    agent: Agent
    limits: Limits
    judge: Judge | None
    grader: Grader
    journal: Journal
    folder: Path
    scratch: Path
    halt: threading.Event
    bank: MemoryBank | None = None
    test_seconds: float = 300.0
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, for showing progress. ``failure`` is the infra failure's message, "" for none."""

    arm: str
    issue: str
    resolved: bool = False
    calls: int = 0
    exit_status: str = ""
    recalled: str = ""
    failure: str = ""


class Halted(BaseException):
    """The user wants to stop now. Not an Exception, so that no agent takes it for a failure of its own."""


class Stoppable:
    """An environment that refuses to go on once the run is halted."""

    def __init__(self, environment: Environment, halt: threading.Event) -> None:
        self._environment = environment
        self._halt = halt

    def execute(self, command: str, *, timeout: float | None = None) -> Execution:
        """See :class:`harness.environments.Environment`."""
        if self._halt.is_set():
            raise Halted
        execution = self._environment.execute(command, timeout=timeout)
        if self._halt.is_set():
            raise Halted
        return execution

    def close(self) -> None:
        """See :class:`harness.environments.Environment`."""
        self._environment.close()


def run_attempt(setting: Setting, instance: Instance, state: AttemptState | None) -> Outcome:
    """Do what is left to do of one attempt: run, grade, learn.

    ``state`` is what the journal knows of it. An attempt that was started and not finished is run again from the start. Raises InfraError where the
    machine failed (written down as ``failed``); nothing is judged or learned then. An error that nobody foresaw counts as one, with its traceback
    in the journal: it must not end a run of days. What is wrong with the whole run (its bank, its journal, its settings) still ends it.
    """
    where = {"arm": setting.arm, "stream": setting.stream, "issue": instance.issue.id}
    try:
        if state is None or not state.finished:
            recall = setting.bank.recall(instance.issue) if setting.bank else None
            finished = _run(setting, instance, recall, where)
        else:
            finished, recall = state.finished, None
            if setting.bank and not state.learned:
                recall = setting.bank.recall(instance.issue, at=int(state.started["recall"]["bank_version"]))
        graded = state.graded if state is not None and state.graded else _grade(setting, instance, finished, where)
        if setting.bank and not (state is not None and state.learned):
            _learn(setting, instance.issue, graded, recall, where)
        recalled = str((recall_record(recall) or {}).get("title") or "")
        calls, status = int(finished["calls"]), str(finished["exit_status"])
        return Outcome(setting.arm, instance.issue.id, bool(graded["resolved"]), calls, status, recalled)
    except Exception as error:
        told: dict[str, str] = {}
        if isinstance(error, SweMemoryError) and not isinstance(error, InfraError | TrajectoryError):
            raise
        if not isinstance(error, SweMemoryError | OSError):
            told["traceback"] = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
        reason = f"{type(error).__name__}: {error}" if told else str(error)
        setting.journal.append("failed", **where, reason=reason, **told)
        raise InfraError(
            f"{instance.issue.id} ({setting.arm}): {reason}", "It was not judged and not learned from; --resume tries it again."
        ) from error


def _run(setting: Setting, instance: Instance, recall: Recall | None, where: dict[str, str]) -> Mapping[str, Any]:
    from harness.environments.local import LocalEnvironment
    from harness.workdir import workdir_for

    issue = instance.issue
    memory = recall.prompt if recall else ""
    setting.journal.append("started", **where, recall=recall_record(recall))
    began = time.monotonic()
    place = setting.scratch / f"{setting.arm}-{setting.stream}-{issue.id}"
    place.parent.mkdir(parents=True, exist_ok=True)
    if not remove_tree(place):  # an earlier try left what cannot be removed (a mount, an immutable file)
        place = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
    try:
        workdir = workdir_for(instance, place / "repo")
        with LocalEnvironment(
            workdir.path, timeout=setting.limits.command_seconds, variables=setting.variables, parent=setting.scratch
        ) as environment:
            meter = Meter(setting.limits)
            (place / "scratch").mkdir()
            work = Assignment(issue, memory, setting.limits, meter, workdir.path, place / "scratch")
            trajectory = _guarded(setting, work, Stoppable(environment, setting.halt))
        if trajectory.patch is None:
            trajectory = _collected(trajectory, workdir)
    finally:
        remove_tree(place)
    trajectory = replace(trajectory, issue_id=issue.id, steps=_without_path(trajectory, place / "repo"))
    document = trajectory_document(trajectory, memory, {**where, "recall": recall_record(recall)}, setting.limits)
    write_file(trajectory_path(setting.folder, issue.id), json.dumps(document, indent=1) + "\n")
    # What is graded is the patch as it is read back: a reader drops what no patch can hold (a NUL, half a surrogate pair, text that is no diff).
    patch = read_trajectory(setting.folder, issue.id).patch or ""
    add_prediction(setting.folder, issue.id, setting.agent.name, setting.arm, patch)
    return setting.journal.append(
        "finished",
        **where,
        exit_status=trajectory.exit_status,
        calls=trajectory.calls,
        actions=trajectory.actions,
        cost=trajectory.cost,
        patch_sha256=_sha(patch),
        seconds=round(time.monotonic() - began, 3),
    )


def _guarded(setting: Setting, work: Assignment, environment: Environment) -> Trajectory:
    """The agent's run. An agent that crashes has failed its attempt, as one that gives up has; a run of days must not end with it."""
    try:
        return setting.agent.run(work, environment)
    except (SweMemoryError, OSError):
        raise
    except Exception as error:
        issue = work.issue
        return Trajectory((), f"AgentError: {type(error).__name__}: {error}"[:200], "", issue.id, issue.text, agent=setting.agent.name)


def _collected(trajectory: Trajectory, workdir: Workdir) -> Trajectory:
    """With the patch that the agent left to be collected; where none can be taken, that is how its attempt ended."""
    from harness.workdir import PatchRefused

    try:
        return replace(trajectory, patch=workdir.patch())
    except PatchRefused as error:
        return replace(trajectory, patch="", exit_status=error.status)


def _sha(patch: str | None) -> str:
    return hashlib.sha256(to_bytes(patch or "")).hexdigest()


def _without_path(trajectory: Trajectory, path: Path) -> tuple[Any, ...]:
    shown = sorted({str(path), str(path.resolve())}, key=len, reverse=True)

    def clean(action: Action) -> Action:
        output = action.output
        for name in shown:
            output = output.replace(name, TESTBED)
        return replace(action, output=output)

    return tuple(replace(step, actions=tuple(map(clean, step.actions))) for step in trajectory.steps)


def _grade(setting: Setting, instance: Instance, finished: Mapping[str, Any], where: dict[str, str]) -> Mapping[str, Any]:
    trajectory = read_trajectory(setting.folder, instance.issue.id)
    if _sha(trajectory.patch) != finished["patch_sha256"]:
        what = f"{trajectory_path(setting.folder, instance.issue.id)} does not hold the patch that the journal speaks of"
        raise SweMemoryError(what, "It was changed after the attempt. Restore it, or start a new run.")
    logs = setting.folder / "logs" / instance.issue.id
    shutil.rmtree(logs, ignore_errors=True)
    grade = setting.grader.grade(instance, trajectory.patch, timeout=setting.test_seconds, logs=logs)
    if grade.outcome == "infra":
        raise InfraError(grade.reason)
    if setting.judge is None:
        verdict = Verdict.from_tests(resolved=grade.resolved)
    else:
        verdict = setting.judge.judge(instance.issue, trajectory)
    return setting.journal.append(
        "graded",
        **where,
        resolved=grade.resolved,
        outcome=grade.outcome,
        reason=grade.reason,
        flags=list(grade.flags),
        verdict={"outcome": verdict.outcome, "source": verdict.source, "reason": verdict.reason, "confidence": verdict.confidence},
    )


def _learn(setting: Setting, issue: Issue, graded: Mapping[str, Any], recall: Recall | None, where: dict[str, str]) -> None:
    assert setting.bank is not None
    said = graded["verdict"]
    verdict = Verdict(said["outcome"], said["source"], said["reason"], said["confidence"])
    trajectory = read_trajectory(setting.folder, issue.id)
    source = f"{setting.arm}/{setting.stream}/{issue.id}"
    learned = setting.bank.learn(issue, trajectory, verdict, recall=recall, session=f"{setting.arm}/{setting.stream}", source=source)
    if learned.usage.calls:
        usage = learned.usage
        setting.journal.append("usage", **where, calls=usage.calls, input=usage.input_tokens, output=usage.output_tokens, cost=usage.cost)
    setting.journal.append(
        "learned",
        **where,
        key=learned.key,
        items=[{"id": item.id, "title": item.title, "reach": item.reach, "polarity": item.polarity} for item in learned.items],
        quarantined=len(learned.quarantined),
        rejected=len(learned.rejected),
        bank_version=learned.bank_version,
    )


def recall_record(recall: Recall | None) -> dict[str, Any] | None:
    """What is written down about a recall; None in an arm without memory."""
    if recall is None:
        return None
    item = recall.item
    return {
        "bank_version": recall.bank_version,
        "score": recall.score if math.isfinite(recall.score) else None,
        "item": item.id if item else None,
        "title": item.title if item else None,
        "learned_from": item.provenance.issue_id if item else None,
        "outcome": item.provenance.outcome if item else None,
        "verdict_source": item.provenance.verdict_source if item else None,
        "reasons": list(recall.reasons),
        "settings": recall.settings,
    }


def trajectory_path(folder: Path, issue_id: str) -> Path:
    """``trajs/ID/ID.traj.json`` in a stream's folder."""
    return folder / "trajs" / issue_id / f"{issue_id}.traj.json"


def read_trajectory(folder: Path, issue_id: str) -> Trajectory:
    """The stored trajectory of an attempt. Raises SweMemoryError where it is gone or damaged."""
    from swe_memory.trajectories import load_trajectory

    path = trajectory_path(folder, issue_id)
    if not path.is_file():
        raise SweMemoryError(f"{path} is missing although the journal says that the attempt finished", "Restore it, or start a new run.")
    return replace(load_trajectory(path), issue_id=issue_id)


def trajectory_document(trajectory: Trajectory, memory: str, extra: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """A trajectory as mini-SWE-agent 2 writes it (format 1.1, tool calls), readable by its inspector. ``extra`` goes to ``info.swe_memory``."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": f"{SYSTEM}\n\n{memory}" if memory else SYSTEM},
        {"role": "user", "content": trajectory.task},
    ]
    for number, step in enumerate(trajectory.steps, 1):
        actions = [{"command": a.command, "tool_call_id": f"call_{number}_{i}"} for i, a in enumerate(step.actions, 1)]
        tools = [
            {"id": a["tool_call_id"], "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": a["command"]})}}
            for a in actions
        ]
        messages.append({"role": "assistant", "content": step.thought, "tool_calls": tools, "extra": {"actions": actions, "cost": 0.0}})
        for told, action in zip(actions, step.actions, strict=True):
            content = f"<returncode>{action.returncode}</returncode>\n<output>\n{action.output}</output>"
            observed = {"raw_output": action.output, "returncode": action.returncode, "exception_info": ""}
            messages.append({"role": "tool", "tool_call_id": told["tool_call_id"], "content": content, "extra": observed})
        if step.feedback:
            messages.append({"role": "user", "content": step.feedback})
    ending = {"exit_status": trajectory.exit_status, "submission": trajectory.patch or ""}
    messages.append({"role": "exit", "content": trajectory.patch or "", "extra": ending})
    info = {
        "model_stats": {"instance_cost": trajectory.cost or 0.0, "api_calls": trajectory.calls},
        "config": {
            "agent": {"step_limit": limits.calls},
            "agent_type": f"harness.agents.{trajectory.agent}",
            "model": {"model_name": trajectory.model},
        },
        **ending,
        "swe_memory": dict(extra),
    }
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": trajectory.issue_id}


def add_prediction(folder: Path, issue_id: str, agent: str, arm: str, patch: str) -> None:
    """Put one attempt's patch into ``preds.json``, in the form that the SWE-bench leaderboard takes."""
    path = folder / "preds.json"
    with _predictions:
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        known[issue_id] = {"model_name_or_path": f"{agent}+{arm}", "instance_id": issue_id, "model_patch": patch}
        write_file(path, json.dumps(dict(sorted(known.items())), indent=1) + "\n")
