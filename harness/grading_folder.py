"""A private folder to grade in: hidden tests lie nowhere beside the working copy of an agent that is still at work."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.environments.local import end_left_behind
from harness.files import remove_tree

_PREFIX = "swe-memory-grade-"


@contextlib.contextmanager
def private_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder in ``parent`` that only this user can enter, removed afterwards.

    None is the system's temporary folder. The folder is held with a lock there, so that one that a kill left behind can be told, and is removed by whoever
    makes the next.
    """
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    else:
        _remove_abandoned(Path(tempfile.gettempdir()))
    folder, handle = _locked_folder(parent)
    try:
        yield folder
    finally:
        os.close(handle)
        remove_tree(folder)


def _locked_folder(parent: Path | None) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if folder.exists():  # else another grader took it for abandoned before it was locked
                return folder, handle
            os.close(handle)


def _remove_abandoned(parent: Path) -> None:
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        # Somebody else's, or just gone, or held by a grader at work.
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for place in (folder, *folder.iterdir()):  # tests run below it
                    end_left_behind(place)
                remove_tree(folder)
            finally:
                os.close(handle)
