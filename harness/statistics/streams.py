"""The effect of a method over streams (online) or over builds of its bank (crossfit): what would change if the order or the build were another.

The unit of replication is the stream. Issues are taken as they are: the effect is on these issues. The baseline learns nothing and has no order, so its
reruns are averaged; its own noise is common to every stream's difference, which a plain t interval over the streams' differences does not see.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.statistics.estimates import LEVEL, Counts, Estimate, Outcomes, Test, count, issue_means, mean, present, t_of, variance, z_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NULL = "over streams, the arm with memory and the baseline have the same mean on these issues"
NO_EFFECT = "memory changes the chance of no issue: every attempt of an issue, with or without memory, is a draw of the same"


@dataclass(frozen=True, slots=True)
class OverStreams:
    """``effect`` over streams; ``streams`` each one's difference to the baseline; ``between`` their standard deviation (None for one);
    ``baseline_error`` the standard error of the baseline's mean that all of them share (None where it cannot be known)."""

    effect: Estimate
    test: Test
    streams: tuple[float, ...]
    between: float | None
    baseline_error: float | None


def over_streams(memory: Counts, baseline: Counts, *, estimand: str = "", unit: str = "stream", level: float = LEVEL) -> OverStreams:
    """Mean over streams of the difference between memory and baseline, with an interval over streams.

    ``memory``: issue id -> per stream a value (resolved, a share of reruns, calls, ...; the same stream has the same place in every list). ``baseline``: issue
    id -> per rerun a value. Over issues with a baseline run and a run in the stream.

    The variance has two parts: A, of the streams' means over the number of streams, with S - 1 degrees of freedom; and V, of the baseline's mean, summed
    over issues from the spread of its reruns. The half width is Cochran's: sqrt(A + V) times the mean of Student's and the normal quantile weighted by A and V
    (Cochran and Cox, "Experimental Designs", 2nd edition, 1957, section 4.14). With one run of the baseline, V comes from the spread of the memory arm's
    streams within issues, and ``why`` says so. One stream gives a value and no interval.
    """
    estimand = estimand or f"mean difference between memory and the baseline over {unit}s, on these issues"
    method = f"Cochran's t over {unit}s, with the baseline's noise"
    base = issue_means(baseline)
    issues = [issue for issue in memory if issue in base]
    width = max((len(memory[issue]) for issue in issues), default=0)
    differences, levels = [], []
    for place in range(width):
        pairs = [
            (float(value), base[issue][0]) for issue in issues if place < len(memory[issue]) and (value := memory[issue][place]) is not None
        ]
        if pairs:
            differences.append(mean([mine - other for mine, other in pairs]))
            levels.append(mean([mine for mine, _ in pairs]))
    if not differences:
        why = "No issue was graded in both arms, so there is nothing to compare."
        return OverStreams(Estimate(None, None, None, estimand, unit, 0, method, level, why), Test(None, NULL, method, why), (), None, None)
    value, number = mean(differences), len(differences)
    if number == 1:
        why = (
            f"There is one {unit}: its difference belongs to this {unit}'s path. What memory does on average over {unit}s takes several; "
            "what one supports is the test of no effect on any issue."
        )
        effect = Estimate(value, None, None, estimand, unit, 1, method, level, why)
        return OverStreams(effect, Test(None, NULL, method, why), tuple(differences), None, None)
    noise, borrowed = _baseline_variance(memory, baseline, issues)
    between = variance(differences)
    own = between / number
    spread = own + noise
    if spread <= 1e-18:
        why = f"The {number} {unit}s and the baseline's reruns show no spread at all, which says nothing about how much they could vary."
        effect = Estimate(value, None, None, estimand, unit, number, method, level, why)
        return OverStreams(effect, Test(None, NULL, method, why), tuple(differences), math.sqrt(between), math.sqrt(noise))

    def half(at: float) -> float:
        return (t_of(at, number - 1) * own + z_of(at) * noise) / math.sqrt(spread)

    why = ""
    if borrowed:
        why = "The baseline ran once, so its own noise is taken to be that of the memory arm within issues: an assumption. A second baseline run measures it."
    effect = Estimate(value, value - half(level), value + half(level), estimand, unit, number, method, level, why)
    return OverStreams(effect, Test(_inverted(half, abs(value)), NULL, method), tuple(differences), math.sqrt(between), math.sqrt(noise))


def _inverted(half: Callable[[float], float], distance: float) -> float:
    """The p value that belongs to an interval: 1 less the level at which its half width is ``distance``."""
    from scipy.optimize import brentq

    if distance <= 0:
        return 1.0
    if half(1 - 1e-12) <= distance:
        return 1e-12
    return 1 - float(brentq(lambda at: half(at) - distance, 0.0, 1 - 1e-12, xtol=1e-13))


def _baseline_variance(memory: Counts, baseline: Counts, issues: list[str]) -> tuple[float, bool]:
    """Variance of the baseline's mean over ``issues``, and whether the memory arm had to stand in for it.

    An issue with one run of the baseline gets the mean within-issue variance of the others.
    """
    runs = [present(baseline[issue]) for issue in issues]
    within = [variance(values) for values in runs if len(values) > 1]
    borrowed = not within
    if borrowed:
        within = [variance(values) for issue in issues if len(values := present(memory[issue])) > 1]
    common = mean(within) if within else 0.0
    parts = [(common if len(values) < 2 else variance(values)) / len(values) for values in runs]
    return math.fsum(parts) / len(issues) ** 2, borrowed


def no_effect_on_any_issue(first: Outcomes, second: Outcomes) -> Test:
    """Mid-p test of "memory changes the chance of no issue", the one that a single stream supports. Unit: the attempt, within issues.
    Outcomes are those of single runs, 0 or 1 each.

    If memory does nothing, which of an issue's runs had it is arbitrary: the number of resolved runs in the first arm is hypergeometric given how many of
    the issue's runs were resolved, and the sum over issues has the convolution of these (the exact conditional test of Mantel and Haenszel, JNCI 22:719,
    1959; Agresti, "Categorical Data Analysis", 2nd edition, section 6.3). p counts half the probability of what was seen (mid-p), and all that is less
    likely on that side, doubled. With one run in each arm it is McNemar's mid-p (1 where as many pairs fall on either side). Rejecting says that memory
    changed something for some issue, and not that its mean effect is not 0.
    """
    import numpy as np

    method = "exact conditional, mid-p"
    distribution, least, seen = np.ones(1), 0, 0
    issues = 0
    for issue, runs in first.items():
        mine, other = present(runs), present(second.get(issue, ()))
        good, size = round(sum(mine) + sum(other)), len(mine) + len(other)
        if not mine or not other:
            continue
        issues += 1
        low, high = max(0, good - len(other)), min(good, len(mine))
        seen += round(sum(mine))
        least += low
        if high > low:
            distribution = np.convolve(distribution, _dealt(good, size, len(mine)))
    if not issues:
        return Test(None, NO_EFFECT, method, "No issue was graded in both arms, so there is nothing to compare.")
    if len(distribution) == 1:
        why = f"No attempt differs from another on any of the {count(issues, 'issue', 'issues')}, so there is nothing to test."
        return Test(None, NO_EFFECT, method, why)
    place = seen - least
    below, above = float(distribution[:place].sum()), float(distribution[place + 1 :].sum())
    point = float(distribution[place])
    return Test(min(2 * (min(below, above) + point / 2), 1.0), NO_EFFECT, method)


@lru_cache(maxsize=4096)
def _dealt(good: int, size: int, drawn: int) -> NDArray[np.float64]:
    """Chances of 0 or least .. most resolved runs among ``drawn`` of an issue's ``size``, of which ``good`` are resolved (scipy)."""
    import numpy as np
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.pmf(np.arange(max(0, good - size + drawn), min(good, drawn) + 1), size, good, drawn))
