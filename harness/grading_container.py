"""Grading by hidden tests where instances are images: by the official harness, in a new container for each patch.

What decides the grade is swebench's own ``run_instance`` (see :mod:`harness.grading_official`), in a child process that has imported it once. A patch is
applied to the image as it is, not to what an agent left of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from harness.environments.container import remove
from harness.environments.docker import LABEL, ContainerLimits
from harness.environments.engine import engine_errors
from harness.environments.images import ensure_image
from harness.files import to_bytes
from harness.grades import GradeReport, believed, empty, failed, flags, judged, keep, keep_files, not_applied, timed_out
from harness.grading_folder import private_folder
from harness.grading_process import GradingProcess, Reply
from harness.instances import Instance
from harness.tasks import Stopped
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.environments.images import Progress, PullProgress

_BEYOND = 300.0  # seconds for all but the tests
_FILES = ("run_instance.log", "test_output.txt", "eval.sh")
_HINT = "Is it the image that the row was made for?"


class ContainerGrader:
    """Grades patches as :class:`harness.grading.Grader` does, also from several threads, for instances that are images.

    ``client`` is a client of the engine, ``host`` where that is, as :func:`harness.environments.engine.connect` takes it. ``run`` names the run in the
    containers' labels. ``limits`` are those of a container, ``platform`` is for engines of another architecture that emulate the images'; ``progress`` is told
    how far the pull of an image is.

    Use it as a context manager, or call :meth:`close`. Once ``halt`` is set, gradings under way are ended and :meth:`grade` raises
    :class:`harness.tasks.Stopped`. Where this process is killed, the child ends too and removes its containers; where that is killed as well,
    ``swe-memory clean`` does.
    """

    def __init__(
        self,
        client: DockerClient,
        *,
        run: str,
        host: str | None = None,
        halt: threading.Event | None = None,
        limits: ContainerLimits | None = None,
        platform: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._client = client
        self._run = run
        self._host = host
        self._halt = halt
        self._limits = limits or ContainerLimits()
        self._platform = platform
        self._progress = progress
        self._process = GradingProcess()

    def start(self) -> None:
        """Start the child process now, so that its import overlaps with other work. Not needed."""
        self._process.start()

    def grade(self, instance: Instance, patch: str | None, *, timeout: float = 1800.0, logs: Path | None = None) -> GradeReport:
        """Grade ``patch`` against the hidden tests of ``instance``, whose image is pulled if need be.

        ``timeout`` bounds the tests in seconds. Into ``logs``, where given, go ``report.json``, ``patch.diff``, ``test_output.txt``, ``eval.sh`` and
        ``run_instance.log``, named as the official harness names them. Where ``swebench eval`` grades the same patch, it comes to the same: what it calls
        resolved is, and nothing else; it has no report of what is not_applied, timed_out or infra here.

        What goes wrong once the patch is there is believed to be the machine's fault only where the tests show it without the patch too, or not again: see
        :func:`harness.grades.believed`. So a container that was killed from outside costs time, and nothing else.
        """
        began = time.monotonic()
        iid = instance.issue.id
        self._check_halt()
        if patch is None or not patch.strip():
            return keep(empty(iid, patch), patch, logs, began)
        with private_folder(None) as folder:
            try:
                ensure_image(self._client, instance.grading.image, self._pulled, platform=self._platform)
                done = self._checked(instance, patch, folder, timeout)
            except (InfraError, OSError) as error:
                done = failed(iid, patch, str(error), applied=False)
            last = max((path for path in folder.iterdir() if path.name.startswith("patch")), default=folder)
            keep_files(last, _FILES, logs)
            text = _text(last)
        done = dataclasses.replace(done, flags=flags(instance, patch, text))
        return keep(done, patch, logs, began)

    def _checked(self, instance: Instance, patch: str, folder: Path, timeout: float) -> GradeReport:
        def control() -> GradeReport:
            try:
                return self._once(instance, None, folder / "control", timeout)
            except InfraError as error:
                return failed(instance.issue.id, None, str(error))

        done = self._once(instance, patch, folder / "patch-1", timeout)
        return believed(done, control, lambda: self._once(instance, patch, folder / "patch-2", timeout))

    def _once(self, instance: Instance, patch: str | None, folder: Path, timeout: float) -> GradeReport:
        """One run of the tests, without a patch where that is None; its files are in ``folder`` then. "infra" where the patch may have caused what went wrong.

        Raises InfraError where it cannot have, and Stopped.
        """
        iid = instance.issue.id
        content = to_bytes(patch or "")
        run_id = f"{hashlib.sha256(content).hexdigest()[:12]}-{secrets.token_hex(6)}"
        labels = {"run": self._run, "arm": "", "issue": iid, "attempt": f"grade-{run_id}"}
        request = {
            "row": dict(instance.grading.row),
            "patch": None if patch is None else content.decode("utf-8", errors="replace"),
            "run_id": run_id,
            "timeout": int(timeout) if timeout == int(timeout) else timeout,
            "host": self._host,
            "labels": labels,
            "limits": dataclasses.asdict(self._limits),
            "platform": self._platform,
        }
        folder.mkdir()
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        reply = self._process.work({"op": "grade", "folder": str(folder)}, timeout + _BEYOND, self._halt)
        if reply is None or reply["kind"] == "died":
            self._remove_left(labels["attempt"])
        self._check_halt()
        if reply is None:
            return failed(iid, patch, f"the grading took {_BEYOND:.0f} s more than the tests may")
        return self._read(iid, patch, folder, timeout, reply)

    def _read(self, iid: str, patch: str | None, folder: Path, timeout: float, reply: Reply) -> GradeReport:
        """What the child's answer comes to."""
        kind, reason = reply["kind"], reply["reason"]
        if kind == "died":
            return failed(iid, patch, f"the grading process failed: {reason}")
        logs = folder / reply["logs"]
        for path in logs.iterdir() if logs.is_dir() else ():
            path.replace(folder / path.name)
        if kind == "timed_out":
            return timed_out(iid, patch, timeout)
        if kind == "not_applied":
            return not_applied(iid, patch or "", reason)
        if kind == "failed":
            if not reply["begun"]:
                raise InfraError(reason)
            return failed(iid, patch, reason)
        report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        if reply["full"] and not report[iid]["resolved"]:
            return failed(iid, patch, "the disk was full while the tests ran\n  Make room (swe-memory images evict, docker system prune).")
        return judged(iid, patch, report, _text(folder), pytest_hint=_HINT)

    def _pulled(self, progress: PullProgress) -> None:
        self._check_halt()
        if self._progress is not None:
            self._progress(progress)

    def _check_halt(self) -> None:
        if self._halt is not None and self._halt.is_set():
            raise Stopped

    def _remove_left(self, attempt: str) -> None:
        """Remove the container of a grading that could not do so itself."""
        with engine_errors("list the containers of runs"):
            found = self._client.api.containers(all=True, filters={"label": [f"{LABEL}attempt={attempt}"]})
        for container in found:
            remove(self._client, str(container["Id"]))

    def close(self) -> None:
        """End the child process. May be called twice; a later :meth:`grade` starts a new one."""
        self._process.close()

    def __enter__(self) -> ContainerGrader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _text(folder: Path) -> str:
    """What the tests printed, "" for nothing."""
    path = folder / "test_output.txt"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
