"""Workloads whose rolls are finished late: after later appends, flushes, truncations, kills and power cuts.

A log on a simulated disk finishes each roll right after its append (`worker_of`). `patch_late_tasks` has every log
of a test leave that work to a `LateTasks`, as threads do that are slow, and a `RollingWorkload` asks for it now and
then. After each roll, no more sealed segments are unsynced than are promised.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstore._segment import Segment
from logstore.log.rolling import worker
from logstore.testing import SimDisk
from tests.crash.workload import Promise, Workload
from tests.kit.inside import segments_of, state_of
from tests.kit.rolling import LateTasks

#: See `durability.md`: sealed segments that the background may leave behind.
MOST_UNSYNCED = 2

#: Small segments, in which a step may roll twice, beside some of the settings of all workloads.
SETTINGS = (
    {"segment_bytes": 700, "index_interval_bytes": 0, "segment_index_bytes": 400},
    {"segment_bytes": 420, "index_interval_bytes": 1},
    {"segment_bytes": 700, "index_interval_bytes": 150, "flush_messages": 5},
    {"segment_bytes": 1_500, "index_interval_bytes": 400, "visible_after": "flush"},
)

#: How likely it is that a task of the background runs between two steps.
CHANCE = 0.15


def patch_late_tasks(monkeypatch: pytest.MonkeyPatch, seed: int) -> LateTasks:
    """Have the logs that are opened from now on leave the end of a roll to later."""
    late = LateTasks(seed)
    monkeypatch.setattr(worker, "worker_of", lambda files: late)
    return late


class RollingWorkload(Workload):
    """One log, whose background work is done at moments of chance."""

    most_unsynced = 0

    def __init__(self, seed: int, late: LateTasks, steps: int = 40, settings: dict | None = None) -> None:
        super().__init__(seed, steps, SETTINGS[seed // 2 % len(SETTINGS)] if settings is None else settings)
        self.late = late
        self.found: Segment | None = None  # the active segment of the last opening

    def open(self, disk: SimDisk, promise: Promise) -> None:
        super().open(disk, promise)
        self.found = segments_of(self.log)[-1]

    def step(self) -> None:
        if self.rng.random() < CHANCE:
            self.do("background", self.late.run_one)
        super().step()
        self.check_unsynced("step")

    def do(self, what: str, act: Callable[[], object], during: Promise | None = None) -> None:
        super().do(what, act, during)
        self.check_unsynced(what)

    def check_unsynced(self, what: str) -> None:
        state = state_of(self.log)
        if state.closed or segments_of(self.log)[-1] is self.found:
            # The recovery point that an open finds may be older: its first roll syncs what is above.
            return
        unsynced = len(state.unsynced.segments)
        assert unsynced <= MOST_UNSYNCED, f"{unsynced} sealed segments are unsynced after: {what}"
        self.most_unsynced = max(self.most_unsynced, unsynced)
