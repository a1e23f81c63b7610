"""What decides an experiment: folds, orders, the endpoint in words, and a frozen file that comes back as it was or not at all."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.arms import parse_arms
from harness.plan import MOST, Experiment, endpoint, order_specs, ordered, split
from swe_memory.errors import UsageError
from swe_memory.records import Issue
from tests.experiments import experiments, made_experiment, made_issues

# -- folds -----------------------------------------------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(SIZES, st.integers(1, 5), st.integers(-3, 10**9))
def test_folds_are_halves_within_each_repository_and_of_the_whole(sizes: list[int], build: int, seed: int) -> None:
    issues = made_issues(*sizes)
    letters = split(issues, build, seed)
    assert len(letters) == len(issues) and set(letters) <= {"a", "b"}
    whole = Counter(letters)
    assert abs(whole["a"] - whole["b"]) <= 1
    for repo in {issue.repo for issue in issues}:
        own = Counter(letter for issue, letter in zip(issues, letters, strict=True) if issue.repo == repo)
        assert abs(own["a"] - own["b"]) <= 1


@settings(max_examples=50, deadline=None)
@given(SIZES, st.integers(1, 3), st.integers(0, 99), st.randoms(use_true_random=False))
def test_a_fold_depends_on_no_order_of_the_dataset(sizes: list[int], build: int, seed: int, random: Any) -> None:
    issues = list(made_issues(*sizes))
    letters = dict(zip((issue.id for issue in issues), split(issues, build, seed), strict=True))
    random.shuffle(issues)
    assert dict(zip((issue.id for issue in issues), split(issues, build, seed), strict=True)) == letters


def test_another_seed_and_another_build_are_another_split() -> None:
    issues = made_issues(5, 4, 1, 1)
    by_seed = [split(issues, 1, seed) for seed in range(40)]
    by_build = [split(issues, build, 0) for build in range(1, 41)]
    assert len(set(by_seed)) > 20 and len(set(by_build)) > 20
    # Every issue, also the only one of its repository, is learned from in some builds and tested in others.
    assert all({"a", "b"} == {letters[place] for letters in by_build} for place in range(len(issues)))
    assert split(issues, 2, 1) == split(issues, 2, 1) != split(issues, 1, 2)


# -- orders ----------------------------------------------------------------------------------------------------------------------------------


def test_orders_are_stable_and_the_frozen_experiment_names_each_difference() -> None:
    issues = [
        Issue("b", "r", "t", created_at=datetime(2024, 1, 2, tzinfo=UTC)),
        Issue("a", "r", "t"),
        Issue("c", "r", "t", created_at=datetime(2023, 1, 2, tzinfo=UTC)),
    ]
    assert ordered(issues, "date", 0) == ("c", "b", "a") and ordered(issues, "given", 0) == ("b", "a", "c")
    assert ordered(issues, "shuffled", 1) == ordered(issues[::-1], "shuffled", 1) == ordered(issues, "shuffled:1", 0)
    assert len({ordered(issues, "shuffled", seed) for seed in range(10)}) > 1
    one = made_experiment(made_issues(1), "none")
    two = replace(made_experiment(made_issues(2), "none"), seed=7)
    assert one.differences(one) == () and len(one.differences(two)) == 2 and "seed: 0 there, 7 asked for" in one.differences(two)
    with pytest.raises(UsageError, match="format 99"):
        Experiment.from_json({**one.to_json(), "format": 99}, "x")


def test_a_shuffle_moves_no_issue_past_another_because_of_a_third() -> None:
    issues = made_issues(6, 3)
    whole = ordered(issues, "shuffled:3")
    assert ordered(issues[2:7], "shuffled:3") == tuple(name for name in whole if name in {issue.id for issue in issues[2:7]})


@pytest.mark.parametrize(
    ("order", "count", "specs"),
    [
        ("date", 1, ("date",)),
        ("given", 3, ("given", "shuffled:5", "shuffled:6")),
        ("shuffled", 2, ("shuffled:4", "shuffled:5")),
        ("shuffled:0", 2, ("shuffled:0", "shuffled:1")),
        ("shuffled:-02", 2, ("shuffled:-2", "shuffled:-1")),
    ],
)
def test_the_orders_after_the_first_are_shuffles_with_the_seeds_that_follow(order: str, count: int, specs: tuple[str, ...]) -> None:
    assert order_specs(order, count, 4) == specs


@pytest.mark.parametrize(
    "order", ["", "newest", "date:1", "given:", "shuffled:", "shuffled:x", "shuffled:--5", "shuffled:²", "shuffled:1.5", "Date"]
)
def test_an_order_that_is_none_is_refused_in_words(order: str) -> None:
    for read in (lambda: order_specs(order, 1, 0), lambda: ordered(made_issues(2), order)):
        with pytest.raises(UsageError, match="no order called") as caught:
            read()
        assert "shuffled:SEED" in caught.value.hint


@pytest.mark.parametrize("count", [0, -1, MOST + 1, 10**12])
def test_a_number_of_orders_that_makes_no_run_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match="--orders"):
        order_specs("date", count, 0)


# -- the endpoint ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arms", "protocol", "builds", "streams", "words"),
    [
        (("none", "reasoningbank"), "crossfit", 1, 1, "(unit: issue; frozen banks of 1 build)"),
        (("none", "reasoningbank"), "crossfit", 3, 2, "(unit: issue; frozen banks of 3 builds)"),
        (("none", "reasoningbank"), "offline", 1, 1, "(unit: issue; the given bank, frozen)"),
        (("none", "reasoningbank"), "online", 1, 4, "(unit: stream)"),
        (("none", "reasoningbank"), "online", 1, 1, "(unit: issue, along the path of the one stream)"),
        (("derangement", "reasoningbank:k=2", "reasoningbank", "none"), "crossfit", 1, 1, "`reasoningbank:k=2` minus that of `none`"),
        (("reasoningbank",), "online", 1, 1, "none: there is no pair"),
        (("none", "gold"), "crossfit", 1, 1, "none: there is no pair"),
    ],
)
def test_the_endpoint_says_what_is_compared_over_what(arms: tuple[str, ...], protocol: str, builds: int, streams: int, words: str) -> None:
    assert words in endpoint(parse_arms(arms), protocol, builds, streams)


# -- the frozen file -------------------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(experiments())
def test_an_experiment_comes_back_from_its_file_as_it_was(experiment: Experiment) -> None:
    text = json.dumps(experiment.to_json(), indent=2, sort_keys=True, allow_nan=False)
    again = Experiment.from_json(json.loads(text), "x")
    assert again == experiment and again.differences(experiment) == () and again.conditions() == experiment.conditions()


WHOLE = made_experiment(made_issues(2, 1), "none", "reasoningbank", builds=2, versions={"python": "3.11"}, prompts={"judge": 1})
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    3,
    "x",
    "",
    "none",
    float("nan"),
    float("inf"),
    10**400,
    [],
    [1],
    ["x"],
    ["x", "x"],
    [[0, 1]],
    {},
    {"a": []},
)
CHOICES = ("protocol", "verdict", "recall", "environment")
TEXTS = [entry.name for entry in fields(Experiment) if isinstance(getattr(WHOLE, entry.name), str) and entry.name not in CHOICES]
RIGHT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(TEXTS, ("x", "", "none")),
    "bank": ({}, {"a": []}),
    "before": (True,),
    "versions": ({},),
    "prompts": ({},),
    "wave": (3,),
    "reruns": (3,),
    "baseline_reruns": (3,),
    "call_limit": (3,),
    "command_seconds": (0.5, 3),
    "cpus": (0.5, 3),
    "memory_gb": (0.5, 3),
    "test_seconds": (0.5, 3),
    "attempt_seconds": (None, 0.5, 3),
    "attempt_cost": (None, 0.5, 3),
    "attempt_tokens": (None, 3),
    "seed": (-1, 0, 3, 10**400),
    "orders": (["x"],),
}
"""Values of WRONG that are right for a field, by their repr: True is not 1 here."""


@pytest.mark.parametrize("name", [entry.name for entry in fields(Experiment)])
def test_a_field_of_the_wrong_kind_is_named_and_refused(name: str) -> None:
    right = {repr(value) for value in RIGHT.get(name, ())}
    for value in WRONG:
        damaged = {**WHOLE.to_json(), name: value}
        if repr(value) in right:
            assert Experiment.from_json(damaged, "x").to_json() == damaged
            continue
        with pytest.raises(UsageError) as caught:
            Experiment.from_json(damaged, "x/experiment.json")
        assert "x/experiment.json" in caught.value.what and caught.value.hint, value
        # "is not an experiment", and what does not go together, name the file and the fields that do not.
        assert f"`{name}`" in caught.value.what or "format" in name or name in ("instances", "arms"), (value, caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repositories": ["owner/repo0"]}, "do not go with `instances`"),
        ({"dates": []}, "do not go with `instances`"),
        ({"instances": ["a", "b"]}, "do not go with `instances`"),
        ({"sequences": []}, "not orders of `instances`"),
        ({"sequences": [[0, 1]]}, "not orders of `instances`"),
        ({"sequences": [[0, 1, 1]]}, "not orders of `instances`"),
        ({"sequences": [[0, 1, 3]]}, "not orders of `instances`"),
        ({"orders": ["date", "given"]}, "do not go with `orders`"),
        ({"folds": ["aba"]}, "`folds` do not go with"),
        ({"folds": ["aba", "ab"]}, "`folds` do not go with"),
        ({"folds": ["aba", "abc"]}, "`folds` is not a list of texts of a and b"),
        ({"builds": 1}, "`folds` do not go with"),
        ({"builds": MOST + 1}, "`builds` is not a count"),
        ({"reruns": 10**9}, "`reruns` is not a count"),
        ({"arms": ["none", "dreams"]}, "no arm called 'dreams'"),
        ({"arms": ["none", "derangement"]}, "there is none"),
        ({"arms": []}, "`arms` is not a list of different arms"),
        ({"protocol": "offside"}, "`protocol` is not one of"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        Experiment.from_json({**WHOLE.to_json(), **change}, "x")
    assert words in caught.value.what


@pytest.mark.parametrize("value", [None, [], "x", 3, {}, {"format": "2"}, {"format": None}, {"format": 1}, {"format": 2}])
def test_what_is_no_experiment_is_refused_in_words(value: Any) -> None:
    with pytest.raises(UsageError, match=r"not an experiment|has format|is damaged"):
        Experiment.from_json(value, "x")


# -- differences -----------------------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(experiments(), experiments())
def test_two_experiments_differ_in_words_exactly_where_they_differ(one: Experiment, two: Experiment) -> None:
    said = one.differences(two)
    assert (said == ()) == (one == two)
    named = [sentence.split(":")[0] for sentence in said]
    assert all(getattr(one, name) != getattr(two, name) for name in named) and len(set(named)) == len(named)
    assert named == [sentence.split(":")[0] for sentence in two.differences(one)]


def test_other_instances_are_counted_and_some_are_named() -> None:
    issues = made_issues(6)
    whole = made_experiment(issues, "none")
    fewer, other = made_experiment(issues[4:], "none"), made_experiment(made_issues(3, 2)[1:], "none")
    assert "instances: 6 there, 2 asked for: 4 missing (repo0-0, repo0-1, repo0-2, ...)" in whole.differences(fewer)
    assert "instances: 2 there, 6 asked for: 4 new (repo0-0, repo0-1, repo0-2, ...)" in fewer.differences(whole)
    (said,) = (sentence for sentence in whole.differences(other) if sentence.startswith("instances"))
    assert said == "instances: 6 there, 4 asked for: 4 missing (repo0-0, repo0-3, repo0-4, ...) and 2 new (repo1-0, repo1-1)"
    turned = made_experiment(issues[::-1], "none")
    assert "instances: the same, in another order" in whole.differences(turned)


def test_what_follows_from_a_changed_setting_is_not_told_as_a_change_of_its_own() -> None:
    issues = made_issues(3, 2)
    one = made_experiment(issues)
    for change in ({"builds": 3}, {"seed": 4}, {"protocol": "online"}):
        (name,) = change
        two = made_experiment(issues, **change)
        assert two.folds != one.folds
        assert {sentence.split(":")[0] for sentence in one.differences(two)} <= {name, "endpoint"}
    moved = [replace(issue, created_at=datetime(2020, 1, 1 + number, tzinfo=UTC)) for number, issue in enumerate(issues)]
    assert {"dates: not the same as in the frozen plan", "sequences: not the same as in the frozen plan"} == set(
        one.differences(made_experiment(moved))
    )
    renamed = [replace(issue, repo="owner/one") for issue in issues]
    assert "repositories: not the same as in the frozen plan" in one.differences(made_experiment(renamed))


def test_every_field_that_changes_alone_is_told() -> None:
    values: dict[str, Any] = {"before": True, "verdict": "tests", "recall": "paper", "bank": {"digest": "1"}, "format": 3}
    values |= {name: ("x",) * len(getattr(WHOLE, name)) for name in ("repositories", "dates", "orders")}
    values |= {"arms": ("none",), "protocol": "online", "instances": ("x", "y", "z"), "sequences": ((0, 1, 2),), "folds": ("abb", "bba")}
    for entry in fields(Experiment):
        old = getattr(WHOLE, entry.name)
        more = {str: lambda old: f"{old}x", dict: lambda _: {"a": 2}}.get(type(old), lambda old: (old or 0) + 1)
        new = values[entry.name] if entry.name in values else more(old)
        said = WHOLE.differences(replace(WHOLE, **{entry.name: new}))
        assert len(said) == 1 and said[0].startswith(f"{entry.name}:"), (entry.name, said)
        assert len(said[0]) < 400
