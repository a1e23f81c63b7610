"""How a user stops a run: a first Ctrl-C lets what is under way finish, a second one ends it, and nobody has to wait for what does not end."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence

LONGEST_END = 5.0
"""Seconds that a second Ctrl-C leaves to what is under way. A command ends in less; a model that does not answer is not waited for."""


@contextlib.contextmanager
def collected() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of being torn out of whatever is under way. Elsewhere than in the main thread: an empty list.

    SIGHUP, unless it is ignored (nohup), counts twice: the terminal is closed, so that nobody can ask again, and what is under way must not outlive the run.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, lambda signum, _: asked.append(signum)) for number in (signal.SIGINT, signal.SIGTERM)}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda signum, _: asked.extend((signum, signum)))
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watcher(asked: Sequence[int], stop: Callable[[], None], halt: threading.Event) -> Callable[[], None]:
    """What looks at ``asked`` again and again: calls ``stop`` once after the first signal, sets ``halt`` after the second.

    It raises KeyboardInterrupt after a third one, or when :data:`LONGEST_END` is over: past those who do not end, which a journal that a kill does not hurt
    can afford.
    """
    done: list[float] = []  # when it stopped, and when it halted

    def watch() -> None:
        if asked and not done:
            done.append(time.monotonic())
            stop()
        if len(asked) > 1 and len(done) == 1:
            done.append(time.monotonic())
            halt.set()
        if len(done) > 1 and (len(asked) > 2 or time.monotonic() - done[1] > LONGEST_END):
            raise KeyboardInterrupt

    return watch
