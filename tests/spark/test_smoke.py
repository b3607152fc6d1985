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
