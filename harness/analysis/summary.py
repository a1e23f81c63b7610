"""ARM and COMPARISON of a result (see :mod:`harness.analysis`), from tables and attempts: the same for a run and for folders of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.analysis import curves, effects, flips, noise_floor, steps
from harness.analysis.attempts import Attempts
from harness.analysis.claims import adjusted
from harness.analysis.tables import Learning, Setup, Table
from harness.analysis.words import plain_estimate
from harness.looking import usage_values
from harness.outcomes import LIMITS
from harness.statistics.estimates import mean
from harness.statistics.rates import rate

Pair = tuple[Table, Table, str]
"""(arm, baseline, role)"""


def arm_values(
    setup: Setup, table: Table, attempts: Attempts, at: Sequence[float], learned: Learning | None = None, judge: str = ""
) -> dict[str, Any]:
    """One ARM. ``at``: the calls of its curve; ``learned``: what learning took for it; ``judge``: whose verdicts can pick among its attempts."""
    runs = [run for issue in table.issues for run in attempts.get((table.name, issue), ())]
    where = [(run, issue) for issue in table.issues for run in attempts.get((table.name, issue), ())]
    graded = [run for run in runs if run["resolved"] is not None]
    infra = [{"stream": run["stream"], "issue": issue} for run, issue in where if run["state"] == "infra failure"]
    estimate = rate(table.resolved)
    known = [run["calls"] for run in graded if run["calls"] is not None]
    actions = [run["actions"] for run in graded if run.get("actions") is not None]
    statuses = Counter(str(run.get("exit_status") or "") for run in graded)
    verdicts = Counter(_judged(run) for run in graded)
    why = learned.why if learned else ""
    return {
        "arm": table.name,
        "kind": table.kind,
        "streams": list(table.streams),
        "planned": len(table.issues) * len(table.streams),
        "graded": len(graded),
        "resolved": sum(run["resolved"] for run in graded),
        "rate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "interval": estimate.method,
        "estimate": plain_estimate(estimate),
        "mean_calls": mean(known) if known else None,
        "mean_actions": mean(actions) if actions else None,
        "calls_unknown": len(graded) - len(known),
        "limit_hits": {limit: statuses[limit] for limit in LIMITS if statuses[limit]},
        "infra": infra,
        "missing": len(table.issues) * len(table.streams) - len(graded) - len(infra),
        "given": sum(bool(run.get("given")) for run in graded),
        "exit_statuses": dict(sorted(statuses.items())),
        "flags": dict(sorted(Counter(flag for run in graded for flag in run.get("flags", ())).items())),
        "judge": {name: verdicts[name] for name in ("right", "wrong", "unknown", "not judged")},
        "noise": plain_estimate(noise_floor.arm_noise(setup, table)),
        "measures": steps.arm_measures(setup, table, {"tokens": why, "cost": why}),
        "per_resolved": steps.arm_per_resolved(table),
        "curve": steps.arm_curve(table, at),
        "memory_usage": {
            "judge": usage_values(learned.judge) if learned else usage_values(_NOTHING.judge),
            "extract": usage_values(learned.extract) if learned else usage_values(_NOTHING.extract),
            "passes": len(table.streams),
            "why": why,
        },
        "pass_at_k": curves.pass_at(table),
        "best_of_n": curves.best_of(table, attempts, judge),
    }


_NOTHING = Learning()


def _judged(run: Mapping[str, Any]) -> str:
    verdict = run.get("verdict")
    if not verdict:
        return "not judged"
    if verdict == "unknown":
        return "unknown"
    return "right" if (verdict == "resolved") == run["resolved"] else "wrong"


def comparisons(
    setup: Setup,
    pairs: Sequence[Pair],
    attempts: Attempts,
    at: Sequence[float],
    learning: Callable[[Table, Table], dict[str, Any] | None] = lambda _one, _other: None,
) -> list[dict[str, Any]]:
    """COMPARISONs in the order of ``pairs``, adjusted together."""
    found = [_pair(setup, pair, attempts, at, learning) for pair in pairs]
    for entry, (rates, calls) in zip(found, adjusted(found), strict=True):
        entry["p_adjusted"] = rates
        entry["steps"]["calls"]["p_adjusted"] = calls
        entry["noise"]["sentence"] = noise_floor.pair_sentence(entry)
        entry["sentence"] = effects.sentence(entry)
    return found


def _pair(
    setup: Setup, pair: Pair, attempts: Attempts, at: Sequence[float], learning: Callable[[Table, Table], dict[str, Any] | None]
) -> dict[str, Any]:
    one, other, role = pair
    taken = steps.pair_steps(setup, one, other)
    return {
        "id": f"{one.name} - {other.name}",
        "arm": one.name,
        "baseline": other.name,
        "role": role,
        **effects.resolve(setup, one, other),
        "noise": noise_floor.pair_noise(setup, one, other),
        "calls_difference": taken["calls"]["difference"]["value"],
        "steps": taken,
        "by_outcome": steps.pair_by_outcome(one, other),
        "per_resolved": steps.pair_per_resolved(one, other),
        "curve": steps.pair_curve(one, other, at),
        "flips": flips.flips(setup, one, other, attempts),
        "recall_gain": flips.recall_gain(one, other, attempts),
        "learning": learning(one, other),
        "sentence": "",
    }
