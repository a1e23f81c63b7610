"""The visible experiences of a bank in memory: columns for the guards, vectors, and term statistics.

Why in memory: scores must be the same whatever the physical state of the tables (DESIGN rule 10). LanceDB's full-text scores are not: over the same
400 rows they differed by up to .17 when half of them were not indexed yet, and by up to 3.7 under a prefilter. Nor is its exact vector search fast
enough for the guards and snapshots of a large bank (33,000 vectors of 768: 142 ms; the matrix product here: 7 ms). Rows are immutable, so what was
loaded once stays valid; a snapshot is a mask.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from swe_memory.bm25 import Bm25Index
from swe_memory.store import schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from swe_memory.store.log import State

_WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
# Of a text of 1 MB only the beginning is looked at: a query must not cost more than one of a few pages.
MAX_TEXT_CHARS = 20_000
# Read when they are wanted: they may be long.
ON_DISK = ("text", "digest")
# Not kept as they are: what only tells when a row was written, and what is in the columns and indexes below.
_NOT_KEPT = (*ON_DISK, "at", "text_hash", "where_terms", "vector")
# All issue texts are one group: without vectors they are the only way to another repository's experiences.
EVERYWHERE = ""


def words(text: str) -> str:
    """The lower-case words of an issue text's first 20,000 characters, separated by blanks; snake_case names stay whole."""
    return " ".join(_WORD.findall(text[:MAX_TEXT_CHARS].lower()))


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
    """One snapshot: ``rows`` are row numbers in the order of their keys, ``places`` says for every row its place in that order, -1 where it is not shown."""

    keys: tuple[str, ...]
    rows: np.ndarray
    places: np.ndarray


class Corpus:
    """What has been loaded so far. Rows are only ever added."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self.dimension = dimension
        names = schema.experiences_schema(dimension).names
        self.columns = [name for name in names if name not in (*ON_DISK, "at")]
        self._kept = [name for name in names if name not in _NOT_KEPT]
        self.row_of: dict[tuple[str, str], int] = {}
        self.issues, self.repos, self.hashes = Codes(), Codes(), Codes()
        self.created: array[float] = array("d")
        self.where: Bm25Index[int] = Bm25Index()
        self.row_ids: array[int] = array("Q")
        self.has_vector: array[int] = array("b")
        self._texts: Bm25Index[int] | None = None
        self._vectors = np.zeros((0, dimension), dtype=np.float32)
        self._parts: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        self._views: dict[tuple[int, int], View] = {}

    def __len__(self) -> int:
        return len(self.row_ids)

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` vectors in all, so that loading many copies them once."""
        import numpy as np

        if rows > len(self._vectors):
            room = np.zeros((rows, self.dimension), dtype=np.float32)
            room[: len(self._vectors)] = self._vectors
            self._vectors = room

    def add(self, batch: pa.RecordBatch, chosen: Sequence[int]) -> None:
        """Append the ``chosen`` rows of a batch with the columns ``columns`` and ``_rowid``."""
        import numpy as np

        start = len(self)
        batch = batch.take(chosen)
        listed = ("txn", "key", "issue_id", "repo", "text_hash", "created_at", "where_terms", "_rowid")
        column = {name: batch.column(name).to_pylist() for name in listed}
        for place, (txn, key) in enumerate(zip(column["txn"], column["key"], strict=True)):
            self.row_of[txn, key] = start + place
            self.where.add(start + place, group=column["repo"][place], terms=column["where_terms"][place])
        for codes, name in ((self.issues, "issue_id"), (self.repos, "repo"), (self.hashes, "text_hash")):
            for value in column[name]:
                codes.add(value)
        self.created.extend(datetime.fromisoformat(time).timestamp() if time else float("nan") for time in column["created_at"])
        self.row_ids.extend(column["_rowid"])
        self._parts.append(batch.select(self._kept))
        self._starts.append(start)
        if not self.dimension:
            return
        if len(self) > len(self._vectors):
            self.reserve(max(len(self), len(self._vectors) * 3 // 2))
        vectors = batch.column("vector")
        valid = np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        self.has_vector.extend(valid.tolist())
        if valid.any():
            # flatten() leaves out the values of null rows.
            self._vectors[start : len(self)][valid] = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.dimension)

    @property
    def vectors(self) -> np.ndarray:
        """(n, dimension) float32."""
        return self._vectors[: len(self)]

    def fields(self, row: int) -> dict[str, Any]:
        """The columns of one row that are kept."""
        part = bisect_right(self._starts, row) - 1
        place = row - self._starts[part]
        return {name: column[place].as_py() for name, column in zip(self._kept, self._parts[part].columns, strict=True)}

    def texts(self, read: Callable[[], Iterable[tuple[int, str]]]) -> Bm25Index[int]:
        """The term index of the issue texts, brought up to date when it is needed: only searches without a vector use it.

        ``read()`` gives (row, text) of all rows so far.
        """
        if self._texts is None or len(self._texts) < len(self):
            index = self._texts or Bm25Index()
            for row, text in read():
                index.add(row, group=EVERYWHERE, terms=words(text))
            self._texts = index
        return self._texts

    def view(self, state: State) -> View:
        """The rows that are visible in ``state``; kept for the last few states."""
        import numpy as np

        found = self._views.get((state.seq, len(self)))
        if found is None:
            # A row that is lost is not in memory.
            keys = tuple(key for key in sorted(state.experiences) if (state.experiences[key].txn, key) in self.row_of)
            rows = np.fromiter((self.row_of[state.experiences[key].txn, key] for key in keys), dtype=np.int64, count=len(keys))
            places = np.full(len(self), -1, dtype=np.int64)
            places[rows] = np.arange(len(keys))
            found = View(keys, rows, places)
            if len(self._views) >= 4:
                self._views.pop(next(iter(self._views)))
            self._views[state.seq, len(self)] = found
        return found
