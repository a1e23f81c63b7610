"""The rules extractor: what it says of a pass, of a failure, and of attempts with little in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_attempts import CAUSE, EDIT, FAIL_STEPS, FAILS, PASSES, PATCH, READ, REPRODUCE, SUMMARY, TESTS, TESTS_FAIL, made, step

from swe_memory.extract import RulesExtractor, validate
from swe_memory.extract.commands import parse
from swe_memory.extract.signals import signals
from swe_memory.records import Action, Attempt, ItemDraft, Step, Trajectory


def drafts(attempt: Attempt) -> tuple[ItemDraft, ...]:
    return RulesExtractor().extract(attempt).drafts


def of_kind(attempt: Attempt, kind: str) -> ItemDraft:
    found = [d for d in drafts(attempt) if d.kind == kind]
    assert found, [d.kind for d in drafts(attempt)]
    return found[0]


def test_a_pass_teaches_the_cause_in_the_agents_words_and_what_worked() -> None:
    draft = of_kind(made(), "strategy")
    assert "`count_boxes`" in draft.title and "missing None guard" in draft.title
    assert CAUSE.split("because")[1].strip() in draft.description
    assert "hidden boxes alone" in draft.content and "bin/test" in draft.content
    assert (draft.polarity, draft.reach) == ("success", "repository")


def test_a_pass_teaches_how_the_tests_are_run_and_which_runner_is_not_there() -> None:
    draft = of_kind(made(), "testing")
    assert "bin/test tests/test_shelf.py" in draft.description and "8 tests" in draft.description
    assert "`pytest` is not available" in draft.content


def test_a_general_lesson_holds_no_name_of_the_repository() -> None:
    draft = of_kind(made(), "fix-pattern")
    text = f"{draft.title} {draft.description} {draft.content}"
    assert "None guard" in text and "`TypeError`" in text
    assert not any(name in text for name in ("count_boxes", "shelf_count", "boxes/", "acme"))
    assert draft.reach == "general" and validate(draft, made()) == ()


def test_a_failure_tells_what_was_tried_and_that_no_existing_test_was_run() -> None:
    attempt = made(FAIL_STEPS, "unresolved")
    tried = of_kind(attempt, "attempt")
    assert "not enough" in tried.title and "only `count_boxes` in `boxes/shelf_count.py`" in tried.description
    sign = of_kind(attempt, "verification")
    assert "no existing tests" in sign.title and sign.reach == "general" and sign.polarity == "failure"


def test_a_failing_check_called_unrelated_is_named() -> None:
    waved = step("That failure seems unrelated to my change.", "git diff", "")
    sign = of_kind(made((REPRODUCE, FAILS, EDIT, PASSES, TESTS_FAIL, waved, SUMMARY), "unresolved"), "verification")
    assert "waved through" in sign.title


def test_an_edit_after_the_last_check_is_named() -> None:
    late = step("I will also tidy this up.", "sed -i '7d' boxes/shelf_count.py")
    sign = of_kind(made((REPRODUCE, FAILS, EDIT, TESTS, late, SUMMARY), "unresolved"), "verification")
    assert "edited after the last check" in sign.title


def test_a_test_run_that_skipped_everything_counts_as_no_check() -> None:
    skipped = step("Run the tests.", "bin/test tests/test_shelf.py", "ssss\nRan 4 tests in 0.1s\n\nOK (skipped=4)\n")
    tried = of_kind(made((REPRODUCE, FAILS, EDIT, PASSES, skipped, SUMMARY), "unresolved"), "attempt")
    assert "skipped every test" in tried.content and "does not cover" not in tried.content


def test_rewritten_expectations_are_named() -> None:
    patch = PATCH + (
        "diff --git a/tests/test_shelf.py b/tests/test_shelf.py\n--- a/tests/test_shelf.py\n+++ b/tests/test_shelf.py\n"
        "@@ -1,2 +1,2 @@\n import boxes\n-assert boxes.count(None) == 4\n+assert boxes.count(None) == 3\n"
    )
    bend = step("I will update the expectation.", "sed -i 's/4/3/' tests/test_shelf.py")
    sign = of_kind(made((REPRODUCE, FAILS, EDIT, TESTS_FAIL, bend, TESTS, SUMMARY), "unresolved", patch), "verification")
    assert "Expectations" in sign.title and "1 line of existing tests" in sign.content


def test_two_files_that_changed_together_are_told_with_their_functions() -> None:
    patch = PATCH + (
        "diff --git a/boxes/crate.py b/boxes/crate.py\n--- a/boxes/crate.py\n+++ b/boxes/crate.py\n"
        "@@ -1,3 +1,3 @@\n def crate_total(crate):\n-    return count_boxes(crate.shelf)\n+    return count_boxes(crate.shelf or crate)\n     # end\n"
    )
    draft = of_kind(made(patch=patch), "co-change")
    assert "boxes/crate.py" in draft.content and "`crate_total`" in draft.content and "`count_boxes`" in draft.content


def test_a_use_seen_in_a_search_and_left_alone_is_told() -> None:
    search = step(
        "Who uses it?",
        "grep -rn count_boxes boxes",
        "boxes/shelf_count.py:3:def count_boxes(shelf):\nboxes/truck.py:9:    n = count_boxes(shelf)\n",
    )
    tried = of_kind(made((search, *FAIL_STEPS), "unresolved"), "attempt")
    assert "boxes/truck.py" in tried.content and "left them as they were" in tried.content


@pytest.mark.parametrize("outcome", ["resolved", "unresolved"])
def test_an_odd_attempt_gives_less_but_never_raises(outcome: str) -> None:
    odd = [
        made((), outcome),  # type: ignore[arg-type]
        made((Step("", ()),), outcome, None),  # type: ignore[arg-type]
        made((Step("x" * 5000, (Action("cat <<'EOF' > a.py\nnever closed", "\x00\ud800", None),)),), outcome, ""),  # type: ignore[arg-type]
        made((Step("`" * 99, (Action("'\"'", "", 1),), "no command"),), outcome, "not a diff at all"),  # type: ignore[arg-type]
    ]
    for attempt in odd:
        assert len(drafts(attempt)) <= 3


def test_an_unknown_outcome_teaches_nothing() -> None:
    assert RulesExtractor().extract(made(outcome="unknown")).drafts == ()


def test_an_attempt_that_ran_out_after_a_change_says_when_the_change_came() -> None:
    draft = of_kind(made((REPRODUCE, FAILS, EDIT), "unresolved", status="LimitsExceeded"), "limits")
    assert "ran out" in draft.title and "call 3 of 3 calls" in draft.content


def test_edits_that_were_all_taken_back_are_told_by_file_and_reading_alone_is_not_called_editing() -> None:
    back = step("That does not help.", "git checkout boxes/shelf_count.py")
    tried = of_kind(made((FAILS, EDIT, FAILS, back, SUMMARY), "unresolved", ""), "attempt")
    assert "none held" in tried.title and "`boxes/shelf_count.py` 1" in tried.content
    idle = of_kind(made((FAILS, READ, READ, SUMMARY), "unresolved", ""), "attempt")
    assert "changed nothing" in idle.title and "edit" not in idle.title


def test_a_labelled_root_cause_and_fix_are_taken_from_an_agent_of_few_words() -> None:
    last = step(
        "Root cause: in Shelf.count, an absent content is measured (none-guard). Fix: return early when it is absent, in boxes/shelf_count.py.",
        "git diff",
    )
    draft = of_kind(made((REPRODUCE, FAILS, step("I try a guard.", "sed -i '5d' boxes/shelf_count.py"), PASSES, last)), "strategy")
    assert draft.description.startswith("In Shelf.count") and "return early" in draft.content


def test_one_return_code_for_two_checks_blames_the_tests_only_where_they_report() -> None:
    both = "python reproduce.py && bin/test tests/test_shelf.py"
    early = signals(
        made().issue, Trajectory((EDIT, step("x", both, "Traceback (most recent call last):\nTypeError: no\n", 1)), patch=PATCH)
    )
    late = signals(made().issue, Trajectory((EDIT, step("x", both, "0\nRan 8 tests in 1s\nFAILED (failures=1)\n", 1)), patch=PATCH))
    assert [e.result for e in early.checks] == ["failed", "unclear"] and early.broke_tests == ()
    assert [e.result for e in late.checks] == ["passed", "failed"] and len(late.broke_tests) == 1


def test_the_same_attempt_gives_the_same_drafts() -> None:
    assert RulesExtractor().extract(made()) == RulesExtractor().extract(made())


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("cat <<'EOF' > a.py\nit's && done\nEOF\npython a.py", ["edit", "run"]),
        ("cd tests && ./runtests.py forms_tests", ["test"]),
        ("PYTHONPATH=. timeout 60 python3 -W error -m pytest tests/x.py 2>&1 | tail -5", ["test", "other"]),
        ("sed -n '1,5p' a/b.py; sed -i 's/a>b/c/' a/b.py", ["read", "edit"]),
        ("grep -rn 'a | b' src || find . -name x.py", ["search", "search"]),
        ("git stash && git diff", ["revert", "git"]),
        ("# it's only a comment\nls", ["list"]),
        ("str_replace_editor view /repo/a.py", ["read"]),
        ("", []),
    ],
)
def test_commands_are_read_by_form(command: str, kinds: list[str]) -> None:
    assert [part.kind for part in parse(command)] == kinds


def test_a_script_that_writes_the_source_is_an_edit_and_one_that_prints_is_a_check() -> None:
    write = step("Patch it.", "cat <<'EOF' > fix.py\np = 'boxes/shelf_count.py'\nopen(p, 'w').write('x')\nEOF")
    found = signals(made().issue, Trajectory((REPRODUCE, FAILS, write, step("Go.", "python fix.py"), PASSES), patch=PATCH))
    assert [e.step for e in found.edits] == [3]
    assert [e.step for e in found.checks] == [1, 4]
    assert found.reproduced and [e.result for e in found.checks] == ["failed", "passed"]


def test_failures_of_tests_that_the_agent_wrote_itself_are_not_counted_as_broken() -> None:
    own = step("Add a test.", "cat <<'EOF' >> tests/test_shelf.py\ndef test_new(): ...\nEOF")
    found = signals(made().issue, made((REPRODUCE, FAILS, EDIT, own, TESTS_FAIL, TESTS, SUMMARY)).trajectory)
    assert found.broke_tests == () and len(found.tests) == 2


def test_real_attempts_give_valid_specific_items_without_lines_of_their_patches(shared: Path) -> None:
    from swe_memory.sources import read_attempt, scan

    attempts = [read_attempt(file) for file in scan(shared / "runs").attempts[::5]]
    found = [(attempt, draft) for attempt in attempts for draft in drafts(attempt)]
    assert len(found) > len(attempts)
    for attempt, draft in found:
        assert validate(draft, attempt) == ()
        text = " ".join(f"{draft.title} {draft.description} {draft.content}".split())
        lines = {" ".join(line[1:].split()) for line in (attempt.trajectory.patch or "").splitlines() if line[:1] in "+-"}
        assert not any(len(line) >= 40 and line in text for line in lines)
    contents = [draft.content for _, draft in found]
    assert len(set(contents)) >= 0.95 * len(contents)
