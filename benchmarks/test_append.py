"""Appends to a log on disk beside other ways to keep one, and beside what the system calls cost alone."""

from __future__ import annotations

import functools
import os
import shutil
import statistics
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM, Ours, appending, log_bytes, raw_writing

import logstore
from logstore import Codec, Isolation
from logstore._segment import Segment
from logstore.batch._batch import stamp, stamp_producer
from logstore.batch._crc32c import crc32c
from logstore.batch._encode import encode
from logstore.io._files import File, Files
from logstore.io._notifier import Notifier
from logstore.log.append._group_commit import GroupCommit, Rounds
from logstore.log.marks._watermark import Registration
from logstore.testing._slow_sync import SlowSyncFiles

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
def test_append_beside_waiting_readers(benchmark: Any, places: Any) -> None:
    """10,000 readers wait for records that do not come; beside it no reader, and one woken each time."""
    count, waiting = 10_000, 10_000
    values = [[value] for (value,) in records.groups(SIZE, 1, count)]

    def appending_beside(readers: int, first_wanted: int, every: int) -> Runner:
        def prepare() -> tuple[Ours, Notifier, list[Registration]]:
            log, notifier = Ours(places()), Notifier()
            mark = log.log._end_mark(Isolation.READ_COMMITTED)
            registrations = [Registration(mark, notifier) for _ in range(readers)]
            for number, registration in enumerate(registrations):
                assert registration.arm_for(first_wanted + number * every)
            return log, notifier, registrations

        def work(state: tuple[Ours, Notifier, list[Registration]]) -> None:
            append = state[0].log.append
            for value in values:
                append(value)

        def check(state: tuple[Ours, Notifier, list[Registration]], _result: None) -> None:
            assert state[1].wait(0) is (first_wanted <= count and readers > 0)
            assert state[0].scan() == count
            state[0].close()

        return Runner(work, check, prepare, parts=COPY_AND_SUM)

    race(
        benchmark,
        appending_beside(waiting, count + 1, 1),
        {
            "no reader waits": appending_beside(0, 0, 0),
            "each append wakes one of them": appending_beside(waiting, 1, 1),
        },
        workload=f"append {SIZE} B x 1, {waiting:,} readers wait for others",
        records=count,
        size=count * SIZE,
        bars={"no reader waits": Bar(0.95)},
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


@pytest.mark.row("S4", "S6")
def test_durable_single_appends_of_eight_threads(benchmark: Any, places: Any) -> None:
    """Each append returns when its record is on disk; threads that wait share one fdatasync."""
    threads, each = 8, 100
    total = threads * each
    singles = records.groups(SIZE, 1, total)
    pieces = log_bytes(places, singles)
    per_sync: list[float] = []

    def prepare(count: int) -> Any:
        files = Files()
        log = Ours(places(), files=files)
        log.append(singles[0])
        log.flush()
        start = threading.Barrier(count + 1)
        errors: list[BaseException] = []

        def append(mine: list[list[bytes]]) -> None:
            start.wait()
            try:
                for values in mine:
                    log.append(values, ack="synced")
            except BaseException as error:  # noqa: BLE001  raised by the check
                errors.append(error)

        workers = [threading.Thread(target=append, args=(singles[n::count],)) for n in range(count)]
        for worker in workers:
            worker.start()
        return log, files.call_counts()["fdatasync"], files, start, workers, errors

    def work(state: Any) -> None:
        state[3].wait()
        for worker in state[4]:
            worker.join()

    def check(state: Any, _result: None) -> None:
        log, before, files, _, workers, errors = state
        syncs = files.call_counts()["fdatasync"] - before
        if len(workers) == threads:
            per_sync.append(total / syncs)
        assert not errors, errors
        assert log.log.synced_end == total + 1
        assert log.scan() == total + 1
        log.close()

    race(
        benchmark,
        Runner(work, check, lambda: prepare(threads), parts=COPY_AND_SUM),
        {
            "one thread, raw write + fdatasync each": raw_writing(places, pieces, sync_each=True),
            "one thread of ours": Runner(work, check, lambda: prepare(1), parts=COPY_AND_SUM),
        },
        workload=f"{threads} threads, durable single {SIZE} B appends",
        records=total,
        size=total * SIZE,
        bars={"one thread, raw write + fdatasync each": Bar(3, 6)},
        targets=lambda _: [
            Target(
                "appends per fdatasync", statistics.median(per_sync), "", 5, 8, at_most=False, reference="limit 8"
            )
        ],
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )


class BareFile(Rounds):
    """The limit of a group commit: bytes that are ready, one file, nothing but its end to keep."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.end = self.synced = 0
        self.commit = GroupCommit(self)

    def is_done(self, offset: int) -> bool:
        return self.synced >= offset

    def sync(self, commit: GroupCommit) -> None:
        end = self.end
        self.file.sync()
        self.synced = end

    def append(self, piece: bytes) -> None:
        position, self.end = self.end, self.end + len(piece)
        self.file.write(piece, position)
        self.commit.run(position + len(piece))


#: Threads, what lets them begin, and their errors.
Threads = tuple[threading.Barrier, list[threading.Thread], list[BaseException]]


def run_in_threads(calls: list[Callable[[], object]]) -> Threads:
    """Threads that make one call each, once `finish` has let them begin."""
    start = threading.Barrier(len(calls) + 1)
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001  raised by `finish`
            errors.append(error)

    workers = [threading.Thread(target=run, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    return start, workers, errors


def finish(threads: Threads) -> None:
    threads[0].wait()
    for worker in threads[1]:
        worker.join()
    assert not threads[2], threads[2]


@pytest.mark.row("S4", "S6")
@pytest.mark.parametrize("sync_us, each, bar", [(120, 200, Bar(3, 3.6)), (1_000, 60, Bar(5, 5.6))])
def test_durable_appends_by_the_time_of_a_sync(
    benchmark: Any, places: Any, sync_us: int, each: int, bar: Bar
) -> None:
    """A sync takes a set time here, so that the figure is that of the group commit, not of a shared disk."""
    threads = 8
    total = threads * each
    singles = records.groups(SIZE, 1, total)
    pieces = log_bytes(places, singles)

    def slow_files() -> SlowSyncFiles:
        files = SlowSyncFiles()
        files.sync_us = sync_us
        return files

    def appending_each(append: Callable[[Any], object], items: list[Any]) -> Callable[[], None]:
        def work() -> None:
            for item in items:
                append(item)

        return work

    def prepare(count: int) -> Any:
        log = Ours(places(), files=slow_files())
        log.append(singles[0])
        log.flush()
        append = functools.partial(log.append, ack="synced")
        return run_in_threads([appending_each(append, singles[n::count]) for n in range(count)]), log

    def check(state: Any, _result: None) -> None:
        log = state[1]
        assert log.log.synced_end == total + 1
        assert log.scan() == total + 1
        log.close()

    def prepare_bare(count: int) -> Any:
        bare = BareFile(slow_files().open(str(places() / "bare"), create=True, writable=True))
        return run_in_threads([appending_each(bare.append, pieces[n::count]) for n in range(count)]), bare

    def check_bare(state: Any, _result: None) -> None:
        assert state[1].synced == state[1].file.size() == sum(map(len, pieces))
        state[1].file.close()

    def bare(count: int) -> Runner:
        return Runner(lambda state: finish(state[0]), check_bare, lambda: prepare_bare(count))

    race(
        benchmark,
        Runner(lambda state: finish(state[0]), check, lambda: prepare(threads), parts=COPY_AND_SUM),
        {
            "one thread, write and sync each": bare(1),
            f"limit: {threads} threads, bare writes, group commit": bare(threads),
            "one thread of ours": Runner(
                lambda state: finish(state[0]), check, lambda: prepare(1), parts=COPY_AND_SUM
            ),
        },
        workload=f"{threads} threads, durable single {SIZE} B appends, a sync takes {sync_us:,} us",
        records=total,
        size=total * SIZE,
        bars={"one thread, write and sync each": bar},
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )


@pytest.mark.row("S6")
def test_appends_of_eight_threads_to_logs_of_their_own(benchmark: Any, places: Any) -> None:
    """Not synced: what the threads share is the interpreter, so they are at best as fast as one."""
    threads, each = 8, 2_000
    total = threads * each
    singles = records.groups(SIZE, 1, total)

    def prepare(count: int) -> Any:
        logs = [Ours(places()) for _ in range(threads)]

        def work(mine: list[Ours]) -> None:
            for log in mine:
                append = log.append
                for values in singles[:each]:
                    append(values)

        return run_in_threads([functools.partial(work, logs[n::count]) for n in range(count)]), logs

    def check(state: Any, _result: None) -> None:
        for log in state[1]:
            assert log.scan() == each
            log.close()

    def of(count: int) -> Runner:
        return Runner(lambda state: finish(state[0]), check, lambda: prepare(count), parts=COPY_AND_SUM)

    race(
        benchmark,
        of(threads),
        {"one thread, the same logs": of(1)},
        workload=f"{threads} threads, single {SIZE} B appends to logs of their own, no sync",
        records=total,
        size=total * SIZE,
        bars={"one thread, the same logs": Bar(0.9, 1)},
        codec="none",
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
