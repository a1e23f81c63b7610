"""The rules extractor: what it says of a pass, of a failure, and of attempts with little in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_attempts import CAUSE, EDIT, FAIL_STEPS, FAILS, PASSES, PATCH, READ, REPRODUCE, SUMMARY, TESTS, TESTS_FAIL, made, step

from swe_memory.extract import RulesExtractor, validate
from swe_memory.extract.catalogue import shape_of
from swe_memory.extract.commands import parse
from swe_memory.extract.material import Material
from swe_memory.extract.rules_success import shown
from swe_memory.extract.shapes import Hunk
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


def patch_of(section: str, *lines: str, path: str = "boxes/shelf_count.py", start: int = 30) -> str:
    """A patch of one hunk."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{start},9 +{start},9 @@ {section}\n" + "\n".join(lines) + "\n"


def material_of(patch: str, *steps: Step) -> Material:
    return Material(made((*steps, EDIT), patch=patch))


GUARD = ("     content = shelf.content", "-    return len(content)", "+    return len(content or ())", "     # end")


@pytest.mark.parametrize(
    "noise",
    [
        ("+    print('content', shelf)",),
        ("+    print(", "+        shelf,", "+    )"),
        ("+    logger.debug('seen %s', shelf)",),
        ("+    # look at this later", "+    breakpoint()"),
        ("-    # an old remark", "+    # a new remark"),
    ],
)
def test_debug_output_and_comments_are_not_taken_for_the_change(noise: tuple[str, ...]) -> None:
    stray = patch_of("def crate_total(crate):", "     a = crate", *noise, *noise, *noise, "     b = a", path="boxes/crate.py")
    found = material_of(stray + patch_of("def count_boxes(shelf):", *GUARD))
    assert found.main_path == "boxes/shelf_count.py" and found.main_symbol == "count_boxes"
    assert found.sources == ("boxes/shelf_count.py",) and found.changed_lines == 2
    assert not [d for d in drafts(made(patch=found.found.patch)) if d.kind == "co-change"]


def test_a_patch_of_nothing_but_prints_is_still_a_change() -> None:
    assert material_of(patch_of("def show(shelf):", "     a = shelf", "+    print(shelf)")).main_symbol == "show"


METHODS = "class Shelf:\n    def talked_about(self):\n        return 1\n\n    def count(self):\n        content = self.content\n        return len(content)\n"
CHANGE = ("         content = self.content", "-        return len(content)", "+        return len(content or ())")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat boxes/shelf_count.py", METHODS),
        ("cat -n boxes/shelf_count.py", "".join(f"{i:6}\t{line}\n" for i, line in enumerate(METHODS.splitlines(), 1))),
        ("sed -n '1,7p' boxes/shelf_count.py", METHODS),
        (
            "grep -n -A 2 'def count' boxes/shelf_count.py",
            "5:    def count(self):\n6-        content = self.content\n7-        return len(content)\n",
        ),
    ],
)
def test_the_function_of_a_hunk_that_names_only_the_class_is_looked_up_in_what_was_read(command: str, output: str) -> None:
    talk = step("talked_about talked_about talked_about talked_about", command, output)
    assert material_of(patch_of("class Shelf:", *CHANGE, start=6), talk).main_symbol == "count"


def test_a_function_that_no_listing_shows_is_not_guessed() -> None:
    talk = step("count count count count", "grep -n 'def ' boxes/shelf_count.py", "5:    def talked_about(self):\n9:    def count(self):\n")
    found = material_of(patch_of("class Shelf:", *CHANGE, start=60), talk)
    assert found.main_symbol == "Shelf"
    tried = of_kind(made((talk, *FAIL_STEPS), "unresolved", found.found.patch), "attempt")
    assert "only" not in tried.description and "`Shelf`" in tried.description


def test_a_helper_that_the_patch_brings_stands_for_the_function_around_it_and_is_not_taken_into_account() -> None:
    lines = ("     content = shelf.content", "+", "+    def _safe_len(a):", "+        return len(a or ())", "+", "-    return len(content)")
    found = material_of(patch_of("def count_boxes(shelf):", *lines, "+    return _safe_len(content)"))
    assert found.main_symbol == "count_boxes" and "_safe_len" not in found.delta[1]


def test_a_method_that_the_patch_brings_is_called_added() -> None:
    lines = ("         return 1", " ", "+    def get_height(self):", "+        return self.height", "+", "     def other(self):")
    found = material_of(patch_of("def count(self):", *lines))
    assert found.main_symbol == "get_height" and found.added == {"get_height"}
    assert shown(found).startswith("Added `get_height`")


def test_a_name_that_stood_there_before_is_not_said_to_be_taken_into_account() -> None:
    read = step(
        "Look.", "cat boxes/shelf_count.py", "def count(shelf):\n    use(shelf.old_rule)\n    a = 1\n    return a\n\n\ndef b():\n    pass\n"
    )
    lines = ("     a = 1", "-    return a", "+    return a + shelf.old_rule + shelf.new_rule", " ")
    found = material_of(patch_of("def count(shelf):", *lines, start=3), read)
    assert found.delta[1] == ("shelf.new_rule",)
    assert shown(material_of(patch_of("def count(shelf):", "     use(shelf.old_rule)", "+    again(shelf.old_rule)"))) == ""


@pytest.mark.parametrize(
    ("removed", "added", "name"),
    [
        (
            ["if index is not None:"],
            ["if index is not None and len(index) == len(rows):"],
            "adding a missing check for emptiness or length",
        ),
        (["return a.size_of"], ["if a is None:", "    return 0", "return a.size_of"], "adding a missing None guard"),
        (["if not self.names:"], ["if self.names is None:"], "asking for None instead of falsehood"),
        (["return a"], ["if not a.is_zero:", "    return a"], "adding an early return|handling a missed case|None"),
        (["return f(a, b)"], ["return f(b, a)"], "swapping operands or arguments"),
        (["return (a + b) * c"], ["return a + (b * c)"], "None"),
        (["x = [a, b]"], ["x = [a, b, c]", ""], "None"),
        (["x = f(a)"], ["x = f(a, key=b)"], "passing one more argument"),
        (["return"], ["return -1"], "None|adding an early return"),
        (["for i in range(n):"], ["for i in range(n + 1):"], "moving a boundary by one"),
        (["f(args)"], ["f(*args)"], "None"),
        (["x = border(a)"], ["x = border(a) or reorder(a)"], "None"),
        (["if a:"], ["if a or b:"], "widening a condition"),
        (["x = a"], ["x = a or b"], "None|using another call or name"),
        ([], ["def f(self):", "    if self.a is None:", "        return {**self.b}"], "adding or overriding a method"),
        ([], ["elif a:", "    try:", "        return f(a)", "    except TypeError:", "        return b"], "None|adding an early return"),
    ],
)
def test_a_kind_of_change_is_named_only_where_the_change_brings_it(removed: list[str], added: list[str], name: str) -> None:
    found = shape_of(Hunk("a.py", tuple(line.strip() for line in removed), tuple(line.strip() for line in added)))
    assert (found.name if found else "None") in name.split("|")


@pytest.mark.parametrize(
    "guess",
    [
        "If we assume that `shelf.content` is a list, the problem is that `count_boxes` measures `None` because it is absent.",
        "This is a reasonable extension because `count_boxes` always measures `shelf.content`, which causes the error for empty shelves.",
        "I wonder whether the problem is that `count_boxes` always measures `shelf.content` because nobody checks it before.",
        "The bug is weird because `count_boxes` always measures `shelf.content` and then `content` is missing from the shelf.",
        "The issue is specifically about `count_boxes` objects, which causes `shelf.content` to be measured without a check.",
        "The problem is that `count_boxes` reads :mod:`shelf`` and causes an error because `content` is not there at all.",
    ],
)
@pytest.mark.parametrize("outcome", ["resolved", "unresolved"])
def test_a_guess_an_empty_sentence_or_broken_markup_is_no_cause(guess: str, outcome: str) -> None:
    steps = (REPRODUCE, FAILS, READ, step(guess, "sed -i '5a\\    if content is None' boxes/shelf_count.py"), PASSES, TESTS, SUMMARY)
    for draft in drafts(made(steps, outcome)):  # type: ignore[arg-type]
        assert guess.split("`count_boxes`")[1][:30] not in draft.description + draft.content


@pytest.mark.parametrize(
    "sentence",
    [
        "`shelf_count` refers to the global variable `shelf_count` which is `shelf_count()`, and the result is always the same one.",
        "It is causing a false positive for `:mod:`mypackage2`` because the pattern always matches too much of the text there.",
        "Acme always hands the value to the next step because nothing in the way there checks it for being empty.",
    ],
)
def test_a_sentence_that_falls_apart_without_its_names_is_not_made_general(sentence: str) -> None:
    assert Material(made()).general(sentence) == ""


def test_a_short_labelled_fix_is_kept_and_a_cause_alone_makes_no_item() -> None:
    edit = step("I try it.", "sed -i '5d' boxes/shelf_count.py")
    cause = step("Root cause: the sum in `count_boxes` is never initialised for an empty shelf.", "git diff")
    patch = patch_of("def count_boxes(shelf):", "     a = 1", *[f"-    a{i}" for i in range(9)], *[f"+    b{i}" for i in range(9)])
    bare = drafts(made((REPRODUCE, FAILS, edit, PASSES, cause), patch=patch))
    assert not [d for d in bare if d.kind == "strategy"]
    told = step("Fix: initialise the sum with 0.", "git diff")
    draft = of_kind(made((REPRODUCE, FAILS, edit, PASSES, cause, told), patch=patch), "strategy")
    assert "initialise the sum with 0" in draft.content


def test_words_that_were_exchanged_are_told_where_the_agent_told_nothing() -> None:
    assert "`rsplit` took the place of `split`" in shown(
        material_of(patch_of("def count(shelf):", "-    a, b = shelf.split(None, 1)", "+    a, b = shelf.rsplit(None, 1)"))
    )


@pytest.mark.parametrize(
    "remedy", ["This might be because the path is missing, but `setup` should handle that.", "I should use `reproduce_app` instead."]
)
def test_a_guess_or_a_module_of_the_agents_own_is_no_remedy(remedy: str) -> None:
    missing = step(
        "Run it.", "python reproduce.py", "Traceback (most recent call last):\nModuleNotFoundError: No module named 'boxes'\n", 1
    )
    steps = (REPRODUCE, missing, step(remedy, "python reproduce.py", "0\n"), EDIT, PASSES, TESTS, SUMMARY)
    assert all("should handle" not in d.content and "reproduce_app" not in d.content for d in drafts(made(steps)))


def test_a_missing_module_of_the_agents_own_is_no_pitfall_and_a_setting_is() -> None:
    def ends_with(error: str) -> str:
        failed = step("Run it.", "python reproduce.py", f"Traceback (most recent call last):\n{error}\n", 1)
        steps = (
            REPRODUCE,
            failed,
            step("It needs the folder on the path.", "PYTHONPATH=. python reproduce.py", "0\n"),
            EDIT,
            PASSES,
            TESTS,
            SUMMARY,
        )
        return of_kind(made(steps), "testing").content

    assert "PYTHONPATH=." in ends_with("ModuleNotFoundError: No module named 'boxes'")
    assert "PYTHONPATH=." not in ends_with("ModuleNotFoundError: No module named 'reproduce_app'")


def test_a_few_names_of_a_large_change_do_not_stand_for_what_it_does() -> None:
    lines = [f"+    step{i}(shelf.part_{i})" for i in range(20)]
    assert shown(material_of(patch_of("def count(shelf):", "     a = 1", *lines))) == ""


BEFORE = "from boxes.shelf_count import count_boxes\nprint(count_boxes(Shelf()))"
AFTER = "from boxes.shelf_count import count_boxes\nassert count_boxes(Shelf()) == 0"
SHORT = patch_of("def count_boxes(shelf):", "-    return shelf.first(content)", "+    return shelf.second(content)")


def four_steps(before: str, after: str) -> tuple[Step, ...]:
    """An agent of few words: looks and tries in one turn, edits, tries again, submits."""
    return (
        step("look", f"cat boxes/shelf_count.py; {before}", "def count_boxes(shelf):\n    ...\n3\n"),
        step("The issue is that `count_boxes` uses the wrong one.", "sed -i s/first/second/ boxes/shelf_count.py"),
        step("check", after),
        step("submit", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "", None),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'python -c "{BEFORE}"', f'python -c "{AFTER}"'),
        (f"python - <<'EOF'\n{BEFORE}\nEOF", f"python3 - <<EOF\n{AFTER}\nEOF"),
        (f"cat > try.py <<'EOF'\n{BEFORE}\nEOF\npython try.py", "python try.py"),
        ("python -m boxes.shelf_count", f'cd /testbed && python3 -c "{AFTER}"'),
    ],
    ids=["-c", "here-document", "script", "module"],
)
def test_a_short_attempt_gives_what_its_patch_shows_and_reproductions_count_in_whatever_form(before: str, after: str) -> None:
    (draft,) = drafts(made(four_steps(before, after), patch=SHORT))
    assert (draft.kind, draft.polarity, draft.reach) == ("strategy", "success", "repository")
    assert "`count_boxes` (boxes/shelf_count.py): `second` for `first`" in draft.title
    assert "`second` took the place of `first`" in draft.description
    assert "2 changed lines of source" in draft.content
    assert "a reproduction of its own before and after" in draft.content


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("true", f'python -c "{AFTER}"', "own scripts"),
        (f'python -c "{BEFORE}"', "true", ""),
        (f'python -c "{BEFORE}"', 'python -c "import boxes; print(boxes.__version__)"', ""),
        ("python --version", f'python -c "{AFTER}"', "own scripts"),
        ("python -m pip install -e .", "python -m boxes --help", ""),
        ("python setup.py develop", "python -c 'print(1)'", ""),
    ],
)
def test_no_check_is_claimed_that_was_not_made(before: str, after: str, told: str) -> None:
    (draft,) = [d for d in drafts(made(four_steps(before, after), patch=SHORT)) if d.kind == "strategy"]
    assert ("It was checked with own scripts." in draft.content) == bool(told)
    assert told or "checked" not in draft.content
    assert "before and after" not in draft.content


def test_a_reproduction_that_was_not_repeated_after_the_last_edit_and_tests_from_before_check_nothing() -> None:
    once = (REPRODUCE, FAILS, TESTS, READ, EDIT, SUMMARY)
    assert "checked" not in of_kind(made(once), "strategy").content
    late = (REPRODUCE, FAILS, READ, EDIT, PASSES, step("I will also tidy this up.", "sed -i '7d' boxes/shelf_count.py"), TESTS, SUMMARY)
    assert "It was checked with `bin/test tests/test_shelf.py`." in of_kind(made(late), "strategy").content


def test_a_short_attempt_that_failed_tells_the_change_that_was_not_enough() -> None:
    steps = four_steps(f'python -c "{BEFORE}"', f'python -c "{AFTER}"')
    (draft,) = drafts(made(steps, "unresolved", SHORT))
    assert "was not enough" in draft.title and "`second` took the place of `first`" in draft.description
    assert draft.content == "No existing test was run; only scripts written for the change were."
    unchecked = RulesExtractor().extract(made(four_steps("true", "true"), "unresolved", SHORT))
    assert unchecked.drafts == (), "no script is claimed where none was run"
    assert "no check of its change was seen" in unchecked.reason and "few words" not in unchecked.reason


def test_an_exchanged_text_keeps_its_prefix() -> None:
    found = material_of(patch_of("def f(a):", "-    a = match(':name.*')", "+    a = match(r':name\\s')"))
    assert "`r':name\\s'` took the place of `':name.*'`" in shown(found)


LARGE = patch_of("def count_boxes(shelf):", "     a = 1", *[f"-    a{i}" for i in range(9)], *[f"+    b{i}" for i in range(9)])
OWN = four_steps(f'python -c "{BEFORE}"', f'python -c "{AFTER}"')


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (made(outcome="unknown"), ["outcome is unknown"]),
        (made(()), ["no steps"]),
        (made(OWN, patch=None), ["no patch"]),
        (made(OWN, patch=""), ["changed nothing"]),
        (
            made(OWN, patch="diff --git a/notes.md b/notes.md\n--- a/notes.md\n+++ b/notes.md\n@@ -1,1 +1,1 @@\n-a\n+b\n"),
            ["no source file"],
        ),
        (made(OWN, patch=LARGE), ["no sentence of its agent", "no run of existing tests", "(18 lines of source)"]),
        (made((OWN[0], step(CAUSE), *OWN[1:]), patch=LARGE), ["told a cause", "no run of existing tests", "(18 lines of source)"]),
        (
            made((*OWN[:2], step("tests", "make test", "Ran 8 tests in 0.1s\n\nOK\n"), *OWN[2:]), patch=LARGE),
            ["no sentence", "(18 lines of source)"],
        ),
    ],
)
def test_an_attempt_that_gives_nothing_is_told_why(attempt: Attempt, words: list[str]) -> None:
    found = RulesExtractor().extract(attempt)
    assert found.drafts == ()
    assert all(word in found.reason for word in words)
    assert ("no run of existing tests" in found.reason) == ("no run of existing tests" in words)


def test_an_attempt_that_gives_something_needs_no_reason() -> None:
    assert RulesExtractor().extract(made()).reason == ""
