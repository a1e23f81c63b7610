"""What a comparison estimates under each protocol, what it claims, what memory costs, and what noise there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

import harness.analysis
from harness.analysis.words import CHARGED, amount, points
from harness.compare import comparison
from harness.compare_text import render
from harness.layout import Key, lay_out
from harness.plan import Experiment
from tests.compared import ITEM, all_of, events, frozen, state, used
from tests.experiments import made_experiment, made_issues

FORTY = made_issues(10, 10, 10, 10)
IDS = [issue.id for issue in FORTY]


def number(issue: str) -> int:
    return IDS.index(issue)


def compared(
    experiment: Experiment, resolved: Callable[[Key], bool] = lambda _: True, *more: list[dict[str, Any]], **all_: Any
) -> dict[str, Any]:
    """The comparison of a whole run of an experiment."""
    banks = frozen(experiment) if experiment.protocol == "crossfit" else []
    given = [{"event": "frozen", "bank": "given/offline", "version": 1, "experiences": 2, "items": 2, "missing": []}]
    return comparison(
        experiment, state(all_of(experiment, resolved, **all_), banks, given if experiment.protocol == "offline" else [], *more), "r"
    )


# -- estimands -------------------------------------------------------------------------------------------------------------------------------

PROTOCOLS: dict[str, tuple[dict[str, Any], list[str], str, str]] = {
    "crossfit": ({}, ["given the banks"], "issue", "two banks of this run"),
    "builds": ({"builds": 3}, ["given the banks", "over builds"], "issue", "3 builds of the bank"),
    "offline": ({"protocol": "offline"}, ["given the banks"], "issue", "given the bank that was used"),
    "one stream": ({"protocol": "online"}, ["along this path"], "issue", "path of this one stream"),
    "streams": ({"protocol": "online", "orders": 3}, ["over streams"], "stream", "over streams (orders and banks"),
    "reruns of a stream": ({"protocol": "online", "reruns": 2}, ["over streams"], "stream", "banks that grow along the same order"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_interval_says_what_it_estimates_under_its_protocol(protocol: str) -> None:
    settings, names, unit, words = PROTOCOLS[protocol]

    def resolved(key: Key) -> bool:
        return (number(key[2]) + len(key[1]) * int(key[1][0])) % 3 > 0 if key[0] == "none" else (number(key[2]) + int(key[1][0])) % 4 > 0

    (pair,) = compared(made_experiment(FORTY, **settings), resolved)["comparisons"]
    assert [part["name"] for part in pair["estimates"]] == names
    first = pair["estimates"][0]
    assert pair["unit"] == unit and words in pair["estimand"] == first["estimate"]["estimand"]
    assert (pair["difference"], pair["low"], pair["high"], pair["p"]) == (
        *(first["estimate"][name] for name in ("value", "low", "high")),
        first["test"]["p"],
    )
    assert all(part["test"]["null"] and part["estimate"]["method"] for part in pair["estimates"])


def test_one_stream_is_tested_for_no_effect_on_any_issue_and_claims_no_more() -> None:
    found = compared(made_experiment(FORTY, protocol="online"), lambda key: key[0] != "none" or number(key[2]) < 20)
    (pair,) = found["comparisons"]
    assert pair["null"].startswith("memory changes the chance of no issue") and pair["p"] == pair["no_effect"]["p"] < 0.001
    (claim,) = found["claims"]
    assert claim["over_none"] == "above on this path" and not claim["earned"] and "not what it does on average" in claim["sentence"]
    assert "what it does on average is not known" in found["headline"]["sentence"]
    assert [threat["id"] for threat in found["threats"] if threat["weight"] == "serious"] == ["one stream"]


def test_reruns_of_the_baseline_are_averaged_and_that_is_said() -> None:
    experiment = made_experiment(FORTY, protocol="online", orders=2, baseline_reruns=4)
    (pair,) = compared(experiment, lambda key: key[0] != "none" or key[1] == "1-1" or number(key[2]) < 3)["comparisons"]
    # Of 4 baseline runs one resolves all, the others 3 of 40.
    assert pair["rates"]["baseline"] == pytest.approx((1 + 3 * 3 / 40) / 4) and pair["rates"]["arm"] == 1.0
    assert any("4 runs are averaged" in note for note in pair["notes"])
    assert [part["stream"] for part in pair["streams"]] == ["1-1", "2-1"]


def test_a_placebo_is_held_against_memory_build_by_build() -> None:
    experiment = made_experiment(FORTY, "none", "reasoningbank", "derangement", builds=3)
    won = {"reasoningbank": (12, 9, 9), "derangement": (6, 6, 0), "none": (5,)}

    def resolved(key: Key) -> bool:
        return number(key[2]) < won[key[0]][int(key[1].split("-")[0]) - 1]

    found = compared(experiment, resolved)["comparisons"]
    pair = next(pair for pair in found if pair["baseline"] == "derangement")
    over = pair["estimates"][1]["estimate"]
    gaps = [6 / 40, 3 / 40, 9 / 40]
    low, high = stats.t.interval(0.95, 2, loc=sum(gaps) / 3, scale=stats.sem(gaps))
    assert (over["unit"], over["units"], over["method"]) == ("build", 3, "Student's t over builds")
    assert (over["value"], over["low"], over["high"]) == pytest.approx((sum(gaps) / 3, low, high))
    assert pair["estimates"][1]["test"]["p"] == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue, abs=1e-6)


def test_the_check_beside_the_result_takes_another_route_to_about_the_same() -> None:
    single = compared(made_experiment(FORTY), lambda key: number(key[2]) < (24 if key[0] == "none" else 31))["comparisons"][0]
    assert single["interval"] == "Tango score" and single["check"]["method"].startswith("Newcombe")
    several = compared(
        made_experiment(FORTY, reruns=2),
        lambda key: (number(key[2]) * 7 + len(key[0]) + int(key[1][-1])) % 11 < (4 if key[0] == "none" else 7),
    )["comparisons"][0]
    assert "bootstrap" in several["check"]["method"] and several["discordant"]["expected"]
    for pair in (single, several):
        assert pair["check"]["low"] == pytest.approx(pair["low"], abs=0.06) and pair["check"]["high"] == pytest.approx(
            pair["high"], abs=0.06
        )


# -- claims ----------------------------------------------------------------------------------------------------------------------------------


def won(**counts: int) -> Callable[[Key], bool]:
    """Each arm resolves the first so many issues."""
    return lambda key: number(key[2]) < counts[key[0].split(":")[0]]


CLAIMS: dict[str, tuple[dict[str, int], bool, tuple[str, str], str]] = {
    "helps": ({"none": 10, "reasoningbank": 30, "derangement": 11}, True, ("above", "above"), "Memory helps: "),
    "a placebo does as much": (
        {"none": 10, "reasoningbank": 30, "derangement": 29},
        False,
        ("above", "not shown"),
        "not shown to be for what it says",
    ),
    "nothing shown": ({"none": 20, "reasoningbank": 22, "derangement": 20}, False, ("not shown", "not shown"), "No effect of memory"),
    "hurts": ({"none": 30, "reasoningbank": 10, "derangement": 30}, False, ("below", "below"), "Less is resolved with memory"),
    "the same": (
        {"none": 20, "reasoningbank": 20, "derangement": 20},
        False,
        ("nothing to test", "nothing to test"),
        "No difference to test",
    ),
    "none resolved": (
        {"none": 0, "reasoningbank": 0, "derangement": 0},
        False,
        ("nothing to test", "nothing to test"),
        "No difference to test",
    ),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_memory_helps_only_where_it_is_above_no_memory_and_above_the_items_of_others(case: str) -> None:
    counts, earned, words, head = CLAIMS[case]
    found = compared(made_experiment(FORTY, "none", "reasoningbank", "derangement"), won(**counts))
    (claim,) = found["claims"]
    assert (claim["earned"], (claim["over_none"], claim["over_derangement"])) == (earned, words)
    assert head in found["headline"]["sentence"] and found["headline"]["earned"] is earned
    assert ("Memory helps" in " ".join([*found["sentences"], found["headline"]["sentence"]])) is earned
    assert claim["sentence"] in found["sentences"]


def test_nothing_is_claimed_without_a_placebo_or_before_the_run_is_complete() -> None:
    alone = compared(made_experiment(FORTY), won(none=5, reasoningbank=35))
    assert alone["claims"][0]["over_derangement"] == "not compared" and not alone["headline"]["earned"]
    assert "not tested (no derangement)" in alone["headline"]["sentence"]
    assert any(threat["id"] == "no placebo" and "--arm derangement" in threat["sentence"] for threat in alone["threats"])
    experiment = made_experiment(FORTY, "none", "reasoningbank", "derangement")
    journal = all_of(experiment, won(none=5, reasoningbank=35, derangement=6))
    going = comparison(experiment, state(journal[:-3], frozen(experiment)), "r")
    assert not going["headline"]["earned"] and going["headline"]["sentence"].startswith("Not complete, so nothing is claimed yet")
    assert "while 1 attempt is still to be made" in going["claims"][0]["sentence"]
    assert going["threats"][0]["id"] == "incomplete"
    whole = comparison(experiment, state(journal, frozen(experiment)), "r")
    assert whole["headline"]["earned"]


def test_an_attempt_that_failed_through_the_machine_does_not_keep_a_claim_waiting_for_ever() -> None:
    experiment = made_experiment(FORTY, "none", "reasoningbank", "derangement")
    last = lay_out(experiment).cells[-1].key
    journal = [e for e in all_of(experiment, won(none=5, reasoningbank=35, derangement=6)) if (e["arm"], e["stream"], e["issue"]) != last]
    lost = {"event": "failed", "arm": last[0], "stream": last[1], "issue": last[2], "reason": "disk"}
    found = comparison(experiment, state(journal, [lost], frozen(experiment)), "r")
    assert found["headline"]["earned"] and not found["complete"]


def test_secondary_comparisons_are_adjusted_by_holm_and_the_primary_is_not() -> None:
    arms = ("none", "reasoningbank", "reasoningbank:k=2", "derangement", "preamble")
    counts = {"none": 10, "reasoningbank": 24, "derangement": 14, "preamble": 18}
    found = compared(made_experiment(FORTY, *arms), lambda key: number(key[2]) < (15 if key[0].endswith("k=2") else counts[key[0]]))
    first, *rest = found["comparisons"]
    assert first["role"] == "primary" and first["p_adjusted"] is None
    raw = [pair["p"] for pair in rest]
    order = sorted(range(len(raw)), key=lambda at: raw[at])
    expected, highest = [0.0] * len(raw), 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(raw) - rank) * raw[at]))
        expected[at] = highest
    assert [pair["p_adjusted"] for pair in rest] == pytest.approx(expected)
    # A second arm with memory is claimed by Holm's p, not by its own.
    second = next(claim for claim in found["claims"] if claim["arm"] == "reasoningbank:k=2")
    assert rest[0]["arm"] == "reasoningbank:k=2" and rest[0]["p"] < 0.05 < rest[0]["p_adjusted"] and second["over_none"] == "not shown"


# -- steps and costs -------------------------------------------------------------------------------------------------------------------------


def test_calls_count_up_to_the_limit_over_all_issues_and_limit_hits_are_told_by_arm() -> None:
    experiment = made_experiment(FORTY, call_limit=50, agent="mini")
    journal = []
    for cell in lay_out(experiment).cells:
        calls = 70 if cell.arm.kind == "none" and number(cell.issue) < 8 else 20 + number(cell.issue) % 5
        status = "LimitsExceeded" if calls == 70 else "Submitted"
        journal += events(cell.arm.name, cell.issue, True, calls, status, stream=cell.stream, learns=False)
    (pair,) = comparison(experiment, state(journal, frozen(experiment)), "r")["comparisons"]
    calls = pair["steps"]["calls"]
    assert calls["limit"] == 50 and calls["at_limit"] == {"arm": 0, "baseline": 8}
    assert calls["baseline"] == pytest.approx((8 * 50 + sum(20 + n % 5 for n in range(8, 40))) / 40)
    assert calls["difference"]["value"] == pytest.approx(calls["arm"] - calls["baseline"]) == pair["calls_difference"]
    assert calls["difference"]["low"] < calls["difference"]["value"] < calls["difference"]["high"] < 0 and "up to 50" in calls["sentence"]
    assert pair["steps"]["actions"]["limit"] is None and pair["steps"]["actions"]["baseline"] > calls["baseline"]
    assert pair["steps"]["tokens"]["difference"]["value"] is None and "not known" in pair["steps"]["tokens"]["sentence"]


def test_tables_by_outcome_are_labelled_as_conditional() -> None:
    (pair,) = compared(made_experiment(FORTY), won(none=10, reasoningbank=15))["comparisons"]
    assert pair["by_outcome"]["label"].startswith("Conditional on outcomes")
    rows = {row["outcome"]: row["issues"] for row in pair["by_outcome"]["rows"]}
    assert rows == {"both resolved": 10, "both failed": 25, "only reasoningbank resolved": 5, "only none resolved": 0}


def test_curves_end_at_the_resolve_rate_and_never_fall() -> None:
    found = compared(made_experiment(FORTY, call_limit=30), won(none=10, reasoningbank=15), calls=12)
    for arm in found["arms"]:
        values = [point["value"] for point in arm["curve"]]
        assert values == sorted(values) and values[-1] == arm["rate"] and values[0] == 0 and arm["curve"][-1]["at"] == 30
    assert found["comparisons"][0]["curve"][-1]["value"] == pytest.approx(5 / 40)


def costly(experiment: Experiment, *more: dict[str, Any]) -> dict[str, Any]:
    """Each attempt of the agent takes 110 tokens and $0.50."""
    journal = []
    for cell in lay_out(experiment).cells:
        started, *rest = events(cell.arm.name, cell.issue, True, stream=cell.stream, learns=False)
        journal += [started, used(cell.arm.name, cell.issue, cell.stream), *rest]
    return comparison(experiment, state(journal, [*more], frozen(experiment)), "r")


def test_memory_is_charged_with_what_its_banks_took_spread_over_the_issues_that_they_serve() -> None:
    experiment = made_experiment(FORTY, "none", "reasoningbank", "derangement", agent="mini")
    plan = lay_out(experiment).bank("reasoningbank/1-a")
    judged = [used(*key[:1], key[2], key[1], "judge", cost=0.1, input=50, output=0) for key in plan.lessons]
    distilled = [used("none", key[2], key[1], "extract", plan.id, cost=0.3, input=0, output=30) for key in plan.lessons]
    found = costly(experiment, *judged, *distilled)
    none, memory, placebo = found["arms"]
    lessons, share = len(plan.lessons), len(plan.lessons) / 40
    assert none["measures"]["cost"]["mean"] == pytest.approx(0.5) and none["measures"]["tokens"]["mean"] == 110
    assert memory["measures"]["cost"]["mean"] == pytest.approx(0.5 + 0.4 * share)
    assert memory["measures"]["tokens"]["mean"] == pytest.approx(110 + 80 * share)
    assert memory["measures"]["cost"]["memory"] == pytest.approx(0.4 * share)
    assert memory["memory_usage"]["judge"]["calls"] == memory["memory_usage"]["extract"]["calls"] == lessons
    assert placebo["measures"]["cost"]["mean"] == memory["measures"]["cost"]["mean"]
    pair = found["comparisons"][0]
    assert pair["steps"]["cost"]["difference"]["value"] == pytest.approx(0.4 * share)
    assert memory["per_resolved"]["cost"]["value"] == pytest.approx(0.5 + 0.4 * share)
    assert pair["per_resolved"]["cost"]["value"] == pytest.approx((0.5 + 0.4 * share) / 0.5)
    assert "memory's)" in render(found)
    assert sum(arm["measures"]["cost"]["mean"] * arm["graded"] for arm in found["arms"]) > found["usage"]["all"]["cost"]
    assert CHARGED in " ".join(render(found).split()), "why the sum over arms is more than what was spent"
    assert CHARGED not in " ".join(render(costly(experiment)).split())


def test_a_verdict_that_two_banks_learn_from_is_charged_to_both_and_each_rerun_pays_for_its_bank() -> None:
    experiment = made_experiment(FORTY, "none", "reasoningbank", "reasoningbank:success-only", agent="mini", reruns=2)
    plan = lay_out(experiment).bank("reasoningbank/1-a")
    found = costly(experiment, *(used("none", key[2], key[1], "judge", cost=1.0) for key in plan.lessons))
    both = [arm["measures"]["cost"]["memory"] for arm in found["arms"][1:]]
    assert both == pytest.approx([len(plan.lessons) / 40] * 2) and found["arms"][1]["memory_usage"]["passes"] == 2
    assert found["usage"]["judge"]["cost"] == pytest.approx(len(plan.lessons))


def test_what_a_killed_try_used_is_no_cost_of_the_arm() -> None:
    experiment = made_experiment(FORTY[:2], agent="mini")
    key = lay_out(experiment).cells[0].key
    started = {"event": "started", "arm": key[0], "stream": key[1], "issue": key[2], "recall": None}
    killed = [started, used(key[0], key[2], key[1], cost=99.0)]
    journal = []
    for cell in lay_out(experiment).cells:
        begun, *rest = events(cell.arm.name, cell.issue, True, stream=cell.stream, learns=False)
        journal += [begun, used(cell.arm.name, cell.issue, cell.stream), *rest]
    found = comparison(experiment, state(killed, journal, frozen(experiment)), "r")
    assert found["arms"][0]["measures"]["cost"]["mean"] == pytest.approx(0.5) and found["usage"]["all"]["cost"] == pytest.approx(101.0)


def test_costs_that_are_not_known_are_said_to_be_and_why() -> None:
    experiment = made_experiment(FORTY, agent="mini")
    plan = lay_out(experiment).bank("reasoningbank/1-a")
    found = costly(experiment, *(used("none", key[2], key[1], "judge", cost=None) for key in plan.lessons))
    memory = found["arms"][1]["measures"]
    assert (
        memory["cost"]["mean"] is not None and memory["cost"]["unknown"] == len(plan.issues) and "no known price" in memory["cost"]["why"]
    )
    assert memory["tokens"]["unknown"] == 0
    silent = compared(experiment)["arms"][0]["measures"]
    assert silent["cost"]["mean"] is None and silent["cost"]["why"] == "No attempt told of its cost."
    given = compared(made_experiment(FORTY, protocol="offline"))["arms"][1]["memory_usage"]
    assert "was given" in given["why"]
    free = compared(replace(experiment, agent="repair"))["arms"][0]["measures"]
    assert free["cost"]["mean"] == 0.0 == free["tokens"]["mean"]


def test_the_journals_state_tells_the_agents_last_try_from_the_others_and_from_memorys_own_calls() -> None:
    where = {"arm": "none", "stream": "1-1", "issue": "i"}
    begin = {"event": "started", **where, "recall": None}
    found = state([begin, used("none", "i"), begin, used("none", "i", cost=2.0), used("none", "i", role="judge", cost=8.0)])
    attempt = found.attempts["none", "1-1", "i"]
    assert (attempt.agent.cost, attempt.usage.cost, attempt.usage.calls) == (2.0, 10.5, 3)
    assert found.memory["judge", "", ("none", "1-1", "i")].cost == 8.0
    assert (found.usage["agent"].cost, found.usage["judge"].cost, found.spent.cost) == (2.5, 8.0, 10.5)


# -- noise -----------------------------------------------------------------------------------------------------------------------------------


def test_without_reruns_the_noise_floor_is_not_known_and_what_would_show_it_is_said() -> None:
    found = compared(made_experiment(FORTY), won(none=10, reasoningbank=16))
    assert not found["noise"]["known"] and "--baseline-reruns 2 would show it with 40 attempts more" in found["noise"]["sentence"]
    assert re.search(r"to within about \d+ points", found["noise"]["sentence"])
    assert found["comparisons"][0]["noise"]["own_error"] is None
    assert any(threat["id"] == "noise not known" for threat in found["threats"])


def test_with_reruns_the_floor_and_the_error_that_it_implies_stand_beside_the_effect() -> None:
    experiment = made_experiment(FORTY, reruns=2)

    def noisy(key: Key) -> bool:
        # 10 of 40 issues differ between the two runs of either arm; memory resolves 2 more.
        return number(key[2]) < 10 or (10 <= number(key[2]) < 20 and key[1] == "1-1") or (key[0] != "none" and number(key[2]) in (20, 21))

    found = compared(experiment, noisy)
    assert found["noise"]["known"] and found["noise"]["floor"]["value"] == pytest.approx(0.25)
    noise = found["comparisons"][0]["noise"]
    assert noise["floor_of"] == "both" and noise["arm"]["value"] == pytest.approx(0.25)
    # Discordance .25 over 40 issues: standard error of a difference of single runs; two runs of each arm halve its variance.
    assert noise["standard_error"] == pytest.approx((0.25 / 40) ** 0.5) and noise["own_error"] == pytest.approx((0.25 / 40 / 2) ** 0.5)
    assert any(threat["id"] == "noise as large as the effect" and threat["weight"] == "serious" for threat in found["threats"])
    assert "standard error of 5.6 points, beside an effect of +5.0" in noise["sentence"] and noise["sentence"] in found["sentences"]
    loud = compared(experiment, lambda key: noisy(key) or key[0] != "none")
    assert not any(threat["id"] == "noise as large as the effect" for threat in loud["threats"])


def test_builds_and_streams_of_memory_are_no_reruns_of_the_same() -> None:
    builds = compared(made_experiment(FORTY, builds=2), lambda key: key[1].startswith("1"))
    assert builds["arms"][1]["noise"]["value"] is None and builds["comparisons"][0]["noise"]["floor_of"] == ""
    streams = compared(made_experiment(FORTY, protocol="online", orders=2, baseline_reruns=2), lambda key: key[1].startswith("1"))
    assert streams["arms"][1]["noise"]["value"] is None and "bank of its own" in streams["arms"][1]["noise"]["why"]
    assert streams["comparisons"][0]["noise"]["floor_of"] == "baseline"


def test_numbers_in_sentences_have_units_and_no_sign_before_nothing() -> None:
    assert [amount("calls", value, sign=True) for value in (-0.01, 0.0, 3.25, -2.0)] == ["0.0", "0.0", "+3.2", "-2.0"]
    assert [amount("cost", value, sign=True) for value in (-0.004, 12.5, 0.0)] == ["-$0.0040", "+$12.50", "$0.00"]
    assert (amount("tokens", 12345.6), amount("seconds", 2.0), points(0.0004), points(-0.034)) == ("12,346", "2.0 s", "0.0", "-3.4")


# -- the shape -------------------------------------------------------------------------------------------------------------------------------


def test_every_key_of_a_result_is_written_down() -> None:
    experiment = made_experiment(FORTY, "none", "reasoningbank", "derangement", "gold", baseline_reruns=2)
    wrong = {**ITEM, "learned_from": IDS[3], "control": "derangement"}
    recalls = {"reasoningbank": {**ITEM, "learned_from": IDS[3]}, "derangement": wrong}
    lost = {"event": "failed", "arm": "none", "stream": "1-1", "issue": IDS[0], "reason": "disk"}
    found = compared(experiment, won(none=10, reasoningbank=15, derangement=9, gold=39), [lost], recall=lambda key: recalls.get(key[0]))
    written = set(re.findall(r"[a-z_0-9]+", harness.analysis.__doc__ or ""))
    free = {"limit_hits", "exit_statuses", "flags", "versions", "prompts", "bank", "repositories", "arms"}  # keys are names there

    def keys(value: Any, inside: str = "") -> set[str]:
        if isinstance(value, list):
            return {key for part in value for key in keys(part, inside)}
        if not isinstance(value, dict):
            return set()
        own = set() if inside in free else set(value)
        return own | {key for name, part in value.items() for key in keys(part, name)}

    assert {key for key in keys(found) if " " not in key} - written == set()
    online = compared(made_experiment(FORTY, protocol="online", orders=2), won(none=10, reasoningbank=15))
    assert {key for key in keys(online) if " " not in key} - written == set()
