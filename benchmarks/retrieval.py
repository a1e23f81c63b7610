"""How often is the first thing that memory recalls about the right place? The product's own recall, against what others do.

    python benchmarks/retrieval.py ISSUES.jsonl [--attempts RUNS_FOLDER] [--json] [--seed 0]

ISSUES.jsonl holds one issue a line: instance_id, repo, problem_statement, patch (the reference fix). An experience of each issue is learned into a real
bank, with the paths and functions that its fix edited; then every issue is asked about, and what is recalled is graded by the fixes: 3 it changed one of the
same functions, 2 one of the same files, 1 a file in the same folder, 0 otherwise. Here reference fixes serve as an oracle for "where the attempt
edited"; the product never sees one. With --attempts a bank of only those issues that have an attempt in RUNS_FOLDER is asked about every issue, twice: with
the places of their fixes, and with the places that the attempts really edited, passed or failed. Relevance stays that of the fixes, so an attempt that
missed a file cannot be found by it, though it is counted as relevant.

Two settings. *Streaming*: only issues earlier in the same repository (by the number in the id), and about as many of the others, are in the bank, read as
the snapshot of that time. *Leave-one-out*: all of them but the issue itself, which rule 1's guard removes. Numbers are over *answerable* queries:
those for which the bank holds at least one experience of that grade. The *held-out half* is that whose id has an odd SHA-256: no weight was ever chosen on it.

Baselines, each given the issue's repository for free: a random pick (expected value), LanceDB's full text over the issue texts, cosine of the issue texts.
Intervals are 95 %: Wilson for shares, bootstrap over queries for means and for paired differences. Queries are not independent (few repositories):
true uncertainty is larger. --json prints {issues, seed, settings, blocks: [{bank, protocol, half, queries, rows: [{name, hit1, hit1_interval, hit5, mrr,
mrr_interval, hit1_grade1, gain, gain_interval}]}], coverage: [{protocol, threshold, coverage, precision, precision_interval, grade1}], seconds}.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import posixpath
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from swe_memory.bank import MemoryBank
from swe_memory.embed import Embedder, default_embedder, embedder_problem
from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.patches import files, source_paths
from swe_memory.ranking import RankingSettings, issue_views
from swe_memory.records import Attempt, Extraction, Issue, ItemDraft, Trajectory, Verdict

ANSWER_ALWAYS = RankingSettings(threshold=0.0)
THRESHOLDS = (0.0, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5)
RESAMPLES = 10_000


@dataclass(frozen=True)
class Row:
    """One issue with the places of its reference fix."""

    issue: Issue
    patch: str
    number: int
    paths: frozenset[str]
    functions: frozenset[tuple[str, str]]

    @property
    def held_out(self) -> bool:
        return hashlib.sha256(self.issue.id.encode()).digest()[-1] % 2 == 1


class OneItem:
    """An extractor that says the same of every attempt: what is measured is which experience is found, not what it says."""

    name = "one-item@1"

    def extract(self, attempt: Attempt) -> Extraction:  # noqa: ARG002 - the protocol's signature
        """One repository item, whatever the attempt."""
        text = "Write down the failing case first and run it again after the last change."
        return Extraction(
            (
                ItemDraft(
                    "Keep the failing case at hand",
                    "A fault that is not run cannot be seen to go.",
                    text,
                    "strategy",
                    "success",
                    "repository",
                ),
            )
        )


def read_rows(path: Path) -> list[Row]:
    """The issues of a file, ordered by repository and number. Raises UsageError for what cannot be used, with the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Give a JSONL file, one issue a line.") from error
    rows: list[Row] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{where} is not JSON: {error}", "Give a JSONL file, one issue a line.") from None
        wanted = ("instance_id", "repo", "problem_statement", "patch")
        missing = [
            name for name in wanted if not isinstance(value, dict) or not isinstance(value.get(name), str) or not value[name].strip()
        ]
        if missing:
            raise UsageError(f"{where} lacks {', '.join(missing)}.", f"Each line needs {', '.join(wanted)}, as text that is not empty.")
        if value["instance_id"] in seen:
            raise UsageError(f"{where} repeats the id {value['instance_id']}.", "Ids must be unique.")
        seen.add(value["instance_id"])
        digits = re.search(r"(\d+)\D*$", value["instance_id"])
        patch = value["patch"]
        rows.append(
            Row(
                Issue(value["instance_id"], value["repo"], value["problem_statement"]),
                patch,
                int(digits[1]) if digits else number,
                frozenset(source_paths(patch)),
                frozenset(functions_of(patch)),
            )
        )
    if not rows:
        raise UsageError(f"{path} holds no issue.", "Give a JSONL file, one issue a line.")
    return sorted(rows, key=lambda row: (row.issue.repo, row.number, row.issue.id))


def functions_of(patch: str) -> Iterator[tuple[str, str]]:
    """(path, innermost function or class) around each changed line of a source file, by the hunk's header and the definitions in it."""
    sources = set(source_paths(patch))
    define = re.compile(r"\s*(?:async )?(?:def|class)\s+(\w+)")
    for file in files(patch):
        for hunk in file.hunks if file.path in sources else ():
            header = define.match(hunk.section)
            inside = header[1] if header else ""
            for line in hunk.lines:
                if found := define.match(line[1:]):
                    inside = found[1]
                if line[0] in "+-" and line[1:].strip() and inside:
                    yield file.path, inside


def grades(rows: Sequence[Row]) -> np.ndarray:
    """(n, n) grades of relevance; 0 between repositories and on the diagonal."""
    table = np.zeros((len(rows), len(rows)), dtype=np.int64)
    folders = [{posixpath.dirname(path) for path in row.paths} for row in rows]
    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            if i != j and one.issue.repo == other.issue.repo:
                shared = one.functions & other.functions, one.paths & other.paths, folders[i] & folders[j]
                table[i, j] = 3 if shared[0] else 2 if shared[1] else 1 if shared[2] else 0
    return table


@dataclass(frozen=True)
class Answers:
    """For each query the experiences in order (indexes of rows) and the score of the first, NaN for none."""

    name: str
    order: tuple[tuple[int, ...], ...]
    score: np.ndarray


def learn_in_rounds(bank: MemoryBank, rows: Sequence[Row], patches: Sequence[str | None]) -> list[int]:
    """Learn the n-th issue of every repository in the n-th round, one commit each; for each row the bank version before its round.

    Rows whose patch is None are not learned.
    """
    position: dict[str, int] = {}
    rounds: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        place = position.get(row.issue.repo, 0)
        position[row.issue.repo] = place + 1
        rounds.setdefault(place, []).append(index)
    before = [0] * len(rows)
    for _, members in sorted(rounds.items()):
        for index in members:
            before[index] = bank.version
        attempts = [
            Attempt(rows[i].issue, Trajectory((), patch=patches[i]), Verdict.from_tests(resolved=True))
            for i in members
            if patches[i] is not None
        ]
        if not attempts:
            continue
        report = bank.learn_many(attempts, extractor=OneItem(), session="benchmark")
        if report.failures or not all(len(learned.items) == 1 for learned in report):
            raise SweMemoryError(
                "The benchmark's experiences were not stored.", f"{report.failures or [learned.rejected for learned in report]}"
            )
    return before


def ask(name: str, bank: MemoryBank, rows: Sequence[Row], at: Sequence[int] | None) -> Answers:
    """Ask the product about every issue, at the head or at the given versions."""
    place = {row.issue.id: index for index, row in enumerate(rows)}
    order: list[tuple[int, ...]] = []
    scores = np.full(len(rows), np.nan)
    for index, row in enumerate(rows):
        found = bank.recall(row.issue, at=None if at is None else at[index], settings=ANSWER_ALWAYS, explain=True)
        ranked = [place[c.issue_id] for c in found.candidates if not c.removed]
        if found.item is not None:
            first = place[found.item.provenance.issue_id]
            ranked = [first, *(other for other in ranked if other != first)]
            scores[index] = found.score
        order.append(tuple(ranked))
    return Answers(name, tuple(order), scores)


def by_cosine(rows: Sequence[Row], allowed: np.ndarray, embedder: Embedder) -> Answers:
    """Cosine of the whole issue texts, what peers do, within the repository."""
    vectors = embedder.documents([issue_views(row.issue).text for row in rows])
    return _ordered("text cosine", vectors.astype(np.float64) @ vectors.astype(np.float64).T, allowed)


def by_full_text(rows: Sequence[Row], allowed: np.ndarray, folder: Path) -> Answers:
    """LanceDB's full text over the issue texts (its default tokenizer), within the repository."""
    import lancedb
    from lancedb.index import FTS
    from lancedb.query import MatchQuery

    table = lancedb.connect(folder).create_table("texts", [{"row": i, "text": row.issue.text[:20_000]} for i, row in enumerate(rows)])
    table.create_index("text", config=FTS(with_position=False))
    table.optimize()
    scores = np.zeros(allowed.shape)
    for index, row in enumerate(rows):
        words = " ".join(re.findall(r"\w+", row.issue.text[:20_000]))
        found = table.search(MatchQuery(words, "text"), query_type="fts").limit(len(rows)).select(["row", "_score"]).to_arrow()
        scores[index, found["row"].to_pylist()] = found["_score"].to_pylist()
    return _ordered("LanceDB full text", scores, allowed)


def _ordered(name: str, scores: np.ndarray, allowed: np.ndarray) -> Answers:
    order: list[tuple[int, ...]] = []
    first = np.full(len(scores), np.nan)
    for index in range(len(scores)):
        places = np.flatnonzero(allowed[index])
        ranked = places[np.lexsort((places, -scores[index, places]))]
        order.append(tuple(ranked.tolist()))
        if len(ranked):
            first[index] = scores[index, ranked[0]]
    return Answers(name, tuple(order), first)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927), by scipy."""
    from scipy.stats import binomtest

    if not trials:
        return (0.0, 1.0)
    interval = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    return (float(interval.low), float(interval.high))


def bootstrap(values: np.ndarray, seed: int) -> tuple[float, float]:
    """95 % percentile interval of a mean, resampling queries."""
    if not len(values):
        return (0.0, 0.0)
    draws = np.random.default_rng(seed).integers(0, len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return (float(low), float(high))


@dataclass(frozen=True)
class Line:
    """One row of the table; ``gain`` is the paired difference of hit@1 to plain text cosine."""

    name: str
    hit1: float
    hit1_interval: tuple[float, float]
    hit5: float | None = None
    mrr: float | None = None
    mrr_interval: tuple[float, float] | None = None
    hit1_grade1: float | None = None
    gain: float | None = None
    gain_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Block:
    """One table: a bank, a protocol, a half of the queries."""

    bank: str
    protocol: str
    half: str
    queries: int
    rows: tuple[Line, ...]


def block(
    bank: str, protocol: str, rows: Sequence[Row], half: str, table: np.ndarray, allowed: np.ndarray, answers: Sequence[Answers], seed: int
) -> Block:
    """Grade all answers on the answerable queries of one half ("all" or "held out")."""
    member = np.array([half == "all" or row.held_out for row in rows])
    asked = np.flatnonzero(member & ((table >= 2) & allowed).any(axis=1))
    asked1 = np.flatnonzero(member & ((table >= 1) & allowed).any(axis=1))
    chances = np.array([(table[i][allowed[i]] >= 2).mean() for i in asked])
    expected = float(chances.mean()) if len(asked) else 0.0
    lines = [Line("random pick", expected, bootstrap(chances, seed))]

    def hits(one: Answers, k: int, grade: int, queries: np.ndarray) -> np.ndarray:
        return np.array([any(table[i, j] >= grade for j in one.order[i][:k]) for i in queries], dtype=np.float64)

    plain = next((hits(one, 1, 2, asked) for one in answers if one.name == "text cosine"), None)
    for one in answers:
        first = hits(one, 1, 2, asked)
        places = [next((n for n, j in enumerate(one.order[i], start=1) if table[i, j] >= 2), 0) for i in asked]
        reciprocal = np.array([1 / n if n else 0.0 for n in places])
        compared = plain is not None and one.name != "text cosine"
        lines.append(
            Line(
                one.name,
                _mean(first),
                wilson(int(first.sum()), len(first)),
                _mean(hits(one, 5, 2, asked)),
                _mean(reciprocal),
                bootstrap(reciprocal, seed),
                _mean(hits(one, 1, 1, asked1)),
                _mean(first - plain) if compared else None,
                bootstrap(first - plain, seed) if compared else None,
            )
        )
    return Block(bank, protocol, half, len(asked), tuple(lines))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def coverage(protocol: str, table: np.ndarray, allowed: np.ndarray, answers: Answers) -> list[dict[str, Any]]:
    """At each threshold: the share of all queries with something in their repository that get an answer, and how many answers are right."""
    asked = np.flatnonzero(allowed.any(axis=1))
    top = np.array([answers.score[i] for i in asked])
    grade = np.array([table[i, answers.order[i][0]] if answers.order[i] else 0 for i in asked])
    found: list[dict[str, Any]] = []
    for threshold in THRESHOLDS:
        given = np.nan_to_num(top, nan=-np.inf) >= threshold
        right = int((grade[given] >= 2).sum())
        found.append(
            {
                "protocol": protocol,
                "threshold": threshold,
                "coverage": _mean(given.astype(np.float64)),
                "precision": right / int(given.sum()) if given.any() else None,
                "precision_interval": wilson(right, int(given.sum())),
                "grade1": _mean((grade[given] >= 1).astype(np.float64)) if given.any() else None,
                "right_lost": int((grade >= 2).sum()) - right,
            }
        )
    return found


def measure(
    label: str, rows: Sequence[Row], patches: Sequence[str | None], embedder: Embedder | None, seed: int, say: Callable[[str], None]
) -> tuple[list[Block], list[dict[str, Any]]]:
    """Learn the rows into a bank and grade every way of asking; blocks for both protocols and halves, and the coverage table."""
    table = grades(rows)
    learned = np.array([patch is not None for patch in patches])
    same = np.array([[a.issue.repo == b.issue.repo for b in rows] for a in rows]) & ~np.eye(len(rows), dtype=bool) & learned
    earlier = same & np.tri(len(rows), k=-1, dtype=bool)  # rows are in order of repository and number
    blocks: list[Block] = []
    curve: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="swe-memory-benchmark-") as name:
        folder = Path(name)
        banks: list[tuple[str, MemoryBank, list[int]]] = []
        ways: list[tuple[str, Embedder | None]] = [("swe-memory", embedder)] if embedder is not None else []
        if learned.all() or not ways:  # without vectors the reference fixes of all issues are enough to see
            ways.append(("swe-memory, no embedder", None))
        for title, model in ways:
            say(f"{label}: learning {int(learned.sum())} experiences ({title})")
            bank = MemoryBank.open(folder / f"bank-{len(banks)}.lance", embedder=model)
            banks.append((title, bank, learn_in_rounds(bank, rows, patches)))
        for protocol, allowed in (("streaming", earlier), ("leave-one-out", same)):
            say(f"{label}: asking, {protocol}")
            answers = [ask(title, bank, rows, before if protocol == "streaming" else None) for title, bank, before in banks]
            baselines = [by_full_text(rows, allowed, folder / f"texts-{protocol}")]
            if embedder is not None:
                baselines.append(by_cosine(rows, allowed, embedder))
            blocks += [block(label, protocol, rows, half, table, allowed, [*baselines, *answers], seed) for half in ("all", "held out")]
            curve += coverage(protocol, table, allowed, answers[0])
        for _, bank, _ in banks:
            bank.close()
    return blocks, curve


def attempt_patches(folder: Path) -> dict[str, str]:
    """What the attempts of a run folder submitted, by instance id; those without a patch are left out."""
    from swe_memory.sources import read_attempt, scan

    found: dict[str, str] = {}
    for file in scan(folder).attempts:
        patch = read_attempt(file).trajectory.patch
        if patch and patch.strip():
            found[file.instance_id] = patch
    return found


def show(blocks: Sequence[Block], curve: Sequence[dict[str, Any]]) -> str:
    """The tables as text."""
    out: list[str] = []
    for one in blocks:
        out.append(f"\n{one.bank}, {one.protocol}, {one.half} queries: {one.queries} answerable at grade 2 (a file in common)")
        out.append(f"  {'':26} hit@1 [95 %]        hit@5   MRR [95 %]          grade 1   hit@1 minus text cosine")
        for line in one.rows:
            text = f"  {line.name:26} {_number(line.hit1)} {_interval(line.hit1_interval)}"
            if line.mrr_interval is not None:
                text += f"    {_number(line.hit5)}   {_number(line.mrr)} {_interval(line.mrr_interval)}    {_number(line.hit1_grade1)}"
            if line.gain_interval is not None:
                text += f"      {line.gain:+.3f} [{line.gain_interval[0]:+.3f}, {line.gain_interval[1]:+.3f}]"
            out.append(text)
    out.append("\nPrecision against coverage, all queries with anything earlier (or else) in their repository, answerable or not:")
    out.append(f"  {'':14} threshold  coverage  precision at grade 2 [95 %]  at grade 1   right answers lost")
    for row in curve:
        precision = f"{_number(row['precision'])} {_interval(row['precision_interval'])}"
        out.append(
            f"  {row['protocol']:14} {row['threshold']:9.2f}  {row['coverage']:8.3f}  {precision:28}  {_number(row['grade1'])}         {row['right_lost']:4d}"
        )
    return "\n".join(out)


def _number(value: float | None) -> str:
    return "  -  " if value is None else f"{value:5.3f}"


def _interval(pair: tuple[float, float]) -> str:
    return f"[{pair[0]:.3f}, {pair[1]:.3f}]"


def run(arguments: Sequence[str]) -> int:
    """The command. Exit code 0, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="retrieval.py", description="Measure the product's recall on issues with known fixes.")
    parser.add_argument("issues", type=Path, help="JSONL with instance_id, repo, problem_statement, patch")
    parser.add_argument("--attempts", type=Path, help="a folder of real attempts; a second column uses the files that they edited")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap")
    options = parser.parse_args(arguments)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:5.1f} s] {text}", file=sys.stderr)

    rows = read_rows(options.issues)
    embedder = default_embedder()
    if embedder is None:
        say(embedder_problem())
    blocks, curve = measure("reference fixes", rows, [row.patch for row in rows], embedder, options.seed, say)
    if options.attempts is not None:
        edited = attempt_patches(options.attempts)
        tried = {row.issue.id for row in rows} & edited.keys()
        if not tried:
            raise UsageError(
                f"No attempt in {options.attempts} is at an issue of {options.issues}.", "Give the run folder of the same issues."
            )
        fixes = [row.patch if row.issue.id in tried else None for row in rows]
        real = [edited.get(row.issue.id) for row in rows]
        for label, patches in (
            (f"{len(tried)} attempted issues, reference fixes", fixes),
            (f"{len(tried)} attempts, what they edited", real),
        ):
            blocks += measure(label, rows, patches, embedder, options.seed, say)[0]
    seconds = time.perf_counter() - started
    if options.json:
        figures = {"issues": len(rows), "seed": options.seed, "settings": ANSWER_ALWAYS.describe()}
        print(json.dumps({**figures, "blocks": [asdict(one) for one in blocks], "coverage": curve, "seconds": round(seconds, 1)}, indent=2))
    else:
        print(f"{len(rows)} issues; {ANSWER_ALWAYS.describe()}; seed {options.seed}; {seconds:.0f} s")
        print(show(blocks, curve))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except SweMemoryError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
