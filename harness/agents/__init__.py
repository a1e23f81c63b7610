"""Agents that the instrument can run.

An agent gets an assignment (a public issue, the memory's prompt text, limits, a meter, a copy of the repository) and an environment that runs bash
commands; it gives back a trajectory. It sees no grading data: the types it is handed have no place for any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.metering import Limits, Meter
from swe_memory.errors import UsageError
from swe_memory.records import Issue, Trajectory

if TYPE_CHECKING:
    from harness.environments import Environment
    from swe_memory.rate import RateLimiter

__all__ = ["AGENTS", "Agent", "Assignment", "Limits", "Meter", "connect", "make_agent"]

COMMAND = "command:"
AGENTS = ("repair", "mini", f"{COMMAND} PROGRAM ...")


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one attempt is about. ``memory`` is the recalled prompt text, "" for none.

    ``workdir`` is the agent's own copy of the repository (a git repository at the issue's base commit) where it lies on this machine, ``scratch`` an empty
    folder on this machine for the agent's files, gone after the attempt. An agent that works by commands alone needs neither. ``notes`` are kept with the
    attempt: an agent appends what somebody who looks at the attempt later should know.
    """

    issue: Issue
    memory: str
    limits: Limits
    meter: Meter
    workdir: Path | None
    scratch: Path
    notes: list[str] = field(default_factory=list)


class Agent(Protocol):
    """One way of trying to resolve an issue.

    ``model`` is the language model that it asks, as far as this side knows: "" for none. ``users_environment``: its commands run with the user's own
    environment variables (a program of the user's that needs its keys) instead of a clean one.
    """

    name: str
    model: str
    users_environment: bool

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        """Try to resolve the issue by commands in ``environment``.

        A patch of None in the trajectory means: what it changed in the working copy is to be collected.

        Reaching a limit is an outcome and is said in the trajectory's exit status; an agent may also let the meter's
        :class:`~harness.metering.LimitReached` pass, at the price of its trajectory. Raises InfraError where the environment broke.
        """
        ...


def make_agent(name: str, *, model: str = "") -> Agent:
    """The agent called ``name``: ``repair``, ``mini`` (see :mod:`harness.agents.mini`; the only one that asks ``model``), or ``command:`` and the command of a
    program (see :mod:`harness.agents.command`).

    Raises UsageError for a name that nothing is known by, for a command that cannot work, and for an agent without the model that it needs.
    """
    if name == "repair":
        from harness.agents.repair import RepairAgent

        return RepairAgent()
    if name == "mini" or name.startswith("mini:"):
        from harness.agents.mini import MiniAgent

        return MiniAgent(model, name.removeprefix("mini").removeprefix(":"))
    if name.startswith(COMMAND):
        from harness.agents.command import CommandAgent

        return CommandAgent(name.removeprefix(COMMAND))
    raise UsageError(f"there is no agent called {name!r}", f"known agents: {', '.join(AGENTS)}")


def connect(agent: Agent, limits: Limits, limiter: RateLimiter | None = None) -> None:
    """Before the first attempt: an agent that asks a language model finds its key, and that the limits can be kept. Others have nothing to do.

    ``limiter`` is what all of its requests wait for. Raises UsageError where no attempt could work.
    """
    from harness.agents.mini import MiniAgent

    if isinstance(agent, MiniAgent):
        agent.check(limits)
        agent.connect(limiter)
