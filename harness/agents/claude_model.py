"""Claude as a model of mini-SWE-agent, by way of the product's one transport (:mod:`swe_memory.claude`).

What a reply is worth is decided as mini-SWE-agent's own models do: bash calls become actions; a reply that cannot be carried out goes back to the model as
a format error, of which mini allows a few in a row. What only the machine is to blame for is an InfraError, so that the attempt is tried again; a full
context and a used-up limit end the attempt with a status of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import StrictUndefined, Template
from minisweagent.exceptions import FormatError, InterruptAgentFlow
from minisweagent.models.utils.actions_toolcall import BASH_TOOL, format_toolcall_observation_messages, parse_toolcall_actions
from pydantic import BaseModel, ConfigDict

from harness.agents.mini_config import MAX_TOKENS
from harness.metering import STATUS, LimitReached, Meter
from swe_memory.claude import Claude, ContextFull, ModelCallError, OutOfTime, Turn
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from anthropic.types import ToolParam

    from swe_memory.claude import Effort
    from swe_memory.rate import RateLimiter

CONTEXT_FULL = "ContextWindowExceeded"
"""Exit status of an attempt whose conversation is longer than the model takes."""

_BASH: ToolParam = {
    "name": BASH_TOOL["function"]["name"],
    "description": BASH_TOOL["function"]["description"],
    "input_schema": BASH_TOOL["function"]["parameters"],
}
# What mini-SWE-agent's templates are told of how a reply ended: the words of the API that litellm speaks.
_FINISH = {"max_tokens": "length", "tool_use": "tool_calls"}
_NOT_RUN = "This command was not run."

Messages = Sequence[Mapping[str, Any]]


class ClaudeModelConfig(BaseModel):
    """What the model is asked with. The templates are mini-SWE-agent's; ``thinking`` is the API's setting, None for the model's own default."""

    model_config = ConfigDict(extra="ignore")  # of a configuration for litellm, what has no meaning here

    model_name: str
    observation_template: str = (
        "{% if output.exception_info %}<exception>{{ output.exception_info }}</exception>\n{% endif %}"
        "<returncode>{{ output.returncode }}</returncode>\n<output>\n{{ output.output }}</output>"
    )
    format_error_template: str = "{{ error }}"
    max_tokens: int = MAX_TOKENS
    thinking: dict[str, Any] | None = None


class ClaudeModel:
    """Meets mini-SWE-agent's Model protocol: ``ClaudeModel(model_name="claude-haiku-5-5", **config)``.

    ``claude`` is the transport, made with the environment's key where none is given; ``meter`` is asked before each call and told of it after. What somebody
    who looks at the attempt later should know is in ``notes``.
    """

    def __init__(self, *, claude: Claude | None = None, meter: Meter | None = None, **config: Any) -> None:
        self.config = ClaudeModelConfig(**config)
        self.notes: list[str] = []
        self._claude = claude or transport(self.config.model_name, self.config.max_tokens)
        self._meter = meter

    def query(self, messages: Messages, **_: Any) -> dict[str, Any]:
        """The next message of the model, its actions in ``extra``.

        Raises FormatError for a reply that cannot be carried out, InterruptAgentFlow where a limit or the context is used up, InfraError where the machine
        failed, ModelCallError where no call of this run can work.
        """
        check(self._meter)
        turn = self._ask(messages)
        if self._meter is not None:
            self._meter.add(turn.usage)
        extra = _extra(turn)
        reply = turn.reply
        message: dict[str, Any] = {"role": "assistant", "content": reply.blocks, "extra": extra}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.stop_reason == "model_context_window_exceeded":
            end(CONTEXT_FULL, "The reply filled the model's context.", message | {"content": reply.text})
        try:
            extra["actions"] = self._actions(turn)
        except FormatError as error:
            error.messages[0]["extra"] |= extra | {"response": extra["response"] | {"content": reply.blocks}}
            raise
        return message

    def _ask(self, messages: Messages) -> Turn:
        system, turns = conversation(messages)
        left = self._meter.seconds_left if self._meter is not None else None
        try:
            return self._claude.converse(system, turns, (_BASH,), thinking=self.config.thinking, seconds=left)  # type: ignore[arg-type]
        except ContextFull as problem:
            end(CONTEXT_FULL, problem.what)
        except OutOfTime as problem:
            end(STATUS["seconds"], problem.what)
        except ModelCallError as problem:
            if problem.stop:
                raise
            raise InfraError(problem.what, problem.hint) from problem

    def _actions(self, turn: Turn) -> list[dict[str, Any]]:
        """The commands of a reply. A reply that was cut off is not carried out even in part: the command at the cut is not the one that was meant."""
        reply = turn.reply
        if reply.stop_reason == "refusal":
            self.notes.append(f"the model refused to answer{reply.detail}")
            self._refuse(f"You refused to answer{reply.detail}, so nothing was run.", turn)
        if reply.stop_reason == "max_tokens":
            self._refuse(f"Your reply was cut off at {self.config.max_tokens} tokens, so nothing of it was run.", turn)
        calls = [
            SimpleNamespace(id=call.id, function=SimpleNamespace(name=call.name, arguments=json.dumps(call.input))) for call in reply.calls
        ]
        actions: list[dict[str, Any]] = parse_toolcall_actions(
            calls, format_error_template=self.config.format_error_template, template_kwargs={"finish_reason": _finish(turn)}
        )
        if any(not isinstance(action["command"], str) for action in actions):
            self._refuse("The 'command' argument of a bash tool call must be text.", turn)
        return actions

    def _refuse(self, error: str, turn: Turn) -> NoReturn:
        """Say to the model that its reply was no good, in mini-SWE-agent's template."""
        text = Template(self.config.format_error_template, undefined=StrictUndefined).render(
            error=error, actions=[], has_tool_calls=bool(turn.reply.calls), finish_reason=_finish(turn)
        )
        raise FormatError({"role": "user", "content": text, "extra": {"interrupt_type": "FormatError"}})

    def format_message(self, **message: Any) -> dict[str, Any]:
        """A message of any role, as it is."""
        return message

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """What the commands of ``message`` gave, one message each."""
        observed: list[dict[str, Any]] = format_toolcall_observation_messages(
            actions=message.get("extra", {}).get("actions", []),
            outputs=outputs,
            observation_template=self.config.observation_template,
            template_vars=template_vars,
        )
        return observed

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """What templates may use: the configuration."""
        return self.config.model_dump()

    def serialize(self) -> dict[str, Any]:
        """The model's part of a trajectory file."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"model": self.config.model_dump(mode="json"), "model_type": kind}}}


def transport(model: str, max_tokens: int = MAX_TOKENS, effort: Effort | None = None, limiter: RateLimiter | None = None) -> Claude:
    """The way to a model for whole attempts: more patient than for a single question, since what an attempt has cost so far is lost with it.

    Ten retries, each after at most 8 s unless the API asks for more, outlast an overload of a minute; ten minutes are enough for the longest reply. Raises
    UsageError where there is no key.
    """
    return Claude(model, max_tokens=max_tokens, timeout=600.0, max_retries=10, effort=effort, limiter=limiter)


def check(meter: Meter | None) -> None:
    """End the attempt, in mini-SWE-agent's way, where the meter allows no other call."""
    if meter is None:
        return
    try:
        meter.check()
    except LimitReached as reached:
        end(reached.status, str(reached))


def end(status: str, text: str, *before: dict[str, Any]) -> NoReturn:
    """End the attempt with this exit status and without a submission; the messages ``before`` are kept."""
    raise InterruptAgentFlow(*before, {"role": "exit", "content": text, "extra": {"exit_status": status, "submission": ""}})


def conversation(messages: Messages) -> tuple[str, list[dict[str, Any]]]:
    """mini-SWE-agent's messages as the API takes them: (system prompt, turns that alternate).

    All that comes between two turns of the model is one user turn, results of its tools first. A call that nothing answers (the agent was interrupted) gets
    an answer that says so; blank text, which the API refuses, is left out.
    """
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    results: dict[str, Any] = {}

    def flush() -> None:
        asked = [block["id"] for block in turns[-1]["content"] if block["type"] == "tool_use"] if turns else []
        answers = [
            {
                "type": "tool_result",
                "tool_use_id": key,
                "content": results.get(key, _NOT_RUN),
                **({} if key in results else {"is_error": True}),
            }
            for key in asked
        ]
        content = [*answers, *told]
        if content and turns and turns[-1]["role"] == "user":  # the model's turn between them was blank
            turns[-1]["content"] += content
        elif content:
            turns.append({"role": "user", "content": content})
        told.clear()
        results.clear()

    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "system":
            system.append(_text(content))
        elif role == "assistant":
            flush()
            if said := _blocks(content):
                turns.append({"role": "assistant", "content": said})
        elif role == "tool":
            results[message["tool_call_id"]] = _text(content)
        elif role == "user":
            told += _blocks(content)
    flush()
    return "\n\n".join(system), turns


def _blocks(content: Any) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    return [block for block in blocks if block.get("type") != "text" or block.get("text", "").strip()]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


def _extra(turn: Turn) -> dict[str, Any]:
    """What a trajectory keeps of one call beside its content. ``cost`` is a number, as mini-SWE-agent adds it up: 0 where it is not known."""
    reply = turn.reply
    response = {"id": reply.id, "model": reply.model, "stop_reason": reply.stop_reason, "usage": reply.usage.model_dump(exclude_unset=True)}
    return {"cost": turn.usage.cost or 0.0, "cost_known": turn.usage.cost is not None, "response": response}


def _finish(turn: Turn) -> str:
    return _FINISH.get(turn.reply.stop_reason or "", "stop")
