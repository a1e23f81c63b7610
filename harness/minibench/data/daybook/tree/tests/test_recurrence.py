from datetime import date

import pytest

from daybook import Rule, WorkCalendar
from daybook.recurrence import add_months


def test_count():
    assert Rule(date(2023, 1, 9), "day", count=2).days() == [date(2023, 1, 9), date(2023, 1, 10)]


def test_every_other_week_until():
    days = Rule(date(2023, 1, 2), "week", interval=2, until=date(2023, 2, 5)).days()
    assert days == [date(2023, 1, 2), date(2023, 1, 16), date(2023, 1, 30)]


def test_months_keep_the_day_where_they_can():
    assert Rule(date(2023, 1, 31), "month", count=3).days() == [date(2023, 1, 31), date(2023, 2, 28), date(2023, 3, 31)]


def test_add_months_over_the_year():
    assert add_months(date(2022, 11, 15), 3) == date(2023, 2, 15)


def test_an_end_must_be_given():
    with pytest.raises(ValueError):
        Rule(date(2023, 1, 1), "day")


def test_worked_moves_free_days():
    assert Rule(date(2023, 1, 7), "day", count=3).worked(WorkCalendar()) == [date(2023, 1, 9)]
