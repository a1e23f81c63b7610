"""The rules judge: counts in, a verdict with a probability out; no patch, no verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_attempts import ISSUE, PATCH, made, step

from swe_memory.extract.signals import signals
from swe_memory.judge import RulesJudge
from swe_memory.judge.rules import BAND
from swe_memory.records import Action, Step, Trajectory


def test_a_short_sure_attempt_looks_like_a_pass_and_a_long_doubting_one_like_a_failure() -> None:
    judge = RulesJudge()
    easy = judge.judge(ISSUE, made().trajectory)
    doubting = tuple(step("The issue says one thing. But the issue mentions another.", "cat x", "y" * 9000) for _ in range(30))
    hard = judge.judge(ISSUE, made(doubting, patch=PATCH).trajectory)
    assert (easy.outcome, hard.outcome) == ("resolved", "unresolved")
    assert easy.confidence is not None and hard.confidence is not None
    assert 0.5 < easy.confidence <= 1 and 0.5 < hard.confidence <= 1
    assert easy.source == "rules" and "probability" in easy.reason


def test_no_change_of_source_is_unresolved_and_no_patch_at_all_is_unknown() -> None:
    judge = RulesJudge()
    assert judge.judge(ISSUE, made(patch=None).trajectory).outcome == "unknown"
    assert judge.judge(ISSUE, made(patch="").trajectory).outcome == "unresolved"
    only_tests = PATCH.replace("boxes/shelf_count.py", "tests/test_shelf.py")
    verdict = judge.judge(ISSUE, made(patch=only_tests).trajectory)
    assert verdict.outcome == "unresolved" and "no source" in verdict.reason


def test_near_one_half_it_says_that_it_cannot_tell() -> None:
    judge = RulesJudge()
    outcomes = set()
    for size in range(0, 200_000, 1000):
        trajectory = Trajectory(
            (Step("The issue says so. The issue says no. The PR asks.", (Action("cat a", "y" * size, 0),)),), patch=PATCH
        )
        chance = judge.probability(signals(ISSUE, trajectory))
        outcome = judge.judge(ISSUE, trajectory).outcome
        outcomes.add(outcome)
        assert (outcome == "unknown") == (abs(chance - 0.5) < BAND)
    assert "unknown" in outcomes


def test_a_higher_base_rate_makes_every_attempt_more_likely_to_pass() -> None:
    found = signals(ISSUE, made().trajectory)
    low, even, high = (RulesJudge(base_rate=rate).probability(found) for rate in (0.2, 0.5, 0.8))
    assert 0 < low < even < high < 1
    with pytest.raises(ValueError, match="base_rate"):
        RulesJudge(base_rate=1.0)


def test_ids_and_repository_names_do_not_move_the_verdict() -> None:
    attempt = made()
    other = replace(attempt.issue, id="other__thing-99", repo="other/thing")
    judge = RulesJudge()
    assert judge.judge(attempt.issue, attempt.trajectory) == judge.judge(other, replace(attempt.trajectory, issue_id="other__thing-99"))


def test_on_real_attempts_it_orders_passes_before_failures_better_than_chance(shared: Path) -> None:
    from swe_memory.judge import agreement
    from swe_memory.sources import read_attempt, scan

    judge = RulesJudge()
    attempts = [read_attempt(file) for file in scan(shared / "runs").attempts]
    result = agreement([(a.verdict.outcome == "resolved", judge.judge(a.issue, a.trajectory)) for a in attempts])
    assert result.resolved == 105 and result.unresolved == 45
    assert result.auroc is not None and result.auroc.low > 0.5
    assert result.balanced_accuracy is not None and result.balanced_accuracy.low > 0.5
