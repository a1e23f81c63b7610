"""Commands in a container of their own: where a language model's agent works.

One container per attempt, made from the issue's image, without network, with limits of processors, memory and processes, labelled with what it is for and
with the process that made it, and removed by force when the attempt is over. How one command runs: :mod:`harness.environments.command`.
"""

from __future__ import annotations

import math
import os
import secrets
import signal
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from harness.environments import Execution
from harness.environments.command import SIGNALLED, run_command
from harness.environments.container import KEEPER, Container, remove
from harness.environments.engine import engine_errors
from harness.environments.owner import Owner
from harness.files import to_bytes
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "org.swe-memory."
"""What the names of all our labels begin with: ``run``, ``arm``, ``issue``, ``attempt``, and ``owner`` (see :mod:`harness.environments.owner`)."""

SHELL_VARIABLES: Mapping[str, str] = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "LESS": "-R",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
    "BASH_ENV": "/root/.bashrc",
}
"""What a command's shell needs to print plain text and, in the official images, to find the repository's Python (their .bashrc activates it)."""

_HOST = "testbed"
_LONGEST_ARGUMENT = 100_000  # bytes; Linux refuses a single argument of 128 KiB
_PROBE_SECONDS = 60.0
_SCRIPT = "/.swe-memory/command.sh"
_PROBE = """\
for name in sh timeout; do command -v $name >/dev/null || echo "$name"; done
cd -- "$1" 2>/dev/null || echo "the folder $1"
"""


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What one container may use: ``cpus`` in processors, ``memory`` in bytes (swap included), ``pids`` in processes and threads, ``file_size`` in bytes of
    any one file; ``network`` is the engine's name for it (``none``; ``bridge`` for its usual one)."""

    cpus: float = 2.0
    memory: int = 8 << 30
    pids: int = 1024
    file_size: int = 20 << 30
    network: str = "none"


@dataclass(frozen=True, slots=True)
class Labels:
    """What a container is for. ``run`` names the run (its folder), ``attempt`` the stream and try."""

    run: str
    arm: str = ""
    issue: str = ""
    attempt: str = ""

    def as_dict(self) -> dict[str, str]:
        """As the engine takes them, with this process as the owner."""
        own = {"run": self.run, "arm": self.arm, "issue": self.issue, "attempt": self.attempt, "owner": Owner.current().label}
        return {LABEL + name: value for name, value in own.items()}


class DockerEnvironment:
    """``bash -c COMMAND`` in ``workdir`` of a new container, as :class:`harness.environments.Environment` asks.

    ``image`` is there already (see :mod:`harness.environments.images`). ``timeout`` is the limit in seconds of a command that brings none;
    ``output_limit`` the bytes of output that are kept (the first and the last half, with a marker between them); ``variables`` are the environment's beside
    the image's own (and what has git trust ``workdir``, whoever owns it); ``interpreter`` is what takes the command. Commands run as the image's user.
    Background children live until :meth:`close`; those of a command that timed out or was stopped end with it. A command that a signal ended has code 128 +
    its number: 137 also where the kernel ended it for want of memory. Once ``halt`` is set, the command under way is ended as if its time were over, and
    none is started any more.

    ``warnings`` is what the engine says of limits that it cannot enforce (rootless engines without cgroup delegation): the container runs without them.

    :meth:`close` removes the container; so does the end of this process, unless it is killed: then ``swe-memory clean`` does.

    Raises InfraError, here and in every method, where the engine, the image or the container fails.
    """

    def __init__(
        self,
        client: DockerClient,
        image: str,
        *,
        labels: Labels,
        limits: ContainerLimits | None = None,
        workdir: str = "/testbed",
        timeout: float = 60.0,
        output_limit: int = 200_000,
        variables: Mapping[str, str] = SHELL_VARIABLES,
        interpreter: Sequence[str] = ("bash", "-c"),
        platform: str | None = None,
        halt: threading.Event | None = None,
    ) -> None:
        self.image = image
        self.workdir = workdir
        self._timeout = timeout
        self._output_limit = output_limit
        self._interpreter = tuple(interpreter)
        self._halt = halt
        self._broken: Execution | None = None
        self._closed = False
        name = f"swe-memory-{secrets.token_hex(6)}"
        # It is removed however this process ends, short of a kill; by name, so that an interrupt cannot come between its creation and this.
        self._remover = weakref.finalize(self, _remove_quietly, client, name, os.getpid())
        try:
            given = {**variables, **_trust(workdir, variables)}
            container_id, user, self.warnings = _create(client, image, name, labels, limits or ContainerLimits(), given, platform)
            self.container = Container(client, container_id, user)
            self._probe()
        except BaseException:
            self.close()
            raise

    def _probe(self) -> None:
        found = self.container.run(_PROBE, self.workdir, seconds=_PROBE_SECONDS)
        if found.output or found.returncode:
            missing = ", ".join(found.output.decode(errors="replace").split("\n")).strip(", ")
            raise InfraError(
                f"image {self.image} lacks what commands need: {missing[:300]}",
                "Use an image that holds bash, coreutils and the repository.",
            )

    @property
    def restarts(self) -> int:
        """How often the container had to be restarted to end what a command had left running."""
        return self.container.restarts

    def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:
        """Run one command; see the class."""
        stops = tuple(event for event in (self._halt, stop) if event is not None)
        if any(event.is_set() for event in stops):
            return Execution("", SIGNALLED + signal.SIGTERM)
        if self._broken is not None:
            return self._broken
        if "\0" in command:
            return Execution("bash: a command cannot hold a NUL character\n", 126)
        encoded = to_bytes(command)
        try:
            if len(encoded) > _LONGEST_ARGUMENT:
                self.container.put(_SCRIPT, encoded)
                arguments = [*self._interpreter[:-1], _SCRIPT]
            else:
                arguments = [*self._interpreter, encoded.decode("utf-8", errors="replace")]
            execution = run_command(
                self.container,
                arguments,
                workdir=self.workdir,
                limit=self._timeout if timeout is None else timeout,
                output_limit=self._output_limit,
                stops=stops,
            )
            if execution.broken:
                self._broken = execution
            return execution
        except InfraError as error:
            if self._closed:
                raise InfraError("the environment was closed, and its container removed", "No command can run in it any more.") from error
            raise

    def close(self) -> None:
        """Remove the container, by force. May be called twice, and from another thread: a command under way then ends with an InfraError.

        Raises nothing: where the engine fails, the end of this process tries again, and after it ``swe-memory clean`` can.
        """
        self._closed = True
        if (found := self._remover.peek()) is not None and found[1](*found[2]):
            self._remover.detach()

    def __enter__(self) -> DockerEnvironment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _trust(workdir: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables by which git works in a folder of another user's, as it does for the grader; settings that ``variables`` count are kept before it."""
    count = variables.get("GIT_CONFIG_COUNT", "")
    number = int(count) if count.isdecimal() else 0
    return {f"GIT_CONFIG_KEY_{number}": "safe.directory", f"GIT_CONFIG_VALUE_{number}": workdir, "GIT_CONFIG_COUNT": str(number + 1)}


def _create(
    client: DockerClient, image: str, name: str, labels: Labels, limits: ContainerLimits, variables: Mapping[str, str], platform: str | None
) -> tuple[str, str, tuple[str, ...]]:
    """Create a container; its id, its image's user, and what the engine has to say about it."""
    import docker

    api = client.api
    try:
        with engine_errors(f"make a container of image {image}"):
            user = str(client.images.get(image).attrs["Config"].get("User") or "")
            made = api.create_container(
                image,
                command=["-pc", KEEPER],
                entrypoint=["bash"],
                user="0",
                working_dir="/",
                environment=dict(variables),
                labels=labels.as_dict(),
                hostname=None if limits.network == "host" else _HOST,
                name=name,
                healthcheck={"test": ["NONE"]},
                stop_signal="SIGKILL",
                platform=platform,
                host_config=api.create_host_config(
                    network_mode=limits.network,
                    extra_hosts={_HOST: "127.0.0.1"} if limits.network == "none" else None,  # there, nothing else knows its own name
                    nano_cpus=math.ceil(limits.cpus * 1e9),
                    mem_limit=limits.memory,
                    memswap_limit=limits.memory,
                    pids_limit=limits.pids,
                    log_config=docker.types.LogConfig(type="none"),
                    ulimits=[docker.types.Ulimit(name="fsize", soft=limits.file_size, hard=limits.file_size)],
                ),
            )
    except InfraError as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            raise InfraError(f"there is no image {image} on this engine", "Pull or build it first (swe-memory images pull).") from error
        raise
    return str(made["Id"]), user, tuple(made.get("Warnings") or ())


def _remove_quietly(client: DockerClient, name: str, pid: int) -> bool:
    """Remove a container; whether that went well. A fork's copy of the environment removes nothing."""
    if os.getpid() != pid:
        return True
    try:
        remove(client, name)
    except InfraError:
        return False
    return True
