"""The LLM judge against a local server: a typed verdict, or "unknown" with the reason; never a guess from words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_anthropic import Error, FakeAnthropic, Message, isolate
from small_attempt import PATCH, small_attempt

from swe_memory.claude import Claude, ModelCallError
from swe_memory.judge.llm import REASON, LLMJudge
from swe_memory.records import Attempt, Verdict


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def _ruling(verdict: str, confidence: Any = 0.8, reason: str = "The zone is now part of the key.") -> str:
    return json.dumps({"reason": reason, "verdict": verdict, "confidence": confidence})


def _judge(script: list[Any], attempt: Attempt | None = None) -> tuple[Verdict, FakeAnthropic, Claude]:
    attempt = attempt or small_attempt()
    with FakeAnthropic(script) as api:
        claude = Claude(api_key=api.key, base_url=api.url)
        verdict = LLMJudge(claude).judge(attempt.issue, attempt.trajectory)
        return verdict, api, claude


@pytest.mark.parametrize("outcome", ["resolved", "unresolved"])
def test_a_verdict_says_who_gave_it_why_and_how_surely(outcome: str) -> None:
    verdict, _, _ = _judge([_ruling(outcome)])
    assert (verdict.outcome, verdict.source, verdict.confidence) == (outcome, "llm", 0.8)
    assert verdict.reason == "The zone is now part of the key."
    assert verdict.model == "claude-haiku-5-5"
    assert verdict.prompt.startswith("judge@")


def test_a_model_that_cannot_tell_gives_no_probability() -> None:
    verdict, _, _ = _judge([_ruling("unknown", 0.9)])
    assert (verdict.outcome, verdict.confidence) == ("unknown", None)


@pytest.mark.parametrize(
    "bad",
    [
        "The attempt is resolved, a success.",
        "unsuccessful",
        _ruling("resolved")[:40],
        "",
        _ruling("success"),
        _ruling("Resolved it"),
        _ruling("resolved", 1.2),
        _ruling("resolved", float("nan")),
        json.dumps({"reason": "resolved", "confidence": 1}),
    ],
)
def test_what_is_not_a_verdict_twice_is_unknown_whatever_words_it_holds(bad: str) -> None:
    verdict, api, claude = _judge([bad, bad])
    assert (verdict.outcome, verdict.source, verdict.confidence) == ("unknown", "llm", None)
    assert "could not be used (invalid)" in verdict.reason
    assert len(api.requests) == 2
    assert (claude.usage.calls, claude.usage.input_tokens, claude.usage.output_tokens) == tuple(api.served.values())


def test_a_bad_answer_is_asked_for_again_and_then_used() -> None:
    verdict, _, claude = _judge(["I would say resolved.", _ruling("unresolved")])
    assert verdict.outcome == "unresolved"
    assert claude.usage.calls == 2


@pytest.mark.parametrize(("stop", "kind"), [("refusal", "refused"), ("pause_turn", "paused"), ("max_tokens", "truncated")])
def test_a_stopped_answer_is_unknown_even_if_its_text_would_parse(stop: str, kind: str) -> None:
    verdict, _, _ = _judge([Message(_ruling("resolved"), stop)] * 2)
    assert verdict.outcome == "unknown"
    assert f"({kind})" in verdict.reason


def test_an_outage_is_an_error_and_not_a_verdict() -> None:
    attempt = small_attempt()
    with FakeAnthropic(lambda _: Error(500)) as api:
        judge = LLMJudge(Claude(api_key=api.key, base_url=api.url, max_retries=1))
        with pytest.raises(ModelCallError) as caught:
            judge.judge(attempt.issue, attempt.trajectory)
        assert caught.value.retryable


def test_the_judge_sees_issue_attempt_and_change_and_nothing_of_the_outcome() -> None:
    attempt = small_attempt("unresolved", reason="CANARY tests/test_hidden.py::test_oslo failed")
    _, api, _ = _judge([_ruling("resolved")], attempt)
    request = api.requests[0]
    assert "asking for Oslo at the same wall time" in request.user
    assert "Reproduce it first." in request.user
    assert "zone.key" in request.user
    assert "CANARY" not in request.text
    assert "did not resolve" not in request.user


@pytest.mark.parametrize(("patch", "said"), [("", "(no change was handed in)"), (None, "(the record does not hold the change)")])
def test_a_missing_change_is_said_to_be_missing(patch: str | None, said: str) -> None:
    _, api, _ = _judge([_ruling("unresolved")], small_attempt(patch=patch))
    assert said in api.requests[0].user


def test_a_huge_issue_and_patch_are_bounded() -> None:
    patch = PATCH + "".join(f"+line {n} of a generated file\n" for n in range(50_000))
    _, api, _ = _judge([_ruling("unresolved")], small_attempt(patch=patch, issue_text="Broken\n" + "it goes on " * 90_000))
    assert len(api.requests[0].user) < 100_000


def test_secrets_never_reach_the_wire_or_the_reason() -> None:
    secret = "ghp_" + "A1b2C3d4E5" * 3 + "f6G7h8"
    attempt = small_attempt(output=f"TOKEN={secret}", issue_text=f"Login fails\nwith {secret}", patch=PATCH + f"+TOKEN = '{secret}'\n")
    verdict, api, _ = _judge([_ruling("resolved", reason=f"\x1b[2JThe token {secret} works. " + "x" * 5000)], attempt)
    assert secret not in api.requests[0].text
    assert secret not in verdict.reason
    assert "\x1b" not in verdict.reason
    assert len(verdict.reason) <= REASON
