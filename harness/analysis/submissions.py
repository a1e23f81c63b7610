"""Folders of others: official reports, predictions and trajectories of one set of attempts, as the leaderboard takes them. Read, never run.

What counts is whether an issue was resolved, by the report of the instance, else by that of the whole run. An issue that nobody reports on is missing: it is
not counted as failed, but for issues with a patch beside a report of the whole run that lists only what was resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.analysis.attempts import Attempts
from harness.analysis.tables import MEASURES, Table
from harness.analysis.words import count
from harness.trajectory_file import patch_sha256
from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.records import Trajectory, Verdict

if TYPE_CHECKING:
    from swe_memory.sources.walk import Contents

STREAM = "1-1"
TOUCHES_TESTS = "the patch touches tests or how they are run"
"""The grader's words, and its rule."""
_HOW_TESTS_RUN = ("conftest.py", "pytest.ini", "tox.ini", "setup.cfg")


@dataclass(frozen=True, slots=True)
class Submission:
    """One set of attempts. ``models`` are those that trajectories name, ``problems`` what could not be used, ``notes`` what is worth knowing."""

    name: str
    table: Table
    attempts: Attempts
    repositories: Mapping[str, str]
    models: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())


def read_submission(folder: Path, name: str, issues: Sequence[str] = ()) -> Submission:
    """The attempts in ``folder``. ``issues``: those that were tried, where a dataset tells it.

    Raises UsageError where there is no folder, no report in it, or only a list of what was resolved and nothing that tells what was tried.
    """
    from swe_memory.sources.issues import repo_of
    from swe_memory.sources.walk import name_the_nameless, walk

    if not folder.is_dir():
        what = f"there is no folder {folder}" if not folder.exists() else f"{folder} is a file, not a folder"
        raise UsageError(what, "Name a run folder, or one with official reports (report.json, results.json).")
    contents = walk(folder)
    name_the_nameless(folder, contents)
    problems = [f"{name}: {problem.path or problem.instance_id or 'the folder'}: {problem.what}" for problem in contents.problems]
    verdicts = _verdicts(folder, contents, set(issues), name, problems)
    ids = sorted({*verdicts, *contents.predictions, *contents.trajectories, *(issues if verdicts else ())})
    told = {issue: _trajectory(issue, contents, name, problems) for issue in ids}
    attempts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for issue in ids:
        attempts[name, issue] = [_attempt(issue, verdicts.get(issue), contents, told[issue], folder, name)]
    resolved = {issue: [attempts[name, issue][0]["resolved"]] for issue in ids}
    amounts = {measure: {issue: [attempts[name, issue][0][measure]] for issue in ids} for measure in MEASURES}
    table = Table(name, "", (STREAM,), tuple(ids), resolved, amounts, ((0,),))
    models = frozenset(trajectory.model for trajectory in told.values() if trajectory and trajectory.model)
    notes = [f"model {', '.join(sorted(models))}"] if models else []
    known = sum(trajectory is not None for trajectory in told.values())
    notes.append(
        f"{count(len(verdicts), 'issue', 'issues')} with a verdict, {len(contents.predictions)} with a prediction, {known} with a trajectory"
    )
    return Submission(name, table, attempts, {issue: repo_of(issue) for issue in ids}, models, tuple(notes), tuple(problems))


def _verdicts(folder: Path, contents: Contents, tried: set[str], name: str, problems: list[str]) -> dict[str, bool]:
    """Issue -> whether it was resolved, for those that it can be told of."""
    if not contents.reports and not contents.summaries:
        beside = [what for what, found in (("trajectories", contents.trajectories), ("predictions", contents.predictions)) if found]
        what = f"no official report in {folder}" + (
            f", only {' and '.join(beside)}" if beside else f" ({count(contents.files, 'file', 'files')} looked at)"
        )
        raise UsageError(
            what, "Grade the predictions with the official harness, and put its report.json files or run report into the folder."
        )
    found: dict[str, bool] = {}
    told: set[str] = set()
    for issue in sorted({*contents.reports, *contents.summaries}):
        told.add(issue)
        parts = [[one.value for one in source.get(issue, [])] for source in (contents.reports, contents.summaries)]
        verdict = _agreed(parts[0], issue, name, problems) if _sure(parts[0]) else _agreed(parts[1], issue, name, problems)
        if verdict is not None:
            found[issue] = verdict
        if (
            _sure(parts[0])
            and _sure(parts[1])
            and verdict is not None
            and verdict not in [one.outcome == "resolved" for one in _sure(parts[1])]
        ):
            problems.append(f"{name}: the report of {issue} and that of the whole run disagree; the former counts")
    if not contents.reports and found and all(found.values()):
        others = ({*contents.predictions, *contents.trajectories} | tried) - told
        if not others:
            what = f"the report in {folder} lists only issues that were resolved, and nothing tells which others were tried"
            raise UsageError(what, "Put the predictions beside it (all_preds.jsonl, preds.json), or name the dataset with --dataset.")
        found |= dict.fromkeys(others, False)
    empty = {issue for issue, patches in contents.predictions.items() if not any(one.value.strip() for one in patches)}
    return found | dict.fromkeys(empty - told, False)


def _sure(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome != "unknown"]


def _agreed(verdicts: Sequence[Verdict], issue: str, name: str, problems: list[str]) -> bool | None:
    sure = {verdict.outcome for verdict in _sure(verdicts)}
    if len(sure) > 1:
        problems.append(
            f"{name}: reports of {issue} disagree, so it is left out; keep the attempts of different runs in folders of their own"
        )
    return sure == {"resolved"} if len(sure) == 1 else None


def _trajectory(issue: str, contents: Contents, name: str, problems: list[str]) -> Trajectory | None:
    from swe_memory.trajectories import load_trajectory

    found = contents.trajectories.get(issue, [])
    if len({one.value[1] for one in found}) > 1:
        problems.append(f"{name}: {len(found)} trajectories of {issue}, so its steps are not counted")
        return None
    try:
        return load_trajectory(found[0].path) if found else None
    except SweMemoryError as error:  # it was read a moment ago
        problems.append(f"{name}: {error.what}")
        return None


def _attempt(
    issue: str, resolved: bool | None, contents: Contents, trajectory: Trajectory | None, folder: Path, name: str
) -> dict[str, Any]:
    """As an attempt of a run; what only a run knows is null."""
    patches = {one.value for one in contents.predictions.get(issue, [])}
    patch = next(iter(patches)) if len(patches) == 1 else trajectory.patch if trajectory and not patches else None
    tokens = None
    if trajectory and trajectory.input_tokens is not None and trajectory.output_tokens is not None:
        tokens = float(trajectory.input_tokens + trajectory.output_tokens) or None
    path = contents.trajectories[issue][0].path if trajectory else None
    return {
        "stream": STREAM,
        "state": "graded" if resolved is not None else "not graded",
        "resolved": resolved,
        "calls": trajectory.calls if trajectory else None,
        "actions": trajectory.actions if trajectory else None,
        "tokens": tokens,
        "cost": trajectory.cost or None if trajectory else None,
        "seconds": None,
        "exit_status": trajectory.exit_status if trajectory else None,
        "outcome": None if resolved is None else "resolved" if resolved else "unresolved",
        "flags": [TOUCHES_TESTS] if patch and _touches_tests(patch) else [],
        "verdict": None,
        "patch_sha256": patch_sha256(patch) if patch and patch.strip() else None,
        "recalled": None,
        "control": None,
        "given": None,
        "item": None,
        "score": None,
        "learned_from": None,
        "trajectory": f"{name}/{path.relative_to(folder).as_posix()}" if path else None,
    }


def _touches_tests(patch: str) -> bool:
    from swe_memory.patches import edited_paths, is_test_path

    return any(is_test_path(path) or path.rsplit("/", 1)[-1] in _HOW_TESTS_RUN for path in edited_paths(patch))
