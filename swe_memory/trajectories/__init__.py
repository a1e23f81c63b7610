"""Trajectory files of several agents, read into one record.

========================  =====================================================================================
``mini-swe-agent-1``      mini-SWE-agent 1.x: one bash block in the text of each turn
``mini-swe-agent-1.1``    mini-SWE-agent 2.x: tool calls (chat or responses API) or text, several actions a turn
``messages``              a bare list of chat messages (OpenAI's or Anthropic's shape), or ``{"messages": [...]}``
``swe-agent``             SWE-agent's ``.traj``
========================  =====================================================================================

A turn whose command was not executed (no block, several blocks, a malformed call) stays a step: without action, and with the environment's
answer as its feedback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swe_memory.errors import TrajectoryError, UsageError
from swe_memory.records import Trajectory
from swe_memory.trajectories.messages import is_message, read_messages
from swe_memory.trajectories.reading import MAX_FILE_BYTES, parse_json, plain_text, read_bytes
from swe_memory.trajectories.sweagent import read_swe_agent
from swe_memory.trajectories.task import issue_text

__all__ = [
    "FORMATS",
    "MAX_FILE_BYTES",
    "detect_format",
    "instance_id_of",
    "issue_text",
    "load_trajectory",
    "parse_json",
    "plain_text",
    "read_bytes",
]

FORMATS: tuple[str, ...] = ("mini-swe-agent-1", "mini-swe-agent-1.1", "messages", "swe-agent")

SUFFIXES = (".traj.json", ".traj", ".json")


def load_trajectory(path: str | Path | Mapping[str, Any] | list[Any], *, format: str | None = None) -> Trajectory:
    """Read one attempt, from a file or from JSON that is already parsed.

    ``format`` is one of ``FORMATS``; None finds out. The raw model responses in the file are not kept. ``patch`` is None where the file
    does not say what was submitted. ``issue_id`` is the file's own instance id, else its name without ``.traj.json`` or ``.traj``.

    Raises TrajectoryError where the file is missing, empty, cut off, not UTF-8, larger than ``MAX_FILE_BYTES`` or of another format, and
    UsageError for a ``format`` that does not exist.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown trajectory format {format!r}", f"Known: {', '.join(FORMATS)}; or leave it out.")
    if isinstance(path, str | Path):
        file = Path(path)
        where, data = str(file), parse_json(read_bytes(file), str(file))
    else:
        file, where, data = None, "the given JSON", path
    found = detect_format(data, where, expected=format)
    if found == "swe-agent":
        trajectory = read_swe_agent(data)
    elif isinstance(data, Mapping):
        info = data.get("info")
        trajectory = read_messages(data["messages"], info if isinstance(info, Mapping) else {}, found)
    else:
        trajectory = read_messages(data, {}, found)
    return replace(trajectory, issue_id=instance_id_of(data, file))


def detect_format(data: object, where: str = "the given JSON", *, expected: str | None = None) -> str:
    """The name of the format of parsed JSON. Raises TrajectoryError where it is none of ``FORMATS``, or not the expected one."""
    found = _detect(data)
    known = f"Readable: {', '.join(FORMATS)}."
    if found is None:
        declared = plain_text(data.get("trajectory_format"))[:60] if isinstance(data, Mapping) else ""
        if declared and declared not in FORMATS:
            raise TrajectoryError(
                f"{where} is in a format that is not known here: {declared!r}",
                f"{known} Pass format= if it is compatible with one of them.",
            )
        raise TrajectoryError(f"{where} is JSON, but not a trajectory: {_describe(data)}", known)
    if expected is None or expected == found:
        return found
    if expected == "swe-agent" or found == "swe-agent":
        raise TrajectoryError(
            f"{where} is not in the format {expected!r} that was asked for; it looks like {found!r}", "Leave the format out, or correct it."
        )
    return expected


def _detect(data: object) -> str | None:
    if isinstance(data, list):
        return "messages" if data and all(is_message(message) for message in data) else None
    if not isinstance(data, Mapping):
        return None
    messages = data.get("messages")
    if isinstance(messages, list):
        declared = data.get("trajectory_format")
        if not all(is_message(message) for message in messages):
            return None
        if declared in FORMATS:
            return str(declared)
        # Versions before the format had a name wrote `info` but not `trajectory_format`.
        return None if declared else ("mini-swe-agent-1" if isinstance(data.get("info"), Mapping) else "messages")
    if isinstance(data.get("trajectory"), list) and all(isinstance(entry, Mapping) for entry in data["trajectory"]):
        return "swe-agent"
    return None


def instance_id_of(data: object, file: Path | None) -> str:
    """The id of the issue that an attempt was about: what the file says, else the file's name, else ""."""
    if isinstance(data, Mapping) and isinstance(data.get("instance_id"), str) and data["instance_id"].strip():
        return plain_text(data["instance_id"]).strip()
    if file is None:
        return ""
    suffix = next((s for s in SUFFIXES if file.name.endswith(s)), file.suffix)
    return file.name[: len(file.name) - len(suffix)] if suffix else file.name


def _describe(data: object) -> str:
    if isinstance(data, Mapping):
        keys = [plain_text(key)[:30] for key in list(data)[:5]]
        return f"an object with the keys {', '.join(keys)}" if keys else "an empty object"
    if isinstance(data, list):
        return "an empty list" if not data else "a list of something other than messages"
    return f"a {type(data).__name__}"
