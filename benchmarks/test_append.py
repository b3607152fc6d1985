"""Appends to a log on disk beside other ways to keep one, and beside what the system calls cost alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import peers
import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM, Ours, appending, log_bytes, raw_writing

import logstore
from logstore import Codec
from logstore._segment import Segment
from logstore.batch._batch import stamp, stamp_producer
from logstore.batch._crc32c import crc32c
from logstore.batch._encode import encode
from logstore.io._files import Files

SIZE = 100

#: For records that come one by one: who gathers promises what an appender does, who writes each one more.
GATHERED = ("naive file, 64 KiB buffer", "naive file")


@pytest.mark.row("S6", "S14")
@pytest.mark.parametrize("per_batch, count", [(100, 3_000), (1, 10_000)])
def test_append(benchmark: Any, places: Any, per_batch: int, count: int) -> None:
    """Written, not synced: what is left is encoding, CRC, index and the system call."""
    batches = records.groups(SIZE, per_batch, count)
    names = ("naive file", "naive file + crc32", "aiokafka + file", "sqlite", "lmdb", "rocksdict")
    bars = {"naive file": Bar(0.6), "lmdb": Bar(0.75), "rocksdict": Bar(1.3)}
    if per_batch > 1:
        names = (*names, "naive file, 64 KiB buffer")
        bars = {
            "naive file": Bar(2.4),
            "naive file, 64 KiB buffer": Bar(1.6),
            "rocksdict": Bar(2.5, 4.5),
            "sqlite": Bar(10, 15),
        }
    pieces = log_bytes(places, batches)
    race(
        benchmark,
        appending(Ours, places, batches),
        {
            **{name: appending(kind, places, batches) for name, kind in peers.logs(*names).items()},
            "limit: raw write of the same bytes": raw_writing(places, pieces),
        },
        workload=f"append {SIZE} B x {per_batch}, no sync",
        records=per_batch * count,
        size=per_batch * count * SIZE,
        bars=bars,
        rounds=5,
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )


@pytest.mark.row("S6")
def test_single_appends_through_the_appender(benchmark: Any, places: Any) -> None:
    """One call for each record; the appender gathers 64 KiB, as the buffered file does. The other writes each."""
    singles = [value for (value,) in records.groups(SIZE, 1, 100_000)]
    one_by_one = [[value] for value in singles]
    plain = appending(Ours, places, one_by_one)
    written = 0

    def work(state: Any) -> None:
        with state[1].log.appender() as appender:
            append = appender.append
            for value in singles:
                append(value)

    def check(state: Any, result: Any) -> None:
        nonlocal written
        written = state[1].log.metrics().size
        plain.check(state, result)

    warm = plain.prepare()
    work(warm)
    check(warm, None)
    race(
        benchmark,
        Runner(work, check, plain.prepare, parts=COPY_AND_SUM),
        {name: appending(kind, places, one_by_one) for name, kind in peers.logs(*GATHERED).items()},
        workload=f"single {SIZE} B appends, buffered",
        records=len(singles),
        size=len(singles) * SIZE,
        bars={"naive file, 64 KiB buffer": Bar(4, 10)},
        codec="none",
        output_bytes=written,
    )


@pytest.mark.row("S6")
def test_single_appends_to_a_topic(benchmark: Any, places: Any) -> None:
    """What a topic adds to the append of its log: which partition it is, and whether the topic is still there."""
    count = 10_000
    one_by_one = records.groups(SIZE, 1, count)
    values = [value for (value,) in one_by_one]
    plain = appending(Ours, places, one_by_one)

    def prepare() -> tuple[Path, Any, Any]:
        place = places()
        store = logstore.open(place / "data")
        topic = store.create_topic("race", 1)
        topic.log(0)  # opened before the first append, as the other's log is
        return place, store, topic

    def work(state: tuple[Path, Any, Any]) -> None:
        append = state[2].append
        for value in values:
            append(value)

    def check(state: tuple[Path, Any, Any], _result: None) -> None:
        place, store, topic = state
        assert [value for chunk in topic[0].scan().values() for value in chunk] == values
        store.close()
        shutil.rmtree(place)

    race(
        benchmark,
        Runner(work, check, prepare, parts=COPY_AND_SUM),
        {"Log.append": plain},
        workload=f"Topic.append, {SIZE} B x 1, no sync",
        records=count,
        size=count * SIZE,
        bars={"Log.append": Bar(0.8)},
        codec="none",
    )


@pytest.mark.row("S6")
@pytest.mark.parametrize("turn", [1, 16], ids=["one by one", "turns of 16"])
@pytest.mark.parametrize("is_numbered", [False, True], ids=["no producer", "producer"])
def test_append_of_clients_batches(benchmark: Any, places: Any, is_numbered: bool, turn: int) -> None:
    """Batches that a client has encoded: checked, stamped and written; beside the write and its index alone."""
    count, size = 20_000, 1_024
    batches = [bytearray(encode([values[0]])) for values in records.groups(size, 1, count)]
    if is_numbered:
        for number, batch in enumerate(batches):
            stamp_producer(batch, 7, 0, number)
    sent = [bytes(batch) for batch in batches]
    total = sum(map(len, sent))

    def append(log: Ours) -> None:
        if turn > 1:
            append_turn = log.log.replica.append_turn
            for begin in range(0, count, turn):
                append_turn(sent[begin : begin + turn])
            return
        append_batch = log.log.replica.append_batch
        for batch in sent:
            append_batch(batch)

    def check(log: Ours, _result: None) -> None:
        assert log.scan() == count
        log.close()

    def write(segment: Segment) -> None:
        end = 0
        for batch in batches:
            end = segment.append(batch, end, 0)

    def check_written(segment: Segment, _result: None) -> None:
        assert segment.size == total
        segment.close()

    def prepare() -> Segment:
        return Segment(Files().open(str(places() / f"{0:020d}.log"), create=True, writable=True), 0, next_offset=0)

    race(
        benchmark,
        Runner(append, check, lambda: Ours(places()), parts=COPY_AND_SUM),
        {"Segment.append alone": Runner(write, check_written, prepare)},
        workload=("append_batch" if turn == 1 else f"append_turn of {turn}")
        + f", one record of {size:,} B"
        + (", of a producer" if is_numbered else ""),
        records=count,
        size=count * size,
        bars={"Segment.append alone": Bar(0.4 if is_numbered else 0.5)},
        codec="none",
        output_bytes=total,
    )


@pytest.mark.row("S5", "S6")
@pytest.mark.parametrize(
    "codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP], ids=lambda codec: codec.name.lower()
)
def test_a_followers_runs(benchmark: Any, places: Any, codec: Codec) -> None:
    """Runs of 1 MiB from a leader's file, as a follower gets them: beside reading, summing and writing alone.

    Compressed ones are as dear as others, per stored byte: beside them run as many bytes of an uncompressed file.
    """
    per_batch, run_bytes, file_bytes = 160, 1 << 20, 32 << 20

    def leader_file(of: Codec) -> tuple[Path, list[tuple[int, int]], int]:
        """Return a file, its runs, and the number of its records."""
        file = places() / "leader.log"
        batches = [bytearray(encode(values, codec=of)) for values in records.groups(SIZE, per_batch, 1_000)]
        runs, begin, end, number = [], 0, 0, 0
        with file.open("wb") as leader:
            while end < file_bytes:
                batch = batches[number % len(batches)]
                stamp(batch, number * per_batch, 0)
                if end - begin and end - begin + len(batch) > run_bytes:
                    runs.append((begin, end - begin))
                    begin = end
                leader.write(batch)
                end += len(batch)
                number += 1
            runs.append((begin, end - begin))
        return file, runs, number * per_batch

    file, runs, count = leader_file(codec)
    end = file.stat().st_size

    def follower(file: Path, runs: list[tuple[int, int]], count: int) -> Runner:
        def append(state: tuple[Ours, int]) -> None:
            log, source = state
            append_replicated = log.log.replica.append_replicated
            for position, size in runs:
                append_replicated(os.pread(source, size, position))

        def check(state: tuple[Ours, int], _result: None) -> None:
            log, source = state
            assert log.scan() == count
            log.close()
            os.close(source)

        return Runner(append, check, lambda: (Ours(places()), os.open(file, os.O_RDONLY)), parts=COPY_AND_SUM)

    def write(state: tuple[int, int]) -> int:
        target, source = state
        total = 0
        for position, size in runs:
            run = os.pread(source, size, position)
            total += crc32c(run) & 1
            os.pwrite(target, run, position)
        return total

    def check_written(state: tuple[int, int], _result: int) -> None:
        assert os.fstat(state[0]).st_size == end
        for descriptor in state:
            os.close(descriptor)

    def bare() -> tuple[int, int]:
        return os.open(places() / "raw", os.O_CREAT | os.O_WRONLY), os.open(file, os.O_RDONLY)

    peers = {"read, CRC-32C and write": Runner(write, check_written, bare)}
    plain_bytes = end
    if codec is not Codec.NONE:
        plain, *contents = leader_file(Codec.NONE)
        plain_bytes = plain.stat().st_size
        peers["uncompressed runs"] = follower(plain, *contents)

    def targets(medians: dict[str, float]) -> list[Target]:
        if codec is Codec.NONE:
            return []
        ratio = (medians["ours"] / end) / (medians["uncompressed runs"] / plain_bytes)
        rate = plain_bytes / medians["uncompressed runs"] / 1e6
        return [
            Target(
                "per stored byte, over uncompressed", ratio, "x", 1.1, reference=f"uncompressed {rate:,.0f} MB/s"
            )
        ]

    race(
        benchmark,
        follower(file, runs, count),
        peers,
        workload=f"append_replicated, runs of 1 MiB, {codec.name.lower()}",
        records=count,
        size=end,
        bars={"read, CRC-32C and write": Bar(0.7)},
        targets=targets,
        rounds=15,
        codec=codec.name.lower(),
        output_bytes=end,
    )


@pytest.mark.row("S14")
def test_large_appends_beside_the_raw_disk(benchmark: Any, places: Any) -> None:
    """All the way to the disk: 250 KB batches and one flush, beside the same bytes by `write` and fdatasync."""
    size, per_batch, count = 1_000, 250, 800
    batches = records.groups(size, per_batch, count)
    pieces = log_bytes(places, batches)
    plain = appending(Ours, places, batches)

    def work(state: tuple[Path, Any]) -> None:
        plain.work(state)
        state[1].flush()

    race(
        benchmark,
        Runner(work, plain.check, plain.prepare, parts=COPY_AND_SUM),
        {"raw write + fdatasync": raw_writing(places, pieces, sync=True)},
        workload=f"append {size:,} B x {per_batch:,} and flush",
        records=per_batch * count,
        size=per_batch * count * size,
        bars={"raw write + fdatasync": Bar(0.8)},
        rounds=7,
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )
