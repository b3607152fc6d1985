"""Ranges to Arrow batches: Spark's types to the letter, whatever the values are, and what is gone."""

from __future__ import annotations

import datetime
import json
import shutil
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import logstore
from logstore.client.backend.ranges import Range
from logstore.errors import DataLossError, PayloadError, SparkNotReadyError, SparkOptionError
from logstore.records import TopicPartition
from logstore.spark.reading.fetches import ahead, backend_of, read, runs
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import PartitionRanges, check_version, read_ranges
from logstore.spark.reading.schema import QueryColumns
from tests.spark import stores

KAFKA = Path(__file__).resolve().parents[2] / "fixtures" / "kafka-4.3.1"


def options(path: Path | str, **more: str) -> ReadOptions:
    return ReadOptions.of({"path": str(path), "subscribe": "events", **more})


def rows(path: Path | str, whole: Range, **more: str) -> list[dict[str, Any]]:
    given = options(path, **more)
    return [row for batch in read(whole, given, QueryColumns(given)) for row in batch.to_pylist()]


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with logstore.open(path, environ={}) as store:
        value = {
            "i": 5,
            "f": 1.5,
            "b": True,
            "s": "é",
            "t": "2013-01-01T05:00:00Z",
            "ms": 1357016400000,
            "d": "2013-01-01",
        }
        topic = store.create_topic("events", settings={"message.timestamp.after.max.ms": 2**63 - 1})
        topic.append(json.dumps(value).encode(), timestamp=1_357_016_400_001)
        topic.append(None, key=b"gone", timestamp=-1, headers=[("h", None), ("é", b"x")])
        topic.append(b"no json", timestamp=2**62)
    return path


SCHEMAS = [
    {},
    {"includeheaders": "true"},
    {"columns": "offset,VALUE"},
    {"columns": "headers"},
    {"valueschema": '{"i": "int32", "j": ["int64", "i"], "f": "float64", "b": "bool", "s": "string",'
                    ' "t": "timestamp",'
                    ' "ms": "timestamp_ms", "d": "date", "raw": ["json", "s"]}', "onvalueerror": "null"},
    {"valueschema": '{"format": "<bBhHiIqefd?3s", "names": ["a","b","c","d","e","f","g","h","i","j","k","l"]}',
     "onvalueerror": "null"},
]  # fmt: skip


@pytest.mark.parametrize("more", SCHEMAS)
def test_batches_have_the_types_of_sparks_own_conversion_to_the_letter(typed: Path, more: dict[str, str]) -> None:
    given = options(typed, **more)
    table = QueryColumns(given)
    wanted = to_arrow_schema(table.spark(), timezone="UTC")
    batches = list(read(Range("events", 0, 0, 3), given, table))
    assert sum(batch.num_rows for batch in batches) == 3
    for batch in batches:
        assert wanted.equals(batch.schema), batch.schema
        batch.validate(full=True)


def test_every_column_says_what_was_written(typed: Path) -> None:
    first, second = rows(typed, Range("events", 0, 0, 2), includeheaders="true")
    assert first["timestamp"] == datetime.datetime(2013, 1, 1, 5, 0, 0, 1000, datetime.UTC)
    assert (first["topic"], first["partition"], first["offset"], first["timestampType"]) == ("events", 0, 0, 0)
    assert second["key"] == b"gone"
    assert second["value"] is None
    assert second["timestamp"] == datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.UTC)
    assert second["headers"] == [{"key": "h", "value": None}, {"key": "é", "value": b"x"}]
    assert first["key"] is None


def test_a_time_that_no_microsecond_can_say_is_the_nearest_that_one_can(typed: Path) -> None:
    given = options(typed, columns="timestamp")
    (batch,) = read(Range("events", 0, 2, 3), given, QueryColumns(given))
    assert batch.column(0).cast(pa.int64()).to_pylist() == [9223372036854775000]


def test_values_are_decoded_to_columns(typed: Path) -> None:
    more = {
        "valueschema": '{"i": "int64", "when": ["timestamp_ms", "/ms"], "s": "string"}',
        "columns": "s,offset,when",
    }
    with pytest.raises(PayloadError, match=r"events-0: the value is no JSON object.*onValueError=null gives null"):
        rows(typed, Range("events", 0, 0, 3), **more)
    when = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC)
    assert rows(typed, Range("events", 0, 0, 3), **more, onvalueerror="null") == [
        {"s": "é", "offset": 0, "when": when},
        {"s": None, "offset": 1, "when": None},
        {"s": None, "offset": 2, "when": None},
    ]


def test_fields_stand_in_place_of_the_value() -> None:
    table = QueryColumns(options("/data", valueschema='{"a": "int64", "b": "string"}', includeheaders="true"))
    assert table.names == ("key", "a", "b", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@pytest.mark.parametrize(
    "more, said",
    [
        ({"columns": "offset,vlaue"}, "columns: unknown 'vlaue'; there are key, value"),
        ({"columns": "offset,Offset"}, "columns: a column can be named once"),
        ({"valueschema": '{"a": "int65"}'}, "valueSchema: field 'a': unknown type 'int65'"),
        ({"valueschema": '{"offset": "int64"}'}, "valueSchema: .*every record has a column of that name"),
        (
            {"valueschema": '{"Offset": "int64"}'},
            "field 'Offset' differs from 'offset' only in upper and lower case",
        ),
        (
            {"valueschema": '{"a": "int64", "A": "int64"}'},
            "field 'A' differs from 'a' only in upper and lower case",
        ),
        (
            {"valueschema": '{"format": "<Q", "names": ["big"]}'},
            "valueSchema: field 'big' is an unsigned number of 64",
        ),
    ],
)
def test_wrong_columns_are_refused_by_name(more: dict[str, str], said: str) -> None:
    with pytest.raises(SparkOptionError, match=said):
        QueryColumns(options("/data", **more))


def test_unsigned_numbers_and_short_floats_are_widened(tmp_path: Path) -> None:
    import struct

    with logstore.open(tmp_path, environ={}) as store:
        store.create_topic("events").append(struct.pack("<BHIe2s", 255, 65535, 2**32 - 1, 0.5, b"ab"))
    schema = '{"format": "<BHIe2s", "names": ["b", "h", "i", "e", "s"]}'
    (row,) = rows(tmp_path, Range("events", 0, 0, 1), valueschema=schema, columns="b,h,i,e,s")
    assert row == {"b": 255, "h": 65535, "i": 2**32 - 1, "e": 0.5, "s": b"ab"}


# --- ranges ----------------------------------------------------------------------------------------


@pytest.mark.row("M7")
def test_every_row_names_its_partition_and_offset_and_a_range_is_what_was_asked_for(root: Path) -> None:
    found = rows(root, Range("events", 2, 17, 45), fetchbytes="1k")
    assert [(row["partition"], row["offset"]) for row in found] == [(2, offset) for offset in range(17, 45)]
    assert [json.loads(row["value"])["n"] for row in found] == [4 * offset + 2 for offset in range(17, 45)]
    assert rows(root, Range("events", 2, 17, 17)) == []


def test_deleted_offsets_are_an_error_that_names_them_or_passed_over(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with logstore.open(root, environ={}, housekeeping="manual") as store:
        store["events"].delete_records({1: 100})
    with pytest.raises(
        DataLossError, match="events-1: offsets 0 to 99 are deleted, the log begins at 100; set failOn"
    ):
        rows(root, Range("events", 1, 0, 250))
    found = rows(root, Range("events", 1, 0, 250), failondataloss="false")
    assert [row["offset"] for row in found] == list(range(100, 250))
    assert "events-1: offsets 0 to 99 are deleted" in caplog.text
    assert rows(root, Range("events", 1, 0, 90), failondataloss="false") == []


def test_offsets_beyond_the_end_too(root: Path) -> None:
    with pytest.raises(DataLossError, match="events-0: offsets 250 to 299 are not there, the log ends at 250"):
        rows(root, Range("events", 0, 200, 300))
    found = rows(root, Range("events", 0, 200, 300), failondataloss="false")
    assert [row["offset"] for row in found] == list(range(200, 250))


def test_a_deleted_topic_too(root: Path) -> None:
    whole = Range("events", 0, 0, 250)
    with logstore.open(root, environ={}) as store:
        store.delete_topic("events")
    with pytest.raises(DataLossError, match="topic 'events' was deleted: offsets 0 to 249 of partition 0 are gone"):
        rows(root, whole)
    assert rows(root, whole, failondataloss="false") == []
    with logstore.open(root, environ={}) as store:
        store.create_topic("events").append_many([b"new"] * 250)
    with pytest.raises(DataLossError, match="created again"):
        rows(root, whole._replace(topic_id="another"))
    assert rows(root, whole._replace(topic_id="another"), failondataloss="false") == []


def test_memory_is_that_of_a_fetch_whatever_the_range(tmp_path: Path) -> None:
    with logstore.open(tmp_path, environ={}) as store:
        topic = store.create_topic("events")
        for _ in range(64):
            topic.append_many([b"x" * 1000] * 500)
    given = options(tmp_path, fetchbytes="1m")
    table = QueryColumns(given)

    def peak(end: int) -> int:
        tracemalloc.start()
        held, before = 0, pa.total_allocated_bytes()
        for batch in read(Range("events", 0, 0, end), given, table):
            held = max(held, pa.total_allocated_bytes() - before, batch.nbytes)
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held + traced

    peak(1000)
    few, all_of_them = peak(3_000), peak(32_000)
    assert all_of_them < 1.5 * few < 12 << 20


def test_a_back_end_stays_open_between_tasks_and_a_new_store_in_its_place_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with logstore.open(path, environ={}) as store:
        store.create_topic("events").append(b"old")
    first = backend_of(options(path))
    assert backend_of(options(path, columns="offset")) is first
    assert backend_of(options(path, isolation="read_uncommitted")) is not first
    path.rename(tmp_path / "away")
    with logstore.open(path, environ={}) as store:
        store.create_topic("events").append(b"new")
    assert backend_of(options(path)) is not first
    assert [row["value"] for row in rows(path, Range("events", 0, 0, 1))] == [b"new"]


def test_a_fetch_of_a_range_without_visible_records_goes_on(tmp_path: Path) -> None:
    with logstore.open(tmp_path, environ={}) as store:
        log = store.create_topic("events")[0]
        assert isinstance(log, logstore.Log)
        for n in range(20):
            log.append([b"aborted" * 100] * 5, producer=logstore.log.ProducerStamp(7, 0, n * 5, transactional=True))
        log.replica.append_control(logstore.log.Marker.ABORT, producer_id=7, producer_epoch=0)
        log.append([b"plain"])
    given = options(tmp_path, fetchbytes="4k")
    assert len(list(runs(backend_of(given), Range("events", 0, 0, 102), given))) > 3
    assert [row["offset"] for row in rows(tmp_path, Range("events", 0, 0, 102), fetchbytes="4k")] == [101]


def test_a_worker_of_another_version_is_named() -> None:
    check_version("1.0.0", "")  # found on a path and not installed: it has no version
    check_version("2.0.0", "2.0.0")
    with pytest.raises(SparkNotReadyError, match=r"planned with logstore 1\.0\.0, the worker on .* has 2\.0\.0"):
        check_version("1.0.0", "2.0.0")


def test_sparks_stand_in_for_no_partition_reads_nothing(root: Path) -> None:
    from pyspark.sql.datasource import InputPartition

    given = options(root)
    assert list(read_ranges(InputPartition(None), given)) == []
    assert len(list(read_ranges(PartitionRanges([Range("events", 0, 0, 5)]), given))) == 1
    assert stores.RECORDS == 1000


def test_a_reading_that_is_dropped_waits_for_no_fetch():
    """The collector of cycles may end it in the middle of what the fetch needs."""
    needed, dropped = threading.Lock(), threading.Event()

    def fetches():
        yield 1
        with needed:
            yield 2

    coming = ahead(fetches())
    with needed:
        assert next(coming) == 1
        last = [coming]
        del coming

        def drop():
            last.clear()
            dropped.set()

        threading.Thread(target=drop, daemon=True).start()
        assert dropped.wait(300), "it waits for the fetch"


def test_a_worker_reads_what_kafka_has_written_since_it_opened_the_directory(tmp_path: Path) -> None:
    """Kafka publishes no end: a worker of the batch before saw its own old end, and called the rest lost."""
    root = Path(shutil.copytree(KAFKA, tmp_path / "kafka"))
    written = root / "records-0" / "00000000000000000000.log"
    whole = written.read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    written.write_bytes(whole[:first])
    given = ReadOptions.of({"path": str(root), "subscribe": "records"})
    tp = TopicPartition("records", 0)
    begun = backend_of(given).latest([tp])[tp]
    written.write_bytes(whole)
    planners = ReadOptions.of({"path": str(root), "subscribe": "records", "isolation": "read_uncommitted"})
    reached = backend_of(planners).latest([tp])[tp]
    assert 0 < begun < reached
    wanted = Range("records", 0, begun, reached)
    found = [row["offset"] for batch in read(wanted, given, QueryColumns(given)) for row in batch.to_pylist()]
    assert found == list(range(begun, reached))
