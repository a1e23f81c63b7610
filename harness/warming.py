"""What a run needs later and takes seconds to load is loaded while its first agents are at work, so that nobody waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

AFTER = 1.0
"""Seconds from a run's beginning: one that ends at once needs none of it."""


@contextlib.contextmanager
def warming(loads: Sequence[Callable[[], object]], after: float = AFTER) -> Iterator[None]:
    """Call ``loads`` one after the other, in a thread of its own, unless the context ends before. It ends when the one under way has.

    One that fails is no matter here: who needs what it was to load meets the error.
    """
    ended = threading.Event()

    def work() -> None:
        if ended.wait(after):
            return
        for load in loads:
            with contextlib.suppress(Exception):
                load()
            if ended.is_set():
                return

    thread = threading.Thread(target=work, name="warming", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def load_memory() -> None:
    """All that learning and recalling import, and the embedding model."""
    import lancedb  # noqa: F401

    from swe_memory import learning, ranking, render  # noqa: F401
    from swe_memory.embed import default_embedder

    if (embedder := default_embedder()) is not None:
        embedder.documents(["Loaded before it is needed."])
