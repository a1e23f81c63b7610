"""Finding experiences: guards first, then the best by vector and by terms, each with its exact scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from swe_memory.bm25 import Bm25Index
from swe_memory.records import Experience
from swe_memory.store.corpus import EVERYWHERE, Corpus, View, words

if TYPE_CHECKING:
    import numpy as np

    from swe_memory.store.log import State


@dataclass(frozen=True, slots=True)
class Guard:
    """What must not be recalled for an issue.

    Rule 1, always on: the experience of the issue itself, known by ``issue_id`` (in whatever repository it is filed) or by ``text_hash``.
    Switches: ``other_repos`` removes everything from ``repo``; ``before`` removes what was learned from issues not known to be created before that time.
    """

    issue_id: str = ""
    repo: str = ""
    text_hash: str = ""
    other_repos: bool = False
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """An experience and its scores for a query.

    ``cosine`` in [-1, 1] (None without a query vector or without a stored one), ``path_score`` BM25 over edited paths and symbols (0 in other
    repositories than the query's), ``text_score`` BM25 over the issue text (only where there is no query vector). ``removed`` says which guard
    removed it; such hits are returned only on request.
    """

    experience: Experience
    cosine: float | None
    path_score: float
    text_score: float
    removed: str = ""


@dataclass(frozen=True, slots=True)
class Scored:
    """A hit before its experience is read: ``place`` is its place in the view."""

    place: int
    cosine: float | None
    path_score: float
    text_score: float
    removed: str


def guards(corpus: Corpus, view: View, guard: Guard) -> dict[str, np.ndarray]:
    """For each guard that is on, which places of the view it removes (boolean arrays). Strictest reason first."""
    import numpy as np

    def column(values: Iterable[int]) -> np.ndarray:
        return np.asarray(np.array(values, dtype=np.int64)[view.rows])

    found: dict[str, np.ndarray] = {}
    if guard.issue_id:
        found["same issue"] = column(corpus.issues.column) == corpus.issues.number(guard.issue_id)
    if guard.text_hash:
        found["same text"] = column(corpus.hashes.column) == corpus.hashes.number(guard.text_hash)
    if guard.other_repos:
        found["same repository"] = column(corpus.repos.column) == corpus.repos.number(guard.repo)
    if guard.before is not None:
        created = np.array(corpus.created, dtype=np.float64)[view.rows]
        found["creation time unknown"] = np.isnan(created)
        found["not created before"] = created >= guard.before.timestamp()
    return found


def untouched(removers: dict[str, np.ndarray], count: int) -> np.ndarray:
    """Which of ``count`` places none of the guards removes (a boolean array)."""
    import numpy as np

    free = np.ones(count, dtype=bool)
    for hit in removers.values():
        free &= ~hit
    return free


def top(
    scores: np.ndarray, allowed: np.ndarray, limit: int, exact: Callable[[np.ndarray], np.ndarray] | None = None, slack: float = 0.0
) -> np.ndarray:
    """Places of the ``limit`` best of ``scores`` among the ``allowed`` places, best first, ties by place.

    ``exact`` gives scores that do not depend on where in memory a row lies; it decides between candidates whose ``scores`` are within ``slack`` of the
    last one's, or better.
    """
    import numpy as np

    places = np.flatnonzero(allowed)
    if len(places) == 0 or limit <= 0:
        return places[:0]
    values = scores[places]
    if len(places) > limit:
        last = np.partition(values, len(values) - limit)[len(values) - limit]
        places = places[values >= last - slack]
    sure = exact(places) if exact is not None else scores[places]
    return places[np.lexsort((places, -sure))][:limit]


def search(
    corpus: Corpus,
    state: State,
    *,
    vector: np.ndarray | None,
    terms: str,
    text: str,
    guard: Guard,
    limit: int,
    explain: bool,
    read_texts: Callable[[], Iterable[tuple[int, str]]],
) -> tuple[View, list[Scored]]:
    """The union of the ``limit`` best by each score, every one with all its scores. Equal to a full scan of the visible rows, whatever was
    learned, edited, retired or taken back before. With ``explain`` also those that a guard removed and that were among the best without guards.
    """
    import numpy as np

    view = corpus.view(state)
    count = len(view.keys)
    if not count:
        return view, []
    removers = guards(corpus, view, guard)
    free = untouched(removers, count)
    cosine = exact_cosine = None
    slack = 0.0
    if vector is not None and corpus.dimension:
        query = np.asarray(vector, dtype=np.float32)
        has = np.array(corpus.has_vector, dtype=bool)[view.rows]
        cosine = (corpus.vectors @ query)[view.rows]
        # A float32 sum of n products of two unit vectors is off by at most n x 2^-24, whatever the order of adding; two of them are compared.
        slack = corpus.dimension * 2.0**-22

        def exact_cosine(places: np.ndarray) -> np.ndarray:
            # Row by row in float64: the same bits wherever the row lies.
            rows = corpus.vectors[view.rows[places]].astype(np.float64)
            return np.asarray((rows * query.astype(np.float64)).sum(axis=1))

    def column(index: Bm25Index[int], query: str, group: str) -> np.ndarray:
        values = np.zeros(count)
        places = view.places[np.array(index.keys(group), dtype=np.int64)]
        shown = places >= 0
        values[places[shown]] = index.column(query, group=group, shown=shown)[shown]
        return values

    # Paths and symbols mean something only in the repository they are from.
    path = column(corpus.where, terms, guard.repo)
    full = np.zeros(count)
    if cosine is None:
        full = column(corpus.texts(read_texts), words(text), EVERYWHERE)

    def best(among: np.ndarray) -> set[int]:
        chosen: set[int] = set()
        if cosine is not None:
            chosen.update(top(cosine, among & has, limit, exact_cosine, slack).tolist())
        for scores in (path, full):
            chosen.update(top(scores, among & (scores > 0), limit).tolist())
        return chosen

    places = best(free)
    if explain:
        places |= {place for place in best(np.ones(count, dtype=bool)) if not free[place]}
    order = np.array(sorted(places), dtype=np.int64)
    cosines: list[float | None] = [None] * len(order)
    if cosine is not None and exact_cosine is not None and len(order):
        cosines = [float(c) if has[place] else None for place, c in zip(order, exact_cosine(order), strict=True)]
    found = [
        Scored(place, cosines[i], float(path[place]), float(full[place]), next((name for name, hit in removers.items() if hit[place]), ""))
        for i, place in enumerate(order.tolist())
    ]
    found.sort(key=lambda s: (-(s.cosine if s.cosine is not None else -2.0), -s.path_score, -s.text_score, s.place))
    return view, found
