"""Files into a topic, against the same files read by Python's own csv and json."""

from __future__ import annotations

import collections
import csv
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from logstore.errors import InvalidSettingError, SparkQueryError
from logstore.spark.pipelines import files
from logstore.spark.pipelines.reasons import short_reasons
from tests.spark.pipelines.topic_contents import records_of, values_of

HEAD = ["file", "line", "carrier", "fare"]


def parameters(tmp_path: Path, **more: Any) -> files.FilesParameters:
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "source": tmp_path / "in"}
    given = {name: str(path) for name, path in places.items()}
    return files.FilesParameters(**{"topic": "fares", **given, **more})


def write_csv(folder: Path, number: int, lines: int) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:03}.csv"
    with path.with_suffix(".tmp").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        for line in range(lines):
            fare = "" if line % 11 == 0 else f"{line / 4}"
            writer.writerow([number, line, ("AA", "B6", "DL, Inc.", 'U"A')[line % 4], fare])
    os.utime(path.with_suffix(".tmp"), (number, number))
    path.with_suffix(".tmp").rename(path)


def expected(folder: Path) -> collections.Counter[str]:
    """The rows of all files, each as text in an order of its own."""
    found: collections.Counter[str] = collections.Counter()
    for path in folder.glob("*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                value = {name: text for name, text in row.items() if text}
                found[json.dumps([row["carrier"], value], sort_keys=True)] += 1
    return found


@pytest.mark.row("D5", "U13")
@pytest.mark.timeout(600)
def test_every_line_once_and_in_order_whatever_is_run_again(engine: Any, tmp_path: Path) -> None:
    told = parameters(tmp_path, key="carrier", files_per_trigger=2, partitions=3)
    for number in range(1, 6):
        write_csv(tmp_path / "in", number, 400)
    # Files are cut into several tasks, as large ones are.
    before = engine.conf.get("spark.sql.files.maxPartitionBytes")
    engine.conf.set("spark.sql.files.maxPartitionBytes", "2k")
    try:
        assert files.run(engine, told).counts == {"records": 2000, "refused": 0}
        check_contents(told)
        assert files.run(engine, told).counts == {"records": 0, "refused": 0}
        check_contents(told)
        write_csv(tmp_path / "in", 6, 300)
        assert files.run(engine, told).counts == {"records": 300, "refused": 0}
        check_contents(told)
    finally:
        engine.conf.set("spark.sql.files.maxPartitionBytes", before)


def check_contents(told: files.FilesParameters) -> None:
    found = records_of(told.path, told.topic)
    rows = collections.Counter(
        json.dumps([record.key.decode(), json.loads(record.value)], sort_keys=True) for record in found
    )
    assert rows == expected(Path(told.source))
    partitions: dict[bytes, set[int]] = collections.defaultdict(set)
    lines: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
    for record in found:
        partitions[record.key].add(record.partition)
        value = json.loads(record.value)
        lines[record.partition, int(value["file"])].append(int(value["line"]))
    assert all(len(numbers) == 1 for numbers in partitions.values())
    assert all(numbers == sorted(numbers) for numbers in lines.values())


@pytest.mark.timeout(600)
def test_a_micro_batch_that_spark_does_again_leaves_nothing_twice(engine: Any, tmp_path: Path) -> None:
    """A kill between the store's commit and Spark's own is an offset without its commit in the checkpoint."""
    told = parameters(tmp_path, key="carrier", partitions=2)
    write_csv(tmp_path / "in", 1, 100)
    files.run(engine, told)
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "files" / "commits" / name).unlink()
    assert files.run(engine, told).counts == {"records": 100, "refused": 0}
    check_contents(told)


@pytest.mark.timeout(600)
def test_a_file_that_is_older_than_those_that_were_read_is_read(engine: Any, tmp_path: Path) -> None:
    told = parameters(tmp_path, key="carrier", partitions=2)
    write_csv(tmp_path / "in", 365 * 86_400, 100)
    assert files.run(engine, told).counts["records"] == 100
    write_csv(tmp_path / "in", 1, 100)
    assert files.run(engine, told).counts["records"] == 100
    check_contents(told)


@pytest.mark.timeout(600)
def test_formats_of_files_and_of_values(engine: Any, tmp_path: Path) -> None:
    rows = [{"id": n, "name": f"n{n}", "price": n / 8} for n in range(20)]
    for format in ("json", "parquet", "text"):
        (tmp_path / format).mkdir()
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "json" / "a.json").write_text("\n".join(lines))
    (tmp_path / "text" / "a.json").write_text("\n".join(lines))
    pd.DataFrame(rows).to_parquet(tmp_path / "parquet" / "a.parquet")

    def run(topic: str, **more: Any) -> files.FilesParameters:
        checkpoint = str(tmp_path / "checkpoint" / topic)
        told = parameters(tmp_path, topic=topic, partitions=1, checkpoint=checkpoint, **more)
        files.run(engine, told)
        return told

    told = run(
        "json", format="json", guess=True, source=str(tmp_path / "json"), columns=("id", "price"), key="name"
    )
    assert values_of(told.path, "json") == [{"id": row["id"], "price": row["price"]} for row in rows]
    assert [record.key.decode() for record in records_of(told.path, "json")] == [row["name"] for row in rows]
    told = run("parquet", format="parquet", source=str(tmp_path / "parquet"), timestamp="timestamp_millis(id)")
    assert values_of(told.path, "parquet") == rows
    assert [record.timestamp_ms for record in records_of(told.path, "parquet")] == [row["id"] for row in rows]
    assert {record.key for record in records_of(told.path, "parquet")} == {None}
    told = run("text", format="text", source=str(tmp_path / "text"), key="get_json_object(value, '$.id')")
    assert [record.value.decode() for record in records_of(told.path, "text")] == lines
    assert [record.key.decode() for record in records_of(told.path, "text")] == [str(row["id"]) for row in rows]


def test_columns_stay_what_the_first_run_found(spark: Any, tmp_path: Path) -> None:
    told = parameters(tmp_path)
    write_csv(tmp_path / "in", 1, 20)
    found = files.schema_of(spark, told)
    assert found.names == HEAD
    (tmp_path / "in" / "001.csv").write_text("other\n1\n")
    assert files.schema_of(spark, told) == found
    assert files.schema_of(spark, parameters(tmp_path, schema="a INT")).simpleString() == "struct<a:int>"


def put(folder: Path, name: str, text: str) -> Path:
    """A file that comes after those that are there."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    age = 1_000_000 + len(list(folder.iterdir()))
    os.utime(path, (age, age))
    return path


def values(told: files.FilesParameters) -> list[Any]:
    return values_of(told.path, told.topic)


def test_columns_go_by_name_whatever_their_order_in_a_file(engine: Any, tmp_path: Path) -> None:
    """Files of one micro-batch, and of later ones, with names that Spark would take for patterns."""
    told, folder = parameters(tmp_path, partitions=1, schema="id LONG, price DOUBLE, qty INT"), tmp_path / "in"
    put(folder, "a.csv", "id,price,qty\n1,1.5,10\n")
    put(folder, "b [ü]*{x}, 50% off.csv", "\ufeffid,qty,price\n2,20,2.5\n")
    assert files.run(engine, told).counts["records"] == 2
    put(folder, "c.csv", '\n"qty","price","id"\n30,3.5,3\n')
    put(folder, "empty.csv", "")
    assert files.run(engine, told).counts["records"] == 1
    assert sorted(values(told), key=lambda row: row["id"]) == [
        {"id": n, "price": n + 0.5, "qty": n * 10} for n in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("id,qty", r"b\.csv: its header lacks price; the columns are id, price, qty"),
        ("id,price,qty,more", r"b\.csv: its header has more besides"),
        ("id,Price,qty", r"b\.csv: its header lacks price and has Price besides"),
        ("id,price,qty,id", r"b\.csv: its header has column 'id' twice"),
    ],
)
def test_a_header_that_does_not_fit_ends_the_run_and_says_how(
    engine: Any, tmp_path: Path, header: str, said: str
) -> None:
    told, folder = parameters(tmp_path, partitions=1), tmp_path / "in"
    put(folder, "a.csv", "id,price,qty\n1,1.5,10\n")
    files.run(engine, told)
    wrong = put(folder, "b.csv", f"{header}\n" + ",".join("2" * (header.count(",") + 1)) + "\n")
    with pytest.raises(SparkQueryError, match=said) as raised, short_reasons():
        files.run(engine, told)
    assert "\n" not in str(raised.value)
    assert len(values(told)) == 1
    wrong.write_text("qty,price,id\n20,2.5,2\n")
    files.run(engine, told)
    assert values(told)[1] == {"id": "2", "price": "2.5", "qty": "20"}


@pytest.mark.parametrize("format", ["csv", "json"])
def test_what_is_found_is_text_unless_types_are_to_be_guessed(engine: Any, tmp_path: Path, format: str) -> None:
    row = {"zip": "00123", "price": "1.10", "big": "12345678901234567890123"}
    line = {"csv": ",".join(row) + "\n" + ",".join(row.values()), "json": json.dumps(row).replace('"1.10"', "1.10")}
    put(tmp_path / "in", "a", line[format] + "\n")
    told = parameters(tmp_path, format=format, partitions=1)
    files.run(engine, told)
    assert values(told) == [row]
    told = parameters(tmp_path, format=format, partitions=1, topic="g", checkpoint=str(tmp_path / "g"), guess=True)
    files.run(engine, told)
    assert values(told)[0]["price"] == 1.1


@pytest.mark.parametrize(
    ("format", "lines", "said"),
    [
        (
            "csv",
            ["id,price", "1,1.5", "2,abc", "3,3.5"],
            r"csv, line 3: column price: expected double, found 'abc'",
        ),
        ("csv", ["id,price", "1,1.5", "2", "3,3.5"], r"a\.csv, line 3: it has 1 fields, and the header 2"),
        ("csv", ["price,id", "1.5,1", "2.5,2,9", "3.5,3"], r"a\.csv, line 3: it has 3 fields, and the header 2"),
        (
            "csv",
            ["id,price", "1,1.5", "2," + "9" * 200_000 + "x", "3,3.5"],
            r"line 3: column price: expected double",
        ),
        ("json", ['{"id":1}', '{"id":2,', '{"id":3}'], r"a\.json, line 2: no JSON: "),
        (
            "json",
            ['{"id":1}', '{"id":"zwei"}', '{"id":3}'],
            r'line 2: field id: expected bigint, found "zwei"',
        ),
    ],
)
def test_a_line_that_does_not_fit_is_told_or_left_out_and_counted(
    engine: Any, tmp_path: Path, format: str, lines: list[str], said: str
) -> None:
    put(tmp_path / "in", f"a.{format}", "\n".join(lines) + "\n")
    told = parameters(tmp_path, format=format, schema="id LONG, price DOUBLE", partitions=1)
    with pytest.raises(SparkQueryError, match=said) as raised, short_reasons():
        files.run(engine, told)
    assert "--no-strict" in str(raised.value)
    assert records_of(told.path, told.topic) == []
    lenient = dataclasses.replace(told, strict=False)
    assert files.run(engine, lenient).counts == {"records": 2, "refused": 1}
    assert [row["id"] for row in values(told)] == [1, 3]


def test_without_files_it_says_what_to_do(spark: Any, tmp_path: Path) -> None:
    for missing in (True, False):
        if not missing:
            (tmp_path / "in").mkdir()
        with pytest.raises(InvalidSettingError, match=r"source: no files in .*; give schema"):
            files.schema_of(spark, parameters(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"format": "avro"}, "format: expected csv or json or parquet or text, found 'avro'"),
        ({"value": "x", "columns": ("x",)}, "columns: they choose"),
        ({"files_per_trigger": -1}, "files_per_trigger: expected 0 or more"),
        ({"path": ""}, r"path: name the store by either path \(--dir\) or bootstrap, found neither"),
        (
            {"bootstrap": "localhost:9092"},
            r"path: name the store by either path \(--dir\) or bootstrap, found both",
        ),
        ({"checkpoint": ""}, "checkpoint: expected a directory"),
        ({"partitions": 0}, "partitions: expected 1 or more"),
    ],
)
def test_wrong_parameters_are_named(tmp_path: Path, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSettingError, match=named):
        parameters(tmp_path, **wrong)
