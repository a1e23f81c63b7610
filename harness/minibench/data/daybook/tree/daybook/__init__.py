"""Spans of time, agendas, working days and recurring days."""

from daybook.agenda import Agenda, Event
from daybook.recurrence import Rule
from daybook.spans import Span
from daybook.workdays import WorkCalendar

__all__ = ["Agenda", "Event", "Rule", "Span", "WorkCalendar"]
