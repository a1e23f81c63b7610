"""What the README shows works as shown: its Python runs, and each of its commands is one that exists, with flags that exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from swe_memory.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")))
    if page.is_file()
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_python_of_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    shutil.copy(next((ROOT / "tests/data/attempts/trajs").glob("*/*.traj.json")), tmp_path / "run.traj.json")
    (tmp_path / "readme.py").write_text(code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWE_MEMORY_")}
    done = subprocess.run([sys.executable, "readme.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nothing relevant is known" in done.stdout
    assert (tmp_path / "memory.lance").is_dir()


COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "bash")
        for line in block.splitlines()
        if line.startswith("swe-memory ")
    }
)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_shown_is_one_that_exists_with_flags_that_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    group: click.Command = cli
    context = click.Context(cli, info_name="swe-memory")
    while isinstance(group, click.Group) and not (group.invoke_without_command and (not words or words[0].startswith("-"))):
        found = group.get_command(context, words[0])
        assert found is not None, words[0]
        context, group, words = click.Context(found, context, words[0]), found, words[1:]
    assert group.make_context(line, words, parent=context.parent) is not None


def test_the_readme_shows_commands_at_all() -> None:
    assert len(COMMANDS) >= 4
