"""Runs that kill themselves at a chosen point. One process imports everything once; each run is a fork of it, so that a kill costs no start-up.

The points are places between two steps that last: before, in the middle of and after an event in the journal, between writing a file and its taking its
place, around what a bank writes. The real functions are wrapped and do their work; at the chosen point the process sends itself SIGKILL.

``python -m tests.killing`` reads jobs as JSON lines and answers each with one; :func:`killing` is the other side.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Ended:
    """How a run ended: by its own kill or with an exit code, what it said, and how often it passed each point."""

    killed: bool
    code: int
    said: str
    points: dict[str, int] = field(default_factory=dict)


class Killing:
    """The process that forks. Made once for all tests of a process, by :func:`killing`; it ends when its input does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.killing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        atexit.register(self._process.communicate)

    def run(
        self,
        options: dict[str, Any],
        *,
        kill: tuple[str, int] | None = None,
        temporary: Path,
        agent: dict[str, Any] | None = None,
        variables: dict[str, str] | None = None,
    ) -> Ended:
        """``run_command(**options)``, killed when the point ``kill[0]`` is passed for the ``kill[1]``-th time; with these environment ``variables``."""
        return self._do(
            {"options": options, "kill": kill, "agent": agent or {}, "variables": {**(variables or {}), "TMPDIR": str(temporary)}}
        )[0]

    def race(self, copies: int, options: dict[str, Any], *, temporary: Path) -> list[Ended]:
        """The same run by so many processes that begin at the same moment."""
        return self._do({"options": options, "kill": None, "agent": {}, "variables": {"TMPDIR": str(temporary)}, "copies": copies})

    def _do(self, job: dict[str, Any]) -> list[Ended]:
        assert self._process.stdin is not None and self._process.stdout is not None
        job = {"copies": 1, **job}
        self._process.stdin.write(json.dumps(job, default=str) + "\n")
        self._process.stdin.flush()
        return [Ended(**answer) for answer in json.loads(self._process.stdout.readline())]


@cache
def killing() -> Killing:
    """The process of these tests."""
    return Killing()


# -- in the process that forks ---------------------------------------------------------------------------------------------------------------


class Points:
    """Counts the points that are passed, and kills at one of them."""

    def __init__(self, kill: tuple[str, int] | None) -> None:
        self._kill = kill
        self._lock = threading.Lock()
        self.passed: Counter[str] = Counter()

    def here(self, name: str, first: Callable[[], object] = lambda: None) -> None:
        """A point. ``first`` is done before a kill here, and only then."""
        with self._lock:
            self.passed[name] += 1
            if self._kill == (name, self.passed[name]):
                first()
                die()

    def around(self, owner: Any, attribute: str, name: Callable[..., str]) -> None:
        """A point before and after each call of a function; ``name`` gets its arguments."""
        real = getattr(owner, attribute)

        def wrapped(*arguments: Any, **more: Any) -> Any:
            said = name(*arguments, **more)
            self.here(f"before {said}")
            value = real(*arguments, **more)
            self.here(f"after {said}")
            return value

        setattr(owner, attribute, wrapped)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the dead do not speak")


def set_points(points: Points) -> None:
    """Wrap what makes something last."""
    import shutil

    from harness import attempt, events, folder, frozen, running, trajectory_file, workdir
    from swe_memory.store import Store
    from swe_memory.store.tables import Tables

    points.around(events.Journal, "append", lambda _, event, **fields: _event(event, fields))
    for module in (attempt, folder, frozen, running, trajectory_file):
        if hasattr(module, "write_file"):
            points.around(module, "write_file", lambda path, _: _kind(path.name))
    points.around(Store, "write", lambda *_, **__: "rows")
    points.around(Store, "commit", lambda *_, **__: "commit")
    points.around(workdir, "_difference", lambda *_, **__: "difference")
    points.around(Tables, "create", lambda *_, **__: "tables")
    points.around(Tables, "create_generation", lambda *_, **__: "generation")
    write, replace, rename, copy = os.write, Path.replace, Path.rename, shutil.copytree

    def torn(file: int, data: bytes) -> int:
        if data[:1] == b"{" and b'"event": ' in data:
            points.here(f"torn {_event(json.loads(data)['event'], json.loads(data))}", lambda: write(file, data[: len(data) // 2]))
        return write(file, data)

    def replaced(path: Path, target: Any) -> Path:
        if path.name.endswith(".part"):
            points.here(f"part of {_kind(path.name[1:].removesuffix('.part'))}")
        return replace(path, target)

    def renamed(path: Path, target: Any) -> Path:
        points.here(f"before the name {Path(target).name}")
        made = rename(path, target)
        points.here(f"after the name {Path(target).name}")
        return made

    def one(source: str, target: str) -> str:
        points.here("copied file")
        return str(shutil.copy2(source, target))

    os.write = torn  # type: ignore[assignment]
    Path.replace = replaced  # type: ignore[method-assign]
    Path.rename = renamed  # type: ignore[method-assign]

    def tree(source: Any, target: Any, *given: Any, **more: Any) -> Any:
        return copy(source, target, *given) if given else copy(source, target, copy_function=one)  # with arguments: it calls itself

    shutil.copytree = tree


def _event(kind: str, fields: dict[str, Any]) -> str:
    """``judge usage`` and ``extract usage`` are told apart from an agent's."""
    return f"{fields['role']} usage" if kind == "usage" and fields["role"] != "agent" else kind


def _kind(name: str) -> str:
    return "trajectory" if name.endswith(".traj.json") else "recalls" if name not in _NAMES else name


_NAMES = ("preds.json", "experiment.json", "results.json")


def share_swebench(answer: int) -> None:
    """Let this process's graders ask a fork that has swebench loaded, instead of starting one each. Call it before there are threads."""
    from types import SimpleNamespace

    from harness import grading_process, grading_worker

    ours, theirs = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(ours[0], 0)
        os.dup2(theirs[1], 1)
        for file in (*ours, *theirs, answer):  # so that it ends with the run, and nobody waits for it
            os.close(file)
        grading_worker.main()
        os._exit(0)
    os.close(ours[0])
    os.close(theirs[1])
    worker = _Worker(child, os.fdopen(ours[1], "wb", buffering=0), os.fdopen(theirs[0], "rb", buffering=0))
    real = grading_process.subprocess
    grading_process.subprocess = SimpleNamespace(  # type: ignore[assignment]
        Popen=lambda *_, **__: worker, PIPE=real.PIPE, DEVNULL=real.DEVNULL, TimeoutExpired=real.TimeoutExpired
    )


@dataclass
class _Worker:
    """The fork, as a Popen."""

    pid: int
    stdin: Any
    stdout: Any
    returncode: int | None = None

    def poll(self) -> int | None:
        ended, status = os.waitpid(self.pid, os.WNOHANG) if self.returncode is None else (0, 0)
        if ended:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        while self.poll() is None:
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def work(job: dict[str, Any], answer: int) -> None:
    """One job, in a fork of its own."""
    import io

    from harness import scheduler
    from swe_memory.errors import SweMemoryError
    from tests.quick_bench import Scripted

    signal.alarm(120)
    os.environ.update(job["variables"])
    tempfile.tempdir = None
    share_swebench(answer)
    points = Points(tuple(job["kill"]) if job["kill"] else None)  # type: ignore[arg-type]
    set_points(points)
    if there := job["agent"].pop("dies_when_there", None):
        threading.Thread(target=_die_when_there, args=(Path(there),), daemon=True).start()
    agent = Scripted(**_agent(job["agent"]))
    scheduler.make_agent = lambda *_, **__: agent  # type: ignore[assignment]
    sys.stderr = said = io.StringIO()
    options = {name: Path(value) if name in ("out", "repositories") else value for name, value in job["options"].items()}
    try:
        from harness.running import run_command

        code, shown = run_command(**options)
        said.write(shown)
    except SweMemoryError as error:
        code = error.exit_code
        said.write(str(error))
    except KeyboardInterrupt:
        code = 130
    except Exception:
        code = -1
        said.write(traceback.format_exc())
    os.write(answer, json.dumps({"killed": False, "code": code, "said": said.getvalue(), "points": points.passed}).encode())


def load() -> None:
    """All that a run imports and prepares once, short of opening a bank: nothing of lancedb may be at work when the process forks."""
    import gc
    import importlib
    import pkgutil
    import warnings

    import anthropic.resources.messages
    import detect_secrets
    import lancedb
    import scipy.stats
    import statsmodels.stats.proportion
    import swebench.harness.run_evaluation

    import harness
    import prompts
    import swe_memory
    from swe_memory.embed import default_embedder
    from swe_memory.safety import hostile, redact

    assert anthropic and detect_secrets and lancedb and scipy and statsmodels and swebench
    for package in (harness, swe_memory):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in module.name for part in ("plugins", "minibench", "__main__", "agents.", "docker")):
                importlib.import_module(module.name)
    redact("a text")
    hostile("a text")
    prompts.load("memory_block")
    if (embedder := default_embedder()) is not None:
        embedder.documents(["a text"])
    warnings.simplefilter("ignore")  # lancedb warns of forks
    gc.collect()
    gc.freeze()  # so that a fork's collector, which statsmodels calls, leaves the shared pages alone


def _agent(about: dict[str, Any]) -> dict[str, Any]:
    """What a Scripted agent is made with. ``command`` is run before anything else."""
    made = dict(about)
    if (give_up := made.pop("gives_up", None)) is not None:
        made["gives_up"] = lambda number: number in give_up
    if (command := made.pop("command", None)) is not None:
        made["before"] = lambda _, environment: environment.execute(command, timeout=600)
    return made


def _die_when_there(path: Path) -> None:
    """The run is killed once somebody has written a line into that file."""
    while not path.exists() or not path.read_text().endswith("\n"):
        time.sleep(0.005)
    die()


def main() -> None:
    """Serve until standard input ends."""
    load()
    for line in sys.stdin:
        job = json.loads(line)
        held, start = os.pipe()  # closed when all are there
        forks = [_fork(job, held, start) for _ in range(job["copies"])]
        os.close(start)
        os.close(held)
        answers = []
        for child, pipe in forks:
            with os.fdopen(pipe) as told:
                said = told.read() or json.dumps({"killed": False, "code": -1, "said": "it broke"})
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                said = json.dumps({"killed": True, "code": -os.WTERMSIG(status), "said": ""})
            answers.append(json.loads(said))
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


def _fork(job: dict[str, Any], held: int, start: int) -> tuple[int, int]:
    """(pid, where it answers) of a fork that does the job once ``start`` is closed."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(start)
            os.close(ours)
            os.read(held, 1)
            work(job, theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    return child, ours


if __name__ == "__main__":
    main()
