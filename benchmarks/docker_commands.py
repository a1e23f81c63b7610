"""How long does one command in a container take, beside mini-SWE-agent's Docker environment on the same image?

    python benchmarks/docker_commands.py IMAGE [--commands 100] [--workdir /] [--flood MEGABYTES] [--json]

Both environments hold one container of IMAGE (which needs bash and coreutils) without network, and run the same command (``echo hi``) in turns, so that
whatever else the machine does weighs on both; mini-SWE-agent's goes through the ``docker`` command on the PATH. The interval is a percentile bootstrap of the
ratio of the medians over the turns. With --flood, a command that prints that many megabytes is run in ours, and the process's peak memory is told before and
after. Times are of this machine at this moment; the ratio holds better. --json prints {cores, commands, ours_ms: {p50, p95}, mini_ms: {p50, p95}, ratio,
interval: [low, high], start_ms, close_ms, flood: {megabytes, seconds, peak_before_mb, peak_after_mb} or null}.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.environments.docker import DockerEnvironment, Labels
from harness.environments.engine import connect

COMMAND = "echo hi"
RESAMPLES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("--commands", type=int, default=100)
    parser.add_argument("--workdir", default="/")
    parser.add_argument("--flood", type=int, default=0, metavar="MEGABYTES")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.image, options.commands, options.workdir, options.flood)
    print(json.dumps(found) if options.json else text(found))


def measure(image: str, commands: int, workdir: str, flood: int) -> dict[str, Any]:
    """Run both environments in turns; see the module."""
    os.environ["MSWEA_SILENT_STARTUP"] = "1"
    logging.disable(logging.CRITICAL)
    from minisweagent.environments.docker import DockerEnvironment as MiniEnvironment

    client = connect()
    began = time.perf_counter()
    with DockerEnvironment(client, image, labels=Labels("benchmark"), workdir=workdir) as ours:
        started = time.perf_counter() - began
        mini = MiniEnvironment(image=image, cwd=workdir, interpreter=["bash", "-c"], run_args=["--rm", "--network=none"])
        try:
            for warm in (True, False):
                times = np.array(
                    [
                        (timed(lambda: ours.execute(COMMAND).output), timed(lambda: mini.execute({"command": COMMAND})["output"]))
                        for _ in range(3 if warm else commands)
                    ]
                )
        finally:
            mini.cleanup()
        flooded = flooding(ours, flood) if flood else None
        closing = time.perf_counter()
    closed = time.perf_counter() - closing
    draws = np.random.default_rng(0).integers(0, len(times), (RESAMPLES, len(times)))
    medians = np.median(times[draws], axis=1)
    low, high = np.quantile(medians[:, 0] / medians[:, 1], (0.025, 0.975))
    ours_ms, mini_ms = (
        {"p50": round(float(np.quantile(column, 0.5)) * 1e3, 1), "p95": round(float(np.quantile(column, 0.95)) * 1e3, 1)}
        for column in times.T
    )
    return {
        "cores": os.cpu_count(),
        "commands": commands,
        "ours_ms": ours_ms,
        "mini_ms": mini_ms,
        "ratio": round(float(np.median(times[:, 0]) / np.median(times[:, 1])), 3),
        "interval": [round(float(low), 3), round(float(high), 3)],
        "start_ms": round(started * 1e3),
        "close_ms": round(closed * 1e3),
        "flood": flooded,
    }


def timed(run: Callable[[], str]) -> float:
    """Seconds that ``run`` takes to say what the command says."""
    began = time.perf_counter()
    said = run()
    seconds = time.perf_counter() - began
    if said != "hi\n":
        raise SystemExit(f"the command said {said!r}")
    return seconds


def flooding(environment: DockerEnvironment, megabytes: int) -> dict[str, Any]:
    """Let a command print so much, and see what that does to this process's memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.perf_counter()
    done = environment.execute(f"head -c {megabytes}000000 /dev/zero", timeout=600)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"the flood ended with {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"megabytes": megabytes, "seconds": round(seconds, 1), "peak_before_mb": round(before, 1), "peak_after_mb": round(after, 1)}


def text(found: dict[str, Any]) -> str:
    """What a person reads."""
    lines = [f"{found['commands']} commands each, in turns, on {found['cores']} cores"]
    for name in ("ours", "mini"):
        lines.append(f"  {name:<5} p50 {found[f'{name}_ms']['p50']:6.1f} ms   p95 {found[f'{name}_ms']['p95']:6.1f} ms")
    lines.append(f"  ours / mini  {found['ratio']:.2f}  (95 % interval {found['interval'][0]:.2f} to {found['interval'][1]:.2f})")
    lines.append(f"  start {found['start_ms']} ms, close {found['close_ms']} ms")
    if flood := found["flood"]:
        lines.append(
            f"  {flood['megabytes']} MB printed in {flood['seconds']} s; peak memory {flood['peak_before_mb']} MB before, {flood['peak_after_mb']} MB after"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
