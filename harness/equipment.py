"""What a run's attempts work in and are graded by: this machine, or containers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.grading import Grader, GradeReport
from harness.instances import Instance
from harness.places import LocalPlaces, Places
from harness.plan import Experiment


class Grades(Protocol):
    """Grades patches; :class:`harness.grading.Grader` and :class:`harness.grading_container.ContainerGrader` do."""

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
    from harness.clean import remove_leftovers
    from harness.environments.docker import ContainerLimits
    from harness.environments.engine import connect
    from harness.grading_container import ContainerGrader
    from harness.places_docker import DockerPlaces

    run = folder.resolve().name
    limits = ContainerLimits(cpus=experiment.cpus, memory=round(experiment.memory_gb * (1 << 30)), network=experiment.network)
    with contextlib.closing(connect()) as client:
        if removed := remove_leftovers(client, run).removed:
            say(f"removed {len(removed)} containers that were left behind")
        with ContainerGrader(client, run=run, halt=halt) as grader:
            yield Equipment(DockerPlaces(client, run, scratch, experiment.command_seconds, halt, limits, say), grader)
