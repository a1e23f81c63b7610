"""Issues that turned, in both directions, with a trajectory of either side; the difference by where the recalled item was learned; what each item did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from harness.analysis.attempts import Attempts, repository_of
from harness.analysis.tables import Setup, Table
from harness.analysis.words import plain_estimate
from harness.statistics.items import ItemEffect, item_effect
from harness.statistics.repeated import by_issue

WHERE = ("same repository", "another repository", "nothing")
"""Where an item was learned; "nothing" was recalled. What is not known is in none of them."""
_CHOSEN = "; issues choose what is recalled for them, so this describes and is no effect of it"
_GAIN = {
    WHERE[0]: f"difference in resolve rate where an item of the same repository was recalled{_CHOSEN}",
    WHERE[1]: f"difference in resolve rate where an item of another repository was recalled{_CHOSEN}",
    WHERE[2]: f"difference in resolve rate where nothing was recalled{_CHOSEN}",
}


def flips(setup: Setup, one: Table, other: Table, attempts: Attempts) -> dict[str, Any]:
    """``flips`` of a COMPARISON: issues whose share of resolved runs differs between the arms, the largest differences first."""
    found: list[tuple[float, int, dict[str, Any]]] = []
    for issue in one.issues:
        mine, theirs = _graded(attempts, one.name, issue), _graded(attempts, other.name, issue)
        if not mine or not theirs:
            continue
        gap = _share(mine) - _share(theirs)
        if abs(gap) < 1e-12:
            continue
        gained = gap > 0
        shows = next(run for run in mine if run["resolved"] is gained)
        entry = {
            "issue": issue,
            "repository": setup.repositories.get(issue),
            "direction": "for" if gained else "against",
            "arm": _side(mine, shows),
            "baseline": _side(theirs, next(run for run in theirs if run["resolved"] is not gained)),
            **{name: shows.get(name) for name in ("recalled", "item", "score", "learned_from", "same_repository", "taken_up")},
        }
        found.append((-abs(gap), len(found), entry))
    listed = [entry for _, _, entry in sorted(found, key=lambda part: part[:2])]
    gained_total = sum(entry["direction"] == "for" for entry in listed)
    return {"for": gained_total, "against": len(listed) - gained_total, "list": listed}


def _graded(attempts: Attempts, arm: str, issue: str) -> list[Mapping[str, Any]]:
    return [run for run in attempts.get((arm, issue), ()) if run["resolved"] is not None]


def _share(runs: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(run["resolved"] for run in runs)) / len(runs)


def _side(runs: Sequence[Mapping[str, Any]], shows: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "resolved": sum(run["resolved"] for run in runs),
        "runs": len(runs),
        "stream": shows["stream"],
        "trajectory": shows.get("trajectory"),
    }


def recall_gain(one: Table, other: Table, attempts: Attempts) -> list[dict[str, Any]]:
    """``recall_gain`` of a COMPARISON of an arm with memory. Issues choose what is recalled for them, so this describes; it is no experiment."""
    if one.kind != "memory":
        return []
    found = []
    for where in WHERE:
        kept: dict[str, list[float | None]] = {}
        number = 0
        for issue in one.issues:
            runs = [run["resolved"] for run in _graded(attempts, one.name, issue) if _where(run) == where]
            if runs and _graded(attempts, other.name, issue):
                kept[issue] = runs
                number += len(runs)
        estimate = replace(by_issue(kept, other.resolved).difference, estimand=_GAIN[where])
        found.append({"where": where, "attempts": number, "issues": len(kept), "estimate": plain_estimate(estimate)})
    return found


def _where(run: Mapping[str, Any]) -> str | None:
    if not run.get("item"):
        return WHERE[2]
    same = run.get("same_repository")
    return None if same is None else WHERE[0] if same else WHERE[1]


def used_items(
    memory: Sequence[Table], baseline: Table | None, attempts: Attempts, repositories: Mapping[str, str], floor: float | None
) -> list[dict[str, Any]]:
    """ITEMs: those that graded attempts of arms with memory ran with, most used first. ``floor``: how often two runs of the baseline differ.

    What an attempt with the item is held against is the baseline's run of the same number, or its first.
    """
    found: dict[str, dict[str, Any]] = {}
    for table in memory:
        for issue in table.issues:
            for number, run in enumerate(_graded(attempts, table.name, issue)):
                if not run.get("item"):
                    continue
                entry = found.setdefault(run["item"], _item(run, repositories))
                entry["attempts"].append(
                    {
                        "arm": table.name,
                        "stream": run["stream"],
                        "issue": issue,
                        "resolved": run["resolved"],
                        "baseline_resolved": _other(attempts, baseline, issue, number),
                        **{name: run.get(name) for name in ("score", "taken_up", "trajectory")},
                        "same": run.get("same_repository"),
                    }
                )
    items = [_summed(entry, floor) for entry in found.values()]
    return sorted(items, key=lambda entry: (-entry["uses"], -entry["resolved"], entry["id"]))


def _item(run: Mapping[str, Any], repositories: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": run["item"],
        "title": run["recalled"],
        "learned_from": run["learned_from"],
        "repository": repository_of(run["learned_from"], repositories),
        "learned_outcome": run.get("learned_outcome"),
        "verdict_source": run.get("verdict_source"),
        "attempts": [],
    }


def _other(attempts: Attempts, baseline: Table | None, issue: str, number: int) -> bool | None:
    if baseline is None:
        return None
    runs = _graded(attempts, baseline.name, issue)
    return bool(runs[number if number < len(runs) else 0]["resolved"]) if runs else None


def _summed(entry: dict[str, Any], floor: float | None) -> dict[str, Any]:
    uses = entry["attempts"]
    pairs = [(use["resolved"], use["baseline_resolved"]) for use in uses if use["baseline_resolved"] is not None]
    effect = _effect(
        len(pairs), sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs), None if floor is None else round(floor, 9)
    )
    looked = [use["taken_up"] for use in uses if use["taken_up"] is not None]
    return {
        **{name: value for name, value in entry.items() if name != "attempts"},
        "uses": len(uses),
        "resolved": sum(use["resolved"] for use in uses),
        "same_repository": sum(use["same"] is True for use in uses),
        "flips_for": effect.flips_for,
        "flips_against": effect.flips_against,
        "flips_expected": effect.expected,
        "effect": plain_estimate(effect.effect),
        "looked": len(looked),
        "taken_up": sum(looked),
        "attempts": [{name: value for name, value in use.items() if name != "same"} for use in uses],
    }


@lru_cache(maxsize=4096)
def _effect(uses: int, gained: int, lost: int, floor: float | None) -> ItemEffect:
    """Many items have the same few counts, and each costs a simulation."""
    pairs = [(True, False)] * gained + [(False, True)] * lost + [(True, True)] * (uses - gained - lost)
    return item_effect(pairs, floor)
