"""A run's folder: one process at a time, one experiment for ever."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.events import RunState, write_file
from harness.plan import Experiment
from swe_memory.errors import UsageError


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process. Raises UsageError where another one holds it, the folder cannot be made, or something else lies in it (which is
    then left as it is, without so much as a lock)."""
    from filelock import FileLock, Timeout

    try:
        if folder.is_dir():
            _refuse_foreign(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire(timeout=0.2, poll_interval=0.02)  # `run status` holds it for a moment when it looks
    except Timeout as error:
        raise UsageError(f"another process is working on {folder}", "Wait for it, or choose another folder with --out.") from error
    except OSError as error:
        raise UsageError(f"cannot use {folder} for a run: {error.strerror}", "Choose a folder that can be written with --out.") from error
    try:
        yield
    finally:
        lock.release()


def read_experiment(folder: Path) -> Experiment:
    """The frozen experiment of a run folder. Raises UsageError where there is none."""
    path = folder / "experiment.json"
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        what = f"{folder} is no run folder: it has no experiment.json" if folder.exists() else f"there is no folder {folder}"
        raise UsageError(what, "Name a folder that `swe-memory run` has written.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", "Check the file.") from error
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}", "Restore it from a copy, or start a new run in another folder.") from error
    return Experiment.from_json(value, str(path))


def experiment_digest(folder: Path) -> str:
    """What ``experiment.json`` says, as a hash that its layout does not change; it stands in the journal from the first session on. "" where it cannot be
    read."""
    try:
        value = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def changed_since(folder: Path, state: RunState) -> str:
    """What is wrong where ``experiment.json`` is not what the run's first session froze; "" where it is, or where the journal does not tell."""
    if state.experiment in ("", experiment_digest(folder)):
        return ""
    return f"{folder / 'experiment.json'} was changed after the run began: its attempts were made with other settings"


def freeze(folder: Path, experiment: Experiment, *, resume: bool) -> None:
    """Write ``experiment.json`` before the first attempt; or, with ``resume``, check that it says the same.

    Call it with the folder locked. Raises UsageError for a folder with other things in it, an experiment that is there already, and for each setting that
    differs from the frozen one.
    """
    path = folder / "experiment.json"
    if not path.exists():
        _refuse_foreign(folder)
        if resume:
            raise UsageError(f"there is no run in {folder} to go on with", "Leave --resume out to start one.")
        write_file(path, json.dumps(experiment.to_json(), indent=2, sort_keys=True) + "\n")
        return
    frozen = read_experiment(folder)
    if different := frozen.differences(experiment):
        raise another_experiment(folder, different)
    if not resume:
        raise UsageError(f"{folder} holds this experiment already", "Go on with --resume, or choose another folder with --out.")


def another_experiment(folder: Path, differences: Sequence[str]) -> UsageError:
    """The error for a folder whose experiment differs from the one that is asked for."""
    hint = "Use the same settings with --resume, or another folder with --out."
    return UsageError(f"{folder} holds another experiment: {'; '.join(differences)}", hint)


def _refuse_foreign(folder: Path) -> None:
    foreign = sorted({path.name for path in folder.iterdir()} - {".lock", ".experiment.json.part"})
    if foreign and not (folder / "experiment.json").exists():
        raise UsageError(f"{folder} holds other things ({', '.join(foreign[:3])})", "Choose an empty or a new folder with --out.")


def resume_command(folder: Path, experiment: Experiment, *, dataset: str = "FILE", repositories: str = "FOLDER", bank: str = "") -> str:
    """What to type to go on with a run. A dataset of a file must be named again, with the clones where attempts work in such; ``bank`` is for a given one
    that was not copied yet."""
    parts = ["swe-memory", "run", "--resume", "--out", str(folder)]
    if experiment.dataset != "minibench" and not experiment.dataset_revision:
        parts += ["--dataset", dataset]
        parts += ["--repositories", repositories] if experiment.environment == "local" else []
    parts += ["--bank", bank] if bank else []
    return shlex.join(parts)


def scratch_folder(folder: Path) -> Path:
    """Where working copies of this run lie: outside the run folder, at the same place each time, so that what a kill left behind is found and removed."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"swe-memory-run-{name}"
