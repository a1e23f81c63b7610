"""Looking after a bank: check, optimize, re-embed, undo, and corrections to single items. Every change is a commit; earlier versions stay readable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swe_memory.errors import BankError, UsageError
from swe_memory.intake import MAX_CONTENT, MAX_DESCRIPTION, Ready, embed, name, tidy, tidy_item
from swe_memory.records import MemoryItem
from swe_memory.store import LEARNING, UNDOABLE, Batch, GenerationChanged, Identity, Kind, NewItem, Store, taken_back
from swe_memory.store.upkeep import OptimizeReport, Orphan, orphans, row_tables
from swe_memory.store.upkeep import optimize as optimize_store
from swe_memory.store.workspace import Vectors, Workspace, identity_of

MAX_TITLE = 80
_COPY = 200  # transactions copied at a time when re-embedding


@dataclass(frozen=True, slots=True)
class CheckReport:
    """``problems`` need somebody; ``notes`` are harmless. ``orphans`` are rows that no commit covers: cut-short writes, or writes going on now."""

    ok: bool
    version: int
    experiences: int
    items: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    orphans: tuple[Orphan, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """One learning session: what its commits added, the versions they span, and whether it was taken back."""

    session: str
    kind: str
    experiences: int
    items: int
    first: int
    last: int
    at: str
    undone: bool


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What left the bank (negative: what came back). ``redo`` is the session to undo in order to take this undo back."""

    session: str
    experiences: int
    items: int
    redo: str


def check(store: Store) -> CheckReport:
    """Compare the log with the rows. Reads everything, changes nothing. Rows that cannot be read any more are a problem like others."""
    with store.tables.salvaging() as unreadable:
        for table in row_tables(store):
            store.tables.read_all(table)
        return _check(store, unreadable)


def _check(store: Store, unreadable: Mapping[str, int]) -> CheckReport:
    left = orphans(store)
    state = store.state()
    problems = [f"the table {name} is damaged: {count or 'all'} rows cannot be read" for name, count in sorted(unreadable.items())]
    advice = ["`swe-memory bank export` writes what can be read, to import into a new bank"] if problems else []
    notes = advice + [
        f"{o.rows} rows in {o.table} of transaction {o.txn[:12]} (written {o.at}) were never committed: a write was cut short, or is going on"
        for o in left
    ]
    if left:
        notes.append("such rows are seen by nobody; `swe-memory bank optimize` removes them once they are a day old")
    for kind, wanted, seen, bad in (
        ("experience", {(f.txn, key) for key, f in state.experiences.items()}, *_rows(store, store.experiences_table(), "key")),
        ("item", {(f.txn, key) for key, f in state.items.items()}, *_rows(store, store.items_table(), "id")),
    ):
        problems += [
            f"the {kind} {key} is in the log (transaction {txn[:12]}), but its row is lost" for txn, key in sorted(wanted - seen.keys())
        ]
        problems += [
            f"the {kind} {key} has {seen[txn, key]} rows of transaction {txn[:12]}"
            for txn, key in sorted(wanted & seen.keys())
            if seen[txn, key] > 1
        ]
        problems += [f"the vector of the {kind} {key} is not of length 1" for txn, key in sorted(wanted & bad["length"])]
        missing = len(wanted & bad["missing"])
        if missing and state.identity.dimension:
            notes.append(f"{missing} {kind}s have no vector and are found by full text and paths only; `swe-memory bank reembed` adds them")
    problems += [
        f"the item {key} belongs to the experience {item.experience}, which is not in the bank"
        for key, item in sorted(state.items.items())
        if item.experience not in state.experiences
    ]
    if any("row is lost" in problem for problem in problems):
        notes.append(
            "what is lost is left out of recalls; learning the same attempt again, or importing an export that has it, brings it back"
        )
    unfinished = [g for g in store.generations() if g > state.generation]
    if unfinished:
        notes.append(
            f"an unfinished re-embedding left {len(unfinished)} generation of vectors; `swe-memory bank optimize` removes it after a day"
        )
    if not state.identity.dimension:
        notes.append("the bank has no vectors: recall works on full text and paths; `swe-memory bank reembed` adds them")
    return CheckReport(not problems, state.seq, len(state.experiences), len(state.items), tuple(problems), tuple(notes), tuple(left))


def _rows(store: Store, table: str, column: str) -> tuple[dict[tuple[str, str], int], dict[str, set[tuple[str, str]]]]:
    import numpy as np

    dimension = store.identity.dimension
    found = store.tables.read(table, columns=["txn", column, *(["vector"] if dimension else [])])
    pairs = list(zip(found["txn"].to_pylist(), found[column].to_pylist(), strict=True))
    counts: dict[tuple[str, str], int] = {}
    for pair in pairs:
        counts[pair] = counts.get(pair, 0) + 1
    bad: dict[str, set[tuple[str, str]]] = {"length": set(), "missing": set()}
    if dimension:
        for pair, vector in zip(pairs, found["vector"], strict=True):
            values = vector.values
            if values is None:
                bad["missing"].add(pair)
            elif not abs(float(np.linalg.norm(values.to_numpy(zero_copy_only=False))) - 1.0) < 1e-3:  # also true for NaN
                bad["length"].add(pair)
    return counts, bad


def optimize(workspace: Workspace) -> OptimizeReport:
    """Compact files, drop old ones, remove what was cut short more than a day ago. See :mod:`swe_memory.store.upkeep`."""
    workspace.check_writable()
    return optimize_store(workspace.store, workspace.clock())


def sessions(store: Store) -> tuple[Session, ...]:
    """Learning sessions, oldest first. Counts are of what the session brought, superseded since or not."""
    store.refresh()
    commits = store.log.commits
    gone = taken_back(commits)
    found: dict[str, Session] = {}
    for commit in commits:
        if commit.kind not in LEARNING:
            continue
        entries = commit.payload["experiences"]
        new = Session(
            commit.session,
            commit.kind,
            len(entries),
            sum(len(e["items"]) for e in entries),
            commit.seq,
            commit.seq,
            commit.at,
            commit.seq in gone,
        )
        old = found.get(commit.session)
        if old is not None:
            new = replace(
                new,
                experiences=old.experiences + new.experiences,
                items=old.items + new.items,
                first=old.first,
                at=old.at,
                undone=old.undone and new.undone,
            )
        found[commit.session] = new
    return tuple(sorted(found.values(), key=lambda s: s.first))


def undo(workspace: Workspace, session: str | None = None) -> UndoReport:
    """Take back everything that ``session`` did (None: the last learning session that is not taken back): the bank becomes what it would be without.

    Earlier versions still show it. The session of an undo can be undone in turn.

    Raises:
        UsageError: no such session, or nothing of it is left to take back.
    """
    workspace.check_writable()
    store = workspace.store
    before = store.state()
    if session is None:
        open_sessions = [s for s in sessions(store) if not s.undone]
        if not open_sessions:
            raise UsageError(f"there is no learning session to take back in {store.tables.uri}", "See `swe-memory bank undo --list`.")
        session = open_sessions[-1].session
    session = name(session)  # as it is stored
    gone = taken_back(store.log.commits)
    targets = [c.seq for c in store.log.commits if c.session == session and c.kind in UNDOABLE and c.seq not in gone]
    if not targets:
        kinds = {c.kind for c in store.log.commits if c.session == session}
        what = "is taken back already" if kinds & set(UNDOABLE) else "holds nothing to take back" if kinds else "is not in the bank"
        raise UsageError(f"the session {session} {what}", "See `swe-memory bank undo --list`.")
    counts = (len(before.experiences), len(before.items))
    redo = workspace.fresh_id()
    version = _commit(workspace, "undo", {"session": session, "commits": targets}, redo)
    after = store.state(version)
    return UndoReport(session, counts[0] - len(after.experiences), counts[1] - len(after.items), redo)


def _commit(workspace: Workspace, kind: Kind, payload: Mapping[str, Any], session: str | None = None) -> int:
    """A commit without rows."""
    store, txn = workspace.store, workspace.fresh_id()
    while True:
        try:
            generation = store.state().generation
            return store.commit(kind, payload, txn=txn, session=session or txn, at=workspace.clock(), generation=generation)
        except GenerationChanged:
            continue


def find(store: Store, item_id: str, at: int | None = None) -> MemoryItem:
    """The item with this id, or with an id that begins so and no other does.

    Raises:
        UsageError: there is none, or several.
    """
    state = store.state(at)
    ids = [item_id] if item_id in state.items else sorted(i for i in state.items if item_id and i.startswith(item_id))
    if not ids:
        raise UsageError(f"there is no item {item_id!r} in {store.tables.uri}", "See `swe-memory items list --status all`.")
    if len(ids) > 1:
        raise UsageError(f"{len(ids)} items begin with {item_id!r}: {', '.join(ids[:4])}", "Give more digits.")
    found = store.items(state.seq, ids)
    if not found:
        raise BankError(f"the bank {store.tables.uri} lost the item {ids[0]}", "Run `swe-memory bank check` on it.")
    return found[0]


def retire(workspace: Workspace, item_id: str, note: str = "") -> MemoryItem:
    """Never recall the item again. Harmless when it is retired already. Raises UsageError where there is no such item."""
    workspace.check_writable()
    item = find(workspace.store, item_id)
    if item.status != "retired":
        _commit(workspace, "retire", {"ids": [item.id], "note": tidy(note, 500)})
    return find(workspace.store, item.id)


def restore(workspace: Workspace, item_id: str) -> MemoryItem:
    """Make a retired or quarantined item active again: for a quarantined one, the caller's word that it is harmless."""
    workspace.check_writable()
    item = find(workspace.store, item_id)
    if item.status != "active":
        _commit(workspace, "restore", {"ids": [item.id]})
    return find(workspace.store, item.id)


def edit(
    workspace: Workspace, item_id: str, *, title: str | None = None, description: str | None = None, content: str | None = None
) -> MemoryItem:
    """Change an item's words. Provenance, id and statistics stay; the new text is redacted, checked and embedded like any other.

    A text that gives orders is quarantined; a quarantined item whose new text is harmless becomes active; a retired one stays retired.

    Raises:
        UsageError: no such item, an empty title or content, or a part too long.
        BankError: the item left the bank meanwhile.
    """
    workspace.check_writable()
    workspace.check_embedder()
    store = workspace.store
    old = find(store, item_id)
    new = replace(
        old,
        title=old.title if title is None else title,
        description=old.description if description is None else description,
        content=old.content if content is None else content,
        status="retired" if old.status == "retired" else "active",
        note=old.note if old.status == "retired" else "",
    )
    for part, text, limit in (
        ("title", new.title, MAX_TITLE),
        ("description", new.description, MAX_DESCRIPTION),
        ("content", new.content, MAX_CONTENT),
    ):
        if len(text) > limit:
            raise UsageError(f"the {part} has {len(text)} characters", f"At most {limit} are kept; say it shorter.")
        if not text.strip() and part != "description":
            raise UsageError(f"an item without a {part} says nothing", "To remove an item: `swe-memory items rm ID`.")
    if (new.title, new.description, new.content) == (old.title, old.description, old.content):
        return old
    new = tidy_item(new)
    if old.status == "retired":
        new = replace(new, status="retired")
    while True:
        generation = store.state().generation
        workspace.check_embedder()
        vector = None if workspace.embedder is None else workspace.embedder.documents([new.text])[0]
        txn = workspace.fresh_id()
        try:
            version = store.learn(
                "edit", Batch(items=(NewItem(new, vector),)), txn=txn, session=txn, at=workspace.clock(), generation=generation
            )
        except GenerationChanged:
            continue
        state = store.state(version).items.get(old.id)
        if state is None or state.txn != txn:
            raise BankError(
                f"the item {old.id} left the bank while it was edited", "What it was learned from was superseded or taken back."
            )
        return find(store, old.id)


def reembed(workspace: Workspace, embedder: Vectors | None, progress: Callable[[int, int], None] | None = None) -> Identity:
    """Compute every vector of every version again, with ``embedder`` (None: a bank without vectors), and switch to them with one commit.

    Until that commit the bank is as it was; a kill leaves it so. Others may read and learn meanwhile: what they commit before the switch is copied
    too, what they commit after it they embed anew, or are refused where their embedder is another one. ``progress(done, all)`` counts transactions.

    Raises:
        BankError: another process re-embedded the bank meanwhile.
    """
    workspace.check_writable()
    store = workspace.store
    source = store.state().generation
    identity = identity_of(embedder)
    target = store.new_generation(identity, workspace.clock())
    copied: set[str] = set()
    txn = workspace.fresh_id()
    while True:
        head = store.refresh()
        if store.log.state.generation != source:
            raise BankError(
                f"another process re-embedded {store.tables.uri} at the same time", "See `swe-memory bank info`; run it again if needed."
            )
        todo = [c.txn for c in store.log.commits if c.txn not in copied]
        for start in range(0, len(todo), _COPY):
            part = todo[start : start + _COPY]
            _copy(store, part, source, target, embedder)
            copied.update(part)
            if progress is not None:
                progress(len(copied), len(store.log.commits))
        payload = {"generation": target, "embedder": {"name": identity.name, "dimension": identity.dimension, "digest": identity.digest}}
        if store.commit("reembed", payload, txn=txn, session=txn, at=workspace.clock(), generation=target, after=head) >= 0:
            workspace.embedder = embedder
            return identity


def _copy(store: Store, txns: Sequence[str], source: int, target: int, embedder: Vectors | None) -> None:
    experiences = store.raw_experiences(txns, source)
    made = embed([Ready(e.experience, e.text_hash) for _, _, e in experiences], embedder)
    items = store.raw_items(txns, source)
    texts = sorted({item.text for _, _, item in items if item.text})
    vectors = dict(zip(texts, embedder.documents(texts), strict=True)) if embedder is not None and texts else {}
    store.write_raw(
        target,
        [(txn, at, new) for (txn, at, _), new in zip(experiences, made, strict=True)],
        [(txn, at, NewItem(item, vectors.get(item.text))) for txn, at, item in items],
    )
