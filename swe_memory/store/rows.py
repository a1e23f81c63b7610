"""Records to rows and back. A row is a plain dict with the columns of ``schema``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from swe_memory.records import Experience, Issue, MemoryItem, Provenance, Use, Verdict
from swe_memory.store.log import ItemState

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class NewExperience:
    """An experience to be stored, with what it is found by.

    ``where_terms``: blank-separated terms of the edited paths and symbols; ``text_hash``: hash of the issue's whole normalised text;
    ``vector``: title and text unit vectors side by side divided by sqrt 2, or None without an embedder.
    """

    experience: Experience
    text_hash: str
    where_terms: str
    vector: np.ndarray | None
    items: tuple[NewItem, ...] = ()


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to be stored and the unit vector of its text (None without an embedder)."""

    item: MemoryItem
    vector: np.ndarray | None


def _finite(number: float | None) -> float | None:
    """Infinite and NaN say nothing, compare with nothing, and are not JSON."""
    return number if number is not None and math.isfinite(number) else None


def experience_row(new: NewExperience, txn: str, at: str) -> dict[str, Any]:
    e = new.experience
    row: dict[str, Any] = {
        "txn": txn,
        "at": at,
        "key": e.key,
        "issue_id": e.issue.id,
        "repo": e.issue.repo,
        "text": e.issue.text,
        "base_commit": e.issue.base_commit,
        "created_at": e.issue.created_at.isoformat() if e.issue.created_at else None,
        "text_hash": new.text_hash,
        "digest": e.digest,
        "outcome": e.verdict.outcome,
        "verdict_source": e.verdict.source,
        "verdict_reason": e.verdict.reason,
        "verdict_model": e.verdict.model,
        "verdict_prompt": e.verdict.prompt,
        "confidence": _finite(e.verdict.confidence),
        "paths": list(e.paths),
        "symbols": list(e.symbols),
        "where_terms": new.where_terms,
        "calls": e.calls,
        "actions": e.actions,
        "source": e.source,
        "agent": e.agent,
        "model": e.model,
        "patch_sha": e.patch_sha,
        "extractor": e.extractor,
    }
    if new.vector is not None:
        row["vector"] = new.vector
    return row


def experience_of(row: Mapping[str, Any], added: int) -> Experience:
    created = row["created_at"]
    issue = Issue(row["issue_id"], row["repo"], row["text"], row["base_commit"], datetime.fromisoformat(created) if created else None)
    verdict = Verdict(
        row["outcome"],
        row["verdict_source"],
        row["verdict_reason"],
        _finite(row["confidence"]),
        row["verdict_model"],
        row["verdict_prompt"],
    )
    return Experience(
        key=row["key"],
        issue=issue,
        digest=row["digest"],
        verdict=verdict,
        paths=tuple(row["paths"] or ()),
        symbols=tuple(row["symbols"] or ()),
        calls=row["calls"],
        actions=row["actions"],
        source=row["source"],
        agent=row["agent"],
        model=row["model"],
        patch_sha=row["patch_sha"],
        extractor=row["extractor"],
        added=added,
    )


def item_row(new: NewItem, txn: str, at: str) -> dict[str, Any]:
    i, p = new.item, new.item.provenance
    row: dict[str, Any] = {
        "txn": txn,
        "at": at,
        "id": i.id,
        "attempt": p.attempt,
        "title": i.title,
        "description": i.description,
        "content": i.content,
        "kind": i.kind,
        "polarity": i.polarity,
        "reach": i.reach,
        "repo": i.repo,
        "status": i.status,
        "note": i.note,
        "issue_id": p.issue_id,
        "source": p.source,
        "verdict_source": p.verdict_source,
        "outcome": p.outcome,
        "extractor": p.extractor,
        "model": p.model,
        "prompt": p.prompt,
    }
    if new.vector is not None:
        row["vector"] = new.vector
    return row


def item_of(row: Mapping[str, Any], state: ItemState) -> MemoryItem:
    provenance = Provenance(
        row["attempt"],
        row["issue_id"],
        row["source"],
        row["verdict_source"],
        row["outcome"],
        row["extractor"],
        row["model"],
        row["prompt"],
    )
    return MemoryItem(
        id=row["id"],
        title=row["title"],
        description=row["description"],
        content=row["content"],
        kind=row["kind"],
        polarity=row["polarity"],
        reach=row["reach"],
        repo=row["repo"],
        provenance=provenance,
        status=state.status,
        note=row["note"] if state.note is None else state.note,
        added=state.added,
        retired=state.retired,
    )


def use_row(use: Use, txn: str, at: str) -> dict[str, Any]:
    return {
        "txn": txn,
        "at": at,
        "item_id": use.item_id,
        "issue_id": use.issue_id,
        "repo": use.repo,
        "attempt": use.attempt,
        "outcome": use.outcome,
        "score": _finite(use.score) or 0.0,
        "bank_version": use.bank_version,
    }


def use_of(row: Mapping[str, Any]) -> Use:
    return Use(
        row["item_id"], row["issue_id"], row["repo"], _finite(row["score"]) or 0.0, row["bank_version"], row["attempt"], row["outcome"]
    )
