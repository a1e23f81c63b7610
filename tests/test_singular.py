"""What is counted once stands in the singular, wherever a run is told of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.budget import RunBudget
from harness.cli_engine import clean, images
from harness.compare import comparison
from harness.compare_text import render
from harness.events import Journal
from harness.explain import explain_attempt
from harness.explain_text import explain_text
from harness.folder import freeze
from harness.forecast import forecast, forecast_text
from harness.grades import judged
from harness.layout import lay_out
from harness.looking import usage_words
from harness.relearn import relearn_text
from harness.scheduler import Outcome
from harness.status import run_status, status_text
from harness.telling import Teller, describe
from swe_memory.records import Usage
from tests.compared import events, state
from tests.dataset_rows import row, written
from tests.experiments import made_experiment, made_issues

NOUNS = "attempt issue stream call action token item image container problem line file worker session try verdict draft test pair character time instance thing"
PLURAL = re.compile(rf"(?<![\w.:/-])1 (?:[a-z]+ )?(?:{'|'.join(f'{noun}s' for noun in NOUNS.split())}|tries|are|were|have|do)\b")
ONE = made_experiment(made_issues(1), "none", protocol="online", call_limit=1)
(ISSUE,) = ONE.instances


def right(text: str, *words: str) -> None:
    assert not (wrong := PLURAL.search(text)), wrong[0]
    for part in words:
        assert part in text, text


def test_a_run_of_one_attempt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    freeze(tmp_path / "run", ONE, resume=False)
    with Journal(tmp_path / "run" / "events.jsonl") as journal:
        journal.append("session")
        for event in events("none", ISSUE, False, calls=1):
            journal.append(event.pop("event"), **event, **({"seconds": 1.0} if "exit_status" in event else {}))
    right(status_text(run_status(tmp_path / "run")), "1 of 1 attempt done", "in 1 session")
    right(explain_text(explain_attempt(tmp_path / "run", ISSUE)[0]), "1 call, 1 action")
    found = comparison(ONE, state(events("none", ISSUE, False, calls=1)), "r")
    right(render(found), "r: 1 issue of")
    (cell,) = lay_out(ONE).cells
    right(describe(Outcome(cell, resolved=True, calls=1)), "1 call")
    done = state(events("none", ISSUE, True))
    for before, words in ((state(), "1 attempt in 1 stream: none 1"), (done, "1 of 1 attempt is done already")):
        with Teller(lay_out(ONE), before):
            pass
        right(capsys.readouterr().err, words)


def test_a_forecast_of_one_attempt() -> None:
    right(forecast_text(forecast(ONE, 1)), "1 issue of", "attempts    1: none 1", "at most 1 attempt one after the other", "with 1 worker")
    right(forecast_text(forecast(ONE, 1, missing_images=["a/b:1"])), "1 is not on the engine")


@pytest.mark.parametrize(("count", "words"), [(1, "1 test that should pass now fails; 1 that passed before does not any more"),
                                              (2, "2 tests that should pass now fail; 2 that passed before do not any more")])  # fmt: skip
def test_the_reason_of_a_grade(count: int, words: str) -> None:
    status = {kind: {"failure": ["t"] * count, "success": []} for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    report = {"i-1": {"resolved": False, "infra_failure": False, "tests_status": status}}
    assert judged("i-1", "patch", report, "", pytest_hint="").reason == words


def test_what_was_used_and_what_may_be() -> None:
    right(usage_words({"calls": 1, "input_tokens": 1, "output_tokens": 2, "cost": 0.5}), "1 call, 1 token in")
    used = Usage(1, 1, 0, None)
    right(RunBudget(cost=1.0, spent=used).reached(0.0), "(1 call and 1 token so far)")
    right(RunBudget(tokens=1, spent=used).reached(0.0), "budget of 1 token ")
    right(RunBudget(calls=1, spent=used).reached(0.0), "budget of 1 call ")


def test_what_was_learned_again_from_one_attempt() -> None:
    items = {"added": 1, "quarantined": 0, "rejected": 1, "by_polarity": {"failure": 1}, "by_reach": {"repository": 1}}
    found = {
        "run": "r", "bank": "b.lance", "bank_version": 1, "arms": ["none"], "verdict": {"source": "rules", "label": "verdicts by rules"},
        "extractor": "rules@1", "model": "", "attempts": 1, "learned": 1, "already": 0, "superseded": 0, "nothing": 0, "items": items,
        "verdicts": {"resolved": 1, "unresolved": 0, "unknown": 0}, "against_tests": {"right": 1, "wrong": 0, "unknown": 0},
        "left_out": {"infra": [], "not_graded": 1}, "failures": [], "stopped": "", "usage": {}, "warnings": [],
    }  # fmt: skip
    right(relearn_text(found), "1 attempt of none in r", "1 draft refused", "left out as not graded: 1 attempt")


@pytest.mark.usefixtures("engine")
def test_one_image_and_no_container(base_image: str, tmp_path: Path) -> None:
    asked = ["--dataset", str(written(tmp_path, row(image=base_image)))]
    right(CliRunner().invoke(images, ["list", *asked]).output, "1 of 1 image is here")
    right(CliRunner().invoke(images, ["pull", *asked]).output, "the image is here")
    right(CliRunner().invoke(clean, [str(tmp_path / "no-such-run")]).output, "0 containers removed, 0 left to their processes")
    asked = ["--dataset", str(written(tmp_path, row(image="swe-memory-test/nobody-has-this:1")))]
    right(CliRunner().invoke(images, ["list", *asked]).output, "0 of 1 image is here", "1 is missing; the disk that it needs")
