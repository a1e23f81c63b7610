"""``swe-memory report``: which files are written, and never over something that is not a report."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.events import write_file
from harness.report.attempts import FIELDS
from harness.report.csv_file import attempts_csv
from harness.report.markdown import MARK, markdown
from harness.report.material import load
from harness.report.page import page
from swe_memory.errors import SweMemoryError, UsageError

HTML = "<!doctype html>\n" + MARK
NAME = "report.html"


def report_command(folder: Path, out: Path | None, *, with_markdown: bool, with_csv: bool, dataset: str | None = None) -> str:
    """Write the report of the run in ``folder`` and say where. ``out``: the HTML file; by default ``report.html`` in the folder. ``dataset``: that of the run,
    where it is a file, for what only it tells.

    Raises UsageError where ``folder`` holds no run, or one of reference patches alone, or a file is in the way that is no report; SweMemoryError where it
    cannot be written.
    """
    from harness.folder import read_experiment

    if all(arm.kind == "gold" for arm in read_experiment(folder).conditions()):
        what = f"the run in {folder} has reference patches only, so there is nothing to report about an agent or memory"
        raise UsageError(what, f"What they say about the environment: swe-memory compare {shlex.quote(str(folder))}")
    html = out if out is not None else folder / NAME
    if html.is_dir():
        html = html / NAME
    text = html.with_name("report.md") if html.name == NAME else html.with_name(f"{html.name.removesuffix('.html')}.md")
    table = html.with_name("attempts.csv") if html.name == NAME else html.with_name(f"{html.name.removesuffix('.html')}-attempts.csv")
    asked = [(html, HTML), *([(text, MARK)] if with_markdown else []), *([(table, ",".join(FIELDS))] if with_csv else [])]
    for path, mark in asked:
        _ours(path, mark)
    material = load(folder, html.parent, dataset)
    try:
        write_file(html, page(material, table.name))
        if with_markdown:
            write_file(text, markdown(material))
        if with_csv:
            write_file(table, attempts_csv(material.result))
    except OSError as error:
        raise SweMemoryError(f"cannot write {error.filename or html}: {error.strerror}", "Choose another place with --out.") from error
    sizes = ", ".join(f"{path} ({_size(path)})" for path, _ in asked)
    return f"{material.result['headline']['sentence']}\n\nwrote {sizes}"


def _ours(path: Path, mark: str) -> None:
    """Raises UsageError where something else lies at ``path``."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(mark.encode()))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "Choose another place with --out.") from error
    if begins and begins != mark.encode():
        raise UsageError(f"{path} is there already and is no report", "Move it away, or choose another place with --out.")


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(size / 1e3, 0.1):.0f} kB"
