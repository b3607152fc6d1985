"""export in its formats: what is written, where, and what an export that fails leaves."""

from __future__ import annotations

import csv
import io
import json
import sys

import pyarrow.parquet
import pytest

import logstore


@pytest.fixture
def mixed(run):
    """Commands on a store with a topic ``t`` of two partitions: nulls, empty texts, quotes, lines, bytes."""
    with logstore.open(run.directory, environ={}) as store:
        topic = store.create_topic("t", partitions=2)
        topic.append(b'a "b", c\nd', key=b"", partition=0, timestamp=5, headers=[("h", b"1"), ("n", None)])
        topic.append(None, key=b"k", partition=0, timestamp=6)
        topic.append("grün".encode(), partition=1, timestamp=7)
    return run


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_csv_holds_what_json_lines_hold(mixed):
    text = mixed("export", "t", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    for row, record in zip(rows, lines(mixed("export", "t")), strict=True):
        assert row["headers"] == json.dumps(record["headers"])
        for name in ("topic", "partition", "offset", "timestamp"):
            assert row[name] == str(record[name])
        assert (row["key"], row["value"]) == (record["key"] or "", record["value"] or "")
    # A null is nothing, an empty text is not.
    assert text.splitlines()[1].startswith('t,0,0,5,"","a ""b""')
    assert 't,0,1,6,"k",,"[]"\n' in text


def test_bytes_that_are_no_text_are_refused_by_csv_unless_all_are_base64(mixed, tmp_path):
    with logstore.open(mixed.directory, environ={}) as store:
        store["t"].append(b"\xff", partition=1)
    out = tmp_path / "t.csv"
    out.write_text("as it was")
    said = mixed.error("export", "t", "--format", "csv", "-O", out)
    assert "t-1: the value at offset 1 is no text" in said
    assert "--base64" in said
    assert [path.name for path in tmp_path.glob("t.csv*")] == ["t.csv"]
    assert out.read_text() == "as it was"
    mixed("export", "t", "--format", "csv", "-O", out, "--base64")
    assert [row["value"] for row in csv.DictReader(io.StringIO(out.read_text()))][-1] == "/w=="
    assert "is for csv" in mixed.error("export", "t", "--base64", status=2)


def test_parquet_holds_keys_and_values_as_bytes_and_times_in_utc(mixed, tmp_path):
    out = tmp_path / "t.parquet"
    assert mixed("export", "t", "--format", "parquet", "-O", out) == ""
    table = pyarrow.parquet.read_table(out)
    assert table.column("value").to_pylist() == [b'a "b", c\nd', None, "grün".encode()]
    assert table.column("key").to_pylist() == [b"", b"k", None]
    assert table.column("partition").to_pylist() == [0, 0, 1]
    assert table.column("topic").to_pylist() == ["t"] * 3
    assert str(table.schema.field("timestamp").type) == "timestamp[ms, tz=UTC]"
    assert table.column("headers").to_pylist()[0] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    printed = mixed.result("export", "t", "--format", "parquet", "-p", 1).stdout_bytes
    assert pyarrow.parquet.read_table(io.BytesIO(printed)).num_rows == 1


def test_parquet_of_no_records_has_its_columns(run, tmp_path):
    run("topic", "create", "t", "-p", 2)
    run("export", "t", "--format", "parquet", "-O", tmp_path / "t.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    assert (table.num_rows, len(table.column_names)) == (0, 7)


def test_the_extra_that_parquet_needs_is_named_and_nothing_is_written(mixed, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = mixed.error("export", "t", "--format", "parquet", "-O", tmp_path / "t.parquet")
    assert "[tables]" in said
    assert list(tmp_path.glob("t.parquet*")) == []


def test_lines_go_into_a_file_once_it_is_whole(mixed, tmp_path):
    expected = mixed("export", "t")
    assert mixed("export", "t", "--out", tmp_path / "t.jsonl") == ""
    assert (tmp_path / "t.jsonl").read_text("utf-8") == expected
    assert "does not exist" in mixed.error("export", "x", "--out", tmp_path / "x.jsonl")
    assert list(tmp_path.glob("x.jsonl*")) == []
