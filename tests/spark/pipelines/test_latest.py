"""The latest value of each key, against a dictionary filled in order."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import logstore
from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import latest
from tests.spark.pipelines.topic_contents import records_of


def parameters(tmp_path: Path, **more: Any) -> latest.LatestParameters:
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "table": tmp_path / "table"}
    given = {name: str(path) for name, path in places.items()}
    return latest.LatestParameters(**{"topic": "users", "partitions": 3, **given, **more})


def change(told: latest.LatestParameters, rng: random.Random, count: int) -> None:
    """So many changes of 60 keys, one in five a deletion."""
    with logstore.open(told.path, environ={}) as store:
        topic = store.create_topic("users", told.partitions, if_not_exists=True)
        for _ in range(count):
            key, number = b"user-%d" % rng.randrange(60), rng.randrange(10**6)
            value = None if rng.random() < 0.2 else json.dumps({"name": f"n{number}", "age": number % 90})
            topic.append(value and value.encode(), key=key)


def expected(told: latest.LatestParameters) -> dict[str, bytes]:
    """Record by record, as a consumer would keep it."""
    table: dict[str, bytes] = {}
    for record in records_of(told.path, "users"):
        if record.key is not None:
            table.pop(record.key.decode(), None)
            if record.value is not None:
                table[record.key.decode()] = record.value
    return table


def rows(told: latest.LatestParameters) -> pd.DataFrame:
    version = latest.table_path(told.table)
    assert version is not None
    return pd.read_parquet(version)


def as_dict(told: latest.LatestParameters) -> dict[str, bytes]:
    table = rows(told)
    assert table["key"].is_unique
    return {key: value.encode() for key, value in zip(table["key"], table["value"], strict=True)}


@pytest.mark.row("D5")
@pytest.mark.timeout(600)
def test_each_key_has_its_last_value_run_after_run(engine: Any, tmp_path: Path) -> None:
    told = parameters(tmp_path)
    rng = random.Random(3)
    for count in (400, 30):
        change(told, rng, count)
        report = latest.run(engine, told)
        assert report.counts == {"records": count, "keyless": 0, "rows": len(expected(told))}
        assert as_dict(told) == expected(told)
    before = rows(told)
    assert latest.run(engine, told).counts["records"] == 0
    pd.testing.assert_frame_equal(rows(told), before)

    rebuilt = parameters(tmp_path, rebuild=True, table=str(tmp_path / "rebuilt"))
    latest.run(engine, rebuilt)
    assert as_dict(rebuilt) == expected(told)


@pytest.mark.timeout(600)
def test_doing_it_all_again_over_the_table_changes_nothing(engine: Any, tmp_path: Path) -> None:
    """As after a kill before Spark's own commit, or with a checkpoint that was lost."""
    told = parameters(tmp_path)
    change(told, random.Random(4), 200)
    latest.run(engine, told)
    again = parameters(tmp_path, checkpoint=str(tmp_path / "another"), max_offsets=50)
    assert latest.run(engine, again).counts["records"] == 200
    assert as_dict(told) == expected(told)


@pytest.mark.timeout(600)
def test_a_compacted_topic_gives_the_same_table(engine: Any, tmp_path: Path) -> None:
    told = parameters(tmp_path, schema="name STRING, age INT")
    with logstore.open(told.path, environ={}) as store:
        store.create_topic("users", 3, cleanup_policy="compact", segment_bytes=4096, min_cleanable_dirty_ratio=0.01)
    change(told, random.Random(5), 600)
    whole = len(records_of(told.path, "users"))
    wanted = {key: json.loads(value) for key, value in expected(told).items()}
    with logstore.open(told.path, environ={}) as store:
        store.housekeep()
    assert len(records_of(told.path, "users")) < whole
    latest.run(engine, told)
    table = rows(told)
    assert {row.key: {"name": row.name, "age": row.age} for row in table.itertuples(index=False)} == wanted


def frame_of(spark: Any, changes: list[tuple[str, str | None, int, int, int]]) -> Any:
    schema = "key STRING, value STRING, partition INT, offset LONG, seconds LONG"
    frame = spark.createDataFrame(changes, schema)
    return frame.selectExpr(
        "key", "value", "partition", "offset", "timestamp_seconds(seconds) timestamp", "value IS NULL deleted"
    )


def test_offsets_decide_within_a_partition_and_times_between_them(spark: Any) -> None:
    changes = [
        ("later offset, older time", "old", 0, 1, 900),
        ("later offset, older time", "new", 0, 2, 100),
        ("moved", "old", 0, 9, 100),
        ("moved", "new", 1, 3, 200),
        ("deleted", "x", 0, 4, 100),
        ("deleted", None, 0, 5, 100),
        ("came back", None, 2, 6, 100),
        ("came back", "new", 2, 7, 100),
    ]
    for order in (changes, changes[::-1]):
        found = {row.key: row.value for row in latest.merge(None, frame_of(spark, order)).collect()}
        assert found == {"later offset, older time": "new", "moved": "new", "came back": "new"}
    table = latest.merge(None, frame_of(spark, changes[::2]))
    found = {row.key: row.value for row in latest.merge(table, frame_of(spark, changes[1::2])).collect()}
    assert found == {"later offset, older time": "new", "moved": "new", "came back": "new"}


def test_bytes_stay_bytes_and_records_without_a_key_are_no_rows(spark: Any, tmp_path: Path) -> None:
    records = frame_of(spark, [("k", "v", 0, 0, 1), (None, "v", 0, 1, 1)]).selectExpr(  # type: ignore[list-item]
        "unhex(hex(key)) key", "X'FF00' value", "partition", "offset", "timestamp"
    )
    (row,) = latest.merge(None, latest.changes(records, parameters(tmp_path, text=False))).collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"\xff\x00")


def test_a_version_takes_the_place_of_another_in_one_step(tmp_path: Path) -> None:
    table = tmp_path / "table"
    assert latest.table_path(table) is None
    seen = []
    for version in ("a", "b", "c"):
        (table / "versions" / version).mkdir(parents=True)
        (table / "versions" / version / "part").write_text(version)
        latest.publish(str(table), version)
        found = latest.table_path(table)
        assert found is not None
        seen.append(Path(found, "part").read_text())
    assert seen == ["a", "b", "c"]
    assert sorted(os.listdir(table / "versions")) == ["b", "c"]
    assert sorted(os.listdir(table)) == ["current", "versions"]


def test_wrong_parameters_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="table: expected a directory on a file system"):
        parameters(tmp_path, table="hdfs://host/table")
    with pytest.raises(InvalidSettingError, match="rebuild: expected to be used without continuous"):
        parameters(tmp_path, rebuild=True, continuous=True)
