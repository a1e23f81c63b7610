"""The benchmark of recall: what counts as relevant, what each protocol may see, repeatable figures, and clear words for bad files."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from swe_memory.errors import UsageError

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "retrieval.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_retrieval", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


benchmark = load()


def patch(path: str, function: str = "work") -> str:
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -3,3 +3,3 @@ def {function}(value):\n     first = value\n"
        "-    return first\n+    return first + 1\n     # end\n"
    )


def row(name: str, text: str, path: str, function: str = "work", repo: str = "acme/shop") -> dict[str, str]:
    return {"instance_id": name, "repo": repo, "problem_statement": text, "patch": patch(path, function)}


MADE = [
    row(
        "acme__shop-20",
        "Vouchers are counted twice in the cart\nSee shop/cart/voucher.py: `apply_voucher` runs again.",
        "shop/cart/voucher.py",
        "apply",
    ),
    row(
        "acme__shop-9",
        "A voucher with a past date is accepted by the cart\nThe voucher should be refused.",
        "shop/cart/voucher.py",
        "check",
    ),
    row("acme__shop-15", "Letters are sent without a subject\nThe mail has an empty subject line.", "shop/mail/letter.py", "send"),
    row("acme__shop-31", "The subject of letters is cut after 40 characters\nA long mail subject is cut.", "shop/mail/letter.py", "send"),
    row("acme__shop-40", "The cart forgets its currency\nAfter a reload the cart shows another currency.", "shop/cart/currency.py"),
    row("acme__blog-7", "Drafts are shown to every reader of the feed", "blog/feed.py", repo="acme/blog"),
    row("acme__blog-8", "The feed repeats a post when its title changes", "blog/feed.py", repo="acme/blog"),
]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The JSON of two runs, in processes of their own."""
    path = write(tmp_path_factory.mktemp("issues") / "made.jsonl", MADE)
    command = [sys.executable, str(SCRIPT), str(path), "--json"]
    return [json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(2)]


def test_relevance_is_graded_by_function_file_folder_and_never_across_repositories(tmp_path: Path) -> None:
    rows = benchmark.read_rows(write(tmp_path / "made.jsonl", MADE))
    at = {one.issue.id: place for place, one in enumerate(rows)}
    table = benchmark.grades(rows)
    assert table[at["acme__shop-15"], at["acme__shop-31"]] == 3
    assert table[at["acme__shop-9"], at["acme__shop-20"]] == 2
    assert table[at["acme__shop-40"], at["acme__shop-20"]] == 1
    assert table[at["acme__blog-7"], at["acme__shop-9"]] == 0
    assert not np.diag(table).any() and (table == table.T).all()


def test_rows_are_ordered_by_the_number_in_the_id_not_by_its_text(tmp_path: Path) -> None:
    rows = benchmark.read_rows(write(tmp_path / "made.jsonl", MADE))
    assert [one.issue.id for one in rows if one.issue.repo == "acme/shop"] == [f"acme__shop-{n}" for n in (9, 15, 20, 31, 40)]


def test_the_products_recall_is_asked_and_found_right_where_the_answer_is_plain(figures: list[dict[str, Any]]) -> None:
    blocks = {(one["protocol"], one["half"]): one for one in figures[0]["blocks"]}
    streaming, out = blocks["streaming", "all"], blocks["leave-one-out", "all"]
    # Streaming: 20, 31 and blog-8 have an earlier relative; leave-one-out: also 9, 15 and blog-7.
    assert (streaming["queries"], out["queries"]) == (3, 6)
    ours = {one["name"]: one for one in out["rows"]}["swe-memory"]
    assert ours["hit1"] == ours["mrr"] == ours["hit5"] == 1.0
    assert ours["hit1_interval"][0] < 1.0
    held_out = blocks["leave-one-out", "held out"]
    assert held_out["queries"] < out["queries"]


def test_two_runs_give_the_same_figures(figures: list[dict[str, Any]]) -> None:
    first, second = ({key: value for key, value in one.items() if key != "seconds"} for one in figures)
    assert first == second


def test_a_higher_threshold_never_answers_more_and_0_always_answers(figures: list[dict[str, Any]]) -> None:
    for protocol in ("streaming", "leave-one-out"):
        shares = [one["coverage"] for one in figures[0]["coverage"] if one["protocol"] == protocol]
        assert shares[0] == 1.0 and shares == sorted(shares, reverse=True)


def test_intervals_are_those_of_the_textbook() -> None:
    assert benchmark.wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Newcombe 1998's method 3
    assert benchmark.bootstrap(np.full(20, 0.25), 0) == (0.25, 0.25)
    low, high = benchmark.bootstrap(np.array([0.0, 1.0] * 50), 0)
    assert low < 0.5 < high and high - low == pytest.approx(2 * 1.96 * 0.05, abs=0.03)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no issue"),
        (b"{not json\n", "line 1 is not JSON"),
        (b"[1]\n", "line 1 lacks instance_id"),
        (json.dumps({**MADE[0], "patch": None}).encode(), "line 1 lacks patch"),
        ((json.dumps(MADE[0]) + "\n").encode() * 2, "line 2 repeats the id"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        benchmark.read_rows(path)


def test_the_command_ends_with_2_and_no_traceback_on_a_missing_file(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path / "none.jsonl")], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "cannot be read" in done.stderr and "Traceback" not in done.stderr
