"""Background work of logs: file operations that no append may wait for, such as the syncs after a roll.

A thread begins with the first task and ends after the last one, so a process without such work has none. A log on
another table of file operations than the machine's does its work at once, in the calling thread: a test sees the
operations of a simulated disk in one order.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Protocol

from logstore.accumulator.task_threads import Task, TaskThreads
from logstore.io._files import LIBC, Files

#: Concurrent tasks of each kind.
_THREADS = 4


class RollWorker(Protocol):
    """Runs tasks without their caller's locks. A task handles its own errors."""

    def submit(self, task: Task, *, syncs: bool = False) -> None:
        """Run ``task`` once, soon. Called without the lock of any log.

        ``syncs``: the task syncs what appends have written, and may take long. No other task waits for it.
        """


class Inline:
    """Runs each task at once, in the calling thread."""

    def submit(self, task: Task, *, syncs: bool = False) -> None:
        task()


class Threads:
    """Runs tasks in threads that end when no task is left: those that sync have threads of their own.

    A log's next segment must be there before its active one is full. Behind the syncs of other logs' gigabytes it
    would come too late, and an append would wait for it.
    """

    def __init__(self) -> None:
        self._syncs = TaskThreads("logstore-syncs", _THREADS)
        self._others = TaskThreads("logstore-rolls", _THREADS)

    def submit(self, task: Task, *, syncs: bool = False) -> None:
        (self._syncs if syncs else self._others).submit(task)

    @property
    def is_busy(self) -> bool:
        """Whether a task runs, or waits for its turn."""
        return self._syncs.is_busy or self._others.is_busy

    def forget(self) -> None:
        """Reset in a forked child: tasks and threads are the parent's."""
        self._syncs.forget()
        self._others.forget()


THREADS = Threads()
LIBC.clean_by(partial(THREADS.submit, LIBC.sync_oldest, syncs=True))


def _forget() -> None:
    THREADS.forget()
    LIBC.forget_cleaning()


os.register_at_fork(after_in_child=_forget)


def worker_of(files: Files) -> RollWorker:
    """Return the worker of a log on a table of file operations."""
    return THREADS if files is LIBC else Inline()
