"""The demo's words and its way back in; the run itself is the same code as in test_run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import demo
from harness.demo import next_steps
from swe_memory.errors import UsageError


def test_the_demo_names_commands_that_exist() -> None:
    from swe_memory.cli import cli

    lines = [line.split() for line in next_steps(Path("demo-run")).splitlines()[1:]]
    assert all(Path(words[0]).name == "swe-memory" for words in lines)
    named = {words[1] for words in lines}
    assert named and named <= set(cli.commands) | set(cli.list_commands(None))  # type: ignore[arg-type]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = CliRunner().invoke(demo, ["--out", str(tmp_path)])
    assert isinstance(result.exception, UsageError) and "holds other things" in result.exception.what
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == ["notes.txt"]


def test_the_commands_import_nothing_heavy() -> None:
    code = (
        "import sys, harness.cli; sys.exit(bool({'lancedb', 'numpy', 'scipy', 'statsmodels', 'pydantic', 'swebench'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("command", ["run", "compare", "demo"])
def test_help_has_an_example(command: str) -> None:
    import harness.cli

    shown = CliRunner().invoke(getattr(harness.cli, command), ["--help"])
    assert shown.exit_code == 0 and f"Example: swe-memory {command}" in shown.output
