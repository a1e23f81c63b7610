"""What the tests of the bank share: a small embedder, made-up attempts, and an extractor that needs no model."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from swe_memory.records import (
    Action,
    Attempt,
    Experience,
    Extraction,
    Issue,
    ItemDraft,
    MemoryItem,
    Provenance,
    Step,
    Trajectory,
    Verdict,
)
from swe_memory.store import NewExperience, NewItem

START = datetime(2026, 1, 1, tzinfo=UTC)


class BagOfWords:
    """A real embedder, if a poor one: each word adds 1 at a place given by its hash; then scaled to length 1."""

    def __init__(self, dimension: int = 16, name: str = "bag") -> None:
        self.name, self.dimension, self.digest = name, dimension, hashlib.sha256(f"{name}{dimension}".encode()).hexdigest()
        self.asked = 0

    def documents(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += len(texts)
        return np.stack([self._row(text) for text in texts]) if texts else np.zeros((0, self.dimension), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.documents(texts)

    def _row(self, text: str) -> np.ndarray:
        row = np.zeros(self.dimension, dtype=np.float32)
        for word in text.lower().split():
            row[int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % self.dimension] += 1
        row[0] += 0.01
        return row / np.linalg.norm(row)


class Ticks:
    """A clock that goes on by a second at each look."""

    def __init__(self, start: datetime = START) -> None:
        self.now = start

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def counter(prefix: str = "t") -> object:
    """Names that follow each other: t0, t1, ..."""
    numbers = itertools.count()
    return lambda: f"{prefix}{next(numbers)}"


class NoteTaker:
    """An extractor by a rule of its own: one lesson about the file that was edited, or whatever drafts it is told to give."""

    def __init__(self, name: str = "notes@1", drafts: Sequence[ItemDraft] | None = None) -> None:
        self.name = name
        self.drafts = drafts
        self.asked = 0

    def extract(self, attempt: Attempt) -> Extraction:
        self.asked += 1
        if self.drafts is not None:
            return Extraction(tuple(self.drafts))
        polarity = "success" if attempt.verdict.outcome == "resolved" else "failure"
        draft = ItemDraft(
            "Follow the failing value back to where it is made",
            "How a wrong value was traced to its source.",
            f"Print the value at each hand-over until it changes, then correct the place number {len(attempt.issue.text)} that made it.",
            "strategy",
            polarity,  # type: ignore[arg-type]
            "general",
        )
        return Extraction((draft,))


WORDS = re.findall(
    r"\w+", "parser total widget cache queue token branch window label socket button frame cursor buffer signal vector matrix header"
)


def issue(number: int, repo: str = "acme/web", text: str | None = None) -> Issue:
    """Made-up issue ``number``: different words for different numbers."""
    picked = [WORDS[(number * k + k * k) % len(WORDS)] for k in range(1, 7)]
    made = f"The {picked[0]} loses its {picked[1]} (case {number})\n\nWhen the {picked[2]} is empty, {picked[3]} {picked[4]} and {picked[5]} fail."
    return Issue(f"web-{number}", repo, made if text is None else text, created_at=START + timedelta(days=number))


def attempt(number: int, *, resolved: bool = True, repo: str = "acme/web", text: str | None = None) -> Attempt:
    """A short attempt at issue ``number``: look, change, check, submit."""
    path = f"src/{WORDS[number % len(WORDS)]}/core_{number % 7}.py"
    change = f"@@ -1,3 +1,3 @@ def handle_{number % 5}(value):\n-    return value\n+    return value or {number}\n"
    patch = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{change}"
    steps = (
        Step("I look for the place.", (Action(f"grep -rn handle_{number % 5} src", f"{path}:1:def handle_{number % 5}(value):", 0),)),
        Step("I change it.", (Action(f"sed -i 's/return value/return value or {number}/' {path}", "", 0),)),
        Step("I check it.", (Action("python -m pytest -q", "3 passed", 0),)),
    )
    return Attempt(
        issue(number, repo, text), Trajectory(steps, "Submitted", patch), Verdict.from_tests(resolved=resolved), f"runs/{number}.traj.json"
    )


def stored(
    key: str, vector: np.ndarray, *, repo: str = "acme/web", terms: str = "", outcome: str = "resolved", number: int = 0, items: int = 1
) -> NewExperience:
    """An experience with given vector and terms, for tests of the store alone. Its items' vectors are of half its length."""
    verdict = Verdict(outcome, "tests")  # type: ignore[arg-type]
    made = issue(number, repo)
    half = np.asarray(vector[: len(vector) // 2], dtype=np.float32)
    half = half / (np.linalg.norm(half) or 1)
    lessons = tuple(
        NewItem(
            MemoryItem(
                f"{key}{outcome}{i}",
                f"Title {i}",
                "Description.",
                f"Content of {key}.",
                "strategy",
                "success",
                "general",
                repo,
                Provenance(key, made.id, "", "tests", verdict.outcome, "notes@1"),
            ),
            half,
        )
        for i in range(items)
    )
    experience = Experience(key, made, "digest", verdict, ("a.py",), ("f",), extractor="notes@1")
    return NewExperience(experience, f"hash{number}", terms, np.asarray(vector, dtype=np.float32), lessons)
