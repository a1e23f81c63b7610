"""The one way to a Claude model: a question in, a typed answer or a typed failure out.

Retries, back-off and ``retry-after`` are the SDK's. What is added: answers are parsed into a pydantic type and, where they do not fit, asked for
once more with the complaint; what every call used is counted, also when its answer was no good; a budget is looked at before each call; and
what goes wrong is said in words a user can act on. Import it where it is needed: it brings pydantic, and making a Claude brings the SDK.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from swe_memory.budget import Budget, BudgetSpent
from swe_memory.claude_client import DEFAULT_MODEL, ContextFull, ModelCallError, OutOfTime, connect, explain, provider_of, region_of
from swe_memory.errors import UsageError
from swe_memory.pricing import Price, price
from swe_memory.rate import RateLimiter, Stopped
from swe_memory.records import Usage
from swe_memory.wire import Reply, Tokens, cached, seconds_to_wait, sendable
from swe_memory.within import GivenUp, Late, within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import anthropic
    from anthropic.types import MessageParam, ThinkingConfigParam, ToolParam

__all__ = ["DEFAULT_MODEL", "Answer", "Claude", "ContextFull", "Failure", "ModelCallError", "OutOfTime", "Turn"]

RAW_LIMIT = 20_000
"""Characters of a model's answer that are kept, shown back to it, or stored with a failure."""

ANSWER_LIMIT = 200_000
"""Characters of an answer that are read; the default of ``max_tokens`` has room for far fewer."""

T = TypeVar("T", bound=BaseModel)
Effort = Literal["low", "medium", "high", "xhigh", "max"]
FailureKind = Literal["invalid", "truncated", "refused", "paused", "too_long", "unexpected"]

_GRACE = 0.5  # seconds by which the HTTP client's own limit, which closes the connection, comes first

# What stops an answer, and what that makes of it. Everything else ("end_turn", "stop_sequence") leaves a text to parse.
_STOPPED: dict[str, tuple[FailureKind, str]] = {
    "refusal": ("refused", "the model refused to answer"),
    "pause_turn": ("paused", "the model paused its turn, which only makes sense with server tools, and none were offered"),
    "tool_use": ("unexpected", "the model asked for a tool, and none were offered"),
    "model_context_window_exceeded": ("too_long", "question and answer together exceed the model's context window"),
    "max_tokens": ("truncated", "the answer was cut off at {max_tokens} tokens"),
}


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A valid answer. ``usage`` covers all calls that it took; ``attempts`` is 2 where the first answer did not fit; ``raw`` is its text."""

    value: T
    usage: Usage
    raw: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The model was asked and billed, and gave nothing usable. ``raw`` is what it said last, at most RAW_LIMIT characters."""

    kind: FailureKind
    reason: str
    usage: Usage
    raw: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Turn:
    """The model's turn in a conversation, as it came. ``usage`` is what this one call used."""

    reply: Reply
    usage: Usage


class Claude:
    """One model, one set of credentials, one tally; safe to share between threads.

    ``model`` is a name of the Anthropic API's, ``bedrock:NAME`` or ``vertex:NAME``: those two are asked through the SDK's clients for them, which find
    credentials and region as their documentation says (neither was tried against the service). ``base_url`` and ``api_key`` default to what the SDK reads from
    the environment (for the API: ANTHROPIC_BASE_URL; ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or a profile). ``timeout`` is in seconds for one try, up to the
    reply's last byte, ``max_wait`` in seconds for one ``retry-after``: a server that asks for more is not waited for. ``max_tokens`` bounds the answer,
    thinking included. ``limiter`` is asked before each request that is sent, the SDK's retries among them; its tokens are what may be used at most until the
    answer says what was, tokens read from a cache included although the API does not count them. Its ``stop`` also gives up a request under way; the SDK's
    own pause before a retry it does not cut short. Raises UsageError, before anything is sent, where there is no key or where ``budget`` limits the cost of a
    model whose price is not known.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = 8192,
        timeout: float = 300.0,
        max_retries: int = 5,
        max_wait: float = 120.0,
        effort: Effort | None = None,
        budget: Budget | None = None,
        on_usage: Callable[[Usage], None] | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.model = model
        self.provider, self._name = provider_of(model)
        region = region_of(self.provider)
        self.price: Price | None = price(model, region)
        self._region = "regional" if self.provider == "vertex" and region != "global" else None
        self.budget = budget if budget is not None else Budget()
        self._on_usage = on_usage
        if self.budget.cost is not None and self.price is None:
            raise UsageError(
                f"a budget in dollars cannot be kept for {model!r}: its price is not known here",
                "limit calls or tokens instead, or install the harness extra, whose litellm package brings a price list",
            )
        self._limiter = limiter if limiter is not None else RateLimiter()
        self._max_tokens = max_tokens
        self._max_wait = max_wait
        self._effort = effort
        self._lock = threading.Lock()
        self._usage = Usage(cost=0.0 if self.price else None)
        self._retries = 0
        self._timeout = timeout
        self._call = threading.local()
        self._client = connect(
            self.provider, api_key=api_key, base_url=base_url, timeout=timeout, max_retries=max_retries, watch=self._watch
        )

    @property
    def usage(self) -> Usage:
        """What all calls so far used, good answers or not. A response that was lost on its way is not in it: nobody told us its tokens."""
        with self._lock:
            return self._usage

    @property
    def retries(self) -> int:
        """How many times the SDK sent a request again for the calls that were answered in the end."""
        with self._lock:
            return self._retries

    def ask(self, system: str, user: str, schema: type[T]) -> Answer[T] | Failure:
        """Ask for an answer of type ``schema``; where it does not fit, ask once more with the complaint, and no oftener.

        Returns a Failure where the model answered but not usably. Raises ModelCallError where it could not be asked, BudgetSpent where the
        budget does not allow the call, Stopped where the run was stopped while the call waited for the limiter; all carry the ``usage`` of what was already
        paid for this question.
        """
        system, user = sendable(system), sendable(user)
        messages: list[MessageParam] = [{"role": "user", "content": user}]
        used = Usage()
        failure: Failure | None = None
        max_tokens = self._max_tokens
        for attempt in (1, 2):
            try:
                reply, usage = self._ask(system, messages, schema, max_tokens)
            except (ModelCallError, BudgetSpent, Stopped) as problem:
                if isinstance(problem, ContextFull):
                    return Failure("too_long", problem.what, used, "", attempt)
                problem.usage = used
                raise
            used = used + usage
            text = reply.text
            if len(text) > ANSWER_LIMIT:
                return Failure(
                    "invalid", f"the answer has {len(text):,} characters; {ANSWER_LIMIT:,} are read", used, text[:RAW_LIMIT], attempt
                )
            stopped = _STOPPED.get(reply.stop_reason or "")
            if stopped is None:
                try:
                    return Answer(_parse(text, schema), used, text[:RAW_LIMIT], attempt)
                except ValidationError as problem:
                    failure = Failure("invalid", _complaint(problem), used, text[:RAW_LIMIT], attempt)
            else:
                kind, reason = stopped
                failure = Failure(kind, reason.format(max_tokens=max_tokens) + reply.detail, used, text[:RAW_LIMIT], attempt)
                if kind != "truncated":
                    return failure
                # What filled the space may have been thinking, which does not get shorter by asking.
                max_tokens *= 2
            messages = _repair(user, text, failure.reason)
        assert failure is not None
        return failure

    def converse(
        self,
        system: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[ToolParam],
        *,
        thinking: ThinkingConfigParam | None = None,
        seconds: float | None = None,
    ) -> Turn:
        """The model's next turn in a conversation in which it may use ``tools``. Nothing is asked twice: what the turn is worth is the caller's to say.

        ``messages`` are the turns so far, in the API's own shape, the model's as :attr:`Reply.blocks` gave them. The prompt is cached up to the last turn.
        ``thinking`` is the API's setting, None for the model's default. ``seconds`` is how long this call may take, with its retries.

        Raises ContextFull where the conversation is longer than the model takes, OutOfTime where ``seconds`` are over without an answer; ModelCallError,
        BudgetSpent and Stopped as :meth:`ask` does.
        """
        asked = len(system) + len(json.dumps(messages, default=str)) + len(json.dumps(tools))
        settings: dict[str, Any] = {} if thinking is None else {"thinking": thinking}
        if self._effort:
            settings["output_config"] = {"effort": self._effort}
        self._call.until = None if seconds is None else time.monotonic() + seconds
        try:
            reply, usage = self._send(
                sendable(system), cached(sendable(messages)), asked, self._max_tokens, tools=sendable(tools), **settings
            )
        finally:
            self._call.until = None
        return Turn(reply, usage)

    def _ask(self, system: str, messages: list[MessageParam], schema: type[BaseModel], max_tokens: int) -> tuple[Reply, Usage]:
        """One request for an answer of that type."""
        import anthropic

        asked = len(system) + sum(len(str(message["content"])) for message in messages)
        form = {"format": {"type": "json_schema", "schema": anthropic.transform_schema(schema)}}
        return self._send(system, messages, asked, max_tokens, output_config={**form, **({"effort": self._effort} if self._effort else {})})

    def _send(self, system: str, messages: Sequence[Any], characters: int, max_tokens: int, **more: Any) -> tuple[Reply, Usage]:
        """One request, retried by the SDK. Counts what it used, in the tally and in the budget, whatever becomes of the answer."""
        import anthropic

        tokens, dollars = self._worst_case(characters, max_tokens)
        with self.budget.room(tokens, dollars) as spend, self._limiter.request(tokens) as settle:
            try:
                raw = self._client.messages.with_raw_response.create(
                    model=self._name,
                    max_tokens=max_tokens,
                    system=[{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
                    messages=messages,
                    **more,
                )
            except (ModelCallError, Stopped):
                raise
            except Exception as problem:
                if self.provider == "anthropic" and not isinstance(problem, anthropic.AnthropicError):
                    raise
                raise explain(problem, self._client, self.provider, self.model) from None
            reply = Reply.model_validate_json(raw.http_response.content)
            usage = self._bill(reply.usage)
            spend(usage)
            settle(usage.input_tokens + usage.output_tokens)
        with self._lock:
            self._usage = self._usage + usage
            self._retries += raw.retries_taken
        if self._on_usage is not None:
            self._on_usage(usage)
        return reply, usage

    def _worst_case(self, characters: int, max_tokens: int) -> tuple[int, float | None]:
        """An estimate from above of one call's tokens and dollars: English and code take 3 characters a token or more."""
        asked = characters // 3 + 1000
        return asked + max_tokens, self.price.cost(input=asked, output=max_tokens) if self.price else None

    def _bill(self, used: Tokens) -> Usage:
        hour = min(used.cache_creation.ephemeral_1h_input_tokens if used.cache_creation else 0, used.cache_creation_input_tokens or 0)
        write, read = (used.cache_creation_input_tokens or 0) - hour, used.cache_read_input_tokens or 0
        cost = None
        # Other tiers and speeds have prices of their own, which nobody asked for and the list may not have.
        if self.price is not None and used.service_tier in (None, "standard") and used.speed in (None, "standard"):
            cost = self.price.cost(
                input=used.input_tokens,
                output=used.output_tokens,
                cache_read=read,
                cache_write=write,
                cache_write_1h=hour,
                region=self._region or used.inference_geo,
            )
        return Usage(1, used.input_tokens + hour + write + read, used.output_tokens, cost)

    def _watch(self, request: anthropic.APIRequest, call_next: anthropic.CallNext) -> anthropic.APIResponse[object]:
        """Around every request that the SDK sends. What is raised here as retryable is tried again by the SDK, as its own faults are."""
        import anthropic

        if request.retries_taken:
            # One more request. Its tokens are those set aside for the first try, which nobody has given back.
            with self._limiter.request(0):
                pass
        left = self._seconds_left()
        if left is not None:
            if left <= 0:
                raise OutOfTime(f"{self._client.base_url} was not asked: the time for this call is over")
            request = request.copy(timeout=_patience(min(left, self._timeout)))
        try:
            response = within(
                _GRACE + (self._timeout if left is None else min(left, self._timeout)), lambda: call_next(request), self._limiter.stop
            )
        except GivenUp:
            raise Stopped from None
        except (anthropic.APITimeoutError, Late) as late:
            left = self._seconds_left()
            if left is not None and left <= 0:
                raise OutOfTime(f"{self._client.base_url} did not answer within the time for this call") from None
            if isinstance(late, anthropic.APITimeoutError):
                raise
            raise anthropic.RetryableError("late") from ModelCallError(
                f"{self._client.base_url} began to answer and did not come to the end in {self._timeout:g} s",
                "try again, or raise the time-out",
                retryable=True,
            )
        self._refuse_to_wait(response, self._seconds_left())
        if response.status_code < 400:
            try:
                Reply.model_validate_json(response.http_response.content)
            except ValidationError as problem:
                raise anthropic.RetryableError("not a message") from ModelCallError(
                    f"{self._client.base_url} answered with something that is not a message of the Messages API: {_complaint(problem)}",
                    "see whether ANTHROPIC_BASE_URL points at the API, or try again",
                    retryable=True,
                )
        return response

    def _seconds_left(self) -> float | None:
        """Seconds until the call that this thread makes must be answered; None where nobody set a time."""
        until: float | None = getattr(self._call, "until", None)
        return None if until is None else until - time.monotonic()

    def _refuse_to_wait(self, response: anthropic.APIResponse[object], left: float | None) -> None:
        """The SDK sleeps as long as a server says, hours if need be, without a word. Somebody sits in front of this."""
        seconds = seconds_to_wait(response.headers.get("retry-after-ms"), response.headers.get("retry-after"))
        if response.status_code >= 400 and seconds > (self._max_wait if left is None else min(self._max_wait, left)):
            raise ModelCallError(
                f"the API answered {response.status_code} and asks to wait {seconds:.0f} s before the next try",
                "start again then: what was learned is kept, and learning goes on where it stopped",
                retryable=True,
            )


def _patience(seconds: float) -> anthropic.Timeout:
    import anthropic

    return anthropic.Timeout(seconds, connect=min(seconds, 10.0))


def _parse(text: str, schema: type[T]) -> T:
    """The whole text as JSON of that type. A code fence around it (servers without structured output add one) is taken off; nothing else is."""
    body = text.strip()
    if body.startswith("```") and body.endswith("```"):
        body = body.removeprefix("```").removesuffix("```").removeprefix("json").strip()
    return schema.model_validate_json(body)


def _complaint(problem: ValidationError) -> str:
    """What does not fit, field by field, without the values: they are in the answer, and may be long."""
    parts = []
    for error in problem.errors(include_url=False, include_context=False, include_input=False)[:8]:
        where = ".".join(str(part) for part in error["loc"])
        parts.append(f"{where}: {error['msg']}" if where else error["msg"])
    return "; ".join(parts)[:1000]


def _repair(user: str, text: str, reason: str) -> list[MessageParam]:
    """The question, the answer that did not fit, and what is wrong with it. The API takes no empty turn: an empty answer is left out."""
    import prompts

    again = prompts.load("repair").render(reason=reason)
    said = text[:RAW_LIMIT].strip()
    if not said:
        return [{"role": "user", "content": f"{user}\n\n{again}"}]
    return [{"role": "user", "content": user}, {"role": "assistant", "content": said}, {"role": "user", "content": again}]
