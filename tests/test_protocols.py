"""Whole experiments: growing and given banks, what the machine's failures and limits make of an attempt, and how a run ends before its end.

What frozen banks and placebos promise is in test_crossfit.py, kills are in test_resume.py.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.agents import Assignment
from harness.environments import Environment
from harness.events import Journal, read_state
from harness.folder import read_experiment
from harness.gitcmd import GitError
from harness.grading import Grader
from harness.layout import lay_out
from swe_memory.bank import MemoryBank
from swe_memory.errors import EmbedderMismatch, InfraError, ModelError, SweMemoryError, UsageError
from swe_memory.records import Usage
from tests.banks import BagOfWords
from tests.fake_anthropic import FakeAnthropic, Hang, isolate
from tests.quick_bench import Bench, Scripted, arms, bank_facts, differences, facts, issue_id, make_bench, one_grading_process
from tests.small_attempt import small_attempt

FOUR = tuple(issue_id(number) for number in range(4))
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with one_grading_process():
        yield make_bench(tmp_path_factory.mktemp("bench"))


# -- growing banks ---------------------------------------------------------------------------------------------------------------------------

ONLINE = [*arms("reasoningbank"), "--protocol", "online", "--wave", 2]


@pytest.fixture(scope="module")
def streams(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two orders, each twice."""
    out = tmp_path_factory.mktemp("runs") / "streams"
    bench.good(out, *ONLINE, "--orders", 2, "--reruns", 2, "--workers", 4)
    return out


def test_the_attempts_of_a_wave_recall_from_the_bank_as_the_wave_before_left_it(streams: Path) -> None:
    state, layout = read_state(streams / "events.jsonl"), lay_out(read_experiment(streams))
    assert len(layout.banks) == 4
    for plan in layout.banks:
        learned = state.banks[plan.id].learned
        assert list(learned) == list(plan.lessons), "learned in the order of the stream"
        before = 0
        for wave in plan.waves:
            versions = {state.attempts[key].started["recall"]["bank_version"] for key in wave}
            assert versions == {before}
            before = max(learned[key]["bank_version"] for key in wave)
        assert before == 4


def test_a_stream_is_told_only_what_it_learned_itself_and_earlier(streams: Path) -> None:
    state, experiment = read_state(streams / "events.jsonl"), read_experiment(streams)
    given = 0
    for plan in lay_out(experiment).banks:
        of = {item["id"]: key for key, event in state.banks[plan.id].learned.items() for item in event["items"]}
        place = {key: number for number, wave in enumerate(plan.waves) for key in wave}
        for key in plan.lessons:
            recall = state.attempts[key].started["recall"]
            if recall["item"] is not None:
                given += 1
                assert place[of[recall["item"]]] < place[key] and recall["learned_from"] == of[recall["item"]][2] != key[2]
    assert given >= 4


def test_reruns_of_an_order_are_the_same_where_the_agent_is_and_orders_differ(streams: Path) -> None:
    banks = {name: bank_facts(streams / "reasoningbank" / name / "bank.lance") for name in ("1-1", "1-2", "2-1", "2-2")}

    def told(name: str) -> list[str]:
        return [line.replace(f"/{name}/", "/STREAM/") for part in ("experiences", "items") for line in banks[name][part]]

    assert told("1-1") == told("1-2") and told("2-1") == told("2-2") and told("1-1") != told("2-1")
    experiment = read_experiment(streams)
    assert experiment.sequence(1) == FOUR and sorted(experiment.sequence(2)) == sorted(FOUR) and experiment.sequence(2) != FOUR


def test_the_number_of_workers_changes_no_stream(bench: Bench, streams: Path, tmp_path: Path) -> None:
    bench.good(tmp_path / "one", *ONLINE, "--orders", 2, "--reruns", 2, "--workers", 1)
    assert differences(facts(tmp_path / "one"), facts(streams)) == []


@pytest.fixture(scope="module")
def whole_stream(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The facts of one stream that nothing happened to."""
    out = tmp_path_factory.mktemp("runs") / "stream"
    bench.good(out, *ONLINE)
    return facts(out)


# -- a given bank ----------------------------------------------------------------------------------------------------------------------------


def given_bank(path: Path, **more: Any) -> Path:
    with MemoryBank.open(path, **more) as bank:
        for outcome in ("resolved", "unresolved"):
            one = small_attempt(
                outcome, issue_text=f"Totals are wrong words ({outcome})\n\nAsked for the total of goods, another word is returned."
            )
            bank.learn(one.issue, one.trajectory, one.verdict)
    return path


def every_byte(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_given_bank_and_its_frozen_copy_keep_every_byte(bench: Bench, tmp_path: Path) -> None:
    source = given_bank(tmp_path / "mine.lance")
    before = every_byte(source)
    out = tmp_path / "out"
    state = bench.good(out, *arms("none", "reasoningbank", "reasoningbank:k=2"), "--protocol", "offline", "--bank", source)
    assert every_byte(source) == before == every_byte(out / "banks" / "given" / "offline" / "bank.lance")
    assert state.banks["given/offline"].frozen["experiences"] == 1 and not state.banks["given/offline"].learned


@pytest.mark.parametrize("kind", ["nothing", "a file", "an empty folder", "another folder", "an address", "another embedder", "of the run"])
def test_a_bank_that_cannot_be_recalled_from_is_refused_before_anything_is_written(bench: Bench, tmp_path: Path, kind: str) -> None:
    bank: object = tmp_path / "mine.lance"
    if kind == "a file":
        (tmp_path / "mine.lance").write_text("a bank?")
    elif kind == "an empty folder":
        (tmp_path / "mine.lance").mkdir()
    elif kind == "another folder":
        (tmp_path / "mine.lance").mkdir()
        (tmp_path / "mine.lance" / "thesis.tex").write_text("precious")
    elif kind == "an address":
        bank = "s3://bucket/mine.lance"
    elif kind == "another embedder":
        given_bank(tmp_path / "mine.lance", embedder=BagOfWords(name="lancedb:nowhere:none"))
    elif kind == "of the run":
        bank = bench.repositories
    before = every_byte(tmp_path)
    result = bench.run(tmp_path / "out", *arms("none", "reasoningbank"), "--protocol", "offline", "--bank", bank)
    assert isinstance(result.exception, SweMemoryError) and str(bank) in result.exception.what and result.exception.hint
    assert isinstance(result.exception, EmbedderMismatch | UsageError | SweMemoryError)
    assert every_byte(tmp_path) == before and not (tmp_path / "out").exists()


# -- reference patches -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["crossfit", "online"])
def test_reference_patches_resolve_all_and_are_no_agent(bench: Bench, tmp_path: Path, protocol: str) -> None:
    out = tmp_path / "out"
    state = bench.good(out, *arms("gold", "none"), "--protocol", protocol)
    gold = [attempt for key, attempt in state.attempts.items() if key[0] == "gold"]
    assert len(gold) == 4 and all(attempt.graded["resolved"] and attempt.graded["verdict"] is None for attempt in gold)
    results = json.loads((out / "results.json").read_text())
    assert [arm["arm"] for arm in results["arms"]] == ["none"] and results["comparisons"] == []
    assert results["environment"] == [{"checked": 4, "resolved": 4, "failing": []}]
    assert not list(out.glob("gold/**/*.traj.json")) and not list(out.glob("gold/**/preds.json"))


# -- failures of the machine -----------------------------------------------------------------------------------------------------------------

ARMS = ("none", "reasoningbank", "derangement", "preamble", "neutral")
# What an attempt at an issue meets -> what it counts as, in every arm.
MET: tuple[tuple[Exception, str], ...] = (
    (InfraError("the image is gone"), "infra"),
    (GitError("git cannot do it"), "infra"),
    (OSError(errno.ENOSPC, "No space left on device"), "infra"),
    (ConnectionResetError("reset by peer"), "infra"),
    (ModelError("overloaded"), "infra"),
    (TimeoutError("took too long"), "infra"),
    (ValueError("a bug of the agent"), "AgentError: ValueError: a bug of the agent"),
    (MemoryError("too much"), "AgentError: MemoryError: too much"),
)


def test_what_an_error_counts_as_does_not_depend_on_the_arm(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, issues=len(MET))
    out = tmp_path / "out"
    met: set[str] = set()

    def fail(work: Assignment, environment: Environment) -> None:
        error = MET[int(work.issue.id.rpartition("-")[2]) - 1][0]
        # The baseline's own first attempts come through, so that there is something to be given.
        if work.issue.id in met:
            raise error
        met.add(work.issue.id)

    bench.run(out, *arms(*ARMS), "--baseline-reruns", 2, "--retries", 0, "--workers", 1, agent=Scripted(before=fail))
    state = read_state(out / "events.jsonl")
    for number, (_, expected) in enumerate(MET):
        attempts = [attempt for key, attempt in state.attempts.items() if key[2] == issue_id(number) and key[:2] != ("none", "1-1")]
        assert len(attempts) == len(ARMS)
        assert {"infra" if attempt.infra else attempt.finished["exit_status"] for attempt in attempts} == {expected}


def failing(times: int) -> Callable[[Assignment, Environment], None]:
    """The first ``times`` tries at the second issue fail."""
    left = [1] * times

    def fail(work: Assignment, environment: Environment) -> None:
        if work.issue.id == FOUR[1] and left:
            left.pop()
            work.meter.add(Usage(1, 50, 5, 0.1))
            raise InfraError("the network is down")

    return fail


def test_a_failure_of_the_machine_is_tried_again_after_its_waits_and_leaves_nothing_but_what_it_used(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_stream: dict[str, Any]
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", (0.0, 0.01))
    out = tmp_path / "out"
    state = bench.good(out, *ONLINE, "--retries", 2, agent=Scripted(before=failing(2)))
    attempt = state.attempts["reasoningbank", "1-1", FOUR[1]]
    assert (attempt.failures, attempt.starts, attempt.infra) == (("the network is down",) * 2, 3, False)
    found = facts(out)
    assert found.pop("usage") > whole_stream["usage"]
    assert differences(found, {name: fact for name, fact in whole_stream.items() if name != "usage"}) == []
    assert state.spent.calls == 18 + 2, "what failed tries used counts"


def test_beyond_the_limit_it_is_listed_not_judged_and_not_learned_from_and_resume_tries_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", (0.0,))
    out, lost = tmp_path / "out", ("reasoningbank", "1-1", FOUR[1])
    result = bench.run(out, *ONLINE, "--retries", 1, agent=Scripted(before=failing(2)))
    state = read_state(out / "events.jsonl")
    assert result.exit_code == 1 and f"1 attempt failed through the machine: {FOUR[1]} (reasoningbank 1-1)" in result.output
    assert [key for key, attempt in state.attempts.items() if attempt.infra] == [lost]
    assert not state.attempts[lost].finished and not state.attempts[lost].graded
    assert [key[2] for key in state.banks["reasoningbank/1-1"].learned] == [FOUR[0], FOUR[2], FOUR[3]]
    results = json.loads((out / "results.json").read_text())
    (listed,), (arm,) = results["infra"], results["arms"]
    assert (listed["arm"], listed["issue"], listed["tries"], listed["reason"]) == ("reasoningbank", FOUR[1], 2, "the network is down")
    assert (arm["planned"], arm["graded"], arm["infra"]) == (4, 3, [{"stream": "1-1", "issue": FOUR[1]}]) and not results["complete"]
    again = bench.good(out, "--resume")
    # The stream has moved on: what it recalls now is what it would have recalled then, and nothing is learned from it any more.
    assert again.attempts[lost].graded and again.attempts[lost].started["recall"]["bank_version"] == 0
    assert lost not in again.banks["reasoningbank/1-1"].learned
    assert json.loads((out / "results.json").read_text())["complete"]


def test_tests_that_fail_through_the_machine_are_run_again_without_the_agent(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", (0.0,))
    left = [1, 1]
    real = Grader.grade

    def grade(self: Grader, *given: Any, **more: Any) -> Any:
        if left:
            left.pop()
            raise InfraError("the container died")
        return real(self, *given, **more)

    monkeypatch.setattr(Grader, "grade", grade)
    flags = [*arms("none"), "--instance", FOUR[0], "--retries", 1]
    result = bench.run(tmp_path / "out", *flags)
    assert result.exit_code == 1
    state = bench.good(tmp_path / "out", *flags, "--resume")
    (attempt,) = state.attempts.values()
    assert attempt.starts == 1 and len(attempt.failures) == 2 and attempt.graded["resolved"]


# -- limits ----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "limit", "status", "name", "calls"),
    [
        ("--call-limit", 2, "LimitsExceeded", "calls", 2),
        ("--attempt-tokens", 220, "TokenLimitExceeded", "tokens", 2),
        ("--attempt-cost", 0.5, "CostLimitExceeded", "cost", 2),
        ("--attempt-seconds", 1e-9, "TimeLimitExceeded", "seconds", 0),
    ],
)
def test_a_limit_of_an_attempt_is_how_it_ended_and_is_counted_by_arm(
    bench: Bench, tmp_path: Path, flag: str, limit: float, status: str, name: str, calls: int
) -> None:
    out = tmp_path / "out"
    two = [part for name in FOUR[:2] for part in ("--instance", name)]
    state = bench.good(out, *arms("none", "reasoningbank"), *two, flag, limit)
    for attempt in state.attempts.values():
        assert (attempt.finished["exit_status"], attempt.finished["limit"]) == (status, name)
        assert (attempt.usage.calls, attempt.infra) == (calls, False)
        assert attempt.graded["outcome"] == "empty_patch"
    for arm in json.loads((out / "results.json").read_text())["arms"]:
        assert (arm["limit_hits"], arm["infra"], arm["graded"]) == ({status: 2}, [], 2)


def test_a_run_of_an_hour_ends_after_its_hour_and_goes_on_with_another(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count(step=600)  # ten minutes at each look
    monkeypatch.setattr("harness.scheduler.Journal", lambda path: Journal(path, timer=lambda: float(next(ticks))))
    out = tmp_path / "out"
    result = bench.run(out, *arms("none"), "--max-hours", 1, "--workers", 1)
    assert result.exit_code == 1 and "the run's budget of 1 h 00 min is reached" in result.output
    assert 0 < len(read_state(out / "events.jsonl").attempts) < 4
    assert all(attempt.graded for attempt in read_state(out / "events.jsonl").attempts.values())
    bench.good(out, *arms("none"), "--resume", "--max-hours", 1000)


def test_a_clock_that_is_set_back_changes_no_result(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_stream: dict[str, Any]
) -> None:
    back = count()

    def clock() -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) - timedelta(days=next(back))

    monkeypatch.setattr("harness.scheduler.Journal", lambda path: Journal(path, clock=clock))
    out = tmp_path / "out"
    assert bench.run(out, *ONLINE, "--max-calls", 9).exit_code == 1
    bench.good(out, *ONLINE, "--resume", "--max-hours", 1)
    assert differences(facts(out), whole_stream) == []


# -- the end before the end ------------------------------------------------------------------------------------------------------------------

RUNNER = "import sys; from swe_memory.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("how", ["ctrl-c twice", "a closed terminal"])
def test_a_run_that_is_stopped_now_ends_a_program_that_sleeps_and_all_that_it_started(bench: Bench, tmp_path: Path, how: str) -> None:
    out, started = tmp_path / "out", tmp_path / "started"
    agent = f"command: setsid bash -c 'echo $$ > {started}; exec sleep 300' & wait"
    flags = [
        "--dataset",
        bench.dataset,
        "--repositories",
        bench.repositories,
        "--out",
        out,
        *arms("none"),
        "--agent",
        agent,
        "--workers",
        1,
    ]
    process = subprocess.Popen([sys.executable, "-c", RUNNER, "run", *map(str, flags)], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    waited(lambda: started.exists() and started.read_text().endswith("\n"), process)
    assert process.stderr is not None
    if how == "ctrl-c twice":
        process.send_signal(signal.SIGINT)
        said = ""
        while "Ctrl-C again stops at once" not in said:
            said += process.stderr.readline()
        assert process.poll() is None
    process.send_signal(signal.SIGINT if how == "ctrl-c twice" else signal.SIGHUP)
    began = time.monotonic()
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in rest and "Traceback" not in rest
    # A second or so; a busy machine gets more. The command itself would have gone on for minutes.
    assert time.monotonic() - began < 15
    left = Path(f"/proc/{int(started.read_text())}/stat")
    assert not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z"
    state = read_state(out / "events.jsonl")
    assert [attempt.finished for attempt in state.attempts.values()] == [{}] and not any(a.failures for a in state.attempts.values())


def test_ctrl_c_during_the_last_attempt_leaves_a_finished_run(bench: Bench, tmp_path: Path) -> None:
    def interrupt(work: Assignment, environment: Environment) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "out"
    state = bench.good(out, *arms("none"), "--instance", FOUR[0], agent=Scripted(before=interrupt))
    assert all(attempt.graded for attempt in state.attempts.values()) and json.loads((out / "results.json").read_text())["complete"]


def waited(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for an event of a process that must go on running until then."""
    while not happened():
        assert process.poll() is None, process.communicate()
        threading.Event().wait(0.01)


def test_ctrl_c_twice_does_not_wait_for_a_model_that_does_not_answer(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)
    monkeypatch.setattr("harness.interrupts.LONGEST_END", 0.05)
    out, asked = tmp_path / "out", threading.Event()
    flags = [*arms("none", "reasoningbank"), "--verdict", "llm", "--model", "claude-haiku-5-5", "--workers", 1]

    def silent(request: object) -> Hang:
        if not asked.is_set():
            asked.set()
            os.kill(os.getpid(), signal.SIGINT)
        return Hang()

    def again(self: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("harness.telling.Teller.interrupted", again)
    with FakeAnthropic(silent) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
        result = bench.run(out, *flags)
    assert isinstance(result.exception, KeyboardInterrupt) or result.exit_code in (1, 130)
    state = read_state(out / "events.jsonl")
    (attempt,) = (attempt for attempt in state.attempts.values() if attempt.finished)
    assert not attempt.graded and attempt.failures == ()


def test_a_reader_of_the_progress_that_goes_away_stops_nothing(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: object, text: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("harness.telling.Teller.say", gone)
    bench.good(tmp_path / "out", *arms("none"))


SPLIT = arms("none", "reasoningbank")


@pytest.fixture(scope="module")
def whole_split(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("runs") / "split"
    bench.good(out, *SPLIT)
    return facts(out)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount(8) here")
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("room", [4, 24, 60, 200, 400])
def test_a_disk_that_gets_full_in_the_middle_is_said_and_with_room_the_run_goes_on(
    bench: Bench, small_disk: Path, room: int, whole_split: dict[str, Any]
) -> None:
    out, filler = small_disk / "out", small_disk / "filler"
    left = shutil.disk_usage(small_disk).free
    filler.write_bytes(b"x" * (left - room * 1024))
    result = bench.run(out, *SPLIT, "--retries", 0)
    assert isinstance(result.exception, SweMemoryError) and result.exception.hint, (result.exception, result.output)
    assert "No space left on device" in result.exception.what or "the disk is full" in result.exception.what
    # It is the run's disk, not one attempt's machine: nothing is taken for lost, tried again or left out of a bank.
    assert not any(attempt.failures for attempt in read_state(out / "events.jsonl").attempts.values())
    filler.unlink()
    bench.good(out, *SPLIT, *(["--resume"] if (out / "experiment.json").exists() else []))
    assert differences(facts(out), whole_split) == []


@pytest.mark.parametrize("name", ["trajs", "logs", "preds.json"])
def test_what_cannot_be_written_into_the_run_ends_it_and_is_no_failure_of_an_attempt(bench: Bench, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    way = out / "none" / "1-1" / name

    def block(work: Assignment, environment: Environment) -> None:
        way.parent.mkdir(parents=True, exist_ok=True)
        if name == "preds.json":
            way.mkdir(exist_ok=True)
        else:
            way.touch()

    result = bench.run(out, *arms("none"), "--workers", 1, agent=Scripted(before=block))
    assert isinstance(result.exception, SweMemoryError) and str(way) in result.exception.what
    assert not any(attempt.failures for attempt in read_state(out / "events.jsonl").attempts.values())
    way.rmdir() if way.is_dir() else way.unlink()
    bench.good(out, "--resume")


# -- bad input -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("", "is empty"),
        ("twice", "comes twice"),
        ("[]", "not a JSON object"),
        ('{"instance_id": "a-1"}', "FAIL_TO_PASS"),
        ("{", "not valid JSON"),
    ],
    ids=["empty", "twice", "a list", "no columns", "cut"],
)
def test_a_dataset_that_is_none_is_refused_before_anything_is_written(bench: Bench, tmp_path: Path, rows: str, words: str) -> None:
    good = bench.dataset.read_text()
    path = tmp_path / "rows.jsonl"
    path.write_text(good + good if rows == "twice" else rows)
    result = Bench(path, bench.repositories).run(tmp_path / "out")
    assert isinstance(result.exception, UsageError) and words in result.exception.what and result.exception.hint
    assert "rows.jsonl" in result.exception.what and not (tmp_path / "out").exists()
