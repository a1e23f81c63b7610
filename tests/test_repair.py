"""The repair agent on small repositories of its own: what it fixes, how it counts, what memory may change and what it may not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.agents import Limits, make_agent
from harness.agents.repair import RepairAgent
from harness.agents.repair_localise import reproduction
from harness.agents.repair_order import Hints
from harness.agents.repair_source import Source, make_edit
from harness.environments.local import LocalEnvironment
from swe_memory.errors import UsageError
from swe_memory.records import Issue, Trajectory
from tests.assignments import assignment
from tests.small_bench import git

QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def make_repo(folder: Path, files: dict[str, str]) -> Path:
    """A git repository with one commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Start"]):
        git(folder, *command)
    return folder


def attempt(folder: Path, text: str, memory: str = "", calls: int = 60) -> Trajectory:
    environment = LocalEnvironment(folder, variables=QUICK)
    try:
        return RepairAgent().run(assignment(Issue("acme__shop-1", "acme/shop", text), folder, memory, Limits(calls=calls)), environment)
    finally:
        environment.close()


CASES = {
    "boundary": (
        "def grade(points, limit):\n    if points > limit:\n        return 'pass'\n    return 'fail'\n",
        "assert grade(9, 5) == 'pass'\n    assert grade(1, 5) == 'fail'",
        "assert grade(5, 5) == 'pass'",
        "grade",
    ),
    "none guard": (
        "def initials(name):\n    parts = name.split()\n    return ''.join(part[0] for part in parts)\n",
        "assert initials('Ada Lovelace') == 'AL'",
        "assert initials(None) == ''",
        "initials",
    ),
    "none in a local": (
        "PRICES = {'pear': '1.5', 'fig': None}\n\n\ndef price(name):\n    text = PRICES.get(name)\n    return float(text)\n",
        "assert price('pear') == 1.5",
        "assert price('fig') is None",
        "price",
    ),
    "mutable default": (
        "def collect(item, basket=[]):\n    basket.append(item)\n    return basket\n",
        "assert collect(1, []) == [1]",
        "collect('x')\nassert collect('y') == ['y']",
        "collect",
    ),
    "off by one": (
        "def last_days(days, count):\n    return days[len(days) - count + 1:]\n",
        "assert last_days([], 0) == []",
        "assert last_days([1, 2, 3, 4], 2) == [3, 4]",
        "last_days",
    ),
    "shared list": (
        "class Shelf:\n    def __init__(self):\n        self.books = []\n\n    def put(self, book):\n        self.books.append(book)\n\n"
        "    def listing(self):\n        return self.books\n",
        "shelf = Shelf()\n    shelf.put(1)\n    assert shelf.listing() == [1]",
        "shelf = Shelf()\nshelf.put('a')\nshelf.listing().clear()\nassert shelf.listing() == ['a']",
        "Shelf",
    ),
}


def shop(folder: Path, case: str) -> tuple[Path, str]:
    code, test, check, name = CASES[case]
    files = {
        "shop/__init__.py": "",
        "shop/stock.py": f'"""Stock."""\n\n\n{code}',
        "tests/test_stock.py": f"from shop.stock import {name}\n\n\ndef test_{case.replace(' ', '_')}():\n    {test}\n",
        "conftest.py": "",
    }
    return make_repo(folder, files), f"Wrong result from {name}\n\n```python\nfrom shop.stock import {name}\n{check}\n```\n"


@pytest.mark.parametrize("case", CASES)
def test_fixes_a_fault_and_submits_a_patch_that_applies(case: str, tmp_path: Path) -> None:
    folder, text = shop(tmp_path, case)
    found = attempt(folder, text)
    assert found.exit_status == "Submitted" and found.patch
    subprocess.run(["git", "checkout", "-q", "--", "."], cwd=folder, check=True)
    assert subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True).stdout == ""
    subprocess.run(["git", "apply"], cwd=folder, input=found.patch, text=True, check=True)
    program = reproduction(text)
    assert subprocess.run(["python3", "-B", "-c", program], cwd=folder).returncode == 0
    assert "Root cause:" in found.steps[-1].thought


def test_every_command_is_one_call_and_the_limit_holds(tmp_path: Path) -> None:
    folder, text = shop(tmp_path, "boundary")
    for limit in (1, 7):
        found = attempt(folder, text, calls=limit)
        assert found.calls == found.actions == limit == found.reported_calls
        assert (found.exit_status, found.patch) == ("LimitsExceeded", "")
        assert subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True).stdout == ""


def test_the_same_issue_and_memory_give_the_same_attempt(tmp_path: Path) -> None:
    def commands(name: str) -> list[str]:
        folder, text = shop(tmp_path / name, "mutable default")
        more = "from shop.stock import collect\n\n\ndef test_more():\n    assert collect(object(), [object()])[0] is not None\n"
        (folder / "tests" / "test_more.py").write_text(more)
        steps = attempt(folder, text, "Look at None first", calls=14).steps
        return [f"{action.command}\n{action.output}".replace(str(folder), "") for step in steps for action in step.actions]

    assert commands("one") == commands("two")


def test_memory_changes_the_order_of_tries_and_nothing_else(tmp_path: Path) -> None:
    def tries(memory: str) -> list[str]:
        folder, text = shop(tmp_path / str(len(memory)), "off by one")
        environment = LocalEnvironment(folder, variables=QUICK)
        issue = Issue(
            "acme__shop-1", "acme/shop", text.replace("assert last_days([1, 2, 3, 4], 2) == [3, 4]", "last_days([1], 1)\nassert False")
        )
        found = RepairAgent().run(assignment(issue, folder, memory, Limits(calls=400)), environment)
        environment.close()
        return [step.actions[0].command for step in found.steps if step.thought.startswith("Hypothesis")]

    without, with_hint = tries(""), tries("The arithmetic operator was wrong: a subtraction in last_days.")
    assert sorted(without) == sorted(with_hint) and without != with_hint
    assert with_hint.index(next(t for t in with_hint if "days) + count" in t)) < without.index(
        next(t for t in without if "days) + count" in t)
    )


def test_hints_in_plain_words_are_read_as_families_and_names() -> None:
    hints = Hints.read("The mutable default `rows=[]` in report/render.py was shared between calls of render_row.")
    assert hints.families["mutable-default"] >= 2 and "boundary" not in hints.families
    assert "none-guard" not in Hints.read("Edits were tried and none held.").families and "none-guard" in Hints.read("x is None").families
    assert hints.names_place("report/render.py", "render_row") == 2
    assert hints.names_place("report/render.py", "other") == 1
    assert hints.names_place("report/parse.py", "other") == 0


def test_an_issue_without_a_reproduction_is_given_up_without_a_patch(tmp_path: Path) -> None:
    folder, _ = shop(tmp_path, "boundary")
    found = attempt(folder, "It is slow\n\nPlease make it faster.")
    assert (found.exit_status, found.patch) == ("Submitted", "")


def test_a_reproduction_that_passes_already_is_given_up(tmp_path: Path) -> None:
    folder, _ = shop(tmp_path, "boundary")
    found = attempt(folder, "Odd\n\n```python\nfrom shop.stock import grade\nassert grade(9, 5) == 'pass'\n```\n")
    assert (found.exit_status, found.patch) == ("Submitted", "")


def test_tests_that_failed_before_do_not_block_a_fix_and_tests_that_passed_do(tmp_path: Path) -> None:
    folder, text = shop(tmp_path, "boundary")
    broken = "def test_broken():\n    assert grade(1, 5) == 'never'\n"
    below = "def test_one_below():\n    assert grade(4, 5) == 'fail'\n"
    extra = f"from shop.stock import grade\n\n\n{broken}\n\n{below}"
    (folder / "tests" / "test_more.py").write_text(extra, encoding="utf-8")
    found = attempt(folder, text)
    assert found.patch
    check = "from shop.stock import grade; assert (grade(4, 5), grade(5, 5)) == ('fail', 'pass')"
    assert subprocess.run(["python3", "-B", "-c", check], cwd=folder).returncode == 0


def test_an_edit_that_loops_for_ever_costs_one_call_and_is_undone(tmp_path: Path) -> None:
    code = "def drain(queue):\n    total = 0\n    while len(queue) > 1:\n        total += queue.pop()\n    return total\n"
    files = {
        "shop/__init__.py": "",
        "shop/stock.py": code,
        "tests/test_stock.py": "from shop.stock import drain\n\n\ndef test_empty():\n    assert drain([]) == 0\n",
    }
    folder = make_repo(tmp_path, {**files, "conftest.py": ""})
    found = attempt(folder, "Last one is left\n\n```python\nfrom shop.stock import drain\nassert drain([1, 2]) == 3\n```\n")
    assert found.patch and ("queue) > 0" in found.patch or "queue) >= 1" in found.patch)


def test_reproductions_are_taken_from_the_forms_that_reporters_use() -> None:
    plain = reproduction("Broken\n```python\nfrom a import f\nprint(f(1))  # expected: [1, 2]\n```")
    assert "assert f(1) == [1, 2]" in plain
    session = reproduction("Broken\n\n    >>> from a import f\n    >>> f(2)\n    3\n\nExpected: 4\n")
    assert session.rstrip().endswith("assert (f(2)) == 4")
    function = reproduction("```python\ndef test_it():\n    assert 1 == 2\n```")
    assert function.rstrip().endswith("test_it()")
    assert reproduction("no code here, only `words`") == ""
    assert reproduction("```python\nthis is not python\n```") == ""


def test_edits_keep_the_rest_of_the_file_byte_for_byte() -> None:
    text = "# naïve — comment\ndef f(a):\n    s = 'é'  # ünïcode\n    return s if a<1 else a\n"
    source = Source("m.py", text)
    offset = text.encode().index(b"<")
    edit = make_edit(source, [(offset, offset + 1, "<=")], family="boundary", pattern="p", place=4, function="f", cause="c", remedy="r")
    assert edit and (edit.first, edit.old, edit.new) == (4, ("    return s if a<1 else a",), ("    return s if a<=1 else a",))
    assert make_edit(source, [(offset, offset + 1, "?")], family="", pattern="", place=4, function="f", cause="", remedy="") is None
    assert make_edit(source, [(offset, offset, " ")], family="", pattern="", place=4, function="f", cause="", remedy="") is None


def test_wrong_limits_and_names_are_refused() -> None:
    with pytest.raises(UsageError, match="call limit of 0"):
        Limits(calls=0)
    with pytest.raises(UsageError, match="no agent called 'gpt'"):
        make_agent("gpt")
