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
    """An attempt that did not submit (no sample): how it ended and what it had spent its calls on."""
    status = material.attempt.trajectory.exit_status.strip().lower()
    words = _ENDINGS.get(status, "")
    if not words:
        return []
    found = material.found
    looking = found.count("list", "search", "read")
    first = found.first_edit
    when = f"the first change of source came at call {first + 1}" if first is not None else "no source was changed"
    return [
        material.draft(
            f"An attempt {words}",
            f"The attempt {words} before it submitted anything final.",
            f"Of {plural(len(found.trajectory.steps), 'call')}, {plural(looking, 'command')} only looked around, and {when}. "
            "Make a first small change early, check it, and submit while there is room to do so.",
            "limits",
            "general",
        )
    ]


__all__ = ["RulesExtractor", "tests"]
