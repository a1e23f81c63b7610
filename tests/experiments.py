"""Experiments of made-up issues, for tests of what follows from a plan: no dataset, no repository, nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from harness.layout import check_protocol
from harness.plan import Experiment, endpoint, order_specs, ordered, split
from swe_memory.records import Issue

START = datetime(2024, 1, 1, tzinfo=UTC)
MEMORY = ("reasoningbank", "reasoningbank:k=2", "reasoningbank:success-only", "reasoningbank:before,failure-only")
CONTROLS = ("derangement", "preamble", "neutral")


def made_issues(*sizes: int) -> tuple[Issue, ...]:
    """So many issues of one repository after the other, dated against the order that they are given in."""
    names = [(f"owner/repo{repo}", f"repo{repo}-{number}") for repo, size in enumerate(sizes) for number in range(size)]
    return tuple(Issue(name, repo, f"Issue {name}", created_at=START - timedelta(days=number)) for number, (repo, name) in enumerate(names))


def made_experiment(issues: Sequence[Issue], *arms: str, order: str = "date", orders: int = 1, **settings: Any) -> Experiment:
    """The experiment on these issues; ``settings`` are those of :class:`Experiment`. Checked as a planned one is."""
    values: dict[str, Any] = {"protocol": "crossfit", "builds": 1, "seed": 0, "reruns": 1, "agent": "repair", **settings}
    place = {issue.id: number for number, issue in enumerate(issues)}
    specs = order_specs(order, orders, values["seed"])
    crossfit = values["protocol"] == "crossfit"
    made = Experiment(
        dataset="made",
        dataset_hash="0" * 64,
        instances=tuple(place),
        repositories=tuple(issue.repo for issue in issues),
        dates=tuple(issue.created_at.isoformat() if issue.created_at else "" for issue in issues),
        arms=arms or ("none", "reasoningbank"),
        orders=specs,
        sequences=tuple(tuple(place[name] for name in ordered(issues, spec)) for spec in specs),
        folds=tuple(split(issues, build, values["seed"]) for build in range(1, values["builds"] + 1)) if crossfit else (),
        bank={"name": "given", "version": 3} if values["protocol"] == "offline" else {},
        **values,
    )
    check_protocol(made)
    from dataclasses import replace

    streams = len(specs) * values["reruns"]
    return replace(made, endpoint=endpoint(made.conditions(), made.protocol, made.builds, streams))


@st.composite
def experiments(draw: st.DrawFn, protocols: Sequence[str] = ("crossfit", "online", "offline")) -> Experiment:
    """Small experiments of every protocol, with the arms that go with it."""
    protocol = draw(st.sampled_from(list(protocols)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    memory = draw(st.lists(st.sampled_from(MEMORY[:2] if protocol == "offline" else MEMORY), unique=True, min_size=1, max_size=3))
    arms = ["none", *memory, *draw(st.sampled_from([(), ("gold",)]))]
    if protocol != "online":
        arms += [f"{kind}/{of}" for kind in draw(st.lists(st.sampled_from(CONTROLS), unique=True)) for of in memory]
    return made_experiment(
        made_issues(*sizes),
        *(arm.name for arm in _parsed(draw(st.permutations(arms)))),
        order=draw(st.sampled_from(["date", "given", "shuffled", "shuffled:7"])),
        orders=draw(st.integers(1, 3)) if protocol == "online" else 1,
        protocol=protocol,
        builds=draw(st.integers(1, 3)) if protocol == "crossfit" else 1,
        wave=draw(st.integers(1, 5)) if protocol == "online" else 1,
        reruns=draw(st.integers(1, 3)),
        baseline_reruns=draw(st.integers(1, 3)),
        seed=draw(st.integers(-5, 5)),
        attempt_seconds=draw(st.sampled_from([None, 90.0])),
    )


def _parsed(arms: Sequence[str]) -> Any:
    from harness.arms import parse_arms

    return parse_arms(arms)
