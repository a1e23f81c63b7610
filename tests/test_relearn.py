"""Learning again from a run's stored attempts: the same items for the same settings, an oracle where it is asked for, and a new bank or none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from fake_anthropic import Error, FakeAnthropic, Request, isolate

from harness.folder import freeze, read_experiment
from harness.plan import Experiment
from harness.trajectory_file import trajectory_path
from swe_memory.bank import MemoryBank
from swe_memory.errors import UsageError
from swe_memory.pricing import price
from swe_memory.records import MemoryItem
from tests.made_runs import made
from tests.small_bench import write_bench
from tests.small_run import SmallRun, ask, make_run

CONTROL = "derangement"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return make_run(tmp_path_factory.mktemp("relearn"), "none", "reasoningbank", CONTROL)


def relearn(run: SmallRun, bank: Path, *more: object) -> Result:
    return ask("relearn", run.folder, "--bank", bank, "--dataset", run.rows, *more)


def told(run: SmallRun, bank: Path, *more: object, code: int = 0) -> dict[str, Any]:
    result = relearn(run, bank, "--json", *more)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def held(*banks: Path) -> dict[str, MemoryItem]:
    """All items of these banks by id."""
    found: dict[str, MemoryItem] = {}
    for path in banks:
        with MemoryBank.open(path, create=False, read_only=True) as bank:
            found |= {item.id: item for item in bank.items()}
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_judge_and_extractor_give_the_runs_own_items_and_leave_the_run_as_it_was(done: SmallRun, tmp_path: Path) -> None:
    before = files(done.folder)
    found = told(done, tmp_path / "new.lance")
    own = held(*(path for path in done.folder.glob("banks/*/*/bank.lance")))
    again = held(tmp_path / "new.lance")
    assert {i: item.text for i, item in again.items()} == {i: item.text for i, item in own.items()} and len(own) == 3
    assert {i: item.provenance for i, item in again.items()} == {i: item.provenance for i, item in own.items()}
    assert files(done.folder) == before
    assert (found["arms"], found["attempts"], found["learned"], found["items"]["added"]) == (["none"], 3, 3, 3)
    assert found["verdicts"] == {"resolved": 2, "unresolved": 1, "unknown": 0} and found["against_tests"]["right"] == 3
    assert found["failures"] == [] and found["warnings"] == [] and found["left_out"] == {"infra": [], "not_graded": 0}


def test_the_recorded_test_outcomes_teach_only_when_asked_and_are_called_an_oracle(done: SmallRun, tmp_path: Path) -> None:
    result = relearn(done, tmp_path / "new.lance", "--verdict", "tests")
    assert result.exit_code == 0 and "oracle verdict" in result.output
    assert {item.provenance.verdict_source for item in held(tmp_path / "new.lance").values()} == {"tests"}
    assert "oracle" not in relearn(done, tmp_path / "other.lance").output
    for path in [file for name in ("new.lance", "other.lance") for file in (tmp_path / name).rglob("*") if file.is_file()]:
        assert b"test_hidden" not in path.read_bytes() and b"_hidden.py" not in path.read_bytes(), path


def test_again_adds_nothing_and_an_attempt_that_could_not_be_read_is_learned_when_it_can(done: SmallRun, tmp_path: Path) -> None:
    run, bank = done.copy(tmp_path / "run"), tmp_path / "new.lance"
    lost = trajectory_path(run.folder / "none" / "1-1", "acme__shop-2")
    text = lost.read_text()
    lost.unlink()
    first = told(run, bank, code=1)
    assert first["learned"] == 2 and [failure["attempt"] for failure in first["failures"]] == ["none/1-1/acme__shop-2"]
    assert "is missing although the journal says" in first["failures"][0]["reason"]
    lost.write_text("{")
    assert "none/1-1/acme__shop-2" in relearn(run, bank).output
    lost.write_text(
        text.replace('"exit_status": "Submitted"', '"exit_status": "Changed"').replace(
            '"submission": ""', '"submission": "diff --git a/x b/x"'
        )
    )
    assert "was changed after the attempt" in told(run, bank, code=1)["failures"][0]["reason"]
    lost.write_text(text)
    assert (whole := told(run, bank))["learned"] == 1 and whole["already"] == 2
    assert (again := told(run, bank))["already"] == 3 and again["items"]["added"] == 0 and again["bank_version"] == whole["bank_version"]
    told(done, tmp_path / "undisturbed.lance")
    assert {i: item.text for i, item in held(bank).items()} == {i: item.text for i, item in held(tmp_path / "undisturbed.lance").items()}


def test_attempts_that_are_open_or_failed_through_the_machine_are_left_out_and_said(done: SmallRun, tmp_path: Path) -> None:
    def mine(event: dict[str, Any], issue: str) -> bool:
        return (event.get("arm"), event.get("issue")) == ("none", issue)

    failed = {"event": "failed", "arm": "none", "stream": "1-1", "issue": "acme__shop-1", "stage": "grade", "reason": "no disk"}
    kept = [e for e in done.events if not (e["event"] in ("graded", "learned") and (mine(e, "acme__shop-1") or mine(e, "acme__shop-2")))]
    run = done.copy(tmp_path / "run", [*kept, failed])
    found = told(run, tmp_path / "new.lance")
    assert found["left_out"] == {"infra": ["none/1-1/acme__shop-1"], "not_graded": 1} and found["learned"] == 1
    text = relearn(run, tmp_path / "new.lance").output
    assert "failed through the machine: none/1-1/acme__shop-1" in text and "not graded: 1" in text


def test_a_control_is_learned_from_only_where_it_is_named_with_a_warning(done: SmallRun, tmp_path: Path) -> None:
    found = told(done, tmp_path / "new.lance", "--arm", CONTROL)
    assert found["arms"] == [CONTROL] and ["control" in warning for warning in found["warnings"]] == [True]
    assert {item.provenance.source.split("/")[0] for item in held(tmp_path / "new.lance").values()} == {CONTROL}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--arm", "dreams"), "this run has no arm 'dreams'"),
        (("--extractor", "llm"), "none is named"),
        (("--verdict", "llm"), "none is named"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_bank_is_made(done: SmallRun, tmp_path: Path, more: Sequence[str], words: str) -> None:
    result = relearn(done, tmp_path / "new.lance", *more)
    assert isinstance(result.exception, UsageError) and words in str(result.exception)
    assert not (tmp_path / "new.lance").exists()


def test_reference_patches_teach_nobody(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", arms=("none", "gold"))
    result = ask("relearn", folder, "--bank", tmp_path / "new.lance", "--arm", "none", "--arm", "gold")
    assert isinstance(result.exception, UsageError) and "`gold` holds the reference patches" in str(result.exception)


def test_only_the_runs_own_dataset_will_do(done: SmallRun, tmp_path: Path) -> None:
    rows, _ = write_bench(tmp_path)
    rows.write_text(rows.read_text().replace("a story", "a tale"))
    cases = {
        "is not the dataset of this run": ("--dataset", rows),
        "whose place it does not keep": (),
        "cannot read dataset": ("--dataset", tmp_path / "gone.jsonl"),
        "minibench is not the dataset of this run": ("--dataset", "minibench"),
    }
    for words, more in cases.items():
        result = ask("relearn", done.folder, "--bank", tmp_path / "new.lance", *more)
        assert isinstance(result.exception, UsageError) and words in str(result.exception), words
    assert not (tmp_path / "new.lance").exists()


def test_a_bank_that_holds_other_things_or_would_lie_in_the_run_is_refused(done: SmallRun, tmp_path: Path) -> None:
    told(done, tmp_path / "new.lance")
    before = files(tmp_path / "new.lance")
    cases: dict[str, tuple[object, ...]] = {
        "is not new: it holds 3 experiences": (tmp_path / "new.lance", "--verdict", "tests"),
        "is not new: it holds 3": (tmp_path / "new.lance", "--arm", "reasoningbank"),
        "would lie in the run folder": (done.folder / "new.lance",),
    }
    own = next(iter(done.folder.glob("banks/*/1-a/bank.lance")))
    assert isinstance(ask("relearn", done.folder, "--bank", own, "--dataset", done.rows).exception, UsageError)
    for words, (bank, *more) in cases.items():
        result = relearn(done, Path(str(bank)), *more)
        assert isinstance(result.exception, UsageError) and words in str(result.exception), words
    assert files(tmp_path / "new.lance") == before and not (done.folder / "new.lance").exists()


def test_a_run_without_a_baseline_needs_its_arms_named(done: SmallRun, tmp_path: Path) -> None:
    frozen = read_experiment(done.folder).to_json() | {"arms": ["reasoningbank"], "protocol": "online", "folds": []}
    folder = tmp_path / "online"
    folder.mkdir()
    freeze(folder, Experiment.from_json(frozen, "here"), resume=False)
    run = SmallRun(folder, done.rows, done.repositories)
    for more, words in {(): "no arm `none` to learn from", ("--arm", "reasoningbank"): "is graded, so there is nothing"}.items():
        result = relearn(run, tmp_path / "new.lance", *more)
        assert isinstance(result.exception, UsageError) and words in str(result.exception)
    assert not (tmp_path / "new.lance").exists()


# -- with a language model -------------------------------------------------------------------------------------------------------------------

LESSON = {"reach": "general", "title": "Ask where the boundary lies", "description": "Applies to limits.", "kind": "strategy"}
LESSON["content"] = (
    "Try the value at the limit itself and its two neighbours before changing the comparison, and write down which of them is wrong."
)


def script(request: Request) -> str:
    """A ruling where the question is about one, else lessons."""
    if "verdict" in json.dumps(request.body["output_config"]):
        return json.dumps({"reason": "It was checked.", "verdict": "resolved", "confidence": 0.8})
    return json.dumps({"analysis": "It looked at the limit.", "items": [LESSON]})


LLM = ("--verdict", "llm", "--extractor", "llm", "--model", "claude-haiku-5-5")


def test_a_model_is_asked_about_each_attempt_once_however_often_it_is_stopped(
    done: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    asked: list[Request] = []

    def breaking(request: Request) -> Any:
        asked.append(request)
        return Error(401, "the key was withdrawn") if len(asked) == 3 else script(request)

    with FakeAnthropic(breaking) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        first = told(done, tmp_path / "new.lance", *LLM, code=1)
        assert first["stopped"] and first["learned"] == 1 and [f["attempt"] for f in first["failures"]] == ["none/1-1/acme__shop-2"]
        second = told(done, tmp_path / "new.lance", *LLM)
        assert second["already"] == 1 and second["learned"] == 2 and second["failures"] == []
        third = told(done, tmp_path / "new.lance", *LLM)
    assert third["already"] == 3 and third["usage"]["calls"] == 0
    assert len(asked) == 7, "a judge and an extractor for each of three attempts, and the question that failed"
    assert first["usage"]["calls"] == 2 and second["usage"]["calls"] == 4 and second["model"] == "claude-haiku-5-5"
    assert {item.provenance.verdict_source for item in held(tmp_path / "new.lance").values()} == {"llm"}
    assert (third["verdict"]["source"], third["extractor"]) == ("llm", "llm@1")
    assert not any("test_hidden" in request.text for request in asked)


def test_attempts_are_taken_in_the_runs_first_order(done: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path)
    run = done.copy(tmp_path / "run")
    path = run.folder / "experiment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"orders": ["shuffled:7"], "sequences": [[2, 0, 1]]}))
    with FakeAnthropic(script) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        told(run, tmp_path / "new.lance", *LLM[:2], *LLM[4:])
    titles = {"second basket": 3, "limit itself": 1, "lose their capitals": 2}
    assert [next(number for words, number in titles.items() if words in request.user) for request in api.requests] == [3, 1, 2]


def test_the_budget_stops_it_and_says_how_to_go_on(done: SmallRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if price("claude-haiku-5-5") is None:
        pytest.skip("prices come with litellm, which is not installed")
    isolate(monkeypatch, tmp_path)
    with FakeAnthropic(script) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        result = relearn(done, tmp_path / "new.lance", *LLM, "--max-cost", "0.0001")
        assert result.exit_code == 1 and "stopped before the end: budget reached" in result.output and "the same command" in result.output
        assert relearn(done, tmp_path / "new.lance", *LLM).exit_code == 0


def test_json_is_one_object_with_the_documented_keys(done: SmallRun, tmp_path: Path) -> None:
    found = told(done, tmp_path / "new.lance")
    shape = ask("relearn", "--help").output
    parts = [found, *(found[name] for name in ("items", "verdicts", "against_tests", "left_out", "usage", "verdict"))]
    assert sorted({name for part in parts for name in part if name not in shape}) == []
