"""The store: a bank's tables, its log, and search over what is visible at a version.

Layout (LanceDB): ``commits`` (the log; ``seq`` is the bank version), ``experiences`` and ``items`` (one pair a generation of vectors), ``uses``, ``meta``
(layout version). Writing is two steps: rows first, invisible, then one row in ``commits``: the final marker. A kill between the two leaves orphans that
nobody sees; a kill after it loses nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_memory.errors import BankError, UsageError
from swe_memory.records import Experience, MemoryItem, Use
from swe_memory.store import rows, schema
from swe_memory.store.log import LEARNING, UNDOABLE, Commit, Identity, ItemState, Kind, Log, State, taken_back
from swe_memory.store.memory import Memory
from swe_memory.store.rows import NewExperience, NewItem
from swe_memory.store.search import Guard, Hit, guards, search, untouched
from swe_memory.store.tables import Tables, quoted

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "LEARNING",
    "UNDOABLE",
    "Abandoned",
    "Batch",
    "Commit",
    "GenerationChanged",
    "Guard",
    "Hit",
    "Identity",
    "Kind",
    "NewExperience",
    "NewItem",
    "Store",
    "taken_back",
]


class GenerationChanged(Exception):
    """The bank was re-embedded between writing rows and committing them: embed again and write anew."""


class Abandoned(GenerationChanged):
    """Between writing rows and committing them they were given up as those of a write that was cut short: write anew, under another name.

    It happens where a process stops for a day, and where clocks are so far apart that rows just written look a day old.
    """


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction stores. ``items`` are new versions of existing items (an edit); those of an experience travel with it.

    ``lost`` names, by key, the transactions whose rows of that experience or its items are lost (see :meth:`Store.lost`): these replace them.
    """

    experiences: tuple[NewExperience, ...] = ()
    items: tuple[NewItem, ...] = ()
    uses: tuple[Use, ...] = ()
    lost: Mapping[str, Iterable[str]] = field(default_factory=dict)


class Store:
    """One open bank. Safe to use from several threads; several processes may each have their own."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.log = Log()
        self._log_version = -1  # of the table of commits when it was last read
        self._memory = Memory(tables)
        self._lock = threading.RLock()

    @classmethod
    def open(cls, uri: str | Path, *, identity: Identity, at: datetime, txn: str, create: bool = True, read_only: bool = False) -> Store:
        """Open the bank at ``uri``, making it (for vectors of ``identity``) where there is none.

        An existing bank keeps the identity it has: see :attr:`identity`. ``at`` and ``txn`` are used only when it is made.

        Raises:
            UsageError: the path is a file or a folder with other things in it.
            BankError: no bank there, a newer layout, or no permission.
        """
        tables = Tables(uri, create=create, read_only=read_only)
        if not tables.exists:
            tables.create(at)
        tables.migrate(at)
        store = cls(tables)
        store.refresh()
        if store.log.head < 0:
            if read_only:
                raise BankError(f"no bank at {uri}: its creation was interrupted", "Open it once for writing.")
            tables.create_generation(1, identity.dimension, at=at)
            payload = {"generation": 1, "embedder": _identity_json(identity)}
            # Another process may create it at this moment: the first to claim version 0 says which embedder it is.
            tables.claim(Commit(0, txn, "", "create", payload, at.isoformat()).row())
            store.refresh()
            if store.identity.dimension != identity.dimension:
                raise BankError(f"the bank {uri} was created by another process with another embedder", "Open it again.")
        return store

    # -- the log ---------------------------------------------------------------------------------------------------------------------------

    def refresh(self) -> int:
        """Take in commits of other processes; the head's version."""
        with self._lock:
            version = self.tables.version(schema.COMMITS)
            if version == self._log_version:
                return self.log.head
            new = [Commit.of_row(row) for row in self.tables.rows(schema.COMMITS, f"seq > {self.log.head}")]
            try:
                self.log.extend(new)
            except ValueError as error:
                raise BankError(
                    f"the log of the bank {self.tables.uri} has a gap: {error}", "Run `swe-memory bank check` on it."
                ) from error
            self._log_version = version
            return self.log.head

    @property
    def head(self) -> int:
        """The last version seen by :meth:`refresh`."""
        return self.log.head

    @property
    def identity(self) -> Identity:
        """The embedder of the present generation."""
        return self.log.state.identity

    def state(self, at: int | None = None) -> State:
        """What is visible at version ``at`` (None: now, after a look for new commits). Do not change it.

        Raises:
            UsageError: there is no such version.
        """
        with self._lock:
            head = self.refresh() if at is None or at > self.log.head else self.log.head
            if at is not None and not 0 <= at <= head:
                raise UsageError(
                    f"the bank {self.tables.uri} has no version {at}", f"Its versions are 0 to {head}; see `swe-memory bank info`."
                )
            return self.log.at(at)

    def write(self, batch: Batch, generation: int, txn: str, at: datetime) -> None:
        """Write the rows of a transaction. Nobody sees them before :meth:`commit`."""
        # Not before the clock that gave rows up last: written anew by a clock a day behind, they would be given up again and again.
        stamp = max([at.isoformat(), *(c.at for c in self.log.commits if c.kind == "abandon")])
        new = [item for experience in batch.experiences for item in experience.items] + list(batch.items)
        self.tables.append(schema.experiences_table(generation), [rows.experience_row(e, txn, stamp) for e in batch.experiences])
        self.tables.append(schema.items_table(generation), [rows.item_row(i, txn, stamp) for i in new])
        self.tables.append(schema.USES, [rows.use_row(use, txn, stamp) for use in batch.uses])

    def commit(
        self, kind: Kind, payload: Mapping[str, Any], *, txn: str, session: str, at: datetime, generation: int, after: int | None = None
    ) -> int:
        """Make transaction ``txn`` visible: the final marker. The new version.

        ``after``: only directly after that version; -1 is returned where somebody else was first.

        Raises:
            GenerationChanged: the rows were written to a generation that is no longer the present one.
            Abandoned: the rows were given up, and may be gone. A claim is for the number after the last commit seen, so an abandonment before it is seen.
            BankError: so were the vectors of a re-embedding.
        """
        with self._lock:
            while True:
                head = self.refresh()
                if txn in self.log.by_txn:
                    return self.log.by_txn[txn].seq  # an earlier claim went through although its answer was lost
                if txn in self.log.abandoned:
                    raise Abandoned
                if kind == "reembed":
                    if payload["generation"] in self.log.abandoned_generations:
                        raise BankError(
                            f"the new vectors of {self.tables.uri} were removed as abandoned while they were made: clocks differ by more than a day",
                            "The bank is as it was. Set the clocks of the machines that share it, and re-embed it again.",
                        )
                elif self.log.state.generation != generation and kind != "abandon":
                    raise GenerationChanged
                if after is not None and head != after:
                    return -1
                self.tables.claim(Commit(head + 1, txn, session, kind, payload, at.isoformat()).row())

    def learn(self, kind: Kind, batch: Batch, *, txn: str, session: str, at: datetime, generation: int) -> int:
        """Write and commit a batch; the new version. Raises GenerationChanged, see :meth:`commit`."""
        try:
            self.write(batch, generation, txn, at)
        except BankError:
            self.refresh()
            if self.log.state.generation != generation:  # and its tables may be gone
                raise GenerationChanged from None
            raise
        entries = [
            {
                "key": new.experience.key,
                "outcome": new.experience.verdict.outcome,
                "verdict_source": new.experience.verdict.source,
                "extractor": new.experience.extractor,
                "items": [{"id": i.item.id, "status": i.item.status} for i in new.items],
                **({"lost": sorted(batch.lost[new.experience.key])} if new.experience.key in batch.lost else {}),
            }
            for new in batch.experiences
        ]
        payload: dict[str, Any] = {"uses": len(batch.uses)}
        if kind == "edit":
            payload = {"items": [{"id": i.item.id, "status": i.item.status} for i in batch.items]}
        elif kind != "use":
            payload["experiences"] = entries
        return self.commit(kind, payload, txn=txn, session=session, at=at, generation=generation)

    # -- reading ---------------------------------------------------------------------------------------------------------------------------

    def experiences(self, at: int | None = None, keys: Sequence[str] | None = None) -> list[Experience]:
        """Visible experiences in the order they were added, then by key; only those of ``keys`` if given."""
        state = self.state(at)
        table = self.tables.rows(schema.experiences_table(state.generation), _where("key", keys), _no_vector(schema.experiences_schema(0)))
        found = _experiences(state, table)
        return sorted((e for e in found.values() if keys is None or e.key in set(keys)), key=lambda e: (e.added, e.key))

    def text_hashes(self, at: int | None = None) -> dict[str, str]:
        """The normalised text hash of each visible experience, by key."""
        state = self.state(at)
        table = self.tables.rows(schema.experiences_table(state.generation), columns=["txn", "key", "text_hash"])
        found = {(row["txn"], row["key"]): row["text_hash"] for row in table}
        return {key: found.get((e.txn, key), "") for key, e in state.experiences.items()}

    def lost(self, at: int | None = None) -> dict[str, frozenset[str]]:
        """Visible experiences of which a row, or one of an item, is not in the tables any more, and the transactions that wrote those rows.

        Learning such an experience again brings it back. Reads two columns of everything.
        """
        state = self.state(at)
        found: dict[str, set[str]] = {}
        experiences = self.tables.rows(schema.experiences_table(state.generation), columns=["txn", "key"])
        for txn, key in {(e.txn, key) for key, e in state.experiences.items()} - {(row["txn"], row["key"]) for row in experiences}:
            found.setdefault(key, set()).add(txn)
        items = self.tables.rows(schema.items_table(state.generation), columns=["txn", "id"])
        for txn, item in {(i.txn, item) for item, i in state.items.items()} - {(row["txn"], row["id"]) for row in items}:
            found.setdefault(state.items[item].experience, set()).add(txn)
        return {key: frozenset(txns) for key, txns in sorted(found.items()) if key in state.experiences}

    def items(self, at: int | None = None, ids: Sequence[str] | None = None) -> list[MemoryItem]:
        """Items of any status in the order they were added, then by id; only those of ``ids`` if given."""
        state = self.state(at)
        table = self.tables.rows(schema.items_table(state.generation), _where("id", ids), _no_vector(schema.items_schema(0)))
        return _items(state, table)

    def items_of(self, keys: Sequence[str], at: int | None = None) -> list[tuple[MemoryItem, np.ndarray | None]]:
        """Items of any status of the given experiences with their vectors (None without), in the order they were added, then by id."""
        import numpy as np

        with self._lock:
            state = self.state(at)
            table = self._memory.item_rows(state, keys)
        vectors = {row["id"]: row.get("vector") for row in table}
        return [
            (item, None if vectors[item.id] is None else np.asarray(vectors[item.id], dtype=np.float32)) for item in _items(state, table)
        ]

    def uses(self, at: int | None = None, attempts: Sequence[str] | None = None) -> list[Use]:
        """One use for each attempt and item, the latest; in the order of their commits."""
        state = self.state(at)
        found: dict[tuple[str, str], tuple[int, Use]] = {}
        for row in self.tables.rows(schema.USES, _where("attempt", attempts), list(schema.uses_schema().names)):
            seq = state.txns.get(row["txn"])
            key = (row["attempt"], row["item_id"])
            if seq is not None and (key not in found or found[key][0] < seq):
                found[key] = (seq, rows.use_of(row))
        return [use for _, use in sorted(found.values(), key=lambda pair: (pair[0], pair[1].attempt, pair[1].item_id))]

    def search(
        self,
        *,
        vector: np.ndarray | None,
        terms: str,
        text: str,
        guard: Guard,
        at: int | None = None,
        limit: int = 50,
        explain: bool = False,
    ) -> list[Hit]:
        """The experiences nearest to a query: the union of the ``limit`` best by cosine and by BM25 of ``terms`` over edited paths and symbols;
        without a ``vector``, by BM25 of ``text`` over the issue texts instead of cosine. Every hit carries all its scores.

        Exact: the same as a full scan over what is visible at ``at``, ties by key; statistics (document frequencies, mean length) are those of that
        version, so a snapshot gives the same scores for ever. ``explain`` adds the near candidates that a guard removed (``Hit.removed``).
        ``vector``: (2 x dimension,) float32, title and text unit vectors side by side, divided by sqrt 2.
        """
        with self._lock:
            state = self.state(at)
            corpus = self._memory.corpus(state)
            view, scored = search(
                corpus,
                state,
                vector=vector,
                terms=terms,
                text=text,
                guard=guard,
                limit=limit,
                explain=explain,
                read_texts=lambda: self._memory.texts(corpus),
            )
            found = self._memory.experiences(state, [view.keys[s.place] for s in scored])
        # Without those whose row is lost, which `check` names.
        return [
            Hit(found[view.keys[s.place]], s.cosine, s.path_score, s.text_score, s.removed) for s in scored if view.keys[s.place] in found
        ]

    # -- generations of vectors ------------------------------------------------------------------------------------------------------------

    def experiences_table(self) -> str:
        """Name of the present generation's table."""
        return schema.experiences_table(self.log.state.generation)

    def items_table(self) -> str:
        """Name of the present generation's table."""
        return schema.items_table(self.log.state.generation)

    def generations(self) -> list[int]:
        """Generations of which there are tables, sorted."""
        names = set(self.tables.names())
        highest = max((schema.generation_of(name) for name in names), default=0)
        return [g for g in range(1, highest + 1) if {schema.experiences_table(g), schema.items_table(g)} & names]

    def new_generation(self, identity: Identity, at: datetime) -> int:
        """Make empty tables for vectors of ``identity`` that nobody else writes to; their number."""
        known = [schema.generation_of(row["name"]) for row in self.tables.rows(schema.META)]
        number = max([*self.generations(), *known, self.log.state.generation]) + 1
        while not self.tables.create_generation(number, identity.dimension, at=at, exclusive=True):
            number += 1
        return number

    def raw_experiences(self, txns: Sequence[str], generation: int) -> list[tuple[str, str, NewExperience]]:
        """(txn, time, experience) of all rows of ``txns``, visible or not, without vectors."""
        columns = _no_vector(schema.experiences_schema(0))
        table = self.tables.rows(schema.experiences_table(generation), f"txn IN {quoted(txns)}", columns)
        found = [
            (row["txn"], row["at"], NewExperience(rows.experience_of(row, 0), row["text_hash"], row["where_terms"], None)) for row in table
        ]
        return sorted(found, key=lambda f: (f[0], f[2].experience.key))

    def raw_items(self, txns: Sequence[str], generation: int) -> list[tuple[str, str, MemoryItem]]:
        """(txn, time, item) of all rows of ``txns``, visible or not."""
        table = self.tables.rows(schema.items_table(generation), f"txn IN {quoted(txns)}", _no_vector(schema.items_schema(0)))
        found = [(row["txn"], row["at"], rows.item_of(row, ItemState(row["txn"], row["attempt"], 0, row["status"]))) for row in table]
        return sorted(found, key=lambda f: (f[0], f[2].id))

    def write_raw(
        self, generation: int, experiences: Sequence[tuple[str, str, NewExperience]], items: Sequence[tuple[str, str, NewItem]]
    ) -> None:
        """Write rows under the transactions they came from."""
        self.tables.append(schema.experiences_table(generation), [rows.experience_row(new, txn, at) for txn, at, new in experiences])
        self.tables.append(schema.items_table(generation), [rows.item_row(new, txn, at) for txn, at, new in items])

    def removed(self, guard: Guard, at: int | None = None) -> dict[str, int]:
        """How many visible experiences each guard that is on removes (one may be counted by several)."""
        with self._lock:
            state = self.state(at)
            corpus = self._memory.corpus(state)
            return {name: int(hit.sum()) for name, hit in guards(corpus, corpus.view(state), guard).items()}

    def unguarded(self, guard: Guard, at: int | None = None) -> frozenset[str]:
        """The keys of the visible experiences that no guard removes."""
        with self._lock:
            state = self.state(at)
            corpus = self._memory.corpus(state)
            view = corpus.view(state)
            free = untouched(guards(corpus, view, guard), len(view.keys))
            return frozenset(key for key, left in zip(view.keys, free.tolist(), strict=True) if left)

    def close(self) -> None:
        """Let go of the tables and of what is in memory."""
        self.tables.close()
        self._memory.forget()


def _identity_json(identity: Identity) -> dict[str, Any]:
    return {"name": identity.name, "dimension": identity.dimension, "digest": identity.digest}


def _where(column: str, values: Sequence[str] | None) -> str:
    # A list of thousands is slower to test row by row than to filter afterwards, which the callers do anyway.
    return "" if values is None or len(values) > 2000 else f"{column} IN {quoted(values)}" if values else "false"


def _no_vector(full: Any) -> list[str]:
    return list(full.names)


def _experiences(state: State, table: Sequence[Mapping[str, Any]]) -> dict[str, Experience]:
    found = {}
    for row in table:
        visible = state.experiences.get(row["key"])
        if visible is not None and visible.txn == row["txn"]:
            found[row["key"]] = rows.experience_of(row, visible.added)
    return found


def _visible(state: State, row: Mapping[str, Any]) -> bool:
    found = state.items.get(row["id"])
    return found is not None and found.txn == row["txn"]


def _items(state: State, table: Sequence[Mapping[str, Any]]) -> list[MemoryItem]:
    found = {row["id"]: rows.item_of(row, state.items[row["id"]]) for row in table if _visible(state, row)}
    return sorted(found.values(), key=lambda i: (i.added, i.id))
