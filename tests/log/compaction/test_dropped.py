"""What compaction has dropped: the offset below which tombstones and markers may be missing, `dropped_end`."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from logstore import Log
from logstore.batch._encode import encode
from logstore.errors import DiskFullError, StorageError, StorageFailedError
from logstore.log import FOLLOWS, Marker, ProducerStamp
from logstore.log.compaction import compaction
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.testing import ManualClock, SimDisk
from tests.crash.planted import must_break
from tests.kit.inside import failure_of

PATH = "/data/t-0"
STAY_MS = 10_000
SETTINGS = {
    "cleanup_policy": "compact",
    "segment_bytes": 300,
    "index_interval_bytes": 100,
    "delete_retention_ms": STAY_MS,
    "min_cleanable_dirty_ratio": 0.01,
}


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def disk():
    return SimDisk(1)


def open_log(disk: SimDisk, clock: ManualClock, **settings: Any) -> Log:
    return Log.open(PATH, files=disk, clock=clock, **{**SETTINGS, **settings})


def compact(log: Log) -> None:
    log.maintenance.roll()
    log.maintenance.compact()


def write(log: Log) -> None:
    """Write a key, its tombstone at offset 2, and others around them."""
    for key, value in ((b"a", b"1"), (b"k", b"1"), (b"k", None), (b"b", b"1"), (b"c", b"1")):
        log.append([(key, value)])


def drop(log: Log, clock: ManualClock) -> None:
    write(log)
    compact(log)
    assert log.replica.dropped_end == 0
    clock.advance(STAY_MS)
    compact(log)
    assert [record.key for record in log] == [b"a", b"b", b"c"]


def stored(disk: SimDisk, name: str = checkpoints.DROPPED) -> bytes | None:
    return disk.image(PATH).get(f"{PATH}/{name}")


def replace(disk: SimDisk, name: str, data: bytes | None) -> None:
    """Let a file have other bytes, or be lost."""
    if data is None:
        disk.unlink(f"{PATH}/{name}")
        return
    with_bytes = disk.open(f"{PATH}/{name}", create=True, writable=True, truncate=True)
    with_bytes.write(data, 0)
    with_bytes.sync()
    with_bytes.close()


def test_it_is_behind_the_newest_tombstone_that_went_and_outlives_a_restart(disk, clock):
    with open_log(disk, clock) as log:
        drop(log, clock)
        assert log.replica.dropped_end == 3
        assert log.replica.clean_end == 5
    with open_log(disk, clock) as log:
        assert log.replica.dropped_end == 3
        log.append([(b"d", None)])
        compact(log)
        assert log.replica.dropped_end == 3


def test_a_record_that_a_newer_one_replaces_is_not_dropped(disk, clock):
    with open_log(disk, clock) as log:
        write(log)
        log.append([(b"k", b"2")])
        compact(log)
        clock.advance(STAY_MS)
        compact(log)
        assert log.replica.dropped_end == 0


def test_a_marker_counts_too(disk, clock):
    with open_log(disk, clock) as log:
        log.append([(b"a", b"1")])
        log.append([(b"k", b"1")], producer=ProducerStamp(7, 0, 0, True))
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        log.append([(b"k", b"1")], producer=ProducerStamp(7, 0, 1, True))
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        log.append([(b"b", b"1")])
        for _ in range(4):
            compact(log)
            clock.advance(STAY_MS)
        assert log.replica.dropped_end >= 3


@pytest.mark.parametrize("how", [None, b"", b"ld", "flipped"])
def test_without_its_file_all_that_was_compacted_may_be_missing(disk, clock, how):
    with open_log(disk, clock) as log:
        drop(log, clock)
    data = stored(disk)
    assert data is not None
    if how == "flipped":
        for bit in range(len(data) * 8):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            assert checkpoints.decode_dropped(bytes(flipped)) is None
        how = bytes(flipped)
    replace(disk, checkpoints.DROPPED, how)
    with open_log(disk, clock) as log:
        assert log.replica.dropped_end == 5
        compact(log)
    assert checkpoints.decode_dropped(stored(disk)) == 5


def test_the_loss_of_the_compacted_offset_does_not_lose_it(disk, clock):
    with open_log(disk, clock) as log:
        drop(log, clock)
    replace(disk, checkpoints.COMPACTED, None)
    with open_log(disk, clock) as log:
        assert log.replica.dropped_end == 3


def test_a_log_that_is_compacted_no_more_keeps_it(disk, clock):
    with open_log(disk, clock) as log:
        drop(log, clock)
    with open_log(disk, clock, cleanup_policy="delete") as log:
        assert log.replica.dropped_end == 3
    with open_log(disk, clock) as log:
        assert log.replica.dropped_end == 3


@pytest.mark.parametrize("ends_at", [0, 2])
def test_a_cut_lowers_it(disk, clock, ends_at):
    with open_log(disk, clock) as log:
        drop(log, clock)
        log.replica.truncate_to(ends_at)
        end = log.log_end_offset
        assert log.replica.dropped_end == min(3, end)
        write(log)
    with open_log(disk, clock) as log:
        assert log.replica.dropped_end == min(3, end)


def test_a_copy_has_that_of_the_log_that_it_is_made_from(tmp_path, clock):
    with Log.open(tmp_path / "a" / "t-0", clock=clock, **SETTINGS) as log:
        drop(log, clock)
        (tmp_path / "b" / "t-0").mkdir(parents=True)
        log.maintenance.copy(log.maintenance.checkpoint(), Directory(tmp_path / "b" / "t-0"))
    with Log.open(tmp_path / "b" / "t-0", clock=clock, **SETTINGS) as log:
        assert log.replica.dropped_end == 3


# --- the copy of a leader's log -----------------------------------------------------------------


def open_copy(disk: SimDisk, clock: ManualClock) -> Log:
    return Log.open(PATH, files=disk, clock=clock, policy=FOLLOWS, **SETTINGS)


def add(log: Log, count: int = 1) -> None:
    for _ in range(count):
        at = log.log_end_offset
        batch = bytearray(encode([(b"k%d" % at, b"1")], timestamp_ms=0))
        batch[:8] = at.to_bytes(8, "big")
        log.replica.append_replicated(bytes(batch), is_contiguous=False)
    log.flush()


def test_a_copy_keeps_what_it_was_begun_with_until_another_log_goes_on(disk, clock):
    with open_copy(disk, clock) as log:
        log.replica.begin_copy(9)
        add(log, 4)
        assert log.replica.dropped_end == 9
        log.replica.end_copy()
        assert log.replica.dropped_end == 4
        add(log, 8)
        log.replica.end_copy()
        assert log.replica.dropped_end == 4
        with pytest.raises(ValueError, match="a copy begins in an empty log, this one ends at 12"):
            log.replica.begin_copy(20)
        log.replica.restart_at(3)
        assert log.replica.dropped_end == 0
        log.replica.begin_copy(3)
        assert log.replica.dropped_end == 0  # below 3 is nothing that could be missing
        log.replica.begin_copy(20)
        assert log.replica.dropped_end == 20
    for wrong in (-1, 2**62 + 1):
        with open_copy(disk, clock) as log, pytest.raises(ValueError, match="clean below an offset from 0"):
            log.replica.begin_copy(wrong)


def test_an_epoch_ends_a_copy(disk, clock):
    with open_copy(disk, clock) as log:
        log.replica.begin_copy(9)
        add(log, 4)
        log.replica.begin_epoch(3)
        assert log.replica.dropped_end == 4


@pytest.mark.parametrize("policy", ["none", "all", "torn"])
@pytest.mark.parametrize("power", [False, True])
def test_a_restart_ends_a_copy_before_another_log_goes_on(disk, clock, power, policy):
    with open_copy(disk, clock) as log:
        log.replica.begin_copy(9)
        add(log, 4)
        left = disk.crash(policy, seed=3) if power else disk.kill()
    with open_copy(left, clock) as log:
        assert log.replica.dropped_end == 4
        add(log, 8)
        left = left.crash("none")
    with open_copy(left, clock) as log:
        assert log.replica.dropped_end == 4


FAULTS = {
    "EIO": {"errno": errno.EIO},
    "EIO for good": {"errno": errno.EIO, "times": -1},
    "ENOSPC": {"errno": errno.ENOSPC},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", ["begin_copy", "end_copy"])
def test_every_call_of_a_copy_fails_in_turn(clock, call, fault):
    """The log fails, or nothing has changed; whatever is on the disk then is not below what may be missing."""
    nth = 0
    while True:
        nth += 1
        disk = SimDisk(nth)
        log = open_copy(disk, clock)
        if call == "end_copy":
            log.replica.begin_copy(9)
            add(log, 4)
        disk.fail("change", nth, **FAULTS[fault])
        error: StorageError | None = None
        try:
            if call == "begin_copy":
                log.replica.begin_copy(9)
            else:
                log.replica.end_copy()
        except StorageError as raised:
            error = raised
        fired = bool(disk.fired())
        disk.heal()
        assert (error is not None) == fired
        if isinstance(error, DiskFullError):
            assert failure_of(log) is None
            getattr(log.replica, call)(*([9] if call == "begin_copy" else []))
            assert log.replica.dropped_end == (9 if call == "begin_copy" else 4)
        elif error is not None:
            assert isinstance(error, StorageFailedError)
            with pytest.raises(StorageFailedError):
                log.replica.end_copy()
        left = disk.crash("none")
        log.close()
        with open_copy(left, clock) as again:
            assert again.replica.dropped_end == (0 if call == "begin_copy" else 4)
        if not fired:
            break
    assert nth > 3


# --- a crash at every moment --------------------------------------------------------------------


def cut_everywhere(clock: ManualClock) -> None:
    """Cut the power at every moment of the compaction that drops a tombstone."""
    disk = SimDisk(5)
    log = open_log(disk, clock)
    write(log)
    compact(log)
    clock.advance(STAY_MS)
    disk.keep_moments()
    compact(log)
    gone = 0
    for moment in disk.moments():
        for policy in ("none", "all", "prefix", "reordered"):
            with open_log(moment.crash(policy, seed=1), clock) as again:
                is_gone = 2 not in [record.offset for record in again]
                gone += is_gone
                assert again.replica.dropped_end >= 3 or not is_gone, "the tombstone went, and the log says nothing"
                assert again.replica.dropped_end in (0, 3)
    log.close()
    assert gone > 3


def test_the_number_is_durable_before_the_tombstone_is_missing(clock):
    cut_everywhere(clock)


def test_planted_a_number_that_comes_too_late_is_found(clock, monkeypatch):
    monkeypatch.setattr(compaction._Run, "_record_dropped", lambda self, offset: None)
    must_break("the log says nothing", lambda: cut_everywhere(clock))
