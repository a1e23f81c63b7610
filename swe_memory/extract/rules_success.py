"""What a passing attempt teaches, by rules: why the fault was there and what fixed it, what changed together, how tests are run."""

from __future__ import annotations

from ..records import ItemDraft
from .material import Material, fit, listing, lower_first, plural, short_path
from .testing import TestRun


def success_drafts(material: Material) -> list[ItemDraft]:
    """Drafts in the order of their worth; the caller keeps the first three that are valid."""
    drafts = [*_cause(material), *_together(material), *_general(material), *tests(material), *pitfall(material)]
    return drafts


def verified(material: Material) -> str:
    """How the change was checked, as a clause: "own reproduction before and after, `runner target`"."""
    found = material.found
    parts = []
    if found.reproduced:
        parts.append("a script that failed before the change and passed after it")
    if material.run is not None and found.tests:
        parts.append(f"`{material.run.command}`")
    elif found.checks_after_last_edit:
        parts.append(f"{plural(len(found.checks_after_last_edit), 'more run')} of own scripts" if parts else "own scripts")
    return " and ".join(parts)


def _cause(material: Material) -> list[ItemDraft]:
    if not material.main_path or not material.causes:
        return []
    cause = material.causes[0]
    if cause.score < 5.0:
        return []
    fix = next((s for s in material.fixes if s.score >= 5.0), None)
    second = next((s for s in material.causes[1:4] if s.score >= 7.0), None)
    shape = material.shapes[0].name if material.shapes else ""
    symbol = material.main_symbol or short_path(material.main_path, 1)
    title = f"`{symbol}` ({short_path(material.main_path)})" + (f": {shape}" if shape else "")
    lines = []
    if fix is not None:
        lines.append(f"What worked: {lower_first(fix.text)}")
    elif shape:
        lines.append(f"What worked was {shape} in {material.place}.")
    else:
        lines.append(f"What worked was a change of {material.place}" + (f": {lower_first(second.text)}" if second else "."))
    if len(material.trail) > 1:
        lines.append(f"The way there led through {' -> '.join(f'`{p}`' for p in material.trail)}.")
    how = verified(material)
    if how:
        lines.append(f"It was checked with {how}.")
    return [material.draft(title, cause.text, " ".join(lines), "strategy", "repository")]


def _together(material: Material) -> list[ItemDraft]:
    """Files that changed together, or several functions of one file."""
    symbols = material.symbols
    paths = list(symbols)
    if len(paths) > 1:
        title = fit(f"{' and '.join(short_path(p, 2) for p in paths[:2])} change together")
        each = "; ".join(f"`{p}`" + (f" ({listing(s, 3)})" if s else "") for p, s in list(symbols.items())[:4])
        description = f"A change of {material.place} was complete only with {listing([p for p in paths if p != material.main_path], 3)}."
    else:
        names = symbols.get(material.main_path, ())
        if len(names) < 3:
            return []
        title = fit(f"{listing(names, 2).replace(' more', '')} change together")
        each = f"{listing(names, 5)} in `{material.main_path}`"
        description = f"In `{material.main_path}` one change needed {plural(len(names), 'place')} at once: {listing(names, 5)}."
    why = next(
        (
            s.text
            for s in (*material.fixes, *material.causes)
            if any(n in s.text for p, ns in symbols.items() if p != material.main_path for n in (*ns, p.rsplit("/", 1)[-1]))
        ),
        "",
    )
    content = (
        f"Changed together: {each}."
        + (f" {why}" if why else "")
        + " When you touch one of them, look at the others before you call the change complete."
    )
    return [material.draft(title, description, content, "co-change", "repository")]


def _general(material: Material) -> list[ItemDraft]:
    """The kind of fix and its lesson, with this attempt's cause as the example, without names."""
    example = next((g for g in (material.general(s.text) for s in material.causes[:6] if s.score >= 6.0) if g), "")
    if not material.shapes:
        return []
    shape = material.shapes[0]
    symptom = f"`{material.symptom}`" if material.symptom else "Wrong result"
    title = f"{symptom}: try {shape.name}"
    description = shape.lesson
    worked = f"Seen where {lower_first(example)}" if example else ""
    size = plural(material.found.changed_lines, "changed line")
    where = "one place" if len(material.found.sources) == 1 and len(material.symbols.get(material.main_path, ())) <= 1 else "a few places"
    content = (
        f"{worked} {size[0].upper() + size[1:]} in {where} resolved it after the failure had been reproduced; to be sure, {shape.check}."
    )
    if not material.found.reproduced:
        content = f"{worked} {size[0].upper() + size[1:]} in {where} resolved it; to be sure, {shape.check}."
    return [material.draft(title, description, content, "strategy", "general")] if example else []


def tests(material: Material) -> list[ItemDraft]:
    """How this repository's tests are run and which cover the edited files; true whatever the attempt's outcome."""
    run = material.run
    if run is None:
        return []
    covering = material.covering or run.targets[:2]
    if not covering and not material.wrong:
        return []
    target = covering[0] if covering else ""
    command = f"{run.runner} {target}".strip()
    title = f"Tests of {short_path(material.main_path, 2)}: `{command}`" if material.main_path else f"Tests: `{command}`"
    if len(title) > 80:
        title = f"Tests of {short_path(material.main_path, 1)}: `{_shorter(run, target)}`"
    if len(title) > 80:
        title = f"How to run the tests that cover {short_path(material.main_path, 1)}"
    description = (
        f"The tests that cover `{material.main_path}` run with `{command}`." if material.main_path else f"Tests run with `{command}`."
    )
    lines = []
    if material.wrong:
        lines.append(
            f"{listing(material.wrong, 3)} {'is' if len(material.wrong) == 1 else 'are'} not available here; `{run.runner}` is the runner that works."
        )
    if len(covering) > 1:
        lines.append(f"Other tests nearby that were run for it: {listing(list(covering[1:]), 3)}.")
    stale = _older_failures(material)
    if stale:
        lines.append(stale)
    trap = next((p for p in material.pitfalls), None)
    if trap is not None and len(lines) < 3:
        lines.append(f"A script of your own may stop with `{trap.error[:90]}`: {lower_first(trap.solution)}")
    if not lines:
        lines.append(
            f"Run them before the change, to know which failures are older, and again after the last edit; they ended well for a change of {material.place}."
            if material.attempt.verdict.outcome == "resolved"
            else f"Run them before the change and after the last edit; here they passed although the change of {material.place} was not right, so they do not cover all of it."
        )
    return [material.draft(title, description, " ".join(lines[:3]), "testing", "repository")]


def _shorter(run: TestRun, target: str) -> str:
    return f"{run.runner.rsplit('/', 1)[-1]} {target}".strip()


def _older_failures(material: Material) -> str:
    """A note where the attempt saw failures that were there without its change."""
    found = material.found
    for event in found.tests:
        if event.result != "failed" or not material.run:
            continue
        before = found.first_edit is None or event.step < found.first_edit
        undone = any(
            e.kind == "revert"
            and e.step <= event.step
            and not any(x.step > e.step and x.step < event.step for x in found.edits)
            and e.step >= event.step - 3
            for e in found.events
        )
        if before or undone:
            target = next(iter(event.part.paths), "")
            return f"Some of the tests{f' in `{target}`' if target else ''} fail without any change: compare with a run on the untouched code before you look for your own fault."
    return ""


def pitfall(material: Material) -> list[ItemDraft]:
    """An environment error and its remedy, where there is no testing item to hold it."""
    if not material.pitfalls or material.run is not None:
        return []
    trap = material.pitfalls[0]
    title = f"Own scripts here: {trap.error}"
    description = f"A script that exercises `{material.main_path}` first failed with `{trap.error[:100]}`."
    content = f"{trap.solution} After that `{trap.worked}` ran." if "`" not in trap.worked else trap.solution
    return [material.draft(title.replace("`", ""), description, content, "environment", "repository")]
