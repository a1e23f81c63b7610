"""What somebody does to a run folder between two sessions, or an agent does to it meanwhile: it is mended or refused, and never taken for a result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.events import read_events
from swe_memory.errors import SweMemoryError
from tests.quick_bench import Bench, make_bench, one_grading_process


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with one_grading_process():
        yield make_bench(tmp_path_factory.mktemp("trials"))


ONLINE = ("--protocol", "online", "--arm", "reasoningbank", "--max-calls", 9)
"""Stops when the bank has learned from one attempt at least."""
CROSSFIT = ("--arm", "none", "--arm", "reasoningbank", "--max-calls", 19)
"""Stops in the middle of the arm with memory, so that one bank at least is frozen."""


def begun(bench: Bench, out: Path, *more: object) -> Path:
    """A run that a limit of its own has stopped."""
    result = bench.run(out, "--workers", 1, *more)
    assert result.exit_code == 1, result.output
    return out


def events(out: Path, kind: str = "") -> list[dict[str, Any]]:
    return [event for event in read_events(out / "events.jsonl")[0] if kind in ("", event["event"])]


def rewrite(out: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Leave in the journal only the events that are to be kept."""
    lines = [json.dumps(event, sort_keys=True) + "\n" for event in events(out) if keep(event)]
    (out / "events.jsonl").write_text("".join(lines))


def refused(bench: Bench, out: Path) -> str:
    """What is said where a run does not go on."""
    result = bench.run(out, "--resume")
    assert isinstance(result.exception, SweMemoryError), (result.output, result.exception)
    return str(result.exception)


# -- banks -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [ONLINE, CROSSFIT], ids=["growing", "half frozen"])
@pytest.mark.parametrize("older", [False, True], ids=["removed", "an older copy"])
def test_a_bank_that_lost_what_it_learned_is_not_gone_on_with_as_if_it_were_empty(
    bench: Bench, tmp_path: Path, flags: tuple[object, ...], older: bool
) -> None:
    out = begun(bench, tmp_path / "run", *flags)
    rewrite(out, lambda event: event["event"] != "frozen")
    learned = events(out, "learned")
    assert learned
    for path in out.rglob("bank.lance"):
        shutil.rmtree(path)
        if older:
            path.mkdir()
    told = refused(bench, out)
    assert "learned up to version" in told
    assert "Restore it" in told
    assert events(out, "learned") == learned
    assert not events(out, "frozen")
