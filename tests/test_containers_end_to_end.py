"""Whole experiments in containers, as a user starts them: mini-SWE-agent on a model that plays its part, graded by the official harness, killed and resumed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from container_bench import CANARY, IDS, NEVER, NOTES, PARTS, issue_id, scripts, write_bench
from fake_anthropic import FakeAnthropic, Reply, Request, isolate
from quick_bench import arms, facts
from scripted_model import ScriptedModel, place_of

from harness.clean import find_containers
from harness.environments.docker import LABEL
from swe_memory.cli import cli

if TYPE_CHECKING:
    from docker import DockerClient

ROOT = Path(__file__).resolve().parents[1]
NAMED = {part.name: issue_id(part) for part in PARTS}
EVERY = [flag for issue in IDS for flag in ("--instance", issue)]
THREE = [*arms("none", "reasoningbank", "derangement"), *EVERY]


@dataclass
class Model:
    """Plays its part in each issue, and does what a test wants to happen at a certain moment: once, before it answers."""

    played: ScriptedModel = field(default_factory=lambda: ScriptedModel(scripts()))
    moments: list[tuple[str, str, int, Callable[[], None]]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def at(self, part: str, place: int, happens: Callable[[], None], *, notes: bool = False) -> None:
        """When the model is asked for its reply number ``place`` (from 0) about ``part``, with or without notes in its prompt."""
        title = next(one.title for one in PARTS if one.name == part)
        self.moments.append((title, NOTES if notes else "", place, happens))

    def __call__(self, request: Request) -> str | Reply:
        with self.lock:
            due = [m for m in self.moments if m[0] in request.user and m[1] in request.system and m[2] == place_of(request)]
            self.moments = [moment for moment in self.moments if moment not in due]
        for *_, happens in due:
            happens()
        return self.played(request)


@dataclass(frozen=True)
class Place:
    """Where the experiments of this module run."""

    client: DockerClient
    rows: Path
    folder: Path
    model: Model
    api: FakeAnthropic

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def flags(self, out: str, *more: str) -> list[str]:
        what = ["--dataset", str(self.rows), "--environment", "docker", "--agent", "mini", "--model", "claude-haiku-5-5"]
        how = ["--test-seconds", "6", "--memory-gb", "1", "--retries", "0", "--out", str(self.folder / out)]
        return ["run", *what, *how, *more]

    def run(self, out: str, *more: str) -> Result:
        return CliRunner().invoke(cli, self.flags(out, *more))

    def good(self, out: str, *more: str) -> Path:
        """The folder of a run that must end well."""
        result = self.run(out, *more)
        assert result.exit_code == 0, (result.output, result.exception)
        return self.folder / out

    @contextlib.contextmanager
    def started(self, out: str, *more: str) -> Iterator[subprocess.Popen[str]]:
        """The same as a process of its own, with its standard error to be read."""
        command = [sys.executable, "-m", "swe_memory", *self.flags(out, *more)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def killed(self, out: str, part: str, place: int, *more: str, notes: bool = False) -> str:
        """What a run said until it was killed, when its model was asked for this reply."""
        with self.started(out, *more) as process:
            self.model.at(part, place, lambda: os.kill(process.pid, signal.SIGKILL), notes=notes)
            said = process.communicate(timeout=120)[1]
        assert process.returncode == -signal.SIGKILL, said
        return said

    def containers(self, out: str, *, grading: bool = False) -> list[str]:
        """The issues whose containers the engine still has. A kill leaves those of gradings to the process that grades: it removes them when it notices."""
        return [one.issue for one in find_containers(self.client, out) if grading or not one.attempt.startswith("grade-")]

    def kill_container(self, out: str, issue: str) -> None:
        found = self.client.api.containers(filters={"label": [f"{LABEL}run={out}", f"{LABEL}issue={issue}"]})
        self.client.api.kill(found[0]["Id"])  # of one arm: two may be at work on the issue


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = (out / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def outcomes(out: Path, arm: str) -> dict[str, str]:
    return {event["issue"]: event["outcome"] for event in events(out, "graded") if event["arm"] == arm}


@pytest.fixture(scope="module")
def place(engine: DockerClient, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("containers")
    (folder / "tmp").mkdir()
    rows = write_bench(engine, base_image, folder)
    model = Model()
    with pytest.MonkeyPatch.context() as patch, FakeAnthropic(model) as api:
        isolate(patch, folder / "home")
        patch.setenv("TMPDIR", str(folder / "tmp"))
        patch.setattr(tempfile, "tempdir", None)
        patch.setenv("ANTHROPIC_BASE_URL", api.url)
        patch.setenv("ANTHROPIC_API_KEY", api.key)
        yield Place(engine, rows, folder, model, api)


@pytest.fixture(scope="module")
def whole(place: Place) -> Path:
    """Six issues in three arms, undisturbed."""
    return place.good("whole", "--workers", "3", *THREE)


def test_each_way_in_which_tests_can_end_is_told_apart(whole: Path) -> None:
    assert outcomes(whole, "none") == {
        NAMED["shout"]: "resolved",
        NAMED["mirror"]: "unresolved",
        NAMED["initial"]: "not_applied",
        NAMED["total"]: "resolved",
        NAMED["spread"]: "empty_patch",
        NAMED["middle"]: "timed_out",
    }


def test_memory_arrives_and_decides(place: Place, whole: Path) -> None:
    given = {(e["arm"], e["issue"]): e["recall"] for e in events(whole, "started") if e["recall"]}
    told = {issue for (arm, issue), recall in given.items() if arm == "reasoningbank" and recall["item"]}
    assert {NAMED["mirror"], NAMED["middle"]} <= told
    assert {outcomes(whole, arm)[NAMED[name]] for arm in ("reasoningbank", "derangement") for name in ("mirror", "middle")} == {"resolved"}
    learned = {item["id"]: item["title"] for event in events(whole, "learned") for item in event["items"]}
    for issue in told:
        title = next(part.title for part in PARTS if issue_id(part) == issue)
        item = learned[given["reasoningbank", issue]["item"]]
        assert any(item in request.system for request in place.api.requests if title in request.user), issue


def test_nothing_of_hidden_tests_or_later_commits_is_in_any_request(place: Place, whole: Path) -> None:
    assert CANARY in place.rows.read_text() and whole.is_dir()
    assert [request.results for request in place.api.requests if CANARY in request.text] == []


# -- killed, and gone on with ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Disturbed:
    """The same experiment, killed twice, and with a container that somebody killed: the folder, and what was seen on the way."""

    folder: Path
    left: tuple[list[str], list[str]]
    cleaned: Result
    failing: Result


@pytest.fixture(scope="module")
def disturbed(place: Place) -> Disturbed:
    out = "disturbed"
    place.killed(out, "total", 2, *THREE)
    first = place.containers(out)
    cleaned = CliRunner().invoke(cli, ["clean", str(place.folder / out)])
    assert place.containers(out) == []
    place.killed(out, "middle", 2, *THREE, "--resume", notes=True)
    second = place.containers(out)
    place.model.at("middle", 2, lambda: place.kill_container(out, NAMED["middle"]), notes=True)
    failing = place.run(out, *THREE, "--resume")
    place.good(out, *THREE, "--resume")
    return Disturbed(place.folder / out, (first, second), cleaned, failing)


def test_what_a_kill_left_is_removed_by_clean_and_by_resume(disturbed: Disturbed) -> None:
    first, second = disturbed.left
    assert NAMED["total"] in first and NAMED["middle"] in second
    assert disturbed.cleaned.exit_code == 0
    assert all(f"disturbed none {issue}" in disturbed.cleaned.output for issue in first)
    removed = re.search(r"removed ([0-9]+) containers? (?:that was|that were) left behind", disturbed.failing.output)
    assert removed is not None and int(removed[1]) >= len(second)


def test_a_container_that_somebody_kills_costs_its_attempt_and_resume_makes_it_again(disturbed: Disturbed) -> None:
    assert disturbed.failing.exit_code == 1
    failed = events(disturbed.folder, "failed")
    assert [(event["issue"], event["stage"]) for event in failed] == [(NAMED["middle"], "run")]
    assert "was ended from outside" in failed[0]["reason"]
    assert f"1 attempt failed through the machine: {NAMED['middle']}" in disturbed.failing.output


def test_a_killed_run_comes_to_what_an_undisturbed_one_does(whole: Path, disturbed: Disturbed) -> None:
    found, expected = timeless(disturbed.folder), timeless(whole)
    assert found.keys() == expected.keys()
    for part in expected:
        assert found[part] == expected[part], part


def timeless(out: Path) -> dict[str, Any]:
    """What a run came to, without how long it took to prepare containers."""
    found = facts(out)
    for name, content in found.items():
        if name.endswith(".traj.json"):
            document = json.loads(content)
            assert document["info"]["swe_memory"]["prepared"]["future"].pop("seconds") >= 0
            found[name] = document
    return found


def test_nothing_is_left_when_runs_are_over(place: Place, whole: Path, disturbed: Disturbed) -> None:
    for out in (whole, disturbed.folder):
        assert place.containers(out.name, grading=True) == []
        assert [path.name for path in out.rglob("*") if path.name.endswith(".part")] == []
    assert [path.name for path in place.temporary.iterdir() if path.name != ".ses"] == []  # onnxruntime's own
    assert [pid for pid in Path("/proc").glob("[0-9]*") if os.fsencode(place.temporary) in _environment(pid)] == []


def _environment(process: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (process / "environ").read_bytes()
    return b""


# -- what is made of a run's folder -----------------------------------------------------------------------------------------------------------


def test_swebench_eval_grades_the_predictions_alike(place: Place, whole: Path, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("swebench")), "eval", str(place.rows), "-p", str(whole / "none" / "1-1" / "preds.json")]
    chosen = [flag for issue in IDS for flag in ("-i", issue)]
    done = subprocess.run(
        [*command, *chosen, "--run-id", "again", "-j", "3", "-t", "6", "--report-dir", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    reports = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len(reports) == 1, done.stderr[-2000:]
    assert sorted(reports[0]["resolved_ids"]) == sorted(
        issue for issue, outcome in outcomes(whole, "none").items() if outcome == "resolved"
    )
    assert reports[0]["empty_patch_ids"] == [NAMED["spread"]]
    assert {one["model_name_or_path"] for one in json.loads((whole / "none" / "1-1" / "preds.json").read_text()).values()} == {
        "mini+claude-haiku-5-5+none"
    }


def test_trajectories_open_in_the_inspector_of_mini_swe_agent(whole: Path) -> None:
    from minisweagent.run.utilities.inspector import TrajectoryInspector

    files = sorted(whole.rglob("*.traj.json"))
    assert len(files) == 18
    for file in files:
        inspector = TrajectoryInspector([file])
        assert inspector.n_steps >= 4 and inspector.messages[0]["role"] == "system"


def test_learn_finds_the_attempts_of_a_run(place: Place, whole: Path, tmp_path: Path) -> None:
    words = ["learn", str(whole / "none"), "--bank", str(tmp_path / "bank.lance"), "--issues", str(place.rows), "--json"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["found"], told["verdicts"]["resolved"], told["verdicts"]["source"]) == (6, 2, "tests")


# -- other protocols and arms -----------------------------------------------------------------------------------------------------------------


def test_a_growing_bank_teaches_the_next_wave(place: Place) -> None:
    issues = [NAMED[name] for name in ("shout", "mirror", "initial")]
    out = place.good(
        "online", "--protocol", "online", "--wave", "2", *arms("reasoningbank"), *(f for issue in issues for f in ("--instance", issue))
    )
    given = {event["issue"]: bool(event["recall"]["item"]) for event in events(out, "started")}
    assert given == dict(zip(issues, (False, False, True), strict=True))
    assert outcomes(out, "reasoningbank") == dict(zip(issues, ("resolved", "unresolved", "not_applied"), strict=True))


def test_the_reference_patches_tell_which_instance_is_broken_here(place: Place) -> None:
    calls = len(place.api.requests)
    what = ["--dataset", str(place.rows), "--instance", NEVER, "--instance", NAMED["spread"], "--test-seconds", "6"]
    result = CliRunner().invoke(cli, ["run", *what, *arms("gold"), "--out", str(place.folder / "gold")], env={"ANTHROPIC_API_KEY": ""})
    assert len(place.api.requests) == calls
    assert outcomes(place.folder / "gold", "gold") == {NAMED["spread"]: "resolved", NEVER: "unresolved"}
    assert result.exit_code == 1 and f"{NEVER}: unresolved; see {place.folder / 'gold'}" in result.output
    assert any(NEVER in line and "not resolved" in line for line in result.output.splitlines())


def test_the_reference_patches_tell_where_no_attempt_could_begin(place: Place, tmp_path: Path) -> None:
    """Grading starts from the image, and would not notice."""
    rows = [json.loads(line) for line in place.rows.read_text().splitlines()]
    row = next(row for row in rows if row["instance_id"] == NAMED["shout"]) | {"base_commit": "0" * 40}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    what = ["--dataset", str(tmp_path / "rows.jsonl"), *arms("gold"), "--retries", "0", "--out", str(place.folder / "no-base")]
    result = CliRunner().invoke(cli, ["run", *what])
    assert result.exit_code == 1
    assert [event["stage"] for event in events(place.folder / "no-base", "failed")] == ["run"]
    assert f"has no commit {'0' * 40}" in events(place.folder / "no-base", "failed")[0]["reason"]
