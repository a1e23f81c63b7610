"""The noise floor: how much two runs of the same arm differ, and what of the difference between memory and baseline goes beyond that."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.statistics.estimates import LEVEL, Estimate, Outcomes, mean, present, variance
from harness.statistics.paired import FEW_DISCORDANT, tango
from harness.statistics.rates import bounded_mean


@dataclass(frozen=True, slots=True)
class Noise:
    """``first`` and ``second``: discordance between reruns within each arm; ``across``: between a run of the one and a run of the other; ``excess``: across
    less the floor, on issues that have both, where the floor is the mean of the arms that were rerun (``floor_of``: "both", "first", "second" or "").

    ``standard_error``: of the difference in resolve rate between two single runs of the same arm on these issues, from the floor; None without reruns.
    """

    first: Estimate
    second: Estimate
    across: Estimate
    excess: Estimate
    floor_of: str
    standard_error: float | None


def rerun_discordance(outcomes: Outcomes, level: float = LEVEL) -> Estimate:
    """Estimand: the chance that two runs of an issue by the same arm differ in outcome, averaged over issues. Unit: the issue.

    The share of an issue's pairs of runs that differ: unbiased for 2 p (1 - p) (Hoeffding's U statistic). With two runs Wilson's interval, with more
    Wilson's at the effective number of issues. None where no issue has two runs.
    """
    estimand = "chance that two runs of an issue by the same arm differ"
    shares, floors = [], []
    for runs in map(present, outcomes.values()):
        if len(runs) > 1:
            shares.append(_within(runs))
            floors.append(2 / (len(runs) * (len(runs) - 1)))
    if not shares:
        return Estimate(
            None, None, None, estimand, "issue", 0, "Wilson", level, "No issue was run twice by this arm, so its noise is not known."
        )
    return bounded_mean(shares, floors, estimand=estimand, level=level)


def noise(first: Outcomes, second: Outcomes, level: float = LEVEL) -> Noise:
    """The noise of both arms beside what they differ by. Unit: the issue.

    Where both arms were rerun, ``excess`` estimates the mean over issues of (p1 - p2)^2: 0 if and only if memory changes the chance of no issue, and free of
    the direction of the change. Where only one was, its discordance alone is subtracted, and ``excess.why`` says that it can then be negative or positive
    without any effect of that kind. The interval: :func:`_excess_interval`.
    """
    one, two = rerun_discordance(first, level), rerun_discordance(second, level)
    floor_of = (
        "both"
        if one.value is not None and two.value is not None
        else "first"
        if one.value is not None
        else "second"
        if two.value is not None
        else ""
    )
    crossed, floors, excesses, reruns = [], [], [], []
    for issue, runs in first.items():
        mine, other = present(runs), present(second.get(issue, ()))
        if not mine or not other:
            continue
        p, q = mean(mine), mean(other)
        cross = p * (1 - q) + (1 - p) * q
        crossed.append(cross)
        floors.append((1 / len(mine) + 1 / len(other)) / 2)
        within = [_within(part) for part, name in ((mine, "first"), (other, "second")) if floor_of in ("both", name) and len(part) > 1]
        if within and len(within) == (2 if floor_of == "both" else 1):
            excesses.append(cross - mean(within))
            reruns.append(1 / max(len(mine), len(other)))
    across_text = "chance that a run of the one arm and a run of the other differ on an issue"
    across = bounded_mean(crossed, floors, estimand=across_text, level=level)
    if not crossed:
        across = Estimate(None, None, None, across_text, "issue", 0, "Wilson", level, "No issue was graded in both arms.")
    why = ""
    if not floor_of:
        why = "Neither arm was run twice, so nothing says how much of the difference between them is noise."
    elif not excesses:
        why = "No issue has a run in both arms and a second one."
    elif floor_of != "both":
        why = f"Only the {floor_of} arm was run twice; the other is taken to be as noisy."
    excess = _excess_interval(excesses, mean(reruns) if reruns else 1.0, why, level)
    known = [(part.value, part.units) for part in (one, two) if part.value is not None]
    error = math.sqrt(mean([value for value, _ in known]) / max(units for _, units in known)) if known else None
    return Noise(one, two, across, excess, floor_of, error)


def _excess_interval(values: list[float], share: float, why: str, level: float) -> Estimate:
    """Tango's interval of a mean of values in [-1, 1], positive parts as wins and negative ones as losses, at the effective number of issues.

    With fewer than 20 issues that are not 0 the design effect is kept at or above 1.5 ``share`` (1 over the number of runs): a choice that held its coverage
    in simulation (docs/statistics.md), where Student's t fell to 75 %.
    """
    estimand, method = "discordance between the arms beyond that between reruns of one arm", "Tango score at the effective number of issues"
    if not values:
        return Estimate(None, None, None, estimand, "issue", 0, method, level, why)
    total, value = len(values), mean(values)
    wins, losses = math.fsum(max(part, 0.0) for part in values), math.fsum(max(-part, 0.0) for part in values)
    simple = (wins + losses) / total - value * value
    effect = variance(values) / simple if total > 1 and simple > 1e-15 else 1.0
    if sum(abs(part) > 1e-12 for part in values) < FEW_DISCORDANT:
        effect = max(effect, 1.5 * share)
    effect = min(max(effect, 1e-6), 1.0)
    low, high = tango(wins / effect, losses / effect, total / effect, level)
    return Estimate(value, min(low, value), max(high, value), estimand, "issue", total, method, level, why)


def _within(runs: list[float]) -> float:
    """Share of the pairs of two or more runs that differ."""
    good, number = sum(runs), len(runs)
    return 2 * good * (number - good) / (number * (number - 1))
