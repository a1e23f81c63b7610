"""A local HTTP server that speaks the Messages API, plays a script, and misbehaves on demand.

    with FakeAnthropic(["first answer", Error(529), Message("second")]) as api:
        Claude(api_key=api.key, base_url=api.url)

A script is a list of replies, played in the order in which requests come in, or a function from the request to a reply. A reply is a str (short for
Message), or one of the classes below; a new kind of reply is one more class with a ``send`` method. Requests are kept, parsed and as sent, so that a test
can look for what must not be in them. ``served`` adds up the tokens of every message that was written out in full.

The shapes come from the API reference and the SDK's types: https://docs.anthropic.com/en/api/messages, /errors.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pytest

KEY = "sk-ant-test-0123456789"

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Request:
    """One request as it came in. ``body`` is its JSON; ``text`` the very bytes, decoded; header names are lower-case."""

    path: str
    headers: dict[str, str]
    text: str
    body: dict[str, Any]

    @property
    def system(self) -> str:
        system = self.body.get("system", "")
        return system if isinstance(system, str) else "".join(block["text"] for block in system)

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of each message."""
        return [(message["role"], _text(message["content"])) for message in self.body["messages"]]

    @property
    def user(self) -> str:
        """The first user turn's text."""
        return self.turns[0][1]

    @property
    def results(self) -> list[str]:
        """What the last user turn holds as results of tools."""
        content = self.body["messages"][-1]["content"]
        return [_text(block["content"]) for block in content if isinstance(block, dict) and block["type"] == "tool_result"]

    @property
    def tokens(self) -> int:
        """What this server counts as the request's input tokens: four characters each."""
        return 1 + (len(self.system) + sum(_weight(message["content"]) for message in self.body["messages"])) // 4


_calls = itertools.count(1)


class Reply(Protocol):
    def send(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True)
class Message:
    """A whole message. ``blocks`` replaces the text block; ``usage`` overrides single counts; ``extra`` adds or overrides top-level fields."""

    text: str = ""
    stop_reason: str = "end_turn"
    blocks: list[dict[str, Any]] | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def payload_blocks(self) -> list[dict[str, Any]]:
        """The content."""
        return [{"type": "text", "text": self.text}] if self.blocks is None else self.blocks

    def payload(self, exchange: Exchange) -> dict[str, Any]:
        content = self.payload_blocks()
        return {
            "id": f"msg_{exchange.number:04d}",
            "type": "message",
            "role": "assistant",
            "model": exchange.request.body.get("model", ""),
            "content": content,
            "stop_reason": self.stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": exchange.request.tokens, "output_tokens": 1 + _weight(content) // 4, **self.usage},
            **self.extra,
        }

    def send(self, exchange: Exchange) -> None:
        payload = self.payload(exchange)
        # Counted before it is written: a client may look as soon as it has read the last byte.
        exchange.server.count(payload["usage"])
        exchange.server.said(payload["content"])
        exchange.write(200, json.dumps(payload).encode())


def tool_use(*commands: Any, text: str = "", thinking: str = "", name: str = "bash", stop_reason: str = "tool_use", **more: Any) -> Message:
    """A message that uses a tool once for each of ``commands``: a str is a bash command, anything else the whole input. Ids are unique."""
    blocks: list[dict[str, Any]] = []
    if thinking:
        blocks.append({"type": "thinking", "thinking": thinking, "signature": f"signed:{thinking}"})
    if text:
        blocks.append({"type": "text", "text": text})
    for command in commands:
        call = f"toolu_{next(_calls):06d}"
        blocks.append(
            {"type": "tool_use", "id": call, "name": name, "input": {"command": command} if isinstance(command, str) else command}
        )
    return Message(stop_reason=stop_reason, blocks=blocks, **more)


@dataclass(frozen=True)
class Error:
    """An error in the API's envelope. By default the SDK tries again at once where it tries again at all."""

    status: int
    message: str = "made to fail by the test"
    headers: dict[str, str] = field(default_factory=lambda: {"retry-after-ms": "1"})

    def send(self, exchange: Exchange) -> None:
        error = {"type": _ERROR_TYPES.get(self.status, "api_error"), "message": self.message}
        exchange.write(self.status, json.dumps({"type": "error", "error": error, "request_id": exchange.id}).encode(), self.headers)


@dataclass(frozen=True)
class Raw:
    """Any bytes: a proxy's HTML page, JSON that ends early, a message without its usage."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"

    def send(self, exchange: Exchange) -> None:
        exchange.write(self.status, self.body, {"content-type": self.content_type})


@dataclass(frozen=True)
class Cut:
    """The connection dies after ``share`` of the message's body, of which the headers had promised all. Nothing is counted as served."""

    message: Message = field(default_factory=lambda: Message("cut " * 50))
    share: float = 0.5

    def send(self, exchange: Exchange) -> None:
        body = json.dumps(self.message.payload(exchange)).encode()
        exchange.write(200, body[: int(len(body) * self.share)], promised=len(body))
        exchange.hang_up()


@dataclass(frozen=True)
class Hang:
    """No answer at all, until the client gives up or the server is closed."""

    def send(self, exchange: Exchange) -> None:
        exchange.server.closing.wait()
        exchange.hang_up()


@dataclass(frozen=True)
class Drip:
    """A message whose body comes a byte at a time and never to its end, until the client gives up or the server is closed."""

    message: Message = field(default_factory=lambda: Message("drip " * 2_000))

    def send(self, exchange: Exchange) -> None:
        body = json.dumps(self.message.payload(exchange)).encode()
        exchange.write(200, b"", promised=len(body))
        with contextlib.suppress(OSError):
            for byte in body:
                if exchange.server.closing.wait(0.05):
                    break
                exchange.more(bytes([byte]))
        exchange.hang_up()


@dataclass(frozen=True)
class Wait:
    """The reply once ``ready`` is set: lets a test hold calls open together without a clock."""

    reply: Message
    ready: threading.Event

    def send(self, exchange: Exchange) -> None:
        self.ready.wait(30)
        self.reply.send(exchange)


def isolate(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """For a test: no key, profile or proxy of the machine, and no waiting between the SDK's tries where a server names no time."""
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("anthropic._base_client.INITIAL_RETRY_DELAY", 0.0)


Script = Iterable["str | Reply"] | Callable[[Request], "str | Reply"]


@dataclass
class Exchange:
    """One request and the means to answer it: what a Reply gets."""

    server: FakeAnthropic
    request: Request
    number: int
    handler: BaseHTTPRequestHandler

    @property
    def id(self) -> str:
        return f"req_{self.number:04d}"

    def write(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, promised: int | None = None) -> None:
        head = {"content-type": "application/json", "request-id": self.id, **(headers or {})}
        self.handler.send_response(status)
        for name, value in head.items():
            self.handler.send_header(name, value)
        self.handler.send_header("content-length", str(len(body) if promised is None else promised))
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def more(self, body: bytes) -> None:
        """More of the body that was promised."""
        self.handler.wfile.write(body)

    def hang_up(self) -> None:
        self.handler.close_connection = True


class FakeAnthropic:
    """See the module. ``key`` is the only key that is let in; ``models``, where given, the only models that are found. ``anywhere`` answers whatever the path,
    as the API's resellers have paths of their own."""

    def __init__(self, script: Script = (), *, key: str = KEY, models: Iterable[str] | None = None, anywhere: bool = False) -> None:
        self.key = key
        self._anywhere = anywhere
        self.requests: list[Request] = []
        self.served = {"calls": 0, "input_tokens": 0, "output_tokens": 0}
        self._said: set[str] = set()
        self.closing = threading.Event()
        self._models = None if models is None else frozenset(models)
        self._script: Callable[[Request], str | Reply] | Iterator[str | Reply] = script if callable(script) else iter(list(script))
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        # A keep-alive connection that a client has not closed yet would hold up the end of the test.
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeAnthropic:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def count(self, usage: dict[str, Any]) -> None:
        cached = (usage.get("cache_creation_input_tokens") or 0) + (usage.get("cache_read_input_tokens") or 0)
        with self._lock:
            self.served["calls"] += 1
            self.served["input_tokens"] += usage["input_tokens"] + cached
            self.served["output_tokens"] += usage["output_tokens"]

    def said(self, content: list[dict[str, Any]]) -> None:
        """Remember the blocks that only the model can have said, to find out whether one comes back changed."""
        with self._lock:
            self._said.update(_key(block) for block in content if block.get("type") in _SIGNED)

    def answer(self, request: Request, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.requests.append(request)
            exchange = Exchange(self, request, len(self.requests), handler)
            reply = self._refusal(request) or self._next(request)
        (Message(reply) if isinstance(reply, str) else reply).send(exchange)

    def _next(self, request: Request) -> str | Reply:
        if request.path == "/v1/messages/count_tokens":
            return Raw(json.dumps({"input_tokens": request.tokens}).encode())
        if callable(self._script):
            return self._script(request)
        return next(self._script, Error(500, "the script of the test is over", {"x-should-retry": "false"}))

    def _refusal(self, request: Request) -> Reply | None:
        """What the API itself would turn away."""
        if not self._anywhere and request.path not in ("/v1/messages", "/v1/messages/count_tokens"):
            return Error(404, f"no such path: {request.path}")
        if self.key not in (request.headers.get("x-api-key"), request.headers.get("authorization", "").removeprefix("Bearer ")):
            return Error(401, "invalid x-api-key")
        problem = (not self._anywhere and _problem(request)) or _conversation_problem(request.body["messages"], self._said)
        if problem:
            return Error(400, problem)
        if self._models is not None and request.body["model"] not in self._models:
            return Error(404, f"model: {request.body['model']}")
        return None


def _problem(request: Request) -> str:
    """Why the API would answer 400, for the parts of its contract that our requests could break; "" where it would not."""
    body = request.body
    needed = ("model", "messages") if request.path.endswith("count_tokens") else ("model", "messages", "max_tokens")
    missing = [name for name in needed if not body.get(name)]
    if missing:
        return f"{missing[0]}: Field required"
    gone = [name for name in ("temperature", "top_p", "top_k") if name in body]
    if gone:
        return f"{gone[0]}: Extra inputs are not permitted"
    if body["messages"][0]["role"] != "user":
        return "messages: first message must use the user role"
    if any(not _text(message["content"]).strip() and isinstance(message["content"], str) for message in body["messages"]):
        return "messages: text content blocks must be non-empty"
    form = (body.get("output_config") or {}).get("format")
    if form is not None and (form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict)):
        return "output_config.format: invalid"
    return ""


_SIGNED = ("thinking", "redacted_thinking")


def _conversation_problem(messages: list[dict[str, Any]], said: set[str]) -> str:
    """The same for a conversation with tools and thinking: every call answered in the next turn, results first, thinking unchanged, few cache marks."""
    marks = 0
    waiting: list[str] = []
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            return f"messages.{number}: all messages must have non-empty content"
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        marks += sum("cache_control" in block for block in blocks)
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return f"messages.{number}: text content blocks must contain non-whitespace text"
        if message["role"] == "user":
            if sorted(results) != sorted(waiting):
                return f"messages.{number}: `tool_use` ids {waiting} were found without `tool_result` blocks immediately after, or with others: {results}"
            if kinds[: len(results)] != ["tool_result"] * len(results):
                return f"messages.{number}: `tool_result` blocks must come first"
            waiting = []
        else:
            if waiting:
                return f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {waiting}"
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if any(block["type"] in _SIGNED and _key(block) not in said for block in blocks):
                return f"messages.{number}: `thinking` blocks in the latest assistant message cannot be modified"
    return "A maximum of 4 blocks with cache_control may be provided" if marks > 3 else ""


def _key(block: dict[str, Any]) -> str:
    return json.dumps(block, sort_keys=True)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


def _weight(content: Any) -> int:
    """Characters of everything in a message that a model reads or writes."""
    if isinstance(content, str):
        return len(content)
    return sum(len(json.dumps(block)) if block.get("type") in ("tool_use", "tool_result") else len(_text([block])) for block in content)


def _handler(server: FakeAnthropic) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body go out as two small writes; with Nagle on, each answer would wait for the client's delayed acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            body = json.loads(text)
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                server.answer(Request(self.path.partition("?")[0], headers, text, body), self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client gave up waiting, as some tests want it to

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the requests are kept."""

    return Handler
