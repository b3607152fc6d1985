"""What Spark hands from a planner to a task, and how an error of ours is shown to the user.

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
    """Let the user read an error of ours as its one sentence.

    Spark shows what a Python process of its own raised as a text, with the whole traceback before the
    message, unless this variable is set in that process, which ends with the error.
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
    """What `plainly` does, for who is inside a generator."""
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"


class Slice(Travelling, InputPartition):
    """What one task reads: ranges of offsets, in this order, and of timestamps where a filter asks for that."""

    def __init__(self, ranges: Sequence[Range], since_ms: int | None = None, until_ms: int | None = None) -> None:
        super().__init__([tuple(range) for range in ranges])
        self.ranges = tuple(ranges)
        self.since_ms = since_ms
        self.until_ms = until_ms
        self.version = version()


@functools.cache
def version() -> str:
    """The version of this package, as it is installed beside its modules; empty if it is not.

    Nowhere else is looked: a worker's path may hold archives of thousands of files.
    """
    from importlib.metadata import distributions  # tens of milliseconds with what it brings along

    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return next((found.version for found in distributions(name="logstore", path=[home])), "")


def read_slice(partition: InputPartition, options: ReadOptions, table: Table) -> Iterator[pa.RecordBatch]:
    """What a task reads, with errors in one sentence."""
    if not isinstance(partition, Slice):
        return  # Spark's stand-in where nothing was planned
    try:
        check_version(partition.version, version())
        for range in partition.ranges:
            yield from read(range, options, table, partition.since_ms, partition.until_ms)
    except LogstoreError:
        hide_traceback()
        raise


def check_version(planned: str, here: str) -> None:
    """See that a worker runs what the query was planned with.

    Raises:
        SparkNotReadyError: it does not; both versions are named.
    """
    if planned and here and planned != here:
        raise SparkNotReadyError(
            f"the query was planned with logstore {planned}, the worker on {platform.node()} has {here}: install "
            "the same version on every machine of the cluster"
        )
