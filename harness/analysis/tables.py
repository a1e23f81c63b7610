"""The arms of a run as the statistics take them: issue -> one value per stream, with memory's own calls charged to the arms that needed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.events import RunState
from harness.layout import BankPlan, Layout
from harness.outcomes import ArmRows, Row
from harness.plan import Experiment
from harness.statistics.estimates import Counts, Outcomes
from swe_memory.records import Usage

MEASURES = ("calls", "actions", "tokens", "cost", "seconds")
REPAIR = "repair"
"""The agent that asks no model: nothing that it does costs tokens or money."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the protocol decides about a comparison. ``protocol`` is "" between two folders; ``repositories``: issue id -> repository."""

    protocol: str
    builds: int = 1
    orders: int = 1
    call_limit: int | None = None
    repositories: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """One arm. ``issues`` are those planned, ``resolved`` and each of ``amounts`` hold a value per stream for every one of them, None for what is missing or
    not known. ``same_bank``: places of streams that read one bank version, so that their attempts are repetitions of the same. ``memory``: of the mean of a
    measure, how much are memory's own calls. ``of``: for a control, the arm that it is yoked to."""

    name: str
    kind: str
    streams: tuple[str, ...]
    issues: tuple[str, ...]
    resolved: Outcomes
    amounts: Mapping[str, Counts]
    same_bank: tuple[tuple[int, ...], ...]
    of: str = ""
    memory: Mapping[str, float] = field(default_factory=dict)

    def repetitions(self) -> Outcomes:
        """The outcomes of the first streams that read one bank version."""
        return columns(self.resolved, self.same_bank[0] if self.same_bank else ())


@dataclass(frozen=True, slots=True)
class Learning:
    """What learning took for one arm: its banks' judging and distilling, each bank once. ``shares``: bank id -> (tokens, US dollars or None) that an attempt
    which recalls from it is charged with: the bank's whole usage by the issues that it serves. ``why``: what of it is not known."""

    judge: Usage = field(default_factory=Usage)
    extract: Usage = field(default_factory=Usage)
    shares: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    why: str = ""


def columns(values: Mapping[str, Sequence[float | None]], places: Sequence[int]) -> dict[str, list[float | None]]:
    """The values of some streams."""
    return {issue: [runs[place] for place in places if place < len(runs)] for issue, runs in values.items()}


def learning(layout: Layout, state: RunState) -> dict[str, Learning]:
    """Arm -> what learning took for it, for the arms that recall.

    A verdict that several banks learn from is charged to each of them in full, and a bank to every arm that reads it: what an arm would take if it were the
    only one. So the sum over arms may be more than what the run used.
    """
    judged: dict[tuple[str, str, str], Usage] = {}
    distilled: dict[str, Usage] = {}
    for (role, bank, key), used in state.memory.items():
        if role == "judge":
            judged[key] = judged.get(key, Usage()) + used
        else:
            distilled[bank] = distilled.get(bank, Usage()) + used
    found: dict[str, Learning] = {}
    for plan in layout.banks:
        judge = sum((judged[key] for key in plan.lessons if key in judged), Usage())
        extract = distilled.get(plan.id, Usage())
        served = len(plan.issues) or len(plan.lessons)
        whole = judge + extract
        tokens = whole.input_tokens + whole.output_tokens
        share = (tokens / served, None if whole.cost is None else whole.cost / served) if served else (0.0, 0.0)
        for arm in plan.readers:
            known = found.get(arm.name, Learning())
            found[arm.name] = Learning(
                known.judge + judge, known.extract + extract, {**known.shares, plan.id: share}, known.why or _why(plan, whole)
            )
    return found


def _why(plan: BankPlan, used: Usage) -> str:
    if plan.kind == "given":
        return "The bank was given: what it took to fill is not in this run."
    return "A call of memory's own has no known price, so costs with memory are not known." if used.cost is None else ""


def table(rows: ArmRows, experiment: Experiment, learned: Learning | None) -> Table:
    """The table of one arm; ``learned`` is None for an arm that recalls nothing."""
    place = {stream: number for number, stream in enumerate(rows.streams)}
    width = len(place)
    issues = experiment.instances
    resolved: dict[str, list[float | None]] = {issue: [None] * width for issue in issues}
    amounts: dict[str, dict[str, list[float | None]]] = {name: {issue: [None] * width for issue in issues} for name in MEASURES}
    shares = learned.shares if learned else {}
    charged: dict[str, list[float]] = {"tokens": [], "cost": []}
    free = experiment.agent == REPAIR
    for row in rows.rows:
        at, issue = place[row.cell.stream], row.cell.issue
        resolved[issue][at] = row.resolved
        tokens, cost = shares.get(row.cell.bank, (0.0, 0.0))
        for name, value in _amounts(row, free, tokens, cost).items():
            amounts[name][issue][at] = value
        for name, share in (("tokens", tokens), ("cost", cost)):
            if share is not None and amounts[name][issue][at] is not None:
                charged[name].append(share)
    memory = {name: sum(values) / len(values) for name, values in charged.items() if values}
    return Table(
        rows.arm.name, rows.arm.kind, rows.streams, issues, resolved, amounts, _same_bank(rows, experiment.protocol), rows.arm.of, memory
    )


def _amounts(row: Row, free: bool, tokens: float, cost: float | None) -> dict[str, float | None]:
    own_tokens, own_cost = (0.0, 0.0) if free else (row.tokens, row.cost)
    return {
        "calls": None if row.calls is None else float(row.calls),
        "actions": None if row.actions is None else float(row.actions),
        "tokens": None if own_tokens is None else own_tokens + tokens,
        "cost": None if own_cost is None or cost is None else own_cost + cost,
        "seconds": row.seconds,
    }


def _same_bank(rows: ArmRows, protocol: str) -> tuple[tuple[int, ...], ...]:
    """By build for frozen banks; every online stream has a bank of its own; without memory all are repetitions."""
    if rows.arm.kind in ("none", "gold"):
        return (tuple(range(len(rows.streams))),)
    if protocol == "online":
        return tuple((number,) for number in range(len(rows.streams)))
    builds: dict[str, list[int]] = {}
    for number, stream in enumerate(rows.streams):
        builds.setdefault(stream.split("-")[0], []).append(number)
    return tuple(tuple(places) for places in builds.values())
