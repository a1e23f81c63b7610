"""Every attempt of a run as plain values: what it did, what it was given, and where its trajectory lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.reading import attempt_path
from harness.analysis.tables import Table
from harness.analysis.uptake import Uptake
from harness.events import AttemptState, RunState
from harness.layout import Cell
from harness.outcomes import ArmRows
from harness.trajectory_file import patch_sha256

Attempts = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""(arm, issue) -> its attempts by stream, as in ISSUE of :mod:`harness.analysis`."""
EMPTY = patch_sha256("")


def attempts_of(
    tables: Mapping[str, ArmRows], amounts: Mapping[str, Table], state: RunState, repositories: Mapping[str, str], uptake: Uptake
) -> Attempts:
    """The attempts of all arms. ``amounts``: by arm, where there are any."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for name, table in tables.items():
        place = {stream: number for number, stream in enumerate(table.streams)}
        for cell in table.cells:
            values = _attempt(cell, state, repositories, uptake)
            if name in amounts and values["state"] != "not started":
                at = place[cell.stream]
                values |= {measure: amounts[name].amounts[measure][cell.issue][at] for measure in ("tokens", "cost", "seconds")}
            found.setdefault((name, cell.issue), []).append(values)
    for runs in found.values():
        runs.sort(key=lambda values: _number(str(values["stream"])))
    return found


def _number(stream: str) -> tuple[int, ...]:
    return tuple(map(int, stream.split("-")))


def _attempt(cell: Cell, state: RunState, repositories: Mapping[str, str], uptake: Uptake) -> dict[str, Any]:
    known = state.attempts.get(cell.key)
    if known is None:
        return {"stream": cell.stream, "state": "not started", "resolved": None, "calls": None}
    recall = known.started.get("recall") or {}
    item = recall.get("item")
    taken = uptake.taken.get(cell.key)
    return {
        "stream": cell.stream,
        "state": "infra failure" if known.infra else "graded" if known.graded else "finished" if known.finished else "started",
        "resolved": known.graded["resolved"] if known.graded else None,
        "calls": known.finished.get("calls"),
        "actions": known.finished.get("actions"),
        "tokens": None,
        "cost": None,
        "seconds": None,
        "exit_status": known.finished.get("exit_status"),
        "outcome": known.graded.get("outcome"),
        "flags": known.graded.get("flags", []),
        "verdict": (known.graded.get("verdict") or {}).get("outcome"),
        "patch_sha256": _patch(known),
        "recalled": recall.get("title"),
        "control": recall.get("control"),
        "given": bool(recall.get("characters", 0) or item),
        "item": item,
        "score": recall.get("score") if item else None,
        "learned_from": recall.get("learned_from"),
        "learned_outcome": _text(recall.get("outcome")) if item else None,
        "verdict_source": _text(recall.get("verdict_source")) if item else None,
        "same_repository": same_repository(cell.issue, recall.get("learned_from"), repositories) if item else None,
        "taken_up": taken[0] if taken else None,
        "words": list(taken[1]) if taken else [],
        "trajectory": attempt_path(cell.arm, cell.key) if known.finished and cell.arm.kind != "gold" else None,
    }


def _patch(known: AttemptState) -> str | None:
    """The hash of a patch that was submitted and is not empty."""
    found = known.finished.get("patch_sha256")
    return str(found) if found and found != EMPTY else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def repository_of(issue: str | None, repositories: Mapping[str, str]) -> str | None:
    """The repository of an issue, of the experiment or named as SWE-bench names issues; None where it is not known."""
    from swe_memory.sources.issues import repo_of

    return (repositories.get(issue) or repo_of(issue) or None) if issue else None


def same_repository(issue: str, learned_from: str | None, repositories: Mapping[str, str]) -> bool | None:
    """Whether an item was learned in the repository of the issue; None where that is not known."""
    one, other = repository_of(issue, repositories), repository_of(learned_from, repositories)
    return None if one is None or other is None else one == other
