from datetime import date

from daybook import WorkCalendar

FRIDAY = date(2023, 1, 13)
MONDAY = date(2023, 1, 16)


def test_weekends_are_free():
    assert WorkCalendar().is_working_day(FRIDAY)
    assert not WorkCalendar().is_working_day(date(2023, 1, 14))


def test_holidays_are_free():
    assert not WorkCalendar(holidays=[FRIDAY]).is_working_day(FRIDAY)
    assert not WorkCalendar(fixed=[(1, 13)]).is_working_day(FRIDAY)


def test_following():
    assert WorkCalendar().following(date(2023, 1, 14)) == MONDAY
    assert WorkCalendar().following(MONDAY) == MONDAY


def test_add_goes_over_the_weekend():
    assert WorkCalendar().add(FRIDAY, 1) == MONDAY
    assert WorkCalendar().add(FRIDAY, 0) == FRIDAY


def test_between_counts_both_ends():
    assert WorkCalendar().between(FRIDAY, MONDAY) == 2


def test_days_of_month():
    days = WorkCalendar(fixed=[(1, 6)]).days_of_month(2023, 1)
    assert len(days) == 21
    assert days[0] == date(2023, 1, 2)
