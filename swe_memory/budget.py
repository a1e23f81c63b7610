"""A limit on what language-model calls may use, kept across threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from swe_memory.errors import ModelError, UsageError
from swe_memory.records import Usage


class BudgetSpent(ModelError):
    """The next call could go beyond the budget, so it was not made. ``usage`` is what was already used for the question given up."""

    retryable = False
    stop = True

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.usage = Usage()


class Budget:
    """At most so many calls, tokens (in and out) and US dollars; None is no limit. One may be shared between models and threads.

    Before a call, room for the most it may use is set aside, so that threads that check at the same time cannot overrun together. The most
    is an estimate where the question's tokens are concerned: an overrun by that error, in the last call, is possible.
    """

    def __init__(self, *, calls: int | None = None, tokens: int | None = None, cost: float | None = None) -> None:
        for name, limit in (("calls", calls), ("tokens", tokens), ("cost", cost)):
            if limit is not None and not 0 <= limit < float("inf"):
                raise UsageError(f"a budget of {limit} {name} makes no sense", "give a number from 0, or leave it out for no limit")
        self.calls, self.tokens, self.cost = calls, tokens, cost
        self._changed = threading.Condition()
        self._spent = Usage()
        self._held_calls, self._held_tokens, self._held_cost = 0, 0, 0.0

    @property
    def spent(self) -> Usage:
        """What finished calls used. Its cost is None once a call without a known price was among them."""
        with self._changed:
            return self._spent

    @contextmanager
    def room(self, tokens: int, cost: float | None) -> Iterator[Callable[[Usage], None]]:
        """Hold room for one call of at most ``tokens`` and ``cost``; the caller gets a function to say what it really used.

        Waits where only calls under way are in the way. Raises BudgetSpent where the room is not there.
        """
        dollars = cost or 0.0
        with self._changed:
            if self.cost is not None and cost is None:
                raise BudgetSpent("a budget in dollars cannot be kept for a model without a known price", "limit calls or tokens instead")
            while self._over(1 + self._held_calls, tokens + self._held_tokens, dollars + self._held_cost):
                reason = self._over(1, tokens, dollars)
                if reason:
                    raise BudgetSpent(f"budget reached: {reason}", "raise the budget and start again: what is done is kept")
                self._changed.wait()
            self._held_calls, self._held_tokens, self._held_cost = (
                self._held_calls + 1,
                self._held_tokens + tokens,
                self._held_cost + dollars,
            )
        try:
            yield self._spend
        finally:
            with self._changed:
                self._held_calls, self._held_tokens = self._held_calls - 1, self._held_tokens - tokens
                # Sums of floats do not cancel exactly: with nothing held, nothing is held.
                self._held_cost = self._held_cost - dollars if self._held_calls else 0.0
                self._changed.notify_all()

    def _spend(self, used: Usage) -> None:
        with self._changed:
            self._spent = self._spent + used

    def _over(self, calls: int, tokens: int, dollars: float) -> str:
        """Why that much more does not fit; "" where it does."""
        spent = self._spent
        used = spent.input_tokens + spent.output_tokens
        if self.calls is not None and spent.calls + calls > self.calls:
            return f"{spent.calls} of {self.calls} calls made"
        if self.tokens is not None and used + tokens > self.tokens:
            return f"{used} of {self.tokens} tokens used, and the next call may take {tokens}"
        if self.cost is not None and spent.cost is None:
            return "the price of a call that was made is not known"
        if self.cost is not None and (spent.cost or 0.0) + dollars > self.cost:
            return f"${spent.cost or 0.0:.4f} of ${self.cost:.4f} spent, and the next call may take ${dollars:.4f}"
        return ""
