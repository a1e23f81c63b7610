"""What a growing bank has left to learn and which version an attempt recalls from, wherever a run was cut. No bank is opened here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.events import RunState, fold
from harness.growing import Growing
from harness.layout import BankPlan, Key, lay_out
from tests.experiments import made_experiment, made_issues


def plan_of(issues: int, wave: int) -> BankPlan:
    return lay_out(made_experiment(made_issues(issues), protocol="online", wave=wave)).banks[0]


def where(key: Key) -> dict[str, str]:
    return dict(zip(("arm", "stream", "issue"), key, strict=True))


def graded(key: Key) -> list[dict[str, Any]]:
    return [
        {"event": "started", **where(key), "recall": None},
        {"event": "finished", **where(key), "exit_status": "Submitted", "calls": 1, "actions": 1, "patch_sha256": "0"},
        {"event": "graded", **where(key), "resolved": True, "outcome": "resolved", "flags": [], "verdict": None},
    ]


def lost(key: Key) -> list[dict[str, Any]]:
    return [{"event": "started", **where(key), "recall": None}, {"event": "failed", **where(key), "reason": "disk full"}]


def learned(plan: BankPlan, key: Key, version: int) -> dict[str, Any]:
    return {"event": "learned", **where(key), "bank": plan.id, "bank_version": version, "items": []}


@st.composite
def journals(draw: st.DrawFn) -> tuple[BankPlan, list[dict[str, Any]], set[Key]]:
    """A stream as it is worked through, wave by wave, with some attempts lost to the machine, cut somewhere; and which were lost."""
    plan = plan_of(draw(st.integers(2, 7)), draw(st.integers(1, 4)))
    gone = set(draw(st.lists(st.sampled_from(plan.lessons), unique=True, max_size=2)))
    events: list[dict[str, Any]] = []
    version = 0
    for wave in plan.waves:
        for key in draw(st.permutations(wave)):
            events += lost(key) if key in gone else graded(key)
        for key in wave:
            if key not in gone:
                version += 1
                events.append(learned(plan, key, version))
    return plan, events[: draw(st.integers(0, len(events)))], gone


def fully(plan: BankPlan, state: RunState, wave: int) -> bool:
    known = state.banks[plan.id].learned if plan.id in state.banks else {}
    return all(key in known for key in plan.waves[wave])


@settings(max_examples=200, deadline=None)
@given(journals())
def test_what_is_left_to_learn_is_what_no_later_attempt_relies_on(made: tuple[BankPlan, list[dict[str, Any]], set[Key]]) -> None:
    plan, events, _ = made
    state = fold(events)
    assert state.problems == ()
    left = Growing(plan, Path("nowhere"), state).left()
    begun = max((number for number, keys in enumerate(plan.waves) if any(key in state.attempts for key in keys)), default=0)
    # Waves before the last one begun are closed; that one is left unless all of it is learned; those after it are left.
    expected = [number for number in range(begun, len(plan.waves)) if number > begun or not fully(plan, state, number)]
    assert left == expected


@settings(max_examples=200, deadline=None)
@given(journals(), st.integers(0, 6))
def test_a_wave_recalls_from_the_bank_as_it_was_before_it_however_far_the_run_was(
    made: tuple[BankPlan, list[dict[str, Any]], set[Key]], wave: int
) -> None:
    plan, events, _ = made
    wave = min(wave, len(plan.waves) - 1)
    earlier = {key for keys in plan.waves[:wave] for key in keys}
    versions = [e["bank_version"] for e in events if e["event"] == "learned" and (e["arm"], e["stream"], e["issue"]) in earlier]
    assert Growing(plan, Path("nowhere"), fold(events)).version(wave) == max(versions, default=0)


def test_a_lost_attempt_that_comes_through_on_resume_is_learned_only_while_its_wave_is_the_last() -> None:
    plan = plan_of(4, 2)
    first, second = plan.waves
    whole = [*graded(first[0]), *lost(first[1]), learned(plan, first[0], 1)]
    assert Growing(plan, Path("x"), fold(whole)).left() == [0, 1]
    after = [*whole, *graded(second[0])]
    assert Growing(plan, Path("x"), fold(after)).left() == [1]
    assert Growing(plan, Path("x"), fold([*after, *graded(first[1])])).left() == [1]


def test_a_stream_that_lost_its_last_attempt_is_not_complete_until_that_is_learned() -> None:
    plan = plan_of(2, 1)
    events = [*graded(plan.lessons[0]), learned(plan, plan.lessons[0], 1), *lost(plan.lessons[1])]
    assert Growing.unlearned(plan, fold(events)) == [1]
    events += [*graded(plan.lessons[1]), learned(plan, plan.lessons[1], 2)]
    assert Growing.unlearned(plan, fold(events)) == []
