"""Rule 1: whether a past issue is the issue itself, whose own memory is never recalled."""

from __future__ import annotations

from functools import lru_cache

from swe_memory.ranking.terms import SAME_TEXT, jaccard, normalise, shingles
from swe_memory.records import Issue
from swe_memory.safety import clean

# As many characters of an id as are stored.
_MAX_ID = 300


def same_issue(issue: Issue, past: Issue) -> str:
    """Why ``past`` is the issue itself, "" if it is another: same id, equal text, or shingle Jaccard of .8 or more."""
    if same_id(issue.id, past.id):
        return "same issue"
    own, own_pieces = _fingerprint(issue.text)
    if not own:
        return ""
    other, pieces = _fingerprint(past.text)
    if own == other:
        return "same text"
    return "nearly the same text" if jaccard(own_pieces, pieces) >= SAME_TEXT else ""


def same_id(one: str, other: str) -> bool:
    """Whether two ids name one issue: whatever their case, blanks and invisible characters. An empty id names none."""
    return one == other if not one or not other or one == other else _plain(one) == _plain(other)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return " ".join(clean(name).split())[:_MAX_ID].casefold()


@lru_cache(maxsize=32)
def _fingerprint(text: str) -> tuple[str, frozenset[str]]:
    return normalise(text), shingles(text)
