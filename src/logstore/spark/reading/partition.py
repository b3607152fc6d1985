"""Input partitions that Spark passes from a planner to a task, and errors of ours shown as one sentence.

Spark pickles a `Slice` and the reader to its workers, which find both by reference to this package. Shared by
the readers of batches and of streams.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyspark.sql.datasource import InputPartition

from logstore.errors import LogstoreError, SparkNotReadyError
from logstore.spark.backend.backend import Range
from logstore.spark.pickling import Travelling
from logstore.spark.reading.fetches import read
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.schema import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Slice", "hide_traceback", "plainly", "read_slice"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def plainly(call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate ``call`` to show the user an error of ours as its one sentence.

    Spark shows an error of its Python process as a text with the whole traceback before the message, unless
    SPARK_HIDE_TRACEBACK is set in that process. The process ends with the error.
    """

    @wraps(call)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return call(*args, **kwargs)
        except LogstoreError:
            hide_traceback()
            raise

    return called


def hide_traceback() -> None:
    """Set what `plainly` sets, for callers inside a generator."""
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"


class Slice(Travelling, InputPartition):
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


def read_slice(partition: InputPartition, options: ReadOptions, table: Table) -> Iterator[pa.RecordBatch]:
    """Read a task's partition, with errors shown as one sentence."""
    if not isinstance(partition, Slice):
        return  # Spark's placeholder where no partition was planned
    try:
        check_version(partition.version, version())
        for range in partition.ranges:
            yield from read(range, options, table, partition.since_ms, partition.until_ms)
    except LogstoreError:
        hide_traceback()
        raise


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
