"""The agent's copy of the repository: as of the base commit and nothing later; and the patch that the agent made in it.

Copies are made by packing exactly the objects that the base commit reaches, never by ``git clone`` or ``git worktree``: a clone brings refs, tags and
reflogs, a worktree shares its parent's, and both have shown agents the fix (SWE-bench issue 465, mini-swe-agent issue 787).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.gitcmd import GitError, git
from swe_memory.errors import SweMemoryError, UsageError

if TYPE_CHECKING:
    from harness.instances import Instance

BRANCH = "main"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
# Attributes decide what git runs and rewrites on the way in and out. These come before the repository's own, so that bytes stay bytes.
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !diff\n"
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
_CONFIG = """[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\thooksPath = /dev/null
\tfsmonitor = false
[user]
\tname = Agent
\temail = agent@example.invalid
[gc]
\tauto = 0
"""


MOST_NEW_FILES = 2_000
"""New files that a patch may hold."""
MOST_BYTES = 20_000_000
"""Bytes that new and resized files of a patch may have together."""
_LARGEST_IGNORE_FILE = 1_000_000  # bytes; git reads a .gitignore as a whole


class PatchRefused(SweMemoryError):
    """The agent left its copy in a state that no patch is taken from. Its own doing, so never an infra failure.

    ``status`` is the attempt's exit status: ``WorkdirReplaced`` (the folder is gone, or another folder or a link is in its place), ``PatchTooLarge``
    (beyond :data:`MOST_NEW_FILES` or :data:`MOST_BYTES`) or ``PatchUnreadable`` (git cannot take the files in).
    """

    def __init__(self, status: str, what: str) -> None:
        super().__init__(f"{status}: {what}", "The attempt counts as one without a patch.")
        self.status = status


@dataclass(frozen=True, slots=True)
class Workdir:
    """A prepared copy. ``objects`` is the object folder of the repository that it was made from, which the patch is computed against:
    whatever the agent does to its own ``.git``, its patch is still the difference to the base commit. ``identity`` is the folder's device and inode:
    a patch is taken from this very folder, not from what an agent put in its place."""

    path: Path
    base_commit: str
    objects: Path
    identity: tuple[int, int]

    def patch(self, parent: Path | None = None) -> str:
        """See :func:`collect_patch`."""
        return collect_patch(self, parent)


def prepare_workdir(repo_source: Path, base_commit: str, target: Path) -> Workdir:
    """Make ``target`` (absent or empty) a repository on branch ``main`` at ``base_commit`` with its files checked out.

    It holds the objects that ``base_commit`` reaches and the tags that lie on it or on its ancestors (an annotated tag only if it is not younger
    than the commit), so that ``git log``, ``git describe`` and version tools work; no other refs, no reflogs, no remotes, no hooks, no alternates, no
    path of the source. Submodules are not filled.

    Raises :class:`UsageError` where the source has no such commit or the target is in use, :class:`GitError` where git fails.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is not empty", "Name a folder that does not exist yet.")
    source = _git_folder(repo_source)
    base = _resolve(source, base_commit)
    target.mkdir(parents=True, exist_ok=True)
    inside = target / ".git"
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (inside / folder).mkdir(parents=True)
    (inside / "config").write_text(_config(base), encoding="utf-8")
    (inside / "HEAD").write_text(f"ref: refs/heads/{BRANCH}\n", encoding="utf-8")
    (inside / "info" / "attributes").write_text(_ATTRIBUTES, encoding="utf-8")
    tags = _tags(source, base)
    wanted = "".join(f"{oid}\n" for oid in [base, *tags.values()]).encode()
    git(["pack-objects", "--revs", "-q", str((inside / "objects" / "pack" / "pack").resolve())], cwd=source, stdin=wanted)
    shallow = source / "shallow"
    if shallow.is_file():
        held = set(git(["rev-list", base], cwd=source).decode().split())
        kept = [line for line in shallow.read_text(encoding="utf-8").split() if line in held]
        (inside / "shallow").write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    (inside / "refs" / "heads" / BRANCH).write_text(f"{base}\n", encoding="utf-8")
    if tags:
        lines = "".join(f"{oid} {name}\n" for name, oid in sorted(tags.items()))
        (inside / "packed-refs").write_text(f"# pack-refs with: sorted \n{lines}", encoding="utf-8")
    git(["read-tree", "--reset", "-u", base], cwd=target)
    made = target.lstat()
    return Workdir(target, base, source / "objects", (made.st_dev, made.st_ino))


def workdir_for(instance: Instance, target: Path) -> Workdir:
    """:func:`prepare_workdir` for an instance of a dataset. Raises UsageError where the dataset has no repository for it."""
    if instance.repository is None:
        raise UsageError(
            f"there is no local repository for {instance.issue.id} ({instance.issue.repo})",
            "Name the folder that holds the clones (OWNER__NAME or OWNER/NAME in it) when you load the dataset.",
        )
    return prepare_workdir(instance.repository, instance.issue.base_commit, target)


def collect_patch(workdir: Workdir, parent: Path | None = None) -> str:
    """What the agent changed against the base commit: edited, new, deleted and binary files, whether committed or not; "" for nothing.

    Files that the repository's .gitignore leaves out stay out. The agent's own ``.git`` (configuration, hooks, filters, index, commits) is not read:
    the difference is computed with a repository folder made for this call. Text in another encoding than UTF-8 is written as a binary hunk, so that
    the patch is a string and still applies byte for byte. Nested repositories that the agent made are left out. FIFOs, sockets and devices are removed
    first (one in a tracked file's place counts as its deletion), and files and folders that the agent made unreadable are made readable again.

    ``parent`` is the folder for the files of this call (None for the system's temporary folder), named where somebody has to clean up after a kill.

    Raises :class:`PatchRefused` where the agent left nothing that a patch can be taken from, :class:`GitError` where git fails before it looks at the
    agent's files.
    """
    _check_identity(workdir)
    _tame(workdir.path)
    with tempfile.TemporaryDirectory(prefix="swe-memory-diff-", dir=parent) as folder:
        scratch = Path(folder).resolve()
        for name in ("objects/info", "refs", "info"):
            (scratch / name).mkdir(parents=True)
        (scratch / "HEAD").write_text(f"ref: refs/heads/{BRANCH}\n", encoding="utf-8")
        (scratch / "config").write_text(_config(workdir.base_commit), encoding="utf-8")
        (scratch / "objects" / "info" / "alternates").write_text(f"{workdir.objects.resolve()}\n", encoding="utf-8")
        attributes = scratch / "info" / "attributes"
        attributes.write_text(_ATTRIBUTES, encoding="utf-8")
        environment = {"GIT_DIR": str(scratch), "GIT_WORK_TREE": str(workdir.path.resolve())}

        def run(*arguments: str, stdin: bytes = b"") -> bytes:
            return git(arguments, cwd=workdir.path, stdin=stdin, environment=environment)

        run("read-tree", workdir.base_commit)
        try:
            return _difference(workdir, run, attributes)
        except GitError as error:
            raise PatchRefused("PatchUnreadable", error.what) from error


def _difference(workdir: Workdir, run: Callable[..., bytes], attributes: Path) -> str:
    new = [path for path in run("ls-files", "--others", "--exclude-standard", "-z").split(b"\0") if path and not path.endswith(b"/")]
    _check_size(workdir, run, new)
    run("add", "--update", "--ignore-errors", ".")
    if new:
        run("update-index", "--add", "-z", "--stdin", stdin=b"\0".join(new) + b"\0")
    diff = (
        "diff",
        "--cached",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules",
    )
    whole = run(*diff, workdir.base_commit)
    try:
        return whole.decode("utf-8")
    except UnicodeDecodeError:
        paths = [path for path in run(*diff, "--name-only", "-z", workdir.base_commit).split(b"\0") if path]
    parts: list[str] = []
    for path in paths:
        # A file at a time, so that only those that are not UTF-8 become binary hunks.
        one = (*diff, workdir.base_commit, "--", ":(literal)" + os.fsdecode(path))
        try:
            parts.append(run(*one).decode("utf-8"))
        except UnicodeDecodeError:
            attributes.write_text(_ATTRIBUTES.replace("!diff", "-diff"), encoding="utf-8")
            parts.append(run(*one).decode("utf-8"))
            attributes.write_text(_ATTRIBUTES, encoding="utf-8")
    return "".join(parts)


def _check_identity(workdir: Workdir) -> None:
    try:
        found = workdir.path.lstat()
    except OSError as error:
        raise PatchRefused("WorkdirReplaced", f"the working copy is gone: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) != workdir.identity:
        raise PatchRefused("WorkdirReplaced", "something else lies in the place of the working copy")


def _tame(root: Path) -> None:
    """Remove what git would stumble over or wait for (FIFOs, sockets, devices), and give the owner back the right to read. Links are not followed."""
    pending = [os.fspath(root)]
    while pending:
        folder = pending.pop()
        # What stays unreadable is git's to stumble over; it ends as the agent's outcome there.
        with contextlib.suppress(OSError):
            wanted = stat.S_IRUSR | stat.S_IWUSR | stat.S_IXUSR
            mode = stat.S_IMODE(os.lstat(folder).st_mode)
            if mode & wanted != wanted:
                Path(folder).chmod(mode | wanted)
            with os.scandir(folder) as entries:
                found = list(entries)
            for entry in found:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        if folder != os.fspath(root) or entry.name != ".git":
                            pending.append(entry.path)
                    elif not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                        Path(entry.path).unlink()
                    elif stat.S_ISREG(status.st_mode):
                        if not status.st_mode & stat.S_IRUSR:
                            Path(entry.path).chmod(stat.S_IMODE(status.st_mode) | stat.S_IRUSR)
                        if entry.name in (".gitignore", ".gitattributes") and status.st_size > _LARGEST_IGNORE_FILE:
                            raise PatchRefused("PatchTooLarge", f"a {entry.name} of {status.st_size} bytes")


def _check_size(workdir: Workdir, run: Callable[..., bytes], new: Sequence[bytes]) -> None:
    """Refuse what is beyond the limits before git reads it."""
    if len(new) > MOST_NEW_FILES:
        raise PatchRefused("PatchTooLarge", f"{len(new)} new files; a patch holds {MOST_NEW_FILES} at most")
    total = sum(_size(workdir.path / os.fsdecode(path)) for path in new)
    for line in run("ls-tree", "-r", "-l", "-z", workdir.base_commit).split(b"\0"):
        about, _, path = line.partition(b"\t")
        was = about.split(b" ")[-1]
        if path and was != b"-" and (size := _size(workdir.path / os.fsdecode(path))) != int(was):
            total += size
    if total > MOST_BYTES:
        raise PatchRefused("PatchTooLarge", f"new and resized files have {total} bytes; a patch holds {MOST_BYTES} at most")


def _size(path: Path) -> int:
    """Bytes of a regular file; 0 for anything else and where there is none."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _config(commit: str) -> str:
    """The configuration of a repository whose object names are as long as ``commit``."""
    return _CONFIG.format(version=1) + _SHA256 if len(commit) == 64 else _CONFIG.format(version=0)


def _git_folder(source: Path) -> Path:
    """The repository folder of a clone, bare or not."""
    if not source.is_dir():
        raise UsageError(f"there is no repository at {source}", "Name a local git repository.")
    try:
        found = git(["rev-parse", "--absolute-git-dir"], cwd=source, environment={"GIT_CEILING_DIRECTORIES": str(source.resolve().parent)})
    except GitError as error:
        raise UsageError(f"{source} is not a git repository", "Name a local git repository.") from error
    common = git(["rev-parse", "--git-common-dir"], cwd=source).decode().rstrip("\n")
    folder = Path(os.fsdecode(found.rstrip(b"\n")))
    return folder if common in (".", ".git") else (source / common).resolve()


def _resolve(source: Path, base_commit: str) -> str:
    if not _COMMIT.fullmatch(base_commit):
        raise UsageError(f"{base_commit!r} is not a full commit hash", "Write all 40 hex digits.")
    try:
        return git(["rev-parse", "--verify", "--quiet", f"{base_commit}^{{commit}}"], cwd=source).decode().strip()
    except GitError as error:
        raise UsageError(f"{source} has no commit {base_commit}", "Fetch the history that holds it, then try again.") from error


def _tags(source: Path, base: str) -> dict[str, str]:
    """Ref name -> object of the tags on ``base`` or its ancestors that tell nothing of later times."""
    age = int(git(["show", "-s", "--format=%ct", base], cwd=source))
    form = "%(objecttype) %(objectname) %(taggerdate:unix) %(refname)"
    found = {}
    for line in (
        git(["for-each-ref", f"--merged={base}", f"--format={form}", "refs/tags"], cwd=source).decode(errors="surrogateescape").splitlines()
    ):
        kind, oid, when, name = line.split(" ", 3)
        if kind == "commit" or (kind == "tag" and when and int(when) <= age):
            found[name] = oid
    return found
