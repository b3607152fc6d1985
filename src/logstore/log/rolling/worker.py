"""Background work of logs: file operations that no append may wait for, such as the syncs after a roll.

A thread begins with the first task and ends after the last one, so a process without such work has none. A log on
another table of file operations than the machine's does its work at once, in the calling thread: a test sees the
operations of a simulated disk in one order.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from logstore.io._files import LIBC, Files, spare_descriptors
from logstore.io._interrupts import held

_logger = logging.getLogger(__name__)

Task = Callable[[], None]

#: Concurrent tasks: the sync of one log's gigabyte must not hold up the next segment of another.
_THREADS = 4


class RollWorker(Protocol):
    """Runs tasks without their caller's locks. A task handles its own errors."""

    def submit(self, task: Task) -> None:
        """Run ``task`` once, soon. Called without the lock of any log."""


class Inline:
    """Runs each task at once, in the calling thread."""

    def submit(self, task: Task) -> None:
        task()


class Threads:
    """Runs tasks in threads that end when no task is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._threads = 0

    def submit(self, task: Task) -> None:
        with held(self._lock):
            self._tasks.append(task)
            is_enough = self._threads >= _THREADS
            self._threads += not is_enough
        if is_enough:
            return
        try:
            threading.Thread(target=self._serve, name="logstore-rolls", daemon=True).start()
        except RuntimeError:
            # No thread can be started, as while the interpreter ends.
            self._run()

    @property
    def is_busy(self) -> bool:
        """Whether a task runs, or waits for its turn."""
        return self._threads > 0

    def _serve(self) -> None:
        # Without a free descriptor a task fails, and the append that needs what it makes does it.
        spare_descriptors()
        self._run()

    def _run(self) -> None:
        while True:
            with held(self._lock):
                if not self._tasks:
                    self._threads -= 1
                    return
                task = self._tasks.popleft()
            try:
                task()
            except Exception:
                _logger.exception("background work failed")
            del task  # the thread must not keep a dropped log alive

    def forget(self) -> None:
        """Reset in a forked child: tasks and threads are the parent's."""
        self._lock = threading.Lock()
        self._tasks = deque()
        self._threads = 0


THREADS = Threads()
LIBC.clean_by(partial(THREADS.submit, LIBC.sync_oldest))


def _forget() -> None:
    THREADS.forget()
    LIBC.forget_cleaning()


os.register_at_fork(after_in_child=_forget)


def worker_of(files: Files) -> RollWorker:
    """Return the worker of a log on a table of file operations."""
    return THREADS if files is LIBC else Inline()
