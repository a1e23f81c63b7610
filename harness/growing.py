"""The growing bank of one online stream: recalled from as it was before a wave, learned into after it, in the stream's order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.attempt import verdict_from
from harness.events import RunState
from harness.frozen import bank_path, open_bank
from harness.layout import BankPlan, Cell, Key
from harness.trajectory_file import read_trajectory
from swe_memory.records import Extractor, Issue, Learned, Recall, Verdict

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank
    from swe_memory.ranking import RankingSettings


class Growing:
    """One stream's bank. Safe to share between threads.

    An attempt that failed through the machine teaches nothing; tried again on resume it recalls what its wave recalled, and is learned from only if
    the stream has not moved on since, for what later attempts recalled cannot be changed any more.
    """

    def __init__(self, plan: BankPlan, folder: Path, state: RunState) -> None:
        self.plan = plan
        self._folder = folder
        self._lock = threading.Lock()
        self._opened: MemoryBank | None = None
        known = state.banks[plan.id].learned if plan.id in state.banks else {}
        self._versions = {key: int(event["bank_version"]) for key, event in known.items()}
        self._left = self.unlearned(plan, state)
        waiting = {key for wave in self._left for key in plan.waves[wave]}
        # What was graded before and not learned from; what this process grades comes by `graded`.
        self._graded: dict[Key, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
            key: (attempt.finished, attempt.graded)
            for key in waiting
            if (attempt := state.attempts.get(key)) and attempt.graded and key not in self._versions
        }

    @staticmethod
    def unlearned(plan: BankPlan, state: RunState) -> list[int]:
        """The waves that have something left to learn: those after the last one that was learned from, and that one if it was left half-way."""
        known = state.banks[plan.id].learned if plan.id in state.banks else {}
        reached = max((number for number, keys in enumerate(plan.waves) if any(key in known for key in keys)), default=-1)

        def whole(number: int) -> bool:
            graded = [key for key in plan.waves[number] if (attempt := state.attempts.get(key)) and attempt.graded]
            begun = any(key in state.attempts for later in plan.waves[number + 1 :] for key in later)
            # Nothing more is learned in a wave once an attempt of a later one has begun.
            return begun or (len(graded) == len(plan.waves[number]) and all(key in known for key in graded))

        return [number for number in range(len(plan.waves)) if number >= reached and not whole(number)]

    def left(self) -> list[int]:
        """The waves that are left to learn from."""
        return self._left

    def bank(self) -> MemoryBank:
        """The open bank. Raises SweMemoryError where it does not hold what the journal says that it learned."""
        with self._lock:
            if self._opened is None:
                self._opened = open_bank(bank_path(self._folder, self.plan), max(self._versions.values(), default=0))
            return self._opened

    def version(self, wave: int) -> int:
        """The bank version before a wave."""
        earlier = {key for keys in self.plan.waves[:wave] for key in keys}
        with self._lock:
            return max((version for key, version in self._versions.items() if key in earlier), default=0)

    def recall(self, issue: Issue, wave: int, settings: RankingSettings) -> Recall:
        """What an attempt of that wave recalls."""
        return self.bank().recall(issue, at=self.version(wave), settings=settings)

    def graded(self, key: Key, finished: Mapping[str, Any], graded: Mapping[str, Any]) -> None:
        """An attempt of this stream was graded; its two events."""
        with self._lock:
            self._graded[key] = finished, graded

    def learn(
        self,
        wave: int,
        cells: Mapping[Key, Cell],
        issues: Mapping[str, Issue],
        extractor: Extractor,
        settings: RankingSettings,
        *,
        told: Callable[[Cell, Learned], None],
        go_on: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Learn from the attempts of a wave, in their order, those that failed through the machine left out; whether all was learned (False: ``go_on``,
        asked before each, said no). Raises ModelError."""
        bank = self.bank()
        for key in self.plan.waves[wave]:
            with self._lock:
                known = self._graded.get(key)
            if known is None or key in self._versions:
                continue
            finished, event = known
            if not go_on():
                return False
            issue, cell = issues[key[2]], cells[key]
            verdict = verdict_from(event["verdict"]) if event["verdict"] else Verdict.unknown()
            if verdict.outcome not in self.plan.outcomes:
                verdict = Verdict.unknown(verdict.source, "this arm does not learn from such attempts")
            trajectory = read_trajectory(self._folder / cell.arm.folder / cell.stream, cell.issue, finished)
            done = bank.learn(
                issue,
                trajectory,
                verdict,
                extractor=extractor,
                recall=self.recall(issue, wave, settings),
                session="/".join(key[:2]),
                source="/".join(key),
            )
            told(cell, done)
            with self._lock:
                self._versions[key] = done.bank_version
                self._graded.pop(key, None)
        return True

    def close(self) -> None:
        """Close the bank, if it was opened."""
        if self._opened is not None:
            self._opened.close()
