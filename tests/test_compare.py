"""The comparison: published figures of the tests, and a true sentence for every awkward run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import compare
from harness.compare import comparison
from harness.compare_text import render, table
from harness.events import fold
from harness.layout import Key, lay_out
from harness.plan import Experiment
from harness.statistics.paired import mcnemar_exact, mcnemar_midp
from harness.statistics.rates import wilson
from swe_memory.errors import UsageError
from swe_memory.records import Issue
from tests.compared import ITEM, PLACEBO, all_of, events, frozen, state
from tests.experiments import experiments, made_experiment

ISSUES = tuple(Issue(f"i-{number}", "owner/repo", "t") for number in (1, 2, 3))
EXPERIMENT = made_experiment(ISSUES, protocol="online")


def test_midp_and_exact_agree_with_published_limits() -> None:
    # With 17 net wins of 500, mid-p stays below .05 up to 73 discordant pairs and the exact test up to 67.
    assert mcnemar_midp(45, 28) < 0.05 < mcnemar_midp(46, 29)
    assert mcnemar_exact(42, 25) < 0.05 < mcnemar_exact(43, 26)


@pytest.mark.parametrize(("b", "c", "midp"), [(1, 0, 0.5), (3, 3, 1 - 0.5 * 20 / 64), (0, 5, 1 / 32), (2, 0, 0.25)])
def test_midp_by_hand(b: int, c: int, midp: float) -> None:
    assert mcnemar_midp(b, c) == pytest.approx(midp)
    assert mcnemar_midp(c, b) == pytest.approx(midp)
    assert mcnemar_midp(b, c) <= mcnemar_exact(b, c)


def test_wilson_against_a_published_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81 of 263 and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_a_complete_run_gives_pairs_rates_and_the_items_used() -> None:
    found = comparison(
        EXPERIMENT,
        state(
            events("none", "i-1", True, 10),
            events("none", "i-2", False, 60, "LimitsExceeded"),
            events("none", "i-3", False, 20),
            events("reasoningbank", "i-1", True, 8),
            events("reasoningbank", "i-2", True, 30, recall=ITEM),
            events("reasoningbank", "i-3", False, 20, recall=ITEM),
        ),
        "r",
    )
    none, memory = found["arms"]
    assert (none["resolved"], none["graded"], none["limit_hits"], none["mean_calls"]) == (1, 3, {"LimitsExceeded": 1}, 30.0)
    assert (memory["resolved"], memory["given"]) == (2, 2)
    assert memory["judge"] == {"right": 2, "wrong": 1, "unknown": 0, "not judged": 0}
    pair = found["comparisons"][0]
    assert (pair["both"], pair["only_arm"], pair["only_baseline"], pair["neither"]) == (1, 1, 0, 1)
    assert pair["difference"] == pytest.approx(1 / 3) and pair["p"] == pytest.approx(0.5) and pair["p_exact"] == 1.0
    assert pair["role"] == "primary" and "mid-p" in pair["test"]
    assert pair["calls_difference"] == pytest.approx((-2 - 30 + 0) / 3)
    (item,) = found["items"]
    assert (item["id"], item["title"], item["learned_from"], item["uses"], item["resolved"]) == ("m1", "Check the boundary", "i-0", 2, 1)
    assert (item["flips_for"], item["flips_against"]) == (1, 0) and "not run twice" in item["effect"]["why"]
    assert found["complete"] and any("One stream" in sentence for sentence in found["sentences"])
    text = render(found)
    assert "i-2" in text and "Check the boundary (0.50)" in text and "+33.3 points" in text


AWKWARD = {
    "nothing done yet": (EXPERIMENT, state(), "not complete"),
    "one arm": (
        replace(EXPERIMENT, arms=("reasoningbank",)),
        state(events("reasoningbank", "i-1", True)),
        "no pair of an arm with memory and `none`",
    ),
    "no overlap": (EXPERIMENT, state(events("none", "i-1", True), events("reasoningbank", "i-2", True)), "nothing to compare"),
    "no discordant pair": (
        EXPERIMENT,
        state(*(events(a, i, True) for a in EXPERIMENT.arms for i in EXPERIMENT.instances)),
        "no discordant pair",
    ),
    "all resolved, then none": (
        EXPERIMENT,
        state(*(events("none", i, False) for i in EXPERIMENT.instances), *(events("reasoningbank", i, True) for i in EXPERIMENT.instances)),
        "3 issues were resolved only with",
    ),
    "one issue": (
        made_experiment(ISSUES[:1], protocol="online"),
        state(events("none", "i-1", True), events("reasoningbank", "i-1", False)),
        "-100.0 points",
    ),
    "infra failure": (
        EXPERIMENT,
        state(events("none", "i-1", True), [{"event": "failed", "arm": "none", "stream": "1-1", "issue": "i-2", "reason": "disk"}]),
        "1 attempt failed through the machine",
    ),
    "oracle": (replace(EXPERIMENT, verdict="tests"), state(), "oracle verdict"),
}


@pytest.mark.parametrize("case", AWKWARD)
def test_an_awkward_run_gets_a_true_sentence_and_no_nan(case: str) -> None:
    experiment, found, words = AWKWARD[case]
    result = comparison(experiment, found, "r")
    assert words in " ".join([result["headline"]["sentence"], *result["sentences"]])
    json.loads(json.dumps(result, allow_nan=False))
    assert "nan" not in render(result).lower().replace("none", "")


@pytest.mark.parametrize("field", [*EXPERIMENT.to_json(), "all of it"])
def test_a_damaged_experiment_is_refused_in_words_or_compared_and_never_a_traceback(tmp_path: Path, field: str) -> None:
    whole = EXPERIMENT.to_json()
    lines = [json.dumps(event) + "\n" for event in events("none", "i-1", True, recall=ITEM)]
    (tmp_path / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    values: tuple[Any, ...] = (None, "x", [1], ["x", "x"], {}, {"a": 1}, float("nan"), 10**400, True, -1)
    damaged = [json.dumps({**whole, field: value}) for value in values] + [json.dumps({k: v for k, v in whole.items() if k != field})]
    if field == "all of it":
        damaged = ["", "[]", "[" * 100_000, '{"a":' * 100_000, "null", "\xff", "9" * 5000]
    for text in damaged:
        (tmp_path / "experiment.json").write_text(text, encoding="utf-8")
        for more in ([], ["--json"]):
            result = CliRunner().invoke(compare, [str(tmp_path), *more])
            assert result.exit_code == 0 or isinstance(result.exception, UsageError), (text[:300], result.exception)
            assert result.exit_code != 0 or field not in ("arms", "instances", "sequences", "orders") or text == damaged[-1]


def test_a_damaged_event_leaves_its_attempt_ungraded_and_is_told(tmp_path: Path) -> None:
    damage: tuple[tuple[int, dict[str, Any]], ...] = (
        (0, {"recall": {**ITEM, "score": float("nan")}}),
        (0, {"recall": {"item": "a"}}),
        (1, {"calls": "many"}),
        (1, {"actions": float("nan")}),
        (2, {"resolved": "false"}),
        (2, {"verdict": "x"}),
    )
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.to_json()), encoding="utf-8")
    for at, change in damage:
        lines = events("none", "i-1", True, recall=ITEM)
        lines[at] |= change
        (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines), encoding="utf-8")
        told = json.loads(CliRunner().invoke(compare, [str(tmp_path), "--json"]).output)
        assert told["arms"][0]["graded"] == 0 and next(iter(change)) in told["problems"][0], change
        assert "warning: event" in CliRunner().invoke(compare, [str(tmp_path)]).output


def test_lone_surrogates_in_a_title_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.to_json()), encoding="utf-8")
    lines = events("none", "i-1", True, recall={**ITEM, "title": "odd \ud800 title", "score": None})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines), encoding="utf-8")
    for more in ([], ["--json"]):
        result = CliRunner().invoke(compare, [str(tmp_path), *more])
        assert result.exit_code == 0 and "odd ? title" in result.output


def test_folders_that_are_no_runs_are_refused_in_words(tmp_path: Path) -> None:
    for folder, words in ((tmp_path / "absent", "there is no folder"), (tmp_path, "no run folder")):
        result = CliRunner().invoke(compare, [str(folder)])
        assert isinstance(result.exception, UsageError) and words in result.exception.what
    (tmp_path / "experiment.json").write_text("{", encoding="utf-8")
    result = CliRunner().invoke(compare, [str(tmp_path)])
    assert isinstance(result.exception, UsageError) and "damaged" in result.exception.what


def test_the_command_prints_text_and_json(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.to_json()), encoding="utf-8")
    lines = [json.dumps(event) + "\n" for event in events("none", "i-1", True)]
    (tmp_path / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    shown = CliRunner().invoke(compare, [str(tmp_path)])
    assert shown.exit_code == 0 and "i-1" in shown.output and "5 attempts are missing" in shown.output
    told = json.loads(CliRunner().invoke(compare, [str(tmp_path), "--json"]).output)
    assert told["arms"][0]["rate"] == 1.0 and told["arms"][1]["rate"] is None


def test_tables_fit_the_terminal() -> None:
    lines = table(["a", "title"], [["x" * 10, "long " * 40]], width=60)
    assert max(map(len, lines)) <= 60 and lines[-1].endswith("…")
    lines = table(["a", "title"], [["x" * 10, "long " * 40 + "(0.35)"], ["x", "(x) " * 40]], width=60)
    assert max(map(len, lines)) <= 60 and lines[-2].endswith("… (0.35)") and lines[-1].endswith("…")


# -- several arms, streams and builds ----------------------------------------------------------------------------------------------------------

FOUR = tuple(Issue(f"i-{number}", "owner/repo", "t") for number in range(1, 5))


def test_memory_is_compared_with_none_first_then_with_each_placebo_of_its_own() -> None:
    arms = ("derangement/reasoningbank:k=2", "reasoningbank", "none", "preamble", "reasoningbank:k=2")
    experiment = made_experiment(FOUR, *arms)
    found = comparison(experiment, state(all_of(experiment), frozen(experiment)), "r")
    pairs = [(pair["arm"], pair["baseline"], pair["role"]) for pair in found["comparisons"]]
    assert pairs == [
        ("reasoningbank", "none", "primary"),
        ("reasoningbank:k=2", "none", "secondary"),
        ("reasoningbank:k=2", "derangement/reasoningbank:k=2", "secondary"),
        ("reasoningbank", "preamble", "secondary"),
        ("derangement/reasoningbank:k=2", "none", "secondary"),
        ("preamble", "none", "secondary"),
    ]
    assert "`reasoningbank` minus that of `none`" in found["endpoint"] and found["sentences"][0].startswith("Primary endpoint:")
    assert found["complete"] and any("adjusted for their number by Holm" in sentence for sentence in found["sentences"])
    assert [arm["arm"] for arm in found["arms"]] == list(arms)


def test_a_placebo_gives_text_and_its_items_are_nobodys_success() -> None:
    experiment = made_experiment(FOUR, "none", "reasoningbank", "derangement", "preamble")
    wrong = {**ITEM, "control": "derangement", "characters": 900}
    found = comparison(
        experiment,
        state(
            events("reasoningbank", "i-1", True, recall={**ITEM, "characters": 900}),
            events("derangement", "i-1", True, recall=wrong),
            events("preamble", "i-1", True, recall=PLACEBO),
            events("preamble", "i-2", True, recall={**PLACEBO, "characters": 0}),
        ),
        "r",
    )
    assert [arm["given"] for arm in found["arms"]] == [0, 1, 1, 1]
    assert [(item["id"], item["uses"]) for item in found["items"]] == [("m1", 1)]
    first = found["issues"][0]["arms"]
    assert first["derangement"][0]["control"] == "derangement" and first["reasoningbank"][0]["control"] is None
    # With many arms there is little room: the title gives way, never the score.
    assert re.search(r"Check the \w+… \(0\.50\)", render(found)) and "Check the boundary (0.50)" in render(found, width=200)


def test_several_streams_are_the_unit_and_their_number_is_said() -> None:
    experiment = made_experiment(FOUR, protocol="online", orders=3)

    def resolved(key: Key) -> bool:
        arm, stream, issue = key
        return arm != "none" and (issue != "i-4" or stream == "2-1")

    found = comparison(experiment, state(all_of(experiment, resolved)), "r")
    (pair,) = found["comparisons"]
    assert pair["unit"] == "stream" and pair["only_arm"] is None and pair["both"] is None and pair["issues"] == 4
    assert pair["difference"] == pytest.approx((0.75 + 1 + 0.75) / 3) and pair["low"] < pair["difference"] < pair["high"]
    assert found["arms"][1]["streams"] == ["1-1", "2-1", "3-1"] and found["arms"][1]["planned"] == 12
    text = render(found)
    assert any("3 streams: the interval is over streams" in sentence for sentence in found["sentences"])
    assert "1 of 3" in text and "3 of 3" in text


def test_reruns_of_the_baseline_are_taken_together_by_issue() -> None:
    experiment = made_experiment(FOUR, baseline_reruns=2)
    found = comparison(experiment, state(all_of(experiment, lambda key: key[0] != "none" or key[1] == "1-2"), frozen(experiment)), "r")
    (pair,) = found["comparisons"]
    assert pair["difference"] == pytest.approx(0.5) and pair["unit"] == "issue" and pair["only_arm"] is None
    assert (found["arms"][0]["graded"], found["arms"][0]["rate"]) == (8, 0.5) and found["complete"]


def test_reference_patches_check_the_environment_and_are_no_arm() -> None:
    experiment = made_experiment(FOUR, "none", "gold")
    good = comparison(experiment, state(all_of(experiment)), "r")
    assert [arm["arm"] for arm in good["arms"]] == ["none"] and good["environment"] == [{"checked": 4, "resolved": 4, "failing": []}]
    assert any("passes on all 4 issues" in sentence for sentence in good["sentences"])
    bad = comparison(experiment, state(all_of(experiment, lambda key: key[2] != "i-2")), "r")
    assert bad["environment"][0]["failing"] == [{"issue": "i-2", "outcome": "unresolved"}]
    assert any("fails here on 1 of 4 issues" in sentence and "i-2" in sentence for sentence in bad["sentences"])


def test_what_a_bank_was_frozen_without_and_what_is_left_to_freeze_is_said() -> None:
    experiment = made_experiment(FOUR)
    found = comparison(experiment, state(all_of(experiment), frozen(experiment, missing=1)), "r")
    assert found["complete"] and sum("was frozen without 1 attempt that failed" in sentence for sentence in found["sentences"]) == 2
    left = comparison(experiment, state(all_of(experiment), frozen(experiment)[:1]), "r")
    assert not left["complete"] and any("not complete: a bank" in sentence for sentence in left["sentences"])


def test_infra_failures_are_listed_with_their_tries_beside_every_rate() -> None:
    where = {"arm": "none", "stream": "1-1", "issue": "i-2"}
    lost = [{"event": "failed", **where, "reason": reason} for reason in ("image missing\nmore", "disk full\nand a traceback")]
    found = comparison(EXPERIMENT, state(events("none", "i-1", True), lost), "r")
    assert found["infra"] == [{**where, "tries": 2, "reason": "disk full"}]
    none = found["arms"][0]
    assert (none["graded"], none["infra"], none["missing"], none["rate"]) == (1, [{"stream": "1-1", "issue": "i-2"}], 1, 1.0)
    assert found["issues"][1]["arms"]["none"][0]["state"] == "infra failure" and "infra failure" in render(found)


def test_calls_that_an_agent_did_not_tell_are_in_no_mean_and_said_to_be_unknown() -> None:
    found = comparison(
        EXPERIMENT, state(events("none", "i-1", True, None), events("none", "i-2", True, 4), events("reasoningbank", "i-1", True, 6)), "r"
    )
    none = found["arms"][0]
    assert (none["mean_calls"], none["calls_unknown"]) == (4.0, 1) and found["comparisons"][0]["calls_difference"] is None
    assert any("the calls of 1 attempt are not known" in sentence for sentence in found["sentences"])
    assert "unknown" in render(comparison(EXPERIMENT, state(events("none", "i-1", True, None)), "r"))


def test_what_all_calls_used_is_told_by_role_and_together() -> None:
    where = {"arm": "none", "stream": "1-1", "issue": "i-1"}
    used = {"event": "usage", **where, "calls": 2, "input": 30, "output": 5}
    found = comparison(EXPERIMENT, state([{**used, "role": "agent", "cost": 0.5}, {**used, "role": "judge", "cost": 0.25}]), "r")
    assert found["usage"]["agent"] == {"calls": 2, "input_tokens": 30, "output_tokens": 5, "cost": 0.5}
    assert found["usage"]["all"] == {"calls": 4, "input_tokens": 60, "output_tokens": 10, "cost": 0.75}
    assert "Used: 4 calls, $0.75" in render(found)
    unpriced = comparison(EXPERIMENT, state([{**used, "role": "agent", "cost": None}]), "r")
    assert "Used: 2 calls, cost unknown" in render(unpriced)


def test_verdicts_that_taught_are_held_against_the_tests_where_they_taught() -> None:
    crossfit = made_experiment(FOUR)
    found = comparison(crossfit, state(all_of(crossfit, lambda key: key[2] != "i-1"), frozen(crossfit)), "r")
    (said,) = (sentence for sentence in found["sentences"] if "agreed with the tests" in sentence)
    assert "4 verdicts that memory learned from in `none`, 3 agreed" in said
    asked = [{**event, "verdict": None} if event["event"] == "graded" else event for event in all_of(crossfit)]
    silent = comparison(crossfit, state(asked), "r")
    assert silent["arms"][0]["judge"] == {"right": 0, "wrong": 0, "unknown": 0, "not judged": 4}
    assert not any("agreed with the tests" in sentence for sentence in silent["sentences"])


@settings(max_examples=60, deadline=None)
@given(experiments(), st.randoms(use_true_random=False))
def test_any_state_of_any_run_gives_true_counts_and_no_nan(experiment: Experiment, random: Any) -> None:
    journal: list[dict[str, Any]] = []
    for cell in lay_out(experiment).cells:
        arm, stream, issue = cell.key
        recall = random.choice([None, ITEM, PLACEBO]) if cell.bank else None
        whole = events(arm, issue, random.random() < 0.5, random.choice([None, 3]), recall=recall, stream=stream)[:3]
        lost = {"event": "failed", "arm": arm, "stream": stream, "issue": issue, "reason": "disk"}
        journal += random.choice([[], whole[:1], whole[:2], whole, whole, whole, [whole[0], lost], [lost, *whole]])
    found = comparison(experiment, fold(journal), "r")
    json.loads(json.dumps(found, allow_nan=False))
    assert found["problems"] == [] and render(found)
    planned = {(cell.arm.name, cell.stream, cell.issue) for cell in lay_out(experiment).cells}
    for arm in found["arms"]:
        assert arm["graded"] + len(arm["infra"]) + arm["missing"] == arm["planned"] == sum(key[0] == arm["arm"] for key in planned)
        assert 0 <= arm["resolved"] <= arm["graded"] and (arm["rate"] is None) == (arm["graded"] == 0)
        assert arm["rate"] is None or arm["low"] <= arm["rate"] <= arm["high"]
        assert sum(arm["judge"].values()) == arm["graded"] == sum(arm["exit_statuses"].values())
    assert {(a["arm"], a["stream"], a["issue"]) for a in found["infra"]} <= planned
    assert sum(pair["role"] == "primary" for pair in found["comparisons"]) == 1
    for pair in found["comparisons"]:
        assert pair["sentence"] and (pair["difference"] is None) == (pair["issues"] == 0)
        assert pair["p"] is None or 0 <= pair["p"] <= 1
