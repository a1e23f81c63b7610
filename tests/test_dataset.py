"""Datasets: official rows are split into what the agent may see and what only the grader may, and broken ones are refused in words."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.dataset import load_dataset, rows_hash
from harness.instances import instance_from_row
from swe_memory.errors import UsageError
from swe_memory.records import to_json

CANARIES = {
    "patch": "CANARY-GOLD",
    "test_patch": "CANARY-TESTPATCH",
    "hints_text": "CANARY-HINTS",
    "eval_script": "CANARY-SCRIPT",
    "FAIL_TO_PASS": '["CANARY-F2P"]',
    "PASS_TO_PASS": '["CANARY-P2P"]',
    "image": "CANARY-IMAGE",
    "log_parser": "CANARY-PARSER",
}


def row(**changes: Any) -> dict[str, Any]:
    made = {
        "repo": "acme/web",
        "instance_id": "acme__web-1",
        "base_commit": "0" * 40,
        "problem_statement": "Title\n\nIt breaks.",
        "created_at": "2023-05-01T12:00:00Z",
        "version": "1.0",
        "environment_setup_commit": "1" * 40,
        "eval_type": "pass_and_fail",
        **CANARIES,
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not ...}


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


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
        ({"test_patch": ...}, r"line 1 \(acme__web-1\): no column test_patch"),
        ({"instance_id": ...}, "line 1: no column instance_id"),
        (
            {"image": ..., "eval_script": ..., "log_parser": ..., "eval_type": ...},
            "image, eval_script, log_parser, eval_type: this is a row .* before version 5",
        ),
        ({"patch": 5}, "patch is int"),
        ({"repo": ""}, "repo is empty"),
        ({"instance_id": "../../etc"}, "cannot be a file name"),
        ({"FAIL_TO_PASS": "[]"}, "nothing could show"),
        ({"FAIL_TO_PASS": "test_a"}, "FAIL_TO_PASS is not a JSON list"),
        ({"PASS_TO_PASS": [1]}, "PASS_TO_PASS is not a list of test names"),
        ({"eval_type": "guess"}, "eval_type is 'guess'"),
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
    with pytest.raises(UsageError, match="not available in this version"):
        load_dataset("verified")
    with pytest.raises(UsageError, match="unknown dataset"):
        load_dataset("my-data")
    with pytest.raises(UsageError, match="cannot read"):
        load_dataset(tmp_path / "missing.jsonl")
    with pytest.raises(UsageError, match="has no instance"):
        load_dataset(written(tmp_path, row())).instance("acme__web-9")
