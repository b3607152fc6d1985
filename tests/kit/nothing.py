"""Every way in which a program hands over no records, by what it has in hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pandas
import polars
import pyarrow as pa

NOTHING: dict[str, Callable[[], Any]] = {
    "list": list,
    "tuple": lambda: (),
    "iterator": lambda: iter([]),
    "arrow array": lambda: pa.array([], pa.binary()),
    "arrow array without a type": lambda: pa.array([]),
    "arrow table": lambda: pa.table({"key": pa.array([], pa.binary()), "value": pa.array([], pa.binary())}),
    "arrow table of nulls": lambda: pa.table({"key": [], "value": []}),
    "arrow table without columns": lambda: pa.table({}),
    "arrow table of an empty batch": lambda: pa.Table.from_batches([pa.record_batch({"value": pa.array([])})]),
    "polars": lambda: polars.DataFrame(),
    "polars with columns": lambda: polars.DataFrame({"key": [], "value": []}),
    "pandas": lambda: pandas.DataFrame(),
    "pandas with columns": lambda: pandas.DataFrame({"key": [], "value": []}),
    "numpy": lambda: numpy.array([]),
    "numpy of bytes": lambda: numpy.array([], dtype="S5"),
    "numpy of rows": lambda: numpy.empty((0, 5), numpy.uint8),
    "numpy of times": lambda: numpy.array([], dtype="M8[ms]"),
}
