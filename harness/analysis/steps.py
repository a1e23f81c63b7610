"""Calls, actions, tokens, cost and time of arms and of pairs of arms. Tokens and cost hold memory's own calls (:mod:`harness.analysis.tables`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.analysis.tables import MEASURES, Setup, Table
from harness.analysis.words import amount, count, p_text, plain_estimate, plain_test
from harness.statistics.curves import CurvePoint, gain_within, resolved_within
from harness.statistics.estimates import Counts, mean, present
from harness.statistics.steps import by_outcome, per_resolved, per_resolved_ratio, restricted, restricted_means
from harness.statistics.streams import over_streams

RESAMPLES = 999
PER_RESOLVED = ("calls", "tokens", "cost")
POINTS = 15
"""Places of a curve over calls, at most."""
WHAT: Mapping[str, str] = {
    "calls": "calls (model turns)",
    "actions": "actions (commands)",
    "tokens": "tokens, memory's own included",
    "cost": "US dollars, memory's own calls included",
    "seconds": "seconds of the agent's work",
}
TIME = "Wall time is that of this machine, with whatever else ran beside."


def limit_of(setup: Setup, measure: str) -> float | None:
    """What an attempt may use of a measure, where that is bounded."""
    return float(setup.call_limit) if measure == "calls" and setup.call_limit else None


def arm_measures(setup: Setup, table: Table, why: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """``measures`` of an ARM. ``why``: measure -> what of it cannot be known."""
    found = {}
    graded = sum(len(present(runs)) for runs in table.resolved.values())
    for measure in MEASURES:
        amounts, limit = table.amounts[measure], limit_of(setup, measure)
        known = [value for runs in restricted(amounts, limit).values() for value in present(runs)]
        reason = "" if known else why.get(measure) or ("No attempt was graded." if not graded else f"No attempt told of its {measure}.")
        found[measure] = {
            "mean": mean(known) if known else None,
            "known": len(known),
            "unknown": graded - len(known),
            "at_limit": sum(value >= limit for value in known) if limit is not None else None,
            "memory": table.memory.get(measure, 0.0) if known else None,
            "why": reason or (TIME if measure == "seconds" else why.get(measure, "")),
        }
    return found


def arm_per_resolved(table: Table) -> dict[str, Any]:
    """``per_resolved`` of an ARM: for the measures that any attempt told."""
    return {
        measure: plain_estimate(per_resolved(table.amounts[measure], table.resolved, what=WHAT[measure], resamples=RESAMPLES))
        for measure in PER_RESOLVED
        if told(table.amounts[measure])
    }


def told(amounts: Counts) -> bool:
    """Whether any value is known, and is not 0."""
    return any(value for runs in amounts.values() for value in runs)


def limits(setup: Setup, tables: Sequence[Table]) -> list[float]:
    """The places of the curves "resolved within so many calls", the same for all arms: up to the call limit, or the most calls that were made."""
    calls = [value for table in tables for runs in table.amounts["calls"].values() for value in present(runs)]
    most = setup.call_limit or (math.ceil(max(calls)) if calls else 0)
    number = min(POINTS, int(most))
    return sorted({float(round(most * place / number)) for place in range(1, number + 1)}) if number else []


def arm_curve(table: Table, at: Sequence[float]) -> list[dict[str, Any]]:
    """``curve`` of an ARM; [] where no attempt told of its calls."""
    return _points(resolved_within(table.resolved, table.amounts["calls"], at)) if told(table.amounts["calls"]) else []


def pair_curve(one: Table, other: Table, at: Sequence[float]) -> list[dict[str, Any]]:
    """``curve`` of a COMPARISON."""
    if not (told(one.amounts["calls"]) and told(other.amounts["calls"])):
        return []
    return _points(gain_within((one.resolved, one.amounts["calls"]), (other.resolved, other.amounts["calls"]), at))


def _points(points: Sequence[CurvePoint]) -> list[dict[str, Any]]:
    return [{"at": point.at, "value": point.estimate.value, "low": point.estimate.low, "high": point.estimate.high} for point in points]


def pair_steps(setup: Setup, one: Table, other: Table) -> dict[str, dict[str, Any]]:
    """``steps`` of a COMPARISON: the paired difference of each measure, over all issues whatever came of them, calls counted up to the limit."""
    found = {}
    for measure in MEASURES:
        mine, theirs, limit = one.amounts[measure], other.amounts[measure], limit_of(setup, measure)
        direct = restricted_means(mine, theirs, limit, WHAT[measure])
        difference, test = direct.difference, direct.test
        if setup.protocol == "online" and one.kind == "memory" and len(one.streams) > 1:
            text = (
                f"mean difference in {WHAT[measure]}"
                + (f", each counted up to {limit:g}," if limit else "")
                + " over streams, on these issues"
            )
            over = over_streams(restricted(mine, limit), restricted(theirs, limit), estimand=text)
            difference, test = over.effect, over.test
        elif setup.protocol == "online" and one.kind == "memory":
            difference = replace(
                difference, estimand=f"{difference.estimand.removesuffix(' on issues like these')} along the path of this one stream"
            )
        hits = direct.at_limit
        entry: dict[str, Any] = {
            "arm": direct.first,
            "baseline": direct.second,
            "difference": plain_estimate(difference),
            "test": plain_test(test),
            "p_adjusted": None,
            "limit": limit,
            "at_limit": {"arm": hits[0], "baseline": hits[1]} if hits else None,
            "unknown": len(direct.unknown),
        }
        found[measure] = {**entry, "sentence": _sentence(measure, one.name, other.name, entry)}
    return found


def _sentence(measure: str, arm: str, baseline: str, entry: Mapping[str, Any]) -> str:
    difference = entry["difference"]
    if entry["arm"] is None or difference["value"] is None:
        return f"{measure.capitalize()} are not known in both `{arm}` and `{baseline}`."
    means = f"`{arm}` {amount(measure, entry['arm'])}, `{baseline}` {amount(measure, entry['baseline'])}"
    size = f"difference {amount(measure, difference['value'], sign=True)}"
    if difference["low"] is not None:
        size += f" (95 % {amount(measure, difference['low'], sign=True)} to {amount(measure, difference['high'], sign=True)}, {difference['method']})"
    p = f"; {entry['test']['method']} {p_text(entry['test']['p'])}" if entry["test"]["p"] is not None else ""
    up_to = f" up to {entry['limit']:g}" if entry["limit"] else ""
    left = f"; {count(entry['unknown'], 'issue', 'issues')} left out, not known" if entry["unknown"] else ""
    why = f" {difference['why']}" if difference["low"] is None and difference["why"] else ""
    return f"Mean {WHAT[measure]}{up_to}, over all issues: {means}; {size}{p}{left}.{why}"


def pair_by_outcome(one: Table, other: Table) -> dict[str, Any]:
    """``by_outcome`` of a COMPARISON: calls by the pair of outcomes, labelled as conditional; of the first run of each arm."""
    found = by_outcome(one.resolved, other.resolved, one.amounts["calls"], other.amounts["calls"])
    names = {"only the first resolved": f"only {one.name} resolved", "only the second resolved": f"only {other.name} resolved"}
    several = len(one.streams) > 1 or len(other.streams) > 1
    return {
        "label": found.label + (" Of the first run of each arm." if several else ""),
        "rows": [
            {
                "outcome": names.get(row.outcome, row.outcome),
                "issues": row.issues,
                "arm": row.first,
                "baseline": row.second,
                "difference": plain_estimate(row.difference),
            }
            for row in found.rows
        ],
    }


def pair_per_resolved(one: Table, other: Table) -> dict[str, Any]:
    """``per_resolved`` of a COMPARISON: ratios, arm over baseline."""
    return {
        measure: plain_estimate(
            per_resolved_ratio(
                (one.amounts[measure], one.resolved), (other.amounts[measure], other.resolved), what=WHAT[measure], resamples=RESAMPLES
            )
        )
        for measure in PER_RESOLVED
        if told(one.amounts[measure]) and told(other.amounts[measure])
    }
