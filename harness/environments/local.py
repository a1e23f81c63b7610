"""Commands on this machine, in the agent's copy of the repository. This is *not* a sandbox.

What it does: each command gets a session of its own, a time limit that ends the whole session, a HOME and a TMPDIR of its own, no standard input, an
environment that holds nothing of the caller's but PATH (so no API keys), and bounded output. What it does not do: keep a command from reading or
writing other files, from the network, from reading ``/proc`` of the process that started it, or from using up memory or disk. Run agents that you would
not run yourself in a container.

A program of the user's own that acts as an agent cannot do without the user's variables (keys, HOME, PATH): ``inherit`` gives it all of them, with git
told to run no hooks and to look at the repository that it is called in. The session, the time limit, the bounded output and the hunt for what is left
running stay.

Two things are made harder without being prevented. ``import harness`` and ``import swe_memory`` (the bench and its fixes) fail in Python as it is started
from here, so that an agent does not come upon them by accident; ``python -I``, or reading the files, still finds them. And what a command leaves running
is found by its process group, by a mark in its environment and by a mark in its resource limits (the size of POSIX message queues, which nothing else
sets), so that neither a new session nor an empty environment lets it outlive :meth:`LocalEnvironment.close`; a program that sets that limit itself does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import resource
import secrets
import select
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from harness.environments import Execution
from harness.environments.bounded import BoundedOutput
from harness.files import remove_tree, to_bytes

TIMED_OUT = 124  # as timeout(1) reports it
_HIDDEN = ("harness", "prompts", "swe_memory")
_GUARD = f"""\
import os, sys
from importlib.machinery import PathFinder
class _Guard:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is not None or name not in {_HIDDEN!r}:
            return None
        found = PathFinder.find_spec(name, [p for p in sys.path if os.path.realpath(p or os.curdir) != {str(Path(__file__).resolve().parents[2])!r}])
        if found is None:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return found
sys.meta_path.insert(0, _Guard)
"""
_MARKED = 'ulimit -Sq "$1" 2>/dev/null && ulimit -Hq "$2" 2>/dev/null; shift 2; exec bash "$@"'
_LIMITS = re.compile(rb"^Max msgqueue size +([0-9]+) +([0-9]+) ", re.MULTILINE)
_COOKIE = "SWE_MEMORY_ENVIRONMENT"
_LONGEST_ARGUMENT = 100_000  # bytes; Linux refuses a single argument of 128 KiB
_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
_ROUNDS = 20  # of looking for processes to kill
_LOOK = 0.1  # seconds between two looks at whether a command that has closed its output is to be stopped
_DRAIN = 0.1  # seconds to go on reading after the shell has ended while a background child still holds the pipe

# What git is told by variables about one repository (`git rev-parse --local-env-vars`): of the caller's, not of the agent's copy.
_OF_ONE_REPOSITORY = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
}
_SAFE_GIT = {"core.hooksPath": os.devnull, "core.fsmonitor": "false"}


class LocalEnvironment:
    """``bash -c COMMAND`` in ``workdir``, as :class:`harness.environments.Environment` asks.

    ``timeout`` is the limit in seconds of a command that brings none; ``output_limit`` the bytes of output that are kept (the first and the last half,
    with a marker between them); ``variables`` are added to the environment; ``parent`` is the folder for HOME and TMPDIR (None for
    the system's temporary folder), named where somebody has to clean up after a kill (:func:`end_left_behind`). ``python`` and ``python3``
    are the running interpreter. Background children live until :meth:`close`; those of a command that timed out or was stopped end with it.

    With ``inherit`` commands get the user's variables instead (see :func:`users_variables`), HOME, TMPDIR, PATH and ``python`` among them, and nothing
    keeps Python from importing this package. Once ``halt`` is set, the command under way is ended as if its time were over, and none is started any more.
    """

    def __init__(
        self,
        workdir: Path,
        *,
        timeout: float = 60.0,
        output_limit: int = 200_000,
        variables: Mapping[str, str] | None = None,
        parent: Path | None = None,
        inherit: bool = False,
        halt: threading.Event | None = None,
    ) -> None:
        self.workdir = workdir
        self._halt = halt
        self._timeout = timeout
        self._output_limit = output_limit
        self._cookie = f"{_named(parent)}-{secrets.token_hex(16)}"
        self._commands = 0
        # Soft and hard limit of a command's processes: the hard one is this environment's, the soft one goes down by one with each command.
        most = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1] if sys.platform == "linux" else 0
        most = 819_200 if most == resource.RLIM_INFINITY else most
        self._hard = most - 1 - secrets.randbelow(max(1, most // 4))
        self._soft = self._hard - secrets.randbelow(max(1, most // 4))
        self._groups: set[int] = set()
        self._scratch = Path(tempfile.mkdtemp(prefix="env-" if parent else "swe-memory-env-", dir=parent))
        given = {**os.environ, **(variables or {})}
        self._variables = users_variables(given, workdir) if inherit else self._clean(variables or {})

    def _clean(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables that hold nothing of the caller's but PATH, and the folders and wrappers that they speak of."""
        for name in ("home", "tmp", "bin", "guard"):
            (self._scratch / name).mkdir()
        (self._scratch / "guard" / "sitecustomize.py").write_text(_GUARD, encoding="utf-8")
        guard = shlex.quote(str(self._scratch / "guard"))
        for name in ("python", "python3"):
            # A wrapper, not a link: a link would make the interpreter forget its virtual environment.
            wrapper = self._scratch / "bin" / name
            first = f"PYTHONPATH={guard}${{PYTHONPATH:+:$PYTHONPATH}}\nexport PYTHONPATH\n"  # also where a command has set its own
            wrapper.write_text(f'#!/bin/sh\n{first}exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
            wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        path = os.pathsep.join([str(self._scratch / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return {
            **kept,
            "PATH": path,
            "HOME": str(self._scratch / "home"),
            "TMPDIR": str(self._scratch / "tmp"),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GIT_CEILING_DIRECTORIES": str(self.workdir.resolve().parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONNOUSERSITE": "1",
            "PYTHONPATH": str(self._scratch / "guard"),
            **variables,
        }

    def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:
        """Run one command; see the class. A command that cannot be started at all comes back as an execution with code 126 or 127."""
        stops = tuple(event for event in (self._halt, stop) if event is not None)
        if any(event.is_set() for event in stops):
            return Execution("", -signal.SIGTERM)
        limit = self._timeout if timeout is None else timeout
        if "\0" in command:
            return Execution("bash: a command cannot hold a NUL character\n", 126)
        encoded = to_bytes(command)
        arguments = [b"-c", encoded]
        self._commands += 1
        number = self._commands
        try:
            if len(encoded) > _LONGEST_ARGUMENT:
                script = self._scratch / "command.sh"
                script.write_bytes(encoded)
                arguments = [os.fsencode(script)]
            process = subprocess.Popen(
                [b"bash", b"-c", _MARKED.encode(), b"bash", b"%d" % (self._soft - number), b"%d" % self._hard, *arguments],
                cwd=self.workdir,
                env={**self._variables, _COOKIE: f"{self._cookie}-{number}-"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            what = (
                "cannot start in the working directory"
                if error.filename != str(self._scratch / "command.sh")
                else "cannot keep the command"
            )
            return Execution(f"bash: {what}: {error.strerror}\n", 127)
        self._groups.add(process.pid)
        try:
            return self._follow(process, time.monotonic() + limit, number, stops)
        except BaseException:
            self._end(process, number)
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
            if not _group_alive(process.pid):
                self._groups.discard(process.pid)

    def _follow(self, process: subprocess.Popen[bytes], deadline: float, number: int, stops: tuple[threading.Event, ...]) -> Execution:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        os.set_blocking(pipe, False)
        output = BoundedOutput(self._output_limit)

        def ended() -> Execution | None:
            """The execution, where the command's time is over or it is to stop."""
            late = time.monotonic() >= deadline
            if not late and not any(event.is_set() for event in stops):
                return None
            self._end(process, number)
            _read(pipe, output)
            return Execution(output.text(), TIMED_OUT if late else process.returncode, timed_out=late)

        drained_by: float | None = None  # set once the shell has ended: what its children still print is not waited for
        while True:
            now = time.monotonic()
            if drained_by is None and process.poll() is not None:
                drained_by = now + _DRAIN
            if drained_by is None and (execution := ended()):
                return execution
            wait = min(deadline - now, 0.02) if drained_by is None else drained_by - now
            readable, _, _ = select.select([pipe], [], [], max(0.0, wait))
            if readable and _read(pipe, output):  # end of file: nobody holds the pipe any more
                break
            if drained_by is not None and time.monotonic() >= drained_by:
                break
        while True:  # the command may have closed its output and go on
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.0, min(deadline - time.monotonic(), _LOOK)))
                return Execution(output.text(), process.returncode)
            if execution := ended():
                return execution

    def _end(self, process: subprocess.Popen[bytes], number: int) -> None:
        """SIGTERM to the command's process group and to what has left the group (known by its marks), then SIGKILL."""
        group = process.pid
        _signal(group, signal.SIGTERM)
        for pid in self._marked(number):
            if _session_of(pid) != group:
                _kill(pid, signal.SIGTERM)
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and self._running(process, number):
            time.sleep(0.01)
        _signal(group, signal.SIGKILL)
        self._hunt(number)
        process.wait()

    def _running(self, process: subprocess.Popen[bytes], number: int) -> bool:
        """Whether anything of the command is left. A zombie that nobody reaps does not count."""
        process.poll()
        return bool(self._marked(number)) if Path("/proc/self/environ").exists() else _group_alive(process.pid)

    def _marked(self, number: int | None = None) -> list[int]:
        """Processes of one command, or of all; [] where there is no /proc."""
        wanted = f"{_COOKIE}={self._cookie}-{'' if number is None else f'{number}-'}".encode()
        numbers = range(1, self._commands + 1) if number is None else (number,)
        found = []
        for pid in _processes():
            limits = _LIMITS.search(_proc(pid, "limits"))
            marked = limits is not None and int(limits[2]) == self._hard and self._soft - int(limits[1]) in numbers
            if (marked or any(variable.startswith(wanted) for variable in _variables(pid))) and not _ended(pid):
                found.append(pid)
        return found

    def _hunt(self, number: int | None = None) -> None:
        """Kill what is left of one command, or of all, wherever it went."""
        for _ in range(_ROUNDS):  # again, for what was forked meanwhile
            if not (left := self._marked(number)):
                break
            for pid in left:
                _kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill whatever the commands left running and remove HOME and TMPDIR."""
        for group in sorted(self._groups):
            _signal(group, signal.SIGKILL)
        self._groups.clear()
        if self._commands:
            self._hunt()
        remove_tree(self._scratch)

    def __enter__(self) -> LocalEnvironment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def end_left_behind(parent: Path) -> int:
    """Kill what commands of environments with this ``parent`` left running when their own process was killed; how many were found.

    For whoever knows that no such environment is in use. Found by the mark in their environment variables, so on Linux only.
    """
    wanted = f"{_COOKIE}={_named(parent)}-".encode()
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        found = [pid for pid in _processes() if any(variable.startswith(wanted) for variable in _variables(pid)) and not _ended(pid)]
        if not found:
            break
        killed.update(found)
        for pid in found:
            _kill(pid, signal.SIGKILL)
    return len(killed)


def _named(parent: Path | None) -> str:
    """A word for the folder that environments are made in, for the mark of their processes."""
    return hashlib.sha256(os.fsencode(parent.resolve())).hexdigest()[:16] if parent else "nowhere"


def users_variables(variables: Mapping[str, str], workdir: Path) -> dict[str, str]:
    """The user's environment for a program that acts as an agent: everything, but what tells git of another repository is left out, git runs neither
    hooks nor a file system monitor, and it never takes a repository around ``workdir`` for the agent's.

    Settings that ``GIT_CONFIG_COUNT`` already counts are kept, in front of ours. Python writes no bytecode unless told otherwise, since that would be
    part of the patch wherever a repository does not ignore it.
    """
    kept = {name: value for name, value in variables.items() if name not in _OF_ONE_REPOSITORY}
    given = variables.get("GIT_CONFIG_COUNT", "")
    count = int(given) if re.fullmatch("[0-9]{1,4}", given) else 0
    for number, (key, value) in enumerate(_SAFE_GIT.items(), count):
        kept |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    kept["GIT_CONFIG_COUNT"] = str(count + len(_SAFE_GIT))
    ceilings = [kept.get("GIT_CEILING_DIRECTORIES", ""), str(workdir.resolve().parent)]
    kept["GIT_CEILING_DIRECTORIES"] = os.pathsep.join(filter(None, ceilings))
    return {"PYTHONDONTWRITEBYTECODE": "1", **kept}


def _read(pipe: int, output: BoundedOutput) -> bool:
    """Take what is there without waiting; true at the end of the file. At most 1 MiB a call, so that a flood cannot outrun the time limit."""
    for _ in range(16):
        try:
            block = os.read(pipe, 65536)
        except BlockingIOError:
            return False
        if not block:
            return True
        output.add(block)
    return False


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _processes() -> list[int]:
    """All of this machine; [] where there is no /proc."""
    return sorted(int(entry.name) for entry in Path("/proc").glob("[0-9]*"))


def _proc(pid: int, name: str) -> bytes:
    """A file about a process, empty where that has ended or is somebody else's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _variables(pid: int) -> list[bytes]:
    return _proc(pid, "environ").split(b"\0")


def _ended(pid: int) -> bool:
    """Whether it is gone, or only waits to be reaped."""
    return _proc(pid, "stat").rpartition(b")")[2].split()[:1] in ([], [b"Z"], [b"X"])


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
