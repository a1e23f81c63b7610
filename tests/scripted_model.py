"""A model that plays a script per issue, for :class:`fake_anthropic.FakeAnthropic`: what it says may depend on the prompt it is given.

    script = ScriptedModel({"The limit itself": ["sed -i 's/>/>=/' shop/marks.py", "git diff > patch.txt", SUBMIT]})
    with FakeAnthropic(script) as api: ...

A script is found by a text that the conversation's first user turn holds, the place in it by the conversation itself: the same conversation gets the same
reply, however often and in whatever order attempts are made. ``faults`` go wrong first: {place: [replies]} are played once each in every conversation that
comes to that place, before the reply that belongs there.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fake_anthropic import Error, Reply, Request, tool_use

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"

GIVE_UP = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""Submits nothing."""

Move = Any
"""A bash command, several in one reply, a reply, or what makes one of these from the request."""

Faults = Mapping[int, Sequence[Reply]]


def place_of(request: Request) -> int:
    """How many replies the conversation has had: its model's turns, and the format errors that stand for a reply that mini-SWE-agent kept no turn of."""
    messages = request.body["messages"]
    turns = sum(message["role"] == "assistant" for message in messages)
    texts = [block for message in messages if message["role"] == "user" for block in message["content"] if block["type"] == "text"]
    return turns + len(texts) - 1


def fix(edit: str, path: str) -> list[str]:
    """A script that makes one edit and submits it."""
    return [edit, f"git diff -- {path} > patch.txt", SUBMIT]


class ScriptedModel:
    """See the module. ``otherwise`` answers what asks for no tool: a judge's or an extractor's question."""

    def __init__(
        self,
        scripts: Mapping[str, Sequence[Move]],
        *,
        faults: Faults | None = None,
        otherwise: Callable[[Request], str | Reply] | None = None,
    ) -> None:
        self._scripts = scripts
        self._faults = faults or {}
        self._otherwise = otherwise
        self._played: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()

    @property
    def faults_played(self) -> int:
        """How often something went wrong on purpose."""
        with self._lock:
            return sum(min(number, len(self._faults.get(place, ()))) for (_, place), number in self._played.items())

    def __call__(self, request: Request) -> str | Reply:
        if "tools" not in request.body:
            return self._otherwise(request) if self._otherwise else Error(400, "nobody wrote a script for this question")
        place = place_of(request)
        if (fault := self._fault(request, place)) is not None:
            return fault
        script = next((script for marker, script in self._scripts.items() if marker in request.user), None)
        if script is None or place >= len(script):
            return Error(400, f"the script has no reply number {place + 1} for this conversation")
        return reply(script[place], request)

    def _fault(self, request: Request, place: int) -> Reply | None:
        """The next fault for this conversation at this place, each played once."""
        faults = self._faults.get(place, ())
        with self._lock:
            key = (hashlib.sha256(f"{request.system}\0{request.user}".encode()).hexdigest(), place)
            number = self._played.get(key, 0)
            self._played[key] = number + 1
        return faults[number] if number < len(faults) else None


def reply(move: Move, request: Request) -> Reply:
    """The reply that a move is short for."""
    while callable(move) and not hasattr(move, "send"):
        move = move(request)
    if isinstance(move, str):
        return tool_use(move, text=f"I run: {move[:40]}")
    return tool_use(*move, text="I run several.") if isinstance(move, tuple) else move
