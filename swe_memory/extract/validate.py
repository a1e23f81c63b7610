"""What an item may look like, whoever wrote it: limits, no copies, no names where there must be none.

Both extractors pass their drafts through here. Each reason is a sentence that can be shown to a user or given back to a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from ..patches import patch_lines
from ..records import Attempt, ItemDraft, Rejection
from .names import code_words, foreign_words, repository_words

MAX_ITEMS = 3
MAX_TITLE = 80
MAX_DESCRIPTION = 300
MAX_CONTENT = 900
MAX_SENTENCES = 3
MAX_DRAFTS = 20
"""Drafts of one attempt that are looked at."""
MAX_SHOWN = 2_000
"""Characters of a refused draft that are kept with the reason."""
PATCH_LINE = 40
"""A line of the patch of at least this many characters may not occur in an item at all; a shorter one may not stand alone in code quotes."""
SHINGLE = 8
"""An item may share at most this many minus one words in a row with the issue."""
MAX_ISSUE_SHARE = 0.6

_URL = re.compile(r"https?://|www\.", re.IGNORECASE)
_INSTANCE = re.compile(r"\b[\w.-]{1,60}__[\w.-]{1,60}-\d+\b")
_NUMBER = re.compile(r"(?<![\w&])#\d{2,}\b|\b(?:issues?|tickets?|bugs?|pull requests?|PRs?|gh-?)[ _-]?#?\d{2,}\b", re.IGNORECASE)
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|no)\.$", re.IGNORECASE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Material:
    """What items of one attempt are compared with, made once."""

    long_lines: tuple[str, ...]
    short_lines: frozenset[str]
    issue_shingles: frozenset[tuple[str, ...]]
    issue_trigrams: frozenset[tuple[str, ...]]
    names: frozenset[str]


def sentences(text: str) -> list[str]:
    """The sentences of a text. A full stop inside code quotes, a number, a path or an abbreviation ends none."""
    hidden = re.sub(r"`[^`]*`", lambda m: "`" + "_" * (len(m[0]) - 2) + "`", text)
    found: list[str] = []
    start = 0
    for match in re.finditer(r"[.!?]+[\"')\]]*(?=\s+[^a-z\s]|\s*$)", hidden):
        if _ABBREVIATION.search(hidden[start : match.end()]):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    rest = text[start:].strip()
    return [s for s in (*found, rest) if s]


def squeeze(text: str) -> str:
    """White space runs as one blank, none at the ends: how lines of code are compared."""
    return " ".join(text.split())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


@lru_cache(maxsize=8)
def _material_of(issue_text: str, patch: str, names: frozenset[str]) -> _Material:
    lines = {squeeze(line) for line in patch_lines(patch)}
    words = _words(issue_text[:200_000])
    return _Material(
        tuple(sorted(line for line in lines if len(line) >= PATCH_LINE)),
        frozenset(line for line in lines if 8 <= len(line) < PATCH_LINE and re.search(r"[=(\[.:]", line)),
        frozenset(_grams(words, SHINGLE)),
        frozenset(_grams(words, 3)),
        names,
    )


def _material(attempt: Attempt) -> _Material:
    return _material_of(attempt.issue.text, attempt.trajectory.patch or "", repository_words(attempt))


def validate(draft: ItemDraft, attempt: Attempt) -> tuple[str, ...]:
    """Why a draft is refused, as sentences; () when it may be stored. Of one that is too long nothing else is said: it is not read."""
    if too_long := _too_long(draft):
        return tuple(too_long)
    material = _material(attempt)
    reasons: list[str] = []
    whole = f"{draft.title}\n{draft.description}\n{draft.content}"
    reasons += _form(draft)
    reasons += _copies(whole, attempt, material)
    if draft.reach == "general":
        names = [*code_words(whole), *foreign_words(whole, material.names)]
        if names:
            reasons.append(f"A general item may not hold names from the repository: {', '.join(dict.fromkeys(names[:5]))}.")
    return tuple(reasons)


def _too_long(draft: ItemDraft) -> list[str]:
    parts = (
        ("title", draft.title, MAX_TITLE),
        ("description", draft.description, MAX_DESCRIPTION),
        ("content", draft.content, MAX_CONTENT),
    )
    return [f"The {name} has {len(text)} characters; {limit} are allowed." for name, text, limit in parts if len(text) > limit]


def _form(draft: ItemDraft) -> list[str]:
    parts = (("title", draft.title), ("description", draft.description), ("content", draft.content))
    reasons = [f"The {name} is empty." for name, text in parts if not text.strip()]
    if "\n" in draft.title.strip():
        reasons.append("The title has more than one line.")
    if len(sentences(draft.description)) > 1:
        reasons.append("The description has more than one sentence.")
    if len(sentences(draft.content)) > MAX_SENTENCES:
        reasons.append(f"The content has {len(sentences(draft.content))} sentences; {MAX_SENTENCES} are allowed.")
    if len(_words(draft.content)) < 4 and draft.content.strip():
        reasons.append("The content is too short to say anything.")
    if draft.reach not in ("repository", "general"):
        reasons.append(f"The reach is {draft.reach!r}; it must be repository or general.")
    if draft.polarity not in ("success", "failure", "contrast"):
        reasons.append(f"The polarity is {draft.polarity!r}; it must be success, failure or contrast.")
    if not re.fullmatch(r"[a-z][a-z-]{1,30}", draft.kind):
        reasons.append("The kind must be one short lower-case word.")
    return reasons


def _copies(whole: str, attempt: Attempt, material: _Material) -> list[str]:
    reasons = []
    flat = squeeze(whole)
    if any(line in flat for line in material.long_lines):
        reasons.append("It holds a line of the attempt's patch.")
    quoted = {squeeze(code) for code in re.findall(r"`([^`]+)`", whole)} | {squeeze(line) for line in whole.splitlines()}
    if quoted & material.short_lines:
        reasons.append("It quotes a line of the attempt's patch.")
    if _INSTANCE.search(whole) or (attempt.issue.id and re.search(rf"(?<![\w-]){re.escape(attempt.issue.id)}(?![\w-])", whole)):
        reasons.append("It names an instance or issue id.")
    if _NUMBER.search(whole):
        reasons.append("It names an issue, ticket or pull request by its number.")
    if _URL.search(whole):
        reasons.append("It holds a web address.")
    words = _words(whole)
    if _grams(words, SHINGLE) & material.issue_shingles:
        reasons.append(f"It copies {SHINGLE} or more words in a row from the issue.")
    else:
        trigrams = _grams(words, 3)
        if len(trigrams) >= 10 and len(trigrams & material.issue_trigrams) > MAX_ISSUE_SHARE * len(trigrams):
            reasons.append("Most of it is copied from the issue.")
    return reasons


def first_drafts(drafts: Iterable[ItemDraft]) -> tuple[list[ItemDraft], list[Rejection]]:
    """The first 20 drafts, which are all that is looked at, and one rejection for the others together."""
    found = list(drafts)
    more = found[MAX_DRAFTS:]
    reason = f"{len(found)} drafts were made of one attempt; those after the first {MAX_DRAFTS} were not looked at."
    return found[:MAX_DRAFTS], [Rejection(reason, more[0].title[:MAX_TITLE])] if more else []


def clean_drafts(drafts: Iterable[ItemDraft], attempt: Attempt) -> tuple[tuple[ItemDraft, ...], tuple[Rejection, ...]]:
    """The drafts that may be stored (at most 3, blanks trimmed, no two alike) and why the others may not.

    Pure: the order decides which are kept.
    """
    accepted: list[ItemDraft] = []
    rejected: list[Rejection] = []
    looked_at, left_out = first_drafts(drafts)
    seen: set[str] = set()
    for raw in looked_at:
        draft = replace(
            raw, title=squeeze(raw.title), description=squeeze(raw.description), content=squeeze(raw.content), kind=raw.kind.strip().lower()
        )
        text = f"{draft.title}\n{draft.description}\n{draft.content}"
        reasons = validate(draft, attempt)
        if draft.content.lower() in seen:
            reasons = (*reasons, "It says the same as another draft of this attempt.")
        if not reasons and len(accepted) == MAX_ITEMS:
            reasons = (f"There are already {MAX_ITEMS} items from this attempt.",)
        if reasons:
            rejected.append(Rejection(" ".join(reasons), text[:MAX_SHOWN]))
            continue
        seen.add(draft.content.lower())
        accepted.append(draft)
    return tuple(accepted), (*rejected, *left_out)
