"""Whole experiments with frozen banks: halves, placebos on the same bank, a given bank, and what a run's limits and the user can stop.

The agent plays a part and the hidden tests take no time, so that one module-wide run has every kind of arm.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.agents import Agent, Assignment
from harness.compare import comparison
from harness.dataset import Dataset, load_dataset
from harness.environments import Environment
from harness.events import RunState, read_events, read_state, write_file
from harness.folder import freeze, locked
from harness.layout import lay_out
from harness.plan import Experiment
from harness.running import plan_experiment
from harness.scheduler import Outcome, Run, Settings, complete
from swe_memory.bank import MemoryBank
from swe_memory.errors import InfraError
from tests.quick_bench import Scripted, bank_facts, facts, issue_id, write_quick_bench

ARMS = ("none", "reasoningbank:threshold=0", "reasoningbank:threshold=0,success-only", "derangement", "preamble", "neutral", "gold")
MEMORY = "reasoningbank:threshold=0"
FOUR = tuple(issue_id(number) for number in range(4))


@dataclass
class Heard:
    """What agents were told: issue -> the memory's text, once for each attempt."""

    memory: dict[str, list[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, work: Assignment, environment: Environment) -> None:
        with self.lock:
            self.memory.setdefault(work.issue.id, []).append(work.memory)


@dataclass(frozen=True)
class Done:
    """A finished run."""

    folder: Path
    experiment: Experiment
    state: RunState
    result: dict[str, Any]
    heard: Heard
    said: list[Outcome]
    run: Run


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    rows, repositories = write_quick_bench(tmp_path_factory.mktemp("bench"), issues=6)
    return load_dataset(rows, repositories=repositories)


def carry_out(
    out: Path,
    dataset: Dataset,
    given: dict[str, Any],
    *,
    agent: Agent | None = None,
    bank: str | None = None,
    instances: tuple[str, ...] = (),
    resume: bool = False,
    on_interrupt: Callable[[], None] = lambda: None,
    **settings: Any,
) -> Done:
    heard = Heard()
    experiment = plan_experiment(dataset, given, instances, bank=bank)
    said: list[Outcome] = []
    options = Settings(**{"workers": 4, "retries": (), "given_bank": bank or "", **settings})
    with locked(out):
        freeze(out, experiment, resume=resume)
        work = Run(out, experiment, dataset, options, said.append, agent=agent or Scripted(before=heard))
        state = work.execute(on_interrupt)
        result = comparison(experiment, state, out.name)
        write_file(out / "results.json", json.dumps(result))
    return Done(out, experiment, state, result, heard, said, work)


@pytest.fixture(scope="module")
def done(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Done:
    return carry_out(tmp_path_factory.mktemp("runs") / "whole", dataset, {"arms": ARMS})


def recalls(done: Done, arm: str) -> dict[str, Any]:
    """Issue -> the record of what an arm's attempt ran with."""
    return {key[2]: attempt.started["recall"] for key, attempt in done.state.attempts.items() if key[0] == arm}


def texts(done: Done, arm: str) -> dict[str, str]:
    """Issue -> the text that an arm's attempt was given, as its trajectory tells."""
    place = done.folder / next(a.folder for a in done.experiment.conditions() if a.name == arm) / "1-1" / "trajs"
    found = {}
    for path in place.glob("*/*.traj.json"):
        system = json.loads(path.read_text())["messages"][0]["content"]
        found[path.parent.name] = system.partition("\n\n")[2]
    return found


def test_everything_is_done_and_the_folder_holds_it(done: Done) -> None:
    assert complete(lay_out(done.experiment), done.state) and done.result["complete"] and done.result["problems"] == []
    banks = {plan.id: done.folder / plan.place for plan in lay_out(done.experiment).banks}
    assert set(banks) == {f"{family}/1-{fold}" for family in ("reasoningbank", "reasoningbank-success-only") for fold in "ab"}
    assert all((place / "bank.lance").is_dir() for place in banks.values())
    streams = sorted(str(path.parent.relative_to(done.folder)) for path in done.folder.rglob("preds.json"))
    assert streams == sorted(f"{arm.folder}/1-1" for arm in done.experiment.conditions() if arm.kind != "gold")
    assert {path.name for path in done.folder.iterdir()} <= {
        *(arm.folder for arm in done.experiment.conditions()),
        *("banks", "experiment.json", "events.jsonl", "results.json", ".lock"),
    }


def test_each_half_is_told_only_what_the_baseline_did_in_the_other(done: Done) -> None:
    letter = dict(zip(done.experiment.instances, done.experiment.folds[0], strict=True))
    given = [(issue, record) for arm in ARMS[1:4] for issue, record in recalls(done, arm).items() if record["item"]]
    assert len(given) >= 12
    for issue, record in given:
        assert letter[record["learned_from"]] != letter[issue]
    for plan in lay_out(done.experiment).banks:
        with MemoryBank.open(done.folder / plan.place / "bank.lance", read_only=True) as bank:
            assert {letter[experience.issue.id] for experience in bank.experiences()} <= {plan.id[-1]}
            assert {experience.source.split("/")[0] for experience in bank.experiences()} == {"none"}
    events = read_events(done.folder / "events.jsonl")[0]
    assert {event["arm"] for event in events if event["event"] == "learned"} == {"none"}


def test_no_attempt_begins_before_its_bank_is_frozen_and_nothing_is_learned_after(done: Done) -> None:
    frozen: set[str] = set()
    for event in read_events(done.folder / "events.jsonl")[0]:
        if event["event"] == "frozen":
            frozen.add(event["bank"])
        elif event["event"] == "started":
            assert event["bank"] is None or event["bank"] in frozen
        elif event["event"] == "learned":
            assert event["bank"] not in frozen
    for plan in lay_out(done.experiment).banks:
        said = done.state.banks[plan.id].frozen
        with MemoryBank.open(done.folder / plan.place / "bank.lance", read_only=True) as bank:
            assert bank.version == said["version"] and len(bank.experiences()) == said["experiences"] == len(
                done.state.banks[plan.id].learned
            )


def test_placebos_get_text_exactly_where_memory_gave_an_item_and_never_the_same(done: Done) -> None:
    memory, shown = recalls(done, MEMORY), texts(done, MEMORY)
    assert any(record["item"] for record in memory.values())
    for arm in ("derangement", "preamble", "neutral"):
        placebo, said = recalls(done, arm), texts(done, arm)
        assert set(placebo) == set(memory) == set(done.experiment.instances)
        for issue, record in placebo.items():
            assert record["control"] == arm and record["bank_version"] == memory[issue]["bank_version"]
            assert bool(record["characters"]) == bool(memory[issue]["item"]) == bool(said[issue])
            assert said[issue] != shown[issue] or not said[issue]
            if record["characters"]:
                # Where a bank this small has no other item for an issue, its derangement is neutral text, and says so.
                assert bool(record["item"]) == (arm == "derangement" and "neutral" not in " ".join(record["reasons"]))
                assert record["item"] != memory[issue]["item"] and record["learned_from"] != issue
    assert any(record["item"] for record in recalls(done, "derangement").values())
    kinds = {attempt.started["bank"] for key, attempt in done.state.attempts.items() if key[0] in (MEMORY, "derangement", "neutral")}
    assert kinds == {"reasoningbank/1-a", "reasoningbank/1-b"}


def test_what_the_journal_says_was_given_is_what_the_agent_was_told(done: Done) -> None:
    for issue in done.experiment.instances:
        told = sorted(done.heard.memory[issue])
        recorded = sorted(texts(done, arm.name)[issue] for arm in done.experiment.conditions() if arm.kind != "gold")
        assert told == recorded and told.count("") >= 1
    for arm in done.experiment.conditions():
        for issue, record in recalls(done, arm.name).items() if arm.kind in ("memory", "control") else ():
            assert record["characters"] == len(texts(done, arm.name)[issue])


def test_an_arm_learns_from_the_outcomes_that_it_asks_for(done: Done) -> None:
    def outcomes(family: str) -> set[str]:
        found = set()
        for fold in "ab":
            with MemoryBank.open(done.folder / "banks" / family / f"1-{fold}" / "bank.lance", read_only=True) as bank:
                found |= {experience.verdict.outcome for experience in bank.experiences()}
        return found

    assert outcomes("reasoningbank") == {"resolved", "unresolved"} and outcomes("reasoningbank-success-only") == {"resolved"}


def test_reference_patches_pass_and_have_no_trajectory_and_no_verdict(done: Done) -> None:
    assert done.result["environment"] == [{"checked": 6, "resolved": 6, "failing": []}]
    assert not (done.folder / "gold" / "1-1" / "trajs").exists() and not (done.folder / "gold" / "1-1" / "preds.json").exists()
    gold = [attempt for key, attempt in done.state.attempts.items() if key[0] == "gold"]
    assert all(attempt.graded["verdict"] is None and attempt.finished["exit_status"] == "Gold" for attempt in gold)
    assert "gold" not in {arm["arm"] for arm in done.result["arms"]}


def test_all_that_the_agents_used_is_in_the_journal_and_the_results(done: Done) -> None:
    steps = sum(attempt.finished["calls"] for key, attempt in done.state.attempts.items() if key[0] != "gold")
    used = done.result["usage"]["agent"]
    assert (used["calls"], used["input_tokens"], used["output_tokens"], used["cost"]) == (steps, 100 * steps, 10 * steps, 0.25 * steps)
    assert done.said[-1].spent.calls == steps


def test_the_number_of_workers_changes_no_result(dataset: Dataset, tmp_path: Path) -> None:
    given = {"arms": ("none", MEMORY, "derangement")}
    found = [facts(carry_out(tmp_path / str(workers), dataset, given, instances=FOUR, workers=workers).folder) for workers in (1, 8)]
    assert found[0] == found[1]


def test_a_lesson_that_the_machine_lost_is_named_and_its_bank_stays_as_it_was_frozen(dataset: Dataset, tmp_path: Path) -> None:
    out, given = tmp_path / "out", {"arms": ("none", MEMORY)}
    lost = issue_id(1)

    def fail(work: Assignment, environment: Environment) -> None:
        if work.issue.id == lost and not work.memory:
            raise InfraError("the disk is full")

    first = carry_out(out, dataset, given, agent=Scripted(before=fail), instances=FOUR)
    failed = [entry for entry in first.result["infra"] if entry["arm"] == "none"]
    assert [(entry["issue"], entry["reason"]) for entry in failed] == [(lost, "the disk is full")] and not first.result["complete"]
    letter = dict(zip(first.experiment.instances, first.experiment.folds[0], strict=True))[lost]
    assert first.state.banks[f"reasoningbank/1-{letter}"].frozen["missing"] == [["none", "1-1", lost]]
    assert any("was frozen without 1 attempt" in sentence for sentence in first.result["sentences"])
    before = bank_facts(out / "banks" / "reasoningbank" / f"1-{letter}" / "bank.lance")
    again = carry_out(out, dataset, given, instances=FOUR, resume=True)
    assert again.result["complete"] and again.state.attempts["none", "1-1", lost].graded
    assert bank_facts(out / "banks" / "reasoningbank" / f"1-{letter}" / "bank.lance") == before
    assert lost not in {record["learned_from"] for record in recalls(again, MEMORY).values()}


def test_a_given_bank_is_copied_recalled_from_and_left_alone(done: Done, dataset: Dataset, tmp_path: Path) -> None:
    source = tmp_path / "mine.lance"
    shutil.copytree(done.folder / "banks" / "reasoningbank" / "1-a" / "bank.lance", source)
    before = bank_facts(source)
    given = {"arms": ("none", MEMORY, "derangement"), "protocol": "offline"}
    run = carry_out(tmp_path / "out", dataset, given, bank=str(source))
    assert run.result["complete"] and bank_facts(source) == before == bank_facts(
        tmp_path / "out" / "banks" / "given" / "offline" / "bank.lance"
    )
    assert run.experiment.bank["name"] == "mine.lance" and run.experiment.bank["experiences"] == len(before["experiences"])
    records = recalls(run, MEMORY)
    assert sum(bool(record["item"]) for record in records.values()) >= 4
    # Half of the issues have attempts in it: their own are not given to them.
    assert all(record["learned_from"] != issue for arm in (MEMORY, "derangement") for issue, record in recalls(run, arm).items())
    assert not [event for event in read_events(run.folder / "events.jsonl")[0] if event["event"] == "learned"]
    # The bank may have grown meanwhile: the run goes on with what it copied.
    shutil.rmtree(source)
    experiment = plan_experiment(dataset, {}, frozen=run.experiment)
    assert experiment == run.experiment


def test_at_its_limit_a_run_ends_what_is_under_way_and_can_go_on(dataset: Dataset, tmp_path: Path) -> None:
    limit, words = {"max_cost": 1.5}, "budget of $1.50"
    given = {"arms": ("none", MEMORY)}
    first = carry_out(tmp_path / "out", dataset, given, instances=FOUR, workers=1, **limit)
    assert words in first.run.stopped_by and not first.result["complete"]
    assert 0 < len(first.state.attempts) < 8 and all(attempt.graded for attempt in first.state.attempts.values())
    # What earlier sessions used counts: nothing begins under the same limit.
    again = carry_out(tmp_path / "out", dataset, given, instances=FOUR, workers=1, resume=True, **limit)
    assert words in again.run.stopped_by and set(again.state.attempts) == set(first.state.attempts)
    whole = carry_out(tmp_path / "out", dataset, given, instances=FOUR, resume=True)
    assert whole.result["complete"] and not whole.run.stopped_by and whole.state.sessions == 3


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_once_finishes_what_is_under_way_and_twice_stops_now(dataset: Dataset, tmp_path: Path, times: int) -> None:
    asked = threading.Event()

    def interrupt(work: Assignment, environment: Environment) -> None:
        if asked.is_set():
            return
        asked.set()
        os.kill(os.getpid(), signal.SIGINT)
        # A command that stands for long work; halted, it is ended.
        environment.execute("sleep 20" if times == 2 else "true")

    out, given = tmp_path / "out", {"arms": ("none", MEMORY)}
    again = (lambda: os.kill(os.getpid(), signal.SIGINT)) if times == 2 else (lambda: None)
    with pytest.raises(KeyboardInterrupt):
        carry_out(out, dataset, given, agent=Scripted(before=interrupt), instances=FOUR, workers=1, on_interrupt=again)
    state = read_state(out / "events.jsonl")
    (attempt,) = state.attempts.values()
    assert state.problems == ()
    assert bool(attempt.graded) == (times == 1) and bool(attempt.finished) == (times == 1) and attempt.failures == ()
    whole = carry_out(out, dataset, given, instances=FOUR, resume=True)
    assert whole.result["complete"] and whole.state.attempts[attempt.key].starts == times


def test_a_machine_that_fails_every_attempt_stops_the_run_and_says_why(dataset: Dataset, tmp_path: Path) -> None:
    def fail(work: Assignment, environment: Environment) -> None:
        raise InfraError("the image is gone")

    found = carry_out(tmp_path / "out", dataset, {"arms": ("none",), "reruns": 3}, agent=Scripted(before=fail), workers=1)
    assert "10 attempts in a row failed through the machine" in found.run.stopped_by and "the image is gone" in found.run.stopped_by
    assert len(found.state.attempts) == 10 and all(attempt.infra for attempt in found.state.attempts.values())


def retried(waits: list[float]) -> Callable[[Assignment, Environment], None]:
    def fail(work: Assignment, environment: Environment) -> None:
        if waits:
            raise InfraError(f"try {waits.pop()}")

    return fail


def test_a_failure_of_the_machine_is_tried_again_and_forgotten_when_it_passes(dataset: Dataset, tmp_path: Path) -> None:
    found = carry_out(
        tmp_path / "out", dataset, {"arms": ("none",)}, agent=Scripted(before=retried([1, 2])), instances=FOUR[:1], retries=(0.0, 0.0)
    )
    (attempt,) = found.state.attempts.values()
    assert attempt.graded and attempt.failures == ("try 2", "try 1") and attempt.starts == 3 and found.result["infra"] == []
    assert len(found.said) == 1 and not found.said[0].failure
