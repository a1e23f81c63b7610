"""What speaks against believing a result, and what memory did: flips, items, the growing bank, several attempts with one bank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.threats import release_date
from harness.compare import compare_run, compare_two, comparison
from harness.compare_text import render
from harness.dataset import load_dataset
from harness.layout import Key, lay_out
from harness.plan import Experiment
from harness.report.material import load
from swe_memory.records import Issue
from tests.compared import ITEM, all_of, events, frozen, state, write_run
from tests.experiments import START, made_experiment, made_issues

FORTY = made_issues(10, 10, 10, 10)
IDS = [issue.id for issue in FORTY]


def number(issue: str) -> int:
    return IDS.index(issue)


def won(**counts: int) -> Callable[[Key], bool]:
    return lambda key: number(key[2]) < counts[key[0]]


def whole(experiment: Experiment, resolved: Callable[[Key], bool] = lambda _: True, **more: Any) -> dict[str, Any]:
    banks = frozen(experiment) if experiment.protocol == "crossfit" else []
    return comparison(experiment, state(all_of(experiment, resolved, **more), banks), "r")


def threat(found: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return next((threat for threat in found["threats"] if threat["id"] == name), None)


def recalled(source: str, **more: Any) -> Callable[[Key], Any]:
    return lambda key: {**ITEM, "learned_from": source, **more} if key[0] == "reasoningbank" else None


# -- threats ---------------------------------------------------------------------------------------------------------------------------------


def test_few_discordant_pairs_weigh_more_the_fewer_they_are() -> None:
    experiment = made_experiment(FORTY)
    weights = []
    for pairs in (3, 12, 25):
        found = threat(whole(experiment, won(none=10, reasoningbank=10 + pairs)), "few discordant pairs")
        weights.append(found and (found["weight"], f"There are {pairs} discordant pairs" in found["sentence"]))
    assert weights == [("serious", True), ("caution", True), None]
    one = threat(whole(experiment, won(none=10, reasoningbank=11)), "few discordant pairs")
    assert one and "There is 1 discordant pair: " in one["sentence"]
    again = made_experiment(FORTY, baseline_reruns=2)

    def turned(key: Key) -> bool:
        """The runs of the baseline differ on one issue, and one more is resolved with memory."""
        return number(key[2]) < (12 if key[0] != "none" else 10 if key[1] == "1-1" else 11)

    several = threat(whole(again, turned), "few discordant pairs")
    assert several and "There are on average 1.5 discordant pairs: " in several["sentence"]


def test_one_stream_and_one_build_are_said_and_several_are_not() -> None:
    assert threat(whole(made_experiment(FORTY, protocol="online")), "one stream")
    assert not threat(whole(made_experiment(FORTY, protocol="online", orders=2)), "one stream")
    assert threat(whole(made_experiment(FORTY)), "one build") and not threat(whole(made_experiment(FORTY, builds=2)), "one build")


def test_oracle_verdicts_are_serious_wherever_they_come_from() -> None:
    tests = whole(made_experiment(FORTY, verdict="tests"))
    assert threat(tests, "oracle verdicts")["weight"] == "serious"  # type: ignore[index]
    given = whole(made_experiment(FORTY), recall=recalled(IDS[0], verdict_source="tests"))
    assert "40 attempts were given an item whose outcome was known from hidden tests" in threat(given, "oracle verdicts")["sentence"]  # type: ignore[index]
    assert not threat(whole(made_experiment(FORTY), recall=recalled(IDS[0], verdict_source="rules")), "oracle verdicts")


def test_lessons_from_later_issues_are_counted_unless_a_guard_kept_them_out() -> None:
    # The issues are dated against their order: number 0 is the latest.
    found = threat(whole(made_experiment(FORTY), recall=recalled(IDS[3])), "lessons from later issues")
    assert found and "36 of 40 recalled lessons" in found["sentence"] and found["weight"] == "caution"
    assert not threat(whole(made_experiment(FORTY, before=True), recall=recalled(IDS[3])), "lessons from later issues")
    unknown = whole(made_experiment(FORTY), recall=recalled("elsewhere-1"))
    assert threat(unknown, "lessons from later issues")["weight"] == "not checked"  # type: ignore[index]


def lost(key: Key) -> dict[str, Any]:
    return {"event": "failed", "arm": key[0], "stream": key[1], "issue": key[2], "reason": "disk"}


def test_infra_failures_that_are_unequal_by_arm_are_serious_and_bounded() -> None:
    experiment = made_experiment(FORTY)
    cells = lay_out(experiment).cells
    for gone, weight in ((("reasoningbank",), "serious"), (("reasoningbank", "none"), "caution")):
        journal = []
        for cell in cells:
            if cell.arm.name in gone and number(cell.issue) < 8:
                journal.append(lost(cell.key))
            else:
                journal += events(*cell.key[::2], True, stream=cell.stream, learns=False)
        found = comparison(experiment, state(journal, frozen(experiment)), "r")
        said = threat(found, "infra failures")
        assert said and said["weight"] == weight
        bounds = found["comparisons"][0]["bounds"]
        assert bounds["low"] == pytest.approx(-8 / 40) and bounds["high"] == pytest.approx(0.0 if len(gone) == 1 else 8 / 40)
        assert bounds["interval_low"] < bounds["low"] and "between -20.0 and" in said["sentence"]
        assert (bounds["unequal"]["p"] is not None) is (len(gone) == 1)


def test_a_repository_that_decides_alone_is_named() -> None:
    one = threat(whole(made_experiment(FORTY), won(none=0, reasoningbank=10)), "one repository decides")
    assert one and "Without owner/repo0 (10 issues) the primary difference is 0.0 points" in one["sentence"]
    assert not threat(whole(made_experiment(FORTY), won(none=0, reasoningbank=15)), "one repository decides")
    single = made_experiment(made_issues(12))
    assert "All issues are of one repository" in threat(whole(single), "repositories")["sentence"]  # type: ignore[index]


def test_the_same_patch_graded_both_ways_is_serious() -> None:
    experiment = made_experiment(FORTY, baseline_reruns=2)
    flaky = whole(experiment, lambda key: key[1] == "1-1" or key[2] != IDS[0], patch_sha256="a" * 64)
    said = threat(flaky, "grading is not stable")
    assert said and said["about"] == [IDS[0]] and said["weight"] == "serious"
    assert not threat(whole(experiment, lambda key: key[1] == "1-1" or key[2] != IDS[0]), "grading is not stable")


def test_flags_limits_waves_and_banks_that_are_not_whole_are_told() -> None:
    experiment = made_experiment(FORTY)
    journal = all_of(experiment)
    for event in journal:
        if event["event"] == "graded" and event["arm"] == "none" and number(event["issue"]) < 4:
            event["flags"] = ["the patch touches tests or how they are run"]
        if event["event"] == "finished" and number(event["issue"]) < 9:
            event["exit_status"] = "LimitsExceeded"
    found = comparison(experiment, state(journal, frozen(experiment, missing=2)), "r")
    assert "`none` 4 of 40, `reasoningbank` 0 of 40" in threat(found, "flag: the patch touches tests or how they are run")["sentence"]  # type: ignore[index]
    assert "`none` 9 of 40 (22.5 %)" in threat(found, "limits")["sentence"]  # type: ignore[index]
    assert "frozen without 2 attempts" in threat(found, "bank not whole")["sentence"]  # type: ignore[index]
    assert threat(whole(made_experiment(FORTY, protocol="online", wave=5)), "waves") and not threat(found, "waves")


def test_damaged_events_are_named_counted_and_left_out(tmp_path: Path) -> None:
    experiment = made_experiment(FORTY)
    folder = write_run(tmp_path / "r", experiment, all_of(experiment) + frozen(experiment))
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "graded"}\n\xff\xfe\n[1]\n')
    found = compare_run(folder)
    assert len(found["problems"]) == 3 and "3 things could not be read" in threat(found, "damaged journal")["sentence"]  # type: ignore[index]
    assert found["arms"][0]["graded"] == 40


@pytest.mark.parametrize(
    ("model", "date"),
    [
        ("claude-sonnet-4-20250514", "2025-05-14"),
        ("gpt-4o-2024-08-06", "2024-08-06"),
        ("claude-haiku-5-5", ""),
        ("m-123456789012", ""),
        ("", ""),
    ],
)
def test_the_date_in_the_name_of_a_model(model: str, date: str) -> None:
    assert release_date(model) == date


def test_a_model_newer_than_the_issues_is_said_to_be() -> None:
    newer = made_experiment(FORTY, agent="mini", model="claude-sonnet-4-20250514")
    assert "40 of 40 dated issues are older" in threat(whole(newer), "model newer than the issues")["sentence"]  # type: ignore[index]
    older = replace(newer, model="some-2020-01-31")
    assert not threat(whole(older), "model newer than the issues") and START.year == 2024
    assert "no date is in the name" in threat(whole(replace(newer, model="haiku")), "model and issues")["sentence"]  # type: ignore[index]


def test_issues_that_name_the_file_are_counted_where_the_dataset_is_at_hand() -> None:
    bench = load_dataset("minibench")
    issues = [instance.issue for instance in bench.instances]
    experiment = replace(made_experiment(issues), dataset="minibench", dataset_hash=bench.hash)
    journal = state(all_of(experiment), frozen(experiment))
    found = threat(comparison(experiment, journal, "r", dataset=bench), "issues that name the file")
    assert found is None or (found["weight"] == "note" and set(found["about"]) <= {issue.id for issue in issues})
    other = threat(comparison(replace(experiment, dataset_hash="0"), journal, "r", dataset=bench), "issues that name the file")
    assert other and other["weight"] == "not checked" and "minibench is not the dataset of this run" in other["sentence"]
    assert threat(whole(experiment), "issues that name the file")["weight"] == "not checked"  # type: ignore[index]


def test_where_the_dataset_is_not_at_hand_the_command_that_names_it_is_told(tmp_path: Path) -> None:
    experiment = replace(made_experiment(FORTY), dataset="my rows.jsonl")
    journal = [event for part in (all_of(experiment), frozen(experiment)) for event in part]
    folders = [write_run(tmp_path / name, experiment, journal) for name in ("one run", "other")]
    said = threat(compare_run(folders[0]), "issues that name the file")
    assert said and f"`swe-memory compare '{folders[0]}' --dataset 'my rows.jsonl'`" in said["sentence"]
    both = threat(compare_two(*folders), "issues that name the file")
    assert both and f"`swe-memory compare '{folders[0]}' {folders[1]} --dataset 'my rows.jsonl'`" in both["sentence"]
    page = threat(load(folders[0], folders[0]).result, "issues that name the file")
    assert page and "`swe-memory report 'one run' --dataset 'my rows.jsonl'`" in page["sentence"] and str(tmp_path) not in page["sentence"]


def test_threats_come_with_the_serious_ones_first_and_are_shown() -> None:
    found = whole(made_experiment(FORTY, protocol="online", verdict="tests"), won(none=10, reasoningbank=13))
    weights = [threat["weight"] for threat in found["threats"]]
    assert weights == sorted(weights, key=["serious", "caution", "note", "not checked"].index) and weights[0] == "serious"
    assert set(found["headline"]["caveats"]) == {threat["sentence"] for threat in found["threats"] if threat["weight"] == "serious"}
    shown = " ".join(render(found).split())
    assert all(" ".join(threat["sentence"].split()) in shown for threat in found["threats"])


# -- what memory did -------------------------------------------------------------------------------------------------------------------------


def test_flips_go_both_ways_and_lead_to_a_trajectory_of_either_side() -> None:
    experiment = made_experiment(FORTY, reruns=2)

    def resolved(key: Key) -> bool:
        place = number(key[2])
        if key[0] == "none":
            return place in (5, 6)
        return place in (1, 2) or (place == 6 and key[1] == "1-1")

    found = whole(experiment, resolved, recall=recalled(IDS[0]))
    flips = found["comparisons"][0]["flips"]
    assert (flips["for"], flips["against"]) == (2, 2)
    assert {(flip["issue"], flip["direction"]) for flip in flips["list"]} == {
        (IDS[1], "for"),
        (IDS[2], "for"),
        (IDS[5], "against"),
        (IDS[6], "against"),
    }
    last = next(flip for flip in flips["list"] if flip["issue"] == IDS[6])
    assert flips["list"][-1] is last  # half of its runs only
    assert last["arm"] == {
        "resolved": 1,
        "runs": 2,
        "stream": "1-2",
        "trajectory": f"reasoningbank/1-2/trajs/{IDS[6]}/{IDS[6]}.traj.json",
    }
    assert last["baseline"]["trajectory"] == f"none/1-1/trajs/{IDS[6]}/{IDS[6]}.traj.json"
    assert last["item"] == "m1" and last["same_repository"] is True


def test_gain_is_told_apart_by_where_the_item_was_learned() -> None:
    found = whole(made_experiment(FORTY), lambda key: key[0] != "none" and number(key[2]) < 15, recall=recalled(IDS[0]))
    gain = {part["where"]: (part["issues"], part["estimate"]["value"]) for part in found["comparisons"][0]["recall_gain"]}
    assert gain == {"same repository": (10, 1.0), "another repository": (30, pytest.approx(5 / 30)), "nothing": (0, None)}
    unknown = whole(made_experiment(FORTY), recall=recalled("elsewhere-1"))["comparisons"][0]["recall_gain"]
    assert [part["issues"] for part in unknown] == [0, 0, 0]
    placebo = whole(made_experiment(FORTY, "none", "reasoningbank", "derangement"))["comparisons"]
    assert [bool(pair["recall_gain"]) for pair in placebo] == [True, True, False]


def test_an_item_is_shrunk_to_what_reruns_turn_anyway() -> None:
    experiment = made_experiment(FORTY, baseline_reruns=2)

    def resolved(key: Key) -> bool:
        # The baseline's runs differ on 8 of 40 issues.
        return key[0] != "none" or number(key[2]) < 20 or (number(key[2]) < 28 and key[1] == "1-2")

    def recall(key: Key) -> Any:
        if key[0] == "none" or number(key[2]) in range(10, 20):
            return None
        return {**ITEM, "item": "lucky" if number(key[2]) == 39 else "often", "learned_from": IDS[0]}

    often, lucky = whole(experiment, resolved, recall=recall)["items"]
    assert (often["id"], often["uses"], often["flips_for"], often["flips_against"]) == ("often", 29, 19, 0)
    assert often["flips_expected"] == pytest.approx(29 * 0.2 / 2) and often["effect"]["low"] > 0
    assert (lucky["flips_for"], lucky["uses"]) == (1, 1) and 0 < lucky["effect"]["value"] < 0.1 and lucky["effect"]["low"] < 0
    assert often["same_repository"] == 10 and often["repository"] == "owner/repo0"
    assert often["attempts"][0]["baseline_resolved"] is True and len(often["attempts"]) == 29
    assert whole(made_experiment(FORTY), resolved, recall=recall)["items"][0]["effect"]["value"] is None


def test_the_learning_curve_is_over_the_size_that_the_bank_had_when_it_was_asked() -> None:
    issues = [Issue(f"i-{place}", f"owner/repo{place % 2}", "t") for place in range(8)]
    experiment = made_experiment(issues, protocol="online", wave=2, orders=2, order="given")
    journal = []
    for cell in lay_out(experiment).cells:
        journal += events(*cell.key[::2], cell.arm.kind != "none", stream=cell.stream, learns=False)
        if cell.arm.kind == "memory":
            items = [{"id": f"{cell.issue}-{part}", "title": "t"} for part in range(3)]
            where = {"arm": cell.arm.name, "stream": cell.stream, "issue": cell.issue}
            journal.append({"event": "learned", **where, "bank": cell.bank, "bank_version": 1, "items": items})
    learning = comparison(experiment, state(journal), "r")["comparisons"][0]["learning"]
    size = learning["size"]
    # Waves of two with three items each: 0, 6, 12, 18.
    assert [(part["start"], part["end"], part["attempts"]) for part in size["bins"]] == [(0, 6, 4), (6, 12, 4), (12, 18, 4), (18, None, 4)]
    assert all(part["estimate"]["value"] == 1 for part in size["bins"])
    assert [part["attempts"] for part in learning["position"]["bins"]] == [4, 8, 4] and learning["position"]["bins"][1]["start"] == 1
    single = whole(made_experiment(issues, protocol="online"))["comparisons"][0]["learning"]
    assert "no interval" in single["why"] and single["size"]["bins"][0]["estimate"]["low"] is None
    assert whole(made_experiment(FORTY))["comparisons"][0]["learning"] is None


def test_pass_at_k_takes_attempts_with_one_bank_version() -> None:
    experiment = made_experiment(FORTY, builds=2, reruns=2)
    found = whole(experiment, lambda key: key[0] != "none" and (number(key[2]) < 10 or (number(key[2]) < 20 and key[1] == "1-2")))
    memory = found["arms"][1]["pass_at_k"]
    assert [(part["k"], part["estimate"]["value"]) for part in memory] == [(1, pytest.approx(0.375)), (2, pytest.approx(0.5))]
    online = whole(made_experiment(FORTY, protocol="online", orders=3, baseline_reruns=2))
    assert online["arms"][1]["pass_at_k"] == [] and len(online["arms"][0]["pass_at_k"]) == 2
    assert whole(made_experiment(FORTY))["arms"][0]["pass_at_k"] == []


def test_best_of_n_picks_by_a_verdict_that_is_not_the_tests_own() -> None:
    experiment = made_experiment(FORTY, baseline_reruns=2)
    journal = all_of(experiment, lambda key: key[1] == "1-1" and number(key[2]) < 20)
    for event in journal:
        if event["event"] == "graded" and not (event["resolved"] and number(event["issue"]) < 15):
            event["verdict"]["outcome"] = "unresolved"
    found = comparison(experiment, state(journal, frozen(experiment)), "r")
    (best,) = found["arms"][0]["best_of_n"]
    # It tells the resolved run of 15 issues, and tosses a coin for 5.
    assert (best["n"], best["selector"]) == (2, "the verdict by rules")
    assert [best[name]["value"] for name in ("selected", "at_random", "perfect")] == pytest.approx([17.5 / 40, 10 / 40, 20 / 40])
    oracle = comparison(replace(experiment, verdict="tests"), state(journal, frozen(experiment)), "r")
    assert oracle["arms"][0]["best_of_n"] == []


# -- as text ---------------------------------------------------------------------------------------------------------------------------------


def test_each_issue_has_a_line_where_they_are_few_or_it_is_asked_for() -> None:
    found = whole(made_experiment(FORTY), won(none=10, reasoningbank=25), recall=recalled(IDS[0]))
    short, long = render(found), render(found, issues=True)
    assert IDS[30] not in short and IDS[30] in long and "Issues that turned: 15 for reasoningbank" in short
    assert short.count("\n" + IDS[10][:5]) <= 10 and "10 of them" in short
    few = whole(made_experiment(FORTY[:5], "none", "reasoningbank"))
    assert IDS[4] in render(few) and IDS[4] not in render(few, issues=False)


def test_no_line_is_longer_than_the_terminal_but_for_what_cannot_be_broken() -> None:
    arms = ("none", "reasoningbank", "reasoningbank:k=2,success-only", "derangement", "preamble", "neutral")
    experiment = made_experiment(FORTY, *arms, baseline_reruns=2, agent="mini")
    found = whole(experiment, lambda key: (number(key[2]) + len(key[0])) % 3 > 0, recall=recalled(IDS[0], title="A long title " * 20))
    assert max(map(len, render(found).splitlines())) <= 112


def test_many_problems_are_cut_with_their_number(tmp_path: Path) -> None:
    experiment = made_experiment(FORTY)
    folder = write_run(tmp_path / "r", experiment, [{"event": "odd"}] * 50)
    text = render(compare_run(folder))
    assert text.count("warning:") == 12 and "and 38 more" in text
