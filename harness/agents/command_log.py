"""What a user's program leaves in its files: read while it runs or after it, without trust.

The log is JSON lines, appended as the program goes, one object for each call (model turn)::

    {"thought": "The limit itself must pass.", "action": "sed -i 's/>/>=/' shop/marks.py", "observation": "", "returncode": 0,
     "usage": {"input_tokens": 1200, "output_tokens": 80, "cost": 0.004}}

``thought`` is text. ``action`` is text, a list of texts, or a list of ``{"command", "output", "returncode"}``. ``observation`` is text, or a list with one
entry an action; without an action it is what came back to a turn that executed nothing. ``returncode`` and ``usage`` may be missing, and so may any of the
three others. A line that is none of this is left out and said by its number; so are lines of more than :data:`LONGEST_LINE` bytes.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swe_memory.records import Action, Step, Usage
from swe_memory.trajectories import plain_text

LONGEST_LINE = 10_000_000
"""Bytes of one line of the log."""
MOST_TEXT = 10_000_000
"""Characters of an attempt's steps that are kept together. Ten times what the longest real attempt known to us has."""

LEFT_OUT = Step("[left out: the steps of this attempt are longer than what is kept]")
"""Stands for a step beyond that: it was a call all the same."""


class Unreadable(Exception):
    """A file that a program left cannot be read; the message says why, to stand after the file's name."""


def open_left(path: Path) -> int | None:
    """A file descriptor of an ordinary file that a program left, None where there is nothing. Neither waits (for a FIFO) nor follows a link.

    Raises :class:`Unreadable`.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Unreadable("is not an ordinary file")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was changed since
        os.close(handle)
        raise Unreadable("is not an ordinary file")
    return handle


def read_left(path: Path, most: int) -> bytes:
    """The bytes of a file that a program left, b"" where there is none. Raises :class:`Unreadable`, also for more than ``most`` bytes."""
    handle = open_left(path)
    if handle is None:
        return b""
    try:
        with os.fdopen(handle, "rb") as file:
            if (size := os.fstat(handle).st_size) > most:
                raise Unreadable(f"has {size} bytes; {most} at most are read")
            data = file.read(most + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise Unreadable(f"has more than {most} bytes")
    return data


def bounded_steps(steps: Iterable[Step], room: int = MOST_TEXT) -> tuple[Step, ...]:
    """The steps, each with its text or, once ``room`` characters are used up, with a mark in its place."""
    kept = []
    for step in steps:
        room -= length(step)
        kept.append(step if room >= 0 else LEFT_OUT)
    return tuple(kept)


def length(step: Step) -> int:
    """Characters of its text."""
    return len(step.thought) + len(step.feedback) + sum(len(action.command) + len(action.output) for action in step.actions)


def read_line(line: bytes) -> tuple[Step, Usage | None, str]:
    """The step of one line, its use (None where it says nothing of it), and what was wrong with a part of it ("" for nothing).

    Bytes that are not UTF-8 become U+FFFD. Raises ValueError, with the reason, for a line that is no step.
    """
    try:
        data = json.loads(line.decode("utf-8-sig", errors="replace"), strict=False)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("is not a JSON object")
    if not data.keys() & {"thought", "action", "observation", "usage"}:
        raise ValueError("has none of thought, action, observation, usage")
    wrong: list[str] = []
    try:
        return _step(data, wrong), _usage(data.get("usage"), wrong), ", ".join(wrong)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _step(data: Mapping[str, Any], wrong: list[str]) -> Step:
    given = data.get("action")
    if given is None or given == "":
        given = []
    elif isinstance(given, str | Mapping):
        given = [given]
    elif not isinstance(given, list):
        wrong.append("its action is neither text nor a list")
        given = []
    actions = [_action(each) for each in given]
    observed = data.get("observation")
    entries = observed if isinstance(observed, list) and len(observed) == len(actions) else [] if observed is None else [observed]
    seen = [_observation(entry) for entry in entries]
    codes = data.get("returncode")
    feedback = ""
    if len(seen) == len(actions):
        actions = [_with(action, *what) for action, what in zip(actions, seen, strict=True)]
    elif actions and seen:  # one text for several actions
        actions[-1] = _with(actions[-1], *seen[0])
    elif seen:
        feedback = seen[0][0]
    if isinstance(codes, list) and len(codes) == len(actions):
        actions = [_with(action, "", _code(code)) for action, code in zip(actions, codes, strict=True)]
    elif actions and codes is not None:
        actions[-1] = _with(actions[-1], "", _code(codes))
    return Step(plain_text(data.get("thought")), tuple(actions), feedback)


def _action(value: object) -> Action:
    if isinstance(value, Mapping) and "command" in value:
        return Action(plain_text(value["command"]), plain_text(value.get("output")), _code(value.get("returncode")))
    return Action(plain_text(value))


def _observation(value: object) -> tuple[str, int | None]:
    if isinstance(value, Mapping) and "output" in value:
        return plain_text(value["output"]), _code(value.get("returncode"))
    if isinstance(value, list):
        return "\n".join(text for text in (_observation(entry)[0] for entry in value) if text), None
    return plain_text(value), None


def _with(action: Action, output: str, code: int | None) -> Action:
    """What an action says of its own outcome stands; the line's fields fill what it leaves open."""
    return replace(action, output=action.output or output, returncode=code if action.returncode is None else action.returncode)


def _code(value: object) -> int | None:
    number = _number(value, -(2**31))
    return int(number) if number is not None and number.is_integer() else None


def _usage(value: object, wrong: list[str]) -> Usage | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        wrong.append("its usage is not an object")
        return None
    counts = []
    for name in ("input_tokens", "output_tokens", "cost"):
        number = _number(value.get(name), 0)
        if number is None and value.get(name) is not None:
            wrong.append(f"its usage.{name} is not a number of 0 or more")
        counts.append(number)
    return Usage(1, int(counts[0] or 0), int(counts[1] or 0), counts[2])


def _number(value: object, least: float) -> float | None:
    """A number from ``least`` to 2**53; None for anything else, NaN and True included."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value < 2**53:
        return None
    return float(value)
