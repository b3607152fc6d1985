"""Records sent one by one from a Python loop, and appends to several partitions, beside what they replace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import least
import peers
import pyarrow as pa
import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM, Places, appending

import logstore
from logstore import Log
from logstore.batch._batch import BatchView
from logstore.batch._encode import encode
from logstore.batch._key_hash import partition_of

SIZE = 100

#: A producer gathers what it is sent, and so does the first; the second has each record in the page cache.
GATHERED = ("naive file, 64 KiB buffer", "naive file")


class Sending:
    """A store with one topic and a producer of it; settings as they come."""

    def __init__(self, place: Path, partitions: int = 1, **settings: Any) -> None:
        self.place = place
        self.store = logstore.open(place / "data")
        self.topic = self.store.create_topic("race", partitions)
        self.producer = self.store.producer(**settings)
        # Opened on first use, which is no measured append.
        self.logs = self.topic.partitions

    def check(self, values: list[bytes]) -> None:
        """Everything is there, in order where there is one order."""
        if len(self.topic) == 1:
            assert [value for chunk in self.topic[0].scan().values() for value in chunk] == values
        else:
            assert sum(log.log_end_offset for log in self.topic.partitions) == len(values)

    def close(self) -> None:
        self.store.close()
        shutil.rmtree(self.place)


def sending(
    places: Places, values: list[bytes], work: Callable[[Sending], None], partitions: int = 1, **settings: Any
) -> Runner:
    """Send all values to an empty topic and flush."""

    def check(state: Sending, _result: Any) -> None:
        state.check(values)
        state.close()

    return Runner(work, check, lambda: Sending(places(), partitions, **settings), parts=COPY_AND_SUM)


@pytest.mark.row("P1", "S6")
@pytest.mark.parametrize("futures", ["dropped", "resolved"])
def test_single_records_from_a_loop(benchmark: Any, places: Any, futures: str) -> None:
    """`send` for each record, no fsync. The files have no futures, keys or CRC; one gathers, one writes each."""
    values = [value for (value,) in records.groups(SIZE, 1, 100_000)]

    def dropping(state: Sending) -> None:
        send = state.producer.send
        for value in values:
            send("race", value)
        state.producer.flush()

    def resolving(state: Sending) -> None:
        send = state.producer.send
        kept = [send("race", value) for value in values]
        state.producer.flush()
        assert [future.result().offset for future in kept] == list(range(len(values)))

    work, bar = {"dropped": (dropping, Bar(3)), "resolved": (resolving, Bar(2))}[futures]
    race(
        benchmark,
        sending(places, values, work),
        {
            name: appending(kind, places, [[value] for value in values])
            for name, kind in peers.logs(*GATHERED).items()
        },
        workload=f"producer: single {SIZE} B records, futures {futures}",
        records=len(values),
        size=len(values) * SIZE,
        bars={"naive file, 64 KiB buffer": bar},
        codec="none",
    )


@pytest.mark.row("P4")
def test_single_records_with_keys_to_four_partitions(benchmark: Any, places: Any) -> None:
    values = [value for (value,) in records.groups(SIZE, 1, 100_000)]
    keys = [b"%d" % (n % 1_000) for n in range(len(values))]

    def work(state: Sending) -> None:
        send = state.producer.send
        for key, value in zip(keys, values, strict=True):
            send("race", value, key)
        state.producer.flush()

    race(
        benchmark,
        sending(places, values, work, partitions=4),
        {
            name: appending(kind, places, [[value] for value in values])
            for name, kind in peers.logs(*GATHERED).items()
        },
        workload=f"producer: single {SIZE} B records, keys to 4 partitions",
        records=len(values),
        size=len(values) * SIZE,
        codec="none",
    )


@pytest.mark.row("P4")
def test_single_records_to_a_thousand_partitions(benchmark: Any, places: Any) -> None:
    """A record for each in turn, beside one partition: what a batch of few records costs, and its bookkeeping."""
    count, many = 100_000, 1_000
    values = [value for (value,) in records.groups(SIZE, 1, count)]

    def sending_to(partitions: int) -> Runner:
        def prepare() -> Sending:
            state = Sending(places(), partitions)
            for number in range(partitions):
                # The steps of a partition's first batch are no part of a record's: a producer lives for long.
                state.producer.send("race", b"first", partition=number)
            state.producer.flush()
            return state

        def work(state: Sending) -> None:
            send = state.producer.send
            for number, value in enumerate(values):
                send("race", value, partition=number % partitions)
            state.producer.flush()

        def check(state: Sending, _result: Any) -> None:
            assert sum(log.log_end_offset for log in state.logs) == count + partitions
            state.close()

        return Runner(work, check, prepare, parts=COPY_AND_SUM)

    race(
        benchmark,
        sending_to(many),
        {"one partition": sending_to(1)},
        workload=f"producer: single {SIZE} B records to {many:,} partitions",
        records=count,
        size=count * SIZE,
        bars={"one partition": Bar(0.4)},
        codec="none",
    )


@pytest.mark.row("P11", part="one process")
def test_lingering(benchmark: Any, places: Any) -> None:
    """The same records with linger.ms 20 and 0: fewer appends, and how much sooner it is done."""
    values = [value for (value,) in records.groups(SIZE, 1, 20_000)]
    appends: dict[int, int] = {}

    def working(linger_ms: int) -> Callable[[Sending], None]:
        def work(state: Sending) -> None:
            send = state.producer.send
            for value in values:
                send("race", value)
            state.producer.flush()
            appends[linger_ms] = state.topic[0].metrics().counters["appends"]

        return work

    race(
        benchmark,
        sending(places, values, working(20), linger_ms=20),
        {"linger.ms 0": sending(places, values, working(0), linger_ms=0)},
        workload=f"producer: single {SIZE} B records, linger.ms 20",
        records=len(values),
        size=len(values) * SIZE,
        codec="none",
        targets=lambda _medians: [
            Target("records in one append, linger.ms 20", len(values) / appends[20], "", 20, at_most=False)
        ],
    )
    assert appends[0] == len(values)


@pytest.mark.row("S6")
@pytest.mark.parametrize(
    "kind, partitions, count",
    [("list", 1, 1_000), ("list", 4, 1_000), ("arrow", 1, 1_000), ("arrow", 4, 1_000), ("arrow", 4, 100_000)],
)
def test_appends_of_a_topic(benchmark: Any, places: Any, kind: str, partitions: int, count: int) -> None:
    """`append_many` and `append_arrow` of some records each, beside `Log.append` of the same data.

    To four partitions the same bytes are four writes. What is left of the rate is at most that of four
    `Log.append` calls with the records divided beforehand, which is measured too. So are the bare writes of the
    bytes, to four files and to one: a kernel takes longer for four small ones. Of a large table the writes cost
    the same as one; the hash of the keys and the division are left. What C takes for hash, division, encoding and
    the four writes is the least of all: `least_append.c`.
    """
    rounds, method = 400_000 // count, "append_arrow" if kind == "arrow" else "append_many"
    values = records.values(SIZE, count)
    pairs = [(b"%d" % (n % 100), value) for n, value in enumerate(values)]
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    data: Any = pairs
    parts: list[Any] = [pairs[n::4] for n in range(4)]
    if kind == "arrow":
        data = pa.record_batch([[key for key, _ in pairs], values], schema=schema)
        parts = [pa.record_batch([list(column) for column in zip(*part, strict=True)], schema) for part in parts]

    def ours() -> Sending:
        state = Sending(places(), partitions)
        for log in state.logs:
            log.append([(b"first", b"")])
        return state

    def work(state: Sending) -> None:
        append = getattr(state.topic, method)
        for _ in range(rounds):
            append(data)

    def check(state: Sending, _result: Any) -> None:
        assert sum(log.log_end_offset for log in state.topic.partitions) == count * rounds + partitions
        state.close()

    def alone(logs: int) -> tuple[Path, list[Log]]:
        place = places()
        opened = [Log.open(place / f"race-{number}") for number in range(logs)]
        for log in opened:
            log.append([(b"first", b"")])
        return place, opened

    def append(state: tuple[Path, list[Log]]) -> None:
        log = state[1][0]
        for _ in range(rounds):
            log.append(data)

    def append_divided(state: tuple[Path, list[Log]]) -> None:
        for _ in range(rounds):
            for log, part in zip(state[1], parts, strict=True):
                log.append(part)

    def check_alone(state: tuple[Path, list[Log]], _result: Any) -> None:
        place, logs = state
        assert sum(log.log_end_offset for log in logs) == count * rounds + len(logs)
        for log in logs:
            log.close()
        shutil.rmtree(place)

    def writing(files: int) -> Runner:
        pieces = [bytes(encode(pairs[n::files])) for n in range(files)]

        def prepare() -> tuple[Path, list[BinaryIO]]:
            place = places()
            return place, [(place / str(number)).open("wb", buffering=0) for number in range(files)]

        def write(state: tuple[Path, list[BinaryIO]]) -> None:
            for _ in range(rounds):
                for file, piece in zip(state[1], pieces, strict=True):
                    file.write(piece)

        def check_files(state: tuple[Path, list[BinaryIO]], _result: Any) -> None:
            place, opened = state
            assert sum(file.tell() for file in opened) == sum(map(len, pieces)) * rounds
            for file in opened:
                file.close()
            shutil.rmtree(place)

        return Runner(write, check_files, prepare)

    def check_least(state: least.LeastAppends, _result: Any) -> None:
        for number, file in enumerate(state.files):
            batch = BatchView(os.pread(file, os.fstat(file).st_size // rounds, 0)).check()
            own = [pair for pair in pairs if partition_of(pair[0], partitions) == number]
            assert [(record.key, record.value) for record in batch] == own
        state.close()

    def append_least(state: least.LeastAppends) -> None:
        for _ in range(rounds):
            state.append()

    peers = {
        "Log.append of the same data": Runner(append, check_alone, lambda: alone(1), parts=COPY_AND_SUM),
    }
    if partitions > 1:
        peers["four, divided beforehand"] = Runner(
            append_divided, check_alone, lambda: alone(4), parts=COPY_AND_SUM
        )
        peers["limit: four bare writes"] = writing(4)
        peers["limit: one bare write"] = writing(1)
    if partitions > 1 and kind == "arrow" and count == 1_000 and least.library() is not None:
        peers["limit: hash, encode and write in C"] = Runner(
            append_least,
            check_least,
            lambda: least.LeastAppends(places(), data, partitions, rounds),
            parts=COPY_AND_SUM,
        )
    race(
        benchmark,
        Runner(work, check, ours, parts=COPY_AND_SUM),
        peers,
        workload=f"topic.{method}, {SIZE} B x {count:,}, {partitions} partition(s)",
        records=count * rounds,
        size=count * rounds * SIZE,
        bars={"Log.append of the same data": Bar(0.95 if partitions == 1 else 0.8)},
        codec="none",
    )
