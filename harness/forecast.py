"""What a run will take, before it begins: attempts, banks, hours, cost, disk. What no limit and no earlier run tells is said to be unknown, never guessed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.checks import is_number
from harness.events import read_state
from harness.folder import read_experiment
from harness.layout import Cell, Layout, lay_out
from harness.plan import Experiment
from harness.statistics.estimates import count

_MOST_IMAGES = 10


def ideal_seconds(layout: Layout, seconds: Callable[[Cell], float], workers: int) -> float:
    """How long the attempts take if nothing else takes any time: greedy list scheduling in the layout's order, with its barriers (a frozen bank waits for
    all its lessons, a wave for the one before)."""
    waiting: dict[tuple[str, str, str], set[Any]] = {}
    lessons = {bank.id: bank for bank in layout.banks}
    for cell in layout.cells:
        bank = lessons.get(cell.bank)
        needs: set[Any] = set()
        if bank is not None:
            needs = set(
                bank.lessons if bank.kind == "frozen" else bank.waves[cell.wave - 1] if bank.kind == "growing" and cell.wave else ()
            )
        waiting[cell.key] = needs
    releases: dict[Any, list[Any]] = {}
    for key, needs in waiting.items():
        for need in needs:
            releases.setdefault(need, []).append(key)
    order = {cell.key: number for number, cell in enumerate(layout.cells)}
    cells = {cell.key: cell for cell in layout.cells}
    ready = [order[key] for key, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            number = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds(layout.cells[number]), number))
        now, number = heapq.heappop(running)
        for key in releases.get(layout.cells[number].key, ()):
            waiting[key].discard(layout.cells[number].key)
            if not waiting[key]:
                heapq.heappush(ready, order[cells[key].key])
    return now


def forecast(experiment: Experiment, workers: int, like: Path | None = None, missing_images: Sequence[str] | None = None) -> dict[str, Any]:
    """{protocol, endpoint, dataset, agent, issues, attempts, arms: {ARM: attempts}, streams, banks, longest_chain, workers, hours, cost, disk_mb,
    missing_images, notes}.

    ``hours`` and ``cost`` (US dollars) are {expected, at_most}, each null where it is not known; ``like`` is a run folder whose recorded attempts they are
    taken from. ``missing_images`` are the names of images that the engine does not have; None where there are no images, or no engine answers. Raises
    UsageError where ``like`` is no run.
    """
    layout = lay_out(experiment)
    attempts = len(layout.cells)
    # A reference patch is applied in no time and costs nothing.
    agents = sum(cell.arm.kind != "gold" for cell in layout.cells)
    notes: list[str] = []
    seconds: float | None = None
    cost: float | None = None
    disk: float | None = None
    if like is not None:
        read_experiment(like)
        seen = read_state(like / "events.jsonl").attempts.values()
        ended = [attempt for attempt in seen if attempt.finished and attempt.key[0] != "gold"]
        times = [float(attempt.finished["seconds"]) for attempt in ended if is_number(attempt.finished.get("seconds"))]
        # An agent that told of no call has not said that it was free.
        costs = [attempt.usage.cost if attempt.usage.calls else None for attempt in ended]
        if times:
            seconds = sum(times) / len(times)
            known = [value for value in costs if value is not None]
            cost = sum(known) / len(known) if len(known) == len(costs) else None
            disk = sum(path.stat().st_size for path in like.rglob("*") if path.is_file()) / len(ended) / 1e6
            finished = count(len(ended), "finished attempt", "finished attempts")
            notes.append(f"expected: the means of {finished} in {like.name}, agents alone; grading and memory's own work come on top")
        else:
            notes.append(f"{like.name} has no finished attempt, so nothing is expected from it")
    else:
        notes.append("hours, cost and disk are not known beforehand; name a run of the same agent with --like to have them expected")
    limit = experiment.attempt_seconds
    # The repair agent asks no model, so that nothing it does costs money.
    free = experiment.agent == "repair"
    memory = experiment.verdict == "llm" or experiment.extractor.startswith("llm")
    if memory:
        notes.append("memory's own calls (judge, extraction) are not in the cost above")
    return {
        "protocol": experiment.protocol,
        "endpoint": experiment.endpoint,
        "dataset": experiment.dataset,
        "agent": experiment.agent,
        "issues": len(experiment.instances),
        "attempts": attempts,
        "arms": dict(Counter(cell.arm.name for cell in layout.cells)),
        "streams": len(layout.streams()),
        "banks": len(layout.banks),
        "longest_chain": max((cell.chain for cell in layout.cells if cell.arm.kind != "gold"), default=0),
        "workers": workers,
        "hours": {
            "expected": None if seconds is None else ideal_seconds(layout, _each(seconds), workers) / 3600,
            "at_most": None if limit is None else ideal_seconds(layout, _each(limit), workers) / 3600,
        },
        "cost": {
            "expected": 0.0 if free else None if cost is None else cost * agents,
            "at_most": 0.0 if free else None if experiment.attempt_cost is None else experiment.attempt_cost * agents,
        },
        "disk_mb": None if disk is None else disk * attempts,
        "missing_images": None if missing_images is None else list(missing_images),
        "notes": notes,
    }


def _images(missing: Sequence[str]) -> list[str]:
    if not missing:
        return ["images      all are on the engine"]
    more = [f"              ... and {len(missing) - _MOST_IMAGES} more"] if len(missing) > _MOST_IMAGES else []
    said = f"images      {count(len(missing), 'is', 'are')} not on the engine (swe-memory images pull):"
    return [said, *(f"              {name}" for name in missing[:_MOST_IMAGES]), *more]


def _each(seconds: float) -> Callable[[Cell], float]:
    return lambda cell: 0.0 if cell.arm.kind == "gold" else seconds


def forecast_text(expected: dict[str, Any]) -> str:
    """A forecast in lines."""

    def amount(pair: dict[str, float | None], form: str) -> str:
        parts = [f"{name.replace('_', ' ')} {form.format(value)}" for name, value in pair.items() if value is not None]
        return ", ".join(parts) or "not known"

    chain = count(expected["longest_chain"], "attempt", "attempts")
    lines = [
        f"{count(expected['issues'], 'issue', 'issues')} of {expected['dataset']}, agent {expected['agent']}, protocol {expected['protocol']}",
        f"endpoint    {expected['endpoint']}",
        f"attempts    {expected['attempts']}: " + ", ".join(f"{arm} {number}" for arm, number in expected["arms"].items()),
        f"streams     {expected['streams']}, banks {expected['banks']}, at most {chain} one after the other",
        f"hours       {amount(expected['hours'], '{:.2f}')} with {count(expected['workers'], 'worker', 'workers')}",
        f"cost        {amount(expected['cost'], '${:.2f}')}",
        "disk        " + ("not known" if expected["disk_mb"] is None else f"about {expected['disk_mb']:.0f} MB"),
    ]
    if (missing := expected["missing_images"]) is not None:
        lines += _images(missing)
    return "\n".join([*lines, *(f"note: {note}" for note in expected["notes"]), "Nothing was run or written."])
