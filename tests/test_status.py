"""The state of a run: counts that add up wherever it was stopped and whatever was done to its journal, and whether anybody is at work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.compare import compare_run
from harness.events import Journal, read_state
from harness.folder import locked, read_experiment
from harness.looking import at_work
from harness.status import run_status, status_text
from swe_memory.cli import main
from swe_memory.errors import UsageError
from tests.made_runs import FINISHED, GRADED, damaged, made, used, where
from tests.small_run import SmallRun, ask, make_run


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return make_run(tmp_path_factory.mktemp("status"), "none", "reasoningbank")


def adds_up(found: dict[str, Any]) -> bool:
    rows = [*found["streams"], found["attempts"]]
    return all(
        row["planned"] == row["done"] + row["infra"] + row["under_way"] + row["left"] and row["resolved"] <= row["done"] for row in rows
    )


def test_a_finished_run_is_done_and_says_what_the_comparison_says(done: SmallRun) -> None:
    found, compared = run_status(done.folder), compare_run(done.folder)
    assert (found["state"], found["working"], found["problems"], found["infra"]) == ("done", False, [], [])
    assert adds_up(found) and found["attempts"] == {"planned": 6, "done": 6, "resolved": 4, "infra": 0, "under_way": 0, "left": 0}
    assert [(row["arm"], row["done"], row["resolved"]) for row in found["streams"]] == [
        (arm["arm"], arm["graded"], arm["resolved"]) for arm in compared["arms"]
    ]
    assert found["usage"] == compared["usage"] and found["usage"]["all"]["calls"] == sum(e["event"] == "usage" for e in done.events)
    assert {bank["bank"]: (bank["learned"], bank["frozen"]) for bank in found["banks"]} == {
        bank["bank"]: (bank["lessons"], True) for bank in found["banks"]
    }
    assert sum(bank["lessons"] for bank in found["banks"]) == 3 and all(bank["items"] for bank in found["banks"])
    assert found["sessions"] == 1 and found["seconds"] == pytest.approx(compared["seconds"], abs=0.001)
    assert found["last_event"] == done.events[-1]["at"] and found["wasted"]["tries"] == 0
    assert found["next"][0] == f"swe-memory compare {done.folder}"


def test_wherever_a_run_is_stopped_its_counts_add_up_and_agree_with_the_comparison(done: SmallRun, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    done.copy(folder)
    events, states = done.events, []
    for end in range(0, len(events) + 1, 3):
        (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events[:end]) + '{"event": "gra')
        found, compared = run_status(folder), compare_run(folder)
        states.append(found["state"])
        assert adds_up(found) and found["problems"] == []
        for row, arm in zip(found["streams"], compared["arms"], strict=True):
            assert (row["done"], row["resolved"], row["infra"]) == (arm["graded"], arm["resolved"], len(arm["infra"]))
            assert row["under_way"] + row["left"] == arm["missing"]
        if found["state"] != "done":
            again = "swe-memory run --resume --out"
            assert found["next"][0] == f"{again} {folder} --dataset FILE --repositories FOLDER"
        assert ("cut off" in status_text(found)) and found["budget_left"].startswith("not known")
    assert (
        states[0] == "not begun"
        and "stopped" in states
        and list(dict.fromkeys(states)) == ["not begun", "stopped", "done"][: len(set(states))]
    )


def test_no_damage_to_the_journal_keeps_the_state_from_being_told(done: SmallRun, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    done.copy(folder)
    lines = (done.folder / "events.jsonl").read_bytes().splitlines()
    for seed in range(120):
        (folder / "events.jsonl").write_bytes(damaged(lines, seed))
        found = run_status(folder)
        assert adds_up(found), seed
        json.dumps(found, allow_nan=False)
        status_text(found).encode()
        if read_state(folder / "events.jsonl").problems:
            assert "warning: " in status_text(found)


def test_what_a_killed_try_used_is_told_as_wasted_and_counts_in_the_sum(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with Journal(folder / "events.jsonl") as journal:
        journal.append("session")
        journal.append("started", **where("i-1"), bank=None, recall=None)
        journal.append("usage", **where("i-1"), **used(2))
    with Journal(folder / "events.jsonl") as journal:
        journal.append("session")
        journal.append("started", **where("i-1"), bank=None, recall=None)
        journal.append("usage", **where("i-1"), **used(3))
        journal.append("finished", **where("i-1"), **FINISHED)
        journal.append("usage", **where("i-1"), **{**used(1), "role": "judge"})
        journal.append("graded", **where("i-1"), **GRADED)
        journal.append("started", **where("i-2"), bank=None, recall=None)
        journal.append("usage", **where("i-2"), **used(4, None))
    stopped = run_status(folder)
    assert stopped["wasted"] == {"tries": 2, "calls": 6, "input_tokens": 600, "output_tokens": 60, "cost": None}
    assert stopped["usage"]["all"]["calls"] == 10 and stopped["usage"]["agent"]["calls"] == 9 and stopped["sessions"] == 2
    assert "cost unknown" in status_text(stopped)
    with locked(folder):
        going = run_status(folder)
    assert going["wasted"] == {"tries": 1, "calls": 2, "input_tokens": 200, "output_tokens": 20, "cost": 0.5}
    assert (stopped["state"], going["state"]) == ("stopped", "going")
    assert stopped["attempts"] == going["attempts"] and going["attempts"]["under_way"] == 1


def test_an_infra_failure_is_told_with_its_reason_until_it_is_being_tried_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with Journal(folder / "events.jsonl") as journal:
        journal.append("session")
        journal.append("started", **where("i-1"), bank=None, recall=None)
        journal.append("failed", **where("i-1"), stage="run", reason="the disk is full\nsecond line")
    found = run_status(folder)
    assert found["attempts"]["infra"] == 1 and "none/1-1/i-1, tried once: the disk is full" in status_text(found)
    with Journal(folder / "events.jsonl") as journal, locked(folder):
        assert run_status(folder)["attempts"]["infra"] == 1
        journal.append("started", **where("i-1"), bank=None, recall=None)
        again = run_status(folder)
    assert (again["attempts"]["infra"], again["attempts"]["under_way"], again["infra"]) == (0, 1, [])
    assert run_status(folder)["attempts"]["infra"] == 1, "a kill in that try leaves it as it was"


def test_a_growing_and_a_given_bank_say_how_far_they_are(tmp_path: Path) -> None:
    growing = made(tmp_path / "online", protocol="online", folds=(), arms=("reasoningbank",))
    with Journal(growing / "events.jsonl") as journal:
        journal.append("session")
        one = where("i-1", "reasoningbank")
        verdict = {"outcome": "resolved", "source": "rules", "reason": "", "confidence": None}
        journal.append("started", **one, bank="reasoningbank/1-1", recall=None)
        journal.append("finished", **one, **FINISHED)
        journal.append("graded", **one, **{**GRADED, "verdict": verdict})
        items = [{"id": "m1", "title": "Look first", "reach": "general", "polarity": "success"}]
        journal.append("learned", **one, bank="reasoningbank/1-1", items=items, bank_version=1)
    (bank,) = run_status(growing)["banks"]
    assert (bank["kind"], bank["learned"], bank["lessons"], bank["items"], bank["version"], bank["waves_left"]) == (
        "growing",
        1,
        2,
        1,
        1,
        1,
    )
    given = made(tmp_path / "offline", protocol="offline", folds=(), bank={"items": 7, "name": "team.lance"})
    (bank,) = run_status(given)["banks"]
    assert (bank["kind"], bank["items"], bank["frozen"]) == ("given", 7, False)
    assert run_status(given)["next"][0].endswith("--bank PATH")
    with Journal(given / "events.jsonl") as journal:
        journal.append("frozen", bank="given/offline", version=3, experiences=5, items=6, missing=[])
    (bank,) = run_status(given)["banks"]
    assert (bank["items"], bank["version"], bank["frozen"]) == (6, 3, True) and "--bank" not in run_status(given)["next"][0]


def test_a_bank_that_was_frozen_without_failed_attempts_says_so(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with Journal(folder / "events.jsonl") as journal:
        journal.append("frozen", bank="reasoningbank/1-a", version=0, experiences=0, items=0, missing=[["none", "1-1", "i-1"]])
    assert "reasoningbank/1-a was frozen without 1 attempt that" in status_text(run_status(folder))


def test_attempts_that_nobody_planned_are_a_problem_and_counted_nowhere(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with Journal(folder / "events.jsonl") as journal:
        journal.append("started", **where("i-9"), bank=None, recall=None)
    found = run_status(folder)
    assert found["attempts"]["left"] == 4 and found["problems"] == ["the journal speaks of 1 attempt that the experiment does not plan"]


HOLD = "import sys; from pathlib import Path; from harness.folder import locked\n"
HOLD += "with locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"


def test_asking_neither_disturbs_the_process_at_work_nor_another_that_asks(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    assert run_status(folder)["working"] is False and not (folder / ".lock").exists(), "asking must not write"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    assert [run_status(folder)["state"] for _ in range(3)] == ["going"] * 3
    assert "a process is at work" in ask("status", folder).output
    with pytest.raises(UsageError, match="another process"), locked(folder):
        pass
    assert holder.poll() is None
    holder.kill()
    holder.communicate()
    assert run_status(folder)["working"] is False
    with locked(folder):
        pass
    import fcntl

    with (folder / ".lock").open() as other:  # somebody else who asks at the same moment
        fcntl.flock(other, fcntl.LOCK_SH)
        assert at_work(folder) is False


def test_a_lock_that_cannot_be_asked_for_is_not_taken_for_nobody(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    (folder / ".lock").symlink_to(folder / ".lock")
    found = run_status(folder)
    assert (found["working"], found["state"]) == (None, "not done") and "cannot be told" in status_text(found)


def spoil(folder: Path, what: str) -> None:
    """Make a folder with that wrong in it."""
    if what == "no folder":
        return
    folder.mkdir()
    if what == "no JSON":
        (folder / "experiment.json").write_text("{")
    if what in ("a wrong setting", "no journal"):
        made(folder)
        path = folder / "experiment.json"
        path.write_text(path.read_text().replace('"crossfit"', '"astrology"') if what == "a wrong setting" else path.read_text())
        (folder / "events.jsonl").mkdir()


WRONG = {
    "no folder": ("there is no folder", 2),
    "no run": ("is no run folder", 2),
    "no JSON": ("experiment.json is damaged", 2),
    "a wrong setting": ("`protocol` is not one of", 2),
    "no journal": ("cannot read", 1),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", ["status", "explain", "relearn"])
def test_a_folder_without_a_sound_run_is_refused_in_words(
    what: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(tmp_path / "run", what)
    more = {"status": [], "explain": ["none/1-1/i-1"], "relearn": ["--bank", str(tmp_path / "new.lance")]}[command]
    words, code = WRONG[what]
    if (command, what) == ("relearn", "no journal"):
        words, code = "whose place it does not keep", 2  # the dataset comes first
    assert main(["run", command, str(tmp_path / "run"), *more]) == code
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told and not (tmp_path / "new.lance").exists()


def test_json_is_one_object_with_the_documented_keys(done: SmallRun) -> None:
    result = ask("status", done.folder, "--json")
    found = json.loads(result.stdout)
    shape = ask("status", "--help").output
    assert result.exit_code == 0 and found == json.loads(json.dumps(run_status(done.folder)))
    names = {*found, *found["streams"][0], *found["banks"][0], *found["wasted"], *found["attempts"]}
    assert [name for name in sorted(names) if name not in shape] == []
    assert read_experiment(done.folder).protocol == found["protocol"]
