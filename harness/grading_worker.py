"""The child process that holds swebench: imported once, asked many times over standard input and output, one JSON object a line.

swebench's package loads datasets, docker and modal (seconds, and over a hundred megabytes) and reads a ``.env`` file it finds; here that happens once a run
and away from the caller. A request has an ``id``, which its answer repeats. Answered at once, one after the other:

- ``{"op": "script", "row": ...}`` -> ``{"script": ...}``
- ``{"op": "report", "row": ..., "patch": ..., "log": PATH}`` -> ``{"report": ...}``

``{"op": "grade", "folder": PATH}`` is answered when it is done (see :mod:`harness.grading_official`): by a fork of this process, which costs a moment and
little memory, has a working directory of its own, and can be ended alone. ``{"op": "stop", "about": ID}`` ends it; so does the end of this process,
by kill too. A fork that ended without an answer gets ``{"kind": "died", "reason": ...}``.

A request that fails is answered with ``{"error": ...}``. The process ends when its input does, after its forks.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import threading
import time
from typing import Any, NoReturn

_BLOCK = 65_536
_LONGEST = 600  # characters of a reason
_ENDING = 10.0  # seconds until a fork that was told to end is killed


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request with swebench's own functions."""
    from swebench.harness.grading import get_eval_report
    from swebench.harness.utils import make_test_spec

    spec = make_test_spec(request["row"])
    if request["op"] == "script":
        return {"script": spec.eval_script}
    prediction = {"instance_id": spec.instance_id, "model_name_or_path": "swe-memory", "model_patch": request["patch"]}
    return {"report": get_eval_report(spec, prediction, request["log"], include_tests_status=True)}


class Server:
    """Reads requests until input ends. Has no threads: a process that has any cannot be forked safely."""

    def __init__(self, replies: int) -> None:
        self._replies = replies
        self._forks: dict[int, int] = {}  # pid -> id of the request
        self._doomed: dict[int, float] = {}  # pid -> when it is to be killed
        self._life, self._held = os.pipe()  # forks read the one until this process, which alone has the other, is gone
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until input ends and all forks have."""
        unread = b""
        listening = True
        while listening or self._forks:
            wait = min(self._doomed.values()) - time.monotonic() if self._doomed else None
            ready, _, _ = select.select([self._woken, *([0] if listening else [])], [], [], None if wait is None else max(0.0, wait))
            if self._woken in ready:
                os.read(self._woken, _BLOCK)
            self._reap()
            if 0 in ready:
                block = os.read(0, _BLOCK)
                *lines, unread = (unread + block).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
                if not block:
                    listening = False
                    for pid in self._forks:
                        self._end(pid)

    def _take(self, request: dict[str, Any]) -> None:
        if request["op"] == "grade":
            self._fork(request)
        elif request["op"] == "stop":
            for pid in [pid for pid, number in self._forks.items() if number == request["about"]]:
                self._end(pid)
        else:
            try:
                reply = answer(request)
            except Exception as error:  # the protocol's boundary: the caller turns it into an infra failure with this text
                reply = {"error": f"{type(error).__name__}: {error}"}
            write(self._replies, request["id"], reply)

    def _fork(self, request: dict[str, Any]) -> None:
        pid = os.fork()
        if pid:
            self._forks[pid] = request["id"]
            return
        try:
            os.close(self._held)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _work(request, self._replies, self._life)
        finally:
            os._exit(1)

    def _end(self, pid: int) -> None:
        os.kill(pid, signal.SIGTERM)
        self._doomed.setdefault(pid, time.monotonic() + _ENDING)

    def _reap(self) -> None:
        for pid in list(self._forks):
            if self._doomed.get(pid, float("inf")) <= time.monotonic():
                os.kill(pid, signal.SIGKILL)
                self._doomed[pid] += _ENDING
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                number = self._forks.pop(pid)
                self._doomed.pop(pid, None)
                if status != 0:  # else it has answered itself
                    code = os.waitstatus_to_exitcode(status)
                    write(self._replies, number, {"kind": "died", "reason": f"it ended with code {code}"})


def write(replies: int, number: int, reply: dict[str, Any]) -> None:
    """Write one answer. Forks write theirs at the same time: what has no more than PIPE_BUF bytes stays whole."""
    line = memoryview(json.dumps({"id": number, **reply}, ensure_ascii=False).encode("utf-8", errors="replace") + b"\n")
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(replies, line) :]


def _work(request: dict[str, Any], replies: int, life: int) -> NoReturn:
    """What a fork does."""

    def watch() -> None:
        os.read(life, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        from harness.grading_official import Grading

        grading = Grading(request["folder"])
        signal.signal(signal.SIGTERM, grading.stop)
        threading.Thread(target=watch, daemon=True).start()
        reply = grading.run()
    except SystemExit:
        reply = {"kind": "stopped"}
    except Exception as error:  # the protocol's boundary, as above
        reply = {"kind": "died", "reason": f"{type(error).__name__}: {error}"[:_LONGEST]}
    write(replies, request["id"], reply)
    os._exit(0)  # at once, whatever threads swebench has left behind


def main() -> None:
    """Serve until standard input ends."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get between the replies
    with contextlib.suppress(ImportError):  # said again, with its reason, in the answer to the first request
        import swebench.harness.grading
        import swebench.harness.run_evaluation
        import swebench.harness.utils  # noqa: F401

        import harness.grading_official  # noqa: F401
    gc.collect()
    gc.freeze()  # so that a fork's collector leaves the shared pages alone
    Server(replies).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
