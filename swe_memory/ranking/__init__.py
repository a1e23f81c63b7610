"""Candidates in, the one item that fits this issue out, or none, with the reasons.

First the experience: mean of title and text cosine, plus BM25 of the issue over the paths and symbols that the past attempt edited, plus a bonus where
the issue names a place that it edited (:mod:`swe_memory.ranking.settings` has the weights and what each is worth). Then, among all attempts at the best past
issue, the item whose own text is nearest to this issue.

The rest of the package is what is compared (:mod:`swe_memory.ranking.terms`), rule 1 (:mod:`swe_memory.ranking.same`) and what an issue may be given
whatever its score (:mod:`swe_memory.ranking.allowed`). Everything here is pure: no clock, no randomness, ties broken by content.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from swe_memory.ranking.allowed import allowed, may_use
from swe_memory.ranking.same import same_id, same_issue
from swe_memory.ranking.settings import NAMED_FILE, NAMED_PATH, TEXT_HALF, RankingSettings
from swe_memory.ranking.terms import (
    IssueViews,
    Named,
    issue_views,
    named_places,
    normalise,
    query_terms,
    text_hash,
    where_terms,
)
from swe_memory.records import Candidate, Experience, Issue, MemoryItem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

__all__ = [
    "IssueViews",
    "Ranked",
    "RankingSettings",
    "ScoredHit",
    "allowed",
    "find",
    "issue_views",
    "normalise",
    "query_terms",
    "rank",
    "same_issue",
    "score",
    "text_hash",
    "where_terms",
]

# From this cosine on two issues are called alike. Measured on pairs of Verified issues: median .18 across repositories, .45 where both edited one file.
ALIKE = 0.25
# Items are read for this many experiences at a time, best first: nearly always the first has one.
_PAGE = 10
_SHOWN = 10
# A search is asked for the best 20 by each score first. On 303 real issues the first answer was always among them, provably in 98 %: see `_unseen`.
FIRST_LIMIT = 20
LAST_LIMIT = 640


class ScoredHit(Protocol):
    """What a search found: an experience and its scores (see swe_memory.store.Hit)."""

    @property
    def experience(self) -> Experience: ...
    @property
    def cosine(self) -> float | None: ...
    @property
    def path_score(self) -> float: ...
    @property
    def text_score(self) -> float: ...
    @property
    def removed(self) -> str: ...


ItemsOf = Callable[[Sequence[str]], Sequence[tuple[MemoryItem, "Vector | None"]]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """``items`` best first, () for none; ``score`` is that of the first item's experience, 0 for none; ``candidates`` in order of their score, the removed
    ones among them. ``more_may_help``: an experience beyond the search's limit could score higher than what was chosen.
    """

    items: tuple[MemoryItem, ...]
    score: float
    candidates: tuple[Candidate, ...]
    reasons: tuple[str, ...]
    more_may_help: bool = False


@dataclass(slots=True)
class _Judged:
    """A hit with its score, the edited path that the issue names, and what removed it."""

    hit: ScoredHit
    score: float
    named: str
    removed: str


def score(issue: Issue, hit: ScoredHit, settings: RankingSettings, named: Named | None = None) -> tuple[float, str]:
    """The score of one hit, and the edited path that the issue names ("" if none).

    Without an embedder the text score stands in for the cosine. Paths count only within the issue's own repository.
    """
    text = _text_part(hit)
    if hit.experience.issue.repo != issue.repo or not settings.path_weight:
        return text, ""
    bonus, path = max(
        ((_named_bonus(path, named or named_places(issue.text)), path) for path in hit.experience.paths),
        key=lambda found: found[0],
        default=(0.0, ""),
    )
    return text + settings.path_weight * hit.path_score + bonus, path if bonus else ""


def rank(
    issue: Issue,
    hits: Sequence[ScoredHit],
    items_of: ItemsOf,
    settings: RankingSettings,
    *,
    vector: Vector | None = None,
    limit: int = 0,
    explain: bool = True,
) -> Ranked:
    """Pick the item (or the ``k`` items) that fits this issue.

    ``hits`` are what a search found, with exact scores; ``items_of(keys)`` gives the items of experiences and their vectors; ``vector`` holds the
    issue's title and text unit vectors side by side, divided by sqrt 2 (None without an embedder); ``limit`` is what each list of the search was cut at
    (0: not at all). Rule 1 is applied here too, by id, by equal text and by similar text, whatever the search has removed already. Without ``explain``
    nothing is read for candidates that cannot be chosen any more, so they lack their best item; the choice is the same.
    """
    judged = _judge(issue, hits, settings)
    asked = frozenset(query_terms(issue).split())
    checked: dict[tuple[str, str], str] = {}
    groups: dict[tuple[str, ...], list[tuple[MemoryItem, float]]] = {}  # by past issue (or experience, the paper's grain), best first
    best_item: dict[str, MemoryItem] = {}
    near_enough = [one for one in judged if not one.removed and one.score >= settings.threshold]
    for turn in _turns(near_enough, groups, settings, explain):
        page: dict[str, _Judged] = {}
        for one in turn:
            # Comparing whole texts costs a millisecond each, so only those that are about to be used are.
            past = one.hit.experience.issue
            if (past.id, past.text) not in checked:
                checked[past.id, past.text] = same_issue(issue, past)
            one.removed = checked[past.id, past.text]
            if not one.removed:
                page[one.hit.experience.key] = one
        found: dict[str, list[tuple[MemoryItem, float]]] = {}
        for item, own in items_of(list(page)) if page else ():
            if item.provenance.attempt in page and may_use(item, issue, settings):
                found.setdefault(item.provenance.attempt, []).append((item, _nearness(item, own, vector, asked)))
        for key, one in page.items():
            if key in found:
                found[key].sort(key=_item_order)
                best_item[key] = found[key][0][0]
                groups.setdefault(_group(one, settings), []).extend(found[key])
    found_in = list(groups.values())
    chosen = [pair for group in found_in[: settings.k] for pair in group] if settings.grain == "experience" else _deal(found_in, settings.k)
    candidates = tuple(_candidate(one, best_item.get(one.hit.experience.key)) for one in judged)
    # The least that what has not been seen would have to score to matter: more than the last one taken, or the threshold where fewer than k were found.
    scores = {one.hit.experience.key: one.score for one in judged}
    last = [max(scores[item.provenance.attempt] for item, _ in group) for group in found_in[: settings.k]]
    needed = min(last) if len(last) == settings.k else settings.threshold
    more_may_help = _unseen(issue, hits, limit, settings) > needed
    if not chosen:
        return Ranked((), 0.0, candidates, _why_none(judged, settings), more_may_help)
    first = next(one for one in judged if one.hit.experience.key == chosen[0][0].provenance.attempt)
    items = tuple(item for item, _ in chosen)
    return Ranked(items, first.score, candidates, _why(issue, first, chosen[0], found_in[0]), more_may_help)


def find(
    issue: Issue,
    search: Callable[[int], Sequence[ScoredHit]],
    items_of: ItemsOf,
    settings: RankingSettings,
    *,
    vector: Vector | None = None,
    explain: bool = True,
) -> Ranked:
    """:func:`rank` over ``search(limit)``, searching deeper (20, 40, ... 640 by each score) until nothing beyond the limit could change the choice."""
    limit = FIRST_LIMIT
    while True:
        ranked = rank(issue, search(limit), items_of, settings, vector=vector, limit=limit, explain=explain)
        if not ranked.more_may_help or limit >= LAST_LIMIT:
            return ranked
        limit *= 2


def _group(one: _Judged, settings: RankingSettings) -> tuple[str, ...]:
    past = one.hit.experience
    return (past.key,) if settings.grain == "experience" else (past.issue.repo, past.issue.id)


def _turns(
    near_enough: Sequence[_Judged], groups: Collection[tuple[str, ...]], settings: RankingSettings, explain: bool
) -> Iterator[list[_Judged]]:
    """What is looked at next, until there are ``k`` groups with items: ten at a time, best first. Where one answer is wanted, of these ten one by one until
    one has items, then the other attempts at the same issue. The caller adds to ``groups`` between two turns.
    """
    for start in range(0, len(near_enough), _PAGE):
        page = near_enough[start : start + _PAGE]
        if settings.k > 1 or explain:
            yield list(page)
        else:
            for place, one in enumerate(page):
                yield [one]
                if groups:
                    yield [other for other in page[place + 1 :] if _group(other, settings) in groups]
                    return
        if len(groups) >= settings.k:
            return


def _unseen(issue: Issue, hits: Sequence[ScoredHit], limit: int, settings: RankingSettings) -> float:
    """No experience outside ``hits`` scores more than this: the sum of the limit-th best of each score (the threshold algorithm of Fagin, Lotem and Naor,
    2003). The bonus for named places is left out: their terms are among the query's, so they come first by path anyway.
    """
    free = [hit for hit in hits if not hit.removed]
    text = sorted((_text_part(hit) for hit in free), reverse=True)
    if not limit or len(text) < limit:
        return -math.inf
    path = sorted((hit.path_score for hit in free if hit.experience.issue.repo == issue.repo), reverse=True)
    return text[limit - 1] + settings.path_weight * (path[limit - 1] if len(path) >= limit else 0.0)


def _text_part(hit: ScoredHit) -> float:
    """The cosine; without one, the text score brought to its scale."""
    return hit.cosine if hit.cosine is not None else hit.text_score / (hit.text_score + TEXT_HALF)


def _judge(issue: Issue, hits: Sequence[ScoredHit], settings: RankingSettings) -> list[_Judged]:
    named = named_places(issue.text)
    judged: list[_Judged] = []
    for hit in hits:
        past = hit.experience.issue
        removed = hit.removed
        if not removed and same_id(issue.id, past.id):
            removed = "same issue"
        if not removed and settings.other_repos and past.repo == issue.repo:
            removed = "same repository"
        total, path = score(issue, hit, settings, named)
        judged.append(_Judged(hit, total, path, removed))
    # Equal scores (two attempts at one issue): the surer verdict, then the newer, then the key, so that the order never depends on the search's.
    judged.sort(key=lambda one: (-one.score, -_trust(one.hit.experience), -one.hit.experience.added, one.hit.experience.key))
    return judged


def _trust(experience: Experience) -> float:
    """Tests are taken as certain, a caller's word too; a model or rules by the confidence they give, .5 where they give none."""
    verdict = experience.verdict
    if verdict.source in ("tests", "caller"):
        return 1.0
    return 0.5 if verdict.confidence is None else verdict.confidence


def _named_bonus(path: str, named: Named) -> float:
    parts = path.lower().rsplit(".", 1)[0].split("/")
    if len(parts) > 1 and "/".join(parts[-2:]) in named.pairs:
        return NAMED_PATH
    # Every package has an __init__: its name alone says nothing.
    return NAMED_FILE if parts[-1] in named.files and parts[-1] != "__init__" else 0.0


def _nearness(item: MemoryItem, own: Vector | None, vector: Vector | None, words: frozenset[str]) -> float:
    """Mean cosine of the item's text with the issue's title and text; without vectors the share of the item's words that the issue uses."""
    if own is not None and vector is not None:
        title, text = vector[: len(own)].astype("float64"), vector[len(own) :].astype("float64")
        return float((own.astype("float64") * (title + text)).sum() / math.sqrt(2))
    used = set(normalise(item.text).split())
    return len(used & words) / len(used) if used else 0.0


def _item_order(pair: tuple[MemoryItem, float]) -> tuple[float, bool, str]:
    """Nearest first; of equals, the one that keeps this repository's names."""
    item, near = pair
    return (-near, item.reach != "repository", item.id)


def _deal(groups: Sequence[Sequence[tuple[MemoryItem, float]]], k: int) -> list[tuple[MemoryItem, float]]:
    """One from each past issue before a second from any, so that k items are k lessons. An item that says the same as one chosen already is passed over."""
    groups = [sorted(group, key=_item_order) for group in groups]
    chosen: list[tuple[MemoryItem, float]] = []
    said: set[str] = set()
    for depth in range(max((len(group) for group in groups), default=0)):
        for group in groups:
            if len(chosen) == k:
                return chosen
            if depth < len(group) and (words := normalise(group[depth][0].text)) not in said:
                said.add(words)
                chosen.append(group[depth])
    return chosen


def _candidate(one: _Judged, item: MemoryItem | None) -> Candidate:
    hit, past = one.hit, one.hit.experience
    return Candidate(
        past.key,
        past.issue.id,
        past.issue.repo,
        past.verdict.outcome,
        one.score,
        hit.cosine,
        hit.path_score,
        hit.text_score,
        item.id if item else "",
        item.title if item else "",
        one.removed,
    )


def _why(issue: Issue, first: _Judged, chosen: tuple[MemoryItem, float], rivals: list[tuple[MemoryItem, float]]) -> tuple[str, ...]:
    past, hit = first.hit.experience, first.hit
    where = "same repository" if past.issue.repo == issue.repo else f"another repository ({past.issue.repo}), a lesson without names"
    reasons = [f"{where}: learned from {past.issue.id}, {_quoted(past.issue.title)}"]
    if hit.cosine is not None:
        how = "are alike" if hit.cosine >= ALIKE else "are no more alike than those of unrelated issues"
        reasons.append(f"title and text {how}: cosine {hit.cosine:.2f} (medians: unrelated issues .18, issues about one file .45)")
    elif hit.text_score:
        reasons.append(f"the texts share words: BM25 {hit.text_score:.0f} (no embedder)")
    if first.named:
        reasons.append(f"the issue names {first.named}, which that attempt edited")
    if round(hit.path_score):
        shared = _shared_terms(issue, past)
        what = f", such as {', '.join(shared)}" if shared else ""
        reasons.append(f"the issue uses names of what that attempt edited{what}: BM25 {hit.path_score:.0f}")
    how = {"resolved": "resolved the issue", "unresolved": "did not resolve the issue"}.get(past.verdict.outcome, "ended unknown")
    reasons.append(f"that attempt {how}, says {_source(past)}")
    if len(rivals) > 1:
        reasons.append(f"of {len(rivals)} items learned there, this one is nearest to the issue ({chosen[1]:.2f})")
    return tuple(reasons)


def _why_none(judged: list[_Judged], settings: RankingSettings) -> tuple[str, ...]:
    if not judged:
        return ("the bank holds nothing that could be compared with this issue",)
    free = [one for one in judged if not one.removed]
    if not free:
        return (f"everything near was removed: {_counted(one.removed for one in judged)}",)
    best = free[0]
    if best.score < settings.threshold:
        name = best.hit.experience.issue.id
        return (f"nothing is near enough: the best, {name}, scores {best.score:.2f}, below the threshold {settings.threshold:g}",)
    return ("the past attempts that are near enough left no item that may be used here",)


def _counted(reasons: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return ", ".join(f"{count} by the guard `{reason}`" for reason, count in sorted(counts.items()))


# Words that names are made of and that tell a reader nothing; they count in BM25, which knows how rare they are, but are not shown.
_PLAIN_WORDS = frozenset(
    ["also", "from", "have", "into", "more", "only", "over", "self", "some", "than", "that", "then", "this", "when", "with", "without"]
)


def _shared_terms(issue: Issue, past: Experience) -> list[str]:
    """Up to four names that both have, longest first: long ones say most. The repository's own name is in every path."""
    plain = _PLAIN_WORDS | set(re.split(r"\W+", issue.repo.lower()))
    asked = set(query_terms(issue).split())
    shared = {t for t in where_terms(past.paths, past.symbols).split() if t in asked and "/" not in t and len(t) > 3 and t not in plain}
    return sorted(shared, key=lambda term: (-len(term), term))[:4]


def _source(past: Experience) -> str:
    return {"tests": "the test report", "caller": "whoever ran it", "llm": "a model", "rules": "the rules"}[past.verdict.source]


def _quoted(title: str) -> str:
    return f'"{title if len(title) <= 90 else title[:89] + "…"}"'
