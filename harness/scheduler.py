"""Runs an experiment in a folder: one process at a time, streams side by side, everything resumable.

Attempts of an arm without memory do not depend on each other, attempts of a stream with a growing bank do. So the units that workers take are: each
stream with memory as a whole, and each single attempt of the others. No result depends on which worker took what when.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.agents import Limits, make_agent
from harness.attempt import Halted, Outcome, Setting, run_attempt
from harness.events import AttemptState, Journal, RunState, read_state, write_file
from harness.files import remove_tree
from harness.plan import Experiment, Stream
from swe_memory.errors import InfraError, UsageError

if TYPE_CHECKING:
    from harness.dataset import Dataset
    from harness.grading import Grader
    from swe_memory.bank import MemoryBank
    from swe_memory.records import Judge

RETRIES = (1.0, 5.0)
"""Seconds to wait before an attempt that failed through the machine is tried again; then it is listed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run is carried out; none of it changes a result. ``retries`` are the waits in seconds between tries after infra failures."""

    workers: int = 2
    retries: Sequence[float] = RETRIES

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"{self.workers} workers can do nothing", "Give --workers 1 or more.")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process. Raises UsageError where another one holds it, or the folder cannot be made."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire(timeout=0)
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
    except FileNotFoundError:
        what = f"{folder} is no run folder: it has no experiment.json" if folder.is_dir() else f"there is no folder {folder}"
        raise UsageError(what, "Name a folder that `swe-memory run` has written.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", "Check the file.") from error
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}", "Restore it from a copy, or start a new run in another folder.") from error
    return Experiment.from_json(value, str(path))


def freeze(folder: Path, experiment: Experiment, *, resume: bool) -> None:
    """Write ``experiment.json`` before the first attempt; or, with ``resume``, check that it says the same.

    Call it with the folder locked. Raises UsageError for a folder with other things in it, an experiment that is there already, and for each setting that
    differs from the frozen one.
    """
    present = {path.name for path in folder.iterdir()} - {".lock"}
    path = folder / "experiment.json"
    if not path.exists():
        if foreign := sorted(present - {f".{path.name}.part"}):
            raise UsageError(f"{folder} holds other things ({', '.join(foreign[:3])})", "Choose an empty or a new folder with --out.")
        if resume:
            raise UsageError(f"there is no run in {folder} to go on with", "Leave --resume out to start one.")
        write_file(path, json.dumps(experiment.to_json(), indent=2, sort_keys=True) + "\n")
        return
    frozen = read_experiment(folder)
    different = frozen.differences(experiment)
    if different:
        settings = "; ".join(different)
        raise UsageError(
            f"{folder} holds another experiment: {settings}", "Use the same settings with --resume, or another folder with --out."
        )
    if not resume:
        raise UsageError(f"{folder} holds this experiment already", "Go on with --resume, or choose another folder with --out.")


class Run:
    """One process's work on a locked run folder. ``say`` is called after each attempt, from the worker that did it, one call at a time."""

    def __init__(self, folder: Path, experiment: Experiment, dataset: Dataset, settings: Settings, say: Callable[[Outcome], None]) -> None:
        self.folder = folder
        self.experiment = experiment
        self._instances = {instance.issue.id: instance for instance in dataset.instances}
        self._settings = settings
        self._say = say
        self._saying = threading.Lock()
        self._taking = threading.Lock()
        self._stop = threading.Event()
        self._halt = threading.Event()
        self._errors: list[BaseException] = []
        self._scratch = scratch_folder(folder)

    def execute(self, on_interrupt: Callable[[], None] = lambda: None) -> RunState:
        """Do all that the journal does not show as done; gives the state at the end.

        A first Ctrl-C (or SIGTERM) lets the attempts under way finish (``on_interrupt`` may tell the user so), a second one stops them at once; then
        KeyboardInterrupt is raised. Infra failures are in the state; any other error ends the run and is raised. Whatever happens, ``--resume`` goes on
        from there.
        """
        from harness.grading import Grader

        before = read_state(self.folder / "events.jsonl")
        remove_tree(self._scratch)
        self._scratch.mkdir(parents=True, exist_ok=True)
        units = self._units(before)
        try:
            with Journal(self.folder / "events.jsonl") as journal, Grader() as grader:
                threads = [
                    threading.Thread(target=self._work, args=(units, before, journal, grader), daemon=True, name=f"worker-{number}")
                    for number in range(min(self._settings.workers, len(units)))
                ]
                interrupted = self._wait(threads, on_interrupt)
        finally:
            remove_tree(self._scratch)
        if interrupted:
            raise KeyboardInterrupt
        if self._errors:
            raise self._errors[0]
        return read_state(self.folder / "events.jsonl")

    def _wait(self, threads: Sequence[threading.Thread], on_interrupt: Callable[[], None]) -> bool:
        """Start the workers and wait for them; whether the user wanted to stop."""
        with _interrupts() as asked:
            for thread in threads:
                thread.start()
            told = False
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.05)
                if asked and not told:
                    told = True
                    self._stop.set()
                    on_interrupt()
                if len(asked) > 1:
                    self._halt.set()
            return bool(asked)

    def _units(self, state: RunState) -> list[tuple[Stream, tuple[str, ...]]]:
        """What is left, longest first: a stream with memory is one unit, other attempts are one each."""
        units: list[tuple[Stream, tuple[str, ...]]] = []
        for stream in sorted(self.experiment.streams(), key=lambda s: not s.memory):
            left = tuple(i for i in stream.instances if not complete(stream, state.attempts.get((stream.arm, stream.name, i))))
            units += [(stream, left)] if stream.memory and left else [(stream, (i,)) for i in left]
        return units

    def _work(self, units: list[tuple[Stream, tuple[str, ...]]], before: RunState, journal: Journal, grader: Grader) -> None:
        try:
            while not self._stop.is_set():
                with self._taking:
                    if not units:
                        return
                    stream, issues = units.pop(0)
                with self._bank(stream) as bank:
                    setting = self._setting(stream, bank, journal, grader)
                    for issue in issues:
                        if self._stop.is_set():
                            return
                        self._attempt(setting, issue, before.attempts.get((stream.arm, stream.name, issue)))
        except Halted:
            pass
        except BaseException as error:
            # Handed to the main thread, which raises it.
            self._errors.append(error)
            self._stop.set()

    @contextlib.contextmanager
    def _bank(self, stream: Stream) -> Iterator[MemoryBank | None]:
        if not stream.memory:
            yield None
            return
        from swe_memory.bank import MemoryBank

        place = self.folder / stream.arm / stream.name
        place.mkdir(parents=True, exist_ok=True)
        with MemoryBank.open(place / "bank.lance") as bank:
            yield bank

    def _setting(self, stream: Stream, bank: MemoryBank | None, journal: Journal, grader: Grader) -> Setting:
        e = self.experiment
        judge: Judge | None = None
        if e.verdict == "rules":
            from swe_memory.judge.rules import RulesJudge

            judge = RulesJudge()
        return Setting(
            arm=stream.arm,
            stream=stream.name,
            agent=make_agent(e.agent),
            limits=Limits(e.call_limit, e.command_seconds),
            judge=judge,
            grader=grader,
            journal=journal,
            folder=self.folder / stream.arm / stream.name,
            scratch=self._scratch,
            halt=self._halt,
            bank=bank,
            test_seconds=e.test_seconds,
            # The bundled repositories have no plugins of their own; what happens to be installed beside the harness is none of their business.
            variables={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if e.dataset == "minibench" else {},
        )

    def _attempt(self, setting: Setting, issue: str, state: AttemptState | None) -> None:
        for wait in (*self._settings.retries, None):
            try:
                outcome = run_attempt(setting, self._instances[issue], state)
            except InfraError as error:
                outcome = Outcome(setting.arm, issue, failure=str(error))
                if wait is not None and not self._stop.wait(wait):
                    state = read_state(setting.journal.path).attempts.get((setting.arm, setting.stream, issue))
                    continue
            break
        with self._saying:
            self._say(outcome)


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of being torn out of whatever is under way. Elsewhere than in the main thread: an empty list."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, lambda signum, _: asked.append(signum)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def complete(stream: Stream, state: AttemptState | None) -> bool:
    """Whether nothing is left to do for an attempt: graded, and learned from where its arm learns."""
    return state is not None and state.done and (bool(state.learned) or not stream.memory)


def scratch_folder(folder: Path) -> Path:
    """Where working copies of this run lie: outside the run folder, at the same place each time, so that what a kill left behind is found and removed."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"swe-memory-run-{name}"


def make_experiment(dataset: Dataset, *, instances: Sequence[str], **settings: Any) -> Experiment:
    """The experiment as it would be frozen here and now: with this machine's embedder and package versions."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import swe_memory
    from swe_memory.embed import default_embedder

    embedder = default_embedder()
    versions = {"swe-memory": swe_memory.__version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for package in ("lancedb", "onnxruntime", "pytest", "swebench"):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return Experiment(
        dataset=dataset.name,
        dataset_hash=dataset.hash,
        instances=tuple(instances),
        embedder=f"{embedder.name} {embedder.digest[:12]}" if embedder else "none",
        versions=versions,
        **settings,
    )
