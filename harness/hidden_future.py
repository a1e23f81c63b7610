"""The repository in a container, as of the base commit and nothing later: whatever git, or a look into .git, could tell of later times is gone.

Images have shown agents the fix: in commits after the base, tags, branches, reflogs, a stash or unreachable objects (SWE-bench issue 465,
mini-swe-agent issue 787). So the .git folder is not cleaned but replaced, by one that is built from what the base commit reaches (a shell
script in ``harness/shell``; :func:`harness.workdir.prepare_workdir` does the same on this machine). The files beside .git stay as the image has them,
those included that were built.

The official images have a commit of their builder's on top of the base, which holds what the environment's setup changed. It is made anew, without its
author, date and message. Any other commit is not accepted as the one that is checked out: then the files themselves would tell of later times.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from swe_memory.errors import InfraError, UsageError

if TYPE_CHECKING:
    from harness.environments.container import Container

BUILDERS = ("setup@swebench.config",)
"""The committer addresses by which the commits of image builders are known. This one is SWE-bench's."""

MOST_NAMES = 100
"""Names of each kind that a record holds; counts are whole."""
_SECONDS = 900.0
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_ADVICE = "Rebuild the image with the base commit checked out."


@dataclass(frozen=True, slots=True)
class HiddenFuture:
    """What was done to one repository, for the attempt's record.

    ``head`` is the commit that is checked out now: the base, or one made on top of it for the files in ``setup``, which the image's builder had changed.
    ``refs`` are the names that are gone (branches, tags, stash, notes, remote ones), ``copies`` other places in the container that held the same project's
    history (repositories, folders of objects, packs, bundles), ``undecided`` those of which that cannot be told since something in them cannot be read:
    they are left. ``worktrees`` are folders that shared the repository. ``start`` is the tree of all files as the image had them, tracked or not (but for
    ignored ones), which a patch is the difference to. ``objects`` is how many objects are gone, ``reflog`` how many entries of reflogs.
    """

    base: str
    head: str
    start: str
    kept: int
    objects: int
    reflog: int
    untracked: int
    refs: tuple[str, ...]
    pseudo_refs: tuple[str, ...]
    worktrees: tuple[str, ...]
    copies: tuple[str, ...]
    undecided: tuple[str, ...]
    submodules: tuple[str, ...]
    emptied_submodules: tuple[str, ...]
    setup: tuple[str, ...]
    seconds: float

    def as_record(self) -> dict[str, Any]:
        """As it is written down: plain values, at most :data:`MOST_NAMES` names of a kind, with the number of all beside them."""
        names = ("refs", "pseudo_refs", "worktrees", "copies", "undecided", "submodules", "emptied_submodules", "setup")
        found: dict[str, Any] = {
            name: {"count": len(getattr(self, name)), "names": list(getattr(self, name)[:MOST_NAMES])}
            for name in names
            if getattr(self, name)
        }
        counts = {name: getattr(self, name) for name in ("base", "head", "kept", "objects", "reflog", "untracked")}
        return {**counts, **found, "seconds": round(self.seconds, 3)}


def hide_future(
    container: Container, base_commit: str, *, root: str = "/testbed", builders: Sequence[str] = BUILDERS, image: str = ""
) -> HiddenFuture:
    """Do it, and look whether it worked. ``base_commit`` is a full hash; ``builders`` as :data:`BUILDERS`; ``image`` is the image's name, for messages.

    Raises InfraError where the image lacks a program that this needs, where there is no repository at ``root`` or no such commit in it, where another commit
    is checked out, and where something is left that should not be.
    """
    if not _COMMIT.fullmatch(base_commit):
        raise UsageError(f"{base_commit!r} is not a full commit hash", "Write all 40 hex digits.")
    began = time.monotonic()
    done = container.run(shell_script("hide_future"), root, base_commit, " ".join(builders), container.user, seconds=_SECONDS)
    found: dict[str, list[str]] = {}
    for record in done.output.split(b"\0"):
        name, _, value = record.decode("utf-8", errors="replace").partition(" ")
        found.setdefault(name, []).append(value)
    if "error" in found or done.returncode != 0 or "reached" not in found:
        raise _failure(found.get("error", ["unknown "])[0], root, base_commit, image)
    _check(found, root)
    kept = set(found.get("kept", ()))
    return HiddenFuture(
        base=base_commit,
        head=found["head"][0],
        start=found["start"][0],
        kept=int(found["held"][0]),
        objects=int(found["objects"][0]) - int(found["held"][0]),
        reflog=int(found["reflog"][0]),
        untracked=int(found["untracked"][0]),
        refs=tuple(ref for ref in found.get("ref", ()) if ref not in kept),
        pseudo_refs=tuple(found.get("pseudo", ())),
        worktrees=tuple(found.get("worktree", ())),
        copies=tuple(found.get("copy", ())),
        undecided=tuple(found.get("undecided", ())),
        submodules=tuple(found.get("submodule", ())),
        emptied_submodules=tuple(found.get("emptied", ())),
        setup=tuple(found.get("setup", ())),
        seconds=time.monotonic() - began,
    )


def shell_script(name: str) -> str:
    """One of the scripts in ``harness/shell``, with what they share before it."""
    folder = resources.files("harness") / "shell"
    return "\n".join((folder / f"{part}.sh").read_text(encoding="utf-8") for part in ("git", name))


def _check(found: Mapping[str, Sequence[str]], root: str) -> None:
    """Nothing is left beside what the base reaches."""
    strange = [ref for ref in found.get("kept", ()) if ref != "refs/heads/main" and not ref.startswith("refs/tags/")]
    left = [*found.get("left", ()), *found.get("loose", ()), *strange]
    if left or found["held"] != found["reached"]:
        raise InfraError(
            f"{root} still holds what the base commit does not reach: {', '.join(left[:5]) or 'objects'}",
            "This is a bug; please report it.",
        )


def _failure(said: str, root: str, base_commit: str, image: str) -> InfraError:
    kind, _, what = said.partition(" ")
    if kind == "lacks":
        return InfraError(
            f"{f'image {image}' if image else 'the image'} lacks what hiding the future needs: {what}",
            "Use an image with git, GNU coreutils, findutils and sed.",
        )
    if kind == "norepository":
        return InfraError(f"there is no git repository at {root} in the image", "Use an image that holds the repository there.")
    if kind == "nobase":
        return InfraError(f"the repository at {root} has no commit {base_commit}", "Is this the issue's image?")
    if kind == "nohead":
        return InfraError(f"nothing is checked out at {root}: HEAD is {what.strip()}", _ADVICE)
    if kind == "elsewhere":
        return InfraError(f"the image has commit {what} checked out at {root}, which is not the base commit {base_commit}", _ADVICE)
    if kind == "left":
        return InfraError(
            f"what could tell of the future of the repository at {root} cannot be removed: {what}", "Can it be written to in a container?"
        )
    return InfraError(
        f"the future of the repository at {root} could not be hidden: {what.strip() or 'the script ended early'}",
        "See whether the image is whole.",
    )
