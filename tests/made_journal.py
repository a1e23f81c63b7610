"""Whole run folders with made-up outcomes, marked as simulated in every name that they show: for tests and benchmarks of what is told about runs.

Nothing ran: an attempt resolves its issue by a draw from a logistic model with the issue's difficulty and the arm's gain, and takes a drawn number of calls.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.events import write_file
from harness.folder import freeze
from harness.layout import BankPlan, Cell, Layout, lay_out
from harness.plan import Experiment
from harness.trajectory_file import trajectory_path
from swe_memory.records import Issue
from tests.experiments import made_experiment

VERIFIED = (231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1)
"""Issues of SWE-bench Verified by repository."""
NAMES = ("azure", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour", "islet", "juniper", "kelp", "lagoon")
GAINS: Mapping[str, float] = {"none": 0.0, "memory": 0.35, "derangement": 0.0, "preamble": -0.05, "neutral": 0.05}
"""On logits, by kind of arm."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def simulated_issues(*sizes: int) -> tuple[Issue, ...]:
    """So many issues of one made-up repository after the other, a day apart."""
    found = []
    for name, size in zip(NAMES, sizes, strict=False):
        for number in range(size):
            date = START - timedelta(days=len(found) + 1)
            found.append(Issue(f"simulated__{name}-{11000 + 7 * number}", f"simulated/{name}", "Simulated issue", created_at=date))
    return tuple(found)


def simulated_experiment(*sizes: int, arms: tuple[str, ...] = ("none", "reasoningbank"), **settings: Any) -> Experiment:
    """An experiment of these issues whose dataset and agent are called simulated."""
    values: dict[str, Any] = {"call_limit": 75, "agent": "command: simulated", "verdict": "llm", "model": "simulated-model", **settings}
    made = made_experiment(simulated_issues(*sizes), *arms, **values)
    versions = {"swe-memory": "0.1.0", "python": "3.11", "simulated": "1"}
    return replace(made, dataset="simulated", versions=versions, prompts={"memory_block": 1, "extract": 3}, embedder="simulated")


class Journal:
    """The events of a simulated run, in an order that a real one could have. ``title`` names the item of that number; ``fails`` says which attempts the machine
    loses, for ``reason``; ``level`` is the logit of an issue of middling difficulty."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        seed: int = 0,
        level: float = 0.3,
        gains: Mapping[str, float] = GAINS,
        title: Callable[[int], str] = lambda number: f"Simulated lesson {number}: look at the callers before a signature changes",
        fails: Callable[[Cell], bool] = lambda _: False,
        reason: str = "simulated: the image could not be had",
    ) -> None:
        self._experiment = experiment
        self._layout: Layout = lay_out(experiment)
        self._random = random.Random(seed)
        self._hard = {issue: level + 3.0 * self._random.gauss(0, 1) for issue in experiment.instances}
        self._repository = dict(zip(experiment.instances, experiment.repositories, strict=True))
        self._gains, self._title, self._fails, self._reason = gains, title, fails, reason
        self._items: dict[str, list[tuple[str, str]]] = {}  # bank -> (item, issue)
        self._graded: set[str] = set()
        self._t = 0.0

    def events(self) -> Iterator[dict[str, Any]]:
        """One after the other."""
        yield self._event("session", workers=2, versions=dict(self._experiment.versions))
        banks = {bank.id: bank for bank in self._layout.banks}
        for cell in self._layout.cells:
            if cell.arm.kind in ("none", "gold"):
                yield from self._attempt(cell)
        for bank in banks.values():
            if bank.kind == "frozen":
                for key in bank.lessons:
                    yield from self._lesson(bank, key)
                yield self._event("frozen", bank=bank.id, version=1, experiences=len(bank.lessons), items=len(bank.lessons), missing=[])
        rest = [cell for cell in self._layout.cells if cell.arm.kind not in ("none", "gold")]
        for cell in sorted(rest, key=lambda cell: cell.wave):
            yield from self._attempt(cell)
            bank = banks[cell.bank]
            if bank.kind == "growing":
                yield from self._lesson(bank, cell.key)

    def _event(self, event: str, **fields: Any) -> dict[str, Any]:
        self._t += 0.01
        return {"event": event, "at": (START + timedelta(seconds=self._t)).isoformat(), "t": round(self._t, 3), **fields}

    def _lesson(self, bank: BankPlan, key: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
        where = dict(zip(("arm", "stream", "issue"), key, strict=True))
        if key[2] not in self._graded:
            return
        held = self._items.setdefault(bank.id, [])
        item = f"{bank.id}:{key[2]}".replace("/", "-")
        held.append((item, key[2]))
        lesson = {"id": item, "title": self._title(len(held)), "reach": "repository", "polarity": "success"}
        yield self._event("usage", role="extract", bank=bank.id, calls=1, input=4000, output=300, cost=0.002, **where)
        yield self._event(
            "learned", bank=bank.id, bank_version=len(held), key=item, status="learned", items=[lesson], quarantined=0, rejected=0, **where
        )

    def _recall(self, cell: Cell) -> dict[str, Any] | None:
        if not cell.bank:
            return None
        held = self._items.get(cell.bank, [])
        near = [number for number, (_, issue) in enumerate(held) if self._repository[issue] == self._repository[cell.issue]]
        draw = random.Random(f"{cell.bank}{cell.issue}{cell.arm.kind}")
        record: dict[str, Any] = {"bank_version": 1, "score": 0.0, "item": None, "title": None, "learned_from": None, "characters": 0}
        record |= {"outcome": None, "verdict_source": None, "reasons": ["nothing was near enough"], "settings": "k=1 simulated"}
        if near and draw.random() < 0.7:
            number = draw.choice(near)
            item, issue = held[number]
            record |= {"item": item, "title": self._title(number + 1), "learned_from": issue, "score": round(draw.uniform(0.35, 0.8), 3)}
            record |= {"outcome": "resolved", "verdict_source": "llm", "reasons": ["the nearest of its repository"], "characters": 600}
        return record | ({"control": cell.arm.method} if cell.arm.kind == "control" else {})

    def _attempt(self, cell: Cell) -> Iterator[dict[str, Any]]:
        where = dict(zip(("arm", "stream", "issue"), cell.key, strict=True))
        recall = self._recall(cell)
        yield self._event("started", bank=cell.bank or None, recall=recall, **where)
        if self._fails(cell):
            yield self._event("failed", stage="run", reason=self._reason, **where)
            return
        kind = cell.arm.method if cell.arm.kind == "control" else cell.arm.kind
        given = recall is None or bool(recall["item"])
        logit = self._hard[cell.issue] + (self._gains.get(kind, 0.0) if given else 0.0) + self._random.gauss(0, 0.8)
        resolved = cell.arm.kind == "gold" or self._random.random() < 1 / (1 + math.exp(-logit))
        calls = min(75, max(3, round(self._random.lognormvariate(3.2 if resolved else 3.7, 0.5))))
        limit = "calls" if calls == 75 else ""
        resolved = resolved and not limit
        cost = round(calls * 0.011, 4)
        yield self._event("usage", role="agent", calls=calls, input=calls * 9000, output=calls * 250, cost=cost, **where)
        yield self._event(
            "finished",
            exit_status="LimitsExceeded" if limit else "Submitted",
            calls=calls,
            actions=calls,
            cost=cost,
            limit=limit,
            patch_sha256=f"{self._random.getrandbits(256):064x}",
            seconds=round(calls * 4.5, 1),
            notes=[],
            **where,
        )
        right = self._random.random() < 0.85
        judged = "resolved" if resolved == right else "unresolved"
        verdict = {"outcome": judged, "source": "llm", "reason": "simulated", "confidence": 0.8, "model": "simulated-model", "prompt": ""}
        outcome = "resolved" if resolved else "empty_patch" if limit else "unresolved"
        yield self._event("usage", role="judge", bank=None, calls=1, input=3000, output=100, cost=0.001, **where)
        yield self._event("graded", resolved=resolved, outcome=outcome, reason="simulated", flags=[], verdict=verdict, **where)
        self._graded.add(cell.issue)


def write_run(folder: Path, experiment: Experiment, *, trajectories: bool = False, **settings: Any) -> Path:
    """The folder of a simulated run; ``settings`` are those of :class:`Journal`. With ``trajectories`` a small file for each finished attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    freeze(folder, experiment, resume=False)
    events = list(Journal(experiment, **settings).events())
    write_file(folder / "events.jsonl", "".join(json.dumps(event) + "\n" for event in events))
    if trajectories:
        folders = {arm.name: arm.folder for arm in experiment.conditions()}
        for event in events:
            if event["event"] == "finished":
                path = trajectory_path(folder / folders[event["arm"]] / event["stream"], event["issue"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps({"info": {"exit_status": event["exit_status"], "submission": ""}, "messages": []}))
    return folder
