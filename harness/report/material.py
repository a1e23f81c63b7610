"""What a report is made from: the result of the comparison, the frozen experiment, and which of the run's files are there to be linked to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.plan import Experiment
from harness.report.lessons import Lesson
from harness.report.style import Style, styles
from harness.report.words import visible


@dataclass(frozen=True, slots=True)
class Material:
    """``result`` is the shape of :mod:`harness.analysis`. ``folder`` is the run's, ``base`` the folder that the report lies in: links are relative to it.
    ``state`` is the word for how far the run is (going, stopped, done, ...), ``last_event`` when its newest event was written."""

    result: Mapping[str, Any]
    experiment: Experiment
    folder: Path
    base: Path
    lessons: Mapping[str, Lesson]
    problems: tuple[str, ...]
    state: str
    last_event: str
    version: str

    @property
    def items(self) -> frozenset[str]:
        """The items that the page has an entry of: those that graded attempts of an arm with memory ran with."""
        return frozenset(item["id"] for item in self.result["items"])

    def href(self, path: str | None) -> str:
        """A relative link to a file below the run folder; "" where it is not there."""
        if not path or not (self.folder / path).is_file():
            return ""
        return link(self.folder / path, self.base)

    def style(self) -> dict[str, Style]:
        """Arm -> what tells it apart."""
        return styles(self.result["arms"])


def link(path: Path, base: Path) -> str:
    """A relative link to ``path`` for a page in ``base``, whatever is in its name; it begins with a dot, so that no name is taken for a scheme."""
    relative = Path(os.path.relpath(path.resolve(), base.resolve())).as_posix()
    return quote(relative if relative.startswith(".") else f"./{relative}", safe="/.-_~")


def load(folder: Path, base: Path, dataset: str | None = None) -> Material:
    """Everything about the run in ``folder``; ``dataset``: its dataset, where it is a file, for what only it tells.

    Raises UsageError where ``folder`` holds no run, or ``dataset`` is none.
    """
    from importlib.metadata import version

    from harness.compare import compare_run
    from harness.folder import read_experiment
    from harness.layout import lay_out
    from harness.report.lessons import lessons
    from harness.status import run_status

    experiment = read_experiment(folder)
    status = run_status(folder)
    # The page is for others, who do not need to know where it was made.
    ask = f"swe-memory report {shlex.quote(folder.resolve().name)} --dataset {shlex.quote(experiment.dataset)}"
    result = visible(compare_run(folder, dataset=dataset, ask=ask))
    wanted = [item["id"] for item in result["items"]]
    texts, problems = lessons(folder, lay_out(experiment), wanted)
    found = (*result["problems"], *map(visible, problems))
    return Material(result, experiment, folder, base, texts, found, status["state"], status["last_event"] or "", version("swe-memory"))
