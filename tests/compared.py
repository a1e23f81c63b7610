"""Journals of made-up runs for the tests of what compares them: events by hand, or of each attempt that an experiment plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.events import RunState, fold
from harness.layout import Key, lay_out
from harness.plan import Experiment

ITEM = {"item": "m1", "title": "Check the boundary", "learned_from": "i-0", "score": 0.5, "bank_version": 1}
PLACEBO = {"item": None, "title": None, "score": 0.5, "bank_version": 1, "control": "preamble", "characters": 300}


def events(
    arm: str,
    issue: str,
    resolved: bool,
    calls: int | None = 10,
    status: str = "Submitted",
    recall: Any = None,
    stream: str = "1-1",
    verdict: str = "resolved",
    learns: bool = True,
    **end: Any,
) -> list[dict[str, Any]]:
    """What the journal has of one attempt; ``end``: more of its ``finished``. ``learns``: whether an arm other than `none` learns from it."""
    where = {"arm": arm, "stream": stream, "issue": issue}
    bank = {"bank": f"{arm}/{stream}", "bank_version": 1, "items": []}
    return [
        {"event": "started", **where, "recall": recall},
        {
            "event": "finished",
            **where,
            "calls": calls,
            "actions": calls,
            "exit_status": status,
            "patch_sha256": "/".join(where.values()),
            **end,
        },
        {
            "event": "graded",
            **where,
            "resolved": resolved,
            "outcome": "resolved" if resolved else "unresolved",
            "flags": [],
            "verdict": {"outcome": verdict, "source": "rules", "reason": "", "confidence": None},
        },
        *([{"event": "learned", **where, **bank}] if arm != "none" and learns else []),
    ]


def used(arm: str, issue: str, stream: str = "1-1", role: str = "agent", bank: str = "", **amounts: Any) -> dict[str, Any]:
    """A usage event."""
    more = {"bank": bank} if bank else {}
    given = {"calls": 1, "input": 100, "output": 10, "cost": 0.5, **amounts}
    return {"event": "usage", "arm": arm, "stream": stream, "issue": issue, "role": role, **given, **more}


def state(*parts: list[dict[str, Any]]) -> RunState:
    return fold([event for part in parts for event in part])


def frozen(experiment: Experiment, missing: int = 0) -> list[dict[str, Any]]:
    """Each bank of a crossfit run is frozen."""
    more = {"event": "frozen", "version": 1, "experiences": 2, "items": 2}
    return [{**more, "bank": bank.id, "missing": [list(key) for key in bank.lessons[:missing]]} for bank in lay_out(experiment).banks]


def all_of(
    experiment: Experiment, resolved: Callable[[Key], bool] = lambda _: True, recall: Callable[[Key], Any] = lambda _: None, **more: Any
) -> list[dict[str, Any]]:
    """Each attempt of an experiment, graded."""
    found: list[dict[str, Any]] = []
    for cell in lay_out(experiment).cells:
        arm, stream, issue = cell.key
        found += events(arm, issue, resolved(cell.key), stream=stream, recall=recall(cell.key), learns=False, **more)
    return found


def write_run(folder: Path, experiment: Experiment, journal: Iterable[dict[str, Any]]) -> Path:
    """A run folder with an experiment and a journal, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.json").write_text(json.dumps(experiment.to_json()), encoding="utf-8")
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in journal), encoding="utf-8")
    return folder
