"""Claude as a model of mini-SWE-agent, over HTTP: what each kind of reply and each kind of fault becomes, and what goes over the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_anthropic import KEY, Cut, Drip, Error, FakeAnthropic, Hang, Message, Raw, Reply, Request, isolate, tool_use
from scripted_model import ScriptedModel

from harness.agents.mini_config import load_mini, swebench_config
from harness.metering import Limits, Meter
from swe_memory.claude import Claude, ModelCallError
from swe_memory.errors import InfraError, UsageError
from swe_memory.pricing import price
from swe_memory.records import Usage

load_mini()

from minisweagent.exceptions import FormatError, InterruptAgentFlow  # noqa: E402

from harness.agents.claude_model import CONTEXT_FULL, ClaudeModel, conversation  # noqa: E402

START = [{"role": "system", "content": "You fix issues."}, {"role": "user", "content": "Fix this one."}]
TEMPLATES = {name: swebench_config()["model"][name] for name in ("observation_template", "format_error_template")}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def model(
    api: FakeAnthropic,
    meter: Meter | None = None,
    *,
    name: str = "claude-haiku-5-5",
    max_retries: int = 1,
    timeout: float = 20.0,
    max_tokens: int = 4000,
    **config: Any,
) -> ClaudeModel:
    claude = Claude(name, api_key=api.key, base_url=api.url, max_retries=max_retries, timeout=timeout, max_tokens=max_tokens)
    return ClaudeModel(
        claude=claude, meter=meter or Meter(Limits()), **{"model_name": name, "max_tokens": max_tokens, **TEMPLATES, **config}
    )


def observe(asked: ClaudeModel, message: dict[str, Any], *texts: str) -> list[dict[str, Any]]:
    return asked.format_observation_messages(message, [{"output": text, "returncode": 0, "exception_info": ""} for text in texts])


def refused(asked: ClaudeModel, messages: list[dict[str, Any]] = START) -> dict[str, Any]:
    with pytest.raises(FormatError) as caught:
        asked.query(messages)
    return caught.value.messages[0]


def ended(asked: ClaudeModel) -> list[dict[str, Any]]:
    with pytest.raises(InterruptAgentFlow) as caught:
        asked.query(START)
    assert not isinstance(caught.value, FormatError)
    return list(caught.value.messages)


# -- what a reply becomes


def test_a_bash_call_becomes_an_action_with_its_usage_and_its_cost() -> None:
    used: list[Usage] = []
    with FakeAnthropic([tool_use("ls -l", text="I look around.")]) as api:
        meter = Meter(Limits(), used.append)
        message = model(api, meter).query(START)
        assert [action["command"] for action in message["extra"]["actions"]] == ["ls -l"]
        assert message["extra"]["response"]["usage"]["input_tokens"] == api.served["input_tokens"]
        assert used == [meter.spent]
        assert (meter.spent.calls, meter.spent.input_tokens, meter.spent.output_tokens) == tuple(api.served.values())
        assert message["extra"]["cost"] == meter.spent.cost


def test_the_request_offers_minis_bash_tool_and_no_sampling_settings() -> None:
    with FakeAnthropic([tool_use("ls")]) as api:
        model(api).query(START)
        body = api.requests[0].body
        assert [tool["name"] for tool in body["tools"]] == ["bash"]
        assert body["tools"][0]["input_schema"]["required"] == ["command"]
        assert set(body) == {"model", "max_tokens", "system", "messages", "tools"}


def test_several_calls_in_one_reply_are_several_actions_and_their_results_one_turn_in_order() -> None:
    with FakeAnthropic([tool_use("echo a", "echo b", "echo c"), tool_use("true")]) as api:
        asked = model(api)
        message = asked.query(START)
        assert [action["command"] for action in message["extra"]["actions"]] == ["echo a", "echo b", "echo c"]
        asked.query([*START, message, *observe(asked, message, "a", "b", "c")])
        last = api.requests[1].body["messages"][-1]
        assert last["role"] == "user"
        assert [block["type"] for block in last["content"]] == ["tool_result"] * 3
        assert [result.split("<output>\n")[1].removesuffix("</output>") for result in api.requests[1].results] == ["a", "b", "c"]


def test_thinking_comes_back_to_the_api_unchanged_and_is_kept_to_be_read() -> None:
    said = [
        {"type": "thinking", "thinking": "The limit…", "signature": "s=="},
        {"type": "redacted_thinking", "data": "0pAque"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}, "caller": {"type": "direct"}},
    ]
    with FakeAnthropic([Message(stop_reason="tool_use", blocks=said), tool_use("true")]) as api:
        asked = model(api, thinking={"type": "adaptive"})
        message = asked.query(START)
        assert message["reasoning_content"] == "The limit…"
        # What is sent back may have been through a file.
        asked.query([*START, json.loads(json.dumps(message)), *observe(asked, message, "x")])
        assert api.requests[1].body["messages"][1]["content"] == said
        assert [request.body["thinking"] for request in api.requests] == [{"type": "adaptive"}] * 2


def test_the_cache_is_marked_on_the_system_prompt_and_the_last_two_user_turns() -> None:
    with FakeAnthropic([tool_use("true") for _ in range(4)]) as api:
        asked = model(api)
        messages = list(START)
        for _ in range(4):
            message = asked.query(messages)
            messages += [message, *observe(asked, message, "x")]
        marked = [
            [number for number, turn in enumerate(request.body["messages"]) if any("cache_control" in block for block in turn["content"])]
            for request in api.requests
        ]
        assert marked == [[0], [0, 2], [2, 4], [4, 6]]
        assert all("cache_control" in request.body["system"][0] for request in api.requests)
        assert not any("cache_control" in json.dumps(message) for message in messages), "marks are for the wire, not for the conversation"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        pytest.param(Message("I am done."), "No tool calls found", id="no call"),
        pytest.param(Message(blocks=[]), "No tool calls found", id="empty"),
        pytest.param(Message("hm", "stop_sequence"), "No tool calls found", id="stop sequence"),
        pytest.param(Message("wait", "pause_turn"), "No tool calls found", id="paused"),
        pytest.param(tool_use("ls", name="python"), "Unknown tool 'python'", id="unknown tool"),
        pytest.param(tool_use("ls", {"cmd": "ls"}), "Missing 'command'", id="no command"),
        pytest.param(tool_use({"command": 5}), "must be text", id="command is a number"),
        pytest.param(tool_use({"command": ["ls"]}), "must be text", id="command is a list"),
        pytest.param(tool_use(None), "Missing 'command'", id="no input"),
        pytest.param(tool_use([1]), "Missing 'command'", id="input is a list"),
        pytest.param(
            Message("", "refusal", extra={"stop_details": {"category": "cyber", "explanation": "an exploit"}}), "cyber", id="refusal"
        ),
        pytest.param(Message("so I", "max_tokens"), "reached the output token limit", id="cut off"),
        pytest.param(tool_use("rm -rf /tm", stop_reason="max_tokens"), "reached the output token limit", id="call cut off"),
    ],
)
def test_a_reply_that_cannot_be_carried_out_goes_back_as_a_format_error_and_is_paid_for(bad: Message, words: str) -> None:
    with FakeAnthropic([bad, tool_use("ls")]) as api:
        meter = Meter(Limits())
        asked = model(api, meter)
        told = refused(asked)
        assert words in told["content"]
        assert told["extra"]["interrupt_type"] == "FormatError"
        assert told["extra"]["cost"] == meter.spent.cost
        assert (meter.spent.calls, meter.spent.input_tokens, meter.spent.output_tokens) == tuple(api.served.values())
        assert told["extra"]["response"]["content"] == bad.payload_blocks()
        assert asked.query([*START, told])["extra"]["actions"], "the conversation goes on"
        assert words in api.requests[1].turns[-1][1]


def test_a_refusal_is_noted() -> None:
    with FakeAnthropic([Message("", "refusal", extra={"stop_details": {"category": "cyber"}})]) as api:
        asked = model(api)
        refused(asked)
        assert asked.notes == ["the model refused to answer (cyber)"]


def test_a_full_context_ends_the_attempt_whether_the_api_refuses_the_question_or_breaks_off_the_answer() -> None:
    long = [
        Error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        Error(400, "input length and `max_tokens` exceed context limit: 198000 + 4000 > 200000"),
        Error(413),
        Message("I was just about", "model_context_window_exceeded"),
    ]
    with FakeAnthropic(long) as api:
        for _ in range(3):
            meter = Meter(Limits())
            assert [m["extra"]["exit_status"] for m in ended(model(api, meter))] == [CONTEXT_FULL]
            assert meter.spent.calls == 0
        meter = Meter(Limits())
        said, last = ended(model(api, meter))
        assert (said["content"], last["extra"]["exit_status"]) == ("I was just about", CONTEXT_FULL)
        assert meter.spent.calls == 1
        assert len(api.requests) == 4, "none of it is asked again"


def test_blank_text_is_not_sent_back_and_a_command_that_nobody_answered_is_answered() -> None:
    blocks = [{"type": "text", "text": " \n"}, {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}]
    with FakeAnthropic([Message(stop_reason="tool_use", blocks=blocks), tool_use("true")]) as api:
        asked = model(api)
        message = asked.query(START)
        asked.query([*START, message, {"role": "user", "content": "Stop that."}])
        last = api.requests[1].body["messages"][-1]["content"]
        assert [(block["type"], block.get("is_error")) for block in last] == [("tool_result", True), ("text", None)]


def test_turns_alternate_whatever_lies_between_them() -> None:
    _, turns = conversation(
        [*START, {"role": "assistant", "content": ""}, {"role": "user", "content": "Again."}, {"role": "exit", "content": "x"}]
    )
    assert [(turn["role"], [block["text"] for block in turn["content"]]) for turn in turns] == [("user", ["Fix this one.", "Again."])]


def test_half_a_surrogate_pair_in_an_output_does_not_end_the_attempt() -> None:
    with FakeAnthropic([tool_use("cat x"), tool_use("true")]) as api:
        asked = model(api)
        message = asked.query(START)
        asked.query([*START, message, *observe(asked, message, "\ud83d")])
        assert "?" in api.requests[1].results[0]


# -- limits and prices


def test_no_call_is_made_beyond_a_limit_and_the_attempt_ends_with_its_status() -> None:
    with FakeAnthropic() as api:
        meter = Meter(Limits(tokens=10))
        meter.add(Usage(1, 6, 6))
        assert ended(model(api, meter))[0]["extra"] == {"exit_status": "TokenLimitExceeded", "submission": ""}
        assert api.requests == []


@pytest.mark.parametrize("reply", [Hang(), Drip()], ids=["silent", "dripping"])
def test_a_call_that_outlasts_the_attempts_time_ends_it_by_that_limit(reply: Reply) -> None:
    with FakeAnthropic([reply, reply]) as api:
        meter = Meter(Limits(seconds=0.3))
        assert ended(model(api, meter))[0]["extra"]["exit_status"] == "TimeLimitExceeded"
        assert len(api.requests) == 1, "there is no time to try again"


def test_an_overload_that_lasts_longer_than_the_attempt_has_left_is_the_machines_failure() -> None:
    with FakeAnthropic(lambda _: Error(529, headers={"retry-after": "60"})) as api, pytest.raises(InfraError, match="asks to wait 60 s"):
        model(api, Meter(Limits(seconds=30))).query(START)


def test_tokens_of_an_unknown_model_are_counted_and_its_cost_is_unknown() -> None:
    with FakeAnthropic([tool_use("ls")]) as api:
        meter = Meter(Limits())
        message = model(api, meter, name="my-model").query(START)
        assert meter.spent == Usage(1, api.served["input_tokens"], api.served["output_tokens"], None)
        assert (message["extra"]["cost"], message["extra"]["cost_known"]) == (0.0, False)


def test_cached_tokens_count_and_cost_what_the_list_says() -> None:
    known = price("claude-haiku-5-5")
    if known is None:
        pytest.skip("needs a price list: the harness extra's litellm package is not installed")
    usage = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 300}
    with FakeAnthropic([tool_use("ls", usage=usage)]) as api:
        meter = Meter(Limits())
        model(api, meter).query(START)
        assert (meter.spent.input_tokens, meter.spent.output_tokens) == (9305, 7)
        assert meter.spent.cost == pytest.approx(known.cost(input=5, output=7, cache_read=9000, cache_write=300))


# -- faults

PASSING = {
    "429": Error(429),
    "429 with retry-after": Error(429, headers={"retry-after": "0"}),
    "500": Error(500),
    "529": Error(529),
    "503": Error(503),
    "408": Error(408),
    "cut connection": Cut(),
    "cut before the body": Cut(share=0.0),
    "truncated JSON": Raw(b'{"type": "message", "content": [{"type": "tex'),
    "garbage": Raw(b"\x00\xff garbage"),
    "a gateway's page": Raw(b"<html>502</html>", content_type="text/html"),
    "not a message": Raw(b'{"type": "message", "content": []}'),
    "a call without an id": Message(stop_reason="tool_use", blocks=[{"type": "tool_use", "name": "bash", "input": {}}]),
    "two calls with one id": Message(
        stop_reason="tool_use", blocks=[{"type": "tool_use", "id": "t", "name": "bash", "input": {"command": "ls"}}] * 2
    ),
}


@pytest.mark.parametrize("kind", PASSING)
def test_a_passing_fault_loses_nothing(kind: str) -> None:
    with FakeAnthropic(ScriptedModel({"Fix": ["ls"]}, faults={0: [PASSING[kind]] * 5})) as api:
        meter = Meter(Limits())
        message = model(api, meter, max_retries=5).query(START)
        assert [action["command"] for action in message["extra"]["actions"]] == ["ls"]
        assert len(api.requests) == 6
        assert meter.spent.calls == 1


@pytest.mark.parametrize("kind", PASSING)
def test_a_lasting_fault_is_the_machines_failure_and_no_outcome(kind: str) -> None:
    with FakeAnthropic(lambda _: PASSING[kind]) as api:
        meter = Meter(Limits())
        with pytest.raises(InfraError):
            model(api, meter).query(START)
        assert meter.spent.calls == 0


def test_a_server_that_never_answers_is_the_machines_failure() -> None:
    with FakeAnthropic(lambda _: Hang()) as api, pytest.raises(InfraError, match="did not answer in time"):
        model(api, timeout=0.2).query(START)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_what_no_call_can_survive_stops_the_run(status: int) -> None:
    with FakeAnthropic(lambda _: Error(status)) as api:
        with pytest.raises(ModelCallError) as caught:
            model(api).query(START)
        assert caught.value.stop
        assert len(api.requests) == 1


def test_a_request_that_the_api_calls_wrong_is_told_as_it_is() -> None:
    with FakeAnthropic(lambda _: Error(400, "thinking: not supported by this model")) as api:
        with pytest.raises(InfraError, match="thinking: not supported by this model"):
            model(api).query(START)
        assert len(api.requests) == 1


# -- other ways to the models


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAnthropic]:
    def script(request: Request) -> Reply:
        return tool_use("ls")

    with FakeAnthropic(script, anywhere=True) as api:
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
        monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", api.url)
        monkeypatch.setenv("CLOUD_ML_REGION", "global")
        monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "our-project")
        monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", api.url)
        yield api


def test_bedrock_is_asked_by_the_sdks_client_for_it(cloud: FakeAnthropic) -> None:
    claude = Claude("bedrock:us.anthropic.claude-haiku-5-5")
    meter = Meter(Limits())
    message = ClaudeModel(claude=claude, meter=meter, model_name=claude.model).query(START)
    assert message["extra"]["actions"][0]["command"] == "ls"
    assert type(claude._client).__name__ == "AnthropicBedrock"
    assert cloud.requests[0].path == "/model/us.anthropic.claude-haiku-5-5/invoke"
    assert cloud.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert meter.spent.calls == 1


def test_vertex_is_asked_by_the_sdks_client_for_it(cloud: FakeAnthropic) -> None:
    claude = Claude("vertex:claude-haiku-5-5", api_key=KEY)
    ClaudeModel(claude=claude, model_name=claude.model).query(START)
    assert type(claude._client).__name__ == "AnthropicVertex"
    assert cloud.requests[0].path == "/projects/our-project/locations/global/publishers/anthropic/models/claude-haiku-5-5:rawPredict"


@pytest.mark.parametrize(("name", "variable"), [("bedrock:x", "AWS_REGION"), ("vertex:x", "CLOUD_ML_REGION")])
def test_without_a_region_a_cloud_provider_is_not_asked(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for region in ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_ML_REGION"):
        monkeypatch.delenv(region, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(UsageError, match="client cannot be made") as caught:
        Claude(name)
    assert variable in caught.value.hint


def test_a_cloud_provider_without_credentials_stops_the_run(cloud: FakeAnthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    claude = Claude("bedrock:anthropic.claude-haiku-5-5", max_retries=0)
    with pytest.raises(ModelCallError, match="cannot make the call") as caught:
        ClaudeModel(claude=claude, model_name=claude.model).query(START)
    assert caught.value.stop
    assert cloud.requests == []


def test_cloud_providers_have_their_own_prices() -> None:
    if price("claude-haiku-5-5") is None:
        pytest.skip("needs a price list: the harness extra's litellm package is not installed")
    here, vertex = price("claude-haiku-5-5"), price("vertex:claude-haiku-5-5")
    us, gov = price("bedrock:us.anthropic.claude-haiku-5-5"), price("bedrock:anthropic.claude-haiku-5-5", "us-gov-east-1")
    assert here and vertex and us and gov
    costs = [
        found.cost(input=1000, output=1000, region=region)
        for found, region in ((here, ""), (us, ""), (gov, ""), (vertex, ""), (vertex, "regional"))
    ]
    assert costs == pytest.approx([costs[0] * factor for factor in (1, 1.1, 1.2, 1, 1.1)])


def test_a_model_of_litellms_neither_judges_nor_distils() -> None:
    with pytest.raises(UsageError, match="not the name of a Claude model"):
        Claude("litellm:openai/gpt-5", api_key=KEY)


def test_a_configuration_for_litellm_makes_a_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeAnthropic([tool_use("ls")]) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        asked = ClaudeModel(**{**swebench_config()["model"], "model_name": "claude-haiku-5-5"})
        assert asked.query(START)["extra"]["actions"]
        assert asked.serialize()["info"]["config"]["model"]["model_name"] == "claude-haiku-5-5"
