"""Issues that come as images, in the official row format, and a model that plays a part in each: for tests of whole experiments in containers.

Two small repositories, three issues each and one whose reference patch is wrong. Their images hold later commits, tags and a stash with the fixes; what
must never reach a prompt has a canary in it: reference patches, hidden tests, hints, and all that is later than the base commit.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from containers import once, repository_image
from fake_anthropic import Message, Request, tool_use
from scripted_model import GIVE_UP, SUBMIT, Move
from small_bench import git

if TYPE_CHECKING:
    from docker import DockerClient

CANARY = "CANARY"
NOTES = "## Notes from past attempts"
NEVER = "acme__counts-4"
"""The issue whose reference patch does not make its tests pass."""

# Runs test functions and says what pytest's short summary says: the image has no pytest, and its start would take longer than the tests.
_CHECK = """\
import importlib
import sys

sys.path.insert(0, ".")
for path in sys.argv[1:]:
    tests = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for name in sorted(name for name in dir(tests) if name.startswith("test_")):
        try:
            getattr(tests, name)()
        except Exception as error:
            print(f"FAILED {path}::{name} - {type(error).__name__}", flush=True)
        else:
            print(f"PASSED {path}::{name}", flush=True)
"""


@dataclass(frozen=True)
class Part:
    """One function that is wrong: what it says and should say, and a call with the right answer."""

    repository: str
    name: str
    wrong: str
    right: str
    call: str
    answer: str
    works: str
    title: str

    @property
    def path(self) -> str:
        return f"{self.repository}/{self.name}.py"

    def source(self, expression: str, comment: str = "") -> str:
        return f"def {self.name}(given):\n    return {expression}{comment}\n"


PARTS = (
    Part("words", "shout", "given.title()", "given.upper()", "shout('oh no')", "'OH NO'", "shout('A') == 'A'", "A shout is only half loud"),
    Part("words", "mirror", "given", "given[::-1]", "mirror('tea')", "'aet'", "mirror('oo') == 'oo'", "A mirror shows the word as it is"),
    Part("words", "initial", "given[1]", "given[0]", "initial('word')", "'w'", "initial('aa') == 'a'", "The initial is the second letter"),
    Part("counts", "total", "max(given)", "sum(given)", "total([1, 2])", "3", "total([4]) == 4", "The total forgets the smaller numbers"),
    Part(
        "counts", "spread", "max(given)", "max(given) - min(given)", "spread([2, 5])", "3", "spread([0, 1]) == 1", "The spread is too wide"
    ),
    Part(
        "counts",
        "middle",
        "given[0]",
        "sorted(given)[len(given) // 2]",
        "middle([3, 1, 2])",
        "2",
        "middle([1]) == 1",
        "The middle is the first",
    ),
    Part("counts", "least", "max(given)", "min(given)", "least([2, 1])", "1", "least([7]) == 7", "The least is the largest"),
)


def issue_id(part: Part) -> str:
    same = [other for other in PARTS if other.repository == part.repository]
    return f"acme__{part.repository}-{same.index(part) + 1}"


IDS = tuple(issue_id(part) for part in PARTS if issue_id(part) != NEVER)


def write_bench(client: DockerClient, base_image: str, folder: Path) -> Path:
    """The dataset file, in ``folder``; the engine has the images then."""
    rows = []
    for repository in ("words", "counts"):
        place = folder / "made" / repository
        base, patches = _write_repository(place, repository)
        key = hashlib.sha256(Path(__file__).read_bytes() + base_image.encode()).hexdigest()[:12]
        made = once(
            client,
            f"swe-memory-test/{repository}:{key}",
            partial(repository_image, client, base_image, f"swe-memory-test/{repository}:{key}", place),
        )
        for part in (part for part in PARTS if part.repository == repository):
            name = f"swe-memory-test/{issue_id(part).replace('__', '_1776_')}"
            client.images.get(made).tag(name, key)
            rows.append(_row(part, base, *patches[part.name], f"{name}:{key}"))
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _write_repository(place: Path, repository: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """The base commit, which is checked out, and for each part its reference patch and the patch with its hidden test."""
    parts = [part for part in PARTS if part.repository == repository]
    files = {f"{repository}/__init__.py": "", "tests/__init__.py": "", "tests/check.py": _CHECK}
    files |= {part.path: part.source(part.wrong) for part in parts}
    files |= {
        f"tests/test_{part.name}.py": f"from {repository}.{part.name} import {part.name}\n\n\ndef test_works():\n    assert {part.works}\n"
        for part in parts
    }
    # What is right before the fix, too.
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    git(place, "init", "-qb", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Start")
    base = git(place, "rev-parse", "HEAD").strip()
    patches = {}
    for part in parts:
        fixed = part.wrong + " or None" if issue_id(part) == NEVER else part.right
        (place / part.path).write_text(part.source(fixed, f"  # {CANARY}-GOLD"), encoding="utf-8")
        gold = git(place, "diff")
        git(place, "commit", "-qam", f"{CANARY}-LATER {part.title}")
        git(place, "tag", f"{CANARY}-{part.name}")
        patches[part.name] = gold, _hidden_test(part)
    (place / "later.txt").write_text(f"{CANARY}-STASH\n", encoding="utf-8")
    git(place, "add", "later.txt")
    git(place, "stash", "-q")
    git(place, "branch", f"{CANARY}-branch")
    git(place, "reset", "-q", "--hard", base)
    return base, patches


def _hidden(part: Part) -> str:
    return f"tests/test_{part.name}_hidden.py"


def _hidden_test(part: Part) -> str:
    lines = [
        f"from {part.repository}.{part.name} import {part.name}",
        "",
        "",
        f"def test_{CANARY}_HIDDEN():",
        f"    assert {part.call} == {part.answer}",
    ]
    path = _hidden(part)
    added = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{added}"


def _row(part: Part, base: str, gold: str, test_patch: str, image: str) -> dict[str, Any]:
    script = (
        "#!/bin/bash\nexec 2>&1\nset -uxo pipefail\nsource /opt/miniconda3/bin/activate\nconda activate testbed\ncd /testbed\n"
        f"git apply -v - <<'EOF_1'\n{test_patch}EOF_1\n: '>>>>> Start Test Output'\n"
        f"python tests/check.py tests/test_{part.name}.py {_hidden(part)}\n: '>>>>> End Test Output'\n"
    )
    return {
        "repo": f"acme/{part.repository}",
        "instance_id": issue_id(part),
        "base_commit": base,
        "patch": gold,
        "test_patch": test_patch,
        "problem_statement": f"{part.title}\n\n`{part.call}` should be `{part.answer}`, and `{part.name}` in `{part.path}` says another thing.\n",
        "hints_text": f"{CANARY}-HINT",
        "created_at": f"2024-01-{PARTS.index(part) + 1:02}T00:00:00Z",
        "version": "1.0",
        "environment_setup_commit": base,
        "FAIL_TO_PASS": json.dumps([f"{_hidden(part)}::test_{CANARY}_HIDDEN"]),
        "PASS_TO_PASS": json.dumps([f"tests/test_{part.name}.py::test_works"]),
        "image": image,
        "eval_script": script,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


# -- what the model does at each of them ------------------------------------------------------------------------------------------------------

# The word is put together, so that only what is found shows it.
_LOOK = (
    "git log --all --oneline | cat; git tag; git branch -a; git stash list; git fsck --lost-found 2>&1; "
    f"c={CANARY[:3]}; c=${{c}}{CANARY[3:]}; grep -rl $c /testbed /tmp /root /home"
)
_NOWHERE = "diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-was = 1\n+was = 2\n"


def scripts() -> dict[str, list[Move]]:
    """For :class:`scripted_model.ScriptedModel`: the issue's title -> what the model says."""
    return {part.title: _script(part) for part in PARTS}


def _script(part: Part) -> list[Move]:
    see = f"from {part.repository}.{part.name} import {part.name}\nassert {part.call} == {part.answer}\nprint('right now')\n"
    why = f"The issue is that `{part.name}` in {part.path} returns `{part.wrong}`, because nobody asked for `{part.call}` before."
    change: Move = _say(part, why, _edit(part, part.right))
    check: Move = _say(part, "Run the script again, and the tests.", f"python see.py; python tests/check.py tests/test_{part.name}.py")
    patch = f"rm see.py; git diff -- {part.path} > patch.txt"
    submit = SUBMIT
    if part.name == "mirror":
        change = _with_memory(change, _say(part, why, _edit(part, "given + given")))
    elif part.name == "middle":
        change = _with_memory(change, _say(part, why, _edit(part, "all(iter(lambda: 1, 0))")))  # for ever
        check = _with_memory(check, _say(part, "That must be right.", f"cat {part.path}"))
    elif part.name == "initial":
        patch = f"cat > patch.txt <<'EOF'\n{_NOWHERE}EOF"
    elif part.name == "spread":
        submit = GIVE_UP
    look = f"cat {part.path}; {_LOOK}\ncat > see.py <<'EOF'\n{see}EOF\npython see.py"
    return [
        _say(part, "I look at the repository, write a script to see it, and run it.", look),
        change,
        check,
        _say(part, "Make the patch and hand it in.", f"{patch}\n{submit}"),
    ]


def _edit(part: Part, expression: str) -> str:
    return f"cat > {part.path} <<'EOF'\n{part.source(expression)}EOF"


def _say(part: Part, text: str, command: str) -> Message:
    # The same attempt leaves the same trajectory, in whatever order requests came.
    return tool_use(command, text=text, extra={"id": f"msg_{part.name}"})


def _with_memory(with_it: Message, without: Message) -> Move:
    """What is said depends on whether the prompt has notes."""

    def choose(request: Request) -> Message:
        return with_it if NOTES in request.system else without

    return choose
