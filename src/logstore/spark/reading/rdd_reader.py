"""Batch reader without Spark's data source, using plain tasks: `logstore.spark.read`.

It uses the same planner and reader. The ranges are the rows of a data frame, one in each of its partitions, and a
function over Arrow batches reads them. So Spark starts none of the Python processes that plan a data source.
Imports pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from logstore.spark.pickling import Travelling
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.plan import plan_batch, split
from logstore.spark.reading.schema import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read"]


def read(spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
    """Implement `logstore.spark.read`."""
    import pickle

    from pyspark.sql import types

    from logstore.spark.reading.partition import Slice

    options = ReadOptions.of({name: str(value) for name, value in given.items()}).for_batch()
    table = Table(options)
    backend = backend_of(options)
    slices = [pickle.dumps(Slice([range])) for range in split(plan_batch(options, backend), options, backend)]
    schema = types.StructType([types.StructField("slice", types.BinaryType())])
    rows = spark.sparkContext.parallelize([(one,) for one in slices], max(len(slices), 1))
    return spark.createDataFrame(rows, schema).mapInArrow(_Task(options), table.spark())


class _Task(Travelling):
    """Function of a task that reads the slices in its rows."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        from logstore.spark.reading.partition import read_slice

        table = Table(self._options)
        for batch in batches:
            for one in batch.column(0).to_pylist():
                yield from read_slice(pickle.loads(one), self._options, table)
