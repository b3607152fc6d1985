"""A year of departures from New York through the library: load, kill the loader, consume, scan, serve, compact.

    python -m examples.flights --directory demo-data

The topic `departures` has four partitions, and the airline is the key. A loader in another process is killed
half way; what it was told is written must be there. Then two consumers share the topic, a data frame library reads
it as a table, confluent-kafka reads it from a broker, and `latest-by-aircraft` is compacted. Every figure is
compared with the source rows; the exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import logstore
from examples.flights_source import Row, aircraft_of, read_source, rows_of
from examples.show import DemoError, Show, Step, expect
from logstore.broker import serve

PARTITIONS = 4
FLUSH_EVERY = 5_000  #: records; what was flushed is acknowledged
GROUP = "departure-board"
RANDOM_READS = 5_000
ANSWER_S = 30.0  #: how long a client of the broker waits for the next records
TOPICS = ("departures", "latest-by-aircraft")
MARK = "made-by-the-flights-demo"

#: The columns that a data frame needs for the delays by airline, decoded from the JSON of the values.
SCHEMA = {"carrier": "string", "dep_delay": "float64"}


# --- loading, and what a kill leaves -----------------------------------------------------------


def partition_of(key: bytes) -> int:
    """Where a key goes, said by the library's own function: Kafka's hash."""
    return logstore.partition_of(key, PARTITIONS)


def shares(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each partition, in their order."""
    found: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    for row in rows:
        found[partition_of(row[0])].append(row)
    return found


def load(store: logstore.Store, rows: Sequence[Row], report: Callable[[int], object]) -> None:
    """Send rows one by one; ``report`` how many were acknowledged after each flush."""
    with store.producer(linger_ms=20) as producer:
        for n, (key, value, timestamp_ms) in enumerate(rows, 1):
            producer.send("departures", value, key, timestamp=timestamp_ms)
            if n % FLUSH_EVERY == 0:
                producer.flush()
                report(n)


def load_until_killed(directory: Path, rows: Sequence[Row], acknowledged: Connection) -> None:
    """What the child process does. It has no way to end but the kill."""
    store = logstore.open(directory)
    store.create_topic("departures", PARTITIONS)
    # On a busy machine the kill may come late: at three quarters the loader waits for it.
    load(store, rows[: len(rows) * 3 // 4], acknowledged.send)
    signal.pause()


def kill_half_way(directory: Path, rows: Sequence[Row], progress: Callable[[int], object]) -> tuple[int, float]:
    """Load in a child, kill it at half of the rows.

    Returns how many records the child had acknowledged, and the seconds since its first report.
    """
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=load_until_killed, args=(directory, rows, theirs), daemon=True)
    child.start()
    theirs.close()
    acknowledged = 0
    with contextlib.suppress(EOFError):  # the pipe of a dead child ends
        acknowledged = ours.recv()
        started = time.perf_counter()
        while acknowledged < len(rows) // 2:
            acknowledged = ours.recv()
            progress(acknowledged)
        child.kill()
        seconds = time.perf_counter() - started
        while True:  # what it had still said
            acknowledged = ours.recv()
    child.join()
    if child.exitcode != -signal.SIGKILL:
        raise DemoError(f"the loader was to be killed, but ended with exit code {child.exitcode}")
    return acknowledged, seconds


def check_kept(topic: logstore.Topic, rows: Sequence[Row]) -> list[int]:
    """How many rows each partition holds: the first ones of its share, in order, byte for byte."""
    kept = []
    for number, share in enumerate(shares(rows)):
        log = topic[number]
        for record, (key, value, timestamp_ms) in zip(log, share, strict=False):
            if (record.key, record.value, record.timestamp_ms) != (key, value, timestamp_ms):
                raise DemoError(f"partition {number}: offset {record.offset} does not hold its row")
        if log.log_end_offset > len(share):
            raise DemoError(f"partition {number} holds {log.log_end_offset:,} records of {len(share):,} rows")
        kept.append(log.log_end_offset)
    return kept


def missing(rows: Sequence[Row], kept: Sequence[int]) -> list[Row]:
    """The rows that are in no partition yet, in the order of the source."""
    seen = [0] * PARTITIONS
    left = []
    for row in rows:
        number = partition_of(row[0])
        seen[number] += 1
        if seen[number] > kept[number]:
            left.append(row)
    return left


# --- reading -----------------------------------------------------------------------------------


def consume(store: logstore.Store, partitions: Sequence[int], counts: dict[int, int]) -> None:
    """One consumer of the group: from the committed offset to the end of its partitions, then a commit."""
    with store.consumer(group=GROUP, auto_offset_reset="earliest") as consumer:
        consumer.assign([logstore.TopicPartition("departures", number) for number in partitions])
        while records := consumer.poll(timeout_s=0):
            for record in records:
                counts[record.partition] = counts.get(record.partition, 0) + 1
        consumer.commit()


def mean_delays(topic: logstore.Topic) -> dict[str, float]:
    """Airline -> mean departure delay in minutes over the flights that departed: the topic as a data frame."""
    import polars

    frame = polars.DataFrame(topic.scan(columns=list(SCHEMA), value_schema=SCHEMA))
    departed = frame.filter(polars.col("dep_delay").is_not_null())
    means = departed.group_by("carrier").agg(polars.col("dep_delay").mean())
    return dict(means.iter_rows())


def latest_by_aircraft(topic: logstore.Topic) -> dict[bytes, tuple[int, bytes]]:
    """Tail number -> (offset, value) of its records, of which a compacted topic keeps the newest."""
    return {record.key: (record.offset, record.value) for record in topic[0]}


# --- the place ---------------------------------------------------------------------------------


def empty_place(directory: Path) -> None:
    """Make a store in which this demo may make its topics; those of an earlier run are removed.

    Raises `DemoError`, having removed nothing, if the directory was not made by this demo.
    """
    if directory.exists() and any(directory.iterdir()) and not (directory / MARK).exists():
        raise DemoError(f"{directory} was not made by this demo; choose another --directory")
    with logstore.open(directory) as store:  # refused while another run is using it
        (directory / MARK).touch()
        for topic in (*TOPICS, "__consumer_offsets"):
            if topic in store:
                store.delete_topic(topic)


# --- the demo ----------------------------------------------------------------------------------


def run(directory: Path) -> None:
    """The whole story; raises `DemoError` where it does not hold."""
    show = Show()
    empty_place(directory)
    show.say("reading the source: 2013's departures from New York")
    flights = read_source()
    rows = rows_of(flights)
    total, total_bytes = len(rows), size_of(rows)

    show.say(f"a producer in another process sends {total:,} records to {directory}, to be killed half way")
    with show.progress("load", total) as progress:
        acknowledged, seconds = kill_half_way(directory, rows, progress)
    with show.step("reopen after the kill", 0, 0) as reopening:
        store = logstore.open(directory)
        departures = store["departures"]
        ends = [log.log_end_offset for log in departures.partitions]
    with store:
        reopening.records = sum(ends)
        kept = check_kept(departures, rows)
        show.steps.insert(0, Step("producer, killed half way", sum(kept), size_of(rows[: sum(kept)]), seconds))
        show.say(f"killed by SIGKILL; acknowledged: {acknowledged:,} records, recovered: {sum(kept):,}")
        for number, share in enumerate(shares(rows[:acknowledged])):
            if kept[number] < len(share):
                raise DemoError(f"partition {number}: acknowledged records are missing")

        left = missing(rows, kept)
        show.say(f"completing the load: {len(left):,} records are left")
        with show.progress("load", total) as progress:
            with show.step("producer, the rest", len(left), size_of(left)):
                load(store, left, progress)
                store.flush()
        expect("records in each partition", check_kept(departures, rows), [len(share) for share in shares(rows)])

        consumed(show, store, rows)
        scanned(show, departures, flights, total, total_bytes)
        random_reads(show, departures, rows)
        served(show, store, rows)
        compacted(show, store, flights)
    show.table()
    show.say(
        f"\nproven: a producer killed at {sum(kept):,} records lost none of the {acknowledged:,} acknowledged; all "
        f"{total:,} rows are in the topic once, in the order of their airline, byte for byte."
    )


def consumed(show: Show, store: logstore.Store, rows: Sequence[Row]) -> None:
    """Two consumers share the topic, each in a thread; once they have committed, a second look finds nothing."""
    for expected in ([len(share) for share in shares(rows)], [0] * PARTITIONS):
        counts: dict[int, int] = {}
        threads = [threading.Thread(target=consume, args=(store, numbers, counts)) for numbers in ((0, 1), (2, 3))]
        with show.step("two consumers", sum(expected), size_of(rows) if sum(expected) else 0) as step:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if not sum(expected):
            step.name = "two consumers, once more"
        expect("records consumed", [counts.get(number, 0) for number in range(PARTITIONS)], expected)
    expect("lag of the group", sum(lag.records for lag in store.lag(GROUP)), 0)


def scanned(show: Show, topic: logstore.Topic, flights: Any, total: int, total_bytes: int) -> None:
    """The topic as a table: a count, and the delays by airline in a data frame library."""
    with show.step("count, from the batch headers", total, 0):
        expect("records in the topic", topic.scan().count(), total)
    with show.step("scan into Polars, JSON decoded", total, total_bytes):
        means = mean_delays(topic)
    wanted = flights.groupby("carrier")["dep_delay"].mean().nlargest(5)
    show.say("\nmean departure delay over flights that departed, minutes:")
    for airline, source in wanted.items():
        show.say(f"  {airline}  from the topic {means[airline]:8.4f}   from the source {source:8.4f}")
        if abs(means[airline] - source) > 1e-9 * abs(source):
            raise DemoError(f"the mean delay of {airline} differs from the source")
    expect("the five latest airlines", sorted(means, key=means.__getitem__, reverse=True)[:5], list(wanted.index))


def random_reads(show: Show, topic: logstore.Topic, rows: Sequence[Row]) -> None:
    """Single records by their offset."""
    import random

    chooser = random.Random(13)
    split = shares(rows)
    places = [
        (number, chooser.randrange(len(split[number])))
        for number in chooser.choices(range(PARTITIONS), k=RANDOM_READS)
    ]
    logs = topic.partitions
    took = []
    with show.step("", len(places), size_of([split[number][offset] for number, offset in places])) as reads:
        for number, offset in places:
            started = time.perf_counter()
            record = logs[number].record_at(offset)
            took.append(time.perf_counter() - started)
            expect(f"the record at {number}:{offset}", record and record.value, split[number][offset][1])
        reads.name = f"random reads, median {statistics.median(took) * 1e6:.0f} µs each"


def served(show: Show, store: logstore.Store, rows: Sequence[Row]) -> None:
    """The same directory, served to clients of Kafka while it is open here; every record comes as it was sent."""
    with serve(store, "127.0.0.1:0") as broker:
        show.say(f"\nserving the store at {broker.bootstrap} to a client of Kafka (confluent-kafka)")
        with show.step("confluent-kafka, by the broker", len(rows), size_of(rows)):
            found = read_by_a_kafka_client(broker.bootstrap, len(rows))
    expect("whether confluent-kafka has read what was sent", found == shares(rows), True)


def read_by_a_kafka_client(bootstrap: str, count: int) -> list[list[Row]]:
    """The first records of `departures`, so many in all, by partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    consumer.assign([TopicPartition("departures", number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: list[list[Row]] = [[] for _ in range(PARTITIONS)]
    left = count
    while left:
        messages = consumer.consume(min(left, 10_000), ANSWER_S)
        if not messages:
            raise DemoError(f"no record came from the broker for {ANSWER_S:.0f} s; {left:,} were left")
        for message in messages:
            if message.error():
                raise DemoError(f"the broker's answer: {message.error()}")
            found[message.partition()].append((message.key(), message.value(), message.timestamp()[1]))
        left -= len(messages)
    consumer.close()
    return found


def compacted(show: Show, store: logstore.Store, flights: Any) -> None:
    """The newest flight of each aircraft: a compacted topic, whose offsets stay as they were."""
    rows = aircraft_of(flights)
    left_out = len(flights) - len(rows)
    topic = store.create_topic("latest-by-aircraft", 1, cleanup_policy="compact", segment_bytes=4 << 20)
    show.say(f"\nlatest-by-aircraft: {len(rows):,} flights by tail number, {left_out:,} without one are left out")
    for start in range(0, len(rows), 1000):
        topic.append_many(rows[start : start + 1000])
    topic[0].maintenance.roll()
    before = topic[0].maintenance.size
    with show.step("compaction, newest by aircraft", len(rows), size_of(rows)):
        topic[0].maintenance.compact()
    newest = {key: (offset, value) for offset, (key, value, _) in enumerate(rows)}
    after = topic[0].maintenance.size
    expect("the newest flight of each aircraft", latest_by_aircraft(topic), newest)
    expect("records after the compaction", topic.scan().count(), len(newest))
    show.say(f"compacted: {before:,} bytes to {after:,}, one record for each of {len(newest):,} aircraft\n")


def size_of(rows: Sequence[Row]) -> int:
    """Bytes of keys and values."""
    return sum(len(key) + len(value) for key, value, _ in rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="a year of flights through a store: load, kill, consume, scan, serve, compact"
    )
    parser.add_argument("--directory", type=Path, default=Path("demo-data"), help="made if it is missing")
    try:
        run(parser.parse_args().directory)
    except (DemoError, logstore.LogstoreError) as error:
        print(f"flights: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
