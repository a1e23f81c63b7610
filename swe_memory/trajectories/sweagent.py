"""SWE-agent's ``.traj`` files (0.x and 1.x): one entry a turn, with the action and the observation side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swe_memory.records import Action, Step, Trajectory
from swe_memory.trajectories.messages import first_user_text
from swe_memory.trajectories.reading import number, plain_text


def read_swe_agent(data: Mapping[str, Any]) -> Trajectory:
    """A trajectory from the parsed file.

    An entry in which the model neither said nor did anything is the environment's own, and becomes feedback to the step before it.
    """
    steps: list[Step] = []
    for entry in _list(data.get("trajectory")):
        if not isinstance(entry, Mapping):
            continue
        action = plain_text(entry.get("action")).strip()
        said = plain_text(entry.get("response"))
        thought = plain_text(entry.get("thought")).strip()
        observation = plain_text(entry.get("observation"))
        if action:
            steps.append(Step(thought or said.strip(), (Action(action, observation),)))
        elif said.strip():
            steps.append(Step(thought or said.strip(), feedback=observation))
        elif steps and (thought or observation):  # "Exit due to cost limit" and the like
            last = steps[-1]
            steps[-1] = Step(last.thought, last.actions, "\n".join(text for text in (last.feedback, thought, observation) if text))
    info = _mapping(data.get("info"))
    stats = _mapping(info.get("model_stats"))
    exit_status = plain_text(info.get("exit_status"))
    patch = plain_text(info["submission"], whole=True) if "submission" in info and (exit_status or info["submission"] is not None) else None
    sent, received, calls = number(stats.get("tokens_sent")), number(stats.get("tokens_received")), number(stats.get("api_calls"))
    known = bool(sent or received)  # replays and human runs count none
    return Trajectory(
        steps=tuple(steps),
        exit_status=exit_status,
        patch=patch,
        task=task_of(data),
        format="swe-agent",
        agent=f"swe-agent {plain_text(info.get('swe_agent_version'))}".strip(),
        reported_calls=None if calls is None else int(calls),
        cost=number(stats.get("instance_cost")) if known else None,
        input_tokens=int(sent) if known and sent is not None else None,
        output_tokens=int(received) if known and received is not None else None,
    )


def task_of(data: Mapping[str, Any]) -> str:
    """The issue as the agent saw it: the first user message that is not a demonstration, from the history or from the first query."""
    if text := first_user_text(_list(data.get("history"))):
        return text
    entries = _list(data.get("trajectory"))
    return first_user_text(_list(_mapping(entries[0]).get("query"))) if entries else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
