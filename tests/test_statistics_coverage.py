"""The benchmark of coverage: what it calls kept, that it is repeatable, and that its worlds are the ones it describes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from swe_memory.errors import UsageError

COVER, LEAST, LEVEL = "93-97 %", ">= 93 %", "<= 5.5 %"
FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        import coverage as found

        if not hasattr(found, "SECTIONS"):  # a package of that name was imported before
            import importlib.util

            spec = importlib.util.spec_from_file_location("benchmark_coverage", FOLDER / "coverage.py")
            assert spec is not None and spec.loader is not None
            found = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = found
            spec.loader.exec_module(found)
    finally:
        sys.path.remove(str(FOLDER))
    return found


def row(coverage: ModuleType, figure: float, promise: str, error: float = 0.5) -> str:
    found = coverage.Row("rate", "made up", "an interval", 100, 25.0, figure, error, promise, 1_000)
    return str(found.kept)


def test_a_promise_is_kept_missed_or_in_doubt(coverage: ModuleType) -> None:
    assert [row(coverage, figure, COVER) for figure in (91.9, 92.5, 93.0, 97.0, 97.9, 98.1)] == [
        "no",
        "in doubt",
        "yes",
        "yes",
        "in doubt",
        "no",
    ]
    assert [row(coverage, figure, LEAST) for figure in (91.9, 99.9)] == ["no", "yes"]
    assert [row(coverage, figure, LEVEL) for figure in (5.5, 6.0, 6.6)] == ["yes", "in doubt", "no"]
    assert row(coverage, 50.0, coverage.NONE) == ""


def test_the_promise_depends_on_issues_and_discordant_pairs(coverage: ModuleType) -> None:
    for issues, discordant, promise in ((100, 20, COVER), (99, 50, LEAST), (500, 19, LEAST)):
        tally = coverage.Tally("s", "t", coverage.World(issues=issues), discordant)
        tally.add("what", True)
        assert [found.promise for found in tally.rows()] == [promise]


def test_the_same_seed_gives_the_same_rows(coverage: ModuleType) -> None:
    assert list(coverage.rates(10, 1)) == list(coverage.rates(10, 1))


def test_the_repositories_are_verifieds(coverage: ModuleType) -> None:
    assert np.bincount(coverage.World().repositories()).tolist() == [231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1]
    assert np.bincount(coverage.World(issues=100).repositories())[0] == pytest.approx(46, abs=1)


def test_wins_raise_later_chances_in_their_repository_only(coverage: ModuleType) -> None:
    world = coverage.World(issues=60, gain=0.5)
    _, memory = world.logits(1, np.random.default_rng(0))
    outcomes, chances, steps = coverage.online(world, memory[0], 4, np.random.default_rng(1))
    place, plain = world.repositories(), 1 / (1 + np.exp(-memory[0]))
    for stream in range(4):
        for issue in range(60):
            before = (place == place[issue]) & (steps[stream] < steps[stream, issue]) & outcomes[stream]
            assert (chances[stream, issue] > plain[issue] + 1e-12) == before.any()


def test_the_table_and_the_json_hold_the_same_rows(
    coverage: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(coverage.SECTIONS, "rate", (coverage.rates, 30))
    assert coverage.run(["--only", "rate"]) == 0
    table = capsys.readouterr().out
    assert coverage.run(["--only", "rate", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 6 and table.count("1 run") + table.count("3 runs") + table.count("5 runs") == 6
    assert f"{rows[0]['figure']:.1f} %" in table
    with pytest.raises(UsageError, match="--seed"):
        coverage.run(["--seed", "-1"])
