"""What a store keeps in memory: the visible experiences to search in, and where the rows of items lie.

A row is immutable, so what was read once stays valid; only what a new version adds is read. Costs, measured for 100,000 items of 33,334 experiences and
two views of 384 numbers: 4.4 kB an experience, 3.1 of them vectors, and .12 kB an item. Texts and digests, which may be long, and what items say stay on
disk: the few that are wanted are read by row id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from swe_memory.records import Experience
from swe_memory.store import rows, schema
from swe_memory.store.corpus import ON_DISK, Corpus
from swe_memory.store.tables import Tables, quoted

if TYPE_CHECKING:
    from swe_memory.store.log import State

# Longer lists of transactions are slower to test row by row than to filter afterwards.
_LISTED = 200


class Memory:
    """Belongs to one store, which calls it under its lock."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._corpus: Corpus | None = None
        self._generation = 0
        self._loaded = -1
        self._items: dict[str, dict[str, int]] = {}  # transaction -> item id -> row id

    def corpus(self, state: State) -> Corpus:
        """The rows that ``state`` shows, and every other committed row met on the way. One that is lost is left out: `check` names it."""
        corpus = self._of(state)
        if self._loaded == state.seq:
            return corpus
        missing = {(found.txn, key) for key, found in state.experiences.items()} - corpus.row_of.keys()
        if missing:
            corpus.reserve(len(corpus) + len(missing))
            for batch in self._tables.batches(
                schema.experiences_table(state.generation), _of_txns({txn for txn, _ in missing}), corpus.columns
            ):
                chosen = []
                for place, pair in enumerate(zip(batch.column("txn").to_pylist(), batch.column("key").to_pylist(), strict=True)):
                    if pair in missing:
                        missing.discard(pair)
                        chosen.append(place)
                if chosen:
                    corpus.add(batch, chosen)
        if not missing:  # else it is looked for again next time: a damaged bank is slower, not wrong
            self._loaded = state.seq
        return corpus

    def experiences(self, state: State, keys: Sequence[str]) -> dict[str, Experience]:
        """Visible experiences by key: fields from memory, text and digest from disk. Without those whose row is lost."""
        corpus = self.corpus(state)
        pairs = [(state.experiences[key].txn, key) for key in keys]
        row_of = {corpus.row_of[pair]: pair[1] for pair in pairs if pair in corpus.row_of}
        row_ids = {corpus.row_ids[row]: row for row in row_of}
        table = schema.experiences_table(state.generation)
        # An id that does not outlive compaction (a bank of an older layout) is never given to another row: it is missing, and looked for by its key.
        long = {row_ids[found["_rowid"]]: found for found in self._tables.take(table, list(row_ids), ON_DISK)}
        if len(long) < len(row_of):
            for found in self._tables.rows(table, f"key IN {quoted(keys)}", ["txn", "key", *ON_DISK]):
                row = corpus.row_of.get((found["txn"], found["key"]))
                if row in row_of:
                    long[row] = found
        return {
            key: rows.experience_of({**corpus.fields(row), **{name: long[row][name] for name in ON_DISK}}, state.experiences[key].added)
            for row, key in row_of.items()
            if row in long
        }

    def item_rows(self, state: State, keys: Iterable[str]) -> list[dict[str, Any]]:
        """The visible rows of the items of these experiences, vectors included, in no particular order."""
        self._of(state)
        unknown = state.txns.keys() - self._items.keys()
        table = schema.items_table(state.generation)
        if unknown:
            found: dict[str, dict[str, int]] = {txn: {} for txn in unknown}
            for batch in self._tables.batches(table, _of_txns(unknown), ["txn", "id"]):
                for txn, item, row_id in zip(*(batch.column(name).to_pylist() for name in ("txn", "id", "_rowid")), strict=True):
                    if txn in found:
                        found[txn][item] = row_id
            self._items |= found
        wanted = {
            item: state.items[item].txn
            for key in keys
            if key in state.experiences
            for item in state.experiences[key].items
            if item in state.items
        }
        row_ids = [self._items[txn][item] for item, txn in wanted.items() if item in self._items.get(txn, {})]
        columns = [name for name in schema.items_schema(state.identity.dimension).names if name != "at"]
        read = [row for row in self._tables.take(table, row_ids, columns) if wanted.get(row["id"]) == row["txn"]]
        if len(read) < len(row_ids):
            read = [
                row for row in self._tables.rows(table, f"id IN {quoted(list(wanted))}", columns) if wanted.get(row["id"]) == row["txn"]
            ]
        return read

    def texts(self, corpus: Corpus) -> list[tuple[int, str]]:
        """(row in memory, issue text) of all experiences in memory."""
        table = self._tables.rows(schema.experiences_table(self._generation), "", ["txn", "key", "text"])
        found = [(corpus.row_of.get((row["txn"], row["key"]), -1), row["text"]) for row in table]
        return [(row, text) for row, text in found if row >= 0]

    def forget(self) -> None:
        """Let go of everything."""
        self._corpus, self._items = None, {}

    def _of(self, state: State) -> Corpus:
        if self._corpus is None or self._generation != state.generation:
            self._corpus, self._generation = Corpus(schema.VIEWS * state.identity.dimension), state.generation
            self._loaded, self._items = -1, {}
        return self._corpus


def _of_txns(txns: Iterable[str]) -> str:
    names = sorted(txns)
    return f"txn IN {quoted(names)}" if len(names) <= _LISTED else ""
