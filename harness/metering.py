"""What one attempt may use, and what it has used so far.

A meter is told of each model call as it happens, writes it down at once (so that what a killed attempt cost is not forgotten) and says when a limit is
reached. A limit that is reached is an outcome of the attempt, never an infra failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from swe_memory.errors import UsageError
from swe_memory.records import Usage

LimitName = Literal["calls", "seconds", "tokens", "cost"]

STATUS: dict[LimitName, str] = {
    "calls": "LimitsExceeded",
    "seconds": "TimeLimitExceeded",
    "tokens": "TokenLimitExceeded",
    "cost": "CostLimitExceeded",
}
"""Limit -> exit status of the attempt that reached it. ``LimitsExceeded`` is mini-SWE-agent's word."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may use; None is no limit.

    ``calls`` is the number of turns (for a language model: model calls; for the repair agent: commands, one a turn). ``command_seconds`` bounds one
    command, ``seconds`` the wall time of the agent's whole work (not the grading). ``tokens`` is input and output together, ``cost`` US dollars; both are
    checked before each call, so the last one may go beyond them.
    """

    calls: int = 60
    command_seconds: float = 120.0
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        if self.calls < 1:
            raise UsageError(
                f"a call limit of {self.calls} lets an agent do nothing", "give a call limit of 1 or more, e.g. --call-limit 60"
            )
        if self.command_seconds <= 0:
            raise UsageError(
                f"a time limit of {self.command_seconds} s for a command lets nothing finish", "give a number of seconds above 0"
            )
        for name, value in (("seconds", self.seconds), ("tokens", self.tokens), ("dollars", self.cost)):
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"a limit of {value} {name} for an attempt lets an agent do nothing", "give a number above 0, or none")


class LimitReached(Exception):
    """The attempt has used what it may. ``limit`` names which; ``status`` is the attempt's exit status."""

    def __init__(self, limit: LimitName) -> None:
        super().__init__(f"the limit of {limit} is reached")
        self.limit: LimitName = limit
        self.status = STATUS[limit]


class Meter:
    """Counts one attempt's use; safe to share between threads.

    ``record`` is called with each call's use, from the thread that made it, before :meth:`add` returns; ``clock`` gives monotonic seconds and starts now.
    """

    def __init__(
        self, limits: Limits, record: Callable[[Usage], None] = lambda _: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self._record = record
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._spent = Usage()
        self._dollars = 0.0  # of the calls whose cost is known

    @property
    def spent(self) -> Usage:
        """What was added so far. Its cost is None once a call without a known price was among them."""
        with self._lock:
            return self._spent

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the wall-time limit (0 at the least); None where there is none."""
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (self._clock() - self._began))

    def reached(self) -> LimitName | None:
        """The limit that forbids another call, None where one may be made."""
        spent, limits = self.spent, self.limits
        if spent.calls >= limits.calls:
            return "calls"
        if self.seconds_left == 0.0:
            return "seconds"
        if limits.tokens is not None and spent.input_tokens + spent.output_tokens >= limits.tokens:
            return "tokens"
        if limits.cost is not None and self._dollars >= limits.cost:
            return "cost"
        return None

    def check(self) -> None:
        """Call it before each model call. Raises :class:`LimitReached`."""
        if limit := self.reached():
            raise LimitReached(limit)

    def add(self, usage: Usage) -> None:
        """Call it after each model call, with what it used."""
        with self._lock:
            self._spent = self._spent + usage
            self._dollars += usage.cost or 0.0
        self._record(usage)
