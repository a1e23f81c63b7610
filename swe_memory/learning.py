"""From attempts to what the bank remembers: digest, extract, validate, check, embed, commit.

Idempotent: an attempt is known by its content, and learning it again with the same verdict and extractor does nothing. A changed verdict, or another
extractor, supersedes what was learned from it before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from swe_memory.errors import BankError, SweMemoryError, UsageError
from swe_memory.intake import Ready, embed, item_id, name, text_hash, tidy, tidy_issue, tidy_item
from swe_memory.records import (
    Attempt,
    Experience,
    Extraction,
    Extractor,
    Issue,
    ItemDraft,
    Learned,
    MemoryItem,
    Provenance,
    Recall,
    Rejection,
    Usage,
    Use,
)
from swe_memory.store import Batch, GenerationChanged, Kind
from swe_memory.store.log import State
from swe_memory.store.workspace import Workspace

# One commit for so many attempts: a commit costs some 60 ms when several processes learn, an attempt by rules less.
BATCH = 25
_MAX_PATHS = 200
_MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that could not be read or learned, and why. Nothing of it is in the bank; learning it again later is safe."""

    source: str
    issue_id: str
    error: SweMemoryError

    @property
    def reason(self) -> str:
        """What happened and what to do, as text."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What :func:`learn_many` did. Iterating gives what was learned, in the order of the attempts.

    ``stopped`` says why the attempts after the last failure were not tried (a wrong key, a spent budget), "" where all were.
    """

    learned: tuple[Learned, ...] = ()
    failures: tuple[Failure, ...] = ()
    session: str = ""
    stopped: str = ""

    @property
    def usage(self) -> Usage:
        """What the extractor's language model consumed in all, questions that failed included. A judge's calls are its own."""
        spent = sum((learned.usage for learned in self.learned), Usage())
        return sum((getattr(failure.error, "usage", Usage()) for failure in self.failures), spent)

    def __iter__(self) -> Iterator[Learned]:
        return iter(self.learned)

    def __len__(self) -> int:
        return len(self.learned)


@dataclass(slots=True)
class _Prepared:
    """An attempt on its way: ``ready`` None means that there is nothing to store but ``uses``."""

    order: int
    outcome: Learned
    ready: Ready | None = None
    uses: tuple[Use, ...] = ()


@dataclass(slots=True)
class _Run:
    workspace: Workspace
    extractor: Extractor
    session: str
    state: State
    pending: list[_Prepared] = field(default_factory=list)
    done: list[tuple[int, Learned]] = field(default_factory=list)
    lost: dict[str, frozenset[str]] | None = None

    def lost_rows(self, key: str) -> frozenset[str]:
        """Transactions whose rows of this experience are lost. The tables are looked at once in a run, when something known is met."""
        if self.lost is None:
            self.lost = self.workspace.store.lost(self.state.seq)
        return self.lost.get(key, frozenset())


def learn_many(
    workspace: Workspace,
    attempts: Iterable[Attempt | Callable[[], Attempt]],
    *,
    extractor: Extractor | None = None,
    recall: Recall | None = None,
    session: str | None = None,
    progress: Callable[[Learned], None] | None = None,
    batch: int = BATCH,
) -> LearnReport:
    """Learn from attempts, ``batch`` of them in one commit; one that needed a language model is committed at once, for it cost money.

    An attempt may be given as a function that reads it: then one unreadable file becomes a :class:`Failure` instead of ending the run, and only a few
    are in memory at a time. ``progress`` is called for each attempt once what it taught is durable. Ctrl-C, like any error, commits what is ready
    before it goes on up.

    Raises:
        BankError: the bank cannot be written; what ``progress`` reported is in it.
        EmbedderMismatch: the bank was re-embedded with another model meanwhile.
    """
    workspace.check_writable()
    workspace.check_embedder()
    if extractor is None:
        from swe_memory.extract.rules import RulesExtractor

        extractor = RulesExtractor()
    state = workspace.store.state()
    run = _Run(workspace, extractor, name(session or "") or workspace.fresh_id(), state)
    failures: list[Failure] = []
    stopped = ""

    def flush() -> None:
        for learned in _commit(run):
            if progress is not None:
                progress(learned)

    try:
        for order, given in enumerate(attempts):
            attempt: Attempt | None = None
            try:
                attempt = given if isinstance(given, Attempt) else given()
                key = attempt.key
                if any(p.ready is not None and p.ready.experience.key == key for p in run.pending):
                    flush()  # the same attempt twice in one batch: the second must see the first
                run.pending.append(_prepare(run, order, attempt, recall))
            except (BankError, UsageError):
                raise
            except SweMemoryError as error:
                failures.append(Failure(attempt.source if attempt else "", attempt.issue.id if attempt else "", error))
                if getattr(error, "stop", False):
                    # A wrong key or a spent budget: every further attempt would fail the same way, one by one.
                    stopped = error.what
                    break
                continue
            if len(run.pending) >= batch or run.pending[-1].outcome.usage.calls:
                flush()
    except BaseException:
        # Ctrl-C or an error: what is ready is kept before it goes on up. A failed commit has emptied the list of what is pending.
        flush()
        raise
    flush()
    return LearnReport(tuple(learned for _, learned in sorted(run.done, key=lambda pair: pair[0])), tuple(failures), run.session, stopped)


def learn(
    workspace: Workspace, attempt: Attempt, *, extractor: Extractor | None = None, recall: Recall | None = None, session: str | None = None
) -> Learned:
    """Learn from one attempt. ``recall`` is what the attempt ran with: each of its items gets a use record with this outcome, also where the
    outcome is unknown and nothing is learned.

    Raises:
        UsageError: the issue has no id.
        ModelError: the extractor's model could not be asked; nothing was stored, try again later.
        BankError: the bank cannot be written.
    """
    report = learn_many(workspace, [attempt], extractor=extractor, recall=recall, session=session)
    if report.failures:
        raise report.failures[0].error
    return report.learned[0]


def _prepare(run: _Run, order: int, attempt: Attempt, recall: Recall | None) -> _Prepared:
    """Everything but embedding and committing."""
    verdict, key = attempt.verdict, attempt.key
    if not attempt.issue.id.strip():
        tidy_issue(attempt.issue)  # refuses it
    uses = _uses(run, attempt, key, recall)
    outcome = Learned(key, name(attempt.issue.id), "nothing", bank_version=run.state.seq)
    if verdict.outcome == "unknown":
        return _Prepared(order, replace(outcome, reason=_reason("its outcome is unknown", verdict.reason)), uses=uses)
    # Looked up as of the last commit of this run. What others learned since is found by the commit, which lets the first one count.
    known = run.state.experiences.get(key)
    lesson = {"outcome": verdict.outcome, "verdict_source": verdict.source, "extractor": run.extractor.name}
    if known is not None and known.same_lesson(lesson):
        if not run.lost_rows(key):
            return _Prepared(order, replace(outcome, status="already"), uses=uses)
        known = None  # the log knows it, but its rows are gone: learned anew
    from swe_memory.extract.outgoing import redacted

    issue = tidy_issue(attempt.issue)
    # Items and digest are made of pieces of the attempt: secrets go before it is cut into pieces.
    shown = redacted(attempt)
    extraction = run.extractor.extract(shown)
    if not extraction.usable:
        # Not stored, so that it does not count as known: the next run asks again.
        why = _why_nothing(run.extractor.name, extraction, extraction.rejected)
        return _Prepared(order, replace(outcome, rejected=extraction.rejected, usage=extraction.usage, reason=why), uses=uses)
    items, rejected = _items(run, attempt, key, issue.repo, extraction)
    outcome = replace(
        outcome,
        status="nothing" if not items else "superseded" if known is not None else "learned",
        items=tuple(i for i in items if i.status == "active"),
        quarantined=_quarantined(items),
        rejected=rejected,
        usage=extraction.usage,
        reason="" if items else _why_nothing(run.extractor.name, extraction, rejected),
    )
    return _Prepared(order, outcome, Ready(_experience(run, shown, attempt, issue, key), text_hash(attempt.issue.text), items), uses)


def _why_nothing(extractor: str, extraction: Extraction, rejected: Sequence[Rejection]) -> str:
    """Why an attempt with a verdict gave no item, as :attr:`Learned.reason` says it."""
    if not extraction.usable:
        return _reason("its extractor's answer could not be used", rejected[0].reason if rejected else "")
    if rejected:
        return _reason(f"every draft of it was refused ({len(rejected)})", rejected[0].reason)
    return tidy(" ".join(extraction.reason.split()), _MAX_REASON) or f"{name(extractor)} made no draft of it"


def _reason(what: str, why: str) -> str:
    """``what``, and after a colon the reason that was given for it, where one was: on one line, without secrets."""
    why = tidy(" ".join(why.split()), _MAX_REASON)
    return f"{what}: {why}" if why else what


def _quarantined(items: Iterable[MemoryItem]) -> tuple[MemoryItem, ...]:
    return tuple(item for item in items if item.status == "quarantined")


def _experience(run: _Run, shown: Attempt, attempt: Attempt, issue: Issue, key: str) -> Experience:
    """``shown`` is the attempt without secrets."""
    from swe_memory.extract.digest import STORED_BUDGET, digest
    from swe_memory.patches import edited_symbols, source_paths

    trajectory, verdict = attempt.trajectory, attempt.verdict
    patch = trajectory.patch or ""
    return Experience(
        key=key,
        issue=issue,
        digest=tidy(digest(shown, STORED_BUDGET), STORED_BUDGET * 8),
        verdict=replace(verdict, reason=tidy(verdict.reason, 1_000), model=name(verdict.model), prompt=name(verdict.prompt)),
        paths=tuple(sorted({name(path) for path in source_paths(patch)}))[:_MAX_PATHS],
        symbols=tuple(sorted({name(symbol) for symbol in edited_symbols(patch)}))[:_MAX_PATHS],
        calls=trajectory.calls,
        actions=trajectory.actions,
        source=name(attempt.source),
        agent=name(trajectory.agent),
        model=name(trajectory.model),
        patch_sha=hashlib.sha256(patch.encode("utf-8", "surrogatepass")).hexdigest() if patch else "",
        extractor=run.extractor.name,
    )


def _items(
    run: _Run, attempt: Attempt, key: str, repo: str, extraction: Extraction
) -> tuple[tuple[MemoryItem, ...], tuple[Rejection, ...]]:
    from swe_memory.extract.validate import clean_drafts

    drafts, refused = clean_drafts(extraction.drafts, attempt)
    rejected = [*extraction.rejected, *refused]
    verdict = attempt.verdict
    provenance = Provenance(
        key,
        name(attempt.issue.id),
        name(attempt.source),
        verdict.source,
        verdict.outcome,
        run.extractor.name,
        name(extraction.model),
        name(extraction.prompt),
    )
    items: dict[str, MemoryItem] = {}
    for draft in drafts:
        item = tidy_item(_item(draft, repo, provenance))
        number = item_id(key, verdict.outcome, verdict.source, run.extractor.name, item.title, item.content)
        if number in items:
            rejected.append(Rejection("the same as another item of this attempt", item.text))
        else:
            items[number] = replace(item, id=number)
    return tuple(items.values()), tuple(rejected)


def _item(draft: ItemDraft, repo: str, provenance: Provenance) -> MemoryItem:
    return MemoryItem("", draft.title, draft.description, draft.content, draft.kind, draft.polarity, draft.reach, repo, provenance)


def _uses(run: _Run, attempt: Attempt, key: str, recall: Recall | None) -> tuple[Use, ...]:
    """Use records that are not in the bank yet."""
    if recall is None:
        return ()
    items = recall.items or ((recall.item,) if recall.item else ())
    issue = attempt.issue
    uses = [
        Use(item.id, name(issue.id), name(issue.repo), recall.score, recall.bank_version, key, attempt.verdict.outcome) for item in items
    ]
    known = set(run.workspace.store.uses(attempts=[key])) if uses else set()
    return tuple(use for use in uses if use not in known)


def _commit(run: _Run) -> list[Learned]:
    """Embed and commit what is pending; what became of each attempt, in order."""
    pending, run.pending = run.pending, []
    if not pending:
        return []
    workspace, store = run.workspace, run.workspace.store
    ready = [p.ready for p in pending if p.ready is not None]
    uses = tuple(use for p in pending for use in p.uses)
    version, txn = store.head, ""
    if ready or uses:
        vectors = embed(ready, workspace.embedder)
        while True:
            generation = store.state().generation
            workspace.check_embedder()
            txn = workspace.fresh_id()
            kind: Kind = "learn" if ready else "use"
            lost = {p.outcome.key: run.lost[p.outcome.key] for p in pending if run.lost and p.ready and p.outcome.key in run.lost}
            batch = Batch(vectors, uses=uses, lost=lost)
            try:
                version = store.learn(kind, batch, txn=txn, session=run.session, at=workspace.clock(), generation=generation)
                break
            except GenerationChanged:
                continue
    run.state = state = store.state(version)
    for p in pending:
        if p.ready is not None and run.lost is not None:
            run.lost.pop(p.outcome.key, None)
    finished = []
    for p in pending:
        outcome = replace(p.outcome, bank_version=version)
        if p.ready is not None and state.experiences[p.ready.experience.key].txn != txn:
            outcome = replace(outcome, status="already", reason="")  # another process learned it at the same moment; its copy counts
        finished.append(outcome)
    stored: dict[str, list[MemoryItem]] = {}
    there = [outcome.key for outcome in finished if outcome.status == "already"]
    for item in store.items(version, [i for key in there for i in state.experiences[key].items]) if there else ():
        stored.setdefault(item.provenance.attempt, []).append(item)
    for place, (p, outcome) in enumerate(zip(pending, finished, strict=True)):
        if outcome.status == "already":
            items: Iterable[MemoryItem] = stored.get(outcome.key, ())
        else:
            items = [replace(item, added=version) for item in (*outcome.items, *outcome.quarantined)]
        active = tuple(item for item in items if item.status == "active")
        finished[place] = replace(outcome, items=active, quarantined=_quarantined(items))
        run.done.append((p.order, finished[place]))
    if txn:
        _optimize_sometimes(workspace, version)
    return finished


def _optimize_sometimes(workspace: Workspace, version: int) -> None:
    """Optimize the tables after every 50th commit, by whichever process made it."""
    from swe_memory.store.upkeep import OPTIMIZE_EVERY, optimize

    if version and version % OPTIMIZE_EVERY == 0:
        # What was learned is durable. A bank that could not be optimized now is only slower; the next 50th commit, or `bank optimize`, does it.
        with suppress(BankError):
            optimize(workspace.store, workspace.clock())
