"""The digest: never over its budget, the same each time, and what matters most is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_attempts import CAUSE, PATCH, made

from swe_memory.extract import digest, estimate_tokens
from swe_memory.extract.digest import shorten
from swe_memory.records import Action, Attempt, Issue, Step, Trajectory, Verdict

words = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)
actions = st.builds(Action, command=words, output=words, returncode=st.none() | st.integers(-1, 130))
steps = st.builds(Step, thought=words, actions=st.lists(actions, max_size=3).map(tuple), feedback=words)
trajectories = st.builds(
    Trajectory,
    steps=st.lists(steps, max_size=30).map(tuple),
    exit_status=st.sampled_from(["Submitted", "", "LimitsExceeded"]),
    patch=st.none() | words | st.just(PATCH),
)


@settings(max_examples=60, deadline=None)
@given(trajectory=trajectories, text=words, budget=st.integers(1, 3000))
def test_never_exceeds_its_budget_whatever_the_attempt(trajectory: Trajectory, text: str, budget: int) -> None:
    attempt = Attempt(Issue("a__b-1", "a/b", text), trajectory, Verdict("resolved", "tests"))
    result = digest(attempt, budget)
    assert estimate_tokens(result) <= budget
    assert result == digest(attempt, budget)


@given(text=words, limit=st.integers(0, 500))
def test_shortening_keeps_the_limit_and_says_how_much_is_missing(text: str, limit: int) -> None:
    result = shorten(text, limit)
    assert len(result) <= limit
    if len(text) > limit >= 100:
        assert "characters left out]" in result


def test_a_roomy_budget_keeps_every_thought_command_and_failing_output() -> None:
    attempt = made()
    result = digest(attempt, 12_000)
    assert "left out" not in result.replace("> [... 2 characters left out]", "")
    for step in attempt.trajectory.steps[:-1]:
        assert all(action.command in result for action in step.actions)
    assert CAUSE in result and "NoneType" in result and "Counting an empty shelf" in result


def test_a_long_output_is_cut_and_marked_while_the_patch_and_the_failure_stay() -> None:
    base = made()
    noisy = Step("I list everything.", (Action("ls -R", "file\n" * 100_000, 0),))
    attempt = made((noisy, *base.trajectory.steps))
    result = digest(attempt, 900)
    assert "characters left out]" in result
    assert "if content is None" in result and "hidden boxes alone" in result
    assert result.startswith("ISSUE acme__boxes-17")


def test_steps_that_do_not_fit_are_counted() -> None:
    many = tuple(
        Step(f"Thought number {i} about nothing much at all, at some length so that it takes room.", (Action(f"ls {i}", "x" * 50, 0),))
        for i in range(300)
    )
    result = digest(made(many), 600)
    assert "steps left out]" in result
    assert estimate_tokens(result) <= 600


@pytest.mark.parametrize("budget", [0, -5])
def test_no_budget_gives_nothing(budget: int) -> None:
    assert digest(made(), budget) == ""


def test_the_verdict_is_not_in_the_digest() -> None:
    assert digest(made(outcome="resolved"), 3000) == digest(made(outcome="unresolved"), 3000)


def test_real_attempts_fit_the_stored_and_the_prompt_budget(shared: Path) -> None:
    from swe_memory.sources import read_attempt, scan

    files = scan(shared / "runs").attempts
    largest = (
        sorted(files, key=lambda f: -f.trajectory.stat().st_size)[:3]
        + sorted(files, key=lambda f: f.issue_id if hasattr(f, "issue_id") else str(f.trajectory))[:3]
    )
    for file in largest:
        attempt = read_attempt(file)
        for budget in (500, 12_000):
            assert estimate_tokens(digest(attempt, budget)) <= budget
