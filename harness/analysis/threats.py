"""What in the data of a run speaks against believing its numbers, in sentences. Each threat is looked for in every run; what cannot be checked is said to be
unchecked.

``serious``: read no result without it. ``caution``: it can move the result. ``note``: worth knowing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.analysis.attempts import Attempts
from harness.analysis.references import only_references
from harness.analysis.words import count, p_text, percent, points
from harness.statistics.paired import FEW_DISCORDANT

WEIGHTS = ("serious", "caution", "note", "not checked")
MANY_AT_LIMIT = 0.1
LARGE_REPOSITORY = 0.5
Found = Mapping[str, Any]
Threat = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a result does not hold itself. ``dates``: issue -> ISO date, "" for unknown. ``guarded``: arms with memory that recall only from earlier issues.
    ``models``: that attempts name. ``hidden``: attempts with a record of removed history, and those where something was removed; None where no trajectory was
    read. ``named``: issues whose text names a file of the reference patch, and of how many; None where no dataset was at hand. ``left``: attempts that are
    still to be made. ``unnamed``: why ``named`` is None, and ``ask``: the command that would look, "" for none."""

    protocol: str = ""
    wave: int = 1
    builds: int = 1
    agent: str = ""
    dates: Mapping[str, str] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    hidden: tuple[int, int] | None = None
    named: tuple[tuple[str, ...], int] | None = None
    unnamed: str = "the dataset was not at hand"
    ask: str = ""
    frozen_without: Mapping[str, int] = field(default_factory=dict)
    left: int = 0


def threats(result: Found, attempts: Attempts, facts: Facts) -> list[Threat]:
    """``threats`` of a RESULT, the serious ones first. Where only reference patches were graded there is nothing to believe of an agent or of memory."""
    found = [threat for look in ((_damage,) if only_references(result) else _LOOKS) for threat in look(result, attempts, facts)]
    return sorted(found, key=lambda threat: WEIGHTS.index(threat["weight"]))


def _threat(name: str, weight: str, sentence: str, about: Sequence[str] = ()) -> Threat:
    return {"id": name, "weight": weight, "sentence": sentence, "about": list(about)}


def _primary(result: Found) -> Found | None:
    return next((found for found in result["comparisons"] if found["role"] == "primary"), next(iter(result["comparisons"]), None))


# -- the numbers -----------------------------------------------------------------------------------------------------------------------------


def _differences(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    if result["differences"]:
        said = "; ".join(result["differences"])
        yield _threat(
            "differences", "serious", f"The two folders were not made alike, and any of this can be the cause of a difference: {said}."
        )


def _incomplete(_result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    if facts.left:
        text = f"{count(facts.left, 'attempt is', 'attempts are')} still to be made; a result that is looked at on the way changes."
        yield _threat("incomplete", "serious", text)


def _few_pairs(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    found = _primary(result)
    if found is None or not found["discordant"]:
        return
    seen = found["discordant"]
    total = seen["only_arm"] + seen["only_baseline"]
    one = round(total, 1) == 1
    pairs = f"{'is' if one else 'are'} {f'on average {round(total, 1):g}' if seen['expected'] else f'{total:.0f}'} discordant {'pair' if one else 'pairs'}"
    if total < 6:
        why = "the exact test cannot reach p < .05 whatever the effect, and mid-p only with five on one side"
        yield _threat("few discordant pairs", "serious", f"There {pairs}: {why}.", [found["id"]])
    elif total < FEW_DISCORDANT:
        why = f"with fewer than {FEW_DISCORDANT} intervals are wide, and cover a little less surely"
        yield _threat("few discordant pairs", "caution", f"There {pairs}; {why}.", [found["id"]])


def _one_path(result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    memory = [arm for arm in result["arms"] if arm["kind"] == "memory"]
    for arm in memory:
        if facts.protocol == "online" and len(arm["streams"]) == 1:
            text = (
                f"`{arm['arm']}` ran one stream in one order: its differences are along this path and do not estimate what memory does on average; "
                "that takes several streams (--orders)."
            )
            yield _threat("one stream", "serious", text, [arm["arm"]])
    if facts.protocol == "crossfit" and facts.builds == 1 and memory:
        text = "The bank was built once: the effect is that of this bank. Another build could differ; --builds says by how much."
        yield _threat("one build", "note", text)


def _noise(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    found = _primary(result)
    if found is None or found["difference"] is None:
        return
    error = found["noise"]["own_error"]
    if error is None:
        if result["noise"]["sentence"]:
            yield _threat("noise not known", "caution", result["noise"]["sentence"], [found["id"]])
    elif abs(found["difference"]) <= 1.96 * error:
        within = f"is within what reruns of one arm differ by (±{196 * error:.1f} points at 95 %)"
        text = f"The primary difference, {points(found['difference'])} points, {within}."
        yield _threat("noise as large as the effect", "serious", text, [found["id"]])


def _repositories(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    found = _primary(result)
    if found is None or not found["issues"]:
        return
    left_out = found["sensitivity"]["left_out"]
    turns = (
        next((part for part in left_out if (part["difference"] or 0.0) * found["difference"] <= 0), None) if found["difference"] else None
    )
    if turns:
        text = (
            f"Without {turns['repository']} ({count(turns['issues'], 'issue', 'issues')}) the primary difference is "
            f"{points(turns['difference'] or 0.0)} points: its direction rests on one repository."
        )
        yield _threat("one repository decides", "caution", text, [turns["repository"]])
    elif left_out and left_out[0]["issues"] > LARGE_REPOSITORY * found["issues"]:
        text = f"{left_out[0]['repository']} has {left_out[0]['issues']} of the {count(found['issues'], 'issue', 'issues')}: the result is mostly about it."
        yield _threat("one large repository", "note", text, [left_out[0]["repository"]])
    yield _threat("repositories", "note", found["sensitivity"]["note"], [found["id"]])


# -- how the attempts were made --------------------------------------------------------------------------------------------------------------


def _oracle(result: Found, attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    if result["verdict"].get("source") == "tests" and any(arm["kind"] == "memory" for arm in result["arms"]):
        text = "Oracle verdict: memory learned from the outcome of the hidden tests, which nobody has who uses an agent."
        yield _threat("oracle verdicts", "serious", text)
        return
    told = sum(run.get("verdict_source") == "tests" for runs in attempts.values() for run in runs if run.get("item"))
    if told:
        given = f"{count(told, 'attempt was', 'attempts were')} given an item whose outcome was known from hidden tests"
        yield _threat("oracle verdicts", "serious", f"Oracle verdict: {given}.")


def _later_lessons(result: Found, attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    memory = [arm["arm"] for arm in result["arms"] if arm["kind"] == "memory" and arm["arm"] not in facts.guarded]
    later = unknown = total = 0
    for (arm, issue), runs in attempts.items():
        for run in runs if arm in memory else ():
            if not run.get("item"):
                continue
            total += 1
            own, source = facts.dates.get(issue, ""), facts.dates.get(run.get("learned_from") or "", "")
            unknown += not (own and source)
            later += bool(own and source and source > own)
    recalled = count(total, "recalled lesson", "recalled lessons")
    if later:
        text = f"No time guard: {later} of {recalled} came from an issue that was opened after the one at hand; --before keeps them out."
        yield _threat("lessons from later issues", "caution", text, memory)
    if unknown:
        text = f"Whether lessons came from later issues is not known for {unknown} of {recalled}: dates are missing."
        yield _threat("lessons from later issues", "not checked", text, memory)


def _missing(result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    if facts.left:
        return
    first = _primary(result)
    for found in result["comparisons"]:
        bounds = found["bounds"]
        lost, p = bounds["missing"], bounds["unequal"]["p"]
        unequal = p is not None and p < 0.05
        if not lost["arm"] + lost["baseline"] or bounds["low"] is None or not (unequal or found is first):
            continue
        how = f"unequal by arm ({p_text(p)})" if unequal else "which chance alone can do" if p is not None else "on the same issues"
        text = (
            f"{count(lost['arm'], 'attempt', 'attempts')} of `{found['arm']}` and {lost['baseline']} of `{found['baseline']}` are missing, {how}. "
            f"Whatever would have come of them, the difference over all {count(bounds['planned'], 'issue', 'issues')} lies between "
            f"{points(bounds['low'])} and {points(bounds['high'])} points."
        )
        yield _threat("infra failures", "serious" if unequal else "caution", text, [found["id"]])


def _flags(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    for flag in dict.fromkeys(flag for arm in result["arms"] for flag in arm["flags"]):
        where = ", ".join(f"`{arm['arm']}` {arm['flags'].get(flag, 0)} of {arm['graded']}" for arm in result["arms"] if arm["graded"])
        yield _threat(f"flag: {flag}", "caution" if "grader" in flag else "note", f"Found in attempts: {flag}. {where}.")


def _grading(_result: Found, attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    """The same patch, graded in both ways: what differs then are the tests or the machine, never the agent."""
    seen: dict[tuple[str, str], set[bool]] = {}
    for (_, issue), runs in attempts.items():
        for run in runs:
            if run["resolved"] is not None and run.get("patch_sha256"):
                seen.setdefault((issue, run["patch_sha256"]), set()).add(run["resolved"])
    issues = sorted({issue for (issue, _), verdicts in seen.items() if len(verdicts) > 1})
    if issues:
        some = ", ".join(issues[:3]) + (", ..." if len(issues) > 3 else "")
        text = f"On {count(len(issues), 'issue', 'issues')} the same patch was graded as resolved once and as not resolved once ({some})"
        yield _threat("grading is not stable", "serious", f"{text}: the tests are not stable, or were not run alike.", issues)


def _limits(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    hits = {arm["arm"]: (sum(arm["limit_hits"].values()), arm["graded"]) for arm in result["arms"] if arm["graded"]}
    if any(number > MANY_AT_LIMIT * graded for number, graded in hits.values()):
        where = ", ".join(f"`{arm}` {number} of {graded} ({percent(number / graded)})" for arm, (number, graded) in hits.items())
        yield _threat(
            "limits", "note", f"Attempts that reached a limit: {where}. With another limit the rates would be others.", list(hits)
        )


def _waves(_result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    if facts.protocol == "online" and facts.wave > 1:
        text = f"Waves of {facts.wave}: attempts of one wave do not have each other's lessons, so this is not the stream of one after the other."
        yield _threat("waves", "note", text)


def _placebos(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    for said in result["claims"]:
        if said["over_derangement"] == "not compared":
            why = "the protocol online has none" if result["protocol"] == "online" else "--arm derangement adds it"
            text = f"`{said['arm']}` has no derangement beside it ({why}), so what memory says cannot be told from that something is said."
            yield _threat("no placebo", "caution", text, [said["arm"]])


def _banks(_result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    for bank, missing in facts.frozen_without.items():
        text = f"The bank {bank} was frozen without {count(missing, 'attempt', 'attempts')} that failed through the machine."
        yield _threat("bank not whole", "caution", text, [bank])


def _damage(result: Found, _attempts: Attempts, _facts: Facts) -> Iterator[Threat]:
    if result["problems"]:
        number = count(len(result["problems"]), "thing could", "things could")
        text = f"{number} not be read and were left out, the first: {result['problems'][0]}."
        yield _threat("damaged journal" if result["kind"] == "run" else "damaged files", "caution", text)


# -- the issues and the model ----------------------------------------------------------------------------------------------------------------


def _gold_named(_result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    name = "issues that name the file"
    if facts.named is None:
        text = f"Whether issue texts name the file to be changed was not checked: {facts.unnamed}."
        yield _threat(name, "not checked", f"{text} To check it: `{facts.ask}`" if facts.ask else text)
        return
    issues, total = facts.named
    if issues:
        some = ", ".join(issues[:3]) + (", ..." if len(issues) > 3 else "")
        text = f"{len(issues)} of {count(total, 'issue', 'issues')} name a file of the reference patch in their text ({some}): it says where to look."
        yield _threat(name, "note", text, issues)


def _model_date(_result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    if facts.agent == "repair":
        text = "The agent is a program without a language model; what memory does to it says nothing about language models."
        yield _threat("no language model", "note", text)
        return
    known = sorted(date for date in facts.dates.values() if date)
    released = {model: date for model in sorted(facts.models) if (date := release_date(model))}
    if not known or not released:
        why = "the issues have no dates" if not known else "no date is in the name of a model that attempts name"
        yield _threat("model and issues", "not checked", f"Whether the model is newer than the issues was not checked: {why}.")
    for model, date in released.items():
        older = sum(day[:10] < date for day in known)
        if older:
            text = f"{model} is dated {date}, and {older} of {count(len(known), 'dated issue', 'dated issues')} are older: it may have seen their fixes."
            yield _threat("model newer than the issues", "caution", text, [model])


def _future(_result: Found, _attempts: Attempts, facts: Facts) -> Iterator[Threat]:
    if facts.hidden and facts.hidden[1]:
        looked, removed = facts.hidden
        text = f"In {removed} of {count(looked, 'attempt', 'attempts')} that were looked at, later commits were in the repository and were removed before."
        yield _threat("removed future commits", "note", text)


def release_date(model: str) -> str:
    """The date that a model's name carries (claude-sonnet-4-20250514, gpt-4o-2024-08-06), as an ISO date; "" for none."""
    found = re.search(r"(?<!\d)(20[12]\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)", model)
    return "-".join(found.groups()) if found else ""


_LOOKS: tuple[Callable[[Found, Attempts, Facts], Iterator[Threat]], ...] = (
    _differences,
    _incomplete,
    _one_path,
    _few_pairs,
    _noise,
    _oracle,
    _missing,
    _later_lessons,
    _placebos,
    _repositories,
    _flags,
    _grading,
    _banks,
    _damage,
    _model_date,
    _gold_named,
    _future,
    _limits,
    _waves,
)
