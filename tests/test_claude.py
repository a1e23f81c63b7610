"""The transport against a local server that speaks the API's wire format: every fault has one typed outcome, and every call is counted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_anthropic import KEY, Cut, Drip, Error, FakeAnthropic, Hang, Message, Raw, Reply, Request, Wait, isolate
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from swe_memory.budget import Budget, BudgetSpent
from swe_memory.claude import RAW_LIMIT, Answer, Claude, Failure, ModelCallError
from swe_memory.errors import UsageError
from swe_memory.pricing import parse, price
from swe_memory.rate import RateLimiter, Stopped


class Colour(BaseModel):
    reason: str
    name: str
    share: float = Field(ge=0, le=1)


GOOD = '{"reason": "the sky", "name": "blue", "share": 0.5}'


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


Connect = Callable[..., Claude]


@pytest.fixture
def connect() -> Iterator[Connect]:
    yield lambda api, **settings: Claude(api_key=api.key, base_url=api.url, **settings)


def _ask(claude: Claude) -> Answer[Colour] | Failure:
    return claude.ask("You name colours.", "What colour is the sky?", Colour)


def _failure(claude: Claude) -> Failure:
    outcome = _ask(claude)
    assert isinstance(outcome, Failure)
    return outcome


def _served(api: FakeAnthropic) -> tuple[int, int, int]:
    return api.served["calls"], api.served["input_tokens"], api.served["output_tokens"]


def test_a_good_answer_is_typed_and_counted(connect: Connect) -> None:
    with FakeAnthropic([GOOD]) as api:
        claude = connect(api)
        answer = _ask(claude)
        assert isinstance(answer, Answer)
        assert (answer.value.name, answer.value.share, answer.attempts, answer.raw) == ("blue", 0.5, 1, GOOD)
        assert (answer.usage.calls, answer.usage.input_tokens, answer.usage.output_tokens) == _served(api)
        assert claude.usage == answer.usage


def test_the_request_has_the_shape_that_the_api_takes(connect: Connect) -> None:
    with FakeAnthropic([GOOD]) as api:
        _ask(connect(api, max_tokens=900, effort="low"))
        request = api.requests[0]
    assert request.body["model"] == "claude-haiku-5-5"
    assert request.body["max_tokens"] == 900
    assert request.system == "You name colours."
    assert request.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert request.turns == [("user", "What colour is the sky?")]
    config = request.body["output_config"]
    assert config["effort"] == "low"
    schema = config["format"]["schema"]
    assert list(schema["properties"]) == ["reason", "name", "share"], "the reason comes first, so that it is written first"
    assert schema["additionalProperties"] is False
    assert "minimum" not in schema["properties"]["share"], "constraints that the API does not take must be gone"


def test_half_a_surrogate_pair_is_sent_as_a_question_mark(connect: Connect) -> None:
    with FakeAnthropic([GOOD]) as api:
        assert isinstance(connect(api).ask("You name colours.", "What is \ud83d?", Colour), Answer)
        assert api.requests[0].user == "What is ??"


@pytest.mark.parametrize("url", ["not a url", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://[::1"])
def test_an_address_that_is_none_is_said_to_be_none(url: str) -> None:
    with pytest.raises(UsageError, match=r"is not the address.*\n.*ANTHROPIC_BASE_URL") as caught:
        Claude(api_key=KEY, base_url=url)
    assert url in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("I think the sky is blue, resolved.", id="prose"),
        pytest.param(GOOD[:30], id="half JSON"),
        pytest.param("", id="empty"),
        pytest.param("   \n", id="blank"),
        pytest.param('{"name": "blue", "share": 0.5}', id="field missing"),
        pytest.param('{"reason": "r", "name": "blue", "share": 7}', id="out of bounds"),
        pytest.param('{"reason": "r", "name": "blue", "share": NaN}', id="NaN"),
        pytest.param("[" + GOOD + "]", id="a list"),
        pytest.param(f"Here you are: {GOOD}", id="JSON within prose"),
        pytest.param("[" * 5000, id="deeply nested"),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_once_more(connect: Connect, bad: str) -> None:
    with FakeAnthropic([bad, GOOD]) as api:
        claude = connect(api)
        answer = _ask(claude)
        assert isinstance(answer, Answer)
        assert answer.attempts == 2
        assert (answer.usage.calls, answer.usage.input_tokens, answer.usage.output_tokens) == _served(api)
        turns = api.requests[1].turns
        assert turns[0][1].startswith("What colour is the sky?")
        assert "could not be used" in turns[-1][1], "the model is told that its answer was no good"
        if bad.strip():
            assert turns[1] == ("assistant", bad.strip())


def test_two_bad_answers_are_a_failure_that_keeps_reason_text_and_usage(connect: Connect) -> None:
    with FakeAnthropic(['{"name": 1}', "y" * 50_000]) as api:
        claude = connect(api)
        failure = _failure(claude)
        assert failure.kind == "invalid"
        assert failure.raw == "y" * RAW_LIMIT
        assert failure.attempts == 2
        assert failure.usage.calls == 2
        assert (failure.usage.calls, failure.usage.input_tokens, failure.usage.output_tokens) == _served(api)
        assert len(api.requests) == 2, "asked again once, not twice"
        assert "reason: Field required" in api.requests[1].turns[-1][1]


def test_a_code_fence_around_the_answer_is_taken_off(connect: Connect) -> None:
    with FakeAnthropic([f"```json\n{GOOD}\n```"]) as api:
        assert isinstance(_ask(connect(api)), Answer)


def test_thinking_blocks_are_not_part_of_the_answer(connect: Connect) -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": GOOD}]
    with FakeAnthropic([Message(blocks=blocks)]) as api:
        assert isinstance(_ask(connect(api)), Answer)


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (
            Message(
                "", "refusal", extra={"stop_details": {"type": "refusal", "category": "cyber", "explanation": "looks like an exploit"}}
            ),
            "refused",
            "cyber: looks like an exploit",
        ),
        (Message(GOOD, "pause_turn"), "paused", "paused"),
        (Message(stop_reason="tool_use", blocks=[{"type": "tool_use", "id": "t", "name": "bash", "input": {}}]), "unexpected", "tool"),
        (Message(GOOD[:20], "model_context_window_exceeded"), "too_long", "context window"),
    ],
)
def test_a_stopped_answer_is_a_failure_of_its_own_kind_and_not_asked_again(connect: Connect, reply: Message, kind: str, words: str) -> None:
    with FakeAnthropic([reply, GOOD]) as api:
        failure = _failure(connect(api))
        assert failure.kind == kind
        assert words in failure.reason
        assert failure.usage.calls == len(api.requests) == 1


def test_a_cut_off_answer_is_asked_for_once_more_with_more_room(connect: Connect) -> None:
    with FakeAnthropic([Message(GOOD[:20], "max_tokens"), GOOD]) as api:
        answer = _ask(connect(api, max_tokens=100))
        assert isinstance(answer, Answer)
        assert [request.body["max_tokens"] for request in api.requests] == [100, 200]


def test_an_answer_cut_off_twice_says_so_even_if_its_text_would_parse(connect: Connect) -> None:
    with FakeAnthropic([Message(GOOD, "max_tokens"), Message(GOOD, "max_tokens")]) as api:
        failure = _failure(connect(api, max_tokens=100))
        assert (failure.kind, failure.usage.calls) == ("truncated", 2)
        assert "cut off at 200 tokens" in failure.reason


@pytest.mark.parametrize(
    "fault", [Error(429), Error(529), Error(500), Error(408), Cut(), Error(503), Raw(b'{"type": "mess')], ids=lambda fault: str(fault)[:18]
)
def test_a_passing_fault_is_retried_and_only_answers_are_counted(connect: Connect, fault: Error | Cut | Raw) -> None:
    with FakeAnthropic([fault, fault, GOOD]) as api:
        claude = connect(api)
        answer = _ask(claude)
        assert isinstance(answer, Answer)
        assert len(api.requests) == 3
        assert answer.usage.calls == 1
        assert (answer.usage.calls, answer.usage.input_tokens, answer.usage.output_tokens) == _served(api)
        assert claude.retries == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Error(429), "429"),
        (Error(529), "529"),
        (Error(500), "500"),
        (Cut(), "no connection"),
        (Raw(GOOD[:20].encode()), "not a message"),
        (Raw(b"<html>a gateway's page</html>", content_type="text/html"), "not a message"),
        (Raw(json.dumps({"type": "message", "content": []}).encode()), "usage: Field required"),
    ],
    ids=["429", "529", "500", "cut", "truncated body", "HTML", "no usage"],
)
def test_a_lasting_fault_is_a_retryable_error(connect: Connect, fault: Error | Cut | Raw, words: str) -> None:
    with FakeAnthropic(lambda _: fault) as api:
        claude = connect(api, max_retries=1)
        with pytest.raises(ModelCallError) as caught:
            _ask(claude)
        assert words in caught.value.what
        assert caught.value.hint
        assert (caught.value.retryable, caught.value.stop) == (True, False)
        assert claude.usage.calls == 0


def test_a_reply_that_drips_is_a_try_that_failed(connect: Connect) -> None:
    """The HTTP client's limit is for each read, and there is always something to read."""
    with FakeAnthropic([Drip(), GOOD]) as api:
        claude = connect(api, timeout=0.2, max_retries=1)
        assert isinstance(_ask(claude), Answer) and claude.retries == 1
    with FakeAnthropic([Drip()]) as api, pytest.raises(ModelCallError, match=r"did not come to the end in 0\.2 s") as caught:
        _ask(connect(api, timeout=0.2, max_retries=0))
    assert caught.value.retryable and not caught.value.stop


@pytest.mark.parametrize("reply", [Hang(), Drip()], ids=["silent", "dripping"])
def test_a_request_under_way_is_given_up_when_the_run_is_stopped(connect: Connect, reply: Reply) -> None:
    stop = threading.Event()

    def script(_: Request) -> Reply:
        stop.set()
        return reply

    with FakeAnthropic(script) as api, pytest.raises(Stopped):
        _ask(connect(api, limiter=RateLimiter(stop=stop)))
    assert len(api.requests) == 1


def test_a_server_that_does_not_answer_is_given_up(connect: Connect) -> None:
    with FakeAnthropic([Hang(), Hang()]) as api:
        with pytest.raises(ModelCallError, match="did not answer in time") as caught:
            _ask(connect(api, timeout=0.2, max_retries=1))
        assert caught.value.retryable
        assert len(api.requests) == 2


def test_no_server_at_all_is_a_retryable_error(connect: Connect) -> None:
    with FakeAnthropic() as api:
        url = api.url
    with pytest.raises(ModelCallError, match="no connection") as caught:
        _ask(Claude(api_key=KEY, base_url=url, max_retries=1))
    assert caught.value.retryable


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_no_call_can_survive_stops_at_once(connect: Connect, status: int) -> None:
    with FakeAnthropic(lambda _: Error(status)) as api:
        with pytest.raises(ModelCallError) as caught:
            _ask(connect(api))
        assert (caught.value.retryable, caught.value.stop) == (False, True)
        assert len(api.requests) == 1
        assert "req_0001" in caught.value.what, "the request id is what support asks for"


def test_a_wrong_key_is_told_apart_and_never_shown(connect: Connect) -> None:
    with FakeAnthropic(lambda request: Error(403, f"you sent {request.headers['authorization']}")) as api:
        with pytest.raises(ModelCallError, match="key was not accepted"):
            _ask(Claude(api_key="sk-ant-another", base_url=api.url))
        with pytest.raises(ModelCallError) as caught:
            _ask(connect(api))
        assert KEY not in str(caught.value)
        assert "[key]" in str(caught.value)


def test_an_unknown_model_is_named(connect: Connect) -> None:
    with FakeAnthropic([GOOD], models=["claude-haiku-5-5"]) as api, pytest.raises(ModelCallError, match="'claude-nope' was not found"):
        _ask(connect(api, model="claude-nope"))


@pytest.mark.parametrize("error", [Error(413), Error(400, "prompt is too long: 210000 tokens > 200000 maximum")], ids=["413", "400"])
def test_a_question_that_is_too_large_for_the_api_is_a_failure_of_this_question_alone(connect: Connect, error: Error) -> None:
    with FakeAnthropic([error]) as api:
        failure = _failure(connect(api))
        assert (failure.kind, failure.usage.calls) == ("too_long", 0)


def test_a_refused_request_is_neither_retried_nor_the_end_of_the_run(connect: Connect) -> None:
    with FakeAnthropic(lambda _: Error(400, "bad\x1b[31m\nwords")) as api:
        with pytest.raises(ModelCallError, match=r"bad \[31m words") as caught:
            _ask(connect(api))
        assert (caught.value.retryable, caught.value.stop, len(api.requests)) == (False, False, 1)


@pytest.mark.parametrize(
    "header", [{"retry-after": "7200"}, {"retry-after-ms": "7200000"}, {"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}]
)
def test_a_server_that_asks_to_wait_for_hours_is_not_waited_for(connect: Connect, header: dict[str, str]) -> None:
    with FakeAnthropic([Error(429, headers=header), GOOD]) as api:
        with pytest.raises(ModelCallError, match="asks to wait") as caught:
            _ask(connect(api))
        assert caught.value.retryable


def test_without_a_key_nothing_starts() -> None:
    with pytest.raises(UsageError, match="no key") as caught:
        Claude()
    assert "ANTHROPIC_API_KEY" in caught.value.hint
    assert "rules" in caught.value.hint


def test_a_broken_profile_of_the_sdk_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_PROFILE", "nowhere")
    with pytest.raises(UsageError, match="cannot be read"):
        Claude()


def test_key_and_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeAnthropic([GOOD], key="from-the-environment") as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        assert isinstance(_ask(Claude()), Answer)


def test_a_fault_while_asking_again_keeps_what_the_first_call_used(connect: Connect) -> None:
    with FakeAnthropic(["prose", Error(401)]) as api:
        claude = connect(api)
        with pytest.raises(ModelCallError) as caught:
            _ask(claude)
        assert caught.value.usage.calls == 1
        assert (claude.usage.calls, claude.usage.input_tokens, claude.usage.output_tokens) == _served(api)


def test_a_budget_of_calls_holds_for_the_second_question_of_one_ask_too(connect: Connect) -> None:
    with FakeAnthropic(lambda _: "prose") as api:
        claude = connect(api, budget=Budget(calls=1))
        with pytest.raises(BudgetSpent, match="1 of 1 calls") as caught:
            _ask(claude)
        assert caught.value.usage.calls == len(api.requests) == 1


def test_a_budget_of_tokens_stops_before_the_call_that_could_exceed_it(connect: Connect) -> None:
    with FakeAnthropic(lambda _: GOOD) as api:
        claude = connect(api, max_tokens=1000, budget=Budget(tokens=2100))
        with pytest.raises(BudgetSpent, match="of 2100 tokens used") as caught:
            for _ in range(100):
                _ask(claude)
        used = _served(api)[1] + _served(api)[2]
        assert f"{used} of" in caught.value.what
        assert 0 < used <= 2100


def test_threads_share_one_budget_without_overrunning_it(connect: Connect) -> None:
    ready = threading.Event()

    def reply(request: Request) -> Wait:
        if len(api.requests) == 5:
            ready.set()
        return Wait(Message(GOOD), ready)

    with FakeAnthropic(reply) as api:
        budget = Budget(calls=5)
        claudes = [connect(api, budget=budget), connect(api, budget=budget)]
        outcomes: list[str] = []

        def work(claude: Claude) -> None:
            try:
                _ask(claude)
                outcomes.append("answer")
            except BudgetSpent:
                outcomes.append("spent")

        threads = [threading.Thread(target=work, args=(claudes[n % 2],)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["answer"] * 5 + ["spent"] * 3
        total = claudes[0].usage + claudes[1].usage
        assert (total.calls, total.input_tokens, total.output_tokens) == _served(api)
        assert budget.spent == total


def test_a_call_under_way_delays_the_next_rather_than_refusing_it(connect: Connect) -> None:
    first, second, go = threading.Event(), threading.Event(), threading.Event()

    def reply(request: Request) -> Wait:
        (second if first.is_set() else first).set()
        return Wait(Message(GOOD), go)

    # Room for the worst case of one call at a time, and for far more calls than two as they turn out.
    with FakeAnthropic(reply) as api:
        claude = connect(api, max_tokens=1000, budget=Budget(tokens=2500))
        threads = [threading.Thread(target=_ask, args=(claude,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert first.wait(30)
        assert not second.is_set()
        go.set()
        for thread in threads:
            thread.join()
        assert claude.usage.calls == 2


def test_a_dollar_budget_for_a_model_without_a_price_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="'my-model': its price is not known"):
        Claude("my-model", api_key=KEY, budget=Budget(cost=1.0))


def test_tokens_of_a_model_without_a_price_are_counted_and_its_cost_is_unknown(connect: Connect) -> None:
    with FakeAnthropic([GOOD]) as api:
        claude = connect(api, model="my-model", budget=Budget(tokens=100_000))
        _ask(claude)
        assert claude.usage.cost is None
        assert (claude.usage.calls, claude.usage.input_tokens, claude.usage.output_tokens) == _served(api)


@pytest.mark.parametrize("limits", [{"calls": -1}, {"cost": float("nan")}, {"tokens": float("inf")}])
def test_a_budget_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="makes no sense"):
        Budget(**limits)


LIST = {
    "claude-x": {
        "litellm_provider": "anthropic",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 5e-6,
        "cache_read_input_token_cost": 1e-7,
        "cache_creation_input_token_cost": 2e-6,
        "cache_creation_input_token_cost_above_1hr": 3e-6,
        "input_cost_per_token_above_100k_tokens": 4e-6,
        "provider_specific_entry": {"us": 1.5},
    },
    "claude-x-latest": {"alias_of": "claude-x"},
    "other/claude-x": {"litellm_provider": "other", "input_cost_per_token": 1e-6, "output_cost_per_token": 5e-6},
    "half": {"litellm_provider": "anthropic", "input_cost_per_token": 1e-6},
    "odd": "not an entry",
}


def test_prices_come_from_the_list_as_it_says() -> None:
    prices = parse(LIST, "a list")
    assert set(prices) == {"claude-x", "claude-x-latest"}, "another seller's price, or half a price, is no price"
    x = prices["claude-x"]
    assert x.cost(input=1000, output=100) == pytest.approx(1000e-6 + 500e-6)
    assert x.cost(input=1000, output=0, cache_read=1000, cache_write=1000, cache_write_1h=1000) == pytest.approx(6.1e-3)
    assert x.cost(input=1000, output=0, region="us") == pytest.approx(1.5e-3)
    assert x.cost(input=100_000, output=0) == pytest.approx(0.1)
    assert x.cost(input=1, output=1, cache_read=100_000) == pytest.approx(4e-6 + 5e-6 + 0.01), (
        "the cached part of a prompt counts for the tier"
    )


def test_a_bill_counts_cached_tokens_once_and_at_their_price(connect: Connect) -> None:
    known = price("claude-haiku-5-5")
    if known is None:
        pytest.skip("needs a price list: the harness extra's litellm package is not installed")
    usage = {
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_input_tokens": 300,
        "cache_creation_input_tokens": 4000,
        "cache_creation": {"ephemeral_5m_input_tokens": 3000, "ephemeral_1h_input_tokens": 1000},
    }
    with FakeAnthropic([Message(GOOD, usage=usage), Message(GOOD, usage={"service_tier": "priority"})]) as api:
        claude = connect(api)
        answer = _ask(claude)
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (4310, 20)
        assert answer.usage.cost == pytest.approx(known.cost(input=10, output=20, cache_read=300, cache_write=3000, cache_write_1h=1000))
        assert _ask(claude).usage.cost is None, "a tier that was not asked for has a price of its own"


def test_a_dollar_budget_stops_before_the_call_that_could_exceed_it(connect: Connect) -> None:
    if price("claude-haiku-5-5") is None:
        pytest.skip("needs a price list: the harness extra's litellm package is not installed")
    with FakeAnthropic(lambda _: GOOD) as api:
        claude = connect(api, budget=Budget(cost=0.0000001))
        with pytest.raises(BudgetSpent, match="budget reached"):
            _ask(claude)
        assert api.requests == []


def test_any_answer_at_all_ends_in_an_answer_or_a_failure(connect: Connect) -> None:
    json_like = st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20), lambda x: st.lists(x) | st.dictionaries(st.text(max_size=8), x)
    )
    fields = st.fixed_dictionaries({"reason": json_like, "name": json_like, "share": json_like})
    said = [""]
    with FakeAnthropic(lambda _: said[0]) as api:
        claude = connect(api)

        @settings(max_examples=40, deadline=None)
        @given(st.text() | json_like.map(json.dumps) | fields.map(json.dumps))
        def check(text: str) -> None:
            said[0] = text
            outcome = _ask(claude)
            assert isinstance(outcome, Answer) or outcome.kind == "invalid"

        check()
        assert (claude.usage.calls, claude.usage.input_tokens, claude.usage.output_tokens) == _served(api)


def test_prices_are_read_without_importing_anything_heavy_and_are_none_without_the_list() -> None:
    script = (
        "import sys, swe_memory.claude, swe_memory.pricing as p; p.price('claude-haiku-5-5'); print(sorted({'anthropic', 'litellm'} & set(sys.modules)));"
        "sys.modules['litellm'] = None; p._prices.cache_clear(); print(p.price('claude-haiku-5-5'))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split("\n")[:2] == ["[]", "None"]
