"""What does not depend on how much is in the log: calls, objects and memory; and how a cold log is read.

Counted, not timed. The large logs are `vast` ones, whose bodies are holes; the engine opens them as any other.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from logstore import Log
from logstore.log import ProducerStamp
from logstore.log.state import State
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.kit import vast
from tests.kit.logs import finish_rolls

BATCH_BYTES = 4 << 20
VALUES = [b"%0100d" % number for number in range(100)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A log of 1 GB and one of 100 GB."""
    root = tmp_path_factory.mktemp("vast")
    one, hundred = root / "one" / "t-0", root / "hundred" / "t-0"
    vast.build(one, segments=1, batch_bytes=BATCH_BYTES)
    vast.build(hundred, segments=100, batch_bytes=BATCH_BYTES)
    yield one, hundred
    for partition in (one, hundred):
        for path in partition.iterdir():
            path.unlink()


def test_a_vast_log_is_large_whole_and_takes_little_space(logs: tuple[Path, Path]) -> None:
    one, hundred = logs
    with Log.open(hundred, retention_ms=-1) as log:
        assert log.maintenance.was_clean
        assert len(list(hundred.glob("*.log"))) == 101
        assert log.metrics().size == 100 * vast.GIB
        assert log.metrics().recovered_bytes == 0
        assert vast.allocated_bytes(hundred) < vast.GIB
        found = log.replica.locate(log.log_end_offset // 2)
        assert found is not None
        assert found.base_offset <= log.log_end_offset // 2 < found.next_offset
    with Log.open(one, retention_ms=-1) as log:
        assert log.maintenance.was_clean
        assert log.metrics().size == vast.GIB


def cost(partition: Path) -> dict[str, Any]:
    """System calls, objects and bytes of memory of appends at the end and of reads there."""
    files = FaultyFiles()
    with Log.open(partition, files=files, clock=ManualClock(), retention_ms=-1) as log:
        for _ in range(3):  # the clean mark is taken back, the encoder has found its size
            log.read(log.append(VALUES).first_offset)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            calls, blocks, traced = files.counts(), sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]
            kept: list[Any] = [log.append(VALUES) for _ in range(200)]
            kept += [log.read(result.first_offset, max_bytes=1) for result in kept]
            kept.append(log.scan(log.log_end_offset - 1_000).count())
            made = sys.getallocatedblocks() - blocks
            peak = tracemalloc.get_traced_memory()[1] - traced
        finally:
            tracemalloc.stop()
            gc.enable()
        after = files.counts()
        assert kept.pop() == 1_000
        # So that the next run finds the same log, with the same room in its active segment.
        log.replica.truncate_to(kept[0].first_offset - 3 * len(VALUES))
    return {"calls": {op: after[op] - calls[op] for op in after}, "objects": made, "peak": peak}


def compare(one: dict[str, Any], hundred: dict[str, Any]) -> None:
    assert one["calls"]["pwrite"] >= 200, one
    assert one["calls"]["preadv"] >= 200, one
    assert one["objects"] > 400, one
    assert hundred["calls"] == one["calls"], "the system calls grow with the log"
    # A few numbers above 2^30 take one more digit; nothing is made for each segment.
    assert abs(hundred["objects"] - one["objects"]) < 20, "the objects grow with the log"
    assert abs(hundred["peak"] - one["peak"]) < 10_000, "the memory grows with the log"


@pytest.mark.row("S16")
def test_appends_and_tail_reads_cost_the_same_at_1_gb_and_at_100_gb(logs: tuple[Path, Path]) -> None:
    cost(logs[0])  # what is imported or cached at the first use is not the log's
    compare(*map(cost, logs))


@pytest.mark.parametrize(
    ("burden", "broken"),
    [
        (
            lambda state: [segment.file.size() for segment in state.segments.all],
            "the system calls grow with the log",
        ),
        (
            lambda state: state.__dict__.setdefault("kept", []).extend(object() for _ in state.segments.all),
            "the objects grow with the log",
        ),
    ],
    ids=["a call for each segment", "an object for each segment"],
)
def test_a_cost_that_grows_with_the_log_is_found(
    logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, burden: Callable[[State], Any], broken: str
) -> None:
    plain = State.append

    def burdened(self: State, *arguments: Any) -> Any:
        burden(self)
        return plain(self, *arguments)

    monkeypatch.setattr(State, "append", burdened)
    with pytest.raises(AssertionError, match=broken):
        compare(*map(cost, logs))


def run(script: str, *arguments: object) -> Any:
    """What a script prints, as JSON, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LOOK_EVERYWHERE = """
    import gc, json, resource, sys
    from logstore import Log

    def resident_bytes():
        gc.collect()
        return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

    with Log.open(sys.argv[1], retention_ms=-1) as log:
        end = log.log_end_offset
        places = 100 * int(sys.argv[2])
        for place in range(places):
            offset = end * place // places
            with_offset = log.replica.locate(offset)
            assert with_offset.base_offset <= offset < with_offset.next_offset
        print(json.dumps(resident_bytes()))
"""


@pytest.mark.row("S9", "S17")
def test_memory_grows_by_the_index_and_by_nothing_else(tmp_path: Path) -> None:
    """100 times the data, every segment of it looked into."""
    one, hundred = tmp_path / "one" / "t-0", tmp_path / "hundred" / "t-0"
    vast.build(one, segments=1, batch_bytes=1 << 20)
    vast.build(hundred, segments=100, batch_bytes=1 << 20)
    grown = run(LOOK_EVERYWHERE, hundred, 100) - run(LOOK_EVERYWHERE, one, 1)
    entries = vast.index_bytes(hundred) - vast.index_bytes(one)
    assert 1_900_000 < entries < 2_100_000
    print(f"{grown} bytes more in memory, {entries} of index")
    # Two mappings for each segment end with half a page each, and a segment is a few small objects.
    assert grown < entries + 99 * 16_384
    for partition in (one, hundred):
        for path in partition.iterdir():
            path.unlink()


@pytest.mark.row("S14", "S15")
def test_a_scan_reads_the_file_in_order_and_in_large_pieces(tmp_path: Path) -> None:
    """Large reads in order are what the kernel's read-ahead is made for; half of 128 KiB would not do."""
    files = FaultyFiles()
    with Log.open(tmp_path / "t-0", retention_ms=-1, segment_bytes=16 << 20) as log:
        for _ in range(3_000):
            log.append(VALUES)
    with Log.open(tmp_path / "t-0", files=files, retention_ms=-1, segment_bytes=16 << 20) as log:
        files.record()
        assert sum(len(values) for values in log.scan().values()) == 300_000
        reads = [call for call in files.recorded() if call[0] == "preadv"]
        size = log.metrics().size
    bodies = [call for call in reads if call[1].endswith(".log")]
    assert sum(status for *_, status in bodies) < 1.1 * size
    mean = sum(status for *_, status in bodies) / len(bodies)
    assert mean >= 128 << 10, f"{len(bodies)} reads of {mean:.0f} bytes in the mean"
    places = [(path, position) for _, path, position, _, _ in bodies]
    assert places == sorted(places)


@pytest.mark.row("S20", part="time of one log")
@pytest.mark.parametrize("producing, passes", [(False, 1), (True, 2)], ids=["no producer", "a producer"])
def test_a_recovery_reads_what_was_not_synced_once(tmp_path: Path, producing: bool, passes: int) -> None:
    """Checksums, indexes and producers come from one pass; the list of aborted transactions takes another."""
    stamps = [ProducerStamp(7, 0, sequence) if producing else None for sequence in range(0, 100_200, 100)]
    with Log.open(tmp_path / "root" / "t-0") as log:
        for stamp in stamps[:1_000]:
            log.append(VALUES, producer=stamp)
        size = log.metrics().size
        finish_rolls()
        shutil.copytree(tmp_path / "root", tmp_path / "killed")  # as a kill leaves it
    files = FaultyFiles()
    files.record()
    with Log.open(tmp_path / "killed" / "t-0", files=files) as log:
        reads = [call for call in files.recorded() if call[0] == "preadv" and call[1].endswith(".log")]
        assert log.metrics().recovered_bytes == size
        assert size <= sum(status for *_, status in reads) < (passes + 0.1) * size
        assert log.append(VALUES, producer=stamps[999]).duplicate is producing
        assert not log.append(VALUES, producer=stamps[1_000]).duplicate


@pytest.mark.row("S15")
def test_appends_are_one_write_each_and_leave_the_writing_back_to_the_kernel(tmp_path: Path) -> None:
    files = FaultyFiles()
    with Log.open(tmp_path / "t-0", files=files) as log:
        log.append(VALUES)
        before = files.counts()
        files.record()
        for _ in range(1_000):
            log.append(VALUES)
        calls = files.recorded()
        after = files.counts()
    assert sum(1 for op, path, *_ in calls if op == "pwrite" and path.endswith(".log")) == 1_000
    assert (after["fdatasync"], after["fsync_dir"]) == (before["fdatasync"], before["fsync_dir"])
    # In order and without a hole: what the kernel can write back in long pieces.
    places = [(position, size) for op, path, position, size, _ in calls if op == "pwrite" and path.endswith(".log")]
    assert all(position + size == following for (position, size), (following, _) in pairwise(places))


READ_TAIL = """
    import json, os, sys
    from logstore import Log

    def from_disk():
        return int(dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())["read_bytes"])

    if sys.argv[2] == "cold":
        for name in os.listdir(sys.argv[1]):
            fd = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    with Log.open(sys.argv[1], read_only=True) as log:
        before = from_disk()
        counted = sum(len(values) for values in log.scan(log.log_end_offset - 10_000).values())
        print(json.dumps([counted, from_disk() - before]))
"""


@pytest.mark.row("S10")
def test_after_the_writer_is_gone_the_tail_comes_from_the_page_cache(on_disk: Path) -> None:
    """A process that was not there reads nothing from the disk; told to begin cold, it does."""
    script = """
        import sys
        from logstore import Log
        with Log.open(sys.argv[1], retention_ms=-1) as log:
            for _ in range(20):
                log.append([b"x" * 1_000] * 1_000)
        print("null")
    """
    run(script, on_disk / "t-0")
    assert run(READ_TAIL, on_disk / "t-0", "warm") == [10_000, 0]
    counted, from_disk = run(READ_TAIL, on_disk / "t-0", "cold")
    assert counted == 10_000
    assert from_disk >= 10_000_000


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    """A directory with a disk behind it: in memory nothing is ever read from one."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [(len(point), kind) for point, kind in mounts if tmp_path.resolve().is_relative_to(point)]
    kind = max(inside)[1]
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is on {kind}, not on a disk: set TMPDIR to a directory on one")
    if not os.access("/proc/self/io", os.R_OK):
        pytest.skip("/proc/self/io cannot be read: the kernel counts no bytes for a process here")
    return tmp_path
