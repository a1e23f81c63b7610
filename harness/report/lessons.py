"""The texts of the items that attempts ran with, read from the run's banks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.frozen import bank_path
from harness.layout import Layout
from harness.report.words import visible
from swe_memory.errors import SweMemoryError

MOST_BYTES = 1_000_000
"""Of all texts together: what a page of a large run has room for."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The text of an item and where it is from; ``teacher`` is the attempt that taught it."""

    description: str
    content: str
    polarity: str
    reach: str
    kind: str
    extractor: str
    model: str
    teacher: str


def lessons(folder: Path, layout: Layout, wanted: Iterable[str]) -> tuple[dict[str, Lesson], list[str]]:
    """Item id -> its text, for those ``wanted`` that the banks of the run hold, in their order and as far as :data:`MOST_BYTES` go; and a sentence about
    each bank that cannot be read."""
    ids = list(wanted)
    if not ids:
        return {}, []
    found: dict[str, Lesson] = {}
    problems = []
    asked = set(ids)
    for plan in layout.banks:
        path = bank_path(folder, plan)
        if asked <= found.keys() or not path.exists():
            continue
        try:
            found |= {name: lesson for name, lesson in _read(path).items() if name in asked and name not in found}
        except SweMemoryError as error:
            problems.append(f"The bank {plan.id} cannot be read, so the texts of its items are not shown: {error.what}")
    kept: dict[str, Lesson] = {}
    room = MOST_BYTES
    for name in ids:
        if name in found and (size := len(f"{found[name].description}{found[name].content}".encode())) <= room:
            kept[name] = found[name]
            room -= size
    left = len(found) - len(kept)
    if left:
        problems.append(
            f"The text of {left} item, the least used one, is left out for size; `swe-memory items show` has it."
            if left == 1
            else f"The texts of {left} items, the least used ones, are left out for size; `swe-memory items show` has them."
        )
    return kept, problems


def _read(path: Path) -> dict[str, Lesson]:
    """Every item of one bank."""
    from swe_memory.bank import MemoryBank

    with MemoryBank.open(path, embedder=None, create=False, read_only=True, any_embedder=True) as bank:
        return {
            item.id: Lesson(
                visible(item.description),
                visible(item.content),
                item.polarity,
                item.reach,
                visible(item.kind),
                visible(item.provenance.extractor),
                visible(item.provenance.model),
                visible(item.provenance.source),
            )
            for item in bank.items()
        }
