"""A scan as a table of a library, in one call: pyarrow, pandas, polars or duckdb.

Each library is imported at its first use: logstore itself needs none of them. An error of the scan is
raised as it is; the library's own error is its cause. Any thread may call.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logstore.errors import MissingLibraryError

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

    from logstore.columns._export import ColumnStream


class Tabular(ABC):
    """An object that can be read as one table, in one call or as an Arrow stream."""

    @abstractmethod
    def _stream(self) -> ColumnStream:
        """Return a stream over all records, from the start."""

    def to_arrow(self) -> pyarrow.Table:
        """Return all records as a `pyarrow.Table`, in memory.

        Raises as `chunks`, and:
            MissingLibraryError: pyarrow is not installed; names the extra that contains it.
        """
        return _read(self._stream(), library("pyarrow", "to_arrow()").table)

    def to_pandas(self) -> pandas.DataFrame:
        """Return all records as a `pandas.DataFrame`, in memory; by way of pyarrow. Raises as `to_arrow`."""
        for each in ("pandas", "pyarrow"):
            library(each, "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return all records as a `polars.DataFrame`, in memory. Raises as `to_arrow`."""
        frame: polars.DataFrame = _read(self._stream(), library("polars", "to_polars()").DataFrame)
        return frame

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return all records as a relation of duckdb, of its default connection or of ``connection``.

        Nothing is read before a query needs it, and each query reads again. Raises as `to_arrow`; an error during
        a query reaches it as its text.
        """
        reader = library("duckdb", "to_duckdb()") if connection is None else connection
        relation: duckdb.DuckDBPyRelation = reader.from_arrow(self)
        return relation

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a new Arrow stream over all records, for pyarrow, polars, duckdb, pandas etc.

        An error on the way (see `chunks`), and a `PayloadError`, reaches the consumer as its text.
        """
        return self._stream().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._stream().__arrow_c_schema__()


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
        # An interrupt comes out of the library as an error, and is raised again as soon as Python runs: here, and
        # not in what the caller does next.
        for _ in range(2):
            pass
        # The library's error has only the text of the original one.
        if isinstance(stream.error, Exception):
            raise stream.error from error
        raise
