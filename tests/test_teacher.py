"""Language models that judge and distil in a run: every call is written down before its answer counts, costs what it costs, and loses nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.events import read_events, read_state
from swe_memory.errors import ModelError
from swe_memory.records import Usage
from tests.fake_anthropic import Error, FakeAnthropic, Reply, Request, isolate
from tests.killing import killing
from tests.quick_bench import Bench, arms, differences, facts, issue_id, make_bench, one_grading_process, part_of

MODEL = "claude-haiku-5-5"
ASKING = ["--verdict", "llm", "--extractor", "llm", "--model", MODEL]
CROSSFIT = [*arms("none", "reasoningbank"), *ASKING]
ONLINE = [*arms("reasoningbank"), "--protocol", "online", "--wave", "2", *ASKING]


NUMBERS = {issue_id(number): word for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine"))}


@dataclass
class Model:
    """Answers judges and extractors by what they are asked about, in any order. ``faults``: (role, issue) -> replies that come first."""

    faults: dict[tuple[str, str], list[Reply | str]] = field(default_factory=dict)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __call__(self, request: Request) -> str | Reply:
        role = "judge" if "verdict" in json.dumps(request.body["output_config"]["format"]["schema"]["properties"]) else "extract"
        about = next(name for name in map(issue_id, range(8)) if f"total of a {_part(name)} " in request.user)
        self.asked[role, about] += 1
        if left := self.faults.get((role, about)):
            return left.pop(0)
        if role == "judge":
            passed = "return 'right'" in request.user
            return json.dumps({"reason": "It says so.", "verdict": "resolved" if passed else "unresolved", "confidence": 0.9})
        lesson = {
            "reach": "general",
            "title": f"Compare {NUMBERS[about]} expectations with what is returned",
            "description": "Applies where an answer is another one than its caller expects.",
            "content": f"Read {NUMBERS[about]} callers before changing what is returned, and write down what they expect of it.",
            "kind": "strategy",
        }
        return json.dumps({"analysis": "The word was wrong.", "items": [lesson, {**lesson, "title": "", "content": ""}]})

    def calls(self, role: str) -> int:
        return sum(count for (asked, _), count in self.asked.items() if asked == role)


def _part(name: str) -> str:
    return part_of(int(name.rpartition("-")[2]) - 1)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with one_grading_process():
        yield make_bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def api(model: Model, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAnthropic]:
    with FakeAnthropic(model) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.key)
        yield server


class Wholes:
    """The facts of runs that nothing happens to, each made once."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench, self._folder = bench, folder
        self._made: dict[tuple[str, ...], dict[str, Any]] = {}

    def __call__(self, flags: list[str]) -> dict[str, Any]:
        if (name := tuple(flags)) not in self._made:
            out = self._folder / str(len(self._made))
            with FakeAnthropic(Model()) as server, pytest.MonkeyPatch.context() as patch:
                patch.setenv("ANTHROPIC_BASE_URL", server.url)
                patch.setenv("ANTHROPIC_API_KEY", server.key)
                self._bench.good(out, *flags)
            self._made[name] = facts(out)
        return self._made[name]


@pytest.fixture(scope="module")
def wholes(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Wholes:
    return Wholes(bench, tmp_path_factory.mktemp("wholes"))


def used(out: Path, role: str) -> list[dict[str, Any]]:
    return [event for event in read_events(out / "events.jsonl")[0] if event["event"] == "usage" and event["role"] == role]


@pytest.mark.parametrize("protocol", ["crossfit", "online"])
def test_each_call_is_written_down_with_its_role_and_attempt_before_what_follows_from_it(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, protocol: str
) -> None:
    out = tmp_path / "out"
    flags = [*CROSSFIT, "--baseline-reruns", "2"] if protocol == "crossfit" else [*ONLINE, *arms("none")]
    state = bench.good(out, *flags)
    teaching = "none" if protocol == "crossfit" else "reasoningbank"
    # Only the attempts that a bank learns from are judged: neither the baseline's other reruns nor the other arms.
    assert model.asked == {(role, issue_id(number)): 1 for number in range(4) for role in ("judge", "extract")}
    events, _ = read_events(out / "events.jsonl")
    for role, follows in (("judge", "graded"), ("extract", "learned")):
        places = {}
        for place, event in enumerate(events):
            if event["event"] == "usage" and event["role"] == role:
                assert (event["arm"], event["stream"]) == (teaching, "1-1")
                assert event["calls"] == 1 and event["input"] > 0 and event["cost"] > 0
                assert ("bank" in event) == (role == "extract")
                places[event["issue"]] = place
            elif event["event"] == follows and event["issue"] in places and (event["arm"], event["stream"]) == (teaching, "1-1"):
                assert places[event["issue"]] < place
        assert len(places) == 4
    judged = {key for key, attempt in state.attempts.items() if attempt.graded["verdict"]}
    assert judged == {(teaching, "1-1", issue_id(number)) for number in range(4)}
    served = Usage(api.served["calls"], api.served["input_tokens"], api.served["output_tokens"])
    memory = state.usage["judge"] + state.usage["extract"]
    assert (memory.calls, memory.input_tokens, memory.output_tokens) == (served.calls, served.input_tokens, served.output_tokens)
    lessons = [event for event in events if event["event"] == "learned"]
    assert [(len(event["items"]), event["rejected"]) for event in lessons] == [(1, 1)] * 4


def test_answers_that_are_no_good_are_paid_for_all_the_same(bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model) -> None:
    model.faults["judge", issue_id(0)] = ["prose", "prose"]
    model.faults["extract", issue_id(1)] = ["prose", "prose"]
    out = tmp_path / "out"
    state = bench.good(out, *CROSSFIT)
    assert state.attempts["none", "1-1", issue_id(0)].graded["verdict"]["outcome"] == "unknown"
    assert (len(used(out, "judge")), len(used(out, "extract"))) == (5, 4)
    learned = {event["issue"]: event for event in read_events(out / "events.jsonl")[0] if event["event"] == "learned"}
    assert set(learned) == {issue_id(1), issue_id(2), issue_id(3)} and learned[issue_id(1)]["items"] == []


def test_rules_judge_every_attempt_also_where_a_model_distils(bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model) -> None:
    state = bench.good(tmp_path / "out", *arms("none", "reasoningbank"), "--extractor", "llm", "--model", MODEL)
    assert all(attempt.graded["verdict"]["source"] == "rules" for attempt in state.attempts.values()) and model.calls("judge") == 0


def test_memorys_own_calls_count_in_the_budget_and_a_growing_bank_asks_nothing_beyond_it(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, wholes: Wholes
) -> None:
    flags = [*ONLINE, "--wave", "4"]
    out = tmp_path / "out"
    made = 18 + 4  # calls of the agent at the four issues, and of their judge
    result = bench.run(out, *flags, "--max-calls", made, "--workers", "4")
    assert result.exit_code == 1 and f"budget of {made} calls is reached: {made} made, memory's own included" in result.output
    assert (model.calls("judge"), model.calls("extract")) == (4, 0)
    result = bench.run(out, *flags, "--resume", "--max-calls", made + 1)
    assert result.exit_code == 1 and model.calls("extract") == 1
    bench.good(out, *flags, "--resume")
    assert model.calls("extract") == 4 and differences(facts(out), wholes(flags)) == []


def test_a_frozen_bank_asks_nothing_beyond_the_budget_and_goes_on_with_a_higher_one(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, wholes: Wholes
) -> None:
    out = tmp_path / "out"
    # All that the baseline and its judge use: when the last of it is used, at most one question each of the two banks is under way.
    result = bench.run(out, *CROSSFIT, "--max-calls", 18 + 4)
    assert result.exit_code == 1 and "is reached" in result.output and model.calls("extract") < 4
    assert not any(attempt.started for key, attempt in read_state(out / "events.jsonl").attempts.items() if key[0] != "none")
    bench.good(out, *CROSSFIT, "--resume", "--max-calls", "1000")
    assert model.calls("extract") == 4 and differences(facts(out), wholes(CROSSFIT)) == []


@pytest.mark.parametrize("role", ["judge", "extract"])
def test_a_wrong_key_stops_the_run_at_once_and_loses_nothing(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, wholes: Wholes, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    out = tmp_path / "out"
    flags = CROSSFIT if role == "judge" else [*arms("none", "reasoningbank"), "--extractor", "llm", "--model", MODEL]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong")
    result = bench.run(out, *flags, "--workers", "1")
    assert isinstance(result.exception, ModelError) and "the key was not accepted" in result.exception.what
    assert len(api.requests) <= 2 and not any(attempt.failures for attempt in read_state(out / "events.jsonl").attempts.values())
    monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
    done = read_state(out / "events.jsonl").attempts
    after = bench.good(out, *flags, "--resume").attempts
    assert done and all(after[key].starts == attempt.starts for key, attempt in done.items() if attempt.finished)
    assert differences(facts(out), wholes(flags)) == []


def test_without_a_key_the_run_says_so_before_the_first_attempt(bench: Bench, tmp_path: Path) -> None:
    result = bench.run(tmp_path / "out", *CROSSFIT)
    assert result.exception is not None and "no key for the Anthropic API" in str(result.exception)
    assert not read_state(tmp_path / "out" / "events.jsonl").attempts


def test_an_overloaded_judge_is_tried_again_and_then_listed_and_resume_makes_it_good(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, wholes: Wholes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", (0.0, 0.0))
    # The SDK sends a request six times; the runner tries the stage three times.
    model.faults["judge", issue_id(1)] = [Error(529)] * 9
    out = tmp_path / "out"
    bench.good(out, *CROSSFIT, "--retries", "2")
    whole = wholes(CROSSFIT)
    assert differences({**facts(out), "results": whole["results"]}, whole) == []
    out = tmp_path / "listed"
    model.faults["judge", issue_id(1)] = [Error(529)] * 18
    result = bench.run(out, *CROSSFIT, "--retries", "2")
    assert result.exit_code == 1 and f"failed through the machine: {issue_id(1)} (none 1-1)" in result.output
    failed = [event for event in read_events(out / "events.jsonl")[0] if event["event"] == "failed"]
    assert [(event["stage"], event["issue"]) for event in failed] == [("grade", issue_id(1))] * 3
    state = bench.good(out, *CROSSFIT, "--resume")
    assert state.attempts["none", "1-1", issue_id(1)].graded["verdict"]["source"] == "llm"


def test_an_overloaded_extractor_is_tried_again_then_ends_the_run_and_nothing_is_asked_twice(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, wholes: Wholes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", (0.0, 0.0))
    out = tmp_path / "out"
    model.faults["extract", issue_id(2)] = [Error(529)] * 18
    result = bench.run(out, *CROSSFIT, "--retries", "2", "--workers", "1")
    assert isinstance(result.exception, ModelError) and "start again later" in result.exception.hint
    bench.good(out, *CROSSFIT, "--resume")
    assert differences(facts(out), wholes(CROSSFIT)) == []
    assert {key: count for key, count in model.asked.items() if key != ("extract", issue_id(2))} == {
        (role, issue_id(number)): 1 for number in range(4) for role in ("judge", "extract") if (role, number) != ("extract", 2)
    }


def test_one_question_that_the_api_refuses_costs_that_lesson_and_nothing_else(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model
) -> None:
    model.faults["judge", issue_id(0)] = [Error(400, "this content is not allowed")]
    model.faults["extract", issue_id(1)] = [Error(400, "this content is not allowed")]
    out = tmp_path / "out"
    state = bench.good(out, *CROSSFIT)
    refused = state.attempts["none", "1-1", issue_id(0)].graded
    assert refused["resolved"] and refused["verdict"]["outcome"] == "unknown" and "not allowed" in refused["verdict"]["reason"]
    learned = {event["issue"]: event for event in read_events(out / "events.jsonl")[0] if event["event"] == "learned"}
    assert (learned[issue_id(1)]["items"], learned[issue_id(1)]["rejected"]) == ([], 1)
    assert set(learned) == {issue_id(1), issue_id(2), issue_id(3)} and not any(attempt.failures for attempt in state.attempts.values())


@pytest.mark.parametrize(
    ("said", "asked"),
    [("this content is not allowed", 3), ("Your credit balance is too low to access the Anthropic API.", 1)],
    ids=["every question", "no money"],
)
def test_an_api_that_refuses_everything_ends_the_run_which_can_go_on(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, said: str, asked: int
) -> None:
    for number in range(4):
        model.faults["judge", issue_id(number)] = [Error(400, said)]
    out = tmp_path / "out"
    result = bench.run(out, *CROSSFIT, "--workers", 1)
    assert isinstance(result.exception, ModelError) and said in result.exception.what
    assert model.calls("judge") in (asked, asked + 1), "one more for the attempt that was under way"
    model.faults.clear()
    bench.good(out, *CROSSFIT, "--resume")


def test_outages_that_pass_do_not_add_up_over_a_stream(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.scheduler.RETRIES", (0.0,))
    for number in range(4):
        model.faults["extract", issue_id(number)] = [Error(529)] * 6
    bench.good(tmp_path / "out", *ONLINE, "--retries", "1")


@pytest.mark.parametrize(
    "points",
    [
        [("after judge usage", 2), ("after extract usage", 1), ("torn learned", 1)],
        [("after commit", 1), ("after extract usage", 1), ("after commit", 1), ("after learned", 1)],
    ],
    ids=str,
)
@pytest.mark.parametrize("protocol", ["crossfit", "online"])
def test_a_kill_between_what_was_paid_for_and_what_was_learned_loses_nothing(
    bench: Bench, tmp_path: Path, api: FakeAnthropic, model: Model, wholes: Wholes, protocol: str, points: list[tuple[str, int]]
) -> None:
    options: dict[str, Any] = {"arms": ["none", "reasoningbank"]}
    if protocol == "online":
        options = {"arms": ["reasoningbank"], "protocol": "online", "wave": 2}
    options |= {"dataset": bench.dataset, "repositories": bench.repositories, "verdict": "llm", "extractor": "llm", "model": MODEL}
    keys = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": api.key}
    out = tmp_path / "out"
    for point in points:
        ended = killing().run({**options, "out": out, "resume": out.exists()}, kill=point, temporary=tmp_path, variables=keys)
        assert ended.killed, ended
    ended = killing().run({**options, "out": out, "resume": True}, temporary=tmp_path, variables=keys)
    assert ended.code == 0, ended.said
    found = facts(out)
    # What was asked twice because of a kill is paid for twice, and the journal has both; but for what another thread was being told when the kill came.
    spent = read_state(out / "events.jsonl").usage
    asked, known = model.calls("judge") + model.calls("extract"), spent["judge"].calls + spent["extract"].calls
    assert 8 <= known <= asked <= known + len(points) and asked <= 8 + 2 * len(points)
    assert differences(found, wholes(CROSSFIT if protocol == "crossfit" else ONLINE)) == []
