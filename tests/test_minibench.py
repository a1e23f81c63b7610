"""The bundled bench: every issue is what it claims to be, and building it gives the same commits everywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from harness import minibench
from harness.dataset import Dataset, load_dataset, rows_hash
from harness.environments.local import LocalEnvironment
from harness.grading import Grader
from harness.instances import Instance
from harness.minibench.history import build_repository, wrong_patch
from harness.minibench.source import IssueSource, RepositorySource, read_sources
from harness.workdir import workdir_for
from swe_memory.patches import edited_paths

SOURCES = read_sources()
ISSUES = [(source, issue) for source in SOURCES for issue in source.issues]
EACH = pytest.mark.parametrize(("source", "issue"), ISSUES, ids=[f"{source.folder}-{issue.number}" for source, issue in ISSUES])
# A change that cannot matter: what is graded with it is the base itself.
NO_FIX = "diff --git a/NOTES b/NOTES\nnew file mode 100644\n--- /dev/null\n+++ b/NOTES\n@@ -0,0 +1 @@\n+nothing\n"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load_dataset("minibench", cache=tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as grader:
        yield grader


def instance_of(bench: Dataset, source: RepositorySource, issue: IssueSource) -> Instance:
    return bench.instance(f"{source.name.replace('/', '__')}-{issue.number}")


def reproductions(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@EACH
def test_issue_fails_before_its_fix_and_only_there(
    bench: Dataset, grader: Grader, source: RepositorySource, issue: IssueSource, tmp_path: Path
) -> None:
    instance = instance_of(bench, source, issue)
    iid = instance.issue.id

    before = grader.grade(instance, NO_FIX, workspace=tmp_path)
    status = before.report[iid]["tests_status"]
    assert before.outcome == "unresolved"
    assert status["FAIL_TO_PASS"] == {"success": [], "failure": list(instance.grading.fail_to_pass)}
    assert status["PASS_TO_PASS"] == {"success": list(instance.grading.pass_to_pass), "failure": []}

    gold = grader.grade(instance, instance.grading.patch, workspace=tmp_path)
    assert (gold.outcome, gold.flags) == ("resolved", ())

    wrong = grader.grade(instance, wrong_patch(source, issue), workspace=tmp_path)
    assert wrong.outcome == "unresolved", wrong.reason


@EACH
def test_reproduction_fails_before_the_fix_and_passes_after(
    bench: Dataset, source: RepositorySource, issue: IssueSource, tmp_path: Path
) -> None:
    instance = instance_of(bench, source, issue)
    (code,) = reproductions(instance.issue.text)
    workdir = workdir_for(instance, tmp_path / "repo")
    (tmp_path / "try.py").write_text(code, encoding="utf-8")
    with LocalEnvironment(workdir.path, variables={"PYTHONPATH": "."}) as environment:
        before = environment.execute("python ../try.py")
        assert before.returncode == 1
        assert "Traceback" in before.output
        subprocess.run(["git", "apply", "-"], cwd=workdir.path, input=instance.grading.patch, text=True, check=True)
        assert environment.execute("python ../try.py").returncode == 0


@EACH
def test_issue_text_gives_nothing_away(bench: Dataset, source: RepositorySource, issue: IssueSource) -> None:
    instance = instance_of(bench, source, issue)
    text = instance.issue.text
    for path in edited_paths(instance.grading.patch):
        assert path.rsplit("/", 1)[-1] not in text
    for name in instance.grading.fail_to_pass:
        assert name.split("::")[-1] not in text
    added = [line[1:].strip() for line in instance.grading.patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert not [line for line in added if len(line) >= 20 and line in text]


def test_every_family_is_in_three_repositories_or_more() -> None:
    where: dict[str, set[str]] = defaultdict(set)
    for source, issue in ISSUES:
        where[issue.family].add(source.name)
    assert len(ISSUES) >= 24
    assert len(SOURCES) >= 6
    assert len(where) >= 8
    assert {family: len(names) for family, names in where.items() if len(names) < 3} == {}


def test_some_issues_need_edits_in_two_places_and_some_in_two_files(bench: Dataset) -> None:
    assert sum(len(issue.faults) >= 2 for _, issue in ISSUES) >= 6
    assert sum(len(edited_paths(instance.grading.patch)) >= 2 for instance in bench.instances) >= 2


def test_issues_come_in_the_order_of_time_and_bases_follow_each_other(bench: Dataset) -> None:
    times = [instance.issue.created_at for instance in bench.instances]
    assert times == sorted(time for time in times if time is not None)
    for instance in bench.instances:
        assert instance.repository is not None
        written = subprocess.run(
            ["git", "show", "-s", "--format=%cI", instance.issue.base_commit],
            cwd=instance.repository,
            capture_output=True,
            text=True,
            check=True,
        )
        assert instance.issue.created_at is not None
        assert datetime.fromisoformat(written.stdout.strip()) < instance.issue.created_at


def test_two_builds_give_the_same_commits_whatever_the_user_has_configured(
    bench: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(
        "[user]\n\tname = Somebody\n[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n"
        "[init]\n\tdefaultObjectFormat = sha256\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    rows = [row for source in SOURCES for row in build_repository(source, tmp_path / source.folder)]
    assert rows_hash(rows) == bench.hash
    assert {row["base_commit"] for row in rows} == {instance.issue.base_commit for instance in bench.instances}


def test_first_base_commit_is_what_it_was_when_it_was_published(bench: Dataset) -> None:
    # Written down so that a change in how history is made does not go unnoticed: old results would name commits that no longer exist.
    assert bench.instance("minibench__tabular-1").issue.base_commit == "6e6e3ee0cc1c0d3e29927733ec7c8dfa453a3066"


def test_bench_is_built_once_and_a_second_builder_takes_what_is_there(tmp_path: Path) -> None:
    first = minibench.build(tmp_path)
    stamp = (first / "rows.jsonl").stat().st_mtime_ns
    assert minibench.build(tmp_path) == first
    assert (first / "rows.jsonl").stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_builders_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        folders = set(pool.map(lambda _: minibench.build(tmp_path), range(3)))
    assert len(folders) == 1
    assert [path.name for path in tmp_path.iterdir()] == [folder.name for folder in folders]


def test_a_bench_that_lost_a_part_is_built_again(tmp_path: Path) -> None:
    folder = minibench.build(tmp_path)
    shutil.rmtree(folder / "tabular.git")
    assert minibench.build(tmp_path) == folder
    assert (folder / "tabular.git" / "HEAD").is_file()


def test_each_repository_has_a_history_that_an_agent_can_read(bench: Dataset) -> None:
    for instance in bench.instances:
        assert instance.repository is not None
        command = ["git", "log", "--format=%s", instance.issue.base_commit]
        log = subprocess.run(command, cwd=instance.repository, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(set(log)) == len(log) >= 4


def test_rows_have_the_columns_and_types_of_the_official_format(bench: Dataset, shared: Path) -> None:
    official = json.loads((shared / "verified" / "instances-sample.jsonl").read_text(encoding="utf-8").splitlines()[0])
    for instance in bench.instances:
        row = instance.grading.row
        assert {name: type(value) for name, value in row.items()} == {name: type(value) for name, value in official.items()}
