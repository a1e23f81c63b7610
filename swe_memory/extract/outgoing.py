"""What may leave this machine of an attempt: a copy without secrets, terminal escapes and invisible characters."""

from __future__ import annotations

from dataclasses import replace

from swe_memory.records import Action, Attempt, Step
from swe_memory.safety import clean, redact


def public(text: str) -> str:
    """The text as it may be sent or shown. Cleaned first: a key with an invisible character in it is no key yet."""
    return redact(clean(text))[0]


def redacted(attempt: Attempt) -> Attempt:
    """The attempt with every text made public.

    To be done before the attempt is digested or quoted from: a secret that was cut in half there is not recognised any more. Not for checking drafts, which
    must be compared with the attempt as it was, nor for its key.
    """
    issue, trajectory, verdict = attempt.issue, attempt.trajectory, attempt.verdict
    return replace(
        attempt,
        issue=replace(issue, id=public(issue.id), repo=public(issue.repo), text=public(issue.text), base_commit=public(issue.base_commit)),
        trajectory=replace(
            trajectory,
            steps=tuple(
                Step(
                    public(step.thought),
                    tuple(Action(public(action.command), public(action.output), action.returncode) for action in step.actions),
                    public(step.feedback),
                )
                for step in trajectory.steps
            ),
            patch=None if trajectory.patch is None else public(trajectory.patch),
            issue_id=public(trajectory.issue_id),
            task=public(trajectory.task),
            exit_status=public(trajectory.exit_status),
            model=public(trajectory.model),
            agent=public(trajectory.agent),
        ),
        verdict=replace(verdict, reason=public(verdict.reason)),
        source=public(attempt.source),
    )


def outgoing(attempt: Attempt) -> Attempt:
    """The :func:`redacted` attempt without the verdict's reason: that of a test verdict may name the tests."""
    return redacted(replace(attempt, verdict=replace(attempt.verdict, reason="")))
