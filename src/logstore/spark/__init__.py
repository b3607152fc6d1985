"""Logstore as a Spark data source, ``format("logstore")``: read and written by batch and by stream.

>>> import logstore.spark                                                      # doctest: +SKIP
>>> logstore.spark.register(spark)                                             # doctest: +SKIP
>>> flights = spark.read.format("logstore").option("path", "/data").option("subscribe", "flights").load()
... # doctest: +SKIP

Options and columns are named as those of Spark's Kafka source. Needs the extra ``[spark]``; importing this
package alone imports neither Spark nor Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Make ``format("logstore")`` known to a session. Calling it again does no harm.

    With ``pushdown`` filters on topic, partition, offset and timestamp are handed down to the source, which skips
    what they exclude; the session's setting ``spark.sql.python.filterPushdown.enabled``, which is off by default,
    is switched on for that. It is for sessions in which **every query makes its data frame anew by load()**: Spark
    4.2 and 4.3 keep what a source in Python has planned with its data frame, so that the filter of one query counts
    for the next query of the same data frame, too, and for the other side of a join or union with itself, whose
    rows are then missing.

    Raises:
        SparkNotReadyError: PySpark is too old, or the workers' Python is another version or has no logstore.
    """
    from logstore.spark.jvm import check_worker_python, pyspark_version

    pyspark_version()
    # Java is there, since the session is. What the workers run is another program, though.
    python = getattr(getattr(spark, "sparkContext", None), "pythonExec", None)
    if python is not None:
        check_worker_python(python)
    from logstore.spark.source import LogstoreDataSource, PushdownDataSource

    if pushdown:
        # Spark refuses a reader that takes filters where the setting is off.
        spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(PushdownDataSource if pushdown else LogstoreDataSource)


def read(spark: SparkSession, **options: str) -> DataFrame:
    """A batch read without the data source: the same options, columns and rows, planned here and read by tasks.

    Spark then plans nothing in Python processes of its own, which makes it quicker, and hands no filters
    down; name the range by options. The range is fixed by this call.

    Raises:
        SparkOptionError: options are wrong; all are named.
        UnknownTopicError, UnknownPartitionError, DataLossError: what is to be read is not there.
    """
    from logstore.spark.reading.rdd_reader import read

    return read(spark, options)
