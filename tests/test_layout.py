"""What an experiment comes to: who learns from what and waits for whom, whatever the experiment."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.layout import Cell, Layout, check_protocol, lay_out
from harness.plan import Experiment
from swe_memory.errors import UsageError
from tests.experiments import experiments, made_experiment, made_issues

many = settings(max_examples=100, deadline=None)


def known_to(cell: Cell, layout: Layout) -> set[Any]:
    """The attempts that are in the bank that a cell recalls from, when it does."""
    if not cell.bank:
        return set()
    bank = layout.bank(cell.bank)
    return {key for wave in bank.waves[: cell.wave] for key in wave} if bank.kind == "growing" else set(bank.lessons)


@many
@given(experiments())
def test_nobody_recalls_from_what_an_attempt_at_its_own_issue_taught(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    for cell in layout.cells:
        assert cell.issue not in {issue for _, _, issue in known_to(cell, layout)}


@many
@given(experiments())
def test_memory_learns_from_the_baseline_or_from_itself_and_never_from_a_control(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    for bank in layout.banks:
        teachers = {arm for arm, _, _ in bank.lessons}
        expected = {"crossfit": {"none"}, "online": {bank.readers[0].name}, "offline": set()}[experiment.protocol]
        assert teachers <= expected
        assert len({(arm, stream) for arm, stream, _ in bank.lessons}) <= 1 and len(set(bank.lessons)) == len(bank.lessons)


@many
@given(experiments())
def test_an_attempt_has_a_bank_exactly_where_its_arm_is_given_something(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    kinds = {bank.id: bank.kind for bank in layout.banks}
    for cell in layout.cells:
        assert bool(cell.bank) == (cell.arm.kind in ("memory", "control"))
        if cell.bank:
            bank = layout.bank(cell.bank)
            assert cell.arm in bank.readers
            assert kinds[cell.bank] == {"crossfit": "frozen", "online": "growing", "offline": "given"}[experiment.protocol]
            assert cell.issue in (bank.issues if bank.kind != "growing" else {issue for _, _, issue in bank.waves[cell.wave]})


@many
@given(experiments(("crossfit", "offline")))
def test_a_control_reads_the_very_bank_of_the_arm_that_it_is_yoked_to(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    banks = {cell.key: cell.bank for cell in layout.cells}
    for cell in layout.cells:
        if cell.arm.kind == "control":
            assert cell.bank == banks[cell.arm.of, cell.stream, cell.issue]
    for bank in layout.banks:
        order = [arm.name for arm in bank.readers]
        assert all(order.index(arm.of) < order.index(arm.name) for arm in bank.readers if arm.kind == "control")


@many
@given(experiments())
def test_every_arm_attempts_every_issue_once_in_each_of_its_streams(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    assert len({cell.key for cell in layout.cells}) == len(layout.cells)
    for (arm, stream), cells in layout.streams().items():
        assert sorted(cell.issue for cell in cells) == sorted(experiment.instances), (arm, stream)
    streams = Counter(arm for arm, _ in layout.streams())
    again = experiment.reruns
    of_memory = {"crossfit": experiment.builds * again, "online": len(experiment.orders) * again, "offline": again}[experiment.protocol]
    for found in experiment.conditions():
        expected = {"none": max(again, experiment.baseline_reruns), "gold": 1}.get(found.kind, of_memory)
        assert streams[found.name] == expected
        assert len(layout.of_arm(found.name)) == expected * len(experiment.instances)


@many
@given(experiments(("online",)))
def test_the_waves_of_a_growing_bank_are_its_sequence_cut_into_pieces(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    for bank in layout.banks:
        order = int(bank.id.rsplit("/", 1)[1].split("-")[0])
        assert tuple(key for wave in bank.waves for key in wave) == bank.lessons
        assert tuple(issue for _, _, issue in bank.lessons) == experiment.sequence(order)
        assert all(len(wave) == experiment.wave for wave in bank.waves[:-1]) and 1 <= len(bank.waves[-1]) <= experiment.wave
        assert bank.readers == (next(arm for arm in experiment.conditions() if arm.name == bank.lessons[0][0]),)
    memory = [arm for arm in experiment.conditions() if arm.kind == "memory"]
    assert len(layout.banks) == len(memory) * len(experiment.orders) * experiment.reruns


@many
@given(experiments(("crossfit",)))
def test_the_two_banks_of_a_build_are_learned_from_halves_and_tested_on_the_other(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    families = {arm.family for arm in experiment.conditions() if arm.kind == "memory"}
    assert len(layout.banks) == 2 * experiment.builds * len(families)
    for bank in layout.banks:
        family, place = bank.id.split("/")
        build, fold = int(place.split("-")[0]), place.split("-")[1]
        letters = dict(zip(experiment.instances, experiment.folds[build - 1], strict=True))
        lessons = [issue for _, _, issue in bank.lessons]
        assert {letters[issue] for issue in lessons} <= {fold} and fold not in {letters[issue] for issue in bank.issues}
        assert sorted([*lessons, *bank.issues]) == sorted(experiment.instances)
        assert {arm.family for arm in bank.readers if arm.kind == "memory"} == {family}
        assert bank.outcomes == bank.readers[0].outcomes


@many
@given(experiments())
def test_folders_of_banks_and_streams_do_not_meet(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    places = [bank.place for bank in layout.banks]
    assert len(set(places)) == len({bank.id for bank in layout.banks}) == len(layout.banks)
    streams = {f"{cell.arm.folder}/{cell.stream}" for cell in layout.cells}
    shared = set(places) & streams
    # Only a growing bank lies in its own stream's folder.
    assert shared == {bank.place for bank in layout.banks if bank.kind == "growing"}
    assert all((bank.place.startswith("banks/")) == (bank.kind != "growing") for bank in layout.banks)


@many
@given(experiments())
def test_whoever_others_wait_for_goes_first(experiment: Experiment) -> None:
    layout = lay_out(experiment)
    chains = [cell.chain for cell in layout.cells]
    assert chains == sorted(chains, reverse=True)
    teaching = {key for bank in layout.banks for key in bank.lessons}
    for cell in layout.cells:
        if cell.arm.kind == "none":
            assert cell.chain == (2 if cell.key in teaching else 1)
        elif cell.arm.kind != "gold":
            bank = layout.bank(cell.bank)
            assert cell.chain == (len(bank.waves) - cell.wave if bank.kind == "growing" else 1)
    place = {cell.key: number for number, cell in enumerate(layout.cells)}
    for cell in layout.cells:
        assert all(place[key] < place[cell.key] for key in known_to(cell, layout))


def sources(layout: Layout) -> dict[str, tuple[str, ...]]:
    """Bank -> the issues that it learns from."""
    return {bank.id: tuple(issue for _, _, issue in bank.lessons) for bank in layout.banks}


def test_builds_learn_from_different_halves() -> None:
    layout = lay_out(made_experiment(made_issues(4, 3), builds=4))
    learned = sources(layout)
    assert len({frozenset(learned[f"reasoningbank/{build}-a"]) for build in range(1, 5)}) > 1
    assert set(learned) == {f"reasoningbank/{build}-{fold}" for build in range(1, 5) for fold in "ab"}


@pytest.mark.parametrize(
    ("reruns", "baseline", "streams"),
    [(1, 1, ["1-1"] * 5), (1, 3, ["1-1", "1-2", "1-3", "1-1", "1-2"]), (2, 1, ["1-1", "1-2", "1-1", "1-2", "1-1"])],
)
def test_builds_take_turns_with_the_reruns_of_the_baseline(reruns: int, baseline: int, streams: list[str]) -> None:
    layout = lay_out(made_experiment(made_issues(3), builds=5, reruns=reruns, baseline_reruns=baseline))
    taught = {int(bank.id.split("/")[1].split("-")[0]): {stream for _, stream, _ in bank.lessons} for bank in layout.banks}
    assert [taught[build] for build in range(1, 6)] == [{stream} for stream in streams]


def test_the_first_fold_is_attempted_before_the_second_so_that_its_bank_is_made_early() -> None:
    experiment = made_experiment(made_issues(4, 4))
    layout = lay_out(experiment)
    letters = dict(zip(experiment.instances, experiment.folds[0], strict=True))
    assert "".join(letters[cell.issue] for cell in layout.of_arm("none")) == "aaaabbbb"
    online = lay_out(made_experiment(made_issues(4, 4), protocol="online"))
    assert tuple(cell.issue for cell in online.of_arm("none")) == experiment.sequence()


def test_reference_patches_go_first_and_once_whatever_the_reruns() -> None:
    layout = lay_out(made_experiment(made_issues(2), "none", "reasoningbank", "gold", reruns=3))
    assert [cell.arm.name for cell in layout.cells][:2] == ["gold", "gold"] and len(layout.of_arm("gold")) == 2


def test_arms_of_one_family_share_their_banks_and_others_have_their_own() -> None:
    arms = ("none", "reasoningbank", "reasoningbank:k=3", "reasoningbank:success-only", "derangement/reasoningbank:success-only")
    layout = lay_out(made_experiment(made_issues(4), *arms))
    readers = {bank.id: [arm.name for arm in bank.readers] for bank in layout.banks}
    assert readers["reasoningbank/1-a"] == ["reasoningbank", "reasoningbank:k=3"]
    assert readers["reasoningbank-success-only/1-b"] == ["reasoningbank:success-only", "derangement/reasoningbank:success-only"]
    assert layout.bank("reasoningbank-success-only/1-a").outcomes == {"resolved"}


def test_a_given_bank_is_read_by_all_and_learns_nothing() -> None:
    layout = lay_out(made_experiment(made_issues(2, 1), "none", "reasoningbank", "neutral", "gold", protocol="offline", reruns=2))
    (bank,) = layout.banks
    assert (bank.id, bank.kind, bank.lessons, bank.waves) == ("given/offline", "given", (), ())
    assert [arm.name for arm in bank.readers] == ["reasoningbank", "neutral"] and len(bank.issues) == 3
    assert lay_out(made_experiment(made_issues(2), "none", "gold", protocol="offline")).banks == ()
    with pytest.raises(KeyError):
        layout.bank("elsewhere")


def unchecked(*arms: str, **more: Any) -> Experiment:
    return replace(made_experiment(made_issues(2), "none"), arms=arms, **more)


@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        (unchecked("reasoningbank"), "there is no arm `none`"),
        (unchecked("reasoningbank", "derangement", "gold"), "there is no arm `none`"),
        (unchecked("none", "reasoningbank", instances=("a",)), "two issues or more"),
        (unchecked("none", "reasoningbank", "neutral", protocol="online"), "'neutral' needs a frozen bank"),
        (unchecked("none", "reasoningbank", protocol="offline"), "offline needs a bank"),
        (unchecked("reasoningbank:success-only", protocol="offline", bank={"name": "x"}), "cannot be chosen any more"),
        (unchecked("none", bank={"name": "x"}), "crossfit makes its own"),
        (unchecked("none", protocol="online", bank={"name": "x"}), "online makes its own"),
    ],
)
def test_arms_that_a_protocol_cannot_serve_are_refused_with_what_to_do(experiment: Experiment, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_protocol(experiment)
    assert words in caught.value.what and caught.value.hint


@pytest.mark.parametrize("protocol", ["crossfit", "online", "offline"])
def test_the_baseline_alone_goes_with_every_protocol_and_makes_no_bank(protocol: str) -> None:
    experiment = made_experiment(made_issues(1), "none", "gold", protocol=protocol)
    assert lay_out(experiment).banks == () and len(lay_out(experiment).cells) == 2


@many
@given(st.permutations(range(6)), st.integers(1, 2))
def test_the_order_of_the_dataset_changes_no_bank(order: list[int], builds: int) -> None:
    issues = made_issues(3, 3)
    one, two = (lay_out(made_experiment(chosen, builds=builds)) for chosen in (issues, [issues[number] for number in order]))
    assert one.banks == two.banks and one.cells == two.cells
