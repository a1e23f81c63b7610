"""One command in a container, from its start to its end or to the end of its time.

A few lines of shell around it tell when it begins and how it ended, keep its time inside the container (so that it ends even where nobody listens any more) and
let the kernel take its processes first when memory runs out. What is printed in between is the command's own, in the order in which it was printed.

What belongs to a command that has to be ended is found by the process tree: everything that began after it, unless it descends from a process that an
earlier command left running. Neither a new session nor a new group nor an empty environment changes that. Where that is of no use (a fork bomb leaves no
room for a process that kills), a restart of the container ends everything; its files stay.
"""

from __future__ import annotations

import math
import re
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from typing import Literal

from harness.environments import Execution
from harness.environments.bounded import BoundedOutput
from harness.environments.container import Container, Stream

TIMED_OUT = 124  # as timeout(1) reports it
SIGNALLED = 128  # a shell's code for a command that a signal ended, less the signal
_KILLED = SIGNALLED + signal.SIGKILL
_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
_PATIENCE = 10.0  # seconds beyond its limit after which a command's own watch counts as dead
_LOOK = 0.1  # seconds between two looks at whether a command is to be stopped
_READ = 60.0  # seconds of one read, where nobody may stop it
_SWEEP_SECONDS = 60.0
# Arguments: two halves of a mark, the working directory, the limit, the command. The halves only meet in what is printed, so that a command that lists
# processes does not print the mark. The first line tells who the shell is and when it began, in the kernel's clock.
_AROUND = """\
exec 3>&1 2>/dev/null
a=$1 b=$2 dir=$3 limit=$4
shift 4
read -r stat </proc/$$/stat
echo "$a$b $$ ${stat##*) }"
echo 300 >/proc/self/oom_score_adj
if cd -- "$dir"; then
    (exec 2>&1 3>&-; exec timeout -k 1 "$limit" "$@")
    code=$?
else
    echo "bash: cannot start in the working directory $dir"
    code=127
fi
echo "$a$b $code"
"""
# Arguments: a signal, then pid and beginning of the command's shell. KILL goes on until nothing is left or time is up, and prints how many were left; any
# other signal is sent once, parents first, to all but the shell and its timeout(1), which would send it again. Only builtins: there may be no room for more.
_SWEEP = """\
while
    parent=() began=()
    for path in /proc/[0-9]*; do
        stat=
        IFS= read -rd '' stat <$path/stat
        fields=(${stat##*) })
        [ "${fields[0]}" ] && [ "${fields[0]}" != Z ] || continue
        parent[${path#/proc/}]=${fields[1]} began[${path#/proc/}]=${fields[19]}
    done 2>/dev/null
    left=0
    for pid in "${!began[@]}"; do
        [ $pid != 1 ] && [ $pid != $$ ] && [ ${began[$pid]} -ge $3 ] || continue
        up=${parent[$pid]}
        while [ "${began[$up]}" ] && [ $up != 1 ] && [ ${began[$up]} -ge $3 ]; do up=${parent[$up]}; done
        [ "${began[$up]}" ] && [ $up != 1 ] && continue
        [ $1 = KILL ] || { [ $pid != $2 ] && [ "${parent[$pid]}" != $2 ]; } || continue
        kill -$1 $pid 2>/dev/null && left=$((left + 1))
    done
    [ $1 = KILL ] && [ $left != 0 ] && [ $SECONDS -lt 5 ]
do :; done
echo $left
"""

_NOT_FOUND = 127
_NO_SHELL = re.compile(
    r"not found|no such file|permission denied|exec format|not a directory|too many (levels of )?symbolic|shared librar", re.IGNORECASE
)
"""How engines, and the dynamic loader, say that a program is not there or cannot be run. Ending processes does not bring it back."""

Ending = Literal["over", "stopped", "late"]
Shell = tuple[int, int]
"""The shell around a command: its pid in the container, and the clock tick at which it began."""


class NotStarted(Exception):
    """The engine could not start a command in a container that runs; what it said."""


class Command:
    """``arguments`` run in ``workdir`` as the container's user; ``limit`` in seconds (math.inf for none), ``output_limit`` in bytes.

    ``stops``: once one of them is set, the command is ended as if its time were over.
    """

    def __init__(
        self,
        container: Container,
        arguments: Sequence[str],
        *,
        workdir: str,
        limit: float,
        output_limit: int,
        stops: Sequence[threading.Event] = (),
    ) -> None:
        self._container = container
        self._limit = limit
        self._stops = stops
        halves = secrets.token_hex(8), secrets.token_hex(8)
        shown = "0" if math.isinf(limit) else f"{max(limit, 0.001):.3f}"  # timeout(1) takes 0 for no limit
        self._call = ["sh", "-c", _AROUND, "sh", *halves, workdir, shown, *arguments]
        self._printed = Printed("".join(halves).encode(), output_limit)

    def run(self) -> Execution:
        """Start it and wait for its end. Raises NotStarted, and InfraError where the engine or the container fails meanwhile."""
        printed = self._printed
        started = time.monotonic()
        stream = self._container.open(self._call, user=self._container.user)
        try:
            ending = self._follow(stream)
            if printed.shell is None:
                raise NotStarted(printed.text()[:300] or "it printed nothing")
            if ending == "stopped":
                self._stop(stream, printed.shell)
                return Execution(printed.text(), _KILLED if printed.code is None else printed.code)
            if ending == "over" and printed.code is None:
                printed.code = self._code(stream)
        finally:
            stream.close()
        if ending == "late" or (time.monotonic() - started >= self._limit and printed.code in (TIMED_OUT, _KILLED)):
            self._sweep(printed.shell)
            return Execution(printed.text(), TIMED_OUT, timed_out=True)
        if printed.code in (None, _KILLED):
            self._container.check_alive()
        if printed.code is None:
            raise self._container.broken("follow a command to its end", None)
        return Execution(printed.text(), printed.code)

    def _follow(self, stream: Stream) -> Ending:
        """Take in what the command prints until it is over, is to be stopped, or did not end although its time was over long ago."""
        printed = self._printed
        until = time.monotonic() + self._container.request_seconds  # until the shell speaks, the engine is what we wait for
        begun = False
        while printed.code is None:
            if printed.shell is not None and not begun:
                begun = True
                until = time.monotonic() + self._limit + _GRACE + _PATIENCE
            left = until - time.monotonic()
            if left <= 0:
                if not begun:
                    raise self._container.broken("start a command", TimeoutError())
                return "late"
            if begun and any(event.is_set() for event in self._stops):
                return "stopped"
            block = stream.read(min(left, _LOOK if self._stops else _READ))
            if block == b"":
                printed.end()
                return "over"
            if block:
                printed.add(block)
        return "over"

    def _code(self, stream: Stream) -> int | None:
        """How a command ended whose shell was killed under it, so that it could not tell."""
        until = time.monotonic() + _PATIENCE
        while (code := self._container.returncode(stream)) is None and time.monotonic() < until:
            time.sleep(
                0.02
            )  # the engine closes the stream before it notes the end; seconds before, while another command's child still prints
        if not self._container.running():
            raise self._container.broken("run a command", None)
        return code

    def _stop(self, stream: Stream, shell: Shell) -> None:
        """SIGTERM, a moment to clean up, SIGKILL."""
        self._signal("TERM", shell)
        until = time.monotonic() + _GRACE
        while self._printed.code is None and (left := until - time.monotonic()) > 0 and (block := stream.read(left)) != b"":
            self._printed.add(block or b"")
        self._sweep(shell)

    def _sweep(self, shell: Shell) -> None:
        """End every process of the command that this shell ran."""
        if self._signal("KILL", shell) != 0:
            self._container.restart()

    def _signal(self, name: str, shell: Shell) -> int:
        """Send a signal to the command's processes; how many were left, or -1 where there is no room for a process that does it."""
        found = self._container.run(_SWEEP, name, *map(str, shell), seconds=_SWEEP_SECONDS)
        return int(found.output) if found.returncode == 0 and found.output.strip().isdigit() else -1


def run_command(
    container: Container,
    arguments: Sequence[str],
    *,
    workdir: str,
    limit: float,
    output_limit: int,
    stops: Sequence[threading.Event] = (),
) -> Execution:
    """Run one :class:`Command`. Where it cannot even be started although the container runs, what earlier commands left running may have used up the
    processes or the memory: then the container is restarted, once, and the command tried again. If that does not help, or there is no shell any more, the
    execution says that what commands need is broken.

    Raises InfraError where the engine or the container fails.
    """
    for last in (False, True):
        command = Command(container, arguments, workdir=workdir, limit=limit, output_limit=output_limit, stops=stops)
        try:
            return command.run()
        except NotStarted as error:
            if not container.running():
                raise container.broken("run a command", None) from error
            if last or _NO_SHELL.search(str(error)):
                return Execution(f"no command can be started any more: {error}\n", _NOT_FOUND, broken=str(error))
            container.restart()
    raise AssertionError("not reached")


class Printed:
    """What a command printed, without the marks around it: ``shell`` is the shell around it and ``code`` its return code, once they are known."""

    def __init__(self, mark: bytes, limit: int) -> None:
        self.shell: Shell | None = None
        self.code: int | None = None
        self._mark = mark
        self._output = BoundedOutput(limit)
        self._pending = bytearray()

    def add(self, block: bytes) -> None:
        """Take the next bytes."""
        self._pending += block
        while (at := self._pending.find(self._mark)) >= 0 and (end := self._pending.find(b"\n", at)) >= 0:
            fields = self._pending[at + len(self._mark) : end].split()
            self._give(at)
            del self._pending[: end - at + 1]
            if self.shell is None and len(fields) > 20:
                self.shell = int(fields[0]), int(fields[20])
            elif self.shell is not None and len(fields) == 1 and fields[0].isdigit():
                self.code = int(fields[0])
                return
        # The mark may lie across two blocks.
        self._give(at if at >= 0 else max(0, len(self._pending) - len(self._mark) + 1))

    def end(self) -> None:
        """Nothing more comes."""
        self._give(len(self._pending))

    def text(self) -> str:
        """See :meth:`harness.environments.bounded.BoundedOutput.text`."""
        return self._output.text()

    def _give(self, size: int) -> None:
        if size:
            self._output.add(bytes(self._pending[:size]))
            del self._pending[:size]
