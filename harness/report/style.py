"""What tells arms apart: a colour, and for whoever does not see it a marker and a dash pattern of its own. Colours are set in ``templates/report.css``, by
number, one set for light and one for dark; the test of this room measures their contrast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MARKERS = ("circle", "square", "triangle", "diamond", "cross", "bar")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 2 1 2 1 2", "12 4")
SERIES = 6
"""Colours. The baseline has the first, a grey; more arms than that go round, and their markers with them."""


@dataclass(frozen=True, slots=True)
class Style:
    """``series`` is a CSS class."""

    series: str
    marker: str
    dash: str


def styles(arms: Sequence[Mapping[str, Any]]) -> dict[str, Style]:
    """Arm -> its style; the baseline's is always the first."""
    found: dict[str, Style] = {}
    number = 1
    for arm in arms:
        if arm["kind"] == "none":
            place = 0
        else:
            place = number
            number += 1
        at = place if place < SERIES else 1 + (place - 1) % (SERIES - 1)
        # Where colours come again, the dash is another.
        found[arm["arm"]] = Style(f"s{at}", MARKERS[place % len(MARKERS)], DASHES[(place + place // SERIES) % len(DASHES)])
    return found
