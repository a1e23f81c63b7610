"""What somebody does to a run folder between two sessions, or an agent does to it meanwhile: it is mended or refused, and never taken for a result."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.agents import Assignment
from harness.cli import run as run_cli
from harness.environments import Environment
from harness.events import read_events
from harness.status import run_status
from swe_memory.errors import SweMemoryError, UsageError
from tests.quick_bench import Bench, Scripted, arms, make_bench, one_grading_process


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with one_grading_process():
        yield make_bench(tmp_path_factory.mktemp("trials"))


ONLINE = ("--protocol", "online", "--arm", "reasoningbank", "--max-calls", 9)
"""Stops when the bank has learned from one attempt at least."""
CROSSFIT = ("--arm", "none", "--arm", "reasoningbank", "--max-calls", 19)
"""Stops in the middle of the arm with memory, so that one bank at least is frozen."""


def begun(bench: Bench, out: Path, *more: object) -> Path:
    """A run that a limit of its own has stopped."""
    result = bench.run(out, "--workers", 1, *more)
    assert result.exit_code == 1, result.output
    return out


def events(out: Path, kind: str = "") -> list[dict[str, Any]]:
    return [event for event in read_events(out / "events.jsonl")[0] if kind in ("", event["event"])]


def rewrite(out: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Leave in the journal only the events that are to be kept."""
    lines = [json.dumps(event, sort_keys=True) + "\n" for event in events(out) if keep(event)]
    (out / "events.jsonl").write_text("".join(lines))


def refused(bench: Bench, out: Path) -> str:
    """What is said where a run does not go on."""
    result = bench.run(out, "--resume")
    assert isinstance(result.exception, SweMemoryError), (result.output, result.exception)
    return str(result.exception)


# -- banks -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [ONLINE, CROSSFIT], ids=["growing", "half frozen"])
@pytest.mark.parametrize("older", [False, True], ids=["removed", "an older copy"])
def test_a_bank_that_lost_what_it_learned_is_not_gone_on_with_as_if_it_were_empty(
    bench: Bench, tmp_path: Path, flags: tuple[object, ...], older: bool
) -> None:
    out = begun(bench, tmp_path / "run", *flags)
    rewrite(out, lambda event: event["event"] != "frozen")
    learned = events(out, "learned")
    assert learned
    for path in out.rglob("bank.lance"):
        shutil.rmtree(path)
        if older:
            path.mkdir()
    told = refused(bench, out)
    assert "learned up to version" in told
    assert "Restore it" in told
    assert not {event["bank"] for event in events(out, "frozen")} & {event["bank"] for event in learned}


# -- predictions -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["{}", "{", "[]", "", None, '{"acme__left-1": {"model_patch": "another"}}'])
def test_predictions_are_brought_back_from_the_trajectories_whatever_became_of_their_file(
    bench: Bench, tmp_path: Path, whole: Path, damage: str | None
) -> None:
    out = begun(bench, tmp_path / "run", *CROSSFIT)
    for path in out.rglob("preds.json"):
        path.unlink()
        if damage is not None:
            path.write_text(damage)
    bench.good(out, "--resume")
    assert not events(out, "failed")
    for path in whole.rglob("preds.json"):
        assert (out / path.relative_to(whole)).read_text() == path.read_text()


def test_predictions_of_one_file_have_one_name(bench: Bench, tmp_path: Path, whole: Path) -> None:
    """Whatever an earlier version called them: `swebench eval` takes all of a file for one model's."""
    out = begun(bench, tmp_path / "run", *CROSSFIT)
    path = out / "none" / "1-1" / "preds.json"
    path.write_text(path.read_text().replace("repair+none", "another"))
    bench.good(out, "--resume")
    assert path.read_text() == (whole / "none" / "1-1" / "preds.json").read_text()


@pytest.fixture(scope="module")
def whole(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    bench.good(out, *CROSSFIT[:-2])
    return out


def test_a_prediction_is_not_made_up_where_trajectory_and_prediction_were_both_changed(bench: Bench, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    (out / "none" / "1-1" / "preds.json").unlink()
    path = out / "none" / "1-1" / "trajs" / "acme__left-1" / "acme__left-1.traj.json"
    path.write_text(path.read_text().replace("'right'", "'wrong'"))
    assert f"{path} does not hold the patch that the journal speaks of" in refused(bench, out)
    path.unlink()
    assert f"{path} is missing" in refused(bench, out)


@pytest.mark.parametrize("flags", [ONLINE, CROSSFIT], ids=["growing", "half frozen"])
def test_nothing_is_learned_from_a_trajectory_that_was_edited_after_its_attempt(
    bench: Bench, tmp_path: Path, flags: tuple[object, ...]
) -> None:
    """Its patch is what it was; what memory would distil is not."""
    out = begun(bench, tmp_path / "run", *flags)
    taught = events(out, "graded")[0]
    rewrite(out, lambda event: event["t"] <= taught["t"] and event["event"] != "learned")  # as a kill would have left it
    path = out / taught["arm"] / taught["stream"] / "trajs" / taught["issue"] / f"{taught['issue']}.traj.json"
    text = path.read_text()
    document = json.loads(text)
    document["messages"][2]["content"] += " Better still."
    path.write_text(json.dumps(document))
    assert f"{path} is not the trajectory that the journal speaks of" in refused(bench, out)
    assert not [event for event in events(out, "learned") if event["issue"] == taught["issue"]]
    path.write_text(text)
    bench.good(out, "--resume")
    # A journal of a version that did not know the hash is gone on with as it is.
    rewrite(out, lambda event: event.pop("trajectory_sha256", True) is not None)
    bench.good(out, "--resume")


# -- what is told ----------------------------------------------------------------------------------------------------------------------------


def test_progress_says_recalled_only_of_attempts_that_were_given_something(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = bench.run(out, *arms("none", "reasoningbank:threshold=9", "derangement", "neutral", "reasoningbank", "preamble/reasoningbank"))
    assert result.exit_code == 0, result.output
    started = events(out, "started")
    given = [event for event in started if (event["recall"] or {}).get("characters")]
    assert 0 < len(given) < len([event for event in started if event["recall"]])
    assert result.output.count("recalled: ") == len(given)


def test_why_no_patch_was_taken_is_among_the_notes(bench: Bench, tmp_path: Path) -> None:
    def swell(_: Assignment, environment: Environment) -> None:
        environment.execute("head -c 30000000 /dev/zero > zeros.bin")

    bench.good(tmp_path / "run", *arms("none"), "--instance", "acme__left-1", agent=Scripted(before=swell))
    (event,) = events(tmp_path / "run", "finished")
    assert event["exit_status"] == "PatchTooLarge"
    assert "30000000 bytes" in " ".join(event["notes"])


# -- what was frozen -------------------------------------------------------------------------------------------------------------------------

SETTINGS: dict[str, Any] = {
    "agent": "mini",
    "seed": 7,
    "arms": ["none", "reasoningbank", "preamble"],
    "call_limit": 61,
    "before": True,
    "dates": ["2020-01-01T00:00:00+00:00"] * 4,
    "endpoint": "whatever is best",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_frozen_setting_that_was_edited_between_two_sessions_is_refused_and_told(
    bench: Bench, whole: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    path = out / "experiment.json"
    frozen = json.loads(path.read_text())
    path.write_text(json.dumps(frozen))  # in another layout
    bench.good(out, "--resume")
    path.write_text(json.dumps(frozen | {name: SETTINGS[name]}))
    before = (out / "events.jsonl").read_bytes()
    assert isinstance(bench.run(out, "--resume").exception, UsageError)
    assert (out / "events.jsonl").read_bytes() == before
    assert any("was changed after the run began" in problem for problem in run_status(out)["problems"])


def test_what_was_worked_out_for_a_frozen_bank_cannot_be_changed_before_it_is_given(bench: Bench, tmp_path: Path) -> None:
    out = begun(bench, tmp_path / "run", *CROSSFIT)
    tables = list(out.rglob("recalls/*.json"))
    assert tables
    for path in tables:
        path.write_text(path.read_text().replace('"prompt": "', '"prompt": "Mind the total. '))
    assert "was changed after the bank" in refused(bench, out)
    assert "Mind the total" not in "".join(path.read_text() for path in out.rglob("*.traj.json"))


# -- what an agent does to it ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_run_whose_journal_is_taken_away_while_it_works_ends_and_says_so(bench: Bench, tmp_path: Path, replaced: bool) -> None:
    out = tmp_path / "run"
    journal = out / "events.jsonl"

    def take_away(*_: object) -> None:
        text = journal.read_bytes()
        journal.unlink()
        if replaced:
            journal.write_bytes(text)

    result = bench.run(out, *arms("none"), "--workers", 1, agent=Scripted(before=take_away))
    assert isinstance(result.exception, SweMemoryError)
    assert "was removed or replaced while the run was at work" in str(result.exception)
    assert not (out / "results.json").exists()


def test_the_command_that_a_stopped_run_names_goes_on_with_it(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / 'a run\'s "$folder"'
    result = bench.run(out, *CROSSFIT, "--workers", 1)
    assert result.exit_code == 1
    named = result.output.partition("Go on with: ")[2].splitlines()[0]
    program, command, *flags = shlex.split(named)
    assert (program, command) == ("swe-memory", "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.scheduler.make_agent", lambda *_, **__: Scripted())
        again = CliRunner().invoke(run_cli, flags)
    assert again.exit_code == 0, (again.output, again.exception)
    assert len(events(out, "graded")) == 8


def test_a_journal_with_lines_that_cannot_be_read_is_told_of_when_the_run_goes_on(bench: Bench, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    lines = (out / "events.jsonl").read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if '"usage"' in line)
    lines[place] = "no event"
    (out / "events.jsonl").write_text("\n".join(lines) + "\n")
    result = bench.run(out, "--resume")
    assert f"warning: events.jsonl line {place + 1} is not an event and was skipped" in result.output
