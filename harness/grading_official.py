"""One patch graded by the official harness as a library: swebench's ``run_instance``, given a thin client of the engine in place of the SDK's.

``run_instance`` answers None alike where the patch does not apply, where time is over, where the engine fails and where it fails itself. The thin client
sees every step that it takes, so it can tell. And it makes the container as ours are: without network, within limits, labelled, killed at once. What decides
the grade (how patches are applied, what runs, how the log is read) is swebench's own, whatever it becomes.

Runs in a fork of :mod:`harness.grading_worker`, in a private folder that has ``request.json``: ``{row, patch, run_id, timeout, host, labels, limits,
platform}``, where a patch of None is for the tests without any. See :meth:`Grading.run` for what comes out.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from types import FrameType
from typing import Any

from harness.environments.docker import ContainerLimits, Labels
from harness.environments.engine import connect
from harness.grading_client import ThinClient, ThinContainer
from swe_memory.errors import InfraError

MODEL = "swe-memory"
"""Whose prediction it is, for the names of the official harness's folders."""

_LONGEST = 600  # characters of a reason: an answer has to stay below PIPE_BUF bytes
_LITTLE = 16 << 20  # bytes free where the disk counts as full
_FULL = "No space left on device"
_FREE = ["sh", "-c", "df -Pk /testbed /tmp | awk 'NR > 1 { print $4 }'"]


class Grading:
    """One request's grading. ``folder`` becomes the working directory."""

    def __init__(self, folder: str) -> None:
        os.chdir(folder)
        self._request = json.loads(Path("request.json").read_text(encoding="utf-8"))
        self._container: ThinContainer | None = None

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """For SIGTERM: raises SystemExit where the grading is, as soon as it is known what there is to remove."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._container is not None and self._container.coming:
            self._container.unwanted = True
        else:
            raise SystemExit

    def run(self) -> dict[str, Any]:
        """``{kind, reason, begun, full, logs}``. ``kind``:

        - ``report``: ``report.json`` is in the folder ``logs``, beside the harness's other files; ``full`` is whether the tests met a full disk.
        - ``not_applied``: the patch, with what git said as the ``reason``.
        - ``timed_out``: the tests were ended.
        - ``failed``: the engine or the harness failed, with the ``reason``; ``begun`` is whether the patch was there by then, so that it may be the cause.

        The container is gone afterwards, whatever happens. SystemExit comes from :meth:`stop`.
        """
        from swebench.harness import run_evaluation
        from swebench.harness.utils import make_test_spec

        r = self._request
        spec = make_test_spec(r["row"])
        logs = run_evaluation.RUN_EVALUATION_LOG_DIR / r["run_id"] / MODEL / spec.instance_id
        prediction = {"instance_id": spec.instance_id, "model_name_or_path": MODEL, "model_patch": r["patch"] or ""}
        run_evaluation.cleanup_container = lambda *_: None  # it waits for the docker command, three times; ours is below
        try:
            client = connect(r["host"])
        except InfraError as error:
            return {"kind": "failed", "reason": str(error)[:_LONGEST], "begun": False, "full": False, "logs": str(logs)}
        container = self._container = ThinContainer(client, Labels(**r["labels"]).as_dict(), ContainerLimits(**r["limits"]), r["platform"])
        try:
            done = run_evaluation.run_instance(
                spec, prediction, ThinClient(container), r["run_id"], timeout=r["timeout"], skip_patch=r["patch"] is None
            )
            kind, reason = _told(container, logs, reported=done is not None)
            full = kind == "report" and _met_a_full_disk(container, logs)
            return {"kind": kind, "reason": reason[:_LONGEST], "begun": container.seen.tried, "full": full, "logs": str(logs)}
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            container.remove()


def _told(container: ThinContainer, logs: Path, *, reported: bool) -> tuple[str, str]:
    """Kind and reason; see :meth:`Grading.run`."""
    seen = container.seen
    if reported:
        with contextlib.suppress(InfraError):  # noted in what was seen
            container.check_whole()
    if seen.failure:
        return "failed", seen.failure
    if reported:
        return "report", ""
    if seen.late:
        return "timed_out", ""
    if seen.tried and not seen.applied:
        return "not_applied", seen.refused
    return "failed", f"the official harness failed: {_own_words(logs)}"


def _met_a_full_disk(container: ThinContainer, logs: Path) -> bool:
    """Whether the tests speak of it, and the disk is full still."""
    if _FULL not in (logs / "test_output.txt").read_text(encoding="utf-8", errors="replace"):
        return False
    found = container.exec_run(_FREE).output.split()
    return any(int(free) * 1024 < _LITTLE for free in found if free.isdigit())


def _own_words(logs: Path) -> str:
    """What the harness wrote last of an error of its own."""
    try:
        log = (logs / "run_instance.log").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return str(error)
    _, found, said = log.rpartition("Error in evaluating model for ")
    return " ".join(said.partition("\n")[0].split()) if found else "see run_instance.log"
