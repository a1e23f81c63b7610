"""An open bank with the hands to write to it: store, embedder, clock and ids. What learning, maintenance and transfer work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from swe_memory.errors import BankError, EmbedderMismatch
from swe_memory.store.log import Identity

if TYPE_CHECKING:
    import numpy as np

    from swe_memory.store import Store


class Vectors(Protocol):
    """What the bank needs of an embedder (see ``swe_memory.embed.Embedder``)."""

    name: str
    dimension: int
    digest: str

    def documents(self, texts: Sequence[str]) -> np.ndarray: ...

    def queries(self, texts: Sequence[str]) -> np.ndarray: ...


@dataclass(slots=True)
class Workspace:
    """``clock`` gives timezone-aware UTC times, ``new_id`` names for transactions and sessions. ``embedder`` None: rows are stored without vectors."""

    store: Store
    embedder: Vectors | None
    clock: Callable[[], datetime]
    new_id: Callable[[], str]

    def fresh_id(self) -> str:
        """A new name that no transaction or session of the bank has or had: also where ``new_id`` starts again from the same names each time."""
        log = self.store.log
        while (name := self.new_id()) in log.by_txn or name in log.sessions or name in log.abandoned:
            pass
        return name

    def check_writable(self) -> None:
        """Raise BankError where the bank was opened for reading only."""
        if self.store.tables.read_only:
            raise BankError(f"the bank {self.store.tables.uri} was opened for reading only", "Open it without read_only=True to change it.")

    def check_embedder(self) -> None:
        """Raise EmbedderMismatch where the embedder is not the one that made the bank's vectors (another process may have re-embedded it)."""
        if self.embedder is not None:
            mismatch(self.store.tables.uri, self.store.identity, identity_of(self.embedder))


def identity_of(embedder: Vectors | None) -> Identity:
    """What is kept in the bank of an embedder."""
    return Identity() if embedder is None else Identity(embedder.name, int(embedder.dimension), embedder.digest)


def mismatch(uri: str, bank: Identity, given: Identity) -> None:
    """Raise EmbedderMismatch, naming both, unless they are the same."""
    if bank != given:
        raise EmbedderMismatch(
            f"the bank {uri} was built with {bank}, and this is {given}",
            f"Run `swe-memory bank reembed --bank {uri}` to rebuild its vectors, or use the embedder it was built with.",
        )
