"""Progress of a run on standard error: a line for each attempt that ends, and one that sums up arms, cost and time left."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING

from harness.events import RunState
from harness.layout import Layout
from harness.statistics.estimates import count
from swe_memory.progress import Progress
from swe_memory.records import Usage

if TYPE_CHECKING:
    from harness.scheduler import Outcome

WIDTH = 40  # characters of a recalled title


class Teller:
    """Tells what happens; what was done before counts as done. A context manager."""

    def __init__(self, layout: Layout, state: RunState) -> None:
        self._planned = Counter(cell.arm.name for cell in layout.cells)
        self._streams = len(layout.streams())
        self._done: Counter[str] = Counter()
        self._resolved: Counter[str] = Counter()
        for cell in layout.cells:
            known = state.attempts.get(cell.key)
            if known and known.graded:
                self._done[cell.arm.name] += 1
                self._resolved[cell.arm.name] += known.graded["resolved"]
        left = sum(self._planned.values()) - sum(self._done.values())
        self._before = sum(self._done.values())
        self._progress = Progress("attempts", left)

    def say(self, outcome: Outcome) -> None:
        """One thing that happened."""
        if outcome.cell is None:
            self.line(f"  {outcome.text}")
            return
        arm = outcome.cell.arm.name
        if not outcome.failure:
            self._done[arm] += 1
            self._resolved[arm] += outcome.resolved
        self.line(describe(outcome))
        self._progress.advance(note=self.summary(outcome.spent))

    def summary(self, spent: Usage) -> str:
        """Arms with what is done and resolved of what is planned, and the cost so far."""
        arms = ", ".join(f"{arm} {self._done[arm]}/{planned} ({self._resolved[arm]} resolved)" for arm, planned in self._planned.items())
        cost = (
            ""
            if not spent.calls or spent.cost == 0
            else f"; {count(spent.calls, 'call', 'calls')}, cost unknown"
            if spent.cost is None
            else f"; ${spent.cost:.2f}"
        )
        return arms + cost

    def interrupted(self) -> None:
        """The user wants to stop."""
        self.line("stopping after the attempts under way; Ctrl-C again stops at once. Both can be resumed.")

    def line(self, text: str) -> None:
        """A line that stays."""
        self._progress.line(text)

    def __enter__(self) -> Teller:
        planned = sum(self._planned.values())
        if self._before:
            self.line(f"{self._before} of {count(planned, 'attempt', 'attempts')} {'is' if self._before == 1 else 'are'} done already")
        head = f"{count(planned, 'attempt', 'attempts')} in {count(self._streams, 'stream', 'streams')}"
        self.line(f"{head}: " + ", ".join(f"{arm} {number}" for arm, number in self._planned.items()))
        self._progress.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.__exit__(kind, error, trace)


def describe(outcome: Outcome) -> str:
    """One line about an attempt that ended."""
    assert outcome.cell is not None
    head = f"  {outcome.cell.arm.name:14} {outcome.cell.stream} {outcome.cell.issue:24}"
    if outcome.failure:
        return f"{head} infra failure: {outcome.failure.splitlines()[0]}"
    result = "resolved" if outcome.resolved else "not resolved"
    if outcome.cell.arm.kind == "gold":  # nobody was at work
        return f"{head} {result}"
    calls = "  ? calls" if outcome.calls is None else f"{outcome.calls:3} {'call' if outcome.calls == 1 else 'calls'}"
    title = outcome.recalled if len(outcome.recalled) <= WIDTH else outcome.recalled[: WIDTH - 1] + "…"
    return f"{head} {result:13} {calls}" + (f"   recalled: {title}" if title else "")
