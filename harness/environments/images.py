"""The images of issues: the local one first, else pulled; listed with the disk that they take; evicted when it is needed."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.environments.engine import engine_errors
from harness.environments.eviction import IDLE_SECONDS, Image, UsageRecord, choose_evictions
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

_pulling: dict[tuple[int, str], threading.Lock] = {}
_pulling_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull has come: bytes of the layers that the registry has told of so far, downloaded and in all. ``status`` is the engine's last word."""

    image: str
    status: str
    done: int
    total: int


Progress = Callable[[PullProgress], None]


@dataclass(frozen=True, slots=True)
class ImageList:
    """Images that were asked for, and the disk: ``taken`` by the layers of all images of the engine, ``free`` where the engine keeps them (None where that
    is another machine's disk), ``needed`` by those that are missing as (at least, at most), estimated as if they were like those that are present: what each of
    these has alone, and all of its layers (None where none is present)."""

    present: tuple[Image, ...]
    missing: tuple[str, ...]
    taken: int
    free: int | None
    needed: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Eviction:
    """What was removed and how many bytes the images of the engine take now; ``enough`` is whether that is within what was asked for."""

    removed: tuple[Image, ...]
    taken: int
    enough: bool


def ensure_image(
    client: DockerClient,
    name: str,
    progress: Progress | None = None,
    *,
    platform: str | None = None,
    usage: UsageRecord | None = None,
) -> Image:
    """The image of that name, from this engine or else pulled; noted as used.

    Threads that want the same image at once wait for one pull. ``platform`` (``linux/amd64``) is for engines of another architecture that emulate it.
    Raises InfraError where it is neither here nor to be had, with what the engine or the registry said.
    """
    found = _find(client, name)
    if found is None:
        with _one_at_a_time(client, name):
            found = _find(client, name)
            if found is None:
                pull(client, name, progress, platform=platform)
                found = _find(client, name)
    if found is None:
        raise InfraError(f"image {name} was pulled and is not here", "See the engine's log.")
    usage = usage or UsageRecord()
    # Without the record an image only cannot be evicted by us.
    with contextlib.suppress(OSError):
        usage.touch(_engine_id(client), found.id, _usual(name))
    return replace(found, last_used=usage.now())


def pull(client: DockerClient, name: str, progress: Progress | None = None, *, platform: str | None = None) -> None:
    """Pull an image, whether it is here or not. Raises InfraError with what the engine or the registry said."""
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    layers: dict[str, tuple[int, int]] = {}
    try:
        with engine_errors(f"pull image {name}"):
            for event in client.api.pull(repository, tag=tag or "latest", stream=True, decode=True, platform=platform):
                if "error" in event:
                    raise InfraError(str(event["error"]))
                _note(layers, event)
                if progress is not None:
                    done, total = (sum(layer[part] for layer in layers.values()) for part in (0, 1))
                    progress(PullProgress(name, str(event.get("status", "")), done, total))
    except InfraError as error:
        said = error.what.removeprefix(f"could not pull image {name}: ")
        raise InfraError(f"image {name} is not on this engine and could not be pulled: {said}", _advice(said) or error.hint) from error


def list_images(client: DockerClient, names: Iterable[str], *, usage: UsageRecord | None = None) -> ImageList:
    """Which of the images are here, and what disk they take and need. Raises InfraError where the engine does not answer."""
    images, taken = _all_images(client, usage or UsageRecord())
    by_name = {name: image for image in images for name in (image.id, *image.names)}
    present: dict[str, Image] = {}
    missing: list[str] = []
    for name in dict.fromkeys(names):
        if (image := by_name.get(_usual(name))) is not None:
            present[image.id] = image
        else:
            missing.append(name)
    own, whole = sum(image.own for image in present.values()), sum(image.size for image in present.values())
    needed = (round(own / len(present) * len(missing)), round(whole / len(present) * len(missing))) if present else None
    return ImageList(tuple(present.values()), tuple(missing), taken, _free(client), needed)


def evict_images(
    client: DockerClient,
    budget: int,
    *,
    keep: Collection[str] = (),
    idle: float = IDLE_SECONDS,
    usage: UsageRecord | None = None,
) -> Eviction:
    """Remove images that we used, with all their names, until those of the engine take ``budget`` bytes at most.

    Which ones: :func:`~harness.environments.eviction.choose_evictions`.

    What an image shares with others is freed with the last of them, so the disk is measured anew after each removal. Raises InfraError where the engine
    fails.
    """
    import docker

    usage = usage or UsageRecord()
    kept = {_usual(name) for name in keep}
    removed: list[Image] = []
    refused: set[str] = set()
    while True:
        images, taken = _all_images(client, usage)
        candidates = (image for image in images if image.id not in refused)
        chosen = choose_evictions(candidates, excess=taken - budget, now=usage.now(), keep=kept, idle=idle)
        if not chosen:
            return Eviction(tuple(removed), taken, taken <= budget)
        image = chosen[0]
        with engine_errors(f"remove image {image.names[0] if image.names else image.id}"):
            try:
                for name in image.names or (image.id,):
                    client.api.remove_image(name, noprune=False)
            except docker.errors.NotFound:
                pass  # somebody else removed it
            except docker.errors.APIError as error:
                if error.status_code != 409:
                    raise
                refused.add(image.id)  # in use since we looked, or the parent of another image
                continue
        removed.append(image)
        with contextlib.suppress(OSError):
            usage.forget(_engine_id(client), image.id)


@contextlib.contextmanager
def _one_at_a_time(client: DockerClient, name: str) -> Iterator[None]:
    with _pulling_lock:
        lock = _pulling.setdefault((id(client), name), threading.Lock())
    with lock:
        yield


def _find(client: DockerClient, name: str) -> Image | None:
    import docker

    with engine_errors(f"look for image {name}"):
        try:
            found = client.images.get(name)
        except docker.errors.ImageNotFound:
            return None
    return _image(found.attrs)


def _image(told: Mapping[str, Any]) -> Image:
    return Image(
        str(told["Id"]), tuple(told.get("RepoTags") or ()), int(told.get("Size") or 0), architecture=str(told.get("Architecture") or "")
    )


def _all_images(client: DockerClient, usage: UsageRecord) -> tuple[list[Image], int]:
    """Every image of the engine with what is known of its use, and the bytes that all their layers take."""
    with engine_errors("ask the engine for the disk that its images take"):
        disk = client.df()
        containers = client.api.containers(all=True)
    busy = {str(container["ImageID"]) for container in containers}
    used = usage.read(_engine_id(client))
    images = []
    for told in disk.get("Images") or ():
        image = _image(told)
        shared = max(0, int(told.get("SharedSize") or 0))  # -1: not known
        use = used.get(image.id)
        images.append(
            replace(
                image,
                shared=shared,
                last_used=use.last if use else None,
                foreign=use is None or not {*image.names} <= {*use.names},
                in_use=image.id in busy or int(told.get("Containers") or 0) > 0,
            )
        )
    return images, int(disk.get("LayersSize") or 0) or sum(image.size for image in images)


def _engine_id(client: DockerClient) -> str:
    with engine_errors("ask the engine who it is"):
        info = client.info()
    return str(info.get("ID") or info.get("Name") or "")


def _free(client: DockerClient) -> int | None:
    """Bytes free where the engine keeps its images; None where that is not this machine's disk."""
    with engine_errors("ask the engine where it keeps images"):
        root = Path(str(client.info().get("DockerRootDir") or "/nowhere"))
    if not client.api.base_url.startswith("http+docker://localhost") or not root.is_dir():
        return None
    return shutil.disk_usage(root).free


def _usual(name: str) -> str:
    """A name as engines list it: with its tag, and without Docker Hub's address."""
    name = name.removeprefix("docker.io/").removeprefix("library/")
    last = name.rsplit("/", 1)[-1]
    return name if ":" in last or "@" in last else f"{name}:latest"


def _note(layers: dict[str, tuple[int, int]], event: Mapping[str, Any]) -> None:
    """Take in one event of a pull: what it says of a layer's bytes. Unpacking is told in bytes too, and is not counted again."""
    layer, detail = event.get("id"), event.get("progressDetail") or {}
    if not layer:
        return
    done, total = layers.get(layer, (0, 0))
    if event.get("status") == "Downloading":
        layers[layer] = int(detail.get("current") or done), max(total, int(detail.get("total") or 0))
    elif event.get("status") in ("Download complete", "Pull complete"):
        layers[layer] = total, total


def _advice(said: str) -> str:
    low = said.lower()
    if "no space left" in low:
        return "The engine's disk is full: make room (swe-memory images evict, docker system prune)."
    if "toomanyrequests" in low or "rate limit" in low:
        return "The registry limits anonymous pulls: docker login, or wait."
    if "no matching manifest" in low:
        return "It is not made for this engine's architecture; an engine that emulates x86-64 takes the platform linux/amd64."
    if "denied" in low or "not found" in low or "unknown" in low or "does not exist" in low:
        return "Check the name; a private one needs docker login."
    if "dial tcp" in low or "timeout" in low or "connection refused" in low or "lookup" in low:
        return "The engine does not reach the registry: check its network, or load the image from a file (docker load)."
    return ""
