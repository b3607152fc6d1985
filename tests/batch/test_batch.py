"""Record batches are read as Kafka's clients wrote them, and no damage is read as data."""

from __future__ import annotations

import copy
import os
import pickle
import random
import struct
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka.codec
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logstore.batch._batch import (
    Batches,
    BatchView,
    Record,
    restamp_time,
    run_of,
    stamp,
    stamp_producer,
    stamp_run,
    with_codec,
)
from logstore.batch._codec import compress
from logstore.batch._encode import encode, encode_marker
from logstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    RecordTypeError,
    UnsupportedCodecError,
    UnsupportedFormatError,
)
from logstore.records import Codec, Marker, TimestampType
from tests.batch.model_batch import ModelBatch, ModelRecord, decode_run, encode_batch, varint

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of the way it reads its own files
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

INT64_MAX = 2**63 - 1

each_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())

DECODERS: dict[int, Callable[[bytes], bytes]] = {
    Codec.GZIP: aiokafka.codec.gzip_decode,
    Codec.SNAPPY: aiokafka.codec.snappy_decode,
    Codec.LZ4: aiokafka.codec.lz4_decode,
    Codec.ZSTD: aiokafka.codec.zstd_decode,
}


def model_run(data: bytes) -> list[ModelBatch]:
    return decode_run(data, lambda codec, payload: bytes(DECODERS[codec](payload)))


# --- what may stand in a log -------------------------------------------------------------------

blobs = st.one_of(st.none(), st.binary(max_size=40), st.builds(bytes, st.sampled_from([63, 64, 8_191, 8_192])))
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3).map(tuple)
contents = st.lists(st.tuples(st.integers(-1, 5_000), blobs, blobs, headers), min_size=1, max_size=6)


@st.composite
def runs(draw: st.DrawFn) -> tuple[bytes, list[ModelBatch]]:
    """A run of batches as a compacted, transactional log may hold it, and what is in it."""
    offset = draw(st.integers(0, 3))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        offset += draw(st.sampled_from([0, 0, 0, 5]))
        records, at = [], offset
        for timestamp, key, value, names in draw(contents):
            at += draw(st.sampled_from([0, 0, 0, 2]))
            records.append(ModelRecord(at, timestamp, key, value, names))
            at += 1
        codec = draw(st.sampled_from([0, 0, 1, 2, 3, 4]))
        kind = draw(st.sampled_from([0, 0x08, 0x10, 0x10, 0x20, 0x30, 0x40]))
        parts.append(
            encode_batch(
                records,
                base_offset=offset,
                attributes=codec | kind,
                last_offset_delta=at - 1 - offset + draw(st.integers(0, 1)),
                base_timestamp=draw(st.none() | st.integers(0, 5_000)),
                producer=(draw(st.integers(0, 2)), 0, 0) if kind & 0x10 else (-1, -1, -1),
                compress=lambda payload, codec=codec: compress(codec, payload),
            )
        )
        offset = at + 1
    data = b"".join(parts)
    return data, model_run(data)


def visible(
    batches: list[ModelBatch],
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    since_ms: int | None = None,
    until_ms: int | None = None,
    aborted: list[tuple[int, int, int]] | None = None,
) -> list[ModelRecord]:
    """What a reader may see, by asking every record everything."""
    return [
        record
        for batch in batches
        for record in batch.records
        if not batch.attributes & 0x20
        and start_offset <= record.offset < end_offset
        and (since_ms is None or record.timestamp >= since_ms)
        and (until_ms is None or record.timestamp < until_ms)
        and not any(
            batch.attributes & 0x10 and batch.producer_id == pid and first <= batch.base_offset <= last
            for pid, first, last in aborted or ()
        )
    ]


def fields_of(record: Record) -> ModelRecord:
    return ModelRecord(record.offset, record.timestamp_ms, record.key, record.value, record.headers)


# --- reading against the model -----------------------------------------------------------------


@given(run=runs(), draw=st.data())
def test_every_way_of_reading_agrees_with_a_slow_decoder(
    run: tuple[bytes, list[ModelBatch]], draw: st.DataObject
) -> None:
    data, batches = run
    last = batches[-1].base_offset + batches[-1].last_offset_delta
    bounds: dict[str, Any] = {
        "start_offset": draw.draw(st.integers(0, last + 2)),
        "end_offset": draw.draw(st.sampled_from([INT64_MAX, last, last // 2])),
        "since_ms": draw.draw(st.none() | st.integers(-2, 5_000)),
        "until_ms": draw.draw(st.none() | st.integers(-2, 5_000)),
    }
    aborted = draw.draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, last), st.integers(0, last)), max_size=3)
    )
    committed = draw.draw(st.booleans())
    found = Batches(data, aborted=aborted, committed_only=committed, **bounds)
    expected = visible(batches, aborted=aborted if committed else None, **bounds)
    assert [fields_of(record) for record in found] == expected
    assert [fields_of(record) for record in found.records()] == expected
    assert found.tuples() == [record[:4] for record in expected]
    assert found.values() == [record.value for record in expected]
    assert found.count() == len(expected)
    assert found.next_offset == last + 1
    timestamp = draw.draw(st.integers(-2, 5_001))
    assert found.first_at_or_after(timestamp) == next(
        ((record.timestamp, record.offset) for record in expected if record.timestamp >= timestamp), None
    )


@given(run=runs())
def test_headers_of_batches_agree_with_a_slow_decoder(run: tuple[bytes, list[ModelBatch]]) -> None:
    data, batches = run
    views = Batches(data).batches()
    assert b"".join(bytes(view) for view in views) == data
    for view, model in zip(views, batches, strict=True):
        assert view.check() is view
        assert view.base_offset == model.base_offset
        assert view.last_offset == view.next_offset - 1 == model.base_offset + model.last_offset_delta
        assert view.size == model.length + 12
        assert (view.leader_epoch, view.crc) == (model.leader_epoch, model.crc)
        assert (view.attributes, view.codec) == (model.attributes, model.attributes & 7)
        assert view.timestamp_type == bool(model.attributes & 8)
        assert view.is_transactional == bool(model.attributes & 0x10)
        assert view.is_control == bool(model.attributes & 0x20)
        assert view.delete_horizon_ms == (model.base_timestamp if model.attributes & 0x40 else None)
        assert view.base_timestamp_ms == model.base_timestamp
        assert view.max_timestamp_ms == model.max_timestamp
        assert view.producer_id == model.producer_id
        assert view.producer_epoch == model.producer_epoch
        assert view.base_sequence == model.base_sequence
        assert view.record_count == len(view) == len(model.records)
        least, most, null_keys = view.validate(contiguous=False)
        if not model.attributes & 8:
            stamps = [record.timestamp for record in model.records]
            assert (least, most) == (min(stamps), max(stamps))
        assert null_keys == sum(record.key is None for record in model.records)


# --- other clients -----------------------------------------------------------------------------

RECORDS: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (1_700_000_000_000, None, b"first", []),
    (1_700_000_000_005, b"", b"", [("empty", b""), ("null", None), ("", b"no name"), ("empty", b"again")]),
    (1_699_999_999_000, b"earlier", None, []),
    (1_700_000_000_000, b"k" * 70, b"compress me " * 1_000, [("naïve-ключ", b"\0\xff")]),
    (1_700_086_400_000, b"key", bytes(range(256)), []),
]


def built_by(builder: Callable[..., Any], codec: Codec) -> bytes:
    batch = builder(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, (timestamp, key, value, names) in enumerate(RECORDS):
        batch.append(offset, timestamp, key, value, names)
    return bytes(batch.build())


@pytest.mark.row("S7", "D1")
@pytest.mark.parametrize(
    ("builder", "codec"),
    [
        *((AioBuilder, codec) for codec in Codec),
        *((KafkaPythonBuilder, codec) for codec in Codec),
    ],
)
def test_we_read_what_other_clients_write(builder: Callable[..., Any], codec: Codec) -> None:
    data = built_by(builder, codec)
    view = BatchView(data).check()
    assert view.codec == codec
    assert view.validate() == (1_699_999_999_000, 1_700_086_400_000, 1)
    assert [fields_of(record) for record in view] == [
        ModelRecord(offset, timestamp, key, value, tuple(names))
        for offset, (timestamp, key, value, names) in enumerate(RECORDS)
    ]


# --- records -----------------------------------------------------------------------------------


def a_record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "topic": "flights",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1,
        "timestamp_type": TimestampType.CREATE_TIME,
        "key": b"AA",
        "value": b"1141",
        "headers": [("h", None)],
    }
    return Record(**{**fields, **changes})


def read_records() -> list[Record]:
    data = encode([(b"AA", b"1141", 1, [("h", None)]), (None, None)], timestamp_ms=5)
    return Batches(data, topic="flights", partition=3).records()


def test_a_record_has_all_its_fields() -> None:
    first, second = read_records()
    assert (first.topic, first.partition, first.offset, first.timestamp_ms) == ("flights", 3, 0, 1)
    assert first.timestamp_type is TimestampType.CREATE_TIME
    assert (first.key, first.value, first.headers) == (b"AA", b"1141", (("h", None),))
    assert (second.key, second.value, second.headers, second.timestamp_ms) == (None, None, (), 5)
    assert repr(first) == (
        "Record(topic='flights', partition=3, offset=0, timestamp_ms=1, timestamp_type=CREATE_TIME, "
        "key=b'AA', value=b'1141', headers=(('h', None),))"
    )


def test_records_are_equal_by_their_fields_however_they_were_made() -> None:
    read = read_records()[0]
    made = a_record(offset=0)
    assert read == made
    assert hash(read) == hash(made)
    assert read.headers is read.headers
    for change in (
        {"topic": "other"},
        {"partition": 4},
        {"offset": 1},
        {"timestamp_ms": 2},
        {"timestamp_type": TimestampType.LOG_APPEND_TIME},
        {"key": None},
        {"value": b""},
        {"headers": ()},
    ):
        assert a_record() != a_record(**change)
    assert read != (b"AA", b"1141")


@pytest.mark.parametrize(
    "twin", [Record.copy, copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))]
)
def test_a_twin_of_a_record_is_equal_and_holds_no_chunk(twin: Callable[[Record], Record]) -> None:
    for record in read_records():
        assert twin(record) == record
    large = encode([b"x" * 1_000_000, b"small"], timestamp_ms=0)
    tracemalloc.start()
    try:
        kept = twin(Batches(bytes(bytearray(large))).records()[1])
        assert tracemalloc.get_traced_memory()[0] < 100_000
        assert kept.value == b"small"
    finally:
        tracemalloc.stop()


def test_a_record_keeps_the_bytes_that_it_was_read_from() -> None:
    for codec in Codec:
        records = list(Batches(encode([b"v" * 1_000] * 3, timestamp_ms=0, codec=codec)))
        assert [record.value for record in records] == [b"v" * 1_000] * 3


def test_a_record_cannot_be_changed() -> None:
    for name in ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", "other"):
        with pytest.raises(AttributeError):
            setattr(read_records()[0], name, None)


def test_reading_is_lazy() -> None:
    whole = encode([b"a", b"b"], timestamp_ms=0)
    broken = bytearray(encode([b"c" * 100], timestamp_ms=0, codec=Codec.ZSTD))
    stamp(broken, 2, 0)
    broken[70] ^= 0xFF
    values = iter(Batches(bytes(whole + broken), check=False))
    assert next(values).value == b"a"
    assert next(values).value == b"b"
    with pytest.raises(CorruptRecordError):
        next(values)


def test_a_run_is_not_made_twice() -> None:
    run = Batches(encode([b"a"], timestamp_ms=0))
    with pytest.raises(TypeError, match="cannot be changed"):
        run.__init__(b"")  # type: ignore[misc]
    assert run.values() == [b"a"]


def test_two_iterators_of_one_run_do_not_disturb_each_other() -> None:
    run = Batches(encode([b"a", b"b", b"c"], timestamp_ms=0))
    first, second = iter(run), iter(run)
    assert [next(first).value, next(first).value, next(second).value] == [b"a", b"b", b"a"]
    assert next(first).value == b"c"
    assert list(first) == []
    assert [record.value for record in second] == [b"b", b"c"]


@pytest.mark.row("S11")
@pytest.mark.parametrize("count", [10, 10_000])
def test_objects_for_a_fetched_run_do_not_grow_with_its_records(count: int) -> None:
    data = encode([b"value"] * count, timestamp_ms=0)
    Batches(data)
    tracemalloc.start()
    try:
        run = Batches(data)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2_000
    assert run.count() == count


# --- runs --------------------------------------------------------------------------------------


def test_a_run_tells_where_it_stands() -> None:
    data = encode([b"a"], timestamp_ms=0)
    run = run_of(data, 0, 9, None, None, "t", 1, "/somewhere", 100, (), False, 7, 1, (2, 5, 4))
    assert (run.size, run.start_offset, run.end_offset, run.next_offset) == (len(data), 0, 9, 1)
    assert (run.topic, run.partition, run.path, run.position) == ("t", 1, "/somewhere", 100)
    assert (run.high_watermark, run.last_stable_offset, run.log_start_offset) == (5, 4, 2)
    assert (run.limit, run.aborted, run.committed_only) == (7, (), False)
    assert run.data is data
    assert repr(run) == f"<Batches t-1 from offset 0, {len(data)} bytes>"
    assert run


def test_an_empty_run_is_false_and_holds_nothing() -> None:
    run = Batches(b"", start_offset=12)
    assert not run
    assert (run.records(), run.values(), run.tuples(), run.batches(), run.count()) == ([], [], [], [], 0)
    assert run.first_at_or_after(0) is None
    assert run.next_offset == 12


@pytest.mark.row("T5", part="one process")
def test_a_committed_reader_skips_aborted_batches_of_their_producer_only() -> None:
    parts = []
    for offset, (producer_id, transactional) in enumerate([(1, True), (2, True), (1, False), (1, True)]):
        part = bytearray(
            encode(
                [b"%d" % offset],
                timestamp_ms=0,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                transactional=transactional,
            )
        )
        stamp(part, offset, 0)
        parts.append(bytes(part))
    data = b"".join(parts)
    ranges = [(1, 0, 2, 99)]
    assert Batches(data, aborted=ranges, committed_only=True).values() == [b"1", b"2", b"3"]
    assert Batches(data, aborted=ranges).values() == [b"0", b"1", b"2", b"3"]
    assert Batches(data, committed_only=True).values() == [b"0", b"1", b"2", b"3"]


def test_the_last_possible_timestamp_is_seen_when_nothing_bounds_the_time() -> None:
    for append_time in (False, True):
        data = encode([b"late"], timestamp_ms=INT64_MAX, append_time=append_time)
        assert Batches(data).count() == 1
        assert Batches(data).values() == [b"late"]


# --- flags -------------------------------------------------------------------------------------


@pytest.mark.row("T4", part="data partitions")
@pytest.mark.parametrize("marker", Marker)
def test_a_marker_is_a_control_batch_that_no_reader_sees(marker: Marker) -> None:
    data = encode_marker(marker, 9, 77, 3, 1_234)
    view = BatchView(data).check()
    assert view.is_control
    assert view.is_transactional
    assert view.marker == (marker, 9)
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.last_sequence) == (77, 3, -1, -1)
    assert (view.record_count, view.max_timestamp_ms) == (1, 1_234)
    assert Batches(data).records() == []
    assert Batches(data).count() == 0
    (model,) = model_run(data)
    key = struct.pack(">hh", 0, marker)
    assert model.records == (ModelRecord(0, 1_234, key, struct.pack(">hi", 0, 9)),)


@pytest.mark.row("T4", part="data partitions")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"\0\0\0", bytes(6)),
        (b"\0\0\0\2", bytes(6)),  # a leader-change record of KRaft, no end of a transaction
        (b"\0\0\0\1", bytes(5)),
        (b"\0\0\0\1", None),
    ],
)
def test_other_control_records_are_no_markers(key: bytes | None, value: bytes | None) -> None:
    assert BatchView(encode_batch([ModelRecord(0, 0, key, value)], attributes=0x20)).marker is None


def test_a_batch_of_data_has_no_marker() -> None:
    view = BatchView(encode_batch([ModelRecord(0, 0, b"\0\0\0\1", bytes(6))]))
    assert view.marker is None
    assert not view.is_control
    assert not view.is_transactional


def test_sequences_wrap_behind_the_last_int() -> None:
    data = encode(
        [b""] * 3,
        timestamp_ms=0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    view = BatchView(data)
    assert view.is_transactional
    assert (view.base_sequence, view.last_sequence) == (2**31 - 2, 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_log_append_time_is_the_time_of_every_record(codec: Codec) -> None:
    batch = bytearray(encode([(None, b"a", 5), (None, b"b", 6)], timestamp_ms=0, codec=codec))
    restamp_time(batch, 99, True)
    view = BatchView(batch).check()
    assert view.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert view.max_timestamp_ms == 99
    run = Batches(bytes(batch))
    assert [record.timestamp_ms for record in run] == [99, 99]
    assert {record.timestamp_type for record in run} == {TimestampType.LOG_APPEND_TIME}
    assert Batches(bytes(batch), since_ms=99, until_ms=100).count() == 2
    assert Batches(bytes(batch), until_ms=99).count() == Batches(bytes(batch), since_ms=100).count() == 0
    restamp_time(batch, 6, False)
    assert [record.timestamp_ms for record in Batches(bytes(batch))] == [5, 6]
    assert bytes(batch) == encode([(None, b"a", 5), (None, b"b", 6)], timestamp_ms=0, codec=codec)


def test_a_delete_horizon_is_told_and_timestamps_count_from_it() -> None:
    """Compaction keeps its horizon in the base timestamp; deltas are then negative (KIP-534)."""
    records = [ModelRecord(3, 1_000, b"k", None), ModelRecord(9, 2_000, b"l", b"v")]
    data = encode_batch(records, base_offset=3, attributes=0x40, base_timestamp=86_400_000)
    view = BatchView(data)
    assert view.delete_horizon_ms == 86_400_000
    assert [fields_of(record) for record in view] == records
    assert view.validate(contiguous=False) == (1_000, 2_000, 0)
    assert BatchView(encode_batch(records, base_offset=3)).delete_horizon_ms is None


# --- changes in place --------------------------------------------------------------------------


def test_stamping_changes_what_the_checksum_does_not_cover() -> None:
    batch = bytearray(encode([b"a", b"b"], timestamp_ms=0))
    before = bytes(batch)
    stamp(batch, 41, 6)
    view = BatchView(batch).check()
    assert (view.base_offset, view.last_offset, view.leader_epoch) == (41, 42, 6)
    assert batch[16:] == before[16:]
    assert batch[8:12] == before[8:12]
    with pytest.raises(BufferError):
        stamp(before, 0, 0)
    with pytest.raises(CorruptRecordError, match="61 bytes, found 60"):
        stamp(bytearray(60), 0, 0)


def test_stamping_a_run_numbers_its_batches() -> None:
    run = bytearray(b"".join(encode([b""] * count, timestamp_ms=0) for count in (1, 3, 2)))
    assert stamp_run(run, 10, 4) == 16
    assert [(view.base_offset, view.leader_epoch) for view in Batches(bytes(run)).batches()] == [
        (10, 4),
        (11, 4),
        (14, 4),
    ]
    with pytest.raises(CorruptRecordError):
        stamp_run(run[:-1], 0, 0)
    with pytest.raises(UnsupportedFormatError):
        stamp_run(run + bytes(70), 0, 0)
    assert stamp_run(bytearray(), 7, 0) == 7


@each_codec
def test_the_codec_of_a_batch_is_changed_and_nothing_else(codec: Codec) -> None:
    plain = encode(
        [(b"k", b"v" * 50, 7, [("h", b"x")])] * 5, timestamp_ms=0, producer_id=5, producer_epoch=1,
        base_sequence=3, transactional=True,
    )  # fmt: skip
    view = BatchView(plain)
    packed = with_codec(view, codec, compress(codec, view.payload()))
    changed = BatchView(packed).check()
    assert changed.codec is codec
    assert changed.payload() == view.payload()
    assert list(changed) == list(view)
    assert changed.is_transactional
    for name in (
        "base_offset",
        "last_offset",
        "leader_epoch",
        "producer_id",
        "base_sequence",
        "record_count",
    ):
        assert getattr(changed, name) == getattr(view, name)
    assert bytes(with_codec(changed, 0, changed.payload())) == plain


def test_a_view_is_a_buffer_of_its_batch_alone() -> None:
    batch = encode([b"a"], timestamp_ms=0)
    view = BatchView(bytearray(batch + b"behind"))
    memory = memoryview(view)
    assert memory.readonly
    assert bytes(memory) == bytes(view) == batch
    assert BatchView(view).size == len(batch)
    with pytest.raises(BufferError):
        stamp(view, 1, 1)
    assert repr(view) == f"<BatchView offsets 0..0, 1 records, {len(batch)} bytes>"


def test_a_view_keeps_its_source() -> None:
    source = bytearray(encode([b"a"], timestamp_ms=0))
    view = BatchView(source)
    with pytest.raises(BufferError):
        source.clear()
    del view
    source.clear()


# --- damage ------------------------------------------------------------------------------------

OURS = (
    CorruptRecordError,
    UnsupportedFormatError,
    InvalidRecordError,
    UnsupportedCodecError,
    RecordTooLargeError,
)


def small_batches() -> list[bytes]:
    plain = encode([(b"key", b"value", 5, [("h", b"x"), ("n", None)]), (None, b"", 3)], timestamp_ms=0)
    parts = [plain, encode_marker(Marker.COMMIT, 1, 2, 3, 4)]
    parts += [encode([(b"k", b"v" * 30)] * 3, timestamp_ms=9, codec=codec) for codec in list(Codec)[1:]]
    stamped = []
    for part in parts:
        batch = bytearray(part)
        stamp(batch, 7, 2)
        stamped.append(bytes(batch))
    return stamped


each_small_batch = pytest.mark.parametrize(
    "batch", small_batches(), ids=["plain", "marker", "gzip", "snappy", "lz4", "zstd"]
)


def read_everything(data: bytes | bytearray, *, check: bool) -> list[Any]:
    """Read in every way, so that whatever may crash has its chance."""
    out: list[Any] = []

    def attempt(way: Callable[[], object]) -> None:
        try:
            out.append(way())
        except OURS:
            out.append(None)

    def view_fields() -> list[object]:
        view = BatchView(data)
        names = [name for name in dir(BatchView) if not name.startswith("_")]
        fields = []
        for name in names:
            try:
                field = getattr(view, name)
                fields.append(None if callable(field) else field)
            except UnsupportedCodecError:
                fields.append("codec")
        return fields

    attempt(view_fields)
    attempt(lambda: BatchView(data).validate())
    attempt(lambda: BatchView(data).validate(contiguous=False, limit=10_000))
    attempt(lambda: [repr(record) for record in BatchView(data)])
    run = None
    try:
        run = Batches(bytes(data), check=check, limit=100_000)
    except OURS:
        out.append("refused")
    if run is not None:
        attempt(lambda: [fields_of(record) for record in run])
        attempt(run.tuples)
        attempt(run.values)
        attempt(run.count)
        attempt(lambda: run.first_at_or_after(4))
        attempt(lambda: [bytes(view) for view in run.batches()])
    return out


@pytest.mark.row("S8")
@each_small_batch
def test_no_cut_batch_is_read(batch: bytes) -> None:
    for size in range(1, len(batch)):
        with pytest.raises((CorruptRecordError, UnsupportedFormatError)):
            BatchView(batch[:size])
        for check in (True, False):
            with pytest.raises((CorruptRecordError, UnsupportedFormatError)):
                list(Batches(batch[:size], check=check))
        with pytest.raises((CorruptRecordError, UnsupportedFormatError)) as caught:
            Batches(batch + batch[:size], path="/log", position=1_000)
        assert (caught.value.path, caught.value.position) == ("/log", 1_000 + len(batch))


@pytest.mark.row("S8")
@each_small_batch
def test_one_flipped_bit_is_refused_unless_it_is_in_the_two_fields_outside_the_checksum(batch: bytes) -> None:
    whole = [fields_of(record) for record in Batches(batch)]
    unnoticed = set()
    for bit in range(len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        read_everything(damaged, check=False)  # whatever it gives, it does not crash
        try:
            found = [fields_of(record) for record in Batches(bytes(damaged))]
        except (CorruptRecordError, UnsupportedFormatError):
            with pytest.raises((CorruptRecordError, UnsupportedFormatError)):
                BatchView(damaged).check()
            continue
        unnoticed.add(bit // 8)
        shift = BatchView(damaged).base_offset - 7
        assert found == [record._replace(offset=record.offset + shift) for record in whole]
    # The base offset, bar its sign, and the leader epoch: the log sets both, so no producer can sum them.
    assert unnoticed == {*range(8), *range(12, 16)}
    damaged = bytearray(batch)
    damaged[0] ^= 0x80
    with pytest.raises(CorruptRecordError, match="cannot be"):
        Batches(bytes(damaged))


@pytest.mark.row("S8")
def test_batches_whose_offsets_do_not_rise_are_refused() -> None:
    batch = bytearray(encode([b"a", b"b"], timestamp_ms=0))
    other = bytearray(batch)
    for offset in (0, 1):
        stamp(other, offset, 0)
        with pytest.raises(CorruptRecordError, match="does not rise") as caught:
            Batches(bytes(batch + other), path="/log")
        assert caught.value.position == len(batch)
    stamp(other, 2, 0)
    assert Batches(bytes(batch + other)).next_offset == 4


@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    read_everything(data, check=False)
    read_everything(data, check=True)


@settings(max_examples=300)
@given(
    batch=st.sampled_from(small_batches()),
    edits=st.lists(st.tuples(st.integers(0, 160), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4),
)
def test_overwritten_batches_do_not_crash_even_with_a_good_checksum(
    batch: bytes, edits: list[tuple[int, bytes]]
) -> None:
    damaged = bytearray(batch)
    for place, piece in edits:
        place %= len(damaged)
        damaged[place : place + len(piece)] = piece
    read_everything(damaged, check=False)
    if len(damaged) >= 61:
        restamp_time(damaged, 5, False)  # sums what is there
        read_everything(damaged, check=True)


def test_random_bytes_do_not_crash() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    patterns = small_batches()
    for _ in range(50_000):
        batch = bytearray(rng.choice(patterns))
        if rng.random() < 0.3:
            batch = bytearray(rng.randbytes(rng.randrange(160)))
            batch[16:17] = b"\2"
            batch[8:12] = struct.pack(">i", max(len(batch) - 12, 0))
            batch[57:61] = struct.pack(">i", rng.randrange(4))
        else:
            start = rng.randrange(len(batch))
            batch[start : start + rng.randrange(8)] = rng.randbytes(rng.randrange(8))
        if len(batch) >= 61 and rng.random() < 0.7:
            restamp_time(batch, rng.randrange(10), rng.random() < 0.2)
        for way in (
            lambda data: BatchView(data).validate(contiguous=rng.random() < 0.5, limit=10_000),
            lambda data: Batches(data, limit=10_000).records()[-1:],
            lambda data: [record.headers for record in Batches(data, check=False, limit=10_000)],
        ):
            try:
                way(bytes(batch))
            except OURS:
                pass


# --- claims ------------------------------------------------------------------------------------


def claiming(**changes: int) -> bytearray:
    """A batch of one record with other numbers in its header, and a checksum that fits them."""
    batch = bytearray(encode([b"v"], timestamp_ms=0))
    places = {
        "length": (8, ">i"),
        "last_offset_delta": (23, ">i"),
        "record_count": (57, ">i"),
        "offset": (0, ">q"),
    }
    length = changes.pop("length", None)
    for name, value in changes.items():
        struct.pack_into(places[name][1], batch, places[name][0], value)
    restamp_time(batch, 0, False)
    if length is not None:
        struct.pack_into(">i", batch, 8, length)
    return batch


@pytest.mark.row("S8")
@pytest.mark.parametrize(
    "changes",
    [
        {"length": 2**31 - 1},
        {"length": -1},
        {"length": -(2**31)},
        {"length": 48},
        {"record_count": -1},
        {"record_count": 2**31 - 1},
        {"last_offset_delta": -1},
        {"record_count": 2},
        {"offset": -1},
        {"offset": INT64_MAX},
        {"offset": INT64_MAX - 5, "last_offset_delta": 5},
        {"offset": INT64_MAX - 2**31 + 1},
    ],
)
def test_impossible_headers_are_refused(changes: dict[str, int]) -> None:
    batch = claiming(**changes)
    with pytest.raises(CorruptRecordError):
        BatchView(batch)
    with pytest.raises(CorruptRecordError):
        Batches(bytes(batch))


@pytest.mark.row("S8")
def test_no_offset_delta_leads_past_the_last_offset() -> None:
    """Found by fuzzing: a delta of 2^31-1 behind the greatest base offset wrapped to an offset below 0."""
    batch = bytearray(payload_batch(varint(11) + b"\0\0" + varint(2**31 - 1) + b"\1\2v\0"))
    stamp(batch, INT64_MAX - 2**31, 0)
    assert [record.offset for record in Batches(bytes(batch))] == [INT64_MAX - 1]
    stamp(batch, INT64_MAX - 2**31 + 1, 0)
    with pytest.raises(CorruptRecordError, match="cannot be"):
        Batches(bytes(batch))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=["none", "lz4"])
def test_a_header_key_that_is_no_text_does_not_enter(codec: Codec) -> None:
    """Found by fuzzing: an append took a record whose headers no reader could give."""
    plain = encode([(b"k", b"v", 1, [("key", b"x"), ("kez", None)])], timestamp_ms=1)
    spoilt = bytearray(plain.replace(b"kez", b"ke\xc3"))
    payload = compress(codec, bytes(spoilt[61:]))
    batch = with_codec(BatchView(spoilt), codec, payload)
    view = BatchView(batch).check()
    with pytest.raises(InvalidRecordError, match="header"):
        view.validate()
    # Another log may have stored it: a replica keeps it, and its reader learns of it at the headers.
    assert view.validate(contiguous=False) == (1, 1, 0)
    (record,) = Batches(bytes(batch))
    assert record.value == b"v"
    with pytest.raises(CorruptRecordError, match="not UTF-8"):
        _ = record.headers


def payload_batch(payload: bytes, count: int = 1) -> bytes:
    batch = bytearray(
        encode_batch([], base_timestamp=0, max_timestamp=0, last_offset_delta=count - 1, record_count=count)
    )
    batch += payload
    restamp_time(batch, 0, False)
    return bytes(batch)


#: a record's bytes behind its length: attributes, timestamp delta, offset delta, key, value, headers
GOOD = b"\0\0\0\1\2v\0"

CLAIMS = {
    "record length of 2 GiB": varint(2**31 - 1) + GOOD,
    "record length below 0": varint(-1) + GOOD,
    "record length 0": varint(0) + GOOD,
    "record length too short": varint(len(GOOD) - 1) + GOOD,
    "record length too long": varint(len(GOOD) + 1) + GOOD,
    "varint without an end": b"\xff" * 12,
    "varint of 33 bits": b"\xff\xff\xff\xff\x1f" + GOOD,
    "timestamp varlong of 65 bits": b"\x26\0" + b"\xff" * 9 + b"\x02" + GOOD[2:],
    "key of 2 GiB": varint(11) + b"\0\0\0" + varint(2**31 - 1) + b"\2v\0",
    "key of size -2": varint(7) + b"\0\0\0\3\2v\0",
    "value of 2 GiB": varint(11) + b"\0\0\0\1" + varint(2**31 - 1) + b"v\0",
    "value of size -2": varint(7) + b"\0\0\0\1\3v\0",
    "offset delta below 0": varint(7) + b"\0\0\1\1\2v\0",
    "no header count": varint(6) + GOOD[:-1],
    "2 Gi headers": varint(11) + GOOD[:-1] + varint(2**31 - 1),
    "headers below 0": varint(7) + GOOD[:-1] + b"\1",
    "header key of 2 GiB": varint(12) + GOOD[:-1] + b"\2" + varint(2**31 - 1),
    "header key null": varint(9) + GOOD[:-1] + b"\2\1\0",
    "header value of 2 GiB": varint(14) + GOOD[:-1] + b"\2\2h" + varint(2**31 - 1)[:5],
    "bytes behind the headers": varint(8) + GOOD + b"\0",
    "bytes behind the records": varint(7) + GOOD + b"\0",
    "no record": b"",
}


@pytest.mark.row("S8")
@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_that_the_bytes_cannot_fill_are_refused_without_memory(claim: str) -> None:
    batch = payload_batch(CLAIMS[claim])
    view = BatchView(batch).check()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError):
            view.validate()
        read_everything(batch, check=True)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_good_payload_is_good() -> None:
    """The claims above differ from this in one place each."""
    batch = payload_batch(varint(len(GOOD)) + GOOD)
    assert BatchView(batch).validate() == (0, 0, 1)
    assert Batches(batch).values() == [b"v"]


def test_a_count_of_records_that_are_not_there_is_refused() -> None:
    batch = payload_batch(varint(len(GOOD)) + GOOD, count=2**31 - 1)
    with pytest.raises(InvalidRecordError):
        BatchView(batch).validate()
    with pytest.raises(CorruptRecordError, match="record 1 of the batch at base offset 0"):
        Batches(batch).records()


@pytest.mark.row("S8")
def test_a_broken_record_is_named_with_the_place_of_its_batch() -> None:
    first = encode([b"a"], timestamp_ms=0)
    second = bytearray(payload_batch(CLAIMS["key of 2 GiB"]))
    stamp(second, 1, 0)
    run = Batches(first + bytes(second), path="/log", position=500)
    with pytest.raises(CorruptRecordError) as caught:
        run.values()
    assert (caught.value.path, caught.value.position, caught.value.offset) == ("/log", 500 + len(first), 1)


@pytest.mark.parametrize(
    ("deltas", "last", "contiguous", "rising"),
    [
        ([0, 1, 2], 2, True, True),
        ([0, 2], 2, False, True),
        ([1, 2], 2, False, True),
        ([0, 1], 5, False, True),
        ([0, 0], 1, False, False),
        ([1, 0], 1, False, False),
        ([0, 2], 1, False, False),
    ],
)
def test_offset_deltas_are_those_of_a_producer_or_rise(
    deltas: list[int], last: int, contiguous: bool, rising: bool
) -> None:
    records = [ModelRecord(delta, 0, None, b"") for delta in deltas]
    view = BatchView(encode_batch(records, last_offset_delta=last))
    for flag, good in ((True, contiguous), (False, rising)):
        if good:
            view.validate(contiguous=flag)
        else:
            with pytest.raises(InvalidRecordError):
                view.validate(contiguous=flag)


def test_an_empty_batch_is_what_compaction_leaves_and_no_producer_sends() -> None:
    data = encode_batch([], base_offset=4, last_offset_delta=9, base_timestamp=1, max_timestamp=1)
    view = BatchView(data).check()
    view.validate(contiguous=False)
    with pytest.raises(InvalidRecordError):
        view.validate()
    assert (len(view), list(view), view.next_offset) == (0, [], 14)
    assert (Batches(data).next_offset, Batches(data).count()) == (14, 0)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_named(magic: int) -> None:
    batch = bytearray(encode([b"a"], timestamp_ms=0))
    batch[16] = magic
    for way in (BatchView, lambda data: Batches(bytes(data))):
        with pytest.raises(UnsupportedFormatError, match=f"magic byte {magic}, expected 2") as caught:
            way(batch)
        assert caught.value.code == 43


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number: int) -> None:
    data = encode_batch([ModelRecord(0, 0, None, b"a")], attributes=number)
    view = BatchView(data).check()
    for way in (lambda: view.codec, view.payload, view.validate, lambda: list(Batches(data))):
        with pytest.raises(UnsupportedCodecError, match=f"codec {number} ") as caught:
            way()
        assert caught.value.code == 76


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_what_decompresses_to_more_than_the_limit_is_refused(codec: Codec) -> None:
    data = encode([bytes(10_000)], timestamp_ms=0, codec=codec)
    view = BatchView(data)
    size = len(view.payload())
    assert len(view.payload(limit=size)) == size
    for way in (
        lambda: view.payload(limit=size - 1),
        lambda: view.validate(limit=size - 1),
        lambda: Batches(data, limit=size - 1).values(),
    ):
        with pytest.raises(RecordTooLargeError):
            way()


def test_text_is_no_batch() -> None:
    with pytest.raises(RecordTypeError, match="found str"):
        BatchView("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        BatchView(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Batches(bytearray(b""))  # type: ignore[arg-type]


@example(deltas=[0, INT64_MAX, -(2**62)])
@given(deltas=st.lists(st.integers(-(2**62), INT64_MAX), min_size=1, max_size=4))
def test_any_timestamp_delta_comes_back(deltas: list[int]) -> None:
    records = [ModelRecord(n, delta, None, b"") for n, delta in enumerate(deltas)]
    data = encode_batch(records, base_timestamp=0)
    assert [record[1] for record in Batches(data).tuples()] == deltas


@pytest.mark.parametrize("bits", [*range(0, 32, 7), 31])
def test_varints_of_every_length_are_read(bits: int) -> None:
    for size in {max((1 << bits) // 2 - 1, 0), (1 << bits) // 2} - {1 << 30, (1 << 30) - 1}:
        if size <= 1 << 21:
            data = encode_batch([ModelRecord(0, 0, bytes(size), bytes(size))])
            (record,) = Batches(data)
            assert (len(record.key or b""), len(record.value or b"")) == (size, size)
    delta = (1 << bits) // 2
    data = encode_batch([ModelRecord(delta, 1 << bits * 2, None, b"")], base_timestamp=0)
    assert Batches(data).tuples() == [(delta, 1 << bits * 2, None, b"")]


# -- a run of finished batches gets its producer


def test_a_run_gets_its_producer_and_sequences_that_wrap():
    run = bytearray(encode([b"a", b"b"], timestamp_ms=5) + encode([b"c"], timestamp_ms=6))
    stamp_run(run, 0, 0)
    assert stamp_producer(run, 7, 3, 2**31 - 2, transactional=True) == 1
    first, second = Batches(bytes(run)).batches()
    assert [(b.producer_id, b.producer_epoch, b.base_sequence) for b in (first, second)] == [
        (7, 3, 2**31 - 2),
        (7, 3, 0),
    ]
    assert first.check().is_transactional
    assert second.check().max_timestamp_ms == 6
    assert [record.value for record in first] == [b"a", b"b"]


def test_a_run_without_a_producer_may_get_the_time_of_its_log():
    run = bytearray(encode([b"a"], timestamp_ms=5))
    assert stamp_producer(run, -1, -1, -1, append_time_ms=99) == -1
    (batch,) = Batches(bytes(run)).batches()
    assert (batch.producer_id, batch.max_timestamp_ms, batch.is_transactional) == (-1, 99, False)
    assert batch.check().timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("position", [17, 22, 40, -1])
def test_a_run_whose_crc_disagrees_is_not_vouched_for(position):
    run = bytearray(encode([b"a"], timestamp_ms=5) + encode([b"b"], timestamp_ms=5))
    run[len(run) // 2 + position if position >= 0 else -1] ^= 1
    with pytest.raises(CorruptRecordError):
        stamp_producer(run, 7, 0, 0)


def test_a_run_that_ends_inside_a_batch_is_refused():
    run = bytearray(encode([b"a"], timestamp_ms=5))
    for size in (1, 30, 61, len(run) - 1):
        with pytest.raises(CorruptRecordError):
            stamp_producer(run[:size], 7, 0, 0)
    assert stamp_producer(bytearray(), 7, 0, 5) == 5


def test_a_run_that_is_refused_leaves_no_memory_behind() -> None:
    def address_space_mb() -> float:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    data = encode([b"a"], timestamp_ms=0)
    # The last one is none, and is found when there is room for all of them.
    aborted = [(0, 0, 0)] * 100_000 + [None]
    before = address_space_mb()
    for _ in range(100):
        with pytest.raises(TypeError):
            Batches(data, aborted=aborted, committed_only=True)
    assert address_space_mb() - before < 50


# --- a record that is kept -----------------------------------------------------------------------


def holders(run: Batches) -> int:
    """How many hold the bytes of a run: itself, and records of it."""
    return sys.getrefcount(run.data) - 1


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ((None, b"v" * 100), ["value"]),
        ((b"k", b"v" * 100), ["value", "key"]),
        ((b"k", None), ["key"]),
        ((b"k", b"v" * 100, 1, [("h", b"1")]), ["headers", "key", "value"]),
        ((b"k", b"v" * 100, 1, [("h", b"1")]), ["value", "key", "headers"]),
    ],
)
def test_a_record_of_which_all_was_asked_for_holds_its_batch_no_longer(given: Any, asked: list[str]) -> None:
    run = Batches(encode([given, given], timestamp_ms=1))
    record = next(iter(run))
    for name in asked:
        assert holders(run) == 2, name
        getattr(record, name)
    assert holders(run) == 1
    key, value, *rest = given
    assert (record.key, record.value) == (key, value)
    assert record.headers == tuple(rest[1] if rest else ())
    assert record == next(iter(run))
