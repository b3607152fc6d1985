"""Data source as Spark sees it: options in; schema, readers and writers out.

Thin on purpose: `plan` decides the ranges to read, `fetches` reads them, `triggers` follows a stream, and `sink`
writes. Spark makes a source in one process, plans with it in another and pickles readers to its workers by
reference to this module. So this module is imported wherever a query runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from logstore.errors import SparkOptionError
from logstore.spark.pickling import PickledByName
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.group_progress import GroupProgress
from logstore.spark.reading.offsets import StreamOffsets, offsets_json
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import PartitionRanges, read_ranges, short_errors
from logstore.spark.reading.plan import packed, plan_batch, split
from logstore.spark.reading.pushdown import EVERYTHING, understand
from logstore.spark.reading.schema import QueryColumns
from logstore.spark.reading.triggers import StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class _Reader(PickledByName):
    """Part of every reader: its options. Each task makes its own columns, whose decoders cannot be pickled."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(partition, self.options)


class BatchReader(_Reader, DataSourceReader):
    """Reader that plans a batch query and reads its ranges."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self.wanted = EVERYTHING

    @short_errors()
    def partitions(self) -> Sequence[InputPartition]:
        backend = backend_of(self.options)
        ranges = self.wanted.narrowed(plan_batch(self.options, backend), backend)
        since_ms, until_ms = self.wanted.since_ms, self.wanted.until_ms
        return [PartitionRanges([range], since_ms, until_ms) for range in split(ranges, self.options, backend)]


class PushdownReader(BatchReader):
    """Batch reader that takes filters. Spark refuses it where its setting for pushdown is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.wanted, left = understand(filters)
        return left


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader that follows topics, micro-batch by micro-batch, in a process that lives as long as the query.

    `StreamPlanner` decides. Spark takes one limit from a source, so one of the given limits is reported to it, and
    all are applied. If Spark asks for everything available, none is.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._planner = StreamPlanner(options)
        self._progress = GroupProgress(options)

    @short_errors()
    def initialOffset(self) -> dict[str, Any]:
        return self._planner.initial().to_json()

    @short_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.prepare()

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self.options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    @short_errors()
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        offsets = self._planner.initial() if start is None else StreamOffsets.of_json(start)
        # Spark asks for a next batch when the last one is done. It calls `commit` only once there is a next one, so
        # the last batch of a query would never be told there.
        self._progress.tell(offsets)
        everything = limit is None or isinstance(limit, ReadAllAvailable)
        return self._planner.latest(offsets, everything=everything).to_json()

    @short_errors()
    def reportLatestOffset(self) -> dict[str, Any] | None:
        newest = self._planner.newest()
        return offsets_json(newest) if newest else None

    @short_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._planner.ranges(StreamOffsets.of_json(start), StreamOffsets.of_json(end))
        return [PartitionRanges(task) for task in packed(ranges, self.options)]

    def stop(self) -> None:
        """Do nothing: back ends end with the process."""


class LogstoreDataSource(PickledByName, DataSource):
    """Data source ``format("logstore")``, without filter pushdown."""

    @classmethod
    def name(cls) -> str:
        return "logstore"

    @short_errors()
    def schema(self) -> StructType:
        return QueryColumns(ReadOptions.of(self.options)).spark()

    @short_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._options(schema).for_batch())

    @short_errors()
    def streamReader(self, schema: StructType) -> Any:
        return StreamReader(self._options(schema))

    def _options(self, schema: StructType) -> ReadOptions:
        """Parse the options of a read, and check that ``schema`` is that of the source."""
        options = ReadOptions.of(self.options)
        ours = QueryColumns(options).spark()
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in ours]:
            raise SparkOptionError(
                {
                    "schema": f"the columns are fixed, {ours.simpleString()}, found {schema.simpleString()}; leave "
                    "the schema out, and choose by the options columns and valueSchema"
                }
            )
        return options

    @short_errors()
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from logstore.spark.writing.sink import writer

        return writer(dict(self.options), schema, overwrite)

    @short_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from logstore.spark.writing.sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)


class PushdownDataSource(LogstoreDataSource):
    """Data source with filter pushdown, chosen by an argument of `logstore.spark.register`."""

    @short_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        return PushdownReader(self._options(schema).for_batch())
