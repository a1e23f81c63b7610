"""The repository in a container as an attempt sees it: its future hidden, and the patch that the agent made in it.

The counterpart of :mod:`harness.workdir` for containers. One thing differs: the official images hold changes of their builder's (commits on top of the base,
edited files, files that git does not know), and the grader applies patches to the same image. So a patch is the difference to the folder as the image had
it, which is the base commit where nobody changed anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.hidden_future import BUILDERS, HiddenFuture, hide_future, shell_script
from harness.workdir import MOST_BYTES, MOST_NEW_FILES, PatchRefused

if TYPE_CHECKING:
    from harness.environments.container import Container
    from harness.environments.docker import DockerEnvironment

MOST_PATCH_BYTES = 60_000_000
"""Bytes of a patch. Deleted files count here, not in :data:`harness.workdir.MOST_BYTES`."""
_LARGEST_IGNORE_FILE = 1_000_000  # bytes; git reads a .gitignore as a whole
_SECONDS = 600.0
_SECTION = re.compile(rb"^diff --git .*$", re.MULTILINE)
_STATUS = {"replaced": "WorkdirReplaced", "large": "PatchTooLarge", "unreadable": "PatchUnreadable"}


@dataclass(frozen=True, slots=True)
class ContainerWorkdir:
    """A prepared repository at ``root`` in a running container. ``hidden`` is what was done to it, for the attempt's record."""

    container: Container
    root: str
    hidden: HiddenFuture

    def record(self) -> dict[str, Any]:
        """What is written down about the preparation."""
        return self.hidden.as_record()

    def patch(self) -> str:
        """What the agent changed: edited, new, deleted and binary files, whether committed or not; "" for nothing.

        What :func:`harness.workdir.collect_patch` promises holds here: ignored files stay out, the agent's own .git is not read, text in another encoding
        than UTF-8 becomes a binary hunk, nested repositories are left out, FIFOs, sockets and devices are removed. All processes of the container are
        ended first.

        Raises :class:`harness.workdir.PatchRefused` where the agent left nothing that a patch can be taken from, InfraError where the container fails.
        """
        found = self._run("survey", str(MOST_NEW_FILES), str(_LARGEST_IGNORE_FILE))
        _check_size(_records(found))
        whole = self._patch()
        try:
            return whole.decode("utf-8")
        except UnicodeDecodeError:
            return self._with_binary_hunks(whole)

    def _with_binary_hunks(self, whole: bytes) -> str:
        """The patch with those files as binary hunks whose text is not UTF-8."""
        parts = _sections(whole)
        odd = [number for number, part in enumerate(parts) if not _is_text(part)]
        binary = iter(_sections(self._patch(*odd)))
        return b"".join(next(binary) if number in odd else part for number, part in enumerate(parts)).decode("utf-8")

    def _patch(self, *numbers: int) -> bytes:
        return self._run("patch", str(MOST_PATCH_BYTES), *map(str, numbers))

    def _run(self, what: str, *arguments: str) -> bytes:
        done = self.container.run(
            shell_script("collect_patch"), what, self.root, self.hidden.start, *arguments, seconds=_SECONDS, limit=4 * MOST_PATCH_BYTES
        )
        if done.returncode != 0:
            kind, _, said = done.output.rpartition(b"error ")[2].rstrip(b"\0").decode("utf-8", errors="replace").partition(" ")
            raise PatchRefused(_STATUS.get(kind, "PatchUnreadable"), said or "what takes the patch could not run")
        return done.output


def prepare_container(environment: DockerEnvironment, base_commit: str, *, builders: Sequence[str] = BUILDERS) -> ContainerWorkdir:
    """Hide what comes after ``base_commit`` in the repository that the environment works in; see :func:`harness.hidden_future.hide_future`.

    Raises InfraError where that cannot be done: the image is not the issue's, or is broken.
    """
    hidden = hide_future(environment.container, base_commit, root=environment.workdir, builders=builders, image=environment.image)
    return ContainerWorkdir(environment.container, environment.workdir, hidden)


def _records(printed: bytes) -> Mapping[bytes, dict[bytes, bytes]]:
    """Kind -> file name -> size, as written."""
    found: dict[bytes, dict[bytes, bytes]] = {b"new": {}, b"was": {}, b"is": {}}
    for record in printed.split(b"\0"):
        kind, _, value = record.partition(b" ")
        if kind == b"was":
            about, _, name = value.partition(b"\t")
            found[kind][name] = about.split()[-1]
        elif kind in found:
            size, _, name = value.partition(b" ")
            found[kind][name] = size
    return found


def _check_size(found: Mapping[bytes, Mapping[bytes, bytes]]) -> None:
    """Refuse what is beyond the limits before git reads it."""
    if len(found[b"new"]) > MOST_NEW_FILES:
        raise PatchRefused("PatchTooLarge", f"more than {MOST_NEW_FILES} new files")
    total = sum(map(int, found[b"new"].values()))
    total += sum(int(size) for name, size in found[b"is"].items() if found[b"was"].get(name, b"-") not in (b"-", size))
    if total > MOST_BYTES:
        raise PatchRefused("PatchTooLarge", f"new and resized files have {total} bytes; a patch holds {MOST_BYTES} at most")


def _sections(whole: bytes) -> list[bytes]:
    """A patch, file by file. No other line of a patch begins as a file's first does; a file that became a link has two of them, one after the other."""
    starts = list(_SECTION.finditer(whole))
    kept = [match for number, match in enumerate(starts) if not number or match[0] != starts[number - 1][0]]
    ends = [match.start() for match in kept[1:]] + [len(whole)]
    return [whole[match.start() : end] for match, end in zip(kept, ends, strict=True)]


def _is_text(part: bytes) -> bool:
    try:
        part.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
