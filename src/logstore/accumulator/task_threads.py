"""Threads for tasks that wait for the disk, so that their callers do not.

A thread begins with the first task and ends after the last one, so a process without such work has none. It imports
the files only for a descriptor that a new thread needs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from logstore.io._files import spare_descriptors
from logstore.io._interrupts import held

_logger = logging.getLogger(__name__)

Task = Callable[[], None]


class TaskThreads:
    """Runs tasks in the order in which they come, some of them at once. A task handles its own errors."""

    def __init__(self, name: str, most: int) -> None:
        """``most``: the number of threads, which are called ``name``."""
        self._name, self._most = name, most
        self.forget()

    def forget(self) -> None:
        """Reset in a forked child: tasks and threads are the parent's."""
        self._lock = threading.Lock()
        self._tasks: deque[Task] = deque()
        self._threads = 0

    def submit(self, task: Task) -> None:
        """Run ``task`` once, soon."""
        with held(self._lock):
            self._tasks.append(task)
            is_enough = self._threads >= self._most
            self._threads += not is_enough
        if is_enough:
            return
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
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
