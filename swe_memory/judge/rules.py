"""A verdict without tests and without a language model: three counts of a trajectory and a logistic curve.

The counts say how hard the attempt was for its agent: how often it went back to what the issue says, how much output it had to look at, how
many source lines it changed. All three go with failure. They were chosen on 90 of the 150 public attempts in the developers' data
(mini-SWE-agent 1.15 with Gemini 3 Pro; a seeded split by outcome), and the coefficients below were fitted on those 90 by ridge logistic regression.
On the other 60 AUROC is .69 (.53 to .81); they were looked at for two earlier choices of features too, so take it as slightly kind.
``benchmarks/fit_rules_judge.py`` does all of it again. It is a weak judge, and one agent's habits are in it: use tests or a model where you can.
"""

from __future__ import annotations

from math import exp, log, log1p

from ..extract.signals import Signals, signals
from ..records import Issue, Trajectory, Verdict

FEATURES = ("rereads", "output_size", "changed_lines")
"""Counts of :class:`~swe_memory.extract.signals.Signals`; each enters as log(1 + count)."""
MEANS = (1.4409, 10.3947, 1.9924)
SCALES = (0.6097, 0.6487, 0.9421)
WEIGHTS = (-0.3851, -0.2736, -0.2123)
INTERCEPT = 0.1101
BAND = 0.04
"""Within this distance of one half the answer is "unknown": the counts do not tell."""
_SURE = 0.95


def features(found: Signals) -> tuple[float, ...]:
    """The judge's view of an attempt, in the order of ``FEATURES``."""
    return tuple(log1p(getattr(found, name)) for name in FEATURES)


class RulesJudge:
    """Judges by counts alone. Sees the issue and the trajectory, never grading data.

    ``base_rate`` is the share of attempts that one expects to be resolved before looking; at the default of one half the verdict weighs both errors alike
    (what balanced accuracy asks for). With the agent's own resolve rate, ``confidence`` is calibrated for that agent.
    """

    name = "rules@1"

    def __init__(self, *, base_rate: float = 0.5) -> None:
        if not 0 < base_rate < 1:
            raise ValueError(f"base_rate must lie between 0 and 1, not {base_rate}")
        self._prior = log(base_rate / (1 - base_rate))

    def judge(self, issue: Issue, trajectory: Trajectory) -> Verdict:
        """The verdict with the probability that it is right as ``confidence``; "unknown" near one half and where there is no patch to judge.

        That an attempt which changed no source cannot have resolved its issue is plain reasoning: there was no such attempt to learn from.
        """
        if trajectory.patch is None:
            return Verdict.unknown("rules", "The trajectory does not say what was changed.")
        found = signals(issue, trajectory)
        if not found.sources:
            what = "Nothing was submitted." if not trajectory.patch.strip() else "The patch changes no source file."
            return Verdict("unresolved", "rules", what, _SURE)
        chance = self.probability(found)
        reason = (
            f"went back to the issue's words {found.rereads} times, looked at {found.output_size:,} characters of output, "
            f"changed {found.changed_lines} source lines: probability of resolved {chance:.2f}"
        )
        if abs(chance - 0.5) < BAND:
            return Verdict("unknown", "rules", f"The counts do not tell: {reason}.")
        if chance > 0.5:
            return Verdict("resolved", "rules", f"Looks like a pass: {reason}.", chance)
        return Verdict("unresolved", "rules", f"Looks like a failure: {reason}.", 1 - chance)

    def probability(self, found: Signals) -> float:
        """The probability of "resolved" by the logistic curve, shifted to the base rate; between 0 and 1."""
        linear = INTERCEPT + sum(w * (x - m) / s for w, x, m, s in zip(WEIGHTS, features(found), MEANS, SCALES, strict=True))
        return 1 / (1 + exp(-min(max(linear + self._prior, -30.0), 30.0)))
