"""Agendas and lengths of time in words."""


def duration(minutes):
    """A length of time as in "45 min", "2 h" or "1 h 30 min"."""
    if minutes < 0:
        raise ValueError("a length of time cannot be negative")
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{rest} min"
    if not rest:
        return f"{hours} h"
    return f"{hours} h {rest} min"


def event_line(event):
    """One event as a line: times, title, length, guests."""
    times = f"{event.span.start:%H:%M}-{event.span.end:%H:%M}"
    line = f"{times}  {event.title} ({duration(event.span.minutes)})"
    if event.guests:
        line += f" with {', '.join(event.guests)}"
    return line


def day_plan(agenda, day):
    """The plan of one day: a heading and a line for each event."""
    lines = [f"{agenda.name}, {day:%Y-%m-%d}"]
    events = agenda.on(day)
    lines.extend(event_line(event) for event in events)
    if not events:
        lines.append("nothing planned")
    return "\n".join(lines)
