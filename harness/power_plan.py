"""``swe-memory plan``: what a design could see, before any money is spent.

One frozen bank with one run of each arm has an exact answer (:mod:`harness.statistics.power`). Everything with several runs is simulated with a fixed seed
(:mod:`harness.statistics.design`), and each simulated number carries the error that it has because it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.statistics.design import Design, Simulated, World, simulate, smallest_effect_of
from harness.statistics.power import ALPHA, impossible, mcnemar_power, most_discordant, required_issues, smallest_effect
from swe_memory.errors import UsageError

MOST_DRAWS = 1_000_000
"""Of one simulation, in issues x builds x experiments: what keeps an answer within seconds."""
LEAST = 1e-6
RERUNS = (2, 3, 4, 5, 6, 8, 10, 12, 16)
BUILDS = (2, 3, 4, 5, 6, 7, 8, 10, 12)
"""The designs with several runs that are looked at, until one has the greatest power that was asked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. ``baseline``, ``effect``, ``discordance`` and ``floor`` are shares, not points; ``shock`` is in points of the resolve rate.

    ``effect`` None: only what the design can see is asked. ``floor``: how often two runs of the baseline differ; None: all discordance is taken as noise.
    ``shock``: the standard deviation of what a whole build is better or worse by. ``baseline_runs`` 0: as many as ``reruns``.
    """

    issues: int
    baseline: float
    effect: float | None
    discordance: float
    builds: int = 1
    reruns: int = 1
    baseline_runs: int = 0
    floor: float | None = None
    shock: float = 1.0
    powers: tuple[float, ...] = (0.8, 0.9)
    seed: int = 0

    @property
    def design(self) -> Design:
        """As the runner lays it out: the baseline is repeated as often as the arms with memory, or more often."""
        return Design(self.issues, self.builds, self.reruns, max(self.reruns, self.baseline_runs))

    def world(self, *, over_builds: bool = False) -> World:
        """What is assumed. Given these banks, what a build happens to be worth is part of the effect; over builds it is noise."""
        return World(self.baseline, self.effect or 0.0, self.discordance, self.floor, self.shock if over_builds else 0.0)


@dataclass(frozen=True, slots=True)
class Rates:
    """What attempts took in an earlier run, each None where it is not known: dollars and seconds of an attempt by arm, dollars of one lesson."""

    baseline_cost: float | None = None
    memory_cost: float | None = None
    lesson_cost: float | None = None
    baseline_seconds: float | None = None
    memory_seconds: float | None = None
    notes: tuple[str, ...] = field(default=())


def bounds(baseline: float, effect: float | None) -> dict[str, list[float]]:
    """What is possible: effects with this baseline, and discordances with this baseline and effect."""
    gain = effect or 0.0
    return {"effect": [-baseline, 1 - baseline], "discordance": [abs(gain), min(2 * (1 - baseline) - gain, 2 * baseline + gain)]}


def check(question: Question) -> None:
    """Raises UsageError, with the bounds, where no pair of arms has what is assumed."""
    if not 0 <= question.baseline <= 1:
        raise UsageError(f"a baseline of {question.baseline:g} is no share of the issues", "Give a number from 0 to 1: 0.54 for 54 %.")
    wrong = impossible(question.baseline, question.effect or 0.0, question.discordance)
    possible = bounds(question.baseline, question.effect)
    low, high = possible["effect"]
    if wrong:
        ranges = f"with a baseline of {question.baseline:g} an effect lies between {low:+.3f} and {high:+.3f}"
        if low <= (question.effect or 0.0) <= high:
            least, most = possible["discordance"]
            ranges += f", and with this effect the discordance between {least:.3f} and {most:.3f}"
        raise UsageError(wrong.rstrip("."), f"All are shares of the issues: {ranges}.")
    for name, value in (("an effect", question.effect), ("a discordance", question.discordance)):
        if value and abs(value) < LEAST:
            raise UsageError(f"{name} of {value:g} is less than one issue in a million", "Give shares of the issues: 0.034 is 3.4 points.")
    if question.floor is not None and not 0 <= question.floor <= 0.5:
        raise UsageError(
            f"a noise floor of {question.floor:g} cannot be", "Two runs of one arm differ on a share of the issues between 0 and 0.5."
        )
    if not 0 <= question.shock <= 50:
        raise UsageError(
            f"a spread of {question.shock:g} points between builds cannot be planned with", "Give points of the resolve rate, from 0 to 50."
        )


def answer(question: Question, rates: Rates | None = None, workers: int = 2) -> dict[str, Any]:
    """Everything that ``plan --json`` prints but for where its assumptions came from; the keys are told by ``swe-memory plan --help``.

    Raises UsageError for an impossible question.
    """
    check(question)
    planner = _Planner(question, rates or Rates(), workers)
    return {
        "asked": {
            name: getattr(question, name)
            for name in ("issues", "baseline", "effect", "discordance", "floor", "shock", "builds", "reruns", "seed")
        }
        | {"baseline_reruns": question.design.baseline_runs, "powers": list(question.powers), "alpha": ALPHA},
        "bounds": bounds(question.baseline, question.effect),
        "power": planner.power(question.design, over_builds=False),
        "power_over_builds": planner.power(question.design, over_builds=True) if question.builds > 1 else None,
        "net_wins": None if question.effect is None else round(abs(question.effect) * question.issues),
        "discordant_pairs": round(question.discordance * question.issues),
        "most_discordant": planner.most_discordant(),
        "issues_needed": planner.issues_needed(),
        "smallest_effect": planner.smallest(),
        "designs": planner.designs(),
        "expected": planner.expected(question.design),
        "notes": list(dict.fromkeys([*planner.notes, *(rates.notes if rates else ())])),
    }


class _Planner:
    """One question's answers. ``notes`` fills up with what of the assumptions could not be met exactly."""

    def __init__(self, question: Question, rates: Rates, workers: int) -> None:
        self._question = question
        self._rates = rates
        self._workers = workers
        self.notes: list[str] = []

    def power(self, design: Design, *, over_builds: bool) -> dict[str, Any] | None:
        """{power, error, method}; None where no effect was named. ``error`` is null for an exact number."""
        q = self._question
        if q.effect is None:
            return None
        if not over_builds and design.builds * design.reruns == 1 and design.baseline_runs == 1:
            return {"power": mcnemar_power(design.issues, q.effect, q.discordance), "error": None, "method": "exact, McNemar mid-p"}
        found = self._simulated(design, over_builds)
        method = "t over builds" if over_builds else "score test clustered by issue"
        return {"power": found.power, "error": found.error, "method": f"{found.replications} simulated experiments, {method}"}

    def _simulated(self, design: Design, over_builds: bool) -> Simulated:
        q = self._question
        asked = Design(design.issues, design.builds, design.reruns, design.baseline_runs, "build" if over_builds else "issue")
        found = simulate(asked, q.world(over_builds=over_builds), replications=_replications(design), seed=q.seed)
        self.notes += found.notes
        return found

    def most_discordant(self) -> int | None:
        """How many discordant pairs the expected net wins may come with, at p < .05; None where they never reach it."""
        if not self._question.effect:
            return None
        found = most_discordant(round(abs(self._question.effect) * self._question.issues), self._question.issues).value
        return None if found is None else int(found)

    def issues_needed(self) -> list[dict[str, Any]]:
        """[{power, issues, why}] for one frozen bank and one run of each arm, exactly; [] where no effect was named."""
        q = self._question
        if q.effect is None:
            return []
        found = []
        for power in q.powers:
            needed = required_issues(q.effect, q.discordance, power)
            found.append({"power": power, "issues": None if needed.value is None else int(needed.value), "why": needed.why})
        return found

    def smallest(self) -> list[dict[str, Any]]:
        """[{power, effect, method, why}]: the smallest gain that the design shows with that power."""
        q, design = self._question, self._question.design
        found = []
        for power in q.powers:
            if design.builds * design.reruns == 1 and design.baseline_runs == 1:
                seen, method = smallest_effect(q.issues, q.discordance, q.baseline, power), "exact, McNemar mid-p"
            else:
                replications = max(100, _replications(design) // 2)
                seen = smallest_effect_of(design, q.world(), power=power, replications=replications, seed=q.seed)
                method = f"{replications} simulated experiments, score test clustered by issue"
            found.append({"power": power, "effect": seen.value, "method": method, "why": seen.why})
        return found

    def designs(self) -> list[dict[str, Any]]:
        """[{unit, builds, reruns, baseline_reruns, attempts, power, error, method, cost, hours}]: more reruns of one bank, then more builds, on the same
        issues, each until the greatest power asked for is reached; [] where no effect was named, or it is 0."""
        q = self._question
        if not q.effect:
            return []
        reruns = [Design(q.issues, 1, 1, 1), *(Design(q.issues, 1, number, number) for number in RERUNS)]
        builds = [Design(q.issues, number, 1, number, "build") for number in BUILDS]
        return [*self._until(reruns), *self._until(builds)]

    def _until(self, designs: Sequence[Design]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for design in designs:
            power = self.power(design, over_builds=design.unit == "build")
            assert power is not None
            found.append(
                {
                    "unit": design.unit,
                    "builds": design.builds,
                    "reruns": design.reruns,
                    "baseline_reruns": design.baseline_runs,
                    **power,
                    **self.expected(design),
                }
            )
            gained = power["power"] - found[-3]["power"] if len(found) > 2 else 1.0
            # More runs take away the noise of runs and builds, not that of issues: beyond some number they add nothing more.
            if power["power"] >= max(self._question.powers) or gained < 0.01:
                break
        return found

    def expected(self, design: Design) -> dict[str, Any]:
        """{attempts, lessons, cost, hours} of a baseline and one arm with memory; cost (US dollars) and hours null where no earlier run told."""
        rates = self._rates
        memory, baseline = design.issues * design.builds * design.reruns, design.issues * design.baseline_runs
        lessons = design.issues * design.builds
        cost = _sum((baseline, rates.baseline_cost), (memory, rates.memory_cost), (lessons, rates.lesson_cost))
        seconds = _sum((baseline, rates.baseline_seconds), (memory, rates.memory_seconds))
        hours = None if seconds is None else seconds / 3600 / self._workers
        return {"attempts": design.attempts, "lessons": lessons, "cost": cost, "hours": hours}


def _sum(*parts: tuple[int, float | None]) -> float | None:
    total = 0.0
    for number, each in parts:
        if each is None:
            return None
        total += number * each
    return total


def _replications(design: Design) -> int:
    """As many experiments as the time allows: 2,000 at most, 100 at least."""
    return max(100, min(2_000, MOST_DRAWS // (design.issues * design.builds)))
