"""What a finished run tells about the next one: its baseline rate, discordance, noise floor, spread between builds, and what attempts took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.events import RunState, read_state
from harness.folder import read_experiment
from harness.layout import lay_out
from harness.outcomes import ArmRows, arm_rows
from harness.plan import Experiment
from harness.power_plan import Rates
from harness.statistics.estimates import Estimate, Outcomes, mean, present, variance
from swe_memory.errors import UsageError


@dataclass(frozen=True, slots=True)
class Seen:
    """``issues`` as planned there. Estimates are None in value where the run cannot tell; ``shock`` is in points. ``sentences`` say what was taken."""

    run: str
    arm: str
    issues: int
    baseline: Estimate
    effect: Estimate
    discordance: Estimate
    floor: Estimate
    shock: float | None
    rates: Rates
    sentences: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """In the shape of ``from`` in ``plan --json``."""
        parts = {name: getattr(self, name) for name in ("baseline", "effect", "discordance", "floor")}
        told = {name: {"value": part.value, "low": part.low, "high": part.high, "issues": part.units} for name, part in parts.items()}
        return {"run": self.run, "arm": self.arm, "issues": self.issues, **told, "shock": self.shock}


def look(folder: Path) -> Seen:
    """What ``folder`` says of its first arm with memory and its baseline. Raises UsageError where it holds no run, or no such pair has a graded attempt."""
    from harness.statistics.noise import noise
    from harness.statistics.repeated import by_issue

    experiment = read_experiment(folder)
    state = read_state(folder / "events.jsonl")
    tables = arm_rows(lay_out(experiment), state)
    name = folder.resolve().name
    arm = next((arm.name for arm in experiment.conditions() if arm.kind == "memory"), "")
    if not arm or "none" not in tables:
        raise UsageError(f"{name} has no pair of an arm with memory and `none`", "Give --baseline and --discordance instead of --from.")
    memory, baseline = tables[arm], tables["none"]
    mine, theirs = memory.outcomes(), baseline.outcomes()
    found = noise(mine, theirs)
    difference = by_issue(mine, theirs).difference
    if found.across.value is None:
        raise UsageError(
            f"no issue of {name} was graded in both `{arm}` and `none`", "Finish the run, or give --baseline and --discordance instead."
        )
    from harness.statistics.rates import rate

    builds = _by_build(memory) if experiment.protocol == "crossfit" else mine
    shock = between_builds(builds)
    seen = Seen(
        name,
        arm,
        len(experiment.instances),
        rate(theirs),
        difference,
        found.across,
        found.second if found.second.value is not None else found.first,
        None if shock is None else 100 * shock,
        recorded(experiment, state, memory, baseline),
        (),
    )
    return _told(seen, found.second.value is not None)


def _told(seen: Seen, baseline_was_rerun: bool) -> Seen:
    """With the sentences."""
    from dataclasses import replace

    floor = "not known: no arm was run twice, so all discordance is taken as noise"
    if seen.floor.value is not None:
        whose = "none" if baseline_was_rerun else seen.arm
        floor = f"{_share(seen.floor)}, from the reruns of `{whose}`"
    shock = "not known" if seen.shock is None else f"{seen.shock:.1f} points"
    said = (
        f"From {seen.run}, `{seen.arm}` against `none`: baseline {_share(seen.baseline)}; the arms differ on {_share(seen.discordance)}; "
        f"noise floor {floor}; spread between builds {shock}.",
    )
    return replace(seen, sentences=said)


def _share(found: Estimate) -> str:
    interval = "" if found.low is None or found.high is None else f" (95 % {found.low:.3f} to {found.high:.3f})"
    return f"{found.value:.3f}{interval}"


def _by_build(table: ArmRows) -> dict[str, list[float | None]]:
    """Issue id -> per build the share of its reruns that resolved it."""
    builds: dict[str, list[int]] = {}
    for place, stream in enumerate(table.streams):
        builds.setdefault(stream.split("-")[0], []).append(place)
    found: dict[str, list[float | None]] = {}
    for issue, runs in table.outcomes().items():
        kept = [present([runs[place] for place in places]) for places in builds.values()]
        found[issue] = [mean(part) if part else None for part in kept]
    return found


def between_builds(builds: Outcomes) -> float | None:
    """The standard deviation of what whole builds (or streams) are better or worse by, as a share: the variance of their means over issues that all have, less
    what the noise within issues makes of it (method of moments, not below 0). None with fewer than two builds or issues that all have."""
    rows = [present(runs) for runs in builds.values() if len(present(runs)) == len(runs)]
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    means = [mean(column) for column in zip(*rows, strict=True)]
    within = mean([variance(row) for row in rows])
    return math.sqrt(max(variance(means) - within / len(rows), 0.0))


def recorded(experiment: Experiment, state: RunState, memory: ArmRows, baseline: ArmRows) -> Rates:
    """What attempts of the two arms, and lessons, took in this run. An agent that told of no call has not said that it was free; the repair agent is."""
    free = experiment.agent == "repair"
    costs = [0.0 if free else _mean([row.cost for row in table.rows]) for table in (baseline, memory)]
    seconds = [_mean([row.seconds for row in table.rows]) for table in (baseline, memory)]
    lessons = sum(len(bank.learned) for bank in state.banks.values())
    used = [state.usage[role] for role in ("judge", "extract") if role in state.usage]
    lesson: float | None = 0.0
    if any(part.calls for part in used):
        known = [part.cost for part in used if part.cost is not None]
        lesson = sum(known) / lessons if lessons and len(known) == len(used) else None
    notes = []
    if None in costs:
        notes.append("The run does not say what all its attempts cost, so no cost is expected from it.")
    if None not in seconds:
        notes.append("Hours are of the agents alone, with all workers busy; grading and memory's own work come on top.")
    return Rates(costs[0], costs[1], lesson, seconds[0], seconds[1], tuple(notes))


def _mean(values: Sequence[float | None]) -> float | None:
    """None for no value, or where more than one in ten is not known."""
    known = present(values)
    return mean(known) if known and len(known) >= 0.9 * len(values) else None
