"""Rule 1: whether a past issue is the issue itself, whose own memory is never recalled."""

from __future__ import annotations

from functools import lru_cache

from swe_memory.ranking.terms import SAME_TEXT, jaccard, normalise, shingles
from swe_memory.records import Issue
from swe_memory.safety import clean

# As many characters of an id as are stored.
_MAX_ID = 300

Fingerprint = tuple[str, frozenset[str]]
"""What texts are compared by: the normalised words, and their pieces."""


def same_issue(issue: Issue, past: Issue) -> str:
    """Why ``past`` is the issue itself, "" if it is another: same id, equal text, or shingle Jaccard of .8 or more."""
    if same_id(issue.id, past.id):
        return "same issue"
    return same_text(_fingerprint(issue.text), _fingerprint(past.text)) if issue.text else ""


def same_text(own: Fingerprint, other: Fingerprint) -> str:
    """Why two texts are those of one issue, "" if they are not. A text without a word is nobody's."""
    if not own[0]:
        return ""
    if own[0] == other[0]:
        return "same text"
    return "nearly the same text" if jaccard(own[1], other[1]) >= SAME_TEXT else ""


def same_id(one: str, other: str) -> bool:
    """Whether two ids name one issue: whatever their case, blanks and invisible characters. An empty id names none."""
    return one == other if not one or not other or one == other else _plain(one) == _plain(other)


def fingerprint(text: str) -> Fingerprint:
    """What a text is compared by. Takes a millisecond, and a hundred times the text's memory."""
    return normalise(text), shingles(text)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return " ".join(clean(name).split())[:_MAX_ID].casefold()


_fingerprint = lru_cache(maxsize=32)(fingerprint)
