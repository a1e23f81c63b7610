"""How far a judge can be trusted: its verdicts against the official tests, with intervals, and None where the data cannot say.

Formulas, as the core does without scipy (tests compare them with it): Wilson's interval (Wilson 1927; Brown, Cai and DasGupta 2001); for
the mean of two proportions the MOVER of Zou and Donner 2008 over the two Wilson intervals; AUROC as the Mann-Whitney statistic with DeLong's
variance (DeLong, DeLong and Clarke-Pearson 1988) on the logit scale (Pepe 2003, section 5.2.4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, fsum, log, sqrt
from statistics import NormalDist

from ..records import Verdict

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval at the stated level (0.95): 0 <= low <= value <= high <= 1."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Agreement:
    """A confusion matrix (truth first, verdict second) and what follows from it. A figure is None where its denominator is empty.

    ``sensitivity``, ``specificity`` and ``balanced_accuracy`` are over the attempts that were decided; ``strict`` is balanced accuracy with every
    "unknown" counted as wrong. ``auroc`` is over all attempts, by the probability of "resolved" that the verdict states; "unknown" counts as one half,
    as does a verdict without a confidence that says nothing else.
    """

    resolved_as_resolved: int = 0
    resolved_as_unresolved: int = 0
    resolved_as_unknown: int = 0
    unresolved_as_resolved: int = 0
    unresolved_as_unresolved: int = 0
    unresolved_as_unknown: int = 0
    sensitivity: Estimate | None = None
    specificity: Estimate | None = None
    balanced_accuracy: Estimate | None = None
    strict: Estimate | None = None
    auroc: Estimate | None = None
    level: float = LEVEL

    @property
    def resolved(self) -> int:
        """Attempts that the tests resolved."""
        return self.resolved_as_resolved + self.resolved_as_unresolved + self.resolved_as_unknown

    @property
    def unresolved(self) -> int:
        """Attempts that the tests did not resolve."""
        return self.unresolved_as_resolved + self.unresolved_as_unresolved + self.unresolved_as_unknown

    @property
    def decided(self) -> int:
        """Attempts with a verdict other than unknown."""
        return self.resolved + self.unresolved - self.resolved_as_unknown - self.unresolved_as_unknown

    def summary(self) -> str:
        """The matrix and the figures as lines of text; for data that cannot say, a sentence that says so."""
        total = self.resolved + self.unresolved
        if total == 0:
            return "No attempt has both a verdict and a test result: there is nothing to compare."
        rows = [
            ("", "judged resolved", "judged unresolved", "unknown"),
            ("tests: resolved", *map(str, (self.resolved_as_resolved, self.resolved_as_unresolved, self.resolved_as_unknown))),
            ("tests: unresolved", *map(str, (self.unresolved_as_resolved, self.unresolved_as_unresolved, self.unresolved_as_unknown))),
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join(cell.ljust(widths[i]) if i == 0 else cell.rjust(widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows
        ]
        lines.append(f"decided            {self.decided} of {total}")
        for name, figure in (
            ("sensitivity", self.sensitivity),
            ("specificity", self.specificity),
            ("balanced accuracy", self.balanced_accuracy),
            ("  unknown = wrong", self.strict),
            (f"AUROC, all {total}", self.auroc),  # an unknown counts as .5, so no attempt is left out
        ):
            if figure is not None:
                lines.append(f"{name:<18} {figure}")
        if not self.unresolved:
            lines.append("All attempts were resolved: nothing can be said about how failures are recognised.")
        elif not self.resolved:
            lines.append("No attempt was resolved: nothing can be said about how passes are recognised.")
        elif self.balanced_accuracy is None:
            lines.append("One of the two outcomes got no verdict but unknown: balanced accuracy over decided attempts cannot be computed.")
        if any(figure is not None for figure in (self.sensitivity, self.specificity)):
            lines.append(f'Intervals are at {self.level:.0%}. Always answering "resolved" has balanced accuracy 0.5 and AUROC 0.5.')
        return "\n".join(lines)


def agreement(pairs: Iterable[tuple[bool, Verdict]]) -> Agreement:
    """Compare verdicts with the truth: pairs of (resolved by the tests, the judge's verdict). Order does not matter; never NaN."""
    counts = dict.fromkeys(((t, o) for t in (True, False) for o in ("resolved", "unresolved", "unknown")), 0)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for truth, verdict in pairs:
        counts[truth, verdict.outcome] += 1
        scores[truth].append(score(verdict))
    hits, passes = counts[True, "resolved"], counts[True, "resolved"] + counts[True, "unresolved"]
    caught, failures = counts[False, "unresolved"], counts[False, "resolved"] + counts[False, "unresolved"]
    sensitivity = wilson(hits, passes)
    specificity = wilson(caught, failures)
    strict_sensitivity = wilson(hits, len(scores[True]))
    strict_specificity = wilson(caught, len(scores[False]))
    return Agreement(
        counts[True, "resolved"],
        counts[True, "unresolved"],
        counts[True, "unknown"],
        counts[False, "resolved"],
        counts[False, "unresolved"],
        counts[False, "unknown"],
        sensitivity,
        specificity,
        mean_of(sensitivity, specificity),
        mean_of(strict_sensitivity, strict_specificity),
        auroc(scores[True], scores[False]),
    )


def score(verdict: Verdict) -> float:
    """The probability of "resolved" that a verdict states: its confidence, turned round for "unresolved"; 1 or 0 where it gives none, .5 for "unknown"."""
    if verdict.outcome == "unknown":
        return 0.5
    confidence = 1.0 if verdict.confidence is None else min(max(verdict.confidence, 0.0), 1.0)
    return confidence if verdict.outcome == "resolved" else 1.0 - confidence


def wilson(hits: int, total: int, level: float = LEVEL) -> Estimate | None:
    """A proportion with Wilson's score interval; None for an empty total."""
    if total <= 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return Estimate(share, min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share))


def mean_of(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """The mean of two independent proportions, its limits recovered from theirs; None where one is missing."""
    if one is None or other is None:
        return None
    value = (one.value + other.value) / 2
    low = value - sqrt((one.value - one.low) ** 2 + (other.value - other.low) ** 2) / 2
    high = value + sqrt((one.high - one.value) ** 2 + (other.high - other.value) ** 2) / 2
    return Estimate(value, max(low, 0.0), min(high, 1.0))


def auroc(positive: list[float], negative: list[float], level: float = LEVEL) -> Estimate | None:
    """The chance that a positive scores above a negative (ties count half), with DeLong's interval on the logit scale.

    None where one side is empty. Where the sides are fully apart the variance is 0 and says nothing: the far limit is then the one of a run of
    ``min(m, n)`` successes without a failure (Clopper and Pearson 1934, one side). A single score on one side gives the interval 0 to 1.
    """
    m, n = len(positive), len(negative)
    if not m or not n:
        return None
    low_first, high_first = sorted(negative), sorted(positive)
    above = [(bisect_left(low_first, x) + bisect_right(low_first, x)) / (2 * n) for x in high_first]
    below = [1 - (bisect_left(high_first, y) + bisect_right(high_first, y)) / (2 * m) for y in low_first]
    value = fsum(above) / m
    if m < 2 or n < 2:
        return Estimate(value, 0.0, 1.0)
    if value in (0.0, 1.0):
        far = ((1 - level) / 2) ** (1 / min(m, n))
        return Estimate(value, far if value == 1.0 else 0.0, 1.0 if value == 1.0 else 1 - far)
    variance = fsum((v - value) ** 2 for v in above) / (m - 1) / m + fsum((v - value) ** 2 for v in below) / (n - 1) / n
    half = NormalDist().inv_cdf(0.5 + level / 2) * sqrt(variance) / (value * (1 - value))
    middle = log(value / (1 - value))
    return Estimate(value, 1 / (1 + exp(half - middle)), 1 / (1 + exp(-half - middle)))
