"""Estimates and tests as plain values, and numbers as they stand in sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.looking import printable
from harness.statistics.estimates import LEVEL, Estimate, Test, count

CHARGED = (
    "Tokens and cost of an attempt include its share of memory's own calls (judging and distilling for the banks that its arm reads); a bank is charged in "
    "full to each arm and rerun that reads it, so sums over arms exceed what was spent where several do (`swe-memory run status` tells that)."
)
"""What stands beside means of tokens and cost where memory asked a model."""

__all__ = [
    "CHARGED",
    "amount",
    "charged_with_memory",
    "count",
    "digits",
    "empty",
    "interval",
    "p_text",
    "percent",
    "plain_estimate",
    "plain_test",
    "points",
    "printable_result",
]


def plain_estimate(estimate: Estimate) -> dict[str, Any]:
    """{value, low, high, level, estimand, unit, units, method, why}"""
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": estimate.level,
        "estimand": estimate.estimand,
        "unit": estimate.unit,
        "units": estimate.units,
        "method": estimate.method,
        "why": estimate.why,
    }


def plain_test(test: Test) -> dict[str, Any]:
    """{p, null, method, why}"""
    return {"p": test.p, "null": test.null, "method": test.method, "why": test.why}


def empty(estimand: str, why: str, unit: str = "issue") -> Estimate:
    """An estimate of nothing, and why."""
    return Estimate(None, None, None, estimand, unit, 0, "", LEVEL, why)


def points(value: float) -> str:
    """A difference of rates: "+3.4"."""
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def percent(value: float) -> str:
    """A rate: "54.2 %"."""
    return f"{100 * value:.1f} %"


def p_text(p: float) -> str:
    """A p value: "p 0.034", "p < 0.001"."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def interval(low: float | None, high: float | None, method: str = "") -> str:
    """ "95 % +0.2 to +6.6, Tango score" of a difference of rates; "" where there is none."""
    if low is None or high is None:
        return ""
    return f"95 % {points(low)} to {points(high)}" + (f", {method}" if method else "")


def charged_with_memory(arms: Sequence[Mapping[str, Any]]) -> bool:
    """Whether memory's own calls are in the means of any ARM."""
    return any(arm["measures"][name]["memory"] for arm in arms for name in ("tokens", "cost"))


def digits(measure: str, value: float) -> int:
    """Places after the point that an amount has: cents of a cent are not shown as nothing."""
    return {"tokens": 0, "cost": 4 if 0 < abs(value) < 0.1 else 2}.get(measure, 1)


def amount(measure: str, value: float, *, sign: bool = False) -> str:
    """An amount in the unit of its measure."""
    mark = "-" if value < 0 else "+" if sign else ""
    number = f"{abs(value):{',' if measure == 'tokens' else ''}.{digits(measure, value)}f}"
    unit = ("$", "") if measure == "cost" else ("", " s" if measure == "seconds" else "")
    return f"{mark if float(number.replace(',', '')) else ''}{unit[0]}{number}{unit[1]}"


def printable_result(result: dict[str, Any]) -> dict[str, Any]:
    """The result with each lone surrogate, which no terminal and no file takes, replaced; in nearly every result there is none."""
    try:
        json.dumps(result, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return {key: printable(value) for key, value in result.items()}
    return result
