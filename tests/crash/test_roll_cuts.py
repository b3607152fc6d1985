"""Rolls that are finished late, at every power cut; and bugs planted into them.

`test_power_cuts` has rolls that are finished right after their append. Here the background work comes after later
appends, flushes, truncations and crashes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstore.log.directory import files, next_segment
from logstore.log.directory.segments import Segments
from logstore.log.directory.unsynced import Unsynced
from logstore.log.recovery import recovery
from logstore.log.rolling import rolls, worker
from tests.crash.planted import must_break
from tests.crash.power_cuts import Examined, cut_all
from tests.crash.workload import Promise, Workload
from tests.kit.inside import state_of
from tests.kit.rolling import LateTasks

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="rolls that are finished late")]

#: See `durability.md`: sealed segments that the background may leave behind.
MOST_UNSYNCED = 2

SETTINGS = {"segment_bytes": 700, "index_interval_bytes": 0, "segment_index_bytes": 400}


class RollingWorkload(Workload):
    """After each step, no more sealed segments are unsynced than a crash may make the next open scan."""

    most_unsynced = 0

    def do(self, what: str, act: Callable[[], object], during: Promise | None = None) -> None:
        super().do(what, act, during)
        state = state_of(self.log)
        if not state.closed:
            unsynced = len(state.unsynced.segments)
            assert unsynced <= MOST_UNSYNCED, f"{unsynced} sealed segments are unsynced after: {what}"
            self.most_unsynced = max(self.most_unsynced, unsynced)


def cut(seed: int, monkeypatch: pytest.MonkeyPatch, most: int, steps: int = 30) -> Examined:
    late, examined = LateTasks(seed), Examined()
    monkeypatch.setattr(worker, "worker_of", lambda files: late)
    workload = RollingWorkload(seed, steps=steps, settings=SETTINGS)
    try:
        workload.run()
        cut_all(workload, examined, most=most)
    finally:
        workload.forget()
    return examined


@pytest.mark.parametrize("seed", range(4))
def test_every_power_cut_around_a_late_roll_leaves_what_was_promised(seed, monkeypatch):
    assert len(cut(seed, monkeypatch, most=300).states) > 100


def find(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def search() -> None:
        for seed in range(8):
            cut(seed, monkeypatch, most=600)

    must_break(broken, search)


def test_a_late_worker_leaves_as_many_segments_unsynced_as_may_be(monkeypatch):
    """So the bound is reached, and a third segment would be seen."""
    reached = 0
    for seed in range(8):
        late = LateTasks(seed)
        monkeypatch.setattr(worker, "worker_of", lambda files, late=late: late)
        workload = RollingWorkload(seed, steps=30, settings=SETTINGS)
        try:
            workload.run()
        finally:
            workload.forget()
        reached = max(reached, workload.most_unsynced)
    assert reached == MOST_UNSYNCED


def test_planted_a_third_unsynced_segment_is_found(monkeypatch):
    monkeypatch.setattr(rolls, "MOST_UNSYNCED", 9)
    find("3 sealed segments are unsynced", monkeypatch)


def test_planted_a_recovery_point_above_a_segment_that_is_not_synced_is_found(monkeypatch):
    monkeypatch.setattr(rolls, "sync_unless_dropped", lambda segment: None)
    find("synced up to .*, but the log ends at|is damaged|offsets .* are missing|segment ends at", monkeypatch)


def test_planted_a_prepared_name_that_is_not_synced_is_found(monkeypatch):
    monkeypatch.setattr(Unsynced, "sync_names", lambda self: None)
    find("synced up to .*, but the log ends at|segment ends at|are missing|there is no segment", monkeypatch)


def test_planted_a_prepared_file_that_is_taken_for_the_proof_of_the_one_before_it_is_found(monkeypatch):
    """Where a next segment was prepared, the newest one is taken to be sealed, and whole."""

    def trusting(segments: Segments, point, config, kind):
        if any(name.startswith(files.NEXT) for name in segments.directory.names()):
            return 0, 0, [(segments.active, segments.active.scan(adopt=True, check=False))]
        return honest(segments, point, config, kind)

    honest = recovery._check_tail
    monkeypatch.setattr(recovery, "_check_tail", trusting)
    find("CRC-32C of the batch|cannot be read|does not open as clean", monkeypatch)


def test_planted_a_prepared_file_without_a_batch_that_is_taken_for_a_segment_is_found(monkeypatch):
    def look(directory, name, last):
        with directory.open(name) as file:
            return name, max(int.from_bytes(bytes(file.read(0, 8)), "big", signed=True), last + 1)

    monkeypatch.setattr(next_segment, "_look", look)
    find("synced up to .*, but the log ends at|segment ends at|are missing|is damaged|does not open", monkeypatch)


def test_planted_a_file_with_batches_that_is_thrown_away_is_found(monkeypatch):
    monkeypatch.setattr(next_segment, "find", lambda directory, names, last=None: None)
    find("synced up to .*, but the log ends at|segment ends at|are missing", monkeypatch)
