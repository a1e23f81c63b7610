"""Resolve rates, paired differences and tests: published figures, other implementations, and a true sentence for every awkward arm."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.statistics.bounds import worst_case
from harness.statistics.estimates import Estimate, Outcomes, Test, t_interval
from harness.statistics.multiple import holm, memory_helps
from harness.statistics.paired import Pairs, compare_pairs, count_pairs, mcnemar_exact, mcnemar_midp, newcombe, tango
from harness.statistics.rates import bounded_mean, rate, wilson
from harness.statistics.repeated import bootstrap_by_issue, by_issue, leave_one_repository_out
from harness.statistics.streams import no_effect_on_any_issue, over_streams

# Fagerland, Lydersen, Laake: airway hyper-responsiveness (Bentur 2009), and complete response to consolidation therapy (Cavo 2012).
AIRWAY, CAVO = Pairs(1, 1, 7, 12), Pairs(59, 6, 16, 80)

counts = st.integers(0, 40)
tables = st.builds(Pairs, counts, counts, counts, counts).filter(lambda pairs: pairs.total > 0)
run = st.one_of(st.none(), st.booleans())
arms = st.dictionaries(st.sampled_from([f"i{number}" for number in range(12)]), st.lists(run, max_size=4), max_size=12)


def every_number_is_plain(value: object) -> bool:
    """No NaN and no infinity anywhere; what is None comes with a reason."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Estimate):
        told = value.value is not None and value.low is not None and value.high is not None
        return (told or bool(value.why)) and all(every_number_is_plain(part) for part in (value.value, value.low, value.high))
    if isinstance(value, Test):
        return (value.p is not None and 0 <= value.p <= 1) or bool(value.why)
    if isinstance(value, tuple | list):
        return all(every_number_is_plain(part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return all(every_number_is_plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return True


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


def made(runs: int, seed: int, issues: int = 120, gain: float = 0.0) -> Outcomes:
    import random

    source = random.Random(seed)
    return {str(issue): [source.random() < min(issue / issues + gain, 1) for _ in range(runs)] for issue in range(issues)}


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
