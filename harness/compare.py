"""What a run folder says about its arms: resolve rates, calls, paired differences, and what memory gave to each attempt.

Everything is computed from ``experiment.json`` and ``events.jsonl``, so that it can be asked of a run that is still going, was stopped, or has one arm
only; each of these is said in words. No number is ever NaN: what cannot be computed is null, with a sentence that says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.events import RunState, read_state
from harness.folder import read_experiment
from harness.layout import Cell, Layout, lay_out
from harness.outcomes import LIMITS, ArmRows, Row, arm_rows
from harness.plan import Experiment
from harness.scheduler import complete
from swe_memory.records import Usage


def compare_run(folder: Path) -> dict[str, Any]:
    """The comparison of the arms of one run folder, as plain values: the shape of ``compare --json`` and of ``results.json``.

    Raises UsageError where ``folder`` is no run folder.
    """
    experiment = read_experiment(folder)
    return comparison(experiment, read_state(folder / "events.jsonl"), folder.resolve().name)


def comparison(experiment: Experiment, state: RunState, name: str) -> dict[str, Any]:
    """See :func:`compare_run`; the keys are told by ``swe-memory compare --help``. Pure."""
    layout = lay_out(experiment)
    tables = arm_rows(layout, state)
    order = [arm.name for arm in experiment.conditions() if arm.name in tables]
    arms = [arm_summary(tables[arm], state) for arm in order if tables[arm].arm.kind != "gold"]
    pairs = [
        paired(experiment, tables[one], tables[other], role) for one, other, role in _pairs(experiment) if one in tables and other in tables
    ]
    gold = [tables[arm] for arm in order if tables[arm].arm.kind == "gold"]
    done = complete(layout, state)
    label = {
        "tests": "oracle verdict: memory learned from the hidden tests' outcome",
        "rules": "verdicts by rules, which see what the agent saw",
        "llm": f"verdicts by {experiment.model or 'a language model'}, which sees what the agent saw",
    }[experiment.verdict]
    result = {
        "run": name,
        "dataset": {"name": experiment.dataset, "hash": experiment.dataset_hash},
        "agent": experiment.agent,
        "protocol": experiment.protocol,
        "builds": experiment.builds,
        "orders": list(experiment.orders),
        "reruns": experiment.reruns,
        "call_limit": experiment.call_limit,
        "issues_planned": len(experiment.instances),
        "endpoint": experiment.endpoint,
        "verdict": {"source": experiment.verdict, "label": label},
        "complete": done,
        "arms": arms,
        "comparisons": pairs,
        "environment": [environment(table) for table in gold],
        "infra": infra_failures(layout, state),
        "issues": [
            _issue(issue, repo, order, tables, state) for issue, repo in zip(experiment.instances, experiment.repositories, strict=True)
        ],
        "items": used_items(state),
        "usage": {**{role: _usage(used) for role, used in state.usage.items()}, "all": _usage(state.spent)},
        "seconds": state.seconds,
        "sentences": _sentences(experiment, arms, pairs, gold, done, label, state),
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


def _pairs(experiment: Experiment) -> list[tuple[str, str, str]]:
    """(arm, what it is compared with, role): the first is the primary endpoint where there is one."""
    arms = experiment.conditions()
    memory = [arm for arm in arms if arm.kind == "memory"]
    found: list[tuple[str, str, str]] = []
    if any(arm.kind == "none" for arm in arms):
        found += [(arm.name, "none", "secondary") for arm in memory]
    found += [(control.of, control.name, "secondary") for control in arms if control.kind == "control"]
    if any(arm.kind == "none" for arm in arms):
        found += [(arm.name, "none", "secondary") for arm in arms if arm.kind == "control"]
    if found and found[0][1] == "none" and found[0][0] == (memory[0].name if memory else ""):
        found[0] = (*found[0][:2], "primary")
    return found


def arm_summary(table: ArmRows, state: RunState) -> dict[str, Any]:
    """One arm: rates over graded attempts, null where there is none; ``interval`` names the method of ``low`` and ``high`` (95 %)."""
    from harness.statistics.rates import rate

    rows = table.rows
    estimate = rate(table.outcomes())
    infra = [{"stream": cell.stream, "issue": cell.issue} for cell in table.cells if (s := state.attempts.get(cell.key)) and s.infra]
    known = [row.calls for row in rows if row.calls is not None]
    judge = Counter(_judged(row) for row in rows)
    return {
        "arm": table.arm.name,
        "kind": table.arm.kind,
        "streams": list(table.streams),
        "planned": len(table.cells),
        "graded": len(rows),
        "resolved": sum(row.resolved for row in rows),
        "rate": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "interval": estimate.method,
        "mean_calls": _mean(known),
        "mean_actions": _mean([row.actions for row in rows if row.actions is not None]),
        "calls_unknown": len(rows) - len(known),
        "limit_hits": {
            limit: sum(row.exit_status == limit for row in rows) for limit in LIMITS if any(row.exit_status == limit for row in rows)
        },
        "infra": infra,
        "missing": len(table.cells) - len(rows) - len(infra),
        "given": sum(row.given for row in rows),
        "exit_statuses": dict(sorted(Counter(row.exit_status for row in rows).items())),
        "judge": {name: judge[name] for name in ("right", "wrong", "unknown", "not judged")},
    }


def paired(experiment: Experiment, one: ArmRows, other: ArmRows, role: str) -> dict[str, Any]:
    """Two arms on the issues that both have graded.

    {arm, baseline, role, issues, unit, both, only_arm, only_baseline, neither (null with several runs of an issue), difference, low, high, interval, p, test,
    p_exact, calls_difference, why, sentence}. ``difference`` is the resolve rate of ``arm`` minus that of ``baseline``.
    """
    from harness.statistics.paired import compare_pairs, count_pairs
    from harness.statistics.repeated import by_issue
    from harness.statistics.streams import over_streams

    mine, theirs = one.outcomes(), other.outcomes()
    single = len(one.streams) == 1 and len(other.streams) == 1
    pairs = count_pairs(mine, theirs) if single else None
    p_exact: float | None = None
    if pairs is not None:
        result = compare_pairs(pairs)
        difference, test, p_exact = result.difference, result.midp, result.exact.p
    elif experiment.protocol == "online" and len(one.streams) > 1:
        over = over_streams(mine, theirs)
        difference, test = over.effect, over.test
    else:
        clustered = by_issue(mine, theirs)
        difference, test = clustered.difference, clustered.test
    shared = [issue for issue in mine if _known(mine[issue]) and _known(theirs.get(issue, []))]
    found: dict[str, Any] = {
        "arm": one.arm.name,
        "baseline": other.arm.name,
        "role": role,
        "issues": len(shared),
        "unit": difference.unit,
        "both": pairs.both if pairs else None,
        "only_arm": pairs.only_first if pairs else None,
        "only_baseline": pairs.only_second if pairs else None,
        "neither": pairs.neither if pairs else None,
        "difference": difference.value,
        "low": difference.low,
        "high": difference.high,
        "interval": difference.method,
        "p": test.p,
        "test": test.method,
        "p_exact": p_exact,
        "calls_difference": _calls_difference(one, other),
        "why": difference.why or test.why,
    }
    return {**found, "sentence": _paired_sentence(found)}


def _known(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values)


def _calls_difference(one: ArmRows, other: ArmRows) -> float | None:
    """Mean over issues of the difference of mean calls."""
    mine, theirs = one.calls(), other.calls()
    differences = []
    for issue, values in mine.items():
        first, second = [v for v in values if v is not None], [v for v in theirs.get(issue, []) if v is not None]
        if first and second:
            differences.append(sum(first) / len(first) - sum(second) / len(second))
    return _mean(differences)


def _paired_sentence(found: Mapping[str, Any]) -> str:
    arm, baseline = found["arm"], found["baseline"]
    if not found["issues"]:
        return f"No issue was graded in both `{arm}` and `{baseline}`, so there is nothing to compare."
    where = _count(found["issues"], "issue", "issues")
    if found["only_arm"] is not None and not found["only_arm"] + found["only_baseline"]:
        return f"`{arm}` and `{baseline}` resolved exactly the same of the {where}: no discordant pair, nothing to test."
    size = f"{100 * found['difference']:+.1f} points on {where}"
    if found["low"] is not None:
        size += f" (95 % {100 * found['low']:+.1f} to {100 * found['high']:+.1f}, {found['interval']})"
    p = f"; {found['test']} p {found['p']:.3f}" if found["p"] is not None else f". {found['why']}".rstrip(".") if found["why"] else ""
    if found["only_arm"] is not None:
        head = f"{_count(found['only_arm'], 'issue was', 'issues were')} resolved only with `{arm}`, {found['only_baseline']} only with `{baseline}`: "
        exact = f", exact {found['p_exact']:.3f}" if found["p_exact"] is not None else ""
        return f"{head}{size}{p}{exact}."
    return f"`{arm}` minus `{baseline}`, unit {found['unit']}: {size}{p}."


def environment(gold: ArmRows) -> dict[str, Any]:
    """What the reference patches say about the environment: {checked, resolved, failing: [{issue, outcome}]}. Never an agent's result."""
    failing = [{"issue": row.cell.issue, "outcome": row.state.graded["outcome"]} for row in gold.rows if not row.resolved]
    return {"checked": len(gold.rows), "resolved": sum(row.resolved for row in gold.rows), "failing": failing}


def infra_failures(layout: Layout, state: RunState) -> list[dict[str, Any]]:
    """Attempts that stand as infra failures: {arm, stream, issue, tries, reason}."""
    found = []
    for cell in layout.cells:
        known = state.attempts.get(cell.key)
        if known and known.infra:
            reason = known.failures[-1].splitlines()[0] if known.failures[-1] else ""
            found.append({"arm": cell.arm.name, "stream": cell.stream, "issue": cell.issue, "tries": len(known.failures), "reason": reason})
    return found


def used_items(state: RunState) -> list[dict[str, Any]]:
    """Items that graded attempts ran with, most used first, with how many of these attempts resolved their issue; those that controls gave do not count."""
    found: dict[str, dict[str, Any]] = {}
    for attempt in state.attempts.values():
        recall = attempt.started.get("recall") or {}
        if not attempt.graded or not recall.get("item") or recall.get("control"):
            continue
        entry = found.setdefault(
            recall["item"],
            {"id": recall["item"], "title": recall["title"], "learned_from": recall["learned_from"], "uses": 0, "resolved": 0},
        )
        entry["uses"] += 1
        entry["resolved"] += attempt.graded["resolved"]
    return sorted(found.values(), key=lambda e: (-e["uses"], -e["resolved"], e["id"]))


def _issue(issue: str, repo: str, order: Sequence[str], tables: Mapping[str, ArmRows], state: RunState) -> dict[str, Any]:
    arms = {arm: [_attempt(cell, state) for cell in tables[arm].cells if cell.issue == issue] for arm in order}
    return {"issue": issue, "repository": repo, "arms": arms}


def _attempt(cell: Cell, state: RunState) -> dict[str, Any]:
    found = state.attempts.get(cell.key)
    if found is None:
        return {"stream": cell.stream, "state": "not started", "resolved": None, "calls": None}
    recall = found.started.get("recall") or {}
    return {
        "stream": cell.stream,
        "state": "infra failure" if found.infra else "graded" if found.graded else "finished" if found.finished else "started",
        "resolved": found.graded["resolved"] if found.graded else None,
        "calls": found.finished.get("calls"),
        "exit_status": found.finished.get("exit_status"),
        "outcome": found.graded.get("outcome"),
        "flags": found.graded.get("flags", []),
        "verdict": (found.graded.get("verdict") or {}).get("outcome"),
        "recalled": recall.get("title"),
        "control": recall.get("control"),
        "item": recall.get("item"),
        "score": recall.get("score") if recall.get("item") else None,
        "learned_from": recall.get("learned_from"),
    }


def _usage(used: Usage) -> dict[str, Any]:
    return {"calls": used.calls, "input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "cost": used.cost}


def _judged(row: Row) -> str:
    verdict = row.state.graded.get("verdict")
    if not verdict:
        return "not judged"
    if verdict["outcome"] == "unknown":
        return "unknown"
    return "right" if (verdict["outcome"] == "resolved") == row.resolved else "wrong"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _sentences(
    experiment: Experiment,
    arms: Sequence[Mapping[str, Any]],
    pairs: Sequence[Mapping[str, Any]],
    gold: Sequence[ArmRows],
    done: bool,
    label: str,
    state: RunState,
) -> list[str]:
    """What a reader has to know beside the numbers."""
    said = []
    for pair in pairs:
        said.append(f"Primary endpoint: {pair['sentence']}" if pair["role"] == "primary" else pair["sentence"])
    if not any(pair["baseline"] == "none" for pair in pairs):
        said.append("There is no pair of an arm with memory and `none`, so this run says nothing about what memory changes.")
    elif any(pair["issues"] for pair in pairs):
        said.append(_scope(experiment))
    if len(pairs) > 1:
        said.append("Only the primary endpoint was written down before the run; the other p values are not adjusted for their number.")
    if any(pair["only_arm"] is not None and 0 < pair["only_arm"] + pair["only_baseline"] < 6 for pair in pairs):
        said.append(
            "With fewer than six discordant pairs the exact test cannot reach p < .05 whatever the effect, and mid-p only with five on one side."
        )
    if pairs:
        said.append(f"Memory learned with {label}.")
    said += _judge_sentences(experiment, arms)
    if not done:
        left = sum(arm["missing"] for arm in arms)
        what = f"{_count(left, 'attempt is', 'attempts are')} missing" if left else "a bank or an infra failure is left"
        said.append(f"The run is not complete: {what}, and rates are over what is graded so far.")
    for arm in arms:
        if arm["infra"]:
            failed = len(arm["infra"])
            said.append(f"`{arm['arm']}`: {_count(failed, 'attempt', 'attempts')} failed through the machine, not counted in any rate.")
        if arm["calls_unknown"] and arm["graded"]:
            said.append(f"`{arm['arm']}`: the calls of {_count(arm['calls_unknown'], 'attempt', 'attempts')} are not known and in no mean.")
    for table in gold:
        found = environment(table)
        if found["failing"]:
            names = ", ".join(f"{entry['issue']} ({entry['outcome']})" for entry in found["failing"][:5])
            said.append(
                f"The reference patch fails here on {len(found['failing'])} of {found['checked']} issues, which no agent can resolve: {names}."
            )
        elif found["checked"]:
            said.append(f"The reference patch passes on all {_count(found['checked'], 'issue', 'issues')} that were checked.")
    for bank, known in state.banks.items():
        if known.frozen and known.frozen["missing"]:
            said.append(
                f"The bank {bank} was frozen without {_count(len(known.frozen['missing']), 'attempt', 'attempts')} that failed through the machine."
            )
    if experiment.agent == "repair":
        said.append("The agent is a program without a language model; what memory does to it says nothing about language models.")
    return said


def _scope(experiment: Experiment) -> str:
    """What the differences are differences of."""
    if experiment.protocol == "online":
        streams = len(experiment.orders) * experiment.reruns
        if streams == 1:
            path = "One stream in one order: these are differences along this path."
            return f"{path} They do not estimate what memory does on average; that takes several streams."
        return f"{streams} streams: the interval is over streams, on these issues."
    bank = (
        "the given bank"
        if experiment.protocol == "offline"
        else "the banks of this run, each learned from one half of the issues and tested on the other"
    )
    if experiment.builds > 1:
        return f"Frozen banks: the effect is that of {experiment.builds} builds of the bank, on issues like these."
    return f"Frozen banks: the effect is that of {bank}. Another build could differ; --builds says by how much."


def _judge_sentences(experiment: Experiment, arms: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the verdicts that memory learned from compare with the tests."""
    if experiment.verdict == "tests" or not any(arm["kind"] == "memory" for arm in arms):
        return []
    teaching = "none" if experiment.protocol == "crossfit" else None
    said = []
    for arm in arms:
        judged = {name: arm["judge"][name] for name in ("right", "wrong", "unknown")}
        teaches = arm["arm"] == teaching if teaching else arm["kind"] == "memory" and experiment.protocol == "online"
        if teaches and sum(judged.values()):
            said.append(
                f"Of the {sum(judged.values())} verdicts that memory learned from in `{arm['arm']}`, {judged['right']} agreed with the tests, "
                f"{judged['wrong']} did not, {judged['unknown']} were unknown."
            )
    return said
