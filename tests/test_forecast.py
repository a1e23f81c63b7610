"""What a run will take: schedules worked out by hand, and nothing guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import run
from harness.events import Journal
from harness.folder import freeze
from harness.forecast import forecast, forecast_text, ideal_seconds
from harness.layout import Cell, lay_out
from harness.plan import Experiment
from swe_memory.errors import UsageError
from tests.dataset_rows import row, written
from tests.experiments import experiments, made_experiment, made_issues


def span(experiment: Experiment, workers: int, seconds: Any = 1.0) -> float:
    """How long it takes where each attempt takes ``seconds``."""
    return ideal_seconds(lay_out(experiment), seconds if callable(seconds) else lambda _: seconds, workers)


FOUR = made_issues(2, 2)


@pytest.mark.parametrize(
    ("experiment", "workers", "seconds"),
    [
        # Four baselines, then four with memory.
        (made_experiment(FOUR), 1, 8),
        (made_experiment(FOUR), 2, 4),
        (made_experiment(FOUR), 4, 2),
        # More workers than attempts cannot break the barrier.
        (made_experiment(FOUR), 100, 2),
        # 3 workers: at 1 the first fold's bank is made (2 lessons); 3 + 3 + 2.
        (made_experiment(FOUR), 3, 3),
        # Without memory there is no barrier.
        (made_experiment(FOUR, "none"), 4, 1),
        (made_experiment(FOUR, "none", reruns=3), 4, 3),
        # A growing bank: one after the other, with the baseline beside it.
        (made_experiment(FOUR, protocol="online"), 100, 4),
        (made_experiment(FOUR, protocol="online"), 1, 8),
        (made_experiment(FOUR, protocol="online", wave=2), 100, 2),
        (made_experiment(FOUR, protocol="online", wave=3), 100, 2),
        (made_experiment(FOUR, protocol="online", wave=4), 100, 1),
        # Two streams side by side, 2 workers: 4 + 4 + the baseline's 4, shared out.
        (made_experiment(FOUR, protocol="online", orders=2), 2, 6),
        (made_experiment(FOUR, protocol="online", orders=2), 3, 4),
        # A given bank waits for nothing.
        (made_experiment(FOUR, protocol="offline"), 8, 1),
        # Two builds learn from the same four baselines: 4, then 8.
        (made_experiment(FOUR, builds=2), 8, 2),
        (made_experiment(FOUR, builds=2), 4, 3),
    ],
)
def test_schedules_that_can_be_worked_out_by_hand(experiment: Experiment, workers: int, seconds: float) -> None:
    assert span(experiment, workers) == seconds
    assert span(experiment, workers, 90.0) == pytest.approx(90 * seconds)


def test_a_slow_lesson_keeps_only_those_waiting_that_learn_from_it() -> None:
    experiment = made_experiment(FOUR)
    slow = lay_out(experiment).bank("reasoningbank/1-b").lessons[0]

    def seconds(cell: Cell) -> float:
        return 10.0 if cell.key == slow else 1.0

    # Issues of fold b recall from the bank of fold a, which is ready at 1; those of fold a wait for the slow lesson, until 10.
    assert span(experiment, 8, seconds) == 11.0
    online = made_experiment(FOUR, protocol="online", wave=2)
    first, second = lay_out(online).banks[0].waves
    assert span(online, 8, lambda cell: 10.0 if cell.key in (first[0], second[0]) else 1.0) == 20.0


@settings(max_examples=60, deadline=None)
@given(experiments(), st.integers(1, 6), st.integers(0, 99))
def test_a_schedule_is_no_shorter_than_its_work_and_its_longest_chain_and_no_longer_than_one_worker(
    experiment: Experiment, workers: int, seed: int
) -> None:
    layout = lay_out(experiment)
    takes = {cell.key: 1.0 + (seed * 31 + number * 17) % 7 for number, cell in enumerate(layout.cells)}
    total = sum(takes.values())
    found = ideal_seconds(layout, lambda cell: takes[cell.key], workers)
    assert max(total / workers, max(takes.values())) - 1e-9 <= found <= total + 1e-9
    assert ideal_seconds(layout, lambda cell: takes[cell.key], 1) == pytest.approx(total)
    chain = max(cell.chain for cell in layout.cells if cell.arm.kind != "gold")
    assert ideal_seconds(layout, lambda _: 1.0, 10**6) == chain


def run_folder(place: Path, experiment: Experiment, seconds: list[Any], cost: float | None = 0.5, told: bool = True) -> Path:
    """A run folder whose first attempts took so many seconds, as its journal has it."""
    place.mkdir()
    freeze(place, experiment, resume=False)
    with Journal(place / "events.jsonl") as journal:
        for cell, took in zip(lay_out(experiment).cells, seconds, strict=False):
            where = {"arm": cell.arm.name, "stream": cell.stream, "issue": cell.issue}
            journal.append("started", **where, bank=None, recall=None)
            if told:
                journal.append("usage", **where, role="agent", calls=1, input=1, output=1, cost=cost)
            more = {} if took is None else {"seconds": took}
            journal.append("finished", **where, exit_status="Submitted", calls=1, actions=1, patch_sha256="0", **more)
    return place


COMMAND = "command: my-agent --issue {issue_file}"


def test_what_nothing_tells_is_unknown_and_not_guessed() -> None:
    found = forecast(made_experiment(FOUR, agent=COMMAND), 2)
    assert found["hours"] == found["cost"] == {"expected": None, "at_most": None} and found["disk_mb"] is None
    text = forecast_text(found)
    assert text.count("not known") >= 3 and "--like" in text and "Nothing was run or written." in text
    json.dumps(found, allow_nan=False)


def test_limits_of_an_attempt_bound_the_run_and_an_agent_without_a_model_costs_nothing() -> None:
    found = forecast(made_experiment(FOUR, agent=COMMAND, attempt_seconds=1800.0, attempt_cost=2.0), 2)
    assert found["hours"] == {"expected": None, "at_most": 2.0} and found["cost"] == {"expected": None, "at_most": 16.0}
    free = forecast(made_experiment(FOUR), 2)
    assert free["cost"] == {"expected": 0.0, "at_most": 0.0} and free["hours"]["expected"] is None


def test_reference_patches_take_no_time_and_no_money() -> None:
    arms = ("none", "reasoningbank", "gold")
    found = forecast(made_experiment(FOUR, *arms, agent=COMMAND, attempt_seconds=3600.0, attempt_cost=1.0), 2)
    assert found["attempts"] == 12 and found["hours"]["at_most"] == 4.0 and found["cost"]["at_most"] == 8.0


def test_a_run_of_the_same_agent_tells_times_and_costs(tmp_path: Path) -> None:
    experiment = replace(made_experiment(FOUR), agent=COMMAND)
    like = run_folder(tmp_path / "before", experiment, [1000.0, 2000.0, 6000.0])
    found = forecast(experiment, 2, like)
    assert found["hours"]["expected"] == pytest.approx(4 * 3000 / 3600) and found["cost"]["expected"] == pytest.approx(8 * 0.5)
    assert found["disk_mb"] > 0 and "3 finished attempts in before" in " ".join(found["notes"])
    assert "$4.00" in forecast_text(found) and "expected 3.33" in forecast_text(found)


@pytest.mark.parametrize("told", [{"cost": None}, {"told": False}])
def test_a_run_whose_cost_is_not_known_makes_none_expected(tmp_path: Path, told: dict[str, Any]) -> None:
    experiment = replace(made_experiment(FOUR), agent=COMMAND)
    found = forecast(experiment, 2, run_folder(tmp_path / "before", experiment, [10.0, 20.0], **told))
    assert found["cost"]["expected"] is None and found["hours"]["expected"] == pytest.approx(60 / 3600)


@pytest.mark.parametrize("seconds", [[], [None], ["long"], [True]])
def test_a_run_that_tells_no_time_makes_nothing_expected(tmp_path: Path, seconds: list[Any]) -> None:
    experiment = replace(made_experiment(FOUR), agent=COMMAND)
    found = forecast(experiment, 2, run_folder(tmp_path / "before", experiment, seconds))
    assert found["hours"]["expected"] is None and found["cost"]["expected"] is None and found["disk_mb"] is None
    assert "nothing is expected from it" in " ".join(found["notes"])


def test_reference_patches_of_an_earlier_run_do_not_make_agents_look_quick(tmp_path: Path) -> None:
    arms = ("none", "reasoningbank", "gold")
    experiment = made_experiment(FOUR, *arms, agent=COMMAND)
    assert [cell.arm.kind for cell in lay_out(experiment).cells[:4]] == ["gold"] * 4
    like = run_folder(tmp_path / "before", experiment, [0.0, 0.0, 0.0, 0.0, 3600.0])
    assert forecast(experiment, 2, like)["hours"]["expected"] == 4.0


def test_a_folder_that_is_no_run_tells_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run folder"):
        forecast(made_experiment(FOUR), 2, tmp_path)


def test_the_plan_is_told_in_numbers() -> None:
    experiment = made_experiment(FOUR, "none", "reasoningbank", "derangement", builds=2, baseline_reruns=3, verdict="llm", model="m")
    found = forecast(experiment, 4)
    assert found["attempts"] == 12 + 8 + 8 and found["arms"] == {"none": 12, "reasoningbank": 8, "derangement": 8}
    assert (found["streams"], found["banks"], found["longest_chain"], found["workers"]) == (7, 4, 2, 4)
    assert "memory's own calls" in " ".join(found["notes"])
    text = forecast_text(found)
    assert "attempts    28: none 12, reasoningbank 8, derangement 8" in text and found["endpoint"] in text


# -- images ----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_a_dry_run_names_the_images_that_are_missing_where_an_engine_answers(
    base_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images = {1: "acme/web-1:1", 2: base_image, 3: "acme/web-3:1"}
    rows = written(tmp_path, *(row(instance_id=f"acme__web-{number}", image=image) for number, image in images.items()))
    asked = ["--dataset", str(rows), "--arm", "gold", "--out", str(tmp_path / "out"), "--dry-run"]

    def shown(*more: str) -> str:
        result = CliRunner().invoke(run, [*asked, *more])
        assert result.exit_code == 0, result.output
        return result.stdout

    text = shown()
    assert "2 are not on the engine (swe-memory images pull):" in text and "acme/web-1:1" in text and base_image not in text
    assert json.loads(shown("--json"))["missing_images"] == ["acme/web-1:1", "acme/web-3:1"]
    assert "images      all are on the engine" in shown("--instance", "acme__web-2")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    assert "images" not in shown() and json.loads(shown("--json"))["missing_images"] is None
    assert not (tmp_path / "out").exists()


def test_of_many_missing_images_some_are_named_and_the_others_counted() -> None:
    text = forecast_text(forecast(made_experiment(FOUR), 2, missing_images=[f"acme/web-{n}:1" for n in range(13)]))
    assert "13 are not on the engine" in text and "acme/web-9:1" in text and "acme/web-10:1" not in text and "... and 3 more" in text
