"""What an experiment could show before it is paid for: published figures, refusals with their bounds, and a finished run as the source of assumptions."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.power_from_run import between_builds, look
from harness.power_plan import Question, answer, bounds
from harness.power_text import sentences
from harness.statistics.power import impossible
from swe_memory.cli import main
from swe_memory.errors import UsageError
from tests.made_journal import simulated_experiment, write_run

ISSUE_5 = ("--issues", "500", "--baseline", "0.54", "--effect", "0.034", "--discordance", "0.14")


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["plan", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = ask(capsys, *arguments, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = simulated_experiment(20, 10, builds=2, reruns=2, baseline_reruns=2)
    return write_run(tmp_path_factory.mktemp("plan") / "earlier", experiment)


def test_the_example_of_the_manual_has_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *ISSUE_5)
    # 17 net wins of 500 tolerate 73 discordant pairs at mid-p < .05, and 14 % of 500 are 70: about an even chance.
    assert (found["net_wins"], found["discordant_pairs"], found["most_discordant"]) == (17, 70, 73)
    assert 0.5 < found["power"]["power"] < 0.56 and found["power"]["error"] is None
    needed = {row["power"]: row["issues"] for row in found["issues_needed"]}
    # Miettinen's normal approximation for a paired design: (z sqrt(d) + z' sqrt(d - e^2))^2 / e^2.
    for power, z in ((0.8, 0.8416), (0.9, 1.2816)):
        normal = (1.96 * math.sqrt(0.14) + z * math.sqrt(0.14 - 0.034**2)) ** 2 / 0.034**2
        assert needed[power] == pytest.approx(normal, rel=0.03)
    assert 0.04 < found["smallest_effect"][0]["effect"] < found["smallest_effect"][1]["effect"] < 0.06
    assert found["expected"] == {"attempts": 1000, "lessons": 500, "cost": None, "hours": None} and found["from"] is None


def test_the_same_question_gets_the_same_answer_and_its_sentences_hold_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    once, again = ask(capsys, *ISSUE_5), ask(capsys, *ISSUE_5)
    assert once == again and once[0] == 0
    for part in (
        "52.9 % power (exact, McNemar mid-p)",
        "80 % power takes 941 issues",
        "17 net wins among 70",
        "name a finished run with --from",
    ):
        assert part in once[1], part


def test_more_runs_of_each_arm_give_more_power_until_it_is_reached(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(
        capsys, "--issues", "300", "--baseline", "0.5", "--effect", "0.05", "--discordance", "0.2", "--floor", "0.15", "--power", "0.7"
    )
    for unit in ("issue", "build"):
        powers = [row["power"] for row in found["designs"] if row["unit"] == unit]
        assert len(powers) > 1 and powers[-1] >= 0.7 > max(powers[:-1])
        assert all(later > sooner - 0.03 for sooner, later in pairwise(powers))
    over = next(row for row in found["designs"] if row["unit"] == "build" and row["builds"] == 3)
    given_banks = next(row for row in found["designs"] if row["unit"] == "issue" and row["reruns"] == 3)
    assert over["power"] < given_banks["power"] and over["attempts"] == given_banks["attempts"] == 1800
    assert all(0 < row["error"] < 0.06 for row in found["designs"] if row["error"] is not None)


def test_a_design_with_builds_tells_the_effect_of_these_banks_from_that_of_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *ISSUE_5, "--builds", "3", "--reruns", "2", "--baseline-reruns", "3", "--shock", "3", "--floor", "0.1")
    assert found["expected"]["attempts"] == 500 * (3 * 2 + 3) and found["expected"]["lessons"] == 1500
    assert found["power"]["power"] > found["power_over_builds"]["power"] + 0.1
    assert "3 builds with 2 runs each, 3 runs of the baseline" in "\n".join(found["sentences"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("0.54", "0.2", "0.14"), ("at least 0.200", "between 0.200 and 0.720")),
        (("0.94", "0.2", "0.3"), ("do not both lie between 0 and 1", "between -0.940 and +0.060")),
        (("0.94", "0.02", "0.24"), ("at most 0.100", "between 0.020 and 0.100")),
        (("0.05", "-0.04", "0.3"), ("at most 0.060", "between 0.040 and 0.060")),
        (("54", "0.02", "0.14"), ("no share", "0.54 for 54 %")),
    ],
)
def test_what_cannot_be_is_refused_with_the_bounds(
    arguments: tuple[str, str, str], said: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    baseline, effect, discordance = arguments
    code, out, err = ask(capsys, "--issues", "500", "--baseline", baseline, "--effect", effect, "--discordance", discordance)
    assert code == 2 and not out
    assert all(part in err for part in said), err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--issues and --baseline and --discordance must be given"),
        (("--issues", "9", "--baseline", "0.5"), "--discordance must be given"),
        ((*ISSUE_5, "--floor", "0.7"), "noise floor"),
        ((*ISSUE_5, "--shock", "-1"), "between builds"),
        ((*ISSUE_5, "--power", "1"), "--power"),
        (("--from", "/nowhere"), "no folder"),
    ],
)
def test_a_wrong_or_missing_option_is_named(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ask(capsys, *arguments)
    assert code == 2 and said in err and not out


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.floats(0, 1), st.one_of(st.none(), st.floats(-1, 1)), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 0.5))
)
def test_every_question_is_answered_or_refused_and_never_with_a_nan(
    issues: int, baseline: float, effect: float | None, discordance: float, floor: float | None
) -> None:
    question = Question(issues, baseline, effect, discordance, floor=floor, powers=(0.1,))
    if impossible(baseline, effect or 0.0, discordance) or 0 < abs(effect or 0.0) < 1e-6 or 0 < discordance < 1e-6:
        with pytest.raises(UsageError):
            answer(question)
        return
    found = answer(question)
    json.dumps(found, allow_nan=False)
    assert all("nan" not in said and "None" not in said for said in sentences({**found, "workers": 2}))
    for row in found["designs"]:
        assert 0 <= row["power"] <= 1


@given(st.floats(0, 1), st.floats(-1, 1), st.floats(0, 1))
def test_the_bounds_that_are_told_are_those_that_are_kept(baseline: float, effect: float, discordance: float) -> None:
    (low, high), (least, most) = bounds(baseline, effect)["effect"], bounds(baseline, effect)["discordance"]
    inside = low <= effect <= high and least <= discordance <= most
    near = min(abs(effect - low), abs(effect - high), abs(discordance - least), abs(discordance - most)) < 1e-9
    assert near or inside == (not impossible(baseline, effect, discordance))


def test_a_finished_run_tells_what_is_not_given(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--from", str(run), "--effect", "0.05", "--builds", "2", "--workers", "4")
    seen, asked = found["from"], found["asked"]
    assert (seen["run"], seen["arm"], seen["issues"], asked["issues"]) == ("earlier", "reasoningbank", 30, 30)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    graded = {(e["arm"], e["stream"], e["issue"]): e["resolved"] for e in events if e["event"] == "graded"}
    none = {key: value for key, value in graded.items() if key[0] == "none"}
    assert asked["baseline"] == pytest.approx(sum(none.values()) / len(none))
    floor = sum(graded["none", "1-1", issue] != graded["none", "1-2", issue] for issue in {key[2] for key in none}) / 30
    assert asked["floor"] == pytest.approx(floor)
    across = [
        graded["reasoningbank", f"{build}-{rerun}", issue] != graded["none", f"1-{other}", issue]
        for issue in {key[2] for key in none}
        for build in (1, 2)
        for rerun in (1, 2)
        for other in (1, 2)
    ]
    assert asked["discordance"] == pytest.approx(sum(across) / len(across))
    spent = {name: [e["cost"] for e in events if e["event"] == "finished" and e["arm"] == name] for name in ("none", "reasoningbank")}
    learned = [e for e in events if e["event"] == "learned"]
    memory = sum(e["cost"] for e in events if e["event"] == "usage" and e["role"] in ("judge", "extract")) / len(learned)
    each = {name: sum(values) / len(values) for name, values in spent.items()}
    assert found["expected"]["cost"] == pytest.approx(30 * each["none"] + 60 * each["reasoningbank"] + 60 * memory)
    assert found["expected"]["hours"] > 0
    text = ask(capsys, "--from", str(run), "--effect", "0.05")[1]
    assert "From earlier, `reasoningbank` against `none`" in text and "with memory's own calls" in text and "hours with 2 workers" in text


def test_what_is_given_wins_over_the_run_and_its_own_effect_is_warned_of(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--from", str(run), "--discordance", "0.4", "--issues", "80", "--baseline", "0.5")
    assert (found["asked"]["discordance"], found["asked"]["issues"], found["asked"]["baseline"]) == (0.4, 80, 0.5)
    assert found["asked"]["effect"] == pytest.approx(look(run).effect.value)
    assert any("too large on average" in said for said in found["sentences"])


def test_a_run_that_cannot_tell_is_refused_with_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = write_run(tmp_path / "alone", simulated_experiment(4, arms=("none",)))
    fresh = write_run(tmp_path / "fresh", simulated_experiment(4))
    (fresh / "events.jsonl").unlink()
    for folder, said in ((alone, "no pair"), (fresh, "no issue of fresh was graded in both")):
        code, _, err = ask(capsys, "--from", str(folder))
        assert code == 2 and said in err and "--baseline and --discordance" in err


def test_the_spread_between_builds_is_what_the_noise_within_issues_does_not_explain() -> None:
    assert between_builds({"a": [1.0], "b": [0.0]}) is None
    # Both builds resolve half; the issues flip: all of it is noise within issues.
    assert between_builds({"a": [1.0, 0.0], "b": [0.0, 1.0]}) == 0.0
    # Build 2 is better on every issue by .5: variance of the means .125, less .125 / 2 of noise within issues.
    assert between_builds({"a": [0.0, 0.5], "b": [0.5, 1.0]}) == pytest.approx(math.sqrt(0.125 - 0.125 / 2))


def test_the_commands_of_the_instrument_are_listed_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = [
        line.split()[0] for line in capsys.readouterr().out.split("Commands:")[1].splitlines() if line.startswith("  ") and line[2] != " "
    ]
    assert [name for name in listed if name in ("run", "compare", "plan", "report", "demo")] == ["run", "compare", "plan", "report", "demo"]


def test_without_an_effect_only_what_can_be_seen_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--issues", "200", "--baseline", "0.3", "--discordance", "0.15")
    assert found["power"] is None and found["designs"] == [] and found["issues_needed"] == []
    assert found["smallest_effect"][0]["effect"] > 0 and any("no power to tell" in said for said in found["sentences"])
