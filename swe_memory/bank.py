"""The memory bank: open, recall, learn, and everything that looks after it. A thin front; the work is done in the rooms it names.

::

    with MemoryBank.open("memory.lance") as bank:
        recall = bank.recall(issue)
        ...
        bank.learn(issue, trajectory, Verdict.from_tests(resolved=True), recall=recall)
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.records import (
    Attempt,
    Experience,
    Extractor,
    Issue,
    ItemStatus,
    Learned,
    MemoryItem,
    Recall,
    Trajectory,
    Use,
    Verdict,
)
from swe_memory.store import Guard, Hit, Identity, Store
from swe_memory.store.schema import SCHEMA_VERSION
from swe_memory.store.workspace import Vectors, Workspace, identity_of, mismatch

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from swe_memory.differences import DiffReport
    from swe_memory.learning import LearnReport
    from swe_memory.maintenance import CheckReport, Session, UndoReport
    from swe_memory.ranking import RankingSettings
    from swe_memory.store.upkeep import OptimizeReport
    from swe_memory.transfer import ExportReport, ImportReport

# How many experiences each list of the search gives to the ranking; more only where its guards leave none.
CANDIDATES = 50


def utc_now() -> datetime:
    """The time, timezone-aware."""
    return datetime.now(UTC)


def _by_name(identity: Identity) -> tuple[Vectors | None, str]:
    """The embedder that a bank was built with, or None and why it is not to be had here."""
    from swe_memory.embed import open_embedder

    if not identity.dimension:
        return None, "the bank was made without an embedder"
    try:
        return open_embedder(identity.name), ""
    except SweMemoryError as error:
        return None, error.what


def random_id() -> str:
    """32 random hex digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class BankInfo:
    """What a bank holds. ``schema`` is the layout version; the counts are of what is visible at ``version``."""

    version: int
    schema: int
    embedder: Identity
    experiences: int
    items: dict[str, int]
    repositories: dict[str, int]
    outcomes: dict[str, int]
    polarity: dict[str, int]
    reach: dict[str, int]
    uses: int
    sessions: tuple[Session, ...]


class MemoryBank:
    """One open bank. Use :meth:`open`. Several threads may share it; several processes may each open the same bank, also for writing."""

    def __init__(self, workspace: Workspace, warnings: tuple[str, ...] = ()) -> None:
        self._workspace = workspace
        self._session: str | None = None
        self.warnings = warnings

    @classmethod
    def open(
        cls,
        uri: str | Path,
        *,
        embedder: Vectors | Literal["auto"] | None = "auto",
        create: bool = True,
        read_only: bool = False,
        any_embedder: bool = False,
        clock: Callable[[], datetime] = utc_now,
        new_id: Callable[[], str] = random_id,
    ) -> MemoryBank:
        """Open the bank at ``uri``: a folder, or an object store's address; it is made where there is none and ``create`` is true.

        ``embedder``: "auto" takes the one the bank was built with, and for a new bank the bundled one if it is installed; None works without vectors (full
        text and paths; what is learned gets its vectors by :meth:`reembed`). ``any_embedder`` opens a bank whose embedder is not to be had, in order to
        re-embed it. ``read_only`` never writes anything. ``clock`` and ``new_id`` are where times and random names come from. ``warnings`` of the opened
        bank say what works less well than it could.

        Raises:
            UsageError: the path is a file, or a folder with other things in it.
            EmbedderMismatch: the bank was built with another embedder than the one given or installed.
            BankError: no bank there and none to be made, a newer layout, or no permission.
        """
        from swe_memory import embed

        warnings: list[str] = []
        chosen = embedder if embedder != "auto" else None if any_embedder else embed.default_embedder()
        store = Store.open(uri, identity=identity_of(chosen), at=clock(), txn=new_id(), create=create, read_only=read_only)
        kept, installed = store.identity, chosen
        if any_embedder:
            return cls(Workspace(store, chosen, clock, new_id))
        why = "no embedder was given"
        if embedder == "auto":
            why = embed.embedder_problem()
            if kept != identity_of(installed):
                chosen, why = _by_name(kept)
        if chosen is not None:
            mismatch(str(uri), kept, identity_of(chosen))
        elif kept.dimension:
            warnings.append(f"recall works on full text and paths only: the bank has vectors of {kept.name}, but {why}")
        elif installed is not None:
            warnings.append(f"the bank has no vectors; `swe-memory bank reembed --bank {uri}` adds those of {installed.name}")
        elif embedder == "auto":
            warnings.append(f"recall works on full text and paths only: {why}")
        return cls(Workspace(store, chosen, clock, new_id), tuple(warnings))

    def close(self) -> None:
        """Let go of the bank's files and memory."""
        self._workspace.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- the two calls ---------------------------------------------------------------------------------------------------------------------

    def recall(self, issue: Issue, *, at: int | None = None, settings: RankingSettings | None = None, explain: bool = False) -> Recall:
        """The one item that matters for ``issue`` (or none), with the prompt block to append to a system prompt ("" for none).

        Never anything learned from the issue itself (DESIGN rule 1). ``at``: the bank as it was at that version; the same version, issue and settings
        give the same recall for ever, ids of what is returned included. ``explain`` fills ``candidates``, with what each guard removed.

        Raises:
            UsageError: an empty text, a version that is not there, or ``before=True`` for an issue without a creation time.
        """
        from swe_memory import intake, ranking
        from swe_memory.render import render

        if not isinstance(issue, Issue):
            raise TypeError(f"recall takes an Issue, not {type(issue).__name__}: Issue(id=..., repo=..., text=...)")
        settings = settings or ranking.RankingSettings()
        if not issue.text.strip():
            raise UsageError(
                f"the issue {issue.id or '(no id)'} has no text, so there is nothing to compare with", "Give its title and description."
            )
        store, embedder = self._workspace.store, self._workspace.embedder
        head = store.refresh()
        version = store.state(head if at is None else at).seq
        vector = None
        if embedder is not None and store.identity.dimension:
            self._workspace.check_embedder()  # another process may have re-embedded the bank since it was opened
            vector = intake.query_vector(issue, embedder)
        guard = self._guard(issue, settings)
        terms = ranking.query_terms(issue)
        found = ranking.find(
            issue,
            lambda limit: store.search(vector=vector, terms=terms, text=issue.text, guard=guard, at=version, limit=limit, explain=explain),
            lambda keys: store.items_of(keys, version),
            settings,
            vector=vector,
            explain=explain,
        )
        reasons = list(found.reasons)
        if vector is None:
            reasons.append("without vectors: by full text and edited paths only")
        if explain:
            reasons += [
                f"the guard `{name}` removes {count} of the bank's experiences" for name, count in store.removed(guard, version).items()
            ]
        items = found.items
        return Recall(
            issue_id=issue.id,
            item=items[0] if items else None,
            score=found.score if items else 0.0,
            bank_version=version,
            reasons=tuple(reasons),
            prompt=render(items) if items else "",
            items=items,
            candidates=found.candidates if explain else (),
            settings=settings.describe(),
        )

    def learn(
        self,
        issue: Issue,
        trajectory: Trajectory,
        verdict: Verdict,
        *,
        extractor: Extractor | None = None,
        recall: Recall | None = None,
        session: str | None = None,
        source: str = "",
    ) -> Learned:
        """Learn from one attempt; when it returns, what was learned is durable. See :func:`swe_memory.learning.learn`.

        ``session`` names what :meth:`undo` takes back together; without one, all that this opened bank learns is one session.
        """
        from swe_memory.learning import learn

        if session is None:
            session = self._session = self._session or self._workspace.fresh_id()
        return learn(self._workspace, Attempt(issue, trajectory, verdict, source), extractor=extractor, recall=recall, session=session)

    def learn_many(
        self,
        attempts: Iterable[Attempt | Callable[[], Attempt]],
        *,
        extractor: Extractor | None = None,
        session: str | None = None,
        progress: Callable[[Learned], None] | None = None,
    ) -> LearnReport:
        """Learn from many attempts, 25 in one commit. See :func:`swe_memory.learning.learn_many`."""
        from swe_memory.learning import learn_many

        return learn_many(self._workspace, attempts, extractor=extractor, session=session, progress=progress)

    # -- looking ---------------------------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The newest bank version, commits of other processes included. 0 for a new bank."""
        return self._workspace.store.refresh()

    @property
    def embedder(self) -> Vectors | None:
        """What turns texts into vectors; None where recall works on full text and paths only."""
        return self._workspace.embedder

    def search(self, issue: Issue, *, at: int | None = None, settings: RankingSettings | None = None, limit: int = CANDIDATES) -> list[Hit]:
        """The candidates that :meth:`recall` chooses from, with their scores."""
        from swe_memory import intake, ranking

        store, embedder = self._workspace.store, self._workspace.embedder
        guard = self._guard(issue, settings or ranking.RankingSettings())
        vector = intake.query_vector(issue, embedder) if embedder is not None and store.identity.dimension else None
        return store.search(vector=vector, terms=ranking.query_terms(issue), text=issue.text, guard=guard, at=at, limit=limit)

    def allowed(
        self, issues: Sequence[Issue], *, at: int | None = None, settings: RankingSettings | None = None
    ) -> dict[str, frozenset[str]]:
        """For each issue, by its id, the ids of the active items that it may be given: all that the guards leave, whatever the scores. A recall with these
        ``settings`` chooses among them. See :func:`swe_memory.ranking.allowed`; raises UsageError as :meth:`recall` does.
        """
        from swe_memory import ranking

        store, chosen = self._workspace.store, settings or ranking.RankingSettings()
        version = store.state(at).seq
        experiences, items = store.experiences(version), store.items(version)
        return ranking.allowed(issues, experiences, items, lambda issue: store.unguarded(self._guard(issue, chosen), version), chosen)

    def info(self) -> BankInfo:
        """Counts of what the bank holds now."""
        from swe_memory.maintenance import sessions

        store = self._workspace.store
        state = store.state()
        experiences, items = store.experiences(state.seq), store.items(state.seq)
        active = [item for item in items if item.status == "active"]

        def count(values: Iterable[str]) -> dict[str, int]:
            return dict(sorted(Counter(values).items()))

        return BankInfo(
            version=state.seq,
            schema=SCHEMA_VERSION,
            embedder=state.identity,
            experiences=len(experiences),
            items={status: sum(item.status == status for item in items) for status in ("active", "quarantined", "retired")},
            repositories=count(e.issue.repo for e in experiences),
            outcomes=count(e.verdict.outcome for e in experiences),
            polarity=count(item.polarity for item in active),
            reach=count(item.reach for item in active),
            uses=len(store.uses(state.seq)),
            sessions=sessions(store),
        )

    def items(
        self, *, at: int | None = None, status: ItemStatus | None = None, repo: str | None = None, limit: int | None = None
    ) -> list[MemoryItem]:
        """Items, newest first: of any status, or only of one; learned in any repository, or only in ``repo``."""
        found = sorted(self._workspace.store.items(at), key=lambda item: (-item.added, item.id))
        chosen = [item for item in found if (status is None or item.status == status) and (repo is None or item.repo == repo)]
        return chosen if limit is None else chosen[:limit]

    def item(self, item_id: str, *, at: int | None = None) -> MemoryItem:
        """The item with this id, or the only one whose id begins so. Raises UsageError where there is none, or several."""
        from swe_memory.maintenance import find

        return find(self._workspace.store, item_id, at)

    def experiences(self, *, at: int | None = None) -> list[Experience]:
        """Everything that memory was distilled from, in the order it was added."""
        return self._workspace.store.experiences(at)

    def uses(self, *, item_id: str | None = None, at: int | None = None) -> list[Use]:
        """Which attempts ran with which item, and how they ended; only those of one item if given."""
        return [use for use in self._workspace.store.uses(at) if item_id is None or use.item_id == item_id]

    def sessions(self) -> tuple[Session, ...]:
        """Learning sessions, oldest first."""
        from swe_memory.maintenance import sessions

        return sessions(self._workspace.store)

    # -- looking after ---------------------------------------------------------------------------------------------------------------------

    def edit(self, item_id: str, *, title: str | None = None, description: str | None = None, content: str | None = None) -> MemoryItem:
        """Change an item's words. See :func:`swe_memory.maintenance.edit`."""
        from swe_memory.maintenance import edit

        return edit(self._workspace, item_id, title=title, description=description, content=content)

    def retire(self, item_id: str, note: str = "") -> MemoryItem:
        """Never recall an item again."""
        from swe_memory.maintenance import retire

        return retire(self._workspace, item_id, note)

    def restore(self, item_id: str) -> MemoryItem:
        """Make a retired or quarantined item active again."""
        from swe_memory.maintenance import restore

        return restore(self._workspace, item_id)

    def undo(self, session: str | None = None) -> UndoReport:
        """Take back one learning session, the last if none is named. See :func:`swe_memory.maintenance.undo`."""
        from swe_memory.maintenance import undo

        return undo(self._workspace, session)

    def check(self) -> CheckReport:
        """Look for anything wrong; changes nothing."""
        from swe_memory.maintenance import check

        return check(self._workspace.store)

    def optimize(self) -> OptimizeReport:
        """Compact files and remove what cut-short writes left; happens by itself about every 50 commits."""
        from swe_memory.maintenance import optimize

        return optimize(self._workspace)

    def reembed(self, embedder: Vectors | None, progress: Callable[[int, int], None] | None = None) -> Identity:
        """Compute every vector again with another embedder. See :func:`swe_memory.maintenance.reembed`."""
        from swe_memory.maintenance import reembed

        return reembed(self._workspace, embedder, progress)

    def export(self, path: str | Path) -> ExportReport:
        """Write everything visible to a JSONL file. See :func:`swe_memory.transfer.export`."""
        from swe_memory.transfer import export

        return export(self._workspace.store, Path(path))

    def import_(self, path: str | Path, *, session: str | None = None) -> ImportReport:
        """Read an export. See :func:`swe_memory.transfer.import_`."""
        from swe_memory.transfer import import_

        return import_(self._workspace, Path(path), session=session)

    def merge(self, other: MemoryBank, *, session: str | None = None) -> ImportReport:
        """Take over what another bank holds and this one does not: the same as importing its export."""
        from swe_memory.transfer import merge

        return merge(self._workspace, other._workspace.store, session=session)

    def diff(self, other: MemoryBank) -> DiffReport:
        """What this bank and another hold differently. See :func:`swe_memory.differences.diff`."""
        from swe_memory.differences import diff

        return diff(self._workspace.store, other._workspace.store)

    # -- inside ----------------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _guard(issue: Issue, settings: RankingSettings) -> Guard:
        from swe_memory import intake

        return Guard(
            issue_id=intake.name(issue.id),
            repo=intake.name(issue.repo),
            text_hash=intake.text_hash(issue.text),
            other_repos=settings.other_repos,
            before=intake.utc(settings.before_time(issue)),
        )
