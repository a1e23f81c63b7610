"""A memory for repository-fixing agents: recall the one lesson that matters before an attempt, learn from the attempt after it.

Two calls are all an agent needs::

    bank = MemoryBank.open("memory.lance")
    recall = bank.recall(issue)          # recall.prompt goes into the system prompt
    bank.learn(issue, trajectory, verdict)

Importing this package is cheap: LanceDB, numpy and the rest are loaded when a bank is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swe_memory.errors import SweMemoryError
from swe_memory.records import (
    Action,
    Attempt,
    Experience,
    Issue,
    ItemDraft,
    Learned,
    MemoryItem,
    Recall,
    Step,
    Trajectory,
    Verdict,
)

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank
    from swe_memory.trajectories import load_trajectory

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Attempt",
    "Experience",
    "Issue",
    "ItemDraft",
    "Learned",
    "MemoryBank",
    "MemoryItem",
    "Recall",
    "Step",
    "SweMemoryError",
    "Trajectory",
    "Verdict",
    "__version__",
    "load_trajectory",
]

_LAZY = {"MemoryBank": "swe_memory.bank", "load_trajectory": "swe_memory.trajectories"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
