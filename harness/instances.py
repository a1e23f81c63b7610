"""One row of SWE-bench's format, split on reading.

What the agent may know becomes an :class:`~swe_memory.records.Issue`; everything else goes into :class:`Grading`, which only the grader opens and whose
``repr`` shows nothing, so that a log line or a traceback cannot carry a gold patch into a prompt.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swe_memory.errors import UsageError
from swe_memory.records import Issue
from swe_memory.sources import issue_from_row

_CLASSIC = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch", "version", "FAIL_TO_PASS", "PASS_TO_PASS")
_SINCE_5 = ("image", "eval_script", "log_parser", "eval_type")
_EVAL_TYPES = ("pass_and_fail", "fail_only")


@dataclass(frozen=True, slots=True, repr=False)
class Grading:
    """What only the grader may read: the reference fix, the hidden tests and how they are run.

    ``row`` is the complete official row as plain values (:func:`plain_row`), for handing to swebench. ``fail_to_pass`` must fail before the fix and
    pass after it, ``pass_to_pass`` must go on passing.
    """

    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    image: str
    eval_script: str
    log_parser: str
    eval_type: str
    row: Mapping[str, Any]

    def __repr__(self) -> str:
        return "Grading(hidden)"


@dataclass(frozen=True, slots=True)
class Instance:
    """An issue and its grading part, kept apart by type. ``repository`` is a local git repository that holds the base commit, or None where the
    dataset brings none."""

    issue: Issue
    grading: Grading
    version: str = ""
    environment_setup_commit: str = ""
    repository: Path | None = None


def instance_from_row(
    row: Mapping[str, Any], *, where: str = "row", repositories: Path | None = None, repository: Path | None = None
) -> Instance:
    """Split one official row into what the agent may see and what only the grader may. ``where`` names the row in messages.

    Raises UsageError, which begins with :func:`row_name`, where the row cannot be graded.
    """
    identity = row_name(row, where)
    row = plain_row(row)
    _check(row, identity)
    grading = Grading(
        patch=row["patch"],
        test_patch=row["test_patch"],
        fail_to_pass=names_of_tests(row["FAIL_TO_PASS"], identity, "FAIL_TO_PASS"),
        pass_to_pass=names_of_tests(row["PASS_TO_PASS"], identity, "PASS_TO_PASS"),
        image=row["image"],
        eval_script=row["eval_script"],
        log_parser=row["log_parser"],
        eval_type=row["eval_type"],
        row=row,
    )
    if not grading.fail_to_pass:
        raise UsageError(f"{identity}: FAIL_TO_PASS is empty, so nothing could show that the issue is resolved", "Name at least one test.")
    try:
        issue = issue_from_row(row)
    except UsageError as error:
        raise UsageError(f"{identity}: {error.what}", error.hint) from None
    return Instance(
        issue=issue,
        grading=grading,
        version=row["version"],
        environment_setup_commit=str(row.get("environment_setup_commit") or ""),
        repository=repository or _clone(repositories, row["repo"]),
    )


def row_name(row: Mapping[str, Any], where: str) -> str:
    """How messages name a row: where it is, and its id where it has one."""
    return f"{where} ({row['instance_id']})" if isinstance(row.get("instance_id"), str) else where


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without its empty columns (null, NaN), and as JSON has it, so that a row is the same from JSON and from Parquet.

    Times become ISO 8601 text (one without a zone is in UTC, as everywhere in the format).
    """
    return {name: _plain(value) for name, value in row.items() if value is not None and value == value}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z") if value.tzinfo else f"{value.isoformat()}Z"
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _check(row: Mapping[str, Any], identity: str) -> None:
    missing = [column for column in _CLASSIC if column not in row]
    newer = [column for column in _SINCE_5 if column not in row]
    if missing:
        raise UsageError(
            f"{identity}: nothing in column {', '.join(missing + newer)}",
            "Give each row the columns of SWE-bench's format; docs/dataset.md says what each means.",
        )
    if newer:
        raise UsageError(
            f"{identity}: nothing in column {', '.join(newer)}: this is a row of SWE-bench before version 5",
            "Take the current main revision of SWE-bench/SWE-bench_Verified, SWE-bench_Lite or SWE-bench, whose rows say how they are graded: "
            "--dataset verified without --revision. For rows of your own, docs/dataset.md says what goes into these columns.",
        )
    for column in (*_CLASSIC[:7], *_SINCE_5):
        if not isinstance(row[column], str):
            raise UsageError(f"{identity}: {column} is {type(row[column]).__name__}, not text", "Write it as a string.")
    for column in ("instance_id", "repo", "base_commit", "test_patch", "eval_script", "log_parser"):
        if not row[column].strip():
            raise UsageError(f"{identity}: {column} is empty", "Fill it in, or leave the row out.")
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", row["instance_id"]):
        raise UsageError(f"{identity}: the id cannot be a file name", "Use letters, digits, '_', '-' and '.' only.")
    if row["eval_type"] not in _EVAL_TYPES:
        raise UsageError(f"{identity}: eval_type is {row['eval_type']!r}", f"swebench knows {' and '.join(_EVAL_TYPES)}.")
    if (parsers := known_parsers()) and row["log_parser"] not in parsers:
        near = get_close_matches(row["log_parser"], parsers, n=3, cutoff=0.0)
        what = f"{identity}: there is no log_parser {row['log_parser']!r} in the installed swebench"
        raise UsageError(what, f"Nearest: {', '.join(near)}. It knows {len(parsers)}.")


@cache
def known_parsers() -> frozenset[str]:
    """The log parsers of the installed swebench, read from its source: importing it takes seconds. Empty where it is not installed or looks otherwise."""
    package = find_spec("swebench")
    for folder in (package.submodule_search_locations or ()) if package else ():
        with contextlib.suppress(OSError):
            source = (Path(folder) / "harness" / "log_parsers" / "__init__.py").read_text(encoding="utf-8")
            return frozenset(re.findall(r'^ +"(parse_\w+)": parse_\w+,$', source.partition("PARSER_REGISTRY")[2], re.MULTILINE))
    return frozenset()


def names_of_tests(value: Any, identity: str, column: str) -> tuple[str, ...]:
    """Test names, written as a list or (as SWE-bench does) as JSON text of a list."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{identity}: {column} is not a JSON list", 'Write it as ["test one", "test two"].') from error
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{identity}: {column} is not a list of test names", 'Write it as ["test one", "test two"].')
    return tuple(value)


def _clone(repositories: Path | None, repo: str) -> Path | None:
    if repositories is None:
        return None
    flat = repo.replace("/", "__")
    candidates = (repositories / flat, repositories / f"{flat}.git", repositories / repo, repositories / f"{repo}.git")
    return next((folder for folder in candidates if folder.is_dir()), None)
