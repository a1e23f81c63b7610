"""The journal of a run: an append-only file of events, and the state of the run as a pure fold over them.

An event is one JSON object on one line, written and forced to disk before anything that depends on it happens. A kill can leave at most one unfinished last
line; it was never acknowledged and is cut off when the journal is opened for writing.

Events of an attempt (named by ``arm``, ``stream`` and ``issue``): ``started`` (with the recall that it runs with), ``finished``, ``graded`` (with the
verdict), ``learned`` (by a ``bank``), ``usage`` (of one model call), ``failed`` (an infra failure: the machine's, not the agent's). Besides: ``session`` (a
process began to work on the run) and ``frozen`` (a bank is complete and will not change). Each event carries ``at``, the time of day, which nothing depends
on (clocks are set back), and ``t``, seconds since its session began by a clock that only goes forward.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic_core import from_json

from harness.checks import LARGEST, wrong_field
from harness.files import to_bytes
from harness.layout import Key
from swe_memory.errors import SweMemoryError
from swe_memory.records import Usage

KINDS = ("session", "started", "finished", "graded", "learned", "frozen", "usage", "failed")


@dataclass(frozen=True, slots=True)
class AttemptState:
    """What the journal knows of one attempt. A part is empty until its event was seen; starting again empties what came after.

    ``failures`` are the reasons of all its infra failures, ``usage`` is what all its tries used, killed ones included; ``agent`` is what the agent alone used
    in the last try.
    """

    key: Key
    started: Mapping[str, Any] = field(default_factory=dict)
    finished: Mapping[str, Any] = field(default_factory=dict)
    graded: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 0
    failures: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    agent: Usage = field(default_factory=Usage)

    @property
    def infra(self) -> bool:
        """Whether it stands as an infra failure: one happened, and it was not graded since."""
        return bool(self.failures) and not self.graded


@dataclass(frozen=True, slots=True)
class BankState:
    """What the journal knows of one bank: the attempts that it learned from, and whether it is frozen."""

    learned: Mapping[Key, Mapping[str, Any]] = field(default_factory=dict)
    frozen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunState:
    """Every attempt and bank that the journal speaks of; what was used, by role (agent, judge, extract), killed attempts included; seconds of work over all
    sessions; the events that could not be read (named and skipped). ``memory`` is what judging and distilling used: (role, id of the bank or "", the attempt
    that it was about) -> usage. ``experiment`` is the digest of the frozen experiment that the first session worked on, "" where none says."""

    attempts: Mapping[Key, AttemptState] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    banks: Mapping[str, BankState] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    sessions: int = 0
    memory: Mapping[tuple[str, str, Key], Usage] = field(default_factory=dict)
    experiment: str = ""

    @property
    def spent(self) -> Usage:
        """What all calls used, memory's own included. Its cost is None once a call without a known price was among them."""
        return sum(self.usage.values(), Usage())


def fold(events: Iterable[Mapping[str, Any]], problems: Iterable[str] = ()) -> RunState:
    """The state after ``events``, in their order. Pure.

    An event that makes no sense is named among the problems and skipped: one of an unknown kind, with a field missing or of the wrong type (see
    :mod:`harness.checks`), or out of order (what finishes was started, what is graded has finished, what is learned was graded). So whoever reads the
    state can rely on the fields of each part.
    """
    folding = _Folding(list(problems))
    folding.take_all(events)
    return folding.state()


class _Folding:
    """The state while it is being added to: mutable, so that a journal of a long run folds in a moment."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.attempts: dict[Key, AttemptState] = {}
        self.learned: dict[str, dict[Key, Mapping[str, Any]]] = {}
        self.frozen: dict[str, Mapping[str, Any]] = {}
        self.by_agent: dict[Key, list[float | None]] = {}  # of the last try
        self.earlier: dict[Key, list[float | None]] = {}  # of the tries before
        self.by_memory: dict[tuple[str, str, Key], list[float | None]] = {}
        self.sessions: list[float] = [0.0]
        self.experiment = ""

    def take_all(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add events, and name those that make no sense among the problems."""
        for number, event in enumerate(events, 1):
            if wrong := self.take(event):
                self.problems.append(f"event {number} {wrong}")

    def take(self, event: Mapping[str, Any]) -> str:
        """Add one event; what is wrong with it, "" for nothing."""
        kind = event.get("event")
        if kind not in KINDS:
            return "is of no known kind"
        if kind == "session":
            self.sessions.append(0.0)
        seconds = event.get("t")
        if type(seconds) is float and self.sessions[-1] < seconds < 1e9:
            self.sessions[-1] = seconds
        if kind == "session":
            digest = event.get("experiment")
            self.experiment = self.experiment or (digest if isinstance(digest, str) else "")
            return ""
        if kind == "frozen":
            if wrong := wrong_field("frozen", event):
                return f"(frozen) was skipped: {wrong}"
            self.frozen[event["bank"]] = event
            return ""
        arm, stream, issue = event.get("arm"), event.get("stream"), event.get("issue")
        if not (isinstance(arm, str) and isinstance(stream, str) and isinstance(issue, str)):
            return "names no attempt"
        key = (arm, stream, issue)
        if kind == "usage":  # nearly all events of a long run
            if not _is_plain_usage(event) and (wrong := wrong_field(kind, event)):
                return f"({kind}, {' '.join(key)}) was skipped: {wrong}"
            role, bank = event["role"], event.get("bank")
            if role == "agent":
                _add(self.by_agent.setdefault(key, [0, 0, 0, 0.0]), event)
            else:
                _add(self.by_memory.setdefault((role, bank if isinstance(bank, str) else "", key), [0, 0, 0, 0.0]), event)
            return ""
        state = self.attempts.get(key) or AttemptState(key)
        before: Any = {"finished": state.started, "graded": state.finished, "learned": state.graded}.get(kind, True)
        if wrong := wrong_field(kind, event) or ("" if before else "what must come before it is missing"):
            return f"({kind}, {' '.join(key)}) was skipped: {wrong}"
        if kind == "learned":
            self.learned.setdefault(event["bank"], {})[key] = event
            return ""
        if kind == "started":
            state = AttemptState(key, started=event, starts=state.starts + 1, failures=state.failures)
            if wasted := self.by_agent.pop(key, None):
                before_it = self.earlier.setdefault(key, [0, 0, 0, 0.0])
                self.earlier[key] = _sum((before_it, wasted))
        elif kind == "finished":
            state = replace(state, finished=event, graded={})
        elif kind == "graded":
            state = replace(state, graded=event)
        else:
            state = replace(state, failures=(*state.failures, event["reason"]))
        self.attempts[key] = state
        return ""

    def state(self) -> RunState:
        """What was taken, as a record."""
        about: dict[Key, list[list[float | None]]] = {}
        roles: dict[str, list[list[float | None]]] = {}
        for of_agent in (self.earlier, self.by_agent):
            for key, sums in of_agent.items():
                about.setdefault(key, []).append(sums)
                roles.setdefault("agent", []).append(sums)
        for (role, _, key), sums in self.by_memory.items():
            about.setdefault(key, []).append(sums)
            roles.setdefault(role, []).append(sums)
        attempts = dict(self.attempts)
        for key, parts in about.items():
            if key in attempts:
                agent = _usage(self.by_agent.get(key, [0, 0, 0, 0.0]))
                attempts[key] = replace(attempts[key], usage=_usage(_sum(parts)), agent=agent)
        banks = {name: BankState(self.learned.get(name, {}), self.frozen.get(name, {})) for name in sorted({*self.learned, *self.frozen})}
        usage = {role: _usage(_sum(parts)) for role, parts in sorted(roles.items())}
        memory = {about_what: _usage(sums) for about_what, sums in self.by_memory.items()}
        return RunState(attempts, tuple(self.problems), banks, usage, sum(self.sessions), len(self.sessions) - 1, memory, self.experiment)


_AMOUNTS = ("calls", "input", "output", "cost")
_COUNTS = _AMOUNTS[:3]


def _is_plain_usage(event: Mapping[str, Any]) -> bool:
    """Whether a usage event is as it is written here: what :func:`harness.checks.wrong_field` lets pass, told in less time."""
    cost = event.get("cost")
    for name in _COUNTS:
        value = event.get(name)
        if type(value) is not int or not 0 <= value <= LARGEST:
            return False
    return event.get("role") in ("agent", "judge", "extract") and type(cost) is float and 0.0 <= cost <= LARGEST


def _add(sums: list[float | None], event: Mapping[str, Any]) -> None:
    """Add what one usage event tells; None for an amount that is not known."""
    for place, name in enumerate(_AMOUNTS):
        one, other = sums[place], event[name]
        sums[place] = None if one is None or other is None else one + other


def _sum(parts: Iterable[list[float | None]]) -> list[float | None]:
    total: list[float | None] = [0, 0, 0, 0.0]
    for part in parts:
        _add(total, dict(zip(_AMOUNTS, part, strict=True)))
    return total


def _usage(sums: list[float | None]) -> Usage:
    calls, read, written, cost = sums
    return Usage(int(calls or 0), int(read or 0), int(written or 0), cost)


def read_events(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """All events of a journal, and a sentence about each line that cannot be read. An unfinished last line is a trace of a kill and no problem."""
    problems: list[str] = []
    return list(_events(path, problems)), problems


def _events(path: Path, problems: list[str]) -> Iterator[dict[str, Any]]:
    """The events one by one, so that a long journal need not be held; ``problems`` fills up on the way."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SweMemoryError(f"cannot read {path}: {error.strerror}", "Check its permissions.") from error
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")
    del data
    for number, line in enumerate(lines[:-1], 1):
        try:
            event = _parsed(line)
        except (ValueError, RecursionError):  # the latter: nested without end
            event = None
        if isinstance(event, dict):
            yield event
        else:
            problems.append(f"{path.name} line {number} is not an event and was skipped")


def _parsed(line: bytes) -> Any:
    """The JSON of one line, by pydantic's parser in two thirds of the time. What that does not take (deep nesting, lone surrogates) ``json`` may."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)


def read_state(path: Path) -> RunState:
    """:func:`fold` over the journal at ``path``; an empty state where there is none."""
    unread: list[str] = []
    folding = _Folding([])
    folding.take_all(_events(path, unread))
    folding.problems[:0] = unread
    return folding.state()


class Journal:
    """Appends events. ``append`` returns when the event is on disk. Safe for several threads; for several processes the run's lock answers.

    ``clock`` gives the time of day that is written beside each event, ``timer`` the seconds that only go forward; its zero is when the journal was opened.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC), timer: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self._clock = clock
        self._timer = timer
        self._began = timer()
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._opened = os.fstat(self._file)
            _cut_unfinished(self._file)
            sync_folder(path.parent)
        except OSError as error:
            raise SweMemoryError(f"cannot write {path}: {error.strerror}", "Check that the folder can be written.") from error

    def append(self, event: str, **fields: Any) -> dict[str, Any]:
        """Write one event and force it to disk; gives back what was written.

        Raises SweMemoryError where the disk refuses (full, gone): nothing that was acknowledged before is lost, and what was written in part is cut off again.
        Likewise where the file was removed or replaced meanwhile: nobody would ever read what is written.
        """
        record = {"event": event, "at": self._clock().isoformat(), "t": round(self.seconds, 3), **fields}
        data = (json.dumps(record, ensure_ascii=True, sort_keys=True, allow_nan=False) + "\n").encode()
        with self._lock:
            size = self._size()
            try:
                written = os.write(self._file, data)
                while written < len(data):
                    written += os.write(self._file, data[written:])
                os.fsync(self._file)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, size)
                raise cannot_write(self.path, error) from error
        return record

    def _size(self) -> int:
        """Of the open file, which must still be the one that lies there."""
        with contextlib.suppress(OSError):
            if os.path.samestat(self._opened, self.path.stat()):
                return os.fstat(self._file).st_size
        what = f"{self.path} was removed or replaced while the run was at work on it"
        raise SweMemoryError(
            what, "Restore the run folder from a copy and go on with --resume, or start a new run. Does an agent change files there?"
        )

    @property
    def seconds(self) -> float:
        """Seconds since the journal was opened."""
        return float(self._timer() - self._began)

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
    """Write a whole file so that a reader, or a kill, finds the old or the new one and never a half; forced to disk.

    Raises SweMemoryError where the disk refuses (full, gone): that is wrong with the run and no failure of an attempt.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(to_bytes(text))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> SweMemoryError:
    """What to say where something of a run could not be written."""
    return SweMemoryError(f"cannot write {path}: {error.strerror or error}", "Make room, then go on with --resume.")
