"""Spark on our own broker: its own Kafka connector, and our source and sink with ``bootstrap``. By `make interop`.

What is sent is known here, row by row: neither of the two is the judge of the other.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import logstore
from logstore.records import Codec
from tests.broker.process import ServedProcess, served_process
from tests.kit.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.interop, pytest.mark.row("D5"), pytest.mark.timeout(600)]

PARTITIONS = 3
RECORDS = 2_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FORMATS = ["kafka", "logstore"]

#: key, value, headers
Sent = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "data"


@pytest.fixture(scope="module")
def ours(directory: Path) -> Iterator[ServedProcess]:
    with served_process(directory) as process:
        yield process


def sent(start: int = 0, end: int = RECORDS) -> list[Sent]:
    """Records without a key, without a value, with headers, with a header without a value."""
    return [
        (
            None if n % 50 == 0 else b"key-%d" % (n % 17),
            None if n % 70 == 0 else b"value %d " % n * 3,
            () if n % 3 == 0 else (("n", b"%d" % n), ("none", None), ("n", b"")),
        )
        for n in range(start, end)
    ]


def table_of(spark: SparkSession, rows: list[Sent]) -> DataFrame:
    columns = "key binary, value binary, headers array<struct<key string, value binary>>"
    return spark.createDataFrame([(key, value, list(headers) or None) for key, value, headers in rows], columns)


def create(ours: ServedProcess, topic: str, partitions: int = PARTITIONS) -> None:
    with logstore.connect(ours.bootstrap) as cluster:
        cluster.create_topic(topic, partitions)


def fill(ours: ServedProcess, topic: str, rows: list[Sent], codec: str = "zstd") -> None:
    with logstore.connect(ours.bootstrap) as cluster, cluster.producer(compression_type=codec) as producer:
        for key, value, headers in rows:
            producer.send(topic, value, key=key, headers=headers)


def contents(ours: ServedProcess, topic: str) -> list[Sent]:
    """What is in a topic, in no order."""
    with logstore.connect(ours.bootstrap) as cluster:
        return known((each.key, each.value, each.headers) for each in cluster[topic].scan())


def known(rows: Any) -> list[Sent]:
    return sorted(((key, value, tuple(headers)) for key, value, headers in rows), key=repr)


def read(spark: SparkSession, form: str, ours: ServedProcess, **options: str) -> DataFrame:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", ours.bootstrap)
    return reader.options(**{"includeHeaders": "true", **options}).load()


def found(table: DataFrame) -> list[Sent]:
    return known((_bytes(row.key), _bytes(row.value), _headers(row.headers)) for row in table.collect())


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each.key, _bytes(each.value)) for each in headers or ())


def codecs_in(directory: Path, topic: str) -> set[str]:
    """How the batches of a topic's files are compressed."""
    seen: set[str] = set()
    for path in directory.glob(f"{topic}-*/*.log"):
        stored, position = path.read_bytes(), 0
        while position < len(stored):
            (size,) = struct.unpack_from(">i", stored, position + 8)
            (attributes,) = struct.unpack_from(">h", stored, position + 21)
            seen.add(Codec(attributes & 7).name.lower())
            position += 12 + size
    return seen


def write(form: str, ours: ServedProcess, topic: str, codec: str, table: DataFrame) -> None:
    writer = table.write.format(form).mode("append").option("kafka.bootstrap.servers", ours.bootstrap)
    if form == "kafka":
        writer = writer.option("kafka.compression.type", codec).option("includeHeaders", "true")
    else:
        writer = writer.option("compression", codec)
    writer.option("topic", topic).save()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_that_is_written_is_there_and_read_by_both(
    spark: SparkSession, directory: Path, ours: ServedProcess, form: str, codec: str
) -> None:
    topic = f"batch-{form}-{codec}"
    create(ours, topic)
    write(form, ours, topic, codec, table_of(spark, sent()))
    wanted = known(sent())
    assert contents(ours, topic) == wanted
    for reader in FORMATS:
        table = read(spark, reader, ours, subscribe=topic)
        assert found(table) == wanted, reader
        places = sorted((row.partition, row.offset) for row in table.select("partition", "offset").collect())
        ends = Counter(partition for partition, _ in places)
        assert places == [(partition, offset) for partition in sorted(ends) for offset in range(ends[partition])]
    assert codecs_in(directory, topic) == {codec}


@pytest.mark.parametrize("form", FORMATS)
def test_bounds_by_offset_and_time_and_patterns_and_slices(
    spark: SparkSession, ours: ServedProcess, form: str
) -> None:
    topic = f"bounds-{form}"
    now = 1_700_000_000_000
    with logstore.connect(ours.bootstrap) as cluster:
        cluster.create_topic(topic, 2, retention_ms=-1)
        for part in range(2):
            for n in range(100):
                cluster[topic].append(b"%d-%d" % (part, n), partition=part, timestamp=now + n)

    def values(**options: str) -> list[tuple[int, int]]:
        rows = read(spark, form, ours, **options).select("partition", "offset", "value").collect()
        assert all(bytes(row.value) == b"%d-%d" % (row.partition, row.offset) for row in rows)
        return sorted((row.partition, row.offset) for row in rows)

    def bounds(one: int, other: int) -> str:
        return json.dumps({topic: {"0": one, "1": other}})

    every = [(part, n) for part in range(2) for n in range(100)]
    assert values(subscribePattern=f"{topic}|nothing") == every
    assert values(subscribe=topic, **{"kafka.isolation.level": "read_committed"}) == every
    assert values(assign=json.dumps({topic: [1]})) == every[100:]
    assert values(subscribe=topic, startingOffsets=bounds(90, -2), endingOffsets=bounds(-1, 5)) == (
        every[90:100] + every[100:105]
    )
    assert values(subscribe=topic, startingTimestamp=str(now + 95), endingTimestamp=str(now + 98)) == [
        (part, n) for part in range(2) for n in range(95, 98)
    ]
    assert values(subscribe=topic, minPartitions="7") == every
    assert values(subscribe=topic, maxRecordsPerPartition="30") == every


def stream(spark: SparkSession, form: str, ours: ServedProcess, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format(form).option("kafka.bootstrap.servers", ours.bootstrap)
    return reader.options(
        **{"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true", **options}
    ).load()


def start(
    table: DataFrame, form: str, ours: ServedProcess, topic: str, checkpoint: Path, **trigger: Any
) -> StreamingQuery:
    writer = table.select("key", "value", "headers").writeStream.format(form).outputMode("append")
    writer = writer.options(**{"kafka.bootstrap.servers": ours.bootstrap, "topic": topic, "includeHeaders": "true"})
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_that_is_stopped_goes_on_from_its_checkpoint(
    spark: SparkSession, ours: ServedProcess, tmp_path: Path, form: str
) -> None:
    """From broker to broker, at first by limits; then the rest, with records that came while it was stopped."""
    source, target = f"source-{form}", f"target-{form}"
    create(ours, source)
    create(ours, target)
    fill(ours, source, sent(0, 1_000))
    table = stream(spark, form, ours, source, maxOffsetsPerTrigger="300")
    query = start(table, form, ours, target, tmp_path, availableNow=True)
    query.awaitTermination()
    assert len([each for each in query.recentProgress if each["numInputRows"]]) > 1
    assert contents(ours, target) == known(sent(0, 1_000))
    fill(ours, source, sent(1_000, 1_500), codec="lz4")
    query = start(table, form, ours, target, tmp_path, processingTime="100 milliseconds")
    query.processAllAvailable()  # a stop inside a batch repeats it, and neither sink can take it back
    query.stop()
    assert contents(ours, target) == known(sent(0, 1_500))
    fill(ours, source, sent(1_500, RECORDS), codec="snappy")
    query = start(table, form, ours, target, tmp_path, availableNow=True)
    query.awaitTermination()
    assert contents(ours, target) == known(sent())


@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_goes_on_after_the_broker_was_killed(spark: SparkSession, tmp_path: Path, form: str) -> None:
    with served_process(tmp_path / "data") as own:
        create(own, "source")
        create(own, "target")
        fill(own, "source", sent(0, 1_000))
        table = stream(spark, form, own, "source")
        query = start(table, form, own, "target", tmp_path / "checkpoint", processingTime="100 milliseconds")
        wait_for(lambda: len(contents(own, "target")) == 1_000, 120)
        own.kill()
        own.start()
        fill(own, "source", sent(1_000, RECORDS))
        wait_for(lambda: set(contents(own, "target")) == set(sent()), 240)
        query.stop()
        assert query.exception() is None
