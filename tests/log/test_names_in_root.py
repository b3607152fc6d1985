"""Names of partitions in their root: each is on disk before a record in it is, and a sync serves all open logs."""

from __future__ import annotations

import pytest

import logstore
from logstore.errors import DiskFullError, StorageError
from logstore.log import Log
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import RECOVERY_POINTS
from logstore.log.root import NameInRoot, PartitionFacts, Root
from logstore.records import TopicPartition
from logstore.testing import ManualClock, SimDisk

pytestmark = pytest.mark.row("S20", part="power cuts")

COUNT = 40


def opened(disk: SimDisk, number: int) -> Log:
    return Log.open(f"/data/t-{number}", clock=ManualClock(), files=disk)


def lost() -> list[int]:
    """The logs of which a power cut has taken an acknowledged record, each opened after the last one's sync."""
    disk = SimDisk(1)
    logs = []
    for number in range(4):
        logs.append(opened(disk, number))
        logs[-1].append([b"one"], ack="synced")
    after = disk.crash("none")
    there = after.image("/data")
    return [number for number in range(4) if f"/data/t-{number}/00000000000000000000.log" not in there]


def test_a_log_that_is_opened_after_a_sync_of_the_root_is_synced_there_too():
    assert lost() == []


def test_planted_a_log_that_trusts_an_earlier_sync_is_found(monkeypatch):
    monkeypatch.setattr(NameInRoot, "exists_now", lambda self: setattr(self, "_number", 0))
    assert lost()


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """The directories that are synced, in this order."""
    paths: list[str] = []
    honest = Directory.sync

    def sync(self):
        honest(self)
        paths.append(self.path)

    monkeypatch.setattr(Directory, "sync", sync)
    return paths


def test_closing_many_logs_syncs_their_root_once_and_not_for_each(synced):
    disk = SimDisk(1)
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        store.create_topics([f"t{number}" for number in range(COUNT)])
    store = logstore.open("/data", files=disk, clock=ManualClock())
    for number in range(COUNT):
        store[f"t{number}"].append(b"one")
    synced.clear()
    store.close()
    # One of the names of the logs; others of the files in the root itself.
    assert synced.count("/data") < 5
    assert len({path for path in synced if path != "/data"}) == COUNT


def test_a_failed_sync_of_the_root_counts_for_no_log(synced):
    disk = SimDisk(1)
    logs = [opened(disk, number) for number in range(2)]
    for log in logs:
        log.append([b"one"])
    synced.clear()
    failing = NameInRoot.sync

    def fail(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Directory, "sync", lambda self: (_ for _ in ()).throw(StorageError("no")))
            failing(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NameInRoot, "sync", fail)
        with pytest.raises(StorageError):
            logs[0].flush()
    assert "/data" not in synced
    logs[1].flush()
    assert synced.count("/data") == 1


def test_a_withdrawal_is_on_disk_although_an_earlier_one_removed_the_files_and_failed_at_its_sync(synced):
    """Else a power cut could bring the recovery points back, after the truncation that was tried again."""
    disk = SimDisk(1)
    name = TopicPartition("t", 0)
    Directory("/data", disk).create()
    root = Root.open_for_writing(Directory("/data", disk), name, ManualClock())
    root.begin()
    assert root.checkpoint({name: PartitionFacts(5, 0, 5)}, root.checkpoint_token())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimDisk, "sync_directory", refused)
        with pytest.raises(DiskFullError):
            root.withdraw()
    assert RECOVERY_POINTS not in disk.listdir("/data")
    synced.clear()
    root.withdraw()
    assert synced == ["/data"]
    root.withdraw()
    assert synced == ["/data"], "nothing is left to remove"
    root.release(name, None)


def test_a_beginning_that_is_tried_again_syncs_what_the_failed_one_removed(synced):
    disk = SimDisk(1)
    opened(disk, 0).close()
    root = Root.open_for_writing(Directory("/data", disk), TopicPartition("t", 1), ManualClock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimDisk, "sync_directory", refused)
        with pytest.raises(DiskFullError):
            root.begin()
    assert RECOVERY_POINTS not in disk.listdir("/data")
    synced.clear()
    root.begin()
    assert synced == ["/data"]
    root.release(TopicPartition("t", 1), None)


def refused(disk: SimDisk, path: str) -> None:
    raise DiskFullError("no space", path=path)
