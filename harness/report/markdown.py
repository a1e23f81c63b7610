"""``report.md``: the answer, what speaks against it, the main tables and the methods, for a pull request or a wiki. Strangers' text cannot form markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.analysis.words import CHARGED, charged_with_memory
from harness.report import tables
from harness.report.latex import table as latex_table
from harness.report.material import Material
from harness.report.memory_tables import items_table
from harness.report.methods import paragraph, references, settings_rows
from harness.report.words import minus

MARK = "<!-- swe-memory report -->"
MOST_ITEMS = 20
_CODE = re.compile(r"`([^`]{1,200})`")
_ACTIVE = re.compile(r"([\\`*_\[\]<>|~$&])|(?<!\S)([#+=-])(?!\d)|(?<!\S)(\d+)(?=[.)]\s)")


def escape(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    return _ACTIVE.sub(_escaped, re.sub(r"\s+", " ", text))


def _escaped(found: re.Match[str]) -> str:
    sign, start, number = found.groups()
    return f"{number}\\" if number else f"\\{sign or start}"


def prose(text: str) -> str:
    """A sentence: escaped, what stands in backticks as code."""
    parts = _CODE.split(minus(text))
    return "".join(f"`{part.replace('|', ' ')}`" if number % 2 else escape(part) for number, part in enumerate(parts))


def markdown(material: Material) -> str:
    """The whole file."""
    result = material.result
    pairs = result["comparisons"]
    lines = [MARK, "", f"# {escape(result['run'])}: does memory help?", "", f"**{prose(result['headline']['sentence'])}**", ""]
    lines += [f"- {prose(said)}" for said in result["headline"]["caveats"]]
    lines += ["", *(f"{prose(claim['sentence'])}\n" for claim in result["claims"])]
    lines += _table(tables.comparisons_table(result))
    lines += _table(tables.arms_table(result, {}))
    lines += [prose(CHARGED), ""] if charged_with_memory(result["arms"]) else []
    lines += ["## What speaks against believing it", ""]
    lines += [f"- **{threat['weight']}**: {prose(threat['sentence'])}" for threat in result["threats"]] or [
        "Nothing was found, of what is looked for."
    ]
    lines += ["", "## Noise floor", "", prose(result["noise"]["sentence"]), ""]
    for pair in pairs[:1]:
        lines += _table(tables.steps_table(pair)) if pair["steps"] else []
        lines += _table(tables.left_out_table(pair))
    lines += _table(tables.bounds_table(result))
    lines += _table(items_table(material), MOST_ITEMS)
    lines += ["## Methods", "", prose(paragraph(material)), ""]
    lines += [f"- {escape(source)}" for source in references(result)]
    lines += ["", "| setting | value |", "| --- | --- |"]
    lines += [
        f"| {escape(name)} | {escape(value)} |" for name, value in [*settings_rows(material), *sorted(material.experiment.versions.items())]
    ]
    lines += ["", "```latex", latex_table(result).rstrip().replace("```", "` ` `"), "```", ""]
    if material.problems:
        lines += ["## Problems in the folder", "", *(f"- {escape(said)}" for said in material.problems), ""]
    return "\n".join(lines)


def _table(table: tables.Table, most: int | None = None) -> list[str]:
    if not table.rows:
        return []
    head: Sequence[str] = [escape(column.title) for column in table.columns]
    rows = [[escape(cell.text) for cell in row] for row in table.rows[:most]]
    marks = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [f"### {escape(table.caption)}", "", *(f"| {' | '.join(row)} |" for row in (head, marks, *rows)), ""]
    if most is not None and len(table.rows) > most:
        lines += [f"The first {most} of {len(table.rows)}; the HTML page has all.", ""]
    return lines
