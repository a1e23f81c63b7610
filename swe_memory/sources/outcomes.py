"""Predictions and official reports. Reports name hidden tests: what leaves this file is whether the issue was resolved, and one of a few fixed reasons.

Shapes read in swebench 2 to 5 (harness/grading.py, harness/reporting.py) and in the public results repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_memory.records import Verdict
from swe_memory.trajectories import plain_text

_REPORT_FLAGS = frozenset({"resolved", "patch_exists", "patch_successfully_applied", "patch_is_None", "infra_failure", "tests_status"})
_SUMMARY_LISTS = ("resolved_ids", "unresolved_ids", "error_ids", "empty_patch_ids")


def predictions_in(data: object) -> dict[str, str] | None:
    """Patches by instance id from preds.json (an object), a list of predictions, or a single one (.pred); None where this is something else.

    A patch that is null counts as nothing submitted.
    """
    if isinstance(data, Mapping):
        if "instance_id" in data and "model_patch" in data:
            rows: list[Any] = [data]
        elif data and all(isinstance(row, Mapping) and "model_patch" in row for row in data.values()):
            rows = [{"instance_id": key, **row} for key, row in data.items()]
        else:
            return None
    elif (
        isinstance(data, list) and data and all(isinstance(row, Mapping) and "instance_id" in row and "model_patch" in row for row in data)
    ):
        rows = data
    else:
        return None
    return {plain_text(row["instance_id"]).strip(): plain_text(row["model_patch"]) for row in rows}


def reports_in(data: object) -> dict[str, Verdict] | None:
    """Verdicts by instance id from a report of single instances; "" is the id where the report does not name one. None where this is something else."""
    if not isinstance(data, Mapping) or not data:
        return None
    if _is_report(data):
        return {"": verdict_of_report(data)}
    if all(isinstance(value, Mapping) and _is_report(value) for value in data.values()):
        return {plain_text(key).strip(): verdict_of_report(value) for key, value in data.items()}
    return None


def _is_report(value: Mapping[str, Any]) -> bool:
    return len(_REPORT_FLAGS.intersection(value)) >= 2 and not isinstance(value.get("resolved"), list)


def verdict_of_report(report: Mapping[str, Any]) -> Verdict:
    """The verdict of one instance's report.

    A machine that failed says nothing about the patch: unknown. No patch, or one that does not apply, does not resolve the issue: unresolved.
    """
    if report.get("infra_failure") is True:
        return Verdict.unknown("tests", "the machine failed while testing (infra_failure)")
    if report.get("patch_is_None") is True or report.get("patch_exists") is False:
        return Verdict.from_tests(resolved=False, reason="no patch was submitted")
    if report.get("patch_successfully_applied") is False:
        return Verdict.from_tests(resolved=False, reason="the patch does not apply")
    resolved = report.get("resolved")
    if isinstance(resolved, bool):
        return Verdict.from_tests(resolved=resolved)
    return Verdict.unknown("tests", "the report does not say whether the issue was resolved")


def summary_in(data: object) -> dict[str, Verdict] | None:
    """Verdicts by instance id from the report of a whole run (resolved_ids and so on, or the older lists); None where this is something else.

    Error ids are unknown: swebench lists time-outs, missing images and patches that do not apply under one name.
    """
    if not isinstance(data, Mapping):
        return None
    found: dict[str, Verdict] = {}
    if any(isinstance(data.get(name), list) for name in _SUMMARY_LISTS):
        unknown = Verdict.unknown("tests", "the evaluation ended with an error (a time-out, the machine, or a patch that does not apply)")
        for name, verdict in (
            ("error_ids", unknown),
            ("infra_failure_ids", Verdict.unknown("tests", "the machine failed while testing (infra_failure)")),
            ("empty_patch_ids", Verdict.from_tests(resolved=False, reason="no patch was submitted")),
            ("unresolved_ids", Verdict.from_tests(resolved=False)),
            ("resolved_ids", Verdict.from_tests(resolved=True)),
        ):
            found.update(dict.fromkeys(_ids(data.get(name)), verdict))
        return found
    if isinstance(data.get("resolved"), list) and ("no_generation" in data or "no_logs" in data or "applied" in data):
        found.update({key: Verdict.from_tests(resolved=False) for key in _ids(data.get("applied"))})
        found.update({key: Verdict.unknown("tests", "the evaluation left no log") for key in _ids(data.get("no_logs"))})
        found.update({key: Verdict.from_tests(resolved=False, reason="no patch was submitted") for key in _ids(data.get("no_generation"))})
        found.update({key: Verdict.from_tests(resolved=True) for key in _ids(data.get("resolved"))})
        return found
    return None


def _ids(value: object) -> list[str]:
    return [key for key in value if isinstance(key, str)] if isinstance(value, list) else []
