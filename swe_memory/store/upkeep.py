"""Keeping the tables quick and small without changing what the bank says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from swe_memory.store import schema
from swe_memory.store.tables import quoted, retrying

if TYPE_CHECKING:
    from swe_memory.store import Store

# 1,000 single-row writes made a query 28 times slower; optimizing took .7 s (NOTES).
OPTIMIZE_EVERY = 50
# Rows whose transaction was never committed may belong to a process that is still at work. No process works on one batch for a day.
ORPHAN_AGE = timedelta(days=1)
# Files of older table versions are kept so long: a reader that opened one reads on from it.
KEEP_VERSIONS = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """What :func:`optimize` did: rows of interrupted writes removed, and such rows left because they may still be in flight."""

    version: int
    tables: int
    orphans_removed: int
    orphans_kept: int


@dataclass(frozen=True, slots=True)
class Orphan:
    """Rows that a transaction wrote to ``table`` at ISO time ``at`` and never committed."""

    table: str
    txn: str
    at: str
    rows: int


def row_tables(store: Store) -> list[str]:
    """Names of the tables that hold rows of transactions, of all generations."""
    return [name for name in store.tables.names() if name not in (schema.COMMITS, schema.META)]


def orphans(store: Store) -> list[Orphan]:
    """Left behind by writes that were cut short, or of writes going on now; nobody sees them. Sorted."""
    # Rows first, the log second: a commit between the two readings must not make its rows look abandoned.
    counted: dict[tuple[str, str, str], int] = {}
    for name in row_tables(store):
        for row in store.tables.rows(name, columns=["txn", "at"]):
            counted[name, row["txn"], row["at"]] = counted.get((name, row["txn"], row["at"]), 0) + 1
    store.refresh()
    return [Orphan(table, txn, at, rows) for (table, txn, at), rows in sorted(counted.items()) if txn not in store.log.by_txn]


def optimize(store: Store, now: datetime) -> OptimizeReport:
    """Compact the files of every table, drop files of old versions, remove rows of writes that were cut short more than a day before ``now``, and
    generations of vectors that were replaced more than a day ago.

    Safe beside readers and writers, whatever their clocks say: nothing uncommitted is removed before a commit gives it up, after which its writer cannot
    commit it any more and writes it anew. LanceDB's conflicts are retried.

    Raises:
        BankError: the bank cannot be written.
    """
    found = orphans(store)
    unfinished = _old_unfinished(store, now)
    old = sorted({o.txn for o in found if _before(o.at, now - ORPHAN_AGE)} - store.log.abandoned)
    if old or unfinished - store.log.abandoned_generations:
        _abandon(store, old, sorted(unfinished), now)
    removed = kept = 0
    for orphan in found:
        if orphan.txn in store.log.abandoned:
            table = store.tables.table(orphan.table)
            retrying(f"cannot remove leftovers from {orphan.table}", lambda t=table, o=orphan: t.delete(f"txn IN {quoted([o.txn])}"))  # type: ignore[misc]
            removed += orphan.rows
        elif orphan.txn not in store.log.by_txn:
            kept += orphan.rows
    _drop_generations(store, now)
    names = store.tables.names()
    for name in names:
        table = store.tables.table(name)

        def run(table: object = table) -> None:
            # A handle that is behind does nothing at all.
            table.checkout_latest()  # type: ignore[attr-defined]
            table.optimize(cleanup_older_than=KEEP_VERSIONS)  # type: ignore[attr-defined]

        retrying(f"cannot optimize {name} of the bank {store.tables.uri}", run)
    return OptimizeReport(store.head, len(names), removed, kept)


def _abandon(store: Store, txns: list[str], generations: list[int], now: datetime) -> None:
    """Commit that these will never be committed. Those that were committed meanwhile are not affected (see :class:`~swe_memory.store.log.Log`)."""
    payload = {"txns": txns, "generations": generations}
    # Named after what it says: two processes that give up the same need one commit.
    name = "abandon-" + hashlib.sha256(json.dumps(payload).encode()).hexdigest()[:24]
    store.commit("abandon", payload, txn=name, session=name, at=now, generation=0)


def _old_unfinished(store: Store, now: datetime) -> set[int]:
    """Generations of vectors that were begun more than a day ago and never became the present one."""
    begun = {row["name"]: row["at"] for row in store.tables.rows(schema.META)}
    return {
        generation
        for generation in store.generations()
        if generation > store.log.state.generation and _before(begun.get(f"generation_{generation}"), now - ORPHAN_AGE)
    }


def _drop_generations(store: Store, now: datetime) -> None:
    """Remove vectors that nobody needs any more: replaced more than a day ago, or given up before they were finished."""
    present = store.log.state.generation
    switched = max((c.at for c in store.log.commits if c.kind == "reembed"), default=None)
    for generation in store.generations():
        replaced = generation < present and _before(switched, now - ORPHAN_AGE)
        if replaced or generation in store.log.abandoned_generations:
            store.tables.drop(schema.experiences_table(generation))
            store.tables.drop(schema.items_table(generation))


def _before(time: str | None, limit: datetime) -> bool:
    """Whether an ISO time of the bank is before ``limit``; one that cannot be read is not."""
    try:
        return datetime.fromisoformat(time or "") < limit
    except (ValueError, TypeError):
        return False
