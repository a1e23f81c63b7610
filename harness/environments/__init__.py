"""Where an agent's commands run: one small protocol, one module for each kind of place."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Execution:
    """What one command printed (standard output and error together, in order, bounded) and how it ended.

    ``returncode`` is 124 where the time limit ended it (then ``timed_out`` is true), negative where a signal did. ``broken`` says why no command can be
    started any more, where earlier ones broke what commands need (removed the shell, say): the agent's doing, which lasts; "" otherwise.
    """

    output: str
    returncode: int
    timed_out: bool = False
    broken: str = ""


class Environment(Protocol):
    """A shell in the agent's copy of the repository."""

    def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:
        """Run ``command`` in a fresh shell at the root of the repository.

        ``timeout`` is in seconds, None for the environment's own limit, ``math.inf`` for none. Once ``stop`` is set, the command and its children are
        ended as if their time were over; the return code is then that of the ended shell.
        """
        ...

    def close(self) -> None:
        """End what is still running and remove what the environment made for itself. May be called twice."""
        ...
