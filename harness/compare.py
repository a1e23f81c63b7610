"""What a run folder says about its arms: resolve rates, calls, paired differences, and what memory was recalled for each issue.

Everything is computed from ``experiment.json`` and ``events.jsonl``, so that it can be asked of a run that is still going, was stopped, or has one arm
only; each of these is said in words. No number is ever NaN: what cannot be computed is null, with a sentence that says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.events import AttemptState, RunState, read_state
from harness.plan import Experiment, Stream
from harness.scheduler import complete, read_experiment

LIMIT = "LimitsExceeded"


@dataclass(frozen=True, slots=True)
class Row:
    """One graded attempt."""

    issue: str
    resolved: bool
    calls: int
    actions: int
    limit_hit: bool
    state: AttemptState


def compare_run(folder: Path) -> dict[str, Any]:
    """The comparison of the arms of one run folder, as plain values: the shape of ``compare --json`` and of ``results.json``.

    Raises UsageError where ``folder`` is no run folder.
    """
    experiment = read_experiment(folder)
    return comparison(experiment, read_state(folder / "events.jsonl"), folder.resolve().name)


def comparison(experiment: Experiment, state: RunState, name: str) -> dict[str, Any]:
    """See :func:`compare_run`. Pure.

    Keys: ``run``, ``dataset``, ``agent``, ``protocol``, ``call_limit``, ``issues_planned``, ``endpoint``; ``verdict`` {source, label};
    ``complete``; ``arms`` (a list: see :func:`arm_summary`); ``comparisons`` (a list: see :func:`paired`); ``issues`` (a list of {issue, arms: {ARM: {state,
    resolved, calls, exit_status, outcome, flags, verdict, recalled, item, score, learned_from}}}); ``items`` (most used first: {id, title, learned_from,
    uses, resolved}); ``sentences``; ``problems``.
    """
    streams = experiment.streams()
    rows = {stream.arm: arm_rows(stream, state) for stream in streams}
    arms = [arm_summary(stream, rows[stream.arm], state) for stream in streams]
    done = all(complete(s, state.attempts.get((s.arm, s.name, i))) for s in streams for i in s.instances)
    pairs = [paired(stream.arm, rows[stream.arm], rows["none"]) for stream in streams if stream.memory and "none" in rows]
    oracle = experiment.verdict == "tests"
    label = "oracle verdict: memory learned from the hidden tests' outcome" if oracle else "verdicts by rules, which see what the agent saw"
    result = {
        "run": name,
        "dataset": {"name": experiment.dataset, "hash": experiment.dataset_hash},
        "agent": experiment.agent,
        "protocol": experiment.protocol,
        "call_limit": experiment.call_limit,
        "issues_planned": len(experiment.instances),
        "endpoint": experiment.endpoint,
        "verdict": {"source": experiment.verdict, "label": label},
        "complete": done,
        "arms": arms,
        "comparisons": pairs,
        "issues": [_issue(issue, streams, state) for issue in experiment.instances],
        "items": used_items(state),
        "sentences": _sentences(experiment, arms, pairs, done, label),
        "problems": list(state.problems),
    }
    return {key: _printable(value) for key, value in result.items()}


def _printable(value: Any) -> Any:
    """The same with each lone surrogate, which no terminal or file takes, replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode("utf-8")
    if isinstance(value, list):
        return [_printable(part) for part in value]
    return {_printable(key): _printable(part) for key, part in value.items()} if isinstance(value, dict) else value


def arm_rows(stream: Stream, state: RunState) -> dict[str, Row]:
    """Issue id -> graded attempt, for one arm."""
    rows = {}
    for issue in stream.instances:
        found = state.attempts.get((stream.arm, stream.name, issue))
        if found and found.graded and found.finished:
            end = found.finished
            rows[issue] = Row(issue, found.graded["resolved"], end["calls"], end["actions"], end["exit_status"] == LIMIT, found)
    return rows


def arm_summary(stream: Stream, rows: Mapping[str, Row], state: RunState) -> dict[str, Any]:
    """{arm, planned, graded, resolved, rate, low, high (Wilson, 95 %), mean_calls, mean_actions, limit_hits, infra (list of issues), missing (list of
    issues), recalled (attempts that ran with an item), exit_statuses, judge: {right, wrong, unknown} (the run's verdicts against the tests)}. Rates and
    means are null for an arm without a graded attempt."""
    graded, resolved = len(rows), sum(row.resolved for row in rows.values())
    low, high = wilson(resolved, graded) if graded else (None, None)
    infra = [i for i in stream.instances if (s := state.attempts.get((stream.arm, stream.name, i))) and s.infra]
    judge = Counter(_judged(row) for row in rows.values())
    return {
        "arm": stream.arm,
        "planned": len(stream.instances),
        "graded": graded,
        "resolved": resolved,
        "rate": resolved / graded if graded else None,
        "low": low,
        "high": high,
        "mean_calls": _mean([row.calls for row in rows.values()]),
        "mean_actions": _mean([row.actions for row in rows.values()]),
        "limit_hits": sum(row.limit_hit for row in rows.values()),
        "infra": infra,
        "missing": [i for i in stream.instances if i not in rows and i not in infra],
        "recalled": sum(bool(_recall(row.state).get("item")) for row in rows.values()),
        "exit_statuses": dict(sorted(Counter(row.state.finished["exit_status"] for row in rows.values()).items())),
        "judge": {name: judge[name] for name in ("right", "wrong", "unknown")},
    }


def paired(arm: str, rows: Mapping[str, Row], baseline: Mapping[str, Row]) -> dict[str, Any]:
    """Two arms on the issues that both have graded: {arm, baseline, pairs, both, only_arm, only_baseline, neither, difference, p_midp, p_exact,
    calls_difference, sentence}.

    ``difference`` is the resolve rate of ``arm`` minus that of the baseline, ``calls_difference`` the mean of the differences in calls; null without a pair.
    """
    shared = [issue for issue in rows if issue in baseline]
    counts = Counter((rows[i].resolved, baseline[i].resolved) for i in shared)
    only_arm, only_baseline = counts[True, False], counts[False, True]
    result: dict[str, Any] = {
        "arm": arm,
        "baseline": "none",
        "pairs": len(shared),
        "both": counts[True, True],
        "only_arm": only_arm,
        "only_baseline": only_baseline,
        "neither": counts[False, False],
        "difference": (only_arm - only_baseline) / len(shared) if shared else None,
        "p_midp": mcnemar_midp(only_arm, only_baseline) if only_arm + only_baseline else None,
        "p_exact": mcnemar_exact(only_arm, only_baseline) if only_arm + only_baseline else None,
        "calls_difference": _mean([rows[i].calls - baseline[i].calls for i in shared]),
    }
    if not shared:
        result["sentence"] = f"No issue was graded in both `{arm}` and `none`, so there is nothing to compare."
    elif not only_arm + only_baseline:
        result["sentence"] = (
            f"`{arm}` and `none` resolved exactly the same of the {len(shared)} issues: no discordant pair, nothing to test."
        )
    else:
        result["sentence"] = (
            f"{_count(only_arm, 'issue was', 'issues were')} resolved only with `{arm}`, {only_baseline} only with `none`: a difference of "
            f"{100 * result['difference']:+.1f} points on {len(shared)} issues "
            f"(McNemar mid-p {result['p_midp']:.3f}, exact {result['p_exact']:.3f})."
        )
    return result


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a proportion (statsmodels)."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, trials, alpha=0.05, method="wilson")
    return float(low), float(high)


def mcnemar_exact(only_one: int, only_other: int) -> float:
    """Exact two-sided McNemar test on discordant pairs (statsmodels)."""
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar([[0, only_one], [only_other, 0]], exact=True).pvalue)


def mcnemar_midp(only_one: int, only_other: int) -> float:
    """McNemar mid-p: the exact p less the probability of the observed table.

    Fagerland, Lydersen, Laake, "The McNemar test for binary matched-pairs data: mid-p and asymptotic are better than exact conditional", BMC Medical
    Research Methodology 13:91 (2013). Needs one discordant pair or more.
    """
    from scipy.stats import binom

    pairs = only_one + only_other
    if pairs < 1:
        raise ValueError("the test needs a discordant pair")
    least = min(only_one, only_other)
    point = float(binom.pmf(least, pairs, 0.5))
    if only_one == only_other:
        return 1.0 - 0.5 * point
    return 2.0 * float(binom.cdf(least, pairs, 0.5)) - point


def used_items(state: RunState) -> list[dict[str, Any]]:
    """Items that graded attempts ran with, most used first, with how many of these attempts resolved their issue."""
    found: dict[str, dict[str, Any]] = {}
    for attempt in state.attempts.values():
        recall = _recall(attempt)
        if not attempt.graded or not recall.get("item"):
            continue
        entry = found.setdefault(
            recall["item"],
            {"id": recall["item"], "title": recall["title"], "learned_from": recall["learned_from"], "uses": 0, "resolved": 0},
        )
        entry["uses"] += 1
        entry["resolved"] += attempt.graded["resolved"]
    return sorted(found.values(), key=lambda e: (-e["uses"], -e["resolved"], e["id"]))


def _issue(issue: str, streams: Sequence[Stream], state: RunState) -> dict[str, Any]:
    arms: dict[str, Any] = {}
    for stream in streams:
        found = state.attempts.get((stream.arm, stream.name, issue))
        if found is None:
            arms[stream.arm] = {"state": "not started", "resolved": None, "calls": None}
            continue
        recall = _recall(found)
        arms[stream.arm] = {
            "state": "infra failure" if found.infra else "graded" if found.graded else "finished" if found.finished else "started",
            "resolved": found.graded["resolved"] if found.graded else None,
            "calls": found.finished.get("calls"),
            "exit_status": found.finished.get("exit_status"),
            "outcome": found.graded.get("outcome"),
            "flags": found.graded.get("flags", []),
            "verdict": found.graded.get("verdict", {}).get("outcome"),
            "recalled": recall.get("title"),
            "item": recall.get("item"),
            "score": recall.get("score") if recall.get("item") else None,
            "learned_from": recall.get("learned_from"),
        }
    return {"issue": issue, "arms": arms}


def _recall(state: AttemptState) -> Mapping[str, Any]:
    return state.started.get("recall") or {}


def _judged(row: Row) -> str:
    said = row.state.graded.get("verdict", {}).get("outcome", "unknown")
    if said == "unknown":
        return "unknown"
    return "right" if (said == "resolved") == row.resolved else "wrong"


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _sentences(
    experiment: Experiment, arms: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], done: bool, label: str
) -> list[str]:
    """What a reader has to know beside the numbers."""
    said = [pair["sentence"] for pair in pairs]
    if not pairs:
        said.append("There is no pair of an arm with memory and `none`, so this run says nothing about what memory changes.")
    elif any(pair["pairs"] for pair in pairs):
        said.append(
            "One stream in one order: these are differences along this path. They do not estimate what memory does on average; that takes several streams."
        )
    if any(0 < pair["only_arm"] + pair["only_baseline"] < 6 for pair in pairs):
        said.append(
            "With fewer than six discordant pairs the exact test cannot reach p < .05 whatever the effect, and mid-p only with five on one side."
        )
    if pairs:
        said.append(f"Memory learned with {label}.")
    for arm in arms if experiment.verdict == "rules" else ():
        right, wrong, unknown = (arm["judge"][name] for name in ("right", "wrong", "unknown"))
        if arm["graded"] and arm["arm"] != "none":
            said.append(
                f"Of the {arm['graded']} verdicts in `{arm['arm']}`, {right} agreed with the tests, {wrong} did not, {unknown} were unknown."
            )
    if not done:
        left = sum(len(arm["missing"]) for arm in arms)
        said.append(
            f"The run is not complete: {_count(left, 'attempt is', 'attempts are')} missing, and rates are over what is graded so far."
        )
    for arm in arms:
        if arm["infra"]:
            failed = len(arm["infra"])
            said.append(f"`{arm['arm']}`: {_count(failed, 'attempt', 'attempts')} failed through the machine, not counted in any rate.")
    if experiment.agent == "repair":
        said.append("The agent is a program without a language model; what memory does to it says nothing about language models.")
    return said
