"""Agendas: named events, and the time that is left between them."""

from datetime import time

from daybook.merge import gaps, total_minutes
from daybook.spans import Span

OPENS = time(8)
CLOSES = time(18)


class Event:
    """Something that takes place during a span."""

    def __init__(self, title, span, guests=()):
        self.title = title
        self.span = span
        self.guests = tuple(guests)

    def __repr__(self):
        return f"Event({self.title!r}, {self.span!r})"


class Agenda:
    """The events of one person or one room."""

    def __init__(self, name, events=(), opens=OPENS, closes=CLOSES):
        self.name = name
        self._events = list(events)
        self.opens = opens
        self.closes = closes

    def __len__(self):
        return len(self._events)

    @property
    def events(self):
        """All events, in the order of their start."""
        return sorted(self._events, key=lambda event: (event.span.start, event.span.end))

    def add(self, title, span, guests=()):
        """Add an event and return it. Events may overlap; see :meth:`conflicts`."""
        event = Event(title, span, guests)
        self._events.append(event)
        return event

    def cancel(self, title):
        """Take out all events called ``title``; says how many there were."""
        kept = [event for event in self._events if event.title != title]
        gone = len(self._events) - len(kept)
        self._events = kept
        return gone

    def copy(self, name=None):
        """Another agenda with the same events, for trying things out."""
        return Agenda(name or self.name, self._events, self.opens, self.closes)

    def on(self, day):
        """The events that take place on ``day``, at least partly."""
        whole = Span.of_day(day)
        return [event for event in self.events if event.span.overlaps(whole)]

    def conflicts(self):
        """Pairs of events that overlap, earlier one first."""
        ordered = self.events
        found = []
        for position, first in enumerate(ordered):
            for second in ordered[position + 1 :]:
                if first.span.overlaps(second.span):
                    found.append((first, second))
        return found

    def busy_minutes(self, day):
        """How many minutes of ``day`` are taken; time that is taken twice counts once."""
        whole = Span.of_day(day)
        parts = [event.span.common(whole) for event in self.on(day)]
        return total_minutes(part for part in parts if part is not None)

    def free(self, day, minutes=30):
        """The free spans of at least ``minutes`` in the opening hours of ``day``."""
        open_hours = Span.of_day(day, self.opens, self.closes)
        taken = [event.span for event in self.on(day)]
        return [span for span in gaps(taken, open_hours) if span.minutes >= minutes]
