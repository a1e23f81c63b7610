"""Rows in the official format, of an invented repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CANARIES = {
    "patch": "CANARY-GOLD",
    "test_patch": "CANARY-TESTPATCH",
    "hints_text": "CANARY-HINTS",
    "eval_script": "CANARY-SCRIPT",
    "FAIL_TO_PASS": '["CANARY-F2P"]',
    "PASS_TO_PASS": '["CANARY-P2P"]',
    "image": "CANARY-IMAGE",
    "log_parser": "parse_log_sqlfluff",
}
CLASSIC = {"image": ..., "eval_script": ..., "log_parser": ..., "eval_type": ...}


def row(**changes: Any) -> dict[str, Any]:
    """A row with a canary in each grading column; a column that is changed to ... is left out."""
    made = {
        "repo": "acme/web",
        "instance_id": "acme__web-1",
        "base_commit": "0" * 40,
        "problem_statement": "Title\n\nIt breaks.",
        "created_at": "2023-05-01T12:00:00Z",
        "version": "1.0",
        "environment_setup_commit": "1" * 40,
        "eval_type": "pass_and_fail",
        **CANARIES,
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not ...}


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    """The rows as a JSONL file."""
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path
