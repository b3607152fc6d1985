"""Batch reads in a real session: the table, its figures, and what the user is told of bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import logstore
from tests.spark import stores

#: A session starts, and Python processes with it, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)


def read(spark: Any, root: Path | str, **options: str) -> Any:
    given = {"path": str(root), "subscribe": "events"} | options
    return spark.read.format("logstore").options(**given).load()


COLUMNS = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]


@pytest.mark.row("M9")
def test_a_topic_is_a_table_with_the_columns_of_sparks_kafka_source(spark: Any, root: Path) -> None:
    table = read(spark, root)
    assert table.dtypes == COLUMNS
    assert all(field.nullable for field in table.schema)
    headers = read(spark, root, includeHeaders="true").schema["headers"]
    assert headers.dataType.simpleString() == "array<struct<key:string,value:binary>>"


@pytest.mark.row("M9")
def test_counts_in_sql_are_those_of_the_offsets(spark: Any, root: Path) -> None:
    read(spark, root).createOrReplaceTempView("events")
    rows = spark.sql(
        "select partition, count(*) as n, max(offset) - min(offset) + 1 as span from events group by partition"
    ).collect()
    assert sorted(tuple(row) for row in rows) == [(number, 250, 250) for number in range(stores.PARTITIONS)]
    (total,) = spark.sql("select count(*), count(distinct partition, offset) from events").collect()
    assert tuple(total) == (stores.RECORDS, stores.RECORDS)


@pytest.mark.row("M7")
def test_every_row_says_where_it_stands_and_what_was_written(spark: Any, root: Path) -> None:
    for row in read(spark, root, includeHeaders="true").collect():
        n = json.loads(row.value)["n"]
        assert (row.partition, row.offset) == (n % 4, n // 4)
        assert row.key == (None if n % 100 == 0 else b"user-%d" % (n % 10))
        assert row.headers[0].key == "n"
        assert row.headers[0].value == b"%d" % n
    number = "get_json_object(cast(value as string), '$.n')"
    sql = f"(unix_millis(timestamp) - {stores.FIRST_TIMESTAMP_MS}) / 1000 = {number}"
    assert read(spark, root).where(sql).count() == stores.RECORDS


def test_ranges_columns_and_fields(spark: Any, root: Path) -> None:
    first, last = stores.FIRST_TIMESTAMP_MS + 200_000, stores.FIRST_TIMESTAMP_MS + 300_000
    table = read(spark, root, startingTimestamp=str(first), endingTimestamp=str(last), minPartitions="7",
                 columns="n,offset", valueSchema='{"n": "int64"}')  # fmt: skip
    assert table.columns == ["n", "offset"]
    assert sorted(row.n for row in table.collect()) == list(range(200, 300))
    assert table.rdd.getNumPartitions() >= 4
    some = read(spark, root, startingOffsets='{"events": {"0": 5, "1": 6, "2": -2, "3": 250}}',
                endingOffsets='{"events": {"0": 6, "1": -1, "2": 1, "3": -1}}')  # fmt: skip
    assert some.groupBy("partition").count().orderBy("partition").collect() == [(0, 1), (1, 244), (2, 1)]
    assert (
        read(spark, root, startingOffsets="earliest", endingOffsets='{"events": {"0":0,"1":0,"2":0,"3":0}}').count()
        == 0
    )


def test_a_program_for_kafka_runs_with_the_name_of_the_format_and_the_place_changed(spark: Any, root: Path) -> None:
    """The example of Spark's guide for Kafka, with `path` in place of ``kafka.bootstrap.servers``."""
    table = (
        spark.read.format("logstore")
        .option("path", str(root))
        .option("subscribePattern", "ev.*")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("kafka.fetch.min.bytes", "1")
        .option("kafka.group.id", "mine")
        .option("groupIdPrefix", "my")
        .option("failOnDataLoss", "false")
        .load()
    )
    pairs = table.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    assert pairs.where("key is not null").count() == stores.RECORDS - stores.RECORDS // 100


def test_without_registration_spark_finds_the_source_by_itself(spark: Any, root: Path) -> None:
    other = spark.newSession()
    assert other.conf.get("spark.sql.python.filterPushdown.enabled", None) in (None, "false", "true")
    assert read(other, root).where("partition = 1").count() == 250


def test_a_view_is_what_a_table_of_the_catalogue_cannot_be(spark: Any, root: Path) -> None:
    words = f"using logstore options (path '{root}', subscribe 'events')"
    with pytest.raises(Exception, match=r"create table: Spark keeps no options .* CREATE TEMPORARY VIEW") as raised:
        spark.sql(f"create table catalogued {words}")
    assert "Traceback" not in str(raised.value)
    spark.sql(f"create temporary view viewed {words}")
    assert spark.table("viewed").count() == stores.RECORDS
    spark.catalog.dropTempView("viewed")


def test_a_url_of_this_machine_is_a_path_and_another_is_refused(spark: Any, root: Path) -> None:
    assert read(spark, f"file://{root}").count() == stores.RECORDS
    with pytest.raises(Exception, match=r"path: hdfs://name/shop is a URL; a store is a directory"):
        read(spark, "hdfs://name/shop")


def test_plain_tasks_read_the_same(spark: Any, root: Path) -> None:
    from logstore.spark import read as read_by_tasks

    options = {"path": str(root), "subscribe": "events", "minPartitions": "6", "includeHeaders": "true"}
    table = read_by_tasks(spark, **options)
    assert table.dtypes[:7] == COLUMNS
    assert table.rdd.getNumPartitions() == 6 or table.rdd.getNumPartitions() >= 4
    key = ["partition", "offset"]
    assert table.orderBy(key).collect() == read(spark, root, includeHeaders="true").orderBy(key).collect()
    nothing = {**options, "endingOffsets": '{"events": {"0":0,"1":0,"2":0,"3":0}}'}
    assert read_by_tasks(spark, **nothing).count() == 0


def test_committed_records_only_unless_all_are_asked_for(spark: Any, tmp_path: Path) -> None:
    with logstore.open(tmp_path / "store", environ={}) as store:
        log = store.create_topic("events")[0]
        assert isinstance(log, logstore.Log)
        log.append([b"aborted"] * 3, producer=logstore.log.ProducerStamp(7, 0, 0, transactional=True))
        log.replica.append_control(logstore.log.Marker.ABORT, producer_id=7, producer_epoch=0)
        log.append([b"plain"])
    assert read(spark, tmp_path / "store").count() == 1
    assert read(spark, tmp_path / "store", **{"kafka.isolation.level": "read_uncommitted"}).count() == 4


@pytest.mark.parametrize(
    "options, said",
    [
        ({"subscribbe": "x", "wibble": "1"},
         "2 option(s) refused: subscribbe: unknown; the nearest name is subscribe; wibble:"),
        ({"path": "/nowhere/at/all"}, "the directory does not exist; check the path [file /nowhere/at/all]"),
        ({"subscribe": "events,nowhere"}, "topic 'nowhere' does not exist; there are events"),
        ({"startingOffsets": "latest"}, "startingOffsets: a batch query cannot begin at the latest offset"),
        ({"startingOffsets": "{"}, "startingOffsets: expected earliest, latest or JSON"),
        ({"startingOffsets": '{"events": {"0": 1}}'}, "events-1, events-2, events-3 left out"),
        ({"endingOffsets": '{"events": {"0": 999, "1": 1, "2": 1, "3": 1}}'},
         "events-0: offsets 999 and before were asked for, the log ends at 250"),
        ({"columns": "n"}, "columns: unknown 'n'; there are key, value"),
        ({"bootstrap": "localhost:1"}, "path: "),
        ({"valueSchema": '{"n": "bool"}'}, "field 'n': expected true or false, found"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_of_ours(spark: Any, root: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception) as raised:
        read(spark, root, **options).collect()
    text = str(raised.value)
    assert said in text
    assert "Traceback" not in text.split("Driver stacktrace")[0]


def test_a_schema_of_ones_own_is_refused(spark: Any, root: Path) -> None:
    table = spark.read.schema("value string").format("logstore").options(path=str(root), subscribe="events").load()
    with pytest.raises(
        Exception, match=r"schema: the columns are fixed, struct<key:binary.*found struct<value:string>"
    ):
        table.collect()


def test_a_damaged_batch_is_named_with_its_place(spark: Any, root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(root, copy)
    log = next((copy / "events-1").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    with pytest.raises(Exception, match="CorruptRecordError") as raised:
        read(spark, copy).collect()
    assert str(log) in str(raised.value)
