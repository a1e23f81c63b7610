"""Two kinds of figure that several plots are made of: rows of values with intervals, and lines over an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report.style import Style
from harness.report.svg import CHARACTER, Drawing, Scale, around, fit, spread, ticks

WIDE, NARROW = 860.0, 340.0
"""A figure is drawn twice, for a page and for a phone, so that its text has the same size on both."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value with its interval; ``below`` is a second, smaller line of its label, ``shown`` the numbers at its end."""

    label: str
    below: str
    value: float | None
    low: float | None
    high: float | None
    shown: str
    style: Style


@dataclass(frozen=True, slots=True)
class Point:
    at: float
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line with a band; ``label`` stands at its end."""

    label: str
    points: Sequence[Point]
    style: Style
    band: bool = True


def rows(
    title: str,
    entries: Sequence[Row],
    width: float,
    axis: str,
    form: Callable[[float], str],
    *,
    zero: bool = False,
    limits: tuple[float, float] | None = None,
    css: str = "",
) -> Markup:
    """Markers with intervals, one under the other. With ``zero`` a line stands where there is no difference. The axis holds every interval."""
    wide = width > 500
    label = min(260.0, max((CHARACTER * len(entry.label) for entry in entries), default=0.0) + 20) if wide else 0.0
    label = max(label, min(340.0, max((0.86 * CHARACTER * len(entry.below) for entry in entries), default=0.0) + 20)) if wide else 0.0
    numbers = max((CHARACTER * len(entry.shown) for entry in entries), default=0.0) + 14 if wide else 0.0
    height_of = 38.0 if wide else 76.0
    top, left, right = 10.0, label + 8, width - numbers - 8
    bottom = top + height_of * len(entries)
    held = [part for entry in entries for part in (entry.value, entry.low, entry.high) if part is not None]
    low, high = limits or around(held, zero=zero)
    x = Scale(low, high, left, right)
    text = "; ".join(f"{entry.label}: {entry.shown}" for entry in entries)
    drawing = Drawing(width, bottom + 44, title, text)
    for place in ticks(low, high, 6 if wide else 4):
        drawing.line(x(place), top, x(place), bottom, "grid")
        drawing.words(x(place), bottom + 16, form(place), "tick", "middle")
    if zero:
        drawing.line(x(0.0), top - 4, x(0.0), bottom, "zero")
    drawing.words((left + right) / 2, bottom + 36, fit(axis, width), "axis", "middle")
    for number, entry in enumerate(entries):
        y = top + height_of * (number + 0.5) + (0 if wide else 10)
        if wide:
            drawing.words(label, y - 2 if entry.below else y + 4, fit(entry.label, label), "label", "end")
            drawing.words(label, y + 12, fit(entry.below, label / 0.86), "below", "end")
            drawing.words(width - 4, y + 4, entry.shown, "number", "end")
        else:
            together = 1.08 * CHARACTER * (len(entry.label) + len(entry.shown)) + 20 < width
            drawing.words(4, y - 27, fit(entry.label, width - 8), "label")
            drawing.words(4, y - 12, fit(entry.below, (width - 8) / 0.86), "below")
            drawing.words(width - 4, y - 27 if together else y + 17, entry.shown, "number", "end")
        if entry.low is not None and entry.high is not None:
            drawing.line(x(entry.low), y, x(entry.high), y, f"interval {entry.style.series}")
            for end in (entry.low, entry.high):
                drawing.line(x(end), y - 5, x(end), y + 5, f"interval {entry.style.series}")
        if entry.value is not None:
            drawing.mark(x(entry.value), y, entry.style.marker, entry.style.series, 5.5)
        else:
            drawing.words(x((low + high) / 2), y + 4, "not known", "below", "middle")
    return drawing.svg(css)


def lines(
    title: str,
    entries: Sequence[Line],
    width: float,
    x_axis: str,
    y_axis: str,
    form: Callable[[float], str],
    *,
    zero: bool = False,
    start: Point | None = None,
    y_least: float | None = None,
    css: str = "",
) -> Markup:
    """Lines with bands and a label at each end; ``start`` is a point that all begin with. On a phone the labels stand above, with their markers."""
    wide = width > 500
    named = len(entries) > 1
    longest = max((1.08 * CHARACTER * len(entry.label) for entry in entries), default=0.0) + 40
    right = width - (min(longest, 230.0) if wide and named else 12.0)
    above = 18.0 * len(entries) if named and not wide else 0.0
    left, top = 58.0, 22.0 + above
    height = 330.0 if wide else 250.0 + above
    bottom = height - 48
    every = [point for entry in entries for point in entry.points if point.value is not None]
    held = [part for point in every for part in (point.value, point.low, point.high) if part is not None]
    low, high = around([*held, *([start.value] if start and start.value is not None else [])], zero=zero, least=0.05)
    low = low if y_least is None else max(low, y_least)
    at = [point.at for point in every] + ([start.at] if start else [])
    first, last = (min(at), max(at)) if at else (0.0, 1.0)
    x, y = Scale(first, last if last > first else first + 1, left, right), Scale(low, high, bottom, top)
    text = "; ".join(f"{entry.label} ends at {form(known[-1].value or 0.0)}" for entry in entries if (known := _known(entry)))
    drawing = Drawing(width, height, title, text)
    for place in ticks(low, high, 6):
        drawing.line(left, y(place), right, y(place), "grid")
        drawing.words(left - 8, y(place) + 4, form(place), "tick", "end")
    for place in ticks(x.low, x.high, 8 if wide else 5):
        drawing.line(x(place), bottom, x(place), bottom + 4, "tickmark")
        drawing.words(x(place), bottom + 18, f"{place:g}", "tick", "middle")
    if zero:
        drawing.line(left, y(0.0), right, y(0.0), "zero")
    drawing.words((left + right) / 2, height - 8, fit(x_axis, right - left), "axis", "middle")
    drawing.words(4, 12, fit(y_axis, width), "axis")
    for entry in entries:
        known = _known(entry)
        band = [point for point in known if point.low is not None and point.high is not None]
        if entry.band and band:
            drawing.area(
                [(x(p.at), y(p.low or 0.0)) for p in band], [(x(p.at), y(p.high or 0.0)) for p in band], f"band {entry.style.series}"
            )
    for entry in entries:
        known = _known(entry)
        path = [start, *known] if start else known
        drawing.path([(x(p.at), y(p.value or 0.0)) for p in path], f"series {entry.style.series}", entry.style.dash)
        for point in known:
            drawing.mark(x(point.at), y(point.value or 0.0), entry.style.marker, entry.style.series, 3.2)
    if named:
        _labels(drawing, entries, x, y, wide, (top, bottom))
    return drawing.svg(css)


def _labels(drawing: Drawing, entries: Sequence[Line], x: Scale, y: Scale, wide: bool, room: tuple[float, float]) -> None:
    ended = [(entry, known[-1]) for entry in entries if (known := _known(entry))]
    places = spread([y(point.value or 0.0) for _, point in ended], 17.0, room[0] + 4, room[1])
    for number, ((entry, point), place) in enumerate(zip(ended, places, strict=True)):
        if wide:
            drawing.line(x(point.at) + 5, y(point.value or 0.0), x.end + 12, place, "leader")
            drawing.mark(x.end + 18, place, entry.style.marker, entry.style.series, 4)
            drawing.words(x.end + 26, place + 4, fit(entry.label, drawing.width - x.end - 28), f"label {entry.style.series}")
        else:
            above = 30.0 + 18.0 * number
            drawing.line(8, above - 4, 40, above - 4, f"series {entry.style.series}", entry.style.dash)
            drawing.mark(24, above - 4, entry.style.marker, entry.style.series, 4)
            drawing.words(48, above, fit(entry.label, drawing.width - 52), f"label {entry.style.series}")


def _known(entry: Line) -> list[Point]:
    return [point for point in entry.points if point.value is not None]
