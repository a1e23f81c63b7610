"""One attempt, explained as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from harness.looking import usage_words
from harness.statistics.estimates import count

WIDTH = 110
_FIRST_LINES = 8
_MOST_ROWS = 20


def explain_text(found: Mapping[str, Any]) -> str:
    """The values of :func:`harness.explain.explain_attempt` in sections."""
    issue = found["issue"]
    lines = [f"{found['attempt']} of the run {found['run']}: {found['state']}"]
    created = f", created {issue['created_at']}" if issue["created_at"] else ""
    lines += ["", "Issue", f"  {issue['id']} in {issue['repository']}{created}"]
    if issue["text"]:
        shown = issue["text"].strip().splitlines()
        lines += [f"  | {line[: WIDTH - 4]}" for line in shown[:_FIRST_LINES]]
        lines += [f"  | ... {_more(shown, _FIRST_LINES, 'line')}"] if len(shown) > _FIRST_LINES else []
    else:
        lines.append(
            "  its text is not in the run folder: nothing of the attempt was stored, and the dataset is a file that lies elsewhere"
        )
    lines += ["", "What memory gave", *_indented(_given(found))]
    lines += ["", "What the agent did", *_indented(_work(found))]
    lines += ["", "Patch", *_indented(_patch(found))]
    lines += ["", "Grade and verdict", *_indented(_grade(found))]
    lines += ["", "What was learned from it", *_indented(_learned(found))]
    width = max(len(file["what"]) for file in found["files"])
    lines += ["", "Files", *(f"  {f['what'].ljust(width)}  {f['path']}{'' if f['there'] else '  (not there)'}" for f in found["files"])]
    problems = found["problems"]
    lines += ["", *(f"warning: {problem}" for problem in problems[:_MOST_ROWS])] if problems else []
    lines += [f"warning: ... and {_more(problems, _MOST_ROWS, 'problem')} (--json lists all)"] if len(problems) > _MOST_ROWS else []
    return "\n".join(lines)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _wrapped(text: str, indent: str) -> list[str]:
    flat = " ".join(text.split())
    return textwrap.wrap(flat, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False) or [indent.rstrip()]


def _more(all_of_them: Sequence[object], shown: int, what: str) -> str:
    """ "1 more line", "2 more lines": what is left where ``shown`` of them were."""
    return count(len(all_of_them) - shown, f"more {what}", f"more {what}s")


def _characters(number: int) -> str:
    return count(number, "character", "characters")


def _given(found: Mapping[str, Any]) -> list[str]:
    given = found["given"]
    if given is None:
        return ["nothing: the arm has no memory" if found["kind"] in ("none", "gold") else "nothing yet: the attempt was not begun"]
    lines = [
        f"from bank {given['bank'] or '(not named)'} at version {given['bank_version']}; {given['settings'] or 'settings not recorded'}"
    ]
    if given["control"]:
        lines.append(f"control: {given['control']}; the text stands where memory gave an item, and is not what was recalled for this issue")
    score = "" if given["score"] is None else f", score {given['score']:.4f}"
    if not given["items"]:
        lines.append("no item" + (f", {_characters(given['characters'])} of text" if given["characters"] else " and no text"))
    else:
        length = "" if given["characters"] is None else f", {_characters(given['characters'])} of text"
        lines.append(f"{count(len(given['items']), 'item', 'items')}{score}{length}")
    lines += [f"because: {reason}" for reason in given["reasons"]]
    for item in given["items"]:
        kind = ", ".join(part for part in (item["kind"], item["polarity"], item["reach"]) if part)
        lines += [f"item {item['id']}: {item['title'] or '(title not known)'}", f"  {kind or 'its text is not to be had'}"]
        lines += [line for part in (item["description"], item["content"]) if part for line in _wrapped(part, "  ")]
        teacher = item["attempt"] or "attempt not known"
        lines.append(
            f"  learned from {item['learned_from'] or '(issue not known)'} ({teacher}), {item['outcome'] or 'outcome not known'}, "
            f"verdict by {item['verdict_source'] or 'whom is not known'}" + (f", {item['extractor']}" if item["extractor"] else "")
        )
    if given["prompt"] and not given["items"]:
        shown = given["prompt"].splitlines()
        lines += ["the text:", *(f"  | {line[: WIDTH - 6]}" for line in shown[:_FIRST_LINES])]
        lines += [f"  | ... {_more(shown, _FIRST_LINES, 'line')}"] if len(shown) > _FIRST_LINES else []
    return lines


def _work(found: Mapping[str, Any]) -> list[str]:
    work = found["work"]
    if not work["tries"]:
        return ["it was not begun"]
    lines = []
    if work["exit_status"] is not None:
        calls = "calls not known" if work["calls"] is None else count(work["calls"], "call", "calls")
        actions = "actions not known" if work["actions"] is None else count(work["actions"], "action", "actions")
        seconds = "" if work["seconds"] is None else f", {work['seconds']} s"
        cost = "cost not known" if work["cost"] is None else f"cost ${work['cost']:.4f} as the agent says"
        lines.append(f"exit status {work['exit_status'] or '(none)'}; {calls}, {actions}{seconds}; {cost}")
        lines.append(f"limit hit: {work['limit'] or 'none'}")
    for number, one in enumerate(work["tries"], 1):
        reason = f" ({one['reason'].splitlines()[0]})" if one["reason"] else ""
        lines.append(f"try {number} of {len(work['tries'])}, begun {one['began'] or 'when is not known'}: {one['ended']}{reason}")
        lines.append(f"  its agent used {usage_words(one['usage'])}")
    lines += [f"used by {role} in all: {usage_words(used)}" for role, used in work["usage"].items()]
    if work["wasted"]["tries"]:
        lines.append(f"of it wasted: {usage_words(work['wasted'])}")
    lines += [f"infra failure: {reason.splitlines()[0] if reason else '(no reason)'}" for reason in work["infra_failures"]]
    return [*lines, *(f"note: {note}" for note in work["notes"])]


def _patch(found: Mapping[str, Any]) -> list[str]:
    patch = found["patch"]
    if patch is None:
        return ["the reference patch of the dataset" if found["kind"] == "gold" else "none is stored"]
    if not patch["characters"]:
        return ["empty: nothing was changed"]
    lines = [f"{patch['file']}, {_characters(patch['characters'])}, sha256 {patch['sha256'][:12]}"]
    for file in patch["changed"][:_MOST_ROWS]:
        what = " (new)" if file["created"] else " (removed)" if file["deleted"] else ""
        lines.append(f"{file['path']}  +{file['added']} -{file['removed']}{what}")
    more = len(patch["changed"]) > _MOST_ROWS
    return [*lines, f"... and {_more(patch['changed'], _MOST_ROWS, 'file')}"] if more else lines


def _grade(found: Mapping[str, Any]) -> list[str]:
    grade, verdict = found["grade"], found["verdict"]
    if grade is None:
        return ["it is not graded"]
    flags = f"; flags: {', '.join(grade['flags'])}" if grade["flags"] else ""
    lines = [f"hidden tests: {'resolved' if grade['resolved'] else 'not resolved'} ({grade['outcome']}): {grade['reason']}{flags}"]
    if verdict is None:
        return [*lines, "verdict: none was asked for, since nothing learns from it"]
    sure = "" if verdict["confidence"] is None else f", confidence {verdict['confidence']:.2f}"
    by = f"{verdict['source']}{' ' + verdict['model'] if verdict['model'] else ''}"
    lines.append(f"verdict, which memory would learn from: {verdict['outcome']}, by {by}{sure}{':' if verdict['reason'] else ''}")
    return [*lines, *(_wrapped(verdict["reason"], "  ") if verdict["reason"] else [])]


def _learned(found: Mapping[str, Any]) -> list[str]:
    if not found["learned"]:
        return ["nothing: no bank of this run learns from attempts of this arm and stream"]
    lines = []
    for lesson in found["learned"]:
        if not lesson["items"]:
            lines.append(f"bank {lesson['bank']}: nothing; {lesson['why']}")
            continue
        refused = [f"{lesson[name]} {name}" for name in ("quarantined", "rejected") if lesson.get(name)]
        lines.append(f"bank {lesson['bank']}, version {lesson['bank_version']}" + (f" ({', '.join(refused)})" if refused else ""))
        for item in lesson["items"]:
            lines.append(f"  item {item['id']}: {item['title']} ({', '.join(part for part in (item['polarity'], item['reach']) if part)})")
            uses = item["given_to"]
            lines += [f"    given to {use['attempt']}{_use(use)}" for use in uses[:_MOST_ROWS]] or ["    given to no attempt"]
            lines += [f"    ... and {len(uses) - _MOST_ROWS} more"] if len(uses) > _MOST_ROWS else []
    return lines


def _use(use: Mapping[str, Any]) -> str:
    outcome = {True: "resolved", False: "not resolved", None: "not graded"}[use["resolved"]]
    return f" by the control {use['control']}: {outcome}" if use["control"] else f": {outcome}"
