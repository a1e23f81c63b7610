"""What ``swe-memory plan`` prints: sentences, and a table of designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.statistics.estimates import count


def sentences(found: Mapping[str, Any]) -> list[str]:
    """The answer of :func:`harness.power_plan.answer` in words."""
    return [
        _assumed(found),
        *_power(found),
        *_issues(found),
        *_smallest(found),
        *_runs(found),
        *_expected(found),
        *found["notes"],
        "These are numbers for one comparison. That memory helps is claimed from two: above no memory, and above the items of other issues (`derangement`), "
        "which takes as many attempts again as the arm with memory.",
    ]


def _assumed(found: Mapping[str, Any]) -> str:
    asked = found["asked"]
    effect = "" if asked["effect"] is None else f"memory changes that by {_points(asked['effect'])}, "
    floor = (
        "all of that is taken as noise (--floor, or --from a run with reruns, says how much really is)"
        if asked["floor"] is None
        else f"two runs of the baseline on {_percent(asked['floor'])}"
    )
    return (
        f"Assumed: the baseline resolves {_percent(asked['baseline'])}, {effect}the arms differ on {_percent(asked['discordance'])} of the issues, {floor}; "
        f"two-sided tests at p < {asked['alpha']:g}."
    )


def _power(found: Mapping[str, Any]) -> list[str]:
    asked, power = found["asked"], found["power"]
    if power is None:
        return ["No effect was named, so there is no power to tell; --effect names one."]
    said = [f"{_design(asked)}: {_with_error(power)} power ({power['method']}), about the effect given {_banks(asked['builds'])}."]
    if found["power_over_builds"]:
        over = found["power_over_builds"]
        said.append(
            f"About the method's effect, over builds: {_with_error(over)} power ({over['method']}), if builds differ by a standard deviation of "
            f"{asked['shock']:g} points."
        )
    if asked["builds"] == asked["reruns"] == 1 and asked["effect"]:
        pairs = f"{count(found['net_wins'], 'net win', 'net wins')} among {count(found['discordant_pairs'], 'discordant pair', 'discordant pairs')}"
        if found["most_discordant"] is None:
            said.append(f"Expected: {pairs}. So few net wins are never p < {asked['alpha']:g}.")
        else:
            said.append(f"Expected: {pairs}; p < {asked['alpha']:g} holds for that many net wins among up to {found['most_discordant']:,}.")
    return said


def _issues_of(number: int) -> str:
    return f"{number:,} {'issue' if number == 1 else 'issues'}"


def _issues(found: Mapping[str, Any]) -> list[str]:
    rows = found["issues_needed"]
    parts = [f"{_percent(row['power'])} power takes {_issues_of(row['issues'])}" for row in rows if row["issues"] is not None]
    said = [f"One frozen bank and one run of each arm: {', '.join(parts)} (exact)."] if parts else []
    return said + list(dict.fromkeys(row["why"] for row in rows if row["issues"] is None))


def _smallest(found: Mapping[str, Any]) -> list[str]:
    rows = found["smallest_effect"]
    parts = [f"{_points(row['effect'])} with {_percent(row['power'])} power" for row in rows if row["effect"] is not None]
    said = [f"The smallest gain that this design can see: {', '.join(parts)}."] if parts else []
    return said + [row["why"] for row in rows if row["effect"] is None]


def _runs(found: Mapping[str, Any]) -> list[str]:
    """How many reruns of one bank, and how many builds, on the same issues."""
    if not found["designs"]:
        return []
    said = []
    issues = _issues_of(found["asked"]["issues"])
    for unit, what, number in (
        ("issue", ("run of each arm on one bank", "runs of each arm on one bank"), "reruns"),
        ("build", ("build, with a run of its own", "builds, each with a run of its own"), "builds"),
    ):
        rows = [row for row in found["designs"] if row["unit"] == unit]
        parts = []
        for power in found["asked"]["powers"]:
            first = next((row for row in rows if row["power"] >= power), None)
            if first:
                parts.append(f"{_percent(power)} power takes {count(first[number], *what)}")
            else:
                parts.append(f"{_percent(power)} is not reached with {rows[-1][number]} ({_percent(rows[-1]['power'])})")
        about = (
            "the effect given the bank"
            if unit == "issue"
            else f"the method's effect, if builds differ by {found['asked']['shock']:g} points"
        )
        said.append(f"{issues}, about {about}: {'; '.join(parts)}.")
    if any("not reached" in text for text in said):
        said.append("More runs take away the noise of runs and builds; what is left is how issues differ, which takes more issues.")
    return said


def _expected(found: Mapping[str, Any]) -> list[str]:
    expected = found["expected"]
    parts = [count(expected["attempts"], "attempt", "attempts")]
    if expected["cost"] is not None:
        parts.append(f"${expected['cost']:,.2f} with memory's own calls")
    if expected["hours"] is not None:
        parts.append(f"{expected['hours']:.1f} hours with {count(found['workers'], 'worker', 'workers')}")
    missing = (
        "" if expected["cost"] is not None or expected["hours"] is not None else "; name a finished run with --from for cost and hours"
    )
    return [f"This design, a baseline and one arm with memory: {', '.join(parts)}{missing}."]


def designs_table(found: Mapping[str, Any]) -> list[list[str]]:
    """Rows below :data:`HEADINGS`."""
    rows = []
    for row in found["designs"]:
        rows.append(
            [
                "this bank" if row["unit"] == "issue" else "the method",
                str(row["builds"]),
                str(row["reruns"]),
                str(row["baseline_reruns"]),
                f"{row['attempts']:,}",
                _with_error(row),
                "?" if row["cost"] is None else f"${row['cost']:,.2f}",
                "?" if row["hours"] is None else f"{row['hours']:.1f}",
            ]
        )
    return rows


HEADINGS: Sequence[str] = ("about", "builds", "reruns", "baseline reruns", "attempts", "power", "cost", "hours")


def plan_text(found: Mapping[str, Any]) -> str:
    """Everything for a terminal; ``found`` is the shape of ``plan --json``."""
    from harness.compare_text import table

    lines = list(found["sentences"])
    if found["designs"]:
        lines += ["", f"Designs on {count(found['asked']['issues'], 'issue', 'issues')}", *table(HEADINGS, designs_table(found))]
    return "\n".join(lines)


def _design(asked: Mapping[str, Any]) -> str:
    runs, baseline, builds = count(asked["reruns"], "run", "runs"), asked["baseline_reruns"], asked["builds"]
    if builds == asked["reruns"] == baseline == 1:
        each = "one frozen bank, one run of each arm"
    else:
        each = f"one frozen bank with {runs}" if builds == 1 else f"{builds} builds with {runs} each"
        each += f", {count(baseline, 'run', 'runs')} of the baseline"
    return f"{count(asked['issues'], 'issue', 'issues')}, {each}"


def _banks(builds: int) -> str:
    return "the bank" if builds == 1 else "these banks"


def _with_error(found: Mapping[str, Any]) -> str:
    """A power in per cent; a simulated one with its standard error in points."""
    return _percent(found["power"]) + ("" if found["error"] is None else f" ± {100 * found['error']:.1f}")


def _percent(share: float) -> str:
    text = f"{100 * share:.1f}".removesuffix(".0")
    return f"{text} %"


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"
