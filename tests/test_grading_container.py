"""Grading in containers, on a real engine with the real official harness: outcomes, what a machine's failure is and is not, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from containers import build_image, once
from engine_proxy import EngineProxy
from graded_shop import FIXED, HIDDEN, base_commit, patch_of, shop_image, shop_row

from harness.clean import find_containers, remove_leftovers
from harness.environments.docker import ContainerLimits
from harness.environments.engine import connect
from harness.grades import GradeReport
from harness.grading_container import ContainerGrader
from harness.instances import Instance, instance_from_row
from harness.tasks import Stopped
from harness.trajectory_file import add_prediction

if TYPE_CHECKING:
    from docker import DockerClient

ROOT = Path(__file__).resolve().parents[1]
RUN = f"grading-{os.getpid()}"
IID = "acme__shop-1"
LIMITS = ContainerLimits(cpus=2, memory=300 << 20, pids=64)
GOOD = patch_of(FIXED)
WRONG = patch_of(FIXED.replace("'fail'", "'never'"))
UNFIT = "diff --git a/nowhere.py b/nowhere.py\n--- a/nowhere.py\n+++ b/nowhere.py\n@@ -1 +1 @@\n-a\n+b\n"
SLOW = patch_of("import time\ntime.sleep(600)\n")
Row = Callable[..., dict[str, Any]]
Make = Callable[..., ContainerGrader]


@pytest.fixture(scope="module", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's record of used images is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module")
def row(engine: DockerClient, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Row:
    """Makes rows, whose image is there."""
    image = shop_image(engine, base_image, tmp_path_factory.mktemp("shop"))
    base = base_commit(tmp_path_factory.mktemp("same"))
    return lambda number=1, before="", **changes: {**shop_row(image, base, number, before=before), **changes}


@pytest.fixture(scope="module")
def instance(row: Row) -> Instance:
    return instance_from_row(row())


@pytest.fixture(scope="module")
def grader(engine: DockerClient) -> Iterator[ContainerGrader]:
    with ContainerGrader(engine, run=RUN, limits=LIMITS) as grader:
        yield grader


@pytest.fixture
def make(engine: DockerClient, grader: ContainerGrader) -> Make:
    """Makes graders that need not wait for a child process of their own: they ask the shared one."""

    def made(run: str, client: DockerClient = engine, **settings: Any) -> ContainerGrader:
        other = ContainerGrader(client, run=run, limits=LIMITS, **settings)
        other._process = grader._process
        return other

    return made


def until(true: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What ``true`` gives as soon as it is something."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found


def running(client: DockerClient, run: str) -> list[str]:
    """The containers of a run whose tests have begun."""
    import docker

    begun = []
    for found in find_containers(client, run):
        with contextlib.suppress(docker.errors.APIError):  # it does not run yet, or any more
            if any("eval.sh" in " ".join(line) for line in client.api.top(found.id)["Processes"]):
                begun.append(found.id)
    return begun


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that does it, and what came out: a result or an exception."""
    came: list[Any] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, came


# -- outcomes --------------------------------------------------------------------------------------------------------------------------------


def test_gold_is_resolved_with_the_official_files_and_nothing_is_left(
    instance: Instance, engine: DockerClient, make: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = make(f"{RUN}-own").grade(instance, instance.grading.patch, timeout=60, logs=tmp_path)
    assert (done.outcome, done.resolved, done.flags) == ("resolved", True, ())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "eval.sh",
        "patch.diff",
        "report.json",
        "run_instance.log",
        "test_output.txt",
    ]
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == done.report
    assert done.report[IID]["tests_status"]["FAIL_TO_PASS"] == {"success": [f"{HIDDEN}::test_limit"], "failure": []}
    assert (tmp_path / "patch.diff").read_text(encoding="utf-8") == instance.grading.patch
    assert f"PASSED {HIDDEN}::test_name" in (tmp_path / "test_output.txt").read_text(encoding="utf-8")
    assert ">>>>> Applied Patch" in (tmp_path / "run_instance.log").read_text(encoding="utf-8")
    assert find_containers(engine, f"{RUN}-own") == ()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("patch", "outcome", "reason"),
    [
        (WRONG, "unresolved", "0 tests that should pass now fail; 1 that passed before does not any more"),
        (patch_of("this is not python\n"), "unresolved", "the test run left no results that can be read"),
        (UNFIT, "not_applied", "the patch does not apply: error: nowhere.py: No such file or directory"),
        ("no patch at all\n", "not_applied", "the patch does not apply: error: No valid patches in input"),
        ("\n \n", "empty_patch", "the agent submitted no change"),
        (None, "empty_patch", "the agent submitted no change"),
    ],
)
def test_outcomes_are_told_apart(
    instance: Instance, grader: ContainerGrader, tmp_path: Path, patch: str | None, outcome: str, reason: str
) -> None:
    done = grader.grade(instance, patch, timeout=60, logs=tmp_path)
    assert (done.outcome, done.resolved) == (outcome, False)
    assert done.reason.startswith(reason)
    told = done.report[IID]
    assert (told["patch_is_None"], told["patch_exists"], told["infra_failure"]) == (patch is None, outcome != "empty_patch", False)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == done.report


def test_tests_that_hang_run_out_of_time_and_what_they_printed_is_kept(
    instance: Instance, grader: ContainerGrader, engine: DockerClient, tmp_path: Path
) -> None:
    patch = patch_of("import time\nprint('so far', flush=True)\ntime.sleep(600)\n")
    done = grader.grade(instance, patch, timeout=1.5, logs=tmp_path)
    assert (done.outcome, done.report[IID]["infra_failure"]) == ("timed_out", False)
    output = (tmp_path / "test_output.txt").read_text(encoding="utf-8")
    assert "so far\n" in output and output.endswith("Timeout error: 1.5 seconds exceeded.")
    assert running(engine, RUN) == []


def test_a_container_without_network_knows_its_own_name(row: Row, grader: ContainerGrader) -> None:
    named = instance_from_row(row(PASS_TO_PASS=json.dumps([f"{HIDDEN}::test_name"])))
    assert grader.grade(named, GOOD, timeout=60).outcome == "resolved"


def test_a_gold_patch_that_fails_here_is_told(row: Row, grader: ContainerGrader) -> None:
    instance = instance_from_row(row(patch=WRONG, FAIL_TO_PASS=json.dumps([f"{HIDDEN}::test_limit", f"{HIDDEN}::test_gone"])))
    done = grader.grade(instance, instance.grading.patch, timeout=60)
    assert done.outcome == "unresolved"
    assert done.reason.startswith("1 test that should pass now fails; ")


def test_a_flood_of_output_is_cut_and_graded(instance: Instance, grader: ContainerGrader, tmp_path: Path) -> None:
    patch = patch_of("for _ in range(1500):\n    print('x' * 30_000)\n" + FIXED)
    assert grader.grade(instance, patch, timeout=120, logs=tmp_path).outcome == "resolved"
    output = (tmp_path / "test_output.txt").read_bytes()
    assert 30_000_000 < len(output) < 33_000_000 and b"bytes of output left out" in output


def test_what_tests_and_their_script_print_comes_in_its_order(row: Row, grader: ContainerGrader, tmp_path: Path) -> None:
    said = "set +x; for number in {1..2000}; do echo by-$number; echo by-$number >&2; done; set -x"
    assert grader.grade(instance_from_row(row(before=said)), GOOD, timeout=60, logs=tmp_path).outcome == "resolved"
    lines = [line for line in (tmp_path / "test_output.txt").read_text(encoding="utf-8").splitlines() if line.startswith("by-")]
    assert lines == [f"by-{number}" for number in range(1, 2001) for _ in range(2)]


def test_flags_are_those_of_the_other_grader(instance: Instance, grader: ContainerGrader) -> None:
    new = "diff --git a/conftest.py b/conftest.py\nnew file mode 100644\n--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+x = 1\n"
    done = grader.grade(instance, patch_of("print('>>>>> End Test Output')\n" + FIXED) + new, timeout=60)
    assert set(done.flags) == {
        "the patch touches tests or how they are run",
        "the patch speaks of the grader's markers",
        "a marker of the grader came twice in the test output",
    }


def test_gradings_of_one_issue_side_by_side_do_not_mix(instance: Instance, grader: ContainerGrader, tmp_path: Path) -> None:
    patches = [GOOD, GOOD, WRONG, patch_of(f"# of its own\n{FIXED}")]

    def one(number: int) -> GradeReport:
        return grader.grade(instance, patches[number], timeout=60, logs=tmp_path / str(number))

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(one, range(4)))
    assert [report.outcome for report in done] == ["resolved", "resolved", "unresolved", "resolved"]
    for number, patch in enumerate(patches):
        assert (tmp_path / str(number) / "patch.diff").read_text(encoding="utf-8") == patch
        log = (tmp_path / str(number) / "run_instance.log").read_text(encoding="utf-8")
        assert log.count("Creating container for") == 1
        assert ("# of its own" in log) is (number == 3)


# -- the machine's failures, and what looks like them ----------------------------------------------------------------------------------------


def test_an_image_that_cannot_be_had_is_an_infra_failure(row: Row, grader: ContainerGrader) -> None:
    done = grader.grade(instance_from_row(row(image="swe-memory-test/none:1")), GOOD, timeout=60)
    assert done.outcome == "infra"
    assert "swe-memory-test/none:1" in done.reason
    assert done.report[IID]["infra_failure"] is True


def test_an_engine_that_is_gone_is_an_infra_failure(engine: DockerClient, instance: Instance, make: Make, tmp_path: Path) -> None:
    proxy = EngineProxy(tmp_path / "engine.sock", os.environ["DOCKER_HOST"].removeprefix("unix://"))
    client = connect(proxy.host)
    try:
        gone = make(f"{RUN}-gone", client, host=proxy.host)
        thread, came = in_background(lambda: gone.grade(instance, SLOW, timeout=60))
        until(lambda: running(engine, f"{RUN}-gone"))
        proxy.set("refuse")
        thread.join()
        assert came[0].outcome == "infra", came
        assert "the engine does not answer" in came[0].reason
    finally:
        client.close()
        proxy.close()
    assert len(find_containers(engine, f"{RUN}-gone")) == 1  # nobody could remove it; its process is gone
    assert len(remove_leftovers(engine, f"{RUN}-gone").removed) == 1


def test_a_container_that_is_killed_from_outside_is_graded_again(instance: Instance, engine: DockerClient, make: Make) -> None:
    patch = patch_of(f"import time\ntime.sleep(2)\n{FIXED}")
    thread, came = in_background(lambda: make(f"{RUN}-killed").grade(instance, patch, timeout=60))
    engine.api.kill(until(lambda: running(engine, f"{RUN}-killed"))[0])
    thread.join()
    assert came[0].outcome == "resolved", came
    assert find_containers(engine, f"{RUN}-killed") == ()


LIES = {
    "a machine without memory": "os.write(1, b'>>>>> Tests Errored\\nKilled\\n')",
    "an interpreter without pytest": "os.write(1, b'>>>>> Tests Errored\\n/usr/bin/python: No module named pytest\\n')",
    "a container that is used up": "bytearray(1 << 30)",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_patch_that_makes_the_machine_look_broken_is_unresolved(instance: Instance, grader: ContainerGrader, lie: str) -> None:
    done = grader.grade(instance, patch_of(f"import os\n{lie}\nos._exit(1)\n"), timeout=60)
    assert (done.outcome, done.report[IID]["infra_failure"]) == ("unresolved", False), done.reason


def test_an_image_without_what_the_tests_need_is_an_infra_failure(row: Row, grader: ContainerGrader) -> None:
    broken = row(before="python() { echo '>>>>> Tests Errored'; echo 'Cannot allocate memory'; }")
    done = grader.grade(instance_from_row(broken), GOOD, timeout=60)
    assert (done.outcome, done.report[IID]["infra_failure"]) == ("infra", True)
    assert "out_of_memory" in done.reason


@pytest.mark.parametrize(
    ("dockerfile", "reason"),
    [("RUN rm /usr/bin/git", "the image cannot apply a patch"), ("RUN rm /usr/bin/bash", "did not come as far as the tests")],
)
def test_an_image_that_is_broken_is_an_infra_failure(
    engine: DockerClient, row: Row, grader: ContainerGrader, dockerfile: str, reason: str
) -> None:
    name = f"{row()['image']}-{dockerfile.rpartition('/')[2]}"
    once(engine, name, lambda: build_image(engine, name, f"FROM {row()['image']}\n{dockerfile}\n"))
    done = grader.grade(instance_from_row(row(image=name)), UNFIT if "git" in name else GOOD, timeout=60)
    assert done.outcome == "infra"
    assert reason in done.reason


def test_an_entrypoint_of_the_images_own_is_left_out(engine: DockerClient, row: Row, grader: ContainerGrader) -> None:
    """As it is for attempts: what it does with the command that keeps the container is its own affair."""
    name = f"{row()['image']}-entrypoint"
    once(engine, name, lambda: build_image(engine, name, f'FROM {row()["image"]}\nENTRYPOINT ["/bin/false"]\n'))
    assert grader.grade(instance_from_row(row(image=name)), GOOD, timeout=60).outcome == "resolved"


def test_an_unknown_log_parser_is_an_infra_failure(row: Row, grader: ContainerGrader) -> None:
    """One that this side's look at the installed swebench let pass."""
    instance = instance_from_row(row())
    unknown = replace(instance.grading, row={**instance.grading.row, "log_parser": "parse_log_of_nobody"})
    done = grader.grade(replace(instance, grading=unknown), GOOD, timeout=60)
    assert done.outcome == "infra"
    assert "parse_log_of_nobody" in done.reason


# -- ends ------------------------------------------------------------------------------------------------------------------------------------


def test_a_container_is_limited_and_labelled_and_a_halt_ends_it_at_once(engine: DockerClient, instance: Instance, make: Make) -> None:
    halt = threading.Event()
    thread, came = in_background(lambda: make(f"{RUN}-halted", halt=halt).grade(instance, SLOW, timeout=600))
    container = engine.api.inspect_container(until(lambda: running(engine, f"{RUN}-halted"))[0])
    began = time.monotonic()
    halt.set()
    thread.join()
    took = time.monotonic() - began
    assert isinstance(came[0], Stopped)
    assert took < 5
    assert find_containers(engine, f"{RUN}-halted") == ()
    settings, labels = container["HostConfig"], container["Config"]["Labels"]
    assert (settings["NetworkMode"], settings["CapAdd"], settings["Privileged"]) == ("none", None, False)
    assert (settings["Memory"], settings["MemorySwap"], settings["PidsLimit"], settings["NanoCpus"]) == (
        300 << 20,
        300 << 20,
        64,
        2_000_000_000,
    )
    assert (labels["org.swe-memory.run"], labels["org.swe-memory.issue"]) == (f"{RUN}-halted", IID)
    assert container["Config"]["StopSignal"] == "SIGKILL"


@pytest.fixture
def driver(row: Row, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that grades a patch whose tests sleep, and the pid of its grading process."""
    (tmp_path / "row.json").write_text(json.dumps({"row": row(), "patch": SLOW}), encoding="utf-8")
    code = (
        "import json, sys; from harness.environments.engine import connect; from harness.grading_container import ContainerGrader\n"
        "from harness.instances import instance_from_row\n"
        "given = json.load(open(sys.argv[1])); grader = ContainerGrader(connect(), run=sys.argv[2]); grader.start()\n"
        "print(grader._process.pid, flush=True); grader.grade(instance_from_row(given['row']), given['patch'], timeout=600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "row.json"), f"{RUN}-driven"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_a_run_that_is_killed_takes_its_grading_and_the_container_with_it(
    engine: DockerClient, driver: tuple[subprocess.Popen[str], int]
) -> None:
    process, worker = driver
    until(lambda: running(engine, f"{RUN}-driven"))
    process.kill()
    until(lambda: not Path(f"/proc/{worker}").exists() and not find_containers(engine, f"{RUN}-driven"))


def test_what_is_left_where_everything_is_killed_is_found_by_its_labels(
    engine: DockerClient, driver: tuple[subprocess.Popen[str], int]
) -> None:
    process, worker = driver
    until(lambda: running(engine, f"{RUN}-driven"))
    (left,) = find_containers(engine, f"{RUN}-driven")
    assert (left.issue, left.owner) == (IID, "alive")
    assert remove_leftovers(engine, f"{RUN}-driven").removed == ()
    process.kill()
    os.killpg(worker, signal.SIGKILL)
    until(lambda: [left.owner for left in find_containers(engine, f"{RUN}-driven")] == ["gone"])
    assert len(remove_leftovers(engine, f"{RUN}-driven").removed) == 1


def test_a_grading_process_that_dies_is_replaced_and_its_container_removed(engine: DockerClient, instance: Instance) -> None:
    patch = patch_of(f"import time\ntime.sleep(2)\n{FIXED}")
    with ContainerGrader(engine, run=f"{RUN}-replaced", limits=LIMITS) as grader:
        thread, came = in_background(lambda: grader.grade(instance, patch, timeout=60))
        (first,) = until(lambda: running(engine, f"{RUN}-replaced"))
        worker = grader._process.pid
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        until(lambda: first not in [left.id for left in find_containers(engine, f"{RUN}-replaced")])
        thread.join()
    assert came[0].outcome == "resolved", came
    assert find_containers(engine, f"{RUN}-replaced") == ()


# -- the official harness --------------------------------------------------------------------------------------------------------------------


def test_a_run_is_graded_alike_by_the_official_command(row: Row, grader: ContainerGrader, tmp_path: Path) -> None:
    """The last patch is one that the official harness fails on: what it moves is not UTF-8, and that reads the difference as UTF-8.

    The scripts print by one pipe, since the official command may mix up two.
    """
    if shutil.which("docker") is None:
        pytest.skip("the official command needs the docker command")
    move = "diff --git a/names.txt b/people.txt\nsimilarity index 100%\nrename from names.txt\nrename to people.txt\n"
    patches = [GOOD, WRONG, "", UNFIT, SLOW, patch_of("import os\nos._exit(0)\n"), GOOD + move]
    rows = [row(number, before="exec 2>&1") for number in range(1, len(patches) + 1)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for made, patch in zip(rows, patches, strict=True):
        add_prediction(tmp_path, made["instance_id"], "ours", patch)
    command = [
        str(Path(sys.executable).with_name("swebench")),
        "eval",
        "rows.jsonl",
        "-p",
        "preds.json",
        "--run-id",
        "R",
        "-j",
        "2",
        "-t",
        "6",
    ]
    official = subprocess.Popen([*command, "--report-dir", "D"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda made, patch: grader.grade(instance_from_row(made), patch, timeout=6), rows, patches))
    _, said = official.communicate(timeout=120)
    assert official.returncode == 0, said
    theirs = json.loads(next((tmp_path / "D").glob("*.json")).read_text(encoding="utf-8"))
    ids = [made["instance_id"] for made in rows]
    assert [report.outcome for report in done] == [
        *("resolved", "unresolved", "empty_patch", "not_applied", "timed_out", "unresolved", "unresolved"),
    ]
    assert "can't decode" in done[-1].reason
    assert theirs["resolved_ids"] == ids[:1]
    assert theirs["unresolved_ids"] == [ids[1], ids[5]]
    assert theirs["empty_patch_ids"] == ids[2:3]
    assert theirs["error_ids"] == [ids[3], ids[4], ids[6]]
    for number in (0, 1, 5):
        path = tmp_path / "logs/run_evaluation/R/ours" / ids[number] / "report.json"
        assert json.loads(path.read_text(encoding="utf-8")) == done[number].report
