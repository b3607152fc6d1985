"""A scan in one call as the table of a library: pyarrow, pandas, polars or duckdb.

Each library is imported when it is first asked for: logstore itself needs none of them. An error of the scan is
raised as it is; what the library makes of its text is the cause. Any thread may call.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logstore.errors import MissingLibraryError

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

    from logstore._columns import ColumnStream


def to_arrow(stream: ColumnStream) -> pyarrow.Table:
    """All that a stream gives as a table of pyarrow's."""
    return _read(stream, library("pyarrow", "to_arrow()").table)


def to_pandas(stream: ColumnStream) -> pandas.DataFrame:
    """All that a stream gives as a frame of pandas'."""
    for each in ("pandas", "pyarrow"):
        library(each, "to_pandas()")
    return to_arrow(stream).to_pandas()


def to_polars(stream: ColumnStream) -> polars.DataFrame:
    """All that a stream gives as a frame of polars'."""
    frame: polars.DataFrame = _read(stream, library("polars", "to_polars()").DataFrame)
    return frame


def to_duckdb(scan: object, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """A relation of duckdb over a scan, which each query on it reads again."""
    reader = library("duckdb", "to_duckdb()") if connection is None else connection
    relation: duckdb.DuckDBPyRelation = reader.from_arrow(scan)
    return relation


def library(name: str, needed_by: str) -> Any:
    """Import a library of the extra ``[tables]``.

    Raises:
        MissingLibraryError: it cannot be imported; says what to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingLibraryError(
            f"{needed_by} needs {name}, which cannot be imported here ({error}): pip install {name}, or install "
            "logstore with its extra [tables], which brings pyarrow, pandas, polars and duckdb"
        ) from error


def _read(stream: ColumnStream, make: Callable[[ColumnStream], Any]) -> Any:
    try:
        return make(stream)
    except Exception as error:
        # The library knows only the text of what went wrong.
        if isinstance(stream.error, Exception):
            raise stream.error from error
        raise
