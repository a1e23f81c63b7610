"""Grading by hidden tests, with the official harness's own script preparation, log parser and report.

A patch is graded in a fresh copy of the repository, never in the agent's: apply it as the official harness does, run the row's ``eval_script`` (which
puts the hidden tests in place and runs them), let swebench read the log. What a report cannot say is told apart beside it: see :data:`GradeOutcome`.

The tests run on this machine through :class:`~harness.environments.local.LocalEnvironment`, which is not a sandbox.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from harness.environments.local import LocalEnvironment, end_left_behind
from harness.events import cannot_write
from harness.files import remove_tree, to_bytes
from harness.gitcmd import GitError, git
from harness.instances import Instance
from harness.tasks import Stopped
from harness.workdir import Workdir, workdir_for
from swe_memory.errors import InfraError

GradeOutcome = Literal["resolved", "unresolved", "empty_patch", "not_applied", "timed_out", "infra"]

_PREFIX = "swe-memory-grade-"
_LOG_LIMIT = 32_000_000  # bytes of test output that are kept
_START, _END, _TIMED_OUT = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Tests Timed Out"
_MARKERS = (">>>>> ", "SWEBENCH_TEST_EXIT_CODE")
_STARTUP = 180.0  # seconds until a new worker must have answered
_ANSWER = 60.0  # and a warm one


@dataclass(frozen=True, slots=True)
class GradeReport:
    """How one patch fared.

    ``report`` has the official shape, ``{instance id: {patch_is_None, patch_exists, patch_successfully_applied, resolved, infra_failure, tests_status?}}``.
    ``outcome`` adds what that cannot tell: an empty patch, a patch that does not apply, tests that ran out of time, a machine that failed (never to be
    judged or learned from). ``reason`` says it in words. ``flags`` name what a person should look at before trusting a result: the patch touches tests,
    or speaks of the grader's markers. Neither ``reason`` nor ``flags`` quote hidden tests.
    """

    instance_id: str
    outcome: GradeOutcome
    report: Mapping[str, Any]
    reason: str = ""
    flags: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def resolved(self) -> bool:
        """Whether all hidden tests that should pass did."""
        return self.outcome == "resolved"


class Grader:
    """Grades one patch after the other, also from several threads, with one warm swebench process.

    Use it as a context manager, or call :meth:`close`; the process also ends when this one does. A worker that died is started again once for each request.
    Once ``halt`` is set a test run under way is ended, and :meth:`grade` raises :class:`harness.tasks.Stopped`.
    """

    def __init__(self, halt: threading.Event | None = None) -> None:
        self._halt = halt
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._fresh = True

    def start(self) -> None:
        """Start the worker now, so that its import overlaps with other work. Not needed."""
        with self._lock:
            self._ensure()

    def grade(
        self, instance: Instance, patch: str | None, *, workspace: Path | None = None, timeout: float = 300.0, logs: Path | None = None
    ) -> GradeReport:
        """Grade ``patch`` against the hidden tests of ``instance``.

        ``workspace`` is a folder for the fresh copy, which is removed afterwards. None, the default, is a new folder of a random name in the system's
        temporary folder that only this user can enter: the hidden tests then lie nowhere beside the working copy of an agent that is still at work.
        (One left behind by a kill is removed by the next grader.) ``timeout`` bounds the tests in seconds. Into ``logs``, where given, go
        ``report.json``, ``patch.diff``, ``test_output.txt`` and ``eval.sh``, named as the official harness names them; SweMemoryError is raised where they
        cannot be written.

        A log that looks like a failure of the machine is believed only where the machine shows it without the patch too, or does not show it again:
        otherwise code could have itself left out of every rate by printing the right words.
        """
        began = time.monotonic()
        iid = instance.issue.id
        if patch is None or not patch.strip():
            done = GradeReport(iid, "empty_patch", _report(iid, patch), "the agent submitted no change")
            return _keep(done, patch, logs, began)
        flags = _flags(instance, patch)
        with _private_folder(workspace) as folder:
            try:
                done = self._grade(instance, patch, folder, timeout)
            except (InfraError, OSError) as error:
                done = GradeReport(iid, "infra", _report(iid, patch, infra=True), str(error))
            output = folder / "test_output.txt"
            if logs is not None:
                with _keeping(logs):
                    for name in (output.name, "eval.sh"):
                        if (folder / name).is_file():
                            shutil.copyfile(folder / name, logs / name)
            text = output.read_text(encoding="utf-8") if output.is_file() else ""
        if text.count(_START) > 1 or text.count(_END) > 1:
            flags = (*flags, "a marker of the grader came twice in the test output")
        done = GradeReport(done.instance_id, done.outcome, done.report, done.reason, flags)
        return _keep(done, patch, logs, began)

    def _grade(self, instance: Instance, patch: str, folder: Path, timeout: float) -> GradeReport:
        done = self._once(instance, patch, folder, timeout)
        if done.outcome != "infra":
            return done
        control = folder / "control"
        control.mkdir()
        if self._once(instance, None, control, timeout).outcome == "infra" or not remove_tree(folder / "repo"):
            return done
        again = self._once(instance, patch, folder, timeout)
        if again.outcome != "infra":
            return again
        reason = "with this patch, and only with it, the tests end as on a machine that failed"
        iid = instance.issue.id
        return GradeReport(iid, "unresolved", {iid: {**again.report[iid], "infra_failure": False}}, reason)

    def _once(self, instance: Instance, patch: str | None, folder: Path, timeout: float) -> GradeReport:
        """One run of the tests in ``folder``; without a patch where that is None. "infra" where the log looks like that."""
        iid = instance.issue.id
        workdir = workdir_for(instance, folder / "repo")
        if patch is not None and (refused := _apply(workdir, patch, folder)):
            return GradeReport(iid, "not_applied", _report(iid, patch), f"the patch does not apply: {refused}")
        script = folder / "eval.sh"
        script.write_text(self._ask({"op": "script", "row": dict(instance.grading.row)})["script"], encoding="utf-8")
        with LocalEnvironment(workdir.path, timeout=timeout, output_limit=_LOG_LIMIT, parent=folder, halt=self._halt) as environment:
            execution = environment.execute(f"bash {_quoted(script)}", timeout=timeout)
        if self._halt is not None and self._halt.is_set():
            raise Stopped
        log = folder / "test_output.txt"
        text = execution.output.encode("utf-8", errors="replace").decode("utf-8")
        if execution.timed_out:
            text += f"\n\n{_TIMED_OUT}\nTimeout error: {timeout:.0f} seconds exceeded."
        log.write_text(text, encoding="utf-8", newline="")
        if execution.timed_out:
            return GradeReport(iid, "timed_out", _report(iid, patch, applied=True), f"the tests did not end within {timeout:.0f} s")
        try:
            request = {"op": "report", "row": dict(instance.grading.row), "patch": patch or "", "log": str(log)}
            report = self._ask(request)["report"]
        except InfraError as error:
            return GradeReport(iid, "infra", _report(iid, patch, applied=True, infra=True), str(error))
        if report[iid]["infra_failure"]:
            return GradeReport(iid, "infra", report, f"the tests could not run: {report[iid].get('infra_failure_reason', 'unknown')}")
        if report[iid]["resolved"]:
            return GradeReport(iid, "resolved", report, "all hidden tests pass")
        status = report[iid].get("tests_status")
        if status is None and re.search(r"^\S*python\S*: No module named pytest\s*$", text, re.MULTILINE):
            reason = 'pytest is not installed for this interpreter\n  Install the extra: pip install "swe-memory[harness]".'
            return GradeReport(iid, "infra", _report(iid, patch, applied=True, infra=True), reason)
        if status is None:
            return GradeReport(iid, "unresolved", report, "the test run left no results that can be read")
        failed = {kind: len(status[kind]["failure"]) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        reason = f"{failed['FAIL_TO_PASS']} tests that should pass now fail; {failed['PASS_TO_PASS']} that passed before do not any more"
        return GradeReport(iid, "unresolved", report, reason)

    def _ask(self, request: Mapping[str, Any]) -> Any:
        """One request to the worker; a worker that died or hangs is replaced once."""
        line = json.dumps(request) + "\n"
        with self._lock:
            for last in (False, True):
                process = self._ensure()
                try:
                    reply = self._exchange(process, line)
                    break
                except (OSError, ValueError) as error:
                    self._stop()
                    if last:
                        raise InfraError(
                            f"the grading process failed twice: {error}", 'Check that "swe-memory[harness]" is installed.'
                        ) from error
            if "error" in reply:
                raise InfraError(f"swebench could not grade: {reply['error']}", "Check the row's log_parser and the installed swebench.")
            return reply

    def _exchange(self, process: subprocess.Popen[str], line: str) -> Any:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], _STARTUP if self._fresh else _ANSWER)
        if not ready:
            raise OSError("no answer in time")
        reply = process.stdout.readline()
        if not reply.endswith("\n"):
            raise OSError(f"it ended with code {process.wait()}")
        self._fresh = False
        return json.loads(reply)

    def _ensure(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
            root = str(Path(__file__).resolve().parent.parent)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.grading_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                env={**kept, "PYTHONPATH": root, "PYTHONUTF8": "1", "HF_HUB_OFFLINE": "1"},
                start_new_session=True,  # Ctrl-C is for this process; the worker ends when its input does
            )
            self._fresh = True
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def close(self) -> None:
        """End the worker. May be called twice; a later :meth:`grade` starts a new one."""
        with self._lock:
            self._stop()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def grade(
    instance: Instance, patch: str | None, *, workspace: Path | None = None, timeout: float = 300.0, logs: Path | None = None
) -> GradeReport:
    """Grade one patch with a :class:`Grader` of its own; use a Grader to grade many."""
    with Grader() as grader:
        return grader.grade(instance, patch, workspace=workspace, timeout=timeout, logs=logs)


@contextlib.contextmanager
def _private_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder that only this user can enter, removed afterwards. Held with a lock, so that one that a kill left behind can be told and removed."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    else:
        _remove_abandoned(Path(tempfile.gettempdir()))
    folder, handle = _locked_folder(parent)
    try:
        yield folder
    finally:
        os.close(handle)
        remove_tree(folder)


def _locked_folder(parent: Path | None) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if folder.exists():  # else another grader took it for abandoned before it was locked
                return folder, handle
            os.close(handle)


def _remove_abandoned(parent: Path) -> None:
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        # Somebody else's, or just gone, or held by a grader at work.
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                end_left_behind(folder)
                remove_tree(folder)
            finally:
                os.close(handle)


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path.resolve()))


def _report(iid: str, patch: str | None, *, applied: bool = False, infra: bool = False) -> dict[str, Any]:
    """A report in the official shape for an attempt whose tests gave no result."""
    return {
        iid: {
            "patch_is_None": patch is None,
            "patch_exists": bool(patch and patch.strip()),
            "patch_successfully_applied": applied,
            "resolved": False,
            "infra_failure": infra,
        }
    }


@contextlib.contextmanager
def _keeping(logs: Path) -> Iterator[None]:
    """Write into the folder ``logs``. That a run's own disk is full is no failure of an attempt."""
    try:
        logs.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise cannot_write(logs, error) from error


def _keep(done: GradeReport, patch: str | None, logs: Path | None, began: float) -> GradeReport:
    if logs is not None:
        with _keeping(logs):
            (logs / "patch.diff").write_bytes(to_bytes(patch or ""))
            (logs / "report.json").write_text(json.dumps(done.report, indent=4) + "\n", encoding="utf-8")
    return GradeReport(done.instance_id, done.outcome, done.report, done.reason, done.flags, time.monotonic() - began)


def _apply(workdir: Workdir, patch: str, folder: Path) -> str:
    """Apply ``patch`` in the ways that the official harness tries, strictest first; "" or why none of them worked."""
    file = folder / "patch.diff"
    file.write_bytes(to_bytes(patch))
    reasons: list[str] = []
    for options in ([], ["--3way"]):
        try:
            git(["apply", *options, str(file.resolve())], cwd=workdir.path)
            return ""
        except GitError as error:
            reasons.append(error.stderr.split("\n")[0] or error.what)
            git(["reset", "--hard", "--quiet", workdir.base_commit], cwd=workdir.path)
            git(["clean", "-fdq"], cwd=workdir.path)
    # patch(1) would follow a path that git refuses.
    odd = re.search(r"^(?:---|\+\+\+|rename to|copy to) (?:/(?!dev/null)|\S*\.\./|\S*\.git/)", patch, re.MULTILINE)
    if odd is None and shutil.which("patch") is not None:
        command = ["patch", "--batch", "--forward", "--fuzz=5", "-p1", "--input", str(file.resolve())]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, cwd=workdir.path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
            if done.returncode == 0:
                return ""
    return reasons[0]


def _flags(instance: Instance, patch: str) -> tuple[str, ...]:
    from swe_memory.patches import edited_paths, is_test_path

    hidden = set(edited_paths(instance.grading.test_patch))
    paths = edited_paths(patch)
    found = []
    if any(path in hidden for path in paths):
        found.append("the patch edits a file that the hidden tests replace")
    if any(is_test_path(path) or path.rsplit("/", 1)[-1] in ("conftest.py", "pytest.ini", "tox.ini", "setup.cfg") for path in paths):
        found.append("the patch touches tests or how they are run")
    added = [line for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    if any(marker in line for line in added for marker in _MARKERS):
        found.append("the patch speaks of the grader's markers")
    return tuple(found)
