"""Distilling without a language model: what an attempt shows by its commands, outputs and patch, and what its agent said about it.

From a pass: why the fault was there and what fixed it, what changed together, the kind of fix, how the tests are run. From a failure: what was
tried and did not hold, and the sign by which one could have known. All attempts that these rules were written against ended in ``Submitted``;
what is said about other endings (limits, a full context, errors) is plain reasoning without a sample.
"""

from __future__ import annotations

from ..records import Attempt, Extraction, ItemDraft
from .material import Material, plural
from .rules_failure import failure_drafts
from .rules_failure import plain as plain_failure
from .rules_success import GOOD, shown, success_drafts, tests
from .rules_success import plain as plain_success
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
        if attempt.verdict.outcome == "unknown":
            return Extraction(reason="its outcome is unknown")
        if not attempt.trajectory.steps:
            return Extraction(reason="it has no steps")
        material = Material(attempt)
        passed = attempt.verdict.outcome == "resolved"
        drafts = success_drafts(material) if passed else [*_ending(material), *failure_drafts(material)]
        accepted, rejected = clean_drafts(drafts, attempt)
        if not accepted:
            more, refused = clean_drafts(plain_success(material) if passed else plain_failure(material), attempt)
            accepted, rejected = more, (*rejected, *refused)
        return Extraction(accepted, rejected, reason="" if accepted else _why_nothing(material))


def _why_nothing(material: Material) -> str:
    """Which of the things that items are made of the attempt lacks."""
    patch = material.attempt.trajectory.patch
    if not material.sources:
        if patch is None:
            return "the trajectory does not say what was changed (it has no patch)"
        return "its patch changes no source file" if patch.strip() else "it changed nothing (its patch is empty)"
    if material.causes and material.causes[0].score >= GOOD:
        lacks = ["its agent told a cause, but not in few words what was done about it"]
    elif material.fixes and material.fixes[0].score >= GOOD:
        lacks = ["its agent told a change, but no cause"]
    else:
        lacks = ["no sentence of its agent tells a cause or a change clearly"]
    if material.run is None:
        lacks.append("no run of existing tests was seen")
    if not shown(material):
        lacks.append(f"its change ({plural(material.changed_lines, 'line')} of source) cannot be told in few words")
    elif not material.found.checks:
        lacks.append("no check of its change was seen")
    return f"the rules found nothing in it to make an item of: {'; '.join(lacks)}"


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
