"""Bugs planted into rolls that are finished late, each found by a power cut.

Without the bugs the same workloads keep every promise: every second seed of `test_power_cuts` has them.
"""

from __future__ import annotations

import pytest

from logstore.log.directory import files, next_segment
from logstore.log.directory.segments import Segments
from logstore.log.directory.unsynced import Unsynced
from logstore.log.recovery import recovery
from logstore.log.rolling import rolls
from tests.crash.late_rolls import MOST_UNSYNCED, SETTINGS, RollingWorkload, patch_late_tasks
from tests.crash.planted import must_break
from tests.crash.test_power_cuts import cut_workloads

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="rolls that are finished late")]

#: As many of the seeds of `test_power_cuts` as find every bug, and states of each.
SEEDS = range(1, 17, 2)
STATES_EACH = 600


def find(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def search() -> None:
        for seed in SEEDS:
            cut_workloads(seed, monkeypatch, STATES_EACH)

    must_break(broken, search)


def test_a_late_worker_leaves_as_many_segments_unsynced_as_may_be(monkeypatch):
    """So the bound is reached, and a third segment would be seen."""
    reached = 0
    for seed in SEEDS:
        workload = RollingWorkload(seed, patch_late_tasks(monkeypatch, seed), steps=30, settings=SETTINGS[0])
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
    find("CRC-32C of the batch|cannot be read|are missing|does not open as clean", monkeypatch)


def test_planted_a_prepared_file_without_a_batch_that_is_taken_for_a_segment_is_found(monkeypatch):
    def look(directory, name, last):
        with directory.open(name) as file:
            return name, max(int.from_bytes(bytes(file.read(0, 8)), "big", signed=True), last + 1)

    monkeypatch.setattr(next_segment, "_look", look)
    find("synced up to .*, but the log ends at|segment ends at|are missing|is damaged|does not open", monkeypatch)


def test_planted_a_file_with_batches_that_is_thrown_away_is_found(monkeypatch):
    monkeypatch.setattr(next_segment, "find", lambda directory, names, last=None: None)
    find("synced up to .*, but the log ends at|segment ends at|are missing", monkeypatch)
