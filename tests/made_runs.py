"""Run folders made without a run: frozen experiments, parts of events for their journals, and what can happen to a journal."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from harness.folder import freeze
from harness.plan import Experiment


def experiment(**changed: Any) -> Experiment:
    """Two issues in crossfit with a baseline and an arm with memory, but for what is ``changed``."""
    values = {
        "dataset": "rows.jsonl",
        "dataset_hash": "0" * 64,
        "instances": ("i-1", "i-2"),
        "repositories": ("a/b", "a/b"),
        "dates": ("", ""),
        "agent": "repair",
        "arms": ("none", "reasoningbank"),
        "sequences": ((0, 1),),
        "folds": ("ab",),
    }
    return Experiment(**{**values, **changed})


def made(folder: Path, **changed: Any) -> Path:
    """A run folder that holds this experiment and nothing more."""
    folder.mkdir(parents=True, exist_ok=True)
    freeze(folder, experiment(**changed), resume=False)
    return folder


def where(issue: str, arm: str = "none") -> dict[str, str]:
    return {"arm": arm, "stream": "1-1", "issue": issue}


def used(calls: int, cost: float | None = 0.5) -> dict[str, Any]:
    return {"role": "agent", "calls": calls, "input": 100 * calls, "output": 10 * calls, "cost": cost}


GRADED = {"resolved": True, "outcome": "resolved", "reason": "", "flags": [], "verdict": None}
FINISHED = {
    "exit_status": "Submitted",
    "calls": 3,
    "actions": 3,
    "cost": 0.5,
    "patch_sha256": "0",
    "seconds": 1.0,
    "notes": [],
    "limit": "",
}


def damaged(lines: list[bytes], seed: int) -> bytes:
    """The journal after one kind of harm, at places that ``seed`` decides."""
    chance = random.Random(seed)
    lines = list(lines)
    place = chance.randrange(len(lines))
    kind = seed % 6
    if kind == 0:
        lines[place] = bytes(chance.randrange(256) for _ in range(60))
    elif kind == 1:
        event = json.loads(lines[place])
        name = chance.choice(sorted(event))
        event[name] = chance.choice([None, -1, 1e308, 10**30, [], {}, "\ud800", True, [[1]], {"item": 3}])
        lines[place] = json.dumps(event).encode()
    elif kind == 2:
        chance.shuffle(lines)
    elif kind == 3:
        lines[place:place] = [b'["no event"]', b"null", b"{}", b'{"event": "graded"}', b"[" * 100_000]
    elif kind == 4:
        event = json.loads(lines[place])
        del event[chance.choice(sorted(event))]
        lines[place] = json.dumps(event).encode()
    else:
        lines = [line for line in lines if chance.random() < 0.5]
    return b"\n".join([*lines, b""])
