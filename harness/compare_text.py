"""A comparison as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def render(result: Mapping[str, Any], *, items: int = 5, width: int = 110) -> str:
    """The comparison (the shape of :func:`harness.compare.comparison`) in tables and sentences; ``items`` is how many most used items are listed."""
    lines = [
        f"{result['run']}: {result['issues_planned']} issues of {result['dataset']['name']}, agent {result['agent']}, "
        f"protocol {result['protocol']}, call limit {result['call_limit']}",
        "",
        *table(
            ["arm", "resolved", "rate", "95 %", "mean calls", "limit hits", "got text", "infra"],
            [_arm(arm) for arm in result["arms"]],
        ),
        "",
        *table(
            ["issue", *(heading for arm in result["arms"] for heading in (arm["arm"], "calls")), "recalled item (score)"],
            _issues(result),
            width,
        ),
    ]
    if result["items"]:
        lines += [
            "",
            "Most used items",
            *table(["uses", "resolved", "item", "learned from"], [_item(i) for i in result["items"][:items]], width),
        ]
    lines += ["", *result["sentences"]]
    if used := result["usage"]["all"]["calls"]:
        cost = result["usage"]["all"]["cost"]
        lines.append(
            f"Used: {used} calls"
            + (", cost unknown" if cost is None else f", ${cost:.2f}" if cost else "")
            + ", killed attempts and memory's own calls included."
        )
    lines += [f"warning: {problem}" for problem in result["problems"]]
    return "\n".join(lines)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int = 110) -> list[str]:
    """Columns padded to their widest cell; the last one is cut so that lines stay within ``width`` where that leaves it 20 characters."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    room = max(20, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
    shown = []
    for row in (headings, ["-" * min(w, room) for w in widths], *rows):
        shown.append("  ".join([*(cell.ljust(w) for cell, w in zip(row[:-1], widths[:-1], strict=True)), _fit(row[-1], room)]).rstrip())
    return shown


def _fit(text: str, room: int) -> str:
    """Cut to ``room`` characters; a score in brackets at its end stays, with less of what comes before."""
    if len(text) <= room:
        return text
    head, bracket, score = text.rpartition(" (")
    tail = bracket + score if score.endswith(")") and len(score) < 12 else ""
    return (head if tail else text)[: room - 1 - len(tail)] + "…" + tail


def _arm(arm: Mapping[str, Any]) -> list[str]:
    some = arm["graded"] > 0
    calls = arm["mean_calls"]
    return [
        arm["arm"],
        f"{arm['resolved']}/{arm['graded']}",
        f"{arm['rate']:.3f}" if some else "none graded",
        f"{arm['low']:.2f}-{arm['high']:.2f}" if some and arm["low"] is not None else "",
        "" if not some else "unknown" if calls is None else f"{calls:.1f}",
        str(sum(arm["limit_hits"].values())),
        str(arm["given"]),
        str(len(arm["infra"])),
    ]


def _issues(result: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for issue in result["issues"]:
        cells, recalled = [issue["issue"]], ""
        for arm in result["arms"]:
            attempts = issue["arms"][arm["arm"]]
            cells += [_state(attempts), _calls(attempts)]
            for found in attempts:
                if found.get("item") and not found.get("control") and not recalled:
                    score = "no score" if found["score"] is None else f"{found['score']:.2f}"
                    # The title gives way, never the score: a recall just above the threshold should be seen to be one.
                    title = str(found["recalled"])
                    recalled = f"{title if len(title) <= 38 else title[:37] + '…'} ({score})"
        rows.append([*cells, recalled])
    return rows


def _state(attempts: Sequence[Mapping[str, Any]]) -> str:
    if len(attempts) == 1:
        return {True: "resolved", False: "-", None: str(attempts[0]["state"])}[attempts[0]["resolved"]]
    graded = [found["resolved"] for found in attempts if found["resolved"] is not None]
    return f"{sum(graded)} of {len(graded)}" if graded else "none graded"


def _calls(attempts: Sequence[Mapping[str, Any]]) -> str:
    known = [found["calls"] for found in attempts if found["calls"] is not None]
    if not known:
        return ""
    return str(known[0]) if len(attempts) == 1 else f"{sum(known) / len(known):.1f}"


def _item(item: Mapping[str, Any]) -> list[str]:
    title = item["title"] if len(item["title"]) <= 70 else item["title"][:69] + "…"
    return [str(item["uses"]), str(item["resolved"]), title, item["learned_from"]]
