"""How long the journal of a long run takes to read, and how many events a second it takes in.

    python benchmarks/journal.py [--issues 500] [--reruns 3] [--calls 40] [--json]

Four arms x --reruns x --issues attempts (6,000 by default), made up as in compare_speed.py: once with an event for each of about --calls calls of an attempt,
once without. Folding is what every start of a run, `run status` and `compare` do; the aim is under 2 s without the calls. Then 16 threads append events, each
forced to disk before it counts, as 16 workers do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare_speed import events, experiment

TRIES = 3
THREADS = 16
EACH = 100  # events of a thread


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--issues", type=int, default=500)
    parser.add_argument("--reruns", type=int, default=3)
    parser.add_argument("--calls", type=int, default=40, help="mean calls of an attempt")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="journal-") as folder:
        made = list(events(experiment(given.issues, given.reruns), given.calls))
        found = {
            "with_calls": reading(Path(folder) / "with.jsonl", made),
            "without_calls": reading(Path(folder) / "without.jsonl", [event for event in made if event["event"] != "usage"]),
            "appended_per_second": appending(Path(folder) / "appended.jsonl", made),
            "threads": THREADS,
        }
    if given.json:
        print(json.dumps(found))
        return
    for name in ("with_calls", "without_calls"):
        one = found[name]
        about = f"{one['attempts']} attempts, {one['events']} events, {one['mb']:.0f} MB {name.replace('_', ' ')}"
        print(f"{about}: read and folded in {one['seconds']:.2f} s ({one['processor_seconds']:.2f} s of processor time; median of {TRIES})")
    print(f"{THREADS} threads append {found['appended_per_second']:.0f} events a second, each forced to disk")


def reading(path: Path, made: list[dict[str, Any]]) -> dict[str, Any]:
    """What reading and folding such a journal takes."""
    from harness.events import read_state

    path.write_text("".join(json.dumps(event) + "\n" for event in made), encoding="utf-8")
    walls, processor = [], []
    attempts = 0
    for _ in range(TRIES):
        began, cpu = time.perf_counter(), time.process_time()
        state = read_state(path)
        walls.append(time.perf_counter() - began)
        processor.append(time.process_time() - cpu)
        attempts = len(state.attempts)
        assert not state.problems, state.problems[:3]
    return {
        "attempts": attempts,
        "events": len(made),
        "mb": path.stat().st_size / 1e6,
        "seconds": statistics.median(walls),
        "processor_seconds": statistics.median(processor),
    }


def appending(path: Path, made: list[dict[str, Any]]) -> float:
    """Events a second that so many threads append together."""
    from harness.events import Journal

    event = next(event for event in made if event["event"] == "usage")
    fields = {name: value for name, value in event.items() if name not in ("event", "t")}
    with Journal(path) as journal:

        def work() -> None:
            for _ in range(EACH):
                journal.append("usage", **fields)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return THREADS * EACH / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
