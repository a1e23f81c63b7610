from datetime import date, datetime

from daybook import Agenda, Span
from daybook.text import day_plan, duration

DAY = date(2023, 1, 9)


def span(start, end):
    return Span(datetime(2023, 1, 9, start), datetime(2023, 1, 9, end))


def agenda():
    made = Agenda("Room 4")
    made.add("review", span(13, 15), guests=["Ada"])
    made.add("stand-up", span(9, 10))
    return made


def test_events_are_ordered():
    assert [event.title for event in agenda().events] == ["stand-up", "review"]


def test_cancel():
    made = agenda()
    assert made.cancel("review") == 1
    assert len(made) == 1


def test_free_time():
    assert agenda().free(DAY) == [span(8, 9), span(10, 13), span(15, 18)]
    assert agenda().free(DAY, minutes=90) == [span(10, 13), span(15, 18)]


def test_conflicts():
    made = agenda()
    late = made.add("lunch", span(12, 14))
    assert [(first.title, second.title) for first, second in made.conflicts()] == [("lunch", "review")]
    assert late in made.events


def test_busy_minutes():
    assert agenda().busy_minutes(DAY) == 180


def test_nothing_happens_on_another_day():
    assert agenda().on(date(2023, 1, 10)) == []


def test_durations_in_words():
    assert [duration(minutes) for minutes in (45, 60, 90)] == ["45 min", "1 h", "1 h 30 min"]


def test_day_plan():
    assert day_plan(agenda(), DAY).splitlines()[2] == "13:00-15:00  review (2 h) with Ada"
    assert day_plan(Agenda("x"), DAY).endswith("nothing planned")
