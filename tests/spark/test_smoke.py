"""The least that has to hold on each PySpark; the other tests run on one of them."""

from __future__ import annotations

from pathlib import Path

import logstore
from tests.spark import stores


def test_a_session_runs_python_in_its_workers(spark) -> None:
    assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3


def test_a_topic_is_read_as_a_table(spark, root: Path) -> None:
    table = spark.read.format("logstore").option("path", str(root)).option("subscribe", "events").load()
    stores.check(table)


def test_the_format_is_found_without_being_registered(spark, root: Path) -> None:
    """By the name of the module ``pyspark_logstore``, in a session that was not told of it."""
    table = (
        spark.newSession().read.format("logstore").option("path", str(root)).option("subscribe", "events").load()
    )
    stores.check(table)


def test_a_topic_is_followed_as_a_stream(spark, root: Path, tmp_path: Path) -> None:
    stream = spark.readStream.format("logstore").option("path", str(root)).option("subscribe", "events")
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "300").load()
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "copy"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [
        300
    ] * 3 + [100]
    stores.check(spark.read.parquet(str(tmp_path / "copy")))


def test_a_topic_is_written_by_batch_and_by_stream(spark, root: Path, tmp_path: Path) -> None:
    with logstore.open(root, environ={}) as store:
        store.create_topic("copy", partitions=stores.PARTITIONS)
        store.create_topic("streamed", partitions=stores.PARTITIONS)
    options = {"path": str(root), "subscribe": "events", "startingOffsets": "earliest"}
    columns = ["key", "value", "partition"]
    table = spark.read.format("logstore").options(**options).load().select(columns)
    table.write.format("logstore").mode("append").options(path=str(root), topic="copy").save()
    stream = spark.readStream.format("logstore").options(**options).load().select(columns)
    writer = stream.writeStream.format("logstore").options(path=str(root), topic="streamed")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    with logstore.open(root, read_only=True, environ={}) as store:
        for topic in ("copy", "streamed"):
            found = sorted((record.partition, record.value) for record in store[topic].scan())
            assert found == sorted((n % stores.PARTITIONS, stores.value_of(n)) for n in range(stores.RECORDS))
