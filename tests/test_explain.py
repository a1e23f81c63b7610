"""One attempt explained: every number of the comparison, both ends of each lesson, and what is told where a file is gone."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.compare import compare_run
from harness.events import Journal, read_state
from harness.explain import explain_attempt
from harness.explain_text import explain_text
from harness.folder import locked, read_experiment
from harness.layout import Layout, lay_out
from harness.looking import find_attempt
from swe_memory.bank import MemoryBank
from swe_memory.errors import UsageError
from tests.made_runs import FINISHED, GRADED, damaged, experiment, made, used, where
from tests.small_run import SmallRun, ask, make_run

CONTROL = "derangement/reasoningbank:k=2"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return make_run(tmp_path_factory.mktemp("explain"), "none", "reasoningbank:k=2", CONTROL)


@pytest.fixture(scope="module")
def layout() -> Layout:
    """As that of the run, with an arm more."""
    arms, issues = ("none", "reasoningbank", "reasoningbank:k=2", CONTROL), ("acme__shop-1", "acme__shop-2", "acme__shop-3")
    frozen = {"instances": issues, "repositories": ("acme/shop",) * 3, "dates": ("",) * 3, "sequences": ((2, 0, 1),), "folds": ("aba",)}
    return lay_out(experiment(arms=arms, **frozen))


@pytest.fixture(scope="module")
def told(done: SmallRun) -> dict[str, dict[str, Any]]:
    """Every attempt of the run, explained."""
    found = {}
    for cell in lay_out(read_experiment(done.folder)).cells:
        name = "/".join(cell.key)
        found[name], whole = explain_attempt(done.folder, name)
        assert whole and found[name]["problems"] == []
    return found


def test_every_number_of_the_comparison_is_found_here(done: SmallRun, told: dict[str, dict[str, Any]]) -> None:
    compared = compare_run(done.folder)
    seen = 0
    for issue in compared["issues"]:
        for arm, attempts in issue["arms"].items():
            for number in attempts:
                found = told[f"{arm}/{number['stream']}/{issue['issue']}"]
                given = found["given"] or dict.fromkeys(("recalled", "control", "item", "score", "learned_from"))
                here = {
                    "stream": found["stream"],
                    "state": found["state"],
                    "resolved": found["grade"]["resolved"],
                    "calls": found["work"]["calls"],
                    "exit_status": found["work"]["exit_status"],
                    "outcome": found["grade"]["outcome"],
                    "flags": found["grade"]["flags"],
                    "verdict": found["verdict"]["outcome"],
                    **{name: given[name] for name in ("recalled", "control", "item", "score", "learned_from")},
                }
                here |= {"actions": found["work"]["actions"]}
                assert here == {name: number[name] for name in here} and found["issue"]["repository"] == issue["repository"]
                text = explain_text(found)
                for value in (number["calls"], number["exit_status"], number["outcome"], number["recalled"], number["item"]):
                    assert value is None or str(value) in text
                seen += 1
    assert seen == len(told) == 9


def test_what_was_given_leads_to_the_attempt_that_taught_it_and_back(done: SmallRun, told: dict[str, dict[str, Any]]) -> None:
    followed = 0
    for name, found in told.items():
        for item in (found["given"] or {"items": []})["items"]:
            teacher = told[item["attempt"]]
            lesson = next(one for one in teacher["learned"] if one["bank"] == found["given"]["bank"])
            back = next(one for one in lesson["items"] if one["id"] == item["id"])
            use = next(one for one in back["given_to"] if one["attempt"] == name)
            assert use == {"attempt": name, "control": found["given"]["control"], "resolved": found["grade"]["resolved"]}
            assert teacher["issue"]["id"] == item["learned_from"] != found["issue"]["id"]
            assert (item["outcome"], item["verdict_source"]) == (teacher["verdict"]["outcome"], teacher["verdict"]["source"])
            assert (back["title"], back["reach"], back["polarity"]) == (item["title"], item["reach"], item["polarity"])
            with MemoryBank.open(done.folder / "banks" / found["given"]["bank"] / "bank.lance", read_only=True) as bank:
                assert item["content"] == bank.item(item["id"]).content and item["content"]
            text = explain_text(found)
            assert item["content"].split()[0] in text and item["attempt"] in text
            followed += 1
    uses = sum(len(item["given_to"]) for found in told.values() for lesson in found["learned"] for item in lesson["items"])
    assert followed == uses and followed >= 3


def test_the_text_that_was_given_is_the_text_that_was_stored_with_the_attempt(told: dict[str, dict[str, Any]]) -> None:
    shown = [found for found in told.values() if found["given"]]
    assert len(shown) == 6
    for found in shown:
        assert len(found["given"]["prompt"]) == found["given"]["characters"]
        assert all(item["content"] in found["given"]["prompt"] for item in found["given"]["items"])
        system = json.loads(Path(found["files"][0]["path"]).read_text())["messages"][0]["content"]
        assert system.endswith(found["given"]["prompt"])
    textless = [found for found in shown if found["given"]["characters"] and not found["given"]["items"]]
    for found in textless:  # a control without an item shows its words instead
        assert found["given"]["control"] and found["given"]["prompt"].splitlines()[0] in explain_text(found)


def test_usage_patch_and_files_are_those_of_this_attempt(done: SmallRun, told: dict[str, dict[str, Any]]) -> None:
    for name, found in told.items():
        work, issue = found["work"], found["issue"]
        assert work["usage"]["agent"]["calls"] == work["calls"] == work["tries"][0]["usage"]["calls"] and len(work["tries"]) == 1
        assert issue["source"] == "trajectory" and issue["title"] in explain_text(found)
        predictions = json.loads(Path(next(f["path"] for f in found["files"] if f["what"] == "predictions")).read_text())
        patch = predictions[issue["id"]]["model_patch"]
        assert found["patch"]["characters"] == len(patch) and Path(found["patch"]["file"]).is_file()
        assert [file["path"] for file in found["patch"]["changed"]] == [
            line.removeprefix("+++ b/") for line in patch.splitlines() if line.startswith("+++ ")
        ]
        missing = [file["what"] for file in found["files"] if not file["there"]]
        assert missing == ([] if patch else ["test output"]), name  # no tests run for an empty patch
    assert told["none/1-1/acme__shop-2"]["patch"]["changed"] == []


# -- which attempt is meant ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("none/1-1/acme__shop-1", ("none", "1-1", "acme__shop-1")),
        ("reasoningbank/1-1/acme__shop-1", ("reasoningbank", "1-1", "acme__shop-1")),  # also the end of the control's name
        ("reasoningbank:k=2/acme__shop-1", ("reasoningbank:k=2", "1-1", "acme__shop-1")),
        ("reasoningbank_k=2/1-1/acme__shop-1/", ("reasoningbank:k=2", "1-1", "acme__shop-1")),
        (f"{CONTROL}/1-1/acme__shop-3", (CONTROL, "1-1", "acme__shop-3")),
        ("derangement_of_reasoningbank_k=2/acme__shop-3", (CONTROL, "1-1", "acme__shop-3")),
        ("derangement/reasoningbank_k=2/1-1/acme__shop-3", (CONTROL, "1-1", "acme__shop-3")),
        ("none/acme__shop-2", ("none", "1-1", "acme__shop-2")),
        (" none/1-1/acme__shop-2 ", ("none", "1-1", "acme__shop-2")),
        ("ne/1-1/acme__shop-2", ("none", "1-1", "acme__shop-2")),
    ],
)
def test_an_attempt_is_found_by_its_name_its_folder_or_a_part_that_fits_no_other(layout: Layout, text: str, key: tuple[str, ...]) -> None:
    assert find_attempt(layout, text).key == key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acme__shop-1", ["4 attempts fit", "  none/1-1/acme__shop-1", f"  {CONTROL}/1-1/acme__shop-1"]),
        ("none", ["3 attempts fit", "  none/1-1/acme__shop-3"]),
        ("1-1", ["12 attempts fit", "... and 2 more"]),
        ("shop", ["12 attempts fit"]),
        ("acme__shop-9", ["no attempt of this run fits", "ARM/STREAM/ISSUE"]),
        (" / ", ["no attempt was named"]),
    ],
)
def test_what_fits_several_attempts_or_none_is_refused_with_what_could_be_meant(
    done: SmallRun, layout: Layout, text: str, words: list[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        find_attempt(layout, text)
    assert all(word in str(refused.value) for word in words)
    assert str(refused.value).count("\n  ") <= 12
    assert isinstance(ask("explain", done.folder, text).exception, UsageError)


def test_one_issue_alone_means_its_one_attempt(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", arms=("none",))
    assert find_attempt(lay_out(read_experiment(folder)), "i-2").key == ("none", "1-1", "i-2")


def test_one_lesson_in_two_banks_was_given_only_by_the_bank_that_gave_it(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", arms=("none", "reasoningbank", "reasoningbank:success-only"))
    item = {"id": "m1", "title": "Look first", "reach": "general", "polarity": "success"}
    with Journal(folder / "events.jsonl") as journal:
        journal.append("started", **where("i-1"), bank=None, recall=None)
        journal.append("finished", **where("i-1"), **FINISHED)
        journal.append("graded", **where("i-1"), **GRADED)
        for bank in ("reasoningbank/1-a", "reasoningbank-success-only/1-a"):
            journal.append("learned", **where("i-1"), bank=bank, items=[item], bank_version=1)
        recall = {"item": "m2", "items": ["m2", "m1"], "title": "Read on", "learned_from": "i-1", "score": 0.5, "bank_version": 1}
        journal.append("started", **where("i-2", "reasoningbank"), bank="reasoningbank/1-a", recall=recall)
    found, _ = explain_attempt(folder, "none/1-1/i-1")
    assert {lesson["bank"]: [use["attempt"] for use in lesson["items"][0]["given_to"]] for lesson in found["learned"]} == {
        "reasoningbank/1-a": ["reasoningbank/1-1/i-2"],
        "reasoningbank-success-only/1-a": [],
    }


# -- stopped, killed, damaged ----------------------------------------------------------------------------------------------------------------


def test_an_attempt_that_was_killed_and_tried_again_tells_each_try_and_what_was_wasted(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", arms=("none",))
    with Journal(folder / "events.jsonl") as journal:
        for end in ("killed", "failed", ""):
            journal.append("session")
            journal.append("started", **where("i-1"), bank=None, recall=None)
            journal.append("usage", **where("i-1"), **used(2))
            if end == "failed":
                journal.append("failed", **where("i-1"), stage="run", reason="the disk is full\nat the second line")
    cut, whole = explain_attempt(folder, "i-1")
    with locked(folder):
        going, _ = explain_attempt(folder, "i-1")
    assert whole and [one["ended"] for one in cut["work"]["tries"]] == ["cut off", "failed", "cut off"]
    assert [one["ended"] for one in going["work"]["tries"]] == ["cut off", "failed", "under way"]
    assert (cut["work"]["wasted"]["calls"], going["work"]["wasted"]["calls"]) == (6, 4)
    assert (cut["state"], going["state"]) == ("infra failure", "started")
    with Journal(folder / "events.jsonl") as journal:
        journal.append(
            "finished", **where("i-1"), **{**FINISHED, "limit": "seconds", "exit_status": "TimeLimitExceeded", "notes": ["slow"]}
        )
        journal.append("graded", **where("i-1"), **{**GRADED, "flags": ["touches tests"]})
    found, whole = explain_attempt(folder, "i-1")
    text = explain_text(found)
    assert found["work"]["wasted"] == {"tries": 2, "calls": 4, "input_tokens": 400, "output_tokens": 40, "cost": 1.0}
    assert found["work"]["usage"]["agent"]["calls"] == 6 and found["work"]["infra_failures"] == ["the disk is full\nat the second line"]
    for words in ("limit hit: seconds", "note: slow", "touches tests", "try 3 of 3", "infra failure: the disk is full", "$0.5000"):
        assert words in text
    assert not whole and "is missing although" in found["problems"][0], "this made attempt has no trajectory file"


def test_an_attempt_that_was_not_begun_says_so_and_is_no_error(done: SmallRun, tmp_path: Path) -> None:
    run = done.copy(tmp_path / "run", [])
    for name in ("none/1-1/acme__shop-1", "reasoningbank:k=2/1-1/acme__shop-1"):
        result = ask("explain", run.folder, name)
        assert result.exit_code == 0 and "not started" in result.output and "it is not graded" in result.output
    assert "the bank has not come" not in result.output and "was not begun" in result.output


def why_not(folder: Path, attempt: str) -> str:
    found, _ = explain_attempt(folder, attempt)
    (lesson,) = found["learned"]
    assert lesson["items"] == [] and lesson["why"] in explain_text(found)
    return str(lesson["why"])


def test_why_nothing_was_learned_is_said(done: SmallRun, tmp_path: Path) -> None:
    lesson = next(event for event in done.events if event["event"] == "learned" and event["issue"] == "acme__shop-1")
    attempt = "none/1-1/acme__shop-1"

    def after(name: str, change: Any) -> str:
        events = [change(dict(event)) for event in done.events]
        return why_not(done.copy(tmp_path / name, [event for event in events if event]).folder, attempt)

    def mine(event: dict[str, Any], kind: str) -> bool:
        return event["event"] == kind and event.get("issue") == "acme__shop-1" and event.get("arm") == "none"

    def with_verdict(event: dict[str, Any], outcome: str | None) -> dict[str, Any] | None:
        if mine(event, "graded"):
            event["verdict"] = event["verdict"] | {"outcome": outcome} if outcome else None
        return None if mine(event, "learned") else event

    assert lesson["items"]
    assert "no item was distilled" in after("nothing", lambda e: e | {"items": []} if mine(e, "learned") else e)
    assert "unknown outcome teaches nothing" in after("unknown", lambda e: with_verdict(e, "unknown"))
    assert "unknown outcome teaches nothing" in after("unjudged", lambda e: with_verdict(e, None))
    assert "has not come to it yet" in after("open", lambda e: None if mine(e, "learned") or e["event"] == "frozen" else e)
    assert "does not say that it was learned" in after("lost", lambda e: None if mine(e, "learned") else e)
    failed = {"event": "failed", "stage": "run", "reason": "gone", **where("acme__shop-1")}
    gone = [failed if mine(e, "finished") else e for e in done.events if not mine(e, "graded") and not mine(e, "learned")]
    assert "frozen without it" in why_not(done.copy(tmp_path / "failed", gone).folder, attempt)
    other = made(tmp_path / "one-sided", arms=("none", "reasoningbank:success-only"))
    with Journal(other / "events.jsonl") as journal:
        journal.append("started", **where("i-1"), bank=None, recall=None)
        journal.append("finished", **where("i-1"), **FINISHED)
        verdict = {"outcome": "unresolved", "source": "rules", "reason": "", "confidence": None}
        journal.append("graded", **where("i-1"), **{**GRADED, "verdict": verdict})
    assert "does not learn from unresolved attempts" in why_not(other, "none/1-1/i-1")


def trajectory(run: SmallRun, arm: str, issue: str) -> Path:
    return run.folder / arm / "1-1" / "trajs" / issue / f"{issue}.traj.json"


def test_a_file_that_is_gone_or_damaged_is_named_and_the_rest_is_told(done: SmallRun, tmp_path: Path) -> None:
    run = done.copy(tmp_path / "run")
    trajectory(run, "none", "acme__shop-1").unlink()
    trajectory(run, "none", "acme__shop-2").write_text('{"messages": [')
    changed = trajectory(run, "none", "acme__shop-3")
    changed.write_text(changed.read_text().replace("basket is None", "basket == None").replace("mutable", "static"))
    shutil.rmtree(run.folder / "banks")
    for name, words in {
        "none/1-1/acme__shop-1": "acme__shop-1.traj.json is missing although",
        "none/1-1/acme__shop-2": "acme__shop-2.traj.json",
        "none/1-1/acme__shop-3": "was changed after the attempt",
        "reasoningbank_k=2/1-1/acme__shop-2": "cannot be read",
    }.items():
        result = ask("explain", run.folder, name)
        assert result.exit_code == 1 and words in result.output.split("warning: ", 1)[1]
        assert "exit status Submitted" in result.output and "hidden tests:" in result.output
    lost = json.loads(ask("explain", run.folder, "reasoningbank_k=2/1-1/acme__shop-2", "--json").stdout)
    assert lost["given"]["items"][0]["title"] == lost["given"]["recalled"] and lost["given"]["items"][0]["content"] is None


def test_no_damage_to_the_journal_keeps_an_attempt_from_being_explained(done: SmallRun, tmp_path: Path) -> None:
    run = done.copy(tmp_path / "run")
    lines = (done.folder / "events.jsonl").read_bytes().splitlines()
    lines = [line for line in lines if json.loads(line)["event"] != "usage"]  # of the others there are few, and they say more
    names = ["/".join(cell.key) for cell in lay_out(read_experiment(run.folder)).cells]
    for seed in range(60):
        (run.folder / "events.jsonl").write_bytes(damaged(lines, seed))
        found, _ = explain_attempt(run.folder, random.Random(seed).choice(names))
        json.dumps(found, allow_nan=False)
        explain_text(found).encode()
        if read_state(run.folder / "events.jsonl").problems:
            assert "warning: " in explain_text(found)


def test_the_bundled_bench_gives_the_issue_of_an_attempt_that_left_nothing(tmp_path: Path) -> None:
    from harness.dataset import load_dataset

    bench = load_dataset("minibench")
    first, second = (bench.instances[number].issue for number in (0, 1))
    folder = made(tmp_path / "run", dataset="minibench", instances=(first.id, second.id), arms=("none",))
    found, whole = explain_attempt(folder, first.id)
    assert whole and (found["issue"]["source"], found["issue"]["title"]) == ("minibench", first.title)
    elsewhere = made(tmp_path / "other", arms=("none",))
    assert "its text is not in the run folder" in explain_text(explain_attempt(elsewhere, "i-1")[0])


def test_json_is_one_object_with_the_documented_keys(done: SmallRun) -> None:
    result = ask("explain", done.folder, "none/1-1/acme__shop-1", "--json")
    found = json.loads(result.stdout)
    shape = ask("explain", "--help").output
    lesson = found["learned"][0]
    parts = [found, found["issue"], found["work"], found["work"]["tries"][0], found["patch"], found["patch"]["changed"][0], found["grade"]]
    parts += [found["verdict"], lesson, lesson["items"][0], lesson["items"][0]["given_to"][0], found["files"][0]]
    given = json.loads(ask("explain", done.folder, "reasoningbank_k=2/acme__shop-3", "--json").stdout)["given"]
    assert result.exit_code == 0
    assert sorted({name for part in [*parts, given, given["items"][0]] for name in part if name not in shape}) == []
