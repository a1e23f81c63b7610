"""Whether an agent took up what it was given: read from stored trajectories, beside what happens by chance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.reading import BYTES, attempt_path, told
from harness.compare import compare_run
from harness.compare_text import render
from harness.layout import Key, lay_out
from harness.metering import Limits
from harness.plan import Experiment
from harness.trajectory_file import trajectory_document, trajectory_path
from swe_memory.records import Action, MemoryItem, Provenance, Step, Trajectory
from swe_memory.render import frame
from swe_memory.render import render as block
from tests.compared import ITEM, all_of, frozen, write_run
from tests.experiments import made_experiment, made_issues

ISSUES = made_issues(6, 6)
IDS = [issue.id for issue in ISSUES]
LESSON = MemoryItem(
    "m1",
    "Flush the zebrafish cache",
    "The quokkameter keeps stale values.",
    "Call flush_zebrafish before the quokkameter is read.",
    "strategy",
    "success",
    "repository",
    "owner/repo0",
    Provenance("a", IDS[0], "s", "rules", "resolved", "rules@1"),
)
PLAIN = "I look at the parser and change the condition."
USES = "The note says that the quokkameter is stale, so flush_zebrafish comes first."


def run_with(
    folder: Path, thoughts: Mapping[Key, str], *, lesson: str = "", task: str = "Fix the parser of {issue}, please.", **settings: Any
) -> Path:
    """A run in which the arm with memory was given the lesson everywhere, and an attempt thought what ``thoughts`` says, or :data:`PLAIN`."""
    experiment = made_experiment(ISSUES, "none", "reasoningbank", "derangement", **settings)
    write_trajectories(folder, experiment, thoughts, lesson or block([LESSON]), task)
    shown = {**ITEM, "characters": 500}
    recalls = {"reasoningbank": shown, "derangement": {**shown, "control": "derangement"}}
    return write_run(folder, experiment, all_of(experiment, recall=lambda key: recalls.get(key[0])) + frozen(experiment))


def write_trajectories(folder: Path, experiment: Experiment, thoughts: Mapping[Key, str], lesson: str, task: str) -> None:
    for cell in lay_out(experiment).cells:
        steps = (Step(thoughts.get(cell.key, PLAIN), (Action("flush_zebrafish; quokkameter", "zebrafish", 0),)),)
        trajectory = Trajectory(steps, "Submitted", "", cell.issue, task.format(issue=cell.issue), agent="a", model="some-model")
        shown = "" if cell.arm.kind == "none" else lesson
        path = trajectory_path(folder / cell.arm.folder / cell.stream, cell.issue)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trajectory_document(trajectory, shown, {}, Limits()), encoding="utf-8")


def attempt(found: Mapping[str, Any], arm: str, issue: str) -> dict[str, Any]:
    return next(entry for entry in found["issues"] if entry["issue"] == issue)["arms"][arm][0]  # type: ignore[no-any-return]


def test_rare_words_of_the_note_in_the_thoughts_are_uptake_and_commands_are_not(tmp_path: Path) -> None:
    found = compare_run(run_with(tmp_path / "r", {("reasoningbank", "1-1", issue): USES for issue in IDS[:3]}))
    uptake = found["uptake"]
    assert (uptake["with_item"], uptake["looked"], uptake["taken_up"]) == (12, 12, 3)
    assert uptake["share"]["value"] == pytest.approx(3 / 12) and uptake["share"]["low"] < 0.25 < uptake["share"]["high"]
    assert uptake["by_chance"]["value"] == 0 and uptake["arms"]["derangement"] == {"with_item": 12, "looked": 12, "taken_up": 0}
    one, other = attempt(found, "reasoningbank", IDS[0]), attempt(found, "reasoningbank", IDS[5])
    assert one["taken_up"] is True and one["words"] == ["flush_zebrafish", "quokkameter", "stale"]
    assert (other["taken_up"], other["words"]) == (False, [])
    (item,) = found["items"]
    assert (item["looked"], item["taken_up"]) == (12, 3)
    assert "Taken up: 3 of 12 attempts with an item" in " ".join(render(found).split())


def test_words_that_the_baseline_uses_by_itself_are_told_beside_it(tmp_path: Path) -> None:
    thoughts = {(arm, "1-1", IDS[0]): USES for arm in ("none", "reasoningbank")}
    uptake = compare_run(run_with(tmp_path / "r", thoughts))["uptake"]
    assert uptake["taken_up"] == 1 and uptake["by_chance"]["value"] == pytest.approx(1 / 12)
    common = {("none", "1-1", issue): USES for issue in IDS} | {("reasoningbank", "1-1", IDS[0]): USES}
    assert compare_run(run_with(tmp_path / "s", common))["uptake"]["taken_up"] == 0  # words that are everywhere are not rare


def test_words_of_the_issue_itself_are_no_uptake(tmp_path: Path) -> None:
    task = "{issue}: the quokkameter is stale and flush_zebrafish does not help with the zebrafish."
    found = compare_run(run_with(tmp_path / "r", {("reasoningbank", "1-1", IDS[0]): USES}, task=task))
    assert found["uptake"]["taken_up"] == 0


@pytest.mark.parametrize(
    ("lesson", "thought", "taken"),
    [(frame(), USES, None), (block([LESSON]), "", None), (block([LESSON]), "stale", False), (block([LESSON]), "STALE Quokkameter", True)],
)
def test_what_cannot_be_told_is_unknown_and_not_no(tmp_path: Path, lesson: str, thought: str, taken: bool | None) -> None:
    found = compare_run(run_with(tmp_path / "r", {("reasoningbank", "1-1", IDS[0]): thought}, lesson=lesson))
    assert attempt(found, "reasoningbank", IDS[0])["taken_up"] is taken


def test_files_that_are_gone_or_damaged_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "r", {("reasoningbank", "1-1", IDS[3]): USES})
    for issue, text in zip(IDS[:3], ("", "{", '{"messages": 3}'), strict=True):
        (folder / f"reasoningbank/1-1/trajs/{issue}/{issue}.traj.json").write_text(text, encoding="utf-8")
    (folder / f"reasoningbank/1-1/trajs/{IDS[4]}/{IDS[4]}.traj.json").unlink()
    uptake = compare_run(folder)["uptake"]
    assert (uptake["looked"], uptake["taken_up"]) == (8, 1) and "4 trajectories are not there or cannot be read" in uptake["why"]


def test_a_run_without_trajectories_is_compared_all_the_same(tmp_path: Path) -> None:
    experiment = made_experiment(ISSUES)
    folder = write_run(tmp_path / "r", experiment, all_of(experiment, recall=lambda key: ITEM if key[0] != "none" else None))
    uptake = compare_run(folder)["uptake"]
    assert (uptake["with_item"], uptake["looked"], uptake["share"]["value"]) == (12, 0, None) and "24 trajectories" in uptake["why"]


def test_no_more_is_read_than_the_budget_allows_and_that_is_said(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "r", {("reasoningbank", "1-1", issue): USES for issue in IDS})
    size = (folder / attempt_path(made_experiment(ISSUES).conditions()[0], ("none", "1-1", IDS[0]))).stat().st_size
    some = compare_run(folder, most_bytes=15 * size)["uptake"]
    assert 0 < some["looked"] < 12 and "--all-trajectories" in some["why"]
    assert compare_run(folder, most_bytes=15 * size)["uptake"] == some
    assert compare_run(folder, most_bytes=None)["uptake"]["looked"] == 12 == compare_run(folder, most_bytes=BYTES)["uptake"]["looked"]


def test_the_note_is_found_wherever_the_agent_put_it_and_without_the_line_on_its_origin() -> None:
    shown = block([LESSON])
    trajectory = Trajectory((Step("t"),), "Submitted", "", "i", f"Solve it.\n{shown}\nGo.")
    found = told(trajectory_document(trajectory, "", {}, Limits()))
    assert (
        {"quokkameter", "zebrafish", "flush_zebrafish"} <= found.notes
        and "estimated" not in found.notes
        and "information" not in found.notes
    )
    assert told(trajectory_document(trajectory, "", {"prepared": {"objects": 7}}, Limits())).hidden == 7


def test_history_that_was_removed_beforehand_is_told(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "r", {})
    path = trajectory_path(folder / "none" / "1-1", IDS[0])
    trajectory = Trajectory((Step("t"),), "Submitted", "", IDS[0], "task")
    path.write_text(trajectory_document(trajectory, "", {"prepared": {"objects": 7}}, Limits()), encoding="utf-8")
    said = next(threat for threat in compare_run(folder)["threats"] if threat["id"] == "removed future commits")
    assert said["weight"] == "note" and "In 1 of 1 attempt" in said["sentence"]


def test_which_model_it_is_is_told_by_a_baseline_alone(tmp_path: Path) -> None:
    experiment = made_experiment(ISSUES, "none", agent="command: x")
    folder = write_run(tmp_path / "r", experiment, all_of(experiment))
    first = lay_out(experiment).cells[0]
    path = trajectory_path(folder / "none" / "1-1", first.issue)
    path.parent.mkdir(parents=True)
    trajectory = Trajectory((Step("t"),), "Submitted", "", first.issue, "task", model="some-2025-05-01")
    path.write_text(trajectory_document(trajectory, "", {}, Limits()), encoding="utf-8")
    found = compare_run(folder)
    assert any(threat["id"] == "model newer than the issues" for threat in found["threats"]) and found["uptake"]["with_item"] == 0
