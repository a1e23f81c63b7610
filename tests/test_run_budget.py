"""The budget of a run: kept over sessions and threads, and said in a sentence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.budget import RunBudget, dollars, duration
from swe_memory.claude import DEFAULT_MODEL
from swe_memory.errors import UsageError
from swe_memory.records import Usage


def used(cost: float | None = 0.0, tokens: int = 0, calls: int = 1) -> Usage:
    return Usage(calls, tokens, 0, cost)


def test_a_budget_in_dollars_is_reached_at_its_limit_and_says_what_was_spent() -> None:
    budget = RunBudget(cost=20.0)
    budget.add(used(19.99))
    assert budget.reached(10**6) == ""
    budget.add(used(0.14))
    assert budget.reached(0) == "the run's budget of $20.00 is reached: $20.13 spent, memory's own calls included"


@pytest.mark.parametrize(
    ("budget", "usage", "elapsed", "words"),
    [
        (RunBudget(seconds=7200), used(), 7200, "budget of 2 h 00 min is reached: 2 h 00 min worked"),
        (RunBudget(tokens=1000), Usage(1, 400, 600), 0, "budget of 1,000 tokens is reached: 1,000 used"),
        (RunBudget(calls=2), used(calls=2), 0, "budget of 2 calls is reached: 2 made"),
        (RunBudget(cost=0.005), used(0.006), 0, "budget of $0.0050 is reached: $0.0060 spent"),
    ],
    ids=["seconds", "tokens", "calls", "cents"],
)
def test_each_limit_has_its_sentence(budget: RunBudget, usage: Usage, elapsed: float, words: str) -> None:
    assert budget.reached(max(0, elapsed - 1)) == ""
    budget.add(usage)
    assert words in budget.reached(elapsed)


def test_what_earlier_sessions_used_counts() -> None:
    budget = RunBudget(cost=10.0, seconds=100.0, spent=used(9.0), earlier_seconds=90.0)
    assert budget.reached(9.0) == ""
    assert "1 min 40 s worked, earlier sessions included" in budget.reached(10.0)
    budget.add(used(1.0))
    assert "$10.00 spent" in budget.reached(0.0)
    assert budget.spent == Usage(2, 0, 0, 10.0)


@pytest.mark.parametrize("earlier", [True, False])
def test_a_budget_in_dollars_ends_where_a_cost_is_not_known_and_says_so(earlier: bool) -> None:
    unknown = used(None, tokens=500, calls=3)
    budget = RunBudget(cost=20.0, spent=unknown if earlier else Usage())
    if not earlier:
        budget.add(unknown)
    assert budget.reached(0) == (
        "the run's budget of $20.00 cannot be kept any more: a call was made whose cost is not known (3 calls and 500 tokens so far)"
    )


def test_costs_that_are_not_known_do_not_matter_without_a_budget_in_dollars() -> None:
    budget = RunBudget(tokens=1000)
    budget.refuse_unpriced(["a-model-nobody-knows"])
    budget.add(used(None, tokens=500))
    assert budget.reached(10**6) == ""


def test_a_budget_in_dollars_is_refused_before_the_run_for_a_model_without_a_price() -> None:
    budget = RunBudget(cost=20.0)
    budget.refuse_unpriced([])
    budget.refuse_unpriced([DEFAULT_MODEL])
    with pytest.raises(UsageError, match=r"cannot be kept for 'a-model-nobody-knows': no price.*\n.*tokens") as caught:
        budget.refuse_unpriced([DEFAULT_MODEL, "a-model-nobody-knows"])
    assert DEFAULT_MODEL not in str(caught.value)


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["cost", "seconds", "tokens", "calls"])
def test_a_budget_that_lets_nothing_be_done_is_refused(name: str, limit: float) -> None:
    with pytest.raises(UsageError, match=f"a budget of {limit}"):
        RunBudget(**{name: limit})  # type: ignore[arg-type]


def test_threads_add_without_losing_anything() -> None:
    budget = RunBudget(calls=4000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [budget.add(Usage(1, 2, 3, 0.5)) for _ in range(500)], range(8)))
    assert budget.spent == Usage(4000, 8000, 12000, 2000.0)
    assert "4,000 made" in budget.reached(0)


@given(st.floats(0, 10**7))
def test_no_duration_shows_sixty_seconds_or_minutes(seconds: float) -> None:
    shown = duration(seconds)
    assert "60" not in shown.split(" ")[-2:] and " 60 " not in f" {shown} "


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (59.6, "1 min 00 s"), (3599.7, "1 h 00 min"), (255_900, "71 h 05 min"), (750, "12 min 30 s")]
)
def test_durations_are_shown_in_their_two_largest_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_small_amounts_are_not_shown_as_nothing() -> None:
    assert [dollars(a) for a in (0, 0.0004, 0.5, 20.126, 1234.5)] == ["$0.00", "$0.0004", "$0.5000", "$20.13", "$1,234.50"]
