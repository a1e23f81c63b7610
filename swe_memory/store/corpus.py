"""The visible experiences of a bank in memory: columns for the guards, vectors, and term statistics.

Why in memory: scores must be the same whatever the physical state of the tables (DESIGN rule 10). LanceDB's full-text scores are not: over the same
400 rows they differed by up to .17 when half of them were not indexed yet, and by up to 3.7 under a prefilter. Nor is its exact vector search fast
enough for the guards and snapshots of a large bank (33,000 vectors of 768: 142 ms; the matrix product here: 7 ms). Rows are immutable, so what was
loaded once stays valid; a snapshot is a mask. Costs 4 bytes a dimension: 3 kB an experience with two views of 384.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from swe_memory.store.log import State

# BM25's constants: NOTES measured .57 with these on 231 queries; Robertson & Zaragoza (2009), "The Probabilistic Relevance Framework", give the formula.
K1 = 1.2
B = 0.3

_WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
# A query of a 1 MB issue must not cost more than one of a page: more distinct terms than this are cut, rarest last by the order given.
MAX_QUERY_TERMS = 2000


def words(text: str) -> list[str]:
    """Lower-case words of an issue text; snake_case names stay whole."""
    return _WORD.findall(text.lower())


class TermIndex:
    """Postings of one text field over numbered rows."""

    def __init__(self) -> None:
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._lengths: array[int] = array("l")

    def add(self, terms: Sequence[str]) -> None:
        """Append the next row."""
        row = len(self._lengths)
        self._lengths.append(len(terms))
        for term, count in Counter(terms).items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = (array("l"), array("l"))
            posting[0].append(row)
            posting[1].append(count)

    def scores(self, query: Iterable[str], visible: np.ndarray) -> np.ndarray:
        """BM25 of every row against ``query`` with the statistics of the ``visible`` rows (a boolean mask) only; float64, one a row.

        A repeated query term weighs as often as it occurs. Terms are added up in sorted order, so the sum does not depend on the order of rows.
        """
        import numpy as np

        counts = Counter(query)
        terms = sorted(sorted(counts, key=lambda t: (-counts[t], t))[:MAX_QUERY_TERMS])
        total = np.zeros(len(self._lengths))
        number = int(visible.sum())
        if not number:
            return total
        lengths = np.array(self._lengths, dtype=np.float64)
        mean = float(lengths[visible].sum()) / number
        norm = K1 * (1 - B + B * lengths / (mean or 1.0))
        for term in terms:
            posting = self._postings.get(term)
            if posting is None:
                continue
            rows = np.array(posting[0], dtype=np.int64)
            tf = np.array(posting[1], dtype=np.float64)
            df = int(visible[rows].sum())
            idf = np.log1p((number - df + 0.5) / (df + 0.5))
            total[rows] += counts[term] * idf * tf * (K1 + 1) / (tf + norm[rows])
        return total


class Codes:
    """Strings as numbers, so that a guard compares a whole column at once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.column: array[int] = array("l")

    def add(self, value: str) -> None:
        self.column.append(self._numbers.setdefault(value, len(self._numbers)))

    def number(self, value: str) -> int:
        """The number of ``value``, -1 where it does not occur."""
        return self._numbers.get(value, -1)


@dataclass(frozen=True, slots=True)
class View:
    """One snapshot: ``rows`` are row numbers in the order of their keys, ``mask`` the same as booleans over all rows."""

    keys: tuple[str, ...]
    rows: np.ndarray
    mask: np.ndarray


class Corpus:
    """What has been loaded so far. Rows are only ever added."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self.dimension = dimension
        self.row_of: dict[tuple[str, str], int] = {}
        self.issues, self.repos, self.hashes = Codes(), Codes(), Codes()
        self.issue_ids: list[str] = []
        self.created: array[float] = array("d")
        self.where = TermIndex()
        self._texts: TermIndex | None = None
        self._vectors = np.zeros((0, dimension), dtype=np.float32)
        self.has_vector: array[int] = array("b")
        self._views: dict[tuple[int, int], View] = {}

    def __len__(self) -> int:
        return len(self.issue_ids)

    def add(self, rows: Sequence[Mapping[str, Any]], vectors: np.ndarray | None, has: Sequence[bool]) -> None:
        """Append rows with ``txn, key, issue_id, repo, text_hash, created_at, where_terms, text``; ``vectors`` (n, dimension), rows without one are zero."""
        import numpy as np

        start = len(self)
        for row in rows:
            self.row_of[row["txn"], row["key"]] = len(self.issue_ids)
            self.issue_ids.append(row["issue_id"])
            self.issues.add(row["issue_id"])
            self.repos.add(row["repo"])
            self.hashes.add(row["text_hash"])
            self.created.append(datetime.fromisoformat(row["created_at"]).timestamp() if row["created_at"] else float("nan"))
            self.where.add(row["where_terms"].split())
            if self._texts is not None:
                self._texts.add(words(row["text"]))
        self.has_vector.extend(int(flag) for flag in has)
        if self.dimension and rows:
            if len(self) > len(self._vectors):
                room = np.zeros((max(len(self), len(self._vectors) * 3 // 2), self.dimension), dtype=np.float32)
                room[:start] = self._vectors[:start]
                self._vectors = room
            if vectors is not None:
                self._vectors[start : len(self)] = vectors

    @property
    def vectors(self) -> np.ndarray:
        """(n, dimension) float32."""
        return self._vectors[: len(self)]

    def texts(self, read: Any) -> TermIndex:
        """The term index of the issue texts, built when first needed: only a bank without vectors uses it.

        ``read()`` gives the texts of all rows so far, in row order.
        """
        if self._texts is None:
            index = TermIndex()
            for text in read():
                index.add(words(text))
            self._texts = index
        return self._texts

    def view(self, state: State) -> View:
        """The rows that are visible in ``state``; kept for the last few states."""
        import numpy as np

        found = self._views.get((state.seq, len(self)))
        if found is None:
            keys = tuple(sorted(state.experiences))
            rows = np.fromiter((self.row_of[state.experiences[key].txn, key] for key in keys), dtype=np.int64, count=len(keys))
            mask = np.zeros(len(self), dtype=bool)
            mask[rows] = True
            found = View(keys, rows, mask)
            if len(self._views) >= 4:
                self._views.pop(next(iter(self._views)))
            self._views[state.seq, len(self)] = found
        return found
