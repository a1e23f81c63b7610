"""The bundled bench as git repositories and SWE-bench rows, the same bytes and commit hashes on every machine.

One linear history a repository: the commits that built it, with every fault in place, then fix after fix, and a tagged release after every second fix. The base
of an issue is the commit before its fix, so the faults of later issues are still there, as they are in life.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from harness.gitcmd import git
from harness.minibench.source import IssueSource, RepositorySource
from harness.parsing import parse
from swe_memory.errors import SweMemoryError

_IGNORED = "__pycache__/\n*.py[cod]\n.pytest_cache/\n"
_START, _END = ": '>>>>> Start Test Output'", ": '>>>>> End Test Output'"
_HEREDOC = "EOF_114329324912"
Files = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Commit:
    date: datetime
    message: str
    files: Files
    tag: str = ""


@dataclass(frozen=True, slots=True)
class _Fix:
    """Where an issue lies in the history: the indices of its base and of its fix, and the release that was current."""

    issue: IssueSource
    base: int
    version: str


def build_repository(source: RepositorySource, target: Path) -> list[dict[str, Any]]:
    """Write the bare repository ``target`` and return the rows of its issues, oldest first."""
    commits, fixes = _history(source)
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (target / folder).mkdir(parents=True)
    (target / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (target / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n", encoding="utf-8")
    git(["fast-import", "--quiet", "--done"], cwd=target, stdin=_stream(source, commits))
    hashes = git(["rev-list", "--reverse", "main"], cwd=target).decode().split()
    if len(hashes) != len(commits):
        raise SweMemoryError(f"{source.folder}: {len(hashes)} commits were written, not {len(commits)}", "Check the sources of the bench.")
    return [_row(source, fix, commits, hashes, target) for fix in fixes]


def wrong_patch(source: RepositorySource, issue: IssueSource) -> str:
    """A plausible patch that does not resolve ``issue``, as ``git apply`` takes it against the issue's base."""
    import difflib

    commits, fixes = _history(source)
    base = next(commits[fix.base].files for fix in fixes if fix.issue is issue)
    files = base
    for edit in issue.wrong:
        files = edit.apply(files, f"{source.folder}/issues/{issue.number:02d}.toml [[wrong]]")
    lines: list[str] = []
    for path in sorted(files):
        if files[path] != base[path]:
            lines.append(f"diff --git a/{path} b/{path}\n")
            old, new = base[path].splitlines(keepends=True), files[path].splitlines(keepends=True)
            lines += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(lines)


def _history(source: RepositorySource) -> tuple[list[_Commit], list[_Fix]]:
    states = [dict(source.files)]
    for issue in reversed(source.issues):
        files = states[0]
        for edit in issue.faults:
            files = edit.apply(files, f"{source.folder}/issues/{issue.number:02d}.toml [[fault]]")
        states.insert(0, files)
    tests: Files = {}
    for path, text in source.files.items():
        if _is_test(path):
            tests[path] = text
    major, minor = (int(part) for part in source.version.split("."))
    release, unreleased, changelog = f"{major}.{minor}", list[str](), ""
    commits: list[_Commit] = []
    present: Files = {".gitignore": _IGNORED}
    for commit in source.commits:
        present = present | {path: states[0][path] for path in commit.files}
        commits.append(_Commit(commit.date, commit.message, present))
    changelog = f"# Changes\n\n## {release}\n\nFirst release.\n"
    present = present | {"CHANGELOG.md": changelog}
    commits.append(_Commit(commits[-1].date + timedelta(hours=2), f"Release {release}", present, f"v{release}"))
    fixes = []
    for number, issue in enumerate(source.issues):
        if issue.fixed_at <= commits[-1].date or issue.created_at <= commits[-1].date:
            raise SweMemoryError(f"{source.folder}/issues/{issue.number:02d}.toml is older than the commit before it", "Move its dates.")
        fixes.append(_Fix(issue, len(commits) - 1, release))
        before = tests.get(issue.test_file)
        tests[issue.test_file] = issue.tests if before is None else f"{before.rstrip()}\n\n\n{issue.tests}"
        fixed = {path: text for path, text in states[number + 1].items() if not _is_test(path)}
        present = {".gitignore": _IGNORED, "CHANGELOG.md": changelog, **fixed, **tests}
        commits.append(_Commit(issue.fixed_at, issue.message, present))
        unreleased.append(issue.message.splitlines()[0])
        if len(unreleased) == 2:
            minor += 1
            release = f"{major}.{minor}"
            notes = "".join(f"- {line}\n" for line in unreleased)
            changelog = changelog.replace("# Changes\n", f"# Changes\n\n## {release}\n\n{notes}", 1)
            unreleased = []
            present = {**present, "CHANGELOG.md": changelog}
            commits.append(_Commit(issue.fixed_at + timedelta(hours=3), f"Release {release}", present, f"v{release}"))
    return commits, fixes


def _is_test(path: str) -> bool:
    return path.startswith("tests/")


def _stream(source: RepositorySource, commits: list[_Commit]) -> bytes:
    """The history in the language of ``git fast-import``, which reads no configuration that could change a hash."""
    parts: list[bytes] = []
    before: Files = {}
    for commit in commits:
        who = f"{source.author} {int(commit.date.timestamp())} +0000"
        message = commit.message.encode() + b"\n"
        parts.append(f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {len(message)}\n".encode() + message)
        for path in sorted(set(before) - set(commit.files)):
            parts.append(f"D {path}\n".encode())
        for path, text in sorted(commit.files.items()):
            if before.get(path) != text:
                content = text.encode()
                parts.append(f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n")
        parts.append(b"\n")
        if commit.tag:
            note = f"{commit.message}\n".encode()
            parts.append(f"tag {commit.tag}\nfrom refs/heads/main\ntagger {who}\ndata {len(note)}\n".encode() + note + b"\n")
        before = commit.files
    parts.append(b"done\n")
    return b"".join(parts)


def _row(source: RepositorySource, fix: _Fix, commits: list[_Commit], hashes: list[str], repository: Path) -> dict[str, Any]:
    issue, base, fixed = fix.issue, hashes[fix.base], hashes[fix.base + 1]
    before, after = commits[fix.base].files, commits[fix.base + 1].files

    def diff(*paths: str) -> str:
        options = ("--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--unified=3")
        return git(["diff", *options, base, fixed, "--", *paths], cwd=repository).decode()

    names = [f"{path}::{name}" for path in sorted(after) if _is_test(path) for name in _test_names(after[path], path)]
    failing = [f"{issue.test_file}::{name}" for name in issue.fail_to_pass]
    if not failing or set(failing) - set(names):
        raise SweMemoryError(
            f"{source.folder}/issues/{issue.number:02d}.toml: {failing} are not all in the tests", "Name tests that are there."
        )
    test_patch = diff("tests")
    test_files = [path for path in sorted(after) if _is_test(path) and path.rsplit("/", 1)[-1].startswith("test_")]
    owner_name = source.name.replace("/", "__")
    return {
        "repo": source.name,
        "instance_id": f"{owner_name}-{issue.number}",
        "base_commit": base,
        "patch": diff(".", ":(exclude)tests"),
        "test_patch": test_patch,
        "problem_statement": issue.text,
        "hints_text": "",
        "created_at": issue.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "version": fix.version,
        "FAIL_TO_PASS": json.dumps(failing),
        "PASS_TO_PASS": json.dumps([name for name in names if name not in failing]),
        "environment_setup_commit": hashes[len(source.commits)],
        "image": f"minibench/{owner_name}-{issue.number}:latest",
        "eval_script": _eval_script(base, test_patch, [path for path in test_files if path in before], test_files),
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


def _test_names(text: str, path: str) -> list[str]:
    """Test functions in the order of the file. The bench's tests are plain functions, so that their ids can be read off."""
    body = parse(text, path).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def _eval_script(base: str, test_patch: str, at_base: list[str], test_files: list[str]) -> str:
    """As in SWE-bench: put the test files back, apply the test patch, run them between the markers, put them back. It runs in the current folder."""
    new = " ".join(path for path in test_files if path not in at_base)
    restore = f"git checkout {base} {' '.join(at_base)}"
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        restore,
        *([f"rm -f {new}"] if new else []),
        f"git apply -v - <<'{_HEREDOC}'",
        f"{test_patch}{_HEREDOC}",
        _START,
        f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -rA --tb=short -p no:cacheprovider {' '.join(test_files)}",
        _END,
        restore,
    ]
    return "\n".join(lines) + "\n"
