"""The journal: what is acknowledged stays, what is torn goes, and the state is a fold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.events import Journal, fold, read_events, read_state, write_file

WHERE = {"arm": "none", "stream": "1-1", "issue": "a-1"}


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
    good = json.dumps({"event": "started", **WHERE})
    path.write_text(f"{good}\nrubbish\n[1]\n" + json.dumps({"event": "dance", **WHERE}) + "\n", encoding="utf-8")
    state = read_state(path)
    assert list(state.attempts) == [("none", "1-1", "a-1")]
    assert len(state.problems) == 3 and "line 2" in state.problems[0]


def test_starting_again_empties_what_came_after_and_keeps_the_count() -> None:
    events = [{"event": kind, **WHERE} for kind in ("started", "finished", "graded", "learned", "started")]
    attempt = fold(events).attempts["none", "1-1", "a-1"]
    assert attempt.starts == 2 and not (attempt.finished or attempt.graded or attempt.learned or attempt.done)


def test_an_infra_failure_stands_until_the_attempt_is_graded() -> None:
    events = [{"event": "started", **WHERE}, {"event": "failed", **WHERE, "reason": "disk full"}]
    assert fold(events).attempts["none", "1-1", "a-1"].infra
    events += [{"event": kind, **WHERE} for kind in ("started", "finished", "graded")]
    attempt = fold(events).attempts["none", "1-1", "a-1"]
    assert attempt.done and not attempt.infra


KINDS = ("started", "finished", "graded", "learned", "failed")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("ab")), max_size=12), st.integers(0, 12))
def test_folding_in_two_parts_sees_each_attempt_by_its_own_events_only(steps: list[tuple[str, str]], cut: int) -> None:
    events = [{"event": kind, "arm": "none", "stream": "1-1", "issue": issue, "reason": "x"} for kind, issue in steps]
    whole = fold(events).attempts
    for issue in "ab":
        alone = fold([event for event in events if event["issue"] == issue]).attempts
        key = ("none", "1-1", issue)
        assert whole.get(key) == alone.get(key)
    assert set(fold(events[:cut]).attempts) <= set(whole)


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
