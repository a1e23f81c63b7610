"""The rate limiter, on a clock that is moved by hand: nothing here waits for real time, and nothing is decided by it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_anthropic import Cut, Error, FakeAnthropic, isolate
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from swe_memory.budget import Budget, BudgetSpent
from swe_memory.claude import Answer, Claude, ModelCallError
from swe_memory.errors import UsageError
from swe_memory.rate import RateLimiter, Stopped


class Alone:
    """Time for one thread: waiting for so many seconds makes them pass."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits = 0

    def __call__(self) -> float:
        return self.now

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        assert seconds is not None, "alone in the queue, and nothing to wait for"
        self.waits += 1
        self.now += seconds


class Together:
    """Time for several threads: it stands still until :meth:`advance`; ``arrivals`` gets the name of each thread that begins to wait."""

    def __init__(self) -> None:
        self.now = 100.0
        self.arrivals: queue.Queue[str] = queue.Queue()
        self._conditions: set[threading.Condition] = set()

    def __call__(self) -> float:
        return self.now

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self._conditions.add(condition)
        self.arrivals.put(threading.current_thread().name)
        condition.wait()

    def advance(self, seconds: float) -> None:
        (condition,) = self._conditions
        with condition:
            self.now += seconds
            condition.notify_all()


@pytest.fixture
def start() -> Iterator[Callable[[str, Callable[[], None]], threading.Thread]]:
    threads: list[threading.Thread] = []

    def begin(name: str, work: Callable[[], None]) -> threading.Thread:
        threads.append(threading.Thread(target=work, name=name, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield begin
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def spend(limiter: RateLimiter, estimate: int, actual: int | None = None) -> None:
    with limiter.request(estimate) as settle:
        if actual is not None:
            settle(actual)


def test_requests_go_at_once_while_the_burst_lasts_and_then_at_the_rate() -> None:
    clock = Alone()
    limiter = RateLimiter(60, clock=clock, wait=clock.wait)
    times = []
    for _ in range(13):
        spend(limiter, 0)
        times.append(clock.now - 100)
    assert times == pytest.approx([0.0] * 10 + [1.0, 2.0, 3.0])


def test_without_a_limit_nobody_waits() -> None:
    clock = Alone()
    limiter = RateLimiter(clock=clock, wait=clock.wait)
    for _ in range(1000):
        spend(limiter, 10**9, 10**9)
    assert clock.waits == 0


@given(st.integers(1, 600), st.lists(st.floats(0, 20), min_size=1, max_size=120))
def test_no_minute_sees_more_requests_than_the_limit_and_one_burst(limit: int, pauses: list[float]) -> None:
    clock = Alone()
    limiter = RateLimiter(limit, clock=clock, wait=clock.wait)
    times: list[float] = []
    for pause in pauses:
        clock.now += pause
        spend(limiter, 0)
        times.append(clock.now)
    assert times == sorted(times)
    for i, first in enumerate(times):
        assert sum(t - first < 60 for t in times[i:]) <= limit + max(1.0, limit / 6) + 1e-6
    assert clock.waits <= len(pauses), "each waits once, for as long as it takes"


@given(
    st.integers(60, 100_000),
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 30_000), st.floats(0, 1.5)), min_size=1, max_size=60),
)
def test_no_minute_uses_more_tokens_than_the_limit_one_burst_and_what_one_request_went_beyond_them(
    limit: int, asked: list[tuple[float, int, float]]
) -> None:
    clock = Alone()
    limiter = RateLimiter(None, limit, clock=clock, wait=clock.wait)
    used: list[tuple[float, int]] = []
    for pause, estimate, share in asked:
        clock.now += pause
        spend(limiter, estimate, int(estimate * share))
        used.append((clock.now, int(estimate * share)))
    burst = max(1.0, limit / 6)
    beyond = max(max(estimate, actual) for (_, actual), (_, estimate, _) in zip(used, asked, strict=True))
    for i, (first, _) in enumerate(used):
        assert sum(tokens for t, tokens in used[i:] if t - first < 60) <= limit + burst + beyond + 1e-3


def test_what_was_estimated_too_high_is_given_back_and_what_was_too_low_is_paid_later() -> None:
    clock = Alone()
    limiter = RateLimiter(None, 6000, clock=clock, wait=clock.wait)  # 100 a second, 1000 at once
    spend(limiter, 1000, 200)
    spend(limiter, 800, 800)
    assert clock.now == 100.0, "800 of the first 1000 were not used"
    spend(limiter, 100, 1100)
    assert clock.now == pytest.approx(101.0)
    spend(limiter, 100)
    assert clock.now == pytest.approx(112.0), "1000 too few were estimated: 10 s of the rate, besides its own"


def test_a_request_that_nobody_settles_stays_charged_with_its_estimate() -> None:
    clock = Alone()
    limiter = RateLimiter(None, 6000, clock=clock, wait=clock.wait)
    with pytest.raises(ZeroDivisionError), limiter.request(1000):
        raise ZeroDivisionError
    spend(limiter, 500)
    assert clock.now == pytest.approx(105.0)


def test_settling_again_replaces_what_was_said_before() -> None:
    clock = Alone()
    limiter = RateLimiter(None, 6000, clock=clock, wait=clock.wait)
    with limiter.request(1000) as settle:
        settle(900)
        settle(400)
    spend(limiter, 600)
    assert clock.now == 100.0


def test_a_request_larger_than_the_bucket_goes_when_the_bucket_is_full_and_is_paid_off() -> None:
    clock = Alone()
    limiter = RateLimiter(None, 6000, clock=clock, wait=clock.wait)
    spend(limiter, 500, 500)
    spend(limiter, 5000, 5000)
    assert clock.now == pytest.approx(105.0), "full again after 5 s"
    spend(limiter, 1000)
    assert clock.now == pytest.approx(155.0), "4000 too many, and 1000 for the next"


def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing() -> None:
    clock = Alone()
    limiter = RateLimiter(60, clock=clock, wait=clock.wait)
    for _ in range(10):
        spend(limiter, 0)
    clock.now -= 50
    spend(limiter, 0)
    assert clock.now <= 101.0 + 50


def test_first_come_first_served_also_when_the_first_wants_much(start: Callable[..., threading.Thread]) -> None:
    clock = Together()
    limiter = RateLimiter(None, 6000, clock=clock, wait=clock.wait)
    spend(limiter, 1000)
    order: queue.Queue[str] = queue.Queue()

    def work(tokens: int) -> Callable[[], None]:
        def ask() -> None:
            with limiter.request(tokens):
                order.put(threading.current_thread().name)

        return ask

    for name, tokens in (("large", 900), ("small", 10), ("smaller", 1)):
        start(name, work(tokens))
        assert clock.arrivals.get(timeout=10) == name
    clock.advance(5)  # enough for the small ones, not for the large
    assert {clock.arrivals.get(timeout=10) for _ in range(3)} == {"large", "small", "smaller"}
    assert order.empty()
    clock.advance(4.5)
    assert [order.get(timeout=10) for _ in range(3)] == ["large", "small", "smaller"]


def test_what_is_given_back_lets_the_next_go_before_its_time(start: Callable[..., threading.Thread]) -> None:
    clock = Together()
    limiter = RateLimiter(None, 6000, clock=clock, wait=clock.wait)
    done = threading.Event()

    def ask() -> None:
        with limiter.request(1000):
            done.set()

    with limiter.request(1000) as settle:
        start("next", ask)
        clock.arrivals.get(timeout=10)
        settle(0)
        assert done.wait(10), "no time has passed on the limiter's clock"


def test_who_leaves_the_queue_does_not_hold_up_those_behind(start: Callable[..., threading.Thread]) -> None:
    clock = Together()
    stop, done = threading.Event(), threading.Event()

    class Leaves(Exception):
        pass

    def wait(condition: threading.Condition, seconds: float | None) -> None:
        clock.wait(condition, seconds)
        if threading.current_thread().name == "first":
            raise Leaves

    limiter = RateLimiter(None, 6000, stop=stop, clock=clock, wait=wait)
    spend(limiter, 1000)

    def first() -> None:
        with pytest.raises(Leaves), limiter.request(1000):
            pass

    def second() -> None:
        with limiter.request(100):
            done.set()

    start("first", first)
    assert clock.arrivals.get(timeout=10) == "first"
    start("second", second)
    assert clock.arrivals.get(timeout=10) == "second"
    clock.advance(1.0)
    assert done.wait(10)


def test_who_waits_is_stopped_and_who_comes_later_too_and_neither_is_charged(start: Callable[..., threading.Thread]) -> None:
    stop = threading.Event()
    limiter = RateLimiter(1, stop=stop)  # real time: the next would go in a minute
    spend(limiter, 0)
    stopped: queue.Queue[Stopped] = queue.Queue()

    def ask() -> None:
        try:
            spend(limiter, 0)
        except Stopped as problem:
            stopped.put(problem)

    for number in range(3):
        start(str(number), ask)
    stop.set()
    for _ in range(3):
        assert "stopped" in str(stopped.get(timeout=10))
    with pytest.raises(Stopped):
        spend(limiter, 0)


def test_many_threads_keep_the_rate_and_all_get_through(start: Callable[..., threading.Thread]) -> None:
    clock = Together()
    limiter = RateLimiter(600, clock=clock, wait=clock.wait)  # 10 a second, 100 at once
    times: list[float] = []
    done = threading.Event()
    lock = threading.Lock()

    def work() -> None:
        for _ in range(25):
            with limiter.request(0), lock:
                times.append(clock.now)
        with lock:
            finished.append(1)
            if len(finished) == 8:
                done.set()

    finished: list[int] = []
    for number in range(8):
        start(str(number), work)
    while not done.is_set():
        try:
            clock.arrivals.get(timeout=0.01)
        except queue.Empty:
            continue
        clock.advance(0.05)
    assert len(times) == 200 and times.count(100.0) >= 100
    for first in times:
        assert sum(0 <= t - first < 2 for t in times) <= 100 + 2 * 10


@pytest.mark.parametrize(("requests", "tokens"), [(0, None), (-1, None), (None, 0)])
def test_a_limit_that_lets_nothing_through_is_refused(requests: int | None, tokens: int | None) -> None:
    with pytest.raises(UsageError, match="a minute lets nothing through"):
        RateLimiter(requests, tokens)


# -- in the transport ------------------------------------------------------------------------------------------------------------------------


class Colour(BaseModel):
    name: str


GOOD = '{"name": "blue"}'


@pytest.fixture
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


def ask(claude: Claude) -> object:
    return claude.ask("You name colours.", "What colour is the sky?", Colour)


@pytest.mark.usefixtures("_own_environment")
@pytest.mark.parametrize(
    ("script", "requests"),
    [([GOOD], 1), (["no JSON", GOOD], 2), ([Error(529), Error(429), GOOD], 3), ([Cut(), GOOD], 2)],
    ids=["answered", "asked again", "refused twice", "cut off"],
)
def test_every_request_that_is_sent_takes_its_turn_retries_included(script: list[object], requests: int) -> None:
    clock = Alone()
    limiter = RateLimiter(6, clock=clock, wait=clock.wait)  # one at once, then one in ten seconds
    with FakeAnthropic(script) as api:  # type: ignore[arg-type]
        assert isinstance(ask(Claude(api_key=api.key, base_url=api.url, limiter=limiter)), Answer)
        assert len(api.requests) == requests
    assert clock.now - 100 == pytest.approx(10.0 * (requests - 1))


@pytest.mark.usefixtures("_own_environment")
def test_the_tokens_that_count_in_the_end_are_those_that_were_used() -> None:
    clock = Alone()
    limiter = RateLimiter(None, 600_000, clock=clock, wait=clock.wait)  # 10,000 a second, 100,000 at once
    with FakeAnthropic([GOOD, Error(529), GOOD]) as api:
        claude = Claude(api_key=api.key, base_url=api.url, limiter=limiter)
        assert isinstance(ask(claude), Answer) and isinstance(ask(claude), Answer)
        served = api.served["input_tokens"] + api.served["output_tokens"]
    assert clock.now == 100.0
    spend(limiter, 100_000)
    assert clock.now - 100 == pytest.approx(served / 10_000)


@pytest.mark.usefixtures("_own_environment")
def test_while_it_is_under_way_a_question_holds_the_most_that_it_may_use() -> None:
    clock = Alone()
    limiter = RateLimiter(None, 600_000, clock=clock, wait=clock.wait)
    seen: list[float] = []

    def answer(request: object) -> str:
        with limiter.request(100_000) as settle:  # when the bucket is full again
            seen.append(clock.now - 100)
            settle(0)
        return GOOD

    with FakeAnthropic(answer) as api:
        ask(Claude(api_key=api.key, base_url=api.url, limiter=limiter, max_tokens=50_000))
    assert 5.0 < seen[0] < 5.2, "50,000 tokens of answer, and the question"


@pytest.mark.usefixtures("_own_environment")
def test_a_question_that_the_budget_forbids_takes_nothing_of_the_rate() -> None:
    clock = Alone()
    limiter = RateLimiter(6, clock=clock, wait=clock.wait)
    with FakeAnthropic([GOOD]) as api, pytest.raises(BudgetSpent):
        ask(Claude(api_key=api.key, base_url=api.url, limiter=limiter, budget=Budget(calls=0)))
    spend(limiter, 0)
    assert clock.now == 100.0


@pytest.mark.usefixtures("_own_environment")
@pytest.mark.parametrize("before", [[], ["no JSON"], [Error(529)]], ids=["first", "asked again", "retried"])
def test_a_stop_ends_the_wait_for_a_turn_and_tells_what_was_paid_for(before: list[object]) -> None:
    clock = Alone()
    stop = threading.Event()

    def wait(condition: threading.Condition, seconds: float | None) -> None:
        stop.set()  # whoever has to wait finds the run stopped

    limiter = RateLimiter(6, stop=stop, clock=clock, wait=wait)
    if not before:
        spend(limiter, 0)
    with FakeAnthropic([*before, GOOD]) as api:  # type: ignore[list-item]
        claude = Claude(api_key=api.key, base_url=api.url, limiter=limiter)
        with pytest.raises(Stopped) as caught:
            ask(claude)
        assert len(api.requests) == len(before)
    assert caught.value.usage.calls == claude.usage.calls == before.count("no JSON")


@pytest.mark.usefixtures("_own_environment")
def test_a_question_that_fails_leaves_the_queue() -> None:
    clock = Alone()
    limiter = RateLimiter(6, clock=clock, wait=clock.wait)
    with FakeAnthropic([Error(400), GOOD]) as api:
        claude = Claude(api_key=api.key, base_url=api.url, limiter=limiter)
        with pytest.raises(ModelCallError):
            ask(claude)
        assert isinstance(ask(claude), Answer)
    assert clock.now - 100 == pytest.approx(10.0)
