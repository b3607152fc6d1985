"""Schedule of a store's recurring work: a list of tasks, each with its period, and the thread that runs them.

`maintenance.tasks` is responsible for the work itself. A store with the machine's
clock has one thread. For a store with a clock of its own, or with ``logstore.housekeeping=manual``, its
owner calls `run_all`. Tasks run one after the other, never two at a time. Work that must not overlap
with any of them, such as a snapshot, holds `paused`.

The thread knows the tasks and not the `Store`, so it keeps no store alive that its user has dropped.
A task that fails is reported and runs again when it is next due.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from logstore.clock import Clock
from logstore.errors import LogstoreError
from logstore.io._files import fork_generation
from logstore.io._interrupts import Condition, held

if TYPE_CHECKING:
    from typing import Final

_logger = logging.getLogger(__name__)

#: The opening of a store comes first: Kafka's log.initial.task.delay.ms.
INITIAL_DELAY_MS: Final = 30_000


class Interrupted(LogstoreError):
    """The store is being closed; the task ends here, and what it had begun starts again another time."""


Run = Callable[[], object]

#: Called during a long call with the number of parts that are done, and of all parts as far as known.
Progress = Callable[[int, int], object]
T = TypeVar("T")


@dataclass(eq=False)
class Task:
    """A recurring task.

    ``run`` returns True if more is to be done at once, so that others get their turn between. Such a task
    may never end while others write, so it gives ``pieces`` too: all that there is to do now.
    """

    name: str
    period_s: float
    run: Run
    pieces: Callable[[], list[Run]] | None
    due_s: float


class Scheduler:
    """Runs tasks when they are due. Any thread may call it."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self._name = name
        self._tasks: list[Task] = []
        self._turn = threading.Lock()
        self._changed = Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._fork = fork_generation()

    def add(self, name: str, period_ms: int, run: Run, pieces: Callable[[], list[Run]] | None = None) -> Task:
        """Call ``run`` every ``period_ms`` from now on, for the first time after at most 30 s; see `Task`.

        A task may change its own period while it runs.
        """
        due_s = self.clock.monotonic_s() + min(period_ms, INITIAL_DELAY_MS) / 1000
        task = Task(name, period_ms / 1000, run, pieces, due_s)
        with held(self._changed):
            self._tasks.append(task)
            self._changed.notify_all()
        return task

    # -- running

    def start(self) -> None:
        """Start to run tasks when they are due, in a thread of their own. May be called again."""
        if self._thread is None and not self._stopping:
            self._thread = threading.Thread(
                target=self._loop, name=f"logstore-housekeeping {self._name}", daemon=True
            )
            self._thread.start()

    def run_all(self, progress: Progress | None = None) -> None:
        """Run every task now, due or not, once: each does the work that it finds when its turn comes, and ends.

        ``progress`` is called after each part of it.

        Raises:
            whatever a task raised first; the others were still run.
        """
        failure: BaseException | None = None
        tasks = list(self._tasks)
        done = 0
        for tasks_left, task in zip(reversed(range(len(tasks))), tasks, strict=True):
            try:
                pieces = [task.run] if task.pieces is None else self._run(task, task.pieces)
                for pieces_left, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
                    self._run(task, piece)
                    done += 1
                    if progress is not None:
                        progress(done, done + pieces_left + tasks_left)
            except Interrupted:
                return
            except BaseException as error:  # noqa: BLE001  raised below, once every task has had its turn
                failure = failure or error
        if failure is not None:
            raise failure

    def _run(self, task: Task, work: Callable[[], T]) -> T:
        with held(self._turn):
            if self._stopping:
                raise Interrupted("the store is being closed")
            try:
                return work()
            finally:
                task.due_s = self.clock.monotonic_s() + task.period_s

    def check(self) -> None:
        """Raise if the store is being closed: long tasks call it repeatedly.

        Raises:
            Interrupted: it is.
        """
        if self._stopping:
            raise Interrupted("the store is being closed")

    def wait(self, seconds: float) -> None:
        """Wait inside a task, for one that may not work at full speed; raises as `check`."""
        until = self.clock.monotonic_s() + seconds
        with held(self._changed):
            while not self._stopping and (left := until - self.clock.monotonic_s()) > 0:
                self.clock.wait(self._changed, left)
        self.check()

    def paused(self) -> held:
        """Hold off every task until the lock is released; waits for the one that is running."""
        return held(self._turn)

    def _loop(self) -> None:
        while True:
            with held(self._changed):
                if self._stopping:
                    break
                now = self.clock.monotonic_s()
                task = min(self._tasks, key=lambda task: task.due_s, default=None)
                if task is None or task.due_s > now:
                    self.clock.wait(self._changed, None if task is None else task.due_s - now)
                    continue
            try:
                if self._run(task, task.run):
                    task.due_s = now
            except Interrupted:
                break
            except Exception:
                # No caller waits for this thread: its errors are logged, and the task is retried in its period.
                _logger.exception("housekeeping failed: store=%s task=%s", self._name, task.name)

    # -- ending

    def stop(self) -> None:
        """Begin no further task; a running one ends at its next `check`. Does not wait for it."""
        if self._fork != fork_generation():
            return
        with held(self._changed):
            self._stopping = True
            self._changed.notify_all()

    def close(self) -> None:
        """Run no task any more. Returns when the running task has ended. May be called again."""
        if self._fork != fork_generation():
            return
        self.stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with held(self._turn):
            # Waits for a task that another thread is running.
            pass
