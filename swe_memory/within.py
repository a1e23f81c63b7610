"""A call that must end in time, whatever the far side does: an HTTP client's own limits are for each read, and a reply may drip for ever."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.25
"""How often a call that waits looks whether it is to be given up."""


class Late(Exception):
    """The time was over before the call was."""


class GivenUp(Exception):
    """The call was to be given up before it ended."""


def within(seconds: float, work: Callable[[], T], stop: threading.Event | None = None) -> T:
    """What ``work`` returns or raises, if that is within ``seconds``; it runs in a thread of its own, which nobody waits for otherwise.

    Raises Late when the time is over, GivenUp within :data:`LOOK_SECONDS` after ``stop`` was set. The thread then ends when its work does, and not before.
    """
    ended: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((work(), None))
        except BaseException as error:
            ended.put((None, error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="model call", daemon=True).start()
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        try:
            result, error = ended.get(timeout=max(0.0, min(left, LOOK_SECONDS) if stop is not None else left))
        except queue.Empty:
            if stop is not None and stop.is_set():
                raise GivenUp from None
            if left <= 0:
                raise Late from None
            continue
        if error is not None:
            raise error
        return result  # type: ignore[return-value]
