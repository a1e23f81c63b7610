"""Datasets of the hub: the real ``datasets`` and ``huggingface_hub`` in processes of their own, against a small hub on this machine.

The libraries read where the hub is and whether they are offline when they are imported, so each of these is one process; it loads what it is asked for, one
after the other, because starting it takes longer than all the rest.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from dataset_rows import CLASSIC, row, written
from fake_hub import FakeHub

from harness.dataset import load_dataset
from harness.dataset_hub import hub_name

_LOADER = """
import json, sys
from harness.dataset import load_dataset
from swe_memory.errors import SweMemoryError
for line in sys.stdin:
    asked = json.loads(line)
    try:
        d = load_dataset(asked.pop("name"), **asked)
        answer = {"name": d.name, "hash": d.hash, "revision": d.revision, "split": d.split, "ids": [one.issue.id for one in d.instances]}
    except SweMemoryError as error:
        answer = {"error": error.what, "hint": error.hint, "code": error.exit_code}
    print(json.dumps(answer), flush=True)
"""

CARD = b"""---
configs:
- config_name: default
  data_files:
  - {split: test, path: data/test-*}
  - {split: dev, path: data/dev-*}
---
"""
TWO_CONFIGS = b"""---
configs:
- {config_name: small, data_files: small.parquet}
- {config_name: large, data_files: large.parquet}
---
"""


class Loader:
    """A process in which datasets are loaded."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, name: str, **options: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"name": name, **options}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def loader(folder: Path, environment: dict[str, str]) -> Iterator[Loader]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    command = [sys.executable, "-c", _LOADER]
    path = str(Path(__file__).resolve().parents[1])
    with (folder / "errors.txt").open("a") as errors:
        process = subprocess.Popen(
            command,
            env={**kept, **environment, "PYTHONPATH": path},
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            with process:
                yield Loader(process)
                assert process.stdin
                process.stdin.close()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    with FakeHub() as started:
        yield started


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def online(hub: FakeHub, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    with loader(tmp_path_factory.mktemp("online"), hub.environment(cache)) as started:
        yield started


@pytest.fixture(scope="module")
def offline(hub: FakeHub, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    with loader(tmp_path_factory.mktemp("offline"), {**hub.environment(cache), "HF_HUB_OFFLINE": "1"}) as started:
        yield started


@pytest.fixture(scope="module")
def cut_off(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    """A process whose hub does not answer, with the cache of the one whose hub does."""
    with loader(tmp_path_factory.mktemp("cut-off"), {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(cache)}) as started:
        yield started


def rows_of(*names: str, **changes: Any) -> list[dict[str, Any]]:
    return [row(instance_id=f"acme__web-{name}", **changes) for name in names]


def parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


def files(test: list[dict[str, Any]], dev: list[dict[str, Any]] | None = None) -> dict[str, bytes]:
    return {
        "README.md": CARD,
        "data/test-00000-of-00001.parquet": parquet(test),
        "data/dev-00000-of-00001.parquet": parquet(dev or rows_of("dev")),
    }


def test_a_short_name_is_the_official_dataset_and_its_revision_and_hash_are_recorded(hub: FakeHub, online: Loader, tmp_path: Path) -> None:
    rows = rows_of("2", "1")
    commit = hub.push("SWE-bench/SWE-bench_Verified", files(rows))
    loaded = online("verified")
    assert loaded.pop("hash") == load_dataset(written(tmp_path, *rows)).hash  # the hub's rows, and the same rows in a file, are one dataset
    assert loaded == {"name": "SWE-bench/SWE-bench_Verified", "revision": commit, "split": "test", "ids": ["acme__web-2", "acme__web-1"]}


def test_what_was_recorded_loads_the_same_dataset_after_the_hub_moved_on_and_without_a_request(hub: FakeHub, online: Loader) -> None:
    first = hub.push("acme/moving", files(rows_of("1")))
    before = online("acme/moving")
    hub.push("acme/moving", files(rows_of("1", "2")))
    after = online("acme/moving")
    asked = len(hub.requests)
    again = online("acme/moving", revision=before["revision"], split=before["split"])
    assert (before["revision"], before["ids"], after["ids"]) == (first, ["acme__web-1"], ["acme__web-1", "acme__web-2"])
    assert again == before
    assert len(hub.requests) == asked


def test_a_tag_and_a_split_are_chosen(hub: FakeHub, online: Loader) -> None:
    tagged = hub.push("acme/tagged", files(rows_of("1"), rows_of("old-dev")), "v1")
    hub.push("acme/tagged", files(rows_of("2")))
    loaded = online("acme/tagged", revision="v1", split="dev")
    assert (loaded["revision"], loaded["split"], loaded["ids"]) == (tagged, "dev", ["acme__web-old-dev"])


def test_the_only_split_needs_no_name_and_other_formats_load(hub: FakeHub, online: Loader, tmp_path: Path) -> None:
    path = written(tmp_path, *rows_of("1", "2"))
    hub.push("acme/lines", {"train.jsonl": path.read_bytes()})
    loaded = online("acme/lines")
    assert loaded["hash"] == load_dataset(path).hash  # though the library makes a timestamp of created_at
    assert (loaded["split"], loaded["ids"]) == ("train", ["acme__web-1", "acme__web-2"])


@pytest.mark.parametrize(
    ("name", "options", "error", "hint"),
    [
        ("acme/nothing", {}, "there is no dataset acme/nothing", "HF_TOKEN"),
        ("acme/gated", {}, "acme/gated is gated", "Ask for access"),
        ("acme/faulty", {"revision": "v9"}, "no revision 'v9'", "leave out --revision"),
        ("acme/faulty", {"revision": "../../x"}, "no revision '../../x'", "leave out --revision"),
        ("acme/faulty", {"split": "train"}, "no split 'train'", "test, dev"),
        ("acme/faulty", {"split": "test[:1]"}, "no split 'test[:1]'", "test, dev"),
        ("acme/two-configs", {}, "several configurations", "give the file"),
        ("acme/no-rows", {}, "no file of rows", "Check the name"),
        (
            "acme/classic",
            {},
            "image, eval_script, log_parser, eval_type: this is a row of SWE-bench before version 5",
            "without --revision",
        ),
    ],
)
def test_what_the_hub_does_not_have_is_told_as_wrong_use(
    hub: FakeHub, online: Loader, name: str, options: dict[str, str], error: str, hint: str
) -> None:
    hub.push("acme/faulty", files(rows_of("1")))
    hub.push("acme/gated", files(rows_of("1")))
    hub.gated.add("acme/gated")
    hub.push("acme/two-configs", {"README.md": TWO_CONFIGS, "small.parquet": parquet(rows_of("1")), "large.parquet": parquet(rows_of("2"))})
    hub.push("acme/no-rows", {"README.md": b"# nothing yet\n"})
    hub.push("acme/classic", files(rows_of("1", **CLASSIC), rows_of("2", **CLASSIC)))
    told = online(name, **options)
    assert error in told["error"]
    assert hint in told["hint"]
    assert told["code"] == 2


def test_damaged_files_of_the_hub_are_no_traceback(hub: FakeHub, online: Loader) -> None:
    hub.push("acme/damaged", {"test.parquet": b"PAR1 and then nothing of the kind"})
    told = online("acme/damaged")
    assert "cannot load acme/damaged" in told["error"]
    assert told["code"] == 1


def test_a_hub_that_fails_in_between_never_brings_another_revision_than_the_one_recorded(hub: FakeHub, online: Loader) -> None:
    hub.push("acme/shaky", files(rows_of("1")))
    online("acme/shaky")
    hub.push("acme/shaky", files(rows_of("1", "2")))
    hub.failing = "HEAD /datasets/acme/shaky/.*README"
    try:
        told = online("acme/shaky")
    finally:
        hub.failing = ""
    assert "only another revision is in the cache" in told["error"]
    assert online("acme/shaky")["ids"] == ["acme__web-1", "acme__web-2"]


def test_offline_the_cache_answers_and_says_which_revision_it_is(hub: FakeHub, online: Loader, offline: Loader) -> None:
    first = hub.push("acme/kept", files(rows_of("1")))
    loaded = online("acme/kept")
    asked = len(hub.requests)
    assert offline("acme/kept") == offline("acme/kept", revision=first[:8]) == loaded
    hub.push("acme/kept", files(rows_of("2")))
    second = online("acme/kept")["revision"]
    told = offline("acme/kept")
    assert "several revisions" in told["error"]
    assert first in told["hint"]
    assert second in told["hint"]
    assert offline("acme/kept", revision=second)["ids"] == ["acme__web-2"]
    unknown = offline("acme/kept", revision="main")
    assert "only commits are known" in unknown["error"]
    assert first in unknown["hint"]
    assert not [request for request in hub.requests[asked:] if "GET" in request and first in request]


def test_offline_without_a_cache_says_what_to_do(offline: Loader) -> None:
    told = offline("acme/never-seen")
    assert "not in the cache" in told["error"]
    assert "Parquet" in told["hint"]
    assert told["code"] == 2


def test_a_hub_that_cannot_be_reached_is_told_with_the_ways_around_it(hub: FakeHub, online: Loader, cut_off: Loader) -> None:
    commit = hub.push("acme/remote", files(rows_of("1")))
    told = cut_off("acme/remote")
    assert "cannot load acme/remote from http://127.0.0.1:9: " in told["error"]
    assert "refused" in told["error"]
    assert "Parquet" in told["hint"]
    assert "HF_HUB_OFFLINE" not in told["hint"]  # nothing is in the cache yet
    assert told["code"] == 1
    loaded = online("acme/remote")
    hint = cut_off("acme/remote")["hint"]
    assert f"The cache has {commit}: HF_HUB_OFFLINE=1" in hint
    assert cut_off("acme/remote", revision=commit) == loaded


def test_a_damaged_cache_says_what_to_remove(hub: FakeHub, online: Loader, offline: Loader, cache: Path) -> None:
    hub.push("acme/worn", files(rows_of("1")))
    online("acme/worn")
    for file in cache.rglob("worn-*.arrow"):
        file.write_bytes(b"")
    told = offline("acme/worn")
    assert "cannot be read" in told["error"]
    assert "acme___worn" in told["hint"]


def test_names_of_the_hub() -> None:
    assert (
        hub_name("Verified") == hub_name("swe-bench/swe-bench_verified") == hub_name("SWE-bench_Verified") == "SWE-bench/SWE-bench_Verified"
    )
    assert (hub_name("lite"), hub_name("full"), hub_name("swe-bench")) == (
        "SWE-bench/SWE-bench_Lite",
        "SWE-bench/SWE-bench",
        "SWE-bench/SWE-bench",
    )
    assert hub_name("My-Team/web_issues.2") == "My-Team/web_issues.2"
    for other in ("my-data", "/my/data", "../data", "a/b/c", "a/", "", "a b/c", "-x/y"):
        assert hub_name(other) is None
