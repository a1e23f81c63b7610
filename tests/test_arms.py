"""Arms as they are written: two spellings of one condition are one arm, and whatever is written wrongly is refused in words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.arms import KINDS, SETTINGS, Arm, parse_arms
from swe_memory.errors import UsageError
from swe_memory.ranking import RankingSettings


def arm(spec: str) -> Arm:
    """The arm of one spec; a control stands beside the arm that it is yoked to."""
    return next(
        found for found in parse_arms(["reasoningbank", spec] if spec != "reasoningbank" else [spec]) if found.name != "reasoningbank"
    )


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("reasoningbank: k = 2 , success-only", "reasoningbank:k=2,success-only"),
        ("reasoningbank:success_only,k=2", "reasoningbank:k=2,success-only"),
        ("reasoningbank:k=02", "reasoningbank:k=2"),
        ("reasoningbank:k=+2", "reasoningbank:k=2"),
        ("reasoningbank:threshold=0.50", "reasoningbank:threshold=0.5"),
        ("reasoningbank:threshold=5e-1", "reasoningbank:threshold=0.5"),
        ("reasoningbank:threshold=1", "reasoningbank:threshold=1"),
        ("reasoningbank:threshold=1.0", "reasoningbank:threshold=1"),
        ("reasoningbank:path_weight=-0", "reasoningbank:path-weight=0"),
        (
            "reasoningbank:failure-only,before,other_repos,grain=experience",
            "reasoningbank:grain=experience,other-repos,before,failure-only",
        ),
        (" none ", "none"),
        ("gold", "gold"),
        ("derangement", "derangement"),
        ("derangement/reasoningbank", "derangement"),
        ("neutral / reasoningbank", "neutral"),
    ],
)
def test_every_spelling_of_a_condition_has_one_name(written: str, name: str) -> None:
    assert arm(written).name == name


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "k": st.integers(1, 100),
        "threshold": st.floats(0, 999),
        "path-weight": st.floats(0, 999),
        "grain": st.sampled_from(["item", "experience"]),
        "other-repos": st.just(True),
        "before": st.just(True),
        "only": st.sampled_from(["success-only", "failure-only"]),
    },
)


def written(values: dict[str, object], order: list[str]) -> str:
    parts = {str(value) if name == "only" else name if value is True else f"{name}={value}" for name, value in values.items()}
    return "reasoningbank" + (":" + ",".join(sorted(parts, key=lambda part: order.index(part.split("=")[0]))) if parts else "")


@settings(max_examples=100, deadline=None)
@given(VALUES, st.permutations(SETTINGS), st.permutations(SETTINGS))
def test_a_name_is_a_spec_that_reads_back_as_the_same_arm_to_the_last_digit(
    values: dict[str, object], order: list[str], other: list[str]
) -> None:
    one, two = parse_arms([written(values, order)])[0], parse_arms([written(values, other)])[0]
    assert one == two == parse_arms([one.name])[0]
    for name, value in one.settings:
        assert value == values.get(name, True)
    with pytest.raises(UsageError, match="named twice"):
        parse_arms([written(values, order), written(values, other)])


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6), st.permutations(SETTINGS))
def test_arms_have_folders_of_their_own_that_any_file_system_takes(chosen: list[dict[str, object]], order: list[str]) -> None:
    memory = list(dict.fromkeys(parse_arms([written(values, order)])[0].name for values in chosen))
    controls = [f"{kind}/{name}" for kind in ("derangement", "preamble", "neutral") for name in memory]
    arms = parse_arms(["none", "gold", *controls, *memory])
    folders = [found.folder for found in arms]
    assert len({folder.lower() for folder in folders}) == len(arms) == 2 + 4 * len(memory)
    for folder in folders:
        assert set(folder) <= set(string.ascii_lowercase + string.digits + "-_=,.") and folder[0].isalpha() and len(folder) < 200
        assert folder != "banks"  # where frozen banks lie


REFUSED = {
    "dreams": "no arm called 'dreams'",
    "": "no arm called ''",
    "None": "no arm called",
    "reasoningbank:depth=2": "no setting 'depth'",
    "reasoningbank:k=0": "k is '0', which is not a whole number from 1 to 100",
    "reasoningbank:k=101": "which is not a whole number",
    "reasoningbank:k=1.5": "which is not a whole number",
    "reasoningbank:k=": "k is '', which is not",
    "reasoningbank:k": "k is '', which is not",
    "reasoningbank:threshold=-1": "threshold is '-1', which is not a number from 0",
    "reasoningbank:threshold=nan": "which is not a number from 0",
    "reasoningbank:threshold=inf": "which is not a number from 0",
    "reasoningbank:path-weight=heavy": "which is not a number from 0",
    "reasoningbank:grain=rice": "which is not item or experience",
    "reasoningbank:k=2,k=3": "k comes twice",
    "reasoningbank:before,before": "before comes twice",
    "reasoningbank:path-weight=1,path_weight=1": "path-weight comes twice",
    "reasoningbank:before=yes": "before takes no value",
    "reasoningbank:success-only,failure-only": "leave nothing to learn from",
    "reasoningbank:": "no setting follows the colon",
    "reasoningbank:k=2,": "no setting ''",
    "none:k=2": "none takes no settings",
    "gold:k=2": "gold takes no settings",
    "derangement:k=2": "derangement takes no settings",
    "none/reasoningbank": "only a control is yoked",
    "reasoningbank/none": "only a control is yoked",
    "none/": "only a control is yoked",
    "derangement/": "no arm follows the slash",
    "derangement/dreams": "no arm called 'dreams'",
    "derangement/none": "which is not an arm of this run",
    "derangement/derangement": "which is not an arm of this run",
    "derangement/reasoningbank:k=2": "yoked to 'reasoningbank:k=2', which is not an arm of this run",
    "derangement/reasoningbank:k=0": "which is not a whole number",
}


@pytest.mark.parametrize("spec", REFUSED)
def test_what_is_written_wrongly_is_refused_and_the_hint_says_what_to_write(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arms(["reasoningbank", spec])
    assert REFUSED[spec] in caught.value.what and caught.value.hint


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([], "no arm was named"),
        (["none", "none"], "'none' was named twice"),
        (["reasoningbank", "reasoningbank:k=2,success-only", "reasoningbank:success-only,k=2"], "named twice"),
        (["reasoningbank", "derangement", "derangement/reasoningbank"], "'derangement' was named twice"),
        (["none", "derangement"], "and there is none"),
        (["gold", "neutral/reasoningbank"], "and there is none"),
    ],
)
def test_arms_that_do_not_go_together_are_refused(specs: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_arms(specs)
    assert words in caught.value.what and caught.value.hint


def test_controls_are_yoked_to_the_arm_they_name_or_to_the_first_with_memory_wherever_they_stand() -> None:
    specs = ["derangement", "preamble/reasoningbank:k=2", "reasoningbank:before", "none", "reasoningbank:k=2"]
    found = {found.name: found.of for found in parse_arms(specs)}
    assert found == {
        "derangement": "reasoningbank:before",
        "preamble/reasoningbank:k=2": "reasoningbank:k=2",
        "reasoningbank:before": "",
        "none": "",
        "reasoningbank:k=2": "",
    }
    assert [found.name for found in parse_arms(list(found))] == list(found)


def test_a_family_is_what_a_bank_is_made_of_and_no_setting_of_recall_changes_it() -> None:
    specs = (
        "reasoningbank",
        "reasoningbank:k=2,threshold=0,before,other-repos",
        "reasoningbank:success-only",
        "reasoningbank:k=3,failure-only",
    )
    plain, recalled, passes, failures = parse_arms(specs)
    assert plain.family == recalled.family == "reasoningbank" and plain.outcomes == recalled.outcomes == {"resolved", "unresolved"}
    assert (passes.family, passes.outcomes) == ("reasoningbank-success-only", {"resolved"})
    assert (failures.family, failures.outcomes) == ("reasoningbank-failure-only", {"unresolved"})


def test_an_arm_recalls_by_the_settings_of_the_experiment_with_its_own_on_top() -> None:
    plain, own = parse_arms(["reasoningbank", "reasoningbank:k=3,threshold=0.5,path-weight=0.1,grain=item,other-repos,before"])
    assert plain.ranking() == RankingSettings() and plain.ranking("paper") == RankingSettings.paper()
    assert plain.ranking(before=True) == RankingSettings(before=True)
    whole = RankingSettings(k=3, grain="item", threshold=0.5, path_weight=0.1, other_repos=True, before=True)
    assert own.ranking() == own.ranking("paper") == own.ranking(before=True) == whole
    only = parse_arms(["reasoningbank:success-only"])[0]
    assert only.ranking() == RankingSettings()


def test_every_method_has_a_kind_and_can_be_written_as_help_says() -> None:
    from harness.arms import KNOWN

    assert all(method in KNOWN for method in KINDS)
    assert {found.method for found in parse_arms(list(KINDS))} == set(KINDS)
