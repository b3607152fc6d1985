"""Where a log starts is known though `logstore.recovery` is lost."""

from __future__ import annotations

import errno

import pytest

from logstore import Log
from logstore.errors import DamagedLogError, DiskFullError
from logstore.log.directory.files import Directory
from logstore.log.durability import Durability
from logstore.log.formats import checkpoints
from logstore.log.recovery import recovery
from logstore.testing import SimDisk
from logstore.testing._faults import FaultyFiles
from logstore.testing.simdisk import POLICIES
from tests.log.logs import crashed_copy, open_log

pytestmark = pytest.mark.row("S20", part="recovery, step by step")

PATH = "/data/t-0"
SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 100}


def lose(path, how):
    path.unlink() if how == "deleted" else path.write_bytes(b"")


@pytest.mark.parametrize("how", ["deleted", "emptied"])
@pytest.mark.parametrize("start", [3, 25])
def test_deleted_records_stay_deleted_though_a_killed_log_loses_its_recovery_file(tmp_path, how, start):
    with open_log(tmp_path / "log", **SETTINGS) as log:
        for n in range(30):
            log.append([b"%02d" % n * 20], ack="synced")
        log.delete_before(start)
        root = crashed_copy(log, tmp_path / "killed")
    for name in (checkpoints.RECOVERY, checkpoints.PUBLISHED):
        lose(root / "t-0" / name, how)
    with open_log(root, **SETTINGS, read_only=True) as log:
        assert log.log_start_offset == start
    with open_log(root, **SETTINGS) as log:
        assert [record.offset for record in log] == list(range(start, 30))


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_first_segment_that_is_missing_is_a_loss_without_the_recovery_file_too(tmp_path, how):
    with open_log(tmp_path, **SETTINGS) as log:
        for n in range(30):
            log.append([b"%02d" % n * 20])
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    lose(tmp_path / "t-0" / checkpoints.RECOVERY, how)
    with pytest.raises(DamagedLogError, match="the log starts at offset 0, but its first segment"):
        open_log(tmp_path, **SETTINGS)


@pytest.mark.parametrize("lost", [(checkpoints.PUBLISHED,), (checkpoints.PUBLISHED, checkpoints.RECOVERY)])
@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_reader_without_the_published_end_does_not_begin_at_the_segment_behind_the_loss(tmp_path, how, lost):
    with open_log(tmp_path, **SETTINGS) as log:
        for n in range(30):
            log.append([b"%02d" % n * 20])
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    for name in lost:
        lose(tmp_path / "t-0" / name, how)
    with pytest.raises(DamagedLogError, match="the log starts at offset 0, but its first segment"):
        open_log(tmp_path, **SETTINGS, read_only=True)


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_log_without_its_only_segment_and_its_recovery_file_does_not_begin_again_at_0(tmp_path, how):
    with open_log(tmp_path) as log:
        log.append([b"value"])
    (tmp_path / "t-0" / "00000000000000000000.log").unlink()
    lose(tmp_path / "t-0" / checkpoints.RECOVERY, how)
    with pytest.raises(DamagedLogError, match="the log ended at offset 1, but there is no segment"):
        open_log(tmp_path)


def workload(disk: SimDisk, starts: list[tuple[int, int]]) -> None:
    """Deletions, each noted with the operation at which it was acknowledged."""
    log = Log.open(PATH, files=disk, **SETTINGS)
    for n in range(30):
        log.append([b"%02d" % n * 20])
        if n % 6 == 5:
            start = log.delete_before(n - 2)
            starts.append((disk.operations, start))
    log.close()


def cut_everywhere() -> int:
    """Cut the power after each operation of a life, and lose the recovery file too; how many states there were."""
    disk, starts = SimDisk(), [(0, 0)]
    disk.keep_moments()
    workload(disk, starts)
    began = disk.operations - disk.moment_count
    states = 0
    for number, moment in enumerate(disk.moments(), began + 1):
        acknowledged = max(start for at, start in starts if at <= number)
        for policy in POLICIES:
            after = moment.crash(policy, seed=number, page_bytes=64)
            directory = Directory(PATH, after)
            if not directory.exists() or recovery.read_point(directory) is None:
                continue
            directory.remove(checkpoints.RECOVERY)
            directory.remove(checkpoints.PUBLISHED)
            directory.open(checkpoints.PUBLISHED, create=True, writable=True).close()  # still a log of ours
            try:
                log = Log.open(PATH, files=after, **SETTINGS)
            except DamagedLogError:
                continue  # a torn tail cannot be told from damage without a recovery point
            assert log.log_start_offset >= acknowledged, f"operation {number}, {policy}"
            log.close()
            states += 1
    return states


def test_no_power_cut_leaves_a_start_below_an_acknowledged_deletion_in_the_second_place():
    assert cut_everywhere() > 100


def test_planted_a_second_place_that_is_not_synced_is_found(monkeypatch):
    monkeypatch.setattr(Durability, "note_start", lambda part, durable=True: honest(part, durable=False))
    with pytest.raises(AssertionError, match="operation"):
        cut_everywhere()


honest = Durability.note_start


def test_a_full_disk_keeps_no_log_from_deleting_though_the_second_place_finds_no_space(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, **SETTINGS, files=files) as log:
        for n in range(30):
            log.append([b"%02d" % n * 20])
        log.flush()
        files.fail("pwrite", path_contains=checkpoints.START, errno=errno.ENOSPC, times=-1)
        assert log.delete_before(20) == 20
        assert log.log_start_offset == 20
        assert not (tmp_path / "t-0" / checkpoints.START).exists()


def test_a_deletion_that_one_slot_tells_of_takes_place_though_the_other_finds_no_space(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path / "log", files=files, **SETTINGS) as log:
        for n in range(30):
            log.append([b"%02d" % n * 20], ack="synced")
        files.fail("pwrite", 2, errno.ENOSPC, path_contains=checkpoints.RECOVERY)
        assert log.delete_before(25) == 25
        root = crashed_copy(log, tmp_path / "killed")
    with open_log(root, **SETTINGS) as log:
        assert log.log_start_offset == 25
        assert [record.offset for record in log.scan()] == list(range(25, 30))


def test_a_deletion_that_finds_no_space_for_any_slot_has_not_taken_place(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path / "log", files=files, **SETTINGS) as log:
        for n in range(30):
            log.append([b"%02d" % n * 20], ack="synced")
        files.fail("pwrite", 1, errno.ENOSPC, path_contains=checkpoints.RECOVERY)
        with pytest.raises(DiskFullError):
            log.delete_before(25)
        root = crashed_copy(log, tmp_path / "killed")
    with open_log(root, **SETTINGS) as log:
        assert log.log_start_offset == 0
