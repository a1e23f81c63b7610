"""One attempt in a run: what its agent hands in, how it can fail, and what fails the attempt, the machine or the run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from harness.agents import Assignment, Limits
from harness.attempt import Stoppable
from harness.dataset import load_dataset
from harness.environments.local import LocalEnvironment
from harness.events import read_events
from harness.folder import freeze, locked, scratch_folder
from harness.grading import Grader
from harness.running import plan_experiment
from harness.scheduler import Outcome, Run, Settings
from harness.tasks import Stopped
from harness.trajectory_file import read_as_it_is, trajectory_document
from swe_memory.records import Action, Step, Trajectory
from tests.scripted import FIX, Scripted, invoke
from tests.small_bench import write_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_bench(tmp_path_factory.mktemp("bench"))


def scripted(bench: tuple[Path, Path], out: Path, monkeypatch: pytest.MonkeyPatch, agent: Scripted, arm: str = "none") -> Result:
    monkeypatch.setattr("harness.scheduler.make_agent", lambda _, **_more: agent)
    return invoke(bench, out, "--arm", arm, "--instance", "acme__shop-1", "--json")


def test_an_infra_failure_is_listed_not_judged_and_tried_again(bench: tuple[Path, Path], tmp_path: Path) -> None:
    dataset = load_dataset(bench[0], repositories=bench[1])
    experiment = plan_experiment(dataset, {"arms": ("none",), "call_limit": 16}, ["acme__shop-1"])
    out = tmp_path / "out"
    said: list[Outcome] = []
    with locked(out):
        freeze(out, experiment, resume=False)
        down = Scripted(FIX, error=OSError("the machine is not well"))
        state = Run(out, experiment, dataset, Settings(1, retries=(0.0,)), said.append, agent=down).execute()
        attempt = state.attempts["none", "1-1", "acme__shop-1"]
        assert attempt.infra and len(attempt.failures) == 2 and not attempt.graded
        assert len(said) == 1 and said[0].failure
        state = Run(out, experiment, dataset, Settings(1, retries=()), said.append, agent=Scripted(FIX)).execute()
    assert len(said) == 2 and said[1].resolved
    assert state.attempts["none", "1-1", "acme__shop-1"].graded["resolved"] is True


def test_an_agent_that_crashes_has_failed_its_attempt_only(
    bench: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crashing:
        name = "repair"
        model = ""
        users_environment = False

        def run(self, work: Assignment, environment: object) -> Trajectory:
            raise RecursionError("too deep")

    monkeypatch.setattr("harness.scheduler.make_agent", lambda _, **_more: Crashing())
    result = invoke(bench, tmp_path / "out", "--arm", "none", "--instance", "acme__shop-1", "--json")
    arm = json.loads(result.stdout)["arms"][0]
    assert result.exit_code == 0 and (arm["graded"], arm["resolved"]) == (1, 0)
    assert list(arm["exit_statuses"]) == ["AgentError: RecursionError: too deep"]


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
    folders = iter(["an unforeseen folder"])
    real = Grader.grade

    def grade(self: Grader, *given: Any, **more: Any) -> Any:
        for folder in folders:
            raise KeyError(folder)
        return real(self, *given, **more)

    monkeypatch.setattr(Grader, "grade", grade)
    monkeypatch.setattr("harness.scheduler.make_agent", lambda _, **_more: Scripted("true", ""))
    out = tmp_path / "out"
    result = invoke(bench, out, "--arm", "none", "--json", "--workers", "1", "--retries", "0")
    arm = json.loads(result.stdout)["arms"][0]
    assert result.exit_code == 1 and (arm["graded"], arm["infra"]) == (2, [{"stream": "1-1", "issue": "acme__shop-1"}])
    failed = next(event for event in read_events(out / "events.jsonl")[0] if event["event"] == "failed")
    assert "Traceback" in failed["traceback"] and "an unforeseen folder" in failed["reason"]
    assert invoke(bench, out, "--resume").exit_code == 0


def test_a_halted_attempt_stops_at_its_next_command_and_no_agent_can_take_that_for_an_error(tmp_path: Path) -> None:
    halt = threading.Event()
    with LocalEnvironment(tmp_path) as local:
        environment = Stoppable(local, halt)
        assert environment.execute("echo on").output == "on\n"
        halt.set()
        with pytest.raises(Stopped):
            environment.execute("touch never")
    assert not issubclass(Stopped, Exception) and not (tmp_path / "never").exists()


def test_a_trajectory_file_reads_back_as_it_was_and_says_what_memory_said(tmp_path: Path) -> None:
    steps = (
        Step("I look.", (Action("ls\necho 'ö'", "a\nb", 0),)),
        Step("I fix.", (Action("false", "", 1),)),
        Step("Done.", (Action("submit", "x", 0),)),
    )
    trajectory = Trajectory(steps, "Submitted", "diff --git a/x b/x\n", "a-1", "task", "mini-swe-agent-1.1", "none", "repair", 3, 0.0)
    text = trajectory_document(trajectory, "Memory: check None.", {"arm": "none"}, Limits(5))
    path = tmp_path / "trajs" / "a-1" / "a-1.traj.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    document = json.loads(text)
    read = read_as_it_is(tmp_path, "a-1")
    assert (read.steps, read.patch, read.exit_status, read.reported_calls, read.task) == (steps, trajectory.patch, "Submitted", 3, "task")
    assert "Memory: check None." in document["messages"][0]["content"] and document["info"]["model_stats"]["api_calls"] == 3
