"""Two folders side by side: runs, arms and streams of runs, and what others have published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import compare
from harness.compare import compare_two
from harness.compare_text import render
from harness.layout import Key
from harness.metering import Limits
from harness.plan import Experiment
from harness.trajectory_file import trajectory_document, trajectory_path
from swe_memory.errors import UsageError
from swe_memory.records import Step, Trajectory
from tests.compared import all_of, frozen, write_run
from tests.dataset_rows import row, written
from tests.experiments import made_experiment, made_issues

IDS = [f"acme__{repo}-{number}" for repo in ("left", "right") for number in range(10)]
PATCH = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def report(resolved: bool) -> dict[str, Any]:
    return {"patch_is_None": False, "patch_exists": True, "patch_successfully_applied": True, "resolved": resolved}


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def with_reports(folder: Path, resolved: Iterable[str], issues: Sequence[str] = IDS) -> Path:
    """As the leaderboard keeps them: logs/ID/report.json."""
    won = set(resolved)
    for issue in issues:
        write_json(folder / "logs" / issue / "report.json", {issue: report(issue in won)})
    return folder


def with_predictions(folder: Path, patches: Mapping[str, str]) -> Path:
    write_json(
        folder / "preds.json", {i: {"instance_id": i, "model_name_or_path": "m", "model_patch": patch} for i, patch in patches.items()}
    )
    return folder


def with_trajectories(folder: Path, calls: Mapping[str, int], cost: float = 0.0) -> Path:
    for issue, number in calls.items():
        path = trajectory_path(folder, issue)
        path.parent.mkdir(parents=True, exist_ok=True)
        trajectory = Trajectory((Step("t"),) * number, "Submitted", PATCH, issue, "task", model="some-2024-05-01", cost=cost)
        path.write_text(trajectory_document(trajectory, "", {}, Limits()), encoding="utf-8")
    return folder


# -- folders of others -----------------------------------------------------------------------------------------------------------------------


def test_two_submissions_are_compared_on_what_both_have_and_named_where_they_differ(tmp_path: Path) -> None:
    one = with_reports(tmp_path / "one", IDS[:8], IDS[:18])
    two = with_reports(tmp_path / "two", [*IDS[2:8], *IDS[12:15]], IDS[1:])
    found = compare_two(one, two)
    (pair,) = found["comparisons"]
    assert (pair["arm"], pair["baseline"], pair["issues"]) == ("two", "one", 17)
    assert (pair["both"], pair["only_arm"], pair["only_baseline"]) == (6, 3, 1)
    assert pair["difference"] == pytest.approx(2 / 17) and pair["estimates"][0]["name"] == "between the runs"
    assert {(flip["issue"], flip["direction"]) for flip in pair["flips"]["list"]} == {
        (IDS[1], "against"),
        *((i, "for") for i in IDS[12:15]),
    }
    text = " ".join(render(found).split())
    assert "one has 1 more and two 2 more" in text and f"Resolved more often by `one` (1): {IDS[1]}." in text
    assert [part["repository"] for part in pair["sensitivity"]["left_out"]] == ["acme/left", "acme/right"]
    assert found["kind"] == "folders" and not found["headline"]["earned"] and "Not shown to differ" in found["headline"]["sentence"]
    assert any(threat["id"] == "settings not known" for threat in found["threats"])


SHAPES = {
    "one report an issue, without its id": lambda folder, won: [
        write_json(folder / "logs" / issue / "report.json", report(issue in won)) for issue in IDS
    ],
    "reports together": lambda folder, won: write_json(folder / "reports.json", {issue: report(issue in won) for issue in IDS}),
    "the report of a run": lambda folder, won: write_json(
        folder / "model.run.json", {"resolved_ids": sorted(won), "unresolved_ids": sorted(set(IDS) - won), "total_instances": 20}
    ),
    "the leaderboard's results beside predictions": lambda folder, won: (
        write_json(folder / "results" / "results.json", {"resolved": sorted(won), "no_generation": [], "no_logs": []}),
        with_predictions(folder, dict.fromkeys(IDS, PATCH)),
    ),
    "predictions by line": lambda folder, won: (
        write_json(folder / "results.json", {"resolved_ids": sorted(won)}),
        (folder / "all_preds.jsonl").write_text(
            "".join(json.dumps({"instance_id": i, "model_name_or_path": "m", "model_patch": PATCH}) + "\n" for i in IDS), encoding="utf-8"
        ),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_official_reports_are_read_in_every_shape(tmp_path: Path, shape: str) -> None:
    won = set(IDS[:7])
    SHAPES[shape](tmp_path / "two", won)
    found = compare_two(with_reports(tmp_path / "one", IDS[:9]), tmp_path / "two")
    (pair,) = found["comparisons"]
    assert (pair["issues"], pair["both"], pair["only_baseline"]) == (20, 7, 2) and found["problems"] == []


def test_a_list_of_what_was_resolved_and_nothing_else_needs_a_dataset_that_tells_what_was_tried(tmp_path: Path) -> None:
    write_json(tmp_path / "two" / "results.json", {"resolved_ids": IDS[:7]})
    one = with_reports(tmp_path / "one", IDS[:9])
    with pytest.raises(UsageError, match="lists only issues that were resolved"):
        compare_two(one, tmp_path / "two")
    texts = {issue: "x.py fails" if issue == IDS[0] else "it fails" for issue in IDS}
    rows = [
        row(instance_id=issue, repo="acme/left", problem_statement=text, patch=PATCH, log_parser="parse_log_pytest")
        for issue, text in texts.items()
    ]
    dataset = written(tmp_path, *rows)
    found = compare_two(one, tmp_path / "two", dataset=str(dataset))
    assert found["comparisons"][0]["issues"] == 20 and found["comparisons"][0]["only_baseline"] == 2
    said = next(threat for threat in found["threats"] if threat["id"] == "issues that name the file")
    assert said["about"] == [IDS[0]] and "CANARY" not in json.dumps(found)


def test_what_was_not_graded_is_missing_and_what_was_not_submitted_is_unresolved(tmp_path: Path) -> None:
    one = with_reports(tmp_path / "one", IDS[:10])
    two = with_reports(tmp_path / "two", IDS[:10], IDS[:16])
    with_predictions(two, {**dict.fromkeys(IDS[:18], PATCH), IDS[18]: "", IDS[19]: "  "})
    write_json(two / "logs" / IDS[16] / "report.json", {IDS[16]: {**report(False), "infra_failure": True}})
    found = compare_two(one, two)
    (pair,) = found["comparisons"]
    assert (
        pair["issues"] == 18 and pair["bounds"]["missing"] == {"arm": 2, "baseline": 0} and pair["bounds"]["high"] == pytest.approx(2 / 20)
    )
    assert any(threat["id"] == "infra failures" for threat in found["threats"])


def test_reports_that_disagree_are_named_and_count_nowhere(tmp_path: Path) -> None:
    one = with_reports(tmp_path / "one", IDS[:9])
    two = with_reports(tmp_path / "two", IDS[:9])
    write_json(two / "again" / IDS[0] / "report.json", {IDS[0]: report(False)})
    write_json(two / "run.json", {"resolved_ids": [IDS[12]], "unresolved_ids": IDS[1:3]})
    found = compare_two(one, two)
    assert found["comparisons"][0]["issues"] == 19
    assert any(f"reports of {IDS[0]} disagree" in problem for problem in found["problems"])
    assert sum("that of the whole run disagree" in problem for problem in found["problems"]) == 3
    assert "damaged files" in {threat["id"] for threat in found["threats"]}


def test_steps_and_costs_come_from_trajectories_where_there_are_any(tmp_path: Path) -> None:
    one = with_trajectories(with_reports(tmp_path / "one", IDS[:9]), dict.fromkeys(IDS, 4), cost=0.5)
    two = with_trajectories(with_reports(tmp_path / "two", IDS[:9]), {issue: 4 + number % 3 for number, issue in enumerate(IDS)}, cost=0.25)
    (pair,) = compare_two(one, two)["comparisons"]
    assert pair["steps"]["calls"]["baseline"] == 4 and pair["steps"]["calls"]["difference"]["value"] == pytest.approx(0.95)
    assert pair["steps"]["cost"]["difference"]["value"] == pytest.approx(-0.25) and pair["steps"]["calls"]["limit"] is None
    assert pair["flips"]["list"] == []
    (two / "trajs" / IDS[0] / f"{IDS[0]}.traj.json").write_text("{", encoding="utf-8")
    found = compare_two(with_reports(tmp_path / "three", IDS[:9]), two)
    assert found["comparisons"][0]["steps"]["calls"]["arm"] is None and found["arms"][1]["calls_unknown"] == 1 and found["problems"]
    assert "not known" in found["comparisons"][0]["steps"]["calls"]["sentence"]


def test_the_same_patch_graded_differently_by_two_is_said(tmp_path: Path) -> None:
    one = with_predictions(with_reports(tmp_path / "one", IDS[:9]), dict.fromkeys(IDS, PATCH))
    two = with_predictions(with_reports(tmp_path / "two", IDS[:8]), dict.fromkeys(IDS, PATCH))
    said = next(threat for threat in compare_two(one, two)["threats"] if threat["id"] == "grading is not stable")
    assert said["about"] == [IDS[8]] and said["weight"] == "serious"


WRONG = {
    "nothing there": (lambda folder: folder / "absent", "there is no folder"),
    "a file": (lambda folder: write_json(folder / "x.json", {}), "is a file"),
    "empty": (lambda folder: folder, "no official report"),
    "predictions alone": (lambda folder: with_predictions(folder, {IDS[0]: PATCH}), "only predictions"),
    "trajectories alone": (lambda folder: with_trajectories(folder, {IDS[0]: 2}), "only trajectories"),
}


@pytest.mark.parametrize("case", WRONG)
def test_folders_that_hold_nothing_to_compare_are_refused_in_words(tmp_path: Path, case: str) -> None:
    make, words = WRONG[case]
    (tmp_path / "w").mkdir()
    place = make(tmp_path / "w")
    for pair in ((with_reports(tmp_path / "one", []), place), (place, tmp_path / "one")):
        result = CliRunner().invoke(compare, [*map(str, pair)])
        assert isinstance(result.exception, UsageError) and words in result.exception.what, result.exception


def test_folders_without_an_issue_in_common_are_told_so_with_exit_code_0(tmp_path: Path) -> None:
    one, two = with_reports(tmp_path / "one", IDS[:2], IDS[:5]), with_reports(tmp_path / "two", IDS[5:6], IDS[5:9])
    shown = CliRunner().invoke(compare, [str(one), str(two)])
    assert shown.exit_code == 0 and "Nothing to compare: No issue was graded in both" in " ".join(shown.output.split())
    told = json.loads(CliRunner().invoke(compare, [str(one), str(two), "--json"]).output)
    assert told["comparisons"][0]["difference"] is None and "nan" not in json.dumps(told).lower().replace('"nan', "")


# -- runs ------------------------------------------------------------------------------------------------------------------------------------

ISSUES = made_issues(10, 10)
NAMES = [issue.id for issue in ISSUES]


def a_run(folder: Path, experiment: Experiment, won: Mapping[str, int]) -> Path:
    def resolved(key: Key) -> bool:
        return NAMES.index(key[2]) < won[key[0]]

    return write_run(folder, experiment, all_of(experiment, resolved) + (frozen(experiment) if experiment.protocol == "crossfit" else []))


def test_two_runs_are_compared_arm_by_arm_of_the_same_name(tmp_path: Path) -> None:
    one = a_run(tmp_path / "one", made_experiment(ISSUES), {"none": 5, "reasoningbank": 7})
    two = a_run(tmp_path / "two", made_experiment(ISSUES, seed=3), {"none": 6, "reasoningbank": 11})
    found = compare_two(one, two)
    pairs = [(pair["arm"], pair["baseline"], pair["difference"]) for pair in found["comparisons"]]
    assert pairs == [("two/none", "one/none", pytest.approx(1 / 20)), ("two/reasoningbank", "one/reasoningbank", pytest.approx(4 / 20))]
    assert found["differences"] == [] and all(pair["p_adjusted"] is not None for pair in found["comparisons"])
    flip = found["comparisons"][0]["flips"]["list"][0]
    assert flip["arm"]["trajectory"] == f"two/none/1-1/trajs/{NAMES[5]}/{NAMES[5]}.traj.json"
    assert found["claims"] == [] and "nothing is claimed" in " ".join(found["sentences"])


def test_an_arm_or_a_stream_is_named_by_its_folder(tmp_path: Path) -> None:
    experiment = made_experiment(ISSUES, reruns=2)
    one = a_run(tmp_path / "one", experiment, {"none": 5, "reasoningbank": 7})
    two = a_run(tmp_path / "two", experiment, {"none": 6, "reasoningbank": 11})
    (one / "none" / "1-2").mkdir(parents=True)
    (two / "reasoningbank").mkdir()
    found = compare_two(one / "none", two / "reasoningbank")
    (pair,) = found["comparisons"]
    assert (pair["arm"], pair["baseline"]) == ("reasoningbank", "none") and pair["difference"] == pytest.approx(6 / 20)
    assert found["arms"][0]["graded"] == 40 and pair["discordant"]["expected"]
    (pair,) = compare_two(one / "none" / "1-2", two / "reasoningbank")["comparisons"]
    assert pair["baseline"] == "1-2" and pair["issues"] == 20
    single = compare_two(one / "none" / "1-2", two)["comparisons"]
    assert [entry["arm"] for entry in single] == ["two/none"]
    with pytest.raises(UsageError, match="no arm or stream"):
        compare_two(one / "logs", two)


def test_runs_that_were_not_made_alike_are_refused_unless_that_is_what_is_asked_for(tmp_path: Path) -> None:
    plain = made_experiment(ISSUES, versions={"swebench": "5.0"}, prompts={"judge": 1})
    one = a_run(tmp_path / "one", plain, {"none": 5, "reasoningbank": 7})
    other = replace(plain, call_limit=30, versions={"swebench": "5.1"}, verdict="tests", prompts={"judge": 2})
    two = a_run(tmp_path / "two", other, {"none": 6, "reasoningbank": 11})
    with pytest.raises(UsageError) as refused:
        compare_two(one, two)
    for words in (
        "call_limit: 60 in one, 30 in two",
        "versions of swebench: 5.0 in one, 5.1 in two",
        "verdict: rules in one, tests in two",
        "prompts of judge",
    ):
        assert words in refused.value.what
    assert "--allow-differences" in refused.value.hint
    found = compare_two(one, two, allow_differences=True)
    assert len(found["differences"]) == 4 and found["threats"][0]["id"] == "differences" and found["call_limit"] == 30
    # Of the baseline, which has no memory, only what concerns any attempt counts.
    (one / "none").mkdir()
    with pytest.raises(UsageError) as baseline:
        compare_two(one / "none", two)
    assert "call_limit" in baseline.value.what and "verdict" not in baseline.value.what


def test_a_run_and_a_submission_are_compared(tmp_path: Path) -> None:
    experiment = made_experiment(ISSUES, "none")
    one = a_run(tmp_path / "one", experiment, {"none": 5})
    theirs = with_reports(tmp_path / "theirs", NAMES[:9], NAMES[:15])
    found = compare_two(one, theirs)
    (pair,) = found["comparisons"]
    assert (pair["arm"], pair["baseline"], pair["issues"], pair["only_arm"]) == ("theirs", "one/none", 15, 4)
    assert [source["kind"] for source in found["sources"]] == ["run", "submission"]
    assert any("theirs are not known" in threat["sentence"] for threat in found["threats"])


def test_the_same_folder_twice_is_refused(tmp_path: Path) -> None:
    one = with_reports(tmp_path / "one", IDS[:3])
    with pytest.raises(UsageError, match="the same folder"):
        compare_two(one, tmp_path / "x" / ".." / "one")


def test_runs_without_an_arm_in_common_are_refused_with_what_to_name(tmp_path: Path) -> None:
    one = a_run(tmp_path / "one", made_experiment(ISSUES), {"none": 5, "reasoningbank": 7})
    arms = ("reasoningbank:k=2", "reasoningbank:k=3")
    two = write_run(tmp_path / "two", made_experiment(ISSUES, *arms, protocol="online"), [])
    with pytest.raises(UsageError, match="have no arm in common") as refused:
        compare_two(one, two)
    assert "two/reasoningbank_k=2" in refused.value.hint


# -- real attempts ---------------------------------------------------------------------------------------------------------------------------

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "runs" / "mini-1.15-gemini-3-pro"


@pytest.mark.skipif(not REAL.is_dir(), reason="the real attempts are not here")
def test_real_attempts_in_the_leaderboards_format_against_a_simulated_second_set(tmp_path: Path) -> None:
    # 30 of 150 real attempts; the second set is the same with every fifth report turned round: simulated, to see that it is found.
    issues = sorted(path.parent.name for path in (REAL / "logs").glob("*/report.json"))[::5]
    wanted = []
    for name in ("real", "simulated"):
        for issue in issues:
            for part in ("logs", "trajs"):
                shutil.copytree(REAL / part / issue, tmp_path / name / part / issue)
    for issue in issues[::5]:
        path = tmp_path / "simulated" / "logs" / issue / "report.json"
        value = json.loads(path.read_text(encoding="utf-8"))
        (value if "resolved" in value else value[issue])["resolved"] ^= True
        path.write_text(json.dumps(value), encoding="utf-8")
        wanted.append(issue)
    found = compare_two(tmp_path / "real", tmp_path / "simulated")
    (pair,) = found["comparisons"]
    assert pair["issues"] == 30 and sorted(flip["issue"] for flip in pair["flips"]["list"]) == sorted(wanted)
    assert pair["steps"]["calls"]["difference"]["value"] == 0 and found["arms"][0]["measures"]["cost"]["mean"] > 0
    stable = next(threat for threat in found["threats"] if threat["id"] == "grading is not stable")
    assert sorted(stable["about"]) == sorted(wanted) and found["problems"] == []
