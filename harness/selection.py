"""Which instances of a dataset an experiment is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from harness.statistics.estimates import count
from swe_memory.errors import UsageError

if TYPE_CHECKING:
    from harness.dataset import Dataset


def select(
    dataset: Dataset, *, slice: str = "", pattern: str = "", instances: Sequence[str] = (), repos: Sequence[str] = ()
) -> tuple[str, ...]:
    """The ids that every criterion keeps, in the dataset's order; all of them without a criterion.

    ``instances`` keeps these ids; ``repos`` keeps the issues of these repositories (OWNER/NAME, whatever the case); ``pattern`` keeps the ids whose beginning
    matches the regular expression (``re.match``: ``django__`` is enough, ``.*-1[0-9]$`` looks at the end). ``slice`` comes last and counts what the others
    left: A:B as in Python, from 0, without B itself, either end may be missing or negative. Pattern and slice mean what they mean to mini-SWE-agent.

    Raises UsageError for an id or repository that the dataset does not have, a pattern or slice that is none, and where nothing is left.
    """
    start, stop = _bounds(slice) if slice else (None, None)
    try:
        matches = re.compile(pattern).match
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"--filter {pattern!r} is not a regular expression: {error}", "See the documentation of Python's re module."
        ) from error
    issues = [instance.issue for instance in dataset.instances]
    _check_known("--instance", instances, [issue.id for issue in issues], dataset, "instance")
    _check_known("--repo", repos, [issue.repo for issue in issues], dataset, "repository")
    wanted, owners = set(instances), {repo.lower() for repo in repos}
    steps: list[str] = []

    def told(criterion: str, left: int) -> None:
        steps.append(f"{criterion} leaves {left if left else 'none'}")

    if wanted:
        issues = [issue for issue in issues if issue.id in wanted]
        told("--instance", len(issues))
    if owners:
        issues = [issue for issue in issues if issue.repo.lower() in owners]
        told("--repo " + ", ".join(repos), len(issues))
    if pattern:
        issues = [issue for issue in issues if matches(issue.id)]
        told(f"--filter {pattern}", len(issues))
    if slice:
        issues = issues[start:stop]
        told(f"--slice {slice}", len(issues))
    if not issues:
        culprit = next(number for number, step in enumerate(steps) if step.endswith(" none"))
        raise UsageError(
            f"no instance is left of the {len(dataset)} of {dataset.name}: {', then '.join(steps[: culprit + 1])}",
            "Widen or leave out one of them; an instance must pass all, and --slice counts what the others left.",
        )
    return tuple(issue.id for issue in issues)


def _bounds(text: str) -> tuple[int | None, int | None]:
    parts = re.fullmatch(r"\s*([+-]?[0-9]{1,9})?\s*:\s*([+-]?[0-9]{1,9})?\s*", text)
    if parts is None:
        raise UsageError(f"--slice {text!r} is not A:B", "Write it as 0:50, :50, 50: or -50: (from 0; B itself is not in it).")
    start, stop = (None if end is None else int(end) for end in parts.groups())
    return start, stop


def _check_known(option: str, given: Sequence[str], known: Sequence[str], dataset: Dataset, what: str) -> None:
    """Repositories are compared without case, ids with it: they are names of files and images."""
    fold = str.lower if what == "repository" else str
    there = {fold(name): name for name in known}
    if unknown := list(dict.fromkeys(name for name in given if fold(name) not in there)):
        near = [there[name] for name in dict.fromkeys(m for one in unknown[:3] for m in get_close_matches(fold(one), there, n=2))]
        shown = near or list(there.values())[:3]
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise UsageError(
            f"{dataset.name} has no {what} {', '.join(map(repr, unknown[:5]))}{more} ({option})",
            f"It has {count(len(there), what, 'repositories' if what == 'repository' else 'instances')}, such as {', '.join(shown)}.",
        )
