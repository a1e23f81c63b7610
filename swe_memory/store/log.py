"""The log of commits and what it adds up to.

Nothing in a bank is ever changed in place. A commit says what became visible, was retired, edited or taken back; the state of the bank at a
version is a pure fold over the commits up to it. When two processes learned the same attempt at once, both wrote rows, and the fold lets the
first commit win: a duplicate is never visible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from swe_memory.records import ItemStatus

Kind = Literal["create", "learn", "import", "use", "retire", "restore", "edit", "undo", "reembed", "abandon"]

# What `undo` can take back. Creating a bank, re-embedding it and giving up what was never committed are not lessons.
UNDOABLE = ("learn", "import", "use", "retire", "restore", "edit", "undo")
# What counts as a learning session when none is named.
LEARNING = ("learn", "import")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which embedder made the vectors of a bank. ``Identity()`` stands for none."""

    name: str = "none"
    dimension: int = 0
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} dimensions, {self.digest[:12] or 'no digest'})" if self.dimension else "no embedder"


@dataclass(frozen=True, slots=True)
class Commit:
    """One line of the log: version ``seq``, made by transaction ``txn`` in ``session`` at ISO time ``at``."""

    seq: int
    txn: str
    session: str
    kind: Kind
    payload: Mapping[str, Any]
    at: str

    def row(self) -> dict[str, object]:
        payload = json.dumps(self.payload, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return {"seq": self.seq, "txn": self.txn, "session": self.session, "kind": self.kind, "payload": payload, "at": self.at}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Commit:
        kind = cast(Kind, row["kind"])
        return cls(int(row["seq"]), row["txn"], row["session"] or "", kind, json.loads(row["payload"] or "{}"), row["at"] or "")


@dataclass(frozen=True, slots=True)
class ExperienceState:
    """Which row of an experience is visible, and what it was learned as."""

    txn: str
    added: int
    outcome: str
    verdict_source: str
    extractor: str
    items: tuple[str, ...] = ()

    def same_lesson(self, entry: Mapping[str, Any]) -> bool:
        """Whether learning ``entry`` again would say nothing new."""
        return (self.outcome, self.verdict_source, self.extractor) == (entry["outcome"], entry["verdict_source"], entry["extractor"])


@dataclass(frozen=True, slots=True)
class ItemState:
    """Which row of an item is visible, and its status. ``note`` None: the row's own note counts."""

    txn: str
    experience: str
    added: int
    status: ItemStatus
    retired: int | None = None
    note: str | None = None


@dataclass(slots=True)
class State:
    """The bank at one version. ``txns`` maps each transaction that counts to its version."""

    seq: int = -1
    generation: int = 1
    identity: Identity = Identity()
    experiences: dict[str, ExperienceState] = field(default_factory=dict)
    items: dict[str, ItemState] = field(default_factory=dict)
    txns: dict[str, int] = field(default_factory=dict)

    def apply(self, commit: Commit) -> None:
        """Advance by one commit that was not taken back."""
        self.txns[commit.txn] = commit.seq
        payload = commit.payload
        if commit.kind in ("create", "reembed"):
            self.generation = int(payload["generation"])
            self.identity = Identity(**payload["embedder"])
        elif commit.kind in ("learn", "import"):
            for entry in payload["experiences"]:
                self._learn(commit, entry)
        elif commit.kind == "edit":
            for entry in payload["items"]:
                old = self.items.get(entry["id"])
                if old is not None:
                    retired = old.retired if entry["status"] == "retired" else None
                    self.items[entry["id"]] = replace(old, txn=commit.txn, status=entry["status"], retired=retired, note=None)
        elif commit.kind == "retire":
            for item in payload["ids"]:
                if item in self.items:
                    self.items[item] = replace(self.items[item], status="retired", retired=commit.seq, note=payload.get("note", ""))
        elif commit.kind == "restore":
            for item in payload["ids"]:
                if item in self.items:
                    self.items[item] = replace(self.items[item], status="active", retired=None, note="")

    def _learn(self, commit: Commit, entry: Mapping[str, Any]) -> None:
        old = self.experiences.get(entry["key"])
        kept: dict[str, ItemState] = {}
        if old is not None:
            before = {item: self.items[item] for item in old.items if item in self.items}
            lost = set(entry.get("lost", ()))
            if lost.isdisjoint({old.txn, *(item.txn for item in before.values())}):
                if commit.kind == "import" or old.same_lesson(entry):
                    return  # what is there is left alone; of two processes that learned it at once, the first counts
            else:
                # Rows were lost, and these replace them. What a user did to an item stays: an edit that is still there, retiring, restoring.
                for item, state in before.items():
                    if state.txn not in lost:
                        kept[item] = state
                    elif state.note is not None:
                        kept[item] = replace(state, txn=commit.txn)
            for item in before:
                del self.items[item]
        ids = tuple(item["id"] for item in entry["items"])
        self.experiences[entry["key"]] = ExperienceState(
            commit.txn, commit.seq, entry["outcome"], entry["verdict_source"], entry["extractor"], ids
        )
        for item in entry["items"]:
            retired = commit.seq if item["status"] == "retired" else None
            made = ItemState(commit.txn, entry["key"], commit.seq, item["status"], retired)
            self.items[item["id"]] = kept.get(item["id"], made)


def taken_back(commits: Sequence[Commit]) -> frozenset[int]:
    """Versions that an undo removed. Read backwards, so that an undo which was itself undone removes nothing."""
    gone: set[int] = set()
    for commit in reversed(commits):
        if commit.kind == "undo" and commit.seq not in gone:
            gone.update(commit.payload["commits"])
    return frozenset(gone)


def fold(commits: Iterable[Commit]) -> State:
    """The state after ``commits`` (in order of ``seq``)."""
    commits = list(commits)
    gone = taken_back(commits)
    state = State()
    for commit in commits:
        if commit.seq not in gone:
            state.apply(commit)
        state.seq = commit.seq
    return state


class Log:
    """All commits seen so far, the state at the head kept up to date, and a small memory of states asked for by version."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.by_txn: dict[str, Commit] = {}
        self.sessions: set[str] = set()
        # Given up before they were committed: their rows may be gone, so they can never be committed any more.
        self.abandoned: set[str] = set()
        self.abandoned_generations: set[int] = set()
        self._generations: set[int] = set()
        self.state = State()
        self._past: dict[int, State] = {}

    @property
    def head(self) -> int:
        """The last version, -1 for an empty log."""
        return self.commits[-1].seq if self.commits else -1

    def extend(self, commits: Sequence[Commit]) -> None:
        """Take in what other processes (or this one) committed since."""
        for commit in sorted(commits, key=lambda c: c.seq):
            if commit.seq != self.head + 1:
                raise ValueError(f"commit {commit.seq} follows {self.head}")
            self.commits.append(commit)
            self.by_txn[commit.txn] = commit
            self.sessions.add(commit.session)
            if commit.kind in ("create", "reembed"):
                self._generations.add(int(commit.payload["generation"]))
            elif commit.kind == "abandon":
                # What was committed before its abandonment stands: the abandonment came too late.
                self.abandoned.update(txn for txn in commit.payload["txns"] if txn not in self.by_txn)
                self.abandoned_generations.update(set(commit.payload["generations"]) - self._generations)
        if any(commit.kind == "undo" for commit in commits):
            self.state = fold(self.commits)
            return
        if self.state.seq == self.head:
            return
        # A copy: whoever holds the old state (another thread, a run of learning) goes on with it.
        old = self.state
        state = State(old.seq, old.generation, old.identity, dict(old.experiences), dict(old.items), dict(old.txns))
        for commit in self.commits[old.seq + 1 :]:
            state.apply(commit)
            state.seq = commit.seq
        self.state = state

    def at(self, seq: int | None) -> State:
        """The state at version ``seq`` (None: the head). The caller has checked the range."""
        if seq is None or seq == self.head:
            return self.state
        if seq not in self._past:
            if len(self._past) >= 4:
                self._past.pop(next(iter(self._past)))
            state = fold(self.commits[: seq + 1])
            # Vectors always come from the present generation: it holds the rows of every version.
            state.generation, state.identity = self.state.generation, self.state.identity
            self._past[seq] = state
        state = self._past[seq]
        state.generation, state.identity = self.state.generation, self.state.identity
        return state
