"""The tables of a report about arms and comparisons: cells with a text and a value to sort by, for HTML and for Markdown alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from harness.analysis.words import CHARGED, charged_with_memory
from harness.report.style import Style
from harness.report.words import DASH, amount, amounts, count, interval, p_value, percent, points, prose, rate, shown, span

MEASURES = ("calls", "actions", "tokens", "cost", "seconds")
UNITS: Mapping[str, str] = {
    "calls": "calls (model turns)",
    "actions": "actions (commands)",
    "tokens": "tokens",
    "cost": "cost, US dollars",
    "seconds": "seconds of the agent's work",
}


NOTHING = Markup("")


@dataclass(frozen=True, slots=True)
class Cell:
    """``sort`` is what the cell is ordered by (None: always last); ``html`` wins over ``text`` on the page; ``link`` leads from the text; ``arm`` a style."""

    text: str
    sort: float | str | None = None
    html: Markup | None = None
    link: str = ""
    style: Style | None = None
    css: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """``numeric`` columns stand to the right and are sorted as numbers; ``choices``: a filter offers their values. ``form``: "marks" of runs stand to the left,
    a "long" text gets room."""

    title: str
    numeric: bool = False
    help: str = ""
    choices: bool = False
    form: str = ""

    @property
    def css(self) -> str:
        """A class of its cells."""
        return self.form or ("n" if self.numeric else "")


@dataclass(frozen=True, slots=True)
class Table:
    """``ids``: an id for each row, where others link to it. ``tools``: whether it can be searched. ``note`` stands below."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: Markup = NOTHING
    ids: Sequence[str] = ()
    tools: bool = False
    page: int = 0
    notes: Sequence[Markup] = field(default=())


def text(value: Any, css: str = "", link: str = "") -> Cell:
    """A cell that is ordered by its text."""
    words = shown(value)
    return Cell(words, None if words == DASH else words.lower(), css=css, link=link)


def number(value: float | None, form: str | None = None, *, css: str = "") -> Cell:
    """A number, shown as ``form`` or as it is."""
    return Cell(form if form is not None else DASH if value is None else f"{value:,g}", value, css=css)


def arm_cell(arm: str, styles: Mapping[str, Style]) -> Cell:
    return Cell(arm, arm.lower(), style=styles.get(arm), css="arm")


def arms_table(result: Mapping[str, Any], styles: Mapping[str, Style]) -> Table:
    """One row an arm."""
    columns = (
        Column("arm"),
        Column("resolved", True, "of graded attempts"),
        Column("rate (95 %)", True),
        Column("mean calls", True),
        Column("mean tokens", True, "memory's own calls included"),
        Column("mean cost", True, "US dollars, memory's own calls included"),
        Column("at the call limit", True),
        Column("got text", True, "attempts that memory, or a placebo, gave any text"),
        Column("infra failures", True, "attempts that the machine lost: in no rate"),
        Column("not done", True, "attempts that are planned and not graded, infra failures apart"),
    )
    rows = []
    for arm in result["arms"]:
        measures = arm["measures"]
        shares = {"value": arm["rate"], "low": arm["low"], "high": arm["high"]}
        limits = sum(arm["limit_hits"].values())
        rows.append(
            [
                arm_cell(arm["arm"], styles),
                number(arm["resolved"], f"{arm['resolved']} of {arm['graded']}"),
                number(arm["rate"], rate(shares)),
                *(number(measures[name]["mean"], amount(name, measures[name]["mean"])) for name in ("calls", "tokens", "cost")),
                number(limits),
                number(arm["given"]),
                number(len(arm["infra"])),
                number(arm["missing"]),
            ]
        )
    methods = ", ".join(sorted({arm["interval"] for arm in result["arms"] if arm["interval"]}))
    why = list(dict.fromkeys(m["why"] for arm in result["arms"] for m in arm["measures"].values() if m["mean"] is None and m["why"]))
    why += [CHARGED] if charged_with_memory(result["arms"]) else []
    return Table("arms", "Arms", columns, rows, prose(f"Intervals: {methods}." if methods else ""), notes=[prose(said) for said in why])


def comparisons_table(result: Mapping[str, Any]) -> Table:
    """One row for each thing that a pair of arms supports an estimate of."""
    columns = (
        Column("arm"),
        Column("minus"),
        Column("what is estimated"),
        Column("issues", True),
        Column(
            "turned: for, against",
            True,
            "discordant pairs: only the one arm resolved it; with several runs the expected number for a pair of runs",
        ),
        Column("points (95 %)", True),
        Column("p", True),
        Column("p by Holm", True, "adjusted over the secondary comparisons"),
        Column("noise", True, "the standard error of this difference that reruns imply, in points"),
    )
    rows = []
    for found in result["comparisons"]:
        discordant = found["discordant"]
        turned = DASH if discordant is None else f"{discordant['only_arm']:.4g}, {discordant['only_baseline']:.4g}"
        error = found["noise"]["own_error"]
        for place, named in enumerate(found["estimates"]):
            estimate, test = named["estimate"], named["test"]
            first = place == 0
            what = f"{named['name']}, unit: {estimate['unit']}" + (" (primary endpoint)" if first and found["role"] == "primary" else "")
            rows.append(
                [
                    text(found["arm"], "arm"),
                    text(found["baseline"], "arm"),
                    Cell(what, named["name"], html=Markup('<span title="{}">{}</span>').format(estimate["estimand"], what)),
                    number(found["issues"]),
                    number(None if discordant is None else discordant["only_arm"] - discordant["only_baseline"], turned if first else ""),
                    number(estimate["value"], interval(estimate)),
                    number(test["p"], p_value(test["p"])),
                    number(found["p_adjusted"], p_value(found["p_adjusted"]) if first else ""),
                    number(error, (DASH if error is None else f"{100 * error:.1f}") if first else ""),
                ]
            )
    every = [named for found in result["comparisons"] for named in found["estimates"]]
    methods = dict.fromkeys(named[part]["method"] for part in ("estimate", "test") for named in every if named[part]["method"])
    note = prose("Intervals and tests: " + "; ".join(methods) + "." if methods else "")
    return Table("comparisons", "Differences in resolve rate", columns, rows, note)


def steps_table(found: Mapping[str, Any]) -> Table:
    """Calls, actions, tokens, cost and time of one pair of arms, over all issues."""
    columns = (
        Column("mean of an attempt"),
        Column(found["arm"], True),
        Column(found["baseline"], True),
        Column("difference (95 %)", True),
        Column("p", True),
        Column("per resolved issue, ratio (95 %)", True, "what a resolved issue takes, failed attempts included: arm over baseline"),
    )
    rows = []
    for name in MEASURES:
        entry = found["steps"].get(name)
        if entry is None:
            continue
        difference, ratio = entry["difference"], found["per_resolved"].get(name)
        limit = f", up to {entry['limit']:g}" if entry["limit"] else ""
        rows.append(
            [
                text(UNITS[name] + limit),
                number(entry["arm"], amounts(name, entry["arm"])),
                number(entry["baseline"], amounts(name, entry["baseline"])),
                number(difference["value"], amounts(name, difference["value"], difference["low"], difference["high"], sign=True)),
                number(entry["test"]["p"], p_value(entry["test"]["p"])),
                number(ratio["value"] if ratio else None, _ratio(ratio)),
            ]
        )
    unknown = max((entry["unknown"] for entry in found["steps"].values()), default=0)
    note = f"{count(unknown, 'issue is', 'issues are')} left out where an amount is not known." if unknown else ""
    why = [prose(entry["sentence"]) for entry in found["steps"].values() if entry["difference"]["value"] is None]
    title = f"What attempts took: {found['arm']} against {found['baseline']}"
    return Table(f"steps-{found['id']}", title, columns, rows, prose(note), notes=why)


def _ratio(found: Mapping[str, Any] | None) -> str:
    if not found or found["value"] is None:
        return DASH
    high = "no limit" if found["high"] is None else f"{found['high']:.2f}"
    return f"{found['value']:.2f}" + (f" ({found['low']:.2f} to {high})" if found["low"] is not None else "")


def by_outcome_table(found: Mapping[str, Any]) -> Table:
    """Calls by the pair of outcomes, with the label that must stand beside it."""
    columns = (
        Column("outcomes"),
        Column("issues", True),
        Column(found["arm"], True),
        Column(found["baseline"], True),
        Column("difference (95 %)", True),
    )
    rows = []
    for row in found["by_outcome"]["rows"]:
        difference = row["difference"]
        within = f" ({difference['low']:+.1f} to {difference['high']:+.1f})" if difference["low"] is not None else ""
        rows.append(
            [
                text(row["outcome"]),
                number(row["issues"]),
                number(row["arm"], amount("calls", row["arm"])),
                number(row["baseline"], amount("calls", row["baseline"])),
                number(difference["value"], amount("calls", difference["value"], sign=True) + within.replace("-", "−")),
            ]
        )
    return Table(f"outcomes-{found['id']}", "Calls by outcome", columns, rows, prose(found["by_outcome"]["label"]))


def left_out_table(found: Mapping[str, Any]) -> Table:
    """The difference of one pair of arms without each repository in turn."""
    columns = (Column("without"), Column("its issues", True), Column("points (95 %)", True))
    rows = [
        [text(row["repository"]), number(row["issues"]), number(row["difference"], points(row["difference"]) + _in(row))]
        for row in found["sensitivity"]["left_out"]
    ]
    title = f"One repository left out at a time: {found['arm']} minus {found['baseline']}"
    return Table(f"left-out-{found['id']}", title, columns, rows, prose(found["sensitivity"]["note"]))


def _in(row: Mapping[str, Any]) -> str:
    within = span(row["low"], row["high"])
    return f" ({within})" if within else ""


def bounds_table(result: Mapping[str, Any]) -> Table:
    """What missing attempts could hide, for each pair of arms that misses any."""
    columns = (
        Column("arm"),
        Column("minus"),
        Column("missing", True, "attempts of the arm, of the baseline"),
        Column("worst to best, points", True, "if every missing attempt came out against the arm, or for it"),
        Column("with intervals", True),
        Column("unequally many, p", True),
    )
    rows = []
    for found in result["comparisons"]:
        bounds = found["bounds"]
        if not (bounds["missing"]["arm"] or bounds["missing"]["baseline"]):
            continue
        rows.append(
            [
                text(found["arm"], "arm"),
                text(found["baseline"], "arm"),
                number(
                    bounds["missing"]["arm"] + bounds["missing"]["baseline"], f"{bounds['missing']['arm']}, {bounds['missing']['baseline']}"
                ),
                number(bounds["low"], span(bounds["low"], bounds["high"]) or DASH),
                number(bounds["interval_low"], span(bounds["interval_low"], bounds["interval_high"]) or DASH),
                number(bounds["unequal"]["p"], p_value(bounds["unequal"]["p"])),
            ]
        )
    note = prose("Bounds without any assumption about the missing attempts (Manski)." if rows else "")
    return Table("bounds", "What missing attempts could hide", columns, rows, note)


def pass_table(result: Mapping[str, Any], styles: Mapping[str, Style]) -> Table:
    """pass@k and the best of n of each arm with several attempts on one bank."""
    columns = (Column("arm"), Column("what"), Column("k or n", True), Column("share of issues (95 %)", True), Column("issues", True))
    rows = []
    for arm in result["arms"]:
        for entry in arm["pass_at_k"]:
            rows.append([arm_cell(arm["arm"], styles), text("pass@k"), number(entry["k"]), number(entry["estimate"]["value"], rate(entry["estimate"])),
                         number(entry["issues"])])  # fmt: skip
        for entry in arm["best_of_n"]:
            chosen = entry["selected"]
            rows.append([arm_cell(arm["arm"], styles), text(f"best of n by {entry['selector']}"), number(entry["n"]), number(chosen["value"], rate(chosen)),
                         number(chosen["units"])])  # fmt: skip
    return Table(
        "passk", "Several attempts with one bank", columns, rows, prose("Chen et al. (2021); of each arm's first bank." if rows else "")
    )


def usage_table(result: Mapping[str, Any]) -> Table:
    """What all calls of the run used, by role."""
    columns = (
        Column("role"),
        Column("calls", True),
        Column("input tokens", True),
        Column("output tokens", True),
        Column("US dollars", True),
    )
    rows = [
        [
            text("all together" if role == "all" else role),
            number(used["calls"], f"{used['calls']:,}"),
            number(used["input_tokens"], f"{used['input_tokens']:,}"),
            number(used["output_tokens"], f"{used['output_tokens']:,}"),
            number(used["cost"], "not known" if used["cost"] is None else f"{used['cost']:,.2f}"),
        ]
        for role, used in result["usage"].items()
    ]
    return Table("usage", "What the run used", columns, rows, prose("Killed attempts and memory's own calls included."))


def infra_table(result: Mapping[str, Any]) -> Table:
    """Attempts that the machine lost."""
    columns = (Column("arm", choices=True), Column("stream"), Column("issue"), Column("tries", True), Column("reason"))
    rows = [
        [text(entry["arm"], "arm"), text(entry["stream"]), text(entry["issue"]), number(entry["tries"]), text(entry["reason"])]
        for entry in result["infra"]
    ]
    return Table(
        "infra",
        "Attempts that failed through the machine",
        columns,
        rows,
        prose("In no rate; what they could hide is above." if rows else ""),
    )


def judge_table(result: Mapping[str, Any], styles: Mapping[str, Style]) -> Table:
    """How verdicts compare with the tests."""
    columns = (
        Column("arm"),
        Column("verdict right", True),
        Column("wrong", True),
        Column("unknown", True),
        Column("not judged", True),
        Column("right", True),
    )
    rows = []
    for arm in result["arms"]:
        judge = arm["judge"]
        said = judge["right"] + judge["wrong"]
        share = judge["right"] / said if said else None
        rows.append([arm_cell(arm["arm"], styles), *(number(judge[name]) for name in ("right", "wrong", "unknown", "not judged")),
                     number(share, percent(share))])  # fmt: skip
    return Table(
        "judge", "Verdicts that memory learns from, against the tests", columns, rows, prose("The last column leaves unknown ones out.")
    )
