"""The journal: what is acknowledged stays, what is torn goes, and the state is a fold."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checks import EVENT_FIELDS
from harness.events import KINDS, Journal, RunState, fold, read_events, read_state, write_file
from swe_memory.errors import SweMemoryError
from swe_memory.records import Usage

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
    "learned": {"bank": "reasoningbank/1-a", "bank_version": 4, "items": [{"id": "m1", "title": "t", "reach": "general"}]},
    "frozen": {"bank": "reasoningbank/1-a", "version": 9, "experiences": 3, "items": 5, "missing": [["none", "1-1", "a-2"]]},
    "usage": {"role": "agent", "calls": 1, "input": 200, "output": 30, "cost": 0.25},
    "session": {},
    "failed": {"reason": "disk full"},
}
OF_ATTEMPTS = ("started", "finished", "graded", "learned", "usage", "failed")


def whole(kind: str, **more: Any) -> dict[str, Any]:
    """An event as it should be, for the attempt of WHERE."""
    return {"event": kind, **(WHERE if kind in OF_ATTEMPTS else {}), **FIELDS[kind], **more}


KEY = ("none", "1-1", "a-1")


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(values=st.dictionaries(st.text(), JSON), ascii=st.booleans())
@settings(max_examples=100, deadline=None)
def test_what_is_read_is_what_python_reads(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], ascii: bool) -> None:
    """Whatever parser reads the lines; numbers to the last bit."""
    check_read(tmp_path_factory.mktemp("read"), json.dumps(values, ensure_ascii=ascii))


@pytest.mark.parametrize(
    "values", ['"\\ud800"', '"\\ud83d\\ude00"', "1" * 400, "[" * 500 + "]" * 500, "1e400, -0.0, NaN, -Infinity", '{"a": 1, "a": 2}']
)
def test_rare_values_are_read_as_python_reads_them_too(tmp_path: Path, values: str) -> None:
    check_read(tmp_path, f'{{"values": [{values}]}}')


def check_read(folder: Path, line: str) -> None:
    path = folder / "events.jsonl"
    path.write_bytes(line.encode() + b"\n")
    assert [repr(event) for event in read_events(path)[0]] == [repr(json.loads(line))]


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
TEXTS = ("exit_status", "patch_sha256", "outcome", "reason", "bank")
RIGHT = {
    ("recall", "None"),
    ("calls", "None"),  # of an agent that does not tell
    ("actions", "None"),
    ("cost", "None"),
    ("cost", "0.5"),
    ("verdict", "None"),
    ("resolved", "True"),
    ("flags", "[]"),
    ("flags", "['a']"),
    ("items", "[]"),
    ("missing", "[]"),
}


def is_right(kind: str, field: str, value: Any) -> bool:
    """Whether a value of WRONG happens to be a right one for this field."""
    if (kind, field) in (("usage", "calls"), ("frozen", "items")):
        return False
    return (field in TEXTS and isinstance(value, str)) or (field, repr(value)) in RIGHT


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in FIELDS.items() for field in fields])
def test_an_event_whose_field_is_missing_or_of_the_wrong_type_is_named_and_skipped(kind: str, field: str) -> None:
    before = {"finished": ["started"], "graded": ["started", "finished"], "learned": ["started", "finished", "graded"]}.get(kind, [])
    good = [whole(k) for k in before]
    value: Any
    for value in WRONG:
        state = fold([*good, whole(kind, **{field: value})])
        if is_right(kind, field, value):
            assert state.problems == (), value
            continue
        assert replace(state, problems=()) == fold(good), value
        assert len(state.problems) == 1 and field in state.problems[0] and kind in state.problems[0], value
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
    state = fold(events)
    attempt = state.attempts[KEY]
    assert attempt.starts == 2 and attempt.started and not (attempt.finished or attempt.graded)
    # What a bank has learned cannot be taken back.
    assert list(state.banks["reasoningbank/1-a"].learned) == [KEY]


def test_an_infra_failure_stands_until_the_attempt_is_graded() -> None:
    events = [whole("started"), whole("failed")]
    assert fold(events).attempts["none", "1-1", "a-1"].infra
    events += [whole(kind) for kind in ("started", "finished", "graded")]
    attempt = fold(events).attempts["none", "1-1", "a-1"]
    assert attempt.graded and not attempt.infra and attempt.failures == ("disk full",)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OF_ATTEMPTS), st.sampled_from("ab")), max_size=12), st.integers(0, 12))
def test_folding_in_two_parts_sees_each_attempt_by_its_own_events_only(steps: list[tuple[str, str]], cut: int) -> None:
    events = [whole(kind, issue=issue) for kind, issue in steps]
    together = fold(events)
    parts = [fold([event for event in events if event["issue"] == issue]) for issue in "ab"]
    for issue, alone in zip("ab", parts, strict=True):
        key = ("none", "1-1", issue)
        assert together.attempts.get(key) == alone.attempts.get(key)
        assert set(alone.attempts) <= {key}
    assert together.spent == parts[0].spent + parts[1].spent
    assert set(fold(events[:cut]).attempts) <= set(together.attempts)


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


# -- sessions, usage, banks ------------------------------------------------------------------------------------------------------------------


def test_every_kind_of_event_is_known_checked_and_tested_here() -> None:
    assert set(KINDS) == set(EVENT_FIELDS) == set(FIELDS)
    assert all(set(EVENT_FIELDS[kind]) == set(FIELDS[kind]) for kind in KINDS)


def used(role: str = "agent", cost: float | None = 0.25, issue: str = "a-1") -> dict[str, Any]:
    return whole("usage", role=role, cost=cost, issue=issue)


def test_what_killed_tries_used_counts_for_the_attempt_its_role_and_the_whole() -> None:
    one = Usage(1, 200, 30, 0.25)
    events = [
        whole("started"),
        used(),
        used(),
        whole("started"),
        used(),
        whole("finished"),
        used("judge"),
        whole("graded"),
        used("extract"),
    ]
    state = fold([*events, used(issue="a-2")])
    # The first try was killed after two calls.
    assert state.attempts[KEY].usage == Usage(5, 1000, 150, 1.25) and state.attempts[KEY].starts == 2
    assert state.usage == {"agent": Usage(4, 800, 120, 1.0), "extract": one, "judge": one}
    assert state.spent == Usage(6, 1200, 180, 1.5)
    # An attempt whose start was lost was paid for all the same.
    assert set(state.attempts) == {KEY}


def test_one_call_without_a_price_makes_the_sums_that_it_is_in_unknown_and_no_other() -> None:
    state = fold([whole("started"), used(), used("judge", None), used("extract")])
    assert (state.usage["agent"].cost, state.usage["judge"].cost, state.usage["extract"].cost) == (0.25, None, 0.25)
    assert state.attempts[KEY].usage.cost is None and state.spent == Usage(3, 600, 90, None)
    assert fold([]).spent == Usage()


def test_the_time_of_all_sessions_is_added_up() -> None:
    events = [
        {**whole("started"), "t": 2.0},
        {**whole("session"), "t": 0.0},
        {**whole("started"), "t": 30.5},
        {**whole("session"), "t": 0.0},
        {**used(), "t": 7.0},
        {**used(), "t": 9.25},
    ]
    state = fold(events)
    assert state.sessions == 2 and state.seconds == 2.0 + 30.5 + 9.25
    assert fold([*events, whole("session")]).seconds == state.seconds
    for wrong in (None, "10", True, -5.0, float("nan"), float("inf"), 10**400, [1]):
        assert fold([*events, {**used(), "t": wrong}]).seconds == state.seconds, wrong


def write_run(path: Path, clock: Any, timer: Any) -> RunState:
    for _ in range(2):
        with Journal(path, clock=clock, timer=timer) as journal:
            for kind in ("session", "started", "usage", "finished", "graded", "learned", "frozen"):
                event = whole(kind)
                journal.append(event.pop("event"), **event)
    return read_state(path)


def timeless(state: RunState) -> Any:
    """The state without the times of day that are written beside events."""

    def plain(value: Any) -> Any:
        return {name: plain(part) for name, part in value.items() if name != "at"} if isinstance(value, dict) else value

    attempts = {key: [plain(part) for part in (a.started, a.finished, a.graded)] + [a.starts, a.usage] for key, a in state.attempts.items()}
    banks = {name: [plain(dict(bank.learned)), plain(bank.frozen)] for name, bank in state.banks.items()}
    return attempts, banks, state.usage, state.seconds, state.sessions, state.problems


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path) -> None:
    def run(name: str, step: timedelta) -> RunState:
        now, ticks = [datetime(2024, 6, 1, tzinfo=UTC)], itertools.count(100.0, 0.5)

        def clock() -> datetime:
            now[0] += step
            return now[0]

        return write_run(tmp_path / name, clock, lambda: next(ticks))

    back, forward = run("back", timedelta(days=-1)), run("forward", timedelta(seconds=1))
    times = [datetime.fromisoformat(event["at"]) for event in read_events(tmp_path / "back")[0]]
    assert times == sorted(times, reverse=True) and len(set(times)) == 14
    assert timeless(back) == timeless(forward)
    assert back.problems == () and back.sessions == 2 and back.seconds == 2 * 7 * 0.5


def test_an_event_says_how_long_its_session_has_worked(tmp_path: Path) -> None:
    ticks = iter([50.0, 50.0, 53.25, 55.0])
    with Journal(tmp_path / "events.jsonl", clock=fixed, timer=lambda: next(ticks)) as journal:
        assert [journal.append("session")["t"], journal.append("session")["t"], journal.seconds] == [0.0, 3.25, 5.0]


def test_a_bank_knows_what_it_learned_in_order_and_when_it_was_frozen() -> None:
    events = [whole(kind, issue=issue) for issue in ("b", "a") for kind in ("started", "finished", "graded")]
    other = {"bank": "reasoningbank/1-b"}
    events += [whole("learned", issue="b"), whole("learned", issue="a"), whole("learned", issue="a", **other), whole("frozen")]
    state = fold(events)
    assert state.problems == () and sorted(state.banks) == ["reasoningbank/1-a", "reasoningbank/1-b"]
    assert [key[2] for key in state.banks["reasoningbank/1-a"].learned] == ["b", "a"]
    assert state.banks["reasoningbank/1-a"].frozen["version"] == 9 and not state.banks["reasoningbank/1-b"].frozen
    # Frozen without a lesson, all of which failed through the machine.
    assert fold([whole("frozen")]).banks["reasoningbank/1-a"].learned == {}


def test_failures_are_kept_with_their_reasons_over_all_tries() -> None:
    events = [whole("started"), whole("failed", reason="one"), whole("started"), whole("failed", reason="two")]
    attempt = fold(events).attempts[KEY]
    assert attempt.failures == ("one", "two") and attempt.starts == 2 and attempt.infra
    early = fold([whole("failed", reason="before it began")]).attempts[KEY]
    assert early.infra and early.starts == 0


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:

        def write(name: str) -> None:
            for number in range(20):
                journal.append("started", arm="none", stream="1-1", issue=f"{name}-{number}", recall=None)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events, problems = read_events(path)
    assert problems == [] and len({event["issue"] for event in events}) == 80


FULL = """
import resource, sys
from pathlib import Path
from harness.events import Journal
from swe_memory.errors import SweMemoryError
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
journal = Journal(Path(sys.argv[1]))
number = 0
try:
    while True:
        journal.append("usage", arm="none", stream="1-1", issue=str(number), filler="x" * 700)
        number += 1
except SweMemoryError as error:
    print(number, error)
"""


def test_an_event_that_found_no_room_leaves_no_half_line_and_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = int(done.stdout.split()[0])
    assert "cannot write" in done.stdout and "--resume" in done.stdout
    assert written > 5 and path.read_bytes().endswith(b"\n") and path.stat().st_size < 10_000
    assert [event["issue"] for event in read_events(path)[0]] == [str(number) for number in range(written)]
    with Journal(path) as journal:
        journal.append("session")
    assert len(read_events(path)[0]) == written + 1 and read_events(path)[1] == []
