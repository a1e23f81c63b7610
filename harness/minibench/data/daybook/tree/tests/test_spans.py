from datetime import date, datetime, time, timedelta

import pytest

from daybook import Span

NINE = datetime(2023, 1, 9, 9)
TEN = datetime(2023, 1, 9, 10)
ELEVEN = datetime(2023, 1, 9, 11)


def test_a_span_ends_after_it_starts():
    with pytest.raises(ValueError):
        Span(TEN, NINE)
    with pytest.raises(ValueError):
        Span(TEN, TEN)


def test_minutes():
    assert Span(NINE, TEN).minutes == 60


def test_touching_spans_do_not_overlap():
    assert not Span(NINE, TEN).overlaps(Span(TEN, ELEVEN))
    assert Span(NINE, ELEVEN).overlaps(Span(TEN, ELEVEN))


def test_contains_its_start_but_not_its_end():
    assert Span(NINE, TEN).contains(NINE)
    assert not Span(NINE, TEN).contains(TEN)


def test_nothing_in_common():
    assert Span(NINE, TEN).common(Span(TEN, ELEVEN)) is None


def test_of_day():
    assert Span.of_day(date(2023, 1, 9)).minutes == 24 * 60
    assert Span.of_day(date(2023, 1, 9), time(9), time(10)) == Span(NINE, TEN)


def test_moved():
    assert Span(NINE, TEN).moved(timedelta(hours=1)) == Span(TEN, ELEVEN)
