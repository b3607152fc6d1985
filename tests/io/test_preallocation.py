"""How a segment's file grows: the same bytes whatever the strategy, and no room kept behind."""

from __future__ import annotations

import errno
import os

import pytest

from logstore.io._preallocation import Chunked, Preallocate
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.kit.logs import log_files, open_log, tree

MiB = 1 << 20
STRATEGIES = ["extend", "preallocate", "chunked"]


def fill(log, total: int) -> None:
    for number in range(total // 100_000):
        log.append([b"%08d" % number + bytes(99_992)])


def space_after(path) -> int:
    """Bytes that a file takes on the disk beyond its size, of whole pages."""
    found = os.stat(path)
    return found.st_blocks * 512 - (found.st_size + 4095) // 4096 * 4096


def test_every_strategy_leaves_the_same_files(tmp_path):
    trees = []
    for strategy in STRATEGIES:
        with open_log(tmp_path / strategy, clock=ManualClock(), segment_bytes=MiB, write_strategy=strategy) as log:
            fill(log, 3 * MiB)
            log.replica.truncate_to(20)
            fill(log, MiB)
        found = tree(tmp_path / strategy / "t-0")
        trees.append({name: facts for name, facts in found.items() if "recovery" not in name})
    assert trees[0] == trees[1] == trees[2]


def test_a_large_segment_takes_space_ahead_and_gives_it_back(tmp_path):
    with open_log(tmp_path, segment_bytes=8 * MiB) as log:
        fill(log, 3 * MiB)
        (path,) = log_files(log).values()
        if space_after(path) == 0:
            pytest.skip("this file system reserves no room (fallocate KEEP_SIZE); run on ext4, XFS or tmpfs")
        assert MiB < space_after(path) < 8 * MiB
        assert path.stat().st_size < 3.1 * MiB
        log.maintenance.roll()
        assert space_after(path) < 65_536
        fill(log, 2 * MiB)
        active = log_files(log)[log.log_end_offset - 20]
        assert space_after(active) > 0
    assert space_after(active) < 65_536


def test_what_a_killed_process_has_reserved_is_given_back_later(tmp_path):
    files = FaultyFiles()
    log = open_log(tmp_path, files=files)
    fill(log, 2 * MiB)
    (path,) = log_files(log).values()
    reserved = space_after(path)
    if reserved == 0:
        pytest.skip("this file system reserves no room (fallocate KEEP_SIZE); run on ext4, XFS or tmpfs")
    files.fail("ftruncate", times=-1)
    log.close()
    # Give or take a block of the file system's own.
    assert abs(space_after(path) - reserved) <= 65_536, "a refused release is lost room and no error"
    files.heal()
    with open_log(tmp_path):
        pass
    assert space_after(path) < 65_536


def test_small_segments_take_nothing_ahead(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        for _ in range(200):
            log.append([bytes(1_000)])
    assert files.counts()["fallocate"] == 0


def test_space_is_not_taken_past_the_end_of_the_segment(tmp_path):
    files = FaultyFiles()
    files.record()
    with open_log(tmp_path, files=files, segment_bytes=MiB) as log:
        fill(log, 4 * MiB)
    taken = [(position, size) for op, _, position, size, _ in files.recorded() if op == "fallocate"]
    assert taken
    assert all(position + size <= MiB + 100_100 for position, size in taken)


def test_the_steps_grow_with_the_segment_up_to_16_mib(tmp_path):
    files = FaultyFiles()
    files.record()
    with open_log(tmp_path, files=files) as log:
        fill(log, 64 * MiB)
    sizes = [size for op, _, _, size, _ in files.recorded() if op == "fallocate"]
    assert len(sizes) < 12
    assert 256 * 1024 <= sizes[0] < MiB
    assert max(sizes) <= 16 * MiB + 200_000


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOSPC, errno.EIO])
def test_a_refused_reservation_costs_nothing(tmp_path, number):
    files = FaultyFiles()
    files.fail("fallocate", errno=number, times=-1)
    with open_log(tmp_path, files=files) as log:
        fill(log, 4 * MiB)
        assert log.log_end_offset == 4 * MiB // 100_000
    # Where there was no room there may be some later; a file system that cannot is asked once.
    assert (files.counts()["fallocate"] > 1) == (number == errno.ENOSPC)


def test_a_cut_takes_the_space_and_the_next_append_takes_it_again(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files) as log:
        fill(log, MiB)
        before = files.counts()["fallocate"]
        log.replica.truncate_to(5)
        fill(log, MiB)
        assert files.counts()["fallocate"] > before


def test_kafkas_preallocate_asks_for_it_too(tmp_path):
    files = FaultyFiles()
    with open_log(tmp_path, files=files, write_strategy="extend", preallocate=True) as log:
        fill(log, MiB)
    assert files.counts()["fallocate"] > 0


def test_chunks_are_written_one_by_one(tmp_path):
    files = FaultyFiles()
    files.record()
    with open_log(tmp_path, files=files, write_strategy="chunked") as log:
        log.append([bytes(200_000)])
    sizes = [size for op, path, _, size, _ in files.recorded() if op == "pwrite" and path.endswith(".log")]
    assert len(sizes) == 4
    assert max(sizes) == 65_536


def test_bounds():
    assert Preallocate(100).reserved == 0
    assert Chunked(4096).chunk_bytes == 4096
    with pytest.raises(ValueError, match="at least 4096"):
        Chunked(100)
