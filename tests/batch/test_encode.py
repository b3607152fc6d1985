"""The encoder writes what Kafka's clients would write, byte for byte, and refuses what it cannot."""

from __future__ import annotations

import array
import random
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as SlowAioBuilder
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._batch import Batches, BatchView, Record, restamp_time, stamp
from logstore.batch._encode import Encoder, encode, encode_marker, timestamp_of
from logstore.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordTooLargeError,
    RecordTypeError,
    UnsupportedCodecError,
)
from logstore.records import Codec, Marker, TimestampType

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of the way it reads its own files
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

HEADER_BYTES = 61
each_codec = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())

# --- byte equality -----------------------------------------------------------------------------

#: sizes on both sides of each step of a length's varint
SIZES = [0, 1, 62, 63, 64, 65, 8_190, 8_191, 8_192, 1 << 20, (1 << 20) + 1]
blobs = st.one_of(st.none(), st.binary(max_size=50), st.builds(bytes, st.sampled_from(SIZES[:-2])))
names = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=80)), max_size=4)
stamps = st.integers(0, 2**41) | st.sampled_from([0, 1, 2**40, 2**53])
records = st.lists(st.tuples(blobs, blobs, stamps, names), min_size=1, max_size=12)
producers = st.tuples(st.integers(-1, 2**62), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1))


def theirs(
    rows: list[Any],
    codec: int = 0,
    transactional: bool = False,
    producer: tuple[int, int, int] = (-1, -1, -1),
    builder: Callable[..., Any] = AioBuilder,
) -> bytes:
    batch = builder(2, codec, transactional, *producer, 1 << 30)
    for offset, (key, value, timestamp, headers) in enumerate(rows):
        assert batch.append(offset, timestamp, key, value, headers) is not None
    return bytes(batch.build())


def ours(rows: list[Any], codec: int = 0, transactional: bool = False, producer: Any = (-1, -1, -1)) -> bytes:
    return encode(
        rows,
        timestamp_ms=0,
        codec=codec,
        transactional=transactional,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
    )


def assert_equal_but_for_what_the_log_sets(mine: bytes, other: bytes) -> None:
    assert mine[21:] == other[21:]
    assert mine[8:12] == other[8:12]  # length
    assert mine[16:21] == other[16:21]  # magic, CRC
    view = BatchView(mine).check()
    assert (view.base_offset, view.leader_epoch) == (0, 0)


@pytest.mark.row("S7")
@pytest.mark.row("S5", part="one process")
@given(rows=records, transactional=st.booleans(), producer=producers)
def test_a_batch_has_the_bytes_of_another_encoder(
    rows: list[Any], transactional: bool, producer: tuple[int, int, int]
) -> None:
    mine = ours(rows, 0, transactional, producer)
    assert_equal_but_for_what_the_log_sets(mine, theirs(rows, 0, transactional, producer))


@pytest.mark.row("S5", part="one process")
@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_the_steps_of_a_varint(size: int) -> None:
    rows = [(b"k" * size, bytes(size), 0, []), (None, b"", 0, [("h" * size, bytes(size))])]
    assert_equal_but_for_what_the_log_sets(ours(rows), theirs(rows, builder=SlowAioBuilder))


@pytest.mark.row("S5", part="one process")
def test_every_power_of_two_as_a_timestamp_delta() -> None:
    rows = [(None, b"", 2**62, [])]
    for bits in range(62):
        rows += [(None, b"", 2**62 + sign * (1 << bits) - step, []) for sign in (1, -1) for step in (0, 1)]
    assert_equal_but_for_what_the_log_sets(ours(rows), theirs(rows, builder=SlowAioBuilder))


def test_offset_deltas_of_one_two_and_three_bytes() -> None:
    rows = [(None, b"", 0, [])] * 8_300
    assert_equal_but_for_what_the_log_sets(ours(rows), theirs(rows))


@pytest.mark.row("S7")
@pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.name.lower())
@given(rows=records, transactional=st.booleans(), producer=producers)
def test_compressed_batches_differ_from_another_encoder_in_the_frame_alone(
    codec: Codec, rows: list[Any], transactional: bool, producer: tuple[int, int, int]
) -> None:
    rows = [*rows, (None, bytes(1_000), 0, [])]  # else aiokafka would leave it plain
    mine, other = (
        BatchView(data).check()
        for data in (ours(rows, codec, transactional, producer), theirs(rows, codec, transactional, producer))
    )
    assert bytes(mine)[21:HEADER_BYTES] == bytes(other)[21:HEADER_BYTES]
    assert mine.codec is codec
    assert mine.payload() == other.payload() == ours(rows)[HEADER_BYTES:]


@pytest.mark.row("S7", "D1")
@pytest.mark.parametrize(
    ("reader", "codec"),
    [
        *((AioBatch, codec) for codec in Codec),
        *((KafkaPythonBatch, codec) for codec in Codec),
    ],
)
def test_other_clients_read_what_we_write(reader: Callable[..., Any], codec: Codec) -> None:
    rows = [
        (None, b"first", 1_700_000_000_000, []),
        (b"", b"", 1_700_000_000_005, [("empty", b""), ("null", None)]),
        (b"earlier", None, 1_699_999_999_000, []),
        (b"k" * 70, b"compress me " * 1_000, 1_700_000_000_000, [("naïve", b"\0\xff")]),
    ]
    batch = bytearray(ours(rows, codec, True, (7, 2, 5)))
    stamp(batch, 1_000, 3)
    read = reader(bytes(batch))
    assert read.validate_crc()
    assert read.is_transactional
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (7, 2, 5)
    found = [(r.offset, r.key, r.value, r.timestamp, list(r.headers)) for r in read]
    assert found == [(1_000 + n, key, value, ms, headers) for n, (key, value, ms, headers) in enumerate(rows)]


@pytest.mark.row("T4", part="data partitions")
@pytest.mark.parametrize("marker", Marker)
def test_other_clients_see_our_markers(marker: Marker) -> None:
    read = AioBatch(encode_marker(marker, 5, 7, 2, 1_000))
    assert read.is_control_batch
    assert read.is_transactional
    (record,) = read
    assert (record.key, record.value) == (bytes([0, 0, 0, marker]), bytes([0, 0, 0, 0, 0, 5]))


def test_other_clients_see_log_append_time() -> None:
    batch = bytearray(encode([(None, b"a", 5), (None, b"b", 6)], timestamp_ms=0))
    restamp_time(batch, 99, True)
    assert [(r.timestamp, r.timestamp_type) for r in AioBatch(bytes(batch))] == [(99, 1), (99, 1)]


# --- what a record may be ----------------------------------------------------------------------


def values_of(data: bytes) -> list[Any]:
    return [(r.key, r.value, r.timestamp_ms, r.headers) for r in Batches(data)]


def test_every_form_of_a_record() -> None:
    read = Batches(encode([(b"rk", b"rv", 3, [("h", b"x")])], timestamp_ms=0)).records()[0]
    forms: list[Any] = [
        b"value",
        bytearray(b"array"),
        memoryview(b"view"),
        array.array("B", b"bytes"),
        None,
        (b"k", b"v"),
        (None, None),
        (bytearray(b"k"), memoryview(b"v"), 5),
        (b"k", b"v", None, None),
        (b"k", b"v", 6, [("h", bytearray(b"x")), ("n", None)]),
        (b"k", b"v", 6, ()),
        (b"k", b"v", 6, (pair for pair in [("g", b"")])),
        (b"k", b"v", 6, {"d": b"1"}.items()),
        read,
    ]
    assert values_of(encode(forms[:-3] + forms[-3:], timestamp_ms=1)) == [
        (None, b"value", 1, ()),
        (None, b"array", 1, ()),
        (None, b"view", 1, ()),
        (None, b"bytes", 1, ()),
        (None, None, 1, ()),
        (b"k", b"v", 1, ()),
        (None, None, 1, ()),
        (b"k", b"v", 5, ()),
        (b"k", b"v", 1, ()),
        (b"k", b"v", 6, (("h", b"x"), ("n", None))),
        (b"k", b"v", 6, ()),
        (b"k", b"v", 6, (("g", b""),)),
        (b"k", b"v", 6, (("d", b"1"),)),
        (b"rk", b"rv", 3, (("h", b"x"),)),
    ]


def test_records_may_come_from_any_iterable() -> None:
    expected = encode([b"a", b"b"], timestamp_ms=0)
    for source in ((b"a", b"b"), iter([b"a", b"b"]), dict.fromkeys([b"a", b"b"])):
        assert encode(source, timestamp_ms=0) == expected  # type: ignore[arg-type]
    assert encode([], timestamp_ms=0) == b""


@given(
    records=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.integers(50, 9_000).map(bytes),
            st.tuples(
                st.none() | st.binary(max_size=4), st.binary(max_size=9), st.sampled_from([None, 0, 5, 10**12])
            ),
            st.just(bytearray(b"no bytes")),
        ),
        max_size=150,
    ),
    limit=st.integers(100, 20_000),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
)
def test_a_list_has_the_bytes_of_its_records_one_by_one(records: list[Any], limit: int, codec: Codec) -> None:
    """A list's plain values are written in a loop of their own: they split into the same batches."""

    def encoded(records: Any) -> Any:
        encoder = Encoder().begin(timestamp_ms=7, codec=codec, max_batch_bytes=limit)
        try:
            encoder.add_all(records)
            encoder.finish()
        except RecordTooLargeError as error:
            return str(error), getattr(error, "__notes__", [])
        return bytes(encoder), encoder.null_keys, encoder.min_timestamp_ms, encoder.max_timestamp_ms

    assert encoded(records) == encoded(iter(records))


def test_add_takes_one_record() -> None:
    encoder = Encoder().begin(timestamp_ms=4)
    encoder.add(b"v")
    encoder.add(None, b"k", 9, [("h", None)])
    encoder.add(bytearray(b"w"), headers=None)
    assert encoder.pending_records == 3
    assert values_of(bytes(encoder.finish())) == [
        (None, b"v", 4, ()),
        (b"k", None, 9, (("h", None),)),
        (None, b"w", 4, ()),
    ]
    assert (encoder.record_count, encoder.batch_count, encoder.null_keys) == (3, 1, 2)
    assert (encoder.min_timestamp_ms, encoder.max_timestamp_ms) == (4, 9)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("text", r"a value must be bytes or another buffer, found str; encode it first: text.encode\(\)"),
        (5, "a value must be bytes or another buffer, found int"),
        ([b"v"], "a value must be .* found list"),
        (("k", b"v"), "a key must be .* found str; encode it first"),
        ((b"k", "v"), "a value must be .* found str; encode it first"),
        ((b"k", b"v", 0, [("h", "x")]), "a header value must be .* found str; encode it first"),
        ((b"k", b"v", 0, [("h", 5)]), "a header value must be .* found int"),
        ((b"k", b"v", 0, [(b"h", b"x")]), "a header key must be str, found bytes"),
        ((b"k", b"v", 0, [("h",)]), "headers must be pairs"),
        ((b"k", b"v", 0, [5]), "headers must be pairs"),
        ((b"k", b"v", 0, 5), "headers must be pairs"),
        ((b"k", b"v", 0, {"name": b"x"}), "headers must be pairs"),
        ((b"k", b"v", 0, "ab"), "headers must be pairs"),
        ((), "found a tuple of 0"),
        ((b"v",), "found a tuple of 1"),
        ((b"k", b"v", 0, [], 0), "found a tuple of 5"),
        ((b"k", b"v", 1.5), "a timestamp must be int milliseconds or an aware datetime, found float"),
        ((b"k", b"v", True), "found bool"),
        ((b"k", b"v", "now"), "a timestamp must be .* found str"),
        (memoryview(b"abcd")[::2], "contiguous"),
        ((memoryview(b"abcd")[::2], b""), "contiguous"),
    ],
)
def test_what_is_no_record_is_refused_with_its_place(wrong: Any, says: str) -> None:
    with pytest.raises(RecordTypeError, match=says) as caught:
        encode([b"good", b"good", wrong], timestamp_ms=0)
    assert caught.value.__notes__ == ["in record 2 of this append"]
    assert caught.value.code == 87
    with pytest.raises(RecordTypeError, match=says) as caught:
        encode(iter([b"good", wrong]), timestamp_ms=0)
    assert caught.value.__notes__ == ["in record 1 of this append"]


@pytest.mark.parametrize("wrong", ["text", b"bytes", bytearray(b"x"), memoryview(b"x")])
def test_one_value_in_the_place_of_a_list_is_refused(wrong: Any) -> None:
    with pytest.raises(RecordTypeError, match=r"found one \w+; write \[value\]"):
        encode(wrong, timestamp_ms=0)


def test_a_header_key_that_has_no_form_in_utf8_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="header key") as caught:
        encode([(None, b"", 0, [("\ud800", b"")])], timestamp_ms=0)
    assert caught.value.__notes__ == ["in record 0 of this append"]


def test_an_error_of_the_callers_iterable_is_the_callers() -> None:
    def failing() -> Any:
        yield b"a"
        raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"):
        encode(failing(), timestamp_ms=0)


# --- timestamps --------------------------------------------------------------------------------


def test_timestamps_are_milliseconds_or_aware_datetimes() -> None:
    moment = datetime(2026, 11, 21, 10, 30, 0, 123_999, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp_of(moment) == 1_795_249_800_123
    assert timestamp_of(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert timestamp_of(5) == 5
    assert timestamp_of(-1) == -1  # Kafka's word for none
    assert values_of(encode([(None, b"", moment)], timestamp_ms=0))[0][2] == 1_795_249_800_123


@pytest.mark.parametrize("wrong", [-2, 2**63, -(2**70), 2**70, datetime(1969, 12, 31, 23, 59, tzinfo=UTC)])
def test_timestamps_before_1970_or_beyond_64_bits_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidTimestampError) as caught:
        timestamp_of(wrong)
    assert caught.value.code == 32
    with pytest.raises(InvalidTimestampError) as caught:
        encode([b"", (None, b"", wrong)], timestamp_ms=0)
    assert caught.value.__notes__ == ["in record 1 of this append"]


def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(RecordTypeError, match="no time zone"):
        encode([(None, b"", datetime(2026, 1, 1))], timestamp_ms=0)


def test_with_log_append_time_the_header_has_the_time_of_the_log() -> None:
    data = encode([(None, b"a", 5), (None, b"b", 2_000)], timestamp_ms=1_000, append_time=True)
    view = BatchView(data).check()
    assert view.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (view.base_timestamp_ms, view.max_timestamp_ms) == (5, 1_000)
    assert [record.timestamp_ms for record in view] == [1_000, 1_000]


# --- limits ------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    limit=st.integers(400, 2_000),
    codec=st.sampled_from(Codec),
)
def test_batches_are_split_below_the_limit(sizes: list[int], limit: int, codec: Codec) -> None:
    rng = random.Random(str(sizes))
    rows = [rng.randbytes(size) for size in sizes]
    encoder = Encoder().begin(
        timestamp_ms=0, max_batch_bytes=limit, codec=codec, producer_id=1, producer_epoch=0, base_sequence=2**31 - 9
    )
    encoder.add_all(rows)
    assert encoder.pending_records == len(rows)
    data = bytes(encoder.finish())
    assert encoder.pending_bytes == len(encoder) == len(data)
    views, place = [], 0
    while place < len(data):
        views.append(BatchView(data[place:]).check())
        place += views[-1].size
    assert [value.value for view in views for value in view] == rows
    assert encoder.batch_count == len(views)
    assert encoder.record_count == len(rows) == sum(len(view) for view in views)
    sequence = 2**31 - 9
    for view, after in zip(views, [*views[1:], None], strict=True):
        assert view.size <= limit
        view.validate()
        assert view.base_sequence == sequence
        sequence = (sequence + len(view)) % 2**31
        if after is not None:
            # 36: what a record's numbers take at most. More room than that is used.
            plain = HEADER_BYTES + len(view.payload())
            assert plain + 36 + len(next(iter(after)).value or b"") > limit


def test_a_record_that_fits_to_the_byte_is_taken() -> None:
    for size in range(300):
        exact = len(encode([b"v" * size], timestamp_ms=0))
        assert len(encode([b"v" * size], timestamp_ms=0, max_batch_bytes=exact)) == exact
        with pytest.raises(RecordTooLargeError, match=f"does not fit max.message.bytes {exact - 1}"):
            encode([b"v" * size], timestamp_ms=0, max_batch_bytes=exact - 1)


def test_a_record_that_is_too_large_leaves_those_before_it() -> None:
    for size in range(60, 130):
        encoder = Encoder().begin(timestamp_ms=0, max_batch_bytes=160)
        encoder.add(b"before")
        try:
            encoder.add(b"x" * size)
            large = [b"x" * size]
        except RecordTooLargeError:
            large = []
        encoder.add(b"behind")
        assert [value for _, value, _, _ in values_of_run(encoder)] == [b"before", *large, b"behind"]


def values_of_run(encoder: Encoder) -> list[Any]:
    data, found = bytes(encoder.finish()), []
    while data:
        view = BatchView(data)
        found += values_of(bytes(view))
        data = data[view.size :]
    return found


@pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("size", [10, 100, 1_000])
def test_noise_that_compression_makes_longer_is_no_reason_to_refuse(codec: Codec, size: int) -> None:
    rng = random.Random(size)
    rows = [rng.randbytes(size) for _ in range(30_000 // size)]
    encoder = Encoder().begin(timestamp_ms=0, codec=codec, max_batch_bytes=20_000)
    encoder.add_all(rows)
    assert [value for _, value, _, _ in values_of_run(encoder)] == rows


@pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.name.lower())
def test_a_record_over_the_limit_is_taken_if_it_compresses_below_it(codec: Codec) -> None:
    data = encode([bytes(10_000)], timestamp_ms=0, codec=codec, max_batch_bytes=2_000)
    assert BatchView(data).codec is codec
    assert values_of(data)[0][1] == bytes(10_000)
    with pytest.raises(RecordTooLargeError, match=r"does not fit max\.message\.bytes 2000"):
        encode([random.Random(1).randbytes(10_000)], timestamp_ms=0, codec=codec, max_batch_bytes=2_000)


@pytest.mark.parametrize("codec", [-1, 5, 99])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCodecError, match=f"codec {codec} is unknown"):
        encode([b""], timestamp_ms=0, codec=codec)


# --- the buffer --------------------------------------------------------------------------------


def test_the_bytes_are_lent_only_while_no_batch_is_open() -> None:
    encoder = Encoder().begin(timestamp_ms=0)
    encoder.add(b"a")
    with pytest.raises(BufferError, match="still open"):
        memoryview(encoder)
    with memoryview(encoder.finish()) as lent:
        assert not lent.readonly  # the log sets offsets in it
        with pytest.raises(BufferError, match="still in use"):
            encoder.begin(timestamp_ms=0)
        with pytest.raises(BufferError, match="still in use"):
            encoder.add(bytes(100_000))
        assert bytes(lent) == encode([b"a"], timestamp_ms=0)
    encoder.begin(timestamp_ms=0)
    assert bytes(encoder.finish()) == b""


def test_the_buffer_is_used_again_and_starts_again() -> None:
    encoder = Encoder()
    for _ in range(3):
        encoder.begin(timestamp_ms=3, codec=Codec.LZ4, transactional=True, producer_id=1, base_sequence=0)
        encoder.add_all([b"x" * 40_000, (b"k", None)])
        encoder.begin(timestamp_ms=5)
        assert (encoder.pending_bytes, encoder.pending_records, encoder.max_timestamp_ms) == (0, 0, -1)
        encoder.add_all([b"a", b"b"])
        assert bytes(encoder.finish()) == encode([b"a", b"b"], timestamp_ms=5)
        assert repr(encoder) == f"<Encoder 1 batches, {len(encoder)} bytes>"


def test_a_failed_append_does_not_spoil_the_next_one() -> None:
    encoder = Encoder().begin(timestamp_ms=0)
    with pytest.raises(RecordError):
        encoder.add_all([b"a", "text"])  # type: ignore[list-item]
    encoder.begin(timestamp_ms=0)
    encoder.add_all([b"b"])
    assert bytes(encoder.finish()) == encode([b"b"], timestamp_ms=0)


def test_records_of_one_log_are_appended_to_another() -> None:
    rows = [(b"k", b"v", 5, [("h", None)]), (None, None, 6, [])]
    read = Batches(encode(rows, timestamp_ms=0, codec=Codec.ZSTD)).records()
    assert encode(read, timestamp_ms=9) == encode(rows, timestamp_ms=9)
    assert encode([Record("t", 0, 9, 5, 0, b"k", b"v")], timestamp_ms=1) == encode([(b"k", b"v", 5)])
