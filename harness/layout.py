"""What an experiment comes to: its attempts, its banks, and who waits for whom. Pure.

*crossfit*: for each build the issues are split into two folds. The baseline's attempts at one fold make a bank for every family of arms; the bank is
frozen and recalled from in the other fold. *offline*: one given bank, frozen. *online*: each arm with memory has a bank of its own for each order and
rerun, which grows wave by wave: the attempts of a wave recall from the bank as it was before the wave, and are learned from after it, in the stream's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.arms import Arm
from harness.plan import Experiment
from swe_memory.errors import UsageError

Key = tuple[str, str, str]
"""(arm, stream, issue id) of an attempt."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One attempt to be made. ``stream`` is ORDER-RERUN or BUILD-RERUN, ``bank`` the id of the bank that its text comes from ("" for none), ``wave`` its
    place in a growing bank's stream (from 0), ``chain`` how many attempts, itself included, must follow one another from here to the run's end."""

    arm: Arm
    stream: str
    issue: str
    bank: str = ""
    wave: int = 0
    chain: int = 1

    @property
    def key(self) -> Key:
        """(arm, stream, issue)"""
        return (self.arm.name, self.stream, self.issue)


@dataclass(frozen=True, slots=True)
class BankPlan:
    """One bank of a run. ``place`` is its folder below the run's. ``lessons`` are the attempts that it learns from, in their order; of a growing bank they
    come in ``waves``. ``outcomes`` are the verdicts that teach. ``issues`` are those recalled for from a frozen or given bank, by the arms of ``readers``."""

    id: str
    kind: Literal["frozen", "growing", "given"]
    place: str
    lessons: tuple[Key, ...] = ()
    waves: tuple[tuple[Key, ...], ...] = ()
    outcomes: frozenset[str] = frozenset()
    readers: tuple[Arm, ...] = ()
    issues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """All attempts, in the order in which they should be begun where nothing else decides; all banks."""

    cells: tuple[Cell, ...]
    banks: tuple[BankPlan, ...]

    def streams(self) -> dict[tuple[str, str], tuple[Cell, ...]]:
        """(arm, stream) -> its attempts."""
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            found.setdefault((cell.arm.name, cell.stream), []).append(cell)
        return {name: tuple(cells) for name, cells in found.items()}

    def of_arm(self, arm: str) -> tuple[Cell, ...]:
        """The attempts of one arm."""
        return tuple(cell for cell in self.cells if cell.arm.name == arm)

    def bank(self, bank_id: str) -> BankPlan:
        """The bank of that id. Raises KeyError."""
        for bank in self.banks:
            if bank.id == bank_id:
                return bank
        raise KeyError(bank_id)


def check_protocol(experiment: Experiment) -> None:
    """Raises UsageError where arms and protocol do not go together."""
    arms = experiment.conditions()
    protocol = experiment.protocol
    memory = [arm for arm in arms if arm.kind == "memory"]
    if protocol == "crossfit" and memory:
        if all(arm.kind != "none" for arm in arms):
            raise UsageError("crossfit makes its banks from the baseline's attempts, and there is no arm `none`", "Add --arm none.")
        if len(experiment.instances) < 2:
            raise UsageError("crossfit needs two issues or more: it learns from one half and tests on the other", "Give more issues.")
    if protocol == "online":
        for arm in arms:
            if arm.kind == "control":
                raise UsageError(
                    f"arm {arm.name!r} needs a frozen bank, the same as the arm it is yoked to; in `online` every arm's bank grows its own way",
                    "Use --protocol crossfit, or offline with --bank.",
                )
    if protocol == "offline":
        if memory and not experiment.bank:
            raise UsageError("offline needs a bank", "Name one with --bank PATH.")
        for arm in memory:
            if arm.family != arm.method:
                raise UsageError(
                    f"arm {arm.name!r}: what a given bank was made of cannot be chosen any more", "Leave success-only or failure-only out."
                )
    if protocol != "offline" and experiment.bank:
        raise UsageError(f"a bank was given, and {protocol} makes its own", "Use --protocol offline, or leave --bank out.")


def lay_out(experiment: Experiment) -> Layout:
    """The layout of an experiment that :func:`check_protocol` lets pass."""
    banks = tuple({"crossfit": _crossfit_banks, "offline": _offline_banks, "online": _online_banks}[experiment.protocol](experiment))
    teaching = {key for bank in banks for key in bank.lessons}
    cells: list[Cell] = []
    for arm in experiment.conditions():
        if arm.kind == "gold":
            cells += [Cell(arm, "1-1", issue, chain=3) for issue in experiment.sequence()]
        elif arm.kind == "none":
            for rerun in range(1, max(experiment.reruns, experiment.baseline_reruns) + 1):
                stream = f"1-{rerun}"
                cells += [
                    Cell(arm, stream, issue, chain=2 if (arm.name, stream, issue) in teaching else 1) for issue in _fold_by_fold(experiment)
                ]
        else:
            cells += _remembering(experiment, arm, banks)
    # A stable sort: what many others wait for goes first.
    return Layout(tuple(sorted(cells, key=lambda cell: -cell.chain)), banks)


def _fold_by_fold(experiment: Experiment) -> tuple[str, ...]:
    """The first order, one fold of the first build after the other, so that the first bank can be made while the second fold is still at work."""
    sequence = experiment.sequence()
    if experiment.protocol != "crossfit":
        return sequence
    letter = dict(zip(experiment.instances, experiment.folds[0], strict=True))
    return tuple(issue for fold in "ab" for issue in sequence if letter[issue] == fold)


def _remembering(experiment: Experiment, arm: Arm, banks: tuple[BankPlan, ...]) -> Iterator[Cell]:
    """The attempts of an arm with memory, or of a control."""
    if experiment.protocol == "online":
        for bank in banks:
            if bank.readers == (arm,):
                for wave, keys in enumerate(bank.waves):
                    for name, stream, issue in keys:
                        assert name == arm.name
                        yield Cell(arm, stream, issue, bank.id, wave, len(bank.waves) - wave)
        return
    for build in range(1, (experiment.builds if experiment.protocol == "crossfit" else 1) + 1):
        source = {issue: bank.id for bank in banks if arm in bank.readers and _build(bank) in (0, build) for issue in bank.issues}
        for rerun in range(1, experiment.reruns + 1):
            for issue in experiment.sequence():
                yield Cell(arm, f"{build}-{rerun}", issue, source[issue])


def _build(bank: BankPlan) -> int:
    """Which build a frozen bank belongs to; 0 for a given one."""
    return 0 if bank.kind == "given" else int(bank.id.rsplit("/", 1)[1].split("-")[0])


def _readers(experiment: Experiment) -> dict[str, tuple[Arm, ...]]:
    """Family of banks -> the arms that recall from them, each arm with memory before its controls."""
    found: dict[str, list[Arm]] = {}
    arms = experiment.conditions()
    for arm in arms:
        if arm.kind == "memory":
            found.setdefault(arm.family, []).extend([arm, *(control for control in arms if control.of == arm.name)])
    return {family: tuple(readers) for family, readers in found.items()}


def _crossfit_banks(experiment: Experiment) -> Iterator[BankPlan]:
    runs = max(experiment.reruns, experiment.baseline_reruns)
    for build in range(1, experiment.builds + 1):
        letter = dict(zip(experiment.instances, experiment.folds[build - 1], strict=True))
        # Builds learn from different reruns of the baseline where there are several: then they share nothing but the issues.
        stream = f"1-{(build - 1) % runs + 1}"
        for family, readers in _readers(experiment).items():
            for fold, other in (("a", "b"), ("b", "a")):
                yield BankPlan(
                    f"{family}/{build}-{fold}",
                    "frozen",
                    f"banks/{family}/{build}-{fold}",
                    lessons=tuple(("none", stream, issue) for issue in experiment.sequence() if letter[issue] == fold),
                    outcomes=readers[0].outcomes,
                    readers=readers,
                    issues=tuple(issue for issue in experiment.sequence() if letter[issue] == other),
                )


def _offline_banks(experiment: Experiment) -> Iterator[BankPlan]:
    readers = tuple(arm for group in _readers(experiment).values() for arm in group)
    if readers:
        yield BankPlan("given/offline", "given", "banks/given/offline", readers=readers, issues=experiment.sequence())


def _online_banks(experiment: Experiment) -> Iterator[BankPlan]:
    for arm in experiment.conditions():
        if arm.kind != "memory":
            continue
        for order in range(1, len(experiment.orders) + 1):
            for rerun in range(1, experiment.reruns + 1):
                stream = f"{order}-{rerun}"
                keys = tuple((arm.name, stream, issue) for issue in experiment.sequence(order))
                waves = tuple(keys[start : start + experiment.wave] for start in range(0, len(keys), experiment.wave))
                yield BankPlan(
                    f"{arm.folder}/{stream}", "growing", f"{arm.folder}/{stream}", keys, waves, outcomes=arm.outcomes, readers=(arm,)
                )
