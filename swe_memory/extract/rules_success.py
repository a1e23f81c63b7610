"""What a passing attempt teaches, by rules: why the fault was there and what fixed it, what changed together, how tests are run."""

from __future__ import annotations

import re

from ..records import ItemDraft
from .catalogue import MAX_LINES
from .material import Material, fit, listing, lower_first, plural, short_path
from .prose import HEDGE
from .testing import TestRun, targets_of
from .validate import MAX_TITLE

GOOD = 5.5
"""From this score on a sentence about the cause or the fix stands on its own; found by reading about a hundred of them."""
STRONG = 7.0
MANY = 8
"""More functions than this were hardly changed for one reason; naming them helps nobody."""


def success_drafts(material: Material) -> list[ItemDraft]:
    """Drafts in the order of their worth; the caller keeps the first three that are valid."""
    together = _together(material)
    return [*_cause(material), *together, *_general(material), *tests(material), *pitfall(material)]


def verified(material: Material) -> str:
    """How the change was checked, as a clause: "a script that ..., and `runner target`"."""
    found = material.found
    parts = []
    if found.reproduced:
        parts.append("a reproduction of its own before and after")
    # Tests that ran before the change alone did not check it.
    if material.run is not None and found.first_edit is not None and material.run.step >= found.first_edit:
        parts.append(f"`{material.run.command}`")
    elif found.tried_after and not parts:
        parts.append("own scripts")
    return " and ".join(parts)


def done(material: Material, least: float = GOOD) -> str:
    """What the change did: the agent's own sentence, else what the diff says, "" where neither says anything."""
    statement = next((s for s in material.fixes if s.score >= least and _about(material, s.text)), None)
    return statement.text if statement is not None else shown(material)


def _about(material: Material, text: str) -> bool:
    """Whether a sentence about the change fits it: no other source file is named, and the first name in code quotes is in the patch."""
    quoted = [word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[A-Za-z_]\w+", code)[-1:] if "/" not in code]
    if quoted and not re.search(rf"(?<!\w){re.escape(quoted[0])}(?!\w)", material.found.patch) and quoted[0] not in material.main_symbol:
        return False
    named = re.findall(r"[\w./-]+\.(?:py|js|ts|c|h|go|rs|java)\b", text)
    return all(any(path == n or path.endswith("/" + n) or n.endswith("/" + path) for path in material.found.paths) for n in named)


def shown(material: Material) -> str:
    """What the diff itself says of the change: words that were exchanged, functions that were added, names let go and brought in."""
    where = f"`{material.main_symbol or short_path(material.main_path, 1)}`"
    if material.exchanged is not None:
        old, new = material.exchanged
        if old and new:
            return f"In {where}, `{new}` took the place of `{old}`."
        return f"In {where}, `{new}` was added." if new else f"In {where}, `{old}` was taken out."
    mine = {p.name for p in material.places if p.path == material.main_path}
    fresh = tuple(n for n in material.symbols.get(material.main_path, ()) if n in material.added and n in mine)
    gone, come = (tuple(n for n in names if n != material.main_symbol) for names in material.delta)
    if fresh:
        return f"Added {listing(fresh, 3)}" + (f", with the use of {listing(come, 3)}." if come else ".")
    if sum(p.size for p in material.places if p.path == material.main_path) > MAX_LINES:
        gone, come = (), ()  # a few names of a large change do not say what it does
    whole = material.main is not None and bool(material.main.seen) and len(mine) == 1
    if gone and come:
        return f"The change of {where} uses {listing(come, 3)} instead of {listing(gone, 2)}."
    if come and whole:
        return f"{where} now takes {listing(come, 3)} into account."
    if come:
        return f"The change of {where} brings in {listing(come, 3)}."
    if gone:
        return f"The change of {where} does away with {listing(gone, 3)}."
    if material.shape is not None:
        return f"The change of {where} consists in {material.shape.name} ({plural(material.changed_lines, 'changed line')})."
    return ""


def _cause(material: Material) -> list[ItemDraft]:
    if not material.main_path:
        return []
    cause = next((s for s in material.causes if s.score >= GOOD), None)
    did = done(material)
    told = next((s.text for s in material.fixes if s.score >= GOOD and _about(material, s.text)), "")
    # A cause without what was done about it helps nobody to repeat it.
    if not did or (cause is None and not told):
        return []
    shape = material.shape.name if material.shape is not None else ""
    symbol = material.main_symbol or short_path(material.main_path, 1)
    title = titled(symbol, material.main_path, shape)
    lines = [f"What worked: {lower_first(did)}"] if did and cause is not None else []
    if cause is None:
        seen = shown(material)
        lines.append(f"The change is in {material.scope}." + (f" {seen}" if seen and seen != told else ""))
    description = cause.text if cause is not None else told
    if cause is not None:
        second = next((s for s in material.causes if s.score >= STRONG and s.text != cause.text and s.text != did), None)
        if second is not None:
            lines.append(second.text)
    if len(material.trail) > 2 and len(lines) < 3:
        lines.append(f"The way there led through {' -> '.join(f'`{p}`' for p in material.trail)}.")
    how = verified(material)
    if how and len(lines) < 3:
        lines.append(f"It was checked with {how}.")
    return [material.draft(title, description, " ".join(lines), "strategy", "repository")] if lines else []


def plain(material: Material) -> list[ItemDraft]:
    """For an attempt that shows too little for anything else: its change, where the patch tells it in few words, and how it was checked."""
    did = shown(material)
    if not material.main_path or not did:
        return []
    old, new = material.exchanged or ("", "")
    what = material.shape.name if material.shape is not None else f"`{new}` for `{old}`" if old and new else ""
    symbol = material.main_symbol or short_path(material.main_path, 1)
    title = titled(symbol, material.main_path, what)
    if len(title) > MAX_TITLE:
        title = titled(symbol, material.main_path, "")
    how = verified(material)
    content = f"What worked: {plural(material.changed_lines, 'changed line')} of source, in {material.scope}."
    content += f" It was checked with {how}." if how else ""
    return [material.draft(title, did, content, "strategy", "repository")]


def titled(symbol: str, path: str, what: str) -> str:
    """ "`symbol` (a/b.py): what", with as much of the path as fits."""
    if symbol == path.rsplit("/", 1)[-1]:
        return fit(path + (f": {what}" if what else "")) if len(path) + len(what) < 78 else fit(symbol + (f": {what}" if what else ""))
    for keep in (3, 2, 1):
        title = f"`{symbol}` ({short_path(path, keep)})" + (f": {what}" if what else "")
        if len(title) <= 80:
            return title
    return f"`{symbol}`: {what}" if what else f"`{symbol}`"


def _together(material: Material) -> list[ItemDraft]:
    """Files that changed together, or several functions of one file."""
    symbols = material.symbols
    paths = list(symbols)
    others = [p for p in paths if p != material.main_path]
    if others:
        title = fit(f"{' and '.join(short_path(p, 2) for p in (material.main_path, others[0]))} change together")
        each = "; ".join(f"`{p}`" + (f" ({listing(s, 3)})" if s else "") for p, s in list(symbols.items())[:4])
        description = f"The change of {material.place} that resolved it also touched {listing(others, 3)}."
        words = {n for p in others for n in (*symbols[p], p, p.rsplit("/", 1)[-1])}
    else:
        names = tuple(n for n in symbols.get(material.main_path, ()) if not re.match(r"_*[A-Z]", n) and n not in material.added)
        if not 3 <= len(names) <= MANY:
            return []
        title = fit(f"{short_path(material.main_path, 2)}: {listing(names, 2).split(' and ')[0]} and {len(names) - 1} more change together")
        each = f"{listing(names, 5)} in `{material.main_path}`"
        description = (
            f"In `{material.main_path}` the change that resolved it touched {plural(len(names), 'place')} at once: {listing(names, 5)}."
        )
        words = set(names[1:])
    used = {s.text for s in (*material.causes[:1], *material.fixes[:1])}
    why = next(
        (s.text for s in (*material.fixes, *material.causes) if s.score >= 4.0 and s.text not in used and any(w in s.text for w in words)),
        "",
    )
    content = f"Changed together: {each}. " + (
        why or "Whoever touches one of them should look at the others before calling the change complete."
    )
    return [material.draft(title, description, content, "co-change", "repository")]


def _general(material: Material) -> list[ItemDraft]:
    """A lesson without names, and this attempt's story as its example; nothing where the story would not stand without the names."""
    return _broke_first(material) or _not_reproduced_first(material) or _shape_lesson(material)


def example(material: Material, least: float = STRONG, since: int = 0) -> str:
    """The best cause, said at step ``since`` or later, that reads well without names (at most three placeholders), "" where none does."""
    for statement in material.causes[:8]:
        if statement.score >= least and statement.step >= since and not HEDGE.search(statement.text):
            text = material.general(statement.text)
            if text and len(re.findall(r"\b(?:class|method|function|module|attribute|constant|value) [A-J]\b", text)) <= 3:
                return text
    return ""


def _broke_first(material: Material) -> list[ItemDraft]:
    found = material.found
    if not found.broke_tests or not found.tests or found.tests[-1].result != "passed" or found.edited_tests or len(found.edits) < 2:
        return []
    later = [e for e in found.edits if e.step > found.broke_tests[0].step]
    if not later or found.waived:
        return []
    story = example(material, GOOD, found.broke_tests[0].step)
    if not story:
        return []
    return [
        material.draft(
            "Existing tests caught a first fix that went too far",
            "The first version fixed the reported case and broke existing tests; narrowing it, not the tests, resolved the issue.",
            f"{plural(len(found.broke_tests), 'test run')} failed before {plural(len(later), 'further edit')} made the reproduction and the tests pass. "
            f"What was behind it: {lower_first(story)} Run the tests of the edited file right after the first version that works.",
            "verification",
            "general",
        )
    ]


def _not_reproduced_first(material: Material) -> list[ItemDraft]:
    found = material.found
    failed_to_fail = [
        i
        for i, step in enumerate(found.trajectory.steps[: found.first_edit or 0])
        if re.search(
            r"(?:did ?n[o']t|not|n't) (?:reproduce|fail|crash)|executed successfully|which is unexpected|unable to reproduce",
            step.thought[:600],
            re.IGNORECASE,
        )
        and i > 0
        and any(e.step == i - 1 for e in found.checks)
    ]
    story = example(material, GOOD, failed_to_fail[0]) if failed_to_fail else ""
    if not story:
        return []
    runs = sum(e.step < (found.first_edit or 0) for e in found.checks)
    return [
        material.draft(
            "The first reproduction did not fail: make it fail before editing",
            "The first script passed on the faulty code, and no source was touched until another one failed.",
            f"It took {plural(runs, 'run')} to see the fault; then the change was {plural(material.changed_lines, 'line')} long. "
            f"What was behind the fault: {lower_first(story)} When a reproduction passes, vary input, entry point and settings until it fails.",
            "reproduction",
            "general",
        )
    ]


def _shape_lesson(material: Material) -> list[ItemDraft]:
    story = example(material)
    shape = material.shape
    if shape is None or not story or material.changed_lines > 24:
        return []
    title = f"{f'`{material.symptom}`' if material.symptom else 'Wrong result'}: consider {shape.name}"
    content = (
        f"{story} {plural(material.changed_lines, 'changed line').capitalize()} resolved it. To be sure of such a change, {shape.check}."
    )
    return [material.draft(title, shape.lesson, content, "fix-pattern", "general")]


def tests(material: Material) -> list[ItemDraft]:
    """How this repository's tests are run and which cover the edited files; true whatever the attempt's outcome."""
    run = material.run
    if run is None or not material.main_path:
        return []
    covering = material.covering or run.targets[:2]
    if not covering:
        return []
    command = f"{run.runner} {covering[0]}".strip()
    title = next(
        (
            t
            for t in (
                f"Tests of {short_path(material.main_path, 2)}: `{command}`",
                f"Tests of {short_path(material.main_path, 1)}: `{command}`",
                f"Tests of {short_path(material.main_path, 1)}: `{_shorter(run, covering[0])}`",
            )
            if len(t) <= 80
        ),
        f"How to run the tests that cover {short_path(material.main_path, 1)}",
    )
    size = (
        f" ({plural(run.tests, 'test')}, {run.seconds:.3g} s)"
        if run.tests > 1 and run.seconds is not None and len(run.targets) == 1
        else ""
    )
    description = f"The tests that cover `{material.main_path}` run with `{command}`{size}."
    lines = []
    if material.wrong:
        lines.append(
            f"{listing(material.wrong, 3)} {'is' if len(material.wrong) == 1 else 'are'} not available here; `{run.runner}` is the runner that works."
        )
    stale = _older_failures(material)
    if stale:
        lines.append(stale)
    if material.pitfalls:
        trap = material.pitfalls[0]
        lines.append(f"A script of your own may stop with `{trap.error[:90].rstrip()}`: {lower_first(trap.solution)}")
    if len(covering) > 1:
        lines.append(f"{listing(list(covering[1:]), 3)} {'was' if len(covering) == 2 else 'were'} run for the same change.")
    if material.found_by and len(lines) < 3:
        lines.append(f"`{material.found_by}` showed where they are.")
    if len(lines) < 2:
        lines.append(_targets(run, covering[0], material.main_symbol or short_path(material.main_path, 1)))
    return [material.draft(title, description, " ".join(lines[:3]), "testing", "repository")]


def _targets(run: TestRun, target: str, symbol: str) -> str:
    if "/" in target:
        return f"`{run.runner}` takes the path of a test file, so this one file can be run after every edit of `{symbol}`."
    if "." in target:
        return f"`{run.runner}` takes dotted names below the tests folder, not paths: `{symbol}` is covered by this one."
    return f"`{run.runner}` takes names below the tests folder, not paths; `{target}.` and a module name narrows it for `{symbol}`."


def _shorter(run: TestRun, target: str) -> str:
    return f"{run.runner.removeprefix('./')} {target}".strip()


def _older_failures(material: Material) -> str:
    """A note where the attempt saw failures that were there without its change."""
    found = material.found
    for event in found.tests:
        if event.result != "failed" or material.run is None or any(w in " ".join(event.part.words) for w in material.wrong):
            continue
        before = found.first_edit is None or event.step < found.first_edit
        undone = any(
            e.kind == "revert" and event.step - 3 <= e.step <= event.step and not any(e.step < x.step < event.step for x in found.edits)
            for e in found.events
        )
        if before or undone:
            targets = targets_of(event, found)
            if targets:
                return f"Some of the tests in `{targets[0]}` fail on the untouched code too: run them there first and compare."
    return ""


def pitfall(material: Material) -> list[ItemDraft]:
    """An environment error and its remedy, where there is no testing item to hold it."""
    if not material.pitfalls or material.run is not None or not material.main_path:
        return []
    trap = material.pitfalls[0]
    error = re.search(r"\w+(?:Error|NotReady|Configured|Exception)\b(?:: .*)?|No module named.*|.*not found", trap.error)
    title = f"A script of your own for {short_path(material.main_path, 1)}: {error[0] if error else trap.error}"
    description = f"A script that exercised `{material.main_path}` first failed with `{trap.error[:100].rstrip()}`."
    return [material.draft(title.replace("`", ""), description, f"The remedy: {lower_first(trap.solution)}", "environment", "repository")]
