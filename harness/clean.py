"""What runs that were killed have left on an engine: found by its labels, and removed.

A container carries the name of the process that made it (:mod:`harness.environments.owner`). Where that process is gone, nobody will remove its
containers; where it is alive, they are in use. Where that cannot be told (another machine's process on a shared engine, or one in another container), they
are left alone unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.environments.container import remove
from harness.environments.docker import LABEL
from harness.environments.engine import engine_errors
from harness.environments.owner import Owner, State

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container of ours: what it was for, and what is known of the process that made it (``gone``: nobody will remove it)."""

    id: str
    name: str
    run: str
    arm: str
    issue: str
    attempt: str
    owner: State


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed, and what was not because its process is alive or not to be seen from here."""

    removed: tuple[Leftover, ...]
    left: tuple[Leftover, ...]


def find_containers(client: DockerClient, run: str | None = None) -> tuple[Leftover, ...]:
    """All containers of ours, or those of one run, by name. Raises InfraError where the engine does not answer."""
    labels = [f"{LABEL}owner"] + ([f"{LABEL}run={run}"] if run is not None else [])
    with engine_errors("list the containers of runs"):
        found = client.api.containers(all=True, filters={"label": labels})
    return tuple(sorted((_leftover(container) for container in found), key=lambda leftover: leftover.name))


def remove_leftovers(client: DockerClient, run: str | None = None, *, everything: bool = False) -> Cleaned:
    """Remove the containers whose process is gone, of all runs or of the one that is named; with ``everything`` also those whose process cannot be seen from
    here. What a living process uses stays in any case.

    Safe while other runs work, and before each run. Raises InfraError where the engine fails.
    """
    found = find_containers(client, run)
    doomed = [leftover for leftover in found if leftover.owner == "gone" or (everything and leftover.owner == "unknown")]
    for leftover in doomed:
        remove(client, leftover.id)
    return Cleaned(tuple(doomed), _without(found, doomed))


def remove_own(client: DockerClient, run: str) -> None:
    """Remove what this process still has of a run that is over: a container whose removal failed while the engine was away. Raises InfraError where the
    engine fails."""
    labels = [f"{LABEL}run={run}", f"{LABEL}owner={Owner.current().label}"]
    with engine_errors("list the containers of this run"):
        found = client.api.containers(all=True, filters={"label": labels})
    for container in found:
        remove(client, str(container["Id"]))


def _without(found: Iterable[Leftover], doomed: Iterable[Leftover]) -> tuple[Leftover, ...]:
    gone = {leftover.id for leftover in doomed}
    return tuple(leftover for leftover in found if leftover.id not in gone)


def _leftover(container: dict[str, object]) -> Leftover:
    labels = container.get("Labels")
    assert isinstance(labels, dict)
    names = container.get("Names")
    name = str(names[0]).lstrip("/") if isinstance(names, list) and names else str(container["Id"])[:12]
    run, arm, issue, attempt = (str(labels.get(LABEL + part, "")) for part in ("run", "arm", "issue", "attempt"))
    owner = Owner.parse(str(labels.get(LABEL + "owner", "")))
    state: State = owner.state(running=container.get("State") in ("running", "paused", "restarting", "created")) if owner else "unknown"
    return Leftover(str(container["Id"]), name, run, arm, issue, attempt, state)
