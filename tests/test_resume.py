"""A run that is killed anywhere and resumed is the run that nobody disturbed; and what else ``--resume`` promises."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from harness.dataset import load_dataset
from harness.events import read_events, read_state
from harness.folder import freeze
from harness.plan import Experiment
from harness.running import plan_experiment
from swe_memory.bank import MemoryBank
from swe_memory.errors import UsageError
from tests.killing import Ended, Killing, killing
from tests.quick_bench import Bench, differences, facts, issue_id, write_quick_bench
from tests.small_attempt import small_attempt

CROSSFIT = {"arms": ["none", "reasoningbank", "derangement"]}
ONLINE = {"arms": ["reasoningbank"], "protocol": "online", "wave": 2}
OFFLINE = {"arms": ["reasoningbank", "neutral"], "protocol": "offline"}
EXPERIMENTS: dict[str, dict[str, Any]] = {"crossfit": CROSSFIT, "online": ONLINE, "offline": OFFLINE}
# Online leaves its changes to be collected; in crossfit half of the attempts hand in nothing, so that their grading takes no time.
AGENTS: dict[str, dict[str, Any]] = {"crossfit": {"collected": False, "gives_up": [1, 2]}, "online": {}, "offline": {"collected": False}}


@dataclass(frozen=True)
class Place:
    """Where experiments of this module run: the dataset, a bank to be given, and a process that forks runs."""

    dataset: Path
    repositories: Path
    bank: Path
    killing: Killing
    folder: Path

    def run(self, name: str, out: Path, *, kill: tuple[str, int] | None = None, **more: Any) -> Ended:
        """Start the experiment of that name in ``out``, or go on with it."""
        options = {"out": out, "dataset": self.dataset, "repositories": self.repositories, **EXPERIMENTS[name], **more}
        if name == "offline":
            options["bank"] = self.bank
        if (out / "experiment.json").exists():
            options["resume"] = True
        temporary = out.with_name(f"{out.name}-tmp")
        temporary.mkdir(exist_ok=True)
        return self.killing.run(options, kill=kill, temporary=temporary, agent=dict(AGENTS[name]))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("resume")
    dataset, repositories = write_quick_bench(folder)
    with MemoryBank.open(folder / "given.lance") as bank:
        one = small_attempt()
        bank.learn(one.issue, one.trajectory, one.verdict)
    return Place(dataset, repositories, folder / "given.lance", killing(), folder)


@pytest.fixture(scope="module")
def undisturbed(place: Place) -> dict[str, dict[str, Any]]:
    """What the experiments come to when nobody kills them; made when it is asked for."""

    class Made(dict[str, dict[str, Any]]):
        def __missing__(self, name: str) -> dict[str, Any]:
            out = place.folder / name
            ended = place.run(name, out, workers=2)
            assert ended.code == 0, ended.said
            self[name] = facts(out)
            return self[name]

    return Made()


# One line a test: the experiment, and the points at which its first, second, ... session is killed. The next session ends undisturbed.
KILLS: list[tuple[str, list[tuple[str, int]]]] = [
    # The plan, the journal's beginning, and the very end.
    ("crossfit", [("before experiment.json", 1), ("part of experiment.json", 1), ("after experiment.json", 1), ("torn session", 1)]),
    ("crossfit", [("after session", 1), ("after session", 1)]),
    ("crossfit", [("before results.json", 1), ("part of results.json", 1), ("after results.json", 1)]),
    # An attempt's stages, in the baseline and in the arms that read a frozen bank.
    ("crossfit", [("torn started", 1), ("after started", 1), ("torn usage", 2), ("after usage", 3)]),
    ("crossfit", [("before trajectory", 2), ("part of trajectory", 1), ("after trajectory", 1), ("part of preds.json", 1)]),
    ("crossfit", [("after preds.json", 3), ("torn finished", 1), ("after finished", 1), ("before graded", 1)]),
    ("crossfit", [("torn graded", 4), ("after graded", 1), ("after usage", 7), ("after finished", 2)]),
    ("crossfit", [("after started", 7), ("after finished", 3), ("torn graded", 2)]),
    # A frozen bank: made, learned into, acknowledged, recalled from, frozen.
    ("crossfit", [("after tables", 1), ("after generation", 1), ("before rows", 1)]),
    ("crossfit", [("after rows", 1), ("after rows", 1), ("after commit", 1)]),
    ("crossfit", [("after commit", 2)]),
    ("crossfit", [("torn learned", 1), ("after learned", 1), ("torn learned", 1)]),
    ("crossfit", [("torn learned", 2), ("after learned", 2)]),
    ("crossfit", [("after learned", 3), ("before recalls", 1), ("part of recalls", 1)]),
    ("crossfit", [("after recalls", 1), ("part of recalls", 2), ("after recalls", 2)]),
    ("crossfit", [("after recalls", 4), ("torn frozen", 1), ("after frozen", 1)]),
    ("crossfit", [("after frozen", 2)]),
    # A growing bank, wave by wave.
    ("online", [("before tables", 1), ("after tables", 1), ("after generation", 1), ("after started", 2)]),
    ("online", [("after finished", 1), ("after graded", 1), ("before difference", 1), ("after difference", 1)]),
    ("online", [("after graded", 2), ("before rows", 1), ("after rows", 1), ("after commit", 1)]),
    ("online", [("after commit", 1), ("torn learned", 1), ("after learned", 1), ("after commit", 1)]),
    ("online", [("after commit", 2)]),
    ("online", [("after learned", 2), ("after started", 1), ("after usage", 5)]),
    ("online", [("after graded", 3), ("after commit", 1)]),
    ("online", [("after commit", 4), ("torn learned", 1), ("after learned", 1)]),
    # A bank that is given and copied.
    ("offline", [("copied file", 1), ("copied file", 4), ("before the name bank.lance", 1), ("after the name bank.lance", 1)]),
    ("offline", [("part of recalls", 2), ("before frozen", 1), ("after frozen", 1)]),
]


def test_there_are_fifty_points_and_more() -> None:
    assert len({(name, point) for name, points in KILLS for point in points}) >= 50


@pytest.mark.parametrize(
    ("number", "name", "points"),
    [
        pytest.param(number, name, points, id=f"{name}: {', '.join(f'{point} {n}' for point, n in points)}")
        for number, (name, points) in enumerate(KILLS)
    ],
)
def test_a_run_killed_anywhere_and_resumed_is_the_undisturbed_one(
    place: Place, undisturbed: dict[str, dict[str, Any]], tmp_path: Path, number: int, name: str, points: list[tuple[str, int]]
) -> None:
    out, acknowledged = tmp_path / "out", b""
    for session, point in enumerate(points):
        ended = place.run(name, out, kill=point, workers=(1, 2, 4)[(number + session) % 3])
        assert ended.killed, (point, ended.code, ended.said, ended.points)
        # Nothing that was acknowledged before is touched.
        journal = (out / "events.jsonl").read_bytes() if (out / "events.jsonl").exists() else b""
        assert journal.startswith(acknowledged[: acknowledged.rfind(b"\n") + 1])
        acknowledged = journal
    ended = place.run(name, out, workers=(2, 1, 4)[number % 3])
    assert ended.code == 0, ended.said
    assert differences(facts(out), undisturbed[name]) == []
    left = [path.name for path in tmp_path.rglob("*") if path.name.endswith(".part")]
    temporary = [path.name for path in out.with_name("out-tmp").iterdir() if not path.name.startswith(("swe-memory-grade-", ".tmp"))]
    assert left == [] and temporary == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="what a killed run left running is found by /proc")
@pytest.mark.parametrize("what", ["a command of the agent", "the hidden tests"])
def test_what_a_killed_run_left_running_ends_when_it_goes_on_and_its_folders_are_gone(place: Place, tmp_path: Path, what: str) -> None:
    pid, out, temporary, dataset = tmp_path / "pid", tmp_path / "out", tmp_path / "tmp", tmp_path / "rows.jsonl"
    temporary.mkdir()
    once = f"[ -e {pid} ] || (cd /; setsid --wait bash -c 'echo $$ > {pid}; exec sleep 300')"
    rows = [json.loads(line) for line in place.dataset.read_text().splitlines()]
    if what == "the hidden tests":
        rows = [{**row, "eval_script": row["eval_script"].replace("set -uxo", f"{once}\nset -uxo")} for row in rows]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    agent = {"command": once} if what != "the hidden tests" else {}
    options = {"out": out, "dataset": dataset, "repositories": place.repositories, "arms": ["none"]}
    assert place.killing.run(options, temporary=temporary, agent={**agent, "dies_when_there": str(pid)}).killed
    left = int(pid.read_text())
    assert alive(left), "it outlived the run, in a session of its own"
    ended = place.killing.run({**options, "resume": True}, temporary=temporary, agent=agent)
    assert ended.code == 0, ended.said
    assert not alive(left) and list(temporary.iterdir()) == []


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_ten_processes_started_on_one_folder_make_one_run_and_nine_refusals(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = {"out": out, "dataset": place.dataset, "repositories": place.repositories, "arms": ["none"]}
    ended = place.killing.race(10, options, temporary=tmp_path)
    assert sorted(one.code for one in ended) == [0] + [2] * 9, Counter(one.said for one in ended)
    reasons = {one.said.splitlines()[0] for one in ended if one.code == 2}
    assert reasons <= {f"another process is working on {out}", f"{out} holds this experiment already"}
    starts = Counter((event["arm"], event["issue"]) for event in read_events(out / "events.jsonl")[0] if event["event"] == "started")
    assert set(starts.values()) == {1} and len(starts) == 4


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"max_calls": 13}, "budget of 13 calls is reached: 13 made"),
        ({"max_cost": 3.25}, "budget of $3.25 is reached: $3.25 spent"),
        ({"max_tokens": 1430}, "budget of 1,430 tokens is reached: 1,430 used"),
    ],
    ids=["calls", "cost", "tokens"],
)
def test_what_killed_attempts_used_counts_in_the_budget(place: Place, tmp_path: Path, limit: dict[str, float], words: str) -> None:
    out = tmp_path / "out"
    options = {"out": out, "dataset": place.dataset, "repositories": place.repositories, "arms": ["none"], "workers": 1}
    never: dict[str, Any] = {"gives_up": []}
    # Two attempts of 5 calls, and three calls of a third one that is killed: 13, of which the journal shows 3 in no finished attempt.
    assert place.killing.run(options, kill=("after usage", 13), temporary=tmp_path, agent=never).killed
    state = read_state(out / "events.jsonl")
    assert state.spent.calls == 13 and sum(attempt.finished.get("calls", 0) for attempt in state.attempts.values()) == 10
    ended = place.killing.run({**options, **limit, "resume": True}, temporary=tmp_path, agent=never)
    assert ended.code == 1 and words in ended.said and "--resume" in ended.said
    assert sum(event["event"] == "started" for event in read_events(out / "events.jsonl")[0]) == 3
    ended = place.killing.run({**options, "resume": True, "max_calls": 1000}, temporary=tmp_path, agent=never)
    assert ended.code == 0, ended.said
    results = json.loads((out / "results.json").read_text())
    assert results["usage"]["all"]["calls"] == 20 + 3


def test_a_bank_that_was_not_copied_yet_must_be_named_again(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert place.run("offline", out, kill=("copied file", 2)).killed
    options = {"out": out, "dataset": place.dataset, "repositories": place.repositories, "resume": True}
    ended = place.killing.run(options, temporary=tmp_path)
    assert ended.code == 2 and "does not keep the place" in ended.said and "--bank" in ended.said
    assert place.run("offline", out, kill=("after the name bank.lance", 1)).killed
    ended = place.killing.run(options, temporary=tmp_path)  # it has its copy
    assert ended.code != 2, ended.said


# -- a changed setting -----------------------------------------------------------------------------------------------------------------------

GROWING: dict[str, Any] = {
    "arms": ("none", "reasoningbank"),
    "protocol": "online",
    "wave": 2,
    "order": "shuffled:3",
    "reruns": 2,
    "baseline_reruns": 2,
    "model": "claude-haiku-5-5",
    "seed": 5,
    "command_seconds": 60.0,
    "attempt_seconds": 60.0,
    "attempt_tokens": 6000,
    "attempt_cost": 6.0,
    "test_seconds": 60.0,
}
SPLIT: dict[str, Any] = {"arms": ("none", "reasoningbank"), "builds": 2, "seed": 5}
GIVEN: dict[str, Any] = {"arms": ("none", "reasoningbank"), "protocol": "offline", "bank": "given.lance"}
# Field of the frozen experiment -> its settings, and flags that ask for another value.
FLAGS: dict[str, tuple[dict[str, Any], list[object]]] = {
    "instances": (GROWING, ["--instance", issue_id(0), "--instance", issue_id(1)]),
    "agent": (GROWING, ["--agent", "command: true"]),
    "environment": (GROWING, ["--environment", "docker"]),
    "network": (GROWING, ["--network", "bridge"]),
    "cpus": (GROWING, ["--cpus", 1]),
    "memory_gb": (GROWING, ["--memory-gb", 1]),
    "arms": (GROWING, ["--arm", "none"]),
    "protocol": (GROWING, ["--protocol", "offline"]),
    "builds": (SPLIT, ["--builds", 1]),
    "wave": (GROWING, ["--wave", 1]),
    "orders": (GROWING, ["--order", "given"]),
    "folds": (SPLIT, ["--seed", 6]),
    "sequences": (GROWING, ["--order", "shuffled:4"]),
    "reruns": (GROWING, ["--reruns", 1]),
    "baseline_reruns": (GROWING, ["--baseline-reruns", 1]),
    "bank": (GIVEN, ["--bank", "other.lance"]),
    "verdict": (GROWING, ["--verdict", "tests"]),
    "extractor": (GROWING, ["--extractor", "llm"]),
    "model": (GROWING, ["--model", "claude-opus-4-1"]),
    "recall": (GROWING, ["--preset", "paper"]),
    "before": (GROWING, ["--before"]),
    "call_limit": (GROWING, ["--call-limit", 7]),
    "command_seconds": (GROWING, ["--command-seconds", 7]),
    "attempt_seconds": (GROWING, ["--attempt-seconds", 7]),
    "attempt_tokens": (GROWING, ["--attempt-tokens", 7]),
    "attempt_cost": (GROWING, ["--attempt-cost", 7]),
    "test_seconds": (GROWING, ["--test-seconds", 7]),
    "seed": (GROWING, ["--seed", 0]),
}
# These are not set but found: in the dataset, on the machine, by the other settings. Here the frozen value is another than what is found now.
FOUND: dict[str, Any] = {
    "dataset": "other.jsonl",
    "dataset_hash": "0" * 64,
    "dataset_revision": "0" * 40,
    "dataset_split": "train",
    "repositories": ["acme/other"] * 4,
    "dates": ["2020-01-01T00:00:00+00:00"] * 4,
    "endpoint": "another",
    "embedder": "another 0123",
    "versions": {"swe-memory": "0.0.1"},
    "prompts": {"memory_block": 99},
}
# What is told by another field's name, from which it follows.
TOLD_BY = {"folds": "seed", "sequences": "orders"}


def frozen(place: Place, settings: dict[str, Any]) -> Experiment:
    bank = str(place.bank) if "bank" in settings else None
    settings = {name: value for name, value in settings.items() if name != "bank"}
    return plan_experiment(load_dataset(place.dataset, repositories=place.repositories), settings, bank=bank)


def refused(place: Place, experiment: Experiment, out: Path, *flags: object) -> str:
    """Why a run of that experiment is not gone on with, with these flags."""
    out.mkdir()
    freeze(out, experiment, resume=False)
    before = sorted(path.name for path in out.iterdir())
    result = Bench(place.dataset, place.repositories).run(out, "--resume", *flags)
    assert isinstance(result.exception, UsageError), (result.output, result.exception)
    assert sorted({path.name for path in out.iterdir()} - {".lock"}) == before, "nothing was begun"
    return result.exception.what


def test_every_setting_of_an_experiment_is_looked_at_below() -> None:
    assert FLAGS.keys() | FOUND.keys() | {"format"} == {entry.name for entry in fields(Experiment)}


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_a_setting_that_is_changed_on_resume_is_refused_with_the_difference(place: Place, tmp_path: Path, name: str) -> None:
    settings, flags = FLAGS[name]
    if name == "bank":
        with MemoryBank.open(tmp_path / "other.lance"):
            flags = ["--bank", tmp_path / "other.lance"]
    said = refused(place, frozen(place, settings), tmp_path / "out", *flags)
    assert "holds another experiment" in said and f"{TOLD_BY.get(name, name)}: " in said
    assert ("there," in said and "asked for" in said) or name == "instances"


@pytest.mark.parametrize("name", sorted(FOUND))
def test_what_is_found_otherwise_on_resume_is_refused_with_the_difference(place: Place, tmp_path: Path, name: str) -> None:
    changed = Experiment.from_json({**frozen(place, GROWING).to_json(), name: FOUND[name]}, "here")
    assert f"{name}: " in refused(place, changed, tmp_path / "out")


def test_settings_that_are_given_again_as_they_are_or_not_at_all_are_no_change(place: Place, tmp_path: Path) -> None:
    settings = {**GROWING, "arms": ("none",), "seed": 0}
    freeze(tmp_path, frozen(place, settings), resume=False)
    bench = Bench(place.dataset, place.repositories)
    for flags in ([], ["--seed", 0, "--wave", 2, "--arm", "none", "--order", "shuffled:3", "--protocol", "online"]):
        assert bench.run(tmp_path, "--resume", *flags).exit_code == 0


def test_a_folder_with_other_things_is_refused_and_left_as_it_is(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "thesis.tex").write_text("precious")
    for flags in ((), ("--resume",)):
        result = Bench(place.dataset, place.repositories).run(out, *flags)
        assert isinstance(result.exception, UsageError) and result.exception.hint
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]
