"""From options to an experiment: defaults, presets, what resume keeps, and what is refused before anything is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.dataset import Dataset, make_dataset
from harness.instances import Grading, Instance
from harness.layout import lay_out
from harness.plan import MOST, Experiment
from harness.running import PRESETS, check_money, plan_experiment
from harness.scheduler import Settings
from swe_memory.claude import DEFAULT_MODEL
from swe_memory.errors import UsageError
from swe_memory.records import Issue
from tests.experiments import made_issues


def dataset(*issues: Issue) -> Dataset:
    """A dataset that can be planned for and not run."""

    def instance(issue: Issue) -> Instance:
        row = {"instance_id": issue.id, "FAIL_TO_PASS": ["t"], "PASS_TO_PASS": []}
        return Instance(issue, Grading("", "", ("t",), (), "", "", "", "", row), repository=Path("clones"))

    return make_dataset("made", map(instance, issues))


FIVE = dataset(*made_issues(3, 2))


def test_without_a_word_it_is_one_crossfit_build_of_memory_against_none() -> None:
    found = plan_experiment(FIVE, {})
    assert (found.protocol, found.builds, found.arms, found.reruns, found.verdict) == ("crossfit", 1, ("none", "reasoningbank"), 1, "rules")
    assert len(found.folds) == 1 and found.orders == ("date",) and found.sequence() == tuple(issue.id for issue in made_issues(3, 2))[::-1]
    assert "`reasoningbank` minus that of `none`" in found.endpoint and found.prompts == {"memory_block": found.prompts["memory_block"]}
    assert {"swe-memory", "python", "lancedb"} <= set(found.versions)


def test_presets_set_what_they_say_and_what_is_given_beside_them_wins() -> None:
    paper = plan_experiment(FIVE, {**PRESETS["paper"], "model": DEFAULT_MODEL})
    assert (paper.protocol, paper.wave, paper.orders, paper.recall, paper.call_limit) == ("online", 1, ("given",), "paper", 250)
    assert (
        paper.verdict == "llm" and paper.extractor.startswith("llm") and paper.conditions()[1].ranking(paper.recall).grain == "experience"
    )
    claim = plan_experiment(FIVE, {**PRESETS["claim"], "model": DEFAULT_MODEL})
    assert (claim.protocol, claim.before, claim.baseline_reruns, claim.call_limit) == ("crossfit", True, 2, 250)
    assert {arm.method for arm in claim.conditions()} == {"none", "reasoningbank", "derangement", "preamble", "neutral"}
    assert len(lay_out(claim).of_arm("none")) == 2 * len(lay_out(claim).of_arm("reasoningbank")) == 10
    assert {"judge", "extract_success", "extract_failure", "neutral", "memory_block"} == set(claim.prompts)
    own = plan_experiment(FIVE, {**PRESETS["claim"], "agent": "repair", "verdict": "tests", "extractor": "rules", "call_limit": 7})
    assert (own.verdict, own.extractor, own.call_limit, own.model) == ("tests", "rules@1", 7, "")


GIVEN: dict[str, Any] = {
    "protocol": st.sampled_from(["crossfit", "online"]),
    "order": st.sampled_from(["given", "date", "shuffled", "shuffled:3"]),
    "seed": st.integers(-2, 5),
    "reruns": st.integers(1, 3),
    "baseline_reruns": st.integers(1, 3),
    "verdict": st.sampled_from(["rules", "tests"]),
    "before": st.just(True),
    "call_limit": st.integers(1, 300),
    "attempt_seconds": st.floats(0.5, 1e6),
    "attempt_tokens": st.integers(1, 10**6),
    "attempt_cost": st.floats(0.01, 10),
    "command_seconds": st.floats(0.5, 1e6),
    "test_seconds": st.floats(0.5, 1e6),
    "arms": st.sampled_from([("none", "reasoningbank:k=2"), ("none", "gold", "reasoningbank:success-only,k=3")]),
}


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries({}, optional=GIVEN), st.integers(1, 3), st.booleans())
def test_resume_without_a_word_is_the_experiment_that_was_frozen(chosen: dict[str, Any], more: int, some: bool) -> None:
    chosen |= {"orders": more, "wave": more} if chosen.get("protocol") == "online" else {"builds": more}
    instances = ("repo0-2", "repo1-0") if some else ()
    frozen = plan_experiment(FIVE, chosen, instances)
    assert Experiment.from_json(frozen.to_json(), "x") == frozen
    again = plan_experiment(FIVE, {}, frozen=frozen)
    assert frozen.differences(again) == () and again == frozen
    # And with everything said again.
    assert plan_experiment(FIVE, chosen, instances, frozen=frozen) == frozen


def test_resume_with_another_setting_differs_in_that_setting() -> None:
    frozen = plan_experiment(FIVE, {"seed": 7, "order": "shuffled", "protocol": "online", "orders": 2})
    for change, words in (
        ({"seed": 0}, "seed: 7 there, 0"),
        ({"call_limit": 61}, "call_limit: 60 there, 61"),
        ({"order": "given"}, "orders:"),
    ):
        assert words in " ".join(frozen.differences(plan_experiment(FIVE, change, frozen=frozen)))


def test_what_stands_in_the_dataset_in_another_order_is_the_same_experiment_but_for_the_given_order() -> None:
    turned = dataset(*made_issues(3, 2)[::-1])
    assert turned.hash == FIVE.hash
    one, two = plan_experiment(FIVE, {}), plan_experiment(turned, {})
    assert one.sequence() == two.sequence()
    assert dict(zip(one.instances, one.folds[0], strict=True)) == dict(zip(two.instances, two.folds[0], strict=True))
    assert one.differences(two) == ("instances: the same, in another order",)


NUMBERS = {
    **dict.fromkeys(("builds", "wave", "orders", "reruns", "baseline_reruns", "call_limit"), (0, -1, 10**12)),
    **dict.fromkeys(("command_seconds", "attempt_seconds", "test_seconds", "attempt_cost"), (0.0, -1.0, float("nan"), float("inf"), 1e300)),
    "attempt_tokens": (0, -1, 10**12),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NUMBERS.items() for value in values])
def test_a_number_that_makes_no_run_is_refused_however_it_is_wrong(name: str, value: Any) -> None:
    given = {"protocol": "online"} if name in ("wave", "orders") else {}
    with pytest.raises(UsageError) as caught:
        plan_experiment(FIVE, {**given, name: value})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"protocol": "offside"}, "no protocol called 'offside'"),
        ({"arms": ("none", "dreams")}, "no arm called 'dreams'"),
        ({"agent": "gpt"}, "no agent called 'gpt'"),
        ({"order": "newest"}, "no order called 'newest'"),
        ({"orders": 2}, "crossfit has one order"),
        ({"wave": 2}, "crossfit has no waves"),
        ({"protocol": "online", "builds": 2}, "online has no builds"),
        ({"protocol": "offline"}, "offline needs a bank"),
        ({"protocol": "online", "arms": ("reasoningbank", "neutral")}, "needs a frozen bank"),
        ({"arms": ("reasoningbank",)}, "there is no arm `none`"),
        ({"verdict": "llm"}, "none is named"),
        ({"extractor": "llm"}, "none is named"),
        ({"builds": MOST + 1}, "--builds 1001"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_with_what_to_do(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_experiment(FIVE, given)
    assert words in caught.value.what and caught.value.hint


def test_unknown_issues_and_a_missing_bank_or_date_are_refused() -> None:
    with pytest.raises(UsageError, match="no instance 'repo9-9'"):
        plan_experiment(FIVE, {}, ["repo9-9"])
    for protocol, words in (("offline", "there is no bank at"), ("crossfit", "--bank goes with --protocol offline")):
        with pytest.raises(UsageError, match=words):
            plan_experiment(FIVE, {"protocol": protocol}, bank="absent.lance")
    undated = dataset(replace(made_issues(2)[0], created_at=None), made_issues(2)[1])
    assert plan_experiment(undated, {}).dates[0] == ""
    with pytest.raises(UsageError, match="needs the date of every issue, and repo0-0 has none"):
        plan_experiment(undated, {"before": True})


@pytest.mark.parametrize(
    "limits",
    [
        {"max_cost": 0.0},
        {"max_cost": float("nan")},
        {"max_seconds": -1.0},
        {"max_tokens": 0},
        {"max_calls": 0},
        {"requests": 0},
        {"requests": -1},
        {"tokens": 0},
    ],
)
def test_limits_of_a_run_that_let_nothing_be_done_are_refused_while_planning(limits: dict[str, Any]) -> None:
    experiment = plan_experiment(FIVE, {})
    check_money(experiment, Settings())
    with pytest.raises(UsageError) as caught:
        check_money(experiment, Settings(**limits))
    assert caught.value.hint


def test_a_budget_in_dollars_is_refused_for_a_model_whose_price_is_not_known() -> None:
    asks = {"verdict": "llm", "model": "a-model-nobody-knows"}
    with pytest.raises(UsageError, match="a-model-nobody-knows"):
        check_money(plan_experiment(FIVE, asks), Settings(max_cost=1.0))
    check_money(plan_experiment(FIVE, {**asks, "model": DEFAULT_MODEL}), Settings(max_cost=1.0))
