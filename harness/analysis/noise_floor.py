"""The noise floor: how often two runs of one arm differ, what the difference between two arms has beyond that, and the standard error that it implies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.analysis.tables import Setup, Table
from harness.analysis.words import count, empty, percent, plain_estimate, points
from harness.statistics.estimates import Estimate, issue_means
from harness.statistics.noise import noise, rerun_discordance
from harness.statistics.rates import wilson


def arm_noise(setup: Setup, table: Table) -> Estimate:
    """How often two runs of an issue differ, with the same bank. Over the first bank where there are several."""
    if setup.protocol == "online" and table.kind == "memory":
        return empty(
            "chance that two runs of an issue by the same arm differ",
            "Every stream has a bank of its own that grows its own way, so no two runs of this arm are repetitions of the same.",
        )
    return rerun_discordance(table.repetitions())


def pair_noise(setup: Setup, one: Table, other: Table) -> dict[str, Any]:
    """``noise`` of a COMPARISON, but for its sentence."""
    found = noise(one.repetitions(), other.repetitions())
    error = found.standard_error
    own = None if error is None else error * math.sqrt((_per_run(one) + _per_run(other)) / 2)
    return {
        "arm": plain_estimate(arm_noise(setup, one)),
        "baseline": plain_estimate(arm_noise(setup, other)),
        "across": plain_estimate(found.across),
        "excess": plain_estimate(found.excess),
        "floor_of": {"first": "arm", "second": "baseline"}.get(found.floor_of, found.floor_of),
        "standard_error": error,
        "own_error": own,
    }


def _per_run(table: Table) -> float:
    """Mean over issues of 1 by the number of runs."""
    runs = [number for _, number in issue_means(table.resolved).values()]
    return sum(1 / number for number in runs) / len(runs) if runs else 1.0


def pair_sentence(found: Mapping[str, Any]) -> str:
    """The noise beside a COMPARISON's effect, in words; "" where nothing is known of it."""
    noisy = found["noise"]
    if noisy["own_error"] is None or found["difference"] is None:
        return ""
    within = noisy["excess"]
    more = ""
    if within["value"] is not None:
        bounds = f" (95 % {points(within['low'])} to {points(within['high'])})" if within["low"] is not None else ""
        more = f" The arms differ on {points(within['value'])} points more of the issues than reruns do{bounds}."
    own = f"Noise alone gives this difference a standard error of {100 * noisy['own_error']:.1f} points"
    return f"{own}, beside an effect of {points(found['difference'])}.{more}"


def floor(setup: Setup, baseline: Table | None, discordance: float | None) -> dict[str, Any]:
    """``noise`` of a RESULT. ``discordance``: between the arms of the primary comparison, taken as a guess where the floor is not known. What would show it
    is said of a run, which can be made again."""
    if baseline is None:
        found = empty("chance that two runs of an issue by the baseline differ", "There is no arm `none`, whose reruns would show it.")
        return {"floor": plain_estimate(found), "known": False, "sentence": found.why}
    found = arm_noise(setup, baseline)
    if found.value is not None and found.low is not None and found.high is not None:
        said = (
            f"Noise floor: two runs of `{baseline.name}` differ on {percent(found.value)} of the issues "
            f"(95 % {percent(found.low)} to {percent(found.high)}, {count(found.units, 'issue', 'issues')})."
        )
        return {"floor": plain_estimate(found), "known": True, "sentence": said}
    issues = len(baseline.issues)
    said = f"The noise floor is not known: no issue was run twice by `{baseline.name}`."
    if len(baseline.streams) == 1 and issues and setup.protocol:
        said += f" --baseline-reruns 2 would show it with {count(issues, 'attempt', 'attempts')} more"
        if discordance:
            low, high = wilson(discordance * issues, issues)
            said += f", to within about {50 * (high - low):.0f} points if reruns differ as often as the arms do ({percent(discordance)})"
        said += "."
    return {"floor": plain_estimate(found), "known": False, "sentence": said}
