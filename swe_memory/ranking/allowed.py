"""Which items an issue may be given at all, whatever their scores: rule 1 and the switches, as recall keeps them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from swe_memory.ranking.same import fingerprint, same_id, same_text
from swe_memory.ranking.settings import RankingSettings
from swe_memory.records import Experience, Issue, MemoryItem


def may_use(item: MemoryItem, issue: Issue, settings: RankingSettings) -> bool:
    """What an item itself says about it: active, not the issue's own, and of its repository or without names."""
    if item.status != "active" or same_id(issue.id, item.provenance.issue_id):
        return False
    if item.repo == issue.repo:
        return not settings.other_repos
    return item.reach == "general"


def allowed(
    issues: Sequence[Issue],
    experiences: Iterable[Experience],
    items: Iterable[MemoryItem],
    unguarded: Callable[[Issue], Collection[str]],
    settings: RankingSettings,
) -> dict[str, frozenset[str]]:
    """For each issue, by its id, the ids of the items that a recall for it could give.

    ``unguarded(issue)`` are the keys of the experiences that the store's guards leave it: its own by id and by equal text are not among them, nor what the
    switches forbid. Here nearly equal texts go too, and what an item itself forbids. Each text is taken apart once, so that 460 issues against 250
    experiences take 3 s, not minutes.
    """
    own = [(issue, unguarded(issue), fingerprint(issue.text)) for issue in issues]
    of: dict[str, list[MemoryItem]] = {}
    for item in items:
        of.setdefault(item.provenance.attempt, []).append(item)
    found: dict[str, set[str]] = {issue.id: set() for issue in issues}
    for experience in experiences:
        if experience.key not in of:
            continue
        past = fingerprint(experience.issue.text)
        for issue, free, mark in own:
            if experience.key in free and not same_id(issue.id, experience.issue.id) and not same_text(mark, past):
                found[issue.id].update(item.id for item in of[experience.key] if may_use(item, issue, settings))
    return {issue: frozenset(ids) for issue, ids in found.items()}
