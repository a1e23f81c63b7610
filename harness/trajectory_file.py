"""The files of an attempt in a stream's folder: its trajectory, readable by mini-SWE-agent's inspector, and its line in ``preds.json``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.events import write_file
from harness.files import to_bytes
from harness.metering import Limits
from swe_memory.errors import SweMemoryError
from swe_memory.records import Trajectory

SYSTEM = "You fix one issue in a git repository by bash commands, one a turn."

_predictions = threading.Lock()


@dataclass(frozen=True, slots=True)
class Recorded(Trajectory):
    """A trajectory with the document that its agent made of it, in mini-SWE-agent's format 1.1: more than the steps (thinking, the use of each call)."""

    document: Mapping[str, Any] = field(default_factory=dict, compare=False)


def trajectory_path(folder: Path, issue_id: str) -> Path:
    """``trajs/ID/ID.traj.json`` in a stream's folder."""
    return folder / "trajs" / issue_id / f"{issue_id}.traj.json"


def read_trajectory(folder: Path, issue_id: str, finished: Mapping[str, Any]) -> Trajectory:
    """The stored trajectory of an attempt, ``finished`` being the event that says what it has to be.

    Raises SweMemoryError where it is gone, damaged, or not as the attempt left it.
    """
    trajectory = read_as_it_is(folder, issue_id)
    if (what := changed(folder, issue_id, trajectory, finished)) is not None:
        raise SweMemoryError(what, "It was changed after the attempt. Restore it, or start a new run.")
    return trajectory


def read_as_it_is(folder: Path, issue_id: str) -> Trajectory:
    """The same, whatever became of the file since. Raises SweMemoryError where it is gone or damaged."""
    from swe_memory.trajectories import load_trajectory

    path = trajectory_path(folder, issue_id)
    if not path.is_file():
        raise SweMemoryError(f"{path} is missing although the journal says that the attempt finished", "Restore it, or start a new run.")
    return replace(load_trajectory(path), issue_id=issue_id)


def changed(folder: Path, issue_id: str, trajectory: Trajectory, finished: Mapping[str, Any]) -> str | None:
    """In what a stored trajectory is not the one that finished, in words; None for nothing. Journals of earlier versions know the patch's hash alone."""
    path = trajectory_path(folder, issue_id)
    if patch_sha256(trajectory.patch) != finished["patch_sha256"]:
        return f"{path} does not hold the patch that the journal speaks of"
    known = finished.get("trajectory_sha256")
    if known and file_sha256(path) != known:
        return f"{path} is not the trajectory that the journal speaks of"
    return None


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def trajectory_document(trajectory: Trajectory, memory: str, extra: Mapping[str, Any], limits: Limits) -> str:
    """A trajectory as mini-SWE-agent 2 writes it (format 1.1, tool calls), readable by its inspector. ``extra`` goes to ``info.swe_memory``.

    Of a :class:`Recorded` one the document is kept as it is; its ending is that of the trajectory, whose patch may have been collected since.
    """
    if isinstance(trajectory, Recorded):
        ending = {"exit_status": trajectory.exit_status, "submission": trajectory.patch or ""}
        info = {**trajectory.document["info"], **ending, "swe_memory": dict(extra)}
        return json.dumps({**trajectory.document, "info": info, "instance_id": trajectory.issue_id}, indent=1) + "\n"
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
    whole = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": trajectory.issue_id}
    return json.dumps(whole, indent=1) + "\n"


def prediction_name(agent: str, model: str, arm: str) -> str:
    """Whose patches a stream's are, as a leaderboard shows it: ``AGENT+MODEL+ARM``, without MODEL where the agent asks none."""
    return "+".join(part for part in (agent, model, arm) if part)


def patch_sha256(patch: str | None) -> str:
    """The hash by which the journal knows a patch; no patch is an empty one."""
    return hashlib.sha256(to_bytes(patch or "")).hexdigest()


def add_prediction(folder: Path, issue_id: str, name: str, patch: str) -> None:
    """Put one attempt's patch into ``preds.json``, in the form that the SWE-bench leaderboard takes. ``name`` tells whose patch it is.

    A file that cannot be read is begun anew; :func:`mend_predictions` brings back what it held.
    """
    with _predictions:
        _write_predictions(folder, {**_predictions_in(folder), issue_id: _prediction(issue_id, name, patch)})


def mend_predictions(folder: Path, name: str, finished: Mapping[str, Mapping[str, Any]]) -> int:
    """Bring ``preds.json`` back to what the journal says, from the trajectories: issue id -> ``finished`` event, for each attempt that has one. Gives how
    many predictions were missing, unreadable, of another patch or by another name.

    Raises SweMemoryError where the trajectory of such a one is gone, damaged or changed.
    """
    with _predictions:
        known = _predictions_in(folder)
        wrong = [issue for issue, event in finished.items() if _known_as(known.get(issue)) != (name, event["patch_sha256"])]
        for issue in wrong:
            known[issue] = _prediction(issue, name, read_trajectory(folder, issue, finished[issue]).patch or "")
        if wrong:
            _write_predictions(folder, known)
    return len(wrong)


def _prediction(issue_id: str, name: str, patch: str) -> dict[str, str]:
    return {"model_name_or_path": name, "instance_id": issue_id, "model_patch": patch}


def _known_as(prediction: Any) -> tuple[Any, str]:
    """Whose patch it says that it is, and the patch's hash."""
    patch = prediction.get("model_patch") if isinstance(prediction, dict) else None
    return (prediction.get("model_name_or_path"), patch_sha256(patch)) if isinstance(patch, str) else (None, "")


def _predictions_in(folder: Path) -> dict[str, Any]:
    """What ``preds.json`` holds, nothing where it is not there or damaged."""
    known: Any = None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        known = json.loads((folder / "preds.json").read_text(encoding="utf-8"))
    return known if isinstance(known, dict) else {}


def _write_predictions(folder: Path, known: Mapping[str, Any]) -> None:
    write_file(folder / "preds.json", json.dumps(dict(sorted(known.items())), indent=1) + "\n")
