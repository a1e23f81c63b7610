"""Calls and costs: the paired difference in what attempts take, tables by outcome, and what a resolved issue costs.

An attempt that hits the call limit is one whose calls are not known beyond it, so the endpoint is the restricted mean: calls up to the limit, over all
issues, whatever their outcome. Tables by outcome compare sets of issues that memory itself has chosen; they are shown because papers show them, and labelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from harness.statistics.estimates import LEVEL, Counts, Estimate, Outcomes, Test, count, issue_means, mean, t_interval, t_of, variance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONDITIONAL = (
    "Conditional on outcomes: these issues are chosen by what happened in both arms, so a difference here is no effect of memory. "
    "The mean over all issues, restricted to the limit, is."
)
NULL = "the two arms take the same number on average"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Paired amounts over all issues. ``first`` and ``second`` are means over issues of each arm's runs on shared issues; ``difference`` is first minus
    second. ``unknown``: issues left out because an amount is missing in all runs of an arm. ``at_limit``: runs of each arm that reached the limit."""

    difference: Estimate
    test: Test
    first: float | None
    second: float | None
    unknown: tuple[str, ...]
    at_limit: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """The issues with one pair of outcomes: how many (with calls known in both arms), each arm's mean, and the paired difference."""

    outcome: str
    issues: int
    first: float | None
    second: float | None
    difference: Estimate


@dataclass(frozen=True, slots=True)
class OutcomeTable:
    """Four rows: both resolved, both failed, only the first, only the second. ``label`` must stand beside them."""

    rows: tuple[OutcomeRow, ...]
    label: str = CONDITIONAL


def restricted(amounts: Counts, limit: float | None) -> dict[str, list[float | None]]:
    """Each amount, but no more than ``limit``."""
    return {issue: [cut(value, limit) for value in runs] for issue, runs in amounts.items()}


def cut(value: float | None, limit: float | None) -> float | None:
    return value if value is None or limit is None else min(value, limit)


def restricted_means(first: Counts, second: Counts, limit: float | None = None, what: str = "calls", level: float = LEVEL) -> Amounts:
    """Estimand: the difference in mean min(amount, limit) over issues like these, given the banks that were used. Unit: the issue.

    Student's interval and test of the per-issue differences of means over runs. The restricted mean: Royston and Parmar, "Restricted mean survival time", BMC
    Medical Research Methodology 13:152 (2013), here without censoring below the limit. No limit: the plain mean (tokens, cost, seconds).
    """
    estimand = f"difference in mean {what}" + (f", each counted up to {limit:g}," if limit is not None else "") + " on issues like these"
    mine, other = issue_means(restricted(first, limit)), issue_means(restricted(second, limit))
    shared = [issue for issue in mine if issue in other]
    unknown = tuple(issue for issue in first if issue in second and not (issue in mine and issue in other))
    differences = [mine[issue][0] - other[issue][0] for issue in shared]
    difference = t_interval(differences, estimand=estimand, unit="issue", level=level)
    test = Test(None, NULL, "paired t", difference.why)
    if difference.low is not None:
        from scipy.special import stdtr

        statistic = mean(differences) / math.sqrt(variance(differences) / len(differences))
        test = Test(float(2 * stdtr(len(differences) - 1, -abs(statistic))), NULL, "paired t")
    hits = (_hits(first, limit), _hits(second, limit)) if limit is not None else None
    if not shared:
        return Amounts(difference, test, None, None, unknown, hits)
    return Amounts(difference, test, mean([mine[issue][0] for issue in shared]), mean([other[issue][0] for issue in shared]), unknown, hits)


def _hits(amounts: Counts, limit: float) -> int:
    return sum(value is not None and value >= limit for runs in amounts.values() for value in runs)


def by_outcome(
    first: Outcomes, second: Outcomes, first_amounts: Counts, second_amounts: Counts, *, what: str = "calls", level: float = LEVEL
) -> OutcomeTable:
    """Amounts by the pair of outcomes, over the first run of each arm. Conditional on outcomes (see :data:`CONDITIONAL`)."""
    kinds = ("both resolved", "both failed", "only the first resolved", "only the second resolved")
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for issue, runs in first.items():
        one, two = _at(runs), _at(second.get(issue, ()))
        mine, other = _at(first_amounts.get(issue, ())), _at(second_amounts.get(issue, ()))
        if one is None or two is None or mine is None or other is None:
            continue
        kind = kinds[0] if one and two else kinds[1] if not one and not two else kinds[2] if one else kinds[3]
        found[kind].append((mine, other))
    rows = []
    for kind in kinds:
        pairs = found[kind]
        estimand = f"mean difference in {what} among the issues with this pair of outcomes"
        difference = t_interval([a - b for a, b in pairs], estimand=estimand, unit="issue", level=level)
        ones, twos = [a for a, _ in pairs], [b for _, b in pairs]
        rows.append(OutcomeRow(kind, len(pairs), mean(ones) if pairs else None, mean(twos) if pairs else None, difference))
    return OutcomeTable(tuple(rows))


def _at(runs: Sequence[float | None]) -> float | None:
    return runs[0] if runs else None


def per_resolved(
    amounts: Counts,
    outcomes: Outcomes,
    *,
    extra: float = 0.0,
    what: str = "calls",
    resamples: int = 9_999,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """Estimand: mean amount over mean resolve rate, of one arm: what a resolved issue takes, failed attempts included. Unit: the issue.

    Ratio of sums, never the mean of ratios; percentile bootstrap of issues, its percentiles moved out for small numbers as Student's t would (Hesterberg, "What
    Teachers Should Know About the Bootstrap", The American Statistician 69:371, 2015: expanded percentiles). ``extra``: an amount that belongs to the arm as a
    whole and one pass over the issues (learning). ``high`` is None where resamples without a resolved issue reach the limit.
    """
    estimand, method = f"{what} per resolved issue", f"expanded percentile bootstrap of issues, {resamples} resamples"
    rows = list(_per_issue(amounts, outcomes).values())
    if not rows:
        why = f"No run has both an outcome and its {what}."
        return Estimate(None, None, None, estimand, "issue", 0, method, level, why)
    spent, solved = math.fsum(row[0] for row in rows) + extra, math.fsum(row[1] for row in rows)
    if not solved:
        return Estimate(
            None, None, None, estimand, "issue", len(rows), method, level, "No issue was resolved, so there is nothing to divide by."
        )
    if len(rows) == 1:
        return Estimate(spent / solved, None, None, estimand, "issue", 1, method, level, "One issue gives a value, but no interval.")
    import numpy as np

    values = np.asarray(rows)
    sums = _resampled_sums(values, resamples, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(sums[:, 1] > 0, (sums[:, 0] + extra) / sums[:, 1], np.inf)
    return _percentiles(ratios, spent / solved, estimand, len(rows), method, level)


def per_resolved_ratio(
    first: tuple[Counts, Outcomes],
    second: tuple[Counts, Outcomes],
    *,
    extra: tuple[float, float] = (0.0, 0.0),
    what: str = "calls",
    resamples: int = 9_999,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """Estimand: what a resolved issue takes in the first arm, over what it takes in the second (:func:`per_resolved`), paired by issue. Below 1: cheaper."""
    estimand, method = f"{what} per resolved issue, first over second", f"expanded percentile bootstrap of issues, {resamples} resamples"
    mine, other = _per_issue(*first), _per_issue(*second)
    shared = [issue for issue in mine if issue in other]
    rows = [(*mine[issue], *other[issue]) for issue in shared]
    if len(rows) < 2:
        why = f"Only {count(len(rows), 'issue has', 'issues have')} an outcome and {what} in both arms; an interval takes two."
        return Estimate(None, None, None, estimand, "issue", len(rows), method, level, why)
    totals = [math.fsum(row[place] for row in rows) for place in range(4)]
    totals[0] += extra[0]
    totals[2] += extra[1]
    if not totals[1] or not totals[3] or not totals[2] or not totals[0]:
        why = "An arm resolved no issue, or used nothing, so there is no ratio."
        return Estimate(None, None, None, estimand, "issue", len(rows), method, level, why)
    import numpy as np

    sums = _resampled_sums(np.asarray(rows), resamples, seed) + np.array([extra[0], 0.0, extra[1], 0.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (sums[:, 0] * sums[:, 3]) / (sums[:, 1] * sums[:, 2])
    ratios = np.where(np.isnan(ratios), np.inf, ratios)
    return _percentiles(ratios, totals[0] * totals[3] / (totals[1] * totals[2]), estimand, len(rows), method, level)


def _per_issue(amounts: Counts, outcomes: Outcomes) -> dict[str, tuple[float, float]]:
    """Issue id -> (mean amount, mean outcome) over the runs that have both."""
    found = {}
    for issue, runs in outcomes.items():
        both = [(float(a), float(o)) for a, o in zip(amounts.get(issue, ()), runs, strict=False) if a is not None and o is not None]
        if both:
            found[issue] = (mean([a for a, _ in both]), mean([o for _, o in both]))
    return found


def _resampled_sums(values: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """(issues, columns) -> (resamples, columns): column sums over issues drawn with replacement. scipy's bootstrap has no place for a ratio over nothing."""
    import numpy as np

    total = len(values)
    random = np.random.default_rng(seed)
    batch = max(1, 2_000_000 // total)
    parts = []
    for start in range(0, resamples, batch):
        drawn = random.integers(0, total, size=(min(batch, resamples - start), total))
        parts.append(np.stack([column[drawn].sum(axis=1) for column in values.T], axis=1))
    return np.concatenate(parts)


def _percentiles(ratios: NDArray[np.float64], value: float, estimand: str, units: int, method: str, level: float) -> Estimate:
    import numpy as np

    tail = NormalDist().cdf(-math.sqrt(units / (units - 1)) * t_of(level, units - 1))
    low, high = (float(part) for part in np.quantile(ratios, [tail, 1 - tail], method="inverted_cdf"))
    why = ""
    if math.isinf(high):
        why = "So few issues are resolved that some resamples have none: there is no upper limit."
    return Estimate(
        value, low if math.isfinite(low) else None, high if math.isfinite(high) else None, estimand, "issue", units, method, level, why
    )
