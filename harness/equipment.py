"""What a run's attempts work in and are graded by: this machine, or containers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.grading import Grader, GradeReport
from harness.instances import Instance
from harness.layout import lay_out
from harness.places import LocalPlaces, Places
from harness.plan import Experiment
from harness.statistics.estimates import count
from swe_memory.errors import InfraError, UsageError

if TYPE_CHECKING:
    from docker import DockerClient

_ANSWER = 10.0  # seconds for each request
_LEAST_MEMORY = 6 << 20  # bytes; engines refuse less


class Grades(Protocol):
    """Grades patches; :class:`harness.grading.Grader` and :class:`harness.grading_container.ContainerGrader` do."""

    def start(self) -> object:
        """Load now what the first grade needs. Not needed."""
        ...

    def grade(self, instance: Instance, patch: str | None, *, timeout: float = 300.0, logs: Path | None = None) -> GradeReport:
        """See :meth:`harness.grading.Grader.grade`."""
        ...


@dataclass(frozen=True, slots=True)
class Equipment:
    """One run's."""

    places: Places
    grader: Grades


@contextlib.contextmanager
def equip(
    experiment: Experiment, folder: Path, scratch: Path, halt: threading.Event, say: Callable[[str], None] = lambda _: None
) -> Iterator[Equipment]:
    """The equipment of an experiment in ``folder``, let go of at the end.

    Containers that a kill of this run left are removed first. Raises InfraError where no engine answers.
    """
    if experiment.environment == "local":
        # The bundled repositories have no plugins of their own; what happens to be installed beside the harness is none of their business.
        variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if experiment.dataset == "minibench" else {}
        with Grader(halt) as grader:
            yield Equipment(LocalPlaces(scratch, experiment.command_seconds, halt, variables), grader)
        return
    from harness.clean import remove_leftovers, remove_own
    from harness.environments.docker import ContainerLimits
    from harness.environments.engine import connect
    from harness.grading_container import ContainerGrader
    from harness.places_docker import DockerPlaces

    run = folder.resolve().name
    limits = ContainerLimits(cpus=experiment.cpus, memory=round(experiment.memory_gb * (1 << 30)), network=experiment.network)
    with contextlib.closing(connect()) as client:
        if removed := remove_leftovers(client, run).removed:
            say(f"removed {count(len(removed), 'container that was', 'containers that were')} left behind")
        with ContainerGrader(client, run=run, halt=halt, limits=replace(limits, network="none")) as grader:
            yield Equipment(DockerPlaces(client, run, scratch, experiment.command_seconds, halt, limits, say), grader)
        with contextlib.suppress(InfraError):  # `swe-memory clean` finds them, too
            remove_own(client, run)


def look_before(experiment: Experiment, instances: Sequence[Instance]) -> tuple[str, ...]:
    """What can be found out before a run has a folder. Gives the names of images that are not on the engine, and would be pulled when their turn comes.

    Raises UsageError where there is no key for a model that would be asked, a limit in dollars that cannot be kept, or what this engine cannot give to a
    container; InfraError where no engine answers.
    """
    from harness.agents import connect, make_agent
    from swe_memory.claude import Claude

    layout = lay_out(experiment)
    if any(cell.arm.kind != "gold" for cell in layout.cells):
        connect(make_agent(experiment.agent, model=experiment.model), experiment.limits())
    asks = experiment.verdict == "llm" or experiment.extractor.startswith("llm")
    if asks and any(plan.lessons for plan in layout.banks):
        Claude(experiment.model)
    if experiment.environment == "local":
        return ()
    from harness.environments.engine import connect as connect_engine
    from harness.places_docker import missing_images

    with contextlib.closing(connect_engine()) as client:
        _check_limits(client, experiment)
        return missing_images(client, (instance.grading.image for instance in instances))


def _check_limits(client: DockerClient, experiment: Experiment) -> None:
    """Raises UsageError for what the engine would refuse to each container."""
    from harness.environments.engine import describe, engine_errors

    engine = describe(client)
    if 0 < engine.cpus < experiment.cpus:
        what = f"--cpus {experiment.cpus:g} is more than the {count(engine.cpus, 'processor', 'processors')} of the engine"
        raise UsageError(what, f"Give {engine.cpus} or less.")
    if experiment.memory_gb * (1 << 30) < _LEAST_MEMORY:
        raise UsageError(
            f"--memory-gb {experiment.memory_gb:g} is too little for any container", "Give 0.006 or more; tests need far more."
        )
    if experiment.network not in ("none", "bridge", "host", "default"):
        with engine_errors("list the engine's networks"):
            names = [str(network["Name"]) for network in client.api.networks()]
        if experiment.network not in names:
            raise UsageError(f"the engine has no network {experiment.network!r}", f"It has: {', '.join(sorted(names))}.")


def images_missing(experiment: Experiment, instances: Sequence[Instance]) -> tuple[str, ...] | None:
    """The images that are not on the engine; None where attempts need none, or no engine answers (within seconds: a forecast does not wait for one)."""
    if experiment.environment == "local":
        return None
    from harness.environments.engine import connect
    from harness.places_docker import missing_images

    with contextlib.suppress(InfraError), contextlib.closing(connect(request_seconds=_ANSWER)) as client:
        return missing_images(client, (instance.grading.image for instance in instances))
    return None
