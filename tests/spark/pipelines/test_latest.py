"""The latest value of each key, against a dictionary filled in order."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import logstore
from logstore.errors import CheckpointMismatchError, DirectoryLockedError, InvalidSettingError
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
        assert report.counts == {"records": count, "keyless": 0, "refused": 0, "rows": len(expected(told))}
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
    wanted = {"later offset, older time": "new", "moved": "new", "came back": "new"}
    for order in (changes, changes[::-1]):
        assert table_of(latest.merge(None, frame_of(spark, order))) == wanted
    known = latest.merge(None, frame_of(spark, changes[::2]))
    assert table_of(latest.merge(known, frame_of(spark, changes[1::2]))) == wanted


def table_of(changes: Any) -> dict[str, str]:
    rows, _ = latest.rows_of(changes)
    return {row.key: row.value for row in rows.collect()}


def test_however_the_topic_is_cut_into_runs_the_table_is_that_of_the_whole(engine: Any, tmp_path: Path) -> None:
    """Keys in several partitions, times that go back, tombstones; histories cut at random, parts done again."""
    rng = random.Random(7)
    for turn in range(3):
        history, offsets = [], [0, 0, 0]
        for _ in range(60):
            partition = rng.randrange(3)
            value = None if rng.random() < 0.4 else f"{rng.randrange(10**6)}"
            history.append((f"k{rng.randrange(5)}", value, partition, offsets[partition], rng.randrange(20)))
            offsets[partition] += 1
        last: dict[tuple[str, int], Any] = {}
        for key, value, partition, _, seconds in history:
            last[key, partition] = (seconds, partition, value)
        newest = {key: max(each for (other, _), each in last.items() if other == key) for key, _ in last}
        wanted = {key: value for key, (_, _, value) in newest.items() if value is not None}
        # A run takes what is next of each partition, as much as it likes; some are done again.
        table, left = str(tmp_path / f"table-{turn}"), [[row for row in history if row[2] == n] for n in range(3)]
        while any(left):
            batch = []
            for rows in left:
                count = rng.choice([0, 5, 20])
                batch += rows[:count]
                del rows[:count]
            if batch:
                for _ in range(rng.choice([1, 1, 2])):
                    made = latest.merge(latest.read(engine, table), frame_of(engine, batch))
                    latest.write(made, table, latest.Made("s", "t", "", "", 0))
        known = latest.read(engine, table)
        assert known is not None
        assert table_of(known) == wanted
        assert table_of(latest.merge(None, frame_of(engine, history))) == wanted
        version = latest.table_path(table)
        assert {row.key: row.value for row in pd.read_parquet(version).itertuples(index=False)} == wanted


@pytest.mark.parametrize("schema", ["", "name STRING, age INT"])
def test_what_is_no_text_or_no_json_of_the_schema_is_refused_and_the_good_value_stays(
    engine: Any, tmp_path: Path, schema: str
) -> None:
    told = parameters(tmp_path, schema=schema)
    good = json.dumps({"name": "anna", "age": 7}).encode()
    broken = (
        [b"\xff\xfe"] if not schema else [b"\xff", b'{"name":', b'{"name": "b", "age": "7"}', b"", b"[1]", b"null"]
    )
    with logstore.open(told.path, environ={}) as store:
        topic = store.create_topic("users", 3)
        topic.append(good, key=b"k", partition=0)
        topic.append(good, key=b"gone", partition=0)
        for value in broken:
            topic.append(value, key=b"k", partition=0)
        topic.append(good, key=b"\xff\x00", partition=0)
        topic.append(None, key=b"\xff\x00", partition=0)
        topic.append(None, key=b"gone", partition=0)
    assert latest.run(engine, told).counts == {
        "records": 5 + len(broken),
        "keyless": 0,
        "refused": 2 + len(broken),
        "rows": 1,
    }
    (row,) = rows(told).itertuples(index=False)
    assert (row.key, row.offset) == ("k", 0)


def test_a_table_of_another_topic_schema_or_day_is_refused(engine: Any, tmp_path: Path) -> None:
    told = parameters(tmp_path)
    change(told, random.Random(9), 20)
    latest.run(engine, told)
    version = Path(latest.table_path(told.table) or "")
    shutil.copytree(version, tmp_path / "yesterday")
    change(told, random.Random(10), 20)
    latest.run(engine, told)
    with logstore.open(told.path, environ={}) as store:
        store.create_topic("other", 1).append(b"v", key=b"k")
    fresh = str(tmp_path / "fresh")
    with pytest.raises(CheckpointMismatchError, match="is that of topic users"):
        latest.run(engine, dataclasses.replace(told, topic="other", checkpoint=fresh))
    with pytest.raises(InvalidSettingError, match="has the columns key string, value string; rebuild it"):
        latest.run(engine, dataclasses.replace(told, schema="name STRING", checkpoint=fresh))
    before = as_dict(told)
    assert before == expected(told)

    current = Path(latest.table_path(told.table) or "")
    shutil.rmtree(current)
    shutil.copytree(tmp_path / "yesterday", current)
    with pytest.raises(CheckpointMismatchError, match=r"lacks micro-batch \d.*--rebuild"):
        latest.run(engine, told)
    shutil.rmtree(told.table)
    with pytest.raises(CheckpointMismatchError, match=r"the table in .* is missing.*--rebuild"):
        latest.run(engine, told)
    latest.run(engine, dataclasses.replace(told, rebuild=True))
    assert latest.run(engine, told).counts["records"] == 0
    assert as_dict(told) == before

    # A second checkpoint fills the same table; the first one is behind it then, or ahead, and nothing says which.
    latest.run(engine, dataclasses.replace(told, checkpoint=fresh))
    with pytest.raises(CheckpointMismatchError, match="made with another checkpoint"):
        latest.run(engine, told)


def test_bytes_stay_bytes_and_records_without_a_key_are_no_rows(spark: Any, tmp_path: Path) -> None:
    records = frame_of(spark, [("k", "v", 0, 0, 1), (None, "v", 0, 1, 1)]).selectExpr(  # type: ignore[list-item]
        "unhex(hex(key)) key", "X'FF00' value", "partition", "offset", "timestamp"
    )
    table, _ = latest.rows_of(latest.merge(None, latest.changes(records, parameters(tmp_path, text=False))))
    (row,) = table.collect()
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
    (tmp_path / "file").touch()
    for wrong, named in [
        ({"schema": "name STRING, `Key` INT"}, "schema: expected no field key"),
        ({"schema": "timestamp LONG, offset LONG"}, "schema: expected no field offset or timestamp"),
        ({"schema": "a INT", "text": False}, "schema: expected text for it"),
        ({"table": str(tmp_path / "file")}, "table: expected a directory, found"),
    ]:
        with pytest.raises(InvalidSettingError, match=named):
            parameters(tmp_path, **wrong)
    with pytest.raises(InvalidSettingError, match="table: expected a directory on a file system"):
        parameters(tmp_path, table="hdfs://host/table")
    with pytest.raises(InvalidSettingError, match="rebuild: expected to be used without continuous"):
        parameters(tmp_path, rebuild=True, continuous=True)


@pytest.mark.parametrize("more", [{}, {"rebuild": True}], ids=["run", "rebuild"])
def test_a_second_run_is_refused_while_one_writes_the_table(engine: Any, tmp_path: Path, more: Any) -> None:
    """Each would remove the version that the other one is writing, and lead to what is left of it."""
    told = parameters(tmp_path, **more)
    change(told, random.Random(1), 50)
    with latest.one_writer(told.table), pytest.raises(DirectoryLockedError, match="another run"):
        latest.run(engine, told)
    assert latest.table_path(told.table) is None
    latest.run(engine, told)
    assert as_dict(told) == expected(told)
