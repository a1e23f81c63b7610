"""Grading: every outcome is told apart, the official report comes out, and the worker leaves nothing behind."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.dataset import Dataset, load_dataset
from harness.grading import Grader, GradeReport, grade
from harness.instances import Instance, instance_from_row
from harness.workdir import workdir_for
from swe_memory.errors import UsageError

IID = "minibench__tabular-3"
KEYS = {"patch_is_None", "patch_exists", "patch_successfully_applied", "resolved", "infra_failure"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load_dataset("minibench", cache=tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def instance(bench: Dataset) -> Instance:
    return bench.instance(IID)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


def edited(instance: Instance, folder: Path, **files: str) -> str:
    """The patch of an agent that writes these files; "/" in a path is written as "__" and the dot before the ending as "_"."""
    workdir = workdir_for(instance, folder / "agent")
    for name, text in files.items():
        path = workdir.path / (name.replace("__", "/").removesuffix("_py") + ".py")
        path.write_text(text, encoding="utf-8")
    return workdir.patch()


def with_script(instance: Instance, before: str) -> Instance:
    """The same instance, whose evaluation runs ``before`` first."""
    row = dict(instance.grading.row)
    row["eval_script"] = row["eval_script"].replace("set -uxo pipefail\n", f"set -uxo pipefail\n{before}\n", 1)
    return instance_from_row(row, repository=instance.repository)


def test_gold_is_resolved_and_the_report_has_the_official_shape(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    done = grader.grade(instance, instance.grading.patch, workspace=tmp_path / "w", logs=tmp_path / "logs")
    assert (done.outcome, done.resolved, done.flags) == ("resolved", True, ())
    assert set(done.report) == {IID}
    assert set(done.report[IID]) == KEYS | {"tests_status"}
    assert done.report[IID]["tests_status"]["FAIL_TO_PASS"] == {"success": list(instance.grading.fail_to_pass), "failure": []}
    assert json.loads((tmp_path / "logs" / "report.json").read_text(encoding="utf-8")) == done.report
    assert (tmp_path / "logs" / "patch.diff").read_text(encoding="utf-8") == instance.grading.patch
    assert "PASSED" in (tmp_path / "logs" / "test_output.txt").read_text(encoding="utf-8")
    assert list((tmp_path / "w").iterdir()) == []


@pytest.mark.parametrize("patch", [None, "", "\n \n"])
def test_no_change_is_an_outcome_of_its_own(instance: Instance, grader: Grader, tmp_path: Path, patch: str | None) -> None:
    done = grader.grade(instance, patch, workspace=tmp_path)
    assert done.outcome == "empty_patch"
    assert set(done.report[IID]) == KEYS
    assert done.report[IID]["patch_is_None"] is (patch is None)
    assert done.report[IID]["resolved"] is False


@pytest.mark.parametrize(
    "patch",
    [
        "this is no patch\n",
        "diff --git a/nowhere.py b/nowhere.py\n--- a/nowhere.py\n+++ b/nowhere.py\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/../out.txt b/../out.txt\nnew file mode 100644\n--- /dev/null\n+++ b/../out.txt\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/.git/hooks/x b/.git/hooks/x\nnew file mode 100755\n--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n",
    ],
)
def test_a_patch_that_does_not_apply_is_not_applied(instance: Instance, grader: Grader, tmp_path: Path, patch: str) -> None:
    done = grader.grade(instance, patch, workspace=tmp_path)
    assert done.outcome == "not_applied"
    assert done.report[IID]["patch_exists"] is True
    assert done.report[IID]["patch_successfully_applied"] is False
    assert not list(tmp_path.rglob("out.txt"))


def test_a_patch_for_lines_that_have_moved_applies_as_in_the_official_harness(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    lines = instance.grading.patch.splitlines(keepends=True)
    moved = "".join(line for line in lines if not line.startswith("index ")).replace(" class Table:\n", " class Tables:\n")
    assert grader.grade(instance, moved, workspace=tmp_path).outcome == "resolved"


def test_tests_that_hang_run_out_of_time(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    patch = edited(instance, tmp_path, tabular__layout="import time\ntime.sleep(600)\n")
    done = grader.grade(instance, patch, workspace=tmp_path / "w", timeout=1.5, logs=tmp_path / "logs")
    assert done.outcome == "timed_out"
    assert done.report[IID]["resolved"] is False
    assert done.report[IID]["infra_failure"] is False
    assert ">>>>> Tests Timed Out" in (tmp_path / "logs" / "test_output.txt").read_text(encoding="utf-8")


def test_code_that_cannot_be_imported_is_unresolved(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    done = grader.grade(instance, edited(instance, tmp_path, tabular__table="this is not python\n"), workspace=tmp_path / "w")
    assert done.outcome == "unresolved"
    assert done.report[IID]["tests_status"]["FAIL_TO_PASS"]["success"] == []


def test_code_that_ends_the_interpreter_is_unresolved(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    done = grader.grade(instance, edited(instance, tmp_path, tabular__table="import os\nos._exit(0)\n"), workspace=tmp_path / "w")
    assert done.outcome == "unresolved"
    assert "no results" in done.reason


def test_the_agents_tests_are_replaced_and_flagged(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    patch = edited(instance, tmp_path, tests__test_table="def test_tables_do_not_share_rows():\n    pass\n")
    done = grader.grade(instance, patch, workspace=tmp_path / "w")
    assert done.outcome == "unresolved"
    assert "the patch edits a file that the hidden tests replace" in done.flags
    assert "the patch touches tests or how they are run" in done.flags


def test_a_conftest_is_flagged(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    done = grader.grade(instance, edited(instance, tmp_path, conftest="collect_ignore = []\n"), workspace=tmp_path / "w")
    assert done.flags == ("the patch touches tests or how they are run",)


def test_a_patch_that_prints_the_graders_markers_is_flagged(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    cheat = "import sys\nsys.__stdout__.write('>>>>> End Test Output\\n')\n"
    workdir = workdir_for(instance, tmp_path / "agent")
    path = workdir.path / "tabular" / "__init__.py"
    path.write_text(cheat + path.read_text(encoding="utf-8"), encoding="utf-8")
    done = grader.grade(instance, workdir.patch(), workspace=tmp_path / "w")
    assert done.outcome != "resolved"
    assert set(done.flags) == {"the patch speaks of the grader's markers", "a marker of the grader came twice in the test output"}


def test_a_machine_without_what_the_tests_need_is_an_infra_failure(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    broken = with_script(instance, "python() { echo '/usr/bin/python: No module named pytest'; return 1; }")
    done = grader.grade(broken, instance.grading.patch, workspace=tmp_path)
    assert (done.outcome, done.resolved) == ("infra", False)
    assert "pytest is not installed" in done.reason
    assert done.report[IID]["infra_failure"] is True


def test_an_unknown_log_parser_is_an_infra_failure(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    """One that this side's look at the installed swebench let pass."""
    unknown = dataclasses.replace(instance.grading, row={**instance.grading.row, "log_parser": "parse_log_of_nobody"})
    done = grader.grade(dataclasses.replace(instance, grading=unknown), instance.grading.patch, workspace=tmp_path)
    assert done.outcome == "infra"
    assert "parse_log_of_nobody" in done.reason


def test_an_instance_without_a_repository_is_a_mistake_of_the_caller(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no local repository"):
        grader.grade(instance_from_row(dict(instance.grading.row)), instance.grading.patch, workspace=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_worker_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from harness.grading import Grader; g = Grader(); g.start(); print(g._process.pid, flush=True); time.sleep(600)"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)
    assert run.stdout is not None
    worker = os.pidfd_open(int(run.stdout.readline()))
    try:
        run.kill()
        run.communicate()
        ended, _, _ = select.select([worker], [], [], 60)
        assert ended, "the worker outlived the run that started it"
    finally:
        os.close(worker)


def test_a_worker_that_dies_is_replaced(instance: Instance, tmp_path: Path) -> None:
    with Grader() as grader:
        assert grader.grade(instance, instance.grading.patch, workspace=tmp_path).outcome == "resolved"
        first = grader._process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert grader.grade(instance, instance.grading.patch, workspace=tmp_path).outcome == "resolved"
        second = grader._process.pid
        assert second not in (None, first)
    assert grader._process.pid is None and not Path(f"/proc/{second}").exists()
    grader.close()


def test_threads_share_one_worker(bench: Dataset, grader: Grader, tmp_path: Path) -> None:
    def one(instance: Instance) -> GradeReport:
        return grader.grade(instance, instance.grading.patch, workspace=tmp_path)

    chosen = bench.instances[:4]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(one, chosen))
    assert [report.outcome for report in reports] == ["resolved"] * 4
    assert [report.instance_id for report in reports] == [instance.issue.id for instance in chosen]


def test_one_patch_can_be_graded_without_a_grader_of_ones_own(instance: Instance, tmp_path: Path) -> None:
    done = grade(instance, "", workspace=tmp_path)
    assert done.outcome == "empty_patch"
    assert dataclasses.asdict(done)["instance_id"] == IID


def test_words_about_an_outcome_quote_no_hidden_test(instance: Instance, grader: Grader, tmp_path: Path) -> None:
    patch = edited(instance, tmp_path, tabular__table="def nothing():\n    pass\n")
    done = grader.grade(instance, patch, workspace=tmp_path / "w")
    words = " ".join([done.reason, *done.flags])
    for name in (*instance.grading.fail_to_pass, *instance.grading.pass_to_pass):
        assert name not in words
        assert name.split("::")[-1] not in words


LIES = {
    "a machine without memory": ">>>>> Tests Errored\\nKilled\\n",
    "a machine without a network": ">>>>> Patch Apply Failed\\nCould not resolve host: example.invalid\\n",
    "an interpreter without pytest": ">>>>> Tests Errored\\n/usr/bin/python: No module named pytest\\n",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_code_that_pretends_a_failure_of_the_machine_is_unresolved(instance: Instance, grader: Grader, tmp_path: Path, lie: str) -> None:
    code = f"import os\nos.write(1, b'{lie}')\nos._exit(1)\n"
    patch = edited(instance, tmp_path, tabular__table=code, conftest=code)
    done = grader.grade(instance, patch, workspace=tmp_path / "w")
    assert (done.outcome, done.report[IID]["infra_failure"]) == ("unresolved", False), done.reason
    assert list((tmp_path / "w").iterdir()) == []


@pytest.mark.parametrize("odd", ["\ud800", "\udcff", "\x00", "\U0010ffff"])
def test_no_character_in_a_patch_stops_the_grader(instance: Instance, grader: Grader, tmp_path: Path, odd: str) -> None:
    patch = f"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+{odd}\n"
    done = grader.grade(instance, patch, workspace=tmp_path / "w", logs=tmp_path / "logs")
    assert done.outcome in ("unresolved", "not_applied") and (tmp_path / "logs" / "patch.diff").stat().st_size > 70


def test_hidden_tests_are_graded_in_a_private_place_that_is_removed_even_after_a_kill(
    instance: Instance, grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "swe-memory-grade-abandoned").mkdir()
    (tmp_path / "swe-memory-grade-abandoned" / "eval.sh").touch()
    held = tmp_path / "swe-memory-grade-held"
    held.mkdir()
    handle = os.open(held, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    looking = with_script(instance, f"stat -c 'place %a %n' {tmp_path}/swe-memory-grade-*")
    grader.grade(looking, instance.grading.patch, logs=tmp_path / "logs")
    os.close(handle)
    output = (tmp_path / "logs" / "test_output.txt").read_text(encoding="utf-8")
    places = [line.split() for line in output.splitlines() if line.startswith("place ")]
    assert len(places) == 2 and [mode for _, mode, name in places if "held" not in name] == ["700"]
    assert sorted(path.name for path in tmp_path.glob("swe-memory-*")) == [held.name]
