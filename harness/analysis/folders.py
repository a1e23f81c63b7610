"""Two folders side by side: runs, single arms of runs, or what others have published, in any mixture. The same checks, on the issues that both have."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.analysis import noise_floor, steps
from harness.analysis.attempts import Attempts, attempts_of
from harness.analysis.claims import headline
from harness.analysis.named_files import Named, named_files
from harness.analysis.submissions import read_submission
from harness.analysis.summary import Pair, arm_values, comparisons
from harness.analysis.tables import Setup, Table, columns, learning, table
from harness.analysis.threats import Facts, Threat, threats
from harness.analysis.uptake import not_looked
from harness.analysis.words import count, printable_result
from harness.arms import Arm
from harness.events import read_state
from harness.folder import read_experiment
from harness.layout import lay_out
from harness.outcomes import arm_rows
from harness.plan import Experiment
from swe_memory.errors import UsageError

if TYPE_CHECKING:
    from harness.dataset import Dataset

ALIKE = (
    "dataset",
    "dataset_hash",
    "dataset_revision",
    "agent",
    "model",
    "call_limit",
    "command_seconds",
    "attempt_seconds",
    "attempt_tokens",
    "attempt_cost",
    "test_seconds",
    "versions",
)
"""Settings that decide what any attempt of two runs does."""
ALIKE_WITH_MEMORY = ("protocol", "wave", "verdict", "extractor", "recall", "before", "embedder", "prompts", "bank")
"""Settings that decide what memory does."""
MOST_ARMS = 4


@dataclass(frozen=True, slots=True)
class Source:
    """One of the two. ``short``: arm as it is called here -> its name in its own run. ``experiment`` is None for a folder of others."""

    name: str
    tables: Mapping[str, Table]
    attempts: Attempts
    repositories: Mapping[str, str]
    experiment: Experiment | None = None
    short: Mapping[str, str] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def compare_folders(
    first: Path,
    second: Path,
    *,
    allow_differences: bool = False,
    dataset: Dataset | None = None,
) -> dict[str, Any]:
    """The second minus the first, as plain values: the shape is in :mod:`harness.analysis`.

    A path is a run folder, the folder of one of its arms (RUN/ARM) or streams (RUN/ARM/STREAM), or a folder of reports, predictions and trajectories.
    ``dataset`` says which issues there are, for folders that tell only what was resolved, and which of them name the file that is to be changed.

    Raises UsageError where a path is none of these, where the two are the same, and where two runs were not made alike (unless ``allow_differences``).
    """
    if first.resolve() == second.resolve():
        raise UsageError(
            f"{first} and {second} are the same folder", "Name two different ones; the arms of one run are compared by `compare RUN`."
        )
    names = _names(first, second)
    issues = [instance.issue.id for instance in dataset.instances] if dataset else []
    sources = [_source(path, name, issues) for path, name in zip((first, second), names, strict=True)]
    pairs = _pairs(*sources)
    differences = _differences(sources[0], sources[1], [table for pair in pairs for table in pair[:2]])
    if differences and not allow_differences:
        told = "; ".join(differences)
        raise UsageError(
            f"{names[0]} and {names[1]} were not made alike: {told}", "If that is what you want to compare, add --allow-differences."
        )
    shared = [issue for issue in sources[0].repositories if issue in sources[1].repositories]
    dates = {one.issue.id: one.issue.created_at.isoformat() if one.issue.created_at else "" for one in dataset.instances} if dataset else {}
    ask = f"swe-memory compare {shlex.quote(str(first))} {shlex.quote(str(second))} --dataset {_name_of_dataset(sources)}"
    return _result(sources, pairs, differences, named_files(dataset, shared) if dataset else None, dates, ask)


def _name_of_dataset(sources: Sequence[Source]) -> str:
    """As it would be typed; FILE where nothing tells."""
    names = {source.experiment.dataset for source in sources if source.experiment}
    return shlex.quote(names.pop()) if len(names) == 1 else "FILE"


def _names(first: Path, second: Path) -> tuple[str, str]:
    """The shortest ends of the two paths that differ."""
    one, other = first.resolve().parts, second.resolve().parts
    for length in range(1, max(len(one), len(other)) + 1):
        names = ("/".join(one[-length:]), "/".join(other[-length:]))
        if names[0] != names[1]:
            return names
    return names


def _source(path: Path, name: str, issues: Sequence[str]) -> Source:
    for depth, folder in enumerate((path, path.parent, path.parent.parent)):
        if (folder / "experiment.json").is_file():
            return _run(folder, name, path.resolve().relative_to(folder.resolve()).parts if depth else ())
    found = read_submission(path, name, issues)
    notes = (*found.notes, "its limits, versions and prompts are not known")
    return Source(name, {name: found.table}, found.attempts, found.repositories, None, {name: ""}, found.models, notes, found.problems)


def _run(folder: Path, name: str, only: tuple[str, ...]) -> Source:
    """The arms of a run; ``only``: the folder of an arm, and of a stream."""
    experiment = read_experiment(folder)
    layout, state = lay_out(experiment), read_state(folder / "events.jsonl")
    repositories = dict(zip(experiment.instances, experiment.repositories, strict=True))
    rows = {arm: found for arm, found in arm_rows(layout, state).items() if found.arm.kind != "gold"}
    if only:
        kept = {arm: found for arm, found in rows.items() if found.arm.folder == only[0]}
        if not kept or (len(only) > 1 and only[1] not in next(iter(kept.values())).streams):
            known = ", ".join(f"{folder}/{found.arm.folder}" for found in rows.values())
            raise UsageError(f"{folder / Path(*only)} is no arm or stream of the run in {folder}", f"Its arms: {known}.")
        rows = kept
    learned = learning(layout, state)
    tables = {arm: table(found, experiment, learned.get(arm)) for arm, found in rows.items()}
    attempts = attempts_of(rows, tables, state, repositories, not_looked("", {}))
    own = {arm: name if only else f"{name}/{found.arm.folder}" for arm, found in rows.items()}
    renamed = {own[arm]: replace(found, name=own[arm], of=own.get(found.of, "")) for arm, found in tables.items()}
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {
        (own[arm], issue): [_placed(run, name, only) for run in found] for (arm, issue), found in attempts.items()
    }
    if len(only) > 1:
        renamed = {arm: _one_stream(found, only[1]) for arm, found in renamed.items()}
        runs = {key: [run for run in found if run["stream"] == only[1]] for key, found in runs.items()}
    problems = tuple(f"{name}: {problem}" for problem in state.problems)
    return Source(
        name, renamed, runs, repositories, experiment, {own[arm]: arm for arm in rows}, frozenset({experiment.model} - {""}), (), problems
    )


def _placed(run: Mapping[str, Any], name: str, only: tuple[str, ...]) -> Mapping[str, Any]:
    """With the path of its trajectory from the folder's own name on."""
    path = run.get("trajectory")
    if not path:
        return run
    below = Path(path).parts[len(only) :]
    return {**run, "trajectory": "/".join([name, *below])}


def _one_stream(found: Table, stream: str) -> Table:
    place = found.streams.index(stream)
    amounts = {measure: columns(values, (place,)) for measure, values in found.amounts.items()}
    return replace(found, streams=(stream,), resolved=columns(found.resolved, (place,)), amounts=amounts, same_bank=((0,),))


def _pairs(first: Source, second: Source) -> list[Pair]:
    """Arms of the same name; else, where the one has one arm only, that with each of the other's."""
    same = [
        (found, other)
        for arm, found in second.tables.items()
        for known, other in first.tables.items()
        if first.short[known] == second.short[arm]
    ]
    if not same and min(len(first.tables), len(second.tables)) == 1:
        same = [(found, other) for found in second.tables.values() for other in first.tables.values()]
    if not same or len(same) > MOST_ARMS:
        arms = ", ".join([*first.tables, *second.tables])
        what = "have no arm in common" if not same else f"have {len(same)} pairs of arms"
        raise UsageError(f"{first.name} and {second.name} {what}", f"Name the folder of an arm on either side. Arms: {arms}.")
    return [(found, other, "secondary") for found, other in same]


def _differences(first: Source, second: Source, tables: Sequence[Table]) -> list[str]:
    """What two runs were not made alike in, in words; nothing can be said where one is of others."""
    one, other = first.experiment, second.experiment
    if one is None or other is None:
        return []
    memory = ALIKE_WITH_MEMORY if any(found.kind != "none" for found in tables) else ()
    found = []
    for name in (*ALIKE, *memory):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine == theirs:
            continue
        if isinstance(mine, Mapping):
            for part in sorted({*mine, *theirs}):
                if mine.get(part) != theirs.get(part):
                    found.append(f"{name} of {part}: {mine.get(part, 'none')} in {first.name}, {theirs.get(part, 'none')} in {second.name}")
        else:
            found.append(f"{name}: {_shown(mine)} in {first.name}, {_shown(theirs)} in {second.name}")
    return found


def _shown(value: Any) -> str:
    text = "none" if value is None or value == "" else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _result(
    sources: Sequence[Source], pairs: Sequence[Pair], differences: Sequence[str], named: Named | None, dates: Mapping[str, str], ask: str
) -> dict[str, Any]:
    first, second = sources
    repositories = {**first.repositories, **second.repositories}
    experiments = [source.experiment for source in sources]
    limits = [experiment.call_limit for experiment in experiments if experiment]
    setup = Setup("", call_limit=min(limits) if len(limits) == 2 else None, repositories=repositories)
    tables = list({found.name: found for pair in pairs for found in (pair[1], pair[0])}.values())
    attempts = {**first.attempts, **second.attempts}
    at = steps.limits(setup, tables)
    found = comparisons(setup, pairs, attempts, at)
    shared = set(first.repositories) & set(second.repositories)
    baseline = next((one for one in tables if len(one.same_bank[0]) > 1), pairs[0][1])
    agents = {experiment.agent if experiment else "not known" for experiment in experiments}
    result: dict[str, Any] = {
        "kind": "folders",
        "run": f"{first.name} and {second.name}",
        "sources": [_source_values(source) for source in sources],
        "differences": list(differences),
        "dataset": _dataset(experiments),
        "agent": ", ".join(sorted(agents)),
        "protocol": "",
        "builds": 1,
        "orders": [],
        "reruns": 1,
        "call_limit": setup.call_limit,
        "issues_planned": len(shared),
        "endpoint": "none was written down beforehand for these two folders",
        "settings": {},
        "verdict": {"source": "", "label": ""},
        "complete": True,
        "arms": [arm_values(setup, one, attempts, at) for one in tables],
        "comparisons": found,
        "noise": noise_floor.floor(setup, baseline, None),
        "uptake": dict(not_looked("What agents took up is told by `compare` of a run.", {}).values),
        "environment": [],
        "infra": [],
        "issues": [
            {
                "issue": issue,
                "repository": repositories[issue],
                "arms": {one.name: list(attempts.get((one.name, issue), ())) for one in tables},
            }
            for issue in sorted({*first.repositories, *second.repositories})
        ],
        "items": [],
        "usage": {},
        "seconds": 0.0,
        "problems": [*first.problems, *second.problems],
        "claims": [],
    }
    result["threats"] = [*threats(result, attempts, _facts(sources, named, dates, ask)), *_unknown(sources)]
    result["headline"] = headline(found, [], result["threats"], 0, "folders")
    result["sentences"] = _sentences(sources, found, result, len(shared))
    return printable_result(result)


def _source_values(source: Source) -> dict[str, Any]:
    kind = "run" if source.experiment else "submission"
    return {"name": source.name, "kind": kind, "arms": list(source.tables), "issues": len(source.repositories), "notes": list(source.notes)}


def _dataset(experiments: Sequence[Experiment | None]) -> dict[str, Any]:
    names = {experiment.dataset for experiment in experiments if experiment}
    hashes = {experiment.dataset_hash for experiment in experiments if experiment}
    return {"name": ", ".join(sorted(names)) or "a dataset that is not named", "hash": next(iter(hashes)) if len(hashes) == 1 else None}


def _facts(sources: Sequence[Source], named: Named | None, known: Mapping[str, str], ask: str) -> Facts:
    experiments = [source.experiment for source in sources if source.experiment]
    dates = {**known, **{issue: date for one in experiments for issue, date in zip(one.instances, one.dates, strict=True)}}
    agents = {one.agent for one in experiments}
    models = frozenset(model for source in sources for model in source.models)
    guarded = frozenset(
        own
        for source in sources
        if source.experiment
        for own, arm in source.short.items()
        if source.experiment.before or ("before", True) in _parsed(source.experiment)[arm].settings
    )
    agent = agents.pop() if len(agents) == 1 and len(experiments) == len(sources) else ""
    return Facts(agent=agent, dates=dates, guarded=guarded, models=models, named=named, ask=ask)


def _parsed(experiment: Experiment) -> dict[str, Arm]:
    return {arm.name: arm for arm in experiment.conditions()}


def _unknown(sources: Sequence[Source]) -> list[Threat]:
    """What nobody wrote down about folders of others, and what the protocols of runs add."""
    found: list[Threat] = []
    others = [source.name for source in sources if source.experiment is None]
    if others:
        text = (
            f"The limits, package and prompt versions of {' and '.join(others)} are not known, so whether they were equal was not checked."
        )
        found.append({"id": "settings not known", "weight": "not checked", "sentence": text, "about": others})
    for source in sources:
        grown = [own for own, one in source.tables.items() if one.kind == "memory"] if source.experiment else []
        if grown and source.experiment and source.experiment.protocol == "online":
            text = f"The banks of {', '.join(grown)} grew along streams; here all issues are taken as they came, and how much streams differ is not counted."
            found.append({"id": "streams", "weight": "caution", "sentence": text, "about": grown})
    return found


def _sentences(sources: Sequence[Source], found: Sequence[Mapping[str, Any]], result: Mapping[str, Any], shared: int) -> list[str]:
    first, second = sources
    extra = [len(source.repositories) - shared for source in sources]
    said = [pair["sentence"] for pair in found]
    said.append(
        f"Both have {count(shared, 'issue', 'issues')}; {first.name} has {extra[0]} more and {second.name} {extra[1]} more, which count nowhere here."
    )
    said.append("Differences are the second folder minus the first. No endpoint was written down before, so nothing is claimed.")
    if len(found) > 1:
        said.append("The p values are adjusted for the number of comparisons by Holm.")
    for pair in found:
        calls = pair["steps"]["calls"]
        if calls["difference"]["value"] is not None:
            said.append(calls["sentence"])
        for direction, name in (("for", pair["arm"]), ("against", pair["baseline"])):
            if names := [flip["issue"] for flip in pair["flips"]["list"] if flip["direction"] == direction]:
                said.append(f"Resolved more often by `{name}` ({len(names)}): {_listed(names)}.")
    said.append(result["noise"]["sentence"])
    said += [f"{source.name}: {'; '.join(source.notes)}." for source in sources if source.notes]
    return [sentence for sentence in said if sentence]


def _listed(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more (--json has all)" if len(names) > most else "")
