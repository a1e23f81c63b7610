"""A comparison as text for a terminal."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analysis.references import evidence, leaving_out, only_references
from harness.analysis.words import CHARGED, amount, charged_with_memory, count, points

FEW_ISSUES = 30
"""Up to so many, each issue has a line."""
MOST_FLIPS = 10
MOST_REFERENCES = 50
MOST_LINES = 12
WIDTH = 110


def render(result: Mapping[str, Any], *, items: int = 5, width: int = WIDTH, issues: bool | None = None, folder: Path | None = None) -> str:
    """The comparison (the shape of :func:`harness.compare.comparison`) in tables and sentences; ``items`` is how many most used items are listed; ``issues``
    whether each issue has a line, None for up to :data:`FEW_ISSUES` of them. ``folder`` is the run's, for paths and commands that can be used as they are."""
    if only_references(result):
        return _references(result, folder or Path(result["run"]), width)
    each = len(result["issues"]) <= FEW_ISSUES if issues is None else issues
    lines = [*_wrapped(_title(result), width), "", *_wrapped(result["headline"]["sentence"], width), ""]
    lines += table(
        ["arm", "resolved", "rate", "95 %", "mean calls", "limit hits", "got text", "infra"], [_arm(arm) for arm in result["arms"]]
    )
    if any(pair["issues"] for pair in result["comparisons"]):
        lines += ["", *table(_PAIR_HEADINGS, [_pair(pair) for pair in result["comparisons"]], width)]
    if costs := _costs(result, width):
        lines += ["", *costs]
    if each and result["issues"]:
        lines += ["", *_issue_table(result, width)]
    elif flips := _flips(result, width):
        lines += ["", *flips]
    if result["items"] and items:
        more = f" ({items} of {len(result['items'])})" if len(result["items"]) > items else ""
        headings = ["uses", "resolved", "for", "against", "item", "learned from"]
        lines += ["", f"Most used items{more}", *table(headings, [_item(i) for i in result["items"][:items]], width)]
    lines += ["", *(line for sentence in result["sentences"] for line in _wrapped(sentence, width))]
    if used := result["usage"].get("all", {}).get("calls"):
        cost = result["usage"]["all"]["cost"]
        price = ", cost unknown" if cost is None else f", ${cost:.2f}" if cost else ""
        lines.append(f"Used: {count(used, 'call', 'calls')}{price}, killed attempts and memory's own calls included.")
    lines += _threats(result, width)
    lines += _cut([line for problem in result["problems"] for line in _wrapped(f"warning: {problem}", width)], "problems")
    return "\n".join(lines)


def _references(result: Mapping[str, Any], folder: Path, width: int) -> str:
    """A run of nothing but reference patches: which do not resolve, where to look, and what to do about them."""
    title = f"{result['run']}: the reference patches of {count(result['issues_planned'], 'issue', 'issues')} of {result['dataset']['name']}"
    lines = [*_wrapped(title, width), "", *_wrapped(result["headline"]["sentence"], width)]
    failing = evidence(result)
    if failing:
        lines += ["", *(f"{found['issue']}: {found['outcome']}; see {folder / found['where']}" for found in failing[:MOST_REFERENCES])]
        if more := len(failing) - MOST_REFERENCES:
            lines += [f"... and {more} more (--json has all)"] if more > 0 else []
        lines += [
            "",
            "What to do",
            *_wrapped("What an agent does at such an issue cannot be graded here. Find out why, or leave it out of your runs.", width),
        ]
        lines.append(f"  why it was graded so: swe-memory run explain {shlex.quote(str(folder))} {shlex.quote(failing[0]['attempt'])}")
        if any(found["outcome"] == "timed_out" for found in failing):
            lines.append(f"  more time for tests: --test-seconds, which was {result['settings']['test_seconds']:g}")
        left_out = leaving_out([found["issue"] for found in failing])
        lines.append(f"  leave out: {left_out}" if left_out else "  leave out: name the others with --filter, --repo or --instance")
    elif result["complete"]:
        lines += ["", "What to do: nothing, no issue has to be left out."]
    lines += [
        f"failed through the machine: {lost['issue']}, tried {count(lost['tries'], 'time', 'times')}: {lost['reason']}"
        for lost in result["infra"][:MOST_REFERENCES]
    ]
    lines += _threats(result, width)
    lines += _cut([line for problem in result["problems"] for line in _wrapped(f"warning: {problem}", width)], "problems")
    return "\n".join(lines)


def _title(result: Mapping[str, Any]) -> str:
    limit = "not known" if result["call_limit"] is None else result["call_limit"]
    protocol = f", protocol {result['protocol']}" if result["protocol"] else ""
    agent = f"agent {result['agent']}{protocol}, call limit {limit}"
    return f"{result['run']}: {count(result['issues_planned'], 'issue', 'issues')} of {result['dataset']['name']}, {agent}"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` characters, the later ones indented."""
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) or [""]


def _cut(lines: Sequence[str], what: str) -> list[str]:
    if len(lines) <= MOST_LINES:
        return list(lines)
    return [*lines[:MOST_LINES], f"... and {count(len(lines) - MOST_LINES, 'more line', 'more lines')} of {what} (--json has all)"]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> list[str]:
    """Columns padded to their widest cell; the last one is cut so that lines stay within ``width`` where that leaves it 20 characters."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    room = max(20, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
    shown = []
    rules = [*("-" * w for w in widths[:-1]), "-" * min(widths[-1], room)]
    for row in (headings, rules, *rows):
        shown.append("  ".join([*(cell.ljust(w) for cell, w in zip(row[:-1], widths[:-1], strict=True)), _fit(row[-1], room)]).rstrip())
    return shown


def _fit(text: str, room: int) -> str:
    """Cut to ``room`` characters; a score in brackets at its end stays, with less of what comes before."""
    if len(text) <= room:
        return text
    head, bracket, score = text.rpartition(" (")
    tail = bracket + score if score.endswith(")") and len(score) < 12 else ""
    return (head if tail else text)[: room - 1 - len(tail)] + "…" + tail


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


# -- arms and pairs --------------------------------------------------------------------------------------------------------------------------


def _arm(arm: Mapping[str, Any]) -> list[str]:
    some = arm["graded"] > 0
    calls = arm["mean_calls"]
    return [
        _short(arm["arm"], 40),
        f"{arm['resolved']}/{arm['graded']}",
        f"{arm['rate']:.3f}" if some else "none graded",
        f"{arm['low']:.2f}-{arm['high']:.2f}" if some and arm["low"] is not None else "",
        "" if not some else "unknown" if calls is None else f"{calls:.1f}",
        str(sum(arm["limit_hits"].values())),
        str(arm["given"]),
        str(len(arm["infra"])),
    ]


_PAIR_HEADINGS = ["difference in resolve rate", "points", "95 %", "p", "Holm", "only one, only other", "calls"]


def _pair(pair: Mapping[str, Any]) -> list[str]:
    seen = pair["discordant"]
    mean = "~" if seen and seen["expected"] else ""
    calls = pair["calls_difference"]
    return [
        _short(f"{pair['arm']} - {pair['baseline']}", 44) + (" *" if pair["role"] == "primary" else ""),
        points(pair["difference"]) if pair["difference"] is not None else "",
        f"{points(pair['low'])} to {points(pair['high'])}" if pair["low"] is not None else "",
        _p(pair["p"]),
        _p(pair["p_adjusted"]),
        f"{mean}{seen['only_arm']:.{1 if mean else 0}f}, {mean}{seen['only_baseline']:.{1 if mean else 0}f}" if seen else "",
        amount("calls", calls, sign=True) if calls is not None else "",
    ]


def _p(value: float | None) -> str:
    return "" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def _costs(result: Mapping[str, Any], width: int) -> list[str]:
    """Tokens, cost and time of an attempt, where any arm told of them; nothing where all are 0."""
    names = [
        name
        for name in ("tokens", "cost", "seconds")
        if any(arm["measures"][name]["mean"] for arm in result["arms"]) and _models(result, name)
    ]
    if not names:
        return []
    headings = ["mean of an attempt", *names, *(f"{name} by resolved" for name in names if name != "seconds")]
    charged = _wrapped(CHARGED, width) if charged_with_memory(result["arms"]) else []
    return [*table(headings, [_cost(arm, names) for arm in result["arms"] if arm["graded"]]), *charged]


def _models(result: Mapping[str, Any], name: str) -> bool:
    """Seconds alone are not worth a table."""
    return name != "seconds" or any(arm["measures"]["cost"]["mean"] or arm["measures"]["tokens"]["mean"] for arm in result["arms"])


def _cost(arm: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    cells = [_short(arm["arm"], 40)]
    for name in names:
        mean, memory = arm["measures"][name]["mean"], arm["measures"][name]["memory"]
        own = f" ({amount(name, memory)} memory's)" if mean is not None and memory else ""
        cells.append("unknown" if mean is None else amount(name, mean) + own)
    for name in names:
        if name != "seconds":
            ratio = arm["per_resolved"].get(name, {}).get("value")
            cells.append("" if ratio is None else amount(name, ratio))
    return cells


# -- issues and items ------------------------------------------------------------------------------------------------------------------------


def _issue_table(result: Mapping[str, Any], width: int) -> list[str]:
    headings = ["issue", *(heading for arm in result["arms"] for heading in (_short(arm["arm"], 20), "calls")), "recalled item (score)"]
    return table(headings, _issues(result), width)


def _issues(result: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for issue in result["issues"]:
        cells, recalled = [issue["issue"]], ""
        for arm in result["arms"]:
            attempts = issue["arms"].get(arm["arm"], [])
            cells += [_state(attempts), _calls(attempts)]
            for found in attempts:
                if found.get("item") and not found.get("control") and not recalled:
                    score = "no score" if found["score"] is None else f"{found['score']:.2f}"
                    # The title gives way, never the score: a recall just above the threshold should be seen to be one.
                    recalled = f"{_short(str(found['recalled']), 38)} ({score})"
        rows.append([*cells, recalled])
    return rows


def _state(attempts: Sequence[Mapping[str, Any]]) -> str:
    if not attempts:
        return ""
    if len(attempts) == 1:
        return {True: "resolved", False: "-", None: str(attempts[0]["state"])}[attempts[0]["resolved"]]
    graded = [found["resolved"] for found in attempts if found["resolved"] is not None]
    return f"{sum(graded)} of {len(graded)}" if graded else "none graded"


def _calls(attempts: Sequence[Mapping[str, Any]]) -> str:
    known = [found["calls"] for found in attempts if found["calls"] is not None]
    if not known:
        return ""
    return str(known[0]) if len(attempts) == 1 else f"{sum(known) / len(known):.1f}"


def _flips(result: Mapping[str, Any], width: int) -> list[str]:
    """The issues that turned in the first comparison, the largest differences first."""
    first = next(iter(result["comparisons"]), None)
    if first is None or not first["flips"]["list"]:
        return []
    found = first["flips"]
    more = f", {MOST_FLIPS} of them" if len(found["list"]) > MOST_FLIPS else ""
    head = f"Issues that turned: {found['for']} for {first['arm']}, {found['against']} against it{more} (--issues and --json have all)"
    rows = [
        [
            flip["issue"],
            flip["direction"],
            f"{flip['arm']['resolved']} of {flip['arm']['runs']}",
            f"{flip['baseline']['resolved']} of {flip['baseline']['runs']}",
            str(flip["recalled"] or ""),
        ]
        for flip in found["list"][:MOST_FLIPS]
    ]
    return [
        *_wrapped(head, width),
        *table(["issue", "", _short(first["arm"], 20), _short(first["baseline"], 20), "recalled item"], rows, width),
    ]


def _item(item: Mapping[str, Any]) -> list[str]:
    return [
        str(item["uses"]),
        str(item["resolved"]),
        str(item["flips_for"]),
        str(item["flips_against"]),
        _short(item["title"], 60),
        item["learned_from"],
    ]


# -- threats ---------------------------------------------------------------------------------------------------------------------------------


def _threats(result: Mapping[str, Any], width: int) -> list[str]:
    """What speaks against believing it, but for what was said word for word before."""
    said = set(result["sentences"])
    shown = [threat for threat in result["threats"] if threat["sentence"] not in said]
    if not shown:
        return []
    lines = [line for threat in shown for line in _wrapped(f"{threat['weight']}: {threat['sentence']}", width)]
    return ["", "What to keep in mind", *lines]
