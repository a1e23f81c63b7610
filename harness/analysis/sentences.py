"""What a reader of a run has to know beside its numbers, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.references import not_graded, only_references
from harness.analysis.words import count, percent
from harness.events import RunState
from harness.plan import Experiment

Found = Mapping[str, Any]


def verdict_label(experiment: Experiment) -> str:
    """Where the verdicts are from that memory learns from."""
    return {
        "tests": "oracle verdict: memory learned from the hidden tests' outcome",
        "rules": "verdicts by rules, which see what the agent saw",
        "llm": f"verdicts by {experiment.model or 'a language model'}, which sees what the agent saw",
    }[experiment.verdict]


def sentences(experiment: Experiment, result: Found, state: RunState) -> list[str]:
    """``sentences`` of a RESULT of one run; ``result`` is what is known of it so far."""
    if only_references(result):
        return [*_environment(result["environment"]), *not_graded(result)]
    arms, pairs = result["arms"], result["comparisons"]
    said = [f"Primary endpoint: {pair['sentence']}" if pair["role"] == "primary" else pair["sentence"] for pair in pairs]
    said += [claim["sentence"] for claim in result["claims"]]
    if pairs and not any(pair["baseline"] == "none" for pair in pairs):  # where there is no pair at all, the headline says so
        said.append("There is no pair of an arm with memory and `none`, so this run says nothing about what memory changes.")
    elif any(pair["issues"] for pair in pairs):
        said.append(_scope(experiment))
    if sum(pair["role"] != "primary" for pair in pairs) > 1:
        said.append(
            "Only the primary endpoint was written down before the run; the p values of the others are adjusted for their number by Holm."
        )
    said += _steps(pairs)
    said += _noise(result)
    if pairs:
        said.append(f"Memory learned with {result['verdict']['label']}.")
    said += _judge(experiment, arms)
    said += _uptake(result)
    if not result["complete"]:
        left = sum(arm["missing"] for arm in arms)
        what = f"{count(left, 'attempt is', 'attempts are')} missing" if left else "a bank or an infra failure is left"
        said.append(f"The run is not complete: {what}, and rates are over what is graded so far.")
    for arm in arms:
        if arm["infra"]:
            failed = count(len(arm["infra"]), "attempt", "attempts")
            said.append(f"`{arm['arm']}`: {failed} failed through the machine, not counted in any rate.")
        if arm["calls_unknown"] and arm["graded"]:
            said.append(f"`{arm['arm']}`: the calls of {count(arm['calls_unknown'], 'attempt', 'attempts')} are not known and in no mean.")
    said += _environment(result["environment"])
    for bank, known in state.banks.items():
        if known.frozen and known.frozen["missing"]:
            missing = count(len(known.frozen["missing"]), "attempt", "attempts")
            said.append(f"The bank {bank} was frozen without {missing} that failed through the machine.")
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


def _steps(pairs: Sequence[Found]) -> list[str]:
    """Calls and costs of the primary comparison."""
    first = next((pair for pair in pairs if pair["role"] == "primary"), None)
    if first is None or not first["issues"]:
        return []
    known = [
        entry for name, entry in first["steps"].items() if name in ("calls", "tokens", "cost") and entry["difference"]["value"] is not None
    ]
    return [entry["sentence"] for entry in known if entry["arm"] or entry["baseline"]]


def _noise(result: Found) -> list[str]:
    said = [result["noise"]["sentence"]] if any(pair["issues"] for pair in result["comparisons"]) else []
    return [
        *said,
        *(pair["noise"]["sentence"] for pair in result["comparisons"] if pair["role"] == "primary" and pair["noise"]["sentence"]),
    ]


def _judge(experiment: Experiment, arms: Sequence[Found]) -> list[str]:
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
                f"Of {count(sum(judged.values()), 'verdict', 'verdicts')} that memory learned from in `{arm['arm']}`, {judged['right']} agreed with the tests, "
                f"{judged['wrong']} did not, {count(judged['unknown'], 'was', 'were')} unknown."
            )
    return said


def _uptake(result: Found) -> list[str]:
    found = result["uptake"]
    if not found["looked"]:
        return []
    chance = found["by_chance"]["value"]
    beside = f"; the baseline, which was shown nothing, has as many of the words in {percent(chance)}" if chance is not None else ""
    looked = count(found["looked"], "attempt", "attempts")
    return [f"Taken up: {found['taken_up']} of {looked} with an item have rare words of it in their thoughts{beside}."]


def _environment(checks: Sequence[Found]) -> list[str]:
    said = []
    for found in checks:
        if found["failing"]:
            names = ", ".join(f"{entry['issue']} ({entry['outcome']})" for entry in found["failing"][:5])
            failing = f"{len(found['failing'])} of {count(found['checked'], 'issue', 'issues')}"
            said.append(f"The reference patch fails here on {failing}, which no agent can resolve: {names}.")
        elif found["checked"]:
            which = "the one issue that was" if found["checked"] == 1 else f"all {found['checked']} issues that were"
            said.append(f"The reference patch passes on {which} checked.")
    return said
