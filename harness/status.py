"""``swe-memory run status``: how far a run is, whether anybody is at work on it, what it used, and what to type next.

Everything is read, nothing written: it can be asked of a run that is going, was stopped or killed, or is done, and of a journal with damaged lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.budget import duration
from harness.compare import infra_failures
from harness.compare_text import table
from harness.events import RunState, fold, read_events
from harness.folder import changed_since, read_experiment, resume_command
from harness.growing import Growing
from harness.layout import BankPlan, Cell, Key, Layout, lay_out
from harness.looking import History, at_work, histories, printable, usage_values, usage_words
from harness.plan import Experiment
from harness.scheduler import complete
from harness.statistics.estimates import count
from swe_memory.records import Usage

BUDGET = "not known: limits of the run (--max-cost, --max-hours, ...) are given with each start and not kept in the folder"
_MOST_PROBLEMS = 20


def run_status(folder: Path) -> dict[str, Any]:
    """The state of a run as plain values; the keys are told by ``swe-memory run status --help``. Raises UsageError where ``folder`` holds no run."""
    experiment = read_experiment(folder)
    working = at_work(folder)  # first, so that a run that ends meanwhile is seen to be done and not to be stopped
    events, problems = read_events(folder / "events.jsonl")
    state = fold(events, problems)
    layout = lay_out(experiment)
    told = histories(events)
    streams = [_stream(cells, state, told, bool(working)) for cells in layout.streams().values()]
    streams.sort(key=lambda row: [arm.name for arm in experiment.conditions()].index(row["arm"]))
    planned = {cell.key for cell in layout.cells}
    strange = sum(key not in planned for key in state.attempts)
    word = _word(complete(layout, state), working, state)
    wasted = [one for history in told.values() for one in history.wasted(working=bool(working))]
    result = {
        "run": folder.resolve().name,
        "state": word,
        "working": working,
        "protocol": experiment.protocol,
        "dataset": experiment.dataset,
        "agent": experiment.agent,
        "endpoint": experiment.endpoint,
        "attempts": {name: sum(row[name] for row in streams) for name in _COUNTS},
        "streams": streams,
        "infra": [failure for failure in infra_failures(layout, state) if not (working and _last_of(told, _key(failure)) != "failed")],
        "banks": [_bank(plan, experiment, state) for plan in layout.banks],
        "usage": {**{role: usage_values(used) for role, used in state.usage.items()}, "all": usage_values(state.spent)},
        "wasted": {"tries": len(wasted), **usage_values(sum((one.usage for one in wasted), Usage()))},
        "seconds": round(state.seconds, 3),
        "sessions": state.sessions,
        "last_event": _last(events),
        "budget_left": BUDGET,
        "problems": [
            *filter(None, [changed_since(folder, state)]),
            *state.problems,
            *([f"the journal speaks of {_attempts(strange)} that the experiment does not plan"] if strange else []),
        ],
        "next": _next(word, folder, experiment, layout, state),
    }
    return {key: printable(value) for key, value in result.items()}


_COUNTS = ("planned", "done", "resolved", "infra", "under_way", "left")


def _stream(cells: Sequence[Cell], state: RunState, told: Mapping[Key, History], working: bool) -> dict[str, Any]:
    """One row: ``planned`` is the sum of ``done``, ``infra``, ``under_way`` (begun and neither graded nor failed) and ``left`` (not begun)."""
    done = resolved = infra = under_way = 0
    for cell in cells:
        known = state.attempts.get(cell.key)
        if known is None:
            continue
        last = _last_of(told, cell.key)
        if known.graded:
            done += 1
            resolved += known.graded["resolved"]
        elif known.infra and not (working and last != "failed"):  # being tried again, it is under way
            infra += 1
        else:
            under_way += 1
    counts = (len(cells), done, resolved, infra, under_way, len(cells) - done - infra - under_way)
    return {
        "arm": cells[0].arm.name,
        "kind": cells[0].arm.kind,
        "stream": cells[0].stream,
        **dict(zip(_COUNTS, counts, strict=True)),
    }


def _last_of(told: Mapping[Key, History], key: Key) -> str:
    return told[key].last if key in told else ""


def _key(failure: Mapping[str, Any]) -> Key:
    return (failure["arm"], failure["stream"], failure["issue"])


def _word(done: bool, working: bool | None, state: RunState) -> str:
    if done:
        return "done"
    if working:
        return "going"
    if not state.sessions and not state.attempts and working is False:
        return "not begun"
    return "stopped" if working is False else "not done"


def _bank(plan: BankPlan, experiment: Experiment, state: RunState) -> dict[str, Any]:
    """One bank. ``teachable`` lessons are those graded with a verdict that it learns from; where no verdict is known yet they may still become it."""
    known = state.banks.get(plan.id)
    learned = known.learned if known else {}
    frozen = known.frozen if known else {}
    graded = [attempt.graded for key in plan.lessons if (attempt := state.attempts.get(key)) and attempt.graded]
    items: int | None = frozen["items"] if frozen else sum(len(event["items"]) for event in learned.values())
    if plan.kind == "given" and not frozen:
        given = experiment.bank.get("items")
        items = given if isinstance(given, int) else None
    return {
        "bank": plan.id,
        "kind": plan.kind,
        "lessons": len(plan.lessons),
        "graded": len(graded),
        "teachable": sum((event["verdict"] or {}).get("outcome") in plan.outcomes for event in graded),
        "learned": sum(key in learned for key in plan.lessons),
        "frozen": bool(frozen),
        "version": frozen["version"] if frozen else max((event["bank_version"] for event in learned.values()), default=0),
        "items": items,
        "missing": [list(key) for key in frozen["missing"]] if frozen else [],
        "waves_left": len(Growing.unlearned(plan, state)) if plan.kind == "growing" else 0,
        "place": f"{plan.place}/bank.lance",
    }


def _last(events: Sequence[Mapping[str, Any]]) -> str | None:
    """The time of day at which the newest event was written, as it was written."""
    at = events[-1].get("at") if events else None
    return at if isinstance(at, str) else None


def _next(word: str, folder: Path, experiment: Experiment, layout: Layout, state: RunState) -> list[str]:
    """Commands, the most useful first."""
    place = shlex.quote(str(folder))
    compare = f"swe-memory compare {place}"
    if word == "done":
        return [compare, f"swe-memory run explain {place} ARM/STREAM/ISSUE"]
    uncopied = any(plan.kind == "given" and not (plan.id in state.banks and state.banks[plan.id].frozen) for plan in layout.banks)
    resume = resume_command(folder, experiment, bank="PATH" if uncopied else "")
    return [compare] if word == "going" else [resume, compare] if state.attempts else [resume]


_WORDS = {
    "done": "done: nothing is left to do.",
    "going": "going: a process is at work on it.",
    "stopped": "stopped: no process is at work on it, and something is left to do.",
    "not begun": "not begun: the experiment is frozen, and no attempt was made.",
    "not done": "not done; whether a process is at work on it cannot be told from here.",
}


def status_text(found: Mapping[str, Any]) -> str:
    """The values of :func:`run_status` in lines."""
    attempts = found["attempts"]
    open_word = "cut off" if found["working"] is False else "under way"
    lines = [
        f"{found['run']}: {_WORDS[found['state']]}",
        f"{found['dataset']}, agent {found['agent']}, protocol {found['protocol']}; {attempts['done']} of {_attempts(attempts['planned'])} done",
        "",
        *table(
            ["arm", "stream", "planned", "done", "resolved", "infra", open_word, "left"],
            [[row["arm"], row["stream"], *(str(row[name]) for name in _COUNTS)] for row in found["streams"]],
        ),
    ]
    if found["banks"]:
        lines += ["", *table(["bank", "learned", "of", "frozen", "items"], [_bank_row(bank) for bank in found["banks"]])]
    lines += [
        "",
        *(f"used by {role}: {usage_words(used)}" for role, used in found["usage"].items() if role != "all" and used["calls"]),
        f"used in all: {usage_words(found['usage']['all'])}",
    ]
    if found["wasted"]["tries"]:
        tries = found["wasted"]["tries"]
        lines.append(f"of it wasted by {count(tries, 'try', 'tries')} that a kill or the machine ended: {usage_words(found['wasted'])}")
    sessions = count(found["sessions"], "session", "sessions")
    newest = f"; newest event at {found['last_event']}" if found["last_event"] else ""
    lines += [f"worked: {duration(found['seconds'])} in {sessions}{newest}", f"budget left: {found['budget_left']}"]
    for failure in found["infra"]:
        tried = "once" if failure["tries"] == 1 else f"{failure['tries']} times"
        lines.append(
            f"failed through the machine: {failure['arm']}/{failure['stream']}/{failure['issue']}, tried {tried}: {failure['reason']}"
        )
    for bank in found["banks"]:
        if bank["missing"]:
            lines.append(
                f"warning: the bank {bank['bank']} was frozen without {_attempts(len(bank['missing']))} that failed through the machine"
            )
    problems = found["problems"]
    lines += [f"warning: {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"warning: ... and {count(len(problems) - _MOST_PROBLEMS, 'more problem', 'more problems')} (--json lists all)")
    return "\n".join([*lines, "", "What to type next", *(f"  {command}" for command in found["next"])])


def _attempts(number: int) -> str:
    return count(number, "attempt", "attempts")


def _bank_row(bank: Mapping[str, Any]) -> list[str]:
    kind, items = bank["kind"], bank["items"]
    frozen = "growing" if kind == "growing" else f"version {bank['version']}" if bank["frozen"] else "not yet"
    teach = f", of which {count(bank['teachable'], 'teaches', 'teach')}" if kind == "frozen" and bank["teachable"] < bank["graded"] else ""
    lessons = ["", "given"] if kind == "given" else [str(bank["learned"]), f"{_attempts(bank['lessons'])}{teach}"]
    return [bank["bank"], *lessons, frozen, "?" if items is None else str(items)]
