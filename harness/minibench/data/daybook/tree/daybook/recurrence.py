"""Days that come again and again."""

import calendar
from datetime import timedelta

UNITS = ("day", "week", "month")


class Rule:
    """Every ``interval`` days, weeks or months from ``start`` on.

    It ends with the day ``until``, which still belongs to it, or after ``count`` days; one of the two must be given.
    """

    def __init__(self, start, unit, interval=1, until=None, count=None):
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, not {unit!r}")
        if interval < 1:
            raise ValueError("interval must be at least 1")
        if until is None and count is None:
            raise ValueError("say when it ends: until or count")
        self.start = start
        self.unit = unit
        self.interval = interval
        self.until = until
        self.count = count

    def _day(self, number):
        steps = number * self.interval
        if self.unit == "day":
            return self.start + timedelta(days=steps)
        if self.unit == "week":
            return self.start + timedelta(weeks=steps)
        return add_months(self.start, steps)

    def days(self):
        """All days of the rule, in order."""
        found = []
        while True:
            if self.count is not None and len(found) >= self.count:
                return found
            day = self._day(len(found))
            if self.until is not None and day > self.until:
                return found
            found.append(day)

    def worked(self, work_calendar):
        """The days of the rule, each moved to the next working day if it is free; a day that comes twice is kept once."""
        found = []
        for day in self.days():
            moved = work_calendar.following(day)
            if moved not in found:
                found.append(moved)
        return found


def add_months(day, months):
    """The same day ``months`` months later, or the last day of that month where it is too short."""
    month = day.month - 1 + months
    year, month = day.year + month // 12, month % 12 + 1
    last = calendar.monthrange(year, month)[1]
    return day.replace(year=year, month=month, day=min(day.day, last))
