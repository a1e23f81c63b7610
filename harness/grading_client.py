"""What swebench's ``run_instance`` gets for the SDK's client: the same calls, for one container, made as ours are and watched at each step."""

from __future__ import annotations

import contextlib
import math
import secrets
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.environments.bounded import BoundedOutput
from harness.environments.container import Container, remove
from harness.environments.docker import ContainerLimits
from harness.environments.engine import infra_error
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

_HOST = "testbed"
_PATCH = "patch.diff"  # what the commands that apply the patch name
_LOG_LIMIT = 32_000_000  # bytes of test output that are kept
_OUTPUT_LIMIT = 64_000_000  # and of what any other command prints
_BLOCK = 65_536
_SETTLING = 30.0  # seconds within which an engine has noted that a command ended
_LOOK = 0.02
_NOT_RUN = (126, 127)  # codes of what the container has no program for


@dataclass(slots=True)
class Seen:
    """What came by. ``failure`` is the first of the engine or the container, ``tried`` whether a command that applies the patch has run, ``applied`` whether
    one did so, ``refused`` why the first did not, ``late`` whether the tests were ended for taking too long."""

    failure: str = ""
    tried: bool = False
    applied: bool = False
    refused: str = ""
    late: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, as the SDK has it."""

    exit_code: int
    output: bytes


class ThinClient:
    """``client.images`` and ``client.containers``. Nothing is pulled: the caller has seen to the image."""

    def __init__(self, container: ThinContainer) -> None:
        self.images = _Images(container)
        self.containers = _Containers(container)


@dataclass(frozen=True, slots=True)
class _Images:
    container: ThinContainer

    def get(self, name: str) -> Any:
        """The image; raises the SDK's ImageNotFound."""
        return self.container.image(name)

    pull = get


@dataclass(frozen=True, slots=True)
class _Containers:
    container: ThinContainer

    def get(self, name: str) -> Any:
        """There is no container of an earlier grading: each has a name of its own."""
        import docker

        raise docker.errors.NotFound(f"no container {name}")

    def create(self, *, image: str, command: str, user: str, **_: Any) -> ThinContainer:
        """The container, with our settings in place of the other ones."""
        self.container.create(image, command, user)
        return self.container


class ThinContainer:
    """The one container: without network unless ``limits`` say so, labelled, ended by SIGKILL.

    The SDK's errors are raised as they are, since ``run_instance`` expects them; the first one is in ``seen``, in our words.
    """

    def __init__(self, client: DockerClient, labels: Mapping[str, str], limits: ContainerLimits, platform: str | None) -> None:
        self.id = self.name = ""
        self.seen = Seen()
        self.coming = False  # whether the engine is making it, so that its id is not known yet
        self.unwanted = False  # set meanwhile: no further than that
        self.client = self  # as the SDK's containers have one; only its ``api`` is used
        self.api = Tests(self)
        self._client = client
        self._labels, self._limits, self._platform = labels, limits, platform
        self._started: Container | None = None

    def image(self, name: str) -> Any:
        """An image that is on the engine."""
        with self.watched(f"find image {name}"):
            return self._client.images.get(name)

    def create(self, image: str, command: str, user: str) -> None:
        """Make it. Raises SystemExit where it is unwanted by then."""
        import docker

        limits, host = self._limits, self._limits.network == "host"
        first, *others = shlex.split(command)
        api = self._client.api
        self.coming = True
        try:
            with self.watched(f"make a container of image {image}"):
                made = api.create_container(
                    image,
                    entrypoint=[first],  # an image's own would take the command for its arguments
                    command=others,
                    user=user,
                    labels=dict(self._labels),
                    name=f"swe-memory-{secrets.token_hex(6)}",
                    hostname=None if host else _HOST,
                    healthcheck={"test": ["NONE"]},
                    stop_signal="SIGKILL",
                    platform=self._platform,
                    host_config=api.create_host_config(
                        network_mode=limits.network,
                        extra_hosts=None if host else {_HOST: "127.0.0.1"},  # without network, nothing else knows its own name
                        nano_cpus=math.ceil(limits.cpus * 1e9),
                        mem_limit=limits.memory,
                        memswap_limit=limits.memory,
                        pids_limit=limits.pids,
                        log_config=docker.types.LogConfig(type="none"),
                        ulimits=[docker.types.Ulimit(name="fsize", soft=limits.file_size, hard=limits.file_size)],
                    ),
                )
                self.id = str(made["Id"])
                self.name = self.id[:12]
        finally:
            self.coming = False
        if self.unwanted:
            raise SystemExit

    def start(self) -> None:
        """Start it."""
        try:
            self._started = Container(self._client, self.id, "")
        except InfraError as error:
            self._note(str(error))
            raise

    def put_archive(self, path: str, data: bytes) -> bool:
        """Unpack a tar file in it."""
        with self.watched(f"write to {path} in container {self.name}"):
            return bool(self._client.api.put_archive(self.id, path, data))

    def exec_run(self, cmd: str | list[str], workdir: str | None = None, user: str = "", **_: Any) -> Done:
        """Run a command to its end."""
        if self.seen.late:
            return Done(0, b"")  # an attempt to end the tests, by their number outside the container; they have ended
        with self.watched(f"run a command in container {self.name}"):
            exec_id = self._client.api.exec_create(self.id, cmd, workdir=workdir, user=user)["Id"]
            output = bytearray()
            for block in self._client.api.exec_start(exec_id, stream=True):
                output += block[: _OUTPUT_LIMIT - len(output)]
            done = Done(self._code(exec_id), bytes(output))
        if _PATCH in str(cmd):
            self._note_patch(done)
        return done

    def _note_patch(self, done: Done) -> None:
        seen = self.seen
        if not seen.tried:
            said = done.output.decode("utf-8", errors="replace").splitlines()
            seen.refused = next((line for line in said if line.startswith("error:")), said[0] if said else f"code {done.exit_code}")
            if done.exit_code in _NOT_RUN:
                self._note(f"the image cannot apply a patch: {seen.refused}")
                raise InfraError(seen.failure)
        seen.tried = True
        seen.applied |= done.exit_code == 0

    def tests(self, cmd: str | list[str]) -> str:
        """Prepare the tests; their number.

        What they print and their script's marks around it come by one pipe. By two, as the command would have it, an engine may give the one before the
        other although it came after; then results lie outside of the marks, and a right patch is graded as wrong.
        """
        words = cmd if isinstance(cmd, str) else shlex.join(cmd)
        with self.watched(f"start the tests in container {self.name}"):
            return str(self._client.api.exec_create(self.id, ["/bin/sh", "-c", f"exec {words} 2>&1"])["Id"])

    def printed(self, exec_id: str) -> Iterator[bytes]:
        """What the tests print, as it comes."""
        with self.watched(f"follow the tests in container {self.name}"):
            yield from self._client.api.exec_start(exec_id, stream=True)
            if not self.seen.late:
                self._code(exec_id)

    def end_tests(self) -> None:
        """Their time is over: end all that runs in the container. Raises InfraError where it was not the tests that took the time."""
        with self.watched(f"end the tests in container {self.name}"):
            self.check_whole()
            if self._client.api.inspect_container(self.id)["State"].get("Paused"):
                raise self._broken()
            self.seen.late = True
            self._client.api.kill(self.id)

    def check_whole(self) -> None:
        """Raises InfraError where the container does not run as it was started: what the tests printed may not be all that they would have."""
        with self.watched(f"look at container {self.name}"):
            if self._started is None or not self._started.running():
                raise self._broken()

    def _broken(self) -> InfraError:
        return (
            self._started.broken("run the tests", None)
            if self._started
            else InfraError("could not run the tests: no container was started")
        )

    def remove(self) -> None:
        """Remove it. Where the engine does not answer any more, its labels tell whose it was."""
        if self.id:
            with contextlib.suppress(InfraError):
                remove(self._client, self.id)

    @contextlib.contextmanager
    def watched(self, doing: str) -> Iterator[None]:
        """Takes down the first failure of the engine; ``doing`` completes "could not ..."."""
        import docker
        import requests
        import urllib3

        try:
            yield
        except InfraError as error:
            self._note(str(error))
            raise
        except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            if not self.seen.failure and not self.seen.late:
                self._note(str(self._started.broken(doing, error) if self._started else infra_error(doing, error)))
            raise

    def _note(self, failure: str) -> None:
        self.seen.failure = self.seen.failure or failure

    def _code(self, exec_id: str) -> int:
        """The code of a command whose output has ended. Raises OSError where it was the connection that did."""
        until = time.monotonic() + _SETTLING
        while True:
            told = self._client.api.exec_inspect(exec_id)
            if not told["Running"] and told["ExitCode"] is not None:
                return int(told["ExitCode"])
            if time.monotonic() > until:
                raise OSError("the connection to a command broke off")
            time.sleep(_LOOK)


class Tests:
    """The low-level calls by which ``run_instance`` runs the tests within a time limit."""

    def __init__(self, container: ThinContainer) -> None:
        self._container = container
        self._over = threading.Event()

    def exec_create(self, _: str, cmd: str | list[str]) -> dict[str, str]:
        """Prepare them."""
        return {"Id": self._container.tests(cmd)}

    def exec_start(self, exec_id: str, **_: Any) -> Iterator[bytes]:
        """Run them, and give what they print: the first and the last of it, and in growing pieces, since each is copied to the end of the others."""
        rest = BoundedOutput(_LOG_LIMIT // 2)
        pending = bytearray()
        given = 0
        try:
            for block in self._container.printed(exec_id):
                if given + len(pending) >= _LOG_LIMIT // 2:
                    rest.add(block)
                    continue
                pending += block
                if len(pending) > max(_BLOCK, given // 4):
                    given += len(pending)
                    yield bytes(pending)
                    pending.clear()
            yield bytes(pending)
            yield rest.text().encode()
        finally:
            self._over.set()

    def exec_inspect(self, _: str) -> dict[str, int]:
        """Asked for where time is over, and before what was printed is looked at: ends the tests, and waits for their last words."""
        self._container.end_tests()
        self._over.wait(_SETTLING)
        return {"Pid": 0}
