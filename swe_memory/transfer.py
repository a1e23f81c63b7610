"""Banks in and out: export, import, merge.

An export is one JSON object a line: a header, then experiences, items and uses, in the order they were added. Vectors are left out; importing computes them
again, with whatever embedder the receiving bank has. A file from elsewhere is data from a stranger: every line is validated, and every text passes the same
redaction and hostile-text check as when it was learned.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from swe_memory.errors import BankError, UsageError
from swe_memory.intake import Ready, embed, item_id, name, text_hash, tidy, tidy_issue, tidy_item, utc
from swe_memory.records import Experience, MemoryItem, Use
from swe_memory.store import Batch, GenerationChanged, Store
from swe_memory.store.schema import SCHEMA_VERSION
from swe_memory.store.workspace import Workspace

FORMAT = 1
# Experiences a commit, and the longest line that is read (an experience with issue, digest and names stays far below).
BATCH = 100
MAX_LINE = 4_000_000
MAX_ITEMS = 3
_MAX_DIGEST = 20_000
_MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class ExportReport:
    """How many lines of each kind were written. ``unreadable`` says what a damaged bank could not give."""

    experiences: int
    items: int
    uses: int
    bank_version: int
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """``experiences`` and ``items`` are new ones (quarantined items included and also counted apart); ``already`` experiences were there and left alone.

    ``skipped`` says which lines were not taken, and why."""

    experiences: int
    items: int
    quarantined: int
    already: int
    uses: int
    session: str
    skipped: tuple[str, ...] = ()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def lines(store: Store, at: int | None = None) -> Iterator[str]:
    """The lines of an export of version ``at``, without line ends. The same bank version gives the same bytes."""
    state = store.state(at)
    seq = state.seq
    identity = state.identity
    experiences, items, uses = store.experiences(seq), store.items(seq), store.uses(seq)
    hashes = store.text_hashes(seq)

    def line(kind: str, fields: Mapping[str, Any]) -> str:
        return json.dumps({"type": kind, **fields}, default=_plain, ensure_ascii=False, sort_keys=True, allow_nan=False)

    embedder = {"name": identity.name, "dimension": identity.dimension, "digest": identity.digest}
    counts = {"experiences": len(experiences), "items": len(items), "uses": len(uses)}
    yield line("swe-memory-export", {"format": FORMAT, "schema": SCHEMA_VERSION, "bank_version": seq, "embedder": embedder, **counts})
    for experience in experiences:
        yield line("experience", {**asdict(experience), "text_hash": hashes[experience.key]})
    for item in items:
        yield line("item", asdict(item))
    for use in uses:
        yield line("use", asdict(use))


def export(store: Store, path: Path) -> ExportReport:
    """Write everything visible to ``path``, which is replaced in one step: a reader sees the old file or the whole new one.

    Raises:
        UsageError: the path is a folder, or its folder is not there or not writable.
    """
    if path.is_dir():
        raise UsageError(f"cannot export to {path}: it is a folder", "Give the path of a file, for example bank.jsonl.")
    counts = {"experience": 0, "item": 0, "use": 0}
    version = store.state().seq
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot export to {path}: {getattr(error, 'strerror', error)}", "Check that the folder is there and that you may write to it."
        ) from error
    try:
        with (
            store.tables.salvaging() as unreadable,
            os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as out,
        ):
            for number, line in enumerate(lines(store, version)):
                out.write(line + "\n")
                if number:
                    counts[json.loads(line)["type"]] += 1
            out.flush()
            os.fsync(out.fileno())
        lost = tuple(f"{count or 'all'} rows of {table}" for table, count in sorted(unreadable.items()))
        if lost and not counts["experience"]:
            raise BankError(f"nothing of {store.tables.uri} can be exported: {', '.join(lost)} cannot be read", "Use a backup of the bank.")
        if lost and path.exists():
            raise BankError(
                f"the bank is damaged ({', '.join(lost)} cannot be read), and {path} may be an export of it when it was not",
                "Export it to a new file, and import both into a new bank.",
            )
        Path(temporary).replace(path)
    except OSError as error:
        raise BankError(f"cannot export to {path}: {error.strerror}", "The export is incomplete and was removed.") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return ExportReport(counts["experience"], counts["item"], counts["use"], version, lost)


@dataclass(slots=True)
class _File:
    """A parsed export."""

    experiences: dict[str, tuple[Experience, str]]
    items: dict[str, list[MemoryItem]]
    uses: list[Use]
    skipped: list[str]


def _read(source: Iterable[str], what: str) -> _File:
    """Validate line by line; a bad line is skipped and named. A file that is not an export, or of a newer format, is refused whole."""
    from pydantic import TypeAdapter, ValidationError

    kinds: Mapping[str, TypeAdapter[Any]] = {
        "experience": TypeAdapter(Experience),
        "item": TypeAdapter(MemoryItem),
        "use": TypeAdapter(Use),
    }
    found = _File({}, {}, [], [])
    header = False
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE:
            found.skipped.append(f"line {number}: longer than {MAX_LINE} characters")
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            if not header:
                break
            found.skipped.append(f"line {number}: not a JSON object (cut short?)")
            continue
        kind = fields.pop("type", None)
        if not header:
            if kind != "swe-memory-export" or type(fields.get("format")) is not int or fields["format"] < 1:
                break
            if fields["format"] > FORMAT:
                raise UsageError(
                    f"{what} is an export of format {fields.get('format')}, newer than this program knows ({FORMAT})", "Upgrade swe-memory."
                )
            header = True
            continue
        if kind not in kinds:
            found.skipped.append(f"line {number}: unknown type {str(kind)[:40]!r}")
            continue
        flaw = _flaw(fields)
        if flaw:
            found.skipped.append(f"line {number}: {kind} {flaw}")
            continue
        hashed = fields.pop("text_hash", "")
        try:
            # As JSON: there, lists are tuples and texts are times, but no text is a number.
            record = kinds[kind].validate_json(json.dumps(fields), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            found.skipped.append(f"line {number}: {kind} {where}: {first['msg'][:120]}")
            continue
        _take(found, record, hashed, number)
    if not header:
        raise UsageError(f"{what} is not an export of a bank", "Make one with `swe-memory bank export FILE --bank PATH`.")
    return found


def _flaw(fields: Mapping[str, Any]) -> str:
    """What in a line no column can hold, "" for nothing: such a value must not come to light when half of the file is imported."""
    waiting: list[tuple[str, Any]] = [("", fields)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            if not all(map(_sound, value)):
                return f"{where or 'line'}: half a character (a lone surrogate) in a name"
            waiting += [(f"{where}.{name}" if where else name, part) for name, part in value.items()]
        elif isinstance(value, list):
            waiting += [(where, part) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return f"{where}: {value} is not a number"
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"{where}: a number beyond 64 bits"
        elif isinstance(value, str) and not _sound(value):
            return f"{where}: half a character (a lone surrogate)"
    return ""


def _sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _take(found: _File, record: object, hashed: object, number: int) -> None:
    if isinstance(record, Experience):
        try:
            utc(record.issue.created_at)
        except (OverflowError, UsageError):
            found.skipped.append(f"line {number}: experience issue.created_at: not a time that there is in UTC")
            return
        confidence = record.verdict.confidence
        if not isinstance(hashed, str) or not (hashed.isalnum() or not hashed):
            found.skipped.append(f"line {number}: experience text_hash: not a hash")
            return
        if min(record.calls, record.actions) < 0 or (confidence is not None and not 0 <= confidence <= 1):
            found.skipped.append(f"line {number}: experience with a count below 0, or a confidence that is no probability")
            return
        if not record.key.isalnum() or len(record.key) > 64 or not record.issue.id.strip():
            found.skipped.append(f"line {number}: experience without a usable key or issue id")
        elif record.verdict.outcome == "unknown":
            found.skipped.append(f"line {number}: experience with an unknown outcome teaches nothing")
        else:
            found.experiences[record.key] = (record, hashed[:128])
    elif isinstance(record, MemoryItem):
        of_one = found.items.setdefault(record.provenance.attempt, [])
        if len(of_one) >= MAX_ITEMS:
            found.skipped.append(f"line {number}: more than {MAX_ITEMS} items of one attempt")
        elif not record.title.strip() or not record.content.strip():
            found.skipped.append(f"line {number}: item without title or content")
        else:
            of_one.append(record)
    elif isinstance(record, Use):
        found.uses.append(record)


def _stored(experience: Experience, hashed: str, items: Iterable[MemoryItem], taken: set[str]) -> Ready:
    """The experience and its items as they go in: cleaned, checked, and with ids that no other attempt's items have."""
    verdict = experience.verdict
    clean = replace(
        experience,
        issue=tidy_issue(experience.issue),
        digest=tidy(experience.digest, _MAX_DIGEST),
        verdict=replace(verdict, reason=tidy(verdict.reason, 1_000), model=name(verdict.model), prompt=name(verdict.prompt)),
        paths=tuple(sorted({name(path) for path in experience.paths[:_MAX_NAMES]})),
        symbols=tuple(sorted({name(symbol) for symbol in experience.symbols[:_MAX_NAMES]})),
        source=name(experience.source),
        agent=name(experience.agent),
        model=name(experience.model),
        patch_sha=name(experience.patch_sha),
        extractor=name(experience.extractor),
        added=0,
    )
    made: dict[str, MemoryItem] = {}
    for given in items:
        item = tidy_item(replace(given, added=0, retired=None))
        if given.status == "quarantined" and item.status != "quarantined":
            item = replace(item, status="quarantined", note=tidy(given.note, 500))
        if given.status == "retired":
            item = replace(item, status="retired", note=tidy(given.note, 500))
        # What provenance says must agree with the experience it came with.
        source = replace(
            given.provenance,
            attempt=clean.key,
            issue_id=clean.issue.id,
            source=clean.source,
            verdict_source=verdict.source,
            outcome=verdict.outcome,
            extractor=clean.extractor,
            model=name(given.provenance.model),
            prompt=name(given.provenance.prompt),
        )
        number = given.id
        if not (number.isalnum() and 8 <= len(number) <= 64) or number in taken or number in made:
            number = item_id(clean.key, verdict.outcome, verdict.source, clean.extractor, item.title, item.content)
        if number not in taken and number not in made:
            made[number] = replace(item, id=number, repo=clean.issue.repo, provenance=source)
    return Ready(clean, hashed or text_hash(clean.issue.text), tuple(made.values()))


def import_(workspace: Workspace, path: Path, *, session: str | None = None) -> ImportReport:
    """Take over what an export holds and this bank does not. Importing again adds nothing; experiences that are here, however judged, are left alone.

    Raises:
        UsageError: no such file, not an export, or one of a newer format.
        BankError: the bank cannot be written; the commits before it stand, and importing again goes on from there.
    """
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as source:
            found = _read(_bounded(source), str(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', error)}", "Check the path of the export.") from error
    return _import(workspace, found, session)


def merge(workspace: Workspace, other: Store, *, session: str | None = None) -> ImportReport:
    """Import what another open bank would export."""
    return _import(workspace, _read(lines(other), other.tables.uri), session)


def _bounded(source: IO[str]) -> Iterator[str]:
    # A file without line ends must not be read into memory whole.
    while line := source.readline(MAX_LINE + 1):
        yield line
        while len(line) > MAX_LINE and not line.endswith("\n"):
            line = source.readline(MAX_LINE + 1)


def _import(workspace: Workspace, found: _File, session: str | None) -> ImportReport:
    workspace.check_writable()
    workspace.check_embedder()
    store, session = workspace.store, name(session) if session else workspace.fresh_id()
    state = store.state()
    lost = store.lost(state.seq)  # an import brings back what was lost here
    known, taken = state.experiences.keys() - lost.keys(), {i for i, s in state.items.items() if s.experience not in lost}
    new = [found.experiences[key] for key in sorted(found.experiences) if key not in known]
    added = items = quarantined = 0
    for start in range(0, len(new), BATCH):
        ready = []
        for experience, hashed in new[start : start + BATCH]:
            one = _stored(experience, hashed, found.items.get(experience.key, ()), taken)
            taken.update(item.id for item in one.items)
            ready.append(one)
        won = _commit(workspace, ready, session, lost)
        added += len(won)
        items += sum(len(one.items) for one in won)
        quarantined += sum(item.status == "quarantined" for one in won for item in one.items)
    strangers = sum(len(of_one) for key, of_one in found.items.items() if key not in found.experiences)
    if strangers:
        found.skipped.append(f"{strangers} items of experiences that are not in the file")
    uses = _import_uses(workspace, found, session)
    return ImportReport(added, items, quarantined, len(found.experiences) - added, uses, session, tuple(found.skipped))


def _commit(workspace: Workspace, ready: list[Ready], session: str, lost: Mapping[str, Iterable[str]]) -> list[Ready]:
    """Those of ``ready`` that came in: another process may have brought the same at the same moment."""
    store = workspace.store
    vectors = embed(ready, workspace.embedder)
    while True:
        generation = store.state().generation
        workspace.check_embedder()
        txn = workspace.fresh_id()
        batch = Batch(vectors, lost={key: lost[key] for one in ready if (key := one.experience.key) in lost})
        try:
            version = store.learn("import", batch, txn=txn, session=session, at=workspace.clock(), generation=generation)
        except GenerationChanged:
            continue
        state = store.state(version)
        return [one for one in ready if state.experiences[one.experience.key].txn == txn]


def _import_uses(workspace: Workspace, found: _File, session: str) -> int:
    store = workspace.store
    state = store.state()
    here = {(use.attempt, use.item_id) for use in store.uses()}
    new = tuple(
        replace(use, issue_id=name(use.issue_id), repo=name(use.repo), attempt=name(use.attempt))
        for use in found.uses
        if use.item_id in state.items and (use.attempt, use.item_id) not in here
    )
    while new:
        try:
            generation = store.state().generation
            store.learn("use", Batch(uses=new), txn=workspace.fresh_id(), session=session, at=workspace.clock(), generation=generation)
            break
        except GenerationChanged:
            continue
    return len(new)
