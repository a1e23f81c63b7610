"""What every text passes on its way into the bank: secrets out, escapes out, bounded, checked for orders, turned into vectors.

Learning, editing and importing all come through here, so none of them can forget a step (DESIGN rule 7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from swe_memory.errors import UsageError
from swe_memory.records import Experience, Issue, MemoryItem
from swe_memory.store import NewExperience, NewItem
from swe_memory.store.workspace import Vectors

if TYPE_CHECKING:
    import numpy as np

# An issue is stored up to this many characters (the longest of the 500 Verified issues has far fewer). Its hash covers the whole text.
MAX_ISSUE_CHARS = 60_000
MAX_NAME_CHARS = 300
# The longest title, description and content that are stored, whoever wrote them; validation of drafts is stricter.
MAX_TITLE, MAX_DESCRIPTION, MAX_CONTENT = 120, 600, 2_000


# A text is cut before it is scanned for secrets, so that one of 1 MB costs no more than one of the limit. So much of it is scanned beyond the limit, and
# dropped afterwards: what the cut may have left of a secret, and so made unrecognisable, lies in there. (The longest secrets, tokens that are signed
# documents, have some 2,000 characters; a cut private key is still known as one.)
_MARGIN = 4_000


def tidy(text: str, limit: int) -> str:
    """Redacted, free of escapes and invisible characters, at most ``limit`` characters (the end is marked where something was cut)."""
    text, cut = _public(text, limit)
    return text if not cut and len(text) <= limit else text[: limit - 2].rstrip() + " …"


def name(text: str) -> str:
    """A name (id, repository, commit, path, model): redacted, one line, no control characters, bounded."""
    return " ".join(_public(text, MAX_NAME_CHARS)[0].split())[:MAX_NAME_CHARS]


def _public(text: str, limit: int) -> tuple[str, bool]:
    """The text cleaned and redacted, whole or the beginning of it (True): what is past ``limit`` characters is of no use then."""
    from swe_memory.safety import clean, redact

    # Clean first, and all of it: a key with an invisible character in it is no key yet, and a thousand of them would use up the margin.
    text = clean(text)
    if len(text) <= limit + _MARGIN:
        return redact(text)[0], False
    return redact(text[: limit + _MARGIN])[0][:-_MARGIN], True


def utc(time: datetime | None) -> datetime | None:
    """The time in UTC; one without a zone is taken for UTC, so that it means the same on every machine.

    Raises:
        UsageError: it lies before the year 1 or after the year 9999 there.
    """
    if time is None:
        return None
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"the time {time.isoformat()} is out of range in UTC", "Give a time between the years 1 and 9999.") from None


def tidy_issue(issue: Issue) -> Issue:
    """The issue as it is stored.

    Raises:
        UsageError: it has no id, without which rule 1 (never recall an issue's own memory) could not hold, or was created out of all time.
    """
    if not issue.id.strip():
        raise UsageError("cannot learn from an issue without an id", "Give Issue(id=...): any name that is unique within the repository.")
    return replace(
        issue,
        id=name(issue.id),
        repo=name(issue.repo),
        base_commit=name(issue.base_commit),
        text=tidy(issue.text, MAX_ISSUE_CHARS),
        created_at=utc(issue.created_at),
    )


def tidy_item(item: MemoryItem) -> MemoryItem:
    """The item as it is stored; one that gives orders, or is empty, comes back quarantined with the reason in ``note``."""
    from swe_memory.safety import hostile

    # Judged as it came, too: orders in invisible characters are gone after cleaning, but whoever hid them is not to be trusted with the rest.
    raw = item.text[: 2 * (MAX_TITLE + MAX_DESCRIPTION + MAX_CONTENT)]
    item = replace(
        item,
        title=" ".join(tidy(item.title, MAX_TITLE).split()),
        description=tidy(item.description, MAX_DESCRIPTION),
        content=tidy(item.content, MAX_CONTENT),
        kind=name(item.kind),
        repo=name(item.repo),
    )
    reason = (hostile(raw) or hostile(item.text)) if item.text.strip() else "empty"
    return replace(item, status="quarantined", note=reason) if reason else item


def item_id(attempt: str, outcome: str, verdict_source: str, extractor: str, title: str, content: str) -> str:
    """16 hex digits that follow from what the item says and where it comes from: the same lesson has the same id in every bank."""
    joined = "\x1f".join((attempt, outcome, verdict_source, extractor, title, content))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Ready:
    """A cleaned experience and its items, before embedding."""

    experience: Experience
    text_hash: str
    items: tuple[MemoryItem, ...] = ()


def where(experience: Experience) -> str:
    """The terms that an experience is found by besides its text."""
    from swe_memory.ranking import where_terms

    return where_terms(experience.paths, experience.symbols)


def text_hash(text: str) -> str:
    """The normalised hash of a whole issue text, "" for an empty one (which equals nothing)."""
    from swe_memory.ranking import text_hash as hashed

    return hashed(text) if text.strip() else ""


def joined(title: np.ndarray, text: np.ndarray) -> np.ndarray:
    """Two unit vectors side by side, divided by sqrt 2: the cosine of two such vectors is the mean of the two cosines."""
    import numpy as np

    both: np.ndarray = np.concatenate([title, text]) / np.sqrt(2.0)
    return both.astype(np.float32)


def query_vector(issue: Issue, embedder: Vectors) -> np.ndarray:
    """The vector of an issue that is asked about: (2 x dimension,) float32."""
    from swe_memory.ranking import issue_views

    views = issue_views(issue)
    title, text = embedder.queries([views.title, views.text])
    return joined(title, text)


def embed(ready: Sequence[Ready], embedder: Vectors | None) -> tuple[NewExperience, ...]:
    """Add vectors, asking the embedder once for all distinct texts. Without an embedder, or for an empty text, there are none."""
    views: list[tuple[str, str] | None] = []
    for one in ready:
        if embedder is None or not one.experience.issue.text.strip():
            views.append(None)
        else:
            from swe_memory.ranking import issue_views

            both = issue_views(one.experience.issue)
            views.append((both.title, both.text))
    texts = sorted({text for pair in views if pair for text in pair} | {i.text for one in ready for i in one.items if embedder and i.text})
    vectors = dict(zip(texts, embedder.documents(texts), strict=True)) if embedder and texts else {}
    return tuple(
        NewExperience(
            one.experience,
            one.text_hash,
            where(one.experience),
            joined(vectors[pair[0]], vectors[pair[1]]) if pair else None,
            tuple(NewItem(item, vectors.get(item.text)) for item in one.items),
        )
        for one, pair in zip(ready, views, strict=True)
    )
