"""How a judge is measured: the matrix, the figures against scipy, and true sentences for data that cannot say."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_memory.judge import Agreement, Estimate, agreement
from swe_memory.judge.agreement import auroc, mean_of, score, wilson
from swe_memory.records import Verdict

verdicts = st.builds(
    Verdict, st.sampled_from(["resolved", "unresolved", "unknown"]), st.just("rules"), confidence=st.none() | st.floats(0, 1)
)


def ruled(outcome: str, confidence: float | None = None) -> Verdict:
    return Verdict(outcome, "rules", confidence=confidence)  # type: ignore[arg-type]


def test_the_matrix_counts_unknown_apart() -> None:
    pairs = (
        [(True, ruled("resolved", 0.9))] * 3
        + [(True, ruled("unknown"))]
        + [(False, ruled("unresolved", 0.8))] * 2
        + [(False, ruled("resolved", 0.6))]
    )
    result = agreement(pairs)
    assert (result.resolved_as_resolved, result.resolved_as_unresolved, result.resolved_as_unknown) == (3, 0, 1)
    assert (result.unresolved_as_resolved, result.unresolved_as_unresolved, result.unresolved_as_unknown) == (1, 2, 0)
    assert result.sensitivity and result.sensitivity.value == 1.0
    assert result.specificity and result.specificity.value == pytest.approx(2 / 3)
    assert result.balanced_accuracy and result.balanced_accuracy.value == pytest.approx(5 / 6)
    assert result.strict and result.strict.value == pytest.approx((3 / 4 + 2 / 3) / 2)
    assert result.decided == 6


def test_always_answering_resolved_scores_one_half() -> None:
    result = agreement([(True, ruled("resolved"))] * 105 + [(False, ruled("resolved"))] * 45)
    assert result.balanced_accuracy and result.balanced_accuracy.value == 0.5
    assert result.auroc and result.auroc.value == 0.5


@pytest.mark.parametrize(("hits", "total"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 9), (81, 263)])
def test_wilson_is_scipys(hits: int, total: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(hits, total).proportion_ci(method="wilson")
    found = wilson(hits, total)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_auroc_is_scipys_mann_whitney_and_its_interval_covers() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(5)
    truth = stats.norm.cdf(0.8 / math.sqrt(2))
    covered = 0
    for _ in range(200):
        positive = [draw.gauss(0.8, 1) for _ in range(40)]
        negative = [draw.gauss(0, 1) for _ in range(25)]
        found = auroc(positive, negative)
        assert found is not None
        assert found.value == pytest.approx(stats.mannwhitneyu(positive, negative).statistic / (40 * 25))
        covered += found.low <= truth <= found.high
    assert 180 <= covered <= 199


def test_ties_count_half() -> None:
    found = auroc([0.5, 0.5, 0.9], [0.5, 0.1])
    assert found and found.value == pytest.approx((0.5 + 1 + 0.5 + 1 + 1 + 1) / 6)


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([], "nothing to compare"),
        ([(True, ruled("resolved", 0.9))] * 4, "All attempts were resolved"),
        ([(False, ruled("unresolved", 0.9))] * 4, "No attempt was resolved"),
        ([(True, ruled("unknown")), (False, ruled("unknown"))], "cannot be computed"),
    ],
)
def test_data_that_cannot_say_gives_a_sentence_and_none(pairs: list[tuple[bool, Verdict]], sentence: str) -> None:
    result = agreement(pairs)
    assert sentence in result.summary()
    assert result.balanced_accuracy is None


def test_perfectly_parted_scores_have_an_honest_far_limit() -> None:
    found = auroc([0.9, 0.8, 0.7], [0.1, 0.2, 0.3, 0.4])
    assert found and (found.value, found.high) == (1.0, 1.0) and found.low == pytest.approx(0.025 ** (1 / 3))
    assert auroc([0.9], [0.1]) == Estimate(1.0, 0.0, 1.0)


@given(st.lists(st.tuples(st.booleans(), verdicts), max_size=40))
def test_every_figure_is_a_number_within_its_interval(pairs: list[tuple[bool, Verdict]]) -> None:
    result = agreement(pairs)
    assert isinstance(result, Agreement) and result.resolved + result.unresolved == len(pairs)
    for figure in (result.sensitivity, result.specificity, result.balanced_accuracy, result.strict, result.auroc):
        if figure is not None:
            assert 0 <= figure.low <= figure.value <= figure.high <= 1
    assert "nan" not in result.summary().split()
    assert agreement(reversed(pairs)) == result


def test_a_verdict_is_scored_by_its_probability_of_resolved() -> None:
    assert [
        score(ruled(o, c)) for o, c in (("resolved", 0.8), ("unresolved", 0.8), ("unknown", None), ("resolved", None), ("unresolved", None))
    ] == pytest.approx([0.8, 0.2, 0.5, 1.0, 0.0])


def test_the_mean_of_two_shares_is_no_wider_than_either() -> None:
    one, other = wilson(30, 40), wilson(12, 40)
    both = mean_of(one, other)
    assert one and other and both and both.value == pytest.approx(0.525)
    assert both.high - both.low < one.high - one.low
    assert mean_of(one, None) is None
