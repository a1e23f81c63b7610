"""The power of an experiment on one frozen bank with one run of each arm: exact, by adding up the tables that McNemar's mid-p test rejects.

An effect is a difference in resolve rate, a discordance the share of issues on which the two arms differ. Both are shares, not points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from harness.statistics.estimates import count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALPHA = 0.05
MOST_ISSUES = 200_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A number that was asked for, or None and why not."""

    value: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one frozen bank and one run of each arm can show.

    ``power`` of the planned design; ``issues_80`` and ``issues_90``: how many issues give that power; ``smallest_80`` and ``smallest_90``: the smallest effect
    that the planned issues show with that power; ``most_discordant``: the most discordant pairs that the expected net wins may come with, at p < .05;
    ``why``: what is wrong with the question, if anything.
    """

    issues: int
    baseline: float
    effect: float
    discordance: float
    power: Answer
    issues_80: Answer
    issues_90: Answer
    smallest_80: Answer
    smallest_90: Answer
    most_discordant: Answer
    why: str = ""


def impossible(baseline: float, effect: float, discordance: float) -> str:
    """Why no pair of arms has these three, as a sentence; "" if one can.

    The share that only memory resolves, (discordance + effect) / 2, must fit into what the baseline fails, the share that only the baseline resolves into
    what it resolves.
    """
    gained, lost = (discordance + effect) / 2, (discordance - effect) / 2
    if not 0 <= baseline <= 1 or not 0 <= baseline + effect <= 1:
        return f"A baseline of {baseline:.3f} and an effect of {effect:+.3f} do not both lie between 0 and 1."
    if lost < -1e-12 or gained < -1e-12:
        return f"A difference of {effect:+.3f} takes a discordance of at least {abs(effect):.3f}, not {discordance:.3f}."
    if gained > 1 - baseline + 1e-12 or lost > baseline + 1e-12:
        most = min(2 * (1 - baseline) - effect, 2 * baseline + effect)
        return f"With a baseline of {baseline:.3f} and an effect of {effect:+.3f} the discordance can be at most {most:.3f}, not {discordance:.3f}."
    return ""


def mcnemar_power(issues: int, effect: float, discordance: float, alpha: float = ALPHA) -> float:
    """The chance that McNemar's mid-p test gives p < ``alpha`` (in either direction: at effect 0 this is the level).

    Exact: the number of discordant pairs is binomial (issues, discordance), the first arm's share of them binomial with (1 + effect / discordance) / 2, and the
    rejected tables are added up. Needs abs(effect) <= discordance <= 1, else ValueError.
    """
    import numpy as np
    from scipy.stats import binom

    if issues < 1 or not abs(effect) <= discordance + 1e-12 or not 0 <= discordance <= 1:
        raise ValueError("needs an issue or more, and a discordance between the size of the effect and 1")
    if discordance <= 0:
        return 0.0
    # Counts of discordant pairs outside these have a chance below 1e-12 altogether.
    low, high = int(binom.ppf(1e-13, issues, discordance)), int(binom.isf(1e-13, issues, discordance))
    pairs = np.arange(max(low, 0), min(high, issues) + 1)
    most = _rejected(_table_size(int(pairs[-1])), alpha)[pairs]
    share = min(max((1 + effect / discordance) / 2, 0.0), 1.0)
    reject = np.where(most < 0, 0.0, binom.cdf(most, pairs, share) + binom.sf(pairs - most - 1, pairs, share))
    return float(np.sum(binom.pmf(pairs, issues, discordance) * reject))


def _table_size(pairs: int) -> int:
    """Critical values are made for powers of two, so that one table serves many questions."""
    return max(256, 1 << (pairs + 1).bit_length())


@lru_cache(maxsize=8)
def _rejected(size: int, alpha: float) -> NDArray[np.int64]:
    """For 0 .. size discordant pairs the greatest lesser count that mid-p rejects; -1 where none."""
    import numpy as np
    from scipy.stats import binom

    pairs = np.arange(size + 1)
    guess = binom.ppf(alpha / 2, pairs, 0.5).astype(np.int64)
    best = np.full(size + 1, -1, dtype=np.int64)
    for step in (-2, -1, 0, 1, 2):
        least = guess + step
        allowed = (least >= 0) & (2 * least < pairs)
        p = 2 * binom.cdf(least, pairs, 0.5) - binom.pmf(least, pairs, 0.5)
        best = np.where(allowed & (p < alpha), np.maximum(best, least), best)
    return best


def required_issues(effect: float, discordance: float, power: float = 0.8, alpha: float = ALPHA, most: int = MOST_ISSUES) -> Answer:
    """The least number of issues from which on the power stays at ``power`` or above (it can dip as issues are added, so the next 50 are looked at)."""
    if effect == 0:
        return Answer(None, "No number of issues shows an effect of 0.")
    if abs(effect) > discordance:
        return Answer(None, impossible(0.5, effect, discordance))

    def enough(issues: int) -> bool:
        return mcnemar_power(issues, effect, discordance, alpha) >= power

    high = 16
    while not enough(high):
        high *= 2
        if high > most:
            return Answer(None, f"More than {most:,} issues would be needed.")
    low = high // 2 if high > 16 else 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    found = high
    for issues in range(high + 1, high + 51):
        if not enough(issues):
            found = issues + 1
    return Answer(float(found))


def smallest_effect(issues: int, discordance: float, baseline: float, power: float = 0.8, alpha: float = ALPHA) -> Answer:
    """The smallest gain that ``issues`` show with that power, where the arms differ on ``discordance`` of the issues however large the gain is."""
    most = min(discordance, 1 - baseline)
    if most <= 0 or impossible(baseline, most, discordance):
        most = min(most, 2 * (1 - baseline) - discordance)
    if most <= 0:
        return Answer(None, impossible(baseline, 0.0, discordance) or "There is no room above the baseline, or no discordance.")
    if mcnemar_power(issues, most, discordance, alpha) < power:
        return Answer(
            None, f"Not even the largest gain that this discordance allows ({100 * most:.1f} points) is shown with {power:.0%} power."
        )
    from scipy.optimize import brentq

    return Answer(float(brentq(lambda effect: mcnemar_power(issues, effect, discordance, alpha) - power, 0.0, most, xtol=1e-6)))


def most_discordant(net_wins: int, issues: int, alpha: float = ALPHA) -> Answer:
    """The most discordant pairs with which ``net_wins`` more wins than losses still give mid-p < ``alpha``."""
    if net_wins < 1:
        return Answer(None, "There is no net win.")
    best = None
    for losses in range((issues - net_wins) // 2 + 1):
        pairs = net_wins + 2 * losses
        if int(_rejected(_table_size(pairs), alpha)[pairs]) >= losses:
            best = pairs
        else:
            break
    return (
        Answer(float(best))
        if best is not None
        else Answer(None, f"{count(net_wins, 'net win gives', 'net wins give')} p < {alpha:g} with no number of discordant pairs.")
    )


def plan(issues: int, baseline: float, effect: float, discordance: float, alpha: float = ALPHA) -> Plan:
    """Everything that :class:`Plan` names; no exception for a question that makes no sense, but its ``why``."""
    wrong = impossible(baseline, effect, discordance) if issues >= 1 else "An experiment takes an issue or more."
    shown: dict[str, Any] = {"issues": issues, "baseline": baseline, "effect": effect, "discordance": discordance}
    if wrong:
        none = Answer(None, wrong)
        return Plan(
            **shown, power=none, issues_80=none, issues_90=none, smallest_80=none, smallest_90=none, most_discordant=none, why=wrong
        )
    return Plan(
        **shown,
        power=Answer(mcnemar_power(issues, effect, discordance, alpha)),
        issues_80=required_issues(effect, discordance, 0.8, alpha),
        issues_90=required_issues(effect, discordance, 0.9, alpha),
        smallest_80=smallest_effect(issues, discordance, baseline, 0.8, alpha),
        smallest_90=smallest_effect(issues, discordance, baseline, 0.9, alpha),
        most_discordant=most_discordant(round(math.fabs(effect) * issues), issues, alpha),
    )
