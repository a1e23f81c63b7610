"""Who made a container, and whether that process still runs: how what a kill left behind is told from what is in use.

A lock would go with its file or its folder; the label that names the process goes where the container goes. Pids come again, so the name holds the time
at which the process began (in the kernel's clock ticks) and the boot in which it did; pids also differ from namespace to namespace, so it holds that too.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["alive", "gone", "unknown"]


@dataclass(frozen=True, slots=True)
class Owner:
    """A process of some machine: ``boot`` and ``namespace`` say where ``pid`` and ``began`` mean anything."""

    boot: str
    namespace: str
    pid: int
    began: str

    @classmethod
    def current(cls) -> Owner:
        """This process."""
        return cls(_boot(), _namespace(), os.getpid(), _began(os.getpid()) or "")

    @classmethod
    def parse(cls, label: str) -> Owner | None:
        """What :attr:`label` wrote; None for anything else."""
        parts = label.split("/")
        if len(parts) != 4 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])

    @property
    def label(self) -> str:
        """In one word, for a label."""
        return f"{self.boot}/{self.namespace}/{self.pid}/{self.began}"

    def state(self, *, running: bool) -> State:
        """Whether the process still runs; ``running`` says whether its container does.

        No container outlives a boot of its engine, so one that has ended and names another boot than this was left before a restart. One that *runs* and
        does so belongs to another machine that uses the same engine: ``unknown``, as is a pid of another namespace.
        """
        if self.boot != _boot():
            return "unknown" if running else "gone"
        if self.namespace != _namespace():
            return "unknown"
        return "alive" if _began(self.pid) == self.began else "gone"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux: the time at which a process began is a date there, which no other boot has
        return sys.platform


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "0"


def _began(pid: int) -> str | None:
    """When process ``pid`` began; None where there is no such process or only what a parent has not reaped yet."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        return _began_elsewhere(pid)
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _began_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        return str(round(psutil.Process(pid).create_time()))
    except psutil.Error:
        return None
