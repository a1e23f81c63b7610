"""What freed memory costs a long process is bounded (glibc)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swe_memory.heap import _glibc

pytestmark = pytest.mark.skipif(_glibc() is None, reason="no glibc here")

COUNT = """
import ctypes
libc = ctypes.CDLL(None)
libc.open_memstream.restype = ctypes.c_void_p
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
text, size = ctypes.c_char_p(), ctypes.c_size_t()
stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
libc.malloc_info(0, stream)
libc.fclose(stream)
print(text.value.count(b"<heap nr="))
"""

ARENAS = (
    """
import ctypes, sys, threading
from swe_memory.heap import keep_small
if sys.argv[1] == "small":
    keep_small()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
together = threading.Barrier(6)
def work():
    libc.malloc(50_000)
    together.wait()  # a thread that ends leaves its arena to the next
threads = [threading.Thread(target=work) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    + COUNT
)

RUN = (
    """
import contextlib, os, sys
from swe_memory.cli import main
with contextlib.redirect_stdout(sys.stderr):
    main(["run", "--agent", "command: true", "--arm", "none", "--slice", "0:6", "--workers", "6", "--out", sys.argv[1]])
"""
    + COUNT
)

FREED = """
import ctypes
from pathlib import Path
from swe_memory.heap import give_back
def resident():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
blocks = [libc.malloc(60_000) for _ in range(1_000)]
[ctypes.memset(block, 1, 60_000) for block in blocks]
[libc.free(block) for block in blocks[:-1]]  # the last one keeps the heap from shrinking by itself
before = resident()
give_back()
print(before - resident())
"""


def run(script: str, *arguments: str, **variables: str) -> int:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env={**clean, **variables}, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_threads_share_two_arenas() -> None:
    assert run(ARENAS, "as it is", MALLOC_ARENA_MAX="5") == 5  # so many would be there
    assert run(ARENAS, "small") <= 2


def test_what_the_user_set_stays() -> None:
    assert run(ARENAS, "small", MALLOC_ARENA_MAX="5") == 5


def test_freed_memory_goes_back() -> None:
    assert run(FREED) > 40_000  # kB of the 60,000 that were freed


def test_the_threads_of_a_run_share_them_too(tmp_path: Path) -> None:
    assert run(RUN, str(tmp_path / "run")) <= 2
