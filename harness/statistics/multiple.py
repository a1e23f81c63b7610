"""Several comparisons: Holm's adjustment over the secondary ones, and which words the results have earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.statistics.estimates import Estimate, Test


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the words "memory helps" are earned, and the sentence that says why or why not."""

    earned: bool
    sentence: str


def holm(ps: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's adjusted p values, in the order given (statsmodels). Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6:65 (1979).

    A comparison that could not be tested (None) stays None and still counts towards the number of comparisons: it was planned.
    """
    if not ps:
        return ()
    from statsmodels.stats.multitest import multipletests

    adjusted = multipletests([1.0 if p is None else p for p in ps], method="holm")[1]
    return tuple(None if p is None else float(q) for p, q in zip(ps, adjusted, strict=True))


def memory_helps(over_none: tuple[Estimate, Test] | None, over_derangement: tuple[Estimate, Test] | None, alpha: float = 0.05) -> Claim:
    """ "Memory helps" takes memory above no memory, and memory above the derangement (items of other issues): both at ``alpha``, two-sided, in memory's favour.

    Both must hold, so neither is adjusted (intersection-union test: Berger, Technometrics 24:295, 1982). None for a control that the experiment did not have.
    """
    for result, control in ((over_none, "no memory"), (over_derangement, "the derangement (the items of other issues)")):
        if result is None:
            return Claim(False, f"The experiment has no comparison with {control}, so it cannot say that memory helps.")
        estimate, test = result
        if estimate.value is None or test.p is None:
            return Claim(False, f"Memory could not be tested against {control}: {test.why or estimate.why}")
        if not (estimate.value > 0 and test.p < alpha):
            return Claim(
                False, f"Memory is not shown to be above {control} (difference {100 * estimate.value:+.1f} points, p = {test.p:.3f})."
            )
    return Claim(
        True, "Memory is above no memory and above the items of other issues, so what it says helps, and not only that something is said."
    )
