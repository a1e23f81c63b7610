"""Settings: which source wins, and what a wrong one is told."""

from __future__ import annotations

import json
from pathlib import Path

import click
import click.testing
import pytest
from click.testing import CliRunner

from swe_memory.config import default_map, find_config, load_config
from swe_memory.errors import UsageError
from tests.small_bench import write_bench


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


@group.group(name="drive", invoke_without_command=True)
@click.option("--workers", type=int, default=2)
@click.option("--arm", "arms", multiple=True)
@click.pass_context
def drive(context: click.Context, workers: int, arms: tuple[str, ...]) -> None:
    """A group that does something by itself, as `swe-memory run` does."""
    if context.invoked_subcommand is None:
        click.echo(f"{workers} {','.join(arms)}")


@drive.command()
@click.option("--workers", type=int, default=1)
@click.option("--limit", type=int, default=10)
def state(workers: int, limit: int) -> None:
    click.echo(f"{workers} {limit}")


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


def test_a_command_that_has_commands_of_its_own_takes_settings_for_itself_and_for_them(tmp_path: Path) -> None:
    settings = mapping('[drive]\nworkers = 5\narm = ["none", "gold"]\n["drive state"]\nlimit = 3\n', tmp_path)
    assert run(["drive"], settings) == "5 none,gold"
    assert run(["drive", "--workers", "1", "--arm", "none"], settings) == "1 none"
    assert run(["drive", "state"], settings) == "1 3"
    shared = mapping('workers = 7\n["drive state"]\nworkers = 8\n', tmp_path)
    assert run(["drive"], shared) == "7" and run(["drive", "state"], shared) == "8 10"


def test_an_experiment_can_be_kept_in_the_file(tmp_path: Path) -> None:
    from swe_memory.cli import cli

    text = '[run]\narm = ["none", "reasoningbank:k=2"]\nprotocol = "online"\nwave = 2\n'
    path = tmp_path / "swe-memory.toml"
    path.write_text(text)
    settings = default_map(load_config(path), cli, click.Context(cli), path)
    dataset, repositories = write_bench(tmp_path)

    def plan(*more: str, settings: dict[str, object] = settings) -> click.testing.Result:
        arguments = ["run", "--dataset", str(dataset), "--repositories", str(repositories), "--out", str(tmp_path / "out")]
        return CliRunner().invoke(cli, [*arguments, "--dry-run", "--json", *more], default_map=settings)

    found = json.loads(plan().stdout)
    assert (found["protocol"], found["arms"]) == ("online", {"reasoningbank:k=2": 3, "none": 3}) and found["longest_chain"] == 2
    assert json.loads(plan("--wave", "3").stdout)["longest_chain"] == 1
    for wrong in ('workers = "many"', "workers = 2.5", "orders = 1e9", 'protocol = "offside"', "max-cost = 2024-05-01"):
        path.write_text(f"[run]\n{wrong}\n")
        refused = plan(settings=default_map(load_config(path), cli, click.Context(cli), path))
        assert refused.exit_code == 2 and "Invalid value" in refused.output, wrong
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[learn]\nmax-cost = [1]\n", "[learn] max-cost cannot be [1]"),
        ("[learn]\nmax-cost = true\n", "[learn] max-cost cannot be True"),
        ("max-cost = [{a = 1}]\n", "max-cost cannot be"),
        ("[learn]\nbank = {a = 1}\n", "[learn] bank cannot be {'a': 1}"),
        ('[drive]\narm = "none"\n', "[drive] arm is 'none', and may be given several times"),
        ("[drive]\narm = [[1]]\n", "[drive] arm cannot be [1]"),
    ],
)
def test_a_value_that_nobody_could_type_is_refused_by_name_and_file(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        mapping(text, tmp_path)
    assert words in caught.value.what and "swe-memory.toml" in caught.value.what and caught.value.hint


def test_numbers_flags_and_dates_mean_what_they_would_mean_typed(tmp_path: Path) -> None:
    assert run(["learn"], mapping("[learn]\nmax-cost = 2\nbank = 2024-05-01\n", tmp_path)) == "2024-05-01 2.0"
    assert run(["drive"], mapping("[drive]\narm = [1, 2.5]\n", tmp_path)) == "2 1,2.5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bnak = 'x'\n", "bnak"),
        ("[lern]\nmax_cost = 1\n", "lern"),
        ("[drive]\nlimit = 1\n", "limit"),
        ('["drive stat"]\nlimit = 1\n', "stat"),
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
