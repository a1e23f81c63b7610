"""A folder of attempts, in every usual layout and with everything that goes wrong in one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from swe_memory.errors import TrajectoryError, UsageError
from swe_memory.records import to_json
from swe_memory.sources import AttemptFile, Scan, issue_from_row, read_attempt, read_issues, repo_of, scan, verdict_of_report

ID, OTHER = "acme__web-7", "acme__web-8"
DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
CANARY = "tests/test_canary.py::test_hidden_canary"


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def attempt(key: str = ID, *, patch: str | None = DIFF, said: str = "look", title: str = "It breaks") -> dict[str, Any]:
    info = {
        "exit_status": "Submitted",
        "model_stats": {"api_calls": 1, "instance_cost": 0.1},
        **({} if patch is None else {"submission": patch}),
    }
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": f"<pr_description>\n{title}\n</pr_description>"},
        {"role": "assistant", "content": f"THOUGHT: {said}\n\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"},
    ]
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1", "instance_id": key}


def report(resolved: bool, **flags: Any) -> dict[str, Any]:
    status = {"FAIL_TO_PASS": {"success": [CANARY], "failure": []}, "PASS_TO_PASS": {"success": [], "failure": []}}
    return {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": resolved,
        "tests_status": status,
        **flags,
    }


def prediction(key: str = ID, patch: str | None = DIFF) -> dict[str, Any]:
    return {"instance_id": key, "model_name_or_path": "m", "model_patch": patch}


def outcome(file: AttemptFile) -> str:
    return file.verdict.outcome if file.verdict else "none"


def whats(found: Scan) -> str:
    return "\n".join(problem.what for problem in found.problems)


# --- layouts ---


def mini_layout(root: Path) -> None:
    write(root / "trajs" / ID / f"{ID}.traj.json", attempt())
    write(root / "preds.json", {ID: prediction()})
    write(root / "logs" / ID / "report.json", report(True))


def mini_own_layout(root: Path) -> None:
    write(root / ID / f"{ID}.traj.json", attempt())
    write(root / "preds.json", {ID: prediction()})
    write(root / "model.run1.json", {"resolved_ids": [ID], "unresolved_ids": [], "error_ids": []})


def swe_agent_layout(root: Path) -> None:
    data = {
        "trajectory": [{"action": "ls", "observation": "", "response": "look", "thought": "look"}],
        "history": [{"role": "user", "content": "Here's the issue text:\nISSUE:\nIt breaks\n\nINSTRUCTIONS:\nx"}],
        "info": {"exit_status": "submitted", "submission": DIFF},
    }
    write(root / ID / f"{ID}.traj", data)
    write(root / ID / f"{ID}.pred", prediction())
    write(root / "logs" / "run_evaluation" / "r" / "m" / ID / "report.json", {ID: report(True, infra_failure=False)})


def flat_layout(root: Path) -> None:
    write(root / f"{ID}.json", attempt())
    write(root / "all_preds.jsonl", "\n".join(json.dumps(prediction(key)) for key in (ID, OTHER)))
    write(root / f"{ID}.report.json", report(True))


def old_results_layout(root: Path) -> None:
    write(root / "trajs" / f"{ID}.traj.json", attempt())
    write(root / "preds.jsonl", json.dumps(prediction()) + "\n")
    write(root / "results" / "results.json", {"no_generation": [], "no_logs": [], "resolved": [ID]})


def generic_names_layout(root: Path) -> None:
    write(root / ID / "trajectory.json", {k: v for k, v in attempt().items() if k != "instance_id"})
    write(root / ID / "pred.json", prediction())
    write(root / ID / "report.json", report(True))


@pytest.mark.parametrize(
    "layout",
    [mini_layout, mini_own_layout, swe_agent_layout, flat_layout, old_results_layout, generic_names_layout],
    ids=lambda f: f.__name__,
)
def test_each_layout_gives_trajectory_patch_verdict_and_issue(layout: Any, tmp_path: Path) -> None:
    layout(tmp_path)
    found = scan(tmp_path)
    (file,) = found.attempts
    assert (file.instance_id, file.patch, file.patch_source, outcome(file), file.missing) == (ID, DIFF, "predictions", "resolved", ())
    assert found.problems == ()
    read = read_attempt(file)
    assert (read.issue.id, read.issue.repo, read.issue.text) == (ID, "acme/web", "It breaks")
    assert read.verdict.source == "tests" and read.trajectory.patch == DIFF and read.trajectory.calls == 1
    assert read.source.startswith(f"{tmp_path.name}/") and str(tmp_path.parent) not in read.source


def test_runs_side_by_side_use_their_own_predictions_and_reports(tmp_path: Path) -> None:
    for name, resolved, patch in (("one", True, DIFF), ("two", False, DIFF.replace("= 2", "= 3"))):
        write(tmp_path / name / ID / f"{ID}.traj.json", attempt(patch=patch, said=name))
        write(tmp_path / name / "preds.json", {ID: prediction(patch=patch)})
        write(tmp_path / name / "logs" / ID / "report.json", report(resolved))
    found = scan(tmp_path)
    assert [(outcome(f), f.patch and f.patch[-6:]) for f in found.attempts] == [("resolved", "x = 2\n"), ("unresolved", "x = 3\n")]
    assert found.problems == () and f"2 different attempts of {ID}" in found.notes


# --- verdicts ---


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (report(True), "resolved"),
        (report(False), "unresolved"),
        (report(False, infra_failure=True), "unknown"),
        (report(True, infra_failure=True), "unknown"),
        ({"patch_is_None": True, "patch_exists": False, "resolved": False}, "unresolved"),
        ({"patch_exists": True, "patch_successfully_applied": False, "resolved": False}, "unresolved"),
        ({"patch_exists": True, "patch_successfully_applied": True}, "unknown"),
        ({**report(True), "resolved": "yes"}, "unknown"),
    ],
)
def test_a_report_gives_the_verdict_it_deserves(data: dict[str, Any], expected: str) -> None:
    verdict = verdict_of_report(data)
    assert verdict.outcome == expected and verdict.source == "tests"
    assert expected == "resolved" or verdict.reason or data.get("resolved") is False


@pytest.mark.parametrize(
    ("name", "expected"),
    [("resolved_ids", "resolved"), ("unresolved_ids", "unresolved"), ("empty_patch_ids", "unresolved"), ("error_ids", "unknown")],
)
def test_run_reports_give_verdicts_by_their_lists(name: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path / f"{ID}.traj.json", attempt())
    write(tmp_path / "m.run.json", {"resolved_ids": [], "unresolved_ids": [], "error_ids": [], "submitted_ids": [ID], name: [ID]})
    (file,) = scan(tmp_path).attempts
    assert outcome(file) == expected
    assert read_attempt(file).verdict.outcome == expected


def test_reports_that_disagree_leave_the_verdict_unknown_and_are_named(tmp_path: Path) -> None:
    write(tmp_path / f"{ID}.traj.json", attempt())
    for run, resolved in (("r1", True), ("r2", False)):
        write(tmp_path / "logs" / run / ID / "report.json", {ID: report(resolved)})
    found = scan(tmp_path)
    assert outcome(found.attempts[0]) == "unknown" and "reports disagree" in whats(found)


def test_a_run_report_that_contradicts_the_issues_own_report_is_named(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "m.run.json", {"resolved_ids": [], "unresolved_ids": [ID], "error_ids": []})
    found = scan(tmp_path)
    assert outcome(found.attempts[0]) == "resolved" and "the latter counts" in whats(found)


# --- what is missing or wrong ---


def test_what_is_missing_is_said_for_each_attempt(tmp_path: Path) -> None:
    write(tmp_path / "some.traj.json", {**attempt("web-1", patch=None, title="")})
    write(tmp_path / f"{ID}.traj.json", attempt())
    files = {file.instance_id: file for file in scan(tmp_path).attempts}
    assert files[ID].missing == ("report",) and files[ID].patch_source == "trajectory"
    assert files["web-1"].missing == ("patch", "report", "repo")
    assert read_attempt(files["web-1"]).trajectory.patch is None
    assert read_attempt(files[ID]).verdict.outcome == "unknown" and "no report" in read_attempt(files[ID]).verdict.reason


def test_a_task_without_text_is_a_missing_issue_text(tmp_path: Path) -> None:
    data = attempt()
    data["messages"][1]["content"] = " "
    write(tmp_path / f"{ID}.traj.json", data)
    assert "issue text" in scan(tmp_path).attempts[0].missing


def test_a_report_of_another_issue_is_not_used(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "logs" / ID / "report.json", {OTHER: report(True)})
    found = scan(tmp_path)
    assert found.attempts[0].verdict is None and f"a report of {OTHER} in the folder of {ID}" in whats(found)


def test_a_report_without_a_name_is_not_guessed(tmp_path: Path) -> None:
    for key in (ID, OTHER):
        write(tmp_path / f"{key}.traj.json", attempt(key))
    write(tmp_path / "report.json", report(True))
    found = scan(tmp_path)
    assert [file.verdict for file in found.attempts] == [None, None] and "does not say of which issue" in whats(found)


def test_the_same_attempt_twice_is_read_once(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "copy" / f"{ID}.traj.json", attempt())
    found = scan(tmp_path)
    assert len(found.attempts) == 1 and "the same attempt as" in whats(found)


def test_of_two_attempts_only_the_graded_one_gets_the_verdict(tmp_path: Path) -> None:
    write(tmp_path / "a" / f"{ID}.traj.json", attempt(patch=DIFF.replace("= 2", "= 9"), said="other"))
    write(tmp_path / "b" / f"{ID}.traj.json", attempt())
    write(tmp_path / "preds.json", {ID: prediction()})
    write(tmp_path / "logs" / ID / "report.json", report(True))
    found = scan(tmp_path)
    assert [(f.trajectory.parent.name, outcome(f)) for f in found.attempts] == [("a", "none"), ("b", "resolved")]
    assert "another attempt of this issue was graded" in whats(found)


def test_two_different_attempts_and_one_report_without_predictions_get_no_verdict(tmp_path: Path) -> None:
    write(tmp_path / "a" / f"{ID}.traj.json", attempt(patch=DIFF.replace("= 2", "= 9"), said="other"))
    write(tmp_path / "b" / f"{ID}.traj.json", attempt())
    write(tmp_path / "logs" / ID / "report.json", report(True))
    found = scan(tmp_path)
    assert [outcome(f) for f in found.attempts] == ["none", "none"] and "nothing to tell which was graded" in whats(found)


def test_a_prediction_other_than_the_trajectorys_patch_counts_and_is_named(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "preds.json", {ID: prediction(patch=DIFF.replace("= 2", "= 4"))})
    found = scan(tmp_path)
    assert found.attempts[0].patch == DIFF.replace("= 2", "= 4") and "differs from the one in preds.json" in whats(found)


def test_line_ends_and_blanks_do_not_make_patches_differ(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "preds.json", {ID: prediction(patch="\n" + DIFF.replace("\n", "\r\n") + "\n\n")})
    assert scan(tmp_path).problems == ()


def test_predictions_and_reports_without_trajectory_are_noted(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "preds.json", {ID: prediction(), OTHER: prediction(OTHER)})
    write(tmp_path / "logs" / OTHER / "report.json", report(False))
    notes = "\n".join(scan(tmp_path).notes)
    assert f"predictions without a trajectory: 1 ({OTHER})" in notes and f"reports without a trajectory: 1 ({OTHER})" in notes


def test_a_null_prediction_is_an_empty_patch(tmp_path: Path) -> None:
    write(tmp_path / f"{ID}.traj.json", attempt(patch=None))
    write(tmp_path / "preds.json", {ID: prediction(patch=None)})
    assert scan(tmp_path).attempts[0].patch == ""


def test_unreadable_trajectories_are_problems_and_the_rest_is_read(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "trajs" / OTHER / f"{OTHER}.traj.json", json.dumps(attempt(OTHER))[:200])
    write(tmp_path / "trajs" / "e" / "e.traj.json", "")
    write(tmp_path / "preds2.json", "{oops")
    found = scan(tmp_path)
    assert [file.instance_id for file in found.attempts] == [ID]
    problems = {problem.path: problem for problem in found.problems}
    assert "cut off" in problems[f"trajs/{OTHER}/{OTHER}.traj.json"].what and problems[f"trajs/{OTHER}/{OTHER}.traj.json"].hint
    assert "empty" in problems["trajs/e/e.traj.json"].what and "not JSON" in problems["preds2.json"].what
    assert not any(str(tmp_path) in problem.what for problem in found.problems)


def test_a_file_named_after_another_issue_is_named(tmp_path: Path) -> None:
    write(tmp_path / f"{OTHER}.traj.json", attempt(ID))
    found = scan(tmp_path)
    assert found.attempts[0].instance_id == ID and f"the file's name says {OTHER}" in whats(found)


def test_empty_missing_and_wrong_folders_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        scan(tmp_path / "none")
    file = write(tmp_path / "x" / "a.txt", "a")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        scan(file)
    with pytest.raises(UsageError, match=r"no trajectory in .* \(1 files looked at\)") as caught:
        scan(file.parent)
    assert "traj.json" in caught.value.hint
    write(tmp_path / "y" / "preds.json", {ID: prediction()})
    with pytest.raises(UsageError, match="only predictions"):
        scan(tmp_path / "y")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no trajectory"):
        scan(tmp_path / "empty")


def test_links_that_lead_back_up_end_the_walk(tmp_path: Path) -> None:
    mini_layout(tmp_path / "run")
    (tmp_path / "run" / "loop").symlink_to(tmp_path)
    (tmp_path / "run" / "self").symlink_to("self")
    (tmp_path / "run" / "dangling.traj.json").symlink_to(tmp_path / "nowhere.traj.json")
    found = scan(tmp_path)
    assert len(found.attempts) == 1 and outcome(found.attempts[0]) == "resolved"


def test_a_trajectory_that_goes_away_between_scan_and_read_is_an_error_in_words(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    (file,) = scan(tmp_path).attempts
    file.trajectory.unlink()
    with pytest.raises(TrajectoryError, match="does not exist"):
        read_attempt(file)


# --- issues ---

ROW = {
    "instance_id": ID,
    "repo": "acme/web",
    "base_commit": "abc",
    "problem_statement": "It breaks\n\nwhen empty",
    "created_at": "2019-03-15T15:02:07Z",
    "patch": CANARY,
    "test_patch": CANARY,
    "FAIL_TO_PASS": [CANARY],
    "PASS_TO_PASS": CANARY,
    "hints_text": CANARY,
    "eval_script": CANARY,
}


def test_only_the_public_columns_of_a_row_leave() -> None:
    issue = issue_from_row(ROW)
    assert (issue.id, issue.repo, issue.base_commit, issue.title) == (ID, "acme/web", "abc", "It breaks")
    assert issue.created_at == datetime(2019, 3, 15, 15, 2, 7, tzinfo=UTC)
    assert "canary" not in repr(issue)


def test_no_grading_data_reaches_an_attempt(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    issues = write(tmp_path / "issues" / "rows.jsonl", json.dumps(ROW))
    found = scan(tmp_path, issues=issues)
    assert "canary" not in repr(found)
    assert "canary" not in to_json(read_attempt(found.attempts[0]))


def test_an_issues_file_gives_the_text_and_its_ids_are_checked(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    write(tmp_path / "trajs" / OTHER / f"{OTHER}.traj.json", attempt(OTHER))
    issues = write(tmp_path / "rows.json", [ROW, {**ROW, "instance_id": "acme__web-9"}])
    found = scan(tmp_path, issues=issues)
    assert read_attempt(found.attempts[0]).issue.text == "It breaks\n\nwhen empty"
    assert f"{OTHER} is not in the issues file" in whats(found) and read_attempt(found.attempts[1]).issue.text == "It breaks"
    assert "issues in rows.json without an attempt here: 1" in found.notes


def test_a_task_about_something_else_than_the_issue_is_named(tmp_path: Path) -> None:
    mini_layout(tmp_path)
    found = scan(tmp_path, issues=write(tmp_path / "rows.jsonl", json.dumps({**ROW, "problem_statement": "Another title"})))
    assert "is not the issue" in whats(found)


@pytest.mark.parametrize("content", ["[%s]", '{"x": %s}', "%s"])
def test_issue_files_of_each_shape_are_read(content: str, tmp_path: Path) -> None:
    (issue,) = read_issues(write(tmp_path / "rows.json", content % json.dumps(ROW)))
    assert issue.text.startswith("It breaks")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("[]", "holds no issue"),
        ('[{"problem_statement": "x"}]', "row 1: a row has no instance_id"),
        ('[{"instance_id": "a__b-1"}]', "no problem_statement"),
        ("[1]", "row 1 is not an object"),
        ('[{"instance_id": "a", "text": "x"}, {"instance_id": "a", "text": "y"}]', "second, different issue a"),
        *(
            (json.dumps([{"instance_id": "a", "text": "x", "created_at": time}]), "created_at of a is not a time")
            for time in (
                *("soon", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2019-02-30", "2019-03-15T25:00:00Z", True, [], {}),
                *(10**30, -(10**30), 1e308, float("nan"), float("inf"), 253402300800000),
            )
        ),
        ("{", "cut off"),
    ],
)
def test_bad_issue_files_are_wrong_use_with_the_place(content: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=expected):
        read_issues(write(tmp_path / "rows.json", content))


def test_a_bad_line_of_jsonl_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 3 is not JSON"):
        read_issues(write(tmp_path / "rows.jsonl", json.dumps(ROW) + "\n\n{oops}\n"))


def test_an_empty_issue_and_one_of_1_mb_are_read(tmp_path: Path) -> None:
    rows = [{"instance_id": "a__b-1", "problem_statement": ""}, {"instance_id": "a__b-2", "problem_statement": "word " * 200_000}]
    empty, long = read_issues(write(tmp_path / "rows.json", rows))
    assert empty.text == "" and empty.title == "" and len(long.text) == 1_000_000


@pytest.mark.parametrize(
    ("key", "repo"),
    [
        ("django__django-11099", "django/django"),
        ("scikit-learn__scikit-learn-10297", "scikit-learn/scikit-learn"),
        ("oauthlib__oauthlib.1fd52536.func_pm__x", "oauthlib/oauthlib"),
        ("web-417", ""),
        ("", ""),
    ],
)
def test_the_repository_is_read_from_the_id(key: str, repo: str) -> None:
    assert repo_of(key) == repo


def test_the_real_run_is_found_completely(shared: Path) -> None:
    found = scan(shared / "runs" / "mini-1.15-gemini-3-pro", issues=shared / "verified" / "issues-dev.jsonl")
    assert len(found.attempts) == 150 and found.problems == ()
    outcomes = [outcome(file) for file in found.attempts]
    assert (outcomes.count("resolved"), outcomes.count("unresolved")) == (105, 45)
    assert all(file.missing == () and file.patch_source == "predictions" for file in found.attempts)
    assert all(read_attempt(file).issue.base_commit for file in found.attempts[:10])
