"""How long `compare` takes, and how much memory, on a simulated journal: arms x reruns x issues, with an event for every call of the agent.

    python benchmarks/compare_speed.py                       # 4 arms, 3 reruns, 500 issues, 40 calls each
    python benchmarks/compare_speed.py --issues 100 --calls 5 --keep /tmp/made

Everything in the journal is made up (its dataset is called "simulated"): an issue has its own chance to be resolved, and memory raises it a little. No
trajectory is stored, so that reading them, which has a budget of its own, is not in the times. Imports are timed apart.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARMS = ("none", "reasoningbank", "derangement", "neutral")
SIZES = (231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1)
"""Issues by repository in SWE-bench Verified."""


def experiment(issues: int, reruns: int, protocol: str = "crossfit", arms: tuple[str, ...] = ARMS) -> Any:
    """An experiment of made issues, in repositories of the sizes of Verified's."""
    from datetime import UTC, datetime, timedelta

    from harness.layout import check_protocol
    from harness.plan import Experiment, endpoint, order_specs, ordered, split
    from swe_memory.records import Issue

    places = [number for number, size in enumerate(SIZES) for _ in range(size)]
    start = datetime(2020, 1, 1, tzinfo=UTC)
    made = [
        Issue(f"owner__repo{place}-{number}", f"owner/repo{place}", "simulated", created_at=start + timedelta(days=number))
        for number, place in enumerate(places[round(at * (len(places) - 1) / max(1, issues - 1))] for at in range(issues))
    ]
    at = {issue.id: number for number, issue in enumerate(made)}
    specs = order_specs("date", reruns if protocol == "online" else 1, 0)
    found = Experiment(
        dataset="simulated",
        dataset_hash="0" * 64,
        instances=tuple(at),
        repositories=tuple(issue.repo for issue in made),
        dates=tuple(issue.created_at.isoformat() for issue in made if issue.created_at),
        agent="mini",
        model="claude-sonnet-4-20250514",
        arms=arms,
        protocol=protocol,  # type: ignore[arg-type]
        orders=specs,
        sequences=tuple(tuple(at[name] for name in ordered(made, spec)) for spec in specs),
        folds=(split(made, 1, 0),) if protocol == "crossfit" else (),
        reruns=1 if protocol == "online" else reruns,
        baseline_reruns=reruns,
        verdict="llm",
        extractor="llm@1",
        call_limit=75,
    )
    check_protocol(found)
    from dataclasses import replace

    return replace(found, endpoint=endpoint(found.conditions(), found.protocol, 1, reruns))


def events(made: Any, calls: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The journal of a whole run of it."""
    from harness.layout import lay_out

    chance = random.Random(seed)
    layout = lay_out(made)
    hard = {issue: min(max(chance.gauss(0.55, 0.4), 0.02), 0.98) for issue in made.instances}
    yield {"event": "session", "t": 0.0, "workers": 8, "versions": {}}
    clock = 0.0
    for cell in layout.cells:
        arm, stream, issue = cell.key
        where = {"arm": arm, "stream": stream, "issue": issue}
        source = chance.choice(made.instances)
        recall = None
        if cell.arm.kind != "none":
            item = chance.random() < 0.7
            recall = {
                "bank_version": 3,
                "score": 0.5 if item else 0.0,
                "item": f"item-{source}" if item and arm != "neutral" else None,
                "title": f"A lesson of {source}" if item and arm != "neutral" else None,
                "learned_from": source if item and arm != "neutral" else None,
                "outcome": "resolved",
                "verdict_source": "llm",
                "reasons": ["same repository"],
                "settings": "k=1",
                "characters": 900 if item else 0,
                **({"control": arm} if cell.arm.kind == "control" else {}),
            }
        yield {"event": "started", **where, "bank": cell.bank or None, "recall": recall, "t": clock}
        number = max(1, min(75, round(chance.gauss(calls, calls / 4))))
        for _ in range(number):
            clock += 0.01
            yield {"event": "usage", **where, "role": "agent", "calls": 1, "input": 9000, "output": 300, "cost": 0.012, "t": clock}
        end = {"exit_status": "Submitted", "calls": number, "actions": number, "cost": 0.012 * number, "limit": "", "notes": []}
        sha = f"{chance.getrandbits(256):064x}"
        yield {"event": "finished", **where, **end, "patch_sha256": sha, "seconds": 60.0 + number, "t": clock}
        good = chance.random() < hard[issue] + (0.04 if arm == "reasoningbank" else 0.0)
        verdict = {
            "outcome": "resolved" if good == (chance.random() < 0.85) else "unresolved",
            "source": "llm",
            "reason": "",
            "confidence": 0.8,
        }
        flags = ["the patch touches tests or how they are run"] if chance.random() < 0.2 else []
        graded = {"resolved": good, "outcome": "resolved" if good else "unresolved", "reason": "", "flags": flags}
        taught = cell.arm.kind == "none" or made.protocol == "online"
        yield {"event": "graded", **where, **graded, "verdict": verdict if taught else None, "t": clock}
        if taught:
            yield {"event": "usage", **where, "role": "judge", "calls": 1, "input": 8000, "output": 200, "cost": 0.01, "t": clock}
        if made.protocol == "online" and cell.bank:
            learned = {
                "key": "0",
                "status": "learned",
                "items": [{"id": f"item-{issue}", "title": f"A lesson of {issue}"}],
                "quarantined": 0,
                "rejected": 0,
            }
            yield {"event": "learned", **where, "bank": cell.bank, **learned, "bank_version": 1, "t": clock}
    for bank in layout.banks:
        if bank.kind != "growing":
            yield {"event": "frozen", "bank": bank.id, "version": 3, "experiences": 250, "items": 250, "missing": [], "t": clock}


def write_run(folder: Path, issues: int, reruns: int, calls: int, *, protocol: str = "crossfit", arms: tuple[str, ...] = ARMS) -> Path:
    """A run folder with such an experiment and its journal."""
    made = experiment(issues, reruns, protocol, arms)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.json").write_text(json.dumps(made.to_json()), encoding="utf-8")
    with (folder / "events.jsonl").open("w", encoding="utf-8") as file:
        for event in events(made, calls):
            file.write(json.dumps(event) + "\n")
    return folder


def main() -> None:
    """Make a run, compare it, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--issues", type=int, default=500)
    parser.add_argument("--reruns", type=int, default=3)
    parser.add_argument("--calls", type=int, default=40, help="mean calls of an attempt")
    parser.add_argument("--protocol", choices=("crossfit", "online"), default="crossfit")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.add_argument("--keep", type=Path, help="leave the run folder here")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="compare-speed-"))
    arms = ARMS if given.protocol == "crossfit" else ("none", "reasoningbank", "reasoningbank:k=2", "reasoningbank:success-only")
    write_run(folder, given.issues, given.reruns, given.calls, protocol=given.protocol, arms=arms)
    size = (folder / "events.jsonl").stat().st_size
    lines = sum(1 for _ in (folder / "events.jsonl").open("rb"))
    began = time.perf_counter()
    import statsmodels.stats.multitest
    import statsmodels.stats.proportion  # noqa: F401
    from scipy.stats import binom, bootstrap, hypergeom  # noqa: F401

    from harness.compare import compare_run, comparison
    from harness.compare_text import render
    from harness.events import read_state
    from harness.folder import read_experiment

    imported = time.perf_counter()
    experiment_read, state = read_experiment(folder), read_state(folder / "events.jsonl")
    read, cpu = time.perf_counter(), time.process_time()
    comparison(experiment_read, state, "made")
    computed, own = time.perf_counter(), time.process_time() - cpu
    cpu = time.process_time()
    result = compare_run(folder)
    compared, whole = time.perf_counter(), time.process_time() - cpu
    text = render(result)
    written = json.dumps(result)
    shown = time.perf_counter()
    found = {
        "simulated": True,
        "attempts": sum(arm["graded"] for arm in result["arms"]),
        "events": lines,
        "journal_mb": size / 1e6,
        "imports_s": imported - began,
        "reading_s": read - imported,
        "comparison_s": computed - read,
        "comparison_processor_s": own,
        "compare_s": compared - computed,
        "compare_processor_s": whole,
        "output_s": shown - compared,
        "json_mb": len(written) / 1e6,
        "text_lines": text.count("\n"),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
    if given.json:
        print(json.dumps(found))
    else:
        print(f"simulated: {found['attempts']} attempts, {lines} events, {found['journal_mb']:.0f} MB of journal")
        print(f"imports {found['imports_s']:.2f} s; reading the journal {found['reading_s']:.2f} s")
        print(f"the comparison {found['comparison_s']:.2f} s ({own:.2f} s of processor time)")
        print(f"compare, all in all (the journal read again) {found['compare_s']:.2f} s ({whole:.2f} s of processor time)")
        print(f"text and JSON of {found['json_mb']:.1f} MB {found['output_s']:.2f} s")
        print(f"peak memory {found['peak_memory_mb']:.0f} MB; {found['text_lines']} lines of text")
    if given.keep is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
