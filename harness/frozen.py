"""Frozen banks: made from finished attempts (or copied from a given bank), closed for good, with what each issue gets from them worked out beforehand.

Before any attempt with memory begins, ``recalls/ARM.json`` beside a bank says what every issue will be given in every arm that reads it. So a control is
yoked to the arm with memory by construction, and a resumed run gives what the first one would have given.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.arms import Arm
from harness.attempt import Given, verdict_from
from harness.events import AttemptState, write_file
from harness.files import remove_tree
from harness.layout import BankPlan, Cell, Key
from harness.plan import Experiment
from harness.trajectory_file import read_trajectory
from swe_memory.errors import BankError, SweMemoryError, UsageError
from swe_memory.intake import name
from swe_memory.records import Attempt, Extractor, Issue, Learned, Recall

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank

CHUNK = 25
"""Attempts that are learned together. Chunks begin at fixed places of the bank's lessons, so that a run that was killed in between makes the same commits."""


def bank_path(folder: Path, plan: BankPlan) -> Path:
    """Where a bank of the run lies."""
    return folder / plan.place / "bank.lance"


def open_bank(path: Path, reached: int) -> MemoryBank:
    """The bank at ``path``, made where there is none yet.

    Raises SweMemoryError where it is at an earlier version than ``reached``, up to which the journal says that it learned: it would be recalled from as if
    those attempts had taught nothing.
    """
    from swe_memory.bank import MemoryBank

    version = 0
    if path.exists() or not reached:
        path.parent.mkdir(parents=True, exist_ok=True)
        bank = MemoryBank.open(path)
        if (version := bank.version) >= reached:
            return bank
        bank.close()
    what = f"the bank {path} is at version {version}, and the journal says that it learned up to version {reached}"
    raise SweMemoryError(what, "It was removed, or an older copy was put there. Restore it, or start a new run.")


def learn_lessons(
    bank: MemoryBank,
    plan: BankPlan,
    folder: Path,
    cells: Mapping[Key, Cell],
    issues: Mapping[str, Issue],
    graded: Mapping[Key, AttemptState],
    extractor: Extractor,
    *,
    learned: frozenset[Key],
    told: Callable[[Cell, Learned], None],
    go_on: Callable[[], bool] = lambda: True,
    together: int = CHUNK,
) -> bool:
    """Learn what a frozen bank's lessons teach, in their order, so many ``together``; whether all was learned (False: ``go_on`` said no).

    ``graded`` are the attempts that were; others (infra failures) are passed over, as are outcomes that the arm does not learn from.
    ``learned`` were acknowledged before; ``told`` is called for every other one once it is durable. Raises ModelError where a model cannot be asked.
    """
    verdicts = {key: attempt.graded["verdict"] for key, attempt in graded.items() if attempt.graded["verdict"]}
    lessons = [key for key in plan.lessons if key in verdicts and verdicts[key]["outcome"] in plan.outcomes]
    for start in range(0, len(lessons), together):
        # Where one of a chunk was acknowledged its commit was made, and the bank knows the others too.
        chunk = [key for key in lessons[start : start + together] if key not in learned]
        if not chunk:
            continue
        if not go_on():
            return False
        attempts = [_reader(folder, cells[key], issues[key[2]], graded[key]) for key in chunk]
        by_issue = {name(key[2]): key for key in chunk}

        def one(done: Learned, by_issue: Mapping[str, Key] = by_issue) -> None:
            told(cells[by_issue[done.issue_id]], done)

        report = bank.learn_many(attempts, extractor=extractor, session=plan.id, progress=one)
        if report.failures:
            raise report.failures[0].error
    return True


def _reader(folder: Path, cell: Cell, issue: Issue, known: AttemptState) -> Callable[[], Attempt]:
    def read() -> Attempt:
        trajectory = read_trajectory(folder / cell.arm.folder / cell.stream, cell.issue, known.finished)
        return Attempt(issue, trajectory, verdict_from(known.graded["verdict"]), "/".join(cell.key))

    return read


def work_out_recalls(bank: MemoryBank, plan: BankPlan, folder: Path, experiment: Experiment, issues: Mapping[str, Issue]) -> dict[str, str]:
    """Write what each of the plan's issues gets in each arm that reads the bank; gives arm -> SHA-256 of its table."""
    from harness import controls

    found: dict[str, dict[str, Recall]] = {}
    digests: dict[str, str] = {}
    for arm in plan.readers:
        if arm.kind == "memory":
            settings = arm.ranking(experiment.recall, before=experiment.before)
            found[arm.name] = {issue: bank.recall(issues[issue], settings=settings) for issue in plan.issues}
        elif arm.method == "derangement":
            settings = _of(plan, arm).ranking(experiment.recall, before=experiment.before)
            about = {issue: issues[issue] for issue in plan.issues}
            found[arm.name] = controls.derangement(found[arm.of], about, bank, settings=settings, seed=experiment.seed)
        elif arm.method == "preamble":
            found[arm.name] = controls.preamble(found[arm.of])
        else:
            found[arm.name] = controls.neutral(found[arm.of], seed=experiment.seed)
        table = {
            issue: {"record": recall_record(recall, arm.method if arm.kind == "control" else ""), "prompt": recall.prompt}
            for issue, recall in sorted(found[arm.name].items())
        }
        text = json.dumps(table, indent=1, sort_keys=True) + "\n"
        write_file(recalls_path(folder, plan, arm), text)
        digests[arm.name] = hashlib.sha256(text.encode()).hexdigest()
    return digests


def _of(plan: BankPlan, control: Arm) -> Arm:
    return next(arm for arm in plan.readers if arm.name == control.of)


def recalls_path(folder: Path, plan: BankPlan, arm: Arm) -> Path:
    """The table of what an arm's issues are given from a bank."""
    return folder / plan.place / "recalls" / f"{arm.folder}.json"


def given(folder: Path, plan: BankPlan, cell: Cell, frozen: Mapping[str, Any] | None = None) -> Given:
    """What an attempt is given from a frozen bank. ``frozen`` is the event that froze it, which knows the table's hash.

    Raises SweMemoryError where the table is gone or damaged, or is not the one that was worked out.
    """
    path = recalls_path(folder, plan, cell.arm)
    try:
        data = path.read_bytes()
        known = ((frozen or {}).get("recalls") or {}).get(cell.arm.name)
        if known is not None and hashlib.sha256(data).hexdigest() != known:
            raise SweMemoryError(f"{path} was changed after the bank {plan.id} was frozen", "Restore it from a copy, or start a new run.")
        entry = json.loads(data)[cell.issue]
        return Given(plan.id, entry["record"], entry["prompt"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{path} does not say what {cell.issue} is given, although the bank {plan.id} is frozen"
        raise SweMemoryError(what, "Restore it from a copy, or start a new run.") from error


def recall_record(recall: Recall, control: str = "") -> dict[str, Any]:
    """What is written down about a recall; ``control`` names the control whose text it is."""
    item = recall.item
    record: dict[str, Any] = {
        "bank_version": recall.bank_version,
        "score": recall.score if math.isfinite(recall.score) else None,
        "item": item.id if item else None,
        "title": item.title if item else None,
        "learned_from": item.provenance.issue_id if item else None,
        "outcome": item.provenance.outcome if item else None,
        "verdict_source": item.provenance.verdict_source if item else None,
        "reasons": list(recall.reasons),
        "settings": recall.settings,
        "characters": len(recall.prompt),
    }
    if len(recall.items) > 1:
        record["items"] = [other.id for other in recall.items]
    return {**record, "control": control} if control else record


def copy_given(source: str, folder: Path, plan: BankPlan) -> None:
    """Copy a given local bank into the run, whole or not at all. Raises UsageError where that is still to be done and nobody says where it is."""
    target = bank_path(folder, plan)
    if target.exists():
        return
    if not source:
        what = f"the run in {folder} was stopped before its bank was copied, and does not keep the place of the given one"
        raise UsageError(what, "Name it again with --bank.")
    part = target.with_name(".bank.part")
    remove_tree(part)
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(source, part)
        part.rename(target)
    except OSError as error:
        raise SweMemoryError(f"cannot copy the bank {source} into {folder}: {error}", "Check both places and make room.") from error


def describe_bank(path: str) -> dict[str, Any]:
    """What an experiment records about a given bank: {name, version, experiences, items, embedder, digest}. ``digest`` is over all that it holds.

    Raises UsageError where there is no local bank there, EmbedderMismatch where its vectors are of a model that is not to be had here.
    """
    from swe_memory.bank import MemoryBank

    place = Path(path)
    if "://" in path or not place.is_dir():
        raise UsageError(
            f"there is no bank at {path}", "Name a local folder that holds a bank (`swe-memory bank export` and `import` bring one here)."
        )
    try:
        with MemoryBank.open(place, create=False, read_only=True) as bank:
            if bank.warnings and bank.embedder is None:
                raise UsageError(
                    f"the bank {path} cannot be recalled from as it was made: {bank.warnings[0]}",
                    "Install its embedder, or reembed the bank.",
                )
            info = bank.info()
            digest = hashlib.sha256()
            for experience in sorted(bank.experiences(), key=lambda e: e.key):
                digest.update(f"{experience.key} {experience.verdict.outcome}\n".encode())
            for item in sorted(bank.items(), key=lambda i: i.id):
                digest.update(f"{item.id} {item.status} {item.title} {item.content}\n".encode("utf-8", "replace"))
            return {
                "name": place.name,
                "version": info.version,
                "experiences": info.experiences,
                "items": info.items["active"],
                "embedder": info.embedder.name or "none",
                "digest": digest.hexdigest(),
            }
    except BankError as error:
        raise type(error)(f"--bank {path}: {error.what}", error.hint) from error
