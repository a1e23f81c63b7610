"""``swe-memory run explain``: everything that a run knows of one attempt. What it was asked, what it was given and where that was learned, what it did, how
it was graded and judged, what was learned from it, and who was given that later.

Read from the journal, the stored trajectory and the banks; nothing is written. A file that is gone or damaged is named among the problems, and the rest is
told all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.checks import is_count, is_number, is_text, is_texts
from harness.events import AttemptState, RunState, fold, read_events
from harness.folder import read_experiment
from harness.frozen import bank_path, given, recalls_path
from harness.growing import Growing
from harness.layout import BankPlan, Cell, Key, Layout, lay_out
from harness.looking import History, at_work, find_attempt, histories, printable, usage_values
from harness.plan import Experiment
from harness.trajectory_file import changed, read_as_it_is, trajectory_path
from swe_memory.errors import SweMemoryError
from swe_memory.records import Usage

if TYPE_CHECKING:
    from swe_memory.records import MemoryItem, Trajectory

MINIBENCH = "minibench"


def explain_attempt(folder: Path, attempt: str) -> tuple[dict[str, Any], bool]:
    """All about one attempt, as plain values (the keys are told by ``swe-memory run explain --help``), and whether every file of it could be read.

    Raises UsageError where ``folder`` holds no run, or ``attempt`` fits none of its attempts, or several.
    """
    experiment = read_experiment(folder)
    layout = lay_out(experiment)
    cell = find_attempt(layout, attempt)
    working = bool(at_work(folder))
    events, problems = read_events(folder / "events.jsonl")
    state = fold(events, problems)
    history = histories(event for event in events if event.get("issue") == cell.issue).get(cell.key, History())
    looked = _Look(folder, experiment, layout, cell, state, history, working)
    found = looked.all()
    return {key: printable(value) for key, value in found.items()}, not looked.problems


class _Look:
    """One look at one attempt. ``problems`` fills up on the way."""

    def __init__(
        self, folder: Path, experiment: Experiment, layout: Layout, cell: Cell, state: RunState, history: History, working: bool
    ) -> None:
        self._folder = folder
        self._experiment = experiment
        self._layout = layout
        self._cell = cell
        self._state = state
        self._known = state.attempts.get(cell.key, AttemptState(cell.key))
        self._history = history
        self._working = working
        self._place = folder / cell.arm.folder / cell.stream
        self.problems: list[str] = []

    def all(self) -> dict[str, Any]:
        """Every part."""
        cell, known = self._cell, self._known
        trajectory = self._trajectory()
        found: dict[str, Any] = {
            "run": self._folder.resolve().name,
            "attempt": "/".join(cell.key),
            "arm": cell.arm.name,
            "kind": cell.arm.kind,
            "stream": cell.stream,
            "state": self._word(),
            "issue": self._issue(trajectory),
            "given": self._given(),
            "work": self._work(),
            "patch": self._patch(trajectory),
            "grade": None,
            "verdict": None,
            "learned": self._learned(),
            "files": self._files(),
        }
        if graded := known.graded:
            found["grade"] = {name: graded.get(name) for name in ("resolved", "outcome", "flags")} | {"reason": _text(graded.get("reason"))}
            if verdict := graded["verdict"]:
                found["verdict"] = {name: verdict[name] for name in ("outcome", "source", "reason", "confidence")}
                found["verdict"]["model"] = _text(verdict.get("model"))
        return {**found, "problems": [*self.problems, *self._state.problems]}

    def _word(self) -> str:
        known = self._known
        if known.infra and not (self._working and self._history.last != "failed"):
            return "infra failure"
        return "graded" if known.graded else "finished" if known.finished else "started" if known.started else "not started"

    # -- the issue -------------------------------------------------------------------------------------------------------------------------

    def _trajectory(self) -> Trajectory | None:
        if not self._known.finished or self._cell.arm.kind == "gold":
            return None
        try:
            trajectory = read_as_it_is(self._place, self._cell.issue)
        except SweMemoryError as error:
            self.problems.append(error.what)
            return None
        if what := changed(self._place, self._cell.issue, trajectory, self._known.finished):
            self.problems.append(f"{what}: it was changed after the attempt")
        return trajectory

    def _issue(self, trajectory: Trajectory | None) -> dict[str, Any]:
        """``source`` says where the text is from: the stored trajectory, the bundled bench, or "" where it is not to be had."""
        e = self._experiment
        number = e.instances.index(self._cell.issue)
        text, source = "", ""
        if trajectory is not None and trajectory.task.strip():
            from swe_memory.trajectories import issue_text

            text, source = issue_text(trajectory.task), "trajectory"
        elif e.dataset == MINIBENCH:
            from harness.dataset import load_dataset

            try:
                text, source = load_dataset(MINIBENCH).instance(self._cell.issue).issue.text, MINIBENCH
            except SweMemoryError as error:
                self.problems.append(error.what)
        title = next((line.strip() for line in text.splitlines() if line.strip()), "")
        return {
            "id": self._cell.issue,
            "repository": e.repositories[number],
            "created_at": e.dates[number] or None,
            "title": title,
            "text": text,
            "source": source,
        }

    # -- what it was given -----------------------------------------------------------------------------------------------------------------

    def _given(self) -> dict[str, Any] | None:
        """None in an arm without memory, or where it was not begun."""
        record = self._known.started.get("recall")
        if not record:
            return None
        bank_id = _text(self._known.started.get("bank")) or self._cell.bank
        plan = next((bank for bank in self._layout.banks if bank.id == bank_id), None)
        ids = record["items"] if is_texts(record.get("items")) else [record["item"]] if record.get("item") else []
        stored = self._stored(plan, ids, record["bank_version"]) if plan else {}
        return {
            "bank": bank_id,
            "bank_version": record["bank_version"],
            "control": record.get("control") if is_text(record.get("control")) else None,
            "item": record.get("item"),
            "recalled": record.get("title"),
            "score": record.get("score") if record.get("item") else None,
            "learned_from": record.get("learned_from"),
            "verdict_source": record.get("verdict_source") if is_text(record.get("verdict_source")) else None,
            "reasons": list(record["reasons"]) if is_texts(record.get("reasons")) else [],
            "settings": _text(record.get("settings")),
            "characters": record.get("characters") if is_count(record.get("characters")) else None,
            "items": [self._item(name, stored.get(name), bank_id, record) for name in ids],
            "prompt": self._prompt(plan, record),
        }

    def _stored(self, plan: BankPlan, ids: list[str], version: int) -> dict[str, MemoryItem]:
        """The items of these ids, as the bank holds them at that version."""
        if not ids:
            return {}
        from swe_memory.bank import MemoryBank

        path = bank_path(self._folder, plan)
        found: dict[str, MemoryItem] = {}
        try:
            with MemoryBank.open(path, embedder=None, create=False, read_only=True, any_embedder=True) as bank:
                for name in ids:
                    try:
                        found[name] = bank.item(name, at=version)
                    except SweMemoryError as error:
                        self.problems.append(f"the bank {plan.id} does not show the item {name} at version {version}: {error.what}")
        except SweMemoryError as error:
            self.problems.append(f"the bank {plan.id} cannot be read: {error.what}")
        return found

    def _item(self, name: str, item: MemoryItem | None, bank: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """One item; what only the bank knows is null where it cannot be read."""
        teachers = self._state.banks[bank].learned if bank in self._state.banks else {}
        teacher = next(("/".join(key) for key, event in teachers.items() if any(one["id"] == name for one in event["items"])), None)
        first = name == record.get("item")
        source = item.provenance if item else None
        return {
            "id": name,
            "title": item.title if item else record.get("title") if first else None,
            "description": item.description if item else None,
            "content": item.content if item else None,
            "kind": item.kind if item else None,
            "polarity": item.polarity if item else None,
            "reach": item.reach if item else None,
            "repository": item.repo if item else None,
            "learned_from": source.issue_id if source else record.get("learned_from") if first else None,
            # In a bank of the run the attempt that taught it; in a given one whatever its maker called it.
            "attempt": teacher or (source.source if source else None) or None,
            "outcome": source.outcome if source else record.get("outcome") if first else None,
            "verdict_source": source.verdict_source if source else record.get("verdict_source") if first else None,
            "extractor": source.extractor if source else None,
            "model": source.model if source else None,
        }

    def _prompt(self, plan: BankPlan | None, record: Mapping[str, Any]) -> str | None:
        """The text that was added to the prompt: the end of the stored system prompt, as long as the journal says, or what was worked out for a frozen
        bank; None where neither is there."""
        size = record.get("characters")
        if size == 0:
            return ""
        if self._known.finished and isinstance(size, int) and size > 0:
            try:
                stored = json.loads(trajectory_path(self._place, self._cell.issue).read_text(encoding="utf-8"))
                content = stored["messages"][0]["content"]
                if isinstance(content, str) and content[:-size].endswith("\n\n"):
                    return content[-size:]
            except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError):
                pass  # that the trajectory cannot be read was said
        if plan is not None and plan.kind != "growing":
            try:
                return _text(given(self._folder, plan, self._cell).prompt)
            except SweMemoryError as error:
                self.problems.append(error.what)
        return None

    # -- what it did -----------------------------------------------------------------------------------------------------------------------

    def _work(self) -> dict[str, Any]:
        """``usage`` is by role and over all tries, ``wasted`` what tries used that came to nothing."""
        end, history = self._known.finished, self._history
        tries = []
        for number, one in enumerate(history.tries, 1):
            open_word = "under way" if self._working and number == len(history.tries) else "cut off"
            tries.append({"began": one.began, "ended": one.ended or open_word, "reason": one.reason, "usage": usage_values(one.usage)})
        wasted = history.wasted(working=self._working)
        return {
            "exit_status": end.get("exit_status"),
            "calls": end.get("calls"),
            "actions": end.get("actions"),
            "cost": end.get("cost") if is_number(end.get("cost")) else None,
            "seconds": end.get("seconds") if is_number(end.get("seconds")) else None,
            "limit": _text(end.get("limit")),
            "notes": list(end["notes"]) if is_texts(end.get("notes")) else [],
            "usage": {role: usage_values(used) for role, used in sorted(history.usage.items())},
            "wasted": {"tries": len(wasted), **usage_values(sum((one.usage for one in wasted), Usage()))},
            "tries": tries,
            "infra_failures": list(self._known.failures),
        }

    def _patch(self, trajectory: Trajectory | None) -> dict[str, Any] | None:
        """What the submitted patch touches. Of `gold`, whose patch is the reference, nothing is told."""
        if trajectory is None:
            return None
        from swe_memory.patches import files

        patch = trajectory.patch or ""
        changed = [
            {
                "path": file.path,
                "added": sum(len(hunk.added) for hunk in file.hunks),
                "removed": sum(len(hunk.removed) for hunk in file.hunks),
                "created": file.created,
                "deleted": file.deleted,
            }
            for file in files(patch)
        ]
        kept = self._place / "logs" / self._cell.issue / "patch.diff"
        return {
            "file": str(kept if kept.is_file() else trajectory_path(self._place, self._cell.issue)),
            "sha256": self._known.finished["patch_sha256"],
            "characters": len(patch),
            "changed": changed,
        }

    # -- what came of it -------------------------------------------------------------------------------------------------------------------

    def _learned(self) -> list[dict[str, Any]]:
        """An entry for each bank that learned from this attempt, or is planned to."""
        key = self._cell.key
        plans = {plan.id: plan for plan in self._layout.banks if key in plan.lessons}
        others = [name for name, bank in self._state.banks.items() if key in bank.learned and name not in plans]
        return [self._lesson(name, plans.get(name)) for name in (*plans, *others)]

    def _lesson(self, bank_id: str, plan: BankPlan | None) -> dict[str, Any]:
        bank = self._state.banks.get(bank_id)
        event = bank.learned.get(self._cell.key) if bank else None
        if event is None:
            assert plan is not None
            return {"bank": bank_id, "status": "not learned", "why": self._why_not(plan), "bank_version": None, "items": []}
        items = [
            {
                "id": one["id"],
                "title": one["title"],
                "reach": one.get("reach") if is_text(one.get("reach")) else None,
                "polarity": one.get("polarity") if is_text(one.get("polarity")) else None,
                "given_to": self._given_to(bank_id, one["id"]),
            }
            for one in event["items"]
        ]
        why = "" if items else self._why_not(plan) if plan else "no item was distilled from it"
        return {
            "bank": bank_id,
            "status": "learned" if items else "nothing",
            "why": why,
            "bank_version": event["bank_version"],
            "quarantined": event.get("quarantined") if is_count(event.get("quarantined")) else None,
            "rejected": event.get("rejected") if is_count(event.get("rejected")) else None,
            "items": items,
        }

    def _why_not(self, plan: BankPlan) -> str:
        """Why a bank has nothing from this attempt."""
        known = self._known
        frozen = self._state.banks[plan.id].frozen if plan.id in self._state.banks else {}
        if not known.graded:
            if frozen:
                return "the bank was frozen without it, for it failed through the machine"
            return "it failed through the machine" if known.infra else "it is not graded yet"
        verdict = known.graded["verdict"]
        outcome = verdict["outcome"] if verdict else "unknown"
        if outcome == "unknown":
            return "there is no verdict on it, and an unknown outcome teaches nothing"
        if outcome not in plan.outcomes:
            return f"the bank does not learn from {outcome} attempts"
        if plan.id in self._state.banks and self._cell.key in self._state.banks[plan.id].learned:
            return "no item was distilled from it"
        if plan.kind == "growing":
            wave = next(number for number, keys in enumerate(plan.waves) if self._cell.key in keys)
            if wave not in Growing.unlearned(plan, self._state):
                return "it was graded when the stream had moved on, for it failed through the machine before"
        return "the journal does not say that it was learned" if frozen else "the bank has not come to it yet"

    def _given_to(self, bank_id: str, item: str) -> list[dict[str, Any]]:
        """The attempts that this bank's item was given to, in the order in which they began."""
        found = []
        for key, attempt in self._state.attempts.items():
            recall = attempt.started.get("recall") or {}
            ids = recall["items"] if is_texts(recall.get("items")) else [recall.get("item")]
            if item in ids and attempt.started.get("bank") == bank_id:
                control = recall.get("control") if is_text(recall.get("control")) else None
                resolved = attempt.graded["resolved"] if attempt.graded else None
                found.append({"attempt": "/".join(key), "control": control, "resolved": resolved})
        return found

    def _files(self) -> list[dict[str, Any]]:
        """Where everything lies, and whether it is there."""
        logs = self._place / "logs" / self._cell.issue
        places = [] if self._cell.arm.kind == "gold" else [("trajectory", trajectory_path(self._place, self._cell.issue))]
        places += [
            ("predictions", self._place / "preds.json"),
            ("patch", logs / "patch.diff"),
            ("official report", logs / "report.json"),
            ("test output", logs / "test_output.txt"),
        ]
        if plan := next((bank for bank in self._layout.banks if bank.id == self._cell.bank), None):
            places.append(("bank", bank_path(self._folder, plan)))
            if plan.kind != "growing":
                places.append(("what was given", recalls_path(self._folder, plan, self._cell.arm)))
        key: Key = self._cell.key
        places += [(f"taught {plan.id}", bank_path(self._folder, plan)) for plan in self._layout.banks if key in plan.lessons]
        places += [("journal", self._folder / "events.jsonl"), ("experiment", self._folder / "experiment.json")]
        return [{"what": what, "path": str(path), "there": path.exists()} for what, path in places]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
