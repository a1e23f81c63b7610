"""Working days: Monday to Friday, except holidays."""

from datetime import date, timedelta

SATURDAY = 5
ONE_DAY = timedelta(days=1)


class WorkCalendar:
    """Knows which days are worked. ``holidays`` are dates; ``fixed`` are (month, day) pairs that are free every year."""

    def __init__(self, holidays=(), fixed=()):
        self.holidays = frozenset(holidays)
        self.fixed = frozenset(fixed)

    def is_holiday(self, day):
        """Whether ``day`` is free, whatever day of the week it is."""
        return day in self.holidays or (day.month, day.day) in self.fixed

    def is_working_day(self, day):
        """Whether people work on ``day``."""
        return day.weekday() < SATURDAY and not self.is_holiday(day)

    def following(self, day):
        """``day`` itself if it is worked, else the next day that is."""
        while not self.is_working_day(day):
            day += ONE_DAY
        return day

    def add(self, day, count):
        """The working day ``count`` working days after ``day``; a negative count goes back."""
        step = 1 if count > 0 else -1
        left = count
        while left != 0:
            day += step * ONE_DAY
            if self.is_working_day(day):
                left -= step
        return day

    def between(self, first, last):
        """How many working days there are from ``first`` to ``last``, both included."""
        days = (last - first).days + 1
        return sum(self.is_working_day(first + number * ONE_DAY) for number in range(days))

    def days_of_month(self, year, month):
        """The working days of one month, in order."""
        day = date(year, month, 1)
        found = []
        while day.month == month:
            if self.is_working_day(day):
                found.append(day)
            day += ONE_DAY
        return found
