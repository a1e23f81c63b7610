"""How long does the report of a large run take, how much memory, and how large is it?

    python benchmarks/report_size.py [--issues 500] [--reruns 3] [--arms 4] [--repeat 3] [--json]

The run is made up and called simulated in every name that it shows: repositories of the sizes of SWE-bench Verified, outcomes drawn from a logistic model,
an item recalled in seven of ten attempts, a small trajectory file for each attempt so that every link is made. Each report is written by a process of its own;
times are those of the whole process, of this machine at this moment. The ratio of processor times to the comparison alone (`swe-memory compare --json`, same
run, same way) holds better. --json prints {cores, issues, arms, reruns, attempts, report_s, report_cpu_s, compare_cpu_s: {best, worst} each,
report_over_compare, peak_mb, html_mb, html_gzip_mb, markdown_kb, csv_mb, within: {seconds, memory, size}}: the last whether the best is within 20 s, 1 GB and
5 MB.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.made_journal import VERIFIED, simulated_experiment, write_run

ARMS = ("none", "reasoningbank", "derangement", "neutral", "preamble")
SECONDS, MEGABYTES, PAGE = 20.0, 1000.0, 5.0


def measured(*arguments: str) -> tuple[float, float, float]:
    """Seconds of wall time and of processor time, and megabytes at most, of one command in a process of its own."""
    code = "import resource, sys; from swe_memory.cli import main; code = main(sys.argv[1:]); used = resource.getrusage(resource.RUSAGE_SELF); "
    code += "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr); sys.exit(code)"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    )
    wall = time.perf_counter() - began
    processor, memory = done.stderr.splitlines()[-1].split()
    return wall, float(processor), int(memory) / (1e6 if sys.platform == "darwin" else 1e3)


def spread(values: list[float]) -> dict[str, float]:
    return {"best": min(values), "worst": max(values)}


def sizes(issues: int) -> list[int]:
    """Issues by repository, in shares like Verified's."""
    shares = [round(size * issues / sum(VERIFIED)) for size in VERIFIED]
    shares[0] += issues - sum(shares)
    return shares


def measure(issues: int, arms: int, reruns: int, repeat: int) -> dict[str, Any]:
    """The figures that ``--json`` prints."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = simulated_experiment(*sizes(issues), arms=ARMS[:arms], reruns=reruns)
        run = write_run(Path(folder) / "simulated", experiment, trajectories=True)
        reports = [measured("report", str(run)) for _ in range(repeat)]
        compares = [measured("compare", str(run), "--json") for _ in range(repeat)]
        html = (run / "report.html").read_bytes()
        walls, processors, memories = (list(part) for part in zip(*reports, strict=True))
        compared = [processor for _, processor, _ in compares]
        return {
            "cores": os.cpu_count(),
            "issues": issues,
            "arms": arms,
            "reruns": reruns,
            "attempts": issues * arms * reruns,
            "report_s": spread(walls),
            "report_cpu_s": spread(processors),
            "compare_cpu_s": spread(compared),
            "report_over_compare": min(processors) / min(compared),
            "peak_mb": max(memories),
            "html_mb": len(html) / 1e6,
            "html_gzip_mb": len(gzip.compress(html)) / 1e6,
            "markdown_kb": (run / "report.md").stat().st_size / 1e3,
            "csv_mb": (run / "attempts.csv").stat().st_size / 1e6,
            "within": {"seconds": min(walls) < SECONDS, "memory": max(memories) < MEGABYTES, "size": len(html) / 1e6 < PAGE},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--issues", type=int, default=500)
    parser.add_argument("--arms", type=int, default=4, choices=range(2, 6))
    parser.add_argument("--reruns", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.issues, given.arms, given.reruns, given.repeat)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    wall, processor = found["report_s"], found["report_cpu_s"]
    print(f"simulated run: {found['issues']} issues x {found['arms']} arms x {found['reruns']} reruns = {found['attempts']} attempts")
    print(f"report     {wall['best']:6.1f} s at best, {wall['worst']:.1f} s at worst; {processor['best']:.1f} s of one core")
    print(f"memory     {found['peak_mb']:6.0f} MB at most")
    print(
        f"compare    {found['compare_cpu_s']['best']:6.1f} s of one core; the report takes {found['report_over_compare']:.2f} times as long"
    )
    print(f"page       {found['html_mb']:6.2f} MB ({found['html_gzip_mb']:.2f} MB compressed)")
    print(f"beside it  {found['markdown_kb']:6.0f} kB of Markdown, {found['csv_mb']:.2f} MB of CSV")
    print("within     " + ", ".join(f"{name}: {'yes' if met else 'NO'}" for name, met in found["within"].items()))


if __name__ == "__main__":
    main()
