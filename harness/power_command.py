"""``swe-memory plan``: options to a question, a run to assumptions, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.power_from_run import Seen, look
from harness.power_plan import Question, answer
from harness.power_text import sentences
from swe_memory.errors import UsageError


def plan_command(
    *,
    issues: int | None,
    baseline: float | None,
    effect: float | None,
    discordance: float | None,
    floor: float | None,
    shock: float | None,
    builds: int,
    reruns: int,
    baseline_reruns: int | None,
    powers: Sequence[float],
    from_run: Path | None,
    workers: int,
    seed: int,
) -> dict[str, Any]:
    """The shape of ``plan --json``. What is given wins over what ``from_run`` tells. Raises UsageError for what is missing or impossible."""
    seen = look(from_run) if from_run else None
    if seen:
        issues = seen.issues if issues is None else issues
        baseline = seen.baseline.value if baseline is None else baseline
        discordance = seen.discordance.value if discordance is None else discordance
        floor = seen.floor.value if floor is None else floor
        shock = seen.shock if shock is None else shock
    if issues is None or baseline is None or discordance is None:
        named = {"--issues": issues, "--baseline": baseline, "--discordance": discordance}
        missing = " and ".join(name for name, value in named.items() if value is None)
        raise UsageError(
            f"{missing} must be given", "Or name a finished run with --from. Example: --issues 500 --baseline 0.54 --discordance 0.14"
        )
    said = list(seen.sentences) if seen else []
    if seen and effect is None and seen.effect.value:
        effect = seen.effect.value
        said.append(
            f"No --effect was given, so the difference that {seen.run} found is taken ({100 * effect:+.1f} points). Differences that a run found are too "
            "large on average where they were worth reporting; name the smallest one that would matter to you instead."
        )
    if seen:
        _some_difference(seen, discordance)
    question = Question(
        issues,
        baseline,
        effect,
        discordance,
        builds,
        reruns,
        baseline_reruns or 0,
        floor,
        1.0 if shock is None else shock,
        tuple(sorted(set(powers))) or (0.8, 0.9),
        seed,
    )
    found = answer(question, seen.rates if seen else None, workers)
    found |= {"workers": workers, "from": seen.values() if seen else None}
    return found | {"sentences": said + sentences(found) + (_range(seen, question) if seen else [])}


def _some_difference(seen: Seen, discordance: float) -> None:
    if discordance <= 0:
        raise UsageError(
            f"the arms of {seen.run} never differed, which says nothing about how often they would", "Give --discordance, e.g. 0.14."
        )


def _range(seen: Seen, question: Question) -> list[str]:
    """What the discordance's own uncertainty makes of the power, for one frozen bank and one run of each arm."""
    from harness.statistics.power import impossible, mcnemar_power

    low, high = seen.discordance.low, seen.discordance.high
    if not question.effect or low is None or high is None or question.discordance != seen.discordance.value:
        return []
    ends = [end for end in (low, high) if not impossible(question.baseline, question.effect, end)]
    if len(ends) < 2:
        return []
    powers = [mcnemar_power(question.issues, question.effect, end) for end in ends]
    return [
        f"The discordance is only known to lie between {low:.3f} and {high:.3f}: one frozen bank with one run of each arm has between "
        f"{100 * min(powers):.0f} % and {100 * max(powers):.0f} % power."
    ]
