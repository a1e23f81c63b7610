"""How long does one recall take in a warm process, on banks of 1,000 and 100,000 items, and what would other ways of searching take?

    python benchmarks/recall_speed.py [--items 1000 --items 100000] [--queries 50] [--json] [--seed 0]

The banks are synthetic: issues and paths made of a small vocabulary, 10 repositories, 3 items an experience, written through the store as learning would
write them, but in commits of 1,000 experiences; their vectors are those of 200 real embeddings with noise. Every query is a text not seen before, so its
embedding is computed. The threshold is 0, so that every recall goes all the way to an item and its prompt block.

Beside it, in the same run and on the same number of vectors of the same dimension: the way the published ReasoningBank code searches (read a JSONL of
embeddings from disk again for each query, then a matrix product), and a matrix product over vectors that are already in memory, which finds but knows no
guard, snapshot or path. Times are of this machine at this moment; the ratios hold better. --json prints {cores, seed, queries, banks: [{items,
experiences, build_s, first_recall_s, recall_ms: {p50, p95}, embedding_ms: {p50, p95}, search_ms: {p50, p95}, official_ms: {p50, queries}, matrix_ms:
{p50, p95}, official_over_search, search_over_matrix}]}.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from swe_memory.bank import MemoryBank
from swe_memory.embed import Embedder, default_embedder, embedder_problem
from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.ranking import RankingSettings, text_hash, where_terms
from swe_memory.records import Experience, Issue, MemoryItem, Provenance, Verdict
from swe_memory.store import Batch, Identity, NewExperience, NewItem, Store

START = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS_EACH = 3
COMMIT = 1_000
BASES = 200
REPOSITORIES = 10
OFFICIAL_QUERIES = 6
NOUNS = [
    "invoice",
    "parser",
    "cache",
    "queue",
    "token",
    "header",
    "field",
    "schema",
    "widget",
    "cursor",
    "session",
    "buffer",
    "index",
    "reader",
    "writer",
    "filter",
    "model",
    "form",
    "column",
    "locale",
]
VERBS = [
    "drops",
    "repeats",
    "ignores",
    "rounds",
    "truncates",
    "swaps",
    "leaks",
    "reorders",
    "escapes",
    "duplicates",
    "rejects",
    "misreads",
    "locks",
    "loses",
    "merges",
    "overwrites",
]
CASES = [
    "empty input",
    "a trailing newline",
    "time zones",
    "nested lists",
    "unicode names",
    "a negative offset",
    "two workers",
    "a missing key",
    "large files",
    "an old format",
]


def issue_text(rng: random.Random) -> str:
    """A made-up issue of about 80 words with a name or two in it."""
    a, b, c = rng.sample(NOUNS, 3)
    title = f"The {a} {rng.choice(VERBS)} the {b} with {rng.choice(CASES)}"
    lines = [
        f"Calling `{a}_{b}()` on {rng.choice(CASES)} {rng.choice(VERBS)} the {c}, seen {rng.randrange(10**6)} times." for _ in range(4)
    ]
    return "\n".join([title, "", *lines, f"Expected: the {b} of the {c} stays. See {a}/{b}.py."])


def paths(rng: random.Random) -> tuple[str, ...]:
    """One to three made-up source files."""
    return tuple(sorted({f"{rng.choice(NOUNS)}/{rng.choice(NOUNS)}/{rng.choice(NOUNS)}.py" for _ in range(rng.randint(1, 3))}))


class TimedEmbedder:
    """An embedder that adds up the time it takes."""

    def __init__(self, inner: Embedder) -> None:
        self._inner, self.seconds = inner, 0.0
        self.name, self.dimension, self.digest = inner.name, inner.dimension, inner.digest

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        started = time.perf_counter()
        found = self._inner.documents(texts)
        self.seconds += time.perf_counter() - started
        return found

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        started = time.perf_counter()
        found = self._inner.queries(texts)
        self.seconds += time.perf_counter() - started
        return found


def build(folder: Path, items: int, embedder: Embedder, seed: int) -> np.ndarray:
    """A bank of that many items at ``folder``; the item vectors, (items, dimension) float32."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    bases = embedder.documents([issue_text(rng) for _ in range(BASES)])

    def near(count: int) -> np.ndarray:
        rows = bases[noise.integers(0, BASES, count)] + noise.normal(0, 0.03, (count, embedder.dimension)).astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    identity = Identity(embedder.name, embedder.dimension, embedder.digest)
    store = Store.open(folder, identity=identity, at=START, txn="benchmark-create")
    experiences = -(-items // ITEMS_EACH)
    vectors = near(items)
    for first in range(0, experiences, COMMIT):
        count = min(COMMIT, experiences - first)
        views = np.concatenate([near(count), near(count)], axis=1) / np.sqrt(np.float32(2))
        batch = []
        for offset in range(count):
            number = first + offset
            text, edited = issue_text(rng), paths(rng)
            issue = Issue(f"made-{number}", f"acme/part{number % REPOSITORIES}", text)
            key = f"{number:032x}"
            experience = Experience(key, issue, "A made-up attempt.", Verdict.from_tests(resolved=bool(number % 3)), edited, ())
            source = Provenance(key, issue.id, "benchmark", "tests", experience.verdict.outcome, "rules@1")
            held = tuple(
                NewItem(
                    MemoryItem(
                        f"item-{place}",
                        f"Mind the {rng.choice(NOUNS)} {place}",
                        "A made-up lesson.",
                        f"Check {rng.choice(CASES)} before and after.",
                        "strategy",
                        "success",
                        "repository" if place % 2 else "general",
                        issue.repo,
                        source,
                    ),
                    vectors[place],
                )
                for place in range(number * ITEMS_EACH, min(items, (number + 1) * ITEMS_EACH))
            )
            batch.append(NewExperience(experience, text_hash(text), where_terms(edited, ()), views[offset], held))
        store.learn("learn", Batch(tuple(batch)), txn=f"benchmark-{first}", session="benchmark", at=START, generation=1)
    store.close()
    return vectors


def official(path: Path, query: np.ndarray) -> int:
    """The published way: the whole file is read and parsed for each query, then one product. The best row."""
    with path.open(encoding="utf-8") as lines:
        matrix = np.array([json.loads(line)["embedding"] for line in lines], dtype=np.float32)
    return int(np.argmax(matrix @ query))


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds."""
    p50, p95 = np.quantile(np.array(seconds) * 1000, [0.5, 0.95])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3)}


def measure(items: int, queries: int, embedder: Embedder, seed: int) -> dict[str, Any]:
    """All figures for one size."""
    with tempfile.TemporaryDirectory(prefix="swe-memory-benchmark-") as name:
        folder = Path(name)
        started = time.perf_counter()
        vectors = build(folder / "bank.lance", items, embedder, seed)
        built = time.perf_counter() - started
        say(f"{items} items: bank built in {built:.1f} s")
        path = folder / "embeddings.jsonl"
        with path.open("w", encoding="utf-8") as out:
            for place, row in enumerate(vectors):
                numbers = ",".join(f"{value:.9g}" for value in row.tolist())  # nine digits keep a float32 exactly
                out.write(f'{{"id":"item-{place}","embedding":[{numbers}]}}\n')
        rng = random.Random(f"{seed} {items}")  # other texts for each bank: the embedder remembers what it has seen
        issues = [Issue(f"asked-{n}", f"acme/part{n % REPOSITORIES}", issue_text(rng)) for n in range(queries + 1)]
        timed = TimedEmbedder(embedder)
        settings = RankingSettings(threshold=0.0)
        recall: list[float] = []
        embedding: list[float] = []
        again: list[float] = []
        product: list[float] = []
        every = max(1, queries // OFFICIAL_QUERIES)
        with MemoryBank.open(folder / "bank.lance", embedder=timed) as bank:
            started = time.perf_counter()
            bank.recall(issues[0], settings=settings)
            first = time.perf_counter() - started
            # The ways take turns, so that a machine that is busier at one moment than at another is so for all of them.
            for number, issue in enumerate(issues[1:]):
                timed.seconds = 0.0
                started = time.perf_counter()
                found = bank.recall(issue, settings=settings)
                recall.append(time.perf_counter() - started)
                embedding.append(timed.seconds)
                if found.item is None:
                    raise SweMemoryError(f"Nothing was recalled for {issue.id}.", "The benchmark expects an item for each query.")
                (query,) = embedder.queries([issue.text])
                started = time.perf_counter()
                np.argmax(vectors @ query)
                product.append(time.perf_counter() - started)
                if number % every == 0:
                    started = time.perf_counter()
                    official(path, query)
                    again.append(time.perf_counter() - started)
    search = [whole - part for whole, part in zip(recall, embedding, strict=True)]
    old, new, matrix = float(np.median(again)), float(np.median(search)), float(np.median(product))
    return {
        "items": items,
        "experiences": -(-items // ITEMS_EACH),
        "build_s": round(built, 1),
        "first_recall_s": round(first, 3),
        "recall_ms": spread(recall),
        "embedding_ms": spread(embedding),
        "search_ms": spread(search),
        "official_ms": {"p50": round(old * 1000, 1), "queries": len(again)},
        "matrix_ms": spread(product),
        "official_over_search": round(old / new, 1),
        "search_over_matrix": round(new / matrix, 1),
    }


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr)


def run(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="recall_speed.py", description="Time recall on synthetic banks, beside two other ways of searching."
    )
    parser.add_argument("--items", type=int, action="append", help="size of a bank; may be repeated (default 1000 and 100000)")
    parser.add_argument("--queries", type=int, default=50, help="recalls timed for each bank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    sizes = options.items or [1_000, 100_000]
    if min(sizes) < 1 or options.queries < 2:
        raise UsageError("--items must be 1 or more and --queries 2 or more.", "For example: --items 1000 --queries 20")
    embedder = default_embedder()
    if embedder is None:
        raise SweMemoryError("This benchmark needs the embedding model.", embedder_problem())
    embedder.queries(["load the model"])
    banks = [measure(size, options.queries, embedder, options.seed) for size in sizes]
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "seed": options.seed, "queries": options.queries, "banks": banks}, indent=2))
        return 0
    print(f"{os.cpu_count()} cores; {options.queries} recalls each; milliseconds, p50 / p95")
    for bank in banks:
        print(
            f"\n{bank['items']:,} items, {bank['experiences']:,} experiences (built in {bank['build_s']} s; first recall {bank['first_recall_s']} s)"
        )
        for label, key in (("recall", "recall_ms"), ("  of it embedding", "embedding_ms"), ("  of it the rest (search)", "search_ms")):
            print(f"  {label:40} {bank[key]['p50']:10.1f} / {bank[key]['p95']:.1f}")
        print(
            f"  {'read the embeddings again, then product':40} {bank['official_ms']['p50']:10.1f}   ({bank['official_ms']['queries']} queries)"
        )
        print(f"  {'product over vectors in memory':40} {bank['matrix_ms']['p50']:10.2f} / {bank['matrix_ms']['p95']:.2f}")
        print(
            f"  search is {bank['official_over_search']} times as fast as reading again; it takes {bank['search_over_matrix']} times a bare product"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except SweMemoryError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
