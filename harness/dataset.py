"""Datasets in SWE-bench's row format: the bundled bench, and local JSON or JSONL files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.instances import Instance, instance_from_row, names_of_tests
from swe_memory.errors import UsageError

MINIBENCH = "minibench"
_LATER = {"verified", "lite", "full", "swe-bench", "swe-bench_verified", "swe-bench_lite", "multimodal"}


@dataclass(frozen=True, slots=True)
class Dataset:
    """Instances in the order of their source. ``hash`` (64 hex digits) is over the rows' content, whatever their order and the file's layout."""

    name: str
    hash: str
    instances: tuple[Instance, ...]

    def __len__(self) -> int:
        return len(self.instances)

    def instance(self, instance_id: str) -> Instance:
        """The instance of that id; raises UsageError naming some that exist."""
        for instance in self.instances:
            if instance.issue.id == instance_id:
                return instance
        some = ", ".join(instance.issue.id for instance in self.instances[:3])
        raise UsageError(f"{self.name} has no instance {instance_id!r}", f"It has {len(self)} instances, such as {some}.")


def load_dataset(name_or_path: str | Path, *, repositories: Path | None = None, cache: Path | None = None) -> Dataset:
    """Load ``minibench`` or a local ``.json`` (a list of rows) or ``.jsonl`` file in the official row format of swebench 5.

    ``repositories`` is a folder with a clone of each repository as OWNER__NAME or OWNER/NAME (``.git`` may follow); ``cache`` is where the bundled
    repositories are built (default: the user's cache folder). Raises :class:`UsageError` where the dataset is unknown, empty, has a duplicate id,
    or a row that cannot be graded.
    """
    name = str(name_or_path)
    if name == MINIBENCH:
        from harness import minibench

        return make_dataset(MINIBENCH, minibench.load(cache))
    path = Path(name_or_path)
    if path.suffix not in (".json", ".jsonl"):
        if name.lower().split("/")[-1] in _LATER:
            raise UsageError(
                f"dataset {name!r} is not available in this version",
                f"Use {MINIBENCH!r}, or a local .json or .jsonl file in its row format.",
            )
        raise UsageError(f"unknown dataset {name!r}", f"Use {MINIBENCH!r}, or a .json or .jsonl file in SWE-bench's row format.")
    rows = _read(path)
    return make_dataset(path.name, [instance_from_row(row, where=where, repositories=repositories) for where, row in rows])


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


def _read(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """(where, row) of each row of a .json or .jsonl file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read dataset {path}: {error.strerror}", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"dataset {path} is not UTF-8 text", "Save it as UTF-8.") from error
    found: list[tuple[str, Any]] = []
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                found.append((f"{path.name} line {number}", _parse(line, f"{path} line {number}")))
    else:
        rows = _parse(text, str(path)) if text.strip() else []
        if not isinstance(rows, list):
            raise UsageError(f"dataset {path} is not a list of rows", "Write a JSON list, or one row a line in a .jsonl file.")
        found = [(f"{path.name} row {number}", row) for number, row in enumerate(rows, 1)]
    for where, row in found:
        if not isinstance(row, dict):
            raise UsageError(f"{where} is not a JSON object", "Write one row as {...}.")
    return found


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}", "Repair it, or write it again.") from error
