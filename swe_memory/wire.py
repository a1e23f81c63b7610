"""What goes over the wire to and from the Messages API, checked by us: shapes of replies, addresses, and how long a server asks to wait."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from swe_memory.errors import UsageError


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
    type: str
    text: str = ""


class _StopDetails(BaseModel):
    category: str | None = None
    explanation: str | None = None


class Reply(BaseModel):
    """The part of a message that is used, checked: the SDK's own models take any shape, so that a missing field would fail later."""

    type: Literal["message"]
    content: list[_Block]
    usage: Tokens
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if block.type == "text")

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
