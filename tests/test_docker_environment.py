"""The container environment, on a real engine: limits, isolation, output, and what is left when something breaks."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from containers import build_image, make_base_image, once
from engine_proxy import EngineProxy
from minisweagent.exceptions import InterruptAgentFlow

from harness.agents.mini_environment import MiniEnvironment
from harness.clean import find_containers, remove_leftovers, remove_own
from harness.environments import Environment
from harness.environments.docker import ContainerLimits, DockerEnvironment, Labels
from harness.environments.engine import connect, describe
from harness.environments.owner import Owner
from harness.metering import Limits, Meter
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ContainerLimits(cpus=2, memory=200 << 20, pids=64)
Make = Callable[..., DockerEnvironment]


@pytest.fixture(scope="module")
def image(engine: DockerClient, base_image: str) -> str:
    """The base image with an empty /testbed."""
    name = base_image.replace("/base:", "/empty:")
    return once(engine, name, lambda: build_image(engine, name, f"FROM {base_image}\nRUN mkdir /testbed\nENV FROM_IMAGE=kept\n"))


@pytest.fixture(scope="module")
def environment(engine: DockerClient, image: str) -> Iterator[DockerEnvironment]:
    """One container for the tests that leave it as it was."""
    with DockerEnvironment(engine, image, labels=Labels("shared"), limits=LIMITS) as environment:
        yield environment


@pytest.fixture
def limiting(engine: DockerClient, environment: DockerEnvironment) -> None:
    """For tests of limits: an engine without control groups (a rootless one may have none) cannot enforce any, and says so of each container."""
    if describe(engine).limits != ("memory", "cpu", "pids"):
        assert environment.warnings
        pytest.skip("the engine cannot enforce limits")
    assert environment.warnings == ()


@pytest.fixture
def make(engine: DockerClient, image: str) -> Iterator[Make]:
    """A container of a test's own."""
    made: list[DockerEnvironment] = []

    def new(client: DockerClient = engine, image: str = image, **settings: Any) -> DockerEnvironment:
        made.append(DockerEnvironment(client, image, **{"labels": Labels("own"), "limits": LIMITS, **settings}))
        return made[-1]

    yield new
    for environment in made:
        environment.close()


def containers(client: DockerClient, run: str) -> list[str]:
    return [found.id for found in find_containers(client, run)]


def test_it_is_an_environment(environment: DockerEnvironment) -> None:
    as_protocol: Environment = environment
    execution = as_protocol.execute("echo out; echo err >&2; echo out; exit 3")
    assert (execution.output, execution.returncode, execution.timed_out) == ("out\nerr\nout\n", 3, False)


def test_commands_run_with_bash_in_the_working_directory_and_read_nothing(environment: DockerEnvironment) -> None:
    assert environment.execute("[[ -n $BASH_VERSION ]] && pwd && cat; read line; echo $?").output == "/testbed\n1\n"
    environment.execute("echo 1 > file")
    assert environment.execute("cat file; rm file").output == "1\n"


def test_the_image_s_variables_stay_and_the_callers_stay_away(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "CANARY-SECRET")
    own = make(variables={"PAGER": "cat", "MINE": "given"})
    assert own.execute("echo $FROM_IMAGE $MINE $PAGER $HOME").output == "kept given cat /root\n"
    assert "CANARY" not in own.execute("env; cat /proc/*/environ | tr '\\0' '\\n'").output


def test_settings_of_git_that_a_caller_counts_stay_beside_the_trust_in_the_folder(make: Make) -> None:
    own = make(variables={"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Given"})
    assert own.execute("git config user.name; git config safe.directory").output == "Given\n/testbed\n"


def test_a_shell_of_the_official_images_finds_the_repositorys_python(environment: DockerEnvironment) -> None:
    assert environment.execute("command -v python").output == "/opt/miniconda3/envs/testbed/bin/python\n"


def test_a_container_knows_its_own_name_without_network(environment: DockerEnvironment) -> None:
    names = environment.execute(
        "python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()), socket.gethostbyname(\"localhost\"))'"
    )
    assert names.output.split() == ["127.0.0.1", "127.0.0.1"]


def test_there_is_no_network_unless_it_is_asked_for(environment: DockerEnvironment, make: Make) -> None:
    devices = "tail -n +3 /proc/net/dev | cut -d: -f1 | xargs"
    assert environment.execute(devices).output == "lo\n"
    assert environment.execute("cat /proc/net/route | tail -n +2").output == ""
    other = make(limits=ContainerLimits(network="host"))
    assert other.execute("readlink /proc/self/ns/net").output != environment.execute("readlink /proc/self/ns/net").output


def test_processors_memory_and_processes_are_limited(engine: DockerClient, environment: DockerEnvironment, limiting: None) -> None:
    told = engine.api.inspect_container(environment.container.id)["HostConfig"]
    assert (told["NanoCpus"], told["Memory"], told["MemorySwap"], told["PidsLimit"]) == (2_000_000_000, 200 << 20, 200 << 20, 64)
    assert "Resource temporarily unavailable" in environment.execute("for i in $(seq 200); do sleep 50 & done", timeout=0.5).output
    assert environment.execute("ulimit -f").output.strip() == str((20 << 30) >> 10)
    assert environment.execute("echo still here").output == "still here\n"


def test_a_command_that_uses_up_the_memory_is_ended_alone(environment: DockerEnvironment, limiting: None) -> None:
    execution = environment.execute("x=$(head -c 1000000000 /dev/zero | tr '\\0' a); echo ${#x}")
    assert (execution.output, execution.returncode, execution.timed_out) == ("", 137, False)
    assert environment.execute("echo still here").output == "still here\n" and environment.restarts == 0


def test_it_is_labelled_with_what_it_is_for_and_who_made_it(engine: DockerClient, make: Make) -> None:
    own = make(labels=Labels("runs/claim", "reasoningbank", "owner__repo-1", "1-1"))
    found = find_containers(engine, "runs/claim")
    assert [(one.id, one.arm, one.issue, one.attempt, one.owner) for one in found] == [
        (own.container.id, "reasoningbank", "owner__repo-1", "1-1", "alive")
    ]


def test_a_time_limit_ends_the_command_and_all_that_it_started_and_nothing_else(make: Make) -> None:
    own = make()
    own.execute("sleep 1001 >/dev/null 2>&1 &")
    execution = own.execute(
        "echo before; setsid sleep 1002 & nohup sleep 1003 >/dev/null 2>&1 & (setsid sh -c 'trap \"\" TERM; sleep 1004 & sleep 1005' &); "
        "env -i setsid sleep 1006 & trap '' TERM; while :; do sleep 1007; done",
        timeout=0.5,
    )
    assert (execution.output, execution.returncode, execution.timed_out) == ("before\n", 124, True)
    assert own.execute("ps -eo args | grep -o '^sleep .*'").output == "sleep 1001\n"
    assert own.restarts == 0


def test_a_command_may_clean_up_when_its_time_is_over(environment: DockerEnvironment) -> None:
    execution = environment.execute("trap 'echo cleaned; exit' TERM; sleep 600 & wait", timeout=0.5)
    assert execution.output.startswith("cleaned\n") and execution.timed_out


def test_a_code_of_124_before_the_time_is_over_is_the_commands_own(environment: DockerEnvironment) -> None:
    execution = environment.execute("exit 124")
    assert (execution.returncode, execution.timed_out) == (124, False)


def test_a_command_may_be_stopped_from_outside(environment: DockerEnvironment) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    execution = environment.execute(
        "trap 'echo cleaned; exit 9' TERM; setsid sleep 2001 & echo on; sleep 2002 & wait", timeout=60, stop=stop
    )
    assert (execution.output, execution.returncode, execution.timed_out) == ("on\ncleaned\n", 9, False)
    assert environment.execute("ps -eo args | grep -c '^sleep 200'").output == "0\n"
    assert environment.execute("echo never", stop=stop).output == ""


def test_a_child_that_holds_the_output_holds_up_nothing(make: Make) -> None:
    own = make()
    began = time.monotonic()
    assert own.execute("sleep 3000 & echo started").output == "started\n"
    assert own.execute("echo next").output == "next\n"
    assert time.monotonic() - began < 20
    assert own.execute("ps -eo args | grep -c '^sleep 3000'").output == "1\n"


def test_an_agent_can_kill_neither_its_container_nor_the_shell_around_its_commands_to_any_avail(make: Make) -> None:
    own = make()
    assert own.execute("kill -9 -1; kill -9 1; kill -TERM 1; pkill -9 bash; true").returncode == 137
    assert own.execute("for signal in {1..64}; do kill -$signal 1; done 2>/dev/null; echo fine").output == "fine\n"
    assert own.execute("kill -9 $PPID").returncode == 137
    assert own.execute("kill -SEGV $$").returncode == 139
    assert own.execute("echo still here").output == "still here\n" and own.restarts == 0


def test_processes_without_a_parent_are_reaped(environment: DockerEnvironment) -> None:
    environment.execute("for i in $(seq 20); do (setsid true &); done")
    assert (
        environment.execute("for i in $(seq 100); do ps -eo stat | grep -q Z || break; sleep 0.05; done; ps -eo stat | grep -c Z").output
        == "0\n"
    )


def test_a_fork_bomb_ends_with_its_command(make: Make, limiting: None) -> None:
    own = make(limits=ContainerLimits(memory=200 << 20, pids=24))
    own.execute("echo kept > file")
    bomb = "bomb() { trap '' TERM; bomb | bomb & }; bomb; while :; do (sleep 0.1 &); done"
    assert own.execute(bomb, timeout=1).timed_out
    assert own.execute("cat file; ps -e | wc -l").output.split()[0] == "kept"
    # One that the command before left behind is no obstacle either.
    own.execute("(setsid bash -c 'bomb() { bomb | bomb & }; bomb; while :; do (sleep 0.1 &); done' >/dev/null 2>&1 &); sleep 0.5")
    assert own.execute("cat file").output == "kept\n"


def test_a_command_of_two_megabytes_works(environment: DockerEnvironment) -> None:
    text = "é" * 1_000_000
    execution = environment.execute(f"cat <<'END' | wc -c\n{text}\nEND\nexit 4")
    assert (execution.output, execution.returncode) == ("2000001\n", 4)


def test_odd_characters_do_no_harm(environment: DockerEnvironment) -> None:
    assert environment.execute("echo a\0b").returncode == 126
    assert environment.execute("printf '\\377\\n'; echo ü; echo '\udcff\ud800'").output.startswith("\ufffd\nü\n")


def test_what_lists_processes_is_not_taken_for_the_end_of_the_command(environment: DockerEnvironment) -> None:
    shown = environment.execute("cat /proc/*/cmdline | tr '\\0' ' '; ps -ef; echo end; exit 5")
    assert shown.output.endswith("end\n") and shown.returncode == 5


def test_output_without_end_is_bounded_while_it_streams(make: Make) -> None:
    own = make(output_limit=1000)
    own.execute("true")
    tracemalloc.start()
    try:
        execution = own.execute("echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert execution.output.startswith("first\n") and execution.output.endswith("\nlast\n")
    assert "[... 99999" in execution.output and len(execution.output) < 1100
    assert peak < 5_000_000


def test_a_flood_does_not_outrun_the_time_limit(environment: DockerEnvironment) -> None:
    assert environment.execute("yes", timeout=0.5).timed_out


def test_a_working_directory_that_is_gone_is_the_commands_outcome(make: Make) -> None:
    own = make()
    own.execute("rm -rf /testbed")
    execution = own.execute("echo x")
    assert execution.returncode == 127 and "cannot start in the working directory /testbed" in execution.output


def test_commands_run_as_the_images_user(engine: DockerClient, base_image: str, make: Make) -> None:
    name = base_image.replace("/base:", "/user:")
    once(engine, name, lambda: build_image(engine, name, f'FROM {base_image}\nRUN mkdir /testbed\nENTRYPOINT ["false"]\nUSER agent\n'))
    own = make(image=name)
    assert own.execute("id -un; touch /testbed/x").output.startswith("agent\ntouch: ")
    assert own.execute("trap '' TERM; setsid sleep 4001 & sleep 4002", timeout=0.3).timed_out
    assert own.execute("ps -eo args | grep -c '^sleep 400'").output == "0\n"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Tests that a shell runs in the background inherit that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_the_container_goes_with_the_attempt_however_it_ends(engine: DockerClient, image: str) -> None:
    def left() -> list[str]:
        return containers(engine, "ends")

    with DockerEnvironment(engine, image, labels=Labels("ends")) as environment:
        assert left() == [environment.container.id]
    assert left() == []
    environment.close()
    with pytest.raises(InfraError, match="was closed"):
        environment.execute("true")
    with pytest.raises(ZeroDivisionError), DockerEnvironment(engine, image, labels=Labels("ends")):
        _ = 1 / 0
    assert left() == []
    with pytest.raises(KeyboardInterrupt), DockerEnvironment(engine, image, labels=Labels("ends")) as environment:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        environment.execute("sleep 60")
    assert left() == []
    with pytest.raises(InfraError, match="lacks what commands need: the folder /nowhere"):
        DockerEnvironment(engine, image, labels=Labels("ends"), workdir="/nowhere")
    assert left() == []


def test_closing_from_another_thread_ends_the_command_under_way(make: Make) -> None:
    own = make()
    threading.Timer(0.3, own.close).start()
    with pytest.raises(InfraError, match="was closed"):
        own.execute("sleep 60")


MAKES_ONE = """
import os, sys
from harness.environments.docker import DockerEnvironment, Labels
from harness.environments.engine import connect
environment = DockerEnvironment(connect(), sys.argv[1], labels=Labels(sys.argv[2]))
print(environment.container.id, flush=True)
{then}
"""


def test_a_run_that_is_over_leaves_no_container_of_its_own(engine: DockerClient, make: Make) -> None:
    """Not even one whose removal failed while the engine was away; other runs' stay."""
    own, other = make(labels=Labels("over")), make(labels=Labels("goes-on"))
    remove_own(engine, "over")
    assert find_containers(engine, "over") == () and len(find_containers(engine, "goes-on")) == 1
    assert other.execute("echo hi").output == "hi\n"
    with pytest.raises(InfraError, match="removed from outside"):
        own.execute("echo hi")


def test_the_end_of_the_process_removes_its_containers_and_a_kill_leaves_them_for_cleaning(
    engine: DockerClient, image: str, make: Make
) -> None:
    own = make(labels=Labels("killed"))
    other = make(labels=Labels("other"))

    def started(then: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", MAKES_ONE.format(then=then), image, "killed"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    crashes, first = started("raise SystemExit('no close')")
    killed, second = started("sys.stdin.readline(); import time; time.sleep(600)")
    crashes.wait(timeout=60)
    assert first and first not in containers(engine, "killed")
    try:
        assert remove_leftovers(engine, "killed").removed == ()
    finally:
        killed.kill()
    # Killed and not yet reaped by us, its parent: it is gone nevertheless.
    until = time.monotonic() + 20
    while Path(f"/proc/{killed.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < until:
        time.sleep(0.01)
    assert remove_leftovers(engine, "other").removed == ()
    cleaned = remove_leftovers(engine, "killed")
    killed.wait(timeout=60)
    assert [one.id for one in cleaned.removed] == [second] and [one.id for one in cleaned.left] == [own.container.id]
    assert remove_leftovers(engine, "killed", everything=True).removed == ()
    assert containers(engine, "other") == [other.container.id]


def test_containers_of_processes_that_cannot_be_seen_from_here_are_left_alone_unless_asked_for(engine: DockerClient, image: str) -> None:
    mine = Owner.current()
    elsewhere = {
        "another boot": Owner("boot", mine.namespace, mine.pid, mine.began),
        "another namespace": Owner(mine.boot, "1", mine.pid, mine.began),
    }
    gone = {
        "another start": Owner(mine.boot, mine.namespace, mine.pid, "1"),
        "no such process": Owner(mine.boot, mine.namespace, 2**22 + 1, "1"),
    }
    assert mine.state(running=True) == "alive"
    assert {owner.state(running=True) for owner in elsewhere.values()} == {"unknown"}
    assert {owner.state(running=True) for owner in gone.values()} == {"gone"}
    assert elsewhere["another boot"].state(running=False) == "gone"
    assert Owner.parse(mine.label) == mine and Owner.parse("rubbish") is None
    labels = {**Labels("strange").as_dict(), "org.swe-memory.owner": elsewhere["another boot"].label}
    engine.api.create_container(image, command=["true"], labels=labels)
    assert [one.owner for one in remove_leftovers(engine, "strange").left] == ["unknown"]
    assert len(remove_leftovers(engine, "strange", everything=True).removed) == 1


def test_an_image_that_is_missing_or_of_no_use_is_the_machines_failure(engine: DockerClient, base_image: str) -> None:
    with pytest.raises(InfraError, match="there is no image swe-memory-test/none"):
        DockerEnvironment(engine, "swe-memory-test/none:1", labels=Labels("t"))
    name = base_image.replace("/base:", "/bare:")
    once(engine, name, lambda: build_image(engine, name, f"FROM {base_image}\nRUN mkdir /testbed && rm /usr/bin/bash\n"))
    with pytest.raises(InfraError, match="bash"):
        DockerEnvironment(engine, name, labels=Labels("t"))
    assert containers(engine, "t") == []


def test_no_engine_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"no container engine answers at unix://.*nothing.*\n.*DOCKER_HOST"):
        connect(f"unix://{tmp_path}/nothing")


def test_the_engine_of_the_users_own_docker_command_is_found(engine: DockerClient, tmp_path: Path) -> None:
    context = tmp_path / ".docker" / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
    context.parent.mkdir(parents=True)
    host = os.environ["DOCKER_HOST"]
    context.write_text(json.dumps({"Name": "mine", "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}))
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"currentContext": "mine"}))
    code = "from harness.environments.engine import connect; print(connect().info()['ID'])"
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == engine.info()["ID"]


def test_the_engine_says_what_it_is(engine: DockerClient) -> None:
    told = describe(engine)
    assert told.version and told.cpus > 0 and told.memory > 0 and told.architecture


OUTSIDE: dict[str, tuple[Callable[[DockerClient, str], object], str]] = {
    "killed": (lambda client, one: client.api.kill(one), "was ended from outside"),
    "removed": (lambda client, one: client.api.remove_container(one, force=True), "was (removed|ended) from outside"),
    "restarted": (lambda client, one: client.api.restart(one, timeout=0), "was (ended|restarted) from outside"),
}


@pytest.mark.parametrize(("act", "message"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_a_container_that_something_outside_ends_is_the_machines_failure(
    engine: DockerClient, make: Make, act: Callable[[DockerClient, str], object], message: str
) -> None:
    own = make()
    threading.Timer(0.3, act, (engine, own.container.id)).start()
    with pytest.raises(InfraError, match=message):
        own.execute("sleep 60")
    with pytest.raises(InfraError):
        own.execute("echo again")
        own.execute("kill -9 $PPID")


def test_a_paused_container_is_the_machines_failure(engine: DockerClient, make: Make, limiting: None) -> None:
    own = make()
    engine.api.pause(own.container.id)
    with pytest.raises(InfraError, match="is paused"):
        own.execute("true")


@pytest.fixture
def proxy(engine: DockerClient, tmp_path: Path) -> Iterator[EngineProxy]:
    host = os.environ["DOCKER_HOST"]
    if not host.startswith("unix://"):
        pytest.skip("needs an engine at a local socket")
    proxy = EngineProxy(tmp_path / "s", host.removeprefix("unix://"))
    yield proxy
    proxy.close()


@pytest.mark.parametrize(("mode", "message"), [("hang", "did not answer in time"), ("refuse", "does not answer")])
def test_an_engine_that_hangs_or_goes_holds_nothing_up_for_ever(
    engine: DockerClient, proxy: EngineProxy, make: Make, mode: str, message: str
) -> None:
    client = connect(proxy.host, request_seconds=1)
    own = make(client, labels=Labels(mode))
    threading.Timer(0.3, proxy.set, (mode,)).start()
    began = time.monotonic()
    if mode == "refuse":
        with pytest.raises(InfraError, match=message):
            own.execute("sleep 60", timeout=30)
    else:
        proxy.set(mode)
    with pytest.raises(InfraError, match=message):
        own.execute("echo x")
    own.close()
    assert time.monotonic() - began < 25
    client.close()
    assert len(containers(engine, mode)) == 1
    # The container is there still, since nobody could say otherwise; the end of this process would remove it, or cleaning after it.
    engine.api.remove_container(own.container.id, force=True)


@pytest.fixture
def own_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which an engine of the test's own runs, on a small disk."""
    if os.geteuid() != 0 or not Path("/usr/sbin/dockerd").exists():
        pytest.skip("needs root and dockerd, to start an engine that may be killed")
    folder = tmp_path_factory.mktemp("engine")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", str(folder)], check=True)
    try:
        subprocess.run([str(ROOT / ".ci" / "engine"), "start", str(folder / "e")], check=True, capture_output=True)
        yield folder / "e"
    finally:
        subprocess.run([str(ROOT / ".ci" / "engine"), "stop", str(folder / "e")], check=False)
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def test_an_engine_that_is_killed_and_started_again_and_a_full_disk_are_the_machines_failures(own_engine: Path) -> None:
    """Slow (an engine is started twice), since only an engine of the test's own may be killed."""
    client = connect(f"unix://{own_engine}/socket")
    image = make_base_image(client)
    with DockerEnvironment(client, image, labels=Labels("t"), workdir="/root") as environment:
        pid = int((own_engine / "pid").read_text())
        threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(InfraError, match="the engine does not answer"):
            environment.execute("sleep 60")
        subprocess.run([str(ROOT / ".ci" / "engine"), "start", str(own_engine)], check=True)
        with pytest.raises(InfraError, match="ended from outside"):
            environment.execute("echo x")
    assert containers(client, "t") == []
    with DockerEnvironment(client, image, labels=Labels("t"), workdir="/root") as environment:
        assert "No space left on device" in environment.execute("cat /dev/zero > /root/full").output
        with pytest.raises(InfraError, match=r"no space left on device.*\n.*disk is full"):
            environment.execute("true " + "x" * 2_000_000)
        with pytest.raises(InfraError, match="disk is full"):
            DockerEnvironment(client, image, labels=Labels("t"), workdir="/root")
    assert containers(client, "t") == []
    client.close()


@pytest.mark.parametrize(
    "damage",
    ["rm -f $(command -v sh)", "ln -sf /bin/false $(command -v sh)", "chmod 0 $(command -v sh)", "rm -rf /usr/lib /usr/lib64 /lib /lib64"],
    ids=["no shell", "another program", "no permission", "no libraries"],
)
def test_an_agent_that_breaks_its_shell_has_failed_and_not_the_machine(make: Make, damage: str) -> None:
    environment = make()
    assert environment.execute(damage).broken == ""
    execution = environment.execute("echo hi")
    assert execution.broken and execution.returncode == 127 and "no command can be started any more" in execution.output
    assert environment.execute("echo hi") is execution
    with pytest.raises(InterruptAgentFlow) as ended:
        MiniEnvironment(environment, Limits(), Meter(Limits()), "/testbed").execute({"command": "echo hi"})
    assert ended.value.messages[-1]["extra"] == {"exit_status": "EnvironmentBroken", "submission": ""}
