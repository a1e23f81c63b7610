"""The comparison: published figures of the tests, and a true sentence for every awkward run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import compare
from harness.compare import comparison, mcnemar_exact, mcnemar_midp, wilson
from harness.compare_text import render, table
from harness.events import RunState, fold
from harness.plan import Experiment
from swe_memory.errors import UsageError

EXPERIMENT = Experiment("bench", "0" * 64, ("i-1", "i-2", "i-3"), "repair", ("none", "reasoningbank"))
ITEM = {"item": "m1", "title": "Check the boundary", "learned_from": "i-0", "score": 0.5, "bank_version": 1}


def events(arm: str, issue: str, resolved: bool, calls: int = 10, status: str = "Submitted", recall: Any = None) -> list[dict[str, Any]]:
    where = {"arm": arm, "stream": "1-1", "issue": issue}
    return [
        {"event": "started", **where, "recall": recall},
        {"event": "finished", **where, "calls": calls, "actions": calls, "exit_status": status, "patch_sha256": "0"},
        {
            "event": "graded",
            **where,
            "resolved": resolved,
            "outcome": "resolved" if resolved else "unresolved",
            "flags": [],
            "verdict": {"outcome": "resolved", "source": "rules", "reason": "", "confidence": None},
        },
        {"event": "learned", **where},
    ]


def state(*parts: list[dict[str, Any]]) -> RunState:
    return fold([event for part in parts for event in part])


def test_midp_and_exact_agree_with_published_limits() -> None:
    # With 17 net wins of 500, mid-p stays below .05 up to 73 discordant pairs and the exact test up to 67.
    assert mcnemar_midp(45, 28) < 0.05 < mcnemar_midp(46, 29)
    assert mcnemar_exact(42, 25) < 0.05 < mcnemar_exact(43, 26)


@pytest.mark.parametrize(("b", "c", "midp"), [(1, 0, 0.5), (3, 3, 1 - 0.5 * 20 / 64), (0, 5, 1 / 32), (2, 0, 0.25)])
def test_midp_by_hand(b: int, c: int, midp: float) -> None:
    assert mcnemar_midp(b, c) == pytest.approx(midp)
    assert mcnemar_midp(c, b) == pytest.approx(midp)
    assert mcnemar_midp(b, c) <= mcnemar_exact(b, c)


def test_wilson_against_a_published_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81 of 263 and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_a_complete_run_gives_pairs_rates_and_the_items_used() -> None:
    found = comparison(
        EXPERIMENT,
        state(
            events("none", "i-1", True, 10),
            events("none", "i-2", False, 60, "LimitsExceeded"),
            events("none", "i-3", False, 20),
            events("reasoningbank", "i-1", True, 8),
            events("reasoningbank", "i-2", True, 30, recall=ITEM),
            events("reasoningbank", "i-3", False, 20, recall=ITEM),
        ),
        "r",
    )
    none, memory = found["arms"]
    assert (none["resolved"], none["graded"], none["limit_hits"], none["mean_calls"]) == (1, 3, 1, 30.0)
    assert (memory["resolved"], memory["recalled"], memory["judge"]) == (2, 2, {"right": 2, "wrong": 1, "unknown": 0})
    pair = found["comparisons"][0]
    assert (pair["both"], pair["only_arm"], pair["only_baseline"], pair["neither"]) == (1, 1, 0, 1)
    assert pair["difference"] == pytest.approx(1 / 3) and pair["p_midp"] == pytest.approx(0.5) and pair["p_exact"] == 1.0
    assert pair["calls_difference"] == pytest.approx((-2 - 30 + 0) / 3)
    assert found["items"] == [{"id": "m1", "title": "Check the boundary", "learned_from": "i-0", "uses": 2, "resolved": 1}]
    assert found["complete"] and any("One stream" in sentence for sentence in found["sentences"])
    text = render(found)
    assert "i-2" in text and "Check the boundary (0.50)" in text and "+33.3 points" in text


AWKWARD = {
    "nothing done yet": (EXPERIMENT, state(), "not complete"),
    "one arm": (
        replace(EXPERIMENT, arms=("reasoningbank",)),
        state(events("reasoningbank", "i-1", True)),
        "no pair of an arm with memory and `none`",
    ),
    "no overlap": (EXPERIMENT, state(events("none", "i-1", True), events("reasoningbank", "i-2", True)), "nothing to compare"),
    "no discordant pair": (
        EXPERIMENT,
        state(*(events(a, i, True) for a in EXPERIMENT.arms for i in EXPERIMENT.instances)),
        "no discordant pair",
    ),
    "all resolved, then none": (
        EXPERIMENT,
        state(*(events("none", i, False) for i in EXPERIMENT.instances), *(events("reasoningbank", i, True) for i in EXPERIMENT.instances)),
        "3 issues were resolved only with",
    ),
    "one issue": (
        replace(EXPERIMENT, instances=("i-1",)),
        state(events("none", "i-1", True), events("reasoningbank", "i-1", False)),
        "-100.0 points",
    ),
    "infra failure": (
        EXPERIMENT,
        state(events("none", "i-1", True), [{"event": "failed", "arm": "none", "stream": "1-1", "issue": "i-2", "reason": "disk"}]),
        "1 attempt failed through the machine",
    ),
    "oracle": (replace(EXPERIMENT, verdict="tests"), state(), "oracle verdict"),
}


@pytest.mark.parametrize("case", AWKWARD)
def test_an_awkward_run_gets_a_true_sentence_and_no_nan(case: str) -> None:
    experiment, found, words = AWKWARD[case]
    result = comparison(experiment, found, "r")
    assert words in " ".join(result["sentences"])
    json.loads(json.dumps(result, allow_nan=False))
    assert "nan" not in render(result).lower().replace("none", "")


@pytest.mark.parametrize("field", [*EXPERIMENT.to_json(), "all of it"])
def test_a_damaged_experiment_is_refused_in_words_or_compared_and_never_a_traceback(tmp_path: Path, field: str) -> None:
    whole = EXPERIMENT.to_json()
    lines = [json.dumps(event) + "\n" for event in events("none", "i-1", True, recall=ITEM)]
    (tmp_path / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    values: tuple[Any, ...] = (None, "x", [1], ["x", "x"], {}, {"a": 1}, float("nan"), 10**400, True, -1)
    damaged = [json.dumps({**whole, field: value}) for value in values] + [json.dumps({k: v for k, v in whole.items() if k != field})]
    if field == "all of it":
        damaged = ["", "[]", "[" * 100_000, '{"a":' * 100_000, "null", "\xff", "9" * 5000]
    for text in damaged:
        (tmp_path / "experiment.json").write_text(text, encoding="utf-8")
        for more in ([], ["--json"]):
            result = CliRunner().invoke(compare, [str(tmp_path), *more])
            assert result.exit_code == 0 or isinstance(result.exception, UsageError), (text[:300], result.exception)
            assert result.exit_code != 0 or field not in ("arms", "instances") or text == damaged[-1]


def test_a_damaged_event_leaves_its_attempt_ungraded_and_is_told(tmp_path: Path) -> None:
    damage: tuple[tuple[int, dict[str, Any]], ...] = (
        (0, {"recall": {**ITEM, "score": float("nan")}}),
        (0, {"recall": {"item": "a"}}),
        (1, {"calls": None}),
        (1, {"actions": float("nan")}),
        (2, {"resolved": "false"}),
        (2, {"verdict": "x"}),
    )
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.to_json()), encoding="utf-8")
    for at, change in damage:
        lines = events("none", "i-1", True, recall=ITEM)
        lines[at] |= change
        (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines), encoding="utf-8")
        told = json.loads(CliRunner().invoke(compare, [str(tmp_path), "--json"]).output)
        assert told["arms"][0]["graded"] == 0 and next(iter(change)) in told["problems"][0], change
        assert "warning: event" in CliRunner().invoke(compare, [str(tmp_path)]).output


def test_lone_surrogates_in_a_title_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.to_json()), encoding="utf-8")
    lines = events("none", "i-1", True, recall={**ITEM, "title": "odd \ud800 title", "score": None})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in lines), encoding="utf-8")
    for more in ([], ["--json"]):
        result = CliRunner().invoke(compare, [str(tmp_path), *more])
        assert result.exit_code == 0 and "odd ? title" in result.output


def test_folders_that_are_no_runs_are_refused_in_words(tmp_path: Path) -> None:
    for folder, words in ((tmp_path / "absent", "there is no folder"), (tmp_path, "no run folder")):
        result = CliRunner().invoke(compare, [str(folder)])
        assert isinstance(result.exception, UsageError) and words in result.exception.what
    (tmp_path / "experiment.json").write_text("{", encoding="utf-8")
    result = CliRunner().invoke(compare, [str(tmp_path)])
    assert isinstance(result.exception, UsageError) and "damaged" in result.exception.what


def test_the_command_prints_text_and_json(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(json.dumps(EXPERIMENT.to_json()), encoding="utf-8")
    lines = [json.dumps(event) + "\n" for event in events("none", "i-1", True)]
    (tmp_path / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    shown = CliRunner().invoke(compare, [str(tmp_path)])
    assert shown.exit_code == 0 and "i-1" in shown.output and "5 attempts are missing" in shown.output
    told = json.loads(CliRunner().invoke(compare, [str(tmp_path), "--json"]).output)
    assert told["arms"][0]["rate"] == 1.0 and told["arms"][1]["rate"] is None


def test_tables_fit_the_terminal() -> None:
    lines = table(["a", "title"], [["x" * 10, "long " * 40]], width=60)
    assert max(map(len, lines)) <= 60 and lines[-1].endswith("…")
