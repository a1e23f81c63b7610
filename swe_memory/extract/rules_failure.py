"""What a failing attempt teaches, by rules: what was tried and did not hold, and how one could have known earlier.

Only what the trajectory shows is claimed. Nobody knows here why the hidden tests failed, so an item says what was done and what was not.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ..patches import files, is_test_path
from ..records import ItemDraft
from .commands import clean_path
from .material import Material, listing, lower_first, plural, short_path
from .prose import tidy
from .rules_success import GOOD, done, example, pitfall, tests, titled
from .signals import thought_of
from .testing import all_skipped
from .validate import sentences

WIDE_FILES = 4
WIDE_LINES = 60
LOOP = 4
_SET_ASIDE = re.compile(
    r"\b(?:only (?:mentions?|mentioned|complained|asks?|asked|about)|not (?:mentioned|required|part of|necessary|"
    r"needed)|out of scope|acceptable|should be fine|"
    r"(?:is|it's|that's|this is) fine\b|good enough|unlikely|safe to ignore|doesn't matter|shouldn't matter|"
    r"don't need to|no need to|existing behaviou?r|for now)\b",
    re.IGNORECASE,
)
_GUESS = re.compile(r"\b(?:might|maybe|perhaps|probably|possibly|weird|wonder|hmm|wait)\b", re.IGNORECASE)
_NOT_A_DOUBT = re.compile(
    r"\b(?:I|my|let's|script|instructions?|submit|PR|temporary|indentation|tests?|style|import\w*|above|output|duplicate|comment)\b"
)


@dataclass(frozen=True, slots=True)
class _Sign:
    """One way to see that something was off: what it is called, what happened, how to know earlier. A ``rare`` one is worth telling without an example."""

    title: str
    description: str
    happened: str
    advice: str
    kind: str
    rare: bool = False


def failure_drafts(material: Material) -> list[ItemDraft]:
    """Drafts in the order of their worth; the caller keeps the first three that are valid."""
    if not material.sources:
        return [*_nothing_kept(material), *pitfall(material)]
    return [*_tried(material), *_diagnosis(material), *tests(material), *pitfall(material)]


def _nothing_kept(material: Material) -> list[ItemDraft]:
    """An attempt that ended without a change of source: where it tried, or at least looked. (No sample among the attempts read for these rules.)"""
    found = material.found
    calls = plural(len(found.trajectory.steps), "call")
    places = Counter(p for e in found.tried for p in e.part.paths if "/" in p and p not in found.scratch and not is_test_path(p))
    still = f" The reproduction went on failing with `{material.symptom}`." if material.symptom else ""
    if places:
        names = [p for p, _ in places.most_common(3)]
        return [
            material.draft(
                f"Edits of {short_path(names[0], 2)} were tried and none held",
                f"An attempt made {plural(len(found.tried), 'edit')} in {calls}, most of them in {listing(names, 3)}, and submitted none.",
                f"Edits by file: {', '.join(f'`{p}` {n}' for p, n in places.most_common(4))}.{still} "
                "The fault may lie in another file, or need a kind of change that was not among them.",
                "attempt",
                "repository",
            )
        ]
    read = Counter(p for e in found.events if e.kind in {"read", "search"} for p in e.part.paths if "." in p.rsplit("/", 1)[-1])
    if not read:
        return []
    names = [p for p, _ in read.most_common(4)]
    return [
        material.draft(
            f"An attempt read {short_path(names[0], 2)} and changed nothing",
            f"An attempt ended after {calls} without an edit of any source file.",
            f"It looked most into {listing(names, 4)}.{still} Make a first small change early and check it: what it does tells more than one more reading.",
            "attempt",
            "repository",
        )
    ]


def plain(material: Material) -> list[ItemDraft]:
    """For an attempt that shows too little for anything else: the change that was not enough, where the patch or its agent tells it in few words."""
    return _tried(material, bare=True)


def _tried(material: Material, bare: bool = False) -> list[ItemDraft]:
    """What was changed, what was believed, and what was seen but left alone: two things of that, or with ``bare`` one and what the change did."""
    if not material.main_path:
        return []
    shape = material.shape.name if material.shape is not None else ""
    symbol = material.main_symbol or short_path(material.main_path, 1)
    title = titled(symbol, material.main_path, f"{shape} was not enough" if shape else "a change that was not enough")
    others = [p for p in material.sources if p != material.main_path]
    if others:
        scope = f"{material.place} and {listing(others, 2)}"
    else:
        names = material.symbols.get(material.main_path, ())
        known = material.main is not None and bool(material.main.function) and len(names) == 1
        scope = f"only {material.place}" if known else (f"{listing(names, 3)} in `{material.main_path}`" if names else material.place)
    did = done(material)
    description = f"An attempt that changed {scope} did not resolve its issue" + (f": {lower_first(did)}" if did else ".")
    description = description.replace("changed only the new ", "added only ").replace("changed the new ", "added ")
    fits = len(description) <= 300 and len(sentences(description)) <= 1
    if not fits:
        description = f"An attempt that changed {scope} did not resolve its issue."
        description = description.replace("changed only the new ", "added only ").replace("changed the new ", "added ")
    lines = []
    believed = next((s for s in material.causes if s.score >= GOOD), None)
    if believed is not None:
        lines.append(f"It took this for the cause: {lower_first(believed.text)}")
    left = left_alone(material)
    doubt = set_aside(material)
    if left:
        lines.append(f"It saw {listing(left[1], 3)} use `{left[0]}` too and left them as they were.")
    if doubt:
        lines.append(f"It set this aside: {lower_first(doubt)}")
    read = [p for p in material.trail if p not in material.sources]
    if not left and read and len(lines) < 2:
        lines.append(f"It read {listing(read, 3)} on the way and changed nothing there.")
    if len(lines) < 3:
        passed = [e for e in material.found.tests_after_last_edit if e.result == "passed"]
        if passed and all(all_skipped(e, material.found) for e in passed):
            lines.append(f"`{' '.join(passed[-1].part.words)[:80]}` skipped every test, so nothing but own scripts checked it.")
        elif passed and material.run is not None:
            lines.append(f"`{material.run.command}` passed all the same, so it does not cover what was missing.")
        elif not material.found.tests:
            lines += ["No existing test was run; only scripts written for the change were."] if material.found.checks else []
        elif material.found.tests[-1].result == "failed":
            lines.append(f"The last run of existing tests (`{' '.join(material.found.tests[-1].part.words)[:80]}`) still failed.")
    if len(lines) < (1 if bare and did and fits else 2) and believed is None:
        return []
    return [material.draft(title, description, " ".join(lines[:3]), "attempt", "repository")]


def left_alone(material: Material) -> tuple[str, tuple[str, ...]] | None:
    """An edited function's name and the other source files that a search showed to use it and the patch did not touch."""
    for path, symbols in material.symbols.items():
        for symbol in symbols:
            name = symbol.rsplit(".", 1)[-1]
            if len(name) < 6 or name.startswith("__"):
                continue
            seen: list[str] = []
            for event in material.found.events:
                if event.kind != "search" or name not in event.part.text:
                    continue
                for action in material.found.trajectory.steps[event.step].actions:
                    pattern = rf"^\s*([\w./-]+\.(?:py|js|ts|c|h|go|rs|java))[:-].*\b{re.escape(name)}\b"
                    seen += re.findall(pattern, action.output[:20_000], re.MULTILINE)
            others = dict.fromkeys(clean_path(f) for f in seen)
            kept = tuple(
                f
                for f in others
                if "/" in f and f != path and f not in material.found.paths and not is_test_path(f) and f not in material.found.scratch
            )
            if kept:
                return name, kept
    return None


def set_aside(material: Material) -> str:
    """A sentence, from the first edit on, that waves a doubt through; "" where there is none worth keeping."""
    found = material.found
    best = ""
    for step in found.trajectory.steps[found.first_edit or 0 :]:
        for line in thought_of(step.thought).splitlines():
            for raw in sentences(line.strip()):
                text = tidy(raw)
                if not 50 <= len(text) <= 220 or not _SET_ASIDE.search(text) or text.count("`") % 2 or "?" in text or text[0] in "\">'-":
                    continue
                if _NOT_A_DOUBT.search(text) or _GUESS.search(text) or re.match(r"(?:This|It|That|So|If)\b", text):
                    continue
                if "`" in text and len(text) > len(best):
                    best = text
    return best


def _diagnosis(material: Material) -> list[ItemDraft]:
    """The strongest sign in the attempt that something was off, in general words, with its figures."""
    sign = _sign(material)
    believed = example(material, GOOD)
    if sign is None or not (believed or sign.rare):
        return []
    middle = f" It rested on this: {lower_first(believed)}" if believed else ""
    title = f"{sign.title} (`{material.symptom}`)" if material.symptom and len(sign.title) < 60 else sign.title
    return [material.draft(title, sign.description, f"{sign.happened}{middle} {sign.advice}", sign.kind, "general")]


def _sign(material: Material) -> _Sign | None:
    found = material.found
    size = f"{plural(material.changed_lines, 'changed line')} in {plural(len(material.sources), 'source file')}"
    shape = material.shape
    change = f"The change ({size}" + (f", {shape.name})" if shape is not None else ")")
    if found.waived and found.tests and found.tests[-1].result == "failed":
        return _Sign(
            "A failing check was waved through as unrelated",
            "The last run of existing tests failed, and the failure was called unrelated.",
            f"{change} was submitted with that failure in place.",
            "Run the same tests on the untouched code: only a failure that is there too is unrelated.",
            "verification",
            rare=True,
        )
    rewritten = _rewritten(material)
    if rewritten:
        return _Sign(
            "Expectations of existing tests were rewritten",
            "Existing tests failed after the change, and their expectations were edited instead of the change.",
            f"{change} broke {plural(len(found.broke_tests), 'test run')}, and {plural(rewritten, 'line')} of existing tests gave way to it.",
            "An existing test that fails shows behaviour that must stay: narrow the change until the old expectations hold, and only then add new ones.",
            "verification",
            rare=True,
        )
    if not found.checks_after_last_edit and not _cosmetic(material):
        return _Sign(
            "The source was edited after the last check",
            "The source was edited once more after the last run of anything.",
            f"{change} was submitted without a run after edit number {len(found.edits)}.",
            "Repeat the reproduction and the nearest tests after every edit, also after a small one.",
            "verification",
        )
    if not found.tests:
        own = sum(e.result == "passed" and e.step >= (found.first_edit or 0) for e in found.checks)
        return _Sign(
            "Only own scripts were run, no existing tests",
            "The fix was checked with own scripts alone; the repository's tests were not run once.",
            f"{change} passed {plural(own, 'run')} of scripts that were written for it.",
            "Own scripts repeat one's own reading of the issue: run the tests of the edited file too, and read them for cases that the issue leaves out.",
            "verification",
        )
    if found.broke_tests and found.tests[-1].result == "passed" and len(found.edits) > 1:
        return _Sign(
            "Patched until the tests passed",
            "Existing tests failed after the first version, and the change was bent until they passed.",
            f"{change} took {plural(len(found.edits), 'edit')} to satisfy {plural(len(found.broke_tests), 'failing test run')}.",
            "When the first version breaks tests, go back to the cause before adding an exception: the place may be wrong.",
            "verification",
        )
    if len(material.sources) >= WIDE_FILES or material.changed_lines >= WIDE_LINES:
        return _Sign(
            "A wide change missed the point",
            "The change was wide, and the issue was still not resolved.",
            f"{change} went through {plural(len(found.edits), 'edit')}.",
            "Before it grows past a few dozen lines, write down which of its parts the reproduction "
            "needs and look for an existing mechanism that does the rest.",
            "scope",
        )
    if found.repeated >= LOOP:
        return _Sign(
            "The same command again and again",
            "One command was repeated without a change in between.",
            f"It was given {found.repeated} times in {plural(len(found.trajectory.steps), 'call')}.",
            "At the second time, write down what was expected and what came, and look at the place where they part.",
            "loop",
        )
    if shape is not None:
        return _Sign(
            f"{shape.name[0].upper() + shape.name[1:]} alone did not hold",
            f"A small fix by {shape.name} passed every check of the attempt and was still wrong.",
            f"{change} passed {plural(len(found.checks_after_last_edit), 'run')} after its last edit, existing tests among them.",
            f"Before stopping at such a fix, {shape.check}, and look for a second place that needs the same.",
            "scope",
        )
    return None


def _rewritten(material: Material) -> int:
    """How many existing lines of test files the patch removed or replaced, where existing tests had failed before; 0 otherwise."""
    found = material.found
    if not found.edited_tests or not found.broke_tests:
        return 0
    return sum(
        bool(line.strip()) for file in files(found.patch) if file.path in found.edited_tests for hunk in file.hunks for line in hunk.removed
    )


def _cosmetic(material: Material) -> bool:
    """Whether the last edit only took debug output out."""
    return any(re.search(r"debug|print", event.part.text, re.IGNORECASE) for event in material.found.edits[-1:])
