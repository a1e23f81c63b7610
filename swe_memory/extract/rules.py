"""Distilling without a language model: what an attempt shows by its commands, outputs and patch, and what its agent said about it.

From a pass: why the fault was there and what fixed it, what changed together, the kind of fix, how the tests are run. From a failure: what was
tried and did not hold, and the sign by which one could have known. All attempts that these rules were written against ended in ``Submitted``;
what is said about other endings (limits, a full context, errors) is plain reasoning without a sample.
"""

from __future__ import annotations

from ..records import Attempt, Extraction, ItemDraft
from .material import Material, plural
from .rules_failure import failure_drafts
from .rules_success import success_drafts, tests
from .validate import clean_drafts

_ENDINGS = {
    "limitsexceeded": "ran out of its call or cost limit",
    "contextwindowexceeded": "filled its context window",
    "timeexceeded": "ran out of time",
    "exit_cost": "ran out of its cost limit",
    "exit_context": "filled its context window",
    "exit_format": "gave up after answers in the wrong form",
    "exit_error": "ended in an error",
    "formaterror": "gave up after answers in the wrong form",
}
"""Other endings than ``Submitted``, lower case: no sample of them was there when this was written."""


class RulesExtractor:
    """Items by rules, in a few milliseconds an attempt. Needs no key and gives the same drafts each time."""

    name = "rules@1"

    def extract(self, attempt: Attempt) -> Extraction:
        """At most three valid drafts; an unknown outcome gives none. Never raises for an odd attempt: it only finds less in it."""
        if attempt.verdict.outcome == "unknown" or not attempt.trajectory.steps:
            return Extraction()
        material = Material(attempt)
        drafts = success_drafts(material) if attempt.verdict.outcome == "resolved" else [*_ending(material), *failure_drafts(material)]
        accepted, rejected = clean_drafts(drafts, attempt)
        return Extraction(accepted, rejected)


def _ending(material: Material) -> list[ItemDraft]:
    """An attempt that had changed source and did not get to submit (no sample): how it ended and when its first change came."""
    status = material.attempt.trajectory.exit_status.strip().lower()
    found = material.found
    if status not in _ENDINGS or not found.sources or found.first_edit is None:
        return []
    calls = plural(len(found.trajectory.steps), "call")
    return [
        material.draft(
            f"An attempt {_ENDINGS[status]}",
            f"The attempt {_ENDINGS[status]} before it submitted.",
            f"The first change of source came at call {found.first_edit + 1} of {calls}, and {plural(len(found.edits), 'edit')} and "
            f"{plural(len(found.checks), 'check')} followed. Submit a version that passes its checks as soon as there is one, and improve it after that.",
            "limits",
            "general",
        )
    ]


__all__ = ["RulesExtractor", "tests"]
