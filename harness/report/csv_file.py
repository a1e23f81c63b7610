"""``attempts.csv``: one line for each attempt."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from harness.report.attempts import FIELDS, attempts

_UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def attempts_csv(result: Mapping[str, Any]) -> str:
    """The attempts with their fields; empty for what is not known. A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(FIELDS)
    for run in attempts(result):
        writer.writerow([_value(run.get(name)) for name in FIELDS])
    return held.getvalue()


def _value(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    if isinstance(value, str):
        value = _UNPRINTED.sub(" ", value)
        return f"'{value}" if value.startswith(_FORMULA) else value
    return value
