"""Beside Spark's own Kafka connector, on a real broker: the same options give the same rows, both ways.

The connector is the judge: what it reads, we read; what we write, it reads. Run by `make interop`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.row("D5"), pytest.mark.timeout(600)]

PARTITIONS = 3
RECORDS = 3_000
FIRST_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "lz4", "zstd"]

PLAIN, MIXED = "plain", "mixed"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka with the topics `PLAIN` and `MIXED`."""
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        fill(running.bootstrap)
        yield running


def fill(bootstrap: str) -> None:
    """`PLAIN`: defaults. `MIXED`: all codecs, headers, no keys, no values, transactions committed and aborted."""
    from confluent_kafka import Producer

    create(bootstrap, PLAIN, MIXED)
    plain = Producer({"bootstrap.servers": bootstrap})
    for n in range(RECORDS):
        send(plain, PLAIN, n)
    plain.flush()
    for number, codec in enumerate([*CODECS, "snappy"]):
        settings = {"bootstrap.servers": bootstrap, "transactional.id": codec, "compression.codec": codec}
        mixed = Producer(settings)
        mixed.init_transactions()
        for end in (mixed.abort_transaction, mixed.commit_transaction):
            mixed.begin_transaction()
            for n in range(number, RECORDS, len(CODECS) + 1):
                send(mixed, MIXED, n, headers=[("n", b"%d" % n), ("again", None), ("n", b"")])
            mixed.flush()
            end()


def create(bootstrap: str, *topics: str, **settings: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.create_topics([NewTopic(name, PARTITIONS, 1, config=settings) for name in topics]).values():
        each.result(60)


def send(producer: Any, topic: str, n: int, **more: Any) -> None:
    key = None if n % 50 == 0 else b"key-%d" % (n % 17)
    value = None if n % 70 == 0 else b"value %d " % n * 5
    producer.produce(topic, value, key, n % PARTITIONS, timestamp=FIRST_MS + n, **more)
    producer.poll(0)


def read(spark: SparkSession, form: str, broker: Broker, **options: str) -> DataFrame:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**options).load()


def rows(table: DataFrame) -> list[Any]:
    return sorted(table.collect(), key=lambda row: (row.topic, row.partition, row.offset))


COMMITTED = {"kafka.isolation.level": "read_committed"}
HEADERS = {"includeHeaders": "true"}


def offsets(*numbers: int, topic: str = PLAIN) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": PLAIN},
        {"subscribe": f"{PLAIN},{MIXED}", **COMMITTED},
        {"subscribePattern": "pl.*|nothing"},
        {"assign": json.dumps({PLAIN: [0, 2]})},
        {"subscribe": PLAIN, "startingOffsets": offsets(10, -2, 999), "endingOffsets": offsets(20, 500, -1)},
        {"subscribe": PLAIN, "startingTimestamp": str(FIRST_MS + 1_000), "endingTimestamp": str(FIRST_MS + 2_001)},
        {"subscribe": PLAIN, "minPartitions": "8"},
        {"subscribe": PLAIN, "maxRecordsPerPartition": "100"},
        {"subscribe": MIXED, **COMMITTED},
        {"subscribe": MIXED, **COMMITTED, **HEADERS},
        {"subscribe": MIXED, "kafka.isolation.level": "read_uncommitted", **HEADERS},
        {"subscribe": MIXED, **COMMITTED, "startingOffsets": offsets(7, 100, 390, topic=MIXED)},
    ],
    ids=lambda options: " ".join(options),
)
def test_the_same_options_give_the_rows_of_sparks_connector(spark, broker: Broker, options: dict[str, str]) -> None:
    theirs = read(spark, "kafka", broker, **options)
    ours = read(spark, "logstore", broker, **options)
    assert ours.dtypes == theirs.dtypes
    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_connector_writes_is_read(spark, broker: Broker, codec: str) -> None:
    topic = f"theirs-{codec}"
    create(broker.bootstrap, topic)
    sent = records(spark)
    to_kafka = sent.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    to_kafka.option("topic", topic).option("kafka.compression.type", codec).option("includeHeaders", "true").save()
    ours = read(spark, "logstore", broker, subscribe=topic, includeHeaders="true")
    assert fingerprint(ours) == fingerprint(sent)
    assert rows(ours) == rows(read(spark, "kafka", broker, subscribe=topic, includeHeaders="true"))


@pytest.mark.parametrize("codec", CODECS)
def test_what_we_write_is_read_by_the_connector(spark, broker: Broker, codec: str) -> None:
    topic = f"ours-{codec}"
    create(broker.bootstrap, topic)
    sent = records(spark)
    to_broker = sent.write.format("logstore").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    to_broker.option("topic", topic).option("compression", codec).save()
    theirs = read(spark, "kafka", broker, subscribe=topic, includeHeaders="true")
    assert fingerprint(theirs) == fingerprint(sent)
    placed = theirs.selectExpr("key", "partition").distinct().groupBy("key").count().where("key is not null")
    assert placed.where("count > 1").count() == 0


def test_a_topic_that_the_broker_stamps_is_written_to(spark, broker: Broker) -> None:
    create(broker.bootstrap, "stamped", **{"message.timestamp.type": "LogAppendTime"})
    sent = records(spark)
    writer = sent.write.format("logstore").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.option("topic", "stamped").save()
    theirs = read(spark, "kafka", broker, subscribe="stamped", includeHeaders="true")
    assert fingerprint(theirs) == fingerprint(sent)
    assert [row.timestampType for row in theirs.select("timestampType").distinct().collect()] == [1]


def test_keys_go_where_the_connector_sends_them(spark, broker: Broker) -> None:
    create(broker.bootstrap, "placed-ours", "placed-theirs")
    sent = records(spark).where("key is not null").select("key", "value")
    for form, topic in (("logstore", "placed-ours"), ("kafka", "placed-theirs")):
        writer = sent.write.format(form).mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
        writer.option("topic", topic).save()
    ours, theirs = (read(spark, "kafka", broker, subscribe=f"placed-{side}") for side in ("ours", "theirs"))
    assert fingerprint(ours, "key", "value", "partition") == fingerprint(theirs, "key", "value", "partition")


def test_a_stream_goes_from_broker_to_broker(spark, broker: Broker, tmp_path: Path) -> None:
    """Ours in and out, by limits; the connector reads what came of it."""
    create(broker.bootstrap, "streamed")
    stream = spark.readStream.format("logstore").option("kafka.bootstrap.servers", broker.bootstrap)
    stream = stream.options(subscribe=MIXED, startingOffsets="earliest", maxOffsetsPerTrigger="1000", **COMMITTED)
    writer = stream.load().select("key", "value").writeStream.format("logstore").outputMode("append")
    writer = writer.options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": "streamed"})
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(batches) == RECORDS
    assert len(batches) > 1
    theirs = read(spark, "kafka", broker, subscribe="streamed")
    expected = read(spark, "kafka", broker, subscribe=MIXED, **COMMITTED)
    assert fingerprint(theirs, "key", "value") == fingerprint(expected, "key", "value")


def records(spark: SparkSession) -> DataFrame:
    """Rows to write, of every kind."""
    return spark.range(0, 2_000, 1, 2).selectExpr(
        "if(id % 50 = 0, null, cast(concat('key-', id % 17) as binary)) as key",
        "if(id % 70 = 0, null, cast(repeat(concat('value ', id), 3) as binary)) as value",
        "if(id % 3 = 0, null, array(named_struct('key', 'n', 'value', cast(hex(id) as binary)))) as headers",
    )


def fingerprint(table: DataFrame, *columns: str) -> Any:
    """The number of rows and a hash of them that knows no order."""
    chosen = ", ".join(columns or ("key", "value", "headers"))
    return table.selectExpr("count(*)", f"sum(cast(xxhash64({chosen}) as decimal(38)))").first()
