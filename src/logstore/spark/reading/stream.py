"""Stream reader that Spark calls, in a separate process that lives as long as the query.

`Follower` decides; this module turns its answers into Spark's offsets, limits and partitions. Spark takes one limit
from a source, so one of those set is reported to it, and all are applied. If Spark asks for everything available,
none is applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from logstore.spark.pickling import Travelling
from logstore.spark.reading.offsets import Standing, offsets_json
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import Slice, plainly, read_slice
from logstore.spark.reading.plan import packed
from logstore.spark.reading.schema import Table
from logstore.spark.reading.triggers import Follower

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader"]


class StreamReader(Travelling, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader that follows topics, micro-batch by micro-batch."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.table = Table(options)
        self._follower = Follower(options)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # each process makes its own decoders and caches

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        return self._follower.initial().to_json()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._follower.prepare()

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self.options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    @plainly
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        standing = self._follower.initial() if start is None else Standing.of_json(start)
        everything = limit is None or isinstance(limit, ReadAllAvailable)
        return self._follower.latest(standing, everything=everything).to_json()

    @plainly
    def reportLatestOffset(self) -> dict[str, Any] | None:
        newest = self._follower.newest()
        return offsets_json(newest) if newest else None

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._follower.ranges(Standing.of_json(start), Standing.of_json(end))
        return [Slice(task) for task in packed(ranges, self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_slice(partition, self.options, self.table)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint has the offsets of the batch."""

    def stop(self) -> None:
        """Do nothing: back ends end with the process."""
