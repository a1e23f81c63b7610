"""A small repository in an image, with hidden tests in the official row format: for tests of grading in containers.

Whatever a patch makes of ``shop/marks.py`` runs when its hidden tests do, inside the container.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from containers import once, repository_image
from small_bench import IDENTITY

if TYPE_CHECKING:
    from docker import DockerClient

MARKS = "def grade(points, limit):\n    return 'pass' if points > limit else 'fail'\n"
FIXED = MARKS.replace("points > limit", "points >= limit")
FILES = {
    "shop/__init__.py": b"",
    "shop/marks.py": MARKS.encode(),
    "names.txt": "café\n".encode("latin-1"),
    "tests/test_marks.py": b"def test_nothing():\n    pass\n",
}
HIDDEN = "tests/test_marks.py"
TOLD = f"""\
import socket, sys
sys.path.insert(0, ".")
from shop.marks import grade
def named():
    try:
        return socket.gethostbyname(socket.gethostname()) != ""
    except OSError:
        return False
checks = [("test_limit", grade(5, 5) == "pass"), ("test_less", grade(4, 5) == "fail"), ("test_name", named())]
for name, good in checks:
    print("PASSED" if good else "FAILED", "{HIDDEN}::" + name, flush=True)
"""
SCRIPT = f"""\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git checkout BASE {HIDDEN}
cat <<'END_OF_TESTS' > {HIDDEN}
{TOLD}END_OF_TESTS
: '>>>>> Start Test Output'
python {HIDDEN}
: '>>>>> End Test Output'
git checkout BASE {HIDDEN}
"""


def shop_image(client: DockerClient, base: str, folder: Path) -> str:
    """The name of the image; made in ``folder`` where the engine has none."""
    name = f"swe-memory-test/shop:{hashlib.sha256(Path(__file__).read_bytes() + base.encode()).hexdigest()[:12]}"

    def build() -> None:
        _write(folder)
        repository_image(client, base, name, folder)

    return once(client, name, build)


def base_commit(folder: Path) -> str:
    """The commit that the image has checked out: the same wherever it is made."""
    return _write(folder)


def _write(folder: Path) -> str:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for command in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "Start"]):
        subprocess.run(["git", *command], cwd=folder, env=IDENTITY, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, env=IDENTITY, check=True, capture_output=True, text=True).stdout.strip()


def shop_row(image: str, base: str, number: int = 1, *, before: str = "") -> dict[str, Any]:
    """The row of issue ``number``; all are alike. ``before`` are lines of the evaluation's script in front of the tests."""
    return {
        "repo": "acme/shop",
        "instance_id": f"acme__shop-{number}",
        "base_commit": base,
        "patch": patch_of(FIXED),
        "test_patch": f"diff --git a/{HIDDEN} b/{HIDDEN}\n--- a/{HIDDEN}\n+++ b/{HIDDEN}\n@@ -1 +1 @@\n-def test_nothing():\n+def test_limit():\n",
        "problem_statement": "The limit itself does not pass\n\nAsked for the grade at the limit, grade says that it fails.\n",
        "hints_text": "",
        "created_at": "2024-01-02T00:00:00Z",
        "version": "1.0",
        "environment_setup_commit": base,
        "FAIL_TO_PASS": json.dumps([f"{HIDDEN}::test_limit"]),
        "PASS_TO_PASS": json.dumps([f"{HIDDEN}::test_less"]),
        "image": image,
        "eval_script": SCRIPT.replace("BASE", base).replace("cd /testbed\n", f"cd /testbed\n{before}\n", 1),
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


def patch_of(code: str) -> str:
    """The patch that makes ``shop/marks.py`` this."""
    path = "shop/marks.py"
    lines = difflib.unified_diff(MARKS.splitlines(keepends=True), code.splitlines(keepends=True), f"a/{path}", f"b/{path}")
    return f"diff --git a/{path} b/{path}\n{''.join(lines)}"
