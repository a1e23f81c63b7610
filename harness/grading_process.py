"""The child process that holds swebench, from the caller's side: started when it is needed, asked by any number of threads, replaced when it dies."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_memory.errors import InfraError

_STARTUP = 180.0  # seconds more for a new process, which has to import it all first
_ANSWER = 60.0
_ENDING = 20.0  # until what was told to stop has ended
_LOOK = 0.05  # between two looks at whether to stop
_BLOCK = 65_536
_SYSTEM = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
_ENGINE = ("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")

Reply = Mapping[str, Any]


class GradingProcess:
    """See :mod:`harness.grading_worker` for what can be asked. The process ends with :meth:`close`, and when this one does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, if one runs."""
        child = self._child
        return child.process.pid if child is not None and child.alive else None

    def start(self) -> None:
        """Start it now, so that its import overlaps with other work. Not needed."""
        self._ensure()

    def ask(self, request: Mapping[str, Any]) -> Reply:
        """What is answered at once. A process that died or hangs is replaced, once.

        Raises InfraError where the second one does so too, and where swebench refuses.
        """
        for last in (False, True):
            child = self._ensure()
            reply = child.ask(request, _ANSWER)
            if reply is not None:
                if "error" in reply:
                    raise InfraError(
                        f"swebench could not grade: {reply['error']}", "Check the row's log_parser and the installed swebench."
                    )
                return reply
            said = child.discard()
            if last:
                raise InfraError(f"the grading process failed twice: {said}", 'Check that "swe-memory[harness]" is installed.')
        raise AssertionError("not reached")

    def work(self, request: Mapping[str, Any], seconds: float, halt: threading.Event | None) -> Reply | None:
        """What takes its time, done in a process of its own that is ended after ``seconds``, or once ``halt`` is set: then None. A process that dies while it
        works is replaced, once.

        Raises InfraError where the second one dies too.
        """
        said = ""
        for _ in range(2):
            if halt is not None and halt.is_set():
                return None
            child = self._ensure()
            reply = child.ask(request, seconds, halt=halt, stop=True)
            if reply is not None and reply.get("kind") == "stopped":
                said = "it was told to stop, and not by this one"
            elif reply is not None or child.alive:
                return reply
            else:
                said = child.discard()
        raise InfraError(f"the grading process failed twice: {said}", 'Check that "swe-memory[harness]" is installed.')

    def _ensure(self) -> _Child:
        with self._lock:
            if self._child is None or not self._child.alive:
                self._child = _Child()
            return self._child

    def close(self) -> None:
        """End the process. May be called twice; what is asked later starts a new one."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.close()


class _Child:
    """One process, and a thread that hands out what it answers."""

    def __init__(self) -> None:
        variables = {name: os.environ[name] for name in (*_SYSTEM, *_ENGINE) if name in os.environ}
        variables |= {"PYTHONPATH": str(Path(__file__).resolve().parent.parent), "PYTHONUTF8": "1", "HF_HUB_OFFLINE": "1"}
        if sys.platform == "darwin":
            variables["no_proxy"] = "*"  # else requests asks the system for proxies, which ends a forked process there
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.grading_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=variables,
            start_new_session=True,  # Ctrl-C is for the caller; this one ends when its input does
        )
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Reply | None]] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._fresh = True
        self._ended = False
        self._thread = threading.Thread(target=self._hand_out, name="grading answers", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return not self._ended and self.process.poll() is None

    def ask(self, request: Mapping[str, Any], seconds: float, *, halt: threading.Event | None = None, stop: bool = False) -> Reply | None:
        """The answer; None where the process ends without one, or does not give it within ``seconds`` or before ``halt`` is set. With ``stop`` it is then told
        to stop working on it, and has ended that when this returns."""
        number = next(self._numbers)
        answer: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        with self._lock:
            if self._ended:
                return None
            self._waiting[number] = answer
        try:
            self._send({**request, "id": number})
            until = time.monotonic() + seconds + (_STARTUP if self._fresh else 0.0)
            while (left := until - time.monotonic()) > 0 and not (halt is not None and halt.is_set()):
                with contextlib.suppress(queue.Empty):
                    return answer.get(timeout=min(left, _LOOK) if halt is not None else left)
            if stop:
                self._send({"op": "stop", "about": number})
                with contextlib.suppress(queue.Empty):
                    answer.get(
                        timeout=0.0 if self._fresh else _ENDING
                    )  # a new one reads both, one after the other, when it has imported all
            return None
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        line = memoryview(json.dumps(request).encode() + b"\n")
        with self._writing, contextlib.suppress(OSError, ValueError):  # one that has ended says so to who waits
            while line:
                line = line[self.process.stdin.write(line) :]

    def _hand_out(self) -> None:
        assert self.process.stdout is not None
        lines = bytearray()
        with contextlib.suppress(OSError, ValueError):
            while block := self.process.stdout.read(_BLOCK):
                lines += block
                *whole, last = lines.split(b"\n")
                lines = last
                for line in whole:
                    self._give(json.loads(line))
        with self._lock:
            self._ended = True
            waiting = list(self._waiting.values())
        for answer in waiting:
            answer.put(None)

    def _give(self, reply: Reply) -> None:
        self._fresh = False
        with self._lock:
            answer = self._waiting.get(reply["id"])
        if answer is not None:
            answer.put(reply)

    def discard(self) -> str:
        """End it at once; what became of it, in words."""
        hung = self.alive
        self.process.kill()
        self.close()
        return "no answer in time" if hung else f"it ended with code {self.process.returncode}"

    def close(self) -> None:
        """Let it end, with what it does; where it does not, it is killed."""
        if self._writing.acquire(timeout=_ENDING):
            with contextlib.suppress(OSError, ValueError):
                if self.process.stdin is not None:
                    self.process.stdin.close()
            self._writing.release()
        try:
            self.process.wait(timeout=_ENDING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._thread.join(timeout=_ENDING)
        if not self._thread.is_alive() and self.process.stdout is not None:
            self.process.stdout.close()
