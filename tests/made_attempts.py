"""Small attempts of our own making for the tests of digest, rules and judge: a library that counts boxes, an agent that mends it."""

from __future__ import annotations

from swe_memory.records import Action, Attempt, Issue, Outcome, Step, Trajectory, Verdict

ISSUE = Issue(
    "acme__boxes-17",
    "acme/boxes",
    "Counting an empty shelf fails\n\nCalling the counter for a shelf on which nothing stands ends in an error where zero would be right.\n\n"
    "TypeError: no len\n",
)

PATCH = """diff --git a/boxes/shelf_count.py b/boxes/shelf_count.py
index 1111111..2222222 100644
--- a/boxes/shelf_count.py
+++ b/boxes/shelf_count.py
@@ -3,4 +3,6 @@ def count_boxes(shelf):
     \"\"\"How many boxes stand on a shelf.\"\"\"
     content = shelf.content
-    return len(content) + shelf.hidden_boxes_behind
+    if content is None:
+        return shelf.hidden_boxes_behind_the_curtain
+    return len(content) + shelf.hidden_boxes_behind
"""

CAUSE = "The issue is that `count_boxes` takes the length of `shelf.content`, which is `None` because an empty shelf never gets a list."


def step(thought: str, command: str = "", output: str = "", returncode: int | None = 0) -> Step:
    """One turn with one command, or none."""
    return Step("THOUGHT: " + thought, (Action(command, output, returncode),) if command else ())


REPRODUCE = step(
    "I'll write a script to see it.",
    "cat <<'EOF' > reproduce.py\nfrom boxes.shelf_count import count_boxes\nprint(count_boxes(Shelf()))\nEOF",
)
FAILS = step(
    "Run it.",
    "python reproduce.py",
    "Traceback (most recent call last):\n  File 'reproduce.py'\nTypeError: object of type 'NoneType' has no len()\n",
    1,
)
READ = step("I will look at the file.", "cat boxes/shelf_count.py", "def count_boxes(shelf):\n    ...\n")
EDIT = step(CAUSE + " I will guard it.", "sed -i '5a\\    if content is None' boxes/shelf_count.py")
PASSES = step("Run the script again.", "python reproduce.py", "0\n")
WRONG_RUNNER = step("Now the tests.", "pytest tests/test_shelf.py", "bash: line 1: pytest: command not found\n", 127)
TESTS = step("There is a runner in bin.", "bin/test tests/test_shelf.py", "........\nRan 8 tests in 0.120s\n\nOK\n")
TESTS_FAIL = step("Run the tests.", "bin/test tests/test_shelf.py", "FAIL: test_full\nRan 8 tests in 0.120s\n\nFAILED (failures=1)\n", 1)
SUMMARY = step(
    "I modified `boxes/shelf_count.py` to answer with the hidden boxes alone when `content` is missing.",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached",
    PATCH,
    None,
)
PASS_STEPS = (REPRODUCE, FAILS, READ, EDIT, PASSES, WRONG_RUNNER, TESTS, SUMMARY)
FAIL_STEPS = (REPRODUCE, FAILS, READ, EDIT, PASSES, SUMMARY)


def made(
    steps: tuple[Step, ...] = PASS_STEPS,
    outcome: Outcome = "resolved",
    patch: str | None = PATCH,
    issue: Issue = ISSUE,
    status: str = "Submitted",
) -> Attempt:
    """An attempt from steps, with the verdict of a caller."""
    return Attempt(issue, Trajectory(steps, status, patch, issue.id), Verdict(outcome, "caller"))
