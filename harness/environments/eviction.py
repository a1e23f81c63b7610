"""Which images may go when their disk is needed: the policy, and the record of when each was last used (engines keep none)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

IDLE_SECONDS = 600.0
"""An image that was asked for more recently than this is not evicted: a container may be about to be made of it."""
_LOCK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Image:
    """An image on an engine. ``size`` and ``shared`` in bytes: all of its layers, and those of them that other images have too; removing it frees at least
    the difference. ``last_used`` in seconds since the epoch, None where we never used it; ``foreign`` where it has a name that we never used it by;
    ``in_use`` where a container of it exists, running or not. ``architecture`` as Docker writes it (``amd64``, ``arm64``)."""

    id: str
    names: tuple[str, ...]
    size: int
    shared: int = 0
    architecture: str = ""
    last_used: float | None = None
    foreign: bool = False
    in_use: bool = False

    @property
    def own(self) -> int:
        """Bytes that no other image has."""
        return max(0, self.size - self.shared)


def choose_evictions(
    images: Iterable[Image], *, excess: int, now: float, keep: Collection[str] = (), idle: float = IDLE_SECONDS
) -> tuple[Image, ...]:
    """The images to remove, in this order, until ``excess`` bytes are free; all that may go, where that is not enough. Pure.

    The least recently used goes first (of equally old ones the largest). Never one that we did not use or that has a name of somebody else's, that a container
    was made of, that is named in ``keep`` (names or ids: what is still to come), or that was used less than ``idle`` seconds ago.
    """
    kept = set(keep)
    candidates = [
        (image.last_used, -image.own, image.id, image)
        for image in images
        if image.last_used is not None
        and not (image.foreign or image.in_use)
        and now - image.last_used >= idle
        and kept.isdisjoint((image.id, *image.names))
    ]
    chosen: list[Image] = []
    freed = 0
    for *_, image in sorted(candidates, key=lambda candidate: candidate[:3]):
        if freed >= excess:
            break
        chosen.append(image)
        freed += image.own
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Use:
    """When an image was last used, in seconds since the epoch, and the names that it was asked for by."""

    last: float
    names: tuple[str, ...] = ()


class UsageRecord:
    """When images were last used and by which names, in a file that all processes of a user share. ``clock`` gives seconds since the epoch.

    A file that cannot be read counts as empty: what is not known to be ours is not evicted. Raises OSError where the file cannot be written.
    """

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        if path is None:
            import platformdirs

            path = Path(platformdirs.user_state_dir("swe-memory")) / "images.json"
        self.path = path
        self.now = clock

    def read(self, engine: str) -> Mapping[str, Use]:
        """Image id -> its use, on the engine of that id."""
        return {image: use for image, told in self._whole().get(engine, {}).items() if (use := _use(told)) is not None}

    def touch(self, engine: str, image: str, name: str) -> None:
        """Note that an image is used now, by this name."""
        self._change(engine, image, name)

    def forget(self, engine: str, image: str) -> None:
        """Note that an image is gone."""
        self._change(engine, image, None)

    def _whole(self) -> dict[str, dict[str, object]]:
        try:
            found = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {str(engine): images for engine, images in found.items() if isinstance(images, dict)}

    def _change(self, engine: str, image: str, name: str | None) -> None:
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock", timeout=_LOCK_SECONDS):
            whole = self._whole()
            images = whole.setdefault(engine, {})
            if name is None:
                images.pop(image, None)
            else:
                known = _use(images.get(image)) or Use(0.0)
                images[image] = {"last": self.now(), "names": sorted({*known.names, name})}
            part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
            part.write_text(json.dumps(whole, sort_keys=True), encoding="utf-8")
            part.replace(self.path)


def _use(told: object) -> Use | None:
    """A use as the file has it; None where it makes no sense."""
    last, names = (told.get("last"), told.get("names")) if isinstance(told, dict) else (None, None)
    if not isinstance(last, int | float) or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return Use(float(last), tuple(names))
