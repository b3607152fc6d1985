"""Reads of a log on disk beside other ways to keep one: all of it, single records, and past the page cache."""

from __future__ import annotations

import os
import random
import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM, Ours, drop_from_cache, file_size, filled, same

import logstore

SIZE = 100


@pytest.mark.row("S14")
def test_scan_to_values(benchmark: Any, places: Any) -> None:
    """Every value as a bytes object, from the page cache."""
    batches = records.groups(SIZE, 100, 5_000)
    total = 100 * len(batches)
    with filled(
        ("naive file", "naive file + crc32", "aiokafka + file", "lmdb", "rocksdict"), places, batches
    ) as logs:
        stored = logs["ours"].log.metrics().size
        runners = {name: Runner(lambda _, log=log: log.scan(), same(total)) for name, log in logs.items()}
        race(
            benchmark,
            runners.pop("ours"),
            runners,
            workload=f"scan {SIZE} B to values",
            records=total,
            size=total * SIZE,
            bars={"lmdb": Bar(1.5, 3)},
            codec="none",
            output_bytes=stored,
        )


class Offsets:
    """Offsets of a race's rounds. Each competitor draws for itself, and all draw the same."""

    def __init__(self, batches: list[list[bytes]], count: int, *, first_looks: bool) -> None:
        self._batches, self._count = batches, count
        self._rng = random.Random(1)
        self._order = self._rng.sample(range(len(batches)), len(batches)) if first_looks else None

    def draw(self) -> list[int]:
        """Return the offsets of one round: no batch again, if first looks are asked for."""
        per_batch, count = len(self._batches[0]), self._count
        if self._order is None:
            return self._rng.choices(range(per_batch * len(self._batches)), k=count)
        taken, self._order = self._order[:count], self._order[count:]
        assert len(taken) == count, "more rounds than batches"
        return [batch * per_batch + self._rng.randrange(per_batch) for batch in taken]

    def check(self, offsets: list[int], values: list[bytes]) -> None:
        per_batch = len(self._batches[0])
        assert values == [self._batches[offset // per_batch][offset % per_batch] for offset in offsets]


def random_reads(
    benchmark: Any,
    places: Any,
    batches: list[list[bytes]],
    count: int,
    *,
    kind: type[Ours] = Ours,
    codec: str = "none",
    first_looks: bool = False,
    **about: Any,
) -> None:
    """Race so many reads of one value each, at random offsets; the caller keeps no positions in memory.

    Each round has other offsets. Without ``first_looks`` the table of checked batches has taken what it can hold
    before the first round.
    """

    def open_ours(place: Path) -> Any:
        return kind(place, compression_type="producer" if codec == "none" else codec)

    def reading(get: Callable[[int], bytes]) -> Runner:
        offsets = Offsets(batches, count, first_looks=first_looks)
        return Runner(lambda drawn: [get(offset) for offset in drawn], offsets.check, offsets.draw)

    with filled(("lmdb",), places, batches, open_ours) as logs:
        stored = logs["ours"].log.metrics().size
        for log in logs.values() if not first_looks else ():
            for n, batch in enumerate(batches):
                log.get(n * len(batch) + n % len(batch))
        race(
            benchmark,
            reading(logs.pop("ours").get),
            {name: reading(log.get) for name, log in logs.items()},
            records=count,
            size=count * SIZE,
            unit="us each",
            codec=codec,
            output_bytes=stored,
            **about,
        )


#: A first look reads and checks the whole batch; a later one a piece of it.
LOOKS = pytest.mark.parametrize("first_looks", [False, True], ids=["again", "first"])


def looks(first_looks: bool) -> str:
    return ", first look at each batch" if first_looks else ""


@pytest.mark.row("S2", "S3", "S16")
@LOOKS
def test_random_reads(benchmark: Any, places: Any, first_looks: bool) -> None:
    """At offsets of 10,000,000, in batches of 100."""
    batches = records.groups(SIZE, 100, 100_000)
    workload = f"random read by offset, {100 * len(batches) * SIZE / 1e9:.0f} GB{looks(first_looks)}"
    bars = {"lmdb": Bar(1 / 1.6, 1 / 1.2)}
    random_reads(benchmark, places, batches, 10_000, first_looks=first_looks, workload=workload, bars=bars)


class OursInAStore(Ours):
    """A topic of one partition."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._store = logstore.open(directory / "store")
        self._topic = self._store.create_topic("race", **options)
        self.log = self._topic[0]
        self.append = self._topic.log(0).append

    def get(self, offset: int) -> bytes:
        return self._topic.record_at(0, offset).value

    def close(self) -> None:
        self._store.close()


@pytest.mark.row("S2", "S3", "S16")
@LOOKS
def test_random_reads_through_a_topic(benchmark: Any, places: Any, first_looks: bool) -> None:
    """At offsets of 10,000,000, in batches of 100."""
    batches = records.groups(SIZE, 100, 100_000)
    workload = f"random read by topic and offset, {100 * len(batches) * SIZE / 1e9:.0f} GB{looks(first_looks)}"
    random_reads(
        benchmark,
        places,
        batches,
        10_000,
        kind=OursInAStore,
        first_looks=first_looks,
        workload=workload,
        bars={"lmdb": Bar(1 / 2, 1 / 1.6)},
    )


@pytest.mark.row("S2", "S3", "S16")
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("per_batch", [1, 100, 1_000, 9_000])
def test_random_reads_by_the_size_of_batches(benchmark: Any, places: Any, per_batch: int, codec: str) -> None:
    """At offsets of 180,000: a whole batch is read, summed and decompressed for its first value."""
    batches = records.groups(SIZE, per_batch, 180_000 // per_batch)
    workload = f"random read by offset, batches of {per_batch:,}, {codec}"
    random_reads(benchmark, places, batches, 10_000 // per_batch + 100, codec=codec, workload=workload, rounds=5)


# --- to a socket -----------------------------------------------------------------------------------


@pytest.mark.row("S12")
def test_fetch_of_small_batches_beside_sendfile(benchmark: Any, places: Any) -> None:
    """Regions of 1 MiB of 1 KiB batches, to a socket that a process empties; the bare loop knows their places."""
    log = Ours(places()).log
    for _ in range(32 * 1024):
        log.append([bytes(950)])
    regions, offset = [], 0
    while offset < log.high_watermark:
        region = log.replica.fetch_region(offset).region
        regions.append((region.position, region.size))
        offset = region.next_offset
    total = sum(size for _, size in regions)
    out, end = socket.socketpair()
    child = os.fork()
    if not child:
        out.close()
        buffer = bytearray(1 << 20)
        while end.recv_into(buffer):
            pass
        os._exit(0)
    end.close()
    (segment,) = log.maintenance.segments
    fd = os.open(segment.path, os.O_RDONLY)

    def bare(_state: None) -> int:
        for position, size in regions:
            done = 0
            while done < size:
                done += os.sendfile(out.fileno(), fd, position + done, size - done)
        return total

    def fetch(_state: None) -> int:
        offset, sent = 0, 0
        while offset < log.high_watermark:
            region = log.replica.fetch_region(offset).region
            sent += region.send_to(out)
            offset = region.next_offset
        return sent

    buffer = memoryview(bytearray(1 << 20))
    cpu_s: dict[str, list[float]] = {}

    def counted(name: str, work: Callable[[None], int]) -> Runner:
        def run(state: None) -> int:
            began = time.process_time()
            sent = work(state)
            cpu_s.setdefault(name, []).append(time.process_time() - began)
            return sent

        return Runner(run, same(total))

    def targets(_medians: dict[str, float]) -> list[Target]:
        ours, bare_loop, copied = (statistics.median(cpu_s[name]) for name in ("ours", "sendfile", "read and send"))
        return [
            Target("CPU, over sendfile's", ours / bare_loop, "x", 1.25),
            Target("CPU, over that of read and send", ours / copied, "x", 1),
        ]

    def read_and_send(_state: None) -> int:
        for position, size in regions:
            part = buffer[: os.preadv(fd, [buffer[:size]], position)]
            out.sendall(part)
        return total

    race(
        benchmark,
        counted("ours", fetch),
        {"sendfile": counted("sendfile", bare), "read and send": counted("read and send", read_and_send)},
        workload="fetch of 1 KiB batches, to a socket",
        records=log.log_end_offset,
        size=total,
        bars={"sendfile": Bar(1 / 1.25, 1), "read and send": Bar(1)},
        targets=targets,
        codec="none",
        output_bytes=total,
    )
    os.close(fd)
    out.close()
    os.waitpid(child, 0)
    log.close()


# --- past the page cache -----------------------------------------------------------------------


class DiskCounters:
    """How many reads the block device below a path has completed, and of how many bytes."""

    def __init__(self, path: Path) -> None:
        device = path.stat().st_dev
        self._stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
        self.is_known = self._stat.exists()

    def read(self) -> tuple[int, int]:
        if not self.is_known:
            return 0, 0
        fields = self._stat.read_text().split()
        return int(fields[0]), int(fields[2]) * 512


@pytest.mark.row("S14", "S15", "N8")
def test_cold_scan_beside_the_raw_disk(benchmark: Any, places: Any) -> None:
    """Every page is forgotten before each turn. The random reads show what the disk does out of order."""
    size, per_batch, count = 1_000, 1_000, 300
    batches = records.groups(size, per_batch, count)
    total = per_batch * count
    means: list[float] = []
    place = places()
    log = Ours(place)
    for batch in batches:
        log.append(batch)
    log.flush()
    (data,) = place.rglob("*.log")
    length = data.stat().st_size
    counters = DiskCounters(data)
    before = (0, 0)

    def forget() -> None:
        nonlocal before
        drop_from_cache(data)
        before = counters.read()

    def scan(_state: None) -> int:
        return sum(batches.count() for batches in log.log.scan().chunks())

    def check_scan(_state: None, found: int) -> None:
        reads, read = (after - earlier for after, earlier in zip(counters.read(), before, strict=True))
        if reads:
            means.append(read / reads)
        assert found == total

    def sequential(_state: None) -> int:
        fd = os.open(data, os.O_RDONLY)
        buffer = memoryview(bytearray(1 << 20))
        done = 0
        while got := os.preadv(fd, [buffer], done):
            done += got
        os.close(fd)
        return done

    # As many as a round can bear, scaled up to the whole file.
    some = random.Random(2).sample(range(length // 4096), 1_500)

    def scattered(_state: None) -> int:
        fd = os.open(data, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        buffer = memoryview(bytearray(4096))
        done = sum(os.preadv(fd, [buffer], 4096 * page) for page in some)
        os.close(fd)
        return done

    def targets(_medians: dict[str, float]) -> list[Target]:
        if not means:
            return []
        mean = statistics.median(means) / 1024
        return [Target("mean read from the disk, cold scan", mean, "KiB", 128, at_most=False)]

    race(
        benchmark,
        Runner(scan, check_scan, forget, parts=COPY_AND_SUM),
        {
            "raw sequential read, cold": Runner(sequential, same(length), forget),
            "raw random 4 KiB reads, cold": Runner(
                scattered, same(4096 * len(some)), forget, share=4096 * len(some) / length
            ),
        },
        workload=f"cold scan {size:,} B x {per_batch:,}",
        records=total,
        size=total * size,
        bars={"raw sequential read, cold": Bar(0.8)},
        targets=targets,
        rounds=7,
        codec="none",
        output_bytes=file_size(place),
    )
    log.close()
