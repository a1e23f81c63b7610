"""Exact BM25 over the visible experiences of one repository.

Why not LanceDB's full text here: its score equals BM25 (to 2e-6) only while every row is indexed. With rows that are not yet indexed it was off by up
to 70 %, and its statistics count every row of the table: rows of later snapshots, retired ones, other repositories. A score that is added to a cosine
must have the same magnitude for the same question and bank version, so it is computed here, from what the snapshot shows.

BM25: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.4, with IDF = ln(1 + (n - df + .5) / (df + .5)), which
is never negative, and its k3 for repeated query terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence, Set
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)

K1 = 1.2
B = 0.3
# How soon a term that is repeated in the query stops to weigh more: long issues say "model" and "field" fifty times, which tells little about where the
# fault is. Measured on 303 real issues (leave-one-out): mean reciprocal rank .60 without and .69 with it on the half it was chosen on, .63 and .65 on the
# other half; the first answer was right more often only on the former (.46 and .60; .49 and .49).
K3 = 1.0


class _Group(Generic[Key]):
    """The postings of one repository. Rows are numbered in the order they came."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.lengths: list[int] = []
        self.postings: dict[str, tuple[list[int], list[int]]] = {}
        self.arrays: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    def add(self, key: Key, terms: list[str]) -> None:
        row = len(self.keys)
        self.keys.append(key)
        self.lengths.append(len(terms))
        for term, count in Counter(terms).items():
            rows, counts = self.postings.setdefault(term, ([], []))
            rows.append(row)
            counts.append(count)
            self.arrays.pop(term, None)

    def posting(self, term: str) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        import numpy as np

        if term not in self.arrays:
            if term not in self.postings:
                return None
            rows, counts = self.postings[term]
            self.arrays[term] = (np.array(rows, dtype=np.int64), np.array(counts, dtype=np.float64))
        return self.arrays[term]


class Bm25Index(Generic[Key]):
    """Documents in groups (repositories), searched within a group. In memory: about 33,000 documents of 30 terms are built in .4 s, asked in .5 ms.

    Statistics (number of documents, document frequencies, mean length) are those of the group's *visible* documents, so an answer depends on nothing but the
    query and what is visible; the order in which documents were added does not matter.
    """

    def __init__(self, *, k1: float = K1, b: float = B, k3: float = K3) -> None:
        self._k1, self._b, self._k3 = k1, b, k3
        self._groups: dict[str, _Group[Key]] = {}
        self._known: set[Key] = set()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: Key, *, group: str, terms: str) -> None:
        """Add one document, its terms separated by blanks. A key that is known already is left as it is."""
        if key not in self._known:
            self._known.add(key)
            self._groups.setdefault(group, _Group()).add(key, terms.split())

    def keys(self, group: str) -> Sequence[Key]:
        """The documents of a group in the order they were added."""
        documents = self._groups.get(group)
        return documents.keys if documents else ()

    def column(self, query: str, *, group: str, shown: NDArray[np.bool_]) -> NDArray[np.float64]:
        """A score for each document of the group in the order of :meth:`keys`, 0 where it is not shown or shares no term with the query.

        A repeated query term weighs more, up to 1 + k3. ``shown`` says of each document whether this snapshot shows it.
        """
        import numpy as np

        totals = np.zeros(len(shown), dtype=np.float64)
        documents = self._groups.get(group)
        count = int(shown.sum())
        if documents is None or count == 0:
            return totals
        lengths = np.array(documents.lengths, dtype=np.float64)
        norms = self._k1 * (1 - self._b + self._b * lengths / max(float(lengths[shown].mean()), 1.0))
        for term, times in sorted(Counter(query.split()).items()):  # sorted: sums of floats depend on their order
            posting = documents.posting(term)
            if posting is None:
                continue
            rows, counts = posting
            df = int(shown[rows].sum())
            if df:
                idf = math.log(1 + (count - df + 0.5) / (df + 0.5))
                weight = times * (self._k3 + 1) / (times + self._k3)
                totals[rows] += weight * idf * counts * (self._k1 + 1) / (counts + norms[rows])
        totals[~shown] = 0.0
        return totals

    def scores(self, query: str, *, group: str, visible: Set[Key] | None = None) -> dict[Key, float]:
        """:meth:`column` by key, without those that score 0. ``visible`` holds the keys that this snapshot shows, None for all."""
        import numpy as np

        keys = self.keys(group)
        shown = np.array([visible is None or key in visible for key in keys], dtype=np.bool_)
        return {key: score for key, score in zip(keys, self.column(query, group=group, shown=shown).tolist(), strict=True) if score > 0}
