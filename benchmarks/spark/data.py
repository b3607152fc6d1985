"""The records, the same wherever they are put: a store, a real broker (twice), Parquet, Arrow files.

Record ``n`` is in partition ``n % PARTITIONS`` at offset ``n // PARTITIONS`` and all of it follows from ``n``, but
for the offsets of the topic `FULL`: that one is written in transactions, some of them aborted, and their markers
take offsets. Its batches are compressed and its records have headers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import logstore

PARTITIONS = 4
PLAIN = "events"
FULL = "events-full"
USERS = 10_000
FIRST_TIMESTAMP_MS = 1_700_000_000_000
CODEC = "lz4"

#: About as many as fit the 16 KiB batches of a Kafka producer with its defaults.
PER_BATCH = 140
BATCH_BYTES = 16_384
PER_TRANSACTION = 50_000
PER_ABORTED = 2_000

_PER_CHUNK = 65_536
_KAFKA_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)


def key_of(n: int) -> bytes:
    return b"user-%04d" % ((n * 2_654_435_761 >> 7) % USERS)


def value_of(n: int) -> bytes:
    return b'{"item":%5d,"amount":%d.%02d,"at":%d,"page":"/p/%03d","note":"none at all","ok":true}' % (
        n * 7_919 % 50_000,
        n % 89 + 10,
        n % 100,
        FIRST_TIMESTAMP_MS + n,
        n % 997,
    )


def headers_of(n: int) -> list[tuple[str, bytes]]:
    return [("trace", b"%016x" % (n * 0x9E3779B97F4A7C15 % 2**64)), ("source", b"web")]


def rows_of(partition: int, records: int) -> Iterator[range]:
    """The numbers of a partition's records, in chunks."""
    numbers = range(partition, records, PARTITIONS)
    for start in range(0, len(numbers), _PER_CHUNK):
        yield numbers[start : start + _PER_CHUNK]


def table_of(numbers: range, topic: str = PLAIN) -> pa.Table:
    """Some records with the columns of Spark's Kafka source."""
    partition = numbers[0] % PARTITIONS
    times = [(FIRST_TIMESTAMP_MS + n) * 1_000 for n in numbers]
    columns = [
        [key_of(n) for n in numbers],
        [value_of(n) for n in numbers],
        [topic] * len(numbers),
        [partition] * len(numbers),
        [n // PARTITIONS for n in numbers],
        times,
        [0] * len(numbers),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _KAFKA_COLUMNS, strict=True)]
    return pa.table(arrays, schema=_KAFKA_COLUMNS)


def write_files(work: Path, records: int) -> None:
    """Parquet, Arrow files and a store, each of the same rows."""
    parquet, arrow = work / "events.parquet", work / "events.arrow"
    for folder in (parquet, arrow):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    with logstore.open(work / "store", environ={}) as store:
        topic = store.create_topic(PLAIN, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            with (
                pq.ParquetWriter(parquet / f"{partition}.zstd.parquet", _KAFKA_COLUMNS, compression="zstd") as rows,
                pa.OSFile(str(arrow / f"{partition}.arrow"), "wb") as file,
                pa.ipc.new_file(file, _KAFKA_COLUMNS) as batches,
            ):
                held = []
                for numbers in rows_of(partition, records):
                    table = table_of(numbers)
                    held.append(table)
                    if len(held) == 16:  # a row group of a million
                        rows.write_table(pa.concat_tables(held).combine_chunks())
                        held.clear()
                    batches.write_table(table.combine_chunks())
                    sent = table.select(["key", "value", "timestamp"])
                    for start in range(0, len(numbers), PER_BATCH):
                        topic.append_many(sent.slice(start, PER_BATCH), partition=partition)
                if held:
                    rows.write_table(pa.concat_tables(held).combine_chunks())


def write_topics(bootstrap: str, records: int) -> None:
    """The topic `PLAIN` by an idempotent producer, and `FULL` with all that a broker can be asked for."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {"bootstrap.servers": bootstrap, "batch.size": BATCH_BYTES, "linger.ms": 20}
    settings |= {"queue.buffering.max.messages": 200_000, "enable.idempotence": True}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(topic, PARTITIONS, 1) for topic in (PLAIN, FULL)]
    for made in admin.create_topics(topics).values():
        made.result(60)

    plain = Producer(settings)
    for n in range(records):
        _produce(plain, PLAIN, n)
    plain.flush()

    full = Producer({**settings, "transactional.id": "bench", "compression.codec": CODEC})
    full.init_transactions()
    for start in range(0, records, PER_TRANSACTION):
        full.begin_transaction()
        for n in range(start, start + min(PER_ABORTED, records)):
            _produce(full, FULL, n, headers_of(n))
        full.flush()  # or it would be given up before it was sent
        full.abort_transaction()
        full.begin_transaction()
        for n in range(start, min(start + PER_TRANSACTION, records)):
            _produce(full, FULL, n, headers_of(n))
        full.commit_transaction()


def _produce(producer: object, topic: str, n: int, headers: list[tuple[str, bytes]] | None = None) -> None:
    arguments = (topic, value_of(n), key_of(n), n % PARTITIONS)
    options = {"timestamp": FIRST_TIMESTAMP_MS + n, **({"headers": headers} if headers else {})}
    while True:
        try:
            producer.produce(*arguments, **options)
        except BufferError:
            producer.poll(0.1)
        else:
            break
    if n % 1_000 == 0:
        producer.poll(0)
