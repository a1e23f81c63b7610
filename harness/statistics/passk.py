"""Several attempts at each issue with one bank version: pass@k, and the best of n under a selector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.statistics.estimates import LEVEL, Estimate, Outcomes, count, present
from harness.statistics.rates import bounded_mean


@dataclass(frozen=True, slots=True)
class PassAtK:
    """``short``: issues with fewer attempts than k, which are left out."""

    k: int
    estimate: Estimate
    short: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BestOfN:
    """What a selector makes of n attempts, between picking at random (pass@1) and always picking a resolved one if there is one (pass@n)."""

    n: int
    selector: str
    selected: Estimate
    at_random: Estimate
    perfect: Estimate
    short: tuple[str, ...]


def unbiased_pass_at_k(attempts: int, resolved: int, k: int) -> float:
    """1 - C(attempts - resolved, k) / C(attempts, k), for 1 <= k <= attempts, else ValueError.

    Chen et al., "Evaluating Large Language Models Trained on Code" (2021), arXiv 2107.03374, equation 1.
    """
    if not 1 <= k <= attempts or not 0 <= resolved <= attempts:
        raise ValueError("k must lie between 1 and the number of attempts, of which some are resolved")
    return 1.0 - math.comb(attempts - resolved, k) / math.comb(attempts, k)


def pass_at_k(outcomes: Outcomes, k: int, level: float = LEVEL) -> PassAtK:
    """Estimand: the chance that k independent attempts with this bank version resolve an issue at least once, averaged over issues. Unit: the issue.

    The attempts of an issue must be i.i.d. (one bank version, one model, one prompt): attempts of an online stream are not. Wilson's interval
    at the effective number of issues.
    """
    if k < 1:
        raise ValueError("k must be 1 or more")
    values, floors, short = [], [], []
    for issue, runs in outcomes.items():
        found = present(runs)
        if len(found) < k:
            short.append(issue)
        else:
            values.append(unbiased_pass_at_k(len(found), round(sum(found)), k))
            floors.append(k / len(found))
    return PassAtK(k, _estimate(values, floors, f"chance that at least one of {k} attempts resolves an issue", k, level), tuple(short))


def _estimate(values: Sequence[float], floors: Sequence[float], estimand: str, attempts: int, level: float) -> Estimate:
    found = bounded_mean(values, floors, estimand=estimand, level=level)
    return found if values else replace(found, why=f"No issue has {count(attempts, 'attempt', 'attempts')}.")


def best_of_n(attempts: Mapping[str, Sequence[tuple[float, bool]]], n: int, selector: str, level: float = LEVEL) -> BestOfN:
    """Estimand: the chance that the attempt that ``selector`` scores highest among n is resolved, averaged over issues. Unit: the issue.

    ``attempts``: issue id -> (score, resolved) of each attempt; of equal scores one is picked at random. Over all ways to choose n of an issue's attempts, so
    unbiased as pass@k is: with the scores in order, the one at place i (from 1) is the best of C(i - 1, n - 1) of the C(attempts, n) choices.
    """
    if n < 1:
        raise ValueError("n must be 1 or more")
    kept = {issue: rows for issue, rows in attempts.items() if len(rows) >= n}
    outcomes = {issue: [done for _, done in rows] for issue, rows in kept.items()}
    values, floors = [_selected(sorted(rows), n) for rows in kept.values()], [n / len(rows) for rows in kept.values()]
    selected = _estimate(values, floors, f"chance that the attempt picked by {selector} among {n} is resolved", n, level)
    short = tuple(issue for issue in attempts if issue not in kept)
    return BestOfN(n, selector, selected, pass_at_k(outcomes, 1, level).estimate, pass_at_k(outcomes, n, level).estimate, short)


def _selected(rows: Sequence[tuple[float, bool]], n: int) -> float:
    """Expected outcome of the best-scored of n of ``rows`` (rising scores)."""
    weights = [math.comb(place, n - 1) for place in range(len(rows))]
    total, value, start = math.comb(len(rows), n), 0.0, 0
    while start < len(rows):
        end = start
        while end < len(rows) and rows[end][0] == rows[start][0]:
            end += 1
        value += sum(weights[start:end]) / total * sum(done for _, done in rows[start:end]) / (end - start)
        start = end
    return value
