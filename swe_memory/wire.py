"""What goes over the wire to and from the Messages API, checked by us: shapes of replies, addresses, and how long a server asks to wait."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from swe_memory.errors import UsageError

_SURROGATE = re.compile("[\ud800-\udfff]")


class _CacheWrites(BaseModel):
    ephemeral_1h_input_tokens: int = Field(0, ge=0)


class Tokens(BaseModel):
    """A reply's usage. The three kinds of input tokens add up to the whole prompt; ``cache_creation`` says how the written ones are split."""

    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    cache_creation_input_tokens: int | None = Field(None, ge=0)
    cache_read_input_tokens: int | None = Field(None, ge=0)
    cache_creation: _CacheWrites | None = None
    inference_geo: str | None = None
    service_tier: str | None = None
    speed: str | None = None


class _Block(BaseModel):
    """One content block. Fields that are not used here are kept, so that a block can be sent back as it came."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None

    @model_validator(mode="after")
    def _callable(self) -> _Block:
        if self.type == "tool_use" and not (self.id and self.name):
            raise ValueError("a tool_use block without id or name")
        return self


class _StopDetails(BaseModel):
    category: str | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool that the model asks for. ``input`` is any JSON value, not yet checked."""

    id: str
    name: str
    input: Any


class Reply(BaseModel):
    """The part of a message that is used, checked: the SDK's own models take any shape, so that a missing field would fail later."""

    type: Literal["message"]
    content: list[_Block]
    usage: Tokens
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    id: str = ""
    model: str = ""

    @model_validator(mode="after")
    def _different(self) -> Reply:
        calls = [call.id for call in self.calls]
        if len(set(calls)) < len(calls):
            raise ValueError("two tool_use blocks with one id")
        return self

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if block.type == "text")

    @property
    def thinking(self) -> str:
        """What the model shows of its thinking; "" where it shows none."""
        return "\n".join(block.thinking for block in self.content if block.type == "thinking" and block.thinking)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that it asks for, in order."""
        return tuple(ToolCall(block.id, block.name, block.input) for block in self.content if block.type == "tool_use")

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content as it came, to be sent back: thinking is signed, and the API refuses a conversation in which it was changed."""
        return [block.model_dump(exclude_unset=True) for block in self.content]

    @property
    def detail(self) -> str:
        said = [part for part in (self.stop_details.category, self.stop_details.explanation) if part] if self.stop_details else []
        return f" ({': '.join(said)[:400]})" if said else ""


def check_address(url: str | None) -> None:
    """Raise UsageError where ``url`` cannot be an API's address; None and "" mean the SDK's default.

    The SDK takes any text for an address and fails in its depths, or only when it calls.
    """
    if not url:
        return
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(
            f"{url!r} is not the address of an API", "correct or unset ANTHROPIC_BASE_URL; it looks like http://127.0.0.1:8080"
        )


def seconds_to_wait(milliseconds: str | None, after: str | None) -> float:
    """What ``retry-after-ms`` and ``retry-after`` (seconds or a date) ask for; 0 where they ask for nothing that can be read."""
    for value, unit in ((milliseconds, 0.001), (after, 1.0)):
        try:
            return float(value or "") * unit
        except ValueError:
            continue
    try:
        return parsedate_to_datetime(after or "").timestamp() - time.time()
    except ValueError:
        return 0.0


def sendable(value: Any) -> Any:
    """``value`` (JSON) with each half of a surrogate pair, as JSON files may hold, replaced: it cannot be sent as UTF-8."""
    if isinstance(value, str):
        return _SURROGATE.sub("?", value) if _SURROGATE.search(value) else value
    if isinstance(value, Mapping):
        return {sendable(key): sendable(part) for key, part in value.items()}
    return [sendable(part) for part in value] if isinstance(value, list | tuple) else value


def cached(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with a cache mark at the end of each of the last two user turns.

    The first of the two is where the request before this one ended, so that its cache is read; the second is for the next request. With the one on the
    system prompt that makes three of the four marks that a request may have (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching).
    """
    marked = [dict(message) for message in messages]
    for message in [message for message in marked if message["role"] == "user"][-2:]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if blocks:
            message["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    return marked
