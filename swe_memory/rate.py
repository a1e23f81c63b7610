"""One rate for all workers: so many requests, and so many tokens, a minute.

A token bucket each, refilled all the time, as the API itself keeps its limits (https://docs.anthropic.com/en/api/rate-limits). A bucket holds ten seconds'
worth, at least one request: enough that a few workers need not wait for one another, and little enough that no minute sees more than 7/6 of the limit. (A
bucket of a whole minute's worth, full at the start, would let twice the limit through in the first minute.)

Why our own: the maintained libraries (pyrate-limiter, limits; aiolimiter is for asyncio only) charge what is asked for and cannot give back what a request
did not use, have no queue, so that a large request starves behind small ones, and sleep in a way that nothing can cut short. tenacity repeats calls and
keeps no rate.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from swe_memory.errors import ModelError, UsageError
from swe_memory.records import Usage

BURST_SECONDS = 10.0
"""A full bucket holds what comes in so many seconds."""
_LOOK_SECONDS = 0.25
"""An Event cannot wake who waits for a Condition, so who waits looks at it so often."""


class Stopped(ModelError):
    """The run was stopped while a request waited for its turn, or for its answer. ``usage`` is what was already used for the question given up; what a
    request used that was given up under way nobody tells."""

    retryable = True
    stop = True

    def __init__(self) -> None:
        super().__init__("stopped while a request waited", "Start again: what is done is kept.")
        self.usage = Usage()


class _Bucket:
    """What may still be taken of one resource. Less than nothing after a request that was larger than the bucket, or than it was estimated."""

    def __init__(self, per_minute: int, now: float) -> None:
        self._rate = per_minute / 60.0  # a second
        self._capacity = max(1.0, self._rate * BURST_SECONDS)
        self._level = self._capacity
        self._at = now

    def seconds_until(self, amount: float, now: float) -> float:
        """How long until ``amount`` is there, or, if it is more than the bucket holds, until the bucket is full."""
        self._fill(now)
        missing = min(amount, self._capacity) - self._level
        # A sum of many small floats never gets to the last bit of a full bucket.
        return missing / self._rate if missing > 1e-9 * self._capacity else 0.0

    def take(self, amount: float, now: float) -> None:
        """Take ``amount``, or give it back where it is negative."""
        self._fill(now)
        self._level = min(self._capacity, self._level - amount)

    def _fill(self, now: float) -> None:
        self._level = min(self._capacity, self._level + max(0.0, now - self._at) * self._rate)
        self._at = max(self._at, now)


class RateLimiter:
    """At most so many requests and tokens (in and out together) a minute; None is no limit. One is shared by all threads that use one account::

        with limiter.request(estimated_tokens) as settle:
            reply = ask()
            settle(reply.tokens)

    Entering waits until both are there, first come first served: a large request is not passed by small ones. One that is larger than the bucket goes when
    the bucket is full, and those after it wait until it is paid off. What was estimated too high is given back by ``settle``, what was too low is taken;
    a request that ends without it (it failed, and nobody said what it used) stays charged with its estimate.

    ``stop``: once set, whoever waits, or comes later, gets :class:`Stopped`, within a quarter of a second. ``clock`` gives monotonic seconds;
    ``wait(condition, seconds)`` waits for a notification, at most so long (None: however long). Raises UsageError for a limit below 1.
    """

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Condition, float | None], object] = threading.Condition.wait,
    ) -> None:
        for name, limit in (("requests", requests_per_minute), ("tokens", tokens_per_minute)):
            if limit is not None and limit < 1:
                raise UsageError(
                    f"a limit of {limit} {name} a minute lets nothing through", "Give 1 or more, or leave it out for no limit."
                )
        self._clock, self._wait, self._stop = clock, wait, stop
        now = clock()
        self._requests = _Bucket(requests_per_minute, now) if requests_per_minute is not None else None
        self._tokens = _Bucket(tokens_per_minute, now) if tokens_per_minute is not None else None
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()

    @property
    def stop(self) -> threading.Event | None:
        """What ends the waiting."""
        return self._stop

    @contextmanager
    def request(self, estimated_tokens: int) -> Iterator[Callable[[int], None]]:
        """Wait for room for one request of about so many tokens; the caller gets a function to say how many it really used. See the class."""
        self._enter(estimated_tokens)
        charged = estimated_tokens

        def settle(tokens: int) -> None:
            nonlocal charged
            with self._changed:
                if self._tokens is not None:
                    self._tokens.take(tokens - charged, self._clock())
                charged = tokens
                self._changed.notify_all()

        yield settle

    def _enter(self, tokens: int) -> None:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                while True:
                    if self._stop is not None and self._stop.is_set():
                        raise Stopped
                    seconds = self._seconds_until(tokens) if self._queue[0] is ticket else None
                    if seconds == 0.0:
                        self._take(tokens)
                        return
                    if self._stop is not None:
                        seconds = _LOOK_SECONDS if seconds is None else min(seconds, _LOOK_SECONDS)
                    self._wait(self._changed, seconds)
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _seconds_until(self, tokens: int) -> float:
        now = self._clock()
        return max(
            self._requests.seconds_until(1, now) if self._requests is not None else 0.0,
            self._tokens.seconds_until(tokens, now) if self._tokens is not None else 0.0,
        )

    def _take(self, tokens: int) -> None:
        now = self._clock()
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
