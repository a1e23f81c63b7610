"""Grading by hidden tests where instances are images: by the official harness, in a container of its own for each patch."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from harness.environments.docker import ContainerLimits
from harness.grading import GradeReport
from harness.instances import Instance

if TYPE_CHECKING:
    from docker import DockerClient

    from harness.environments.images import Progress


class ContainerGrader:
    """Grades patches as :class:`harness.grading.Grader` does, also from several threads, for instances that are images.

    ``client`` is a client of the engine, ``host`` where that is, as :func:`harness.environments.engine.connect` takes it. ``run`` names the run in the
    containers' labels. ``progress`` is told how far the pull of an image is. Once ``halt`` is set, a grading under way is ended and raises
    :class:`harness.tasks.Stopped`.
    """

    def __init__(
        self,
        client: DockerClient,
        *,
        run: str,
        host: str | None = None,
        halt: threading.Event | None = None,
        limits: ContainerLimits | None = None,
        platform: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._client = client

    def start(self) -> None:
        """Start the child process now, so that its import overlaps with other work. Not needed."""
        raise NotImplementedError

    def grade(self, instance: Instance, patch: str | None, *, timeout: float = 1800.0, logs: Path | None = None) -> GradeReport:
        """See :meth:`harness.grading.Grader.grade`."""
        raise NotImplementedError

    def close(self) -> None:
        """End the child process and remove what it has left."""

    def __enter__(self) -> ContainerGrader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
