"""Small writes keep the GIL, unless they may block: `File.keeps_gil` says which."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from logstore._segment import Segment
from logstore.batch._encode import encode
from logstore.io._files import Files
from logstore.testing import FaultyFiles
from logstore.testing._slow_sync import SlowSyncFiles
from tests.kit.waiting import wait_for


class Writing:
    """A segment, and how many of its writes have kept the GIL."""

    def __init__(self, path: Path, files: Files) -> None:
        self.files = files
        file = files.open(str(path / f"{0:020d}.log"), create=True, writable=True)
        self.segment = Segment(file, 0, next_offset=0)

    def append(self, size: int = 100) -> bool:
        """Append a record; return whether its write has kept the GIL."""
        before = self.files.held_writes
        self.segment.append(bytearray(encode([b"x" * size])), self.segment.next_offset, 0)
        return self.files.held_writes > before

    def is_warm(self) -> bool:
        """Whether a write right after another has kept the GIL: not if the machine has stopped in between."""
        self.append()
        return self.append()


@pytest.fixture
def slow(ram_path: Path) -> Writing:
    return Writing(ram_path, SlowSyncFiles())


def test_the_first_write_releases_the_gil_since_it_may_have_to_read_its_page(slow):
    assert not slow.append()
    wait_for(slow.is_warm, 300)


def test_a_file_that_is_opened_again_begins_like_a_new_one(slow, ram_path):
    wait_for(slow.is_warm, 300)
    other = Writing(ram_path, slow.files)
    assert not other.append()


def test_a_large_write_releases_the_gil(slow):
    wait_for(slow.is_warm, 300)
    assert not slow.append(100_000)
    wait_for(slow.is_warm, 300)


def test_a_write_during_a_sync_of_its_file_releases_the_gil(ram_path):
    files = FaultyFiles()
    writing = Writing(ram_path, files)
    wait_for(writing.is_warm, 300)
    files.hold_syncs()
    syncing = threading.Thread(target=writing.segment.file.sync)
    syncing.start()
    wait_for(files.held_syncs, 300)
    assert not any(writing.append() for _ in range(20))
    files.release_syncs()
    syncing.join()
    wait_for(writing.is_warm, 300)


def slow_writes_release_the_gil(writing: Writing) -> None:
    """The first slow write is a suspicion, the second one is known to have blocked."""
    wait_for(writing.is_warm, 300)
    writing.files.write_us = 300_000
    # Only these two may have kept it; a third would be one of each hundred that a bad disk makes.
    held = sum(writing.append() for _ in range(5))
    assert held <= 2, "a disk that stalls stops every thread"
    assert not writing.append()
    # Quick again: the GIL is still released, for a hundred times as long as the disk has stalled.
    writing.files.write_us = 0
    assert not any(writing.append() for _ in range(100)), "a disk that stalls is trusted at once"


def test_a_disk_that_stalls_stops_the_process_twice_and_is_not_trusted_again_soon(slow):
    slow_writes_release_the_gil(slow)


def test_other_threads_run_while_a_write_stalls(slow):
    wait_for(slow.is_warm, 300)
    slow.files.write_us = 300_000
    for _ in range(3):
        slow.append()
    done = threading.Event()
    beside: list[int] = []

    def count() -> None:
        while not done.is_set():
            beside.append(1)
            done.wait(0.001)

    counting = threading.Thread(target=count)
    counting.start()
    wait_for(lambda: beside, 300)
    before = len(beside)
    for _ in range(3):
        slow.append()
    assert len(beside) > before
    done.set()
    counting.join()
