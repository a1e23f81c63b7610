"""Patches: every file, function and line they touch, from clean, damaged and odd diffs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_memory.patches import edited_paths, edited_symbols, hunks, is_test_path, patch_lines, source_paths

PATCH = """\
diff --git a/pkg/core.py b/pkg/core.py
index 111..222 100644
--- a/pkg/core.py
+++ b/pkg/core.py
@@ -10,7 +10,7 @@ class Basket(Base):
     limit = 3

     def total(self, items):
-        return sum(items)
+        return sum(items or ())

     def count(self):
         return 0
@@ -40,3 +40,4 @@ def helper(value):
     if value:
         pass
+    return value
diff --git a/tests/test_core.py b/tests/test_core.py
new file mode 100644
--- /dev/null
+++ b/tests/test_core.py
@@ -0,0 +1,2 @@
+def test_total():
+    assert total(None) == 0
diff --git a/reproduce_issue.py b/reproduce_issue.py
new file mode 100644
--- /dev/null
+++ b/reproduce_issue.py
@@ -0,0 +1 @@
+print(1)
diff --git a/docs/changes.rst b/docs/changes.rst
--- a/docs/changes.rst
+++ b/docs/changes.rst
@@ -1 +1 @@
-old
\\ No newline at end of file
+new
diff --git a/pkg/gone.py b/pkg/gone.py
deleted file mode 100644
--- a/pkg/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-X_LIMIT = 1
diff --git a/img.png b/img.png
index 1..2 100644
Binary files a/img.png and b/img.png differ
"""


def test_all_files_and_only_source_files() -> None:
    assert edited_paths(PATCH) == ("pkg/core.py", "tests/test_core.py", "reproduce_issue.py", "docs/changes.rst", "pkg/gone.py", "img.png")
    assert source_paths(PATCH) == ("pkg/core.py", "pkg/gone.py")


def test_symbols_are_those_around_changed_lines_of_source_files() -> None:
    assert edited_symbols(PATCH) == ("Basket", "total", "helper", "X_LIMIT")


def test_lines_and_hunks() -> None:
    assert "return sum(items or ())" in patch_lines(PATCH) and "limit = 3" not in patch_lines(PATCH) and "" not in patch_lines(PATCH)
    first = hunks(PATCH)[0]
    assert first.section == "class Basket(Base):" and first.added == ("        return sum(items or ())",)
    assert first.text.startswith("@@ -10,7 +10,7 @@ class Basket(Base):\n")


@pytest.mark.parametrize(
    "damage", [PATCH.replace("-10,7 +10,7", "-10,3 +10,99"), PATCH.replace("\n     limit", "\n\n     limit"), PATCH.replace("\n", "\r\n")]
)
def test_wrong_counts_stripped_blanks_and_windows_line_ends_are_read(damage: str) -> None:
    assert edited_paths(damage)[:2] == ("pkg/core.py", "tests/test_core.py")
    assert {"Basket", "total"} <= set(edited_symbols(damage)) and "return sum(items)" in patch_lines(damage)


def test_a_patch_cut_in_the_middle_is_read_as_far_as_it_goes() -> None:
    cut = PATCH[: PATCH.index("+        return sum(items or ())") + 15]
    assert edited_paths(cut) == ("pkg/core.py",) and "total" in edited_symbols(cut)


def test_quoted_paths_renames_and_a_diff_without_git_header() -> None:
    quoted = (
        'diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"\n--- "a/caf\\303\\251.py"\n+++ "b/caf\\303\\251.py"\n@@ -1 +1 @@\n-a\n+b\n'
    )
    renamed = "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
    bare = "--- a/x/y.py\t2026-01-01\n+++ b/x/y.py\t2026-01-02\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    assert edited_paths(quoted) == ("café.py",)
    assert edited_paths(renamed) == ("new.py",)
    assert edited_paths(bare) == ("x/y.py",) and edited_symbols(bare) == ("a",)


@pytest.mark.parametrize("text", ["", "no diff at all", "submitted: done", "\x00", "@@ -1 +1 @@"])
def test_text_that_is_no_diff_gives_nothing(text: str) -> None:
    assert edited_paths(text) == source_paths(text) == edited_symbols(text) == patch_lines(text) == ()


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py",
        "pkg/tests/data/x.txt",
        "test_a.py",
        "pkg/a_test.py",
        "testing/test_x.py",
        "testing/logging/x.py",
        "conftest.py",
        "src/x/conftest.py",
        *("test/x.py", "web/a.test.ts", "web/a.spec.js", "src/FooTest.java", "pkg/tests.py", "pkg/a_test.go"),
    ],
)
def test_test_files_are_recognised(path: str) -> None:
    assert is_test_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "django/test/client.py",
        "sympy/testing/runtests.py",
        "pkg/contest.py",
        "pkg/latest.py",
        "src/_pytest/capture.py",
        "pkg/attest/x.py",
        "",
    ],
)
def test_source_that_only_sounds_like_tests_is_not(path: str) -> None:
    assert not is_test_path(path)


def new_file(path: str) -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x = 1\n"


EDIT = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


@pytest.mark.parametrize(
    "path",
    [
        "reproduce.py",
        "reproduce_issue.py",
        "debug_it.py",
        "verify_fix.py",
        "test_new.py",
        "repro/app.py",
        ".a/foo.py",
        "parse_annotation.py",
    ],
)
def test_what_the_agent_wrote_for_itself_is_not_source(path: str) -> None:
    assert source_paths(EDIT.format("pkg/core.py") + new_file(path)) == ("pkg/core.py",)


def test_new_modules_are_source_also_in_a_flat_repository() -> None:
    assert source_paths(EDIT.format("pkg/core.py") + new_file("pkg/fresh.py")) == ("pkg/core.py", "pkg/fresh.py")
    assert source_paths(EDIT.format("core.py") + new_file("fresh.py") + new_file("repro.py")) == ("core.py", "fresh.py")


def test_an_existing_file_with_a_scratch_name_is_source() -> None:
    assert source_paths(EDIT.format("debug.py")) == ("debug.py",)


@given(st.lists(st.sampled_from(PATCH.splitlines()), max_size=30))
def test_lines_in_any_order_never_crash(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert set(source_paths(text)) <= set(edited_paths(text))
    assert all(line == line.strip() and line for line in patch_lines(text))
    assert isinstance(edited_symbols(text), tuple)


@given(st.text(max_size=200))
def test_any_text_after_a_header_never_crashes(text: str) -> None:
    assert edited_paths(EDIT.format("a.py") + text)[:1] in (("a.py",), ())


def test_every_real_patch_is_read_completely(shared: Path) -> None:
    predictions = json.loads((shared / "runs" / "mini-1.15-gemini-3-pro" / "preds.json").read_text())
    patches = [row["model_patch"] for row in predictions.values()]
    assert [len(edited_paths(p)) for p in patches] == [len(re.findall(r"^diff --git ", p, re.MULTILINE)) for p in patches]
    assert all(source_paths(p) and edited_symbols(p) for p in patches)


def test_source_files_of_real_patches_are_those_of_the_reference_fixes_more_often_than_not(shared: Path) -> None:
    """117 of 150 when this was written; the floor is the 110 that a plain filter for tests and scratch files had given."""
    rows = [json.loads(line) for line in (shared / "verified" / "issues-dev.jsonl").read_text().splitlines()]
    reference = {row["instance_id"]: set(edited_paths(row["patch"])) for row in rows}
    predictions = json.loads((shared / "runs" / "mini-1.15-gemini-3-pro" / "preds.json").read_text())
    assert sum(set(source_paths(p["model_patch"])) == reference.get(key) for key, p in predictions.items()) >= 110
    assert sum(set(source_paths(row["patch"])) == set(edited_paths(row["patch"])) for row in rows) >= 300
