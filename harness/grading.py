"""Grading by hidden tests, with the official harness's own script preparation, log parser and report.

A patch is graded in a fresh copy of the repository, never in the agent's: apply it as the official harness does, run the row's ``eval_script`` (which
puts the hidden tests in place and runs them), let swebench read the log. What a report cannot say is told apart beside it: see
:class:`harness.grades.GradeReport`.

The tests run on this machine through :class:`~harness.environments.local.LocalEnvironment`, which is not a sandbox.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.environments.local import LocalEnvironment
from harness.files import to_bytes
from harness.gitcmd import GitError, git
from harness.grades import (
    TIMED_OUT,
    GradeOutcome,
    GradeReport,
    believed,
    empty,
    failed,
    flags,
    judged,
    keep,
    keep_files,
    not_applied,
    timed_out,
)
from harness.grading_folder import private_folder
from harness.grading_process import GradingProcess
from harness.instances import Instance
from harness.tasks import Stopped
from harness.workdir import Workdir, workdir_for
from swe_memory.errors import InfraError

__all__ = ["GradeOutcome", "GradeReport", "Grader", "grade"]

_LOG_LIMIT = 32_000_000  # bytes of test output that are kept
_PYTEST = 'Install the extra: pip install "swe-memory[harness]".'


class Grader:
    """Grades one patch after the other, also from several threads, with one warm swebench process.

    Use it as a context manager, or call :meth:`close`; the process also ends when this one does. A worker that died is started again once for each request.
    Once ``halt`` is set a test run under way is ended, and :meth:`grade` raises :class:`harness.tasks.Stopped`.
    """

    def __init__(self, halt: threading.Event | None = None) -> None:
        self._halt = halt
        self._process = GradingProcess()

    def start(self) -> None:
        """Start the worker now, so that its import overlaps with other work. Not needed."""
        self._process.start()

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
            return keep(empty(iid, patch), patch, logs, began)
        with private_folder(workspace) as folder:
            try:
                done = self._checked(instance, patch, folder, timeout)
            except (InfraError, OSError) as error:
                done = failed(iid, patch, str(error), applied=False)
            last = max((path for path in folder.iterdir() if path.name.startswith("patch")), default=folder)
            output = last / "test_output.txt"
            keep_files(last, (output.name, "eval.sh"), logs)
            text = output.read_text(encoding="utf-8") if output.is_file() else ""
        done = dataclasses.replace(done, flags=flags(instance, patch, text))
        return keep(done, patch, logs, began)

    def _checked(self, instance: Instance, patch: str, folder: Path, timeout: float) -> GradeReport:
        return believed(
            self._once(instance, patch, folder / "patch-1", timeout),
            lambda: self._once(instance, None, folder / "control", timeout),
            lambda: self._once(instance, patch, folder / "patch-2", timeout),
        )

    def _once(self, instance: Instance, patch: str | None, folder: Path, timeout: float) -> GradeReport:
        """One run of the tests in a new ``folder``; without a patch where that is None. "infra" where the log looks like that."""
        iid = instance.issue.id
        folder.mkdir()
        workdir = workdir_for(instance, folder / "repo")
        if patch is not None and (refused := _apply(workdir, patch, folder)):
            return not_applied(iid, patch, refused)
        script = folder / "eval.sh"
        script.write_text(self._ask({"op": "script", "row": dict(instance.grading.row)})["script"], encoding="utf-8")
        with LocalEnvironment(workdir.path, timeout=timeout, output_limit=_LOG_LIMIT, parent=folder, halt=self._halt) as environment:
            execution = environment.execute(f"bash {shlex.quote(str(script.resolve()))}", timeout=timeout)
        if self._halt is not None and self._halt.is_set():
            raise Stopped
        log = folder / "test_output.txt"
        text = execution.output.encode("utf-8", errors="replace").decode("utf-8")
        if execution.timed_out:
            text += f"\n\n{TIMED_OUT}\nTimeout error: {timeout:.0f} seconds exceeded."
        log.write_text(text, encoding="utf-8", newline="")
        if execution.timed_out:
            return timed_out(iid, patch, timeout)
        try:
            report = self._ask({"op": "report", "row": dict(instance.grading.row), "patch": patch or "", "log": str(log)})["report"]
        except InfraError as error:
            return failed(iid, patch, str(error))
        return judged(iid, patch, report, text, pytest_hint=_PYTEST)

    def _ask(self, request: Mapping[str, Any]) -> Any:
        """One request to the worker."""
        return self._process.ask(request)

    def close(self) -> None:
        """End the worker. May be called twice; a later :meth:`grade` starts a new one."""
        self._process.close()

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
