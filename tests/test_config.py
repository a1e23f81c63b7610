"""Settings: which source wins, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from swe_memory.config import default_map, find_config, load_config
from swe_memory.errors import UsageError


@click.group()
def group() -> None:
    pass


@group.command()
@click.option("--bank", "bank_uri", envvar="SWE_MEMORY_BANK", default="default.lance")
@click.option("--max-cost", type=float, default=None)
def learn(bank_uri: str, max_cost: float | None) -> None:
    click.echo(f"{bank_uri} {max_cost}")


@group.group()
def bank() -> None:
    pass


@bank.command()
@click.option("--bank", "bank_uri", default="default.lance")
def info(bank_uri: str) -> None:
    click.echo(bank_uri)


def mapping(text: str, tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "swe-memory.toml"
    path.write_text(text)
    return default_map(load_config(path), group, click.Context(group), path)


def run(args: list[str], settings: dict[str, object], env: dict[str, str] | None = None) -> str:
    result = CliRunner().invoke(group, args, default_map=settings, env=env)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def test_a_flag_wins_over_the_environment_which_wins_over_the_file_which_wins_over_the_default(tmp_path: Path) -> None:
    settings = mapping('bank = "file.lance"\n[learn]\nmax-cost = 2.5\n', tmp_path)
    assert run(["learn"], {}) == "default.lance None"
    assert run(["learn"], settings) == "file.lance 2.5"
    assert run(["learn"], settings, {"SWE_MEMORY_BANK": "env.lance"}) == "env.lance 2.5"
    assert run(["learn", "--bank", "flag.lance", "--max-cost", "1"], settings, {"SWE_MEMORY_BANK": "env.lance"}) == "flag.lance 1.0"


def test_a_top_key_reaches_nested_commands_and_a_table_wins_over_it(tmp_path: Path) -> None:
    settings = mapping('bank = "all.lance"\n["bank info"]\nbank = "one.lance"\n', tmp_path)
    assert run(["bank", "info"], settings) == "one.lance"
    assert run(["learn"], settings) == "all.lance None"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bnak = 'x'\n", "bnak"),
        ("[lern]\nmax_cost = 1\n", "lern"),
        ("[learn]\nmaxcost = 1\n", "maxcost"),
        ('["bank inof"]\nbank = "x"\n', "inof"),
        ("bank = \n", "not valid TOML"),
        ("bank = unquoted\n", "not valid TOML"),
    ],
)
def test_a_setting_that_no_command_knows_is_refused_by_name_and_file(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        mapping(text, tmp_path)
    assert "swe-memory.toml" in caught.value.what


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "swe-memory.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not valid TOML"):
        load_config(path)


def test_the_file_is_looked_for_here_or_where_the_variable_says_and_nowhere_else(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "swe-memory.toml").write_text("")
    other = tmp_path / "other.toml"
    other.write_text("")
    assert find_config({}, tmp_path) == tmp_path / "swe-memory.toml"
    assert find_config({}, below) is None
    assert find_config({"SWE_MEMORY_CONFIG": str(other)}, below) == other
    with pytest.raises(UsageError, match="SWE_MEMORY_CONFIG"):
        find_config({"SWE_MEMORY_CONFIG": str(tmp_path / "absent.toml")}, tmp_path)
