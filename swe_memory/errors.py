"""What can go wrong, in words a user can act on: what happened, where, and what to do next."""

from __future__ import annotations


class SweMemoryError(Exception):
    """Work failed for a reason the user can do something about (exit code 1).

    ``what`` says what happened and where; ``hint`` says what to do. Both are shown, never a traceback.
    """

    exit_code = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}\n  {hint}" if hint else what)
        self.what = what
        self.hint = hint


class UsageError(SweMemoryError):
    """The call itself was wrong: a bad flag, path, setting or file (exit code 2)."""

    exit_code = 2


class TrajectoryError(SweMemoryError):
    """A trajectory file cannot be read: cut off, empty, not text, or of an unknown format."""


class BankError(SweMemoryError):
    """A bank cannot be opened, read or written."""


class EmbedderMismatch(BankError):
    """The bank was built with another embedder; mixing vectors of two models would make distances meaningless."""


class ModelError(SweMemoryError):
    """The language model could not be asked, or did not give a usable answer within its retries and budget."""


class InfraError(SweMemoryError):
    """The machine failed, not the agent. Never judged, never learned from."""
