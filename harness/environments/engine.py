"""The container engine: how it is found, and what its failures are called.

Everything that goes wrong between us and the engine is an :class:`~swe_memory.errors.InfraError`: never the agent's doing. Whatever speaks Docker's API
does: Docker itself, rootless or not, and Podman's service.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

REQUEST_SECONDS = 120.0
"""How long one request may stay without an answer before the engine counts as hung."""
_CONNECTIONS = 64  # kept open for reuse; more workers than that work, with new connections
_START_IT = "Start it, or point DOCKER_HOST at one that runs."


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine says of itself: ``architecture`` as uname has it (``x86_64``, ``aarch64``), ``memory`` in bytes, ``root`` the folder of its
    images on its own machine, ``rootless`` whether it runs without root, ``limits`` the limits of ours that it can enforce."""

    host: str
    name: str
    version: str
    architecture: str
    cpus: int
    memory: int
    root: str
    rootless: bool
    limits: tuple[str, ...]


def connect(host: str | None = None, *, request_seconds: float = REQUEST_SECONDS) -> DockerClient:
    """A client of the engine at ``host``; None for the one that the user's own ``docker`` command would take: DOCKER_HOST, then the current
    context, then the usual sockets (those of rootless engines and of Podman last). The caller closes it; threads may share it.

    Raises InfraError where none answers.
    """
    import docker
    import requests

    variables = dict(os.environ)
    if host is None and not variables.get("DOCKER_HOST"):
        host = _usual_host()
    if host is not None:
        variables["DOCKER_HOST"] = host
    asked = variables.get("DOCKER_HOST", "the usual socket")
    try:
        client = docker.from_env(environment=variables, timeout=int(request_seconds), max_pool_size=_CONNECTIONS)
        client.ping()
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as error:
        said = _innermost(error)
        advice = "See the engine's documentation on who may use its socket." if said == os.strerror(errno.EACCES) else _START_IT
        raise InfraError(f"no container engine answers at {asked}: {said}", advice) from error
    return client


def describe(client: DockerClient) -> Engine:
    """What the engine behind ``client`` is. Raises InfraError where it does not answer."""
    with engine_errors("ask the engine what it is"):
        version: Mapping[str, Any] = client.version()
        info: Mapping[str, Any] = client.info()
    parts = version.get("Components") or [{}]
    able = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "pids": "PidsLimit"}
    return Engine(
        host=client.api.base_url,
        name=str(parts[0].get("Name") or "Docker"),
        version=str(version.get("Version", "")),
        architecture=str(info.get("Architecture", "")),
        cpus=int(info.get("NCPU") or 0),
        memory=int(info.get("MemTotal") or 0),
        root=str(info.get("DockerRootDir") or ""),
        rootless=any("rootless" in str(option) for option in info.get("SecurityOptions") or ()),
        limits=tuple(name for name, key in able.items() if info.get(key)),
    )


@contextlib.contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Whatever the SDK raises inside becomes an InfraError that says what was being done (``doing`` completes "could not ...") and what to do."""
    import docker
    import requests
    import urllib3

    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise infra_error(doing, error) from error


def infra_error(doing: str, error: Exception) -> InfraError:
    """The InfraError for a failure of the SDK; see :func:`engine_errors`."""
    import docker
    import requests

    said = getattr(error, "explanation", None) or _innermost(error)
    if isinstance(error, docker.errors.APIError):
        return InfraError(f"could not {doing}: the engine says: {_short(said)}", _advice(str(said)))
    if isinstance(error, requests.Timeout | TimeoutError):
        return InfraError(f"could not {doing}: the engine did not answer in time", "See whether it hangs (docker ps), and restart it.")
    return InfraError(f"could not {doing}: the engine does not answer: {_short(said)}", _START_IT)


def _advice(said: str) -> str:
    low = said.lower()
    if "no space left" in low or "disk quota" in low:
        return "The engine's disk is full: make room (swe-memory images evict, docker system prune)."
    return "See the engine's own log."


def _usual_host() -> str | None:
    """What the ``docker`` command would use without DOCKER_HOST; None leaves it to the SDK."""
    from docker.context import ContextAPI

    # A broken context is for the user's own docker command to complain about.
    with contextlib.suppress(Exception):
        if (context := ContextAPI.get_current_context()) is not None and context.name != "default" and context.Host:
            return str(context.Host)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usual = [
        "/var/run/docker.sock",
        *([f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"] if runtime else []),
        "/run/podman/podman.sock",
    ]
    for socket in usual:
        if Path(socket).is_socket():
            return f"unix://{socket}"
    return None


def _innermost(error: BaseException) -> str:
    """What the first cause says: the outer layers only repeat it."""
    seen: BaseException = error
    while (cause := seen.__cause__ or seen.__context__) is not None:
        seen = cause
    return _short(getattr(seen, "strerror", None) or str(seen) or type(seen).__name__)


def _short(said: object) -> str:
    return " ".join(str(said).split())[:300]
