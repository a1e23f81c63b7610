"""The local environment: limits, isolation and output, with real processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environments import Environment
from harness.environments.bounded import BoundedOutput
from harness.environments.local import LocalEnvironment


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[LocalEnvironment]:
    (tmp_path / "repo").mkdir()
    with LocalEnvironment(tmp_path / "repo", timeout=30) as environment:
        yield environment


def alive(pid: int) -> bool:
    """Whether the process still runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


def test_it_is_an_environment(environment: LocalEnvironment) -> None:
    as_protocol: Environment = environment
    execution = as_protocol.execute("echo out; echo err >&2; exit 3")
    assert (execution.output, execution.returncode, execution.timed_out) == ("out\nerr\n", 3, False)


def test_commands_run_in_the_working_directory_with_bash(environment: LocalEnvironment) -> None:
    assert environment.execute("[[ -n $BASH_VERSION ]] && pwd -P").output.strip() == str(environment.workdir.resolve())
    environment.execute("echo 1 > file")
    assert (environment.workdir / "file").read_text(encoding="utf-8") == "1\n"


def test_secrets_of_the_caller_are_not_passed_on(environment: LocalEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GH_TOKEN",
        "SSH_AUTH_SOCK",
        "MY_OWN",
        "GIT_DIR",
        "PYTHONPATH",
        "PYTHONSTARTUP",
    ):
        monkeypatch.setenv(name, "CANARY-SECRET")
    assert "CANARY" not in environment.execute("env; cat /proc/self/environ | tr '\\0' '\\n'").output
    with LocalEnvironment(tmp_path, variables={"MY_OWN": "given"}) as other:
        assert other.execute("echo $MY_OWN").output == "given\n"
        assert "CANARY" not in other.execute("env").output


def test_home_and_temporary_folder_are_its_own_and_go_with_it(tmp_path: Path) -> None:
    environment = LocalEnvironment(tmp_path)
    home, folder = environment.execute("touch ~/x $TMPDIR/y; echo $HOME; echo $TMPDIR").output.split()
    assert home != os.environ.get("HOME")
    assert Path(home, "x").is_file()
    assert Path(folder, "y").is_file()
    environment.close()
    assert not Path(home).exists()
    assert not Path(folder).exists()
    environment.close()


def test_python_is_the_running_interpreter_and_deterministic(environment: LocalEnvironment) -> None:
    code = "import sys, pytest; print(sys.prefix, sys.flags.hash_randomization, sys.dont_write_bytecode, sys.stdout.encoding)"
    for name in ("python", "python3"):
        assert environment.execute(f"{name} -c '{code}'").output.split() == [sys.prefix, "0", "True", "utf-8"]


def test_nothing_can_be_read_from_standard_input(environment: LocalEnvironment) -> None:
    assert environment.execute("cat; read line; echo $?").output == "1\n"


def test_a_time_limit_ends_the_command_and_its_children(environment: LocalEnvironment) -> None:
    execution = environment.execute("echo before; sleep 600 & echo $!; sleep 600", timeout=1.5)
    assert (execution.returncode, execution.timed_out) == (124, True)
    first, child = execution.output.split()
    assert first == "before"
    assert gone(int(child))


def test_a_time_limit_ends_what_ignores_sigterm_and_what_left_the_group(environment: LocalEnvironment) -> None:
    command = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & while :; do sleep 1; done"
    execution = environment.execute(command, timeout=1.5)
    assert execution.timed_out
    assert environment._marked() == []  # nor is a child left that was started meanwhile
    assert gone(int(execution.output.split()[0]))


def test_a_command_may_clean_up_when_its_time_is_over(environment: LocalEnvironment) -> None:
    execution = environment.execute("trap 'echo cleaned > done; exit' TERM; sleep 600 & wait", timeout=1.5)
    assert execution.timed_out
    assert (environment.workdir / "done").read_text(encoding="utf-8") == "cleaned\n"


def test_a_background_child_that_holds_the_output_does_not_hold_up_the_command(tmp_path: Path) -> None:
    environment = LocalEnvironment(tmp_path, timeout=60)
    execution = environment.execute("sleep 600 & echo $!")
    assert (execution.returncode, execution.timed_out) == (0, False)
    child = int(execution.output)
    assert alive(child)
    assert environment.execute("echo next").output == "next\n"
    assert alive(child)
    environment.close()
    assert gone(child)


def test_a_daemon_in_a_session_of_its_own_ends_with_the_environment(tmp_path: Path) -> None:
    environment = LocalEnvironment(tmp_path)
    environment.execute("setsid sh -c 'echo $$ > daemon; exec sleep 600' > /dev/null 2>&1 & until [ -s daemon ]; do sleep .01; done")
    child = int((tmp_path / "daemon").read_text(encoding="utf-8"))
    assert alive(child)
    environment.close()
    assert gone(child)


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs Linux's /proc")
def test_neither_a_new_session_nor_an_empty_environment_lets_a_process_outlive_its_command_or_the_environment(tmp_path: Path) -> None:
    escape = "env -i setsid sh -c 'echo $$ > {0}; exec sleep 600' > /dev/null 2>&1 & until [ -s {0} ]; do sleep .01; done; "
    environment = LocalEnvironment(tmp_path)
    assert environment.execute(escape.format("kept")).returncode == 0
    assert environment.execute(escape.format("late") + "sleep 600", timeout=1.5).timed_out
    kept, late = (int((tmp_path / name).read_text(encoding="utf-8")) for name in ("kept", "late"))
    assert gone(late) and alive(kept)
    environment.close()
    assert gone(kept)


def test_one_environment_leaves_the_processes_of_another_alone(tmp_path: Path) -> None:
    one, other = LocalEnvironment(tmp_path), LocalEnvironment(tmp_path)
    child = int(one.execute("sleep 600 > /dev/null 2>&1 & echo $!").output)
    other.execute("true")
    other.close()
    assert alive(child)
    one.close()
    assert gone(child)


@pytest.mark.parametrize("start", ["python -c", "python3 -c", "PYTHONPATH=src python -c", f"{sys.executable} -c", "python -B -m runner"])
def test_the_harness_cannot_be_imported_by_accident_and_a_repository_may_have_such_names(environment: LocalEnvironment, start: str) -> None:
    (environment.workdir / "runner.py").write_text("import sys; exec(sys.argv[1])", encoding="utf-8")
    for name in ("harness", "harness.minibench", "swe_memory", "prompts"):
        execution = environment.execute(f"{start} 'import {name}'")
        assert execution.returncode == 1 and "ModuleNotFoundError" in execution.output, name
    assert environment.execute(f"{start} 'import pytest, json, xml.dom'").returncode == 0
    (environment.workdir / "harness").mkdir()
    (environment.workdir / "harness" / "minibench.py").write_text("print('their own')", encoding="utf-8")
    assert environment.execute(f"{start} 'import harness.minibench'").output == "their own\n"


def test_a_command_sees_the_arguments_of_a_plain_bash(environment: LocalEnvironment) -> None:
    assert environment.execute("echo $# $0").output == "0 bash\n"


def test_a_command_that_closes_its_output_is_waited_for_and_limited(environment: LocalEnvironment) -> None:
    assert environment.execute("exec >&- 2>&-; sleep .2; exit 4").returncode == 4
    execution = environment.execute("echo x; exec >&- 2>&-; sleep 600", timeout=1.5)
    assert (execution.output, execution.returncode, execution.timed_out) == ("x\n", 124, True)


def test_output_without_end_stays_within_its_bounds(tmp_path: Path) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with LocalEnvironment(tmp_path, timeout=60, output_limit=10_000) as environment:
        execution = environment.execute("echo first; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert execution.returncode == 0
    assert execution.output.startswith("first\nxxx")
    assert execution.output.endswith("xxx\nlast\n")
    assert "bytes of output left out" in execution.output
    assert len(execution.output) < 10_200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB; the output is 300 MB


def test_a_flood_of_output_does_not_outrun_the_time_limit(environment: LocalEnvironment) -> None:
    execution = environment.execute("yes", timeout=1.5)
    assert execution.timed_out
    assert execution.output.startswith("y\ny\n")


def test_what_is_not_utf_8_is_replaced(environment: LocalEnvironment) -> None:
    assert environment.execute(r"printf 'caf\xe9 \xc3\xbc\n'").output == "caf\ufffd ü\n"


def test_long_and_odd_commands_run(environment: LocalEnvironment) -> None:
    text = "x" * 2_000_000
    assert environment.execute(f"cat > big <<'END'\n{text}\nEND\nwc -c < big").output.strip() == "2000001"
    assert environment.execute("echo 'ü' \\\n; echo two").output == "ü\ntwo\n"
    assert environment.execute("").returncode == 0
    assert environment.execute("a\0b").returncode == 126
    assert environment.execute("no-such-program").returncode == 127


@pytest.mark.parametrize(
    ("odd", "printed"),
    [("\ud800", "\ufffd"), ("\udfff", "\ufffd"), ("\udcff", "\ufffd"), ("\udcc3\udcbc", "ü"), ("\U0010ffff", "\U0010ffff")],
)
@pytest.mark.parametrize("length", [1, 200_000])
def test_every_character_may_stand_in_a_command(environment: LocalEnvironment, odd: str, printed: str, length: int) -> None:
    assert environment.execute(f"echo '{odd}' # {'x' * length}").output == f"{printed}\n"


def test_a_long_command_after_everything_was_removed_is_an_outcome_not_a_crash(environment: LocalEnvironment) -> None:
    environment.execute("rm -rf $(dirname $HOME)")
    execution = environment.execute("echo " + "x" * 200_000)
    assert execution.returncode == 127 and "cannot keep the command" in execution.output


def test_what_it_makes_lies_under_the_folder_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    environment = LocalEnvironment(tmp_path, parent=tmp_path / "scratch")
    places = environment.execute("echo $HOME; echo $TMPDIR; command -v python").output.split()
    assert len(places) == 3 and all(Path(place).is_relative_to(tmp_path / "scratch") for place in places)
    environment.execute("mkdir -p $HOME/a/b; chmod 000 $HOME/a")
    environment.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_working_directory_that_is_gone_is_an_outcome_not_a_crash(environment: LocalEnvironment) -> None:
    environment.execute("rm -rf $PWD")
    execution = environment.execute("echo here")
    assert execution.returncode == 127
    assert "working directory" in execution.output


USERS = {
    "MY_API_KEY": "users-own",
    "HOME": "/somewhere",
    "TMPDIR": "/elsewhere",
    "PYTHONPATH": "/their/modules",
    "GIT_AUTHOR_NAME": "The User",
}
ANOTHER_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_CONFIG_PARAMETERS",
)


def test_a_users_program_gets_the_users_variables_and_is_told_of_no_other_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in USERS.items():
        monkeypatch.setenv(name, value)
    for name in ANOTHER_REPOSITORY:
        monkeypatch.setenv(name, "/other")
    with LocalEnvironment(tmp_path, inherit=True, variables={"MY_OWN": "given"}) as environment:
        printed = dict(line.partition("=")[::2] for line in environment.execute("env").output.splitlines())
    assert USERS.items() <= printed.items() and printed["MY_OWN"] == "given"
    assert printed["PATH"] == os.environ["PATH"]
    assert not printed.keys() & set(ANOTHER_REPOSITORY)


def test_a_users_program_may_import_this_package(tmp_path: Path) -> None:
    with LocalEnvironment(tmp_path, inherit=True) as environment:
        assert environment.execute(f"{sys.executable} -c 'import harness.metering'").returncode == 0


@pytest.mark.parametrize("counted", [None, "", "2", "nonsense"])
def test_git_runs_no_hook_for_a_users_program_and_the_users_own_settings_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: str | None
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
    for number, (key, value) in enumerate([("core.hooksPath", str(hooks)), ("user.name", "The User")]):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    if counted is None:
        monkeypatch.delenv("GIT_CONFIG_COUNT", raising=False)
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", counted)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tmp_path / "repo").mkdir()
    with LocalEnvironment(tmp_path / "repo", inherit=True) as environment:
        prepared = (
            f"git init -q && git config core.hooksPath {hooks} && git config core.fsmonitor {hooks}/fsmonitor && git config user.email a@b"
        )
        assert environment.execute(f"{prepared} && touch x && git add x").returncode == 0
        assert environment.execute("git -c user.name=Dev commit -qm one && git status").returncode == 0
        assert environment.execute("git config user.name").output == ("The User\n" if counted == "2" else "")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("inherit", [True, False])
def test_git_never_takes_a_repository_around_the_agents_copy_for_it(tmp_path: Path, inherit: bool) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "run" / "repo" / "deep").mkdir(parents=True)
    with LocalEnvironment(tmp_path / "run" / "repo", inherit=inherit) as environment:
        assert environment.execute("cd deep; git rev-parse --git-dir").returncode == 128
        assert environment.execute("git init -q; cd deep; git rev-parse --git-dir").returncode == 0


ENDLESS = {
    "silent": "sleep 600",
    "printing": "yes",
    "with its output closed": "exec >&- 2>&-; sleep 600",
    "deaf, with children of all kinds": "trap '' TERM; setsid env -i sh -c 'sleep 600' & sh -c 'sleep 600' & while :; do sleep 1; done",
}


@pytest.mark.parametrize("inherit", [True, False])
@pytest.mark.parametrize("how", ["halt", "stop"])
@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_command_under_way_ends_when_it_is_told_to_and_so_do_its_children(tmp_path: Path, command: str, how: str, inherit: bool) -> None:
    told = threading.Event()
    (tmp_path / "repo").mkdir()
    started = tmp_path / "repo" / "started"

    def tell() -> None:
        until = time.monotonic() + 30
        while not started.exists() and time.monotonic() < until:
            time.sleep(0.01)
        told.set()

    telling = threading.Thread(target=tell)
    with LocalEnvironment(tmp_path / "repo", inherit=inherit, halt=told if how == "halt" else None) as environment:
        telling.start()
        began = time.monotonic()
        execution = environment.execute(f"touch started; {command}", timeout=60, stop=told if how == "stop" else None)
        assert time.monotonic() - began < 30
        assert execution.returncode < 0 and not execution.timed_out
        assert environment._marked() == []
        execution = environment.execute("touch again", stop=told)
        assert execution.returncode < 0 and not (tmp_path / "repo" / "again").exists()
    telling.join()


def test_a_command_may_have_no_time_limit(tmp_path: Path) -> None:
    with LocalEnvironment(tmp_path, timeout=0.1) as environment:
        assert environment.execute("sleep .3; echo done", timeout=math.inf).output == "done\n"
        assert environment.execute("exec >&- 2>&-; sleep .3; exit 7", timeout=math.inf).returncode == 7


def test_a_signal_is_a_negative_return_code(environment: LocalEnvironment) -> None:
    assert environment.execute("kill -9 $$").returncode == -9


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 100, 1000])
@pytest.mark.parametrize("block", [1, 3, 7, 1000])
def test_bounded_output_keeps_both_ends(size: int, block: int) -> None:
    stream = bytes(65 + number % 26 for number in range(size))
    output = BoundedOutput(10)
    for start in range(0, size, block):
        output.add(stream[start : start + block])
    if size <= 10:
        assert output.text() == stream.decode()
    else:
        assert output.text() == f"{stream[:5].decode()}\n[... {size - 10} bytes of output left out ...]\n{stream[-5:].decode()}"
