"""A verdict by a language model, for where there are no tests: a typed prediction with a probability, or "unknown"."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from swe_memory.claude import Claude, Failure
from swe_memory.extract.digest import DEFAULT_BUDGET, digest
from swe_memory.extract.outgoing import outgoing, public
from swe_memory.records import Attempt, Issue, Trajectory, Verdict

ISSUE, PATCH = 20_000, 30_000
"""Characters of the issue and of the patch that the model sees."""
REASON = 1_000
"""Characters of the model's reason that are kept."""


class Ruling(BaseModel):
    """The answer. ``reason`` comes first, so that it is written before the verdict that must follow from it."""

    reason: str = Field(description="What decides the case, and the strongest point against the verdict, in one to four sentences.")
    verdict: Literal["resolved", "unresolved", "unknown"]
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False, description="The probability, from 0 to 1, that the verdict is right.")


class LLMJudge:
    """Judges by asking ``claude``, the attempt digested to about ``digest_tokens`` tokens. What it used is in ``claude.usage``.

    It is given the issue, the attempt's digest and the final patch, and has no way to grading data: an Issue and a Trajectory hold none.
    """

    name = "llm@1"

    def __init__(self, claude: Claude, *, digest_tokens: int = DEFAULT_BUDGET) -> None:
        self._claude = claude
        self._digest_tokens = digest_tokens

    def judge(self, issue: Issue, trajectory: Trajectory) -> Verdict:
        """The model's verdict; unknown, with the reason, where it answers but not usably. Raises ModelError where it cannot be asked.

        An outage is an error and not an "unknown", so that nobody keeps it as the verdict.
        """
        import prompts

        prompt = prompts.load("judge")
        attempt = outgoing(Attempt(issue, trajectory, Verdict.unknown()))
        system, user = prompt.messages(
            repo=attempt.issue.repo,
            issue=attempt.issue.text,
            attempt=digest(attempt, self._digest_tokens),
            patch=_change(attempt.trajectory.patch),
            issue_limit=ISSUE,
            patch_limit=PATCH,
            limit=4 * self._digest_tokens,
        )
        answer = self._claude.ask(system, user, Ruling)
        model = self._claude.model
        if isinstance(answer, Failure):
            reason = f"the model's answer could not be used ({answer.kind}): {answer.reason}"
            return Verdict("unknown", "llm", public(reason)[:REASON], None, model, prompt.ref)
        ruling = answer.value
        confidence = None if ruling.verdict == "unknown" else ruling.confidence
        return Verdict(ruling.verdict, "llm", public(ruling.reason)[:REASON], confidence, model, prompt.ref)


def _change(patch: str | None) -> str:
    if patch is None:
        return "(the record does not hold the change)"
    return patch if patch.strip() else "(no change was handed in)"
