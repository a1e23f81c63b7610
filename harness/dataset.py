"""Datasets in SWE-bench's row format: the hub's, the bundled bench, and local JSON, JSONL or Parquet files (docs/dataset.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.dataset_files import SUFFIXES, Row, file_of_split, read_rows
from harness.dataset_hub import DEFAULT_SPLIT, OFFICIAL, fetch, hub_name
from harness.instances import Instance, instance_from_row, names_of_tests, row_name
from harness.statistics.estimates import count
from swe_memory.errors import UsageError

MINIBENCH = "minibench"
_TOLD = 10


@dataclass(frozen=True, slots=True)
class Dataset:
    """Instances in the order of their source.

    ``hash`` (64 hex digits) is over the rows' content, whatever their order and the file's layout. ``revision`` is the commit (40 hex digits) of a dataset
    of the hub, and then ``load_dataset(name, revision=revision, split=split)`` gives it again; "" for everything else. ``split`` is "" where there are none.
    """

    name: str
    hash: str
    instances: tuple[Instance, ...]
    revision: str = ""
    split: str = ""

    def __len__(self) -> int:
        return len(self.instances)

    def instance(self, instance_id: str) -> Instance:
        """The instance of that id; raises UsageError naming some that exist."""
        for instance in self.instances:
            if instance.issue.id == instance_id:
                return instance
        some = ", ".join(instance.issue.id for instance in self.instances[:3])
        raise UsageError(
            f"{self.name} has no instance {instance_id!r}", f"It has {count(len(self), 'instance', 'instances')}, such as {some}."
        )


def load_dataset(
    name_or_path: str | Path, *, revision: str = "", split: str = "", repositories: Path | None = None, cache: Path | None = None
) -> Dataset:
    """Load a dataset whose rows are in the official format of swebench 5.

    ``name_or_path`` is ``minibench``; a ``.json`` (a list of rows), ``.jsonl`` or ``.parquet`` file; a folder with a file for each split
    (SPLIT.parquet, .jsonl, .json); ``verified``, ``lite`` or ``full``; or ``owner/name`` of any dataset of the Hugging Face hub. A file or folder here
    comes before a dataset of the hub. ``revision`` (a commit, tag or branch) is for the hub alone, ``split`` ("" is ``test``) for the hub and folders.
    ``repositories`` is a folder with a clone of each repository as OWNER__NAME or OWNER/NAME (``.git`` may follow); ``cache`` is where the bundled
    repositories are built (default: the user's cache folder).

    Raises :class:`UsageError` where the dataset is unknown, empty, has a duplicate id, or rows that cannot be graded (all are looked at before it is raised);
    SweMemoryError where the hub cannot be reached (see :func:`harness.dataset_hub.fetch`, also for work without a network).
    """
    name, path = str(name_or_path), Path(name_or_path)
    if name == MINIBENCH:
        _refuse(name, "is bundled", revision=revision, split=split)
        from harness import minibench

        return make_dataset(MINIBENCH, minibench.load(cache))
    if path.suffix.lower() in SUFFIXES and not path.is_dir():
        _refuse(name, "is a file", revision=revision, split=split)
        return make_dataset(path.name, _instances(path.name, read_rows(path), repositories))
    if path.is_dir():
        _refuse(name, "is a folder here", revision=revision)
        file = file_of_split(path, split or DEFAULT_SPLIT)
        loaded = make_dataset(f"{path.resolve().name}/{file.name}", _instances(file.name, read_rows(file), repositories))
        return replace(loaded, split=file.stem)
    repo = hub_name(name)
    if repo is None:
        raise UsageError(
            f"unknown dataset {name!r}",
            f"Use {MINIBENCH}, {', '.join(OFFICIAL)}, OWNER/NAME of a dataset of the Hugging Face hub, or a {', '.join(SUFFIXES)} file in its row format.",
        )
    found = fetch(repo, revision=revision, split=split)
    label = f"{repo} at {found.revision[:12]}, split {found.split},"
    rows = [(f"{label} row {number}", row) for number, row in enumerate(found.rows, 1)]
    return replace(make_dataset(repo, _instances(label, rows, repositories)), revision=found.revision, split=found.split)


def _refuse(name: str, why: str, **given: str) -> None:
    for option in (option for option, value in given.items() if value):
        raise UsageError(f"--{option} does not go with --dataset {name}, which {why}", f"Leave out --{option}.")


def _instances(name: str, rows: Sequence[tuple[str, Row | UsageError]], repositories: Path | None) -> list[Instance]:
    """Each row as an instance. Raises one UsageError that names the first bad rows and counts the others."""
    found: list[Instance] = []
    broken: list[tuple[str, UsageError]] = []
    for where, row in rows:
        if isinstance(row, UsageError):
            broken.append((where, row))
            continue
        try:
            found.append(instance_from_row(row, where=where, repositories=repositories))
        except UsageError as error:
            broken.append((row_name(row, where), error))
    if len(broken) == 1:
        raise broken[0][1]
    if broken:
        raise _bad_rows(name, broken, len(rows))
    return found


def _bad_rows(name: str, broken: Sequence[tuple[str, UsageError]], total: int) -> UsageError:
    """Rows with the same fault share a line: of 500 classic rows nobody wants to read it 500 times."""
    faults: dict[str, list[str]] = {}
    for row, error in broken[:_TOLD]:
        faults.setdefault(error.what.removeprefix(f"{row}: "), []).append(row.removeprefix(f"{name} "))
    lines = [f"{', '.join(rows)}: {fault}" for fault, rows in faults.items()]
    if more := len(broken) - _TOLD:
        lines += [f"and {more} more"] if more > 0 else []
    hints = list(dict.fromkeys(error.hint for _, error in broken))
    return UsageError(
        "\n    ".join([f"{name} has {len(broken)} rows of {total} that cannot be used:", *lines]),
        hints[0] if len(hints) == 1 else "Repair them, or leave them out; docs/dataset.md says what goes into each column.",
    )


def make_dataset(name: str, instances: Iterable[Instance]) -> Dataset:
    """Check that there are instances and that no id comes twice, and hash them."""
    found = tuple(instances)
    if not found:
        raise UsageError(f"dataset {name} is empty", "Give it at least one row.")
    seen: dict[str, int] = {}
    for number, instance in enumerate(found, 1):
        before = seen.setdefault(instance.issue.id, number)
        if before != number:
            raise UsageError(f"dataset {name}: {instance.issue.id} comes twice, as instances {before} and {number}", "Keep one of them.")
    return Dataset(name, rows_hash([instance.grading.row for instance in found]), found)


def rows_hash(rows: Iterable[Mapping[str, Any]]) -> str:
    """sha256 over the rows as canonical JSON, sorted by id; the two list columns count the same written as a list or as JSON text."""
    canonical = [
        {**row, **{column: list(names_of_tests(row[column], "", column)) for column in ("FAIL_TO_PASS", "PASS_TO_PASS")}} for row in rows
    ]
    canonical.sort(key=lambda row: str(row["instance_id"]))
    digest = hashlib.sha256()
    for row in canonical:
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode() + b"\n")
    return digest.hexdigest()
