"""The records: what a caller builds wrongly is refused by name at once, and an attempt is known by its content alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from banks import BagOfWords, NoteTaker, attempt

from swe_memory import Action, Attempt, Issue, MemoryBank, Step, Trajectory, Verdict

ISSUE = Issue("web-1", "acme/web", "The total is wrong")
WORK = Trajectory((Step("I look.", (Action("ls", "a", 0),)),), patch="")


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Issue(None, "a/b", "t"), "Issue.id"),
        (lambda: Issue("x", "a/b", b"t"), "Issue.text"),
        (lambda: Issue("x", "a/b", "t", created_at="2026-01-01"), "Issue.created_at"),
        (lambda: Action("ls", None, 0), "Action.output"),
        (lambda: Action("ls", b"bytes", 0), "Action.output"),
        (lambda: Action(["ls"]), "Action.command"),
        (lambda: Step(None), "Step.thought"),
        (lambda: Step("x", ("ls",)), "Step.actions"),
        (lambda: Step("x", [Action("ls")]), "Step.actions"),
        (lambda: Trajectory(({"thought": "x"},)), "Trajectory.steps"),
        (lambda: Trajectory((), patch=b""), "Trajectory.patch"),
        (lambda: Attempt(ISSUE, WORK, None), "Attempt.verdict"),
        (lambda: Attempt(ISSUE, {"steps": []}, Verdict.unknown()), "Attempt.trajectory"),
        (lambda: Attempt("web-1", WORK, Verdict.unknown()), "Attempt.issue"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_name(build: Callable[[], Any], field: str) -> None:
    with pytest.raises(TypeError, match=field):
        build()


def test_the_two_calls_refuse_what_is_not_a_record(tmp_path: Path) -> None:
    with MemoryBank.open(tmp_path / "b.lance", embedder=BagOfWords()) as bank:
        with pytest.raises(TypeError, match="Issue"):
            bank.recall("the total is wrong")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="verdict"):
            bank.learn(ISSUE, WORK, None)  # type: ignore[arg-type]


def test_an_attempt_is_known_by_its_content_and_not_by_its_verdict_or_file() -> None:
    one = attempt(1)
    assert replace(one, source="elsewhere.json", verdict=Verdict.unknown()).key == one.key
    assert replace(one, trajectory=replace(one.trajectory, patch=one.trajectory.patch + "\n")).key != one.key  # type: ignore[operator]
    assert replace(one, issue=replace(one.issue, id="web-99")).key != one.key


def test_what_one_opened_bank_learns_is_taken_back_together(tmp_path: Path) -> None:
    with MemoryBank.open(tmp_path / "b.lance", embedder=BagOfWords()) as bank:
        first = attempt(1)
        bank.learn(first.issue, first.trajectory, first.verdict, extractor=NoteTaker())
    with MemoryBank.open(tmp_path / "b.lance", embedder=BagOfWords()) as bank:
        for number in (2, 3):
            one = attempt(number)
            bank.learn(one.issue, one.trajectory, one.verdict, extractor=NoteTaker())
        assert bank.undo().experiences == 2
        assert [experience.issue.id for experience in bank.experiences()] == [first.issue.id]
