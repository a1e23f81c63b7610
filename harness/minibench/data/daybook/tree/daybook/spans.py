"""A span of time: from a start, which belongs to it, to an end, which does not."""

from datetime import datetime, time, timedelta


class Span:
    """The time from ``start`` up to ``end``; both are datetimes, and the end comes later."""

    __slots__ = ("end", "start")

    def __init__(self, start, end):
        if end <= start:
            raise ValueError(f"a span must end after it starts: {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}")
        self.start = start
        self.end = end

    @classmethod
    def of_day(cls, day, opens=time(0), closes=None):
        """The span of a whole day, or of its hours from ``opens`` to ``closes``."""
        start = datetime.combine(day, opens)
        if closes is None:
            return cls(start, datetime.combine(day, time(0)) + timedelta(days=1))
        return cls(start, datetime.combine(day, closes))

    def __eq__(self, other):
        if not isinstance(other, Span):
            return NotImplemented
        return (self.start, self.end) == (other.start, other.end)

    def __hash__(self):
        return hash((self.start, self.end))

    def __repr__(self):
        return f"Span({self.start:%Y-%m-%d %H:%M}, {self.end:%Y-%m-%d %H:%M})"

    @property
    def minutes(self):
        """The length in whole minutes."""
        return int((self.end - self.start).total_seconds() // 60)

    def overlaps(self, other):
        """Whether the two have any time in common."""
        return self.start < other.end and other.start < self.end

    def contains(self, moment):
        """Whether ``moment`` lies in the span."""
        return self.start <= moment < self.end

    def common(self, other):
        """The time that both have in common, or ``None``."""
        if not self.overlaps(other):
            return None
        return Span(max(self.start, other.start), min(self.end, other.end))

    def moved(self, delta):
        """The same length of time, ``delta`` later."""
        return Span(self.start + delta, self.end + delta)
