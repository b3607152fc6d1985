"""Bugs planted into the log, each one that others have shipped, and the power cut that finds it.

Without the bug the same workloads keep every promise (`test_power_cuts`, `test_disk_faults`).
"""

from __future__ import annotations

import contextlib
import itertools
import struct

import pytest

from logstore import Log
from logstore.log.append.flush import Flusher
from logstore.log.directory import files
from logstore.log.directory.segments import Segments, sync_unless_dropped
from logstore.log.formats.recovery_point import RecoveryPointFile
from logstore.log.recovery import recovery
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.planted import must_break
from tests.crash.power_cuts import Examined, cut_all
from tests.crash.scripted import promise_before_the_sync, retry_syncs
from tests.crash.test_disk_faults import reopened_after_failed_syncs
from tests.crash.workload import Workload

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="planted bugs")]


#: What a user would read or miss: synced records that are gone.
LOST = "but the log ends at|offsets .* are missing|damaged below the recovery point"


def find(broken: str, plant=lambda disk: None, seeds=range(5)) -> None:
    """Cut the power in workloads, one after the other, until a promise is broken: the one that reads ``broken``."""

    def search() -> None:
        for seed in seeds:
            workload = Workload(seed, plant=plant, steps=25)
            try:
                workload.run()
                cut_all(workload, Examined(), most=600)
            finally:
                workload.forget()

    must_break(broken, search)


def test_without_a_bug_nothing_is_found():
    with pytest.raises(pytest.fail.Exception, match="not found"):
        find("", seeds=range(1))


def skipping(op: str):
    """Every sync claims success and does nothing."""

    def plant(disk: SimDisk) -> None:
        disk.fail(op, errno=0, times=-1)

    return plant


def test_planted_no_sync_is_found():
    words = "synced up to .*, but the log ends at|a segment before the last is damaged|that were synced are missing"
    find(words, skipping("fdatasync"))


def test_planted_no_sync_of_directories_is_found():
    words = "synced up to .*, but the log ends at|which ends no batch|offsets that were synced are missing"
    find(words, skipping("fsync_dir"))


def test_planted_a_trusted_index_is_found(monkeypatch):
    """A segment is taken to be whole up to the last entry of its index, which may be there without them."""

    def is_torn_below_its_index(segments: Segments, segment) -> bool:
        data = segments.directory.read(files.segment_file(segment.base_offset, files.OFFSET_INDEX)) or b""
        entries = list(struct.iter_unpack(">ii", data[: len(data) // 8 * 8]))
        return bool(entries) and segment.scan().valid_bytes <= entries[-1][1] < segment.size

    def trusting(segments: Segments, point, config, kind):
        if not any(is_torn_below_its_index(segments, segment) for segment in segments.all):
            return honest(segments, point, config, kind)
        return 0, 0, [(segments.active, segments.active.scan(adopt=True, check=False))]

    honest = recovery._check_tail
    monkeypatch.setattr(recovery, "_check_tail", trusting)
    find("offsets .* cannot be read", seeds=range(20))


def test_planted_a_believed_tail_is_found(monkeypatch):
    """What has the shape of batches is taken for batches, up to where it has not."""
    scan_unchecked(monkeypatch, cut=False)
    find("CRC-32C of the batch")


def test_planted_a_missing_crc_check_is_found(monkeypatch):
    """The tail is cut where a header is wrong, and no checksum is asked."""
    scan_unchecked(monkeypatch, cut=True)
    find("CRC-32C of the batch")


def scan_unchecked(monkeypatch, *, cut: bool) -> None:
    def unchecked(segments: Segments, point, config, kind):
        active = segments.active
        extent = active.scan(adopt=True, check=False)
        if cut and extent.valid_bytes < active.size:
            active.cut(extent.valid_bytes, extent.next_offset)
            active.file.sync()
        return 0, 0, [(active, extent)]

    monkeypatch.setattr(recovery, "_check_tail", unchecked)


def test_planted_a_retried_sync_is_found(monkeypatch):
    """The second try says that all is well: the kernel has marked the lost pages clean."""

    reopened_after_failed_syncs(".log", rereads=False)
    retry_syncs(monkeypatch)
    must_break(LOST, lambda: reopened_after_failed_syncs(".log", rereads=False))


def test_planted_a_reopening_that_trusts_clean_pages_is_found(monkeypatch):
    monkeypatch.setattr(recovery, "_rewrite_suspects", lambda segments, point: 0)
    must_break(LOST, lambda: reopened_after_failed_syncs(".log", rereads=False))


def test_planted_a_recovery_point_before_its_sync_is_found(monkeypatch):
    promise_before_the_sync(monkeypatch)
    find(LOST)


def cut_in_the_first_flush() -> None:
    """Cut the power at each moment of the first flush of a log, whose names are on no disk before, and open it."""
    disk = SimDisk()
    with contextlib.closing(Log.open("/root/t-0", files=disk)) as log:
        log.append([b"value"])
        disk.keep_moments()
        log.flush()
        moments = list(disk.moments())
        for policy, seed, moment in itertools.product(POLICIES, range(20), moments):
            Log.open("/root/t-0", files=moment.crash(policy, seed=seed)).close()


def test_planted_a_recovery_point_before_the_names_is_found(monkeypatch):
    """Names are the last that a round syncs. If they came later, the point could be above a file without one."""
    honest = Flusher._end_locked

    def sync(self, found):
        for segment in (*found.sealed, found.active):
            sync_unless_dropped(segment)

    def end(self, done):
        honest(self, done)
        self._state.unsynced.sync_names()

    cut_in_the_first_flush()
    monkeypatch.setattr(Flusher, "_sync", sync)
    monkeypatch.setattr(Flusher, "_end_locked", end)
    must_break("the recovery point is 1, but there is no segment", cut_in_the_first_flush)


def test_planted_a_truncation_that_does_not_lower_the_promise_first_is_found(monkeypatch):
    honest = RecoveryPointFile.write_durably

    def lazily(self, point):
        is_truncation = point.recovery_point < self.point.recovery_point
        (RecoveryPointFile.write if is_truncation else honest)(self, point)

    monkeypatch.setattr(RecoveryPointFile, "write_durably", lazily)
    find("DamagedLogError.*offsets that were synced are missing", seeds=range(12))
