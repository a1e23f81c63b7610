"""An attempt's meter: each limit forbids the next call, and a call of unknown price blinds none of them."""

from __future__ import annotations

import pytest

from harness.metering import STATUS, LimitReached, Limits, Meter
from swe_memory.errors import UsageError
from swe_memory.records import Usage


@pytest.mark.parametrize(
    ("limits", "used", "limit"),
    [
        (Limits(calls=2), [Usage(calls=1), Usage(calls=1)], "calls"),
        (Limits(tokens=100), [Usage(1, 60, 40)], "tokens"),
        (Limits(cost=1.0), [Usage(1, 0, 0, 0.4), Usage(1, 0, 0, 0.6)], "cost"),
        (Limits(cost=1.0), [Usage(1, 0, 0, None), Usage(1, 0, 0, 1.5)], "cost"),
    ],
)
def test_a_limit_is_reached_with_the_call_that_uses_it_up(limits: Limits, used: list[Usage], limit: str) -> None:
    told: list[Usage] = []
    meter = Meter(limits, told.append)
    for usage in used:
        meter.check()
        meter.add(usage)
    assert meter.reached() == limit and told == used
    with pytest.raises(LimitReached) as reached:
        meter.check()
    assert reached.value.status == STATUS[reached.value.limit]


def test_time_runs_from_the_meters_making() -> None:
    now = [5.0]
    meter = Meter(Limits(seconds=10.0), clock=lambda: now[0])
    assert meter.seconds_left == 10.0 and meter.reached() is None
    now[0] = 15.0
    assert meter.seconds_left == 0.0 and meter.reached() == "seconds"
    assert Meter(Limits()).seconds_left is None


@pytest.mark.parametrize("wrong", [{"calls": 0}, {"command_seconds": 0}, {"seconds": 0}, {"tokens": -1}, {"cost": float("nan")}])
def test_limits_that_let_nothing_be_done_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Limits(**wrong)  # type: ignore[arg-type]
