"""What power cuts on the simulated disk have found, each as the smallest case that shows it."""

from __future__ import annotations

import pytest

from logstore import Log
from logstore.errors import StorageFailedError
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.kit.inside import headers_of

PATH = "/data/logs/t-0"


def values(disk: SimDisk, **options) -> list:
    with Log.open(PATH, files=disk, **options) as log:
        return [record.value for record in log.scan()]


def test_the_directories_above_a_new_root_are_durable():
    """Only the partition's and the root's names were synced, and the first power cut took the whole root."""
    disk = SimDisk()
    log = Log.open(PATH, files=disk)
    log.append([b"v"], ack="synced")
    assert values(disk.crash("none")) == [b"v"]
    log.close()


def test_a_kill_while_directories_are_made_leaves_none_unsynced():
    disk = SimDisk()
    disk.keep_moments()
    Log.open(PATH, files=disk).close()
    for number, moment in enumerate(disk.moments()):
        with Log.open(PATH, files=moment) as log:
            log.append([b"v"], ack="synced")
            assert values(moment.crash("none")) == [b"v"], f"killed after operation {number}"
    assert disk.moment_count > 12


def test_the_epoch_does_not_fall_when_all_batches_are_deleted():
    """The epoch file was renamed into place without its bytes, and no batch was left that knew better."""
    disk = SimDisk()
    epochs = []
    for _ in range(4):
        log = Log.open(PATH, files=disk)
        epochs.append(log.replica.leader_epoch)
        end = log.append([b"v"], ack="synced").last_offset + 1
        log.delete_before(end)
        after = [disk.crash(policy, seed=seed) for policy in ("none", "zeroed", "lost") for seed in range(30)]
        for found in after:
            with Log.open(PATH, files=found) as again:
                assert again.log_start_offset == end
                assert again.replica.leader_epoch > epochs[-1]
        disk = disk.crash("lost")
        log.close()
    assert epochs == [0, 1, 2, 3]


def test_the_epoch_of_an_append_that_rolls_is_known_below_the_recovery_point():
    """One append over several segments: a roll in it raised the recovery point, and no scan saw the epoch."""
    disk = SimDisk()
    log = Log.open(PATH, files=disk, segment_bytes=400)
    log.append([b"v"], ack="synced")
    disk = disk.crash()
    log.close()
    log = Log.open(PATH, files=disk, segment_bytes=400)
    assert log.replica.leader_epoch == 1
    disk.keep_moments()
    log.append([b"v" * 20] * 60)
    for number, moment in enumerate(disk.moments()):
        for seed in range(8):
            after = moment.crash("zeroed", seed=seed)
            with Log.open(PATH, files=after, segment_bytes=400) as again:
                epochs = [header[5] for header in headers_of(again)]
                assert again.replica.leader_epoch > max(epochs), f"after operation {number}, seed {seed}"
                assert again.replica.epochs.epoch_at(again.log_end_offset - 1) == epochs[-1]
    log.close()


def test_a_recovery_point_inside_a_batch_does_not_cut_what_was_synced_behind_it():
    """A cut was under way at a log start inside a batch; the next opens took the batch for a gap, or damage."""
    disk = SimDisk()
    log = Log.open(PATH, files=disk, segment_bytes=600)
    log.append([b"v" * 9] * 20, ack="synced")
    log.delete_before(8)
    log.maintenance.roll()
    log.append([b"w"] * 3, ack="synced")
    disk.keep_moments()
    log.replica.truncate_to(10)
    for number, moment in enumerate(disk.moments()):
        for policy in ("none", "all"):
            found = moment.crash(policy)
            with Log.open(PATH, files=found, segment_bytes=600) as again:
                assert again.log_start_offset == 8
                whole = [record.value for record in again.scan()]
                for value in (b"x" * 400, b"y"):
                    again.append([value], ack="synced")
                    whole.append(value)
                    assert values(found.crash("none")) == whole, f"operation {number}, {policy}"
    log.close()


@pytest.mark.parametrize("settings", [{"tail": "memory"}, {"visible_after": "flush"}])
def test_what_was_flushed_is_shown_by_the_first_open_after_a_power_cut(settings):
    """The recovery point may lag behind what was synced, and what is above it was hidden until the next flush."""
    disk, flushed = SimDisk(), [(0, 0)]
    disk.keep_moments()
    log = Log.open(PATH, files=disk, **settings)
    for n in range(12):
        log.append([b"%d" % n])
        if n % 3 == 2:
            log.flush()
            flushed.append((disk.operations, n + 1))
    late = 0
    for number, moment in enumerate(disk.moments(), start=1):
        count = max(count for at, count in flushed if at <= number)
        for policy in POLICIES:
            after = moment.crash(policy, seed=number, page_bytes=64)
            with Log.open(PATH, files=after, **settings) as again:
                found = [record.value for record in again.scan()]
                assert found[:count] == [b"%d" % n for n in range(count)], f"operation {number}, {policy}"
                assert again.high_watermark == again.synced_end == again.log_end_offset
                late += again.metrics().recovered_bytes > 0
            with Log.open(PATH, files=after.crash("none"), **settings) as once_more:
                assert [record.value for record in once_more.scan()] == found
    assert late > 50
    log.close()


def test_a_sync_that_fails_while_a_log_is_opened_is_said_and_gives_the_root_back():
    disk = SimDisk()
    log = Log.open(PATH, files=disk, visible_after="flush")
    log.append([b"a"])
    after = disk.crash("all")
    log.close()
    after.fail("fdatasync", errno=5, times=1)
    with pytest.raises(StorageFailedError, match="sync"):
        Log.open(PATH, files=after, visible_after="flush")
    with Log.open(PATH, files=after, visible_after="flush") as again:
        assert [record.value for record in again.scan()] in ([b"a"], [])
