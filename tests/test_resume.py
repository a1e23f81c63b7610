"""A run that is killed anywhere and resumed is the run that nobody disturbed; and what else ``--resume`` promises."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import run
from harness.events import read_events, read_state
from harness.plan import Experiment
from swe_memory.bank import MemoryBank
from swe_memory.errors import UsageError
from swe_memory.records import Usage
from tests.killing import Ended, Killing
from tests.quick_bench import ONCE, facts, issue_id, write_quick_bench
from tests.small_attempt import small_attempt

CROSSFIT = {"arms": ["none", "reasoningbank", "derangement"]}
ONLINE = {"arms": ["reasoningbank"], "protocol": "online", "wave": 2}
OFFLINE = {"arms": ["reasoningbank", "neutral"], "protocol": "offline"}
EXPERIMENTS: dict[str, dict[str, Any]] = {"crossfit": CROSSFIT, "online": ONLINE, "offline": OFFLINE}
# Online leaves its changes to be collected; in crossfit half of the attempts hand in nothing, so that their grading takes no time.
AGENTS: dict[str, dict[str, Any]] = {"crossfit": {"collected": False, "gives_up": [1, 2]}, "online": {}, "offline": {"collected": False}}


@dataclass(frozen=True)
class Place:
    """Where experiments of this module run: the dataset, a bank to be given, and a process that forks runs."""

    dataset: Path
    repositories: Path
    bank: Path
    killing: Killing
    folder: Path

    def run(self, name: str, out: Path, *, kill: tuple[str, int] | None = None, **more: Any) -> Ended:
        """Start the experiment of that name in ``out``, or go on with it."""
        options = {"out": out, "dataset": self.dataset, "repositories": self.repositories, **EXPERIMENTS[name], **more}
        if name == "offline":
            options["bank"] = self.bank
        if (out / "experiment.json").exists():
            options["resume"] = True
        temporary = out.with_name(f"{out.name}-tmp")
        temporary.mkdir(exist_ok=True)
        return self.killing.run(options, kill=kill, temporary=temporary, agent=dict(AGENTS[name]))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("resume")
    dataset, repositories = write_quick_bench(folder)
    with Killing() as killing:
        with MemoryBank.open(folder / "given.lance") as bank:
            one = small_attempt()
            bank.learn(one.issue, one.trajectory, one.verdict)
        yield Place(dataset, repositories, folder / "given.lance", killing, folder)


@pytest.fixture(scope="module")
def undisturbed(place: Place) -> dict[str, dict[str, Any]]:
    """What the experiments come to when nobody kills them; made when it is asked for."""

    class Made(dict[str, dict[str, Any]]):
        def __missing__(self, name: str) -> dict[str, Any]:
            out = place.folder / name
            ended = place.run(name, out, workers=2)
            assert ended.code == 0, ended.said
            self[name] = facts(out)
            return self[name]

    return Made()


# One line a test: the experiment, and the points at which its first, second, ... session is killed. The next session ends undisturbed.
KILLS: list[tuple[str, list[tuple[str, int]]]] = [
    # The plan, the journal's beginning, and the very end.
    ("crossfit", [("before experiment.json", 1), ("part of experiment.json", 1), ("after experiment.json", 1)]),
    ("crossfit", [("torn session", 1), ("after session", 1), ("after session", 1)]),
    ("crossfit", [("before results.json", 1), ("part of results.json", 1), ("after results.json", 1)]),
    # An attempt's stages, in the baseline and in the arms that read a frozen bank.
    ("crossfit", [("torn started", 1), ("after started", 1), ("torn usage", 2), ("after usage", 3)]),
    ("crossfit", [("before trajectory", 2), ("part of trajectory", 1), ("after trajectory", 1), ("part of preds.json", 1)]),
    ("crossfit", [("after preds.json", 3), ("torn finished", 1), ("after finished", 1), ("before graded", 1)]),
    ("crossfit", [("torn graded", 4), ("after graded", 1), ("after usage", 7), ("after finished", 2)]),
    ("crossfit", [("after started", 7)]),
    ("crossfit", [("after finished", 9)]),
    ("crossfit", [("torn graded", 12)]),
    # A frozen bank: made, learned into, acknowledged, recalled from, frozen.
    ("crossfit", [("after tables", 1), ("after generation", 1)]),
    ("crossfit", [("before rows", 1)]),
    ("crossfit", [("after rows", 1)]),
    ("crossfit", [("after commit", 1)]),
    ("crossfit", [("after commit", 2)]),
    ("crossfit", [("torn learned", 1), ("after learned", 1)]),
    ("crossfit", [("torn learned", 2)]),
    ("crossfit", [("after learned", 3)]),
    ("crossfit", [("before recalls", 1), ("part of recalls", 1), ("after recalls", 1)]),
    ("crossfit", [("part of recalls", 2)]),
    ("crossfit", [("after recalls", 4)]),
    ("crossfit", [("torn frozen", 1), ("after frozen", 1)]),
    ("crossfit", [("after frozen", 2)]),
    # A growing bank, wave by wave.
    ("online", [("before tables", 1), ("after tables", 1), ("after generation", 1)]),
    ("online", [("after started", 2), ("after finished", 1), ("after graded", 1)]),
    ("online", [("after graded", 2)]),
    ("online", [("before rows", 1), ("after rows", 1), ("after commit", 1)]),
    ("online", [("torn learned", 1), ("after learned", 1)]),
    ("online", [("after commit", 2)]),
    ("online", [("after learned", 2), ("after started", 1), ("after usage", 5)]),
    ("online", [("after graded", 3), ("after commit", 1)]),
    ("online", [("after commit", 4), ("torn learned", 1), ("after learned", 1)]),
    # A bank that is given and copied.
    ("offline", [("copied file", 1), ("copied file", 4), ("before the name bank.lance", 1)]),
    ("offline", [("after the name bank.lance", 1), ("part of recalls", 2), ("before frozen", 1), ("after frozen", 1)]),
]


def test_there_are_fifty_points_and_more() -> None:
    assert sum(len(points) for _, points in KILLS) >= 50


@pytest.mark.parametrize(
    ("number", "name", "points"),
    [
        pytest.param(number, name, points, id=f"{name}: {', '.join(f'{point} {n}' for point, n in points)}")
        for number, (name, points) in enumerate(KILLS)
    ],
)
def test_a_run_killed_anywhere_and_resumed_is_the_undisturbed_one(
    place: Place, undisturbed: dict[str, dict[str, Any]], tmp_path: Path, number: int, name: str, points: list[tuple[str, int]]
) -> None:
    out, acknowledged = tmp_path / "out", b""
    for session, point in enumerate(points):
        ended = place.run(name, out, kill=point, workers=(1, 2, 4)[(number + session) % 3])
        assert ended.killed, (point, ended.code, ended.said, ended.points)
        # Nothing that was acknowledged before is touched.
        journal = (out / "events.jsonl").read_bytes() if (out / "events.jsonl").exists() else b""
        assert journal.startswith(acknowledged[: acknowledged.rfind(b"\n") + 1])
        acknowledged = journal
    ended = place.run(name, out, workers=(2, 1, 4)[number % 3])
    assert ended.code == 0, ended.said
    found, expected = facts(out), undisturbed[name]
    assert found.keys() == expected.keys()
    for part in expected:
        assert found[part] == expected[part], part
    left = [path.name for path in tmp_path.rglob("*") if path.name.endswith(".part")]
    temporary = [path.name for path in out.with_name("out-tmp").iterdir() if not path.name.startswith(("swe-memory-grade-", ".tmp"))]
    assert left == [] and temporary == []
