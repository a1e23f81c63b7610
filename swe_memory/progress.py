"""Progress for anything that takes over a second: one line that redraws itself on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO


class Progress:
    """Counts work towards ``total`` and says so: ``with Progress("learning", 150) as p: ... p.advance(note="django")``.

    Nothing is printed in the first second, so quick work stays silent. On a terminal the line is redrawn at most ten times a second; elsewhere a line is
    written about every ``interval`` seconds. ``clock`` gives seconds (monotonic).
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        stream: TextIO | None = None,
        quiet: bool = False,
        interval: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._clock = clock
        self._terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self._every = 0.1 if self._terminal else interval
        self._start = clock()
        self._last = self._start + 1.0 - self._every
        self._shown = 0

    def advance(self, count: int = 1, *, note: str = "") -> None:
        """``count`` more units are done; ``note`` is shown after the count."""
        self.done += count
        now = self._clock()
        if not self._quiet and now - self._last >= self._every:
            self._last = now
            self._show(note, now)

    def line(self, text: str) -> None:
        """A line that stays (a result, a warning), printed above the redrawn one."""
        if self._quiet:
            return
        self._erase()
        self._stream.write(text + "\n")
        self._stream.flush()

    def _show(self, note: str, now: float) -> None:
        share = f"{self.done}/{self.total}" if self.total else str(self.done)
        left = ""
        # The first few units (imports, warm-up) say nothing about the rest.
        if self.total and 0.05 * self.total < self.done < self.total:
            left = f", about {_seconds((now - self._start) / self.done * (self.total - self.done))} left"
        text = f"{self.label}: {share}{left}{'  ' + note if note else ''}"
        if self._terminal:
            self._erase()
            self._stream.write("\r" + text[:110])
            self._shown = min(len(text), 110)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def _erase(self) -> None:
        if self._terminal and self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._erase()
        if not self._quiet:
            self._stream.flush()


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"
