"""Two arms on the same issues, one run each: the discordant pairs, McNemar's tests, and intervals for the difference in resolve rate.

What is chosen and why: Fagerland, Lydersen, Laake, "Recommended tests and confidence intervals for paired binomial proportions", Statistics in Medicine
33:2850 (2014): mid-p for testing, Tango's score interval for the difference, Newcombe's as a check by another route.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.statistics.estimates import LEVEL, Estimate, Outcomes, Test, count, z_of

FEW_DISCORDANT = 20
"""Below this, docs/statistics.md promises less of the intervals."""
ESTIMAND = "difference in resolve rate between the two arms, on issues like these, given the banks that were used"
NULL = "an issue is as likely to be resolved only with the one arm as only with the other"


@dataclass(frozen=True, slots=True)
class Pairs:
    """How many issues both arms resolved, only the first, only the second, neither."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def total(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def discordant(self) -> int:
        return self.only_first + self.only_second


@dataclass(frozen=True, slots=True)
class PairedResult:
    """``difference`` (Tango) is the result; ``newcombe`` the check; ``notes`` what a reader must know beside them."""

    pairs: Pairs
    difference: Estimate
    newcombe: Estimate
    midp: Test
    exact: Test
    notes: tuple[str, ...]


def count_pairs(first: Outcomes, second: Outcomes, run: int = 0) -> Pairs:
    """The 2x2 table of run number ``run`` of each arm, over issues that have this run in both."""
    table = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for issue, mine in first.items():
        other = second.get(issue, ())
        if run < len(mine) and run < len(other) and (one := mine[run]) is not None and (two := other[run]) is not None:
            table[bool(one), bool(two)] += 1
    return Pairs(table[True, True], table[True, False], table[False, True], table[False, False])


def compare_pairs(pairs: Pairs, level: float = LEVEL) -> PairedResult:
    """All that one run of each of two arms supports. Unit: the issue. Any table is allowed, the empty one too."""
    n, b, c = pairs.total, pairs.only_first, pairs.only_second
    notes = []
    if not n:
        why = "No issue was graded in both arms, so there is nothing to compare."
        empty = Estimate(None, None, None, ESTIMAND, "issue", 0, "Tango", level, why)
        nothing = Test(None, NULL, "McNemar mid-p", why)
        return PairedResult(pairs, empty, empty, nothing, Test(None, NULL, "McNemar exact", why), (why,))
    difference = Estimate((b - c) / n, *tango(b, c, n, level), ESTIMAND, "issue", n, "Tango score", level)
    check = Estimate((b - c) / n, *newcombe(pairs, level), ESTIMAND, "issue", n, "Newcombe square-and-add", level)
    if not b + c:
        why = (
            f"The arms resolved exactly the same of the {count(n, 'issue', 'issues')}: without a discordant pair there is nothing to test."
        )
        return PairedResult(
            pairs, difference, check, Test(None, NULL, "McNemar mid-p", why), Test(None, NULL, "McNemar exact", why), (why,)
        )
    midp, exact = Test(mcnemar_midp(b, c), NULL, "McNemar mid-p"), Test(mcnemar_exact(b, c), NULL, "McNemar exact")
    if b + c < 6:
        notes.append(
            f"With {count(b + c, 'discordant pair', 'discordant pairs')} the exact test cannot reach p < .05 whatever the effect, "
            "and mid-p only with five on one side."
        )
    elif b + c < FEW_DISCORDANT:
        notes.append(
            f"Only {b + c} discordant pairs: the interval is wide, and its coverage less certain than with {FEW_DISCORDANT} or more."
        )
    return PairedResult(pairs, difference, check, midp, exact, tuple(notes))


def mcnemar_exact(only_one: int, only_other: int) -> float:
    """Exact two-sided McNemar test on discordant pairs (statsmodels)."""
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar([[0, only_one], [only_other, 0]], exact=True).pvalue)


def mcnemar_midp(only_one: int, only_other: int) -> float:
    """McNemar mid-p: the exact p less the probability of the observed table.

    Fagerland, Lydersen, Laake, "The McNemar test for binary matched-pairs data: mid-p and asymptotic are better than exact conditional", BMC Medical
    Research Methodology 13:91 (2013). Needs one discordant pair or more, else ValueError.
    """
    from scipy.stats import binom

    pairs = only_one + only_other
    if pairs < 1:
        raise ValueError("the test needs a discordant pair")
    least = min(only_one, only_other)
    point = float(binom.pmf(least, pairs, 0.5))
    if only_one == only_other:
        return 1.0 - 0.5 * point
    return 2.0 * float(binom.cdf(least, pairs, 0.5)) - point


def tango(only_first: float, only_second: float, total: float, level: float = LEVEL) -> tuple[float, float]:
    """Tango's score interval for the difference of two paired proportions, (only_first - only_second) / total.

    Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design", Statistics in Medicine 17:891 (1998):
    the differences that the score test of section 2 does not reject; the root in closed form as there. Counts may be fractions (effective numbers).
    ``total`` must be above 0, else ValueError.
    """
    if total <= 0:
        raise ValueError("the interval needs a pair")
    low = _lower_limit(only_first, only_second, total, z_of(level))
    high = -_lower_limit(only_second, only_first, total, z_of(level))
    return low, high


def _lower_limit(b: float, c: float, n: float, z: float) -> float:
    from scipy.optimize import brentq

    estimate = (b - c) / n
    if b + c <= 0:
        return -z * z / (n + z * z)  # the score equation solved by hand: its variance vanishes at the estimate
    if estimate <= -1 + 1e-12:
        return -1.0

    def excess(delta: float) -> float:
        return b - c - n * delta - z * math.sqrt(score_variance(b, c, n, delta))

    return float(brentq(excess, -1.0, estimate - 1e-13, xtol=1e-14, rtol=1e-14))


def score_variance(b: float, c: float, n: float, delta: float) -> float:
    """The variance of b - c where the difference is ``delta`` and the share of the second cell is at its maximum likelihood under that."""
    linear = -b - c + (2 * n - b + c) * delta
    constant = -c * delta * (1 - delta)
    share = (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n)
    return max(n * (2 * share + delta * (1 - delta)), 0.0)


def newcombe(pairs: Pairs, level: float = LEVEL) -> tuple[float, float]:
    """Newcombe's square-and-add interval from Wilson's intervals of the two rates and their correlation; needs one pair or more.

    Newcombe, "Improved confidence intervals for the difference between binomial proportions based on paired data", Statistics in Medicine 17:2635
    (1998), method 10, with its continuity correction of a positive correlation.
    """
    from harness.statistics.rates import wilson

    n = pairs.total
    if n < 1:
        raise ValueError("the interval needs a pair")
    ones, twos = pairs.both + pairs.only_first, pairs.both + pairs.only_second
    first, second = ones / n, twos / n
    low1, high1 = wilson(ones, n, level)
    low2, high2 = wilson(twos, n, level)
    margins = ones * (n - ones) * twos * (n - twos)
    cross: float = pairs.both * pairs.neither - pairs.only_first * pairs.only_second
    if cross > 0:
        cross = max(cross - n / 2, 0.0)
    correlation = cross / math.sqrt(margins) if margins else 0.0
    down1, up1, down2, up2 = first - low1, high1 - first, second - low2, high2 - second
    below = math.sqrt(max(down1 * down1 - 2 * correlation * down1 * up2 + up2 * up2, 0.0))
    above = math.sqrt(max(up1 * up1 - 2 * correlation * up1 * down2 + down2 * down2, 0.0))
    return max(first - second - below, -1.0), min(first - second + above, 1.0)
