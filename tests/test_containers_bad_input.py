"""What `swe-memory run` on images says where something is missing or wrong, and that it says so before a run folder is made."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from dataset_rows import row, written
from fake_anthropic import KEY, FakeAnthropic, isolate

from harness.cli import run
from harness.events import read_state
from swe_memory.claude import ModelCallError
from swe_memory.errors import InfraError, SweMemoryError, UsageError

if TYPE_CHECKING:
    from docker import DockerClient

Start = Callable[..., Result]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """The command on one issue whose image nobody has, with an engine that does not answer and a key."""
    host = f"unix://{tmp_path}/nobody"
    isolate(monkeypatch, tmp_path)
    rows = written(tmp_path, row(image="swe-memory-test/nobody-has-this:1"))

    def invoke(*more: str, **variables: str) -> Result:
        for name, value in {"DOCKER_HOST": host, "ANTHROPIC_API_KEY": KEY, **variables}.items():
            monkeypatch.setenv(name, value)
        mini = [] if "--agent" in more else ["--agent", "mini"]
        flags = ["--dataset", str(rows), "--arm", "none", *mini, "--out", str(tmp_path / "run"), "--retries", "0", *more]
        return CliRunner().invoke(run, flags)

    return invoke


def refused(result: Result, kind: type[SweMemoryError], *said: str) -> None:
    assert isinstance(result.exception, kind), (result.exception, result.output)
    for words in said:
        assert words in str(result.exception)


MODEL = ("--model", "claude-haiku-5-5")


@pytest.mark.parametrize(
    ("flags", "variables", "kind", "said"),
    [
        pytest.param(MODEL, {}, InfraError, ("no container engine answers at unix://", "DOCKER_HOST"), id="no engine"),
        pytest.param(MODEL, {"ANTHROPIC_API_KEY": ""}, UsageError, ("ANTHROPIC_API_KEY",), id="no key"),
        pytest.param((), {}, UsageError, ("needs a language model", "--model"), id="no model"),
        pytest.param(("--model", "my-own", "--attempt-cost", "1"), {}, UsageError, ("price is not known",), id="a price that nobody knows"),
        pytest.param(("--model", "my-own", "--max-cost", "1"), {}, UsageError, ("price",), id="a price of the run that nobody knows"),
        pytest.param(
            ("--agent", "command: true {issue_file} {patch_file}"),
            {},
            UsageError,
            ("works on this machine", "--environment local"),
            id="a program",
        ),
        pytest.param(
            ("--agent", "repair", "--arm", "reasoningbank", "--protocol", "online", "--verdict", "llm", *MODEL),
            {"ANTHROPIC_API_KEY": ""},
            UsageError,
            ("ANTHROPIC_API_KEY",),
            id="no key for the judge",
        ),
    ],
)
def test_what_is_missing_is_told_before_a_folder_is_made(
    start: Start, tmp_path: Path, flags: tuple[str, ...], variables: dict[str, str], kind: type[SweMemoryError], said: tuple[str, ...]
) -> None:
    refused(start(*flags, **variables), kind, *said)
    assert not (tmp_path / "run").exists()


def test_a_broken_row_is_told_before_a_folder_is_made(start: Start, tmp_path: Path) -> None:
    rows = written(tmp_path, row(), row(instance_id="acme__web-2", base_commit=...))
    refused(start(*MODEL, "--dataset", str(rows)), UsageError, "acme__web-2", "base_commit")
    assert not (tmp_path / "run").exists()


def test_an_image_that_is_not_to_be_had_is_told_first_and_listed_at_the_end(start: Start, tmp_path: Path, engine: DockerClient) -> None:
    result = start("--agent", "repair", DOCKER_HOST=_host(engine))
    assert result.exit_code == 1
    assert "1 image is not on the engine and is pulled" in result.output
    command = next(line for line in result.output.splitlines() if "swe-memory images pull" in line)
    assert shlex.split(command.split(": ", 1)[1].split(" (")[0])[:3] == ["swe-memory", "images", "pull"]
    assert "1 attempt failed through the machine: acme__web-1" in result.output
    (attempt,) = read_state(tmp_path / "run" / "events.jsonl").attempts.values()
    assert "nobody-has-this:1 is not on this engine and could not be pulled" in attempt.failures[-1]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--cpus", "4096"), ("--cpus 4096 is more than", "or less")),
        (("--memory-gb", "0.001"), ("--memory-gb 0.001 is too little",)),
        (("--network", "nobodys-network"), ("no network 'nobodys-network'", "none")),
    ],
)
def test_what_the_engine_would_refuse_is_told_before_a_folder_is_made(
    start: Start, tmp_path: Path, engine: DockerClient, flags: tuple[str, ...], said: tuple[str, ...]
) -> None:
    refused(start("--agent", "repair", *flags, DOCKER_HOST=_host(engine)), UsageError, *said)
    assert not (tmp_path / "run").exists()


def test_a_wrong_key_ends_the_run_which_can_go_on_with_another(
    start: Start, tmp_path: Path, engine: DockerClient, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from container_bench import IDS, scripts, write_bench
    from scripted_model import ScriptedModel

    rows = write_bench(engine, base_image, tmp_path / "bench")
    flags = (*MODEL, "--dataset", str(rows), "--instance", IDS[0], "--instance", IDS[1], "--memory-gb", "1")
    with FakeAnthropic(ScriptedModel(scripts())) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        result = start(*flags, ANTHROPIC_API_KEY="sk-ant-another", DOCKER_HOST=_host(engine))
        assert isinstance(result.exception, ModelCallError) and result.exception.exit_code == 1
        assert "go on with: swe-memory run --resume" in result.output
        assert len(api.requests) <= 2, "one for each worker"
        result = start(*flags, "--resume", DOCKER_HOST=_host(engine))
    assert result.exit_code == 0, (result.output, result.exception)


def test_a_model_whose_price_nobody_knows_works_and_its_cost_is_not_known(
    start: Start, tmp_path: Path, engine: DockerClient, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from container_bench import IDS, scripts, write_bench
    from scripted_model import ScriptedModel

    rows = write_bench(engine, base_image, tmp_path / "bench")
    with FakeAnthropic(ScriptedModel(scripts())) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        result = start("--model", "my-own", "--dataset", str(rows), "--instance", IDS[0], "--memory-gb", "1", DOCKER_HOST=_host(engine))
    assert result.exit_code == 0, (result.output, result.exception)
    used: list[dict[str, Any]] = [
        event for event in map(json.loads, (tmp_path / "run" / "events.jsonl").read_text().splitlines()) if event["event"] == "usage"
    ]
    assert used and all(event["cost"] is None and event["input"] > 0 for event in used)


def _host(client: DockerClient) -> str:
    """Where the engine of the tests is: the variable that names it is set to another by then."""
    base: str = client.api.base_url
    return f"unix://{client.api.get_adapter(base).socket_path}" if base.startswith("http+docker://") else base
