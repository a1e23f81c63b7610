"""What of an issue and of an attempt is compared: the texts that are embedded, the terms that are matched, and when two issues are the same text."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from swe_memory.records import Issue
from swe_memory.safety import clean

# An issue of 1 MB must not cost more than one of a few pages: what matters for finding its like stands at the beginning.
MAX_CHARS = 20_000
# Two texts are compared for being the same over this much of them; beyond it a difference does not make another issue.
MAX_SHINGLED_CHARS = 50_000
SHINGLE = 5
SAME_TEXT = 0.8

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# "Python 3.9.1", "numpy: 1.20.0", "numpy==1.20": lines that only list versions. They make any two issues of one template alike.
# Bounded, and looked for where blanks are single: it would try every part of a long run else.
_VERSION = re.compile(
    r"^[ \t>*\-]*[\w.\- ()\[\]]{1,40}? ?(?:[:=]{1,2} ?| )v?\d{1,9}(?:\.\d{1,9}){1,6}\S{0,60} ?(?:\([^)\n]{0,80}\))? ?$", re.MULTILINE
)
_BLANKS = re.compile(r"[ \t]+")
_WORD = re.compile(r"[^\W\d]\w*|\d+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")
_DOTTED = re.compile(r"(?<!\w)[A-Za-z_]\w*(?:[./\\]+[A-Za-z_]\w*)+")
_SUFFIX = re.compile(r"\.\w{1,5}$")
_SOURCE_SUFFIX = re.compile(r"\.(?:py|pyx|pyi|c|cc|cpp|h|hpp|js|jsx|ts|tsx|java|go|rb|rs|php|cs|kt|swift|html|css)$", re.IGNORECASE)
_NOT_WORD = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class IssueViews:
    """The two texts of an issue that are embedded; experiences are compared by the mean of the two cosines."""

    title: str
    text: str


def issue_views(issue: Issue) -> IssueViews:
    """Title, and the whole text without HTML comments, of which the embedder reads the first 128 word pieces."""
    return IssueViews(issue.title[:MAX_CHARS], without_comments(issue.text).strip() or issue.text[:MAX_CHARS])


def without_comments(text: str) -> str:
    """The first 20,000 characters of a text with its HTML comments (the template's instructions) taken out."""
    return _COMMENT.sub(" ", text[: 2 * MAX_CHARS].replace("\r\n", "\n"))[:MAX_CHARS]


def normalise(text: str) -> str:
    """A text as it is compared for equality: without invisible characters, escapes and HTML comments, Unicode NFKC, case folded, words separated by one
    blank.
    """
    return _NOT_WORD.sub(" ", _COMMENT.sub(" ", unicodedata.normalize("NFKC", clean(text))).casefold()).strip()


def text_hash(text: str) -> str:
    """32 hex digits of the normalised text, "" where it holds no word."""
    plain = normalise(text)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32] if plain else ""


def shingles(text: str) -> frozenset[str]:
    """The set of 5-character pieces of the normalised text

    Characters, not words: one changed word in an issue of twenty leaves a Jaccard similarity of .71 over three-word pieces, of about .85 over these. Over
    all pairs of 303 real issues of the same repository the largest is .38, so nothing but the same issue comes near .8.
    """
    plain = normalise(clean(text)[:MAX_SHINGLED_CHARS])
    if not plain:
        return frozenset()
    return frozenset(plain[i : i + SHINGLE] for i in range(max(1, len(plain) - SHINGLE + 1)))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared part of two sets, 0 for two empty ones. Sets too unequal in size to reach .8 are not compared (0)."""
    small, large = sorted((len(left), len(right)))
    if large == 0 or small / large < SAME_TEXT:
        return 0.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


def identifier_parts(word: str) -> Iterator[str]:
    """A name in lower case, and its snake_case and camelCase parts where it has several: getHTTPResponse -> gethttpresponse, get, http, response."""
    yield word.lower()
    parts = [part.lower() for part in _PART.findall(word)]
    if len(parts) > 1:
        yield from parts


def where_terms(paths: Iterable[str], symbols: Iterable[str]) -> str:
    """What an attempt edited, as terms separated by blanks: path components and their bigrams ("models/query"), names whole and in parts.

    Paths count twice: an attempt that edits twenty functions of one file would else drown where that is.
    """
    terms: list[str] = []
    for path in sorted(set(paths)):
        parts = [part for part in _SUFFIX.sub("", path).split("/") if part]
        for part in parts:
            terms.extend(term for word in _WORD.findall(part) for term in identifier_parts(word))
        terms.extend(_bigrams(parts))
    terms *= 2
    for symbol in sorted(set(symbols)):
        terms.extend(term for word in _WORD.findall(symbol) for term in identifier_parts(word))
    return " ".join(terms)


@lru_cache(maxsize=32)  # asked for several times in one recall
def query_terms(issue: Issue) -> str:
    """What is searched for in the terms of past attempts, repeated by weight: title three times, text, identifiers once more, paths as bigrams.

    HTML comments and lists of versions are left out; so is what comes after 20,000 characters.
    """
    text = _VERSION.sub(" ", _BLANKS.sub(" ", without_comments(issue.text)))
    terms = [term for word in _WORD.findall(issue.title[:MAX_CHARS]) for term in identifier_parts(word)] * 3
    for word in _WORD.findall(text):
        parts = list(identifier_parts(word))
        terms.extend(parts)
        if "_" in word.strip("_") or re.search("[a-z][A-Z]", word):
            terms.extend(parts)
    for name in _DOTTED.findall(text):
        terms.extend(_bigrams(_components(_SOURCE_SUFFIX.sub("", name))))
    return " ".join(terms)


@dataclass(frozen=True, slots=True)
class Named:
    """What places an issue names: pairs of components that follow each other in a path or dotted name, and names of files without their suffix."""

    pairs: frozenset[str]
    files: frozenset[str]


def named_places(text: str) -> Named:
    """Paths, dotted names and file names in an issue's first 40,000 characters (a traceback may come late), in lower case."""
    pairs: set[str] = set()
    files: set[str] = set()
    for name in _DOTTED.findall(_COMMENT.sub(" ", text[: 2 * MAX_CHARS])):
        stem = _SOURCE_SUFFIX.sub("", name)
        parts = _components(stem)
        pairs.update(_bigrams(parts))
        if stem != name:
            files.add(parts[-1].lower())
    return Named(frozenset(pairs), frozenset(files))


def _components(name: str) -> list[str]:
    return [part for part in re.split(r"[./\\]+", name) if part]


def _bigrams(parts: list[str]) -> Iterator[str]:
    for left, right in pairwise(parts):
        yield f"{left}/{right}".lower()
