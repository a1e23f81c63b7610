"""Everything that the HTML page shows, worked out for its template, and the page itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from markupsafe import Markup

from harness.report import plots, tables
from harness.report.attempts import ATTEMPT_COLUMNS, attempt_data, attempts, issues_table
from harness.report.latex import table as latex_table
from harness.report.material import Material
from harness.report.memory_tables import flips_table, item_entries, items_table, recall_table, uptake_sentence
from harness.report.methods import paragraph, prompts, references, settings_rows
from harness.report.words import anchor, count, prose

SWATCHES = {"circle": "●", "square": "■", "triangle": "▲", "diamond": "◆", "cross": "✕", "bar": "▮"}
WEIGHTS = {"serious": ("▲", "serious"), "caution": ("◆", "caution"), "note": ("○", "note"), "not checked": ("?", "unchecked")}
BANNERS = {
    "going": "The run is still going: everything here is about what was graded so far.",
    "stopped": "The run was stopped before it was done: everything here is about what was graded so far.",
    "not begun": "The run has not begun: there is nothing to say yet but what is planned.",
    "not done": "The run is not done: everything here is about what was graded so far.",
}
PARTS = (
    ("answer", "Answer"),
    ("threats", "Threats"),
    ("arms-part", "Arms"),
    ("noise", "Noise"),
    ("steps", "Steps and cost"),
    ("memory", "What memory did"),
    ("items-part", "Items"),
    ("issues-part", "Issues"),
    ("attempts-part", "Attempts"),
    ("methods", "Methods"),
)


def page(material: Material, csv_name: str = "attempts.csv") -> str:
    """The whole HTML page. The same run gives the same bytes."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css, js = _asset("report.css"), _asset("report.js")
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(js)}'; base-uri 'none'; form-action 'none'"
    environment.globals["swatches"] = SWATCHES
    environment.filters["prose"] = prose
    return environment.get_template("report.html.jinja").render(
        **_context(material), css=Markup(css), js=Markup(js), policy=policy, csv_name=csv_name
    )


def _asset(name: str) -> str:
    return resources.files("harness.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a content security policy names an inline style or script by: nothing else in the page is taken for one."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _context(material: Material) -> dict[str, Any]:
    result, styles = material.result, material.style()
    pairs = result["comparisons"]
    first = next(iter(pairs), None)
    items = items_table(material)
    learning = plots.learning_curves(result)
    number = sum(1 for _ in attempts(result))
    return {
        "run": result["run"],
        "version": material.version,
        "last_event": material.last_event,
        "facts": _facts(material),
        "banner": BANNERS.get(material.state, ""),
        "parts": [part for part in PARTS if part[0] != "items-part" or items.rows],
        "headline": prose(result["headline"]["sentence"]),
        "caveats": [prose(said) for said in result["headline"]["caveats"]],
        "claims": [{"earned": claim["earned"], "sentence": prose(claim["sentence"])} for claim in result["claims"]],
        "sentences": [prose(pair["sentence"]) for pair in pairs],
        "threats": [_threat(threat) for threat in result["threats"]],
        "effects": plots.effects(result),
        "rates": plots.resolve_rates(result, styles),
        "noise": plots.noise_floor(result),
        "noise_sentence": prose(result["noise"]["sentence"]),
        "within": plots.within_calls(result, styles),
        "gain": plots.gain_within(result),
        "turned": plots.turned_issues(result),
        "learning": learning,
        "learning_why": prose(_learning_why(first)),
        "comparisons": tables.comparisons_table(result),
        "arms": tables.arms_table(result, styles),
        "passk": tables.pass_table(result, styles),
        "steps": [tables.steps_table(pair) for pair in pairs if pair["steps"]],
        "outcomes": [tables.by_outcome_table(pair) for pair in pairs[:1] if pair["by_outcome"]],
        "usage": tables.usage_table(result),
        "uptake": uptake_sentence(result),
        "flips": [flips_table(pair, material) for pair in pairs[:1]],
        "recalls": [recall_table(pair) for pair in pairs if pair["recall_gain"]],
        "judge": tables.judge_table(result, styles),
        "items": items,
        "item_entries": [_with_anchors(entry) for entry in item_entries(material)],
        "issues": issues_table(material),
        "infra": tables.infra_table(result),
        "bounds": tables.bounds_table(result),
        "left_out": [tables.left_out_table(pair) for pair in pairs[:1]],
        "attempts_number": count(number, "attempt", "attempts") if number else "",
        "attempt_columns": ATTEMPT_COLUMNS,
        "attempt_data": Markup(attempt_data(material)),
        "paragraph": prose(paragraph(material)),
        "latex": latex_table(result),
        "settings": settings_rows(material),
        "versions": [*sorted(material.experiment.versions.items()), ("this report", f"swe-memory {material.version}")],
        "prompts": prompts(material),
        "environment": [prose(_environment_sentence(found)) for found in result["environment"]],
        "references": references(result),
        "all_sentences": [prose(said) for said in result["sentences"]],
        "problems": list(material.problems),
    }


def _facts(material: Material) -> list[tuple[str, str]]:
    result = material.result
    planned = sum(arm["planned"] for arm in result["arms"])
    graded = sum(arm["graded"] for arm in result["arms"])
    return [
        ("dataset", result["dataset"]["name"]),
        ("issues", f"{result['issues_planned']:,}"),
        ("agent", result["agent"]),
        ("protocol", result["protocol"]),
        ("arms", str(len(result["arms"]))),
        ("attempts graded", f"{graded:,} of {planned:,}"),
        ("run", material.state),
    ]


def _threat(threat: Mapping[str, Any]) -> dict[str, Any]:
    sign, css = WEIGHTS[threat["weight"]]
    return {"sign": sign, "css": css, "weight": threat["weight"], "sentence": prose(threat["sentence"])}


def _learning_why(first: Mapping[str, Any] | None) -> str:
    return str(first["learning"]["why"]) if first and first.get("learning") else ""


def _environment_sentence(found: Mapping[str, Any]) -> str:
    failing = ", ".join(f"{entry['issue']} ({entry['outcome']})" for entry in found["failing"][:20])
    more = f" Failing: {failing}." if failing else ""
    return f"The reference patch passes here on {found['resolved']} of {count(found['checked'], 'issue', 'issues')}.{more}"


def _with_anchors(entry: Any) -> dict[str, Any]:
    uses = [
        {name: getattr(use, name) for name in ("name", "issue", "outcome", "baseline", "score", "taken_up", "link")}
        | {"anchor": anchor("issue", use.issue)}
        for use in entry.uses
    ]
    return {"id": entry.id, "title": entry.title, "facts": entry.facts, "lesson": entry.lesson, "uses": uses}
