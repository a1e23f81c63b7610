"""Agents that the instrument can run.

An agent gets a public issue, an environment that runs bash commands, and the memory's prompt text; it gives back a trajectory. It sees no grading data:
the types it is handed have no place for any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from swe_memory.errors import UsageError
from swe_memory.records import Issue, Trajectory

if TYPE_CHECKING:
    from harness.environments import Environment

AGENTS = ("repair",)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may use.

    ``calls`` is the number of turns (for a language model: model calls; for the repair agent: commands, one a turn). ``command_seconds`` bounds one
    command.
    """

    calls: int = 60
    command_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.calls < 1:
            raise UsageError(
                f"a call limit of {self.calls} lets an agent do nothing", "give a call limit of 1 or more, e.g. --call-limit 60"
            )
        if self.command_seconds <= 0:
            raise UsageError(
                f"a time limit of {self.command_seconds} s for a command lets nothing finish", "give a number of seconds above 0"
            )


class Agent(Protocol):
    """One way of trying to resolve an issue."""

    name: str

    def run(self, issue: Issue, environment: Environment, memory: str, limits: Limits) -> Trajectory:
        """Try to resolve ``issue`` by commands in ``environment``; ``memory`` is the recalled prompt text, "" for none.

        A patch of None in the trajectory means: what it changed in the working copy is to be collected.

        Running out of calls or time is an outcome and is said in the trajectory's exit status. Raises InfraError where the environment broke.
        """
        ...


def make_agent(name: str) -> Agent:
    """The agent called ``name``. Raises UsageError for a name that nothing is known by."""
    if name == "repair":
        from harness.agents.repair import RepairAgent

        return RepairAgent()
    raise UsageError(f"there is no agent called {name!r}", f"known agents: {', '.join(AGENTS)}")
