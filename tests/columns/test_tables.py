"""A scan becomes the table of a library in one call; what is missing for it is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest

from logstore import Log
from logstore.errors import CorruptRecordError, MissingLibraryError
from tests.kit.files import flip
from tests.kit.logs import log_files

LIBRARIES = {
    "to_arrow": "pyarrow",
    "to_pandas": "pandas",
    "to_polars": "polars",
    "to_duckdb": "duckdb",
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "orders-0") as opened:
        for n in range(3):
            opened.append([(b"k", b"%d" % n, 1_000 + n)])
        yield opened


@pytest.mark.row("M9")
def test_a_scan_of_a_log_becomes_a_table_of_each_library(log: Log) -> None:
    scan = log.scan(1, columns=["offset", "value"])
    rows = [(1, b"1"), (2, b"2")]
    table, frame, polar = scan.to_arrow(), scan.to_pandas(), scan.to_polars()
    assert isinstance(table, pyarrow.Table)
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.itertuples(index=False, name=None)) == rows
    assert isinstance(polar, polars.DataFrame)
    assert polar.rows() == rows


def test_a_relation_of_duckdb_reads_the_scan_again_for_each_query(log: Log) -> None:
    scan = log.scan(1, columns=["offset", "value"])
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        for _ in range(2):
            assert relation.fetchall() == [(1, b"1"), (2, b"2")]
        assert relation.count("value").fetchall() == [(2,)]
    assert scan.to_duckdb().count("value").fetchall() == [(2,)]


@pytest.mark.parametrize("call", LIBRARIES)
def test_a_library_that_is_missing_is_named_with_the_extra_that_brings_it(
    log: Log, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, LIBRARIES[call], None)
    with pytest.raises(
        MissingLibraryError, match=rf"{call}\(\) needs {LIBRARIES[call]}, .*extra \[tables\]"
    ) as found:
        getattr(log.scan(), call)()
    assert isinstance(found.value, ImportError)


def test_pandas_without_pyarrow_names_pyarrow(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingLibraryError, match=r"to_pandas\(\) needs pyarrow"):
        log.scan().to_pandas()


@pytest.mark.parametrize("call", ["to_arrow", "to_pandas", "to_polars"])
def test_an_error_on_the_way_is_that_of_the_scan(log: Log, call: str) -> None:
    (path,) = log_files(log).values()
    flip(path, -1)
    with pytest.raises(CorruptRecordError, match="CRC-32C") as found:
        getattr(log.scan(), call)()
    assert found.value.next_offset == 3
