"""One container and the processes we start in it, over the docker SDK.

The SDK's own time-out does not bound a process that was started (its stream may stay silent for ever), so each read has a limit of its own here.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.environments.engine import engine_errors, infra_error
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

KEEPER = """\
for signal in {1..64}; do [ $signal = 17 ] || trap '' $signal; done 2>/dev/null
exec {quiet}<> <(:)
while :; do read -r -u $quiet _; done
"""
"""What a container's first process is: a shell that waits for ever. No signal from inside can end a namespace's first process unless it asked for the
signal, so whatever an agent kills, its container goes on; and bash reaps what has no parent any more. (17 is SIGCHLD, which that needs.)"""

ROOT = "0"
UNKNOWN = -1
"""The code of a command of ours whose end nobody told."""
_OURS = """\
a=$1 b=$2
shift 2
main() {{
{script}
}}
main "$@" 2>/dev/null
echo "$a$b $?"
"""
_BLOCK = 65_536
_SETTLING = 2.0  # seconds after which an engine has told what became of a container
_LOOK = 0.05  # seconds between two looks at that
_CODE = 8  # bytes of a code and its newline, at most
_HEADER = 8  # bytes before each block of a stream: which stream, and how long


@dataclass(frozen=True, slots=True)
class Finished:
    """What a script of ours printed and the code that it ended with."""

    output: bytes
    returncode: int


class Stream:
    """What a process in a container prints, as it comes."""

    def __init__(self, container: Container, exec_id: str, response: Any) -> None:
        self.exec_id = exec_id
        self._container = container
        self._response = response
        self._socket = getattr(response, "_sock", response)  # a bare socket: reads with a time limit must not go through a buffer
        self._raw = _buffered(response, self._socket)
        self._left = 0  # bytes still to come of the block whose header was read

    def read(self, seconds: float) -> bytes | None:
        """The next bytes; b"" at the end; None where nothing came within ``seconds``. Raises InfraError where the connection broke."""
        until = time.monotonic() + seconds
        while True:
            if self._left and self._raw:
                block = bytes(self._raw[: self._left])
                del self._raw[: len(block)]
                self._left -= len(block)
                return block
            if not self._left and len(self._raw) >= _HEADER:
                self._left = int.from_bytes(self._raw[4:_HEADER], "big")
                del self._raw[:_HEADER]
                continue
            left = until - time.monotonic()
            if left <= 0:
                return None
            try:
                self._socket.settimeout(left)
                more = self._socket.recv(_BLOCK)
            except TimeoutError:
                return None
            except OSError as error:
                raise self._container.broken("read what a command prints", error) from error
            if not more:
                return b""
            self._raw += more

    def close(self) -> None:
        """Stop listening. The process goes on."""
        for part in (self._response, self._socket, getattr(self._response, "_response", None)):
            with contextlib.suppress(Exception):
                part.close()  # type: ignore[union-attr]


class Container:
    """A container that was created and started here. ``user`` is the one that its image's commands run as ("" for root).

    Every method raises InfraError where the engine or the container fails: a container that has ended was ended from outside (see :data:`KEEPER`), or by
    the kernel when its memory was used up.
    """

    def __init__(self, client: DockerClient, container_id: str, user: str) -> None:
        self.id = container_id
        self.user = user
        self._api = client.api
        self.restarts = 0
        with engine_errors(f"start container {self.name}"):
            self._api.start(self.id)
            self._began = self._state()["StartedAt"]

    @property
    def name(self) -> str:
        """How the engine's own commands call it."""
        return self.id[:12]

    @property
    def request_seconds(self) -> float:
        """How long the engine may take to answer."""
        return float(self._api.timeout)

    def restart(self) -> None:
        """End every process in it; its files stay. Raises InfraError also where it had ended already."""
        if not self.running():
            raise self.broken("run a command", None)
        with engine_errors(f"restart container {self.name}"):
            self._api.restart(self.id, timeout=0)
            self._began = self._state()["StartedAt"]
        self.restarts += 1

    def open(self, command: Sequence[str], *, user: str = ROOT) -> Stream:
        """Start ``command`` and listen to what it prints. It reads nothing, and its working directory is /."""
        import docker
        import requests

        try:
            exec_id = self._api.exec_create(self.id, list(command), user=user, workdir="/")["Id"]
            return Stream(self, exec_id, self._api.exec_start(exec_id, socket=True))
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise self.broken("start a command", error) from error

    def returncode(self, stream: Stream) -> int | None:
        """The code that a started process ended with, None while it runs."""
        import docker
        import requests

        try:
            told = self._api.exec_inspect(stream.exec_id)
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise self.broken("ask how a command ended", error) from error
        return None if told["Running"] or told["ExitCode"] is None else int(told["ExitCode"])

    def run(self, script: str, *arguments: str, seconds: float, limit: int = 64_000_000) -> Finished:
        """Run a bash script of ours, as root, with all that it prints to standard output. Nothing is forked that the script does not fork.

        Raises InfraError also where it takes more than ``seconds`` or prints more than ``limit`` bytes.
        """
        halves = secrets.token_hex(8), secrets.token_hex(8)
        mark = "".join(halves).encode()
        # The end is told by a mark, since engines keep a stream open for seconds while a process of another command still prints.
        stream = self.open(["bash", "-pc", _OURS.format(script=script), "bash", *halves, *arguments], user=ROOT)
        output = bytearray()
        until = time.monotonic() + seconds
        try:
            while (block := stream.read(until - time.monotonic())) != b"":
                if block is None or time.monotonic() > until:
                    raise InfraError(
                        f"a command of the harness took more than {seconds:.0f} s in container {self.name}", "See what the machine does."
                    )
                output += block
                at = output.find(mark, max(0, len(output) - len(block) - len(mark) - _CODE))
                if at >= 0 and output.endswith(b"\n"):
                    return Finished(bytes(output[:at]), int(output[at + len(mark) :]))
                if len(output) > limit:
                    raise InfraError(f"a command of the harness printed more than {limit} bytes in container {self.name}")
        finally:
            stream.close()
        # It was killed, or the whole container was.
        self.check_alive()
        return Finished(bytes(output), UNKNOWN)

    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file, owned by root, whose folder is made if need be."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
            tar.addfile(entry, io.BytesIO(content))
        with engine_errors(f"write {path} in container {self.name}"):
            self._api.put_archive(self.id, "/", archive.getvalue())

    def broken(self, doing: str, error: Exception | None) -> InfraError:
        """The InfraError that says what became of the container, as far as the engine knows."""
        import docker
        import requests

        name = f"container {self.name}"
        until = time.monotonic() + _SETTLING
        try:
            while (state := self._state()).get("Running") and state["StartedAt"] == self._began and not state.get("Paused"):
                if time.monotonic() > until:
                    break
                time.sleep(_LOOK)  # what happens to it may not be told yet
        except docker.errors.NotFound:
            return InfraError(f"could not {doing}: {name} was removed from outside", "Leave containers alone while a run uses them.")
        except (docker.errors.DockerException, requests.RequestException, OSError) as silent:
            return infra_error(doing, silent)
        if state.get("Paused"):
            return InfraError(f"could not {doing}: {name} is paused", f"docker unpause {self.name}")
        if not state.get("Running"):
            if state.get("OOMKilled"):
                return InfraError(f"could not {doing}: {name} was ended because its memory was used up", "Give containers more memory.")
            return InfraError(
                f"could not {doing}: {name} was ended from outside (code {state.get('ExitCode')})",
                "Was the engine restarted, or the container stopped? The machine's log may tell.",
            )
        if state["StartedAt"] != self._began:
            return InfraError(f"could not {doing}: {name} was restarted from outside", "Leave containers alone while a run uses them.")
        if error is None:
            return InfraError(f"could not {doing}: the connection to {name} broke off", "Was the engine restarted?")
        return infra_error(f"{doing} in {name}", error)

    def running(self) -> bool:
        """Whether it still runs as it was started."""
        import docker

        with engine_errors(f"look at container {self.name}"):
            try:
                state = self._state()
            except docker.errors.NotFound:
                return False
        return bool(state.get("Running")) and state["StartedAt"] == self._began

    def check_alive(self) -> None:
        """To be called where a process ended that should not have: raises InfraError if it ended with its container.

        Engines tell of the process before they tell of the container, so a new process is tried first, and then the engine is given some time.
        """
        stream = self.open(["true"])
        try:
            while stream.read(_SETTLING) not in (b"", None):
                pass
        finally:
            stream.close()
        until = time.monotonic() + _SETTLING
        while self.running():
            # Without success, it may still be alive and have no room for another process.
            if self.returncode(stream) == 0 or time.monotonic() > until:
                return
            time.sleep(_LOOK)
        raise self.broken("run a command", None)

    def _state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self._api.inspect_container(self.id)["State"]
        return state


def remove(client: DockerClient, container_id: str) -> None:
    """Remove a container by force; nothing happens where it is gone already, or going. Raises InfraError where the engine fails."""
    import docker

    with engine_errors(f"remove container {container_id[:24]}"):
        try:
            client.api.remove_container(container_id, force=True, v=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != 409 or "already in progress" not in str(error.explanation):
                raise


def _buffered(response: Any, socket: Any) -> bytearray:
    """What the HTTP client has read beyond the header of its answer: the first bytes of the stream, where they came in one packet."""
    file: Any = getattr(getattr(getattr(getattr(response, "_response", None), "raw", None), "_fp", None), "fp", None)
    if not hasattr(file, "peek") or not hasattr(socket, "setblocking"):
        return bytearray()
    socket.setblocking(False)
    try:
        return bytearray(file.read1(len(file.peek(1)))) if file.peek(1) else bytearray()
    except (BlockingIOError, ValueError):
        return bytearray()
    finally:
        socket.setblocking(True)
