"""The visible experiences of a bank in memory: columns for the guards, vectors, and term statistics.

Why in memory: scores must be the same whatever the physical state of the tables (DESIGN rule 10). LanceDB's full-text scores are not: over the same
400 rows they differed by up to .17 when half of them were not indexed yet, and by up to 3.7 under a prefilter. Nor is its exact vector search fast
enough for the guards and snapshots of a large bank (33,000 vectors of 768: 142 ms; the matrix product here: 7 ms). Rows are immutable, so what was
loaded once stays valid; a snapshot is a mask. Costs 4 bytes a dimension: 3 kB an experience with two views of 384.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from swe_memory.bm25 import Bm25Index

if TYPE_CHECKING:
    import numpy as np

    from swe_memory.store.log import State

_WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
# Of a text of 1 MB only the beginning is looked at: a query must not cost more than one of a few pages.
MAX_TEXT_CHARS = 20_000
# All issue texts are one group: without vectors they are the only way to another repository's experiences.
EVERYWHERE = ""


def words(text: str) -> str:
    """The lower-case words of an issue text's first 20,000 characters, separated by blanks; snake_case names stay whole."""
    return " ".join(_WORD.findall(text[:MAX_TEXT_CHARS].lower()))


def _name(txn: str, key: str) -> str:
    return f"{txn} {key}"


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
    """One snapshot: ``rows`` are row numbers in the order of their keys, ``names`` what the term indexes call them."""

    keys: tuple[str, ...]
    rows: np.ndarray
    names: tuple[str, ...]
    visible: frozenset[str]


class Corpus:
    """What has been loaded so far. Rows are only ever added."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self.dimension = dimension
        self.row_of: dict[tuple[str, str], int] = {}
        self.issues, self.repos, self.hashes = Codes(), Codes(), Codes()
        self.issue_ids: list[str] = []
        self.created: array[float] = array("d")
        self.where = Bm25Index()
        self._texts: Bm25Index | None = None
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
            self.where.add(_name(row["txn"], row["key"]), group=row["repo"], terms=row["where_terms"])
            if self._texts is not None:
                self._texts.add(_name(row["txn"], row["key"]), group=EVERYWHERE, terms=words(row["text"]))
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

    def texts(self, read: Callable[[], Iterable[tuple[str, str, str]]]) -> Bm25Index:
        """The term index of the issue texts, built when first needed: only a bank without vectors uses it.

        ``read()`` gives (txn, key, text) of all rows so far.
        """
        if self._texts is None:
            self._texts = Bm25Index()
            for txn, key, text in read():
                self._texts.add(_name(txn, key), group=EVERYWHERE, terms=words(text))
        return self._texts

    def view(self, state: State) -> View:
        """The rows that are visible in ``state``; kept for the last few states."""
        import numpy as np

        found = self._views.get((state.seq, len(self)))
        if found is None:
            keys = tuple(sorted(state.experiences))
            rows = np.fromiter((self.row_of[state.experiences[key].txn, key] for key in keys), dtype=np.int64, count=len(keys))
            names = tuple(_name(state.experiences[key].txn, key) for key in keys)
            found = View(keys, rows, names, frozenset(names))
            if len(self._views) >= 4:
                self._views.pop(next(iter(self._views)))
            self._views[state.seq, len(self)] = found
        return found
