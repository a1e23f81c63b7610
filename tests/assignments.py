"""An assignment for an agent, for tests that drive an agent without a run around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.agents import Assignment
from harness.metering import Limits, Meter
from swe_memory.records import Issue, Usage


def assignment(
    issue: Issue, workdir: Path, memory: str = "", limits: Limits | None = None, *, record: Callable[[Usage], None] = lambda _: None
) -> Assignment:
    """``workdir`` is the agent's copy; its files go into a folder beside it."""
    limits = limits or Limits()
    scratch = workdir.parent / f"{workdir.name}-scratch"
    scratch.mkdir(exist_ok=True)
    return Assignment(issue, memory, limits, Meter(limits, record), workdir, scratch)
