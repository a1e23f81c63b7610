"""Learning with a language model end to end: a local API server, a real bank, and what happens when the model or its account fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from banks import BagOfWords
from fake_anthropic import Error, FakeAnthropic, isolate
from small_attempt import small_attempt

from swe_memory import Attempt, MemoryBank
from swe_memory.claude import Claude
from swe_memory.extract.llm import LLMExtractor

LESSONS = json.dumps(
    {
        "analysis": "The engineer listed what the answer depends on.",
        "items": [
            {
                "reach": "general",
                "title": "List what a cached answer depends on",
                "description": "Applies when one caller gets the answer of another.",
                "content": "Write down everything that the result depends on before touching the code, and compare it with what tells entries apart.",
                "kind": "strategy",
            }
        ],
    }
)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def attempts(count: int) -> list[Attempt]:
    one = small_attempt()
    return [replace(one, issue=replace(one.issue, id=f"{one.issue.id}-{number}"), source=f"attempt-{number}") for number in range(count)]


def open_bank(tmp_path: Path) -> MemoryBank:
    return MemoryBank.open(tmp_path / "bank.lance", embedder=BagOfWords())


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_account_that_cannot_work_stops_the_run_at_once_and_keeps_what_was_learned(tmp_path: Path, status: int) -> None:
    with FakeAnthropic([LESSONS, Error(status)]) as api, open_bank(tmp_path) as bank:
        extractor = LLMExtractor(Claude(api_key=api.key, base_url=api.url))
        report = bank.learn_many(attempts(4), extractor=extractor)
        assert len(api.requests) == 2, "the third and fourth attempt were not tried"
        assert [learned.status for learned in report] == ["learned"]
        assert [failure.source for failure in report.failures] == ["attempt-1"]
        assert report.stopped
        assert len(bank.items()) == 1


@pytest.mark.parametrize("status", [429, 500, 529])
def test_an_outage_loses_only_the_attempt_it_hit_and_the_next_run_makes_it_good(tmp_path: Path, status: int) -> None:
    with FakeAnthropic([LESSONS, *[Error(status)] * 3, LESSONS, LESSONS]) as api, open_bank(tmp_path) as bank:
        extractor = LLMExtractor(Claude(api_key=api.key, base_url=api.url, max_retries=2))
        report = bank.learn_many(attempts(3), extractor=extractor)
        assert [failure.source for failure in report.failures] == ["attempt-1"]
        assert report.stopped == ""
        again = bank.learn_many(attempts(3), extractor=extractor)
        assert [learned.status for learned in again] == ["already", "learned", "already"]
        assert len(bank.items()) == 3


@pytest.mark.parametrize("answer", ["I would rather tell you in prose.", LESSONS[: len(LESSONS) // 2], '{"analysis": "x"}', ""])
def test_an_answer_that_stays_unusable_is_listed_and_asked_for_again_next_time(tmp_path: Path, answer: str) -> None:
    with FakeAnthropic([answer, answer, LESSONS]) as api, open_bank(tmp_path) as bank:
        extractor = LLMExtractor(Claude(api_key=api.key, base_url=api.url))
        (first,) = bank.learn_many(attempts(1), extractor=extractor)
        assert (first.status, first.items) == ("nothing", ())
        assert first.rejected[0].reason in first.reason
        assert first.usage.calls == 2, "one question and one repair"
        assert bank.experiences() == []
        (second,) = bank.learn_many(attempts(1), extractor=extractor)
        assert second.status == "learned"


def test_what_every_question_cost_is_counted_the_failed_ones_included(tmp_path: Path) -> None:
    with FakeAnthropic(["prose", Error(400), LESSONS]) as api, open_bank(tmp_path) as bank:
        extractor = LLMExtractor(Claude(api_key=api.key, base_url=api.url))
        report = bank.learn_many(attempts(2), extractor=extractor)
        assert len(report.failures) == 1
        assert (report.usage.calls, report.usage.input_tokens, report.usage.output_tokens) == tuple(api.served.values())
