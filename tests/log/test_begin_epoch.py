"""A leader begins an epoch at the log end: saved before the call returns, never below one that was seen."""

from __future__ import annotations

import errno

import pytest

from logstore import Log
from logstore.errors import OUT_OF_RESOURCES, FencedLeaderEpochError, LogClosedError, StorageFailedError
from logstore.log.formats.leader_epochs import LEADER_EPOCHS, Epochs
from logstore.log.marks.policies import HighWatermarkPolicy
from logstore.records import Origin
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.log.logs import NOW_MS, at, crashed_copy, one_batch, open_log, values_of

PATH = "/data/t-0"


class Led(HighWatermarkPolicy):
    """The policy of a layer that says who leads, and in which epoch."""

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return log_end_offset


def entries_of(log: Log) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in log.replica.epochs.entries]


def stamped(log: Log) -> list[int]:
    return [batch.leader_epoch for batch in log.read(0).batches()]


def test_it_begins_at_the_log_end_and_stamps_what_follows(tmp_path):
    with open_log(tmp_path, policy=Led()) as log:
        log.append([b"a", b"b"])
        log.replica.begin_epoch(3)
        assert log.replica.leader_epoch == 3
        assert entries_of(log) == [(0, 0), (3, 2)]
        assert Epochs.decode((tmp_path / "t-0" / LEADER_EPOCHS).read_bytes()).entries == log.replica.epochs.entries
        log.append([b"c"])
        log.replica.append_turn([one_batch([b"d"])])
        assert stamped(log) == [0, 3, 3]
        log.replica.begin_epoch(3)
        assert entries_of(log) == [(0, 0), (3, 2)]
        assert log.replica.epochs.end_offset_for(0, log.log_end_offset) == (0, 2)


def test_an_epoch_in_which_nothing_was_written_gives_way_to_the_next(tmp_path):
    with open_log(tmp_path, policy=Led()) as log:
        log.append([b"a"])
        log.replica.begin_epoch(3)
        log.replica.begin_epoch(5)
        assert entries_of(log) == [(0, 0), (5, 1)]


@pytest.mark.parametrize("epoch", [-1, 2**31, -(2**40)])
def test_what_is_no_epoch_is_refused(tmp_path, epoch):
    with open_log(tmp_path) as log, pytest.raises(ValueError, match=f"from 0 to 2147483647, found {epoch}"):
        log.replica.begin_epoch(epoch)


def test_a_lower_epoch_is_refused(tmp_path):
    with open_log(tmp_path, policy=Led()) as log:
        log.replica.begin_epoch(4)
        with pytest.raises(FencedLeaderEpochError, match="leader epoch 3 begins, the log has seen 4"):
            log.replica.begin_epoch(3)
        # A follower has seen the epoch of its leader's batches.
        log.replica.append_batch(at(one_batch([b"x"]), 0, leader_epoch=7), origin=Origin.REPLICATION)
        with pytest.raises(FencedLeaderEpochError, match="has seen 7"):
            log.replica.begin_epoch(6)
        log.replica.begin_epoch(7)
        assert entries_of(log) == [(7, 0)]
    with pytest.raises(LogClosedError):
        log.replica.begin_epoch(9)


def test_with_a_policy_of_its_own_no_log_begins_an_epoch_by_itself(tmp_path):
    log = open_log(tmp_path / "0", policy=Led())
    log.replica.begin_epoch(2)
    log.append([b"a"])
    copy = crashed_copy(log, tmp_path / "1")
    log.close()
    with open_log(copy, policy=Led()) as log:
        assert (log.maintenance.was_clean, log.replica.leader_epoch) == (False, 2)
        log.append([b"b"])
        assert stamped(log) == [2, 2]
        log.replica.begin_epoch(3)
        copy = crashed_copy(log, tmp_path / "2")
    # Nothing was written in it, and it is still known.
    with open_log(copy, policy=Led()) as log:
        assert log.replica.leader_epoch == 3
        with pytest.raises(FencedLeaderEpochError):
            log.replica.begin_epoch(2)
    with open_log(copy) as log:
        assert log.replica.leader_epoch >= 3


def test_readers_in_other_processes_go_on(tmp_path):
    with open_log(tmp_path, policy=Led()) as log:
        log.append([b"a"])
        with open_log(tmp_path, read_only=True) as reader:
            log.replica.begin_epoch(3)
            log.append([b"b"])
            assert values_of(reader) == [b"a", b"b"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE], ids=errno.errorcode.get)
def test_each_call_that_fails_leaves_the_old_epoch_or_fails_the_log(tmp_path, error):
    number, was_hit = 0, True
    while was_hit:
        number += 1
        files = FaultyFiles()
        place = tmp_path / str(number)
        log = open_log(place, files=files, policy=Led())
        log.append([b"a"])
        files.fail("change", number, errno=error)
        try:
            log.replica.begin_epoch(5)
            was_hit = bool(files.fired())
        except StorageFailedError:
            files.heal()
            with pytest.raises(StorageFailedError):
                log.append([b"b"])
        except OUT_OF_RESOURCES:
            files.heal()
            assert (log.replica.leader_epoch, entries_of(log)) == (0, [(0, 0)])
            log.append([b"b"])
            log.replica.begin_epoch(5)
        else:
            # A call that finds no free descriptor is made again.
            assert error == errno.EMFILE or not files.fired()
            files.heal()
            assert log.replica.leader_epoch == 5
        log.close()
        with open_log(place, policy=Led()) as log:
            ends = [(batch.base_offset, batch.leader_epoch) for batch in log.read(0).batches()]
            # No entry claims a batch of another epoch.
            for offset, epoch in ends:
                assert log.replica.epochs.epoch_at(offset) == epoch
            assert log.replica.leader_epoch in (0, 5)
    assert number > 3


def test_a_power_cut_leaves_the_epoch_once_it_has_begun():
    disk, begun = SimDisk(), [(0, 0)]
    disk.keep_moments()
    log = Log.open(PATH, {"segment_bytes": 300}, files=disk, clock=ManualClock(NOW_MS), policy=Led())
    for number in range(1, 12):
        log.append([b"%d" % number * 30], ack="synced" if number % 3 == 0 else None)
        if number % 2:
            log.replica.begin_epoch(2 * number)
            begun.append((disk.operations, 2 * number))
    log.close()
    began = disk.operations - disk.moment_count
    states = 0
    for number, moment in enumerate(disk.moments(), began + 1):
        least = max(epoch for done, epoch in begun if done <= number)
        for policy in POLICIES:
            after = moment.crash(policy, seed=number, page_bytes=64)
            with Log.open(
                PATH, {"segment_bytes": 300}, files=after, clock=ManualClock(NOW_MS), policy=Led()
            ) as log:
                assert log.replica.leader_epoch >= least, f"operation {number}, {policy}"
                for batch in log.read(0, max_bytes=1 << 20).batches():
                    assert log.replica.epochs.epoch_at(batch.base_offset) == batch.leader_epoch
                if least:
                    with pytest.raises(FencedLeaderEpochError):
                        log.replica.begin_epoch(least - 1)
            states += 1
    assert states > 200
