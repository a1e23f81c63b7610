"""Walk a folder and sort what lies in it: trajectories, predictions, reports, run reports. Files are told apart by what they hold, not by where they lie."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from swe_memory.errors import TrajectoryError
from swe_memory.records import Trajectory, Verdict
from swe_memory.sources.issues import repo_of
from swe_memory.sources.outcomes import predictions_in, reports_in, summary_in
from swe_memory.trajectories import MAX_FILE_BYTES, instance_id_of, load_trajectory, parse_json, read_bytes

T = TypeVar("T")
_SKIPPED_FOLDERS = ("__pycache__", "node_modules", "site-packages")
_GENERIC_NAMES = frozenset({"trajectory", "traj", "agent", "messages", "output", "run", "last_mini_run", "attempt"})


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the folder that could not be used as it is. ``path`` is relative to the folder, "" where no single file is to blame."""

    what: str
    path: str = ""
    instance_id: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """One statement about one issue, and the file it stands in."""

    path: Path
    value: T


@dataclass
class Contents:
    """Everything a walk found, by instance id."""

    trajectories: dict[str, list[Found[tuple[Trajectory, str]]]] = field(default_factory=lambda: defaultdict(list))
    predictions: dict[str, list[Found[str]]] = field(default_factory=lambda: defaultdict(list))
    reports: dict[str, list[Found[Verdict]]] = field(default_factory=lambda: defaultdict(list))
    nameless: list[Found[Verdict]] = field(default_factory=list)
    summaries: dict[str, list[Found[Verdict]]] = field(default_factory=lambda: defaultdict(list))
    problems: list[Problem] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    files: int = 0


def walk(folder: Path) -> Contents:
    """Everything below a folder. Never raises for what a file holds: that becomes a problem or is only counted."""
    contents = Contents()
    for path in _files(folder, contents):
        contents.files += 1
        if path.name.endswith((".traj.json", ".traj")):
            _take_trajectory(folder, path, contents)
        elif path.suffix in (".json", ".jsonl", ".pred"):
            _take_json(folder, path, contents)
    return contents


def _files(folder: Path, contents: Contents) -> Iterator[Path]:
    """All files below, sorted, links followed, each folder once: a link that leads back up ends there."""
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            status = current.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(current) as listing:
                entries = sorted((entry.name, _kind(entry)) for entry in listing)
        except OSError as error:
            contents.problems.append(
                Problem(f"cannot be opened: {error.strerror or error}", below(folder, current), hint="Check its permissions.")
            )
            continue
        waiting += [current / name for name, kind in reversed(entries) if kind == "folder" and not _skipped(name)]
        yield from (current / name for name, kind in entries if kind == "file")


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else ""
    except OSError:  # a link to itself
        return ""


def _skipped(name: str) -> bool:
    return name.startswith(".") or name.endswith(".lance") or name in _SKIPPED_FOLDERS


def _take_trajectory(folder: Path, path: Path, contents: Contents, data: Any = None) -> None:
    try:
        raw = read_bytes(path)
        data = parse_json(raw, below(folder, path)) if data is None else data
        trajectory = load_trajectory(data)
    except TrajectoryError as error:
        # The message names what is wrong; the path stands beside it.
        what = error.what.replace(str(path), below(folder, path))
        contents.problems.append(Problem(what, below(folder, path), instance_id_of(None, path), error.hint))
        return
    key = instance_id_of(data, path)
    if key in _GENERIC_NAMES and path.parent != folder:
        key = path.parent.name
    named = instance_id_of(None, path)
    if named != key and repo_of(named) and repo_of(key):
        contents.problems.append(Problem(f"the file's name says {named}, its content {key}: the content counts", below(folder, path), key))
    # Steps are read again when the attempt is learned: a folder may hold more of them than memory.
    digest = hashlib.sha256(raw).hexdigest()
    contents.trajectories[key].append(Found(path, (replace(trajectory, steps=(), issue_id=key), digest)))


def _take_json(folder: Path, path: Path, contents: Contents) -> None:
    here = below(folder, path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES or path.stat().st_size == 0:
            contents.other.append(here)
            return
        raw = read_bytes(path)
        data = [parse_json(line, here) for line in raw.split(b"\n") if line.strip()] if path.suffix == ".jsonl" else parse_json(raw, here)
    except (TrajectoryError, OSError) as error:
        if any(word in path.name.lower() for word in ("pred", "report", "result")):
            what = error.what if isinstance(error, TrajectoryError) else f"cannot be read: {error.strerror}"
            contents.problems.append(Problem(what, here, hint="Predictions or a report, by its name: what it says is not used."))
        else:
            contents.other.append(here)
        return
    if (patches := predictions_in(data)) is not None:
        for key, patch in patches.items():
            contents.predictions[key].append(Found(path, patch))
    elif (reports := reports_in(data)) is not None:
        for key, verdict in reports.items():
            _take_report(folder, path, key, verdict, contents)
    elif (summary := summary_in(data)) is not None:
        for key, verdict in summary.items():
            contents.summaries[key].append(Found(path, verdict))
    elif _is_attempt(data):
        _take_trajectory(folder, path, contents, data)
    else:
        contents.other.append(here)


def _is_attempt(data: object) -> bool:
    """Whether a file that is not named a trajectory is one: it must hold a model turn."""
    if isinstance(data, Mapping):
        if isinstance(data.get("trajectory"), list):
            return isinstance(data.get("info"), Mapping)
        data = data.get("messages")
    return isinstance(data, list) and any(
        isinstance(m, Mapping) and (m.get("role") == "assistant" or m.get("object") == "response") for m in data
    )


def _take_report(folder: Path, path: Path, key: str, verdict: Verdict, contents: Contents) -> None:
    parent = path.parent.name
    if not key:
        contents.nameless.append(Found(path, verdict))
    elif repo_of(parent) and path.parent != folder and parent != key:
        what = f"a report of {key} in the folder of {parent}: not used"
        contents.problems.append(Problem(what, below(folder, path), parent, "Put it where it belongs, or grade this attempt again."))
    else:
        contents.reports[key].append(Found(path, verdict))


def name_the_nameless(folder: Path, contents: Contents) -> None:
    """Reports of swebench before 4 do not name their instance: their folder, their own name, or the only attempt beside them does."""
    for report in contents.nameless:
        stem = (
            report.path.name.removesuffix(".json")
            .removesuffix("report")
            .removesuffix(".")
            .removesuffix("_")
            .removesuffix("-")
            .removeprefix("report_")
        )
        beside = [key for key, found in contents.trajectories.items() if any(one.path.parent == report.path.parent for one in found)]
        if repo_of(report.path.parent.name) or report.path.parent.name in contents.trajectories:
            key = report.path.parent.name
        elif stem and (stem in contents.trajectories or repo_of(stem)):
            key = stem
        elif len(beside) == 1:
            key = beside[0]
        else:
            what = "a report that does not say of which issue it is: not used"
            contents.problems.append(
                Problem(what, below(folder, report.path), hint="Keep each report in a folder named by the instance id.")
            )
            continue
        contents.reports[key].append(report)


def below(folder: Path, path: Path) -> str:
    """A path as shown and stored: relative to the folder, with slashes."""
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return path.name
