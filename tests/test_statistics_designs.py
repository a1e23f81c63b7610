"""Calls, curves, noise, pass@k, items, power: against published figures, enumeration or other implementations, and for awkward data."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_outcomes import arms, every_number_is_plain, made

from harness.statistics.curves import gain_within, learning_curve, resolved_within, within
from harness.statistics.design import (
    Design,
    World,
    calibrate,
    draw,
    reject_by_issue,
    reject_over_builds,
    simulate,
    smallest_effect_of,
)
from harness.statistics.estimates import Counts, Outcomes
from harness.statistics.items import item_effect
from harness.statistics.noise import noise, rerun_discordance
from harness.statistics.paired import mcnemar_midp, tango
from harness.statistics.passk import best_of_n, pass_at_k, unbiased_pass_at_k
from harness.statistics.power import (
    impossible,
    mcnemar_power,
    most_discordant,
    plan,
    required_issues,
    smallest_effect,
)
from harness.statistics.repeated import by_issue
from harness.statistics.steps import by_outcome, per_resolved, per_resolved_ratio, restricted_means
from harness.statistics.streams import over_streams

calls_of_arms = st.dictionaries(
    st.sampled_from([f"i{number}" for number in range(12)]), st.lists(st.one_of(st.none(), st.integers(1, 90)), max_size=4), max_size=12
)


def test_the_restricted_mean_is_scipys_paired_t_on_calls_cut_at_the_limit() -> None:
    from scipy.stats import ttest_rel

    first: Counts = {"a": [10], "b": [80], "c": [30], "d": [44], "e": [None]}
    second: Counts = {"a": [14], "b": [75], "c": [60], "d": [200], "e": [9]}
    expected = ttest_rel([10, 75, 30, 44], [14, 75, 60, 75])
    interval = expected.confidence_interval()
    found = restricted_means(first, second, 75)
    assert (found.difference.low, found.difference.high) == pytest.approx((interval.low, interval.high))
    assert found.test.p == pytest.approx(expected.pvalue)
    assert found.unknown == ("e",) and found.at_limit == (1, 2)
    assert (found.first, found.second) == (39.75, 56.0)


def test_calls_that_never_differ_have_no_interval_and_say_why() -> None:
    found = restricted_means({"a": [5], "b": [7]}, {"a": [5], "b": [7]}, 75)
    assert found.difference.value == 0 and found.difference.low is None and "same value" in found.difference.why


def test_the_table_by_outcome_sorts_issues_and_carries_its_label() -> None:
    first: Outcomes = {"a": [True], "b": [False], "c": [True], "d": [False], "e": [True]}
    second: Outcomes = {"a": [True], "b": [False], "c": [False], "d": [True], "e": [True]}
    calls: Counts = {"a": [10], "b": [20], "c": [30], "d": [40], "e": [None]}
    table = by_outcome(first, second, calls, {issue: [50] for issue in first})
    assert [(row.outcome, row.issues, row.first) for row in table.rows] == [
        ("both resolved", 1, 10.0),
        ("both failed", 1, 20.0),
        ("only the first resolved", 1, 30.0),
        ("only the second resolved", 1, 40.0),
    ]
    assert "no effect of memory" in table.label


def test_calls_per_resolved_issue_are_a_ratio_of_sums_failed_attempts_and_learning_included() -> None:
    calls: Counts = {"a": [10], "b": [90], "c": [50], "d": [30]}
    outcomes: Outcomes = {"a": [True], "b": [False], "c": [True], "d": [True]}
    assert per_resolved(calls, outcomes, resamples=99).value == 60
    assert per_resolved(calls, outcomes, extra=30, resamples=99).value == 70


def test_the_bootstrap_of_a_ratio_is_scipys_but_for_small_numbers() -> None:
    import numpy as np
    from scipy.stats import bootstrap

    source = np.random.default_rng(1)
    spent, solved = source.integers(5, 75, 400), source.random(400) < 0.5
    expected = bootstrap(
        (spent, solved),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=4_000,
        random_state=source,
    ).confidence_interval
    names = [str(issue) for issue in range(400)]
    found = per_resolved(
        {n: [int(v)] for n, v in zip(names, spent, strict=True)},
        {n: [bool(v)] for n, v in zip(names, solved, strict=True)},
        resamples=4_000,
    )
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.015)


def test_the_same_arm_twice_has_ratio_1_and_a_cheaper_arm_less() -> None:
    outcomes = made(1, 1, 60)
    calls: Counts = {issue: [10 + int(issue)] for issue in outcomes}
    half: Counts = {issue: [(10 + int(issue)) / 2] for issue in outcomes}
    same = per_resolved_ratio((calls, outcomes), (calls, outcomes), resamples=99)
    assert (same.value, same.low, same.high) == pytest.approx((1.0, 1.0, 1.0))
    assert per_resolved_ratio((half, outcomes), (calls, outcomes), resamples=99).value == pytest.approx(0.5)


def test_few_resolved_issues_leave_the_cost_of_one_without_an_upper_limit() -> None:
    calls: Counts = {str(issue): [20] for issue in range(30)}
    found = per_resolved(calls, {str(issue): [issue == 0] for issue in range(30)}, resamples=999)
    assert found.value == 600 and found.low is not None and found.high is None and "no upper limit" in found.why
    assert "nothing to divide by" in per_resolved(calls, {str(issue): [False] for issue in range(30)}).why


@settings(max_examples=40, deadline=None)
@given(arms, arms, calls_of_arms, calls_of_arms)
def test_whatever_the_data_no_number_is_nan_and_none_has_a_reason(first: Outcomes, second: Outcomes, mine: Counts, other: Counts) -> None:
    attempts = {issue: [(float(i % 2), bool(v)) for i, v in enumerate(runs)] for issue, runs in first.items()}
    results = (
        restricted_means(mine, other, 60).difference,
        restricted_means(mine, other, 60).test,
        per_resolved(mine, first, resamples=49),
        per_resolved_ratio((mine, first), (other, second), resamples=49),
        [row.difference for row in by_outcome(first, second, mine, other).rows],
        [point.estimate for point in resolved_within(first, mine, (5, 50))],
        [point.estimate for point in gain_within((first, mine), (second, other), (5, 50))],
        learning_curve(first, second, mine, (0, 30)),
        noise(first, second),
        pass_at_k(first, 2),
        best_of_n(attempts, 2, "score"),
    )
    for result in results:
        assert every_number_is_plain(result), result


def test_resolved_within_counts_a_run_from_the_call_that_it_took() -> None:
    outcomes: Outcomes = {"a": [True], "b": [True], "c": [False], "d": [True], "e": [False]}
    calls: Counts = {"a": [10], "b": [30], "c": [5], "d": [None]}
    assert within(outcomes, calls, 10) == {"a": [1.0], "b": [0.0], "c": [0.0], "d": [None], "e": [0.0]}
    assert [point.estimate.value for point in resolved_within(outcomes, calls, (9, 10, 30))] == [0.0, 0.25, 0.5]


@settings(max_examples=30, deadline=None)
@given(arms, calls_of_arms)
def test_the_curve_never_falls(outcomes: Outcomes, calls: Counts) -> None:
    values = [point.estimate.value for point in resolved_within(outcomes, calls, (1, 10, 40, 90))]
    assert all(value is None for value in values) or values == sorted(values)  # type: ignore[type-var]


def test_a_gain_that_grows_with_the_bank_has_its_slope() -> None:
    issues = [f"i{number}" for number in range(60)]
    places: Counts = {issue: [(number * step) % 60 for step in (1, 7, 11)] for number, issue in enumerate(issues)}
    memory: Outcomes = {issue: [float(at >= 30) for at in places[issue]] for issue in issues}  # type: ignore[operator]
    found = learning_curve(memory, {issue: [False, False] for issue in issues}, places, (0, 30))
    assert [(part.start, part.end, part.attempts, part.estimate.value) for part in found.bins] == [(0, 30, 90, 0.0), (30, None, 90, 1.0)]
    # Least squares on 0 .. 59 with a step in the middle: 6 * 30 * 30 / (60 * (60 * 60 - 1)).
    assert found.slope.value == pytest.approx(6 * 30 * 30 / (60 * 3599))


def test_rerun_discordance_is_the_share_of_pairs_of_runs_that_differ() -> None:
    arm: Outcomes = {"a": [True, False, True, True], "b": [False, False], "c": [True, False], "d": [True]}
    pairs = [sum(x != y for x, y in combinations(runs, 2)) / math.comb(len(runs), 2) for runs in arm.values() if len(runs) > 1]
    found = rerun_discordance(arm)
    assert found.value == pytest.approx(sum(pairs) / 3) and found.units == 3


def test_excess_discordance_is_free_of_the_noise_of_reruns() -> None:
    # On average over all outcomes of two runs each, weighted by their chances, it is (p - q) squared.
    p, q, total = 0.8, 0.3, 0.0
    for bits in range(16):
        runs = [bool(bits >> place & 1) for place in range(4)]
        chance = math.prod(rate if done else 1 - rate for rate, done in zip((p, p, q, q), runs, strict=True))
        value = noise({"a": runs[:2]}, {"a": runs[2:]}).excess.value
        assert value is not None
        total += chance * value
    assert total == pytest.approx((p - q) ** 2)


def test_excess_discordance_of_few_issues_is_not_made_narrow_by_their_likeness() -> None:
    # Two of thirty issues with an excess of 0.1 each: variance alone would count them as 300 issues; 1.5 / runs lets them count as 100.
    first: Outcomes = {str(issue): [issue < 2, issue < 2, False, False, False] for issue in range(30)}
    second: Outcomes = {str(issue): [False] * 5 for issue in range(30)}
    found = noise(first, second).excess
    assert found.value == pytest.approx(0.2 / 30)
    assert (found.low, found.high) == pytest.approx(tango(0.2 / 0.3, 0.0, 100))


def test_the_noise_of_two_single_runs_follows_from_the_floor() -> None:
    arm: Outcomes = {str(issue): [True, issue % 5 == 0] for issue in range(100)}
    found = noise(arm, {str(issue): [True] for issue in range(100)})
    assert found.first.value == pytest.approx(0.8) and found.standard_error == pytest.approx(math.sqrt(0.8 / 100))
    assert found.floor_of == "first" and "Only the first arm was run twice" in found.excess.why
    assert "Neither arm" in noise({"a": [True]}, {"a": [True]}).excess.why


@pytest.mark.parametrize(("attempts", "resolved"), [(5, 0), (5, 1), (5, 3), (5, 5), (8, 2)])
def test_pass_at_k_is_the_share_of_choices_of_k_attempts_with_a_resolved_one(attempts: int, resolved: int) -> None:
    for k in range(1, attempts + 1):
        choices = list(combinations([True] * resolved + [False] * (attempts - resolved), k))
        assert unbiased_pass_at_k(attempts, resolved, k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_pass_at_k_agrees_with_the_product_in_the_papers_code() -> None:
    # Chen et al. 2021, figure 3: 1 - prod(1 - k / i) for i from n - c + 1 to n.
    for n, c, k in ((200, 13, 10), (200, 150, 100), (10, 4, 3)):
        expected = 1.0 if n - c < k else 1 - math.prod(1 - k / i for i in range(n - c + 1, n + 1))
        assert unbiased_pass_at_k(n, c, k) == pytest.approx(expected)


def test_issues_with_too_few_attempts_are_named_and_left_out() -> None:
    found = pass_at_k({"a": [True, False, False], "b": [True], "c": [None, True, True]}, 2)
    assert found.short == ("b",) and found.estimate.value == pytest.approx((2 / 3 + 1) / 2)
    assert pass_at_k({"a": [True]}, 2).estimate.why == "No issue has 2 attempts."


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3).map(float), st.booleans()), min_size=1, max_size=6), st.integers(1, 6))
def test_best_of_n_is_the_mean_over_all_choices_of_n_attempts(rows: list[tuple[float, bool]], n: int) -> None:
    found = best_of_n({"a": rows}, n, "score")
    if n > len(rows):
        assert found.selected.value is None and found.short == ("a",)
        return
    total = Fraction(0)
    choices = list(combinations(rows, n))
    for chosen in choices:
        best = [done for score, done in chosen if score == max(s for s, _ in chosen)]
        total += Fraction(sum(best), len(best))
    # A tie that spans chosen and unchosen attempts is broken at random among the chosen: the same on average, by symmetry.
    assert found.selected.value == pytest.approx(float(total / len(choices)))
    assert found.perfect.value is not None and found.selected.value is not None
    assert found.selected.value <= found.perfect.value + 1e-12


def test_a_few_lucky_uses_of_an_item_stay_near_no_effect() -> None:
    lucky, proven = item_effect([(True, False)] * 2, 0.1), item_effect([(True, False)] * 40, 0.1)
    assert lucky.effect.value == pytest.approx(2 / 22) and proven.effect.value == pytest.approx(40 / 60)
    assert lucky.effect.low < 0 < proven.effect.low  # type: ignore[operator]
    assert (lucky.flips_for, lucky.flips_against, lucky.expected) == (2, 0, pytest.approx(0.1))
    assert "not run twice" in item_effect([(True, False)], None).effect.why


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.floats(0, 1))
def test_an_item_turned_round_has_the_effect_turned_round(pairs: list[tuple[bool, bool]], floor: float) -> None:
    one, other = item_effect(pairs, floor).effect, item_effect([(b, a) for a, b in pairs], floor).effect
    assert one.value == pytest.approx(-other.value)  # type: ignore[operator]
    assert one.low <= one.value <= one.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("issues", "effect", "discordance"), [(12, 0.0, 0.5), (12, 0.2, 0.4), (7, -0.3, 0.3), (20, 0.05, 1.0), (9, 0.0, 0.0)]
)
def test_power_is_the_sum_over_every_table(issues: int, effect: float, discordance: float) -> None:
    gain, loss, total = (discordance + effect) / 2, (discordance - effect) / 2, 0.0
    for b in range(issues + 1):
        for c in range(issues + 1 - b):
            if b + c and mcnemar_midp(b, c) < 0.05:
                ways = math.comb(issues, b) * math.comb(issues - b, c)
                total += ways * gain**b * max(loss, 0.0) ** c * (1 - discordance) ** (issues - b - c)
    assert mcnemar_power(issues, effect, discordance) == pytest.approx(total, abs=1e-9)


def test_midp_keeps_its_level_unless_the_arms_differ_on_nearly_every_issue() -> None:
    levels = {
        (issues, share): mcnemar_power(issues, 0.0, share)
        for issues in (*range(5, 41, 5), 60, 100, 300, 500)
        for share in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 0.9)
    }
    assert max(levels.values()) <= 0.055
    assert mcnemar_power(16, 0.0, 1.0) > 0.07  # the number of discordant pairs is then fixed, and its steps show


def test_more_issues_and_larger_effects_give_more_power() -> None:
    by_issues = [mcnemar_power(issues, 0.05, 0.14) for issues in (50, 100, 200, 400, 800)]
    by_effect = [mcnemar_power(300, effect, 0.14) for effect in (0.0, 0.02, 0.05, 0.1, 0.14)]
    assert by_issues == sorted(by_issues) and by_effect == sorted(by_effect)
    assert mcnemar_power(300, -0.05, 0.14) == pytest.approx(mcnemar_power(300, 0.05, 0.14))


def test_required_issues_and_smallest_effect_are_where_the_power_is_reached() -> None:
    needed = required_issues(0.08, 0.2, 0.8).value
    assert needed is not None
    assert mcnemar_power(int(needed), 0.08, 0.2) >= 0.8 > mcnemar_power(int(needed) - 1, 0.08, 0.2)
    # Connor 1987 (Biometrics 43:207), the normal approximation: (1.96 sqrt(d) + 0.8416 sqrt(d - e^2))^2 / e^2 pairs.
    assert needed == pytest.approx((1.96 * math.sqrt(0.2) + 0.8416 * math.sqrt(0.2 - 0.08**2)) ** 2 / 0.08**2, rel=0.03)
    effect = smallest_effect(300, 0.2, 0.5, 0.9).value
    assert effect is not None and mcnemar_power(300, effect, 0.2) == pytest.approx(0.9, abs=1e-3)


def test_with_17_net_wins_a_plan_allows_73_discordant_pairs() -> None:
    found = plan(500, 0.54, 0.034, 0.14)
    assert found.most_discordant.value == 73 and found.why == ""
    assert 0.5 < found.power.value < 0.56  # type: ignore[operator]
    assert found.issues_80.value < found.issues_90.value and found.smallest_80.value < found.smallest_90.value  # type: ignore[operator]
    assert most_discordant(4, 500).value is None and most_discordant(5, 500).value == 5


@pytest.mark.parametrize(
    ("baseline", "effect", "discordance", "said"),
    [
        (0.5, 0.2, 0.1, "at least 0.200"),
        (0.95, 0.1, 0.2, "between 0 and 1"),
        (0.9, 0.0, 0.5, "at most 0.200"),
        (0.1, 0.05, 0.6, "at most 0.250"),
    ],
)
def test_a_plan_that_no_pair_of_arms_has_is_refused_in_words(baseline: float, effect: float, discordance: float, said: str) -> None:
    assert said in impossible(baseline, effect, discordance)
    assert said in (plan(100, baseline, effect, discordance).power.why)
    assert said in simulate(Design(100), World(baseline, effect, discordance)).why


def test_questions_without_an_answer_get_a_sentence() -> None:
    assert "effect of 0" in required_issues(0.0, 0.1).why
    assert "would be needed" in required_issues(0.001, 0.9, most=1_000).why
    assert "Not even the largest gain" in smallest_effect(10, 0.05, 0.5).why
    assert "takes an issue" in plan(0, 0.5, 0.1, 0.2).why
    assert "two builds" in simulate(Design(50, unit="build"), World(0.5, 0.05, 0.2)).why


def test_the_simulated_power_of_one_run_is_the_exact_one() -> None:
    found = simulate(Design(300), World(0.5, 0.07, 0.2), replications=1_500)
    assert found.power is not None and found.error is not None
    # The simulated test is the score test, whose power is a little above mid-p's.
    assert found.power == pytest.approx(mcnemar_power(300, 0.07, 0.2), abs=3 * found.error + 0.01)
    assert found == simulate(Design(300), World(0.5, 0.07, 0.2), replications=1_500)


def test_the_simulated_world_has_the_rates_that_were_asked_for() -> None:
    import numpy as np
    from scipy.special import expit

    latent = calibrate(World(0.4, 0.05, 0.2, 0.15))
    z, w = np.random.default_rng(0).standard_normal((2, 400_000))
    q, p = expit(latent.centre + latent.spread * z), expit(latent.memory_centre + latent.spread * z + latent.own * w)
    assert q.mean() == pytest.approx(0.4, abs=0.003) and p.mean() == pytest.approx(0.45, abs=0.003)
    assert (2 * q * (1 - q)).mean() == pytest.approx(0.15, abs=0.002)
    assert (p * (1 - q) + (1 - p) * q).mean() == pytest.approx(0.2, abs=0.002)


@pytest.mark.parametrize(
    ("design", "scalar"),
    [
        (Design(40, 2, 2, 3), lambda a, b: by_issue(a, b).test.p),
        (Design(40, 3, 1, 2, "build"), lambda a, b: over_streams(a, b).test.p),
        (Design(40, 3, 2, 1, "build"), lambda a, b: over_streams(a, b).test.p),
    ],
)
def test_the_simulation_tests_as_the_shipped_functions_do(design: Design, scalar: object) -> None:
    import numpy as np

    assert callable(scalar)
    first, second = draw(design, calibrate(World(0.5, 0.15, 0.4, 0.3)), 60, np.random.default_rng(4))
    rejected = (reject_by_issue if design.unit == "issue" else reject_over_builds)(first, second, design, 0.05)
    for place, told in enumerate(rejected.tolist()):
        if design.unit == "issue":
            runs = design.builds * design.reruns
            mine = {str(i): [n < k for n in range(runs)] for i, k in enumerate(first[place].sum(axis=1).tolist())}
        else:
            mine = {str(i): [k / design.reruns for k in builds] for i, builds in enumerate(first[place].tolist())}
        other = {str(i): [n < k for n in range(design.baseline_runs)] for i, k in enumerate(second[place].tolist())}
        p = scalar(mine, other)
        assert told == (p is not None and p < 0.05)
    assert 0 < rejected.sum() < len(rejected)


def test_reruns_add_power_and_a_shock_of_builds_takes_it_from_the_methods_effect() -> None:
    world, shocked = World(0.5, 0.05, 0.16, 0.12), World(0.5, 0.05, 0.16, 0.12, shock=4)
    one, three = simulate(Design(200), world, replications=400), simulate(Design(200, 1, 3, 3), world, replications=400)
    assert three.power > one.power + 0.1  # type: ignore[operator]
    calm, rough = (simulate(Design(200, 4, 1, 3, "build"), w, replications=400) for w in (world, shocked))
    assert calm.power > rough.power + 0.1  # type: ignore[operator]
    assert (
        smallest_effect_of(Design(200, 1, 3, 3), world, replications=200).value
        < smallest_effect_of(Design(200), world, replications=200).value
    )  # type: ignore[operator]
