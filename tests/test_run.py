"""Whole experiments on a small dataset: the run folder, resume after a kill, refusals, interruption, and independence of the worker count."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import compare, run
from harness.dataset import load_dataset
from harness.events import read_events, read_state
from harness.folder import freeze, locked, scratch_folder
from harness.running import plan_experiment
from swe_memory.errors import UsageError
from swe_memory.trajectories import load_trajectory
from tests.scripted import FIX, Scripted, arguments, invoke
from tests.small_bench import write_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def finished(bench: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    out = tmp_path_factory.mktemp("runs") / "whole"
    result = invoke(bench, out, "--json", "--workers", "2")
    assert result.exit_code == 0, result.output
    yield out, json.loads(result.stdout)


def facts(out: Path) -> dict[str, Any]:
    """Everything of a run that must not depend on times, workers or interruptions."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if path.name in ("preds.json", "experiment.json") or path.name.endswith((".traj.json", "report.json")):
            found[str(path.relative_to(out))] = path.read_text(encoding="utf-8")
        elif path.name == "results.json":
            told = json.loads(path.read_text(encoding="utf-8"))
            found["results"] = {name: part for name, part in told.items() if name not in ("run", "seconds", "usage")}
    state = read_state(out / "events.jsonl")
    assert state.problems == ()
    for key, attempt in state.attempts.items():
        found["/".join(key)] = [timeless(part) for part in (attempt.started, attempt.finished, attempt.graded)]
    for name, bank in state.banks.items():
        found |= {f"bank {name} {' '.join(key)}": timeless(event) for key, event in bank.learned.items()}
        found[f"bank {name}"] = timeless(bank.frozen)
    return found


def timeless(event: Mapping[str, Any]) -> dict[str, Any]:
    """Without times, and without what nobody knows any more where the bank was faster than the journal."""
    return {name: value for name, value in event.items() if name not in ("at", "t", "seconds", "rejected")}


def test_a_run_leaves_the_whole_folder_and_both_arms_record_the_same(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    assert [arm["resolved"] for arm in result["arms"]] == [2, 2] and result["complete"]
    for arm in ("none", "reasoningbank"):
        place = out / arm / "1-1"
        predictions = json.loads((place / "preds.json").read_text())
        assert set(predictions) == {"acme__shop-1", "acme__shop-2", "acme__shop-3"}
        assert predictions["acme__shop-1"]["model_patch"].startswith("diff --git") and predictions["acme__shop-2"]["model_patch"] == ""
        report = json.loads((place / "logs" / "acme__shop-1" / "report.json").read_text())
        assert report["acme__shop-1"]["resolved"] is True
        trajectory = load_trajectory(place / "trajs" / "acme__shop-1" / "acme__shop-1.traj.json")
        assert trajectory.calls == trajectory.reported_calls and trajectory.patch == predictions["acme__shop-1"]["model_patch"]
        assert str(scratch_folder(out)) not in (place / "trajs" / "acme__shop-1" / "acme__shop-1.traj.json").read_text()
    assert (out / "reasoningbank" / "1-1" / "bank.lance").is_dir() and not (out / "none" / "1-1" / "bank.lance").exists()
    assert json.loads((out / "results.json").read_text())["arms"] == result["arms"]
    assert not scratch_folder(out).exists()


def test_memory_learns_from_earlier_issues_of_its_own_arm_only(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    events, _ = read_events(out / "events.jsonl")
    assert {event["arm"] for event in events if event["event"] == "learned"} == {"reasoningbank"}
    first = next(event for event in events if event["event"] == "started" and event["arm"] == "reasoningbank")
    assert first["issue"] == "acme__shop-1" and first["recall"]["item"] is None
    for issue in result["issues"]:
        (memory,) = issue["arms"]["reasoningbank"]
        assert memory["item"] is None or memory["learned_from"] < issue["issue"]


def test_hidden_tests_reach_neither_the_agent_nor_the_bank(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    for path in [*out.glob("*/1-1/trajs/*/*"), *out.glob("*/1-1/bank.lance/**/*"), out / "events.jsonl"]:
        if path.is_file():
            data = path.read_bytes()
            assert b"test_hidden" not in data and b"_hidden.py" not in data, path


RUNNER = "import sys; from swe_memory.cli import main; sys.exit(main(sys.argv[1:]))"


def test_a_run_killed_at_any_stage_ends_as_an_undisturbed_one_with_more_workers(
    bench: tuple[Path, Path], finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    resumed = ["--resume", "--out", str(out), "--dataset", str(bench[0]), "--repositories", str(bench[1]), "--workers", "1"]
    for kind in ("finished", "graded"):
        command = ["run", *(resumed if out.exists() else arguments(bench, out, "--workers", "1", "--arm", "reasoningbank"))]
        process = subprocess.Popen([sys.executable, "-c", RUNNER, *command], stderr=subprocess.DEVNULL, start_new_session=True)
        seen = kind_count(out, kind)
        wait_until(process, lambda kind=kind, seen=seen: kind_count(out, kind) > seen)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    result = CliRunner().invoke(run, resumed)
    assert result.exit_code == 0, result.output
    undisturbed = {name: fact for name, fact in facts(finished[0]).items() if name.startswith(("reasoningbank/", "bank "))}
    again = {name: fact for name, fact in facts(out).items() if name.startswith(("reasoningbank/", "bank "))}
    assert any(name.startswith("bank ") for name in undisturbed) and again == undisturbed


def test_a_kill_after_the_bank_has_learned_and_before_the_journal_says_so_learns_nothing_twice(
    bench: tuple[Path, Path], finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "whole"
    shutil.copytree(finished[0], out)
    journal = out / "events.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if json.loads(line)["event"] == "learned")
    journal.write_text("".join(line for number, line in enumerate(lines) if number != last))
    assert invoke(bench, out, "--resume").exit_code == 0
    assert facts(out) == facts(finished[0])


def wait_until(process: subprocess.Popen[Any], happened: Callable[[], bool]) -> None:
    """Wait for an event of a process that must go on running until then."""
    while not happened():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            raise AssertionError(f"it ended with code {process.returncode} before that")


def kind_count(out: Path, kind: str) -> int:
    return sum(event["event"] == kind for event in read_events(out / "events.jsonl")[0])


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(bench: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, "run", *arguments(bench, out)], stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL
    )
    wait_until(process, lambda: kind_count(out, "started") > 0)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130 and "--resume" in told and "Traceback" not in told
    state = read_state(out / "events.jsonl")
    assert all(attempt.graded for attempt in state.attempts.values()) and len(state.attempts) < 6


def test_a_folder_is_used_for_one_experiment_only(bench: tuple[Path, Path], finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out = finished[0]
    cases = {
        "holds this experiment already": invoke(bench, out),
        'verdict: "rules" there, "tests" asked for': invoke(bench, out, "--resume", "--verdict", "tests"),
        "call_limit: 16 there, 17 asked for": CliRunner().invoke(run, [*arguments(bench, out, "--resume"), "--call-limit", "17"]),
        "there is no run in": invoke(bench, tmp_path / "new", "--resume") if (tmp_path / "new").mkdir() is None else None,
    }
    cases["whose place it does not keep"] = CliRunner().invoke(run, ["--resume", "--out", str(out)])
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("precious")
    cases["holds other things (thesis.tex)"] = invoke(bench, tmp_path / "foreign")
    for words, result in cases.items():
        assert result is not None and isinstance(result.exception, UsageError), words
        assert words in str(result.exception) or "no run folder" in str(result.exception), (words, str(result.exception))
    assert (tmp_path / "foreign" / "thesis.tex").read_text() == "precious"
    again = invoke(bench, out, "--resume")
    assert again.exit_code == 0 and "6 of 6 attempts are done already" in again.output


def test_a_second_process_on_one_folder_is_refused(bench: tuple[Path, Path], tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from harness.folder import locked\n"
    code += "with locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    result = invoke(bench, tmp_path / "out")
    assert isinstance(result.exception, UsageError) and "another process" in result.exception.what
    holder.kill()
    holder.communicate()
    with locked(tmp_path / "out"):
        pass


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--arm", "dreams"), "no arm called 'dreams'"),
        (("--arm", "none", "--arm", "none"), "named twice"),
        (("--arm", "reasoningbank", "--arm", "reasoningbank:k=1"), "are the same condition"),
        (("--arm", "reasoningbank:k=1,success-only", "--arm", "reasoningbank:threshold=0.35,success-only"), "are the same condition"),
        (("--agent", "gpt"), "no agent called 'gpt'"),
        (("--call-limit", "0"), "call limit of 0"),
        (("--workers", "0"), "0 workers"),
        (("--instance", "acme__shop-9"), "no instance 'acme__shop-9'"),
        (("--protocol", "crossfit", "--arm", "reasoningbank"), "there is no arm `none`"),
        (("--protocol", "crossfit", "--arm", "none", "--arm", "derangement"), "there is none"),
        (("--arm", "reasoningbank", "--arm", "derangement"), "needs a frozen bank"),
        (("--protocol", "offline"), "offline needs a bank"),
        (("--protocol", "offline", "--bank", "absent.lance"), "no bank at absent.lance"),
        (("--bank", "absent.lance"), "--bank goes with --protocol offline"),
        (("--builds", "2"), "online has no builds"),
        (("--wave", "9" * 20), "more than any run could do"),
        (("--orders", "0"), "--orders is 0"),
        (("--test-seconds", "0"), "--test-seconds is not a number of seconds above 0"),
        (("--attempt-cost", "0"), "a limit of 0.0 dollars"),
        (("--max-hours", "0"), "a budget of 0.0 seconds"),
        (("--requests-per-minute", "0"), "a limit of 0 requests"),
        (("--verdict", "llm"), "none is named"),
        (("--preset", "paper"), "needs a language model"),
        (("--resume",), "there is no folder"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    bench: tuple[Path, Path], tmp_path: Path, more: tuple[str, ...], words: str
) -> None:
    result = invoke(bench, tmp_path / "out", *more)
    assert isinstance(result.exception, UsageError) and (words in result.exception.what or words in str(result.exception))
    assert not (tmp_path / "out" / "experiment.json").exists()


def test_a_zero_that_was_typed_is_not_taken_for_nothing_on_resume(bench: tuple[Path, Path], tmp_path: Path) -> None:
    dataset = load_dataset(bench[0], repositories=bench[1])
    (tmp_path / "out").mkdir()
    freeze(tmp_path / "out", plan_experiment(dataset, {"protocol": "online", "call_limit": 16, "seed": 7}), resume=False)
    result = invoke(bench, tmp_path / "out", "--resume", "--seed", "0")
    assert isinstance(result.exception, UsageError) and "seed: 7 there, 0 asked for" in result.exception.what


def test_what_is_graded_and_not_learned_counts_as_left_on_resume(
    bench: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    options = ("--arm", "reasoningbank", "--wave", "3")
    monkeypatch.setattr("harness.scheduler.make_agent", lambda _, **_more: Scripted(FIX))
    assert invoke(bench, out, *options).exit_code == 0
    shutil.copytree(out, whole)
    # Killed when the wave was graded, before the bank learned any of it.
    journal = out / "events.jsonl"
    lines = [line for line in journal.read_text().splitlines(keepends=True) if json.loads(line)["event"] != "learned"]
    journal.write_text("".join(lines))
    shutil.rmtree(out / "reasoningbank" / "1-1" / "bank.lance")
    told = json.loads(CliRunner().invoke(compare, [str(out), "--json"]).stdout)
    assert not told["complete"] and "a bank" in " ".join(told["sentences"])
    result = invoke(bench, out, "--resume", *options)
    assert result.exit_code == 0 and "3 of 3 attempts are done already" in result.output and "4/3" not in result.output
    assert kind_count(out, "learned") == 3 and facts(out) == facts(whole)


def test_what_a_kill_leaves_of_an_attempt_lies_where_resume_removes_it(bench: tuple[Path, Path], tmp_path: Path) -> None:
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-c", RUNNER, "run", *arguments(bench, out, "--workers", "1", "--arm", "none", "--instance", "acme__shop-1")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "TMPDIR": str(temporary)})
    wait_until(process, lambda: any(temporary.glob("swe-memory-run-*/env-*")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = [path.name for path in temporary.iterdir() if not path.name.startswith(("swe-memory-run-", "swe-memory-grade-"))]
    assert left == [] and any(temporary.iterdir())
    command = [sys.executable, "-c", RUNNER, "run", *arguments(bench, out, "--resume", "--workers", "1")]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "TMPDIR": str(temporary)}, check=False)
    assert done.returncode == 0 and list(temporary.iterdir()) == []
