"""The table that fails on order does what its orders say, and nothing else."""

from __future__ import annotations

import errno
import threading
import time

import pytest

from logstore.errors import DiskFullError, StorageError
from logstore.testing._faults import CHANGES, FaultyFiles


@pytest.fixture
def files():
    return FaultyFiles()


def written(files, path, data=b"0123456789"):
    file = files.open(str(path), create=True, writable=True)
    try:
        file.write(data, 0)
    finally:
        file.close()


def test_without_orders_every_call_passes_and_is_counted(files, tmp_path):
    written(files, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    counts = files.counts()
    assert (counts["open"], counts["pwrite"], counts["close"], counts["fdatasync"]) == (1, 1, 1, 0)
    assert files.changes == 2
    assert set(counts) >= CHANGES
    assert files.fired() == []


def test_the_nth_call_fails_as_often_as_was_said(files, tmp_path):
    files.fail("pwrite", 2, errno.EIO, times=2)
    written(files, tmp_path / "a")
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            written(files, tmp_path / "b")
        assert caught.value.__cause__.errno == errno.EIO
    written(files, tmp_path / "c")
    assert files.fired() == [("pwrite", str(tmp_path / "b"), 2)]
    assert (tmp_path / "b").read_bytes() == b""


def test_only_paths_that_contain_the_words_count(files, tmp_path):
    files.fail("pwrite", 1, errno.ENOSPC, times=-1, path_contains="/b")
    written(files, tmp_path / "a")
    for _ in range(3):
        with pytest.raises(DiskFullError):
            written(files, tmp_path / "b")
    files.heal()
    written(files, tmp_path / "b")


def test_a_short_write_says_so_and_the_next_call_fails(files, tmp_path):
    files.fail("pwrite", 1, errno.ENOSPC, short=4)
    with pytest.raises(DiskFullError):
        written(files, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"0123"
    assert files.counts()["pwrite"] == 2


def test_a_short_write_without_an_error_is_continued(files, tmp_path):
    files.fail("pwrite", 1, 0, short=3, times=-1)
    written(files, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    assert files.counts()["pwrite"] == 4


def test_a_torn_write_leaves_its_part_and_fails_itself(files, tmp_path):
    files.fail("pwrite", 1, errno.EIO, torn=6)
    with pytest.raises(StorageError):
        written(files, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"012345"
    assert files.counts()["pwrite"] == 1


def test_any_change_can_be_the_one_that_fails(files, tmp_path):
    files.fail("change", 3, times=-1)
    written(files, tmp_path / "a")
    with pytest.raises(StorageError):
        files.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    file = files.open(str(tmp_path / "a"))
    assert file.read(0, 3) == b"012"
    file.close()


def test_calls_are_written_down_with_their_place_and_status(files, tmp_path):
    files.record()
    files.fail("fdatasync", 1)
    path = str(tmp_path / "a")
    file = files.open(path, create=True, writable=True)
    file.write(b"abc", 7)
    with pytest.raises(StorageError):
        file.sync()
    file.close()
    calls = [(op, position, size, status) for op, at, position, size, status in files.recorded() if at == path]
    assert calls[1:] == [("pwrite", 7, 3, 3), ("fdatasync", 0, 0, -errno.EIO), ("close", 0, 0, 0)]


def test_threads_share_one_count(files, tmp_path):
    files.fail("pwrite", 50, errno.EIO)
    failures = []

    def write(name):
        for _ in range(25):
            try:
                written(files, tmp_path / name)
            except StorageError as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 1
    assert files.counts()["pwrite"] == 100


@pytest.mark.parametrize("order", [{"op": "write"}, {"op": "pwrite", "nth": 0}])
def test_an_order_that_cannot_be_is_refused(files, order):
    with pytest.raises(ValueError):
        files.fail(**order)


def test_the_calls_of_one_thread_can_be_watched(files, tmp_path):
    assert files.watched_calls() == 0
    files.watch_thread()
    other = threading.Thread(target=written, args=(files, tmp_path / "a"))
    other.start()
    other.join()
    assert files.watched_calls() == 0
    written(files, tmp_path / "b")
    # open, write, close
    assert files.watched_calls() == 3


def test_a_delay_is_for_operations_that_there_are(files, tmp_path):
    files.delay("pwrite", 20)
    before = time.monotonic()
    written(files, tmp_path / "a")
    # A sleep takes at least as long as it was told, however busy the machine is.
    assert time.monotonic() - before >= 0.02
    files.delay("pwrite", 0)
    for op, delay_ms in (("write", 1), ("pwrite", -1), ("pwrite", float("nan"))):
        with pytest.raises(ValueError, match=r"delay|names an operation"):
            files.delay(op, delay_ms)
