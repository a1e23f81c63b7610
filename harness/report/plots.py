"""The figures of a report, each drawn for a page and for a phone, with the numbers that it shows as a table. None where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.report.charts import NARROW, WIDE, Line, Point, Row, lines, rows
from harness.report.style import Style
from harness.report.svg import CHARACTER, Drawing, fit
from harness.report.words import DASH, anchor, count, minus, percent, points, prose, span

PLAIN = Style("s0", "circle", "")
EFFECT = Style("s1", "diamond", "")
MOST_MARKS = 30
"""Issues in a row of the figure of turned issues before they take a second line."""


@dataclass(frozen=True, slots=True)
class Figure:
    """``wide`` and ``narrow`` are the same figure for a page and for a phone; ``headings`` and ``rows`` the numbers in it."""

    id: str
    title: str
    wide: Markup
    narrow: Markup
    caption: Markup
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def _both(draw: Callable[[float, str], Markup]) -> tuple[Markup, Markup]:
    return draw(WIDE, "wide"), draw(NARROW, "narrow")


def resolve_rates(result: Mapping[str, Any], styles: Mapping[str, Style]) -> Figure | None:
    """The resolve rate of each arm with its interval."""
    arms = [arm for arm in result["arms"] if arm["rate"] is not None]
    if not arms:
        return None
    entries = [
        Row(arm["arm"], _graded(arm), arm["rate"], arm["low"], arm["high"], percent(arm["rate"]), styles[arm["arm"]]) for arm in arms
    ]
    title = "Resolve rate by arm"
    wide, narrow = _both(lambda width, css: rows(title, entries, width, "share of issues that one run resolves", _percent_tick, css=css))
    methods = ", ".join(sorted({arm["interval"] for arm in arms}))
    caption = prose(
        f"Intervals at 95 % ({methods}). That two of them overlap says little: the arms are paired by issue, see the differences."
    )
    table = [[arm["arm"], percent(arm["rate"]), _shares(arm["low"], arm["high"]), str(arm["graded"])] for arm in arms]
    return Figure("fig-rates", title, wide, narrow, caption, ("arm", "rate", "95 %", "graded attempts"), table)


def _graded(arm: Mapping[str, Any]) -> str:
    return count(arm["graded"], "graded attempt", "graded attempts")


def effects(result: Mapping[str, Any]) -> Figure | None:
    """Every difference in resolve rate that the run supports, under the name of what it estimates."""
    entries, table = [], []
    for found in result["comparisons"]:
        for named in found["estimates"]:
            estimate = named["estimate"]
            if estimate["value"] is None:
                continue
            role = "primary endpoint, " if found["role"] == "primary" else ""
            label = f"{found['arm']} minus {found['baseline']}"
            below = f"{role}{named['name']}, unit: {estimate['unit']} ({estimate['units']})"
            within = span(estimate["low"], estimate["high"])
            shown = points(estimate["value"]) + (f" ({within})" if within else "")
            style = EFFECT if role else Style("s0", "square", "")
            entries.append(Row(label, below, estimate["value"], estimate["low"], estimate["high"], shown, style))
            table.append([label, named["name"], estimate["unit"], points(estimate["value"]), within or DASH, estimate["method"]])
    if not entries:
        return None
    title = "Differences in resolve rate, by what they estimate"
    wide, narrow = _both(
        lambda width, css: rows(title, entries, width, "points; right: more with the first arm", _points_tick, zero=True, css=css)
    )
    caption = prose(
        "Points with intervals at 95 %. Each interval is about what its label names, and about nothing else. The diamond is the primary endpoint, written down "
        "before the run."
    )
    return Figure("fig-effects", title, wide, narrow, caption, ("difference", "estimand", "unit", "points", "95 %", "method"), table)


def noise_floor(result: Mapping[str, Any]) -> Figure | None:
    """How often two runs differ: reruns of one arm, and runs of the two arms of the primary comparison."""
    found = next(iter(result["comparisons"]), None)
    if found is None:
        return None
    noise = found["noise"]
    named = (
        (f"two runs of {found['baseline']}", "the noise floor", noise["baseline"], PLAIN),
        (f"two runs of {found['arm']}", "with the same bank", noise["arm"], Style("s1", "square", "")),
        (f"{found['arm']} and {found['baseline']}", "a run of each", noise["across"], Style("s1", "diamond", "")),
    )
    entries = [
        Row(label, below, part["value"], part["low"], part["high"], percent(part["value"]), style)
        for label, below, part, style in named
        if part["value"] is not None
    ]
    if not entries:
        return None
    title = "Noise floor: how often two runs of an issue differ in outcome"
    wide, narrow = _both(
        lambda width, css: rows(title, entries, width, "share of issues on which the two runs differ", _percent_tick, zero=True, css=css)
    )
    sentence = noise.get("sentence") or result["noise"]["sentence"]
    table = [[label, percent(part["value"]), _shares(part["low"], part["high"]), str(part["units"])] for label, _, part, _ in named]
    return Figure("fig-noise", title, wide, narrow, prose(sentence), ("runs", "differ on", "95 %", "issues"), table)


def within_calls(result: Mapping[str, Any], styles: Mapping[str, Style]) -> Figure | None:
    """The share of issues resolved within so many calls."""
    arms = [arm for arm in result["arms"] if arm["curve"]]
    if not arms:
        return None
    entries = [
        Line(
            arm["arm"],
            [Point(p["at"], p["value"], p["low"], p["high"]) for p in arm["curve"]],
            styles[arm["arm"]],
            arm["kind"] in ("none", "memory"),
        )
        for arm in arms
    ]
    title = "Resolved within so many calls"
    wide, narrow = _both(
        lambda width, css: lines(
            title, entries, width, "calls (model turns)", "share of issues", _percent_tick, start=Point(0.0, 0.0), y_least=0.0, css=css
        )
    )
    caption = prose(
        "A failed run counts as not resolved at any number of calls. Bands at 95 %, point by point, for the baseline and memory."
    )
    at = [p["at"] for p in arms[0]["curve"]]
    table = [[f"{place:g}", *(percent(arm["curve"][number]["value"]) for arm in arms)] for number, place in enumerate(at)]
    return Figure("fig-within", title, wide, narrow, caption, ("calls", *(arm["arm"] for arm in arms)), table)


def gain_within(result: Mapping[str, Any]) -> Figure | None:
    """The difference of two such curves, for the first comparison."""
    found = next((part for part in result["comparisons"] if part["curve"]), None)
    if found is None:
        return None
    label = f"{found['arm']} minus {found['baseline']}"
    entry = Line("difference", [Point(p["at"], p["value"], p["low"], p["high"]) for p in found["curve"]], EFFECT)
    title = "Difference in what is resolved within so many calls"
    wide, narrow = _both(
        lambda width, css: lines(title, [entry], width, "calls (model turns)", f"points, {label}", _points_tick, zero=True, css=css)
    )
    table = [[f"{p['at']:g}", points(p["value"]), span(p["low"], p["high"]) or DASH] for p in found["curve"]]
    caption = prose(
        f"`{found['arm']}` minus `{found['baseline']}`, paired by issue. The band holds point by point, not for the whole curve."
    )
    return Figure("fig-gain", title, wide, narrow, caption, ("calls", "points", "95 %"), table)


def turned_issues(result: Mapping[str, Any]) -> Figure | None:
    """Each issue whose outcome turned between the arms of the first comparison: a mark with a link, by repository and direction."""
    found = next((part for part in result["comparisons"] if part["flips"]["list"]), None)
    if found is None:
        return None
    sizes: dict[str, int] = {}
    for issue in result["issues"]:
        sizes[issue["repository"]] = sizes.get(issue["repository"], 0) + 1
    flips: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for flip in found["flips"]["list"]:
        flips.setdefault(flip["repository"], {"for": [], "against": []})[flip["direction"]].append(flip)
    order = sorted(flips, key=lambda name: (-sizes.get(name, 0), name))
    title = "Issues that turned, by repository"
    wide, narrow = _both(lambda width, css: _turned(title, found, order, flips, sizes, width, css))
    gained, lost = found["flips"]["for"], found["flips"]["against"]
    caption = prose(
        f"Each mark is one issue and leads to its row: squares, right, were resolved more often with `{found['arm']}` ({gained}), circles, left, with "
        f"`{found['baseline']}` ({lost}). Reruns without any change turn issues too; the noise floor says how many."
    )
    table = [[name, str(sizes.get(name, 0)), str(len(flips[name]["for"])), str(len(flips[name]["against"]))] for name in order]
    return Figure(
        "fig-turned", title, wide, narrow, caption, ("repository", "issues", f"for {found['arm']}", f"for {found['baseline']}"), table
    )


def _turned(
    title: str,
    found: Mapping[str, Any],
    order: Sequence[str],
    flips: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]],
    sizes: Mapping[str, int],
    width: float,
    css: str,
) -> Markup:
    wide = width > 500
    label = min(220.0, max(CHARACTER * len(f"{name} ({sizes.get(name, 0)})") for name in order) + 14) if wide else 0.0
    half = (width - label - 16) / 2
    middle, pitch = label + 8 + half, 12.0
    room = int((half - 10) // pitch)
    heights = [
        (0 if wide else 18) + 14.0 * max(1, *(-(-len(flips[name][side]) // room) for side in ("for", "against"))) + 8 for name in order
    ]
    drawing = Drawing(width, 30 + sum(heights), title, f"{found['flips']['for']} for and {found['flips']['against']} against")
    drawing.words(middle - 8, 14, fit(f"← {found['baseline']}", half), "axis", "end")
    drawing.words(middle + 8, 14, fit(f"{found['arm']} →", half), "axis")
    drawing.line(middle, 22, middle, 30 + sum(heights) - 4, "zero")
    y = 30.0
    for name, height in zip(order, heights, strict=True):
        text = f"{name} ({sizes.get(name, 0)})"
        if wide:
            drawing.words(label, y + 9, fit(text, label), "label", "end")
        else:
            drawing.words(4, y + 8, fit(text, half), "below")
        for side, sign, marker, series in (("for", 1, "square", "s1"), ("against", -1, "circle", "s2")):
            for number, flip in enumerate(flips[name][side]):
                at_x = middle + sign * (10 + pitch * (number % room))
                at_y = y + (5 if wide else 20) + 14.0 * (number // room)
                drawing.mark(at_x, at_y, marker, series, 4.2, _tip(flip), f"#{anchor('issue', flip['issue'])}")
        y += height
    return drawing.svg(css)


def _tip(flip: Mapping[str, Any]) -> str:
    def runs(side: Mapping[str, Any]) -> str:
        return f"{side['resolved']} of {side['runs']}"

    recalled = f"; recalled: {flip['recalled']}" if flip.get("recalled") else ""
    return f"{flip['issue']}: resolved with memory {runs(flip['arm'])}, without {runs(flip['baseline'])}{recalled}"


def learning_curves(result: Mapping[str, Any]) -> list[Figure]:
    """Gain against the size of the bank and the position within a repository, where the run has streams."""
    found = next((part for part in result["comparisons"] if part.get("learning")), None)
    if found is None:
        return []
    figures = []
    for name, what in (("size", "As the bank grows"), ("position", "By position within a repository")):
        curve = found["learning"].get(name)
        bins = [part for part in (curve or {}).get("bins", []) if part["estimate"]["value"] is not None]
        if not bins:
            continue
        title = f"{what}: {found['arm']} minus {found['baseline']}"
        entries = [
            Row(_bin(part), count(part["attempts"], "attempt", "attempts"), part["estimate"]["value"], part["estimate"]["low"], part["estimate"]["high"],
                points(part["estimate"]["value"]), Style("s1", "square", ""))
            for part in bins
        ]  # fmt: skip
        figures.append(_learning(name, title, curve, entries, bins))
    return figures


def _learning(name: str, title: str, curve: Mapping[str, Any], entries: Sequence[Row], bins: Sequence[Mapping[str, Any]]) -> Figure:
    wide, narrow = _both(lambda width, css: rows(title, entries, width, f"points; rows: {curve['axis']}", _points_tick, zero=True, css=css))
    slope = curve["slope"]
    if slope["value"] is None:
        said = f"Slope: not known. {slope['why']}"
    else:
        within = f" (95 % {100 * slope['low']:+.3f} to {100 * slope['high']:+.3f})" if slope["low"] is not None else ""
        said = f"Slope: {100 * slope['value']:+.3f} points per unit of the axis{within}. {slope['why']}"
    table = [
        [
            _bin(part),
            str(part["attempts"]),
            points(part["estimate"]["value"]),
            span(part["estimate"]["low"], part["estimate"]["high"]) or DASH,
        ]
        for part in bins
    ]
    return Figure(f"fig-learning-{name}", title, wide, narrow, prose(said), (curve["axis"], "attempts", "points", "95 %"), table)


def _bin(part: Mapping[str, Any]) -> str:
    if part["end"] is None:
        return f"{part['start']:g} or more"
    last = part["end"] - 1
    return f"{part['start']:g}" if last <= part["start"] else f"{part['start']:g} to {last:g}"


def _percent_tick(value: float) -> str:
    return f"{100 * value:.0f} %"


def _points_tick(value: float) -> str:
    return "0" if abs(value) < 1e-9 else minus(f"{100 * value:+.3g}")


def _shares(low: float | None, high: float | None) -> str:
    return DASH if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"
