"""Datasets: official rows are split into what the agent may see and what only the grader may, and broken ones are refused in words."""

from __future__ import annotations

import json
import math
import pickle
import re
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from dataset_rows import CLASSIC, row, written
from unidiff import PatchSet

from harness.dataset import load_dataset, rows_hash
from harness.instances import instance_from_row, known_parsers
from swe_memory.errors import UsageError
from swe_memory.records import to_json


def test_grading_data_is_in_the_grading_part_only() -> None:
    instance = instance_from_row(row())
    seen = [
        repr(instance),
        str(instance),
        repr(instance.grading),
        repr(instance.issue),
        to_json(instance.issue),
        json.dumps(asdict(instance.issue), default=str),
    ]
    for canary in ("CANARY", "F2P"):
        assert not [text for text in seen if canary in text]
    assert (instance.grading.patch, instance.grading.fail_to_pass, instance.grading.pass_to_pass) == (
        "CANARY-GOLD",
        ("CANARY-F2P",),
        ("CANARY-P2P",),
    )
    assert instance.grading.row["hints_text"] == "CANARY-HINTS"


def test_an_instance_survives_the_way_to_another_process() -> None:
    instance = instance_from_row(row())
    assert pickle.loads(pickle.dumps(instance)) == instance


def test_the_public_part_is_read() -> None:
    issue = instance_from_row(row(created_at="2013-01-24T10:00:24-08:00")).issue
    assert (issue.id, issue.repo, issue.title, issue.base_commit) == ("acme__web-1", "acme/web", "Title", "0" * 40)
    assert issue.created_at == datetime(2013, 1, 24, 18, 0, 24, tzinfo=UTC)
    assert instance_from_row(row(created_at=...)).issue.created_at is None


def test_official_rows_load(shared: Path) -> None:
    dataset = load_dataset(shared / "verified" / "instances-sample.jsonl")
    assert len(dataset) == 2
    assert dataset.instances[0].issue.id == "psf__requests-1142"
    assert dataset.instances[0].grading.fail_to_pass == ("test_requests.py::RequestsTestCase::test_no_content_length",)


def test_json_and_jsonl_hold_the_same_dataset_in_any_order(tmp_path: Path) -> None:
    lines = load_dataset(written(tmp_path, row(), row(instance_id="acme__web-2")))
    listed = tmp_path / "rows.json"
    other = row(instance_id="acme__web-2", FAIL_TO_PASS=["CANARY-F2P"])
    listed.write_text(json.dumps([dict(reversed(other.items())), row()], indent=2), encoding="utf-8")
    assert load_dataset(listed).hash == lines.hash
    assert len(lines.hash) == 64


def test_hash_changes_with_any_column() -> None:
    before = rows_hash([row()])
    for column in ("problem_statement", "patch", "eval_script", "hints_text"):
        assert rows_hash([row(**{column: "something else"})]) != before


def test_local_repositories_are_found_by_name(tmp_path: Path) -> None:
    for folder in ("acme__web.git", "other/lib"):
        (tmp_path / "clones" / folder).mkdir(parents=True)
    path = written(tmp_path, row(), row(instance_id="other__lib-1", repo="other/lib"), row(instance_id="x__y-1", repo="x/y"))
    dataset = load_dataset(path, repositories=tmp_path / "clones")
    assert [one.repository and one.repository.name for one in dataset.instances] == ["acme__web.git", "lib", None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_patch": ...}, r"line 1 \(acme__web-1\): nothing in column test_patch"),
        ({"test_patch": None}, r"line 1 \(acme__web-1\): nothing in column test_patch"),
        ({"instance_id": ...}, "line 1: nothing in column instance_id"),
        (CLASSIC, "image, eval_script, log_parser, eval_type: this is a row .* before version 5"),
        ({"image": None}, "image: this is a row .* before version 5"),
        ({"patch": 5}, "patch is int"),
        ({"repo": ""}, "repo is empty"),
        ({"instance_id": "../../etc"}, "cannot be a file name"),
        ({"FAIL_TO_PASS": "[]"}, "nothing could show"),
        ({"FAIL_TO_PASS": "test_a"}, "FAIL_TO_PASS is not a JSON list"),
        ({"FAIL_TO_PASS": "[" * 100_000}, "FAIL_TO_PASS is not a JSON list"),
        ({"FAIL_TO_PASS": '"test_a"'}, "FAIL_TO_PASS is not a list of test names"),
        ({"PASS_TO_PASS": [1]}, "PASS_TO_PASS is not a list of test names"),
        ({"eval_type": "guess"}, "eval_type is 'guess'"),
        ({"log_parser": "parse_log_pyest"}, "no log_parser 'parse_log_pyest' in the installed swebench.*\n.*parse_log_pytest"),
        ({"created_at": "yesterday"}, "created_at .* yesterday|yesterday"),
    ],
)
def test_a_broken_row_is_named_with_what_is_wrong(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_dataset(written(tmp_path, row(**changes)))
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"\n\n", b"{", b"[1]\n", b"\xff\xfe", b'{"a": 1}\n{"b"'])
def test_files_that_are_no_dataset_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        load_dataset(path)


def test_an_empty_list_and_a_single_object_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for text, message in (("[]", "empty"), (json.dumps(row()), "not a list")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=message):
            load_dataset(path)


def test_duplicate_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="acme__web-1 comes twice, as instances 1 and 3"):
        load_dataset(written(tmp_path, row(), row(instance_id="acme__web-2"), row()))


def test_unknown_names_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown dataset 'my-data'") as caught:
        load_dataset("my-data")
    assert all(known in caught.value.hint for known in ("minibench", "verified", "lite", "full", "OWNER/NAME", ".parquet"))
    for missing in ("missing.jsonl", "missing.json", "missing.parquet"):
        with pytest.raises(UsageError, match="cannot read"):
            load_dataset(tmp_path / missing)
    with pytest.raises(UsageError, match="has no instance"):
        load_dataset(written(tmp_path, row())).instance("acme__web-9")


def test_parquet_holds_the_same_dataset_as_json_whatever_the_types_of_its_columns(tmp_path: Path) -> None:
    plain = load_dataset(written(tmp_path, row(difficulty="<15 min"), row(instance_id="acme__web-2", hints_text=...)))
    time = datetime(2023, 5, 1, 12, tzinfo=UTC)
    rows = [
        row(FAIL_TO_PASS=["CANARY-F2P"], difficulty="<15 min"),
        row(instance_id="acme__web-2", FAIL_TO_PASS=["CANARY-F2P"], hints_text=None),
    ]
    for number, created_at in enumerate((time, time.replace(tzinfo=None), time.astimezone(timezone(timedelta(hours=5))))):
        path = tmp_path / f"{number}.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{**one, "created_at": created_at} for one in rows]), path)
        dataset = load_dataset(path)
        assert [one.issue for one in dataset.instances] == [one.issue for one in plain.instances]
        assert dataset.instances[0].grading.fail_to_pass == ("CANARY-F2P",)
        json.dumps(dataset.instances[0].grading.row)
        assert number == 2 or dataset.hash == plain.hash  # the third says the same time in another zone


def test_empty_optional_columns_are_as_good_as_none(tmp_path: Path) -> None:
    optional = ("created_at", "hints_text", "environment_setup_commit")
    without = load_dataset(written(tmp_path, row(**dict.fromkeys(optional, ...))))
    for empty in (None, math.nan):
        given = load_dataset(written(tmp_path, row(**dict.fromkeys(optional, empty))))
        assert (given.instances, given.hash) == (without.instances, without.hash)
        assert given.instances[0].issue.created_at is None
        assert given.instances[0].environment_setup_commit == ""


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + bytes(100) + b"PAR1"])
def test_files_that_are_no_parquet_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="as Parquet"):
        load_dataset(path)


def test_all_bad_rows_are_told_at_once_and_no_more_than_can_be_read(tmp_path: Path) -> None:
    path = written(
        tmp_path, row(), row(instance_id="acme__web-2", patch=5), row(instance_id="acme__web-3", image=3), row(instance_id="acme__web-4")
    )
    with path.open("a") as file:
        file.write('{"half\n[1]\n' + json.dumps(row(instance_id="acme__web-5", patch=6)) + "\n")
    with pytest.raises(UsageError, match=r"rows.jsonl has 5 rows of 7 that cannot be used") as caught:
        load_dataset(path)
    lines = caught.value.what.splitlines()[1:]
    assert [line.strip().partition(": ")[0] for line in lines] == [
        "line 2 (acme__web-2), line 7 (acme__web-5)",
        "line 3 (acme__web-3)",
        "line 5",
        "line 6",
    ]
    assert "CANARY" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        load_dataset(written(tmp_path, *(row(instance_id=f"acme__web-{number}", **CLASSIC) for number in range(500))))
    assert "500 rows of 500" in caught.value.what
    assert "before version 5" in caught.value.what
    assert caught.value.what.count("acme__web-") == 10
    assert caught.value.what.endswith("and 490 more")
    assert "--dataset verified" in caught.value.hint


def test_a_folder_has_a_file_for_each_split(tmp_path: Path) -> None:
    folder = tmp_path / "a=b" / "SWE-bench_Own"  # a key and its value to a reader of folders that are columns
    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row()]), folder / "test.parquet")
    (folder / "dev.json").write_text(json.dumps([row(instance_id="acme__web-2")]))
    test, dev = load_dataset(folder), load_dataset(folder, split="dev")
    assert (test.name, test.split, test.revision, test.instances[0].issue.id) == ("SWE-bench_Own/test.parquet", "test", "", "acme__web-1")
    assert (dev.name, dev.split, dev.instances[0].issue.id) == ("SWE-bench_Own/dev.json", "dev", "acme__web-2")
    assert test.hash == load_dataset(folder / "test.parquet").hash
    with pytest.raises(UsageError, match=r"no train.parquet") as caught:
        load_dataset(folder, split="train")
    assert "dev.json, test.parquet" in caught.value.hint


@pytest.mark.parametrize("options", [{"revision": "main"}, {"split": "test"}])
def test_what_has_no_revisions_or_splits_refuses_to_choose_among_them(tmp_path: Path, options: dict[str, str]) -> None:
    for name in ("minibench", written(tmp_path, row())):
        with pytest.raises(UsageError, match=f"--{next(iter(options))} does not go with"):
            load_dataset(name, **options)
    if "revision" in options:
        with pytest.raises(UsageError, match="--revision does not go with"):
            load_dataset(tmp_path, **options)


def test_the_example_of_the_documentation_loads(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "dataset.md").read_text(encoding="utf-8")
    example = re.search(r"```json\n(.*?)```", page, re.S)
    assert example
    made = json.loads(example[1])
    instance = load_dataset(written(tmp_path, made)).instances[0]
    assert instance.issue.created_at is not None
    assert instance.grading.image
    assert [len(PatchSet(patch)) for patch in (instance.grading.patch, instance.grading.test_patch)] == [1, 1]
    assert instance.grading.test_patch in instance.grading.eval_script
    told = set(re.findall(r"^\| `(\w+)`", page, re.M))
    assert set(made) <= told  # every column of the example is explained


def test_the_known_log_parsers_are_swebenchs_own() -> None:
    """They are read from its source; another version may write them down in another way."""
    done = subprocess.run(
        [sys.executable, "-c", "from swebench.harness.log_parsers import PARSER_REGISTRY; print(*PARSER_REGISTRY, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert known_parsers() == set(done.stdout.split())
