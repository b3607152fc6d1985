"""Where the rows are written to: each sink takes the same keys and values from Parquet."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import logstore
from benchmarks.spark import data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA, BOOTSTRAP, PARQUET, NOOP = "kafka", "bootstrap", "parquet", "noop"
EXACTLY, AT_LEAST = "path, exactly once", "path, at least once"

KAFKA_TUNED = "kafka, tuned"
#: What one gives the connector's producer who wants throughput, at the same durability as by default (acks=all).
TUNED = {"kafka.linger.ms": "50", "kafka.batch.size": str(1 << 20), "kafka.buffer.memory": str(256 << 20)}


@dataclass(frozen=True)
class Sink:
    """A format with its options; ``prepare`` makes the place that a pass writes to, ``count`` what it has then."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    count: Callable[[], int] | None = None

    def write(self, spark: SparkSession, work: Path) -> None:
        """As a table."""
        rows = spark.read.parquet(str(work / "events.parquet")).select("key", "value")
        mode = "overwrite" if self.format in ("parquet", "noop") else "append"
        rows.write.format(self.format).mode(mode).options(**self.options).save()

    def stream(self, spark: SparkSession, work: Path) -> None:
        """As a stream of one batch."""
        checkpoint = work / f"checkpoint-{uuid.uuid4()}"
        source = str(work / "events.parquet")
        rows = spark.readStream.schema(spark.read.parquet(source).schema).parquet(source).select("key", "value")
        writer = rows.writeStream.format(self.format).options(**self.options)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()
        shutil.rmtree(checkpoint)


def sinks(work: Path, bootstrap: str | None) -> dict[str, Sink]:
    """All by name; Kafka's topics are made again for each pass, as the stores are."""
    parquet = work / "written.parquet"
    found = {
        NOOP: Sink("noop"),
        PARQUET: Sink("parquet", {"path": str(parquet)}, lambda: _remove(parquet)),
    }
    for name, exactly_once in ((EXACTLY, "true"), (AT_LEAST, "false")):
        root = work / f"written-{exactly_once}"
        options = {"path": str(root), "topic": "written", "exactlyOnce": exactly_once}
        found[name] = Sink("logstore", options, _maker(root), _counter(root))
    if bootstrap is not None:
        options = {"kafka.bootstrap.servers": bootstrap, "topic": "written"}
        for name, form, more in ((KAFKA, "kafka", {}), (KAFKA_TUNED, "kafka", TUNED), (BOOTSTRAP, "logstore", {})):
            found[name] = Sink(form, options | more, lambda: _new_topic(bootstrap), lambda: _ends(bootstrap))
    return found


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _maker(root: Path) -> Callable[[], None]:
    def make() -> None:
        _remove(root)
        with logstore.open(root, environ={}) as store:
            store.create_topic("written", partitions=data.PARTITIONS)

    return make


def _counter(root: Path) -> Callable[[], int]:
    def count() -> int:
        with logstore.open(root, environ={}) as store:
            return store["written"].scan().count()

    return count


def _new_topic(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    if "written" in admin.list_topics(timeout=30).topics:
        for gone in admin.delete_topics(["written"], operation_timeout=60).values():
            gone.result(60)
    for _ in range(100):
        (made,) = admin.create_topics([NewTopic("written", data.PARTITIONS, 1)]).values()
        if made.exception(60) is None:
            return
    made.result()


def _ends(bootstrap: str) -> int:
    """The sum of the end offsets: no transactions, so the number of records."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        places = [TopicPartition("written", number) for number in range(data.PARTITIONS)]
        return sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
    finally:
        consumer.close()
