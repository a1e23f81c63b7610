"""What freed memory costs a long process, on Linux with glibc; elsewhere these do nothing.

glibc keeps an arena for nearly every thread and returns little of what was freed in it. With 16 workers that was 110 MB of 720, and what the embedding
model's loading leaves another 70 (``benchmarks/driver_memory.py``). See mallopt(3) and malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_M_ARENA_MAX = -8
ARENAS = 2
"""Threads that allocate at the same moment are few: Python code runs in one at a time."""


def keep_small() -> None:
    """Few arenas. For a process of our own, before its threads start; a MALLOC_ARENA_MAX of its user stays."""
    if (libc := _glibc()) is None:
        return
    if "MALLOC_ARENA_MAX" not in os.environ:
        libc.mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return the pages of freed memory to the system: some milliseconds, so after large pieces of work only."""
    if (libc := _glibc()) is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "malloc_trim") else None
