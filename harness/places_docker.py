"""Containers as the place of attempts: one for each attempt, from the issue's image, with its future hidden."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.files import remove_tree

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.container_workdir import ContainerWorkdir
    from harness.environments.docker import ContainerLimits, DockerEnvironment
    from harness.environments.images import PullProgress
    from harness.instances import Instance
    from harness.layout import Cell


@dataclass(frozen=True, slots=True)
class DockerPlaces:
    """Makes a container for each attempt, and removes it however the attempt ends.

    ``run`` labels the containers, ``folder`` is where an agent's own files lie on this machine, ``command_seconds`` what a command may take, ``halt`` ends it,
    ``say`` is told of images that are pulled.
    """

    client: DockerClient
    run: str
    folder: Path
    command_seconds: float
    halt: threading.Event
    limits: ContainerLimits
    say: Callable[[str], None] = lambda _: None

    @contextlib.contextmanager
    def open(self, cell: Cell, instance: Instance, *, users_environment: bool) -> Iterator[DockerPlace]:
        """See :class:`harness.places.Places`. An agent that is a program on this machine is refused before: see :func:`harness.running.plan_experiment`."""
        from harness.container_workdir import prepare_container
        from harness.environments.docker import DockerEnvironment, Labels
        from harness.environments.images import ensure_image

        assert not users_environment
        image = instance.grading.image
        ensure_image(self.client, image, _once(self.say))
        labels = Labels(self.run, cell.arm.name, cell.issue, cell.stream)
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="agent-", dir=self.folder))
        try:
            with DockerEnvironment(
                self.client, image, labels=labels, limits=self.limits, timeout=self.command_seconds, halt=self.halt
            ) as environment:
                copy = prepare_container(environment, instance.issue.base_commit)
                warned = {"warnings": list(environment.warnings)} if environment.warnings else {}
                yield DockerPlace(environment, copy, scratch, {"image": image, "future": copy.record(), **warned})
        finally:
            remove_tree(scratch)


def missing_images(client: DockerClient, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the images that the engine has not, each once. Raises InfraError where it does not answer."""
    import docker

    from harness.environments.engine import engine_errors

    missing = []
    for name in dict.fromkeys(names):
        with engine_errors(f"look for image {name}"):
            try:
                client.images.get(name)
            except docker.errors.ImageNotFound:
                missing.append(name)
    return tuple(missing)


def _once(say: Callable[[str], None]) -> Callable[[PullProgress], None]:
    """Tell that an image is pulled, when its first bytes come."""
    told: list[str] = []

    def progress(pull: PullProgress) -> None:
        if not told:
            told.append(pull.image)
            say(f"  pulling image {pull.image}")

    return progress


@dataclass(frozen=True, slots=True)
class DockerPlace:
    """See :class:`harness.places.Place`."""

    environment: DockerEnvironment
    copy: ContainerWorkdir
    scratch: Path
    prepared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workdir(self) -> None:
        """There is no working copy on this machine."""
        return

    def patch(self) -> str:
        """See :class:`harness.places.Place`. What the commands left running is ended first."""
        return self.copy.patch()

    def plain(self, text: str) -> str:
        """The working copy is where it always is."""
        return text
