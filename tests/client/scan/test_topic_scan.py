"""A scan of a topic is a table: every visible record once, with its partition and offset, lazily."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore import Log, Store
from logstore.batch._batch import Batches
from logstore.client.scan.topic_scan import TopicScan
from logstore.errors import CorruptRecordError, OffsetOutOfRangeError, PayloadError, UnknownPartitionError
from logstore.log import ProducerStamp
from logstore.records import Marker
from logstore.testing import ManualClock, SimDisk, after_power_cut, temporary_store
from logstore.testing.clock import START_MS
from tests.kit.files import flip
from tests.kit.inside import count_reads
from tests.kit.logs import log_files

ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
COUNTS = (30, 0, 7)


def records_of(partition: int, count: int) -> list[Any]:
    return [
        (b"k%d" % n, b"%d of %d" % (n, partition), 1_000 * partition + n, [("h", b"%d" % n)]) for n in range(count)
    ]


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[dict[int, Log]]:
    """Three partitions of 30, 0 and 7 records, each append a batch of up to ten."""
    opened = {}
    for partition, count in enumerate(COUNTS):
        opened[partition] = log = Log.open(tmp_path / f"flights-{partition}")
        records = records_of(partition, count)
        for begin in range(0, count, 10):
            log.append(records[begin : begin + 10])
    yield opened
    for log in opened.values():
        log.close()


def scan_of(logs: dict[int, Any], **choices: Any) -> TopicScan:
    return TopicScan("flights", logs, **choices)


def places(scan: TopicScan) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in scan]


# --- the range ---------------------------------------------------------------------------------


@pytest.mark.row("M7", "M9")
def test_every_row_names_its_partition_and_offset_and_partitions_follow_each_other(logs: dict[int, Log]) -> None:
    scan = scan_of(logs)
    expected = [(partition, offset) for partition, count in enumerate(COUNTS) for offset in range(count)]
    assert places(scan) == expected
    table = pa.table(scan_of(logs, columns=["partition", "offset", "topic"]))
    assert list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == expected
    assert set(table["topic"].to_pylist()) == {"flights"}
    assert scan.partitions == (0, 1, 2)
    assert scan.bounds == {0: (0, 30), 1: (0, 0), 2: (0, 7)}
    assert repr(scan) == "<TopicScan flights {0: 0..30, 1: 0..0, 2: 0..7}>"


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"partitions": [2, 0], "start": {0: 28}, "end": {2: 1}}, [(2, 0), (0, 28), (0, 29)]),
        ({"partitions": 2, "start": 5}, [(2, 5), (2, 6)]),
        ({"start": "latest"}, []),
        ({"start": {0: "latest", 2: "earliest"}, "end": {2: 1}}, [(2, 0)]),
        ({"end": "earliest"}, []),
        ({"partitions": [0], "start": 9, "end": 11}, [(0, 9), (0, 10)]),
        ({"partitions": [0, 0], "start": 29}, [(0, 29)]),
        ({"partitions": []}, []),
        ({"since": 2_005}, [(2, 5), (2, 6)]),
        ({"since": 28, "until": 2_001}, [(0, 28), (0, 29), (2, 0)]),
        (
            {"until": datetime.datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=datetime.UTC)},
            [(0, 0)],
        ),
    ],
)
def test_ranges_by_partition_offset_and_time(logs: dict[int, Log], choices: Any, expected: Any) -> None:
    scan = scan_of(logs, **choices)
    assert places(scan) == expected
    assert scan.count() == len(expected)
    assert pa.table(scan).num_rows == len(expected)
    assert sum(map(len, scan.values())) == len(expected)


def test_the_bounds_are_those_of_the_moment_when_the_scan_was_made(logs: dict[int, Log]) -> None:
    scan = scan_of(logs)
    logs[1].append([b"later"])
    logs[2].append([b"later"] * 5)
    assert scan.count() == len(places(scan)) == sum(COUNTS)
    assert scan_of(logs).count() == sum(COUNTS) + 6


def test_each_use_begins_again_and_several_go_on_at_once(logs: dict[int, Log]) -> None:
    scan = scan_of(logs)
    first, second = iter(scan), iter(scan)
    ours = [next(first).offset, next(first).offset, next(second).offset]
    assert ours == [0, 1, 0]
    assert pa.table(scan) == pa.table(scan)
    assert pa.schema(scan) == pa.table(scan).schema


def test_reading_is_lazy(logs: dict[int, Log], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    count_reads(monkeypatch, read)
    scan = scan_of(logs, max_bytes=1)
    reader = pa.RecordBatchReader.from_stream(scan)
    assert read == []
    assert reader.read_next_batch().num_rows == 10
    assert read == [0]
    assert [len(batch) for batch in scan.batches()] == [10, 10, 10, 7]


def test_committed_readers_count_and_see_neither_aborted_records_nor_markers(tmp_path: Path) -> None:
    with Log.open(tmp_path / "flights-0") as log:
        log.append([b"a"])
        stamp = {"producer_id": 1, "producer_epoch": 0}
        log.append([b"b", b"c"], producer=ProducerStamp(**stamp, base_sequence=0, transactional=True))
        log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0)
        log.append([b"d"], producer=ProducerStamp(**stamp, base_sequence=2, transactional=True))
        logs = {0: log}
        for isolation, values in (("read_uncommitted", [b"a", b"b", b"c", b"d"]), ("read_committed", [b"a"])):
            scan = scan_of(logs, isolation=isolation)
            assert [record.value for record in scan] == values
            assert scan.count() == len(values)


@pytest.mark.row("M9", "M7")
def test_a_topic_of_a_store_scans_itself(logstore_store: Store, logstore_clock: ManualClock) -> None:
    import duckdb

    topic = logstore_store.create_topic("flights", 3, {"compression.type": "zstd", "segment.bytes": 4_096})
    for day in range(1, 31):
        topic.append_many([(b"%d" % (n % 7), b'{"n": %d, "day": %d}' % (n, day)) for n in range(40)])
        logstore_clock.advance(86_400_000)
    scan = topic.scan(value_schema={"n": "int32", "day": "int32"})
    assert scan.count() == 1_200 == sum(log.log_end_offset for log in topic.partitions)
    assert duckdb.sql("select count(*), sum(n), count(distinct day), count(distinct key) from scan").fetchall() == [
        (1_200, 30 * sum(range(40)), 30, 7)
    ]
    tenth = topic.scan(
        since=START_MS + 9 * 86_400_000, until=START_MS + 10 * 86_400_000, value_schema={"day": "int32"}
    )
    assert set(tenth.to_numpy()["day"].tolist()) == {10}
    assert tenth.count() == 40
    # What is deleted or appended later changes what a new scan sees, and nothing of this one.
    topic.delete_records({0: 10})
    assert topic.scan(partitions=0).bounds[0][0] == 10
    assert scan.bounds[0][0] == 0
    assert scan.count() == 1_200


def test_only_the_partitions_that_are_scanned_are_opened(logstore_disk: SimDisk) -> None:
    with temporary_store(files=logstore_disk) as store:
        topic = store.create_topic("flights", 20)
        for partition in range(20):
            topic.append_many([b"v"], partition=partition)
    with temporary_store(files=logstore_disk) as store:
        before = logstore_disk.open_descriptors
        assert store.topic("flights").scan(partitions=[3, 7]).count() == 2
        few = logstore_disk.open_descriptors - before
        assert store.topic("flights").scan().count() == 20
        assert few * 5 < logstore_disk.open_descriptors - before
        with pytest.raises(UnknownPartitionError, match="no partition 20; it has 20"):
            store.topic("flights").scan(partitions=20)


@pytest.mark.row("S20", part="what is missing is told")
def test_a_scan_after_a_power_cut_is_that_of_what_was_synced(logstore_store: Store) -> None:
    topic = logstore_store.create_topic("flights", 2)
    for partition in (0, 1):
        topic.append_many([b"%d" % n for n in range(50)], partition=partition, ack="synced")
        topic.append_many([b"lost"] * 50, partition=partition)
    for policy in ("none", "torn", "zeroed"):
        with after_power_cut(logstore_store, policy, seed=2) as found:
            scan = found.topic("flights").scan(columns=["offset", "value"])
            table = pa.table(scan)
            assert table.num_rows == scan.count() >= 100
            assert [value for value in table["value"].to_pylist() if value != b"lost"] == [
                b"%d" % n for _ in range(2) for n in range(50)
            ]


# --- what is refused ---------------------------------------------------------------------------


def test_wrong_choices_are_refused_with_what_there_is(logs: dict[int, Log]) -> None:
    for choices in ({"partitions": [1, 3, -1]}, {"start": {3: 0, -1: 0}}):
        with pytest.raises(UnknownPartitionError, match=r"'flights' has no partition 3, -1; it has 3") as caught:
            scan_of(logs, **choices)  # type: ignore[arg-type]
        assert caught.value.code == 3
    with pytest.raises(OffsetOutOfRangeError, match=r"flights-1: offset 5 is out of range"):
        scan_of(logs, start={1: 5})
    with pytest.raises(OffsetOutOfRangeError, match=r"flights-2: offset 8 is out of range"):
        scan_of(logs, end={2: 8})
    for bound in ("newest", 1.5, True, {0: None}, datetime.datetime.now(datetime.UTC)):
        with pytest.raises(ValueError, match="an offset, 'earliest', 'latest' or a mapping"):
            scan_of(logs, start=bound)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"column 'valu' is unknown; known are key, value"):
        scan_of(logs, columns=["valu"])


@pytest.mark.row("S8")
def test_damage_on_the_way_is_named_to_every_reader(logs: dict[int, Log], tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    scan = scan_of(logs, columns=["offset"], max_bytes=1)
    (path,) = log_files(logs[0]).values()
    size = int.from_bytes(path.read_bytes()[8:12], "big") + 12
    flip(path, size + 80)
    text = rf"CRC-32C.*{path.name}.*position {size}"
    reader = pa.RecordBatchReader.from_stream(scan)
    assert reader.read_next_batch()["offset"].to_pylist() == list(range(10))
    with pytest.raises(pa.ArrowInvalid, match=text):
        reader.read_next_batch()
    with pytest.raises(pl.exceptions.ComputeError, match=text):
        pl.DataFrame(scan)
    with pytest.raises(duckdb.Error, match=text):
        duckdb.sql('select max("offset") from scan').fetchall()
    with pytest.raises(CorruptRecordError, match=text):
        places(scan)


def test_what_is_deleted_before_it_is_read_is_held(logs: dict[int, Log]) -> None:
    scan = scan_of(logs, max_bytes=1)
    expected = places(scan)
    logs[0].delete_before(20)
    assert places(scan) == expected


# --- values as columns, and columns as arrays ---------------------------------------------------

FIELDS = {"n": "int64", "delay": "float64", "tail": "string", "late": "bool", "day": "date"}


@pytest.fixture
def departures() -> Iterator[dict[int, Log]]:
    """Two partitions of JSON values, one of them with a tombstone and a record without fields."""
    disk = SimDisk()
    opened = {}
    for partition in (0, 1):
        opened[partition] = log = Log.open(f"/data/departures-{partition}", files=disk)
        log.append(
            [
                (
                    b"k",
                    b'{"n": %d, "delay": %d.5, "tail": "N%d", "late": %s, "day": "2013-01-%02d"}' % row,
                    5,
                    [("h", b"1")],
                )
                for row in ((n, -n, n, b"true" if n % 2 else b"false", n + 1) for n in range(20))
            ]
        )
        log.append([(b"gone", None, 6), (None, b"{}", 7)])
    yield opened
    for log in opened.values():
        log.close()


def test_fields_of_the_values_are_columns_in_place_of_the_value(departures: dict[int, Log]) -> None:
    scan = scan_of(departures, value_schema=FIELDS)
    assert scan.columns == ("key", *FIELDS, "topic", "partition", "offset", "timestamp", "timestampType")
    table = pa.table(scan)
    assert table["n"].to_pylist() == [*range(20), None, None] * 2
    assert table["tail"].to_pylist()[:2] == ["N0", "N1"]
    few = scan_of(departures, value_schema=FIELDS, columns=["late", "value", "offset"])
    assert pa.table(few).schema.names == ["late", "value", "offset"]
    assert list(few)[3].value == pa.table(few)["value"][3].as_py()
    assert pa.schema(few) == pa.table(few).schema
    with pytest.raises(
        ValueError, match=r"column 'm' is unknown; known are .*, headers, n, delay, tail, late, day"
    ):
        scan_of(departures, value_schema=FIELDS, columns=["m"])


def test_fields_that_no_caller_asks_for_are_not_decoded(departures: dict[int, Log]) -> None:
    departures[1].append([b"no JSON"])
    assert pa.table(scan_of(departures, value_schema=FIELDS, columns=["offset"])).num_rows == 45
    scan = scan_of(departures, value_schema=FIELDS, columns=["n"])
    with pytest.raises(pa.ArrowInvalid, match=r"departures-1: the value is no JSON object.*offset 22"):
        pa.table(scan)
    with pytest.raises(PayloadError, match="departures-1"):
        list(scan.batches())
    lenient = scan_of(departures, value_schema=FIELDS, columns=["n"], on_error="null")
    assert pa.table(lenient)["n"].to_pylist()[-2:] == [None, None]


@pytest.mark.row("M9")
def test_sql_over_fields_of_the_values(departures: dict[int, Log]) -> None:
    import duckdb
    import polars as pl

    scan = scan_of(departures, value_schema=FIELDS)
    assert duckdb.sql(
        "select late, count(*), sum(delay) from scan where late is not null group by all order by all"
    ).fetchall() == [
        (False, 20, 2 * sum(-n + (0.5 if n == 0 else -0.5) for n in range(0, 20, 2))),
        (True, 20, 2 * sum(-n - 0.5 for n in range(1, 20, 2))),
    ]
    assert pl.DataFrame(scan)["day"].max() == datetime.date(2013, 1, 20)


def test_columns_as_numpy_arrays(departures: dict[int, Log]) -> None:
    import numpy as np

    scan = scan_of(departures, value_schema=FIELDS, columns=[*ALL, *FIELDS])
    arrays = scan.to_numpy()
    assert list(arrays) == [*ALL, *FIELDS]
    records = list(scan)
    assert arrays["key"].tolist() == [record.key for record in records]
    assert arrays["value"].tolist() == [record.value for record in records]
    assert arrays["headers"].tolist() == [tuple(record.headers) for record in records]
    assert arrays["topic"].tolist() == [record.topic for record in records]
    assert arrays["offset"].tolist() == [record.offset for record in records]
    assert arrays["partition"].dtype == arrays["timestampType"].dtype == np.int32
    assert arrays["timestamp"].dtype == np.dtype("M8[ms]")
    assert arrays["timestamp"].astype("i8").tolist() == [record.timestamp_ms for record in records]
    table = pa.table(scan)
    for name in FIELDS:
        assert arrays[name].tolist() == table[name].to_pylist(), name
        assert isinstance(arrays[name], np.ma.MaskedArray) == (name != "tail")
    assert arrays["n"].dtype == np.int64
    assert arrays["n"].mask.sum() == 4
    nothing = scan_of(departures, value_schema=FIELDS, columns=[*ALL, *FIELDS], start="latest").to_numpy()
    assert {name: array.dtype for name, array in nothing.items()} == {
        name: array.dtype for name, array in arrays.items()
    }
    assert {len(array) for array in nothing.values()} == {0}


def test_structs_as_numpy_arrays() -> None:
    import numpy as np

    dtype = np.dtype([("a", "<i2"), ("b", ">f8"), ("c", "S3"), ("d", "?"), ("e", "<M8[us]")])
    rows = np.array([(n, n / 2, b"x%d" % n, n % 3 == 0, n) for n in range(30)], dtype)
    with Log.open("/data/structs-0", files=SimDisk()) as log:
        log.append([row.tobytes() for row in rows])
        arrays = TopicScan("structs", {0: log}, value_schema=dtype, columns=["e", "c", "a", "b", "d"]).to_numpy()
    for name in ("a", "b", "d", "e"):
        assert (arrays[name] == rows[name]).all()
        assert not arrays[name].mask.any()
    assert arrays["a"].dtype == np.int16
    assert arrays["c"].data.view("S3").tolist() == rows["c"].tolist()


# --- every reader ------------------------------------------------------------------------------


@pytest.mark.row("M9", "M7")
@pytest.mark.parametrize("views", [False, True], ids=["binary", "view"])
def test_every_arrow_library_reads_a_scan(logs: dict[int, Log], views: bool) -> None:
    import arro3.core as arro3
    import duckdb
    import nanoarrow as na
    import pandas as pd
    import polars as pl

    scan = scan_of(logs, columns=ALL, views=views)
    values = [record.value for record in scan]
    assert pa.table(scan)["value"].to_pylist() == values
    assert pl.DataFrame(scan)["value"].to_list() == values
    assert pd.DataFrame.from_arrow(scan)["value"].tolist() == values
    assert arro3.Table.from_arrow(scan)["value"].to_pylist() == values
    with na.ArrayStream(scan) as stream:
        assert sum(len(array) for array in stream.iter_chunks()) == len(values)
    assert duckdb.sql('select "partition", "offset", value from scan order by all').fetchall() == [
        (record.partition, record.offset, record.value) for record in scan
    ]


@pytest.mark.row("M9")
@settings(max_examples=20)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=3), st.data(), st.booleans())
def test_a_count_in_sql_equals_the_arithmetic_of_offsets(
    sizes: list[int], data: st.DataObject, plain: bool
) -> None:
    import duckdb

    disk = SimDisk()
    logs = {}
    for partition, size in enumerate(sizes):
        logs[partition] = log = Log.open(
            f"/data/flights-{partition}", files=disk, compression_type="none" if plain else "lz4"
        )
        for begin in range(0, size, 7):
            log.append([b"%d" % n for n in range(begin, min(begin + 7, size))])
    starts = {partition: data.draw(st.integers(0, size)) for partition, size in enumerate(sizes)}
    ends = {partition: data.draw(st.integers(start, sizes[partition])) for partition, start in starts.items()}
    scan = scan_of(logs, start=starts, end=ends, columns=["partition", "offset"])
    found = duckdb.sql(
        'select "partition", count(*), max("offset") - min("offset") + 1 from scan group by 1 order by 1'
    ).fetchall()
    expected = {partition: ends[partition] - start for partition, start in starts.items()}
    assert found == [(partition, count, count) for partition, count in expected.items() if count]
    assert scan.count() == sum(expected.values())
    for log in logs.values():
        log.close()


def test_chunks_are_runs_of_whole_batches(logs: dict[int, Log]) -> None:
    chunks = list(scan_of(logs).chunks())
    assert all(isinstance(chunk, Batches) for chunk in chunks)
    assert [chunk.count() for chunk in chunks] == [30, 7]


# --- a limit, a start from the end, and tables in one call ---------------------------------------


@pytest.mark.row("M9")
@pytest.mark.parametrize("limit", [0, 1, 29, 30, 31, 36, 37, 1_000])
def test_a_limit_is_that_of_all_partitions_together_in_their_order(logs: dict[int, Log], limit: int) -> None:
    scan = scan_of(logs, limit=limit)
    assert places(scan) == places(scan_of(logs))[:limit]
    assert scan.count() == pa.table(scan).num_rows == len(scan.to_numpy()["offset"]) == min(limit, 37)


def test_a_start_below_zero_counts_from_the_end_of_each_partition(logs: dict[int, Log]) -> None:
    assert places(scan_of(logs, start=-2)) == [(0, 28), (0, 29), (2, 5), (2, 6)]
    assert places(scan_of(logs, start={0: -1, 2: "latest"})) == [(0, 29)]
    assert scan_of(logs, start=-8).bounds == {0: (22, 30), 1: (0, 0), 2: (0, 7)}


def test_a_while_ago_is_the_same_moment_for_every_partition(
    logstore_store: Store, logstore_clock: ManualClock
) -> None:
    events = logstore_store.create_topic("events", partitions=2)
    for partition in (0, 1, 0, 1):
        events.append(b"v", partition=partition)
        logstore_clock.advance(60_000)
    assert places(events.scan(since="-2m")) == [(0, 1), (1, 1)]
    assert places(events.scan(until=datetime.timedelta(minutes=2))) == [(0, 0), (1, 0)]
    found = events.offset_for_time("-2m")
    assert [each.offset for each in found.values() if each is not None] == [1, 1]
    with logstore_store.consumer() as consumer:
        consumer.assign_topics(["events"])
        consumer.seek_to_time("-2m")
        assert [(record.partition, record.offset) for record in consumer.records(timeout_s=0)] == [(0, 1), (1, 1)]


@pytest.mark.row("M9")
def test_a_topic_becomes_a_table_of_each_library_in_one_call(departures: dict[int, Log]) -> None:
    scan = scan_of(departures, columns=["offset", "delay"], value_schema={"delay": "float64"})
    rows = [tuple(row.values()) for row in pa.table(scan).to_pylist()]
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == rows
    assert scan.to_polars().rows() == rows
    assert scan.to_duckdb().fetchall() == rows
    assert scan.to_pandas()["offset"].tolist() == [offset for offset, _ in rows]
