"""Numbers and text as the report shows them. Every function takes None for what is not known and shows it as a dash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from harness.analysis.words import amount as plain_amount
from harness.analysis.words import count, digits, p_text

__all__ = [
    "amount",
    "amounts",
    "anchor",
    "count",
    "interval",
    "minus",
    "p_text",
    "p_value",
    "percent",
    "points",
    "prose",
    "rate",
    "shown",
    "span",
    "visible",
]

DASH = "–"
_NEGATIVE = re.compile(r"(?<![\w.)-])-(?=[$\d.])")
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_HELD = re.compile(r"(?<=\bp) (?=[&\d])|(?<=\d) (?=%)")
_CODE = re.compile(r"`([^`]{1,200})`")


def visible(value: Any) -> Any:
    """The same with every character that would be shown as nothing, or turn what stands beside it (control characters, overrides of the writing direction),
    replaced by one that is seen; within lists and dictionaries too."""
    if isinstance(value, str):
        return _UNSEEN.sub("\ufffd", value)
    if isinstance(value, list):
        return [visible(part) for part in value]
    return {visible(name): visible(part) for name, part in value.items()} if isinstance(value, dict) else value


def minus(text: str) -> str:
    """The same with a true minus sign before negative numbers."""
    return _NEGATIVE.sub("−", text)


def prose(text: str) -> Markup:
    """A sentence as HTML: escaped, what stands in backticks as code, "p 0.03" and "95 %" kept on one line."""
    held = _HELD.sub("\u00a0", minus(str(escape(text))))
    return Markup(_CODE.sub(r"<code>\1</code>", held))


def percent(share: float | None) -> str:
    """A rate: "54.2 %"."""
    return DASH if share is None else f"{100 * share:.1f} %"


def points(share: float | None) -> str:
    """A difference of rates in points, with its sign and without a unit: "+3.4"."""
    if share is None:
        return DASH
    text = f"{100 * share:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else minus(text)


def span(low: float | None, high: float | None) -> str:
    """An interval of differences: "+0.2 to +6.6"; "" where there is none."""
    return "" if low is None or high is None else f"{points(low)} to {points(high)}"


def rate(found: Mapping[str, Any]) -> str:
    """An estimate of a share with its interval: "54.2 % (49.8 to 58.5)"."""
    if found.get("value") is None:
        return DASH
    if found.get("low") is None or found.get("high") is None:
        return percent(found["value"])
    return f"{percent(found['value'])} ({100 * found['low']:.1f} to {100 * found['high']:.1f})"


def interval(found: Mapping[str, Any]) -> str:
    """An estimate of a difference of rates with its interval."""
    within = span(found.get("low"), found.get("high"))
    return points(found.get("value")) + (f" ({within})" if within else "")


def p_value(p: float | None) -> str:
    """ "0.034", "< 0.001"."""
    return DASH if p is None else p_text(p).removeprefix("p ").strip()


def amount(measure: str, value: float | None, *, sign: bool = False) -> str:
    """Calls, tokens, dollars or seconds."""
    return DASH if value is None else minus(plain_amount(measure, value, sign=sign))


def amounts(measure: str, value: float | None, low: float | None = None, high: float | None = None, *, sign: bool = False) -> str:
    """An amount with its interval, all with as many digits as the amount alone has in :func:`amount`."""
    if value is None:
        return DASH
    places = digits(measure, value or max(abs(low or 0.0), abs(high or 0.0)))
    plus, unit = "+" if sign else "", "$" if measure == "cost" else ""

    def one(part: float) -> str:
        text = f"{part:{plus},.{places}f}"
        if not text.strip("+-0.,"):
            text = text.lstrip("+-")  # what rounds to nothing has no direction
        return minus(f"{text[0]}{unit}{text[1:]}" if text[0] in "+-" else f"{unit}{text}")

    return one(value) if low is None or high is None else f"{one(value)} ({one(low)} to {one(high)})"


def shown(value: Any) -> str:
    """Any setting."""
    if value is None or value == "":
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or DASH
    return str(value)


def anchor(kind: str, name: str) -> str:
    """An id for an element that is about ``name``: the same for the same name, and another for another."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:80]
    return f"{kind}-{safe}" if safe == name else f"{kind}-{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
