"""Two arms with several runs of each issue: reruns on one frozen bank, or several builds of it.

Runs of one issue are no independent trials, so everything here is clustered by issue: one number per issue, its mean difference over runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.statistics.estimates import LEVEL, Estimate, Outcomes, Test, count, issue_means, mean, two_sided, variance
from harness.statistics.paired import tango

ESTIMAND = "difference in resolve rate between the two arms, on issues like these, given the banks that were used"
NULL = "the resolve rate of the two arms is the same, given the banks that were used"
NO_OVERLAP = "No issue was graded in both arms, so there is nothing to compare."


@dataclass(frozen=True, slots=True)
class Clustered:
    """``difference`` and ``test`` belong together: the interval leaves out 0 exactly where p < 1 - level.

    ``effective_issues``: how many issues with one run each would say as much. ``discordant``: of pairs of a run of the one arm and a run of the other, the
    expected number over issues that only the first, and only the second, resolved.
    """

    difference: Estimate
    test: Test
    effective_issues: float | None
    discordant: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The difference without one repository."""

    repository: str
    issues: int
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """``left_out`` by repository, the largest first; ``low`` and ``high`` are the least and greatest difference among them; None where there is none."""

    left_out: tuple[LeftOut, ...]
    low: float | None
    high: float | None
    note: str


def by_issue(first: Outcomes, second: Outcomes, level: float = LEVEL) -> Clustered:
    """Difference in resolve rate, first minus second, over issues with a run in both arms. Unit: the issue; runs may differ in number.

    Tango's score interval (see :func:`harness.statistics.paired.tango`) at the effective number of issues: the ratio of the variance of the per-issue mean
    differences to what single pairs of runs would have is the design effect (Rao and Scott, "A simple method for the analysis of clustered binary data",
    Biometrics 48:577, 1992), and all counts are divided by it. It is kept at or above what independent runs allow, (1/R1 + 1/R2) / 2, because it is
    estimated too small where few issues differ. With one run in each arm it is 1 and the interval is Tango's. Why no bootstrap:
    docs/statistics.md.
    """
    mine, other = issue_means(first), issue_means(second)
    shared = [issue for issue in mine if issue in other]
    method = "Tango score at the effective number of issues"
    if not shared:
        empty = Estimate(None, None, None, ESTIMAND, "issue", 0, method, level, NO_OVERLAP)
        return Clustered(empty, Test(None, NULL, "score", NO_OVERLAP), None, None)
    total = len(shared)
    wins = [mine[issue][0] * (1 - other[issue][0]) for issue in shared]
    losses = [(1 - mine[issue][0]) * other[issue][0] for issue in shared]
    b, c = math.fsum(wins), math.fsum(losses)
    floor = mean([(1 / mine[issue][1] + 1 / other[issue][1]) / 2 for issue in shared])
    effect = 1.0
    if floor < 1:
        differences = [win - loss for win, loss in zip(wins, losses, strict=True)]
        simple = (b + c) / total - ((b - c) / total) ** 2
        measured = variance(differences) / simple if total > 1 and simple > 1e-15 else 1.0
        effect = min(max(measured, floor), 1.0)
    low, high = tango(b / effect, c / effect, total / effect, level)
    if floor >= 1:
        method = "Tango score"
    value = (b - c) / total
    difference = Estimate(value, min(low, value), max(high, value), ESTIMAND, "issue", total, method, level)
    if b + c <= 0:
        test = Test(None, NULL, "score", "The arms resolved exactly the same issues in every run, so there is nothing to test.")
    else:
        test = Test(two_sided((b - c) / math.sqrt(b + c) / math.sqrt(effect)), NULL, "score")
    return Clustered(difference, test, total / effect, (b, c))


def bootstrap_by_issue(
    first: Outcomes, second: Outcomes, *, resamples: int = 9_999, seed: int = 0, method: str = "BCa", level: float = LEVEL
) -> Estimate:
    """The same difference with a bootstrap of issues (scipy): ``method`` is "BCa" or "percentile". A check by another route, not the result: where few
    issues differ it is too short (docs/statistics.md).

    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 13 and 14. The same seed gives the same interval.
    """
    mine, other = issue_means(first), issue_means(second)
    differences = [mine[issue][0] - other[issue][0] for issue in mine if issue in other]
    name, total = f"{method} bootstrap of issues, {resamples} resamples", len(differences)
    if not differences:
        return Estimate(None, None, None, ESTIMAND, "issue", 0, name, level, NO_OVERLAP)
    value = mean(differences)
    if total < 2 or max(differences) - min(differences) < 1e-12:
        why = (
            "There is one issue only."
            if total < 2
            else f"The difference is the same on all {count(total, 'issue', 'issues')}, so resampling them shows no spread."
        )
        return Estimate(value, None, None, ESTIMAND, "issue", total, name, level, why)
    low, high = resample_means(differences, resamples=resamples, seed=seed, method=method, level=level)
    if not (math.isfinite(low) and math.isfinite(high)):
        why = "The resamples are too much alike for this kind of interval."
        return Estimate(value, None, None, ESTIMAND, "issue", total, name, level, why)
    return Estimate(value, low, high, ESTIMAND, "issue", total, name, level)


def resample_means(values: list[float], *, resamples: int, seed: int, method: str, level: float) -> tuple[float, float]:
    """scipy's bootstrap interval of a mean; the values must not be all the same."""
    import numpy as np
    from scipy.stats import bootstrap

    batch = max(1, min(resamples, 4_000_000 // len(values)))
    found = bootstrap(
        (np.asarray(values),),
        np.mean,
        n_resamples=resamples,
        batch=batch,
        confidence_level=level,
        method=method,
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def leave_one_repository_out(first: Outcomes, second: Outcomes, repositories: Mapping[str, str], level: float = LEVEL) -> Sensitivity:
    """:func:`by_issue` without each repository in turn. A look at how much rests on one repository, not an interval over repositories.

    ``repositories``: issue id -> repository, for every issue that both arms have.
    """
    other = issue_means(second)
    shared = [issue for issue in issue_means(first) if issue in other]
    sizes: dict[str, int] = {}
    for issue in shared:
        sizes[repositories[issue]] = sizes.get(repositories[issue], 0) + 1
    if len(sizes) < 2:
        why = NO_OVERLAP if not shared else "All issues are of one repository, so none can be left out."
        return Sensitivity((), None, None, why)
    found = []
    for repository in sorted(sizes, key=lambda name: (-sizes[name], name)):
        kept = [issue for issue in shared if repositories[issue] != repository]
        rest = by_issue({issue: first[issue] for issue in kept}, {issue: second[issue] for issue in kept}, level)
        found.append(LeftOut(repository, sizes[repository], rest.difference))
    values = [part.difference.value for part in found if part.difference.value is not None]
    largest = found[0]
    note = (
        f"{count(len(sizes), 'repository', 'repositories')} are too few to resample repositories, so nothing here speaks of repositories that were not in the "
        f"experiment; the largest, {largest.repository}, has {largest.issues} of {count(len(shared), 'issue', 'issues')}."
    )
    return Sensitivity(tuple(found), min(values), max(values), note)
