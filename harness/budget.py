"""What a whole run may use, over all its sessions: dollars, hours, tokens, calls. At the limit no attempt is begun any more; the run can be resumed.

Everything counts that any model call of the run used: the agents', and memory's own (judge, extraction). It is looked at between attempts, so the attempts
under way go beyond it by what they still use; what one attempt may use is another limit (:class:`harness.metering.Limits`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from swe_memory.errors import UsageError
from swe_memory.pricing import priced
from swe_memory.records import Usage


class RunBudget:
    """At most so much for a run; None is no limit. Safe to share between threads.

    ``cost`` is in US dollars, ``seconds`` the wall time of all sessions together, ``tokens`` input and output together, ``calls`` turns of a model.
    ``spent`` and ``earlier_seconds`` are what the run's earlier sessions used, killed attempts included (from the journal).

    Raises UsageError for a limit of 0 or less, or one that is no number.
    """

    def __init__(
        self,
        cost: float | None = None,
        seconds: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        *,
        spent: Usage = Usage(),
        earlier_seconds: float = 0.0,
    ) -> None:
        limits: tuple[tuple[str, float | None], ...] = (("dollars", cost), ("seconds", seconds), ("tokens", tokens), ("calls", calls))
        for name, limit in limits:
            if limit is not None and not 0 < limit < float("inf"):
                raise UsageError(
                    f"a budget of {limit} {name} lets a run do nothing", "Give a number above 0, or leave it out for no limit."
                )
        self.cost, self.seconds, self.tokens, self.calls = cost, seconds, tokens, calls
        self._lock = threading.Lock()
        self._spent = spent
        self._earlier_seconds = earlier_seconds

    def refuse_unpriced(self, models: Iterable[str]) -> None:
        """Raise UsageError where the budget is in dollars and the price of one of ``models`` is not known. Ask before the run begins."""
        unknown = sorted({model for model in models if not priced(model)}) if self.cost is not None else []
        if unknown:
            raise UsageError(
                f"a budget in dollars cannot be kept for {', '.join(map(repr, unknown))}: no price is known here",
                "Limit tokens, calls or time instead, or install the harness extra, whose litellm package brings a price list.",
            )

    @property
    def spent(self) -> Usage:
        """What was used so far, by earlier sessions too. Its cost is None once a call without a known price was among it."""
        with self._lock:
            return self._spent

    def add(self, usage: Usage) -> None:
        """Call it after each model call of the run, whoever made it, with what it used."""
        with self._lock:
            self._spent = self._spent + usage

    def reached(self, elapsed_seconds: float) -> str:
        """Why no further attempt may begin: a sentence, or "" where one may. ``elapsed_seconds``: how long this session has worked."""
        spent = self.spent
        seconds = self._earlier_seconds + elapsed_seconds
        tokens = spent.input_tokens + spent.output_tokens
        if self.cost is not None and spent.cost is None:
            return (
                f"the run's budget of {dollars(self.cost)} cannot be kept any more: a call was made whose cost is not known "
                f"({_many(spent.calls, 'call')} and {_many(tokens, 'token')} so far)"
            )
        if self.cost is not None and spent.cost is not None and spent.cost >= self.cost:
            return f"the run's budget of {dollars(self.cost)} is reached: {dollars(spent.cost)} spent, memory's own calls included"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the run's budget of {duration(self.seconds)} is reached: {duration(seconds)} worked, earlier sessions included"
        if self.tokens is not None and tokens >= self.tokens:
            return f"the run's budget of {_many(self.tokens, 'token')} is reached: {tokens:,} used, memory's own calls included"
        if self.calls is not None and spent.calls >= self.calls:
            return f"the run's budget of {_many(self.calls, 'call')} is reached: {spent.calls:,} made, memory's own included"
        return ""


def _many(number: int, what: str) -> str:
    return f"{number:,} {what if number == 1 else f'{what}s'}"


def dollars(amount: float) -> str:
    """``$20.13``; amounts under a dollar with four places, so that cents of a cent are not shown as nothing."""
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min 30 s``, ``71 h 05 min``: the two largest units, rounded to the smaller."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02} min"
