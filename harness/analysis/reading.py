"""Stored trajectories, read one after the other within a budget of bytes; of each only sets of words and a few facts are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.arms import Arm
from harness.layout import Key
from harness.trajectory_file import trajectory_path

BYTES = 24_000_000
"""What a look at a run may read, about a second of work: 100 attempts of a language model, and any number of small ones."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_FENCE = re.compile(r"<past-attempts-([0-9a-f]{16})>(.*?)</past-attempts-\1>", re.DOTALL)
_ORIGIN = re.compile(r"^\s*\(learned from .*\)\s*$", re.MULTILINE)
"""The line of a memory block that says where a note is from: not the note's own words."""


@dataclass(frozen=True, slots=True)
class Told:
    """Of one trajectory: the words of its task, of its thoughts, and of the notes that memory showed; which model it names; ``hidden``: how many objects of
    the repository's future were removed before it, None where that is not recorded. Words are lower case, four letters or more."""

    task: frozenset[str]
    thoughts: frozenset[str]
    notes: frozenset[str]
    model: str = ""
    hidden: int | None = None


@dataclass(slots=True)
class Budget:
    """Bytes that may still be read; ``None`` is no limit. ``short`` once a file was left out for it."""

    left: int | None = BYTES
    short: bool = False
    read: int = 0

    def take(self, size: int) -> bool:
        """Whether a file of this size may be read, which is then counted."""
        if self.left is not None and size > self.left:
            self.short = True
            return False
        if self.left is not None:
            self.left -= size
        self.read += 1
        return True


@dataclass(slots=True)
class Trajectories:
    """The trajectories of a run folder. ``gone``: files that are not there or cannot be read, by number."""

    folder: Path
    arms: Mapping[str, Arm]
    budget: Budget = field(default_factory=Budget)
    gone: int = 0

    def read(self, key: Key) -> Told | None:
        """One attempt's; None where the budget is used up, or the file is gone or damaged."""
        path = self.folder / attempt_path(self.arms[key[0]], key)
        try:
            size = path.stat().st_size
            if not self.budget.take(size):
                return None
            return told(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError, RecursionError):
            self.gone += 1
            return None


def attempt_path(arm: Arm, key: Key) -> str:
    """Where an attempt's trajectory lies below the run folder, with slashes."""
    return _path_of(arm.folder, key[1]).replace(_ANY, key[2])


_ANY = "\0"  # no issue's id has it


@lru_cache(maxsize=1024)
def _path_of(arm: str, stream: str) -> str:
    return trajectory_path(Path(arm) / stream, _ANY).as_posix()


def told(text: str) -> Told:
    """What one trajectory file tells. Raises ValueError where it is none."""
    from swe_memory.errors import TrajectoryError
    from swe_memory.trajectories import load_trajectory

    data = json.loads(text)
    try:
        trajectory = load_trajectory(data)
    except TrajectoryError as error:
        raise ValueError(error.what) from error
    model = trajectory.model if trajectory.model not in ("", "none") else ""
    return Told(words([trajectory.task]), words([step.thought for step in trajectory.steps]), words([_notes(text)]), model, _hidden(data))


def words(texts: Sequence[str]) -> frozenset[str]:
    """The words of some texts; an identifier is one word, a dotted name or a path is several."""
    return frozenset(word.lower() for text in texts for word in _WORD.findall(text))


def _notes(text: str) -> str:
    """What memory showed, from the prompt as it is stored, in whatever part of the trajectory it stands; "" for nothing."""
    found = _FENCE.search(text)
    if not found:
        return ""
    try:
        shown = json.loads(f'"{found.group(2)}"')  # it stands in a JSON string
    except ValueError:
        return ""
    return _ORIGIN.sub("", shown)


def _hidden(data: Any) -> int | None:
    try:
        objects = data["info"]["swe_memory"]["prepared"]["objects"]
    except (KeyError, TypeError):
        return None
    return objects if isinstance(objects, int) else None
