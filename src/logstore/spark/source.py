"""The data source as Spark sees it: it takes options and gives a schema, readers and writers.

Thin on purpose: `plan` decides the ranges to read, `reading` reads them, `stream` follows a stream, and `sink`
writes. Spark makes a source in one process, plans with it in another and pickles readers to its workers by
reference to this module. So this module is imported wherever a query runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from logstore.errors import SparkOptionError
from logstore.spark.pickling import Travelling
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import Slice, plainly, read_slice
from logstore.spark.reading.plan import plan_batch, split
from logstore.spark.reading.pushdown import EVERYTHING, understand
from logstore.spark.reading.schema import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["BatchReader", "LogstoreDataSource", "PushdownDataSource", "PushdownReader"]


class BatchReader(Travelling, DataSourceReader):
    """Reader that plans a batch query and reads its ranges."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.table = Table(options)
        self.wanted = EVERYTHING

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # each process makes its own decoders

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        backend = backend_of(self.options)
        ranges = self.wanted.narrowed(plan_batch(self.options, backend), backend)
        since_ms, until_ms = self.wanted.since_ms, self.wanted.until_ms
        return [Slice([range], since_ms, until_ms) for range in split(ranges, self.options, backend)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_slice(partition, self.options, self.table)


class PushdownReader(BatchReader):
    """Batch reader that takes filters. Spark refuses it where its setting for pushdown is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.wanted, left = understand(filters)
        return left


class LogstoreDataSource(Travelling, DataSource):
    """Data source ``format("logstore")``, without filter pushdown."""

    @classmethod
    def name(cls) -> str:
        return "logstore"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @plainly
    def schema(self) -> StructType:
        return Table(ReadOptions.of(self.options)).spark()

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._options(schema).for_batch())

    @plainly
    def streamReader(self, schema: StructType) -> Any:
        from logstore.spark.reading.stream import StreamReader

        return StreamReader(self._options(schema))

    def _options(self, schema: StructType) -> ReadOptions:
        """Parse the options of a read, and check that ``schema`` is that of the source."""
        options = ReadOptions.of(self.options)
        ours = Table(options).spark()
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in ours]:
            raise SparkOptionError(
                {
                    "schema": f"the columns are fixed, {ours.simpleString()}, found {schema.simpleString()}; leave "
                    "the schema out, and choose by the options columns and valueSchema"
                }
            )
        return options

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from logstore.spark.writing.sink import writer

        return writer(dict(self.options), schema, overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from logstore.spark.writing.sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)


class PushdownDataSource(LogstoreDataSource):
    """Data source with filter pushdown, chosen by an argument of `logstore.spark.register`."""

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        return PushdownReader(self._options(schema).for_batch())
