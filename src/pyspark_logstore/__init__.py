"""Found by Spark through its name: ``format("logstore")`` without a call of `logstore.spark.register`."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource

from logstore.spark.jvm import pyspark_version


class TooOld(DataSource):
    """Stands in where PySpark is too old, and says so when it is used.

    Were importing this module to fail instead, Spark would find nobody's sources any more.
    """

    @classmethod
    def name(cls) -> str:
        return "logstore"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        from logstore.spark.reading.partition import hide_traceback

        hide_traceback()
        pyspark_version()


def _source() -> type[DataSource]:
    try:
        pyspark_version()
    except RuntimeError:
        return TooOld
    from logstore.spark.source import LogstoreDataSource

    return LogstoreDataSource


DefaultSource = _source()
