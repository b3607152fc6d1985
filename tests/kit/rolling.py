"""Background work of rolls that runs when a test says so."""

from __future__ import annotations

import random

from logstore.accumulator.task_threads import Task


class HeldTasks:
    """A `RollWorker` that keeps tasks until `run`."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, task: Task, *, syncs: bool = False) -> None:
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


class LateTasks:
    """A `RollWorker` that runs a task when later ones are submitted, or when a test says so."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._tasks: list[Task] = []

    def submit(self, task: Task, *, syncs: bool = False) -> None:
        self._tasks.append(task)
        for _ in range(self._rng.randrange(3)):
            if len(self._tasks) > 1:
                self._tasks.pop(0)()

    def run_one(self) -> None:
        """Run the oldest task, if there is one."""
        if self._tasks:
            self._tasks.pop(0)()
