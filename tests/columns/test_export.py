"""Arrow columns hold exactly the visible records, and every Arrow library reads them."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import polars
import polars.exceptions as pl_errors
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._batch import Batches, Record
from logstore.batch._encode import encode, encode_marker
from logstore.columns._export import ColumnBatch, ColumnStream, columns_of
from logstore.columns.tables import _read
from logstore.errors import CorruptRecordError
from logstore.records import Codec

ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
both_kinds = pytest.mark.parametrize("views", [False, True], ids=["binary", "view"])
sizes = st.one_of(st.none(), st.binary(max_size=40), st.binary(max_size=12).map(lambda part: part * 100))
names = st.text(max_size=5)
headers_of = st.lists(st.tuples(names, st.one_of(st.none(), st.binary(max_size=20))), max_size=3)
records_of = st.lists(
    st.tuples(sizes, sizes, st.integers(-1, 2**62), headers_of.map(tuple)), min_size=1, max_size=30
)


def run_of(records: list[Any], *, codec: int = 0, start: int = 0, **bounds: Any) -> Batches:
    batch = bytearray(encode(records, timestamp_ms=7, codec=codec))
    batch[:8] = start.to_bytes(8, "big")
    return Batches(bytes(batch), topic="flights", partition=3, **bounds)


def joined(*batches: bytes) -> bytes:
    """Batches one after the other, each with the offsets behind the one before."""
    out, offset = bytearray(), 0
    for batch in batches:
        placed = bytearray(batch)
        placed[:8] = offset.to_bytes(8, "big")
        out += placed
        offset += int.from_bytes(batch[23:27], "big") + 1
    return bytes(out)


def imported(columns: ColumnBatch) -> Any:
    batch = pa.record_batch(columns)
    batch.validate(full=True)
    return batch


def rows(columns: ColumnBatch) -> list[dict[str, Any]]:
    batch = imported(columns)
    if "timestamp" in batch.schema.names:
        place = batch.schema.get_field_index("timestamp")
        batch = batch.set_column(place, "timestamp", batch["timestamp"].cast(pa.int64()))
    return batch.to_pylist()  # type: ignore[no-any-return]


def expected(record: Record) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": int(record.timestamp_type),
        "headers": [{"key": key, "value": value} for key, value in record.headers],
    }


# --- what stands in the columns ----------------------------------------------------------------


@pytest.mark.row("D1", "M9")
@both_kinds
@given(st.lists(records_of, max_size=4), st.sampled_from(Codec), st.data())
def test_columns_equal_the_records(views: bool, groups: list[Any], codec: Codec, data: st.DataObject) -> None:
    run = joined(*(encode(group, timestamp_ms=7, codec=codec) for group in groups))
    count = sum(map(len, groups))
    batches = Batches(
        run,
        topic="überflüge",
        partition=2,
        start_offset=data.draw(st.integers(0, count)),
        end_offset=data.draw(st.integers(0, count + 1)),
        since_ms=data.draw(st.one_of(st.none(), st.integers(-2, 2**62))),
        until_ms=data.draw(st.one_of(st.none(), st.integers(-2, 2**62))),
    )
    wanted = data.draw(st.lists(st.sampled_from(ALL), unique=True, min_size=1))
    columns = columns_of(batches, wanted, views=views)
    records = list(batches)
    assert len(columns) == len(records)
    assert columns.columns == tuple(wanted)
    assert rows(columns) == [{name: expected(record)[name] for name in wanted} for record in records]


@pytest.mark.row("M9")
def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    schema = pa.schema(columns_of(run_of([b"a"]), ALL))
    assert [(field.name, str(field.type)) for field in schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[ms, tz=UTC]"),
        ("timestampType", "int32"),
        ("headers", "list<element: struct<key: string not null, value: binary> not null>"),
    ]
    assert [field.name for field in schema if field.nullable] == ["key", "value"]
    assert columns_of(run_of([b"a"])).columns == tuple(ALL[:-1])
    assert str(pa.schema(columns_of(run_of([b"a"]), views=True)).field("value").type) == "binary_view"
    assert pa.schema(ColumnStream([], ALL)) == schema


@both_kinds
def test_no_visible_record_gives_an_empty_array(views: bool) -> None:
    for batches in (Batches(b""), run_of([b"a"], start_offset=1), run_of([b"a"], since_ms=8)):
        columns = columns_of(batches, ALL, views=views)
        assert len(columns) == 0
        assert rows(columns) == []


@both_kinds
def test_nulls_and_empty_values_are_told_apart(views: bool) -> None:
    values = [None, b"", b"a", None] * 9
    columns = columns_of(run_of([(value, value) for value in values]), ["key", "value"], views=views)
    assert rows(columns) == [{"key": value, "value": value} for value in values]
    assert imported(columns)["value"].null_count == 18
    assert imported(columns_of(run_of([b"a"]), ["value"], views=views))["value"].buffers()[0] is None


def test_columns_come_in_the_order_asked_for_and_none_at_all_counts() -> None:
    batches = run_of([b"a", b"b"])
    assert imported(columns_of(batches, ["offset", "value"])).schema.names == ["offset", "value"]
    assert len(columns_of(batches, [])) == 2
    assert imported(columns_of(batches, ())).num_rows == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["key", "valu", 3], r"column 'valu', 3 is unknown; known are key, value, topic, .*, headers"),
        (["key", "value", "key"], "asked for once"),
        ("key", r"write \['key'\]"),
    ],
)
def test_wrong_columns_are_refused_with_the_known_ones_named(columns: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns_of(run_of([b"a"]), columns)
    with pytest.raises(ValueError, match=message):
        ColumnStream([], columns)


def test_append_time_is_the_time_of_every_record_and_marked() -> None:
    batches = Batches(encode([(None, b"a", 5), (None, b"b", 6)], append_time=True, timestamp_ms=9))
    assert [(row["timestamp"], row["timestampType"]) for row in rows(columns_of(batches))] == [(9, 1), (9, 1)]


def transactional(producer: int, *values: bytes) -> bytes:
    return encode(values, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


@both_kinds
def test_a_committed_reader_sees_no_aborted_records_and_no_markers(views: bool) -> None:
    run = joined(
        transactional(1, b"a", b"b"),  # offsets 0, 1
        transactional(2, b"c"),
        encode_marker(0, 0, 1, 0, 9),  # 3: aborts producer 1
        encode_marker(1, 0, 2, 0, 9),
        encode([b"d"]),
        transactional(1, b"e"),
    )
    committed = Batches(run, aborted=[(1, 0, 3, 3)], committed_only=True)
    assert [row["value"] for row in rows(columns_of(committed, views=views))] == [b"c", b"d", b"e"]
    everything = Batches(run, aborted=[(1, 0, 3, 3)])
    assert [row["offset"] for row in rows(columns_of(everything, views=views))] == [0, 1, 2, 5, 6]


def test_views_point_into_the_batches_and_keep_them_alive() -> None:
    value = b"x" * 1000
    run = run_of([value, b"small", value])
    array = imported(columns_of(run, ["value"], views=True))["value"]
    address = ctypes.cast(ctypes.c_char_p(run.data), ctypes.c_void_p).value
    assert address is not None
    assert address <= array.buffers()[2].address < address + len(run.data)
    before = sys.getrefcount(run.data)
    second = imported(columns_of(run, ["value"], views=True))
    during = sys.getrefcount(run.data)
    del second
    after = sys.getrefcount(run.data)
    assert (during, after) == (before + 1, before)
    del run
    gc.collect()
    assert array.to_pylist() == [value, b"small", value]


def test_views_reach_into_every_compressed_batch() -> None:
    batches = [
        [b"%d" % n * 50 for n in range(20)], [b"plain" * 10], [b"short"], [b"z" * 100] * 3, [b"last" * 20]
    ]  # fmt: skip
    run = joined(*(encode(values, codec=n) for n, values in enumerate(batches)))
    columns = columns_of(Batches(run), ["value"], views=True)
    assert [row["value"] for row in rows(columns)] == [value for values in batches for value in values]


@both_kinds
def test_every_buffer_of_ours_is_aligned_to_64_bytes(views: bool) -> None:
    record = (b"k", b"v" * 99, 1, [("h", None)])
    for count in (0, 1, 5000):
        batch = imported(columns_of(run_of([b"first", *[record] * count]), ALL, views=views))
        for column in batch.columns:
            in_batches = 2 if column.type == pa.binary_view() else 99
            for place, buffer in enumerate(column.buffers()):
                assert buffer is None or place >= in_batches or buffer.address % 64 == 0


# --- damage ------------------------------------------------------------------------------------


@both_kinds
@given(st.lists(records_of, min_size=1, max_size=2), st.sampled_from(Codec), st.randoms(use_true_random=False))
def test_damaged_bytes_raise_or_give_valid_arrays(
    views: bool, groups: list[Any], codec: Codec, rng: random.Random
) -> None:
    """Without the CRC in front, any byte may be any other: no array may then be out of its bounds."""
    run = bytearray(joined(*(encode(group, timestamp_ms=7, codec=codec) for group in groups)))
    for _ in range(rng.randrange(1, 4)):
        run[rng.randrange(len(run))] = rng.randrange(256)
    batches = Batches(bytes(run), check=False)
    try:
        columns = columns_of(batches, ALL, views=views)
    except ValueError:
        return
    assert imported(columns).num_rows == len(columns)


def test_a_cut_record_is_named_as_by_the_records() -> None:
    run = bytearray(encode([b"aaaa", b"bbbb"]))
    run[61 + 11] = 0x7F  # the length of the second record
    batches = Batches(bytes(run), check=False)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch at base offset 0") as columns_error:
        columns_of(batches)
    with pytest.raises(CorruptRecordError) as records_error:
        batches.values()
    assert str(columns_error.value) == str(records_error.value)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        *((text.encode(), True) for text in ("", "a", "é", "€", "😀", "\x7f\x80߿ࠀ￿\U00010000\U0010ffff")),
        *((part, False) for part in (b"\xff", b"\xc3", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\x80")),
        *((part, False) for part in (b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\xe2\x82", b"a\xc3(", b"\xf5")),
    ],
)
def test_a_header_key_that_is_not_utf8_is_refused(text: bytes, good: bool) -> None:
    placeholder = "x" * len(text)
    run = encode([(None, b"value", 1, [(placeholder, b"1")])]).replace(
        bytes([2 * len(text)]) + placeholder.encode() + b"\x021", bytes([2 * len(text)]) + text + b"\x021"
    )
    batches = Batches(run, check=False)
    if good:
        assert rows(columns_of(batches, ["headers"])) == [{"headers": [{"key": text.decode(), "value": b"1"}]}]
    else:
        with pytest.raises(CorruptRecordError, match="not UTF-8"):
            columns_of(batches, ["headers"])
        assert len(columns_of(batches)) == 1  # headers that were not asked for are not parsed


# --- limits ------------------------------------------------------------------------------------


def test_more_than_one_array_holds_is_refused_and_a_stream_splits() -> None:
    run = joined(*(encode([b"%d" % n * 30] * 10, codec=n % 5) for n in range(10)))
    with pytest.raises(OverflowError, match="use ColumnStream, which splits"):
        columns_of(Batches(run), array_bytes=1000)
    table = pa.table(ColumnStream([Batches(run)], ["value", "offset"], array_bytes=1000))
    table.validate(full=True)
    assert table["offset"].to_pylist() == list(range(100))
    assert table["value"].to_pylist() == [b"%d" % n * 30 for n in range(10) for _ in range(10)]
    assert table["value"].num_chunks > 3
    with pytest.raises(OverflowError, match="base offset 0 holds up to"):
        columns_of(Batches(run), array_bytes=100)
    assert len(columns_of(Batches(run), ["value", "offset"], views=True, array_bytes=1000)) == 100


def test_a_record_count_that_is_a_lie_reserves_nothing() -> None:
    run = bytearray(encode([b"a"]))
    run[23:27] = run[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError):
        columns_of(Batches(bytes(run), check=False))


# --- the stream --------------------------------------------------------------------------------


def chunks_of(count: int, *, fail_at: int = -1, seen: list[int] | None = None) -> Iterator[Batches]:
    try:
        for n in range(count):
            if n == fail_at:
                raise CorruptRecordError("the disk said: ∅", path="/flights-0/0.log", position=61)
            if seen is not None:
                seen.append(n)
            yield run_of([(b"k", b"value %d" % (n * 10 + i), n) for i in range(10)], start=n * 10, codec=n % 5)
    finally:
        if seen is not None:
            seen.append(-1)


@pytest.mark.row("M9")
@both_kinds
def test_a_stream_is_lazy_and_gives_one_array_for_each_run(views: bool) -> None:
    seen: list[int] = []
    reader = pa.RecordBatchReader.from_stream(ColumnStream(chunks_of(5, seen=seen), ALL, views=views))
    assert seen == []
    first = reader.read_next_batch()
    assert (seen, first.num_rows) == ([0], 10)
    rest = reader.read_all()
    rest.validate(full=True)
    assert seen == [0, 1, 2, 3, 4, -1]
    assert rest["offset"].to_pylist() == list(range(10, 50))
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_runs_without_visible_records_give_no_array() -> None:
    chunks = [run_of([b"a"], start_offset=5), Batches(b""), run_of([b"b"]), Batches(b"")]
    assert [len(batch) for batch in pa.RecordBatchReader.from_stream(ColumnStream(chunks))] == [1]
    assert pa.table(ColumnStream([])).num_rows == 0


def test_a_stream_names_topic_and_partition_in_place_of_the_runs() -> None:
    stream = ColumnStream([run_of([b"a"])], ["topic", "partition"], topic="other", partition=9)
    assert pa.table(stream).to_pylist() == [{"topic": "other", "partition": 9}]


def test_a_stream_is_consumed_once() -> None:
    stream = ColumnStream(chunks_of(2))
    assert repr(stream).endswith("timestampType>")
    assert pa.table(stream).num_rows == 20
    with pytest.raises(RuntimeError, match="consumed once"):
        stream.__arrow_c_stream__()
    assert repr(stream).endswith("consumed>")


def test_an_exception_reaches_the_consumer_with_its_text() -> None:
    stream = ColumnStream(chunks_of(5, fail_at=2))
    reader = pa.RecordBatchReader.from_stream(stream)
    assert [reader.read_next_batch().num_rows, reader.read_next_batch().num_rows] == [10, 10]
    for _ in range(2):  # it stays failed
        with pytest.raises(pa.ArrowInvalid, match=r"CorruptRecordError: the disk said: ∅ .*position 61"):
            reader.read_next_batch()
    assert isinstance(stream.error, CorruptRecordError)


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (OSError(5, "read"), OSError),
        (MemoryError("much"), pa.ArrowMemoryError),
        (ZeroDivisionError("a\0b"), OSError),
    ],
)
def test_each_exception_has_an_errno(raised: BaseException, caught: type[BaseException]) -> None:
    def chunks() -> Iterator[Batches]:
        raise raised
        yield

    stream = ColumnStream(chunks())
    with pytest.raises(caught, match=type(raised).__name__):
        pa.table(stream)
    assert stream.error is raised


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a shell, whose background jobs ignore it; none is lost in a callback of the collector."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_comes_out_of_the_library_that_draws(interruptible: None) -> None:
    """Arrow makes an error of its own of it, which a program may well catch and go on."""

    def chunks() -> Iterator[Batches]:
        os.kill(os.getpid(), signal.SIGINT)
        yield run_of([b"a"])

    stream = ColumnStream(chunks())

    def draw() -> None:
        try:
            pa.table(stream)
        except OSError as error:
            assert "KeyboardInterrupt" in str(error)
            sum(n for n in range(10))

    with pytest.raises(KeyboardInterrupt):
        draw()
    assert isinstance(stream.error, KeyboardInterrupt)


@pytest.mark.parametrize("make", [pa.table, polars.DataFrame], ids=["pyarrow", "polars"])
def test_an_interrupt_of_a_table_is_no_error_of_the_library(interruptible: None, make: Callable[..., Any]) -> None:
    """A program that tells Ctrl-C from an error gets Ctrl-C, and none later."""

    def chunks() -> Iterator[Batches]:
        os.kill(os.getpid(), signal.SIGINT)
        yield run_of([b"a"])

    for _ in range(100):  # an interpreter that has run a line often looks less often for signals in it
        caught: BaseException | None = None
        try:
            _read(ColumnStream(chunks()), make)
        except (KeyboardInterrupt, OSError, pl_errors.PolarsError) as error:
            caught = error
        assert isinstance(caught, KeyboardInterrupt)


def test_what_another_thread_raises_interrupts_none_but_that_one(interruptible: None) -> None:
    def chunks() -> Iterator[Batches]:
        raise KeyboardInterrupt
        yield

    caught: list[BaseException] = []

    def draw() -> None:
        try:
            pa.table(ColumnStream(chunks()))
        except OSError as error:
            caught.append(error)

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert "KeyboardInterrupt" in str(caught[0])


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="TypeError: a chunk of a ColumnStream must be Batches, found bytes"):
        pa.table(ColumnStream([b"bytes"]))  # type: ignore[list-item]
    with pytest.raises(TypeError):
        ColumnStream(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="made by columns_of"):
        ColumnBatch()


def test_a_stream_released_early_closes_its_source() -> None:
    seen: list[int] = []
    stream = ColumnStream(chunks_of(5, seen=seen))
    reader = pa.RecordBatchReader.from_stream(stream)
    reader.read_next_batch()
    reader.close()
    del reader
    assert seen == [0, -1]
    seen.clear()
    stream = ColumnStream(chunks_of(5, seen=seen))
    capsule = stream.__arrow_c_stream__()
    del capsule  # never consumed
    assert seen == []
    assert sys.getrefcount(stream) == 2


def test_a_stream_is_drawn_from_another_thread() -> None:
    reader = pa.RecordBatchReader.from_stream(ColumnStream(chunks_of(20)))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(reader.read_all().num_rows))
    thread.start()
    thread.join()
    assert found == [200]


def test_arrays_outlive_everything_and_children_are_released_by_themselves() -> None:
    batch = pa.record_batch(columns_of(run_of([(b"key", b"value" * 5, 1, [("h", b"1")])] * 3), ALL, views=True))
    value, headers = batch["value"], batch["headers"]
    del batch
    gc.collect()
    value.validate(full=True)
    headers.validate(full=True)
    assert value.to_pylist() == [b"value" * 5] * 3
    assert headers.to_pylist() == [[{"key": "h", "value": b"1"}]] * 3


# --- little garbage ----------------------------------------------------------------------------


def blocks_made_by(batches: Batches, views: bool) -> int:
    columns_of(batches, ALL, views=views).__arrow_c_array__()
    gc.collect()
    before = sys.getallocatedblocks()
    columns = columns_of(batches, ALL, views=views)
    capsules = columns.__arrow_c_array__()
    made = sys.getallocatedblocks() - before
    del capsules
    return made


@pytest.mark.row("S11")
@both_kinds
def test_objects_are_made_for_each_call_and_not_for_each_record(views: bool) -> None:
    record = (b"key", b"value" * 20, 1, [("header", b"1")])
    few, many = run_of([record] * 10), run_of([record] * 20_000)
    assert blocks_made_by(few, views) == blocks_made_by(many, views) < 30


@pytest.mark.row("S11")
@pytest.mark.parametrize("use", ["columns", "dropped", "stream", "early", "failed"])
@both_kinds
def test_nothing_leaks(use: str, views: bool) -> None:
    import psutil

    batches = run_of([(b"key", b"value" * 20, 1, [("header", b"1")])] * 1000)

    def once() -> None:
        if use == "columns":
            pa.record_batch(columns_of(batches, ALL, views=views))
        elif use == "dropped":
            columns_of(batches, ALL, views=views).__arrow_c_array__()
            ColumnStream([batches], views=views).__arrow_c_stream__()
            ColumnStream([batches], views=views).__arrow_c_schema__()
        elif use == "stream":
            pa.table(ColumnStream([batches, batches], ALL, views=views))
        elif use == "early":
            pa.RecordBatchReader.from_stream(ColumnStream([batches] * 3, ALL, views=views)).read_next_batch()
        else:
            with pytest.raises(pa.ArrowInvalid):
                pa.table(ColumnStream(chunks_of(2, fail_at=1), ALL, views=views))

    for _ in range(100):
        once()
    gc.collect()
    blocks, resident = sys.getallocatedblocks(), psutil.Process().memory_info().rss
    for _ in range(1000):
        once()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 100
    # One leaked array of a thousand would be 170 kB each time.
    assert psutil.Process().memory_info().rss - resident < 16 << 20


# --- every reader ------------------------------------------------------------------------------


def value_bytes() -> list[bytes]:
    return [b"value %d" % n for n in range(50)]


@pytest.mark.row("M9")
@both_kinds
def test_polars_reads_columns_and_streams(views: bool) -> None:
    import polars as pl

    frame = pl.DataFrame(ColumnStream(chunks_of(5), ALL, views=views))
    assert frame["value"].to_list() == value_bytes()
    assert str(frame.schema["timestamp"]) == "Datetime(time_unit='ms', time_zone='UTC')"
    assert frame["headers"].to_list() == [[]] * 50
    one = pl.DataFrame(columns_of(next(chunks_of(1)), views=views))
    assert one["topic"].to_list() == ["flights"] * 10
    with pytest.raises(pl.exceptions.ComputeError, match="the disk said"):
        pl.DataFrame(ColumnStream(chunks_of(5, fail_at=2)))


@pytest.mark.row("M9")
@both_kinds
def test_duckdb_reads_columns_and_streams(views: bool) -> None:
    import duckdb

    query = 'select count(*), max("offset"), min(topic), max(value), sum(len(headers)) from source'
    source: Any = ColumnStream(chunks_of(5), ALL, views=views)
    assert duckdb.sql(query).fetchall() == [(50, 49, "flights", b"value 9", 0)]
    source = columns_of(next(chunks_of(1)), ALL, views=views)
    assert duckdb.sql(query).fetchall() == [(10, 9, "flights", b"value 9", 0)]
    source = ColumnStream(chunks_of(5, fail_at=2), ALL, views=views)
    with pytest.raises(duckdb.Error, match="the disk said"):
        duckdb.sql(query).fetchall()
    assert source.error is not None


@pytest.mark.row("M9")
@both_kinds
def test_pandas_reads_columns_and_streams(views: bool) -> None:
    import pandas as pd

    frame = pd.DataFrame.from_arrow(ColumnStream(chunks_of(5), views=views))
    assert frame["value"].tolist() == value_bytes()
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    assert len(pd.DataFrame.from_arrow(columns_of(next(chunks_of(1)), views=views))) == 10


@pytest.mark.row("M9")
@both_kinds
def test_arro3_reads_columns_and_streams(views: bool) -> None:
    import arro3.core as arro3

    table = arro3.Table.from_arrow(ColumnStream(chunks_of(5), ALL, views=views))
    assert table["value"].to_pylist() == value_bytes()
    assert arro3.RecordBatch.from_arrow(columns_of(next(chunks_of(1)), ALL, views=views)).num_rows == 10
    with pytest.raises(Exception, match="the disk said"):
        arro3.Table.from_arrow(ColumnStream(chunks_of(5, fail_at=2)))


@pytest.mark.row("M9")
@both_kinds
def test_nanoarrow_reads_columns_and_streams(views: bool) -> None:
    """nanoarrow 0.9 crashes on any library's view arrays without a stream, so it is handed streams."""
    import nanoarrow as na

    with na.ArrayStream(ColumnStream(chunks_of(5), ALL, views=views)) as stream:
        assert sum(len(array) for array in stream.iter_chunks()) == 50
    array = na.Array(columns_of(next(chunks_of(1)), ["offset", "topic"], views=views))
    assert array.to_pylist() == [{"offset": n, "topic": "flights"} for n in range(10)]
    with pytest.raises(Exception, match="the disk said"):
        list(na.ArrayStream(ColumnStream(chunks_of(5, fail_at=2))).iter_chunks())


# --- for Spark ---------------------------------------------------------------------------------


def test_for_spark_the_types_are_those_of_its_own_conversion() -> None:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    found = imported(columns_of(run_of([b"x"]), ALL, spark=True)).schema
    assert found.equals(
        pa.schema(
            {
                "key": pa.binary(),
                "value": pa.binary(),
                "topic": pa.string(),
                "partition": pa.int32(),
                "offset": pa.int64(),
                "timestamp": pa.timestamp("us", "UTC"),
                "timestampType": pa.int32(),
                "headers": pa.list_(pa.field("element", header)),
            }
        )
    )
    assert ColumnStream([], ALL, spark=True).columns == tuple(ALL)


@given(records_of)
def test_for_spark_only_times_and_missing_headers_are_said_otherwise(records: list[Any]) -> None:
    run = run_of(records)
    plain = imported(columns_of(run, ALL))
    for columns in (columns_of(run, ALL, spark=True), *ColumnStream([run], ALL, spark=True)):
        found = imported(columns)
        for name in [*ALL[:-3], "timestampType"]:
            assert found.column(name).to_pylist() == plain.column(name).to_pylist()
        times = plain.column("timestamp").cast(pa.int64()).to_pylist()
        # What is beyond the last microsecond of 64 bits is that one's millisecond.
        most = (2**63 - 1) // 1000
        assert found.column("timestamp").cast(pa.int64()).to_pylist() == [min(time, most) * 1000 for time in times]
        assert found.column("headers").to_pylist() == [has or None for has in plain.column("headers").to_pylist()]
