"""What a run's journal says about its arms, as plain rows: the one place where the state of a run is turned into numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.arms import Arm
from harness.checks import is_number
from harness.events import AttemptState, RunState
from harness.layout import Cell, Layout

LIMITS = ("LimitsExceeded", "TimeLimitExceeded", "TokenLimitExceeded", "CostLimitExceeded")


@dataclass(frozen=True, slots=True)
class Row:
    """One graded attempt. ``calls`` and ``actions`` are None where the agent did not tell."""

    cell: Cell
    resolved: bool
    calls: int | None
    actions: int | None
    exit_status: str
    state: AttemptState

    @property
    def recall(self) -> Mapping[str, Any]:
        """What it recalled; {} for nothing recorded."""
        return self.state.started.get("recall") or {}

    @property
    def given(self) -> bool:
        """Whether memory, or a control, gave it any text."""
        return bool(self.recall.get("characters", 0) or self.recall.get("item"))

    @property
    def tokens(self) -> float | None:
        """Tokens in and out of the agent's last try; None where it told of none."""
        used = self.state.agent
        return float(used.input_tokens + used.output_tokens) or None

    @property
    def cost(self) -> float | None:
        """US dollars of the agent's last try; None where it is not known. No cost beside no tokens is a cost that nobody told."""
        used, told = self.state.agent, self.state.finished.get("cost")
        if used.calls and used.cost is not None and (used.cost or self.tokens):
            return used.cost
        return float(told) if told is not None and is_number(told) and told > 0 else None

    @property
    def seconds(self) -> float | None:
        """Wall time of the agent's last try, the preparation of its working copy included."""
        told = self.state.finished.get("seconds")
        return float(told) if told is not None and is_number(told) and told >= 0 else None


def rows_of(cells: Sequence[Cell], state: RunState) -> list[Row]:
    """The graded attempts among ``cells``, in their order."""
    found = []
    for cell in cells:
        known = state.attempts.get(cell.key)
        if known and known.graded and known.finished:
            end = known.finished
            found.append(Row(cell, known.graded["resolved"], end["calls"], end["actions"], end["exit_status"], known))
    return found


@dataclass(frozen=True, slots=True)
class ArmRows:
    """One arm: its attempts as planned, its streams in order, and the graded ones."""

    arm: Arm
    cells: tuple[Cell, ...]
    streams: tuple[str, ...]
    rows: tuple[Row, ...]

    def outcomes(self) -> dict[str, list[bool | None]]:
        """Issue id -> per stream whether it was resolved; None for what is missing."""
        return {issue: [None if row is None else row.resolved for row in rows] for issue, rows in self._table().items()}

    def calls(self) -> dict[str, list[float | None]]:
        """Issue id -> per stream the calls; None for what is missing or not known."""
        return {
            issue: [None if row is None or row.calls is None else float(row.calls) for row in rows] for issue, rows in self._table().items()
        }

    def _table(self) -> dict[str, list[Row | None]]:
        place = {stream: number for number, stream in enumerate(self.streams)}
        table: dict[str, list[Row | None]] = {cell.issue: [None] * len(place) for cell in self.cells}
        for row in self.rows:
            table[row.cell.issue][place[row.cell.stream]] = row
        return table


def arm_rows(layout: Layout, state: RunState) -> dict[str, ArmRows]:
    """Arm -> its rows, in the order of the experiment's arms as the layout has them."""
    cells: dict[str, list[Cell]] = {}
    for cell in layout.cells:
        cells.setdefault(cell.arm.name, []).append(cell)
    found = {}
    for name, planned in cells.items():
        streams = tuple(sorted({cell.stream for cell in planned}, key=lambda text: tuple(map(int, text.split("-")))))
        found[name] = ArmRows(planned[0].arm, tuple(planned), streams, tuple(rows_of(planned, state)))
    return found
