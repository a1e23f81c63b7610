"""What do the intervals and tests of harness/statistics really cover?

    python benchmarks/coverage.py [--quick] [--seed 0] [--only SECTION] [--json]

Made-up experiments whose truth is known (made_worlds.py), many of each, analysed with the functions that ship.

Estimands. "like": issues like these (new issues of these repositories), given the bank. "these": exactly these issues, given the bank. "streams": the mean over
streams on these issues. "path": this stream's own path. A row says what was promised of it: 93-97 % coverage with 100 issues and 20 expected discordant pairs
or more, 93 % or more elsewhere, a level of 5.5 % at most; or "-" where an interval is read as something that it does not claim, to show what that costs.

``error`` is the standard error of the figure itself. --json prints {seed, rows: [{section, scenario, what, issues, discordant, figure, error, promise, kept,
replications}]}.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache

import numpy as np
from coverage_table import LEAST, LEVEL, NONE, Row, Tally, summary, table
from made_worlds import LIMIT, World, attempts_with_calls, logit_shock, online, population
from scipy.special import expit

from harness.statistics.bounds import worst_case
from harness.statistics.curves import learning_curve
from harness.statistics.estimates import Estimate, t_interval
from harness.statistics.noise import noise, rerun_discordance
from harness.statistics.paired import Pairs, mcnemar_exact, mcnemar_midp, newcombe, tango
from harness.statistics.passk import pass_at_k
from harness.statistics.power import mcnemar_power
from harness.statistics.rates import rate
from harness.statistics.repeated import bootstrap_by_issue, by_issue
from harness.statistics.steps import per_resolved, per_resolved_ratio, restricted_means
from harness.statistics.streams import no_effect_on_any_issue, over_streams
from swe_memory.errors import SweMemoryError, UsageError


def runs(values: np.ndarray) -> dict[str, list[float | None]]:
    """(issues, runs) -> the shape that the functions take."""
    return {str(issue): [None if value != value else value for value in row] for issue, row in enumerate(values.tolist())}


def covers(estimate: Estimate, truth: float) -> bool:
    """An interval that is not given covers nothing."""
    low = -np.inf if estimate.low is None and estimate.high is not None else estimate.low
    high = np.inf if estimate.high is None and estimate.low is not None else estimate.high
    return low is not None and high is not None and low - 1e-12 <= truth <= high + 1e-12


@lru_cache(maxsize=200_000)
def paired_parts(both: int, one: int, other: int, neither: int) -> tuple[tuple[float, float], tuple[float, float], float, float]:
    pairs = Pairs(both, one, other, neither)
    p = (mcnemar_midp(one, other), mcnemar_exact(one, other)) if one + other else (1.0, 1.0)
    return tango(one, other, pairs.total), newcombe(pairs), *p


def one_bank(replications: int, seed: int) -> Iterator[Row]:
    """Section: one frozen bank, one run of each arm."""
    cases = [
        ("no effect on any issue", World()),
        ("no mean effect, arm x issue 1", World(centre=0.0, repository=0.0, interaction=1.0)),  # none by symmetry
        ("gain, shock 2", World(arm=0.6, interaction=0.5, shock=2)),
        ("large gain, arm x issue 2", World(arm=1.5, interaction=2.0, shock=1)),
        ("gain, 150 issues", World(issues=150, arm=0.6, interaction=0.5, shock=1)),
        ("gain, 100 issues", World(issues=100, arm=0.8, spread=2.5, interaction=0.5)),
        ("no effect, 100 issues", World(issues=100, spread=2.5)),
        ("no effect, 50 issues", World(issues=50)),
        ("gain, 50 issues, few differ", World(issues=50, arm=1.0, spread=8.0)),
        ("no effect, 30 issues, few differ", World(issues=30, spread=8.0)),
        ("weak agent (about 6 %)", World(centre=-5.0, spread=1.5, arm=0.4)),
        ("strong agent (about 93 %)", World(issues=150, centre=5.0, spread=1.5, arm=0.5)),
        ("large loss, 12 issues", World(issues=12, arm=-2.0, interaction=1.0)),
    ]
    for number, (scenario, world) in enumerate(cases):
        random = np.random.default_rng([seed, 1, number])
        tally = Tally("one bank", scenario, world)
        shocks, effects, _ = population(world)
        null = world.arm == 0 and not world.shock
        for start in range(0, replications, 500):
            size = min(500, replications - start)
            base, memory = world.logits(size, random)
            shock = logit_shock(world) * random.standard_normal(size) if world.shock else np.zeros(size)
            q, p = expit(base), expit(memory + shock[:, None])
            first, second = world.lost(random.random(p.shape) < p, 0, random), world.lost(random.random(q.shape) < q, 1, random)
            kept = ~np.isnan(first) & ~np.isnan(second)
            a, b = (first == 1) & kept, (second == 1) & kept
            tables = np.stack([(part & kept).sum(axis=1) for part in (a & b, a & ~b, ~a & b, ~a & ~b)], axis=1)
            like, these = np.interp(shock, shocks, effects), (p - q).mean(axis=1)
            for place, counts in enumerate(tables.tolist()):
                score, check, midp, exact = paired_parts(*counts)
                tally.add("Tango, like", score[0] - 1e-12 <= like[place] <= score[1] + 1e-12)
                tally.add("Tango, these", score[0] - 1e-12 <= these[place] <= score[1] + 1e-12, LEAST)
                tally.add("Newcombe (check), like", check[0] - 1e-12 <= like[place] <= check[1] + 1e-12, NONE)
                if null:
                    tally.add("mid-p, level", midp < 0.05, LEVEL)
                    tally.add("exact, level", exact < 0.05, LEVEL)
        yield from tally.rows()


def several_runs(replications: int, seed: int) -> Iterator[Row]:
    """Section: several runs of each arm on one bank; the boundary case of one baseline run; the bootstrap beside it."""
    cases = [
        ("3 + 3 runs, no effect", World(), 3, 3),
        ("3 + 3 runs, no mean effect, arm x issue 1", World(centre=0.0, repository=0.0, interaction=1.0), 3, 3),
        ("3 + 3 runs, gain, shock 2", World(arm=0.6, interaction=1.0, shock=2), 3, 3),
        ("2 + 2 runs, large gain", World(arm=1.5, interaction=2.0), 2, 2),
        ("3 + 1 runs, gain", World(arm=0.6, interaction=0.5), 3, 1),
        ("5 + 5 runs, 100 issues, gain", World(issues=100, arm=0.8, spread=2.5, interaction=0.5), 5, 5),
        ("2 + 2 runs, 100 issues, no effect", World(issues=100, spread=2.5), 2, 2),
        ("3 + 3 runs, 50 issues, no effect", World(issues=50), 3, 3),
        ("3 + 3 runs, 30 issues, few differ", World(issues=30, spread=10.0), 3, 3),
        ("5 + 5 runs, 30 issues, few differ, gain", World(issues=30, spread=10.0, arm=1.5, interaction=1.0), 5, 5),
        ("2 + 2 runs, 12 issues, gain", World(issues=12, arm=1.0, interaction=0.5), 2, 2),
        ("3 + 3 runs, strong agent, 100 issues", World(issues=100, centre=5.0, spread=1.5), 3, 3),
    ]
    for number, (scenario, world, mine, other) in enumerate(cases):
        random = np.random.default_rng([seed, 2, number])
        tally = Tally("several runs", scenario, world)
        shocks, effects, _ = population(world)
        often = 1 if world.issues > 100 else 4  # small ones are cheap
        for turn in range(often * replications):
            base, memory = (part[0] for part in world.logits(1, random))
            shock = logit_shock(world) * random.standard_normal() if world.shock else 0.0
            q, p = expit(base), expit(memory + shock)
            first = runs(world.lost(random.random((world.issues, mine)) < p[:, None], 0, random))
            second = runs(world.lost(random.random((world.issues, other)) < q[:, None], 1, random))
            found = by_issue(first, second)
            like = float(np.interp(shock, shocks, effects))
            tally.add("score, like", covers(found.difference, like))
            tally.add("score, these", covers(found.difference, float(np.mean(p - q))), LEAST)
            if not world.arm and not world.shock:
                tally.add("score test, level", found.test.p is not None and found.test.p < 0.05, LEVEL)
            if turn % (5 * often) == 0:
                for method in ("percentile", "BCa"):
                    tally.add(
                        f"{method} bootstrap (check), like",
                        covers(bootstrap_by_issue(first, second, resamples=999, method=method), like),
                        NONE,
                    )
        yield from tally.rows()


def streams(replications: int, seed: int) -> Iterator[Row]:
    """Section: online streams with shocks and feedback on fixed issues."""
    worlds = [
        ("no effect, no feedback", World()),
        ("shock 1, no feedback", World(shock=1)),
        ("shock 2, feedback", World(shock=2, gain=0.06, interaction=0.5)),
        ("feedback", World(gain=0.06, arm=0.3, interaction=0.5)),
        ("100 issues, shock 2, feedback", World(issues=100, spread=2.5, shock=2, gain=0.06, interaction=0.5)),
        ("50 issues, shock 1, feedback", World(issues=50, shock=1, gain=0.06)),
    ]
    for number, (scenario, world) in enumerate(worlds):
        random = np.random.default_rng([seed, 3, number])
        base, memory = (part[0] for part in world.logits(1, np.random.default_rng([3, number])))
        q = expit(base)
        outcomes, chances, _ = online(world, memory, 12_000, random)
        truth = float(np.mean(outcomes) - np.mean(q))
        null = not world.gain and not world.interaction and not world.shock
        p = chances.mean(axis=0)
        discordant = float(np.sum(p * (1 - q) + (1 - p) * q))
        for count, reruns in ((1, 1), (1, 3), (2, 2), (3, 1), (3, 3), (5, 3)):
            tally = Tally("streams", f"{scenario}; {count} + {reruns}", world, discordant)
            for turn in range(4 * replications if null and count == 1 else replications):
                picked = random.integers(0, len(outcomes), count) if count > 1 else np.array([turn % len(outcomes)])
                got = world.lost(outcomes[picked].T, 0, random)
                first = runs(got)
                second = runs(world.lost(random.random((world.issues, reruns)) < q[:, None], 1, random))
                if count == 1:
                    path = by_issue(first, second)
                    tally.add("score, path", covers(path.difference, float(np.mean(chances[picked[0]] - q))), LEAST)
                    tally.add("score, read as the effect over streams", covers(path.difference, truth), NONE)
                    if null:
                        p = no_effect_on_any_issue(first, second).p
                        tally.add("no effect on any issue, level", p is not None and p < 0.05, LEVEL)
                    continue
                found = over_streams(first, second)
                tally.add("Cochran t, streams", covers(found.effect, truth))
                plain = t_interval(found.streams, estimand="", unit="stream")
                tally.add("plain t over differences, streams", covers(plain, truth), NONE)
                if truth == 0 or (not world.gain and not world.interaction and not world.arm):
                    tally.add("Cochran t, level", found.test.p is not None and found.test.p < 0.05, LEVEL)
            yield from tally.rows()
    yield from waves(replications, seed)


def waves(replications: int, seed: int) -> Iterator[Row]:
    """Section streams: each wave of attempts, with memory or without, is 1 point better or worse, which no interval here knows of."""
    world = World(shock=1)
    random = np.random.default_rng([seed, 11])
    base, memory = (part[0] for part in world.logits(1, np.random.default_rng(11)))
    outcomes, _, _ = online(world, memory, 6_000, random)
    other, _, _ = online(world, base, 6_000, random)
    truth = float(np.mean(outcomes) - np.mean(other))
    for count, reruns in ((3, 1), (3, 3)):
        tally = Tally("streams", f"waves of 1 point in the baseline too; {count} + {reruns}", world)
        for _ in range(replications):
            first = runs(outcomes[random.integers(0, len(outcomes), count)].T.astype(float))
            second = runs(other[random.integers(0, len(other), reruns)].T.astype(float))
            tally.add("Cochran t, with waves in the baseline", covers(over_streams(first, second).effect, truth), NONE)
        yield from tally.rows()


def rates(replications: int, seed: int) -> Iterator[Row]:
    """Section: the resolve rate of one arm."""
    cases = [
        ("1 run", World(), 1),
        ("3 runs", World(), 3),
        ("5 runs, 100 issues", World(issues=100), 5),
        ("3 runs, 30 issues", World(issues=30), 3),
        ("1 run, weak agent, 50 issues", World(issues=50, centre=-5.0, spread=1.5), 1),
        ("3 runs, weak agent, 50 issues", World(issues=50, centre=-5.0, spread=1.5), 3),
    ]
    for number, (scenario, world, count) in enumerate(cases):
        random = np.random.default_rng([seed, 4, number])
        truth = float(expit(world.logits(-(-200_000 // world.issues), np.random.default_rng(2))[0]).mean())
        tally = Tally("rate", scenario, world)
        for _ in range(replications):
            q = expit(world.logits(1, random)[0][0])
            found = rate(runs(world.lost(random.random((world.issues, count)) < q[:, None], 1, random)))
            tally.add("Wilson, like", covers(found, truth))
        yield from tally.rows()


def steps(replications: int, seed: int) -> Iterator[Row]:
    """Section: calls over all issues, and calls per resolved issue."""
    cases = [
        ("1 run", World(arm=0.4, interaction=0.5), 1),
        ("3 runs", World(arm=0.4, interaction=0.5), 3),
        ("1 run, 100 issues", World(issues=100, arm=0.4), 1),
        ("1 run, 30 issues", World(issues=30, arm=0.4), 1),
        ("1 run, weak agent, 100 issues", World(issues=100, centre=-4.0, spread=1.5, arm=0.4), 1),
    ]
    for number, (scenario, world, count) in enumerate(cases):
        random = np.random.default_rng([seed, 5, number])
        a, b, c, d = (
            float(part.mean()) for part in attempts_with_calls(world, count, -(-400_000 // world.issues), np.random.default_rng(5))
        )
        tally = Tally("calls", scenario, world)
        for turn in range(replications if world.issues > 100 else 3 * replications):
            first, mine, second, other = (runs(part[0].astype(float)) for part in attempts_with_calls(world, count, 1, random))
            tally.add("restricted mean, t, like", covers(restricted_means(mine, other, LIMIT).difference, b - d))
            if turn % 2 == 0:
                tally.add("per resolved issue, bootstrap, like", covers(per_resolved(mine, first, resamples=999), b / a))
                relative = per_resolved_ratio((mine, first), (other, second), resamples=999)
                tally.add("per resolved issue, ratio, bootstrap, like", covers(relative, b / a / (d / c)))
        yield from tally.rows()


def noise_floor(replications: int, seed: int) -> Iterator[Row]:
    """Section: discordance between reruns, and its excess."""
    cases = [
        ("2 + 2 runs, no effect", World(), 2),
        ("3 + 3 runs, arm x issue 1", World(interaction=1.0), 3),
        ("2 + 2 runs, 100 issues", World(issues=100, spread=2.5, interaction=0.5), 2),
        ("3 + 3 runs, 50 issues", World(issues=50), 3),
        ("2 + 2 runs, 30 issues, few differ", World(issues=30, spread=8.0), 2),
    ]
    for number, (scenario, world, count) in enumerate(cases):
        random = np.random.default_rng([seed, 6, number])
        base, memory = world.logits(-(-400_000 // world.issues), np.random.default_rng(6))
        q, p = expit(base), expit(memory)
        floor, excess = float(np.mean(2 * q * (1 - q))), float(np.mean((p - q) ** 2))
        tally = Tally("noise", scenario, world)
        for _ in range(replications):
            base, memory = (part[0] for part in world.logits(1, random))
            first = runs((random.random((world.issues, count)) < expit(memory)[:, None]).astype(float))
            second = runs((random.random((world.issues, count)) < expit(base)[:, None]).astype(float))
            tally.add("rerun discordance, like", covers(rerun_discordance(second), floor))
            tally.add("excess, score, like", covers(noise(first, second).excess, excess))
        yield from tally.rows()


def missing(replications: int, seed: int) -> Iterator[Row]:
    """Section: attempts that go missing more often where they would have failed, in the arm with memory only."""
    for number, world in enumerate((World(arm=0.4, missing=(0.0, 0.0)), World(issues=100, spread=2.5, arm=0.4, missing=(0.0, 0.0)))):
        random = np.random.default_rng([seed, 7, number])
        truth = float(population(world)[1][0])
        tally = Tally("missing", "memory loses 15 % of its failures, 2 % of the rest", world)
        planned = [str(issue) for issue in range(world.issues)]
        for _ in range(replications):
            base, memory = (part[0] for part in world.logits(1, random))
            first, second = random.random(world.issues) < expit(memory), random.random(world.issues) < expit(base)
            gone = random.random(world.issues) < np.where(first, 0.02, 0.15)
            mine, other = runs(np.where(gone, np.nan, first.astype(float))[:, None]), runs(second.astype(float)[:, None])
            bounds = worst_case(mine, other, planned)
            inside = (
                bounds.interval_low is not None
                and bounds.interval_high is not None
                and bounds.interval_low <= truth <= bounds.interval_high
            )
            tally.add("worst-case bounds, like", inside, LEAST)
            tally.add("Tango without the missing, like", covers(by_issue(mine, other).difference, truth), NONE)
            tally.add("unequal losses found (power)", bounds.unequal.p is not None and bounds.unequal.p < 0.05, NONE)
        yield from tally.rows()


def others(replications: int, seed: int) -> Iterator[Row]:
    """Section: pass@k, the slope of the learning curve, and the exact power."""
    for number, (world, count, k) in enumerate(((World(), 5, 3), (World(issues=50), 4, 2))):
        random = np.random.default_rng([seed, 8, number])
        truth = float(np.mean(1 - expit(-world.logits(-(-400_000 // world.issues), np.random.default_rng(8))[0]) ** k))
        tally = Tally("others", f"pass@{k} of {count} attempts", world)
        for _ in range(replications):
            q = expit(world.logits(1, random)[0][0])
            found = pass_at_k(runs((random.random((world.issues, count)) < q[:, None]).astype(float)), k)
            tally.add("Wilson, like", covers(found.estimate, truth))
        yield from tally.rows()
    world = World(gain=0.15, shock=1)
    random = np.random.default_rng([seed, 9])
    base, memory = (part[0] for part in world.logits(1, np.random.default_rng(9)))
    outcomes, _, sizes = online(world, memory, 12_000, random)
    centred = sizes - sizes.mean()
    truth = float(np.mean((centred * (outcomes - expit(base))).sum(axis=1) / (centred**2).sum(axis=1)))
    for count in (3, 5):
        tally = Tally("others", f"learning curve, {count} streams, 3 baseline runs", world)
        for _ in range(replications // 4):
            picked = random.integers(0, len(outcomes), count)
            second = runs((random.random((world.issues, 3)) < expit(base)[:, None]).astype(float))
            curve = learning_curve(runs(outcomes[picked].T.astype(float)), second, runs(sizes[picked].T), (0,))
            tally.add("slope, t, streams", covers(curve.slope, truth))
        yield from tally.rows()
    for issues, effect, discordance in ((500, 0.034, 0.14), (100, 0.1, 0.2)):
        random = np.random.default_rng([seed, 10, issues])
        pairs = random.binomial(issues, discordance, 20 * replications)
        ones = random.binomial(pairs, (1 + effect / discordance) / 2)
        hits = [a + b > 0 and mcnemar_midp_cached(a, b) < 0.05 for a, b in zip(ones.tolist(), (pairs - ones).tolist(), strict=True)]
        share = 100 * float(np.mean(hits))
        exact = 100 * mcnemar_power(issues, effect, discordance)
        what = f"power of mid-p, simulated; exact: {exact:.1f} %"
        yield Row(
            "others",
            f"effect {effect}",
            what,
            issues,
            issues * discordance,
            share,
            (share * (100 - share) / len(hits)) ** 0.5,
            NONE,
            len(hits),
        )


mcnemar_midp_cached = lru_cache(maxsize=100_000)(mcnemar_midp)

SECTIONS: dict[str, tuple[Callable[[int, int], Iterator[Row]], int]] = {
    "one bank": (one_bank, 5_000),
    "several runs": (several_runs, 1_000),
    "streams": (streams, 700),
    "rate": (rates, 4_000),
    "calls": (steps, 800),
    "noise": (noise_floor, 1_500),
    "missing": (missing, 2_000),
    "others": (others, 2_000),
}
"""Each with its full number of replications."""


def run(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="coverage.py", description="Measure what the intervals and tests of the statistics really cover.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the replications")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    if options.seed < 0:
        raise UsageError("--seed must be 0 or more.", "For example: --seed 1")
    rows: list[Row] = []
    for name, (section, replications) in SECTIONS.items():
        if options.only in (None, name):
            started = time.perf_counter()
            rows += section(replications // 10 if options.quick else replications, options.seed)
            print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if options.json:
        print(json.dumps({"seed": options.seed, "rows": [{**asdict(row), "kept": row.kept} for row in rows]}, indent=2))
    else:
        print(summary(rows))
        print()
        print(table(rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except SweMemoryError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
