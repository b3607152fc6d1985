"""A follower begins again: the log is empty, at any offset, and nothing of the old one comes back."""

from __future__ import annotations

import errno
import random

import pytest

from logstore import Log
from logstore.errors import OUT_OF_RESOURCES, LogClosedError, OffsetOutOfRangeError, StorageFailedError
from logstore.log import FixedPolicy, Marker, Moves
from logstore.log.tools import verify
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.histories import History
from tests.log.logs import NOW_MS, at, crashed_copy, one_batch, open_log, values_of

PATH = "/data/t-0"
SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 100}

#: Below everything, at and around the log start, inside, at the end, beyond, and far beyond.
OFFSETS = [0, 3, 9, 10, 11, 17, 40, 41, 100, 2**40]


def led() -> FixedPolicy:
    return FixedPolicy(Moves.WITH_END)


def filled(log: Log) -> None:
    """Forty offsets over several segments from 10 on, a producer, transactions of both ends and an open one."""
    log.replica.restart_at(5)
    history = History(log, random.Random(1))
    log.replica.begin_epoch(3)
    for _ in range(5):
        history.append(1)
    while log.log_end_offset < 34:
        history.append(2, producer_id=1)
    history.append(1, producer_id=5, transactional=True)
    history.end(5, Marker.ABORT)
    log.replica.begin_epoch(4)
    history.append(1, producer_id=6, transactional=True)
    history.append(40 - log.log_end_offset)
    log.delete_before(10)


def is_empty_at(log: Log, offset: int) -> None:
    assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
    assert (log.high_watermark, log.last_stable_offset) == (offset, offset)
    assert [segment.base_offset for segment in log.maintenance.segments] == [offset]
    assert [log.replica.producer_epoch(producer_id) for producer_id in (1, 5, 6)] == [-1, -1, -1]
    assert log._state.transactions.aborted_between(0, offset + 100) == []
    assert log.replica.epochs.end_offset_for(3, offset) != (3, 34)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("leave", ["close", "kill"])
def test_the_log_begins_there_with_nothing(tmp_path, offset, leave):
    log = open_log(tmp_path / "0", policy=led(), **SETTINGS)
    filled(log)
    log.replica.restart_at(offset)
    is_empty_at(log, offset)
    assert log.synced_end == offset
    copy = crashed_copy(log, tmp_path / "1") if leave == "kill" else tmp_path / "0"
    log.close()
    with open_log(copy, policy=led(), **SETTINGS) as log:
        is_empty_at(log, offset)
        log.replica.append_replicated(b"".join(at(one_batch([b"%d" % n]), offset + n, 7) for n in range(20)))
        assert values_of(log) == [b"%d" % n for n in range(20)]
        copy = crashed_copy(log, tmp_path / "2")
    with open_log(copy, policy=led(), **SETTINGS) as log:
        assert (log.log_start_offset, log.log_end_offset) == (offset, offset + 20)
        assert values_of(log) == [b"%d" % n for n in range(20)]
        assert log.replica.epochs.epoch_at(offset) == 7
        place = log.path
    assert list(verify.verify(verify.find(place), deep=True)) == []


def test_an_empty_log_begins_again_and_again(tmp_path):
    with open_log(tmp_path) as log:
        for offset in (12, 12, 0, 0, 5, 2**62):
            log.replica.restart_at(offset)
            assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
        with pytest.raises(OffsetOutOfRangeError):
            log.read(2**62 - 1)


@pytest.mark.parametrize("offset", [-1, 2**62 + 1])
def test_what_is_no_offset_is_refused(tmp_path, offset):
    with open_log(tmp_path) as log, pytest.raises(ValueError, match="from 0 to"):
        log.replica.restart_at(offset)
    with pytest.raises(LogClosedError):
        log.replica.restart_at(1)


@pytest.mark.parametrize("offset", [3, 100])
def test_readers_in_this_process_and_in_others_see_it(tmp_path, offset):
    with open_log(tmp_path, policy=led(), **SETTINGS) as log:
        filled(log)
        with open_log(tmp_path, read_only=True) as reader:
            assert len(values_of(reader)) > 20
            log.replica.restart_at(offset)
            for each in (log, reader):
                assert (each.log_start_offset, each.log_end_offset) == (offset, offset)
                assert values_of(each) == []
                with pytest.raises(OffsetOutOfRangeError):
                    each.read(20)
            log.replica.append_replicated(at(one_batch([b"new"]), offset, 9))
            assert values_of(log) == values_of(reader) == [b"new"]


def test_a_memory_tail_is_dropped_with_the_rest(tmp_path):
    with open_log(tmp_path, tail="memory") as log:
        log.append([b"in memory"])
        log.replica.restart_at(9)
        log.append([b"kept"], ack="synced")
        assert [(record.offset, record.value) for record in log.scan()] == [(9, b"kept")]


def test_a_compacted_log_is_compacted_from_scratch(tmp_path):
    with open_log(tmp_path, cleanup_policy="compact", policy=led()) as log:
        for _ in range(5):
            log.append([(b"k", b"v")])
        log.maintenance.roll()
        log.maintenance.compact()
        for offset in (2, 50):
            log.replica.restart_at(offset)
            log.append([(b"k", b"1")])
            log.append([(b"k", b"2")])
            log.maintenance.roll()
            log.maintenance.compact()
            assert values_of(log) == [b"2"]


@pytest.mark.parametrize("offset", [3, 15, 100])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE], ids=errno.errorcode.get)
def test_each_call_that_fails_leaves_the_old_log_an_empty_one_or_the_new(tmp_path, error, offset):
    number, was_hit = 0, True
    while was_hit:
        number += 1
        files, place = FaultyFiles(), tmp_path / str(number)
        log = open_log(place, files=files, policy=led(), **SETTINGS)
        filled(log)
        files.fail("change", number, errno=error)
        try:
            log.replica.restart_at(offset)
            was_hit = bool(files.fired())
        except StorageFailedError:
            with pytest.raises(StorageFailedError):
                log.replica.restart_at(offset)
        except OUT_OF_RESOURCES:
            files.heal()
            log.replica.restart_at(offset)
            is_empty_at(log, offset)
        files.heal()
        log.close()
        with open_log(place, policy=led(), **SETTINGS) as log:
            assert (log.log_start_offset, log.log_end_offset) == (offset, offset) or log.log_start_offset == 10
            log.replica.restart_at(offset)
            is_empty_at(log, offset)
            log.append([b"new"])
            assert values_of(log) == [b"new"]
    assert number > 8


@pytest.mark.parametrize("offset", [0, 9, 15, 40, 100])
def test_a_power_cut_leaves_the_old_log_an_empty_one_or_the_new(offset):
    disk = SimDisk()
    log = Log.open(PATH, SETTINGS, files=disk, clock=ManualClock(NOW_MS), policy=led())
    filled(log)
    log.flush()
    old = values_of(log)
    disk.keep_moments()
    log.replica.restart_at(offset)
    done = disk.operations
    log.replica.append_replicated(at(one_batch([b"new"]), offset, 9), ack="synced")
    log.replica.append_replicated(at(one_batch([b"newer"]), offset + 1, 9), ack="synced")
    synced = disk.operations
    log.close()
    began, states = disk.operations - disk.moment_count, 0
    for number, moment in enumerate(disk.moments(), began + 1):
        for policy in POLICIES:
            after = moment.crash(policy, seed=number, page_bytes=64)
            place = f"operation {number} of {done}, {policy}"
            with Log.open(PATH, SETTINGS, files=after, clock=ManualClock(NOW_MS), policy=led()) as log:
                found = values_of(log)
                start = log.log_start_offset
                if number >= done:
                    assert start == offset, place
                    assert found in ([], [b"new"], [b"new", b"newer"]), place
                    assert [log.replica.producer_epoch(producer_id) for producer_id in (1, 5, 6)] == [-1] * 3
                else:
                    # Segments are removed newest first.
                    assert (start, found) in ((10, old[: len(found)]), (offset, [])), place
                if number >= synced:
                    assert found == [b"new", b"newer"], place
                log.replica.restart_at(offset)
                log.append([b"again"])
                assert values_of(log) == [b"again"], place
            states += 1
    assert states > 100
