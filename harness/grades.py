"""What a graded patch is told to be, whichever grader ran its tests."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from harness.events import cannot_write
from harness.files import to_bytes
from harness.instances import Instance
from harness.statistics.estimates import count

GradeOutcome = Literal["resolved", "unresolved", "empty_patch", "not_applied", "timed_out", "infra"]

TIMED_OUT = ">>>>> Tests Timed Out"
_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"
_MARKERS = (">>>>> ", "SWEBENCH_TEST_EXIT_CODE")
_NO_PYTEST = re.compile(r"^\S*python\S*: No module named pytest\s*$", re.MULTILINE)


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


def official_report(iid: str, patch: str | None, *, applied: bool = False, infra: bool = False) -> dict[str, Any]:
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


def empty(iid: str, patch: str | None) -> GradeReport:
    """For an attempt that changed nothing."""
    return GradeReport(iid, "empty_patch", official_report(iid, patch), "the agent submitted no change")


def not_applied(iid: str, patch: str, said: str) -> GradeReport:
    """For a patch that none of the official ways applied; ``said`` is why."""
    return GradeReport(iid, "not_applied", official_report(iid, patch), f"the patch does not apply: {said}")


def timed_out(iid: str, patch: str | None, seconds: float) -> GradeReport:
    """For tests that were ended."""
    return GradeReport(iid, "timed_out", official_report(iid, patch, applied=True), f"the tests did not end within {seconds:.0f} s")


def failed(iid: str, patch: str | None, reason: str, *, applied: bool = True) -> GradeReport:
    """For a machine that failed."""
    return GradeReport(iid, "infra", official_report(iid, patch, applied=applied, infra=True), reason)


def judged(iid: str, patch: str | None, report: Mapping[str, Any], log: str, *, pytest_hint: str) -> GradeReport:
    """What the official ``report`` and the ``log`` that it was read from come to. "infra" is only what it looks like: see :func:`believed`.

    ``pytest_hint`` is what to do where the tests' interpreter has no pytest.
    """
    if report[iid]["infra_failure"]:
        return GradeReport(iid, "infra", report, f"the tests could not run: {report[iid].get('infra_failure_reason', 'unknown')}")
    if report[iid]["resolved"]:
        return GradeReport(iid, "resolved", report, "all hidden tests pass")
    status = report[iid].get("tests_status")
    if status is None and _NO_PYTEST.search(log):
        return failed(iid, patch, f"pytest is not installed for this interpreter\n  {pytest_hint}")
    if status is None and _START not in log:
        return failed(
            iid, patch, "the evaluation script did not come as far as the tests\n  Can its image run it, and does it mark where they begin?"
        )
    if status is None:
        return GradeReport(iid, "unresolved", report, "the test run left no results that can be read")
    counts = {kind: len(status[kind]["failure"]) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    now = count(counts["FAIL_TO_PASS"], "test that should pass now fails", "tests that should pass now fail")
    reason = f"{now}; {count(counts['PASS_TO_PASS'], 'that passed before does', 'that passed before do')} not any more"
    return GradeReport(iid, "unresolved", report, reason)


def believed(done: GradeReport, control: Callable[[], GradeReport], again: Callable[[], GradeReport]) -> GradeReport:
    """``done``, unless it is an infra failure that the tests only show with the patch.

    A log that looks like a failure of the machine is believed only where the machine shows it without the patch too (``control``), or does not show it
    ``again``: otherwise code could have itself left out of every rate by printing the right words.
    """
    if done.outcome != "infra" or control().outcome == "infra":
        return done
    second = again()
    if second.outcome != "infra":
        return second
    iid = done.instance_id
    reason = f"with this patch, and only with it, the tests end as on a machine that failed: {second.reason}"
    return GradeReport(iid, "unresolved", {iid: {**second.report[iid], "infra_failure": False}}, reason)


def flags(instance: Instance, patch: str, log: str) -> tuple[str, ...]:
    """What a person should look at: see :class:`GradeReport`. ``log`` is what the tests printed, "" for nothing."""
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
    if log.count(_START) > 1 or log.count(_END) > 1:
        found.append("a marker of the grader came twice in the test output")
    return tuple(found)


def keep(done: GradeReport, patch: str | None, logs: Path | None, began: float) -> GradeReport:
    """``done`` with the seconds since ``began`` (monotonic); ``patch.diff`` and ``report.json`` go into ``logs``, where given.

    Raises SweMemoryError, as :func:`keep_files` does, where they cannot be written: that a run's own disk is full is no failure of an attempt.
    """
    if logs is not None:
        with _keeping(logs):
            (logs / "patch.diff").write_bytes(to_bytes(patch or ""))
            (logs / "report.json").write_text(json.dumps(done.report, indent=4) + "\n", encoding="utf-8")
    return replace(done, seconds=time.monotonic() - began)


def keep_files(folder: Path, names: Iterable[str], logs: Path | None) -> None:
    """Copy those of the files that ``folder`` has into ``logs``, where given."""
    if logs is not None:
        with _keeping(logs):
            for name in names:
                if (folder / name).is_file():
                    shutil.copyfile(folder / name, logs / name)


@contextlib.contextmanager
def _keeping(logs: Path) -> Iterator[None]:
    try:
        logs.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise cannot_write(logs, error) from error
