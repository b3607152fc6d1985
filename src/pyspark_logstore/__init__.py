"""Module that Spark finds by its name: ``format("logstore")`` works without `logstore.spark.register`."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource

from logstore.spark.jvm import pyspark_version


class TooOld(DataSource):
    """Data source for a PySpark that is too old; raises when it is used.

    If importing this module failed instead, Spark would find no Python data source at all.
    """

    @classmethod
    def name(cls) -> str:
        return "logstore"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        from logstore.spark.reading.partition import short_errors

        with short_errors():
            pyspark_version()


def _source() -> type[DataSource]:
    try:
        pyspark_version()
    except RuntimeError:
        return TooOld
    from logstore.spark.source import LogstoreDataSource

    return LogstoreDataSource


DefaultSource = _source()
