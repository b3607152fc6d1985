"""``logstore bench``: speed of this machine and this disk, or of a cluster from here, in a few seconds.

The numbers are rough. They can compare two disks or two settings, and should not be published. Proper benchmarks
are in `benchmarks/`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from logstore.cli import output
from logstore.cli.store_option import LocalPath, StoreOptions, json_option, measured_options
from logstore.errors import LogstoreError, TopicExistsError
from logstore.store import Store, open_store

if TYPE_CHECKING:
    from logstore.remote.topics.store import RemoteStore
    from logstore.remote.topics.topic import RemoteTopic

BATCH = 1_000

#: What is measured, how many records it is, and the call; a list that it returns has the seconds of each record.
Run = tuple[str, int, Callable[[], object]]


@click.command()
@click.argument("directory", required=False, type=LocalPath(exists=True, file_okay=False))
@click.option("-n", "--records", type=click.IntRange(1_000), default=200_000, show_default=True)
@click.option(
    "-s", "--size", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="Bytes of a value."
)
@click.option(
    "--syncs",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Number of durable appends; of a cluster, of records whose latency is measured.",
)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    help="Name of the topic that is made in a cluster, and deleted; it must be new.",
)
@json_option
@measured_options
def bench(records: int, size: int, syncs: int, topic: str | None, as_json: bool, options: StoreOptions) -> None:
    """Measure appends, reads and syncs in a temporary store below DIRECTORY, by default the current directory.

    With --bootstrap, measure a cluster from here: appends, reads and latencies, in a topic of one partition that is
    made for it and deleted. No other topic is touched: the name must be new.

    JSON: what, records, seconds, records_per_s, mb_per_s; of a cluster also p50_ms and p99_ms.
    """
    if options.bootstrap is not None:
        rows = _of_cluster(options, topic or f"logstore-bench-{uuid.uuid4().hex[:12]}", records, size, syncs)
    else:
        options.refuse_profile()
        if topic is not None:
            raise click.UsageError("--topic is for a cluster; give --bootstrap HOST:PORT too")
        rows = _of_directory(options, records, size, syncs)
    output.print_rows(rows, as_json=as_json)


def _of_directory(options: StoreOptions, records: int, size: int, syncs: int) -> list[dict[str, Any]]:
    place = tempfile.mkdtemp(prefix="logstore-bench-", dir=options.directory or ".")
    try:
        settings = {"logstore.housekeeping": "manual", **options.settings}
        with open_store(os.path.join(place, "data"), settings, environ={}) as store:
            return _measured(_runs(store, records, size, syncs), size)
    finally:
        shutil.rmtree(place)


def _of_cluster(options: StoreOptions, name: str, records: int, size: int, count: int) -> list[dict[str, Any]]:
    from logstore.remote.topics.store import connect  # here: only a cluster needs a client of brokers

    bootstrap, settings = options.connection()
    with connect(bootstrap, settings) as cluster:
        try:
            topic = cluster.create_topic(name, partitions=1)
        except TopicExistsError as error:
            raise click.UsageError(
                f"--topic {name}: the topic exists, and bench would fill and delete it; give a name that is new"
            ) from error
        try:
            rows = _measured(_runs_of_cluster(cluster, topic, records, size, count), size)
        finally:
            _delete(cluster, topic)
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in columns} for row in rows]


def _delete(cluster: RemoteStore, topic: RemoteTopic) -> None:
    """Delete the topic that was made here, unless another one has its name by now."""
    try:
        if cluster.topic(topic.name).id == topic.id:
            cluster.delete_topic(topic.name)
    except LogstoreError as error:
        output.say(f"warning: topic {topic.name!r} of this command is left in the cluster: {error}")


def _measured(runs: Iterable[Run], size: int) -> list[dict[str, Any]]:
    rows = []
    for name, count, run in runs:
        output.say(f"{name} ...")
        began = time.perf_counter()
        each_s = run()
        rows.append(_row(name, count, size, time.perf_counter() - began))
        if isinstance(each_s, list):
            each_s.sort()
            rows[-1] |= {
                "p50_ms": round(each_s[len(each_s) // 2] * 1000, 2),
                "p99_ms": round(each_s[len(each_s) * 99 // 100] * 1000, 2),
            }
    return rows


def _runs_of_cluster(
    cluster: RemoteStore, topic: RemoteTopic, records: int, size: int, count: int
) -> Iterator[Run]:
    value = os.urandom(size)
    batch = [value] * BATCH
    batches = records // BATCH

    def append_many() -> None:
        for _ in range(batches):
            topic.append_many(batch)

    def send() -> None:
        with cluster.producer() as producer:
            for _ in range(records):
                producer.send(topic.name, value)

    def append_one() -> list[float]:
        return [_seconds(lambda: topic.append(value)) for _ in range(count)]

    def through() -> list[float]:
        """Send a record, and wait until a consumer has it."""
        with cluster.producer() as producer, cluster.consumer({"auto.offset.reset": "latest"}) as consumer:
            consumer.assign_topics([topic.name])
            consumer.poll(0.1)

            def once() -> None:
                producer.send(topic.name, value)
                while not consumer.poll(1.0):
                    pass

            once()  # connections are opened
            return [_seconds(once) for _ in range(count)]

    def read() -> None:
        with cluster.consumer({"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign_topics([topic.name])
            left = batches * BATCH + records
            while left > 0:
                left -= len(consumer.poll(1.0, BATCH))

    yield "append in batches of 1,000", batches * BATCH, append_many
    yield "send by a producer", records, send
    yield "consume", batches * BATCH + records, read
    yield "count", batches * BATCH + records, lambda: topic.scan().count()
    yield "append one by one, each acknowledged", count, append_one
    yield "send one by one, each consumed", count, through


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _row(name: str, count: int, size: int, seconds: float) -> dict[str, Any]:
    return {
        "what": name,
        "records": count,
        "seconds": round(seconds, 4),
        "records_per_s": round(count / seconds) if count and seconds else None,
        "mb_per_s": round(count * size / seconds / 1e6, 1) if count and seconds else None,
    }


def _runs(store: Store, records: int, size: int, syncs: int) -> Iterator[Run]:
    value = os.urandom(size)
    batch = [value] * BATCH
    topic = store.create_topic("bench")
    many = store.create_topic("bench-many")
    durable = store.create_topic("bench-durable")
    batches = records // BATCH

    def append_many() -> None:
        for _ in range(batches):
            many.append_many(batch)

    def send() -> None:
        with store.producer() as producer:
            for _ in range(records // 4):
                producer.send("bench", value)

    def append_one() -> None:
        for _ in range(records // 20):
            topic.append(value)

    def append_synced() -> None:
        for _ in range(syncs):
            durable.append(value, ack="synced")

    def read() -> None:
        with store.consumer({"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign_topics(["bench-many"])
            while consumer.poll(0.0, BATCH):
                pass

    yield "append in batches of 1,000", batches * BATCH, append_many
    yield "send by a producer", records // 4, send
    yield "append one by one", records // 20, append_one
    yield "append one by one, each synced", syncs, append_synced
    yield "flush", 0, store.flush
    yield "consume", batches * BATCH, read
    yield "count", batches * BATCH, lambda: many.scan().count()
