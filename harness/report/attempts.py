"""Every attempt: the table of issues and arms, and the rows of the table of attempts, which the page keeps as data because there are thousands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from harness.report.material import Material
from harness.report.memory_tables import item_cell
from harness.report.tables import Cell, Column, Table, number, text
from harness.report.words import DASH, anchor, count

FIELDS = (
    "arm",
    "stream",
    "issue",
    "repository",
    "state",
    "resolved",
    "calls",
    "actions",
    "tokens",
    "cost",
    "seconds",
    "exit_status",
    "outcome",
    "flags",
    "verdict",
    "control",
    "item",
    "recalled",
    "score",
    "learned_from",
    "learned_outcome",
    "verdict_source",
    "same_repository",
    "taken_up",
    "trajectory",
)
"""Of an attempt, in the order of ``attempts.csv``."""
MARKS = {True: ("✓", "resolved", "yes"), False: ("✗", "not resolved", "no")}


def attempts(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One attempt after the other, as in ISSUE of :mod:`harness.analysis`, with its arm, issue and repository."""
    for issue in result["issues"]:
        for arm in result["arms"]:
            for run in issue["arms"].get(arm["arm"], ()):
                yield {"arm": arm["arm"], "issue": issue["issue"], "repository": issue["repository"], **run}


def issues_table(material: Material) -> Table:
    """Issues by arms: a mark for each run, which leads to its trajectory."""
    result = material.result
    names = [arm["arm"] for arm in result["arms"]]
    columns = [Column("issue"), Column("repository", choices=True)]
    for name in names:
        columns += [
            Column(name, True, "a mark for each run: ✓ resolved, ✗ not resolved, ! failed through the machine, · not done", form="marks")
        ]
    columns += [
        Column("mean calls", True, "of all attempts at it"),
        Column("recalled", help="what memory gave to the first attempt that got an item", form="long"),
    ]
    rows, ids = [], []
    for issue in result["issues"]:
        runs = {name: issue["arms"].get(name, ()) for name in names}
        every = [run for part in runs.values() for run in part]
        calls = [run["calls"] for run in every if run.get("calls") is not None]
        given = next((run for run in every if run.get("item") and not run.get("control")), None)
        mean = sum(calls) / len(calls) if calls else None
        rows.append(
            [
                text(issue["issue"], "issue"),
                text(issue["repository"]),
                *(_marks(part, material) for part in runs.values()),
                number(mean, DASH if mean is None else f"{mean:.1f}"),
                _recalled(given, material),
            ]
        )
        ids.append(anchor("issue", issue["issue"]))
    note = Markup(
        "A mark is a run: ✓ resolved, ✗ not resolved, ! failed through the machine, · not done. It leads to its trajectory where that is there."
    )
    return Table("issues", "Issues and arms", columns, rows, note, ids, tools=True, page=50)


def _recalled(run: Mapping[str, Any] | None, material: Material) -> Cell:
    return item_cell(run["item"], run["recalled"], material) if run else Cell(DASH, None)


def _marks(runs: Sequence[Mapping[str, Any]], material: Material) -> Cell:
    """All runs of an arm at an issue, in one cell that is ordered by the share resolved."""
    parts, plain = [], []
    for run in runs:
        mark, words, css = _mark(run)
        calls = "" if run.get("calls") is None else f", {count(run['calls'], 'call', 'calls')}"
        tip = f"{run['stream']}: {words}{calls}"
        link = material.href(run.get("trajectory"))
        if link:
            parts.append(Markup('<a class="run {}" href="{}" title="{}" aria-label="{}">{}</a>').format(css, link, tip, tip, mark))
        else:
            parts.append(Markup('<span class="run {}" title="{}" role="img" aria-label="{}">{}</span>').format(css, tip, tip, mark))
        plain.append(mark)
    graded = [run["resolved"] for run in runs if run["resolved"] is not None]
    share = sum(graded) / len(graded) if graded else None
    return Cell("".join(plain), share, html=Markup("").join(parts))


def _mark(run: Mapping[str, Any]) -> tuple[str, str, str]:
    if run["resolved"] is not None:
        return MARKS[run["resolved"]]
    return ("!", "failed through the machine", "infra") if run["state"] == "infra failure" else ("·", run["state"], "open")


def attempt_data(material: Material) -> str:
    """The attempts as JSON for the page: {columns, strings, rows}; texts are places in ``strings``. Safe within a script element."""
    strings: dict[str, int] = {}

    def place(value: Any) -> int | None:
        return None if value is None or value == "" else strings.setdefault(str(value), len(strings))

    rows = []
    for run in attempts(material.result):
        flags = ", ".join(run.get("flags") or ())
        shown = {True: "resolved", False: "not resolved", None: run["state"]}[run["resolved"]]
        rows.append(
            [
                place(run["arm"]),
                place(run["stream"]),
                place(run["issue"]),
                place(run["repository"]),
                place(shown),
                run.get("calls"),
                run.get("tokens"),
                _rounded(run.get("cost")),
                _rounded(run.get("seconds")),
                place(run.get("exit_status")),
                place(flags),
                place(run.get("verdict")),
                place(run.get("recalled")),
                _rounded(run.get("score")),
                place(run.get("learned_from")),
                place({True: "yes", False: "no"}.get(run.get("taken_up"))),  # type: ignore[arg-type]
                place(anchor("item", run["item"]) if run.get("item") in material.items else None),
                place(anchor("issue", run["issue"])),
                place(material.href(run.get("trajectory"))),
            ]
        )
    return script_json({"strings": list(strings), "rows": rows})


ATTEMPT_COLUMNS: Sequence[tuple[str, bool, bool]] = (
    ("arm", False, True),
    ("stream", False, True),
    ("issue", False, False),
    ("repository", False, True),
    ("outcome", False, True),
    ("calls", True, False),
    ("tokens", True, False),
    ("cost", True, False),
    ("seconds", True, False),
    ("exit status", False, True),
    ("flags", False, True),
    ("verdict", False, True),
    ("recalled", False, False),
    ("score", True, False),
    ("learned from", False, False),
    ("taken up", False, True),
)
"""Columns of the page's table of attempts: title, whether it holds numbers, whether a filter offers its values. Three more hold links: to the item, the issue
and the trajectory."""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in, whatever strangers wrote into it: no ``<``, ``>`` or ``&`` remains, nor line separators."""
    found = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        found = found.replace(sign, f"\\u{ord(sign):04x}")
    return found
