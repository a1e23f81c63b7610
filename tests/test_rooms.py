"""What the whole package promises about itself: it is light to import, and its rooms do not reach into one another."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {
    "anthropic",
    "datasets",
    "docker",
    "git",
    "jinja2",
    "lancedb",
    "litellm",
    "minisweagent",
    "numpy",
    "onnxruntime",
    "pyarrow",
    "pydantic",
    "scipy",
    "swebench",
}


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after running ``code``."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import swe_memory",
        "from swe_memory import Issue, Verdict, load_trajectory",
        "import contextlib, io\nfrom swe_memory.cli import main\nwith contextlib.redirect_stdout(io.StringIO()):\n    assert main(['--help']) == 0",
        "import contextlib, io\nfrom swe_memory.cli import main\nwith contextlib.redirect_stdout(io.StringIO()):\n    assert main(['recall', '--help']) == 0",
    ],
    ids=["import", "records", "help", "recall-help"],
)
def test_heavy_packages_are_loaded_only_by_the_work_that_needs_them(code: str) -> None:
    assert loaded_by(code) & HEAVY == set()


def test_the_records_import_nothing_of_ours() -> None:
    tree = ast.parse((ROOT / "swe_memory" / "records.py").read_text())
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [name for name in names if name.split(".")[0] in {"swe_memory", "harness", "prompts"}]


def test_an_issue_has_no_field_that_grading_data_could_go_into() -> None:
    from dataclasses import fields

    from swe_memory.records import Issue

    assert {field.name for field in fields(Issue)} == {"id", "repo", "text", "base_commit", "created_at"}


def test_every_pinned_line_is_a_name_and_a_version_only() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) > 50
    assert [line for line in lines if "://" in line or "@" in line or line.startswith("-") or line.count("==") != 1] == []
