"""Logstore as a Spark data source, ``format("logstore")``: read and written by batch and by stream.

>>> import logstore.spark                                                      # doctest: +SKIP
>>> logstore.spark.register(spark)                                             # doctest: +SKIP
>>> flights = spark.read.format("logstore").option("path", "/data").option("subscribe", "flights").load()

Options and columns are named as those of Spark's Kafka source. Needs the extra ``[spark]``; importing this
package alone imports neither Spark nor Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``format("logstore")`` known to a session. Calling it again does nothing more."""
    from logstore.spark.source import LogstoreDataSource

    spark.dataSource.register(LogstoreDataSource)
