"""Items by a language model: the cause first, then at most three lessons, checked like anybody's.

Follows ReasoningBank (arXiv 2509.25140, section 3.2): what worked is taken from successes, what to guard against from failures, and, where there are several
attempts at one issue, what made the difference (section 3.3, self-contrast). New here: two reaches, and answers that are typed and checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field

from swe_memory.claude import Claude, Failure
from swe_memory.extract.digest import DEFAULT_BUDGET, digest
from swe_memory.extract.outgoing import outgoing, public
from swe_memory.extract.validate import MAX_SHOWN, clean_drafts, first_drafts, validate
from swe_memory.records import Attempt, Extraction, ItemDraft, Polarity, Rejection
from swe_memory.safety import clean


class Lesson(BaseModel):
    """One item as the model writes it. Its texts are not bounded here: a draft that is too long or empty is refused alone, not with its neighbours."""

    reach: Literal["general", "repository"]
    title: str
    description: str
    content: str
    kind: str


class Lessons(BaseModel):
    """The whole answer. ``analysis`` comes first, so that it is written before the lessons that must follow from it."""

    analysis: str = Field(description="Why the attempt ended as it did, in two to six sentences.")
    items: list[Lesson] = Field(description="At most three lessons, the most useful first; empty where there is nothing worth keeping.")


class LLMExtractor:
    """Distils attempts by asking ``claude``, each digested to about ``digest_tokens`` tokens (see extract.digest).

    What is sent is the issue, the digest, the repository's name and the outcome. The verdict's reason is never sent: that of a test verdict may name tests.
    """

    name = "llm@1"

    def __init__(self, claude: Claude, *, digest_tokens: int = DEFAULT_BUDGET) -> None:
        self._claude = claude
        self._digest_tokens = digest_tokens

    def extract(self, attempt: Attempt) -> Extraction:
        """At most three drafts from one attempt. An unknown outcome teaches nothing and costs no call.

        An answer that cannot be used gives no draft and one rejection with the reason. Raises ModelError where the model cannot be asked.
        """
        outcome = attempt.verdict.outcome
        if outcome == "unknown":
            return Extraction(model=self._claude.model, reason="its outcome is unknown")
        shown = {"attempt": self._shown(attempt, 1)}
        if outcome == "resolved":
            return self._ask("extract_success", "success", (attempt,), shown)
        return self._ask("extract_failure", "failure", (attempt,), shown)

    def extract_contrast(self, attempts: Sequence[Attempt]) -> Extraction:
        """At most three drafts from what made the difference between attempts at one issue; they share one digest budget.

        Attempts of unknown outcome are left out. Raises ValueError where the attempts are of several issues or do not differ in outcome.
        """
        known = [attempt for attempt in attempts if attempt.verdict.outcome != "unknown"]
        if len({(attempt.issue.repo, attempt.issue.id) for attempt in known}) != 1:
            raise ValueError("a contrast needs attempts at one and the same issue")
        if len({attempt.verdict.outcome for attempt in known}) != 2:
            raise ValueError("a contrast needs attempts that resolved the issue and attempts that did not")
        shown = [(attempt.verdict.outcome, self._shown(attempt, len(known))) for attempt in known]
        return self._ask("extract_contrast", "contrast", known, {"attempts": shown})

    def _shown(self, attempt: Attempt, share: int) -> str:
        return digest(outgoing(attempt), self._digest_tokens // share)

    def _ask(self, prompt_id: str, polarity: Polarity, attempts: Sequence[Attempt], shown: Mapping[str, object]) -> Extraction:
        import prompts

        prompt = prompts.load(prompt_id)
        # The digest keeps to its budget, at no more than 3 characters a token: this bound only holds if that breaks.
        system, user = prompt.messages(repo=public(attempts[0].issue.repo), limit=4 * self._digest_tokens, **shown)
        answer = self._claude.ask(system, user, Lessons)
        model = self._claude.model
        if isinstance(answer, Failure):
            rejection = Rejection(
                f"The model's answer could not be used ({answer.kind}): {public(answer.reason)}", public(answer.raw)[:MAX_SHOWN]
            )
            return Extraction((), (rejection,), answer.usage, model, prompt.ref, usable=False)
        drafts, rejected = _check([_draft(lesson, polarity) for lesson in answer.value.items], attempts)
        reason = "" if answer.value.items else "the model found nothing in it that is worth keeping"
        return Extraction(drafts, rejected, answer.usage, model, prompt.ref, reason=reason)


def _draft(lesson: Lesson, polarity: Polarity) -> ItemDraft:
    title, description, content = (" ".join(clean(text).split()) for text in (lesson.title, lesson.description, lesson.content))
    # A kind is a label for people; "Error handling" is as good as "error-handling", and no reason to lose a lesson.
    kind = re.sub(r"[^a-z]+", "-", lesson.kind.lower()).strip("-")[:24].strip("-")
    return ItemDraft(title, description, content, kind if len(kind) > 1 else "strategy", polarity, lesson.reach)


def _check(drafts: Sequence[ItemDraft], attempts: Sequence[Attempt]) -> tuple[tuple[ItemDraft, ...], tuple[Rejection, ...]]:
    """The checks that every draft goes through, against each attempt that it was made from."""
    looked_at, left_out = first_drafts(drafts)
    fine, rejected = [], []
    for draft in looked_at:
        reasons = [reason for attempt in attempts[1:] for reason in validate(draft, attempt)]
        if reasons:
            text = f"{draft.title}\n{draft.description}\n{draft.content}"
            rejected.append(Rejection(" ".join(dict.fromkeys(reasons)), text[:MAX_SHOWN]))
        else:
            fine.append(draft)
    accepted, more = clean_drafts(fine, attempts[0])
    return accepted, (*rejected, *more, *left_out)
