"""What the bundled bench is written in: for each repository its last good state and, for each issue, the fault that was there before its fix.

::

    data/NAME/repo.toml          name, first version, the commits that built it (date, author, message, files)
    data/NAME/tree/...           the files when every issue is fixed, without the hidden tests
    data/NAME/issues/01.toml     one issue: text, dates, family, the fault as edits (good -> bad), a wrong fix, the hidden tests

A fault is an edit of the good state, so that the good state can be read, run and changed as ordinary code; :mod:`harness.minibench.history` turns all
this into git history.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from swe_memory.errors import SweMemoryError

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``old``, which occurs exactly once in ``file``, by ``new``."""

    file: str
    old: str
    new: str

    def apply(self, files: Mapping[str, str], where: str) -> dict[str, str]:
        """``files`` (path -> text) with the edit made; raises where ``old`` is not there exactly once."""
        text = files.get(self.file, "")
        if text.count(self.old) != 1:
            raise SweMemoryError(f"{where}: {text.count(self.old)} places in {self.file} read {self.old!r}, not 1", "Make the edit unique.")
        return {**files, self.file: text.replace(self.old, self.new)}


@dataclass(frozen=True, slots=True)
class IssueSource:
    """One issue as it is written down.

    ``faults`` turn the good state into the faulty one; ``wrong`` is a plausible edit of the faulty state that does not resolve the issue; ``tests``
    are appended to ``test_file`` with the fix; those named in ``fail_to_pass`` fail before it.
    """

    number: int
    text: str
    family: str
    created_at: datetime
    fixed_at: datetime
    message: str
    faults: tuple[Edit, ...]
    wrong: tuple[Edit, ...]
    test_file: str
    tests: str
    fail_to_pass: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitSource:
    """One of the commits that built the repository before its first issue."""

    date: datetime
    message: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RepositorySource:
    """One repository as it is written down; ``files`` is the good state, path -> text."""

    folder: str
    name: str
    author: str
    version: str
    commits: tuple[CommitSource, ...]
    files: Mapping[str, str]
    issues: tuple[IssueSource, ...]


def read_sources(data: Path = DATA) -> tuple[RepositorySource, ...]:
    """All repositories of the bench, by folder name."""
    return tuple(_repository(folder) for folder in sorted(data.iterdir()) if (folder / "repo.toml").is_file())


def sources_hash(data: Path = DATA) -> str:
    """sha256 over all files that the bench is made from, and over the code that makes it."""
    digest = hashlib.sha256()
    files = [path for path in data.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted([*files, *Path(__file__).parent.glob("*.py")]):
        name = path.relative_to(data) if path.is_relative_to(data) else path.name
        digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _repository(folder: Path) -> RepositorySource:
    written = tomllib.loads((folder / "repo.toml").read_text(encoding="utf-8"))
    tree = folder / "tree"
    paths = sorted(path for path in tree.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    files = {path.relative_to(tree).as_posix(): path.read_bytes().decode("utf-8") for path in paths}
    commits = tuple(CommitSource(c["date"], c["message"], tuple(c["files"])) for c in written["commit"])
    listed = [path for commit in commits for path in commit.files]
    if sorted(listed) != sorted(files):
        odd = sorted(set(listed) ^ set(files)) or ["a file twice"]
        raise SweMemoryError(f"{folder.name}/repo.toml: the commits and the tree disagree about {', '.join(odd)}", "List each file once.")
    if written["name"] != f"minibench/{folder.name}":
        raise SweMemoryError(f"{folder.name}/repo.toml calls the repository {written['name']}", f"Call it minibench/{folder.name}.")
    issues = tuple(_issue(path) for path in sorted((folder / "issues").glob("*.toml")))
    return RepositorySource(folder.name, written["name"], written["author"], written["version"], commits, files, issues)


def _issue(path: Path) -> IssueSource:
    written: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    tests = written["tests"]
    return IssueSource(
        number=int(path.stem),
        text=written["text"].strip() + "\n",
        family=written["family"],
        created_at=written["created_at"],
        fixed_at=written["fixed_at"],
        message=written["message"].strip(),
        faults=tuple(Edit(e["file"], e["good"], e["bad"]) for e in written["fault"]),
        wrong=tuple(Edit(e["file"], e["old"], e["new"]) for e in written["wrong"]),
        test_file=tests["file"],
        tests=tests["code"].strip() + "\n",
        fail_to_pass=tuple(tests["fail_to_pass"]),
    )
