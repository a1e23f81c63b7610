"""Made-up experiments whose truth is known: an attempt at an issue resolves it with

logit p = repository + issue + arm + arm x issue + shock of the bank or stream + bank feedback,

where feedback is ``gain * log(1 + wins so far in this repository)``. Repositories have the sizes of SWE-bench Verified, or shares of them; shocks a standard
deviation in points of the resolve rate; attempts go missing at a rate that depends on the arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit

LIMIT = 75.0
"""Calls."""
SIZES = (231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1)
"""django, sympy, sphinx, matplotlib, scikit-learn, astropy, xarray, pytest, pylint, requests, seaborn, flask."""


@dataclass(frozen=True)
class World:
    """Standard deviations are on logits, except ``shock``, in points. ``missing``: share of attempts lost in memory and in the baseline."""

    issues: int = 500
    centre: float = 0.2
    spread: float = 3.5
    repository: float = 0.7
    arm: float = 0.0
    interaction: float = 0.0
    shock: float = 0.0
    gain: float = 0.0
    missing: tuple[float, float] = (0.03, 0.01)

    def repositories(self) -> np.ndarray:
        """The repository of each issue, in shares like Verified's."""
        places = np.repeat(np.arange(len(SIZES)), SIZES)
        return places[np.linspace(0, len(places) - 1, self.issues).round().astype(int)]

    def effects(self) -> np.ndarray:
        """One logit for each repository: fixed, so that new issues come from the same repositories."""
        return self.repository * np.random.default_rng(12).standard_normal(len(SIZES))

    def logits(self, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(count, issues) of the baseline and of memory before shock and feedback."""
        base = self.centre + self.effects()[self.repositories()] + self.spread * random.standard_normal((count, self.issues))
        return base, base + self.arm + self.interaction * random.standard_normal((count, self.issues))

    def lost(self, values: np.ndarray, arm: int, random: np.random.Generator) -> np.ndarray:
        """The same as floats, NaN where the attempt is missing (only within this benchmark)."""
        return np.where(random.random(values.shape) < self.missing[arm], np.nan, values.astype(float))


@lru_cache(maxsize=64)
def logit_shock(world: World) -> float:
    """The world's shock on logits."""
    base, _ = world.logits(200, np.random.default_rng(1))
    return world.shock / 100 / float(np.mean(expit(base) * expit(-base)))


@lru_cache(maxsize=64)
def population(world: World) -> tuple[np.ndarray, np.ndarray, float]:
    """Shocks, the effect on issues like these given each, and the discordance without a shock, from 200,000 issues or more."""
    base, memory = world.logits(-(-200_000 // world.issues), np.random.default_rng(2))
    shocks = np.linspace(-4, 4, 17) * logit_shock(world) if world.shock else np.zeros(1)
    q = expit(base)
    p = expit(memory)
    return shocks, np.array([float(np.mean(expit(memory + s) - q)) for s in shocks]), float(np.mean(p * (1 - q) + (1 - p) * q))


def online(world: World, memory: np.ndarray, count: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """``count`` streams over the same issues: outcomes, the chances along the path, and the bank size at each issue, each (count, issues)."""
    place = world.repositories()
    order = random.permuted(np.broadcast_to(np.arange(world.issues), (count, world.issues)), axis=1)
    wins, row = np.zeros((count, len(SIZES))), np.arange(count)
    outcomes, chances, sizes = np.zeros((count, world.issues), bool), np.zeros((count, world.issues)), np.zeros((count, world.issues))
    shock = logit_shock(world) * random.standard_normal(count) if world.shock else np.zeros(count)
    for step in range(world.issues):
        issue = order[:, step]
        p = expit(memory[issue] + shock + world.gain * np.log1p(wins[row, place[issue]]))
        done = random.random(count) < p
        outcomes[row, issue], chances[row, issue], sizes[row, issue] = done, p, step
        wins[row, place[issue]] += done
    return outcomes, chances, sizes


def attempts_with_calls(world: World, count: int, many: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Resolved and calls of memory and of the baseline, each (many, issues, count): log-normal, more for hard issues and failures, 7 % fewer with memory."""
    base, memory = world.logits(many, random)
    found = []
    for logit, factor in ((memory, 0.93), (base, 1.0)):
        resolved = random.random((*base.shape, count)) < expit(logit)[..., None]
        typical = factor * np.exp(3.2 - 0.12 * base[..., None] + np.where(resolved, 0.0, 0.35))
        found += [resolved, np.minimum(np.ceil(typical * np.exp(0.45 * random.standard_normal(resolved.shape))), LIMIT)]
    return tuple(found)
