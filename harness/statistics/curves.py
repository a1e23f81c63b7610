"""Curves: issues resolved within so many calls; what memory gains as its bank grows, and by position within a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.statistics.estimates import LEVEL, Counts, Estimate, Outcomes, mean, t_interval
from harness.statistics.rates import rate
from harness.statistics.repeated import by_issue
from harness.statistics.streams import over_streams


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """An estimate at a place of the axis."""

    at: float
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Bin:
    """An estimate over attempts whose place (bank size, position) lies in [start, end); ``end`` None: no end. ``attempts``: of the memory arm, over streams."""

    start: float
    end: float | None
    attempts: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """``bins`` of the difference to the baseline, and ``slope``: its change per unit of the axis, over streams."""

    bins: tuple[Bin, ...]
    slope: Estimate


def within(outcomes: Outcomes, calls: Counts, limit: float) -> dict[str, list[float | None]]:
    """Per run whether the issue was resolved in ``limit`` calls or fewer. A failed run failed at any limit; a resolved one of unknown calls is missing."""
    found: dict[str, list[float | None]] = {}
    for issue, runs in outcomes.items():
        spent = list(calls.get(issue, ()))
        spent += [None] * (len(runs) - len(spent))
        found[issue] = [
            done if not done else None if used is None else float(done) if used <= limit else 0.0
            for done, used in zip(runs, spent, strict=False)
        ]
    return found


def resolved_within(outcomes: Outcomes, calls: Counts, limits: Sequence[float], level: float = LEVEL) -> tuple[CurvePoint, ...]:
    """Estimand: the chance that a run resolves an issue in ``at`` calls or fewer. Unit: the issue. Intervals hold point by point, not for the whole curve."""
    return tuple(CurvePoint(limit, rate(within(outcomes, calls, limit), level)) for limit in limits)


def gain_within(
    first: tuple[Outcomes, Counts], second: tuple[Outcomes, Counts], limits: Sequence[float], level: float = LEVEL
) -> tuple[CurvePoint, ...]:
    """The difference of two such curves, paired by issue (:func:`harness.statistics.repeated.by_issue`), point by point."""
    return tuple(CurvePoint(at, by_issue(within(*first, at), within(*second, at), level).difference) for at in limits)


def learning_curve(
    memory: Outcomes, baseline: Outcomes, places: Mapping[str, Sequence[float | None]], edges: Sequence[float], level: float = LEVEL
) -> LearningCurve:
    """The paired difference against the size of the bank (or the position within a repository) over streams. Unit: the stream.

    ``places``: issue id -> per stream, in the order of ``memory``'s runs, the place on the axis. ``edges``: where bins begin, rising; the last has no end. Each
    bin is :func:`harness.statistics.streams.over_streams` on its attempts; because streams meet an issue at different places, the baseline's noise is counted
    a little more than once there, on the safe side. ``slope``: least squares within each stream, then Student's t over streams; None for one stream.
    """
    bins = []
    for number, start in enumerate(edges):
        end = edges[number + 1] if number + 1 < len(edges) else None
        inside = {
            issue: [_kept(value, at, start, end) for value, at in _placed(runs, places.get(issue, ()))] for issue, runs in memory.items()
        }
        attempts = sum(value is not None for issue, runs in inside.items() if issue in baseline for value in runs)
        held = {issue: runs for issue, runs in inside.items() if any(value is not None for value in runs)}
        bins.append(
            Bin(start, end, attempts, over_streams(held, baseline, estimand="difference to the baseline in this bin", level=level).effect)
        )
    return LearningCurve(tuple(bins), _slope(memory, baseline, places, level))


def _placed(runs: Sequence[float | None], places: Sequence[float | None]) -> list[tuple[float | None, float | None]]:
    padded = [*places, *([None] * (len(runs) - len(places)))]
    return list(zip(runs, padded, strict=False))


def _kept(value: float | None, at: float | None, start: float, end: float | None) -> float | None:
    return value if at is not None and at >= start and (end is None or at < end) else None


def _slope(memory: Outcomes, baseline: Outcomes, places: Mapping[str, Sequence[float | None]], level: float) -> Estimate:
    from harness.statistics.estimates import issue_means

    base = issue_means(baseline)
    streams: dict[int, list[tuple[float, float]]] = {}
    for issue, runs in memory.items():
        for number, (value, at) in enumerate(_placed(runs, places.get(issue, ()))):
            if value is not None and at is not None and issue in base:
                streams.setdefault(number, []).append((at, float(value) - base[issue][0]))
    slopes = []
    for points in streams.values():
        middle = mean([at for at, _ in points])
        spread = sum((at - middle) ** 2 for at, _ in points)
        if spread > 0:
            slopes.append(sum((at - middle) * gain for at, gain in points) / spread)
    return t_interval(
        slopes, estimand="change of the difference per unit of the axis, over streams, on these issues", unit="stream", level=level
    )
