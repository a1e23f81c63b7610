"""The bundled bench: small pure-Python repositories of our making, with real git history, faults, reports and hidden tests.

It exists so that the whole experiment runs on a laptop, without a key, an image or a download. It is no substitute for SWE-bench: the repositories
are small, the faults are planted, and nothing measured on it says how a language model would do.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from swe_memory.errors import SweMemoryError

if TYPE_CHECKING:
    from harness.instances import Instance


def load(cache: Path | None = None) -> tuple[Instance, ...]:
    """All instances, oldest issue first; each knows its built repository.

    Repositories are built once into ``cache`` (default: the user's cache folder), in a folder named by the hash of what they are made from, and
    reused; processes that build at the same time do not disturb each other. Raises :class:`SweMemoryError` where the folder cannot be written.
    """
    from harness.instances import instance_from_row

    folder = build(cache)
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    return tuple(
        instance_from_row(row, where=f"minibench row {number}", repository=folder / f"{row['repo'].split('/')[1]}.git")
        for number, row in enumerate(rows, 1)
    )


def build(cache: Path | None = None) -> Path:
    """The folder with ``NAME.git`` for each repository and ``rows.jsonl``; builds it where it is not there yet."""
    from harness.minibench.history import build_repository
    from harness.minibench.source import DATA, read_sources, sources_hash

    if cache is None:
        from platformdirs import user_cache_path

        cache = user_cache_path("swe-memory")
    target = cache / f"minibench-{sources_hash()[:16]}"
    parts = [target / "rows.jsonl", *(target / f"{file.parent.name}.git" / "HEAD" for file in DATA.glob("*/repo.toml"))]
    if all(part.is_file() for part in parts):
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".minibench-", dir=cache))
    except OSError as error:
        raise SweMemoryError(
            f"cannot build the bundled bench in {cache}: {error.strerror}", "Set XDG_CACHE_HOME to a folder that can be written."
        ) from error
    try:
        rows = []
        for source in read_sources():
            rows += build_repository(source, scratch / f"{source.folder}.git")
        rows.sort(key=lambda row: (row["created_at"], row["instance_id"]))
        (scratch / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        # Another process may have put its own, equal copy there by now: rename fails then, and that copy is as good. A copy that is
        # there but lacks a part (a cleaner of caches took it) is moved out of the way, never deleted where others may look.
        with contextlib.suppress(OSError):
            if target.exists() and not all(part.is_file() for part in parts):
                target.rename(scratch / "incomplete")
            scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(target / "incomplete", ignore_errors=True)
    if not all(part.is_file() for part in parts):
        raise SweMemoryError(f"cannot put the bundled bench into {target}", "Remove that folder and try again.")
    return target
