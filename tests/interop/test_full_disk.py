"""A file system of a few MB runs full under a log, and has room again: the kernel's own answers.

ext4 by its allocation groups and delayed allocation, with large and small blocks, tmpfs, and btrfs, which copies on
write. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path

import pytest

import logstore
from logstore import Log
from logstore.errors import DiskFullError, StorageError
from tests.crash.histories import places
from tests.interop.disks import make, mounted
from tests.kit.inside import published_file_of

pytestmark = [pytest.mark.interop, pytest.mark.row("S20", part="failing disk")]

SETTINGS = {"segment_bytes": 300_000}
BALLAST_BYTES = 1_500_000


class Disk:
    """A small file system that can be taken away and brought back, with room kept by a ballast file."""

    def __init__(self, kind: str, folder: Path, stack: contextlib.ExitStack) -> None:
        self.at = folder / "disk"
        self.stack = stack
        self.is_kept = kind != "tmpfs"
        self.source: tuple = ("none", self.at, "-t", "tmpfs", "-o", "size=6m")
        if self.is_kept:
            options = ("-b", "1024") if kind == "ext4, small blocks" else ()
            image = make(folder / "image", "ext4", 8, "-F", "-m", "0", *options)
            self.source = (image, self.at, "-o", "loop")
        self.stack.enter_context(mounted(*self.source))
        self.path = self.at / "logs" / "t-0"
        self.ballast = self.at / "ballast"

    def load(self) -> None:
        self.ballast.write_bytes(bytes(BALLAST_BYTES))

    def make_space(self) -> None:
        self.ballast.unlink()

    def remount(self) -> None:
        """What is on the disk alone: the page cache goes with the mount."""
        if self.is_kept:
            self.stack.close()
            self.stack.enter_context(mounted(*self.source))


@pytest.fixture(params=["ext4", "ext4, small blocks", "tmpfs"])
def disk(request, tmp_path):
    with contextlib.ExitStack() as stack:
        made = Disk(request.param, tmp_path, stack)
        made.load()
        yield made


def fill(log, rng, sent, **append) -> DiskFullError:
    """Append until there is no room; every error is the same one, and costs nothing."""
    while True:
        values = [rng.randbytes(rng.randrange(200, 3_000)) for _ in range(3)]
        try:
            assert log.append(values, **append).first_offset == len(sent)
        except DiskFullError as error:
            return error
        sent += values


def check(log, sent) -> None:
    assert log.log_end_offset == len(sent)
    assert [record.value for record in log.scan()] == sent


def check_files(path: Path) -> None:
    """Every segment ends with its last whole batch."""
    image = {str(file): file.read_bytes() for file in path.glob("*.log")}
    ends = {}
    for place in places(image):
        ends[place.name] = place.position + place.size
    assert {name: len(data) for name, data in image.items() if data} == ends


@pytest.mark.parametrize("ack", ["written", "synced"])
def test_a_disk_that_runs_full_costs_no_record_and_the_log_goes_on_when_there_is_space(disk, ack):
    rng, sent = random.Random(1), []
    with Log.open(disk.path, **SETTINGS) as log:
        for _ in range(3):
            error = fill(log, rng, sent, ack=ack)
            assert error.retriable
            assert error.__cause__ is not None
            check(log, sent)
            check_files(disk.path)
        assert len(sent) > 500
        disk.make_space()
        before = len(sent)
        fill(log, rng, sent, ack=ack)
        assert len(sent) > before
        check(log, sent)
        log.flush()
    disk.remount()
    with Log.open(disk.path, **SETTINGS) as log:
        check(log, sent)
        assert log.maintenance.was_clean or disk.is_kept


def test_on_a_full_disk_a_log_opens_reads_and_makes_space_by_deleting(disk):
    rng, sent = random.Random(2), []
    with Log.open(disk.path, **SETTINGS) as log:
        fill(log, rng, sent)
        # To the last block, past what a batch leaves over.
        with contextlib.suppress(OSError), (disk.at / "rest").open("wb") as rest:
            for size in (4_096, 64):
                with contextlib.suppress(OSError):
                    while rest.write(bytes(size)):
                        rest.flush()
        half = len(sent) // 2
        with pytest.raises(DiskFullError):
            log.append([rng.randbytes(100_000)])
        assert log.delete_before(half) == half
        (disk.at / "rest").unlink()
        assert log.append([b"room"], ack="synced").first_offset == len(sent)
        sent.append(b"room")
    disk.remount()
    with Log.open(disk.path, read_only=True) as reader:
        assert [record.value for record in reader] == sent[half:]
    with Log.open(disk.path, **SETTINGS) as log:
        assert [record.value for record in log] == sent[half:]


def test_a_log_that_was_killed_on_a_full_disk_opens_there_to_free_space(disk):
    rng, sent = random.Random(3), []
    log = Log.open(disk.path, **SETTINGS)
    fill(log, rng, sent)
    del log  # as a kill would leave it
    with Log.open(disk.path, read_only=True) as reader:
        check(reader, sent)
    try:
        log = Log.open(disk.path, **SETTINGS)
    except StorageError as error:
        assert isinstance(error, DiskFullError)
        disk.make_space()
        log = Log.open(disk.path, **SETTINGS)
    else:
        disk.make_space()
    with log:
        check(log, sent)
        fill(log, rng, sent)
    disk.remount()
    with Log.open(disk.path, **SETTINGS) as log:
        check(log, sent)


def test_a_memory_tail_waits_for_space(disk):
    rng, sent = random.Random(4), []
    with Log.open(disk.path, {"logstore.tail": "memory", "logstore.tail.bytes": 100_000}, **SETTINGS) as log:
        fill(log, rng, sent)
        assert log.log_end_offset == len(sent)
        with pytest.raises(DiskFullError):
            log.flush()
        disk.make_space()
        log.flush()
        check(log, sent)
    disk.remount()
    with Log.open(disk.path, **SETTINGS) as log:
        check(log, sent)


def stored_again_and_again(published, end) -> None:
    """Publish after the kernel has written the page back, so that each store needs a new block."""
    for _ in range(200):
        os.sync()
        published.put(0, 0, end, end, end)


def test_a_full_disk_that_copies_on_write_ends_no_process(tmp_path):
    """Once the kernel has written the shared page back, the next store needs a new block, and gets SIGBUS."""
    rng, sent = random.Random(5), []
    image = make(tmp_path / "image", "btrfs", 128)
    with mounted(image, tmp_path / "disk", "-o", "loop") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(rng.randbytes(BALLAST_BYTES))
        with Log.open(disk / "logs" / "t-0", segment_bytes=4_000_000) as log:
            published = published_file_of(log)
            for n in range(10):
                sent.append(b"%d" % n)
                log.append(sent[-1:])
            assert published.is_shared
            fill(log, rng, sent)
            with contextlib.suppress(OSError), (disk / "rest").open("wb", buffering=0) as rest:
                while rest.write(rng.randbytes(4_096)):
                    pass
            end = log.log_end_offset
            # The write that follows reports what the store could not.
            with pytest.raises(DiskFullError):
                stored_again_and_again(published, end)
            assert not published.is_shared
            check(log, sent)
            (disk / "rest").unlink()
            ballast.unlink()
            os.sync()  # btrfs has the space once the removal is on disk
            sent.append(b"space")
            log.append([b"space"])
            with Log.open(log.path, read_only=True) as reader:
                check(reader, sent)


# -- a whole store on it


@pytest.mark.row("O14")
@pytest.mark.row("S19")
def test_a_store_with_a_reserve_never_fills_the_disk(disk):
    """Old segments are deleted before there is no room: no writer is refused, and the reserve stays free."""
    rng = random.Random(7)
    reserve = 600_000
    with logstore.open(disk.at / "store", segment_bytes=200_000, disk_reserve=reserve) as store:
        topic = store.create_topic("flights", 2)
        sent = 0
        for number in range(4_000):
            sent += topic.append(rng.randbytes(4_000), partition=number % 2).offset >= 0
        assert sent == 4_000
        for log in topic.partitions:
            assert log.log_start_offset > 0
            assert [record.offset for record in log.scan()] == list(range(log.log_start_offset, 2_000))
        store.flush()
        # Indexes of new segments are counted when they are next looked at.
        assert shutil.disk_usage(disk.at).free > reserve // 2


@pytest.mark.row("O14")
@pytest.mark.row("R4")
def test_a_store_that_keeps_for_ever_refuses_and_goes_on_when_there_is_space(disk):
    rng = random.Random(8)
    with logstore.open(disk.at / "store", segment_bytes=200_000, retention_ms=-1) as store:
        topic = store.create_topic("kept")
        sent = []
        fill(topic[0], rng, sent)
        assert [record.value for record in topic.scan()] == sent
        with pytest.raises(DiskFullError):
            store.create_topic("another", 50)
        assert store.topics() == ["kept"]
        disk.make_space()
        for _ in range(50):
            sent.append(rng.randbytes(3_000))
            topic.append(sent[-1])
        store.snapshot(disk.at / "copy", verify=True)
    with logstore.open(disk.at / "copy", read_only=True) as copy:
        assert [record.value for record in copy["kept"].scan()] == sent
