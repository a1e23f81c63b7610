"""Who judges attempts and distils items in a run: by rules, by a language model, or by the hidden tests (an oracle).

What a language model used is written to the journal against the attempt that it was asked about, before its answer is looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from harness.attempt import write_usage
from harness.events import Journal
from harness.layout import Cell, Key
from harness.plan import Experiment
from swe_memory.errors import ModelError
from swe_memory.records import Attempt, Extraction, Extractor, Issue, Judge, Rejection, Trajectory, Usage, Verdict

if TYPE_CHECKING:
    from swe_memory.claude import Claude
    from swe_memory.rate import RateLimiter

T = TypeVar("T")
MOST_REFUSALS = 3
"""Questions in a row that the API may refuse as such; then it is not these questions that are wrong."""


class Teacher:
    """The judge and the extractor of one run.

    ``taught`` are the attempts that some bank learns from: by a judge that costs money only these are judged. ``spent`` is told what each call used.
    ``asks_to_distil`` says whether distilling asks a language model.
    Raises UsageError or ModelError where a language model is asked for and there is no key.
    """

    def __init__(
        self,
        experiment: Experiment,
        journal: Journal,
        *,
        taught: frozenset[Key],
        spent: Callable[[Usage], None],
        limiter: RateLimiter | None = None,
    ) -> None:
        self._experiment = experiment
        self._journal = journal
        self._taught = taught
        self._spent = spent
        self._now = threading.local()
        self._lock = threading.Lock()
        self._refusals = 0
        self.asks_to_distil = experiment.extractor.startswith("llm")
        asks = experiment.verdict == "llm" or self.asks_to_distil
        self._claude = make_claude(experiment, self._record, limiter) if asks and taught else None
        self._judge: Judge | None = None
        if experiment.verdict == "rules":
            from swe_memory.judge.rules import RulesJudge

            self._judge = RulesJudge()
        elif experiment.verdict == "llm" and self._claude is not None:
            from swe_memory.judge.llm import LLMJudge

            self._judge = LLMJudge(self._claude)

    def judge(self, cell: Cell, issue: Issue, trajectory: Trajectory, resolved: bool) -> Verdict | None:
        """The verdict on an attempt, None where nobody needs one. ``resolved`` is what the hidden tests say; only ``tests`` looks at it.

        Unknown, with the reason, where the API refuses this one question: what the tests said must not be lost with it. Raises ModelError where the model
        cannot be asked.
        """
        if self._experiment.verdict == "tests":
            return Verdict.from_tests(resolved=resolved)
        if self._judge is None or (self._experiment.verdict == "llm" and cell.key not in self._taught):
            return None
        judge = self._judge
        with self._asking(cell, "judge"):
            return self.unless_refused(lambda: judge.judge(issue, trajectory), lambda why: Verdict.unknown("llm", why))

    def extractor(self, cells: Mapping[str, Cell], bank: str) -> Extractor:
        """The extractor for the lessons of one bank. ``cells``: issue id -> the attempt that teaches."""
        if not self.asks_to_distil:
            from swe_memory.extract.rules import RulesExtractor

            return RulesExtractor()
        from swe_memory.extract.llm import LLMExtractor

        assert self._claude is not None
        return _Accounted(LLMExtractor(self._claude), self, cells, bank)

    def unless_refused(self, ask: Callable[[], T], otherwise: Callable[[str], T]) -> T:
        """What ``ask`` gives; ``otherwise``, with the reason, where the API refuses the question as such, which no later try would change.

        Raises ModelError where the model cannot be asked, and, to end the run, when :data:`MOST_REFUSALS` questions were refused in a row.
        """
        try:
            answer = ask()
        except ModelError as error:
            if getattr(error, "stop", False) or getattr(error, "retryable", True):
                raise
            with self._lock:
                self._refusals += 1
                many = self._refusals >= MOST_REFUSALS
            if many:
                error.stop = True  # type: ignore[attr-defined]
                raise
            return otherwise(error.what)
        with self._lock:
            self._refusals = 0
        return answer

    @contextmanager
    def _asking(self, cell: Cell, role: str, bank: str = "") -> Iterator[None]:
        self._now.about = (cell, role, bank)
        try:
            yield
        finally:
            self._now.about = None

    def _record(self, usage: Usage) -> None:
        cell, role, bank = self._now.about
        write_usage(self._journal, cell, role, usage, bank)
        self._spent(usage)


class _Accounted:
    """An extractor whose model calls are written down against the attempt that they are about."""

    def __init__(self, extractor: Extractor, teacher: Teacher, cells: Mapping[str, Cell], bank: str) -> None:
        from swe_memory.extract.outgoing import public

        self.name = extractor.name
        self._extractor = extractor
        self._teacher = teacher
        # An extractor sees ids without secrets, or what looks like one.
        self._cells = {public(issue): cell for issue, cell in cells.items()}
        self._bank = bank

    def extract(self, attempt: Attempt) -> Extraction:
        """See :class:`swe_memory.records.Extractor`. A question that the API refuses teaches nothing."""
        with self._teacher._asking(self._cells[attempt.issue.id], "extract", self._bank):
            return self._teacher.unless_refused(
                lambda: self._extractor.extract(attempt), lambda why: Extraction((), (Rejection(why, ""),), usable=False)
            )


def make_claude(experiment: Experiment, record: Callable[[Usage], None], limiter: RateLimiter | None) -> Claude:
    """The transport to the experiment's model."""
    from swe_memory.claude import Claude

    return Claude(experiment.model, on_usage=record, limiter=limiter)
