"""The journal of a run: an append-only file of events, and the state of the run as a pure fold over them.

An event is one JSON object on one line, written and forced to disk before anything that depends on it happens. A kill can leave at most one unfinished last
line; it was never acknowledged and is cut off when the journal is opened for writing.

Events: ``started`` (with the recall that the attempt runs with), ``finished``, ``graded`` (with the verdict), ``learned``, ``usage``, ``failed`` (an infra
failure: the machine's, not the agent's). Each names an attempt by ``arm``, ``stream`` and ``issue``.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.checks import wrong_field
from harness.files import to_bytes
from swe_memory.errors import SweMemoryError

KINDS = ("started", "finished", "graded", "learned", "usage", "failed")
Key = tuple[str, str, str]
"""(arm, stream, issue id)"""


@dataclass(frozen=True, slots=True)
class AttemptState:
    """What the journal knows of one attempt. A part is empty until its event was seen; starting again empties what came after."""

    key: Key
    started: Mapping[str, Any] = field(default_factory=dict)
    finished: Mapping[str, Any] = field(default_factory=dict)
    graded: Mapping[str, Any] = field(default_factory=dict)
    learned: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 0
    failures: tuple[str, ...] = ()

    @property
    def infra(self) -> bool:
        """Whether the last thing that happened is an infra failure."""
        return bool(self.failures) and not self.graded

    @property
    def done(self) -> bool:
        """Whether the attempt was graded; an arm with memory also has to learn from it."""
        return bool(self.graded)


@dataclass(frozen=True, slots=True)
class RunState:
    """Every attempt that the journal speaks of, and the lines that could not be read (named and skipped)."""

    attempts: Mapping[Key, AttemptState]
    problems: tuple[str, ...] = ()


def fold(events: Iterable[Mapping[str, Any]], problems: Iterable[str] = ()) -> RunState:
    """The state after ``events``, in their order. Pure.

    An event that makes no sense is named among the problems and skipped: one of an unknown kind, with a field missing or of the wrong type (see
    :mod:`harness.checks`), or out of order (what finishes was started, what is graded has finished, what is learned was graded). So whoever reads the
    state can rely on the fields of each part.
    """
    attempts: dict[Key, AttemptState] = {}
    found = list(problems)
    for number, event in enumerate(events, 1):
        kind = event.get("event")
        if kind == "usage":
            continue
        key = (event.get("arm"), event.get("stream"), event.get("issue"))
        if kind not in KINDS or not all(isinstance(part, str) for part in key):
            found.append(f"event {number} is of no known kind or names no attempt")
            continue
        name: Key = (str(key[0]), str(key[1]), str(key[2]))
        state = attempts.get(name, AttemptState(name))
        before = {"finished": state.started, "graded": state.finished, "learned": state.graded}.get(kind, True)
        if wrong := wrong_field(kind, event) or ("" if before else "what must come before it is missing"):
            found.append(f"event {number} ({kind}, {' '.join(name)}) was skipped: {wrong}")
            continue
        if kind == "started":
            state = AttemptState(name, started=event, starts=state.starts + 1, failures=state.failures)
        elif kind == "finished":
            state = replace(state, finished=event, graded={}, learned={})
        elif kind == "graded":
            state = replace(state, graded=event, failures=())
        elif kind == "learned":
            state = replace(state, learned=event)
        else:
            state = replace(state, failures=(*state.failures, event["reason"]))
        attempts[name] = state
    return RunState(attempts, tuple(found))


def read_events(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """All events of a journal, and a sentence about each line that cannot be read. An unfinished last line is a trace of a kill and no problem."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise SweMemoryError(f"cannot read {path}: {error.strerror}", "Check its permissions.") from error
    events: list[dict[str, Any]] = []
    problems: list[str] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # the latter: nested without end
            event = None
        if isinstance(event, dict):
            events.append(event)
        else:
            problems.append(f"{path.name} line {number} is not an event and was skipped")
    return events, problems


def read_state(path: Path) -> RunState:
    """:func:`fold` over the journal at ``path``; an empty state where there is none."""
    return fold(*read_events(path))


class Journal:
    """Appends events. ``append`` returns when the event is on disk. Safe for several threads; for several processes the run's lock answers.

    ``clock`` gives the time that is written beside each event.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            _cut_unfinished(self._file)
            sync_folder(path.parent)
        except OSError as error:
            raise SweMemoryError(f"cannot write {path}: {error.strerror}", "Check that the folder can be written.") from error

    def append(self, event: str, **fields: Any) -> dict[str, Any]:
        """Write one event and force it to disk; gives back what was written.

        Raises SweMemoryError where the disk refuses (full, gone): nothing that was acknowledged before is lost, and what was written in part is cut off again.
        """
        record = {"event": event, "at": self._clock().isoformat(), **fields}
        data = (json.dumps(record, ensure_ascii=True, sort_keys=True, allow_nan=False) + "\n").encode()
        with self._lock:
            size = os.fstat(self._file).st_size
            try:
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
                os.fsync(self._file)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, size)
                raise SweMemoryError(f"cannot write {self.path}: {error.strerror}", "Make room, then go on with --resume.") from error
        return record

    def close(self) -> None:
        """May be called twice."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _cut_unfinished(file: int) -> None:
    """Drop the bytes after the last newline: an event that was never acknowledged."""
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        start = max(0, end - 65_536)
        chunk = os.pread(file, end - start, start)
        if (at := chunk.rfind(b"\n")) >= 0:
            end = start + at + 1
            break
        end = start
    if end != size:
        os.ftruncate(file, end)
        os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Force a folder's own entries to disk, so that a new or renamed file survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: Path, text: str) -> None:
    """Write a whole file so that a reader, or a kill, finds the old or the new one and never a half; forced to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(to_bytes(text))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)
