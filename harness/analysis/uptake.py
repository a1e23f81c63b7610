"""Whether agents took up what they were given: rare words of the notes that appear in an attempt's thoughts, and not in the issue.

Words are counted, nothing is understood: an agent may follow a note in other words, and may use a note's words by itself. How often the latter happens is
measured: the same words are looked for in the baseline's attempt at the same issue, which was shown nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.analysis.reading import Told, Trajectories
from harness.analysis.words import count, empty, plain_estimate
from harness.layout import Key
from harness.outcomes import ArmRows, Row
from harness.statistics.rates import rate

RARE = 0.01
"""Share of the other issues in which a rare word may appear, in the issue or in the baseline's thoughts about it; one issue is always allowed."""
NEEDED = 2
"""Rare words that must appear; all, where a note has fewer."""
SHOWN = 8
"""Words that are listed for an attempt."""
RULE = (
    f"An attempt took up what it was given where {NEEDED} rare words of it (or its only one) appear in the attempt's thoughts and not in the issue. "
    f"A word is rare that appears in at most one of the other issues, or {100 * RARE:g} % of them, in its text or in the baseline's thoughts about it."
)
_SHARE = "share of attempts with an item whose thoughts take up rare words of it, averaged over issues"
_CHANCE = "share of baseline attempts at the same issues whose thoughts have these words, although nothing was shown to them"


@dataclass(frozen=True, slots=True)
class Uptake:
    """``values``: the ``uptake`` of a RESULT. ``taken``: attempt -> (whether it took up what it was given, the words), for those that were looked at.
    ``models``: named by trajectories. ``hidden``: (attempts with a record of it, those where something of the future was removed)."""

    values: Mapping[str, Any]
    taken: Mapping[Key, tuple[bool, tuple[str, ...]]] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    hidden: tuple[int, int] = (0, 0)


def not_looked(why: str, tables: Mapping[str, ArmRows]) -> Uptake:
    """Where no trajectory is to be had."""
    return _uptake(_with_item(tables), {}, {}, why)


def look(tables: Mapping[str, ArmRows], trajectories: Trajectories) -> Uptake:
    """Read what the budget allows: issue after issue in an order that chance decided once, of each the baseline's attempts and those with an item."""
    rows = _with_item(tables)
    baseline = next((table for table in tables.values() if table.arm.kind == "none"), None)
    by_issue: dict[str, list[Row]] = {}
    for row in rows:
        by_issue.setdefault(row.cell.issue, []).append(row)
    without = {row.cell.issue: row for row in reversed(baseline.rows)} if baseline else {}  # the first stream's
    read: dict[Key, Told] = {}
    documents: dict[str, frozenset[str]] = {}
    models: set[str] = set()
    hidden: list[int] = []
    if baseline and not by_issue:  # nothing to look for; but which model it is, and what was removed, one attempt tells
        by_issue = {baseline.rows[0].cell.issue: []} if baseline.rows else {}
    for issue in sorted(by_issue, key=_drawn):
        for row in [*([without[issue]] if issue in without else []), *by_issue[issue]]:
            if (told := trajectories.read(row.cell.key)) is None:
                continue
            models |= {told.model} - {""}
            hidden += [] if told.hidden is None else [told.hidden]
            documents[issue] = documents.get(issue, frozenset()) | told.task
            if row.cell.arm.kind == "none":
                documents[issue] |= told.thoughts
            read[row.cell.key] = told
        if trajectories.budget.short:
            break
    seen = Counter(word for words in documents.values() for word in words)
    taken: dict[Key, tuple[bool, tuple[str, ...]]] = {}
    chance: dict[str, list[bool | None]] = {}
    for row in rows:
        known = read.get(row.cell.key)
        if known is None or not known.thoughts or not known.notes:
            continue
        issue = row.cell.issue
        rare = _rare(known.notes - known.task, documents[issue], seen, len(documents))
        if not rare:
            continue
        common = rare & known.thoughts
        taken[row.cell.key] = (_enough(common, rare), tuple(sorted(common))[:SHOWN])
        other = read.get(without[issue].cell.key) if issue in without else None
        if row.cell.arm.kind == "memory" and other is not None and other.thoughts:
            chance.setdefault(issue, []).append(_enough(rare & other.thoughts, rare))
    why = _why(rows, taken, trajectories)
    return _uptake(rows, taken, chance, why, frozenset(models), (len(hidden), sum(number > 0 for number in hidden)))


def _with_item(tables: Mapping[str, ArmRows]) -> list[Row]:
    return [row for table in tables.values() for row in table.rows if row.recall.get("item")]


def _drawn(issue: str) -> str:
    return hashlib.sha256(issue.encode("utf-8", "replace")).hexdigest()


def _rare(words: frozenset[str], own: frozenset[str], seen: Mapping[str, int], documents: int) -> frozenset[str]:
    allowed = max(1, int(RARE * (documents - 1)))
    return frozenset(word for word in words if seen.get(word, 0) - (word in own) <= allowed)


def _enough(common: frozenset[str], rare: frozenset[str]) -> bool:
    return len(common) >= min(NEEDED, len(rare))


def _why(rows: Sequence[Row], taken: Mapping[Key, Any], trajectories: Trajectories) -> str:
    if not rows:
        return "No attempt was given an item."
    said = []
    if trajectories.budget.short:
        said.append(f"Of {count(len(rows), 'attempt', 'attempts')} with an item {len(taken)} were looked at; --all-trajectories reads all.")
    if trajectories.gone:
        said.append(f"{count(trajectories.gone, 'trajectory is', 'trajectories are')} not there or cannot be read.")
    if not taken and not said:
        said.append("The stored trajectories tell no thoughts, or not what was shown, or the items have no rare word.")
    return " ".join(said)


def _uptake(
    rows: Sequence[Row],
    taken: Mapping[Key, tuple[bool, tuple[str, ...]]],
    chance: Mapping[str, Sequence[bool | None]],
    why: str,
    models: frozenset[str] = frozenset(),
    hidden: tuple[int, int] = (0, 0),
) -> Uptake:
    arms: dict[str, dict[str, int]] = {}
    shares: dict[str, list[bool | None]] = {}
    for row in rows:
        entry = arms.setdefault(row.cell.arm.name, {"with_item": 0, "looked": 0, "taken_up": 0})
        entry["with_item"] += 1
        if row.cell.key in taken:
            entry["looked"] += 1
            entry["taken_up"] += taken[row.cell.key][0]
            if row.cell.arm.kind == "memory":
                shares.setdefault(row.cell.issue, []).append(taken[row.cell.key][0])
    memory = [arm for arm in arms if any(row.cell.arm.name == arm and row.cell.arm.kind == "memory" for row in rows)]
    reason = why or "No attempt was looked at."
    values = {
        "looked": sum(arms[arm]["looked"] for arm in memory),
        "with_item": sum(arms[arm]["with_item"] for arm in memory),
        "taken_up": sum(arms[arm]["taken_up"] for arm in memory),
        "share": plain_estimate(rate(shares) if shares else empty(_SHARE, reason)) | {"estimand": _SHARE},
        "by_chance": plain_estimate(rate(chance) if chance else empty(_CHANCE, reason)) | {"estimand": _CHANCE},
        "rule": RULE,
        "why": why,
        "arms": arms,
    }
    return Uptake(values, taken, models, hidden)
