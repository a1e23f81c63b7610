"""The journal: what is acknowledged stays, what is torn goes, and the state is a fold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.events import Journal, fold, read_events, read_state, write_file

WHERE = {"arm": "none", "stream": "1-1", "issue": "a-1"}
FIELDS: dict[str, dict[str, Any]] = {
    "started": {"recall": {"bank_version": 1, "item": "m1", "title": "t", "learned_from": "a-0", "score": 0.5}},
    "finished": {"exit_status": "Submitted", "calls": 3, "actions": 3, "patch_sha256": "0"},
    "graded": {
        "resolved": True,
        "outcome": "resolved",
        "flags": [],
        "verdict": {"outcome": "resolved", "source": "tests", "reason": "", "confidence": None},
    },
    "learned": {},
    "failed": {"reason": "disk full"},
}


def whole(kind: str, **more: Any) -> dict[str, Any]:
    return {"event": kind, **WHERE, **FIELDS[kind], **more}


def fixed() -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC)


def test_events_come_back_in_order_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path, clock=fixed) as journal:
        journal.append("started", **WHERE, recall=None)
    with Journal(path, clock=fixed) as journal:
        journal.append("finished", **WHERE, calls=3)
    events, problems = read_events(path)
    assert [event["event"] for event in events] == ["started", "finished"] and problems == []
    assert events[0]["at"] == "2024-01-01T00:00:00+00:00"


def test_a_torn_last_line_is_no_event_and_is_cut_off_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        journal.append("started", **WHERE)
    with path.open("ab") as file:
        file.write(b'{"event": "finished", "arm": "no')
    assert [event["event"] for event in read_events(path)[0]] == ["started"]
    with Journal(path) as journal:
        journal.append("graded", **WHERE, resolved=True)
    events, problems = read_events(path)
    assert [event["event"] for event in events] == ["started", "graded"] and problems == []


def test_a_torn_first_line_longer_than_a_block_leaves_an_empty_journal(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * 200_000)
    with Journal(path):
        pass
    assert path.read_bytes() == b""


def test_a_damaged_line_is_named_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = json.dumps(whole("started"))
    path.write_text(f"{good}\nrubbish\n[1]\n" + json.dumps({"event": "dance", **WHERE}) + "\n", encoding="utf-8")
    state = read_state(path)
    assert list(state.attempts) == [("none", "1-1", "a-1")]
    assert len(state.problems) == 3 and "line 2" in state.problems[0]


def test_lines_nested_without_end_and_numbers_without_end_are_damage_too(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(
        b"[" * 100_000
        + b"\n"
        + b'{"a": ' * 100_000
        + b"\n"
        + b'{"a": '
        + b"9" * 5000
        + b"}\n\xff\n"
        + json.dumps(whole("started")).encode()
        + b"\n"
    )
    state = read_state(path)
    assert len(state.problems) == 4 and len(state.attempts) == 1


WRONG: tuple[Any, ...] = (None, "many", "false", float("nan"), float("inf"), [], ["a"], {}, {"item": ["a"]}, -1, 10**400, True, 0.5)
TEXTS = ("exit_status", "patch_sha256", "outcome", "reason")


def is_right(field: str, value: Any) -> bool:
    """Whether a value of WRONG happens to be a right one for this field."""
    texts = field in TEXTS and isinstance(value, str)
    return texts or (field, repr(value)) in {("recall", "None"), ("resolved", "True"), ("flags", "[]"), ("flags", "['a']")}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in FIELDS.items() for field in fields])
def test_an_event_whose_field_is_missing_or_of_the_wrong_type_is_named_and_skipped(kind: str, field: str) -> None:
    before = {"finished": ["started"], "graded": ["started", "finished"]}.get(kind, [])
    good = [whole(k) for k in before]
    value: Any
    for value in WRONG:
        if is_right(field, value):
            continue
        state = fold([*good, whole(kind, **{field: value})])
        assert state.attempts == fold(good).attempts, value
        assert len(state.problems) == 1 and field in state.problems[0], value
    without = whole(kind)
    del without[field]
    assert len(fold([*good, without]).problems) == 1
    assert fold([*good, whole(kind)]).problems == ()


@pytest.mark.parametrize("field", ["bank_version", "title", "learned_from", "score"])
def test_a_recall_with_an_item_says_all_of_it(field: str) -> None:
    wrong: tuple[Any, ...] = (["a"], {}, float("nan"), True)
    for value in wrong:
        assert len(fold([whole("started", recall={**FIELDS["started"]["recall"], field: value})]).problems) == 1
    assert not fold([whole("started", recall={**FIELDS["started"]["recall"], "score": None})]).problems


def test_what_comes_before_its_time_is_named_and_skipped() -> None:
    for kinds in (["finished"], ["started", "graded"], ["started", "finished", "learned"]):
        state = fold([whole(kind) for kind in kinds])
        assert len(state.problems) == 1 and "must come before" in state.problems[0]


def test_starting_again_empties_what_came_after_and_keeps_the_count() -> None:
    events = [whole(kind) for kind in ("started", "finished", "graded", "learned", "started")]
    attempt = fold(events).attempts["none", "1-1", "a-1"]
    assert attempt.starts == 2 and not (attempt.finished or attempt.graded or attempt.learned or attempt.done)


def test_an_infra_failure_stands_until_the_attempt_is_graded() -> None:
    events = [whole("started"), whole("failed")]
    assert fold(events).attempts["none", "1-1", "a-1"].infra
    events += [whole(kind) for kind in ("started", "finished", "graded")]
    attempt = fold(events).attempts["none", "1-1", "a-1"]
    assert attempt.done and not attempt.infra


KINDS = ("started", "finished", "graded", "learned", "failed")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("ab")), max_size=12), st.integers(0, 12))
def test_folding_in_two_parts_sees_each_attempt_by_its_own_events_only(steps: list[tuple[str, str]], cut: int) -> None:
    events = [whole(kind, issue=issue) for kind, issue in steps]
    together = fold(events).attempts
    for issue in "ab":
        alone = fold([event for event in events if event["issue"] == issue]).attempts
        key = ("none", "1-1", issue)
        assert together.get(key) == alone.get(key)
    assert set(fold(events[:cut]).attempts) <= set(together)


WRITER = """
import sys
from pathlib import Path
from harness.events import Journal
journal = Journal(Path(sys.argv[1]))
number = 0
while True:
    journal.append("usage", arm="none", stream="1-1", issue=str(number), filler="x" * 5000)
    print(number, flush=True)
    number += 1
"""


def test_a_kill_loses_no_acknowledged_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(20)]
        process.kill()
        seen += [int(line) for line in process.stdout.read().split("\n")[:-1]]
        process.wait()
        process.stdout.close()
        events, problems = read_events(path)
        numbers = [int(event["issue"]) for event in events]
        assert problems == [] and set(seen) <= set(numbers)
        path.unlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    from swe_memory.errors import SweMemoryError

    journal = Journal(tmp_path / "events.jsonl")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, journal._file)
    with pytest.raises(SweMemoryError, match="No space left"):
        journal.append("started", **WHERE)
    os.close(full)
    journal.close()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_file(path, "one")
    write_file(path, "two")
    assert path.read_text() == "two" and [p.name for p in path.parent.iterdir()] == ["file.json"]
