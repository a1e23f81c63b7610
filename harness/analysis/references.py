"""A run of nothing but reference patches: what it says about the environment. Nothing is said of agents or memory, for neither was there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.words import count

Found = Mapping[str, Any]
MOST_NAMES = 20
"""Up to so many issues, the flag that leaves them out is written out."""


def only_references(result: Found) -> bool:
    """Whether the run of a RESULT has no arm but the reference patches."""
    return result["kind"] == "run" and not result["arms"]


def references_headline(result: Found) -> dict[str, Any]:
    """``headline`` of such a RESULT."""
    checked, resolved = (sum(found[name] for found in result["environment"]) for name in ("checked", "resolved"))
    verb = "resolves its issue" if 1 in (checked, resolved) else "resolve their issues"
    first = (
        f"{resolved} of {count(checked, 'reference patch', 'reference patches')} {verb} here."
        if checked
        else "No reference patch is graded yet."
    )
    return {"sentence": " ".join([first, *not_graded(result)]), "caveats": [], "arm": None, "baseline": None, "earned": False}


def not_graded(result: Found) -> list[str]:
    """What of such a run has no grade, in sentences."""
    lost = len(result["infra"])
    left = result["issues_planned"] - sum(found["checked"] for found in result["environment"]) - lost
    said = [f"{count(lost, 'reference patch was', 'reference patches were')} not graded, because the machine failed."] if lost else []
    return said + ([f"{count(left, 'reference patch is', 'reference patches are')} still to be graded."] if left else [])


def evidence(result: Found) -> list[dict[str, str]]:
    """Each issue that its reference patch does not resolve: {issue, outcome, attempt, where}. ``where`` is the path below the run folder of what the tests
    printed, or of the folder with what there is where no test ran."""
    runs = {issue["issue"]: runs[0] for issue in result["issues"] for runs in issue["arms"].values() if runs}
    found = []
    for entry in (entry for checks in result["environment"] for entry in checks["failing"]):
        issue, outcome = entry["issue"], entry["outcome"]
        place = f"gold/{runs[issue]['stream']}"
        tested = outcome in ("unresolved", "timed_out")
        where = f"{place}/logs/{issue}" + ("/test_output.txt" if tested else "")
        found.append({"issue": issue, "outcome": outcome, "attempt": f"{place}/{issue}", "where": where})
    return found


def leaving_out(issues: Sequence[str]) -> str:
    """The flag of ``run`` that leaves these issues out; "" for too many."""
    if len(issues) > MOST_NAMES:
        return ""
    names = "|".join(re.escape(issue).replace(r"\-", "-") for issue in issues)
    return f"--filter {shlex.quote(f'(?!({names})$)')}"
