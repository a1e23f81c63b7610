"""Does tasks that wait for one another, side by side in lanes, and stops in two ways. Knows nothing of attempts."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


class Stopped(BaseException):
    """Raised by a task that was told to stop in the middle. Not an Exception, so that nothing takes it for a failure of its own."""


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work. ``work`` returns None when it is done, or a number of seconds after which it wants to be tried again.

    It begins when every task named in ``after`` is done; names that no task has count as done. In each ``lane`` those with the highest ``priority`` go
    first, then those that came first. ``finishing``: it completes what is under way, so that it is still begun after a stop.
    """

    name: str
    lane: str
    work: Callable[[], float | None]
    after: Sequence[str] = ()
    priority: int = 0
    finishing: bool = False


@dataclass(slots=True)
class _Lane:
    """What may begin (a heap of -priority, number), and what waits for a time (a heap of time, number)."""

    workers: int
    ready: list[tuple[int, int]] = field(default_factory=list)
    later: list[tuple[float, int]] = field(default_factory=list)
    running: int = 0


class Tasks:
    """Runs tasks once; ``lanes`` says how many of each lane run at the same time. ``timer`` gives monotonic seconds.

    :meth:`stop` lets the tasks under way end and begins only finishing ones. An exception in a task does the same and is raised by :meth:`run`.
    """

    def __init__(self, tasks: Iterable[Task], lanes: Mapping[str, int], timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._changed = threading.Condition()
        self._tasks: dict[int, Task] = dict(enumerate(tasks))
        self._lanes = {name: _Lane(workers) for name, workers in lanes.items()}
        self._stopping = False
        self._errors: list[BaseException] = []
        names = {task.name for task in self._tasks.values()}
        if len(names) != len(self._tasks):
            raise ValueError("two tasks have one name")
        self._waits: dict[int, int] = {}
        self._next: dict[str, list[int]] = {}
        for number, task in self._tasks.items():
            wanted = {name for name in task.after if name in names}
            self._waits[number] = len(wanted)
            for name in wanted:
                self._next.setdefault(name, []).append(number)
            if not wanted:
                self._push(number)

    def _push(self, number: int) -> None:
        task = self._tasks[number]
        heapq.heappush(self._lanes[task.lane].ready, (-task.priority, number))

    def stop(self) -> None:
        """Begin nothing new but finishing tasks. May be called from any thread, and more than once."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    @property
    def stopping(self) -> bool:
        """Whether :meth:`stop` was called or a task failed."""
        return self._stopping

    def run(self, watch: Callable[[], None] = lambda: None, every: float = 0.05) -> bool:
        """Do all tasks; whether every one was done. ``watch`` is called by this thread about every ``every`` seconds meanwhile.

        Raises the first exception of a task (not :class:`Stopped`), after the others have ended.
        """
        threads = [
            threading.Thread(target=self._work, args=(lane,), daemon=True, name=f"{name}-{number}")
            for name, lane in self._lanes.items()
            for number in range(min(lane.workers, len(self._tasks)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(every)
                watch()
        if self._errors:
            raise self._errors[0]
        return not self._tasks

    def _work(self, lane: _Lane) -> None:
        while (number := self._take(lane)) is not None:
            task = self._tasks[number]
            again: float | None = None
            try:
                again = task.work()
            except Stopped:
                self._end(lane, None)
                self.stop()
                continue
            except BaseException as error:  # handed to the thread that called run
                self._errors.append(error)
                self._end(lane, None)
                self.stop()
                continue
            if again is None:
                self._end(lane, number)
            else:
                with self._changed:
                    lane.running -= 1
                    heapq.heappush(lane.later, (self._timer() + again, number))
                    self._changed.notify_all()

    def _take(self, lane: _Lane) -> int | None:
        """The number of a task to do now; None when there will be none any more for this lane."""
        with self._changed:
            while True:
                if (number := self._choose(lane)) is not None:
                    lane.running += 1
                    return number
                if not self._tasks or (
                    self._stopping and not any(other.running for other in self._lanes.values()) and not self._finishing()
                ):
                    self._changed.notify_all()
                    return None
                wait = None if self._stopping or not lane.later else max(0.0, lane.later[0][0] - self._timer())
                self._changed.wait(wait)

    def _choose(self, lane: _Lane) -> int | None:
        while not self._stopping and lane.later and lane.later[0][0] <= self._timer():
            self._push(heapq.heappop(lane.later)[1])
        if not self._stopping:
            return heapq.heappop(lane.ready)[1] if lane.ready else None
        chosen = min((entry for entry in lane.ready if self._tasks[entry[1]].finishing), default=None)
        if chosen is None:
            return None
        lane.ready.remove(chosen)
        heapq.heapify(lane.ready)
        return chosen[1]

    def _finishing(self) -> bool:
        """Whether a finishing task could begin in some lane."""
        return any(self._tasks[number].finishing for lane in self._lanes.values() for _, number in lane.ready)

    def _end(self, lane: _Lane, done: int | None) -> None:
        with self._changed:
            lane.running -= 1
            if done is not None:
                task = self._tasks.pop(done)
                for number in self._next.pop(task.name, ()):
                    self._waits[number] -= 1
                    if not self._waits[number]:
                        self._push(number)
            self._changed.notify_all()
