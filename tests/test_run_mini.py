"""A whole experiment with mini-SWE-agent on a scripted model: memory arrives in its prompt, every token is in the journal, and a wrong key ends the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_anthropic import Error, FakeAnthropic, isolate
from scripted_model import SUBMIT, ScriptedModel, fix
from small_bench import write_bench

from harness.cli import run
from swe_memory.claude import ModelCallError
from swe_memory.errors import UsageError

NOTES = "## Notes from past attempts"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    isolate(monkeypatch, tmp_path)
    rows, repositories = write_bench(tmp_path)

    def invoke(api: FakeAnthropic, *more: str, key: str = "") -> Result:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", key or api.key)
        where = ["--dataset", str(rows), "--repositories", str(repositories), "--out", str(tmp_path / "run")]
        what = ["--agent", "mini", "--model", "claude-haiku-5-5", "--protocol", "online", "--arm", "none", "--arm", "reasoningbank", *more]
        return CliRunner().invoke(run, [*where, *what])

    return invoke


def events(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    lines = (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_memory_reaches_the_prompt_and_every_token_the_journal(start: Any, tmp_path: Path) -> None:
    scripts = {
        "The limit itself": fix("sed -i 's/points > limit/points >= limit/' shop/marks.py", "shop/marks.py"),
        "Names lose": ["python -m pytest -q tests", "sed -i 's/.capitalize()//' shop/story.py; git diff > patch.txt", SUBMIT],
        "A second basket": ["git diff > patch.txt", SUBMIT],
    }
    with FakeAnthropic(ScriptedModel(scripts, faults={0: [Error(529)], 1: [Error(500)]})) as api:
        result = start(api, "--attempt-cost", "1")
    assert result.exit_code == 0, result.output
    assert [event["exit_status"] for event in events(tmp_path, "finished")] == ["Submitted"] * 6
    graded = {(event["arm"], event["issue"]): event["resolved"] for event in events(tmp_path, "graded")}
    assert {graded[arm, "acme__shop-1"] for arm in ("none", "reasoningbank")} == {True}
    given = [event for event in events(tmp_path, "started") if event["recall"] and event["recall"]["item"]]
    told = {request.user for request in api.requests if NOTES in request.system}
    assert len(given) == len(told) > 0
    used = events(tmp_path, "usage")
    assert [sum(event[name] for event in used) for name in ("calls", "input", "output")] == list(api.served.values())
    kept = json.loads(next((tmp_path / "run" / "none").rglob("*.traj.json")).read_text())
    assert kept["info"]["mini_version"] and str(tmp_path) not in json.dumps(kept)


def test_a_wrong_key_ends_the_run_at_the_first_call(start: Any, tmp_path: Path) -> None:
    with FakeAnthropic([]) as api:
        result = start(api, key="sk-ant-another")
    assert isinstance(result.exception, ModelCallError)
    assert events(tmp_path, "finished") == []
    assert len(api.requests) <= 2, "one for each worker"


def test_a_model_that_nobody_knows_ends_the_run_and_says_that_its_name_is_frozen(start: Any, tmp_path: Path) -> None:
    with FakeAnthropic([], models=["claude-sonnet-5-5"]) as api:
        result = start(api)
    assert isinstance(result.exception, ModelCallError) and "was not found" in result.exception.what
    assert "With another model, start a new run in another folder." in result.output
    assert events(tmp_path, "finished") == []


def test_a_limit_in_dollars_is_refused_before_anything_is_asked(start: Any) -> None:
    with FakeAnthropic([]) as api:
        result = start(api, "--model", "my-model", "--attempt-cost", "1")
        assert isinstance(result.exception, UsageError) and "price is not known" in str(result.exception)
        assert api.requests == []
