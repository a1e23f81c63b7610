"""How much longer a run takes than its agents: 40 attempts (20 issues x 2 arms, crossfit) by 16 workers, against the ideal schedule with the same barriers.

    python benchmarks/runner_overhead.py [--calls 10] [--seconds 2] [--issues 20] [--workers 16] [--json]

The agent sleeps as a model would take its time, --seconds a call, equally many calls in each attempt, and runs a command after each. Working copies, patches,
journal, banks, recalls and grading are real; the hidden tests are one grep, so that what is measured is the runner and not somebody's test suite. The
ideal (harness.forecast.ideal_seconds) lets nothing but the sleeping take time; a frozen bank still waits for all its lessons. The aim is a ratio of 1.10.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.agents import Assignment
from harness.environments import Environment
from harness.events import read_events
from swe_memory.records import Action, Step, Trajectory, Usage
from tests.quick_bench import Scripted, write_quick_bench


class Sleeper(Scripted):
    """The scripted agent of the tests, after ``calls`` calls that take ``seconds`` each."""

    def __init__(self, calls: int, seconds: float) -> None:
        super().__init__()
        self._calls, self._seconds = calls, seconds

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        """See :class:`harness.agents.Agent`."""
        steps = []
        for number in range(self._calls):
            time.sleep(self._seconds)
            work.meter.add(Usage(1, 2000, 100, 0.01))
            done = environment.execute("git status --short")
            steps.append(Step(f"Call {number}.", (Action("git status --short", done.output, done.returncode),)))
        rest = super().run(work, environment)
        steps += rest.steps
        return Trajectory(tuple(steps), rest.exit_status, rest.patch, rest.issue_id, rest.task, agent=self.name, reported_calls=len(steps))


def main() -> None:
    """Run it, print what it took and where more than the ideal went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a call")
    parser.add_argument("--issues", type=int, default=20)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="runner-overhead-") as folder:
        found = measure(Path(folder), given.calls, given.seconds, given.issues, given.workers)
    if given.json:
        print(json.dumps(found))
        return
    print(
        f"{found['attempts']} attempts of {given.calls} calls of {given.seconds:g} s by {given.workers} workers on {found['cores']} cores"
    )
    print(f"ideal {found['ideal']:.1f} s, took {found['seconds']:.1f} s: ratio {found['ratio']:.3f}")
    print(f"processor time {found['processor']:.1f} s, children's included")
    for name, value in found["where"].items():
        print(f"  {name}: {value:.2f} s")


def measure(folder: Path, calls: int, seconds: float, issues: int, workers: int) -> dict[str, Any]:
    """{attempts, ideal, seconds, ratio, cores, processor, where: {what: seconds}}"""
    from harness.dataset import load_dataset
    from harness.folder import freeze, locked
    from harness.forecast import ideal_seconds
    from harness.layout import lay_out
    from harness.running import plan_experiment
    from harness.scheduler import Run, Settings

    rows, repositories = write_quick_bench(folder, issues)
    dataset = load_dataset(rows, repositories=repositories)
    experiment = plan_experiment(dataset, {"arms": ("none", "reasoningbank")})
    layout = lay_out(experiment)
    ideal = ideal_seconds(layout, lambda _: calls * seconds, workers)
    out = folder / "out"
    with locked(out):
        freeze(out, experiment, resume=False)
        before, began = os.times(), time.monotonic()
        Run(out, experiment, dataset, Settings(workers), lambda _: None, agent=Sleeper(calls, seconds)).execute()
        took, after = time.monotonic() - began, os.times()
    events = read_events(out / "events.jsonl")[0]
    assert sum(event["event"] == "graded" for event in events) == len(layout.cells)
    return {
        "attempts": len(layout.cells),
        "ideal": ideal,
        "seconds": took,
        "ratio": took / ideal,
        "cores": os.cpu_count(),
        "processor": sum(after[:4]) - sum(before[:4]),
        "where": where(events, calls * seconds, took),
    }


def where(events: Sequence[Mapping[str, Any]], asleep: float, took: float) -> dict[str, float]:
    """Seconds by what they went into. Attempts overlap, so that means of attempts say what one of them adds to its chain of attempts."""
    started = {(e["arm"], e["issue"]): e["t"] for e in events if e["event"] == "started"}
    finished = {(e["arm"], e["issue"]): e["t"] for e in events if e["event"] == "finished"}
    graded = {(e["arm"], e["issue"]): e["t"] for e in events if e["event"] == "graded"}
    found = {
        "until the first attempt began": min(started.values()),
        "an attempt beside its sleeping (mean)": sum(finished[key] - started[key] - asleep for key in finished) / len(finished),
        "from finished to graded (mean)": sum(graded[key] - finished[key] for key in graded) / len(graded),
    }
    for event in events:
        if event["event"] == "frozen":
            lessons = [(e["arm"], e["issue"]) for e in events if e["event"] == "learned" and e["bank"] == event["bank"]]
            last = max(graded[key] for key in lessons)
            found[f"from the last lesson finished to graded, bank {event['bank']}"] = last - max(finished[key] for key in lessons)
            found[f"learning and freezing, bank {event['bank']}"] = event["t"] - last
    found["from the last attempt finished to the end"] = took - max(finished.values())
    return found


if __name__ == "__main__":
    main()
