"""How much memory does `swe-memory run` take with 16 workers, and does it grow with the attempts that are done?

    python benchmarks/driver_memory.py [--attempts 200] [--workers 16] [--kilobytes 200] [--outputs 8] [--json]

A run as a user starts it, in a process of its own: mini-SWE-agent's agent in local clones, two arms, crossfit, banks and grading included. The model is a
local server that plays a script (in this process, so that it is not counted): each attempt prints --outputs times --kilobytes of output, changes one file
and submits.

Counted is the resident memory of the driver, not of the commands that agents run and not of the child that holds swebench. (`others_mb` is the peak of all
processes below the driver; pages that they share are counted once for each.) The kernel keeps the driver's peak; the rest is looked at 20 times a second.
--json prints {attempts, workers, outputs, kilobytes, cores, seconds, peak_mb, others_mb, by_quarter_mb: [median while that quarter of the attempts ended]}.
Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fake_anthropic import FakeAnthropic
from scripted_model import SUBMIT, ScriptedModel
from small_bench import git

ROOT = Path(__file__).resolve().parents[1]
LOOK = 0.05  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=200)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--kilobytes", type=int, default=200)
    parser.add_argument("--outputs", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.attempts, options.workers, options.kilobytes, options.outputs)
    print(json.dumps(found) if options.json else text(found))


def measure(attempts: int, workers: int, kilobytes: int, outputs: int) -> dict[str, Any]:
    """See the module."""
    issues = max(2, attempts // 2)
    flood = f"head -c {kilobytes}000 /dev/zero | tr '\\0' x"
    scripts = {
        title(number): [
            *[flood] * outputs,
            f"sed -i s/wrong/right/ shop/part{number}.py; git diff > patch.txt; git checkout -q .; {SUBMIT}",
        ]
        for number in range(issues)
    }
    with tempfile.TemporaryDirectory() as place, FakeAnthropic(ScriptedModel(scripts)) as api:
        folder = Path(place)
        rows = write_bench(folder, issues)
        (folder / "tmp").mkdir()
        variables = {**os.environ, "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": api.key, "TMPDIR": str(folder / "tmp")}
        command = [sys.executable, "-m", "swe_memory", "run", "--dataset", str(rows), "--repositories", str(folder / "repositories")]
        command += ["--agent", "mini", "--model", "claude-haiku-5-5", "--workers", str(workers), "--out", str(folder / "run")]
        began = time.perf_counter()
        with (folder / "said").open("wb") as said, subprocess.Popen(command, cwd=ROOT, env=variables, stdout=said, stderr=said) as run:
            try:
                looks, peak, others = watch(run, folder / "run" / "events.jsonl")
            finally:
                run.kill()
        seconds = time.perf_counter() - began
        if run.returncode != 0:
            sys.exit(f"the run ended with code {run.returncode}:\n{(folder / 'said').read_text(errors='replace')[-2000:]}")
    quarters: list[list[float]] = [[], [], [], []]
    for done, resident in looks:
        quarters[min(3, 4 * done // (2 * issues))].append(resident)
    return {
        "attempts": 2 * issues,
        "workers": workers,
        "outputs": outputs,
        "kilobytes": kilobytes,
        "cores": os.cpu_count(),
        "seconds": round(seconds, 1),
        "peak_mb": round(peak),
        "others_mb": round(others),
        "by_quarter_mb": [round(statistics.median(quarter)) if quarter else None for quarter in quarters],
    }


def watch(run: subprocess.Popen[bytes], journal: Path) -> tuple[list[tuple[int, float]], float, float]:
    """Until the run ends: (attempts graded, resident MB) at each look from the first graded attempt on; the driver's peak; that of all processes below it."""
    looks: list[tuple[int, float]] = []
    peak = others = 0.0
    done = read = 0
    while run.poll() is None:
        if journal.exists():
            with journal.open("rb") as file:
                file.seek(read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            read += len(whole)
            done += whole.count(b'"event": "graded"')
        resident, peak = memory(run.pid, "VmRSS"), max(peak, memory(run.pid, "VmHWM"))
        others = max(others, sum(memory(pid, "VmRSS") for pid in below(run.pid)))
        if done and resident:
            looks.append((done, resident))
        time.sleep(LOOK)
    return looks, peak, others


def memory(pid: int, name: str) -> float:
    """A figure of /proc/PID/status in MB; 0 where the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith(f"{name}:")), 0.0)


def below(pid: int) -> list[int]:
    """The processes that a process started, and theirs."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it ended meanwhile
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found += [child, *below(child)]
    return found


def title(number: int) -> str:
    """Of an issue; no title holds another."""
    return f"The word of part <{number}> is not the right one"


def write_bench(folder: Path, issues: int) -> Path:
    """A dataset file of so many issues of one repository, whose hidden tests take no time."""
    repository = folder / "repositories" / "acme__shop"
    (repository / "shop").mkdir(parents=True)
    for number in range(issues):
        (repository / "shop" / f"part{number}.py").write_text(f"WORD{number} = 'wrong'\n", encoding="utf-8")
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "Start")
    base = git(repository, "rev-parse", "HEAD").strip()
    rows = []
    for number in range(issues):
        test = f"tests/test_part{number}.py::test_word"
        said = f"grep -q right shop/part{number}.py && echo 'PASSED {test}' || echo 'FAILED {test} - wrong'"
        rows.append(
            {
                "repo": "acme/shop",
                "instance_id": f"acme__shop-{number}",
                "base_commit": base,
                "patch": "",
                "test_patch": "diff --git a/tests/x.py b/tests/x.py\n",
                "problem_statement": f"{title(number)}\n\nIt is in shop/part{number}.py.\n",
                "hints_text": "",
                "created_at": "2024-01-01T00:00:00Z",
                "version": "1.0",
                "FAIL_TO_PASS": json.dumps([test]),
                "PASS_TO_PASS": "[]",
                "image": "none",
                "eval_script": f"#!/bin/bash\nset -uxo pipefail\n: '>>>>> Start Test Output'\n{said}\n: '>>>>> End Test Output'\n",
                "log_parser": "parse_log_pytest",
                "eval_type": "pass_and_fail",
            }
        )
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def text(found: dict[str, Any]) -> str:
    """For people."""
    quarters = " ".join(f"{value or '-'}" for value in found["by_quarter_mb"])
    return (
        f"{found['attempts']} attempts, {found['workers']} workers, {found['outputs']} outputs of {found['kilobytes']} kB each, "
        f"{found['seconds']:.0f} s on {found['cores']} cores\n"
        f"driver: peak {found['peak_mb']} MB; median while each quarter of the attempts ended: {quarters} MB\n"
        f"processes below it: {found['others_mb']} MB at most, shared pages counted each time"
    )


if __name__ == "__main__":
    main()
