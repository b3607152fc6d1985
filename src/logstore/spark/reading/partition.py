"""Tasks of a read: the ranges that Spark passes from a planner to a task, and their reading there.

Spark pickles `PartitionRanges` and the reader to its workers, which find both by reference to this package. Shared
by the readers of batches and of streams, and by `read`, which needs no data source.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from logstore.client.backend.ranges import Range
from logstore.errors import LogstoreError, SparkNotReadyError
from logstore.spark.pickling import PickledByName
from logstore.spark.reading import fetches
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.plan import plan_batch, split
from logstore.spark.reading.schema import QueryColumns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@contextlib.contextmanager
def short_errors() -> Iterator[None]:
    """Show the user an error of ours as its one sentence; a decorator too.

    Spark shows an error of its Python process as a text with the whole traceback before the message, unless
    SPARK_HIDE_TRACEBACK is set in that process. The process ends with the error.
    """
    try:
        yield
    except LogstoreError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class PartitionRanges(PickledByName, InputPartition):
    """Input of one task: ranges of offsets, read in this order, and of timestamps where a filter asks for that."""

    def __init__(self, ranges: Sequence[Range], since_ms: int | None = None, until_ms: int | None = None) -> None:
        super().__init__([tuple(range) for range in ranges])
        self.ranges = tuple(ranges)
        self.since_ms = since_ms
        self.until_ms = until_ms
        self.version = version()


@functools.cache
def version() -> str:
    """Return the version of this package that is installed beside its modules; empty if there is none.

    It searches only that directory: a worker's path may hold archives of thousands of files.
    """
    from importlib.metadata import distributions  # costs tens of milliseconds with its imports

    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return next((found.version for found in distributions(name="logstore", path=[home])), "")


def read_ranges(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a task's partition, with errors shown as one sentence."""
    if not isinstance(partition, PartitionRanges):
        return  # Spark's placeholder where no partition was planned
    with short_errors():
        check_version(partition.version, version())
        table = QueryColumns(options)
        for range in partition.ranges:
            yield from fetches.read(range, options, table, partition.since_ms, partition.until_ms)


def check_version(planned: str, here: str) -> None:
    """Check that a worker has the version that planned the query.

    Raises:
        SparkNotReadyError: it has another one; both versions are named.
    """
    if planned and here and planned != here:
        raise SparkNotReadyError(
            f"the query was planned with logstore {planned}, the worker on {platform.node()} has {here}: install "
            "the same version on every machine of the cluster"
        )


# --- without a data source ---------------------------------------------------------------------


def read(spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
    """Implement `logstore.spark.read`: Spark starts none of the Python processes that plan a data source.

    Each partition of a data frame holds one row, the pickled ranges of its task; a function over Arrow batches
    reads them.
    """
    from pyspark.sql import types

    options = ReadOptions.of({name: str(value) for name, value in given.items()}).for_batch()
    backend = fetches.backend_of(options)
    ranges = split(plan_batch(options, backend), options, backend)
    schema = types.StructType([types.StructField("ranges", types.BinaryType())])
    tasks = [(pickle.dumps(PartitionRanges([range])),) for range in ranges]
    rows = spark.sparkContext.parallelize(tasks, max(len(tasks), 1))
    return spark.createDataFrame(rows, schema).mapInArrow(RangeReader(options), QueryColumns(options).spark())


class RangeReader(PickledByName):
    """Function of a task that reads the ranges in its rows."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for ranges in batch.column(0).to_pylist():
                yield from read_ranges(pickle.loads(ranges), self.options)
