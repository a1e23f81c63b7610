"""What one memory item did: issues that turned when it was recalled, shrunk to what reruns without any change turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.statistics.estimates import LEVEL, Estimate

PRIOR_USES = 20.0
"""How many uses without effect each item is given beforehand. A choice, not an estimate: an item needs about as many uses to be believed half-way."""


@dataclass(frozen=True, slots=True)
class ItemEffect:
    """``flips_for``: uses in which the issue was resolved with the item and not without; ``flips_against``: the reverse; ``expected``: how many flips in each
    direction as many reruns would show by noise. ``effect``: the shrunk difference in the chance that an issue is resolved when the item is recalled."""

    uses: int
    flips_for: int
    flips_against: int
    expected: float | None
    effect: Estimate


def item_effect(pairs: Sequence[tuple[bool, bool]], floor: float | None, *, seed: int = 0, level: float = LEVEL) -> ItemEffect:
    """``pairs``: for each use (resolved with the item, resolved by the baseline). ``floor``: the baseline's rerun discordance, None if it is not known.

    Posterior mean and equal-tailed interval of P(flip for) - P(flip against), where flips for, flips against and no flip have a Dirichlet prior worth
    :data:`PRIOR_USES` uses with the noise floor's share of flips, half in each direction (Gelman et al., "Bayesian Data Analysis", 3rd edition, section 3.4).
    So an item of two lucky uses stays near 0. Issues choose their items, so this describes; it is no experiment on the item.
    """
    gained, lost = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    uses = len(pairs)
    estimand = "difference in the chance of being resolved when this item is recalled, shrunk to no effect"
    method = "Dirichlet posterior"
    if floor is None:
        why = "The baseline was not run twice, so the flips that noise makes are not known."
        return ItemEffect(uses, gained, lost, None, Estimate(None, None, None, estimand, "use", uses, method, level, why))
    import numpy as np

    share = min(max(floor, 1e-3), 1 - 1e-3)
    prior = PRIOR_USES * np.array([share / 2, share / 2, 1 - share])
    posterior = prior + np.array([gained, lost, uses - gained - lost])
    value = float((posterior[0] - posterior[1]) / posterior.sum())
    draws = np.random.default_rng(seed).dirichlet(posterior, size=20_000)
    low, high = np.quantile(draws[:, 0] - draws[:, 1], [0.5 - level / 2, 0.5 + level / 2])
    return ItemEffect(uses, gained, lost, uses * floor / 2, Estimate(value, float(low), float(high), estimand, "use", uses, method, level))
