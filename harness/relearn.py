"""``swe-memory run relearn``: judge and distil the stored attempts of a run again, into a new bank. No agent runs, and the run folder is not written to.

An attempt that is in the bank already keeps the verdict it was learned with, so that the same command goes on after a kill, asks no model twice about what
was learned, and ends with the same items.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.arms import Arm
from harness.events import AttemptState, RunState, read_state
from harness.folder import read_experiment
from harness.layout import Cell, lay_out
from harness.looking import named_arms, printable, usage_values, usage_words
from harness.plan import Experiment
from harness.statistics.estimates import count
from harness.trajectory_file import read_trajectory
from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.records import Attempt, Extractor, Issue, Judge, Trajectory, Usage, Verdict

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank
    from swe_memory.claude import Claude
    from swe_memory.learning import LearnReport

MINIBENCH = "minibench"
_MOST_ROWS = 20


def relearn(
    folder: Path,
    bank: str,
    *,
    arms: Sequence[str] = (),
    verdict: str | None = None,
    extractor: str | None = None,
    model: str | None = None,
    max_cost: float | None = None,
    dataset: str | None = None,
    repositories: Path | None = None,
    quiet: bool = False,
) -> tuple[int, dict[str, Any]]:
    """Learn from a run's attempts into ``bank``; (exit code, what was done as plain values: the shape is in ``swe-memory run relearn --help``).

    What is not given is as it was in the run. Raises UsageError where something does not fit together, before the bank is made.
    """
    experiment = read_experiment(folder)
    chosen = _arms(experiment, arms)
    _check_place(bank, folder)
    issues = _issues(folder, experiment, dataset, repositories)
    state = read_state(folder / "events.jsonl")
    work = _Work(folder, experiment, chosen, state, issues, teacher := _teacher(experiment, verdict, extractor, model, max_cost))
    if not work.lessons:
        names = ", ".join(arm.name for arm in chosen)
        raise UsageError(f"no attempt of {names} in {folder} is graded, so there is nothing to learn from", "See `swe-memory run status`.")
    report, version, warnings = _learn(work, bank, quiet)
    failures = work.failures + [
        {"attempt": failure.source, "reason": failure.reason} for failure in report.failures if failure.source
    ]  # those without a source could not be read or judged, and were written down there
    status = Counter(entry.status for entry in report)
    new = [item for entry in report if entry.status in ("learned", "superseded") for item in entry.items]
    fresh = [entry for entry in report if entry.status != "already"]
    found = {
        "run": folder.resolve().name,
        "bank": bank,
        "bank_version": version,
        "session": work.session,
        "arms": [arm.name for arm in chosen],
        "verdict": {"source": teacher.verdict, "label": _label(teacher)},
        "extractor": teacher.extractor.name,
        "model": teacher.claude.model if teacher.claude else "",
        "attempts": len(work.lessons),
        **{name: status[name] for name in ("learned", "already", "superseded", "nothing")},
        "items": {
            "added": len(new),
            "quarantined": sum(len(entry.quarantined) for entry in fresh),
            "rejected": sum(len(entry.rejected) for entry in fresh),
            "by_polarity": dict(sorted(Counter(item.polarity for item in new).items())),
            "by_reach": dict(sorted(Counter(item.reach for item in new).items())),
        },
        "verdicts": {name: work.verdicts[name] for name in ("resolved", "unresolved", "unknown")},
        "against_tests": {name: work.against[name] for name in ("right", "wrong", "unknown")},
        "left_out": {"infra": work.infra, "not_graded": work.open},
        "failures": failures,
        "stopped": report.stopped,
        "usage": usage_values(teacher.claude.usage if teacher.claude else Usage()),
        "warnings": [*_about_arms(chosen), *_about_versions(experiment, teacher), *warnings],
    }
    return (1 if failures or report.stopped else 0), {key: printable(value) for key, value in found.items()}


# -- what is asked for -----------------------------------------------------------------------------------------------------------------------


def _arms(experiment: Experiment, names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms to learn from, in the run's order; the baseline where none is named."""
    arms = experiment.conditions()
    if not names:
        if baseline := tuple(arm for arm in arms if arm.kind == "none"):
            return baseline
        known = ", ".join(arm.name for arm in arms if arm.kind != "gold")
        if not known:
            raise UsageError("this run has reference patches only, and nothing is ever learned from those", "Name a run of an agent.")
        raise UsageError("this run has no arm `none` to learn from", f"Name the arms to learn from with --arm; it has: {known}.")
    named = named_arms(arms, names)
    if any(arm.kind == "gold" for arm in named):
        raise UsageError("`gold` holds the reference patches, and nothing is ever learned from those", "Leave --arm gold out.")
    return tuple(arm for arm in arms if arm in named)


def _check_place(bank: str, folder: Path) -> None:
    if "://" not in bank and Path(bank).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"the bank {bank} would lie in the run folder {folder}, which is left as it is", "Name another place with --bank.")


def _issues(folder: Path, experiment: Experiment, dataset: str | None, repositories: Path | None) -> dict[str, Issue]:
    """The issues of the run's dataset, which must be the very same."""
    from harness.dataset import load_dataset

    if dataset is None and experiment.dataset != MINIBENCH:
        raise UsageError(
            f"the run in {folder} is on the dataset file {experiment.dataset}, whose place it does not keep",
            "Name it again with --dataset (and --repositories).",
        )
    known = load_dataset(dataset or MINIBENCH, repositories=repositories)
    if known.hash != experiment.dataset_hash:
        raise UsageError(
            f"{known.name} is not the dataset of this run: its content has the hash {known.hash[:12]}, that of {experiment.dataset} was "
            f"{experiment.dataset_hash[:12]}",
            "Name with --dataset the file that the run was made on.",
        )
    return {issue: known.instance(issue).issue for issue in experiment.instances}


@dataclass(frozen=True, slots=True)
class _Teacher:
    """Who judges (None: the recorded test outcomes do) and who distils. ``judge_name`` and ``claude`` are "" and None where there is none."""

    verdict: str
    judge: Judge | None
    extractor: Extractor
    claude: Claude | None

    @property
    def judge_name(self) -> str:
        return self.judge.name if self.judge else "tests"


def _teacher(experiment: Experiment, verdict: str | None, extractor: str | None, model: str | None, max_cost: float | None) -> _Teacher:
    verdict = verdict or experiment.verdict
    kind = extractor or experiment.extractor.split("@")[0]
    if kind not in ("rules", "llm"):
        raise UsageError(f"the run's items were distilled by {experiment.extractor!r}, which is not known here", "Choose with --extractor.")
    claude: Claude | None = None
    if "llm" in (verdict, kind):
        from swe_memory.budget import Budget
        from swe_memory.claude import Claude

        if not (named := model or experiment.model):
            raise UsageError("a language model is to judge or distil, and none is named", "Name one with --model.")
        claude = Claude(named, budget=Budget(cost=max_cost) if max_cost is not None else None)
    return _Teacher(verdict, _judge(verdict, claude), _extractor(kind, claude), claude)


def _judge(verdict: str, claude: Claude | None) -> Judge | None:
    if verdict == "tests":
        return None
    if verdict == "rules":
        from swe_memory.judge.rules import RulesJudge

        return RulesJudge()
    from swe_memory.judge.llm import LLMJudge

    assert claude is not None
    return LLMJudge(claude)


def _extractor(kind: str, claude: Claude | None) -> Extractor:
    if kind == "rules":
        from swe_memory.extract.rules import RulesExtractor

        return RulesExtractor()
    from swe_memory.extract.llm import LLMExtractor

    assert claude is not None
    return LLMExtractor(claude)


def _label(teacher: _Teacher) -> str:
    if teacher.verdict == "tests":
        return "oracle verdict: the recorded outcome of the hidden tests"
    if teacher.verdict == "rules":
        return "verdicts by rules, which see what the agent saw"
    return f"verdicts by {teacher.claude.model if teacher.claude else 'a language model'}, which sees what the agent saw"


def _about_arms(arms: Sequence[Arm]) -> list[str]:
    return [
        f"{arm.name} is a control: its agent was shown a placebo. What was learned from it must not be memory in an experiment that it is part of"
        for arm in arms
        if arm.kind == "control"
    ]


def _about_versions(experiment: Experiment, teacher: _Teacher) -> list[str]:
    now, then = teacher.extractor.name, experiment.extractor
    if now != then and now.split("@")[0] == then.split("@")[0]:
        return [f"the run's items were distilled by {then}, these by {now}"]
    return []


# -- the work --------------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    """The attempts to learn from, in order, and what is found out about them on the way."""

    folder: Path
    experiment: Experiment
    arms: Sequence[Arm]
    state: RunState
    issues: Mapping[str, Issue]
    teacher: _Teacher
    lessons: list[tuple[Cell, AttemptState]] = field(default_factory=list)
    infra: list[str] = field(default_factory=list)
    open: int = 0
    known: dict[str, Verdict] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    against: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Stream after stream, each in the order of the run's first sequence."""
        cells = {cell.key: cell for cell in lay_out(self.experiment).cells}
        for arm in self.arms:
            streams = {stream for name, stream, _ in cells if name == arm.name}
            for stream in sorted(streams, key=lambda text: tuple(map(int, text.split("-")))):
                for issue in self.experiment.sequence():
                    self._take(cells[arm.name, stream, issue])

    def _take(self, cell: Cell) -> None:
        known = self.state.attempts.get(cell.key)
        if known and known.infra:
            self.infra.append("/".join(cell.key))
        elif known is None or not known.graded:
            self.open += 1
        else:
            self.lessons.append((cell, known))

    @property
    def session(self) -> str:
        """A name that follows from all that decides what is learned: by it the bank of an interrupted call is known again."""
        decides = [
            self.experiment.to_json(),
            [arm.name for arm in self.arms],
            self.teacher.judge_name,
            self.teacher.extractor.name,
            self.teacher.claude.model if self.teacher.claude else "",
        ]
        return f"relearn-{hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]}"

    def reader(self, cell: Cell, known: AttemptState) -> Callable[[], Attempt]:
        """Reads and judges one attempt when it is its turn; what goes wrong is written down by the attempt's name."""

        def read() -> Attempt:
            try:
                return self._read(cell, known)
            except SweMemoryError as error:
                self.failures.append({"attempt": "/".join(cell.key), "reason": str(error)})
                if isinstance(error, UsageError):  # about this attempt, not about the call
                    raise SweMemoryError(error.what, error.hint) from error
                raise

        return read

    def _read(self, cell: Cell, known: AttemptState) -> Attempt:
        place = self.folder / cell.arm.folder / cell.stream
        trajectory = read_trajectory(place, cell.issue, known.finished)
        attempt = Attempt(self.issues[cell.issue], trajectory, Verdict.unknown(), "/".join(cell.key))
        resolved = bool(known.graded["resolved"])
        verdict = self.known.get(attempt.key) or self._judged(attempt.issue, trajectory, resolved)
        self.known[attempt.key] = verdict
        self.verdicts[verdict.outcome] += 1
        right = "unknown" if verdict.outcome == "unknown" else "right" if (verdict.outcome == "resolved") == resolved else "wrong"
        self.against[right] += 1
        return Attempt(attempt.issue, trajectory, verdict, attempt.source)

    def _judged(self, issue: Issue, trajectory: Trajectory, resolved: bool) -> Verdict:
        judge = self.teacher.judge
        return judge.judge(issue, trajectory) if judge else Verdict.from_tests(resolved=resolved)


def _learn(work: _Work, uri: str, quiet: bool) -> tuple[LearnReport, int, list[str]]:
    """Learn all lessons; the report, the bank's version then, and warnings about the bank."""
    from swe_memory.bank import MemoryBank
    from swe_memory.progress import Progress

    with MemoryBank.open(uri) as bank, Progress("learning", len(work.lessons), quiet=quiet) as progress:
        warnings = list(bank.warnings)
        work.known.update(_there(bank, uri, work.session))
        report = bank.learn_many(
            [work.reader(cell, known) for cell, known in work.lessons],
            extractor=work.teacher.extractor,
            session=work.session,
            progress=lambda learned: progress.advance(note=learned.issue_id),
        )
        return report, bank.version, warnings


def _there(bank: MemoryBank, uri: str, session: str) -> dict[str, Verdict]:
    """What an interrupted call of the same command has learned: key of an attempt -> its verdict. Raises UsageError where the bank holds anything else."""
    experiences = bank.experiences()
    if any(one.session != session for one in bank.sessions()) or (experiences and not bank.sessions()):
        held = count(len(experiences), "experience", "experiences")
        what = f"the bank {uri} is not new: it holds {held} that this command did not put there"
        raise UsageError(what, "Name a new bank; `swe-memory bank import` brings banks together.")
    return {experience.key: experience.verdict for experience in experiences}


def relearn_text(found: Mapping[str, Any]) -> str:
    """The values of :func:`relearn` in lines."""
    items, verdicts, against, left = found["items"], found["verdicts"], found["against_tests"], found["left_out"]
    lines = [
        f"{count(found['attempts'], 'attempt', 'attempts')} of {', '.join(found['arms'])} in {found['run']}, "
        f"distilled by {found['extractor']}, {found['verdict']['label']}",
        f"verdicts: {verdicts['resolved']} resolved, {verdicts['unresolved']} unresolved, {verdicts['unknown']} unknown"
        + (
            f"; {against['right']} agree with the tests, {against['wrong']} do not"
            if found["verdict"]["source"] != "tests"
            else " (oracle verdict)"
        ),
        f"learned {found['learned']}, already known {found['already']}, verdict changed {found['superseded']}, nothing to learn {found['nothing']}",
    ]
    kinds = ", ".join(f"{number} {name}" for part in ("by_polarity", "by_reach") for name, number in items[part].items())
    lines.append(
        f"items: {items['added']} added{f' ({kinds})' if kinds else ''}, {items['quarantined']} quarantined, "
        f"{count(items['rejected'], 'draft', 'drafts')} refused"
    )
    if found["model"]:
        lines.append(f"used: {usage_words(found['usage'])}")
    if left["infra"]:
        lines.append(f"left out as failed through the machine: {_some(left['infra'])}")
    if left["not_graded"]:
        lines.append(f"left out as not graded: {count(left['not_graded'], 'attempt', 'attempts')}")
    lines += [f"warning: {warning}" for warning in found["warnings"]]
    lines += [f"failed: {failure['attempt']}: {failure['reason']}" for failure in found["failures"][:_MOST_ROWS]]
    if len(found["failures"]) > _MOST_ROWS:
        lines.append(f"failed: ... and {len(found['failures']) - _MOST_ROWS} more (--json lists all)")
    if found["stopped"]:
        lines.append(f"stopped before the end: {found['stopped']}; the same command goes on from there")
    return "\n".join([*lines, f"bank {found['bank']} is at version {found['bank_version']}"])


def _some(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _MOST_ROWS else ""
    return ", ".join(names[:_MOST_ROWS]) + more
