"""Carries out an experiment in its folder: what waits for what, side by side, resumable at every point.

Each attempt is a task to run and a task to grade; each frozen bank is a task that waits for the attempts it learns from; each wave of a growing bank is one
that waits for the wave's attempts. No result depends on which worker took what when.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.agents import Agent, connect, make_agent
from harness.attempt import Given, Setting, grade_stage, guarded, run_stage, where
from harness.events import AttemptState, Journal, RunState, read_state
from harness.files import remove_tree
from harness.folder import changed_since, experiment_digest, scratch_folder
from harness.frozen import CHUNK, bank_path, copy_given, given, learn_lessons, open_bank, recall_record, work_out_recalls
from harness.growing import Growing
from harness.interrupts import collected, watcher
from harness.layout import BankPlan, Cell, Key, Layout, lay_out
from harness.plan import Experiment
from harness.statistics.estimates import count
from harness.tasks import Stopped, Task, Tasks
from harness.teacher import Teacher
from harness.trajectory_file import mend_predictions
from harness.warming import load_memory, warming
from swe_memory.errors import InfraError, ModelError, UsageError
from swe_memory.records import Usage

if TYPE_CHECKING:
    from pathlib import Path

    from harness.budget import RunBudget
    from harness.dataset import Dataset
    from harness.equipment import Equipment
    from swe_memory.records import Learned

RETRIES = (5.0, 30.0, 120.0)
"""Seconds to wait before an attempt that failed through the machine is tried again; then it is listed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run is carried out; none of it changes a result.

    ``retries`` are the waits in seconds between tries after infra failures. ``max_cost`` (US dollars), ``max_seconds``, ``max_tokens`` and ``max_calls`` bound
    the whole run, earlier sessions and memory's own calls included. ``requests`` and ``tokens`` a minute bound what is asked of the model's API by all workers
    together. ``given_bank`` is where the protocol *offline* takes its bank from.
    """

    workers: int = 2
    retries: Sequence[float] = RETRIES
    max_cost: float | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    requests: int | None = None
    tokens: int | None = None
    given_bank: str = ""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"{self.workers} workers can do nothing", "Give --workers 1 or more.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened, for showing progress: an attempt that was graded or failed for good, or a bank that was frozen (then ``cell`` is None).

    ``failure`` is the infra failure's message, "" for none; ``text`` says what became of a bank. ``spent`` is what the run has used so far.
    """

    cell: Cell | None
    resolved: bool = False
    calls: int | None = None
    exit_status: str = ""
    recalled: str = ""
    failure: str = ""
    text: str = ""
    spent: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class _Live:
    """What this process has seen of one attempt and still needs."""

    finished: Mapping[str, Any] = field(default_factory=dict)
    recalled: str = ""
    tries: int = 0


class Run:
    """One process's work on a locked run folder. ``say`` is called one call at a time, from the worker that did the work."""

    def __init__(
        self,
        folder: Path,
        experiment: Experiment,
        dataset: Dataset,
        settings: Settings,
        say: Callable[[Outcome], None],
        *,
        agent: Agent | None = None,
    ) -> None:
        self.folder = folder
        self.experiment = experiment
        self.layout: Layout = lay_out(experiment)
        self.stopped_by = ""
        self._agent = agent or make_agent(experiment.agent, model=experiment.model)
        self._instances = {instance.issue.id: instance for instance in dataset.instances}
        self._issues = {name: instance.issue for name, instance in self._instances.items()}
        self._cells = {cell.key: cell for cell in self.layout.cells}
        self._settings = settings
        self._say = say
        self._saying = threading.Lock()
        self._halt = threading.Event()
        self._scratch = scratch_folder(folder)
        self._live: dict[Key, _Live] = {}
        self._lost_in_a_row = 0
        self._bank_tries: dict[str, int] = {}
        self._growing: dict[str, Growing] = {}
        self._frozen: dict[str, Mapping[str, Any]] = {}
        self._tasks: Tasks
        self._journal: Journal
        self._setting: Setting
        self._teacher: Teacher
        self._budget: RunBudget

    # -- the whole ---------------------------------------------------------------------------------------------------------------------------

    def execute(self, on_interrupt: Callable[[], None] = lambda: None) -> RunState:
        """Do all that the journal does not show as done; gives the state at the end.

        A first Ctrl-C (or SIGTERM) lets the attempts under way finish (``on_interrupt`` may tell the user so), a second one stops them at once (see
        :mod:`harness.interrupts`); then KeyboardInterrupt is raised if anything is left to do. Infra failures are in the state; a limit of the run that was
        reached is in ``stopped_by``; any other error ends the run and is raised. Whatever happens, ``--resume`` goes on from there.
        """
        from harness.budget import RunBudget
        from harness.environments.local import end_left_behind
        from harness.equipment import equip
        from swe_memory.rate import RateLimiter

        s = self._settings
        path = self.folder / "events.jsonl"
        state = read_state(path)
        if changed := changed_since(self.folder, state):
            raise UsageError(changed, "Restore it from a copy, or start a new run in another folder.")
        self._frozen = {bank: known.frozen for bank, known in state.banks.items() if known.frozen}
        end_left_behind(self._scratch)
        remove_tree(self._scratch)
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._budget = RunBudget(
            cost=s.max_cost, seconds=s.max_seconds, tokens=s.max_tokens, calls=s.max_calls, spent=state.spent, earlier_seconds=state.seconds
        )
        limiter = RateLimiter(s.requests, s.tokens, stop=self._halt)
        connect(self._agent, self.experiment.limits(), limiter)
        try:
            with contextlib.ExitStack() as stack:
                equipment = stack.enter_context(equip(self.experiment, self.folder, self._scratch, self._halt, self._note))
                self._journal = stack.enter_context(Journal(path))
                self._journal.append(
                    "session", workers=s.workers, versions=dict(self.experiment.versions), experiment=experiment_digest(self.folder)
                )
                taught = frozenset(key for plan in self.layout.banks for key in plan.lessons)
                self._teacher = Teacher(self.experiment, self._journal, taught=taught, spent=self._budget.add, limiter=limiter)
                self._setting = self._make_setting(equipment)
                self._mend_predictions(state)
                tasks = [*self._frozen_tasks(state), *self._growing_tasks(state, stack), *self._attempt_tasks(state)]
                self._tasks = Tasks(tasks, {"run": s.workers, "grade": s.workers, "bank": max(1, min(s.workers, 4))})

                def stop() -> None:
                    self._tasks.stop()
                    with contextlib.suppress(OSError, ValueError):
                        on_interrupt()

                if tasks:
                    loads = [equipment.grader.start, *([load_memory] if self.layout.banks else [])]
                    stack.enter_context(warming(loads))
                with collected() as asked:
                    done = self._tasks.run(watcher(asked, stop, self._halt))
        finally:
            remove_tree(self._scratch)
        if asked and not done:
            raise KeyboardInterrupt
        return read_state(path)

    def _make_setting(self, equipment: Equipment) -> Setting:
        e = self.experiment
        return Setting(
            agent=self._agent,
            limits=e.limits(),
            judge=self._teacher.judge,
            grader=equipment.grader,
            journal=self._journal,
            folder=self.folder,
            places=equipment.places,
            halt=self._halt,
            testing=threading.Semaphore(max(1, min(self._settings.workers, os.cpu_count() or 1))),
            spent=self._budget.add,
            test_seconds=e.test_seconds,
        )

    def _mend_predictions(self, state: RunState) -> None:
        """What is handed to others must hold each attempt that is done, whatever became of the file since."""
        for cells in self.layout.streams().values():
            done = {cell.issue: state.attempts[cell.key].finished for cell in cells if cell.key in state.attempts}
            finished = {issue: event for issue, event in done.items() if event}
            if cells[0].arm.kind != "gold" and finished:
                folder = self._setting.place(cells[0])
                if mended := mend_predictions(folder, self._setting.prediction_name(cells[0]), finished):
                    self._note(
                        f"{count(mended, 'prediction was', 'predictions were')} brought back into {folder / 'preds.json'} from the trajectories"
                    )

    # -- tasks -------------------------------------------------------------------------------------------------------------------------------

    def _attempt_tasks(self, state: RunState) -> Iterator[Task]:
        for cell in self.layout.cells:
            known = state.attempts.get(cell.key, AttemptState(cell.key))
            if known.graded:
                continue
            self._live[cell.key] = _Live(known.finished, _title(known.started.get("recall")))
            if not known.finished:
                after = [_name("freeze", cell.bank)] if cell.bank else []
                if cell.bank in self._growing:
                    after = [_name("learn", cell.bank, str(cell.wave - 1))] if cell.wave else []
                yield Task(_name("run", *cell.key), "run", partial(self._run, cell), after, cell.chain)
            yield Task(
                _name("grade", *cell.key), "grade", partial(self._grade, cell), [_name("run", *cell.key)], cell.chain, finishing=True
            )

    def _frozen_tasks(self, state: RunState) -> Iterator[Task]:
        for plan in self.layout.banks:
            known = state.banks.get(plan.id)
            if plan.kind == "growing" or (known and known.frozen):
                continue
            yield Task(_name("freeze", plan.id), "bank", partial(self._freeze, plan), [_name("grade", *key) for key in plan.lessons], 1)

    def _growing_tasks(self, state: RunState, banks: contextlib.ExitStack) -> Iterator[Task]:
        for plan in self.layout.banks:
            if plan.kind != "growing":
                continue
            growing = Growing(plan, self.folder, state)
            self._growing[plan.id] = growing
            banks.callback(growing.close)
            for wave in growing.left():
                after = [_name("grade", *key) for key in plan.waves[wave]]
                after += [_name("learn", plan.id, str(wave - 1))] if wave else []
                yield Task(
                    _name("learn", plan.id, str(wave)), "bank", partial(self._learn_wave, growing, wave), after, len(plan.waves) - wave
                )

    # -- what the tasks do -------------------------------------------------------------------------------------------------------------------

    def _run(self, cell: Cell) -> float | None:
        if reason := self._budget.reached(self._journal.seconds):
            self._stop(reason)
            raise Stopped
        live = self._live[cell.key]

        def work() -> Mapping[str, Any]:
            given = self._given(cell)
            live.recalled = _title(given.record)
            return run_stage(self._setting, cell, self._instances[cell.issue], given)

        try:
            live.finished = guarded(self._journal, cell, "run", work)
        except InfraError as error:
            return self._again(cell, error)
        live.tries = 0
        return None

    def _given(self, cell: Cell) -> Given:
        if not cell.bank:
            return Given()
        if growing := self._growing.get(cell.bank):
            settings = cell.arm.ranking(self.experiment.recall, before=self.experiment.before)
            recall = growing.recall(self._issues[cell.issue], cell.wave, settings)
            return Given(cell.bank, recall_record(recall), recall.prompt)
        return given(self.folder, self.layout.bank(cell.bank), cell, self._frozen.get(cell.bank))

    def _grade(self, cell: Cell) -> float | None:
        live = self._live[cell.key]
        if not live.finished:  # it failed for good; its failure was told
            return None

        def work() -> Mapping[str, Any]:
            return grade_stage(self._setting, cell, self._instances[cell.issue], live.finished)

        try:
            graded = guarded(self._journal, cell, "grade", work)
        except InfraError as error:
            return self._again(cell, error)
        self._lost_in_a_row = 0
        if growing := self._growing.get(cell.bank):
            growing.graded(cell.key, live.finished, graded)
        self._tell(Outcome(cell, graded["resolved"], live.finished["calls"], live.finished["exit_status"], live.recalled))
        del self._live[cell.key]
        return None

    def _again(self, cell: Cell, error: InfraError) -> float | None:
        """Seconds until the next try of a stage that failed through the machine; None where there is none: then it is told and listed."""
        live = self._live[cell.key]
        if live.tries < len(self._settings.retries):
            live.tries += 1
            return self._settings.retries[live.tries - 1]
        live.finished = {}
        self._tell(Outcome(cell, failure=str(error)))
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= max(10, 2 * self._settings.workers):
            self._stop(f"{self._lost_in_a_row} attempts in a row failed through the machine: {error.what}")
        return None

    def _freeze(self, plan: BankPlan) -> float | None:
        if plan.kind == "given":
            copy_given(self._settings.given_bank, self.folder, plan)
        state = read_state(self._journal.path)
        graded = {key: attempt for key in plan.lessons if (attempt := state.attempts.get(key)) and attempt.graded}
        learned = state.banks[plan.id].learned if plan.id in state.banks else {}
        reached = max((event["bank_version"] for event in learned.values()), default=0)
        with open_bank(bank_path(self.folder, plan), reached) as bank:
            extractor = self._teacher.extractor({key[2]: self._cells[key] for key in plan.lessons}, plan.id)
            try:
                whole = learn_lessons(
                    bank,
                    plan,
                    self.folder,
                    self._cells,
                    self._issues,
                    graded,
                    extractor,
                    learned=frozenset(learned),
                    told=partial(self._learned, plan),
                    go_on=self._may_learn,
                    # What a model was asked for is committed at once; so each has the bank version that it has without a kill in between.
                    together=1 if self._teacher.asks_to_distil else CHUNK,
                )
            except ModelError as error:
                return self._later(plan, error)
            if not whole:
                raise Stopped
            recalls = work_out_recalls(bank, plan, self.folder, self.experiment, self._issues)
            info = bank.info()
        missing = [list(key) for key in plan.lessons if key not in graded]
        self._frozen[plan.id] = self._journal.append(
            "frozen",
            bank=plan.id,
            version=info.version,
            experiences=info.experiences,
            items=info.items["active"],
            missing=missing,
            recalls=recalls,
        )
        lost = (
            f"; {count(len(missing), 'attempt', 'attempts')} that it should have learned from failed through the machine" if missing else ""
        )
        held = f"{count(info.items['active'], 'item', 'items')} of {count(info.experiences, 'attempt', 'attempts')}"
        self._tell(Outcome(None, text=f"bank {plan.id} is frozen: {held}{lost}"))
        return None

    def _learn_wave(self, growing: Growing, wave: int) -> float | None:
        plan = growing.plan
        extractor = self._teacher.extractor({key[2]: self._cells[key] for key in plan.lessons}, plan.id)
        settings = plan.readers[0].ranking(self.experiment.recall, before=self.experiment.before)
        try:
            whole = growing.learn(
                wave, self._cells, self._issues, extractor, settings, told=partial(self._learned, plan), go_on=self._may_learn
            )
        except ModelError as error:
            return self._later(plan, error)
        if not whole:
            raise Stopped
        return None

    def _may_learn(self) -> bool:
        """Whether a bank may go on to learn. A model that distils is not asked any more once the run's budget is used up; rules cost nothing."""
        if self._teacher.asks_to_distil and (reason := self._budget.reached(self._journal.seconds)):
            self._stop(reason)
        return not self._tasks.stopping

    def _learned(self, plan: BankPlan, cell: Cell, done: Learned) -> None:
        write_learned(self._journal, plan, cell, done)
        self._bank_tries.pop(plan.id, None)

    def _later(self, plan: BankPlan, error: ModelError) -> float:
        """Seconds until a bank's learning is tried again after its model could not be asked; after the last try the error ends the run, resumably."""
        if self._halt.is_set():
            raise Stopped from error
        tries = self._bank_tries.get(plan.id, 0)
        if getattr(error, "stop", False) or tries >= len(self._settings.retries):
            raise error
        self._bank_tries[plan.id] = tries + 1
        return self._settings.retries[tries]

    # -- little helpers ----------------------------------------------------------------------------------------------------------------------

    def _stop(self, reason: str) -> None:
        self.stopped_by = self.stopped_by or reason
        self._tasks.stop()

    def _note(self, text: str) -> None:
        self._tell(Outcome(None, text=text))

    def _tell(self, outcome: Outcome) -> None:
        # Who watches may go away (a closed terminal, a pipe's reader); the work goes on.
        with self._saying, contextlib.suppress(OSError, ValueError):
            self._say(replace(outcome, spent=self._budget.spent))


def _title(record: Mapping[str, Any] | None) -> str:
    """What an attempt was given, in a few words; "" for nothing, which a control gives where memory gave nothing."""
    if not record or not record.get("characters"):
        return ""
    return str(record.get("title") or record.get("control") or "")


def _name(*parts: str) -> str:
    return "\0".join(parts)


def write_learned(journal: Journal, plan: BankPlan, cell: Cell, learned: Learned) -> None:
    """A ``learned`` event."""
    journal.append(
        "learned",
        **where(cell),
        bank=plan.id,
        key=learned.key,
        # Learned again after a kill the bank says `already`; what the attempt taught it is the same.
        status="nothing" if not learned.items and not learned.quarantined else "learned",
        items=[{"id": item.id, "title": item.title, "reach": item.reach, "polarity": item.polarity} for item in learned.items],
        quarantined=len(learned.quarantined),
        # What was refused is not stored, so that nobody knows it any more where the bank was faster than the journal.
        rejected=None if learned.status == "already" else len(learned.rejected),
        bank_version=learned.bank_version,
    )


def complete(layout: Layout, state: RunState) -> bool:
    """Whether nothing is left to do."""
    graded = all((known := state.attempts.get(cell.key)) is not None and known.graded for cell in layout.cells)
    frozen = all((bank := state.banks.get(plan.id)) is not None and bank.frozen for plan in layout.banks if plan.kind != "growing")
    return graded and frozen and all(not Growing.unlearned(plan, state) for plan in layout.banks if plan.kind == "growing")
