"""A dataset of three quick issues over one small repository, in SWE-bench's row format: for tests that run whole experiments."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@example.invalid",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.invalid",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "PATH": "/usr/bin:/bin:/usr/local/bin",
}
FILES = {
    # The plugins that happen to be installed beside the tests cost a second each time pytest starts.
    "pytest.ini": "[pytest]\naddopts = -p no:hypothesispytest -p no:xdist -p no:xdist.looponfail -p no:anyio -p no:timeout -p no:typeguard\n",
    "conftest.py": "",
    "shop/__init__.py": "",
    "shop/marks.py": "def grade(points, limit):\n    if points > limit:\n        return 'pass'\n    return 'fail'\n",
    "shop/basket.py": "def collect(item, basket=[]):\n    basket.append(item)\n    return basket\n",
    "shop/story.py": "def tell(words):\n    return ' '.join(words).capitalize()\n",
    "tests/test_shop.py": (
        "from shop.basket import collect\nfrom shop.marks import grade\nfrom shop.story import tell\n\n\n"
        "def test_shop():\n    assert collect(1, []) == [1]\n    assert grade(9, 5) == 'pass'\n    assert tell(['a', 'b']) == 'A b'\n"
    ),
}
ISSUES = (
    ("acme__shop-1", "2024-01-02T00:00:00Z", "marks", "grade", "The limit itself does not pass", "assert grade(5, 5) == 'pass'"),
    (
        "acme__shop-2",
        "2024-01-03T00:00:00Z",
        "story",
        "tell",
        "Names lose their capitals in a story",
        "assert tell(['hi', 'Bob', 'of', 'Ulm']) == 'Hi Bob of Ulm'",
    ),
    (
        "acme__shop-3",
        "2024-01-04T00:00:00Z",
        "basket",
        "collect",
        "A second basket remembers the first",
        "collect('x')\nassert collect('y') == ['y']",
    ),
)


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True, env=IDENTITY).stdout


def write_bench(folder: Path) -> tuple[Path, Path]:
    """(dataset file, folder of repositories), written into ``folder``. The agent fixes the first and third issue; the second is beyond it."""
    repository = folder / "repositories" / "acme__shop"
    for name, text in FILES.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "Start")
    base = git(repository, "rev-parse", "HEAD").strip()
    rows = []
    for identity, when, module, function, title, check in ISSUES:
        name = f"tests/test_{module}_hidden.py"
        body = "".join(f"    {line}\n" for line in check.splitlines())
        hidden = f"from shop.{module} import {function}\n\n\ndef test_hidden():\n{body}"
        (repository / name).write_text(hidden, encoding="utf-8")
        git(repository, "add", name)
        test_patch = git(repository, "diff", "--cached", "--full-index")
        git(repository, "rm", "-q", "-f", name)
        script = f"#!/bin/bash\nset -uxo pipefail\ngit apply -v - <<'EOF_1'\n{test_patch}EOF_1\n"
        script += f": '>>>>> Start Test Output'\npython -m pytest -rA tests/test_shop.py {name}\n: '>>>>> End Test Output'\n"
        rows.append(
            {
                "repo": "acme/shop",
                "instance_id": identity,
                "base_commit": base,
                "patch": "",
                "test_patch": test_patch,
                "problem_statement": f"{title}\n\n```python\nfrom shop.{module} import {function}\n{check}\n```\n",
                "hints_text": "",
                "created_at": when,
                "version": "1.0",
                "FAIL_TO_PASS": json.dumps([f"{name}::test_hidden"]),
                "PASS_TO_PASS": json.dumps(["tests/test_shop.py::test_shop"]),
                "image": "none",
                "eval_script": script,
                "log_parser": "parse_log_pytest",
                "eval_type": "pass_and_fail",
            }
        )
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path, folder / "repositories"
