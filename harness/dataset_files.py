"""Rows of a local file: JSON (a list of rows), JSONL (a row a line) or Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_memory.errors import UsageError

SUFFIXES = (".json", ".jsonl", ".parquet")

Row = Mapping[str, Any]


def read_rows(path: Path) -> list[tuple[str, Row | UsageError]]:
    """(where, row) of each row of the file, in its order; in a row's place what is wrong with it, so that all bad rows can be told at once.

    Raises UsageError where the file as a whole cannot be read.
    """
    if path.suffix.lower() == ".parquet":
        return [(f"{path.name} row {number}", row) for number, row in enumerate(_read_parquet(path), 1)]
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read dataset {path}: {error.strerror}", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"dataset {path} is not UTF-8 text", "Save it as UTF-8.") from error
    found: list[tuple[str, Any]] = []
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                where = f"{path.name} line {number}"
                try:
                    found.append((where, _parse(line, where)))
                except UsageError as error:
                    found.append((where, error))
    else:
        rows = _parse(text, str(path)) if text.strip() else []
        if not isinstance(rows, list):
            raise UsageError(f"dataset {path} is not a list of rows", "Write a JSON list, or one row a line in a .jsonl file.")
        found = [(f"{path.name} row {number}", row) for number, row in enumerate(rows, 1)]
    return [(where, row if isinstance(row, dict | UsageError) else _no_object(where)) for where, row in found]


def file_of_split(folder: Path, split: str) -> Path:
    """The file of a split in a folder as `swebench dataset build` writes it: SPLIT.parquet, or SPLIT.jsonl or SPLIT.json. Raises UsageError."""
    for suffix in (".parquet", ".jsonl", ".json"):
        if (path := folder / f"{split}{suffix}").is_file():
            return path
    there = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)[:10]
    raise UsageError(
        f"the folder {folder} has no {split}.parquet, {split}.jsonl or {split}.json",
        f"It has {', '.join(there)}: name the file, or its split with --split."
        if there
        else "Name a dataset file, or move to another folder if the hub's dataset of that name is meant.",
    )


def _read_parquet(path: Path) -> list[Row]:
    if not path.is_file():
        raise UsageError(
            f"cannot read dataset {path}: {'it is no file' if path.exists() else 'No such file or directory'}", "Check the path."
        )
    import pyarrow
    import pyarrow.parquet

    try:
        # ParquetFile and not read_table: the latter takes parts of the path, as in a=b/rows.parquet, for columns.
        with pyarrow.parquet.ParquetFile(path) as file:
            rows: list[Row] = file.read().to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:  # a lower layer's message may run over many lines
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"cannot read dataset {path} as Parquet: {reason}", "Download it again, or convert it to JSONL.") from error
    return rows


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not valid JSON: {error}", "Repair it, or write it again.") from error


def _no_object(where: str) -> UsageError:
    return UsageError(f"{where}: not a JSON object", "Write one row as {...}.")
