"""Streams, single rates, several comparisons, missing attempts: other implementations, enumeration, and true sentences."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outcomes import arms, made

from harness.statistics.bounds import worst_case
from harness.statistics.estimates import Estimate, Outcomes, Test, t_interval
from harness.statistics.multiple import holm, memory_helps
from harness.statistics.paired import Pairs, mcnemar_midp, newcombe, tango
from harness.statistics.rates import bounded_mean, rate, wilson
from harness.statistics.repeated import by_issue
from harness.statistics.streams import no_effect_on_any_issue, over_streams


def test_one_stream_has_a_difference_but_no_interval_and_says_what_it_supports() -> None:
    found = over_streams({"a": [True], "b": [True]}, {"a": [False], "b": [True]})
    assert found.effect.value == 0.5 and found.effect.low is None
    assert "no effect on any issue" in found.effect.why and found.test.p is None


def test_without_noise_in_the_baseline_the_interval_over_streams_is_students() -> None:
    from scipy.stats import ttest_1samp

    memory: Outcomes = {"a": [1, 1, 0, 1], "b": [1, 0, 0, 1], "c": [1, 1, 1, 1], "d": [0, 1, 0, 0], "e": [0, 0, 0, 1]}
    baseline: Outcomes = {issue: [issue == "c"] * 2 for issue in memory}
    found = over_streams(memory, baseline)
    expected = ttest_1samp(found.streams, 0.0)
    interval = expected.confidence_interval()
    assert (found.effect.low, found.effect.high) == pytest.approx((interval.low, interval.high))
    assert found.test.p == pytest.approx(expected.pvalue, abs=1e-6)
    assert found.baseline_error == 0


def test_the_baselines_own_noise_widens_the_interval_over_streams() -> None:
    memory: Outcomes = {str(issue): [issue % 2, issue % 3 > 0, issue % 5 > 0] for issue in range(60)}
    still, noisy = {issue: [True, True] for issue in memory}, {issue: [True, False] for issue in memory}
    quiet, loud = over_streams(memory, still), over_streams(memory, noisy)
    assert loud.baseline_error == pytest.approx(math.sqrt(0.5 / 2 / 60))
    assert quiet.between == pytest.approx(loud.between)
    assert loud.effect.high - loud.effect.low > quiet.effect.high - quiet.effect.low  # type: ignore[operator]


def test_one_baseline_run_borrows_its_noise_and_says_so() -> None:
    memory: Outcomes = {str(issue): [True, issue % 2, issue % 3 > 0] for issue in range(30)}
    found = over_streams(memory, {issue: [True] for issue in memory})
    assert found.effect.low is not None and "an assumption" in found.effect.why


@settings(max_examples=60, deadline=None)
@given(arms, arms)
def test_p_over_streams_belongs_to_the_interval(first: Outcomes, second: Outcomes) -> None:
    found = over_streams(first, second)
    if found.test.p is not None and found.effect.low is not None and found.effect.high is not None and abs(found.test.p - 0.05) > 1e-6:
        assert (found.test.p < 0.05) == (found.effect.low > 0 or found.effect.high < 0)


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12))
def test_with_one_run_each_no_effect_on_any_issue_is_mcnemars_midp(b: int, c: int) -> None:
    first: Outcomes = {**{f"b{i}": [True] for i in range(b)}, **{f"c{i}": [False] for i in range(c)}, "same": [True]}
    second: Outcomes = {**{f"b{i}": [False] for i in range(b)}, **{f"c{i}": [True] for i in range(c)}, "same": [True]}
    found = no_effect_on_any_issue(first, second)
    if not b + c:
        assert found.p is None and "nothing to test" in found.why
    else:
        assert found.p == pytest.approx(1.0 if b == c else mcnemar_midp(b, c))


def test_no_effect_on_any_issue_is_the_sum_over_all_ways_to_deal_out_the_runs() -> None:
    first: Outcomes = {"a": [True], "b": [True], "c": [True], "d": [False]}
    second: Outcomes = {"a": [False, False, True], "b": [False, True, False], "c": [False, False, False], "d": [True, False, True]}
    values = [[*first[issue], *second[issue]] for issue in first]
    dealt = [sum(bool(runs[place]) for runs, place in zip(values, places, strict=True)) for places in product(range(4), repeat=4)]
    seen = 3
    tails = [(sum(value > seen for value in dealt) + dealt.count(seen) / 2), (sum(value < seen for value in dealt) + dealt.count(seen) / 2)]
    assert no_effect_on_any_issue(first, second).p == pytest.approx(2 * min(tails) / len(dealt))


def test_no_effect_on_any_issue_is_near_mantel_and_haenszels_test_for_many_issues() -> None:
    import numpy as np
    from statsmodels.stats.contingency_tables import StratifiedTable

    first, second = made(2, 9, gain=0.08), made(3, 10)
    tables = [
        np.array([[sum(map(bool, first[i])), 2 - sum(map(bool, first[i]))], [sum(map(bool, second[i])), 3 - sum(map(bool, second[i]))]])
        for i in first
    ]
    expected = StratifiedTable(tables).test_null_odds(correction=False).pvalue
    assert no_effect_on_any_issue(first, second).p == pytest.approx(expected, abs=0.01)


def test_the_clustered_rate_is_that_of_cluster_robust_least_squares() -> None:
    import numpy as np
    import statsmodels.api as sm

    arm = made(4, 11)
    rows = [(float(value), int(issue)) for issue, values in arm.items() for value in values]
    y, group = (np.array(column) for column in zip(*rows, strict=True))
    fit = sm.OLS(y, np.ones(len(y))).fit(cov_type="cluster", cov_kwds={"groups": group})
    found = rate(arm)
    assert found.value == pytest.approx(fit.params[0])
    assert (found.low, found.high) == pytest.approx(tuple(fit.conf_int()[0]), abs=0.006)


@pytest.mark.parametrize("resolved", [True, False])
def test_an_arm_that_resolves_all_or_none_has_an_interval(resolved: bool) -> None:
    found = rate({str(issue): [resolved] * 3 for issue in range(20)})
    assert found.value == float(resolved) and (found.low, found.high) == pytest.approx(wilson(20 * resolved, 20))


def test_an_empty_arm_has_no_rate_and_says_so() -> None:
    assert rate({}).value is None and rate({"a": [None]}).why


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_bounded_mean_stays_in_its_bounds_and_holds_its_value(shares: list[float]) -> None:
    found = bounded_mean(shares, [0.5] * len(shares), estimand="")
    assert found.low is not None and found.high is not None and found.value is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_students_interval_is_scipys() -> None:
    from scipy.stats import ttest_1samp

    values = [1.0, 2.5, -0.5, 4.0, 3.25]
    interval = ttest_1samp(values, 0.0).confidence_interval()
    found = t_interval(values, estimand="", unit="issue")
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert t_interval([2.0, 2.0], estimand="", unit="issue").low is None


def test_holm_on_holms_own_kind_of_example() -> None:
    # By hand: 0.01 * 4; then 0.015 * 3 = 0.045; then 0.02 * 2 = 0.04, kept at 0.045; then 0.5.
    assert holm([0.5, 0.015, 0.01, 0.02]) == pytest.approx((0.5, 0.045, 0.04, 0.045))


def test_a_comparison_that_was_not_tested_still_counts() -> None:
    assert holm([0.01, None, 0.03]) == (pytest.approx(0.03), None, pytest.approx(0.06))
    assert holm([]) == () and holm([None]) == (None,)


def claim_part(value: float | None, p: float | None) -> tuple[Estimate, Test]:
    return Estimate(value, None, None, "", "issue", 9, ""), Test(p, "", "", "there was nothing to test")


def test_memory_helps_only_where_it_beats_both_controls() -> None:
    good = claim_part(0.04, 0.01)
    assert memory_helps(good, good).earned
    for other in (claim_part(0.04, 0.06), claim_part(-0.04, 0.01), claim_part(None, None), None):
        assert not memory_helps(good, other).earned
        assert not memory_helps(other, good).earned
    assert "no comparison with the derangement" in memory_helps(good, None).sentence


def test_worst_case_bounds_are_what_the_missing_runs_could_have_been() -> None:
    first: Outcomes = {"a": [True], "b": [None], "c": [False], "d": [True]}
    second: Outcomes = {"a": [False], "b": [True], "c": [None], "d": [True]}
    found = worst_case(first, second, ["a", "b", "c", "d"])
    possible = [(1 + b + 0 + 1 - (0 + 1 + c + 1)) / 4 for b, c in product((0, 1), repeat=2)]
    assert (found.low, found.high) == (pytest.approx(min(possible)), pytest.approx(max(possible)))
    assert found.missing == (1, 1)
    worst = by_issue({**first, "b": [False]}, {**second, "c": [True]}).difference
    best = by_issue({**first, "b": [True]}, {**second, "c": [False]}).difference
    assert (found.interval_low, found.interval_high) == (worst.low, best.high)


def test_losses_in_one_arm_only_are_found_unequal() -> None:
    planned = [str(issue) for issue in range(40)]
    full: Outcomes = {issue: [True] for issue in planned}
    short: Outcomes = {issue: [True] for issue in planned[8:]}
    found = worst_case(short, full, planned)
    assert found.unequal.p == pytest.approx(1 / 256) and found.missing == (8, 0)
    assert worst_case(full, full, planned).unequal.p is None
    assert worst_case({}, {}, []).low is None


@settings(max_examples=50, deadline=None)
@given(arms, arms)
def test_worst_case_bounds_hold_the_difference_of_any_way_to_fill_in(first: Outcomes, second: Outcomes) -> None:
    planned = sorted({*first, *second})
    found = worst_case(first, second, planned, (4, 4))
    if not planned:
        return
    filled = [
        {issue: [False if v is None else v for v in [*runs.get(issue, ()), *[None] * 4][:4]] for issue in planned}
        for runs in (first, second)
    ]
    value = by_issue(*filled).difference.value
    assert found.low is not None and found.high is not None and value is not None
    assert found.low - 1e-9 <= value <= found.high + 1e-9


def test_newcombes_interval_needs_a_pair() -> None:
    with pytest.raises(ValueError, match="needs a pair"):
        newcombe(Pairs(0, 0, 0, 0))
    with pytest.raises(ValueError, match="needs a pair"):
        tango(0, 0, 0)
