"""What a run folder says about its arms: resolve rates, steps, paired differences, what memory gave to each attempt, and what speaks against believing it.

Everything is computed from ``experiment.json`` and ``events.jsonl`` (and, for what agents took up, stored trajectories), so that it can be asked of a run
that is still going, was stopped, or has one arm only; each of these is said in words. No number is ever NaN: what cannot be computed is null, with a
sentence that says why. The shape of a result is written down in :mod:`harness.analysis`.
"""

from __future__ import annotations

import contextlib
import gc
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.analysis import curves, noise_floor, steps
from harness.analysis.attempts import attempts_of
from harness.analysis.claims import claims, headline
from harness.analysis.flips import used_items
from harness.analysis.named_files import named_files
from harness.analysis.reading import BYTES, Budget, Trajectories
from harness.analysis.references import only_references, references_headline
from harness.analysis.sentences import sentences, verdict_label
from harness.analysis.summary import arm_values, comparisons
from harness.analysis.tables import Setup, learning, table
from harness.analysis.threats import Facts, threats
from harness.analysis.uptake import Uptake, look, not_looked
from harness.analysis.words import printable_result
from harness.events import RunState, read_state
from harness.folder import read_experiment
from harness.layout import Layout, lay_out
from harness.looking import usage_values
from harness.outcomes import ArmRows, arm_rows
from harness.plan import Experiment
from harness.scheduler import complete

if TYPE_CHECKING:
    from harness.dataset import Dataset

MINIBENCH = "minibench"


def compare_run(folder: Path, *, dataset: str | None = None, most_bytes: int | None = BYTES, ask: str = "") -> dict[str, Any]:
    """The comparison of the arms of one run folder, as plain values: the shape of ``compare --json`` and of ``results.json``.

    ``dataset``: the run's dataset, where it is a file, for what only it tells. ``most_bytes``: how much of the stored trajectories may be read, None for all.
    ``ask``: the command that names the dataset, for a reader who wants what it tells; "" is ``compare`` of this folder.
    Raises UsageError where ``folder`` is no run folder, or ``dataset`` none.
    """
    experiment = read_experiment(folder)
    state = read_state(folder / "events.jsonl")
    with unscanned():
        return comparison(
            experiment,
            state,
            folder.resolve().name,
            folder=folder,
            dataset=_dataset(experiment, dataset),
            most_bytes=most_bytes,
            ask=ask or f"swe-memory compare {shlex.quote(str(folder))} --dataset {shlex.quote(experiment.dataset)}",
        )


@contextlib.contextmanager
def unscanned() -> Iterator[None]:
    """Keep what there is out of the garbage collector's scans: a state of a million objects, of which none becomes garbage, took a third of the time."""
    if gc.get_freeze_count():  # somebody else's, not to be undone here
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def comparison(
    experiment: Experiment,
    state: RunState,
    name: str,
    *,
    folder: Path | None = None,
    dataset: Dataset | None = None,
    most_bytes: int | None = BYTES,
    ask: str = "",
) -> dict[str, Any]:
    """See :func:`compare_run`. ``dataset`` is one that is loaded. Trajectories are read only where ``folder`` is given; else this is pure."""
    layout = lay_out(experiment)
    rows = arm_rows(layout, state)
    order = [arm.name for arm in experiment.conditions() if arm.name in rows]
    arms = [arm for arm in order if rows[arm].arm.kind != "gold"]
    learned = learning(layout, state)
    tables = {arm: table(rows[arm], experiment, learned.get(arm)) for arm in arms}
    repositories = dict(zip(experiment.instances, experiment.repositories, strict=True))
    setup = Setup(experiment.protocol, experiment.builds, len(experiment.orders), experiment.call_limit, repositories)
    taken = _uptake(experiment, rows, arms, folder, most_bytes)
    attempts = attempts_of({arm: rows[arm] for arm in order}, tables, state, repositories, taken)
    at = steps.limits(setup, list(tables.values()))
    judge = {"tests": "", "rules": "the verdict by rules", "llm": f"the verdict by {experiment.model or 'a language model'}"}[
        experiment.verdict
    ]
    baseline = next((table for table in tables.values() if table.kind == "none"), None)
    pairs = comparisons(
        setup,
        [(tables[one], tables[other], role) for one, other, role in _pairs(experiment) if one in tables and other in tables],
        attempts,
        at,
        lambda one, other: curves.learning(setup, layout, state, one, other),
    )
    floor = noise_floor.floor(setup, baseline, _discordance(pairs))
    memory = [table for table in tables.values() if table.kind == "memory"]
    result: dict[str, Any] = {
        "kind": "run",
        "run": name,
        "sources": [{"name": name, "kind": "run", "arms": order, "issues": len(experiment.instances), "notes": []}],
        "differences": [],
        "dataset": {"name": experiment.dataset, "hash": experiment.dataset_hash},
        "agent": experiment.agent,
        "protocol": experiment.protocol,
        "builds": experiment.builds,
        "orders": list(experiment.orders),
        "reruns": experiment.reruns,
        "call_limit": experiment.call_limit,
        "issues_planned": len(experiment.instances),
        "endpoint": experiment.endpoint,
        "settings": _settings(experiment),
        "verdict": {"source": experiment.verdict, "label": verdict_label(experiment)},
        "complete": complete(layout, state),
        "arms": [arm_values(setup, tables[arm], attempts, at, learned.get(arm), judge) for arm in arms],
        "comparisons": pairs,
        "noise": floor,
        "uptake": dict(taken.values),
        "environment": [environment(rows[arm]) for arm in order if rows[arm].arm.kind == "gold"],
        "infra": infra_failures(layout, state),
        "issues": [
            {"issue": issue, "repository": repo, "arms": {arm: list(attempts[arm, issue]) for arm in order}}
            for issue, repo in repositories.items()
        ],
        "items": used_items(memory, baseline, attempts, repositories, floor["floor"]["value"]),
        "usage": {**{role: usage_values(used) for role, used in state.usage.items()}, "all": usage_values(state.spent)},
        "seconds": state.seconds,
        "problems": list(state.problems),
    }
    left = _left(layout, state)
    result["claims"] = claims(pairs, result["arms"], left)
    result["threats"] = threats(result, attempts, _facts(experiment, state, rows, taken, folder, dataset, left, ask))
    result["headline"] = (
        references_headline(result) if only_references(result) else headline(pairs, result["claims"], result["threats"], left, "run")
    )
    result["sentences"] = sentences(experiment, result, state)
    return printable_result(result)


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


def _discordance(pairs: list[dict[str, Any]]) -> float | None:
    """Share of issues on which the arms of the primary comparison differ."""
    across = next((pair["noise"]["across"]["value"] for pair in pairs if pair["role"] == "primary"), None)
    return float(across) if across is not None else None


def _uptake(experiment: Experiment, rows: Mapping[str, ArmRows], arms: list[str], folder: Path | None, most_bytes: int | None) -> Uptake:
    tables = {arm: rows[arm] for arm in arms}
    if folder is None:
        return not_looked("No trajectory was read.", tables)
    parsed = {arm.name: arm for arm in experiment.conditions()}
    return look(tables, Trajectories(folder, parsed, Budget(most_bytes)))


def _settings(experiment: Experiment) -> dict[str, Any]:
    known = sorted(date for date in experiment.dates if date)
    return {
        **{
            name: getattr(experiment, name)
            for name in (
                "baseline_reruns",
                "wave",
                "recall",
                "before",
                "extractor",
                "model",
                "embedder",
                "seed",
                "test_seconds",
                "dataset_revision",
                "dataset_split",
            )
        },
        "limits": {
            "calls": experiment.call_limit,
            "command_seconds": experiment.command_seconds,
            "seconds": experiment.attempt_seconds,
            "tokens": experiment.attempt_tokens,
            "cost": experiment.attempt_cost,
        },
        "versions": dict(experiment.versions),
        "prompts": dict(experiment.prompts),
        "bank": dict(experiment.bank),
        "repositories": dict(Counter(experiment.repositories).most_common()),
        "dates": {
            "first": known[0] if known else None,
            "last": known[-1] if known else None,
            "unknown": len(experiment.dates) - len(known),
        },
    }


def _left(layout: Layout, state: RunState) -> int:
    """Attempts still to be made: neither graded nor standing as infra failures."""
    known = (state.attempts.get(cell.key) for cell in layout.cells if cell.arm.kind != "gold")
    return sum(attempt is None or not (attempt.graded or attempt.infra) for attempt in known)


def _facts(
    experiment: Experiment,
    state: RunState,
    rows: Mapping[str, ArmRows],
    taken: Uptake,
    folder: Path | None,
    dataset: Dataset | None,
    left: int,
    ask: str,
) -> Facts:
    memory = [table.arm for table in rows.values() if table.arm.kind == "memory"]
    guarded = {arm.name for arm in memory if experiment.before or ("before", True) in arm.settings}
    return Facts(
        protocol=experiment.protocol,
        wave=experiment.wave,
        builds=experiment.builds,
        agent=experiment.agent,
        dates=dict(zip(experiment.instances, experiment.dates, strict=True)),
        guarded=frozenset(guarded),
        models=taken.models | ({experiment.model} - {""}),
        hidden=taken.hidden if folder is not None else None,
        named=named_files(dataset, experiment.instances) if dataset is not None and dataset.hash == experiment.dataset_hash else None,
        unnamed="the dataset was not at hand" if dataset is None else f"{dataset.name} is not the dataset of this run",
        ask=ask,
        frozen_without={
            bank: len(known.frozen["missing"]) for bank, known in state.banks.items() if known.frozen and known.frozen["missing"]
        },
        left=left,
    )


def _dataset(experiment: Experiment, name: str | None) -> Dataset | None:
    """The dataset of that name, of the hub's at the run's revision; the bundled one where the run is on it; None where none is at hand."""
    from harness.dataset import load_dataset
    from harness.dataset_hub import hub_name

    if name is None:
        return load_dataset(MINIBENCH) if experiment.dataset == MINIBENCH else None
    if experiment.dataset_revision and hub_name(name) == experiment.dataset and not Path(name).exists():
        return load_dataset(name, revision=experiment.dataset_revision, split=experiment.dataset_split)
    return load_dataset(name)


def compare_two(first: Path, second: Path, *, allow_differences: bool = False, dataset: str | None = None) -> dict[str, Any]:
    """The second folder minus the first (see :func:`harness.analysis.folders.compare_folders`); ``dataset``: for what only it tells.

    Raises UsageError where one of them is nothing that can be compared, and where two runs were not made alike.
    """
    from harness.analysis.folders import compare_folders
    from harness.dataset import load_dataset

    return compare_folders(first, second, allow_differences=allow_differences, dataset=load_dataset(dataset) if dataset else None)


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
