"""Tasks that wait for one another: in order, in lanes, tried again in time, and stopped without leaving anything half done."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tasks import Stopped, Task, Tasks

SOON = 20.0  # seconds after which a test is given up; nothing waits so long unless it hangs


@dataclass
class Log:
    """What began and ended, in order, and how many of each lane were under way at the most."""

    lines: list[str] = field(default_factory=list)
    most: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def task(
        self,
        name: str,
        *after: str,
        lane: str = "run",
        priority: int = 0,
        finishing: bool = False,
        work: Callable[[], float | None] = lambda: None,
    ) -> Task:
        """A task that is logged around what it does."""

        def logged() -> float | None:
            with self.lock:
                self.lines.append(f"+{name}")
                self.running[lane] += 1
                self.most[lane] = max(self.most[lane], self.running[lane])
            try:
                return work()
            finally:
                with self.lock:
                    self.running[lane] -= 1
                    self.lines.append(f"-{name}")

        return Task(name, lane, logged, after, priority, finishing)

    @property
    def begun(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] == "+"]


class Clock:
    """A timer that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def tries(*answers: float | None) -> Callable[[], float | None]:
    """Work that answers so, one after the other."""
    left = list(answers)
    return lambda: left.pop(0)


def ended(tasks: Tasks, log: Log, watch: Callable[[], None] = lambda: None) -> bool:
    """Run them; a run that hangs fails the test instead of standing for ever."""
    found: list[bool | BaseException] = []

    def run() -> None:
        try:
            found.append(tasks.run(watch, every=0.01))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), f"it hangs after {log.lines}"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


# -- order -----------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    number: int
    lane: str
    after: tuple[int, ...]
    priority: int
    again: int


@st.composite
def graphs(draw: st.DrawFn) -> list[Made]:
    size = draw(st.integers(1, 14))
    return [
        Made(
            number,
            draw(st.sampled_from(["run", "grade"])),
            tuple(draw(st.lists(st.integers(0, number - 1), unique=True, max_size=3))) if number else (),
            draw(st.integers(0, 3)),
            draw(st.integers(0, 1)),
        )
        for number in range(size)
    ]


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 8), st.integers(1, 3))
def test_everything_is_done_once_after_what_it_waits_for_and_no_lane_is_overfull(graph: list[Made], runners: int, graders: int) -> None:
    log = Log()
    tasks = [
        log.task(
            str(made.number),
            *map(str, made.after),
            "nobody",
            lane=made.lane,
            priority=made.priority,
            work=tries(*[0.0] * made.again, None),
        )
        for made in graph
    ]
    assert ended(Tasks(tasks, {"run": runners, "grade": graders}), log)
    assert Counter(log.begun) == {str(made.number): 1 + made.again for made in graph}
    assert log.most["run"] <= runners and log.most["grade"] <= graders
    for made in graph:
        first = log.lines.index(f"+{made.number}")
        for other in made.after:
            last = len(log.lines) - 1 - log.lines[::-1].index(f"-{other}")
            assert last < first, (made, log.lines)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_a_single_worker_takes_the_highest_priority_of_what_may_begin_then_what_came_first(graph: list[Made]) -> None:
    log = Log()
    ended(Tasks([log.task(str(m.number), *map(str, m.after), priority=m.priority) for m in graph], {"run": 1}), log)
    done: list[int] = []
    while len(done) < len(graph):
        free = [made for made in graph if made.number not in done and set(made.after) <= set(done)]
        done.append(min(free, key=lambda made: (-made.priority, made.number)).number)
    assert log.begun == [str(number) for number in done]


def test_lanes_work_side_by_side() -> None:
    log, both = Log(), threading.Barrier(4, timeout=SOON)

    def meet() -> None:
        both.wait()

    tasks = [log.task(f"{lane}{number}", lane=lane, work=meet) for lane in ("run", "grade") for number in range(2)]
    assert ended(Tasks(tasks, {"run": 2, "grade": 2}), log)
    assert log.most == {"run": 2, "grade": 2}


def test_nothing_to_do_is_done_at_once() -> None:
    assert ended(Tasks([], {"run": 3}), Log())


def test_two_tasks_of_one_name_are_refused() -> None:
    log = Log()
    with pytest.raises(ValueError, match="one name"):
        Tasks([log.task("a"), log.task("b"), log.task("a", lane="grade")], {"run": 1, "grade": 1})


# -- again -----------------------------------------------------------------------------------------------------------------------------------


def test_what_wants_to_be_tried_again_is_and_what_waits_for_it_goes_on_waiting() -> None:
    log = Log()
    tasks = [log.task("flaky", work=tries(0.0, 0.0, None)), log.task("after", "flaky"), log.task("other")]
    assert ended(Tasks(tasks, {"run": 1}), log)
    assert Counter(log.begun) == {"flaky": 3, "after": 1, "other": 1}
    assert log.begun.index("after") == 1 + max(place for place, name in enumerate(log.begun) if name == "flaky")


def test_nothing_is_tried_again_before_its_time_and_others_go_on_meanwhile() -> None:
    log, clock = Log(), Clock()

    def later(seconds: float) -> Callable[[], None]:
        def move() -> None:
            clock.now += seconds

        return move

    tasks = [
        log.task("slow", priority=9, work=tries(30.0, None)),
        log.task("quick", priority=8, work=tries(20.0, None)),
        log.task("to 10", work=later(10.0)),
        log.task("to 29.9", "to 10", work=later(19.9)),
        log.task("to 30", "to 29.9", work=later(0.1)),
        log.task("end", "to 30"),
    ]
    assert ended(Tasks(tasks, {"run": 1}, clock), log)
    # At 29.9 the quick one is due and, of higher priority than the others, goes first; the slow one is due at 30.
    assert log.begun == ["slow", "quick", "to 10", "to 29.9", "quick", "to 30", "slow", "end"]


def test_what_waits_for_its_time_is_tried_when_it_comes_though_nothing_else_happens() -> None:
    log = Log()
    assert ended(Tasks([log.task("flaky", work=tries(0.02, None))], {"run": 4}), log)
    assert log.begun == ["flaky", "flaky"]


# -- stopping --------------------------------------------------------------------------------------------------------------------------------


def test_a_stop_ends_what_is_under_way_and_begins_only_what_finishes_it() -> None:
    log = Log()

    def stop() -> None:
        tasks.stop()
        tasks.stop()

    tasks = Tasks(
        [
            log.task("run 1", work=stop, priority=2),
            log.task("grade 1", "run 1", lane="grade", finishing=True),
            log.task("report 1", "grade 1", lane="grade", finishing=True),
            log.task("learn", "grade 1", lane="bank"),
            log.task("run 2"),
            log.task("grade 2", "run 2", lane="grade", finishing=True),
        ],
        {"run": 1, "grade": 1, "bank": 1},
    )
    assert not tasks.stopping and not ended(tasks, log) and tasks.stopping
    assert log.begun == ["run 1", "grade 1", "report 1"] and len(log.lines) == 6


def test_after_a_stop_the_most_urgent_finishing_task_still_goes_first() -> None:
    log = Log()
    priorities = [1, 5, 3, 4, 2, 0, 9, 7]
    work = [log.task(f"plain {p}", priority=p + 10) for p in priorities]
    work += [log.task(f"grade {p}", priority=p, finishing=True) for p in priorities]
    tasks = Tasks(work, {"run": 1})
    tasks.stop()
    assert not ended(tasks, log)
    assert log.begun == [f"grade {p}" for p in sorted(priorities, reverse=True)]


def test_a_stop_from_the_watching_thread_wakes_those_who_wait_for_an_hour() -> None:
    log, began = Log(), threading.Event()

    def again() -> float:
        began.set()
        return 3600.0

    tasks = Tasks(
        [log.task("flaky", work=again), log.task("after", "flaky"), log.task("grade", "flaky", finishing=True)], {"run": 3, "grade": 2}
    )
    assert not ended(tasks, log, watch=lambda: tasks.stop() if began.is_set() else None)
    assert log.begun == ["flaky"]


def test_those_under_way_when_one_stops_are_finished_with_theirs() -> None:
    log, both = Log(), threading.Barrier(2, timeout=SOON)
    stopped = threading.Event()

    def first() -> None:
        both.wait()
        tasks.stop()
        stopped.set()

    def second() -> None:
        both.wait()
        assert stopped.wait(SOON)

    tasks = Tasks(
        [log.task("1", work=first), log.task("2", work=second), *(log.task(str(n)) for n in range(3, 9))]
        + [log.task(f"grade {n}", str(n), lane="grade", finishing=True) for n in range(1, 9)],
        {"run": 2, "grade": 2},
    )
    assert not ended(tasks, log)
    assert sorted(log.begun) == ["1", "2", "grade 1", "grade 2"]


# -- failing ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit(3)], ids=["error", "interrupt", "exit"])
def test_an_exception_stops_the_rest_and_is_raised_when_the_others_have_ended(error: BaseException) -> None:
    log, both, failed = Log(), threading.Barrier(2, timeout=SOON), threading.Event()

    def fail() -> None:
        both.wait()
        failed.set()
        raise error

    def go_on() -> None:
        both.wait()
        assert failed.wait(SOON)

    tasks = Tasks(
        [
            log.task("fails", work=fail, priority=2),
            log.task("under way", work=go_on, priority=2),
            log.task("its grade", "under way", lane="grade", finishing=True),
            log.task("after the failure", "fails", finishing=True),
            *(log.task(f"never {number}", "under way") for number in range(5)),
        ],
        {"run": 2, "grade": 1},
    )
    with pytest.raises(type(error)) as caught:
        ended(tasks, log)
    assert caught.value is error and tasks.stopping
    assert sorted(log.begun) == ["fails", "its grade", "under way"] and log.lines[-1] == "-its grade"


def test_of_several_exceptions_the_first_is_raised() -> None:
    log = Log()

    def fail(words: str) -> Callable[[], None]:
        def work() -> None:
            raise ValueError(words)

        return work

    tasks = Tasks([log.task("1", work=fail("first"), priority=1), log.task("2", work=fail("second"), finishing=True)], {"run": 1})
    with pytest.raises(ValueError, match="first"):
        ended(tasks, log)
    assert log.begun == ["1", "2"]


def test_a_task_that_was_stopped_in_the_middle_is_no_failure_and_not_done() -> None:
    log = Log()

    def work() -> None:
        raise Stopped

    tasks = Tasks(
        [
            log.task("half", work=work, priority=1),
            log.task("its grade", "half", finishing=True),
            log.task("other"),
            log.task("ready", finishing=True),
        ],
        {"run": 1},
    )
    assert not ended(tasks, log) and tasks.stopping
    assert log.begun == ["half", "ready"]


def test_no_agent_can_take_a_stop_for_a_failure_of_its_own() -> None:
    assert not issubclass(Stopped, Exception)


def test_whoever_watches_is_asked_while_tasks_are_at_work() -> None:
    log, asked, go = Log(), [0], threading.Event()

    def watch() -> None:
        asked[0] += 1
        go.set()

    def wait() -> None:
        assert go.wait(SOON)

    assert ended(Tasks([log.task("waits", work=wait)], {"run": 1}), log, watch) and asked[0] >= 1
