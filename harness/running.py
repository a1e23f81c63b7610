"""``swe-memory run``: from options to a finished run folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.agents import AGENTS, Limits
from harness.attempt import Outcome
from harness.compare import comparison
from harness.compare_text import render
from harness.dataset import MINIBENCH, Dataset, load_dataset
from harness.events import RunState, read_state, write_file
from harness.plan import Experiment, check_arms, ordered
from harness.scheduler import Run, Settings, complete, freeze, locked, make_experiment, read_experiment
from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.progress import Progress

DEFAULTS: dict[str, Any] = {
    "agent": "repair",
    "arms": ("none", "reasoningbank"),
    "call_limit": 60,
    "verdict": "rules",
    "order": "date",
    "seed": 0,
}


def run_command(
    *,
    out: Path,
    workers: int = 2,
    resume: bool = False,
    as_json: bool = False,
    dataset: str | None = None,
    repositories: Path | None = None,
    instances: Sequence[str] = (),
    **given: Any,
) -> tuple[int, str]:
    """Run or resume an experiment; (exit code, what to print). ``given`` holds the settings of :data:`DEFAULTS`; None or () means not given.

    Raises UsageError for wrong settings, KeyboardInterrupt where the user stopped it.
    """
    settings = Settings(workers)
    frozen = read_experiment(out) if resume else None
    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    if frozen and dataset is None and frozen.dataset != MINIBENCH:
        raise UsageError(
            f"the run in {out} is on the dataset file {frozen.dataset}, whose place it does not keep",
            "Name it again with --dataset (and --repositories).",
        )
    known = load_dataset(dataset or MINIBENCH, repositories=repositories)
    experiment = plan_experiment(known, {**_kept(frozen), **chosen}, instances, frozen)
    with locked(out):
        freeze(out, experiment, resume=resume)
        state = carry_out(out, experiment, known, settings)
        result = comparison(experiment, state, out.resolve().name)
        write_file(out / "results.json", json.dumps(result, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n")
    shown = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) if as_json else f"{render(result)}\n\nAll of it: {out}"
    failed = [f"{issue} ({arm['arm']})" for arm in result["arms"] for issue in arm["infra"]]
    if failed:
        click.echo(f"{len(failed)} attempts failed through the machine: {', '.join(failed)}. Try them again with --resume.", err=True)
    return (1 if failed or not result["complete"] else 0), shown


def plan_experiment(dataset: Dataset, given: dict[str, Any], instances: Sequence[str], frozen: Experiment | None = None) -> Experiment:
    """The experiment of these settings, each checked. ``instances`` () means those of ``frozen``, or all."""
    values = {**DEFAULTS, **given}
    if values["agent"] not in AGENTS:
        raise UsageError(f"there is no agent called {values['agent']!r}", f"Known agents: {', '.join(AGENTS)}.")
    Limits(values["call_limit"])
    arms = check_arms(values.pop("arms"))
    wanted = list(instances) or (list(frozen.instances) if frozen else [i.issue.id for i in dataset.instances])
    for issue in wanted:
        dataset.instance(issue)
    issues = [i.issue for i in dataset.instances if i.issue.id in set(wanted)]
    order = ordered(issues, values["order"], values["seed"])
    return make_experiment(dataset, instances=order, arms=arms, **values)


def _kept(frozen: Experiment | None) -> dict[str, Any]:
    return {name: getattr(frozen, name) for name in DEFAULTS} if frozen else {}


def carry_out(out: Path, experiment: Experiment, dataset: Dataset, settings: Settings) -> RunState:
    """Do the work of a locked, frozen run folder, with progress on standard error."""
    known = read_state(out / "events.jsonl").attempts
    planned = [(stream, known.get((stream.arm, stream.name, issue))) for stream in experiment.streams() for issue in stream.instances]
    total, left = len(planned), sum(not complete(stream, state) for stream, state in planned)
    if left < total:
        click.echo(f"{total - left} of {total} attempts are done already", err=True)
    with Progress("attempts", left) as progress:

        def say(outcome: Outcome) -> None:
            progress.line(describe(outcome))
            progress.advance()

        def interrupted() -> None:
            progress.line("stopping after the attempts under way; Ctrl-C again stops at once. Both can be resumed.")

        try:
            return Run(out, experiment, dataset, settings, say).execute(interrupted)
        except KeyboardInterrupt:
            progress.line(f"stopped. Go on with: swe-memory run --resume --out {out}")
            raise
        except SweMemoryError:
            progress.line(f"stopped by an error. When it is mended, go on with: swe-memory run --resume --out {out}")
            raise


def describe(outcome: Outcome) -> str:
    """One line about an attempt that ended."""
    if outcome.failure:
        return f"  {outcome.arm:14} {outcome.issue}: infra failure, {outcome.failure.splitlines()[0]}"
    result = "resolved" if outcome.resolved else "not resolved"
    recalled = f"   recalled: {outcome.recalled}" if outcome.recalled else ""
    return f"  {outcome.arm:14} {outcome.issue:24} {result:13} {outcome.calls:3} calls{recalled}"
