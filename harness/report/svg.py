"""Inline SVG: scales, axes, marks and labels. Colours come from CSS classes, so that a figure follows the page into the dark; every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

CHARACTER = 7.3
"""Width of a character of a figure's text, in the widest of the usual fonts: enough to keep labels apart."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` to pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, -0.02), 1.02) * (self.end - self.start)


def ticks(low: float, high: float, number: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``, about so many."""
    width = max(high - low, 1e-9)
    step = 10.0 ** math.floor(math.log10(width / max(number, 1)))
    for factor in (1, 2, 2.5, 5, 10):
        if width / (step * factor) <= number:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def around(values: Sequence[float], *, margin: float = 0.06, zero: bool = False, least: float = 0.02) -> tuple[float, float]:
    """A range that holds the values with some room, and 0 where asked for; never empty."""
    held = [*values, 0.0] if zero or not values else list(values)
    low, high = min(held), max(held)
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    room = margin * (high - low)
    return low - room, high + room


@dataclass(slots=True)
class Drawing:
    """A figure that is being drawn: ``width`` x ``height`` pixels. ``title`` and ``text`` say to a screen reader what it shows."""

    width: float
    height: float
    title: str
    text: str
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str, dash: str = "") -> None:
        pattern = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"{pattern}/>')

    def path(self, points: Sequence[tuple[float, float]], css: str, dash: str = "") -> None:
        """A line through the points."""
        if len(points) > 1:
            pattern = f' stroke-dasharray="{dash}"' if dash else ""
            steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self.parts.append(f'<path d="M{steps}" class="{css}"{pattern}/>')

    def area(self, low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]], css: str) -> None:
        """What lies between two lines."""
        steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*low, *reversed(high)])
        if len(low) > 1:
            self.parts.append(f'<path d="M{steps}Z" class="{css}"/>')

    def box(self, x: float, y: float, width: float, height: float, css: str) -> None:
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" class="{css}"/>')

    def words(self, x: float, y: float, text: str, css: str = "", side: str = "start") -> None:
        """``side``: start, middle or end."""
        anchored = f' text-anchor="{side}"' if side != "start" else ""
        style = f' class="{css}"' if css else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{anchored}{style}>{escape(text)}</text>')

    def mark(self, x: float, y: float, marker: str, css: str, size: float = 4.5, title: str = "", link: str = "") -> None:
        """A marker: circle, square, triangle, diamond, cross or bar; with a tooltip and a link where they are given."""
        shape = _SHAPES[marker](x, y, size)
        tip = f"<title>{escape(title)}</title>" if title else ""
        whole = f'<g class="mark {css}">{tip}{shape}</g>'
        self.parts.append(f'<a href="{escape(link)}">{whole}</a>' if link else whole)

    def svg(self, css: str) -> Markup:
        """The element; ``css`` are its classes."""
        return Markup(
            f'<svg class="{css}" role="img" viewBox="0 0 {self.width:.0f} {self.height:.0f}" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'aria-label="{escape(self.title + ". " + self.text)}">' + "".join(self.parts) + "</svg>"
        )


def _circle(x: float, y: float, size: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>'


def _square(x: float, y: float, size: float) -> str:
    side = 0.9 * size
    return f'<rect x="{x - side:.1f}" y="{y - side:.1f}" width="{2 * side:.1f}" height="{2 * side:.1f}"/>'


def _polygon(points: Sequence[tuple[float, float]]) -> str:
    return '<path d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + 'Z"/>'


def _triangle(x: float, y: float, size: float) -> str:
    return _polygon([(x, y - 1.2 * size), (x + 1.1 * size, y + 0.8 * size), (x - 1.1 * size, y + 0.8 * size)])


def _diamond(x: float, y: float, size: float) -> str:
    reach = 1.3 * size
    return _polygon([(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)])


def _cross(x: float, y: float, size: float) -> str:
    left, right, top, bottom = x - 0.95 * size, x + 0.95 * size, y - 0.95 * size, y + 0.95 * size
    return f'<path class="open" d="M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}M{left:.1f} {bottom:.1f}L{right:.1f} {top:.1f}"/>'


def _bar(x: float, y: float, size: float) -> str:
    return f'<rect x="{x - 0.5 * size:.1f}" y="{y - 1.2 * size:.1f}" width="{size:.1f}" height="{2.4 * size:.1f}"/>'


_SHAPES: dict[str, Callable[[float, float, float], str]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "diamond": _diamond,
    "cross": _cross,
    "bar": _bar,
}


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places for labels near the ones wanted and at least ``gap`` apart, within [low, high] as far as there is room; in the order given."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    found = [0.0] * len(places)
    last = low - gap
    for number in order:
        last = max(places[number], last + gap)
        found[number] = last
    over = max(found, default=high) - high
    if over > 0:
        last = high + gap
        for number in reversed(order):
            last = min(found[number], last - gap)
            found[number] = last
    return found


def fit(text: str, width: float) -> str:
    """Cut to so many pixels."""
    room = max(int(width / CHARACTER), 4)
    return text if len(text) <= room else text[: room - 1] + "…"
