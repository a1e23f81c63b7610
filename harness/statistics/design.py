"""Designs with several builds or reruns: their power by simulation, from the baseline, the effect, the noise floor and the discordance.

An issue's chance in the baseline is logistic-normal, its spread set so that reruns differ as often as the noise floor says; memory shifts every issue's logit
and adds an issue-specific part, set so that the mean moves by the effect and the arms differ as often as the discordance says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.statistics.power import Answer, impossible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Design:
    """``builds`` of memory with ``reruns`` each, and ``baseline_runs``. ``unit``: "issue" asks for the effect given these banks, "build" for the method's."""

    issues: int
    builds: int = 1
    reruns: int = 1
    baseline_runs: int = 1
    unit: str = "issue"

    @property
    def attempts(self) -> int:
        """Of both arms together."""
        return self.issues * (self.builds * self.reruns + self.baseline_runs)


@dataclass(frozen=True, slots=True)
class World:
    """What is assumed. ``floor``: rerun discordance of the baseline (None: all discordance is noise). ``shock``: standard deviation, in points of the resolve
    rate, of what a whole build is better or worse by."""

    baseline: float
    effect: float
    discordance: float
    floor: float | None = None
    shock: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """``power`` and the standard error that it has because it was simulated; ``notes``: what of the assumptions could not be met exactly."""

    power: float | None
    error: float | None
    replications: int
    why: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Latent:
    """Logits: ``centre + spread * z`` for the baseline, ``memory_centre + spread * z + own * w`` for memory; z, w standard normal. ``shock`` on logits."""

    centre: float
    spread: float
    memory_centre: float
    own: float
    shock: float
    notes: tuple[str, ...]


def calibrate(world: World) -> Latent:
    """The latent model that has the world's rates (Gauss-Hermite quadrature, one root after the other). The world must be possible."""
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import expit

    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    notes = []

    def solve(function: Callable[[float], float], low: float, high: float) -> float:
        return float(brentq(function, low, high, xtol=1e-7))

    def clipped(rate: float) -> float:
        return min(max(rate, 1e-4), 1 - 1e-4)

    baseline, target = clipped(world.baseline), clipped(world.baseline + world.effect)

    def centre_for(spread: float) -> float:
        return solve(lambda c: float(weights @ expit(c + spread * nodes)) - baseline, -20 - 10 * spread, 20 + 10 * spread)

    def rerun(spread: float) -> float:
        q = expit(centre_for(spread) + spread * nodes)
        return float(2 * weights @ (q * (1 - q)))

    floor = world.discordance if world.floor is None else world.floor
    spread_most = 30.0
    if rerun(spread_most) >= floor:
        spread = spread_most
        notes.append("The noise floor is close to 0: issues are taken as always or never resolved.")
    elif rerun(0.0) <= floor:
        spread = 0.0
        notes.append("The noise floor is as high as it can be: all issues are taken as equally hard.")
    else:
        spread = solve(lambda s: rerun(s) - floor, 0.0, spread_most)
    centre = centre_for(spread)
    q = expit(centre + spread * nodes)

    def chances(middle: float, own: float) -> NDArray[np.float64]:
        return np.asarray(expit(middle + spread * nodes[:, None] + own * nodes[None, :]) @ weights)

    def memory_centre_for(own: float) -> float:
        reach = 20 + 10 * (spread + own)
        return solve(lambda c: float(weights @ chances(c, own)) - target, -reach, reach)

    def across(own: float) -> float:
        p = chances(memory_centre_for(own), own)
        return float(weights @ (p * (1 - q) + (1 - p) * q))

    own_most = 30.0
    if across(0.0) >= world.discordance - 1e-6:
        own = 0.0
        if across(0.0) > world.discordance + 2e-3:
            notes.append(f"With this noise floor and effect the arms differ on {across(0.0):.3f} of the issues at least; that is taken.")
    elif across(own_most) <= world.discordance:
        own = own_most
        notes.append("The discordance is higher than this noise floor and effect allow for; the highest possible is taken.")
    else:
        own = solve(lambda o: across(o) - world.discordance, 0.0, own_most)
    middle = memory_centre_for(own)
    p = chances(middle, own)
    slope = max(float(weights @ (p * (1 - p))), 1e-6)
    return Latent(centre, spread, middle, own, world.shock / 100 / slope, tuple(notes))


def simulate(design: Design, world: World, *, replications: int = 2_000, seed: int = 0, alpha: float = 0.05) -> Simulated:
    """The power of ``design`` in ``world``: the share of simulated experiments that its test rejects. The same seed gives the same answer.

    Unit "issue": the score test of :func:`harness.statistics.repeated.by_issue`. Unit "build": :func:`harness.statistics.streams.over_streams`, which takes two
    builds.
    """
    wrong = impossible(world.baseline, world.effect, world.discordance)
    if not wrong and design.unit == "build" and design.builds < 2:
        wrong = "The method's effect over builds takes two builds or more."
    if wrong:
        return Simulated(None, None, 0, wrong)
    import numpy as np

    latent = calibrate(world)
    random = np.random.default_rng(seed)
    batch = max(1, 2_000_000 // max(design.issues * design.builds, 1))
    rejected = 0
    for start in range(0, replications, batch):
        size = min(batch, replications - start)
        first, second = draw(design, latent, size, random)
        test = reject_by_issue if design.unit == "issue" else reject_over_builds
        rejected += int(test(first, second, design, alpha).sum())
    power = rejected / replications
    return Simulated(power, math.sqrt(power * (1 - power) / replications), replications, "", latent.notes)


def draw(design: Design, latent: Latent, size: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Resolved runs: of memory (size, issues, builds), each of ``reruns``; of the baseline (size, issues), of ``baseline_runs``."""
    from scipy.special import expit

    hard = latent.spread * random.standard_normal((size, design.issues))
    own = latent.own * random.standard_normal((size, design.issues))
    shock = latent.shock * random.standard_normal((size, 1, design.builds))
    first = random.binomial(design.reruns, expit(latent.memory_centre + (hard + own)[:, :, None] + shock))
    second = random.binomial(design.baseline_runs, expit(latent.centre + hard))
    return first, second


def reject_by_issue(first: NDArray[np.int64], second: NDArray[np.int64], design: Design, alpha: float) -> NDArray[np.bool_]:
    """Per experiment whether the clustered score test rejects: the arithmetic of ``repeated.by_issue`` on arrays."""
    import numpy as np

    from harness.statistics.estimates import z_of

    runs = design.builds * design.reruns
    p, q = first.sum(axis=2) / runs, second / design.baseline_runs
    wins, losses = p * (1 - q), (1 - p) * q
    b, c, n = wins.sum(axis=1), losses.sum(axis=1), design.issues
    floor = (1 / runs + 1 / design.baseline_runs) / 2
    effect = np.ones(len(p))
    if floor < 1 and n > 1:
        simple = (b + c) / n - ((b - c) / n) ** 2
        effect = np.clip(np.divide((p - q).var(axis=1, ddof=1), simple, out=np.ones(len(p)), where=simple > 1e-15), floor, 1.0)
    score = np.divide(b - c, np.sqrt((b + c) * effect), out=np.zeros(len(p)), where=b + c > 0)
    return np.asarray(np.abs(score) > z_of(1 - alpha))


def reject_over_builds(first: NDArray[np.int64], second: NDArray[np.int64], design: Design, alpha: float) -> NDArray[np.bool_]:
    """Per experiment whether the interval over builds leaves out 0: the arithmetic of ``streams.over_streams`` on arrays."""
    import numpy as np

    from harness.statistics.estimates import t_of, z_of

    p, q = first / design.reruns, second / design.baseline_runs
    n, builds, runs = design.issues, design.builds, design.baseline_runs
    own = p.mean(axis=1).var(axis=1, ddof=1) / builds
    within = p.var(axis=2, ddof=1).mean(axis=1) if runs == 1 else (q * (1 - q)).mean(axis=1) * runs / (runs - 1)
    noise = within / (n * runs)
    spread = own + noise
    half = (t_of(1 - alpha, builds - 1) * own + z_of(1 - alpha) * noise) / np.sqrt(np.where(spread > 0, spread, 1.0))
    return np.asarray((np.abs(p.mean(axis=(1, 2)) - q.mean(axis=1)) > half) & (spread > 0))


def smallest_effect_of(
    design: Design, world: World, *, power: float = 0.8, replications: int = 1_000, seed: int = 0, alpha: float = 0.05
) -> Answer:
    """The smallest gain that ``design`` shows with that power in ``world`` (whose effect is not looked at), to about 0.1 points."""
    low, high = 0.0, min(1 - world.baseline, 0.5)

    def enough(effect: float) -> bool:
        trial = World(world.baseline, effect, max(world.discordance, effect), world.floor, world.shock)
        found = simulate(design, trial, replications=replications, seed=seed, alpha=alpha)
        return found.power is not None and found.power >= power

    if design.unit == "build" and design.builds < 2:
        return Answer(None, "The method's effect over builds takes two builds or more.")
    step = 0.02
    while step < high and not enough(step):
        low, step = step, step * 2
    if step >= high:
        return Answer(None, f"No gain up to {100 * high:.0f} points is shown with {power:.0%} power.")
    high = step
    while high - low > 0.001:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Answer(high)
