"""The resolve rate of one arm: Wilson's interval for one run, clustered by issue for several."""

from __future__ import annotations

from collections.abc import Sequence

from harness.statistics.estimates import LEVEL, Estimate, Outcomes, issue_means, mean, variance


def wilson(successes: float, trials: float, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's score interval of a proportion (statsmodels). ``trials`` must be above 0; both may be fractions (effective numbers).

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22:209 (1927).
    """
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, trials, alpha=1 - level, method="wilson")
    return max(float(low), 0.0), min(float(high), 1.0)


def rate(outcomes: Outcomes, level: float = LEVEL) -> Estimate:
    """The resolve rate of an arm. Estimand: the chance that one run resolves an issue, averaged over issues. Unit: the issue.

    One run of each issue: Wilson's interval. Several: Wilson's interval at the effective number of issues (see :func:`bounded_mean`), because runs of one
    issue are no independent trials. None for an arm without a run.
    """
    found = issue_means(outcomes)
    means = [value for value, _ in found.values()]
    runs = [number for _, number in found.values()]
    estimand = "the chance that one run resolves an issue, averaged over the issues"
    return bounded_mean(means, [1 / number for number in runs], estimand=estimand, level=level)


def bounded_mean(shares: Sequence[float], floors: Sequence[float], *, estimand: str, level: float = LEVEL) -> Estimate:
    """The mean over issues of shares between 0 and 1 with Wilson's interval at the effective number of issues.

    A share that is 0 or 1 carries p (1 - p) of variance, a mean of several runs less. Their ratio, the design effect, turns n issues into n / effect
    (Kish, "Survey Sampling", 1965, section 8.2; Rao and Scott, "A simple method for the analysis of clustered binary data", Biometrics 48:577, 1992). The
    estimated effect is kept at or above the mean of ``floors``: for R independent runs it cannot be below 1 / R, and estimates below that are what makes such
    intervals too short where successes are few. With one run of each issue this is Wilson's interval itself.
    """
    if not shares:
        return Estimate(None, None, None, estimand, "issue", 0, "Wilson", level, "No issue of this arm has a graded run.")
    total, middle = len(shares), min(max(mean(shares), 0.0), 1.0)
    floor = mean(floors)
    single = floor >= 1
    effect = 1.0
    simple = middle * (1 - middle)
    if not single:
        effect = variance(shares, lost=1) / simple if simple > 0 and total > 1 else 1.0
        effect = min(max(effect, floor), 1.0)
    low, high = wilson(middle * total / effect, total / effect, level)
    method = "Wilson" if single else "Wilson at the effective number of issues"
    return Estimate(middle, min(low, middle), max(high, middle), estimand, "issue", total, method, level)
