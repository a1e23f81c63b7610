"""A table for a paper, in LaTeX with booktabs. Every text is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.analysis.words import count, p_text

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_CODE = re.compile(r"`([^`]{1,200})`")


def escape(text: str) -> str:
    """Text that LaTeX shows as it is; control characters become spaces."""
    return "".join(_SPECIAL.get(sign, sign if sign.isprintable() else " ") for sign in text)


def prose(text: str) -> str:
    """A sentence: escaped, what stands in backticks in typewriter."""
    parts = _CODE.split(text)
    return "".join(rf"\texttt{{{escape(part)}}}" if number % 2 else escape(part) for number, part in enumerate(parts))


def table(result: Mapping[str, Any]) -> str:
    """Arms with their rates and calls, and each arm's difference to the baseline with its interval and p."""
    against = {found["arm"]: found for found in result["comparisons"] if found["baseline"] == "none"}
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_caption(result)}}}",
        r"  \begin{tabular}{lrrrr}",
        r"    \toprule",
        r"    Arm & Resolved (\%) & Mean calls & $\Delta$ to none (points) & $p$ \\",
        r"    \midrule",
        *(f"    {_row(arm, against.get(arm['arm']))} \\\\" for arm in result["arms"]),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(result: Mapping[str, Any]) -> str:
    found = next((part for part in result["comparisons"] if part["baseline"] == "none"), None)
    setting = f"{count(result['issues_planned'], 'issue', 'issues')} of {result['dataset']['name']}, agent {result['agent']}, protocol {result['protocol']}."
    said = [escape(setting)]
    if not result["complete"]:
        said.append("The run was not complete.")
    if found and found["difference"] is not None:
        said.append(
            f"$\\Delta$: {escape(found['estimand'])}; 95\\,\\% interval, {escape(found['interval'])}; $p$: {escape(found['test'])}."
        )
        if any(part["p_adjusted"] is not None for part in result["comparisons"] if part["baseline"] == "none"):
            said.append("Secondary comparisons: $p$ by Holm.")
    return " ".join(said)


def _row(arm: Mapping[str, Any], found: Mapping[str, Any] | None) -> str:
    rate = "--" if arm["rate"] is None else f"{100 * arm['rate']:.1f}"
    if arm["rate"] is not None and arm["low"] is not None:
        rate += f" ({100 * arm['low']:.1f}--{100 * arm['high']:.1f})"
    calls = "--" if arm["measures"]["calls"]["mean"] is None else f"{arm['measures']['calls']['mean']:.1f}"
    delta = p = "--"
    if found is not None and found["difference"] is not None:
        delta = f"${100 * found['difference']:+.1f}$"
        if found["low"] is not None and found["high"] is not None:
            delta += f" (${100 * found['low']:+.1f}$ to ${100 * found['high']:+.1f}$)"
        value = found["p"] if found["p_adjusted"] is None else found["p_adjusted"]
        p = "--" if value is None else f"${p_text(value).removeprefix('p ').strip()}$"
    return " & ".join([rf"\texttt{{{escape(arm['arm'])}}}", rate, calls, delta, p])
