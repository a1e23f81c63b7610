"""What may leave this machine of an attempt: a copy without secrets, terminal escapes and invisible characters."""

from __future__ import annotations

from dataclasses import replace

from swe_memory.records import Action, Attempt, Step
from swe_memory.safety import clean, redact


def public(text: str) -> str:
    """The text as it may be sent or shown. Cleaned first: a key with an invisible character in it is no key yet."""
    return redact(clean(text))[0]


def outgoing(attempt: Attempt) -> Attempt:
    """The attempt with every text made public, and without the verdict's reason: that of a test verdict may name the tests.

    To be done before the attempt is digested: a secret that was cut in half there is not recognised any more. Not for checking drafts, which must be
    compared with the attempt as it was.
    """
    issue, trajectory = attempt.issue, attempt.trajectory
    return Attempt(
        replace(issue, id=public(issue.id), repo=public(issue.repo), text=public(issue.text)),
        replace(
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
            task=public(trajectory.task),
            exit_status=public(trajectory.exit_status),
        ),
        replace(attempt.verdict, reason=""),
    )
