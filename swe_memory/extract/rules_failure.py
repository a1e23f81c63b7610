"""What a failing attempt teaches, by rules: what was tried and did not hold, and how one could have known earlier.

Only what the trajectory shows is claimed. Nobody knows here why the hidden tests failed, so an item says what was done and what was not.
"""

from __future__ import annotations

import re

from ..patches import files, is_test_path
from ..records import ItemDraft
from .commands import clean_path
from .material import Material, listing, lower_first, plural, short_path
from .prose import tidy
from .rules_success import pitfall, tests
from .signals import thought_of
from .validate import sentences

WIDE_FILES = 4
WIDE_LINES = 60
LOOP = 4
_SET_ASIDE = re.compile(
    r"\b(?:only (?:mentions?|mentioned|complained|asks?|asked|about)|not (?:mentioned|required|part of|necessary|needed)|out of scope|acceptable|should be fine|"
    r"(?:is|it's|that's|this is) fine\b|good enough|unlikely|safe to ignore|doesn't matter|shouldn't matter|don't need to|no need to|edge case|existing behaviou?r|for now)\b",
    re.IGNORECASE,
)


def failure_drafts(material: Material) -> list[ItemDraft]:
    """Drafts in the order of their worth; the caller keeps the first three that are valid."""
    return [*_tried(material), *_diagnosis(material), *tests(material), *pitfall(material)]


def _tried(material: Material) -> list[ItemDraft]:
    """What was changed, what was believed, and what was seen but left alone."""
    if not material.main_path:
        return []
    shape = material.shapes[0].name if material.shapes else ""
    symbol = material.main_symbol or short_path(material.main_path, 1)
    title = f"`{symbol}` ({short_path(material.main_path, 2)}): {shape or 'the change tried here'} was not enough"
    others = [p for p in material.found.sources if p != material.main_path]
    scope = f"{material.place} and {listing(others, 2)}" if others else f"only {material.place}"
    description = f"An attempt that changed {scope}" + (f" by {shape}" if shape else "") + " did not resolve its issue."
    lines = []
    believed = next((s for s in material.causes if s.score >= 5.0), None)
    fix = next((s for s in material.fixes if s.score >= 5.0), None)
    if believed is not None:
        lines.append(f"It took this to be the cause: {lower_first(believed.text)}")
    elif fix is not None:
        lines.append(f"What it did: {lower_first(fix.text)}")
    left = left_alone(material)
    doubt = set_aside(material)
    if left:
        lines.append(f"It saw {listing(left[1], 3)} use `{left[0]}` too and left them as they were: look there next.")
    if doubt:
        lines.append(f"It set this aside: {lower_first(doubt)}")
    if not left and not doubt and fix is not None and believed is not None:
        lines.append(f"What it did: {lower_first(fix.text)}")
    if not lines:
        return []
    if len(lines) < 3 and not left:
        lines.append(f"Take that as ruled out and look at the callers of `{symbol}` and its siblings before you repeat it.")
    return [material.draft(title, description, " ".join(lines[:3]), "attempt", "repository")]


def left_alone(material: Material) -> tuple[str, tuple[str, ...]] | None:
    """An edited function's name and the other source files that a search showed to use it and the patch did not touch."""
    for path, symbols in material.symbols.items():
        for symbol in symbols:
            name = symbol.rsplit(".", 1)[-1]
            if len(name) < 6 or name.startswith("__"):
                continue
            files_seen: list[str] = []
            for event in material.found.events:
                if event.kind != "search" or name not in event.part.text:
                    continue
                for action in material.found.trajectory.steps[event.step].actions:
                    files_seen += re.findall(
                        rf"^\s*([\w./-]+\.(?:py|js|ts|c|h|go|rs|java))[:-].*\b{re.escape(name)}\b", action.output[:20_000], re.MULTILINE
                    )
            others = [clean_path(f) for f in files_seen]
            kept = tuple(
                f
                for f in dict.fromkeys(others)
                if f not in material.found.paths and not is_test_path(f) and "/" in f and f != path and f not in material.found.scratch
            )
            if kept:
                return name, kept
    return None


def set_aside(material: Material) -> str:
    """A sentence, from the first edit on, that waves a doubt through; "" where there is none worth keeping."""
    found = material.found
    first = found.first_edit or 0
    best = ""
    for number, step in enumerate(found.trajectory.steps):
        if number < first:
            continue
        for line in thought_of(step.thought).splitlines():
            for raw in sentences(line.strip()):
                text = tidy(raw)
                if not 50 <= len(text) <= 220 or not _SET_ASIDE.search(text) or text.count("`") % 2 or "?" in text or text[0] in "\">'-":
                    continue
                if re.search(
                    r"\b(?:I|my|let's|script|instructions?|submit|PR|temporary|indentation|tests?|style|import\w*|above|output)\b", text
                ) or re.match(r"(?:This|It|That|So)\b", text):
                    continue
                if len(re.findall(r"`[^`]+`", text)) and len(text) > len(best):
                    best = text
    return best


def _diagnosis(material: Material) -> list[ItemDraft]:
    """The strongest sign in the attempt that something was off, in general words, with its figures."""
    found = material.found
    shape = material.shapes[0] if material.shapes else None
    own = sum(e.own for e in found.checks_after_last_edit)
    size = f"{plural(found.changed_lines, 'changed line')} in {plural(len(found.sources), 'source file')}"
    change = f"A change of {size}" + (f" ({shape.name})" if shape else "")
    believed = next((g for g in (material.general(s.text) for s in material.causes[:5] if s.score >= 6.0) if g), "")
    example = f" It rested on this: {lower_first(believed)}" if believed else ""
    symptom = f" for a `{material.symptom}`" if material.symptom else ""
    check = f" {shape.check[0].upper() + shape.check[1:]}." if shape else ""

    if not found.sources:
        return [material.draft("Submitting without a change of source", "The attempt ended with no change of any source file.",
                               f"After {plural(len(found.trajectory.steps), 'call')} nothing was submitted that could resolve the issue. Set a point, a third of the way, by which a first change is in place.", "scope", "general")]  # fmt: skip
    if found.waived and found.tests and found.tests[-1].result == "failed":
        return [material.draft(f"A failing check waved through as unrelated{symptom}", "The last run of existing tests failed, and the failure was called unrelated.",
                               f"{change} was submitted with that failure in place.{example} Run the same tests on the untouched code first: only a failure that is there too is unrelated.", "verification", "general")]  # fmt: skip
    changed = _expectations(material)
    if changed:
        return [material.draft(f"Existing expectations were changed to make tests pass{symptom}", "Existing tests failed after the change, and their expectations were edited instead of the change.",
                               f"{change} broke existing tests, and {plural(changed, 'expected line')} in them were then rewritten.{example} An existing test that fails shows behaviour that must stay: narrow the change until the old expectations hold, and only then add new ones.", "verification", "general")]  # fmt: skip
    if not found.checks_after_last_edit and not _cosmetic(material):
        return [material.draft(f"Edited after the last check{symptom}", "The source was edited once more after the last run of anything.",
                               f"{change} was submitted without a run after its last edit.{example} Repeat the reproduction and the nearest tests after every edit, also a small one.", "verification", "general")]  # fmt: skip
    if not found.tests:
        return [material.draft(f"Only own scripts were run, no existing tests{symptom}", "The fix was checked with own scripts alone; the repository's tests were not run once.",
                               f"{change} passed {plural(own, 'run')} of scripts written for it and was still wrong.{example} Own scripts repeat one's own reading of the issue: also run the existing tests of the edited file, and read them for cases that the issue does not mention.{''}", "verification", "general")]  # fmt: skip
    if found.broke_tests and found.tests[-1].result == "passed" and len(found.edits) > 1:
        return [material.draft(f"Patched until the tests passed{symptom}", "Existing tests failed after the first version, and the change was then bent until they passed.",
                               f"{change} grew over {plural(len(found.edits), 'edit')} to satisfy {plural(len(found.broke_tests), 'failing run')}.{example} When the first version breaks tests, go back to the cause instead of adding an exception: the place may be wrong.", "verification", "general")]  # fmt: skip
    if len(found.sources) >= WIDE_FILES or found.changed_lines >= WIDE_LINES:
        return [material.draft("A wide change missed the point", "The change was wide, and the issue was still not resolved.",
                               f"{change} went through {plural(len(found.edits), 'edit')}.{example} Before it grows past a few dozen lines, write down which of its parts the reproduction needs, and look for the existing mechanism that does the rest.", "scope", "general")]  # fmt: skip
    if found.repeated >= LOOP:
        return [material.draft("The same command again and again", "One command was repeated without a change in between.",
                               f"It was given {found.repeated} times in {plural(len(found.trajectory.steps), 'call')}.{example} At the second time, write down what was expected and what came, and look at the place where they part.", "loop", "general")]  # fmt: skip
    if shape is not None and (believed or material.symptom):
        return [material.draft(f"{'`' + material.symptom + '`: ' if material.symptom else ''}{shape.name} alone did not hold", f"A small fix by {shape.name} passed every check of the attempt and was still wrong.",
                               f"{change} passed {plural(own, 'own run')} and {plural(len(found.tests_after_last_edit), 'test run')}.{example} Before you stop there:{check or ' look for a second place.'}".replace(": Try", ": try").replace(": Call", ": call"), "scope", "general")]  # fmt: skip
    return []


def _expectations(material: Material) -> int:
    """How many existing lines of test files the patch removed or replaced, where existing tests had failed before; 0 otherwise."""
    found = material.found
    if not found.edited_tests or not found.broke_tests:
        return 0
    return sum(
        bool(line.strip()) for file in files(found.patch) if file.path in found.edited_tests for hunk in file.hunks for line in hunk.removed
    )


def _cosmetic(material: Material) -> bool:
    """Whether the last edits only took debug output out."""
    last = material.found.edits[-1:] or ()
    return any(re.search(r"debug|print", event.part.text, re.IGNORECASE) for event in last)
