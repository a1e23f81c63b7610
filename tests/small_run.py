"""One real crossfit run on the small dataset, for tests of what looks at runs, and copies of it that can be damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from harness.cli import run
from tests.small_bench import write_bench


@dataclass(frozen=True)
class SmallRun:
    """A finished run and the dataset that it was made on."""

    folder: Path
    rows: Path
    repositories: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]

    def copy(self, to: Path, events: Sequence[object] | None = None) -> SmallRun:
        """A copy of the run in ``to``; with ``events``, its journal holds these instead."""
        shutil.copytree(self.folder, to)
        if events is not None:
            (to / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        return SmallRun(to, self.rows, self.repositories)


def make_run(folder: Path, *arms: str) -> SmallRun:
    """Runs three issues in each of these arms by crossfit."""
    rows, repositories = write_bench(folder)
    out = folder / "run"
    where = ["--dataset", str(rows), "--repositories", str(repositories), "--out", str(out)]
    result = CliRunner().invoke(run, [*where, "--call-limit", "16", *(part for arm in arms for part in ("--arm", arm))])
    assert result.exit_code == 0, result.output
    made = SmallRun(out, rows, repositories)
    assert [event for event in made.events if event["event"] == "failed"] == []
    return made


def ask(command: str, *arguments: object) -> Result:
    """Invoke ``run COMMAND``."""
    return CliRunner().invoke(run, [command, *map(str, arguments)])
