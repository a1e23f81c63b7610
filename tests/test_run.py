"""Whole experiments on a small dataset: the run folder, resume after a kill, refusals, interruption, and independence of the worker count."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.agents import Assignment, Limits
from harness.attempt import Halted, Outcome, Stoppable, read_trajectory, trajectory_document
from harness.cli import run
from harness.dataset import load_dataset
from harness.environments import Environment
from harness.environments.local import LocalEnvironment
from harness.events import read_events, read_state
from harness.grading import Grader
from harness.plan import Experiment, ordered
from harness.running import plan_experiment
from harness.scheduler import Run, Settings, freeze, locked, scratch_folder
from swe_memory.errors import UsageError
from swe_memory.records import Action, Issue, Step, Trajectory
from swe_memory.trajectories import load_trajectory
from tests.small_bench import write_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_bench(tmp_path_factory.mktemp("bench"))


def arguments(bench: tuple[Path, Path], out: Path, *more: str) -> list[str]:
    return ["--dataset", str(bench[0]), "--repositories", str(bench[1]), "--out", str(out), "--call-limit", "16", *more]


def invoke(bench: tuple[Path, Path], out: Path, *more: str) -> Result:
    return CliRunner().invoke(run, arguments(bench, out, *more))


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
        if path.name in ("preds.json", "experiment.json", "results.json") or path.name.endswith((".traj.json", "report.json")):
            text = path.read_text(encoding="utf-8")
            found[str(path.relative_to(out))] = text.replace(f'"run": "{out.name}"', '"run": ""')
    for key, attempt in read_state(out / "events.jsonl").attempts.items():
        drop = {"at", "seconds"}
        found["/".join(key)] = [
            {k: v for k, v in part.items() if k not in drop}
            for part in (attempt.started, attempt.finished, attempt.graded, attempt.learned)
        ]
    return found


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
        memory = issue["arms"]["reasoningbank"]
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
    undisturbed = {name: fact for name, fact in facts(finished[0]).items() if name.startswith("reasoningbank/")}
    assert undisturbed and {name: fact for name, fact in facts(out).items() if name.startswith("reasoningbank/")} == undisturbed


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
    assert all(attempt.done for attempt in state.attempts.values()) and len(state.attempts) < 6


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
    code = "import sys; from pathlib import Path; from harness.scheduler import locked\n"
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
        (("--agent", "gpt"), "no agent called 'gpt'"),
        (("--call-limit", "0"), "call limit of 0"),
        (("--workers", "0"), "0 workers"),
        (("--instance", "acme__shop-9"), "no instance 'acme__shop-9'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(
    bench: tuple[Path, Path], tmp_path: Path, more: tuple[str, ...], words: str
) -> None:
    result = invoke(bench, tmp_path / "out", *more)
    assert isinstance(result.exception, UsageError) and words in result.exception.what
    assert not (tmp_path / "out" / "experiment.json").exists()


def test_an_infra_failure_is_listed_not_judged_and_tried_again(bench: tuple[Path, Path], tmp_path: Path) -> None:
    dataset = load_dataset(bench[0], repositories=bench[1])
    broken = tmp_path / "scratch-is-a-file"
    experiment = plan_experiment(dataset, {"arms": ("none",), "call_limit": 16}, ["acme__shop-1"])
    out = tmp_path / "out"
    said: list[Outcome] = []
    with locked(out):
        freeze(out, experiment, resume=False)
        work = Run(out, experiment, dataset, Settings(1, retries=(0.0,)), said.append)
        broken.write_text("")
        (out / "none").mkdir()
        (out / "none" / "1-1").write_text("a file where a folder must be")
        state = work.execute()
        attempt = state.attempts["none", "1-1", "acme__shop-1"]
        assert attempt.infra and len(attempt.failures) == 2 and not attempt.graded
        assert said[0].failure
        (out / "none" / "1-1").unlink()
        state = Run(out, experiment, dataset, Settings(1, retries=()), said.append).execute()
    assert state.attempts["none", "1-1", "acme__shop-1"].graded["resolved"] is True


def test_an_agent_that_crashes_has_failed_its_attempt_only(
    bench: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crashing:
        name = "repair"

        def run(self, work: Assignment, environment: object) -> Trajectory:
            raise RecursionError("too deep")

    monkeypatch.setattr("harness.scheduler.make_agent", lambda _: Crashing())
    result = invoke(bench, tmp_path / "out", "--arm", "none", "--instance", "acme__shop-1", "--json")
    arm = json.loads(result.stdout)["arms"][0]
    assert result.exit_code == 0 and (arm["graded"], arm["resolved"]) == (1, 0)
    assert list(arm["exit_statuses"]) == ["AgentError: RecursionError: too deep"]


class Scripted:
    """An agent that runs one command and submits what it is told to; None leaves the patch to be collected."""

    name = "repair"

    def __init__(self, command: str = "true", patch: str | None = None, error: Exception | None = None) -> None:
        self.command, self.patch, self.error = command, patch, error

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        done = environment.execute(self.command)
        if self.error:
            raise self.error
        steps = (Step("I act.", (Action(self.command, done.output, done.returncode),)),)
        return Trajectory(steps, "Submitted", self.patch, issue.id, "task", "mini-swe-agent-1.1", "none", self.name, 1, 0.0)


def scripted(bench: tuple[Path, Path], out: Path, monkeypatch: pytest.MonkeyPatch, agent: Scripted, arm: str = "none") -> Result:
    monkeypatch.setattr("harness.scheduler.make_agent", lambda _: agent)
    return invoke(bench, out, "--arm", arm, "--instance", "acme__shop-1", "--json")


FIX = "sed -i 's/points > limit/points >= limit/' shop/marks.py"


@pytest.mark.parametrize(
    ("command", "status", "resolved"),
    [
        (FIX, "Submitted", 1),
        (f"{FIX}; rm -rf .git conftest.py; mkfifo conftest.py; mkdir d; chmod 000 d", "Submitted", 1),
        ("P=$PWD; cd ..; mv $P aside; ln -s / $P", "WorkdirReplaced", 0),
        ("rm -rf $PWD $(dirname $HOME)", "WorkdirReplaced", 0),
        ("head -c 30000000 /dev/zero > zeros", "PatchTooLarge", 0),
    ],
)
def test_a_patch_that_is_left_to_be_collected_and_how_an_agent_can_spoil_it(
    bench: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, status: str, resolved: int
) -> None:
    result = scripted(bench, tmp_path / "out", monkeypatch, Scripted(command))
    arm = json.loads(result.stdout)["arms"][0]
    assert (result.exit_code, arm["graded"], arm["resolved"], arm["infra"]) == (0, 1, resolved, [])
    assert arm["exit_statuses"] == {status: 1} and not scratch_folder(tmp_path / "out").exists()


@pytest.mark.parametrize(
    "patch",
    ["\ud800", "\udcff\x00", "hello", "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+\ud800\x00\n"],
)
def test_no_patch_and_no_command_of_an_agent_ends_the_run(
    bench: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: str
) -> None:
    for arm in ("none", "reasoningbank"):
        result = scripted(bench, tmp_path / arm, monkeypatch, Scripted("echo \ud800 '\udcff'", patch), arm)
        told = json.loads(result.stdout)["arms"][0]
        assert (result.exit_code, told["graded"], told["resolved"], told["infra"]) == (0, 1, 0, [])


def test_an_error_that_nobody_foresaw_ends_its_attempt_only_and_leaves_its_traceback(
    bench: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", ())
    monkeypatch.setattr("harness.running.Settings", lambda workers: Settings(workers, retries=()))
    folders = iter(["an unforeseen folder"])
    real = Grader.grade

    def grade(self: Grader, *given: Any, **more: Any) -> Any:
        for folder in folders:
            raise KeyError(folder)
        return real(self, *given, **more)

    monkeypatch.setattr(Grader, "grade", grade)
    out = tmp_path / "out"
    result = invoke(bench, out, "--arm", "none", "--json", "--workers", "1")
    arm = json.loads(result.stdout)["arms"][0]
    assert result.exit_code == 1 and (arm["graded"], arm["infra"]) == (2, ["acme__shop-1"])
    failed = next(event for event in read_events(out / "events.jsonl")[0] if event["event"] == "failed")
    assert "Traceback" in failed["traceback"] and "an unforeseen folder" in failed["reason"]
    assert invoke(bench, out, "--resume").exit_code == 0


def test_what_is_graded_and_not_learned_counts_as_left_on_resume(
    bench: tuple[Path, Path], finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "whole"
    shutil.copytree(finished[0], out)
    journal = out / "events.jsonl"
    lines = [line for line in journal.read_text().splitlines(keepends=True) if json.loads(line)["event"] != "learned"]
    journal.write_text("".join(lines))
    result = invoke(bench, out, "--resume")
    assert result.exit_code == 0 and "3 of 6 attempts are done already" in result.output and "4/3" not in result.output


def test_what_a_kill_leaves_of_an_attempt_lies_where_resume_removes_it(bench: tuple[Path, Path], tmp_path: Path) -> None:
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-c", RUNNER, "run", *arguments(bench, out, "--workers", "1", "--arm", "none")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "TMPDIR": str(temporary)})
    wait_until(process, lambda: any(temporary.glob("swe-memory-run-*/env-*")))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = [path.name for path in temporary.iterdir() if not path.name.startswith(("swe-memory-run-", "swe-memory-grade-"))]
    assert left == [] and any(temporary.iterdir())
    command = [sys.executable, "-c", RUNNER, "run", *arguments(bench, out, "--resume", "--workers", "1", "--arm", "none")]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "TMPDIR": str(temporary)}, check=False)
    assert done.returncode == 0 and list(temporary.iterdir()) == []


def test_a_halted_attempt_stops_at_its_next_command_and_no_agent_can_take_that_for_an_error(tmp_path: Path) -> None:
    halt = threading.Event()
    with LocalEnvironment(tmp_path) as local:
        environment = Stoppable(local, halt)
        assert environment.execute("echo on").output == "on\n"
        halt.set()
        with pytest.raises(Halted):
            environment.execute("touch never")
    assert not issubclass(Halted, Exception) and not (tmp_path / "never").exists()


def test_a_trajectory_file_reads_back_as_it_was_and_says_what_memory_said(tmp_path: Path) -> None:
    steps = (
        Step("I look.", (Action("ls\necho 'ö'", "a\nb", 0),)),
        Step("I fix.", (Action("false", "", 1),)),
        Step("Done.", (Action("submit", "x", 0),)),
    )
    trajectory = Trajectory(steps, "Submitted", "diff --git a/x b/x\n", "a-1", "task", "mini-swe-agent-1.1", "none", "repair", 3, 0.0)
    document = trajectory_document(trajectory, "Memory: check None.", {"arm": "none"}, Limits(5))
    path = tmp_path / "trajs" / "a-1" / "a-1.traj.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    read = read_trajectory(tmp_path, "a-1")
    assert (read.steps, read.patch, read.exit_status, read.reported_calls, read.task) == (steps, trajectory.patch, "Submitted", 3, "task")
    assert "Memory: check None." in document["messages"][0]["content"] and document["info"]["model_stats"]["api_calls"] == 3


def test_orders_are_stable_and_the_frozen_experiment_names_each_difference() -> None:
    from datetime import UTC, datetime

    issues = [
        Issue("b", "r", "t", created_at=datetime(2024, 1, 2, tzinfo=UTC)),
        Issue("a", "r", "t"),
        Issue("c", "r", "t", created_at=datetime(2023, 1, 2, tzinfo=UTC)),
    ]
    assert ordered(issues, "date", 0) == ("c", "b", "a") and ordered(issues, "given", 0) == ("b", "a", "c")
    assert ordered(issues, "shuffled", 1) == ordered(issues[::-1], "shuffled", 1)
    assert len({ordered(issues, "shuffled", seed) for seed in range(10)}) > 1
    one = Experiment("d", "h", ("a",), "repair", ("none",))
    two = Experiment.from_json({**one.to_json(), "seed": 7, "instances": ["a", "b"]}, "x")
    assert one.differences(one) == () and len(one.differences(two)) == 2 and "seed: 0 there, 7 asked for" in one.differences(two)
    with pytest.raises(UsageError, match="format 99"):
        Experiment.from_json({**one.to_json(), "format": 99}, "x")
