"""What memory did: issues that turned, items and the attempts that ran with them, gain by where an item was learned, uptake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.report.lessons import Lesson
from harness.report.material import Material
from harness.report.tables import Cell, Column, Table, number, text
from harness.report.words import DASH, anchor, count, interval, percent, points, prose, shown


def flips_table(found: Mapping[str, Any], material: Material) -> Table:
    """Issues that turned between two arms, with a trajectory of either side."""
    columns = (
        Column("issue"),
        Column("repository", choices=True),
        Column("turned", help="for: resolved more often with the first arm", choices=True),
        Column(found["arm"], True, "resolved runs"),
        Column(found["baseline"], True, "resolved runs"),
        Column("recalled item", form="long"),
        Column("score", True),
        Column("learned in", help="from the same or another repository", choices=True),
        Column("taken up", help="rare words of the item appear in the agent's thoughts and not in the issue", choices=True),
    )
    rows = []
    for flip in found["flips"]["list"]:
        rows.append(
            [
                Cell(flip["issue"], flip["issue"], link=f"#{anchor('issue', flip['issue'])}", css="issue"),
                text(flip["repository"]),
                text(flip["direction"], css=flip["direction"]),
                _side(flip["arm"], material),
                _side(flip["baseline"], material),
                item_cell(flip["item"], flip["recalled"], material),
                number(flip["score"], DASH if flip["score"] is None else f"{flip['score']:.2f}"),
                text(where(flip["item"], flip["same_repository"])),
                text(_yes(flip["taken_up"])),
            ]
        )
    title = f"Issues that turned: {found['arm']} against {found['baseline']}"
    note = prose("A number of resolved runs leads to the trajectory of a run that shows it. Issues turn by noise too." if rows else "")
    return Table(f"flips-{found['id']}", title, columns, rows, note, tools=len(rows) > 8, page=25)


def _side(side: Mapping[str, Any], material: Material) -> Cell:
    return Cell(f"{side['resolved']} of {side['runs']}", side["resolved"] / max(side["runs"], 1), link=material.href(side["trajectory"]))


def item_cell(item: str | None, title: str | None, material: Material) -> Cell:
    """The title of an item, with a link to its entry where the page has one."""
    if not item:
        return Cell(DASH, None)
    words = prose(shown(title))
    link = Markup('<a href="#{}">{}</a>').format(anchor("item", item), words) if item in material.items else words
    return Cell(shown(title), shown(title).lower(), html=link)


def where(item: str | None, same: bool | None) -> str:
    return "nothing recalled" if not item else DASH if same is None else "same repository" if same else "another repository"


def _yes(value: bool | None) -> str:
    return DASH if value is None else "yes" if value else "no"


def recall_table(found: Mapping[str, Any]) -> Table:
    """The difference by where the recalled item was learned."""
    columns = (Column("recalled from"), Column("attempts", True), Column("issues", True), Column("points (95 %)", True))
    rows = [
        [text(row["where"]), number(row["attempts"]), number(row["issues"]), number(row["estimate"]["value"], interval(row["estimate"]))]
        for row in found["recall_gain"]
    ]
    title = f"By where the item was learned: {found['arm']} minus {found['baseline']}"
    note = prose("Issues choose what is recalled for them, so this describes; it is no experiment on recall." if rows else "")
    return Table(f"recall-{found['id']}", title, columns, rows, note)


def items_table(material: Material) -> Table:
    """Items, the most used first."""
    columns = (
        Column("item", form="long"),
        Column("uses", True),
        Column("resolved", True),
        Column("turned for", True),
        Column("turned against", True),
        Column("by noise", True, "turned in each direction, as many reruns would show"),
        Column("points, shrunk (95 %)", True, "difference in the chance of being resolved when it is recalled, shrunk to no effect"),
        Column("taken up", True, "of the attempts whose thoughts were read"),
        Column("learned in", choices=True),
        Column("from an attempt that", choices=True),
    )
    rows = []
    result = material.result
    for item in result["items"]:
        taken = f"{item['taken_up']} of {item['looked']}" if item["looked"] else DASH
        expected = item["flips_expected"]
        rows.append(
            [
                item_cell(item["id"], item["title"], material),
                number(item["uses"]),
                number(item["resolved"]),
                number(item["flips_for"]),
                number(item["flips_against"]),
                number(expected, DASH if expected is None else f"{expected:.1f}"),
                number(item["effect"]["value"], interval(item["effect"])),
                number(item["taken_up"] / item["looked"] if item["looked"] else None, taken),
                text(item["repository"]),
                text(item["learned_outcome"]),
            ]
        )
    why = next((item["effect"]["why"] for item in result["items"] if item["effect"]["value"] is None), "")
    note = prose(why or ("An item needs about 20 uses to be believed half-way: one of two lucky uses stays near 0." if rows else ""))
    return Table("items", "Items that attempts ran with", columns, rows, note, tools=len(rows) > 8, page=25)


@dataclass(frozen=True, slots=True)
class Use:
    """An attempt that ran with an item; ``link`` leads to its trajectory where that is there."""

    name: str
    issue: str
    outcome: str
    baseline: str
    score: str
    taken_up: str
    link: str


@dataclass(frozen=True, slots=True)
class ItemEntry:
    """An item as it is shown by itself."""

    id: str
    title: str
    facts: Sequence[tuple[str, str]]
    lesson: Lesson | None
    uses: Sequence[Use]


def item_entries(material: Material) -> list[ItemEntry]:
    """Every item of the table, with its text and the attempts that ran with it."""
    return [_entry(item, material) for item in material.result["items"]]


def _entry(item: Mapping[str, Any], material: Material) -> ItemEntry:
    lesson = material.lessons.get(item["id"])
    facts = [
        ("id", item["id"]),
        ("learned from", shown(item["learned_from"])),
        ("that attempt was", f"{shown(item['learned_outcome'])}, by {shown(item['verdict_source'])}"),
        ("turned", f"{item['flips_for']} for, {item['flips_against']} against" + _expected(item["flips_expected"])),
        ("effect, shrunk", f"{points(item['effect']['value'])} points" if item["effect"]["value"] is not None else "not known"),
    ]
    if lesson:
        facts.append(("kind", f"{lesson.kind}, {lesson.polarity}, reach {lesson.reach}"))
        facts.append(("distilled by", " ".join(part for part in (lesson.extractor, lesson.model) if part)))
    uses = [
        Use(
            f"{use['arm']}/{use['stream']}",
            use["issue"],
            "resolved" if use["resolved"] else "not resolved",
            {True: "resolved", False: "not resolved", None: DASH}[use["baseline_resolved"]],
            DASH if use["score"] is None else f"{use['score']:.2f}",
            _yes(use["taken_up"]),
            material.href(use["trajectory"]),
        )
        for use in item["attempts"]
    ]
    return ItemEntry(anchor("item", item["id"]), shown(item["title"]), facts, lesson, uses)


def _expected(value: float | None) -> str:
    return "" if value is None else f"; {value:.1f} each way by noise"


def uptake_sentence(result: Mapping[str, Any]) -> Markup:
    """Whether agents took up what they were given."""
    found = result["uptake"]
    if not found["looked"] or found["share"]["value"] is None:
        return prose(f"Whether agents took up what they were given is not known. {found['why']}".strip())
    chance = found["by_chance"]["value"]
    beside = (
        ""
        if chance is None
        else f" The same words are in {percent(chance)} of the baseline's attempts at the same issues, which never saw the item."
    )
    said = f"Of {count(found['looked'], 'attempt', 'attempts')} with an item whose thoughts were read, {percent(found['share']['value'])} took it up.{beside}"
    return prose(f"{said} {found['rule']} {found['why']}".strip())
