"""Issues out of dataset rows: the public columns, and nothing of the grading part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swe_memory.errors import TrajectoryError, UsageError
from swe_memory.records import Issue
from swe_memory.trajectories import parse_json, plain_text, read_bytes
from swe_memory.trajectories.task import MAX_ISSUE_CHARS

_SWE_BENCH_ID = re.compile(r"([A-Za-z0-9][\w.-]*?)__([\w.-]+)-\d+")
_SWE_SMITH_ID = re.compile(r"([A-Za-z0-9][\w.-]*?)__([\w-]+)\.[0-9a-f]{7,}\..*")


def issue_from_row(row: Mapping[str, Any]) -> Issue:
    """The issue in one row of a dataset (SWE-bench's columns, or ``id``, ``title``, ``body``/``text``).

    Only ``instance_id``/``id``, ``repo``, ``base_commit``, ``problem_statement``/``text``/``title`` + ``body`` and ``created_at`` are looked at: the reference
    patch, test patch, test names, hints and whatever else a row holds do not leave this function.

    Raises UsageError where the row has no id or no text column.
    """
    key = plain_text(row.get("instance_id") or row.get("id")).strip()
    if not key:
        raise UsageError("a row has no instance_id", "Each issue needs instance_id (or id), and problem_statement (or text).")
    text = next((row[name] for name in ("problem_statement", "text") if isinstance(row.get(name), str)), None)
    if text is None and isinstance(row.get("title"), str):
        text = f"{row['title']}\n\n{plain_text(row.get('body'))}".strip()
    if text is None:
        raise UsageError(f"the row of {key} has no problem_statement", "Each issue needs problem_statement, text, or title and body.")
    return Issue(
        id=key,
        repo=plain_text(row.get("repo")).strip() or repo_of(key),
        text=plain_text(text)[:MAX_ISSUE_CHARS],
        base_commit=plain_text(row.get("base_commit")).strip(),
        created_at=_time(row.get("created_at"), key),
    )


def repo_of(instance_id: str) -> str:
    """ "owner/name" from an id such as owner__name-123; "" where the id does not say."""
    match = _SWE_BENCH_ID.fullmatch(instance_id) or _SWE_SMITH_ID.fullmatch(instance_id)
    return f"{match.group(1)}/{match.group(2)}" if match else ""


def read_issues(path: Path) -> tuple[Issue, ...]:
    """The issues of a JSONL file, or of a JSON file with a list of rows or an object of rows by id; sorted by id, equal ones once.

    Raises UsageError where the file is missing, empty, not JSON, has a row that is no issue, or two different issues under one id.
    """
    found: dict[str, Issue] = {}
    for where, row in _rows(path):
        try:
            issue = issue_from_row(row)
        except UsageError as error:
            raise UsageError(f"{where}: {error.what}", error.hint) from None
        if found.setdefault(issue.id, issue) != issue:
            raise UsageError(f"{where}: a second, different issue {issue.id}", "Ids must be unique in an issues file.")
    if not found:
        raise UsageError(f"{path} holds no issue", "Expected rows with instance_id and problem_statement.")
    return tuple(found[key] for key in sorted(found))


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        data = read_bytes(path)
        if path.suffix == ".jsonl":
            rows: list[tuple[str, Any]] = []
            for number, line in enumerate(data.split(b"\n"), 1):
                if line.strip():
                    rows.append((f"{path}, line {number}", parse_json(line, f"{path}, line {number}")))
        else:
            parsed = parse_json(data, str(path))
            if isinstance(parsed, Mapping) and not ("problem_statement" in parsed or "text" in parsed):
                parsed = [{"instance_id": key, **row} if isinstance(row, Mapping) else row for key, row in parsed.items()]
            elif isinstance(parsed, Mapping):
                parsed = [parsed]
            rows = [(f"{path}, row {number}", row) for number, row in enumerate(parsed if isinstance(parsed, list) else [parsed], 1)]
    except TrajectoryError as error:
        raise UsageError(error.what, "An issues file is JSONL (one row a line) or JSON, in UTF-8.") from None
    for where, row in rows:
        if not isinstance(row, Mapping):
            raise UsageError(f"{where} is not an object", "Expected rows with instance_id and problem_statement.")
        yield where, row


def _time(value: object, key: str) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, datetime):
            time = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            time = datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
        else:
            time = datetime.fromisoformat(str(value).strip())
        # In here: the first and the last day of the calendar have no UTC time in some zones.
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"created_at of {key} is not a time: {str(value)[:40]!r}", "Use ISO 8601, as 2019-03-15T15:02:07Z.") from None
