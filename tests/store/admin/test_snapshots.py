"""A copy of a store in use: what it is a copy of, what it costs, and that nothing half made opens."""

from __future__ import annotations

import errno
import os
import random
import threading

import pytest

import logstore
from logstore import Log
from logstore.errors import (
    CheckpointCopyError,
    CorruptRecordError,
    DiskFullError,
    NotALogError,
    StorageError,
    TooManyFilesError,
)
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.maintenance import LogMaintenance
from logstore.log.tools import checkpoint_copy
from logstore.records import TopicPartition
from logstore.store.admin import snapshots
from logstore.testing import ManualClock, SimDisk
from logstore.testing._faults import FaultyFiles
from logstore.testing.simdisk import POLICIES
from tests.crash.planted import must_break
from tests.crash.store_workload import TopicView, check
from tests.kit.inside import failure_of

SETTINGS = {"segment.bytes": 600, "index.interval.bytes": 100}


def open_store(path="/data", files=None, **options):
    return logstore.open(path, SETTINGS, clock=ManualClock(), files=files or SimDisk(seed=1), **options)


def fill(topic, count, *, partition=0, first=0):
    for number in range(first, first + count):
        topic.append(b"record %d" % number, b"key %d" % number, partition=partition)


def contents(store):
    return {
        (name, log.name.partition): [(record.offset, record.key, record.value) for record in log.scan()]
        for name in store.topics()
        for log in store[name].partitions
    }


def make(store):
    flights = store.create_topic("flights", 2, {"retention.ms": -1})
    fill(flights, 40)
    fill(flights, 3, partition=1)
    flights.delete_records({0: 11})
    store.create_topic("empty")
    store.commit_offsets("auditors", {TopicPartition("flights", 0): 30})
    return flights


def test_a_snapshot_opens_as_the_store_that_it_was(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        before = contents(store)
        made = store.snapshot(tmp_path / "backup" / "monday", verify=True)
        assert (made.topics, made.partitions) == (3, 4)
        assert made.linked_bytes > made.copied_bytes > 0
        assert made.verified_bytes > 1000
        fill(store["flights"], 10, first=40)
        ids = {name: store[name].id for name in store.topics()}
        cluster = store._host.cluster_id
    for read_only in (True, False):
        with logstore.open(made.path, read_only=read_only) as copy:
            assert contents(copy) == before
            assert {name: copy[name].id for name in copy.topics()} == ids
            assert copy._host.cluster_id == cluster
            assert copy["flights"][0].log_start_offset == 11
            assert copy["flights"].config.retention_ms == -1
            name = TopicPartition("flights", 0)
            assert copy.committed("auditors", [name])[name].offset == 30
    with logstore.open(made.path) as copy:
        assert copy["flights"].append(b"one", partition=0).offset == 40


def test_links_take_no_space_and_outlive_what_the_store_deletes(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        flights = make(store)
        sealed = sorted((tmp_path / "data" / "flights-0").glob("*.log"))[0]
        store.snapshot(tmp_path / "copy")
        twin = tmp_path / "copy" / "flights-0" / sealed.name
        assert twin.stat().st_ino == sealed.stat().st_ino
        flights.delete_records({0: -1})
        store.delete_topic("empty")
        assert not sealed.exists()
    with logstore.open(tmp_path / "copy") as copy:
        assert len(list(copy["flights"][0].scan())) == 29
        assert "empty" in copy


def test_without_links_every_byte_is_copied(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        made = store.snapshot(tmp_path / "copy", link=False)
        assert made.linked_bytes == 0
        for path in (tmp_path / "copy").rglob("*.*"):
            assert path.stat().st_nlink == 1


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_on_another_file_system_files_are_copied(tmp_path, code):
    files = FaultyFiles()
    with open_store(tmp_path / "data", files) as store:
        make(store)
        before = contents(store)
        files.fail("link", errno=code, times=-1)
        made = store.snapshot(tmp_path / "copy", verify=True)
        assert made.linked_bytes == 0
    with logstore.open(tmp_path / "copy") as copy:
        assert contents(copy) == before


def test_what_is_written_after_it_is_in_neither_links_nor_copy(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        flights = make(store)
        before = contents(store)
        store.snapshot(tmp_path / "copy")
        fill(flights, 200, first=40)
        store.housekeep()
    with logstore.open(tmp_path / "copy") as copy:
        assert contents(copy) == before
        # And the other way round.
        fill(copy["flights"], 5, first=900)
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        assert store["flights"][0].log_end_offset == 240


def test_a_compaction_later_leaves_the_copy_as_it_was(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        latest = store.create_topic("latest", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01})
        for number in range(60):
            latest.append(b"%d" % number, b"key")
        before = contents(store)
        store.snapshot(tmp_path / "copy")
        store.housekeep()
        assert len(contents(store)["latest", 0]) < 40
    with logstore.open(tmp_path / "copy", read_only=True) as copy:
        assert contents(copy) == before


def test_committed_offsets_never_point_behind_the_records_of_the_copy(tmp_path):
    stop = threading.Event()
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        topic = store.create_topic("flights")
        name = TopicPartition("flights", 0)
        topic.append(b"first")
        store.commit_offsets("readers", {name: 1})

        def write_and_commit():
            while not stop.is_set():
                at = topic.append(b"one").offset
                store.commit_offsets("readers", {name: at + 1})

        worker = threading.Thread(target=write_and_commit)
        worker.start()
        try:
            for number in range(8):
                store.snapshot(tmp_path / f"copy-{number}")
        finally:
            stop.set()
            worker.join()
    for number in range(8):
        with logstore.open(tmp_path / f"copy-{number}") as copy:
            log = copy["flights"][0]
            assert copy.committed("readers", [name])[name].offset <= log.log_end_offset
            assert [record.offset for record in log.scan()] == list(range(log.log_end_offset))


def test_open_transactions_and_aborted_ones_are_as_they_were(tmp_path):
    from logstore.log import Marker, ProducerStamp

    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        log = store.create_topic("flights")[0]
        for number in range(12):
            log.append([b"%d" % number], producer=ProducerStamp(7, 0, number, transactional=True))
            if number == 5:
                log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        store.snapshot(tmp_path / "copy", verify=True)
        stable = log.last_stable_offset
    with logstore.open(tmp_path / "copy") as copy:
        log = copy["flights"][0]
        assert log.last_stable_offset == stable
        assert list(log.scan(isolation="read_committed")) == []
        log.append([b"12"], producer=ProducerStamp(7, 0, 12, transactional=True))
        log.replica.append_control(Marker.COMMIT, producer_id=7, producer_epoch=0)
        assert len(list(log.scan(isolation="read_committed"))) == 7


# -- bad input


def test_a_place_that_is_taken_or_inside_the_store_is_refused(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        store.snapshot(tmp_path / "copy")
        with pytest.raises(NotALogError, match="the path exists already"):
            store.snapshot(tmp_path / "copy")
        with pytest.raises(NotALogError, match="inside its store"):
            store.snapshot(tmp_path / "data" / "copy")
        (tmp_path / "mine.partial").mkdir()
        (tmp_path / "mine.partial" / "photo.jpg").write_bytes(b"")
        with pytest.raises(NotALogError, match="no unfinished snapshot"):
            store.snapshot(tmp_path / "mine")
        assert (tmp_path / "mine.partial" / "photo.jpg").exists()


def test_damage_is_found_by_verifying_and_nothing_is_left(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        sealed = sorted((tmp_path / "data" / "flights-0").glob("*.log"))[0]
        with sealed.open("r+b") as file:
            file.seek(80)
            file.write(b"\xff")
        with pytest.raises(CorruptRecordError, match=r"flights-0.*damaged"):
            store.snapshot(tmp_path / "copy", verify=True)
    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_an_unfinished_snapshot_does_not_open(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        store.snapshot(tmp_path / "copy")
    (tmp_path / "copy" / files.INCOMPLETE).write_bytes(b"")
    for read_only in (True, False):
        with pytest.raises(NotALogError, match="unfinished snapshot"):
            logstore.open(tmp_path / "copy", read_only=read_only)


def test_nothing_of_an_unfinished_snapshot_opens_whatever_is_asked_for(tmp_path):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        store.snapshot(tmp_path / "copy")
    (tmp_path / "copy" / files.INCOMPLETE).write_bytes(b"")
    empty = tmp_path / "empty.partial"
    empty.mkdir()
    calls = [
        lambda: logstore.open(empty),
        lambda: logstore.open(empty, read_only=True),
        lambda: Log.open(empty / "t-0"),
        lambda: logstore.adopt_kafka_directory(tmp_path / "copy"),
        lambda: logstore.rebuild(tmp_path / "copy"),
        lambda: Log.open(tmp_path / "copy" / "flights-0"),
        lambda: Log.open(tmp_path / "copy" / "flights-0", read_only=True),
        lambda: Log.open(tmp_path / "copy" / "other-0"),
    ]
    for call in calls:
        with pytest.raises(NotALogError, match="unfinished snapshot"):
            call()
    assert os.listdir(empty) == []


def test_a_store_that_is_in_the_way_of_a_snapshot_is_not_removed(tmp_path):
    """Also one of the same name as an unfinished snapshot, or an unfinished snapshot of another store."""
    with open_store(tmp_path / "other", logstore.log.log.LIBC) as other:
        make(other)
        other.snapshot(tmp_path / "mine")
    os.rename(tmp_path / "mine", tmp_path / "copy.partial")
    with open_store(tmp_path / "copy.partial", logstore.log.log.LIBC) as store:
        before = contents(store)
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        with pytest.raises(NotALogError, match="the path is taken"):
            store.snapshot(tmp_path / "copy")
        with open_store(tmp_path / "copy.partial", logstore.log.log.LIBC) as kept:
            assert contents(kept) == before
        (tmp_path / "copy.partial" / files.INCOMPLETE).write_bytes(snapshots._mark("another"))
        with pytest.raises(NotALogError, match="the path is taken"):
            store.snapshot(tmp_path / "copy")
        (tmp_path / "copy.partial" / files.INCOMPLETE).write_bytes(snapshots._mark(store._host.cluster_id))
        store.snapshot(tmp_path / "copy")
    assert not (tmp_path / "copy.partial").exists()


def test_a_directory_that_comes_in_the_way_while_a_snapshot_is_made_is_not_removed(tmp_path, monkeypatch):
    """Another store's snapshot, say: removing it would destroy a backup that is whole."""
    really = snapshots._build

    def build(*args, **settings):
        made = really(*args, **settings)
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "photo.jpg").write_bytes(b"kept")
        return made

    monkeypatch.setattr(snapshots, "_build", build)
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        make(store)
        with pytest.raises(StorageError):
            store.snapshot(tmp_path / "copy")
    assert (tmp_path / "copy" / "photo.jpg").read_bytes() == b"kept"
    assert not (tmp_path / "copy.partial").exists()


def test_a_snapshot_that_cannot_be_finished_nor_removed_keeps_its_mark(tmp_path):
    """Its last directory sync finds no descriptor, nor does its removal; the same call works again later."""
    files_ = FaultyFiles()
    with open_store(tmp_path / "data", files_) as store:
        make(store)
        store.snapshot(tmp_path / "first")  # the logs are open and flushed from here on
        last = files_.counts()["fsync_dir"]
        store.snapshot(tmp_path / "second")
        last = files_.counts()["fsync_dir"] - last
        files_.fail("fsync_dir", last, errno.EMFILE, times=-1)
        with pytest.raises(TooManyFilesError):
            store.snapshot(tmp_path / "copy")
        with pytest.raises(NotALogError, match="unfinished snapshot"):
            logstore.open(tmp_path / "copy", read_only=True)
        files_.heal()
        store.snapshot(tmp_path / "copy")
        with open_store(tmp_path / "copy", logstore.log.log.LIBC) as copy:
            assert contents(copy) == contents(store)


def test_deletions_beside_it_make_it_begin_again(tmp_path, monkeypatch):
    with open_store(tmp_path / "data", logstore.log.log.LIBC) as store:
        flights = make(store)
        offsets = iter((20, 25))
        honest = snapshots._copy_logs

        def deleting(logs, partial, **options):
            copies = LogMaintenance.checkpoint

            def checkpoint(face):
                taken = copies(face)
                if face.log.name == TopicPartition("flights", 0) and (offset := next(offsets, None)) is not None:
                    flights.delete_records({0: offset})
                return taken

            with monkeypatch.context() as patch:
                patch.setattr(LogMaintenance, "checkpoint", checkpoint)
                return honest(logs, partial, **options)

        monkeypatch.setattr(snapshots, "_copy_logs", deleting)
        store.snapshot(tmp_path / "copy", verify=True)
        before = contents(store)
        offsets = iter((39,))
        monkeypatch.setattr(snapshots, "_ATTEMPTS", 1)
        with pytest.raises(CheckpointCopyError):
            store.snapshot(tmp_path / "again")
    assert sorted(os.listdir(tmp_path)) == ["copy", "data"]
    with logstore.open(tmp_path / "copy") as copy:
        assert contents(copy) == before


# -- power cuts and faults


def snapshot_workload(disk):
    """A store, a snapshot of it, and a few records more; views of what each must hold."""
    with logstore.open("/data", {**SETTINGS, "logstore.ack": "synced"}, files=disk, clock=ManualClock()) as store:
        flights = store.create_topic("flights", 2)
        fill(flights, 12)
        fill(flights, 2, partition=1)
        view = TopicView(flights.id, 2, {})
        view.records = {
            0: [b"record %d" % number for number in range(12)],
            1: [b"record %d" % number for number in range(2)],
        }
        disk.keep_moments()
        begun = disk.moment_count
        store.snapshot("/backup/copy")
        done = disk.moment_count
        fill(flights, 12, first=12)
        view.records[0] += [b"record %d" % number for number in range(12, 24)]
    return {"flights": view}, begun, done


def check_copy(disk, *, must_be):
    """A copy that is there is whole; another opens for no reader and no writer, nor as a new store."""
    for name in ("/backup/copy", "/backup/copy.partial"):
        place = Directory(name, disk)
        if not place.exists() or (name == "/backup/copy" and files.INCOMPLETE not in place.names()):
            continue
        assert not must_be, "the snapshot is not finished after it was promised"
        for call in (
            lambda at: logstore.open(at, files=disk, clock=ManualClock()),
            lambda at: logstore.open(at, files=disk, clock=ManualClock(), read_only=True),
            lambda at: Log.open(at + "/flights-0", files=disk),
        ):
            with pytest.raises(NotALogError, match="unfinished snapshot"):
                call(name)
        # And the next one takes its place.
        again = disk.kill()
        with open_store("/data", again) as store:
            store.snapshot("/backup/copy")
        assert again.listdir("/backup") == ["copy"]
        return
    if not Directory("/backup/copy", disk).exists():
        assert not must_be, "the snapshot is gone after it was promised"
        return
    with logstore.open("/backup/copy", files=disk, clock=ManualClock()) as copy:
        assert [record.value for record in copy["flights"][0].scan()] == [b"record %d" % n for n in range(12)]
        assert [record.value for record in copy["flights"][1].scan()] == [b"record %d" % n for n in range(2)]
        assert copy["flights"].append(b"later", partition=0).offset == 12


def cut_everywhere(seed=1):
    disk = SimDisk(seed)
    views, _, done = snapshot_workload(disk)
    rng = random.Random(seed)
    seen = set()
    for at, moment in enumerate(disk.moments()):
        for policy in POLICIES if moment.pending else ("none",):
            after = moment.crash(policy, seed=rng.getrandbits(63), page_bytes=512)
            if after.state_hash() in seen:
                continue
            seen.add(after.state_hash())
            check_copy(after, must_be=at >= done - 1)
            # Whatever is written to the copy, the store is as it was, or has gone on.
            before = {"flights": TopicView(views["flights"].id, 2, {})}
            before["flights"].records = {0: views["flights"].records[0][:12], 1: views["flights"].records[1]}
            check(after, before, views, write_on=False)
    return len(seen)


@pytest.mark.crash
@pytest.mark.row("S20", part="recovery, step by step")
def test_a_power_cut_leaves_the_whole_snapshot_or_none():
    assert cut_everywhere() > 100


@pytest.mark.crash
def test_planted_a_snapshot_renamed_before_it_is_whole_is_found(monkeypatch):
    honest = Directory.replace
    monkeypatch.setattr(
        Directory,
        "replace",
        lambda self, name, data, *, durable, whole=False: honest(
            self, name, data, durable=durable and "partial" not in self.path
        ),
    )
    monkeypatch.setattr(Directory, "sync", _syncing_outside("partial", Directory.sync))
    must_break("no unfinished snapshot", cut_everywhere)


def _syncing_outside(part, honest):
    return lambda self: None if part in self.path else honest(self)


@pytest.mark.crash
def test_planted_a_copied_tail_that_is_not_synced_is_found(monkeypatch):

    def unsynced(file, target, name, start, end):
        made = target.open(name, create=True, writable=True, truncate=True, hint=True)
        made.write(file.read(start, end - start), 0)
        made.close()
        return end - start

    monkeypatch.setattr(checkpoint_copy, "copy_bytes", unsynced)
    must_break(r"b'record 0'", cut_everywhere)


@pytest.mark.crash
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_every_operation_of_it_fails_in_turn_and_the_store_goes_on(code):
    whole = SimDisk(1)
    with open_store(files=whole) as store:
        make(store)
        before = contents(store)
        count = whole.changes
        store.snapshot("/copy")
        count = whole.changes - count
    refused = 0
    for nth in range(1, count + 1):
        disk = SimDisk(1)
        with open_store(files=disk) as store:
            make(store)
            disk.fail("change", nth, errno=code)
            try:
                store.snapshot("/copy")
            except (StorageError, DiskFullError):
                refused += 1
                disk.heal()
                assert not Directory("/copy", disk).exists()
                assert contents(store) == before
                if not any(failure_of(log) for log in store._host.partitions.opened()):
                    store.snapshot("/copy")
            disk.heal()
            if Directory("/copy", disk).exists():
                with open_store("/copy", disk.kill()) as copy:
                    assert contents(copy) == before
    assert refused > count // 2
