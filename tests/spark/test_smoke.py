"""The least that has to hold on each PySpark; the other tests run on one of them."""

from __future__ import annotations

from pathlib import Path

from tests.spark import stores


def test_a_session_runs_python_in_its_workers(spark) -> None:
    assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3


def test_a_topic_is_read_as_a_table(spark, root: Path) -> None:
    table = spark.read.format("logstore").option("path", str(root)).option("subscribe", "events").load()
    stores.check(table)


def test_the_format_is_found_without_being_registered(spark, root: Path) -> None:
    """By the name of the module ``pyspark_logstore``, in a session that nobody has told of it."""
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
