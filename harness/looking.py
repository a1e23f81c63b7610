"""What the commands share that only look at a run: whether a process is at work on it, the tries of each attempt, and who is meant by a name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.arms import Arm
from harness.checks import wrong_field
from harness.layout import Cell, Key, Layout
from swe_memory.errors import UsageError
from swe_memory.records import Usage

MOST_CANDIDATES = 10
"""Attempts that are listed where a name fits several."""


def at_work(folder: Path) -> bool | None:
    """Whether a process holds the run folder; None where that cannot be told (no permission, a file system without such locks).

    Asks for a shared lock without waiting and gives it back at once: it writes nothing, and any number of processes may ask at the same time.
    """
    import fcntl

    try:
        file = os.open(folder / ".lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(file)
    return False


@dataclass(slots=True)
class Try:
    """One time that an attempt was begun. ``began`` is the time of day as written, ``ended`` is ``finished``, ``failed`` (through the machine) or "" (it is
    under way, or was cut off by a kill), ``usage`` what its agent used."""

    began: str = ""
    ended: str = ""
    reason: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class History:
    """What happened to one attempt, in order. ``last`` is its last event (started, finished, graded, failed; "" for none), ``usage`` by role over all tries."""

    tries: list[Try] = field(default_factory=list)
    last: str = ""
    usage: dict[str, Usage] = field(default_factory=dict)

    def wasted(self, *, working: bool) -> list[Try]:
        """The tries that came to nothing. The last one counts as under way, not as wasted, where a process is ``working`` on the run."""
        ended = self.tries[:-1] if working and self.last == "started" else self.tries
        return [one for one in ended if one.ended != "finished"]


def histories(events: Iterable[Mapping[str, Any]]) -> dict[Key, History]:
    """The history of every attempt. Pure; passes over what :func:`harness.events.fold` skips and names."""
    found: dict[Key, History] = {}
    for event in events:
        kind = event.get("event")
        if kind not in ("started", "usage", "finished", "graded", "failed"):
            continue
        key = (event.get("arm"), event.get("stream"), event.get("issue"))
        if not all(isinstance(part, str) for part in key) or wrong_field(kind, event):
            continue
        history = found.setdefault(key, History())  # type: ignore[arg-type]
        last = history.tries[-1] if history.tries else None
        if kind == "started":
            at = event.get("at")
            history.tries.append(Try(at if isinstance(at, str) else ""))
        elif kind == "usage":
            used = Usage(event["calls"], event["input"], event["output"], event["cost"])
            history.usage[event["role"]] = history.usage.get(event["role"], Usage()) + used
            if event["role"] == "agent" and last is not None:
                last.usage = last.usage + used
            continue
        elif kind == "finished":
            if last is None:
                continue
            last.ended = "finished"
        elif kind == "graded":
            if last is None or last.ended != "finished":
                continue
        elif last is not None and not last.ended:
            last.ended, last.reason = "failed", event["reason"]
        history.last = kind
    return found


def printable(value: Any) -> Any:
    """Plain values with each lone surrogate, which no terminal and no file takes, replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [printable(part) for part in value]
    return {printable(key): printable(part) for key, part in value.items()} if isinstance(value, dict) else value


def usage_values(used: Usage) -> dict[str, Any]:
    """A usage as plain values; ``cost`` is in US dollars, null where a call without a known price was among them."""
    return {"calls": used.calls, "input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "cost": used.cost}


def usage_words(used: Mapping[str, Any]) -> str:
    """The values of :func:`usage_values` in words."""
    cost = "cost unknown" if used["cost"] is None else f"${used['cost']:.4f}" if 0 < used["cost"] < 1 else f"${used['cost']:.2f}"
    calls = f"{used['calls']:,} {'call' if used['calls'] == 1 else 'calls'}"
    tokens = "token" if used["input_tokens"] == 1 else "tokens"
    return f"{calls}, {used['input_tokens']:,} {tokens} in, {used['output_tokens']:,} out, {cost}"


def named_arms(arms: Sequence[Arm], names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of these names, or of these names of folders, each once. Raises UsageError for one that the run does not have."""
    found: dict[str, Arm] = {}
    for name in names:
        arm = next((arm for arm in arms if name.strip() in _spellings(arm)), None)
        if arm is None:
            raise UsageError(f"this run has no arm {name!r}", f"Its arms: {', '.join(arm.name for arm in arms)}.")
        found[arm.name] = arm
    return tuple(found.values())


def find_attempt(layout: Layout, text: str) -> Cell:
    """The one attempt that ``text`` means: ARM/STREAM/ISSUE, or a part of it that fits no other.

    The arm may be written as its folder is. What fits a whole part (an issue, an arm and a stream, ...) goes before what only occurs somewhere in it.
    Raises UsageError where no attempt fits, or several: they are listed then.
    """
    wanted = text.strip().strip("/")
    if not wanted:
        raise UsageError("no attempt was named", "Name one as ARM/STREAM/ISSUE, for example none/1-1/web-417.")
    spelled = [(cell, _spellings(cell.arm)) for cell in layout.cells]
    for fits in (_is_whole, _is_part, _occurs):
        found = [cell for cell, arms in spelled if any(fits(arm, cell, wanted) for arm in arms)]
        if len(found) == 1:
            return found[0]
        if found:
            names = [f"  {'/'.join(cell.key)}" for cell in found[:MOST_CANDIDATES]]
            more = [f"  ... and {len(found) - MOST_CANDIDATES} more"] if len(found) > MOST_CANDIDATES else []
            raise UsageError(f"{len(found)} attempts fit {text!r}", "\n".join(["Name one of them:", *names, *more]))
    some = ", ".join("/".join(cell.key) for cell in layout.cells[:3])
    raise UsageError(f"no attempt of this run fits {text!r}", f"Its attempts are named ARM/STREAM/ISSUE, such as {some}.")


def _spellings(arm: Arm) -> tuple[str, ...]:
    return (arm.name, arm.folder, arm.name.replace(":", "_"))


def _is_whole(arm: str, cell: Cell, wanted: str) -> bool:
    return wanted == f"{arm}/{cell.stream}/{cell.issue}"


def _is_part(arm: str, cell: Cell, wanted: str) -> bool:
    stream, issue = cell.stream, cell.issue
    return wanted in (issue, arm, stream, f"{arm}/{stream}", f"{arm}/{issue}", f"{stream}/{issue}")


def _occurs(arm: str, cell: Cell, wanted: str) -> bool:
    return wanted in f"{arm}/{cell.stream}/{cell.issue}"
