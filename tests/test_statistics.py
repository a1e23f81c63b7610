"""Resolve rates, paired differences and tests: published figures, other implementations, and a true sentence for every awkward arm."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outcomes import arms, every_number_is_plain, made

from harness.statistics.bounds import worst_case
from harness.statistics.estimates import Outcomes
from harness.statistics.paired import Pairs, compare_pairs, count_pairs, mcnemar_exact, mcnemar_midp, tango
from harness.statistics.rates import rate, wilson
from harness.statistics.repeated import bootstrap_by_issue, by_issue, leave_one_repository_out
from harness.statistics.streams import no_effect_on_any_issue, over_streams

# Fagerland, Lydersen, Laake: airway hyper-responsiveness (Bentur 2009), and complete response to consolidation therapy (Cavo 2012).
AIRWAY, CAVO = Pairs(1, 1, 7, 12), Pairs(59, 6, 16, 80)

counts = st.integers(0, 40)
tables = st.builds(Pairs, counts, counts, counts, counts).filter(lambda pairs: pairs.total > 0)


def test_wilson_against_a_published_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81 of 263 and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_midp_and_exact_agree_with_published_figures() -> None:
    # The R package contingencytables, which goes with Fagerland, Lydersen, Laake, "Statistical Analysis of Contingency Tables" (2017), on Cavo's table.
    assert mcnemar_midp(6, 16) == pytest.approx(0.034690, abs=5e-7)
    assert mcnemar_exact(6, 16) == pytest.approx(0.052479, abs=5e-7)


def test_with_17_net_wins_midp_allows_73_discordant_pairs_and_exact_67() -> None:
    assert mcnemar_midp(45, 28) < 0.05 < mcnemar_midp(46, 29)
    assert mcnemar_exact(42, 25) < 0.05 < mcnemar_exact(43, 26)


@settings(deadline=None)
@given(st.integers(0, 25), st.integers(0, 25))
def test_midp_is_the_sum_over_all_tables(b: int, c: int) -> None:
    if not b + c:
        return
    chance = [Fraction(math.comb(b + c, k), 2 ** (b + c)) for k in range(b + c + 1)]
    seen = chance[min(b, c)]
    tail = 2 * sum(chance[: min(b, c)], Fraction(0)) + seen if b != c else 1 - seen / 2
    assert mcnemar_midp(b, c) == pytest.approx(float(tail))
    assert mcnemar_midp(b, c) == pytest.approx(mcnemar_midp(c, b))
    assert 0 < mcnemar_midp(b, c) <= mcnemar_exact(b, c) <= 1


@pytest.mark.parametrize(
    ("pairs", "score", "square_and_add"),
    [(CAVO, (-0.1240, -0.0054), (-0.1186, -0.0046)), (AIRWAY, (-0.5172, -0.0260), (-0.5069, -0.0256))],
)
def test_tango_and_newcombe_against_published_intervals(
    pairs: Pairs, score: tuple[float, float], square_and_add: tuple[float, float]
) -> None:
    # Cavo: as contingencytables gives them. Airway: -0.517 to -0.026 and -0.507 to -0.026 in Fagerland et al. 2014.
    found = compare_pairs(pairs)
    assert (found.difference.low, found.difference.high) == pytest.approx(score, abs=6e-5)
    assert (found.newcombe.low, found.newcombe.high) == pytest.approx(square_and_add, abs=6e-5)


def likelihood_score(b: int, c: int, n: int, delta: float) -> float:
    """Tango's statistic without his closed form: the restricted maximum likelihood found by search, over the variance that it implies."""
    from scipy.optimize import minimize_scalar

    def minus_log(share: float) -> float:
        first, rest = share + delta, 1 - 2 * share - delta
        parts = ((b, first), (c, share), (n - b - c, rest))
        return -sum(number * math.log(max(chance, 1e-300)) for number, chance in parts if number)

    low, high = max(0.0, -delta), (1 - delta) / 2
    share = minimize_scalar(minus_log, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return float((b - c - n * delta) / math.sqrt(n * (2 * share + delta - delta * delta)))


@pytest.mark.parametrize(
    ("b", "c", "n"), [(6, 16, 161), (1, 7, 21), (12, 2, 50), (40, 20, 160), (3, 0, 30), (0, 5, 9), (45, 28, 500), (1, 1, 2)]
)
def test_tango_is_the_inversion_of_the_score_test(b: int, c: int, n: int) -> None:
    for limit, sign in zip(tango(b, c, n), (1, -1), strict=True):
        assert sign * likelihood_score(b, c, n, limit) == pytest.approx(1.959964, abs=2e-4)


@settings(deadline=None)
@given(tables)
def test_paired_intervals_turn_round_when_the_arms_do(pairs: Pairs) -> None:
    turned = Pairs(pairs.both, pairs.only_second, pairs.only_first, pairs.neither)
    one, other = compare_pairs(pairs), compare_pairs(turned)
    assert every_number_is_plain(one)
    for name in ("difference", "newcombe"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a.value, a.low, a.high) == pytest.approx((-b.value, -b.high, -b.low), abs=1e-9)
        assert -1 <= a.low <= a.value <= a.high <= 1
    assert one.midp.p == pytest.approx(other.midp.p)


@settings(deadline=None)
@given(tables, st.floats(0.5, 0.98))
def test_a_higher_level_gives_a_wider_interval(pairs: Pairs, level: float) -> None:
    narrow, wide = (
        tango(pairs.only_first, pairs.only_second, pairs.total, level),
        tango(pairs.only_first, pairs.only_second, pairs.total, 0.99),
    )
    assert wide[0] <= narrow[0] + 1e-12 and narrow[1] <= wide[1] + 1e-12


@settings(deadline=None)
@given(tables)
def test_the_score_interval_leaves_out_0_exactly_where_the_score_test_rejects(pairs: Pairs) -> None:
    b, c = pairs.only_first, pairs.only_second
    if b + c:
        low, high = tango(b, c, pairs.total)
        z = (b - c) / math.sqrt(b + c)
        assert (abs(z) > 1.959964) == (low > 0 or high < 0) or abs(abs(z) - 1.959964) < 1e-6


def test_without_discordant_pairs_the_interval_is_wilsons_bound_and_there_is_no_p() -> None:
    found = compare_pairs(Pairs(10, 0, 0, 10))
    assert (found.difference.low, found.difference.high) == pytest.approx((-wilson(0, 20)[1], wilson(0, 20)[1]))
    assert found.midp.p is None and "nothing to test" in found.midp.why


def test_no_shared_issue_is_said() -> None:
    found = compare_pairs(count_pairs({"a": [True]}, {"b": [True]}))
    assert found.difference.value is None and "nothing to compare" in found.difference.why


def test_few_discordant_pairs_are_noted() -> None:
    assert "exact test cannot reach" in compare_pairs(Pairs(0, 5, 0, 5)).notes[0]
    assert "coverage less certain" in compare_pairs(Pairs(0, 8, 2, 5)).notes[0]
    assert compare_pairs(Pairs(0, 15, 8, 5)).notes == ()


def test_a_run_that_is_missing_in_one_arm_makes_no_pair() -> None:
    first: Outcomes = {"a": [True, False], "b": [None, True], "c": [True], "d": [False]}
    second: Outcomes = {"a": [False, False], "b": [True, True], "c": [], "e": [True]}
    assert count_pairs(first, second) == Pairs(0, 1, 0, 0)
    assert count_pairs(first, second, run=1) == Pairs(1, 0, 0, 1)


@settings(max_examples=60, deadline=None)
@given(arms, arms)
def test_whatever_the_outcomes_no_number_is_nan_and_none_has_a_reason(first: Outcomes, second: Outcomes) -> None:
    repositories = {issue: f"repo{int(issue[1:]) % 3}" for issue in {*first, *second}}
    results = (
        compare_pairs(count_pairs(first, second)),
        by_issue(first, second),
        bootstrap_by_issue(first, second, resamples=99),
        leave_one_repository_out(first, second, repositories),
        over_streams(first, second),
        no_effect_on_any_issue(first, second),
        rate(first),
        worst_case(first, second, sorted({*first, *second}), (4, 4)),
    )
    for result in results:
        assert every_number_is_plain(result), result


@settings(max_examples=60, deadline=None)
@given(arms, arms)
def test_clustered_results_turn_round_when_the_arms_do(first: Outcomes, second: Outcomes) -> None:
    one, other = by_issue(first, second), by_issue(second, first)
    if one.difference.value is None or one.difference.low is None or other.difference.high is None:
        return
    assert one.difference.value == pytest.approx(-other.difference.value, abs=1e-12)
    assert one.difference.low == pytest.approx(-other.difference.high, abs=1e-9)
    assert one.difference.low <= one.difference.value <= one.difference.high
    assert (one.test.p is None) == (other.test.p is None)


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 60).map(str), st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_with_one_run_each_the_clustered_interval_is_tangos(pairs: dict[str, tuple[bool, bool]]) -> None:
    first, second = {issue: [a] for issue, (a, _) in pairs.items()}, {issue: [b] for issue, (_, b) in pairs.items()}
    clustered, single = by_issue(first, second).difference, compare_pairs(count_pairs(first, second)).difference
    assert (clustered.value, clustered.low, clustered.high) == pytest.approx((single.value, single.low, single.high))
    assert rate(first).low == pytest.approx(wilson(sum(a for a, _ in pairs.values()), len(pairs))[0], abs=1e-12)


def test_with_many_issues_the_clustered_interval_is_that_of_cluster_robust_least_squares() -> None:
    import numpy as np
    import statsmodels.api as sm

    first, second = made(3, 1, gain=0.1), made(3, 2)
    rows = [
        (float(value), arm, int(issue)) for arm, runs in ((1, first), (0, second)) for issue, values in runs.items() for value in values
    ]
    y, arm, group = (np.array(column) for column in zip(*rows, strict=True))
    fit = sm.OLS(y, sm.add_constant(arm)).fit(cov_type="cluster", cov_kwds={"groups": group})
    low, high = fit.conf_int()[1]
    found = by_issue(first, second).difference
    assert found.value == pytest.approx(fit.params[1])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.006)


def test_the_bootstrap_agrees_with_the_score_interval_where_many_issues_differ() -> None:
    first, second = made(3, 3, gain=0.1), made(3, 4)
    score = by_issue(first, second).difference
    for method in ("percentile", "BCa"):
        check = bootstrap_by_issue(first, second, resamples=2_000, method=method)
        assert (check.low, check.high) == pytest.approx((score.low, score.high), abs=0.012)
        assert check == bootstrap_by_issue(first, second, resamples=2_000, method=method)


def test_reruns_that_always_agree_add_nothing() -> None:
    once, again = made(1, 5), made(1, 6)
    thrice = {issue: list(runs) * 3 for issue, runs in once.items()}
    more = {issue: list(runs) * 3 for issue, runs in again.items()}
    single, repeated = by_issue(once, again).difference, by_issue(thrice, more).difference
    assert single.low is not None and repeated.low is not None
    assert repeated.low == pytest.approx(single.low, abs=2e-3)


def test_runs_never_say_more_than_as_many_independent_issues() -> None:
    # One issue differs, and only a little: its small spread alone would make the interval far too short.
    first: Outcomes = {str(issue): [issue < 15] * 3 for issue in range(1, 30)}
    found = by_issue({**first, "0": [True, True, False]}, {**first, "0": [True, False, False]})
    assert found.effective_issues == pytest.approx(90)
    alike = rate({str(issue): [True, False, True, False] for issue in range(30)})
    assert (alike.low, alike.high) == pytest.approx(wilson(60, 120))


def test_independent_reruns_narrow_the_interval() -> None:
    def width(runs: int) -> float:
        found = by_issue(made(runs, 7), made(runs, 8)).difference
        assert found.low is not None and found.high is not None
        return found.high - found.low

    assert width(9) < 0.65 * width(2)


def test_leaving_out_a_repository_leaves_out_its_issues() -> None:
    first: Outcomes = {"a1": [True], "a2": [True], "a3": [True], "b1": [False], "b2": [False], "c1": [True]}
    second: Outcomes = {issue: [False] for issue in first}
    found = leave_one_repository_out(first, second, {issue: issue[0] for issue in first})
    assert [(part.repository, part.issues, part.difference.value) for part in found.left_out] == [
        ("a", 3, pytest.approx(1 / 3)),
        ("b", 2, pytest.approx(1.0)),
        ("c", 1, pytest.approx(3 / 5)),
    ]
    assert (found.low, found.high) == (pytest.approx(1 / 3), 1.0)
    assert "3 repositories are too few to resample" in found.note
    assert "none can be left out" in leave_one_repository_out({"a": [True]}, {"a": [True]}, {"a": "r"}).note
