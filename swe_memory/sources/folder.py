"""Find what belongs together in a folder: trajectory, patch, report and issue of each attempt.

Layouts: mini-SWE-agent's (ID/ID.traj.json, preds.json), SWE-agent's (ID/ID.traj, ID/ID.pred), swebench's logs (…/ID/report.json, run reports), the public
results repository's (trajs/, logs/, all_preds.jsonl), our own runs, several runs side by side, and flat folders. Files are told apart by what they hold. Where
several predictions or reports speak of one issue, those that lie nearest to the trajectory in the folder tree count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from swe_memory.errors import UsageError
from swe_memory.records import Attempt, Issue, Trajectory, Verdict
from swe_memory.sources.issues import read_issues, repo_of
from swe_memory.sources.walk import Contents, Found, Problem, T, below, name_the_nameless, walk
from swe_memory.trajectories import issue_text, load_trajectory

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class AttemptFile:
    """One attempt that was found. ``missing`` names what was not: "patch", "report", "issue text", "repo".

    ``patch`` is None where neither predictions nor trajectory say; ``verdict`` is None without a report. ``source`` is the trajectory's path below the folder's
    own name: what is stored, so that no bank names the machine it was made on.
    """

    instance_id: str
    trajectory: Path
    source: str
    patch: str | None = field(default=None, repr=False)
    patch_source: Literal["predictions", "trajectory", ""] = ""
    predictions: Path | None = None
    report: Path | None = None
    verdict: Verdict | None = None
    issue: Issue | None = field(default=None, repr=False)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """What a folder holds: attempts sorted by issue and path, what is wrong, and what is only worth knowing."""

    folder: Path
    attempts: tuple[AttemptFile, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def scan(folder: Path, *, issues: Path | None = None) -> Scan:
    """Find the attempts in a folder, with their patches, verdicts and issues.

    ``issues`` is a file of dataset rows: it gives issue texts, repositories, base commits and dates, and is checked against the attempts' ids. Without it the
    text comes from the task in the trajectory and the repository from the id. Nothing is stored and nothing is run; each file is read once.

    Raises UsageError where the folder is missing, is a file, or holds no trajectory.
    """
    folder = Path(folder)
    if not folder.exists():
        raise UsageError(f"{folder} does not exist", "Give the folder that holds your agent's trajectories.")
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, not a folder", "Give the folder that it lies in: patches and reports are looked for beside it."
        )
    known = {issue.id: issue for issue in read_issues(issues)} if issues is not None else None
    contents = walk(folder)
    if not contents.trajectories and not contents.problems:
        beside = [
            name for name, found in (("predictions", contents.predictions), ("reports", contents.reports or contents.summaries)) if found
        ]
        raise UsageError(
            f"no trajectory in {folder}" + (f", only {' and '.join(beside)}" if beside else f" ({contents.files} files looked at)"),
            "Expected files such as ID.traj.json (mini-SWE-agent) or ID.traj (SWE-agent), in it or in folders below it.",
        )
    name_the_nameless(folder, contents)
    attempts = [attempt for key in sorted(contents.trajectories) for attempt in _attempts(folder, key, contents, known)]
    return Scan(folder, tuple(attempts), tuple(contents.problems), tuple(_notes(contents, known, issues)))


def read_attempt(file: AttemptFile) -> Attempt:
    """The attempt itself: steps, patch, verdict and issue. Raises TrajectoryError where the trajectory cannot be read any more.

    Without a report the verdict is unknown, from which nothing is learned: give one by ``dataclasses.replace`` or let a judge decide.
    """
    trajectory = replace(load_trajectory(file.trajectory), issue_id=file.instance_id, patch=file.patch)
    issue = file.issue or Issue(file.instance_id, repo_of(file.instance_id), issue_text(trajectory.task))
    return Attempt(issue, trajectory, file.verdict or Verdict.unknown("tests", "no report was found"), file.source)


# --- putting together ---


def _attempts(folder: Path, key: str, contents: Contents, known: Mapping[str, Issue] | None) -> Iterator[AttemptFile]:
    by_content: dict[str, Found[tuple[Trajectory, str]]] = {}
    for found in contents.trajectories[key]:
        first = by_content.setdefault(found.value[1], found)
        if first is not found:
            what = f"the same attempt as {below(folder, first.path)}: read once"
            contents.problems.append(Problem(what, below(folder, found.path), key))
    several = list(by_content.values())
    graded = {found.path: _graded(folder, key, found, contents) for found in several}
    for found in several:
        yield _attempt(folder, key, found, several, graded, contents, known)


def _graded(
    folder: Path, key: str, found: Found[tuple[Trajectory, str]], contents: Contents
) -> tuple[Found[str] | None, Found[Verdict] | None]:
    """The prediction and the verdict nearest to a trajectory."""
    patches = _nearest(found.path, contents.predictions.get(key, []))
    own = found.value[0].patch
    prediction = next((one for one in patches if own is not None and same_patch(one.value, own)), patches[0] if patches else None)
    if any(not same_patch(one.value, patches[0].value) for one in patches):
        where = ", ".join(below(folder, one.path) for one in patches)
        contents.problems.append(Problem(f"different predictions in {where}", below(folder, found.path), key, "Keep one of them."))
    reports = _nearest(found.path, contents.reports.get(key, [])) or _nearest(found.path, contents.summaries.get(key, []))
    sure = [one for one in reports if one.value.outcome != "unknown"]
    if len({one.value.outcome for one in sure}) > 1:
        where = ", ".join(below(folder, one.path) for one in sure)
        what = f"reports disagree: {where}"
        contents.problems.append(
            Problem(what, below(folder, found.path), key, "The verdict is taken as unknown. Keep the report that counts.")
        )
        return prediction, Found(sure[0].path, Verdict.unknown("tests", "reports disagree"))
    verdict = next(iter(sure or reports), None)
    for one in _nearest(found.path, contents.summaries.get(key, [])):
        if verdict is not None and {one.value.outcome, verdict.value.outcome} == {"resolved", "unresolved"}:
            what = f"{below(folder, one.path)} says {one.value.outcome}, {below(folder, verdict.path)} {verdict.value.outcome}: the latter counts"
            contents.problems.append(Problem(what, below(folder, found.path), key))
    return prediction, verdict


def _attempt(
    folder: Path,
    key: str,
    found: Found[tuple[Trajectory, str]],
    several: list[Found[tuple[Trajectory, str]]],
    graded: Mapping[Path, tuple[Found[str] | None, Found[Verdict] | None]],
    contents: Contents,
    known: Mapping[str, Issue] | None,
) -> AttemptFile:
    trajectory = found.value[0]
    prediction, verdict = graded[found.path]
    here = below(folder, found.path)
    patch, origin = trajectory.patch, "trajectory" if trajectory.patch is not None else ""
    rivals = [one for one in several if one is not found and verdict is not None and graded[one.path][1] == verdict]
    if prediction is not None and (patch is None or same_patch(prediction.value, patch)):
        patch, origin = prediction.value, "predictions"
    elif prediction is not None and rivals:
        what = f"another attempt of this issue was graded ({below(folder, prediction.path)} holds another patch): without a verdict here"
        contents.problems.append(
            Problem(what, here, key, "Keep the attempts of different runs in folders of their own, each with its reports.")
        )
        prediction, verdict = None, None
    elif prediction is not None:
        what = f"the patch in the trajectory differs from the one in {below(folder, prediction.path)}: the latter, which was graded, counts"
        contents.problems.append(Problem(what, here, key))
        patch, origin = prediction.value, "predictions"
    elif any(patch is None or one.value[0].patch is None or not same_patch(one.value[0].patch, patch) for one in rivals):
        what = "several attempts of this issue and one report, with nothing to tell which was graded: without a verdict"
        contents.problems.append(
            Problem(what, here, key, "Keep the attempts of different runs in folders of their own, each with its reports.")
        )
        verdict = None
    issue = _issue(key, trajectory, here, contents, known)
    text = issue.text if issue else issue_text(trajectory.task)
    missing = [
        name
        for name, absent in (
            ("patch", patch is None),
            ("report", verdict is None),
            ("issue text", not text.strip()),
            ("repo", not (issue.repo if issue else repo_of(key))),
        )
        if absent
    ]
    return AttemptFile(
        instance_id=key,
        trajectory=found.path,
        source=f"{folder.resolve().name}/{here}",
        patch=patch,
        patch_source="predictions" if origin == "predictions" else "trajectory" if origin else "",
        predictions=prediction.path if prediction else None,
        report=verdict.path if verdict else None,
        verdict=verdict.value if verdict else None,
        issue=issue,
        missing=tuple(missing),
    )


def _issue(key: str, trajectory: Trajectory, here: str, contents: Contents, known: Mapping[str, Issue] | None) -> Issue | None:
    if known is None:
        return None
    issue = known.get(key)
    if issue is None:
        what = f"{key} is not in the issues file: its text is taken from the trajectory"
        contents.problems.append(Problem(what, here, key, "Check that the issues file belongs to these attempts."))
        return None
    title = " ".join(issue.title.lower().split())[:60]
    if trajectory.task and title not in " ".join(trajectory.task.lower().split()):
        what = f"the task in the trajectory is not the issue {key}: its title is not in it"
        contents.problems.append(Problem(what, here, key, "The issues file counts. Check that it belongs to these attempts."))
    return issue


def _nearest(path: Path, found: list[Found[T]]) -> list[Found[T]]:
    """Those that share the deepest folder with a trajectory, in the order they were found."""
    depths = [_shared_depth(path, one.path) for one in found]
    return [one for one, depth in zip(found, depths, strict=True) if depth == max(depths)]


def _shared_depth(one: Path, other: Path) -> int:
    depth = 0
    for left, right in zip(one.parent.parts, other.parent.parts, strict=False):
        if left != right:
            break
        depth += 1
    return depth


def same_patch(one: str, other: str) -> bool:
    """Equal but for line ends, trailing blanks and empty lines at either end, which copying changes."""
    return one == other or [line.rstrip() for line in one.strip().splitlines()] == [line.rstrip() for line in other.strip().splitlines()]


def _notes(contents: Contents, known: Mapping[str, Issue] | None, issues: Path | None) -> Iterator[str]:
    graded = {*contents.reports, *contents.summaries}
    for name, keys in (("predictions", set(contents.predictions)), ("reports", graded)):
        if alone := sorted(keys - set(contents.trajectories)):
            yield f"{name} without a trajectory: {_some(alone)}"
    for key in sorted(contents.trajectories):
        if (number := len({found.value[1] for found in contents.trajectories[key]})) > 1:
            yield f"{number} different attempts of {key}"
    if known is not None and (unused := sorted(set(known) - set(contents.trajectories))):
        yield f"issues in {issues.name if issues else 'the file'} without an attempt here: {len(unused)}"
    if contents.other:
        yield f"JSON files that are nothing known here: {_some(sorted(contents.other))}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{len(names)} ({shown}{', …' if len(names) > _SHOWN else ''})"
