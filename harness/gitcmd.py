"""The one way the harness calls git: bounded, and deaf to the user's settings and to a hostile repository's.

A repository that an agent has worked in may name programs in its configuration (hooks, fsmonitor, external diff, filters) that git would start
for us, and a user's own configuration would change hashes and patches from machine to machine. So each call gets a clean environment (no
``GIT_*`` of the caller, no system or user configuration) and overrides what could run a program. Plain ``subprocess`` rather than GitPython, which
passes the caller's environment on, drops the last newline of a diff and runs hooks and fsmonitor even in ``is_dirty()``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from swe_memory.errors import InfraError

_OVERRIDES = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.pager=cat",
    "diff.external=",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "safe.directory=*",
    "advice.detachedHead=false",
)
_OPTIONS = tuple(part for override in _OVERRIDES for part in ("-c", override))


class GitError(InfraError):
    """A git command of the harness failed. ``returncode`` and ``stderr`` are git's own."""

    def __init__(self, what: str, hint: str = "", *, returncode: int = 1, stderr: str = "") -> None:
        super().__init__(what, hint)
        self.returncode = returncode
        self.stderr = stderr


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every git call: nothing of the caller's but PATH and the temporary folder."""
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    environment |= {
        "HOME": os.devnull,
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    return environment | dict(extra or {})


def git(
    arguments: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout: float = 300.0,
) -> bytes:
    """Run ``git ARGUMENTS`` in ``cwd`` and return its output as bytes, newline and all.

    Raises :class:`GitError` where git is missing, fails or takes longer than ``timeout`` seconds.
    """
    command = ["git", *_OPTIONS, *arguments]
    shown = "git " + " ".join(arguments[:4])
    try:
        done = subprocess.run(
            command, cwd=cwd, input=stdin, env=clean_environment(environment), capture_output=True, timeout=timeout, check=False
        )
    except FileNotFoundError as error:
        if not cwd.is_dir():
            raise GitError(f"{shown}: there is no folder {cwd}") from error
        raise GitError("git is not installed, or not on the PATH", "Install git 2.30 or later.") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"{shown} took more than {timeout:.0f} s in {cwd}") from error
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace").strip()
        raise GitError(f"{shown} failed in {cwd}: {stderr[:500]}", returncode=done.returncode, stderr=stderr)
    return done.stdout
