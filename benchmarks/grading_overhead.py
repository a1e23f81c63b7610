"""What does grading cost beyond the tests, beside the official command, on one instance's gold patch?

    python benchmarks/grading_overhead.py [ROWS.jsonl] [--gradings 10] [--json]

ROWS.jsonl has rows in the official format, whose first one's image is on the engine; without it a small image is made of this machine's files, which stops
as slowly as the official ones do. Beyond the tests is all but what the official harness's own log calls the test runtime. Ours is the grader of a run, one
grading after the other and then two at a time; the official command is run for one instance, and for the same one under two names, so that what it takes to
start is told from what each further instance takes. Times are of this machine at this moment; the ratios hold better.

--json prints {cores, gradings, ours_s: {p50, p95, max}, first_s, two_at_a_time_s, tests_s, official: {command_s, instance_s}, ratio: {command, instance},
memory_mb: {child, grading}}: ``first_s`` with the start of the child process, ``two_at_a_time_s`` the wall time per grading less the tests' of one;
``memory_mb`` is what the child holds, and what each grading under way adds, in proportional set size.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness.environments.engine import connect
from harness.grading_container import ContainerGrader
from harness.instances import instance_from_row

TIMEOUT = 1800
LOOK = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=Path)
    parser.add_argument("--gradings", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        row = json.loads(options.rows.read_text(encoding="utf-8").splitlines()[0]) if options.rows else made_row(folder)
        found = measure(row, options.gradings, folder)
    print(json.dumps(found) if options.json else text(found))


def made_row(folder: Path) -> dict[str, Any]:
    """A row whose image is made here."""
    from containers import build_image, make_base_image, once
    from graded_shop import base_commit, shop_image, shop_row

    client = connect()
    image = shop_image(client, make_base_image(client), folder / "made")
    slow = f"{image}-slow"
    once(client, slow, lambda: build_image(client, slow, f"FROM {image}\nSTOPSIGNAL SIGTERM\n"))
    client.close()
    return shop_row(slow, base_commit(folder / "same"))


def measure(row: dict[str, Any], gradings: int, folder: Path) -> dict[str, Any]:
    """Grade both ways; see the module."""
    instance = instance_from_row(row)
    client = connect()
    with ContainerGrader(client, run="benchmark") as grader:

        def one(number: int) -> tuple[float, float]:
            logs = folder / f"logs-{number}"
            done = grader.grade(instance, instance.grading.patch, timeout=TIMEOUT, logs=logs)
            if not done.resolved:
                raise SystemExit(f"the gold patch is not resolved here: {done.reason}")
            return done.seconds, test_runtime(logs / "run_instance.log")

        first, tests = one(0)
        alone = [one(number) for number in range(1, gradings + 1)]
        with ThreadPoolExecutor(2) as pool, Memory(grader._process.pid or 0) as memory:
            began = time.perf_counter()
            together = list(pool.map(one, range(gradings + 1, gradings * 2 + 1)))
            wall = time.perf_counter() - began
    client.close()
    beyond = sorted(seconds - tests for seconds, tests in alone)
    official = official_seconds(row, folder)
    ours = statistics.median(beyond)
    return {
        "cores": os.cpu_count(),
        "gradings": gradings,
        "ours_s": {"p50": rounded(ours), "p95": rounded(beyond[round(0.95 * (len(beyond) - 1))]), "max": rounded(beyond[-1])},
        "first_s": rounded(first - tests),
        "two_at_a_time_s": rounded(wall / gradings - statistics.median(tests for _, tests in together) / 2),
        "tests_s": rounded(statistics.median(tests for _, tests in alone)),
        "official": {name: rounded(seconds) for name, seconds in official.items()},
        "ratio": {name.removesuffix("_s"): round(ours / seconds, 3) for name, seconds in official.items()},
        "memory_mb": memory.found(),
    }


def official_seconds(row: dict[str, Any], folder: Path) -> dict[str, float]:
    """Seconds beyond the tests: of the command for one instance, and of each further instance in one command."""
    walls: dict[int, float] = {}
    tests: list[float] = []
    for count in (1, 2):
        place = folder / f"official-{count}"
        place.mkdir()
        rows = [{**row, "instance_id": f"{row['instance_id']}-{number}"} for number in range(count)]
        predictions = [{"instance_id": made["instance_id"], "model_name_or_path": "gold", "model_patch": row["patch"]} for made in rows]
        (place / "rows.jsonl").write_text("".join(json.dumps(made) + "\n" for made in rows), encoding="utf-8")
        (place / "preds.jsonl").write_text("".join(json.dumps(made) + "\n" for made in predictions), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("swebench")), "eval", "rows.jsonl", "-p", "preds.jsonl", "--run-id", "R", "-j", "1"]
        began = time.perf_counter()
        done = subprocess.run([*command, "-t", str(TIMEOUT)], cwd=place, capture_output=True, text=True, check=False)
        walls[count] = time.perf_counter() - began
        logs = sorted((place / "logs/run_evaluation/R/gold").glob("*/run_instance.log"))
        if done.returncode != 0 or len(list((place / "logs/run_evaluation/R/gold").glob("*/report.json"))) != count:
            raise SystemExit(f"the official command did not grade: {done.stderr[-2000:]}")
        tests += [test_runtime(log) for log in logs]
    runtime = statistics.median(tests)
    return {"command_s": walls[1] - runtime, "instance_s": walls[2] - walls[1] - runtime}


def test_runtime(log: Path) -> float:
    """What the official harness measured the tests to take."""
    found = re.search(r"Test runtime: ([0-9._]+) seconds", log.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{log} tells no test runtime")
    return float(found[1].replace("_", ""))


class Memory:
    """Looks at the child process and its forks while it is open."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._child = 0.0
        self._most = 0.0
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            forks = [int(pid) for pid in Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()]
            child, *rest = (proportional(pid) for pid in [self._pid, *forks])
            self._child = max(self._child, child)
            self._most = max(self._most, (child + sum(rest) - self._child) / max(1, len(rest)))

    def found(self) -> dict[str, float]:
        """In megabytes."""
        return {"child": round(self._child), "grading": round(self._most)}

    def __enter__(self) -> Memory:
        self._child = proportional(self._pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def proportional(pid: int) -> float:
    """A process's proportional set size in megabytes; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def rounded(seconds: float) -> float:
    return round(seconds, 2)


def text(found: dict[str, Any]) -> str:
    """What a person reads."""
    ours, official, ratio, memory = found["ours_s"], found["official"], found["ratio"], found["memory_mb"]
    return "\n".join(
        [
            f"{found['gradings']} gradings on {found['cores']} cores; the tests themselves take {found['tests_s']:.2f} s; seconds beyond them:",
            f"  ours       p50 {ours['p50']:6.2f}   p95 {ours['p95']:6.2f}   max {ours['max']:6.2f}   (the first, with the start: {found['first_s']:.2f})",
            f"             two at a time: {found['two_at_a_time_s']:.2f} each",
            f"  official   {official['command_s']:.2f} for a command of its own, {official['instance_s']:.2f} for each further instance",
            f"  ours / official  {ratio['command']:.3f} and {ratio['instance']:.3f}",
            f"  memory: the child {memory['child']} MB, each grading under way {memory['grading']} MB more",
        ]
    )


if __name__ == "__main__":
    main()
