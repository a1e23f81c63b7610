from datetime import datetime

from daybook import Span
from daybook.merge import gaps, merged, total_minutes


def span(start, end):
    return Span(datetime(2023, 1, 9, start), datetime(2023, 1, 9, end))


def test_overlapping_and_touching_spans_are_joined():
    assert merged([span(9, 11), span(10, 12), span(12, 13), span(15, 16)]) == [span(9, 13), span(15, 16)]


def test_a_span_inside_another_disappears():
    assert merged([span(9, 15), span(10, 11)]) == [span(9, 15)]


def test_gaps():
    assert gaps([span(9, 10), span(12, 13)], span(8, 18)) == [span(8, 9), span(10, 12), span(13, 18)]


def test_gaps_of_nothing_is_everything():
    assert gaps([], span(8, 18)) == [span(8, 18)]


def test_total_counts_time_once():
    assert total_minutes([span(9, 11), span(10, 12)]) == 180
