"""Logstore as a Spark data source, ``format("logstore")``, for batch and streaming reads and writes.

>>> import logstore.spark                                                      # doctest: +SKIP
>>> logstore.spark.register(spark)                                             # doctest: +SKIP
>>> flights = spark.read.format("logstore").option("path", "/data").option("subscribe", "flights").load()
... # doctest: +SKIP

Options and columns have the names of Spark's Kafka source. Needs the extra ``[spark]``. Importing this package
alone imports neither Spark nor Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Register ``format("logstore")`` with a session; idempotent.

    With ``pushdown``, filters on topic, partition, offset and timestamp are passed to the source, which skips
    excluded records. This switches on the session's setting ``spark.sql.python.filterPushdown.enabled``, which is
    off by default.

    Use ``pushdown`` only in sessions in which **every query makes its own data frame by load()**. Spark 4.2 and
    4.3 keep the plan of a Python source with its data frame. So one query's filter also applies to the next query
    of the same data frame, and to the other side of a self-join. Their rows are then missing.

    Raises:
        SparkNotReadyError: PySpark is too old, or the workers' Python is another version or has no logstore.
    """
    from logstore.spark.jvm import check_worker_python, pyspark_version

    pyspark_version()
    # The workers may run another Python, without this package or of another version.
    python = getattr(getattr(spark, "sparkContext", None), "pythonExec", None)
    if python is not None:
        check_worker_python(python)
    from logstore.spark.source import LogstoreDataSource, PushdownDataSource

    if pushdown:
        # Spark refuses a reader that takes filters where the setting is off.
        spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(PushdownDataSource if pushdown else LogstoreDataSource)


def read(spark: SparkSession, **options: str) -> DataFrame:
    """Read a batch without the data source, with the same options, columns and rows.

    The read is planned in this process, and the range is fixed by this call. It is quicker, since Spark starts no
    Python processes to plan. Filters are not pushed down: name the range by options.

    Raises:
        SparkOptionError: options are wrong; all are named.
        UnknownTopicError, UnknownPartitionError, DataLossError: records to be read are missing.
    """
    from logstore.spark.reading.partition import read

    return read(spark, options)
