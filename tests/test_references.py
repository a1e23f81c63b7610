"""A run of reference patches alone: which of them resolve here, and not a word about agents, memory or recalls."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.analysis.references import MOST_NAMES, leaving_out
from harness.cli import compare, report
from harness.compare import comparison
from harness.compare_text import render
from harness.dataset import load_dataset
from harness.selection import select
from swe_memory.errors import UsageError
from tests.compared import all_of, events, state
from tests.experiments import made_experiment, made_issues
from tests.quick_bench import Bench, arms, issue_id, make_bench, one_grading_process
from tests.small_run import ask

FOUR = made_issues(2, 2)
NAMES = [issue_id(number) for number in range(4)]
ELSEWHERE = re.compile(r"memory|memories|recall|agent repair|language model|\barm\b|`none`|mean calls", re.IGNORECASE)
"""What such a run has nothing to say about."""
HARMLESS = "What an agent does at such an issue cannot be graded here. Find out why, or leave it out of your runs."


def said(text: str) -> str:
    """Without what names the program, or the folder."""
    return re.sub(r"swe-memory", "", text)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Four issues: the reference patch of the first does not resolve it, that of the third cannot be applied."""
    with one_grading_process():
        made = make_bench(tmp_path_factory.mktemp("bench"))
        rows = [json.loads(line) for line in made.dataset.read_text().splitlines()]
        rows[0]["patch"] = rows[0]["patch"].replace("'right'", "'left'")
        rows[2]["patch"] = "diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-one\n+other\n"
        made.dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        yield made


@pytest.fixture(scope="module")
def broken(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """(folder, result of the command) of reference patches alone, of which two do not resolve."""
    out = tmp_path_factory.mktemp("runs") / "check"
    return out, bench.run(out, *arms("gold"))


def test_each_that_does_not_resolve_is_named_with_its_outcome_its_output_and_what_to_do(broken: tuple[Path, Any]) -> None:
    out, result = broken
    assert "2 of 4 reference patches resolve their issues here." in result.stdout
    output = out / "gold" / "1-1" / "logs" / NAMES[0] / "test_output.txt"
    assert f"{NAMES[0]}: unresolved; see {output}" in result.stdout and "FAILED" in output.read_text()
    logs = out / "gold" / "1-1" / "logs" / NAMES[2]
    assert f"{NAMES[2]}: not_applied; see {logs}\n" in result.stdout and (logs / "patch.diff").is_file()
    assert NAMES[1] not in result.stdout and HARMLESS in result.stdout
    explain = next(line for line in result.stdout.splitlines() if "swe-memory run explain" in line)
    assert ask("explain", *shlex.split(explain.split("swe-memory run explain ")[1])).exit_code == 0
    assert not ELSEWHERE.search(said(result.output.replace(str(out), ""))), result.output


def test_it_ends_with_exit_code_1_and_one_whose_patches_all_resolve_with_0(bench: Bench, broken: tuple[Path, Any], tmp_path: Path) -> None:
    _, result = broken
    assert result.exit_code == 1 and result.exception.__class__ is SystemExit
    flag = next(line for line in result.stdout.splitlines() if "leave out: " in line).split("leave out: ")[1]
    good = bench.run(tmp_path / "good", *arms("gold"), *shlex.split(flag))
    assert good.exit_code == 0 and "2 of 2 reference patches resolve their issues here." in good.stdout
    assert "What to do: nothing" in good.stdout and not ELSEWHERE.search(said(good.output))
    assert "calls" not in good.stderr, "nobody made any"


def test_beside_an_agent_a_reference_patch_that_fails_is_told_and_ends_no_run_badly(bench: Bench, tmp_path: Path) -> None:
    result = bench.run(tmp_path / "out", *arms("none", "gold"))
    assert result.exit_code == 0 and "The reference patch fails here on 2 of 4 issues" in " ".join(result.stdout.split())
    assert result.stdout.count("no pair of an arm with memory and `none`") == 1


def test_compare_says_the_same_and_its_json_has_the_shape_of_every_comparison(broken: tuple[Path, Any]) -> None:
    out, result = broken
    shown = CliRunner().invoke(compare, [str(out)])
    assert shown.exit_code == 0 and result.stdout.startswith(shown.stdout.rstrip())
    found = json.loads(CliRunner().invoke(compare, [str(out), "--json"]).stdout)
    none = comparison(made_experiment(FOUR, "none"), state(), "r")
    assert found.keys() == none.keys() and found["headline"].keys() == none["headline"].keys()
    assert found["environment"] == [
        {
            "checked": 4,
            "resolved": 2,
            "failing": [{"issue": NAMES[0], "outcome": "unresolved"}, {"issue": NAMES[2], "outcome": "not_applied"}],
        }
    ]
    assert found["arms"] == found["comparisons"] == found["claims"] == found["threats"] == found["items"] == []
    assert json.loads((out / "results.json").read_text())["headline"] == found["headline"]


def test_there_is_nothing_to_report_or_to_learn_and_that_is_said(broken: tuple[Path, Any], tmp_path: Path) -> None:
    out, _ = broken
    result = CliRunner().invoke(report, [str(out)])
    assert isinstance(result.exception, UsageError) and "reference patches only" in result.exception.what
    assert f"swe-memory compare {out}" in result.exception.hint and not (out / "report.html").exists()
    refused = ask("relearn", out, "--bank", tmp_path / "new.lance")
    assert isinstance(refused.exception, UsageError) and "reference patches only" in refused.exception.what
    assert not (tmp_path / "new.lance").exists()


def test_what_has_no_grade_is_counted_apart() -> None:
    experiment = made_experiment(FOUR, "gold")
    one, other = (issue.id for issue in FOUR[:2])
    where = {"arm": "gold", "stream": "1-1", "issue": other}
    lost = [{"event": "failed", **where, "reason": "no space left\nmore"}]
    found = comparison(experiment, state(events("gold", one, True), lost), "r")
    assert found["headline"]["sentence"] == (
        "1 of 1 reference patch resolves its issue here. 1 reference patch was not graded, because the machine failed. "
        "2 reference patches are still to be graded."
    )
    text = render(found)
    assert f"{other}, tried 1 time: no space left" in text and "What to do" not in text and not found["complete"]
    empty = comparison(experiment, state(), "r")
    assert empty["headline"]["sentence"] == "No reference patch is graded yet. 4 reference patches are still to be graded."
    assert not found["threats"] and not empty["threats"] and not ELSEWHERE.search(said(render(empty)))


def test_tests_that_take_too_long_are_given_more_time_and_a_damaged_journal_is_told() -> None:
    experiment = made_experiment(FOUR, "gold", test_seconds=7.0)
    journal = [{**event, "outcome": "timed_out"} if event["event"] == "graded" else event for event in all_of(experiment, lambda _: False)]
    text = render(comparison(experiment, state(journal, [{"event": "no such"}]), "r"))
    issue = FOUR[0].id
    assert f"{issue}: timed_out; see r/gold/1-1/logs/{issue}/test_output.txt" in text and "--test-seconds, which was 7" in text
    assert "1 thing could not be read" in text and "0 of 4 reference patches resolve their issues here." in text


def test_the_flag_that_leaves_issues_out_leaves_the_others() -> None:
    dataset = load_dataset("minibench")
    names = [instance.issue.id for instance in dataset.instances]
    _, pattern = shlex.split(leaving_out(names[1:4]))
    assert select(dataset, pattern=pattern) == (names[0], *names[4:])
    assert leaving_out([f"i-{number}" for number in range(MOST_NAMES + 1)]) == ""
    assert shlex.split(leaving_out(["a.b+c-1"])) == ["--filter", r"(?!(a\.b\+c-1)$)"]
