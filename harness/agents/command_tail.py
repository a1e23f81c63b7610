"""Following the log of a program while it runs, so that what a killed attempt cost is known and a limit ends the program."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from harness.agents.command_log import LEFT_OUT, LONGEST_LINE, MOST_TEXT, Unreadable, length, open_left, read_line
from harness.statistics.estimates import count
from swe_memory.records import Step, Usage

if TYPE_CHECKING:
    from harness.metering import LimitName, Meter

_MOST_READ = 1_200_000_000  # bytes; of a log that is longer the rest is not looked at
_MOST_OTHER_LINES = 10_000  # that are no step
_BEYOND = 100  # calls that are still counted when the limit of calls is reached
_CHUNK = 1 << 16  # bytes; small enough to stay in the processor's cache
_PAUSE = 0.1  # seconds between two looks at the log
_LAST_WORDS = 2.0  # seconds that a program has to end by itself once a limit is reached: it may be writing its patch
_MOST_NOTES = 5


class LogTail:
    """Follows a log while the program runs (as a context manager around it) and reads what is left at its end.

    ``meter`` hears of each line as it comes. Once it says that a limit (of calls, tokens or cost) is reached, the program has ``last_words`` seconds to end by
    itself; after them, or with another call, ``limit`` says which and ``stop`` is set. A call beyond a limit counts as one however late it is read. What
    the meter raises ends the program too, and is raised on leaving.

    ``steps`` and ``notes`` hold what was read, ``usage`` the sum over all lines and ``counted`` whether any of them spoke of its use. A program that writes
    its whole log again with each step is understood: lines that are known already do not count twice.
    """

    def __init__(self, path: Path, meter: Meter, stop: threading.Event, *, last_words: float = _LAST_WORDS) -> None:
        self.steps: list[Step] = []
        self.usage = Usage()
        self.counted = False
        self.limit: LimitName | None = None
        self._path = path
        self._meter = meter
        self._stop = stop
        self._last_words = last_words
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="command-log", daemon=True)
        self._error: BaseException | None = None
        self._notes: list[str] = []
        self._dropped = 0  # notes that are too many
        self._reached_at: float | None = None
        self._room = MOST_TEXT
        self._others = 0
        self._full = False  # no more is read
        self._refused = ""  # why the file cannot be opened
        self._again((0, 0))

    def _again(self, identity: tuple[int, int]) -> None:
        """Start at the beginning of the file."""
        self._identity = identity
        self._offset = self._number = self._known = 0
        self._part = bytearray()  # of a line whose end has not come yet
        self._skipping = False  # to the end of a line that is too long

    @property
    def notes(self) -> list[str]:
        """What could not be read, a sentence each."""
        more = [f"{count(self._dropped, 'more line', 'more lines')} of the log could not be read in full"] if self._dropped else []
        return [*self._notes, *([f"the log {self._refused}"] if self._refused else []), *more]

    def __enter__(self) -> LogTail:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        if self._error is None:
            try:
                self._look()
                self._finish()
            except Exception as own:
                self._error = own
        if error is None and self._error is not None:
            raise self._error

    def _follow(self) -> None:
        try:
            while not self._ended.wait(_PAUSE):
                self._look()
                self._decide()
        except BaseException as error:
            self._error = error
            self._stop.set()

    def _reached(self) -> LimitName | None:
        """The limit that forbids another call; the environment looks after the time."""
        limit = self._meter.reached()
        return None if limit == "seconds" else limit

    def _decide(self) -> None:
        """Stop the program where a limit is reached and it does not end by itself."""
        if self.limit is None and (limit := self._reached()):
            now = time.monotonic()
            self._reached_at = now if self._reached_at is None else self._reached_at
            if now - self._reached_at >= self._last_words:
                self._beyond(limit)

    def _beyond(self, limit: LimitName) -> None:
        self.limit = self.limit or limit
        self._stop.set()

    def _look(self) -> None:
        """Read what has been appended since the last look."""
        if self._full:
            return
        try:
            handle = open_left(self._path)
        except Unreadable as why:
            self._refused = str(why)
            return
        if handle is None:
            return
        self._refused = ""
        try:
            found = os.fstat(handle)
            identity = (found.st_dev, found.st_ino)
            if identity != self._identity or found.st_size < self._offset:
                self._again(identity)
            while not self._full and (chunk := self._chunk(handle)):
                self._feed(chunk)
                if self._offset > _MOST_READ:
                    self._close(f"the log is longer than {_MOST_READ} bytes; what follows line {self._number} was not read")
                if not self._ended.is_set():
                    self._decide()
        finally:
            os.close(handle)

    def _chunk(self, handle: int) -> bytes:
        try:
            chunk = os.pread(handle, _CHUNK, self._offset)
        except OSError as error:
            self._refused = f"cannot be read: {error.strerror}"
            return b""
        self._offset += len(chunk)
        return chunk

    def _feed(self, chunk: bytes) -> None:
        if self._skipping and b"\n" not in chunk:
            return
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if self._full:
                return
            self._number += 1
            if not self._skipping:
                self._part += piece
                self._take(bytes(self._part))
            self._part.clear()
            self._skipping = False
        if not self._skipping:
            self._part += rest
        if len(self._part) > LONGEST_LINE:
            self._part.clear()
            self._skipping = True
            self._note(f"log line {self._number + 1} has more than {LONGEST_LINE} bytes and was left out")

    def _finish(self) -> None:
        """Take a last line without a newline, where it is whole."""
        if not self._part.strip() or self._full:
            return
        self._number += 1
        try:
            read_line(bytes(self._part))
        except ValueError:
            self._note(f"the log ends in the middle of line {self._number}")
        else:
            self._take(bytes(self._part))

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"has more than {LONGEST_LINE} bytes")
            step, usage, wrong = read_line(line)
        except ValueError as error:
            self._note(f"log line {self._number} {error}; it was left out")
            self._others += 1
            if self._others > _MOST_OTHER_LINES:
                self._close(
                    f"the log has more than {_MOST_OTHER_LINES} lines that are no step; what follows line {self._number} was not read"
                )
            return
        if self._known < len(self.steps):  # the log was written anew
            if step == self.steps[self._known]:
                self._known += 1
                return
            self._known = len(self.steps)
        if limit := self._reached():
            self._beyond(limit)
        self._known += 1
        self._room -= length(step)
        self.steps.append(step if self._room >= 0 else LEFT_OUT)
        if wrong:
            self._note(f"log line {self._number}: {wrong}")
        self.counted = self.counted or usage is not None
        usage = usage or Usage(calls=1, cost=None)
        self.usage += usage
        self._meter.add(usage)
        if len(self.steps) >= self._meter.limits.calls + _BEYOND:
            self._close(f"the log has {_BEYOND} calls more than the limit; what follows line {self._number} was not read")

    def _close(self, why: str) -> None:
        self._full = True
        self._part.clear()
        self._notes.append(why)

    def _note(self, what: str) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(what)
        else:
            self._dropped += 1
