"""Missing attempts: whether the arms lose unequally many, and the best and the worst that the missing ones could do to the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.statistics.estimates import LEVEL, Outcomes, Test, present
from harness.statistics.repeated import by_issue

NULL = "an attempt is as likely to be missing in the one arm as in the other"


@dataclass(frozen=True, slots=True)
class Bounds:
    """``low`` and ``high``: the difference in resolve rate, first minus second, over all planned issues, if every missing run came out against or for the
    first arm. ``interval_low`` and ``interval_high``: the outer limits of their intervals, which cover the true difference whatever made runs go missing.

    ``missing``: runs of each arm. ``unequal``: the test of whether they are missing equally often.
    """

    low: float | None
    high: float | None
    interval_low: float | None
    interval_high: float | None
    missing: tuple[int, int]
    planned: int
    unequal: Test
    why: str = ""


def worst_case(first: Outcomes, second: Outcomes, planned: Sequence[str], runs: tuple[int, int] = (1, 1), level: float = LEVEL) -> Bounds:
    """Bounds without any assumption about missing runs. Unit: the issue.

    ``planned``: the issues of the experiment; ``runs``: how many of each issue each arm should have. Manski, "Nonparametric bounds on treatment effects",
    American Economic Review 80:319 (1990); Horowitz and Manski, JASA 95:77 (2000), for missing outcomes in experiments.
    """
    low_first, high_first, lost_first = _filled(first, planned, runs[0])
    low_second, high_second, lost_second = _filled(second, planned, runs[1])
    unequal = _unequal(lost_first, lost_second)
    missing = (sum(lost_first), sum(lost_second))
    if not planned:
        return Bounds(None, None, None, None, missing, 0, unequal, "No issue was planned.")
    least, most = by_issue(low_first, high_second, level).difference, by_issue(high_first, low_second, level).difference
    return Bounds(least.value, most.value, least.low, most.high, missing, len(planned), unequal)


def _filled(outcomes: Outcomes, planned: Sequence[str], runs: int) -> tuple[dict[str, list[float]], dict[str, list[float]], list[int]]:
    """All missing runs failed, all resolved, and how many are missing by issue."""
    low, high, lost = {}, {}, []
    for issue in planned:
        found = present(outcomes.get(issue, ()))
        gone = max(runs - len(found), 0)
        low[issue], high[issue] = found + [0.0] * gone, found + [1.0] * gone
        lost.append(gone)
    return low, high, lost


def _unequal(first: Sequence[int], second: Sequence[int]) -> Test:
    """McNemar's mid-p on issues that miss a run in one arm only: the pairing by issue keeps issues that no arm can run from counting."""
    from harness.statistics.paired import mcnemar_midp

    only_first = sum(a > 0 and b == 0 for a, b in zip(first, second, strict=True))
    only_second = sum(b > 0 and a == 0 for a, b in zip(first, second, strict=True))
    if not only_first + only_second:
        return Test(None, NULL, "McNemar mid-p", "No issue misses a run in one arm only.")
    return Test(mcnemar_midp(only_first, only_second), NULL, "McNemar mid-p")
