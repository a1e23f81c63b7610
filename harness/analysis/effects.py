"""The resolve rate of two arms: what is estimated under each protocol, how, and beside it a check, the repositories, and what missing attempts could hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.analysis.tables import Setup, Table, columns
from harness.analysis.words import count, interval, p_text, plain_estimate, plain_test, points
from harness.statistics.estimates import Estimate, Outcomes, Test, mean, present
from harness.statistics.paired import Pairs, compare_pairs, count_pairs
from harness.statistics.repeated import bootstrap_by_issue, by_issue, leave_one_repository_out
from harness.statistics.streams import OverStreams, no_effect_on_any_issue, over_streams

RESAMPLES = 1_999
"""Enough for a check by another route."""


@dataclass(frozen=True, slots=True)
class Named:
    """An estimate under the name of what it estimates."""

    name: str
    estimate: Estimate
    test: Test

    def values(self) -> dict[str, Any]:
        """{name, estimate, test}"""
        return {"name": self.name, "estimate": plain_estimate(self.estimate), "test": plain_test(self.test)}


def resolve(setup: Setup, one: Table, other: Table) -> dict[str, Any]:
    """The part of a COMPARISON that is about the resolve rate (see :mod:`harness.analysis`)."""
    single = len(one.streams) == 1 and len(other.streams) == 1
    pairs = count_pairs(one.resolved, other.resolved) if single else None
    clustered = by_issue(one.resolved, other.resolved)
    nothing = no_effect_on_any_issue(one.resolved, other.resolved)
    found, over = _estimates(setup, one, other, pairs, nothing)
    first = found[0]
    estimate, test = first.estimate, first.test
    result = compare_pairs(pairs) if pairs else None
    shared = [issue for issue, runs in one.resolved.items() if present(runs) and present(other.resolved.get(issue, ()))]
    only = (float(pairs.only_first), float(pairs.only_second)) if pairs else clustered.discordant
    return {
        "issues": len(shared),
        "rates": {"arm": _rate(one, shared), "baseline": _rate(other, shared)},
        "unit": estimate.unit,
        "units": estimate.units,
        "estimand": estimate.estimand,
        "null": test.null,
        "level": estimate.level,
        "both": pairs.both if pairs else None,
        "only_arm": pairs.only_first if pairs else None,
        "only_baseline": pairs.only_second if pairs else None,
        "neither": pairs.neither if pairs else None,
        "discordant": {"only_arm": only[0], "only_baseline": only[1], "expected": pairs is None} if only and shared else None,
        "difference": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "interval": estimate.method,
        "p": test.p,
        "test": test.method,
        "p_exact": result.exact.p if result else None,
        "p_adjusted": None,
        "why": estimate.why or test.why,
        "notes": [*(result.notes if result else ()), *_notes(setup, one, other)] if shared else [],
        "estimates": [part.values() for part in found],
        "check": None if first.name == "over streams" else plain_estimate(result.newcombe if result else _bootstrap(one, other)),
        "no_effect": plain_test(nothing),
        "streams": [{"stream": name, "difference": value} for name, value in _streams(one, other)] if len(one.streams) > 1 else [],
        "between": over.between if over else None,
        "baseline_error": over.baseline_error if over else None,
        "sensitivity": _sensitivity(setup, one, other),
        "bounds": _bounds(one, other),
    }


# -- what is estimated -----------------------------------------------------------------------------------------------------------------------


def _estimates(setup: Setup, one: Table, other: Table, pairs: Pairs | None, nothing: Test) -> tuple[list[Named], OverStreams | None]:
    """All that the protocol supports, that of the endpoint first; and the look over streams or builds, where there are several."""
    if setup.protocol == "online" and one.kind == "memory":
        return _online(setup, one, other, pairs, nothing)
    direct = _direct(setup, one, other, pairs)
    if setup.builds > 1 and one.kind != "none" and setup.protocol:
        over = _over_builds(one, other)
        return [direct, Named("over builds", over.effect, over.test)], over
    return [direct], None


def _direct(setup: Setup, one: Table, other: Table, pairs: Pairs | None) -> Named:
    """Issues as the unit, given whatever banks were used."""
    estimate, test = _by_issue(one, other, pairs)
    name = "given the banks" if setup.protocol else "between the runs"
    return Named(name, replace(estimate, estimand=_estimand(setup, one, other)), test)


def _by_issue(one: Table, other: Table, pairs: Pairs | None) -> tuple[Estimate, Test]:
    if pairs:
        result = compare_pairs(pairs)
        return result.difference, result.midp
    clustered = by_issue(one.resolved, other.resolved)
    return clustered.difference, clustered.test


def _estimand(setup: Setup, one: Table, other: Table) -> str:
    what = "difference in resolve rate on issues like these"
    if not setup.protocol:
        return f"{what} between these two sets of attempts, with whatever set them apart"
    if one.kind == "none" or (one.kind == "control" and other.kind == "none"):
        return f"{what}, given the texts that the placebo showed"
    if setup.protocol == "offline":
        return f"{what}, given the bank that was used, frozen"
    if setup.builds > 1:
        return f"{what}, given the {setup.builds} builds of the bank of this run, frozen"
    return f"{what}, given the two banks of this run, each learned from one half of the issues, frozen, and tested on the other half"


def _online(setup: Setup, one: Table, other: Table, pairs: Pairs | None, nothing: Test) -> tuple[list[Named], OverStreams | None]:
    if len(one.streams) > 1:
        orders = "orders and banks that grow along them" if setup.orders > 1 else "banks that grow along the same order"
        over = over_streams(
            one.resolved,
            other.resolved,
            estimand=f"mean difference in resolve rate over streams ({orders}), on these issues: the effect of a stream",
        )
        return [Named("over streams", over.effect, over.test)], over
    estimate, _ = _by_issue(one, other, pairs)
    path = replace(
        estimate,
        estimand="difference in resolve rate along the path of this one stream, on its issues as they came: not what memory does on average over streams",
    )
    return [Named("along this path", path, nothing)], None


def _over_builds(one: Table, other: Table) -> OverStreams:
    """Over builds of the bank. A placebo has builds too, of the same banks: its difference is taken build by build."""
    text = "mean difference in resolve rate over builds of the bank, on these issues: the effect of the method"
    mine = _by_bank(one)
    if other.kind == "none":
        return over_streams(mine, other.resolved, estimand=text, unit="build")
    theirs = _by_bank(other)
    gaps = {
        issue: [None if a is None or b is None else a - b for a, b in zip(runs, theirs.get(issue, ()), strict=False)]
        for issue, runs in mine.items()
    }
    # Two constant runs: a baseline without noise of its own, so that the interval is Student's over the builds' differences.
    over = over_streams(gaps, dict.fromkeys(gaps, (0.0, 0.0)), estimand=text, unit="build")
    method = "Student's t over builds"
    return replace(over, effect=replace(over.effect, method=method), test=replace(over.test, method=method), baseline_error=None)


def _by_bank(table: Table) -> dict[str, list[float | None]]:
    """Issue -> per bank version the share of its runs that resolved the issue."""
    return {
        issue: [mean(known) if (known := present(runs[place] for place in places)) else None for places in table.same_bank]
        for issue, runs in table.resolved.items()
    }


# -- beside the estimate ---------------------------------------------------------------------------------------------------------------------


def _notes(setup: Setup, one: Table, other: Table) -> list[str]:
    said = []
    if other.kind == "none" and len(other.streams) > 1:
        said.append(f"The baseline has no order and learns nothing: its {len(other.streams)} runs are averaged, issue by issue.")
    if setup.protocol == "online" and len(one.streams) > 1 and setup.orders < len(one.streams) and setup.orders > 1:
        said.append(
            f"The {len(one.streams)} streams come in {setup.orders} orders; streams of one order share it, and are counted one by one."
        )
    return said


def _bootstrap(one: Table, other: Table) -> Estimate:
    return bootstrap_by_issue(one.resolved, other.resolved, resamples=RESAMPLES)


def _rate(table: Table, issues: Sequence[str]) -> float | None:
    """Mean over issues of the mean over runs."""
    return mean([mean(present(table.resolved[issue])) for issue in issues]) if issues else None


def _streams(one: Table, other: Table) -> list[tuple[str, float]]:
    """Each stream's difference to the baseline's mean, over the issues that both have."""
    base = {issue: mean(known) for issue, runs in other.resolved.items() if (known := present(runs))}
    found = []
    for place, name in enumerate(one.streams):
        gaps = [value - base[issue] for issue, (value,) in columns(one.resolved, (place,)).items() if value is not None and issue in base]
        if gaps:
            found.append((name, mean(gaps)))
    return found


def _sensitivity(setup: Setup, one: Table, other: Table) -> dict[str, Any]:
    repositories = {issue: setup.repositories.get(issue) or "not known" for issue in one.issues}
    found = leave_one_repository_out(one.resolved, other.resolved, repositories)
    return {
        "left_out": [
            {
                "repository": part.repository,
                "issues": part.issues,
                "difference": part.difference.value,
                "low": part.difference.low,
                "high": part.difference.high,
            }
            for part in found.left_out
        ],
        "low": found.low,
        "high": found.high,
        "note": found.note,
    }


def _bounds(one: Table, other: Table) -> dict[str, Any]:
    from harness.statistics.bounds import worst_case

    planned = [issue for issue in one.issues if issue in set(other.issues)]
    found = worst_case(_kept(one.resolved, planned), _kept(other.resolved, planned), planned, (len(one.streams), len(other.streams)))
    return {
        "low": found.low,
        "high": found.high,
        "interval_low": found.interval_low,
        "interval_high": found.interval_high,
        "missing": {"arm": found.missing[0], "baseline": found.missing[1]},
        "planned": found.planned,
        "unequal": plain_test(found.unequal),
        "why": found.why,
    }


def _kept(outcomes: Outcomes, issues: Sequence[str]) -> Outcomes:
    return {issue: outcomes[issue] for issue in issues if issue in outcomes}


# -- in words --------------------------------------------------------------------------------------------------------------------------------


def sentence(found: Mapping[str, Any]) -> str:
    """One COMPARISON in a sentence. Claims nothing."""
    arm, baseline = found["arm"], found["baseline"]
    if not found["issues"]:
        return f"No issue was graded in both `{arm}` and `{baseline}`, so there is nothing to compare."
    where = count(found["issues"], "issue", "issues")
    if found["only_arm"] is not None and not found["only_arm"] + found["only_baseline"]:
        same = f"`{arm}` and `{baseline}` resolved exactly the same of the {where}: no discordant pair, nothing to test"
        return f"{same} ({interval(found['low'], found['high'], found['interval'])})."
    if found["difference"] is None:
        return f"`{arm}` minus `{baseline}` on {where}: not known. {found['why']}"
    size = f"{points(found['difference'])} points on {where}"
    if within := interval(found["low"], found["high"], found["interval"]):
        size += f" ({within})"
    end = "."
    if found["p"] is not None:
        exact = f", exact {p_text(found['p_exact'])}" if found["p_exact"] is not None else ""
        test = "" if found["test"] == found["interval"] else f"{found['test']} "
        end = f"; {test}{p_text(found['p'])}{exact}."
    if found["p_adjusted"] is not None and found["p_adjusted"] != found["p"]:
        end = f"{end[:-1]}, {p_text(found['p_adjusted'])} by Holm."
    if found["low"] is None and found["why"]:
        end += f" {found['why']}"
    if found["only_arm"] is not None:
        head = f"{count(found['only_arm'], 'issue was', 'issues were')} resolved only with `{arm}`, {found['only_baseline']} only with `{baseline}`"
        return f"{head}: {size}{end}"
    return f"`{arm}` minus `{baseline}`, unit {found['unit']}: {size}{end}"
