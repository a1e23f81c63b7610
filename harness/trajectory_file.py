"""The files of an attempt in a stream's folder: its trajectory, readable by mini-SWE-agent's inspector, and its line in ``preds.json``."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.events import write_file
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


def read_trajectory(folder: Path, issue_id: str) -> Trajectory:
    """The stored trajectory of an attempt. Raises SweMemoryError where it is gone or damaged."""
    from swe_memory.trajectories import load_trajectory

    path = trajectory_path(folder, issue_id)
    if not path.is_file():
        raise SweMemoryError(f"{path} is missing although the journal says that the attempt finished", "Restore it, or start a new run.")
    return replace(load_trajectory(path), issue_id=issue_id)


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


def add_prediction(folder: Path, issue_id: str, name: str, patch: str) -> None:
    """Put one attempt's patch into ``preds.json``, in the form that the SWE-bench leaderboard takes. ``name`` tells whose patch it is."""
    path = folder / "preds.json"
    with _predictions:
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        known[issue_id] = {"model_name_or_path": name, "instance_id": issue_id, "model_patch": patch}
        write_file(path, json.dumps(dict(sorted(known.items())), indent=1) + "\n")
