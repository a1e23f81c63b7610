"""Message lists: mini-SWE-agent 1 (a bash block in the text), 1.1 (tool calls), and bare lists in OpenAI's or Anthropic's shape.

Sources read for the shapes: mini-SWE-agent 1.15 (trajectories) and 2.4 (agents/default.py, models/utils/actions_*.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_memory.records import Action, Step, Trajectory
from swe_memory.trajectories.reading import MAX_TEXT_CHARS, number, plain_text

Message = Mapping[str, Any]

# What the agents themselves look for (default action patterns of mini-SWE-agent 1.x and 2.x), most specific first.
_BLOCKS = (
    re.compile(r"<mswea_bash_command>(.*?)</mswea_bash_command>", re.DOTALL),
    re.compile(r"```mswea_bash_command\s*\n(.*?)\n?```", re.DOTALL),
    re.compile(r"```(?:bash|sh|shell)\s*\n(.*?)\n```", re.DOTALL),
)
_OBSERVATION = re.compile(r"\s*(?:(<exception>.*?</exception>)\s*)?<returncode>(-?\d+)</returncode>\n?", re.DOTALL)
_EXECUTED = re.compile(r"\s*(?:<returncode>|<exception>|<output>|<warning>|The last command <command>|\{\"returncode\")")
_REFUSED = re.compile(
    r"\s*(?:Please always provide (?:EXACTLY )?ONE action|Format error\b|Tool call error\b|Expected exactly 1 action|No tool calls found"
    r"|Your previous response reached the output token limit|Your output was not formatted correctly)",
    re.IGNORECASE,
)
_SUBMITTED = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_OLD_SUBMITTED = "MINI_SWE_AGENT_FINAL_OUTPUT"
_NOT_EXECUTED = "action was not executed"


@dataclass
class _Turn:
    """One model turn as it is collected: what the model said, what it called, and everything that came back before its next turn."""

    message: Message
    refused_text: str | None = None
    answers: list[Message] = field(default_factory=list)


def read_messages(messages: Sequence[object], info: Mapping[str, Any], name: str) -> Trajectory:
    """A trajectory from a message list and mini-SWE-agent's ``info`` (empty for bare lists).

    Never fails on odd messages: what is not understood is skipped.
    """
    turns, task, ending = _turns(messages)
    exit_extra = _mapping(ending.get("extra"))
    exit_status = plain_text(info.get("exit_status") or exit_extra.get("exit_status"))
    steps = tuple(_step(turn, last=turn is turns[-1], exit_status=exit_status) for turn in turns)
    usage = [_usage(message) for message in messages if isinstance(message, Mapping)]
    stats = _mapping(info.get("model_stats"))
    config = _mapping(info.get("config"))
    costs = [c for m in messages if isinstance(m, Mapping) and (c := number(_mapping(m.get("extra")).get("cost"))) is not None]
    version = plain_text(info.get("mini_version"))
    return Trajectory(
        steps=steps,
        exit_status=exit_status,
        patch=_patch(info, exit_extra, exit_status, steps),
        task=task,
        format=name,
        model=plain_text(_mapping(config.get("model")).get("model_name")),
        agent=f"mini-swe-agent {version}".strip() if version or config else "",
        reported_calls=_integer(stats.get("api_calls")),
        cost=number(stats.get("instance_cost")) if "instance_cost" in stats else (sum(costs) if costs else None),
        input_tokens=sum(u[0] for u in usage if u) if any(usage) else None,
        output_tokens=sum(u[1] for u in usage if u) if any(usage) else None,
    )


def is_message(value: object) -> bool:
    """Whether this looks like a chat message of any of the shapes read here."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("role"), str) or value.get("object") == "response" or value.get("type") in ("message", "function_call_output")
    )


def first_user_text(messages: Sequence[object]) -> str:
    """The first user message before any model turn: the task as the agent saw it."""
    for message in messages:
        if not isinstance(message, Mapping) or _is_model(message):
            continue
        if message.get("role") == "user" and not message.get("is_demo"):
            return plain_text(message.get("content"))
    return ""


def _turns(messages: Sequence[object]) -> tuple[list[_Turn], str, Message]:
    turns: list[_Turn] = []
    task: str | None = None
    ending: Message = {}
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        extra = _mapping(message.get("extra"))
        if _is_model(message):
            turns.append(_Turn(message))
        elif message.get("role") == "exit":
            ending = message
        elif extra.get("interrupt_type") == "FormatError" and not (turns and _can_be_refused(turns[-1])):
            # mini-SWE-agent 2 keeps no message for a reply that it could not parse; the call was made and billed all the same.
            turns.append(_Turn({"content": _refused_reply(extra)}, refused_text=plain_text(message.get("content"))))
        elif turns:
            turns[-1].answers.append(message)
        elif task is None and message.get("role") == "user":
            task = plain_text(message.get("content"))
    return turns, task or "", ending


def _is_model(message: Message) -> bool:
    return message.get("role") == "assistant" or message.get("object") == "response"


def _can_be_refused(turn: _Turn) -> bool:
    """A turn that is still without an answer and called no tool can be what a format error answers."""
    return turn.refused_text is None and not turn.answers and not list(_calls(turn.message))


def _refused_reply(extra: Mapping[str, Any]) -> str:
    if isinstance(extra.get("model_response"), str):
        return str(extra["model_response"])
    response = _mapping(extra.get("response"))
    choices = response.get("choices")
    if isinstance(choices, list) and choices:
        return plain_text(_mapping(_mapping(choices[0]).get("message")).get("content"))
    return _thought(response)


def _step(turn: _Turn, *, last: bool, exit_status: str) -> Step:
    if turn.refused_text is not None:
        return Step(thought=_without_label(plain_text(turn.message.get("content"))), feedback=turn.refused_text)
    calls = list(_calls(turn.message))
    if calls:
        return _tool_step(turn, calls, submitted=last and exit_status.lower() == "submitted")
    return _text_step(turn, exit_status)


# --- tool calls (1.1, OpenAI chat, OpenAI responses, Anthropic) ---


def _calls(message: Message) -> Iterator[tuple[str, str]]:
    """(id, command) of each call of a turn; "" where there is no id."""
    parsed = _mapping(message.get("extra")).get("actions")
    if isinstance(parsed, list) and parsed:
        for action in parsed:
            if isinstance(action, Mapping):
                yield plain_text(action.get("tool_call_id")), plain_text(action.get("command"))
        return
    for call in _list(message.get("tool_calls")):
        function = _mapping(_mapping(call).get("function"))
        if function:
            yield plain_text(call.get("id")), _command(function.get("name"), function.get("arguments"))
    for part in (*_list(message.get("content")), *_list(message.get("output"))):
        if not isinstance(part, Mapping):
            continue
        if part.get("type") == "tool_use":
            yield plain_text(part.get("id")), _command(part.get("name"), part.get("input"))
        elif part.get("type") == "function_call":
            yield plain_text(part.get("call_id") or part.get("id")), _command(part.get("name"), part.get("arguments"))


def _command(name: object, arguments: object) -> str:
    """The shell command of a call; for other tools, the tool's name and its arguments as JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return plain_text(f"{plain_text(name)} {arguments}")
    if isinstance(arguments, Mapping) and len(arguments) == 1 and isinstance(arguments.get("command"), str):
        return plain_text(arguments["command"])
    return plain_text(f"{plain_text(name)} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}")


def _results(answers: Sequence[Message]) -> Iterator[tuple[str, Message, str]]:
    """(id, message, text) of everything that came back; a message with several Anthropic tool results gives several."""
    for message in answers:
        parts = [p for p in _list(message.get("content")) if isinstance(p, Mapping) and p.get("type") == "tool_result"]
        for part in parts:
            yield plain_text(part.get("tool_use_id")), message, plain_text(part.get("content"))
        if not parts:
            content = message.get("output") if message.get("type") == "function_call_output" else message.get("content")
            yield plain_text(message.get("tool_call_id") or message.get("call_id")), message, plain_text(content)
        elif rest := plain_text(message.get("content")):
            yield "", message, rest


def _tool_step(turn: _Turn, calls: list[tuple[str, str]], *, submitted: bool) -> Step:
    results = list(_results(turn.answers))
    by_id = {key: (message, text) for key, message, text in results if key}
    in_order = iter([(message, text) for key, message, text in results if not key and "actions" not in _mapping(message.get("extra"))])
    used: set[int] = set()
    actions: list[Action] = []
    feedback: list[str] = []
    for key, command in calls:
        found = by_id.get(key) if key else next(in_order, None)
        if found is None:
            # Nothing came back: the command that submitted, or the one during which the run ended.
            actions.append(Action(command))
            continue
        message, text = found
        used.add(id(message))
        extra = _mapping(message.get("extra"))
        if extra.get("exception_info") == _NOT_EXECUTED:
            if submitted:
                actions.append(Action(command))
            else:
                feedback.append(f"not executed: {command}")
            continue
        output, returncode = _observation(text)
        actions.append(Action(command, output, returncode if "returncode" not in extra else _integer(extra["returncode"])))
    feedback += [text for _, message, text in results if id(message) not in used and text]
    return Step(_without_commands(_thought(turn.message), calls), tuple(actions), "\n".join(feedback))


def _without_commands(thought: str, calls: Sequence[tuple[str, str]]) -> str:
    """mini-SWE-agent 2 with actions in the text keeps them both there and, parsed, beside it: once is enough."""
    commands = {command.strip() for _, command in calls}
    for pattern in _BLOCKS:
        thought = pattern.sub(lambda match: "" if match.group(1).strip() in commands else match.group(0), thought)
    return thought.strip()


def _thought(message: Message) -> str:
    """What the model said beside its calls; its summary of reasoning where it said nothing."""
    said = plain_text(message.get("content"))
    if not said:
        said = "\n".join(
            plain_text(p.get("content")) for p in _list(message.get("output")) if isinstance(p, Mapping) and p.get("type") == "message"
        )
    if not said:
        said = plain_text(message.get("reasoning_content"))
    return _without_label(said)


# --- a command in the text (1, and bare lists without tool calls) ---


def _text_step(turn: _Turn, exit_status: str) -> Step:
    content = plain_text(turn.message.get("content")) or _thought(turn.message)
    matches = next((found for pattern in _BLOCKS if (found := list(pattern.finditer(content)))), [])
    answer = turn.answers[0] if turn.answers else None
    answer_text = plain_text(answer.get("content")) if answer else ""
    if len(matches) == 1:
        executed = not _is_refusal(answer, answer_text)
    else:  # refused by mini-SWE-agent; other agents may have run them: the answer tells
        executed = bool(matches) and answer is not None and _is_execution(answer, answer_text)
    if not executed:
        return Step(_without_label(content), feedback=_joined(turn.answers, exit_status))
    command = "\n".join(match.group(1).strip() for match in matches)
    thought = content
    for match in reversed(matches):
        thought = thought[: match.start()] + thought[match.end() :]
    output, returncode = _observation(answer_text)
    extra = _mapping(answer.get("extra")) if answer else {}
    returncode = _integer(extra["returncode"]) if "returncode" in extra else returncode
    return Step(_without_label(thought), (Action(command, output, returncode),), _joined(turn.answers[1:], exit_status))


def _is_refusal(answer: Message | None, text: str) -> bool:
    return answer is not None and (_mapping(answer.get("extra")).get("interrupt_type") == "FormatError" or _REFUSED.match(text) is not None)


def _is_execution(answer: Message, text: str) -> bool:
    return "returncode" in _mapping(answer.get("extra")) or _EXECUTED.match(text) is not None


def _joined(answers: Sequence[Message], exit_status: str) -> str:
    texts = [plain_text(answer.get("content")) for answer in answers]
    return "\n".join(text for text in texts if text and text != exit_status)


def _observation(text: str) -> tuple[str, int | None]:
    """(output, return code) out of the agent's wrapper around an output; the text itself where there is no wrapper."""
    if text.startswith("{") and '"returncode"' in text[:4000]:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return text, None
        if isinstance(data, dict) and "returncode" in data:
            rest = {k: v for k, v in data.items() if k not in ("returncode", "output") and v not in ("", None)}
            lines = [plain_text(data.get("output")), *(f"{key}: {plain_text(value)}" for key, value in sorted(rest.items()))]
            return "\n".join(line for line in lines if line), _integer(data["returncode"])
    match = _OBSERVATION.match(text)
    if match is None:
        return text, None
    output = text[match.end() :]
    if output.startswith("<output>") and output.rstrip().endswith("</output>"):
        output = output.rstrip()[len("<output>") : -len("</output>")].removeprefix("\n").removesuffix("\n")
    return (f"{match.group(1)}\n{output}" if match.group(1) else output), int(match.group(2)[:12])


def _without_label(text: str) -> str:
    return re.sub(r"\A\s*THOUGHTS?:\s*", "", text).strip()


# --- the end of the run ---


def _patch(info: Mapping[str, Any], exit_extra: Mapping[str, Any], exit_status: str, steps: tuple[Step, ...]) -> str | None:
    source = info if "submission" in info else exit_extra
    if "submission" in source:
        value = source["submission"]
        if value is None:
            return "" if exit_status else None
        text = plain_text(value, whole=True)
        # Before 2.0 the text of whatever ended the run (a limit, a time-out) was kept under this name too.
        return text if exit_status in ("", "Submitted") or _is_diff(text) else ""
    if steps and steps[-1].actions:
        final = steps[-1].actions[-1]
        if (_SUBMITTED in final.command or _OLD_SUBMITTED in final.command) and _is_diff(final.output):
            return final.output if len(final.output) <= MAX_TEXT_CHARS else None  # cut in the middle, it is no patch
    return None


def _is_diff(text: str) -> bool:
    return re.match(r"\s*(?:diff --git |--- |Index: )", text) is not None


def _usage(message: Message) -> tuple[int, int] | None:
    """(input, output) tokens of the model call behind a message, cached input included."""
    extra = _mapping(message.get("extra"))
    usage = _mapping(message.get("usage")) or _mapping(_mapping(extra.get("response")).get("usage"))
    if not usage:
        return None
    if "prompt_tokens" in usage:
        return _integer(usage["prompt_tokens"]) or 0, _integer(usage.get("completion_tokens")) or 0
    given = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_integer(usage.get(key)) or 0 for key in given), _integer(usage.get("output_tokens")) or 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 else None
