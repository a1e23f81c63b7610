"""What memory gains as its bank grows and by position within a repository; several attempts with one bank: pass@k, and the best of n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.attempts import Attempts
from harness.analysis.tables import Setup, Table
from harness.analysis.words import plain_estimate
from harness.events import RunState
from harness.layout import Layout
from harness.statistics.curves import LearningCurve, learning_curve
from harness.statistics.passk import best_of_n, pass_at_k

BINS = 5
POSITIONS = (0.0, 1.0, 3.0, 10.0, 30.0)
"""Where bins of the position within a repository begin: the first issue of a repository, the next two, ..."""
MOST_K = 10
Places = Mapping[str, Sequence[float | None]]


def bank_sizes(layout: Layout, state: RunState, table: Table) -> Places:
    """Issue -> per stream how many items its growing bank held when the attempt recalled."""
    place = {stream: number for number, stream in enumerate(table.streams)}
    found: dict[str, list[float | None]] = {issue: [None] * len(place) for issue in table.issues}
    for plan in layout.banks:
        if plan.kind != "growing" or all(arm.name != table.name for arm in plan.readers):
            continue
        learned = state.banks[plan.id].learned if plan.id in state.banks else {}
        size = 0
        for wave in plan.waves:
            for _, stream, issue in wave:
                found[issue][place[stream]] = float(size)
            size += sum(len(learned[key]["items"]) for key in wave if key in learned)
    return found


def positions(layout: Layout, table: Table, repositories: Mapping[str, str]) -> Places:
    """Issue -> per stream how many issues of its repository came before it."""
    place = {stream: number for number, stream in enumerate(table.streams)}
    found: dict[str, list[float | None]] = {issue: [None] * len(place) for issue in table.issues}
    for plan in layout.banks:
        if plan.kind != "growing" or all(arm.name != table.name for arm in plan.readers):
            continue
        before: dict[str, int] = {}
        for _, stream, issue in plan.lessons:
            repository = repositories.get(issue, "")
            found[issue][place[stream]] = float(before.get(repository, 0))
            before[repository] = before.get(repository, 0) + 1
    return found


def learning(setup: Setup, layout: Layout, state: RunState, one: Table, other: Table) -> dict[str, Any] | None:
    """``learning`` of a COMPARISON: None but for a growing bank against the baseline."""
    if setup.protocol != "online" or one.kind != "memory" or other.kind != "none":
        return None
    sizes = bank_sizes(layout, state, one)
    where = positions(layout, one, setup.repositories)
    return {
        "size": _values("items in the bank", learning_curve(one.resolved, other.resolved, sizes, _edges(sizes))),
        "position": _values(
            "issues of the repository before it in the stream", learning_curve(one.resolved, other.resolved, where, _kept(where))
        ),
        "why": "One stream gives values, but no interval: how much streams differ is not known." if len(one.streams) == 1 else "",
    }


def _edges(places: Places) -> list[float]:
    """Where bins begin: the empty bank apart, the rest in parts with about as many attempts each."""
    values = sorted(value for runs in places.values() for value in runs if value)
    if not values:
        return [0.0]
    starts = {values[len(values) * number // (BINS - 1)] for number in range(BINS - 1)}
    return [0.0, *sorted(starts)]


def _kept(places: Places) -> list[float]:
    """The bins of positions that anything falls into."""
    most = max((value for runs in places.values() for value in runs if value is not None), default=0.0)
    return [start for start in POSITIONS if start <= most]


def _values(axis: str, curve: LearningCurve) -> dict[str, Any]:
    return {
        "axis": axis,
        "bins": [
            {"start": part.start, "end": part.end, "attempts": part.attempts, "estimate": plain_estimate(part.estimate)}
            for part in curve.bins
        ],
        "slope": plain_estimate(curve.slope),
    }


def pass_at(table: Table) -> list[dict[str, Any]]:
    """``pass_at_k`` of an ARM, over the attempts with its first bank; [] where no two attempts share one."""
    outcomes = table.repetitions()
    most = len(table.same_bank[0]) if table.same_bank else 0
    if most < 2:
        return []
    found = []
    for k in range(1, min(most, MOST_K) + 1):
        at = pass_at_k(outcomes, k)
        found.append({"k": k, "estimate": plain_estimate(at.estimate), "issues": at.estimate.units, "short": len(at.short)})
    return found


def best_of(table: Table, attempts: Attempts, judge: str) -> list[dict[str, Any]]:
    """``best_of_n`` of an ARM: attempts with its first bank, picked by the verdict of ``judge`` ("" where the verdicts are the tests' own, which would pick
    perfectly and say nothing). A resolved verdict goes before an unknown one, and that before an unresolved one; of equal ones one is picked at random."""
    most = len(table.same_bank[0]) if table.same_bank else 0
    if most < 2 or not judge:
        return []
    streams = {table.streams[place] for place in table.same_bank[0]}
    scored: dict[str, list[tuple[float, bool]]] = {}
    for issue in table.issues:
        for run in attempts.get((table.name, issue), ()):
            if run["resolved"] is not None and run["stream"] in streams and run.get("verdict"):
                scored.setdefault(issue, []).append((_SCORES[str(run["verdict"])], bool(run["resolved"])))
    if not scored:
        return []
    found = []
    for n in range(2, min(most, MOST_K) + 1):
        best = best_of_n(scored, n, judge)
        if best.selected.value is not None:
            parts = {"selected": best.selected, "at_random": best.at_random, "perfect": best.perfect}
            found.append(
                {"n": n, "selector": judge, **{name: plain_estimate(part) for name, part in parts.items()}, "short": len(best.short)}
            )
    return found


_SCORES = {"resolved": 1.0, "unknown": 0.5, "unresolved": 0.0}
