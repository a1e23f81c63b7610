"""The shapes that the room's functions take and give, and the arithmetic that several of them share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LEVEL = 0.95

Outcomes = Mapping[str, Sequence[float | None]]
"""Issue id -> per run whether it resolved the issue (a bool; a share of reruns for a build). None: that run is missing. Runs may differ in number."""

Counts = Mapping[str, Sequence[float | None]]
"""Issue id -> per run an amount: calls, actions, tokens, seconds, cost. None: it is not known."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with an interval: what it estimates, over which units, by which method.

    ``units`` is how many independent units carry it. ``low`` and ``high`` are at ``level``. Where ``value``, ``low`` or ``high`` is None, ``why`` says why
    in a sentence; ``why`` may also hold an assumption that was made.
    """

    value: float | None
    low: float | None
    high: float | None
    estimand: str
    unit: str
    units: int
    method: str
    level: float = LEVEL
    why: str = ""


@dataclass(frozen=True, slots=True)
class Test:
    """A two-sided test: its p value (None where ``why`` says so), the null hypothesis in words, and the method."""

    __test__ = False  # so that pytest does not take it for a test class

    p: float | None
    null: str
    method: str
    why: str = ""


def present(values: Iterable[float | None]) -> list[float]:
    """The values that are there, as floats."""
    return [float(value) for value in values if value is not None]


def issue_means(outcomes: Outcomes) -> dict[str, tuple[float, int]]:
    """Issue id -> (mean over its runs, number of runs), for issues with at least one run."""
    found: dict[str, tuple[float, int]] = {}
    for issue, runs in outcomes.items():
        if there := [run for run in runs if run is not None]:
            found[issue] = (math.fsum(there) / len(there), len(there))
    return found


def mean(values: Sequence[float]) -> float:
    """Of one or more values."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float], *, lost: int = 1) -> float:
    """Sum of squared deviations by ``len(values) - lost``."""
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - lost)


def z_of(level: float) -> float:
    """The two-sided normal quantile of a confidence level."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + level / 2)


def t_of(level: float, freedom: float) -> float:
    """The two-sided quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))


def two_sided(z: float) -> float:
    """The two-sided normal p value of a standard score."""
    return math.erfc(abs(z) / math.sqrt(2))


def count(number: int, one: str, many: str) -> str:
    """ "1 issue", "2 issues"."""
    return f"{number} {one if number == 1 else many}"


def t_interval(values: Sequence[float], *, estimand: str, unit: str, level: float = LEVEL) -> Estimate:
    """The mean of independent values with Student's interval (scipy). None with a reason for no or one value, and where all are the same."""
    method = f"Student's t over {unit}s"
    if not values:
        return Estimate(None, None, None, estimand, unit, 0, method, level, f"There is no {unit} to compute it from.")
    middle = mean(values)
    if len(values) == 1:
        return Estimate(middle, None, None, estimand, unit, 1, method, level, f"One {unit} gives a value, but no interval.")
    spread = variance(values)
    if spread <= 1e-18:
        why = f"All {len(values)} {unit}s have the same value, which says nothing about how much they could vary."
        return Estimate(middle, None, None, estimand, unit, len(values), method, level, why)
    half = t_of(level, len(values) - 1) * math.sqrt(spread / len(values))
    return Estimate(middle, middle - half, middle + half, estimand, unit, len(values), method, level)
