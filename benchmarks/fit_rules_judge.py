"""Fit the rules judge again and say how good it is: python benchmarks/fit_rules_judge.py FOLDER [--json]

FOLDER holds attempts with official reports. A seeded split, stratified by outcome, gives 3/5 to fit on and 2/5 to validate on. Printed:
the constants for ``swe_memory/judge/rules.py`` (fitted on the first part, both outcomes weighing alike), the agreement of the shipped judge on each
part, and AUROC in 50 times repeated 5-fold cross-validation over all attempts (the features are fixed; they were chosen on the first part, so this
is a little kind).
Needs scipy (pip install swe-memory[harness]).
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from swe_memory.extract.signals import signals
from swe_memory.judge import agreement, rules
from swe_memory.judge.agreement import auroc
from swe_memory.sources import read_attempt, scan

SEED = 20261129
PENALTY = 20.0


def fit(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Means, scales, weights and intercept of a ridge logistic regression; both outcomes weigh the same in all. ``x`` is (n, d), ``y`` (n,) bool."""
    from scipy.optimize import minimize

    means, scales = x.mean(0), x.std(0) + 1e-9
    z = (x - means) / scales
    weight = np.where(y, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    sign = np.where(y, 1.0, -1.0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (z @ w[1:] + w[0])
        slope = -weight * sign / (1 + np.exp(margin))
        value = float((weight * np.logaddexp(0, -margin)).sum() + PENALTY * (w[1:] ** 2).sum() / 2)
        return value, np.r_[slope.sum(), z.T @ slope + PENALTY * w[1:]]

    best = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return means, scales, best[1:], float(best[0])


def split(y: np.ndarray) -> tuple[list[int], list[int]]:
    """Indices to fit on (3/5 of each outcome) and to validate on."""
    draw = random.Random(SEED)
    first: list[int] = []
    for outcome in (True, False):
        members = [i for i in range(len(y)) if y[i] == outcome]
        draw.shuffle(members)
        first += members[: len(members) * 3 // 5]
    return sorted(first), sorted(set(range(len(y))) - set(first))


def cross_validated(x: np.ndarray, y: np.ndarray, repeats: int = 50, folds: int = 5) -> list[float]:
    """AUROC of each repeat, every attempt scored by a model that did not see it."""
    result = []
    for repeat in range(repeats):
        draw = np.random.default_rng(repeat)
        fold = np.zeros(len(y), int)
        for outcome in (True, False):
            members = np.flatnonzero(y == outcome)
            draw.shuffle(members)
            fold[members] = np.arange(len(members)) % folds
        scores = np.zeros(len(y))
        for k in range(folds):
            means, scales, weights, intercept = fit(x[fold != k], y[fold != k])
            scores[fold == k] = (x[fold == k] - means) / scales @ weights + intercept
        figure = auroc(list(scores[y]), list(scores[~y]))
        assert figure is not None
        result.append(figure.value)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    attempts = [
        a for a in map(read_attempt, scan(options.folder).attempts) if a.verdict.source == "tests" and a.verdict.outcome != "unknown"
    ]
    attempts.sort(key=lambda a: a.issue.id)
    y = np.array([a.verdict.outcome == "resolved" for a in attempts])
    if len(attempts) < 20 or y.all() or not y.any():
        raise SystemExit(f"{options.folder}: {len(attempts)} attempts with test results, {int(y.sum())} resolved: too few to fit")
    x = np.array([rules.features(signals(a.issue, a.trajectory)) for a in attempts])
    first, second = split(y)
    means, scales, weights, intercept = fit(x[first], y[first])
    judge = rules.RulesJudge()
    verdicts = [judge.judge(a.issue, a.trajectory) for a in attempts]
    parts: dict[str, Any] = {}
    for name, part in (("fitted on", first), ("validation", second), ("all", list(range(len(y))))):
        parts[name] = agreement([(bool(y[i]), verdicts[i]) for i in part])
        raw = [judge.probability(signals(attempts[i].issue, attempts[i].trajectory)) for i in part]
        parts[name + ", AUROC of the curve itself"] = auroc(
            [p for p, i in zip(raw, part, strict=True) if y[i]], [p for p, i in zip(raw, part, strict=True) if not y[i]]
        )
    repeated = cross_validated(x, y)
    constants = {
        "FEATURES": rules.FEATURES,
        "MEANS": tuple(round(float(v), 4) for v in means),
        "SCALES": tuple(round(float(v), 4) for v in scales),
        "WEIGHTS": tuple(round(float(v), 4) for v in weights),
        "INTERCEPT": round(intercept, 4),
    }
    if options.json:
        from dataclasses import asdict

        print(
            json.dumps(
                {
                    "constants": constants,
                    "cross_validated_auroc": float(np.mean(repeated)),
                    "parts": {k: asdict(v) for k, v in parts.items() if v is not None},
                },
                indent=2,
            )
        )
        return
    for name, value in constants.items():
        print(f"{name} = {value}")
    for name, part in parts.items():
        print(f"\n{name}:\n{part.summary() if hasattr(part, 'summary') else part}")
    print(
        f"\nAUROC, 5-fold cross-validation repeated {len(repeated)} times: mean {np.mean(repeated):.3f}, from {min(repeated):.3f} to {max(repeated):.3f}"
    )


if __name__ == "__main__":
    main()
