"""The demo's words and its way back in; the run itself is the same code as in test_run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import demo
from harness.demo import demo_command, first_issue, next_steps
from harness.layout import lay_out
from swe_memory.errors import UsageError
from tests.experiments import made_experiment, made_issues


def test_the_demo_names_commands_that_exist() -> None:
    from swe_memory.cli import cli

    lines = [line.split() for line in next_steps(Path("demo-run"), first_issue("6:12")).splitlines()[1:]]
    assert all(Path(words[0]).name == "swe-memory" for words in lines)
    named = {words[1] for words in lines}
    assert named and named <= set(cli.commands) | set(cli.list_commands(None))  # type: ignore[arg-type]


def test_the_demo_shows_crossfit_with_memory_and_a_placebo_and_names_a_bank_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("harness.demo.run_command", lambda **options: asked.append(options) or (0, "shown"))
    out = tmp_path / "demo"
    for _ in range(2):
        code, shown = demo_command(out, workers=3)
        assert code == 0 and shown.startswith("shown\n") and "What to type next" in shown
        out.mkdir(exist_ok=True)
        (out / "experiment.json").write_text("{}")
    assert [options["resume"] for options in asked] == [False, True]
    assert {options["dataset"] for options in asked} == {"minibench"} and {options["workers"] for options in asked} == {3}
    # Nothing else is set, so it is the default protocol: one crossfit build.
    assert set(asked[0]) == {"out", "workers", "resume", "as_json", "dataset", "arms", "call_limit", "slice"}
    assert asked[0]["slice"] is None
    arms = asked[0]["arms"]
    assert arms == ("none", "reasoningbank", "derangement")
    (bank,) = re.findall(r"--bank (\S*banks\S*)", next_steps(out, "minibench__daybook-1"))
    assert bank in {str(out / plan.place / "bank.lance") for plan in lay_out(made_experiment(made_issues(2, 2), *arms)).banks}


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
    assert shown.exit_code == 0 and re.search(rf"Examples?: swe-memory {command} ?", shown.output)
