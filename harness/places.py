"""Where one attempt happens: a working copy, the environment that the agent's commands run in, and the patch that is left at the end.

One kind of place for each kind of environment; :class:`LocalPlaces` is this machine.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.files import remove_tree

if TYPE_CHECKING:
    from harness.environments import Environment
    from harness.environments.local import LocalEnvironment
    from harness.instances import Instance
    from harness.layout import Cell
    from harness.workdir import Workdir

TESTBED = "/testbed"
"""How the working copy's path is written in a recorded trajectory: the real one differs from run to run and says nothing."""


class Place(Protocol):
    """Prepared for one attempt. ``workdir`` is the working copy where it lies on this machine, ``scratch`` a folder for the agent's own files, ``prepared``
    what is worth recording about the preparation."""

    @property
    def environment(self) -> Environment: ...
    @property
    def workdir(self) -> Path | None: ...
    @property
    def scratch(self) -> Path: ...
    @property
    def prepared(self) -> Mapping[str, Any]: ...

    def patch(self) -> str:
        """What was changed against the base commit; no command runs afterwards. Raises :class:`harness.workdir.PatchRefused`."""
        ...

    def plain(self, text: str) -> str:
        """``text`` with the working copy called :data:`TESTBED`."""
        ...


class Places(Protocol):
    """Makes places."""

    def open(self, cell: Cell, instance: Instance, *, users_environment: bool) -> AbstractContextManager[Place]:
        """A place for one attempt, gone when the context ends, however it ends. Raises InfraError where the machine cannot make one."""
        ...


@dataclass(frozen=True, slots=True)
class LocalPlaces:
    """Working copies and commands on this machine, which is no sandbox.

    ``folder`` is where everything lies, ``command_seconds`` what a command may take, ``variables`` are added to its environment, ``halt`` ends it.
    """

    folder: Path
    command_seconds: float
    halt: threading.Event
    variables: Mapping[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def open(self, cell: Cell, instance: Instance, *, users_environment: bool) -> Iterator[LocalPlace]:
        """See :class:`Places`."""
        from harness.environments.local import LocalEnvironment
        from harness.workdir import workdir_for

        place = self.folder / f"{cell.arm.folder}-{cell.stream}-{cell.issue}"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not remove_tree(place):  # an earlier try left what cannot be removed (a mount, an immutable file)
            place = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
        try:
            workdir = workdir_for(instance, place / "repo")
            (place / "scratch").mkdir()
            with LocalEnvironment(
                workdir.path,
                timeout=self.command_seconds,
                variables=self.variables,
                parent=self.folder,
                inherit=users_environment,
                halt=self.halt,
            ) as environment:
                yield LocalPlace(environment, workdir, place / "scratch", self.folder)
        finally:
            remove_tree(place)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """See :class:`Place`. ``folder`` is where all places lie."""

    environment: LocalEnvironment
    copy: Workdir
    scratch: Path
    folder: Path
    prepared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workdir(self) -> Path:
        """The working copy."""
        return self.copy.path

    def patch(self) -> str:
        """See :class:`Place`. What the commands left running is ended first."""
        self.environment.close()
        return self.copy.patch(self.folder)

    def plain(self, text: str) -> str:
        """See :class:`Place`."""
        for name in sorted({str(self.copy.path), str(self.copy.path.resolve())}, key=len, reverse=True):
            text = text.replace(name, TESTBED)
        return text
