"""What two banks hold differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from swe_memory.records import Experience, MemoryItem
from swe_memory.store import Store


@dataclass(frozen=True, slots=True)
class Difference:
    """One experience or item that two banks do not share, or hold differently (``what``)."""

    kind: str
    id: str
    issue_id: str
    title: str
    what: str = ""


@dataclass(frozen=True, slots=True)
class DiffReport:
    """``same`` counts experiences and items that agree in everything but the version they were added at."""

    same: int
    only_here: tuple[Difference, ...]
    only_there: tuple[Difference, ...]
    changed: tuple[Difference, ...]


def diff(here: Store, there: Store) -> DiffReport:
    """What two banks hold differently, by experience key and item id; bank versions are left out of the comparison."""
    same = 0
    only_here: list[Difference] = []
    only_there: list[Difference] = []
    changed: list[Difference] = []

    def experiences(store: Store) -> dict[str, Experience]:
        return {e.key: replace(e, added=0) for e in store.experiences()}

    def items(store: Store) -> dict[str, MemoryItem]:
        return {i.id: replace(i, added=0, retired=None) for i in store.items()}

    for kind, mine, theirs in (("experience", experiences(here), experiences(there)), ("item", items(here), items(there))):
        for key in sorted(mine.keys() | theirs.keys()):
            a, b = mine.get(key), theirs.get(key)
            if a is None:
                only_there.append(_difference(kind, key, theirs[key]))
            elif b is None:
                only_here.append(_difference(kind, key, a))
            elif a == b:
                same += 1
            else:
                changed.append(_difference(kind, key, a, ", ".join(_changes(asdict(a), asdict(b)))))
    return DiffReport(same, tuple(only_here), tuple(only_there), tuple(changed))


def _difference(kind: str, key: str, record: Experience | MemoryItem, what: str = "") -> Difference:
    if isinstance(record, Experience):
        return Difference(kind, key, record.issue.id, record.issue.title[:120], what)
    return Difference(kind, key, record.provenance.issue_id, record.title, what)


def _changes(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for field in a:
        if isinstance(a[field], dict) and isinstance(b[field], dict):
            yield from _changes(a[field], b[field], f"{prefix}{field}.")
        elif a[field] != b[field]:
            yield f"{prefix}{field}"
