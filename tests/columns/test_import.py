"""Rows of Arrow and numpy arrays become the same records as the same rows in Python."""

from __future__ import annotations

import ctypes
import gc
import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.batch._batch import Batches
from logstore.batch._encode import Encoder, encode
from logstore.columns._export import ColumnStream, columns_of
from logstore.columns._import import add_arrow, add_numpy
from logstore.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedOffsetError,
)
from logstore.records import Codec

DEFAULT_MS = 1_234
ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BYTES_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
bytes_types = st.sampled_from(BYTES_TYPES)
sizes = st.one_of(
    st.none(), st.binary(max_size=70), st.integers(0, 9_000).map(lambda size: b"z" * size), st.just(b"")
)


def encoder(**settings: Any) -> Encoder:
    return Encoder().begin(timestamp_ms=DEFAULT_MS, **settings)


def encoded(data: Any, **settings: Any) -> bytes:
    target = encoder(**settings)
    assert add_arrow(target, data) == target.pending_records
    return bytes(target.finish())


def values_of(data: Any) -> list[bytes | None]:
    return Batches(encoded(data)).values()


def tuples_of(data: Any) -> list[Any]:
    """(key, value, timestamp, headers) of each row, by way of an encoded batch."""
    return [
        (record.key, record.value, record.timestamp_ms, list(record.headers)) for record in Batches(encoded(data))
    ]


# --- values ------------------------------------------------------------------------------------


@pytest.mark.row("D1")
@given(st.lists(sizes, max_size=40), bytes_types, st.data())
def test_values_alone_are_encoded_byte_for_byte_as_from_a_list(
    values: list[Any], kind: Any, data: st.DataObject
) -> None:
    array = pa.array(values, kind)
    start = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(start, len(values)))
    codec = data.draw(st.sampled_from(Codec))
    limit = data.draw(st.sampled_from([9_200, 20_000, 1 << 20]))
    part = [(None, value) for value in values[start:end]]
    settings: dict[str, Any] = {"codec": codec, "max_batch_bytes": limit}
    assert encoded(array[start:end], **settings) == encode(part, timestamp_ms=DEFAULT_MS, **settings)


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_text_gives_its_utf8(kind: Any) -> None:
    assert values_of(pa.array(["é", None, "", "long " * 9], kind)) == ["é".encode(), None, b"", b"long " * 9]


def test_fixed_size_binary_keeps_its_width() -> None:
    array = pa.array([b"abc", None, b"d\0\0"], pa.binary(3))
    assert values_of(array) == [b"abc", None, b"d\0\0"]
    assert values_of(array[1:]) == [None, b"d\0\0"]
    assert values_of(pa.array([b"", b""], pa.binary(0))) == [b"", b""]


def test_chunks_follow_one_another() -> None:
    chunked = pa.chunked_array([[b"a", b"b"], [], [b"c", None]], pa.binary())
    assert values_of(chunked) == [b"a", b"b", b"c", None]
    table = pa.table({"value": chunked, "key": pa.chunked_array([[b"1"], [b"2", b"3", b"4"]])})
    assert [row[:2] for row in tuples_of(table)] == [(b"1", b"a"), (b"2", b"b"), (b"3", b"c"), (b"4", None)]
    assert tuples_of(table.slice(1, 2)) == tuples_of(table)[1:3]


def test_nothing_gives_nothing() -> None:
    for data in (
        pa.array([], pa.binary()),
        pa.array([b"a"])[1:],
        pa.chunked_array([], pa.binary()),
        pa.table({"value": pa.array([], pa.binary_view()), "headers": pa.array([], HEADERS)}),
    ):
        assert encoded(data) == b""


@pytest.mark.parametrize("size", [0, 1, 35, 36, 37, 38, 58, 59, 60, 63, 64, 65, 8162, 8164, 8166, 8190, 70_000])
@pytest.mark.parametrize("keyed", [False, True])
def test_lengths_take_as_many_bytes_as_they_need(size: int, keyed: bool) -> None:
    records = [(b"k" * (size // 3) if keyed else None, b"v" * (size - size // 3 * keyed), n * n) for n in range(70)]
    table = pa.table(
        {
            "key": pa.array([record[0] for record in records], pa.binary()),
            "value": [record[1] for record in records],
            "timestamp": [record[2] for record in records],
        }
    )
    assert encoded(table) == encode(records, max_batch_bytes=1_048_588)


@pytest.mark.parametrize("limit", range(200, 330))
def test_batches_end_where_those_of_a_list_end(limit: int) -> None:
    values = [b"v" * (n * 7 % 61) for n in range(40)]
    assert encoded(pa.array(values), max_batch_bytes=limit) == encode(
        values, timestamp_ms=DEFAULT_MS, max_batch_bytes=limit
    )


def test_rows_mix_with_other_records_of_an_append() -> None:
    target = encoder()
    target.add(b"first")
    assert add_arrow(target, pa.array([b"a", b"b"])) == 2
    target.add(b"middle", key=b"k")
    add_arrow(target, pa.table({"value": [b"c"], "timestamp": [99_999]}))
    assert target.null_keys == 4
    assert (target.min_timestamp_ms, target.finish().max_timestamp_ms) == (DEFAULT_MS, 99_999)
    assert Batches(bytes(target)).values() == [b"first", b"a", b"b", b"middle", b"c"]


# --- rows --------------------------------------------------------------------------------------

rows = st.lists(
    st.tuples(
        sizes,
        sizes,
        st.one_of(st.none(), st.integers(-1, 2**60)),
        st.lists(st.tuples(st.text(max_size=9), st.one_of(st.none(), st.binary(max_size=99))), max_size=3),
    ),
    max_size=20,
)


@pytest.mark.row("D1", "M9")
@given(rows, bytes_types, bytes_types, st.sampled_from(TEXT_TYPES), st.booleans(), st.data())
def test_rows_are_encoded_byte_for_byte_as_from_tuples(
    records: list[Any], keys: Any, values: Any, names: Any, large: bool, data: st.DataObject
) -> None:
    items = pa.struct([("value", data.draw(bytes_types)), ("key", names)])
    lists = pa.large_list(items) if large else pa.list_(items)
    headers = [[{"key": key, "value": value} for key, value in row[3]] or None for row in records]
    struct = pa.StructArray.from_arrays(
        [
            pa.array(headers, lists),
            pa.array([row[1] for row in records], values),
            pa.array([row[2] for row in records], pa.timestamp("ms", "UTC")),
            pa.array([row[0] for row in records], keys),
        ],
        ["headers", "value", "timestamp", "key"],
    )
    start = data.draw(st.integers(0, len(records)))
    part, sliced = records[start:], struct[start:]
    wanted = encode(part, timestamp_ms=DEFAULT_MS, max_batch_bytes=1_048_588)
    assert encoded(sliced) == wanted
    batch = pa.RecordBatch.from_struct_array(struct)
    assert encoded(batch.slice(start)) == wanted
    assert encoded(pa.Table.from_batches([batch]).slice(start)) == wanted


@pytest.mark.row("M9")
@pytest.mark.parametrize("views", [False, True], ids=["binary", "view"])
@given(records=rows, codec=st.sampled_from(Codec))
def test_what_was_read_can_be_added_as_it_is(views: bool, records: list[Any], codec: Codec) -> None:
    batch = encode(records, timestamp_ms=DEFAULT_MS, codec=codec, max_batch_bytes=1_048_588)
    batches = Batches(batch, topic="flights", partition=1)
    settings = {"codec": codec}
    assert encoded(columns_of(batches, ALL, views=views), **settings) == batch
    assert encoded(ColumnStream([batches], ALL, views=views), **settings) == batch


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_timestamps_of_every_unit_become_milliseconds(zone: str | None) -> None:
    for unit, per_ms in (("ms", 1), ("us", 1_000), ("ns", 1_000_000)):
        times = pa.array([0, 5 * per_ms, 6 * per_ms - 1, None, -per_ms], pa.timestamp(unit, zone))
        table = pa.table({"value": [b""] * 5, "timestamp": times})
        assert [row[2] for row in tuples_of(table)] == [0, 5, 5, DEFAULT_MS, -1]
    seconds = pa.table({"value": [b""], "timestamp": pa.array([7], pa.timestamp("s", zone))})
    assert tuples_of(seconds)[0][2] == 7_000
    plain = pa.table({"value": [b"", b""], "timestamp": pa.array([7, None], pa.int64())})
    assert [row[2] for row in tuples_of(plain)] == [7, DEFAULT_MS]


@pytest.mark.parametrize(
    ("unit", "time"), [("ms", -2), ("s", -1), ("us", -1), ("us", -2000), ("ns", -1), ("s", 2**63 // 1000 + 1)]
)
def test_a_time_before_1970_or_too_large_is_refused_with_its_row(unit: str, time: int) -> None:
    times = pa.array([0, time], pa.int64()).cast(pa.timestamp(unit))
    with pytest.raises(InvalidTimestampError) as caught:
        encoded(pa.table({"value": [b"a", b"b"], "timestamp": times}))
    assert caught.value.__notes__ == ["in record 1 of this append"]


@settings(max_examples=80)
@given(
    steps=st.lists(
        st.tuples(st.one_of(st.integers(1, 3), st.integers(1, 1 << 33)), st.binary(max_size=30)),
        min_size=1,
        max_size=60,
    ),
    first=st.integers(0, 1 << 40),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    limit=st.sampled_from([120, 400, 1 << 20]),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
)
def test_offsets_are_kept_with_their_gaps(
    steps: list[tuple[int, bytes]], first: int, cuts: list[int], limit: int, codec: Codec
) -> None:
    offsets = list(itertools.accumulate((step for step, _ in steps), initial=first - steps[0][0]))[1:]
    table = pa.table({"value": pa.array([value for _, value in steps], pa.binary()), "offset": offsets})
    target = encoder(keep_offsets=True, max_batch_bytes=limit, codec=codec)
    written = b""
    for start, end in itertools.pairwise([0, *sorted(cuts), 60]):
        add_arrow(target, table.slice(start, end - start))
        if end % 2:
            written += bytes(target.finish())
            target.renew(DEFAULT_MS)
    written += bytes(target.finish())
    found = [(record.offset, record.value) for record in Batches(written)]
    assert found == list(zip(offsets, (value for _, value in steps), strict=True))


@pytest.mark.parametrize("offsets", [[3, 3], [3, 2], [1 << 40, 7]])
def test_a_kept_offset_that_does_not_rise_is_refused_with_its_row(offsets: list[int]) -> None:
    target = encoder(keep_offsets=True)
    with pytest.raises(
        UnexpectedOffsetError, match=f"offset {offsets[1]} comes after offset {offsets[0]}"
    ) as caught:
        add_arrow(target, pa.table({"value": [b"a", b"b"], "offset": offsets}))
    assert caught.value.__notes__ == ["in record 1 of this append"]
    # Nor does it in the next piece.
    with pytest.raises(UnexpectedOffsetError):
        add_arrow(target, pa.table({"value": [b"b"], "offset": offsets[1:]}))
    assert target.pending_records == 1


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([None], pa.int64()), "null, negative or too large"),
        (pa.array([-1], pa.int64()), "null, negative or too large"),
        (pa.array([2**63 - 2**31], pa.int64()), "null, negative or too large"),
        (pa.array([1], pa.int32()), "the column offset of type int64 is missing"),
        (None, "the column offset of type int64 is missing"),
    ],
)
def test_offsets_that_are_to_be_kept_have_to_be_there(column: Any, message: str) -> None:
    columns = {"value": [b"a"]} | ({} if column is None else {"offset": column})
    with pytest.raises(RecordTypeError, match=message):
        add_arrow(encoder(keep_offsets=True), pa.table(columns))
    if column is not None:
        assert add_arrow(encoder(), pa.table(columns)) == 1


def test_records_without_offsets_are_refused_where_offsets_are_kept() -> None:
    with pytest.raises(UnexpectedOffsetError):
        encoder(keep_offsets=True).add(b"a")


def test_headers_may_be_a_map_and_may_be_missing() -> None:
    column = pa.array([[("a", b"1"), ("a", None)], None, []], pa.map_(pa.string(), pa.binary()))
    table = pa.table({"value": [b"x"] * 3, "headers": column})
    assert [row[3] for row in tuples_of(table)] == [[("a", b"1"), ("a", None)], [], []]
    assert [row[3] for row in tuples_of(table.slice(1))] == [[], []]
    absent = pa.table({"value": [b"x"], "headers": pa.nulls(1), "key": pa.nulls(1)})
    assert tuples_of(absent) == [(None, b"x", DEFAULT_MS, [])]


def test_headers_larger_than_the_space_for_them_find_space() -> None:
    headers = [[{"key": "k" * n, "value": b"v" * n}] for n in (1, 5_000, 3, 60_000, 70_000)]
    table = pa.table({"value": [b"x"] * 5, "headers": pa.array(headers, HEADERS)})
    assert [[len(value) for _, value in row[3]] for row in tuples_of(table)] == [
        [1],
        [5_000],
        [3],
        [60_000],
        [70_000],
    ]


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.array([1]), "records cannot be made of int64; accepted are binary, large_binary"),
        (pa.array([1.0]), "float64"),
        (pa.array([None]), "records cannot be made of null"),
        (pa.array([[b"a"]]), "of list"),
        (pa.array(["a", "b"]).dictionary_encode(), "dictionary<utf8>"),
        (pa.table({"key": [b"a"]}), "the data has no column value"),
        (pa.table({"value": [b"a"], "colour": [b"a"], "size": [1]}), r"the unknown column\(s\) colour, size"),
        (pa.table([[b"a"], [b"b"]], names=["value", "value"]), "value stands there twice"),
        (pa.table({"value": [1]}), "the column value has the type int64; accepted are binary"),
        (pa.table({"value": [b"a"], "key": [True]}), "the column key has the type bool"),
        (pa.table({"value": [b"a"], "timestamp": ["now"]}), "timestamp of any unit, and int64 milliseconds"),
        (
            pa.table({"value": [b"a"], "headers": [[b"a"]]}),
            "headers has the type list; accepted are a list of",
        ),
        (
            pa.table({"value": [b"a"], "headers": [[{"key": b"a", "value": b"a"}]]}),
            "key of headers has the type bin",
        ),
        (
            pa.table({"value": [b"a"], "headers": [[{"key": "a", "value": 1}]]}),
            "value of headers has the type int64",
        ),
        (
            pa.table({"value": [b"a"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}),
            "header or its",
        ),
        (pa.table({"value": [b"a"], "headers": pa.array([[None]], HEADERS)}), "header or its key is null"),
        (pa.array([{"value": b"a"}, None]), "the row itself is null"),
        ([b"a"], "the data is a list, which has neither __arrow_c_array__ nor __arrow_c_stream__"),
        (b"a", "the data is a bytes"),
    ],
    ids=lambda value: None if isinstance(value, str) else "",
)
def test_what_cannot_be_records_is_refused_and_released(data: Any, message: str) -> None:
    gc.collect()
    held = pa.total_allocated_bytes()
    for _ in range(3):
        with pytest.raises(RecordTypeError, match=message):
            encoded(data)
    gc.collect()
    assert pa.total_allocated_bytes() == held


def test_a_record_too_large_is_refused_with_its_row() -> None:
    chunked = pa.chunked_array([[b"a", b"b"], [b"c", b"x" * 500]])
    with pytest.raises(RecordTooLargeError) as caught:
        encoded(chunked, max_batch_bytes=300)
    assert caught.value.__notes__ == ["in record 3 of this append"]


def test_an_error_of_the_stream_keeps_its_text() -> None:
    def chunks() -> Iterator[Batches]:
        yield Batches(encode([b"a"]))
        raise ValueError("the source broke")

    with pytest.raises(RecordError, match="ValueError: the source broke") as caught:
        encoded(ColumnStream(chunks()))
    assert isinstance(caught.value.__cause__, OSError)


# --- arrays made by hand: what no library would make ---------------------------------------------


class CArray(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Spoilt:
    """An exported array, changed through ctypes before it is handed over."""

    def __init__(self, array: Any, **fields: int) -> None:
        self._array = array
        self._fields_ = fields
        self._buffers = {
            int(name[1:]): value for name, value in fields.items() if name[0] == "b" and name[1:].isdigit()
        }

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, capsule = self._array.__arrow_c_array__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        array = CArray.from_address(get(capsule, b"arrow_array"))
        for name, value in self._fields_.items():
            if hasattr(CArray, name):
                setattr(array, name, value)
        for place, address in self._buffers.items():
            array.buffers[place] = address
        return schema, capsule


@pytest.mark.parametrize(
    ("starts", "good"), [([0, 1, 2], True), ([1, 1, 2], True), ([0, 2, 1], False), ([-1, 1, 2], False)]
)
@pytest.mark.parametrize("kind", [ctypes.c_int32, ctypes.c_int64])
def test_offsets_that_fall_are_refused(starts: list[int], good: bool, kind: Any) -> None:
    array = pa.array([b"a", b"b"], pa.binary() if kind is ctypes.c_int32 else pa.large_binary())
    memory = (kind * 3)(*starts)
    spoilt = Spoilt(array, b1=ctypes.addressof(memory))
    if good:
        assert b"".join(value or b"" for value in values_of(spoilt)) == b"ab"[starts[0] :]
    else:
        with pytest.raises(InvalidRecordError, match="below the one before it"):
            values_of(spoilt)


@pytest.mark.parametrize("words", [[20, 0, 1, 0], [20, 0, -1, 0], [20, 0, 0, -1], [20, 0, 0, 5], [-1, 0, 0, 0]])
def test_views_outside_their_buffers_are_refused(words: list[int]) -> None:
    array = pa.array([b"x" * 20], pa.binary_view())
    memory = (ctypes.c_int32 * 4)(*words)
    with pytest.raises(InvalidRecordError, match="points outside"):
        values_of(Spoilt(array, b1=ctypes.addressof(memory)))


def test_a_view_into_a_buffer_that_is_missing_is_refused() -> None:
    """Found by fuzzing: sizes that promised bytes of a buffer at NULL ended the process."""
    array = pa.array([b"short", b"x" * 20], pa.binary_view())
    with pytest.raises(InvalidRecordError, match="points outside"):
        values_of(Spoilt(array, b2=0))


@pytest.mark.parametrize("size", [-(2**63), -1, 0, 19])
def test_a_view_into_a_buffer_of_an_impossible_size_is_refused(size: int) -> None:
    array = pa.array([b"x" * 20], pa.binary_view())
    memory = ctypes.c_int64(size)
    with pytest.raises(InvalidRecordError, match="points outside"):
        values_of(Spoilt(array, b3=ctypes.addressof(memory)))


@pytest.mark.parametrize(
    "width", [b"2147483648", b"9223372036854775807", b"9" * 30, b"9" * 5_000, b"-1", b"", b"x"]
)
def test_a_width_that_no_type_has_is_refused(width: bytes) -> None:
    """Found by fuzzing: a width of 2^63-1 was believed, and larger ones were no error of ours."""
    kept = pa.array([b"abc"], pa.binary(3)).__arrow_c_array__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    text = ctypes.create_string_buffer(b"w:" + width)
    ctypes.c_void_p.from_address(get(kept[0], b"arrow_schema")).value = ctypes.addressof(text)

    class Wide:
        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return kept

    with pytest.raises(RecordTypeError, match="the format"):
        values_of(Wide())


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"a", None, b"longer than twelve"], kind)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    ],
    ids=lambda array: str(array.type),
)
def test_buffers_need_not_be_aligned(array: Any) -> None:
    buffer = array.buffers()[1]
    memory = ctypes.create_string_buffer(b"?" + buffer.to_pybytes() + bytes(8))
    assert values_of(Spoilt(array, b1=ctypes.addressof(memory) + 1)) == array.to_pylist()


@pytest.mark.parametrize(
    "fields", [{"length": -1}, {"offset": -1}, {"n_buffers": 2}, {"b1": 0}, {"offset": 2**63 - 1}, {"b2": 0}]
)
def test_structs_that_are_no_arrays_are_refused(fields: dict[str, int]) -> None:
    array = pa.array([b"abc"])
    if fields == {"n_buffers": 2}:
        array = array.cast(pa.binary_view())
    with pytest.raises((RecordTypeError, InvalidRecordError)):
        values_of(Spoilt(array, **fields))


def test_an_array_that_was_released_is_refused() -> None:
    class Twice:
        def __init__(self) -> None:
            self.capsules = pa.array([b"a"]).__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return self.capsules

    source = Twice()
    assert values_of(source) == [b"a"]
    with pytest.raises(RecordTypeError, match="released before"):
        values_of(source)


# --- numpy -------------------------------------------------------------------------------------


def numpy_values(array: Any) -> list[bytes | None]:
    target = encoder()
    assert add_numpy(target, array) == len(array)
    return Batches(bytes(target.finish())).values()


@pytest.mark.row("D1")
def test_fixed_width_arrays_give_a_value_for_each_item() -> None:
    assert numpy_values(np.array([b"abc", b"d", b""])) == [b"abc", b"d\0\0", b"\0\0\0"]
    assert numpy_values(np.array([b"abc", b"def"]).view("V3")) == [b"abc", b"def"]
    matrix = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert numpy_values(matrix) == [bytes(row) for row in matrix]
    assert numpy_values(np.array([b"a", b"b"], "S1")) == [b"a", b"b"]
    assert numpy_values(np.zeros((0, 5), np.uint8)) == []
    assert numpy_values(np.zeros((3, 0), np.uint8)) == [b"", b"", b""]
    assert numpy_values(memoryview(b"abcdef").cast("B", (2, 3))) == [b"abc", b"def"]


def test_slices_need_no_copy_as_long_as_rows_are_whole() -> None:
    matrix = np.arange(40, dtype=np.uint8).reshape(8, 5)
    for part in (
        matrix[::2],
        matrix[::-1],
        matrix[1:, 1:3],
        matrix[::3, :1],
        np.broadcast_to(matrix[0], (3, 5)),
    ):
        assert numpy_values(part) == [bytes(row) for row in part]
    words = np.array([b"ab", b"cd", b"ef"])
    assert numpy_values(words[::-2]) == [b"ef", b"ab"]
    with pytest.raises(RecordTypeError, match="ascontiguousarray"):
        numpy_values(matrix[:, ::2])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.array([b"a"], object),
            r"the array is a ndarray object of 1 dimension\(s\); .*add_all\(array.tolist\(\)\)",
        ),
        (np.array(["a"]), "the array is a ndarray <U1"),
        (np.array([1, 2]), "int64"),
        (np.zeros(4, np.uint8), r"uint8 of 1 dimension"),
        (np.zeros((2, 2), np.int32), "int32 of 2"),
        (np.zeros((2, 2, 2), np.uint8), "3 dimension"),
        (np.zeros(2, "i4,i4"), "ndarray"),
        (np.zeros(2, "M8[ms]"), "offers no such buffer"),
        (np.array([[b"ab"]]), "2 dimension"),
        (b"bytes", "the array is a bytes of 1 dimension"),
        ([b"a"], "the array is a list, which offers no such buffer"),
        ("text", "the array is a str"),
    ],
)
def test_other_arrays_are_refused_with_what_is_accepted(array: Any, message: str) -> None:
    with pytest.raises(RecordTypeError, match=message) as caught:
        numpy_values(array)
    assert "accepted are a 1-D array of fixed-size bytes" in str(caught.value)


# --- little garbage ----------------------------------------------------------------------------


def test_neither_numpy_nor_an_arrow_library_is_imported() -> None:
    code = (
        "import logstore.columns._import, logstore.columns._export, sys; "
        "print(sorted({'numpy', 'pyarrow', 'polars', 'pandas'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.row("S11")
def test_no_object_is_made_for_a_record() -> None:
    target = encoder(max_batch_bytes=1 << 24)

    def blocks(data: Any) -> int:
        add_arrow(target, data)
        target.begin(timestamp_ms=1, max_batch_bytes=1 << 24)
        before = sys.getallocatedblocks()
        add_arrow(target, data)
        return sys.getallocatedblocks() - before

    def table(count: int) -> Any:
        headers = pa.array([[{"key": "a", "value": b"b"}]] * count, HEADERS)
        return pa.RecordBatch.from_pydict({"key": [b"k"] * count, "value": [b"v"] * count, "headers": headers})

    assert blocks(table(20_000)) <= max(blocks(table(10)), 5)


@pytest.mark.row("S11")
@pytest.mark.parametrize("use", ["array", "table", "refused", "half", "numpy", "ours"])
def test_nothing_leaks(use: str) -> None:
    import psutil

    values = pa.array([b"value" * 20] * 1000)
    headers = pa.array([[{"key": "a", "value": b"b" * 100}]] * 1000, HEADERS)
    table = pa.table({"value": values, "headers": headers})
    half = pa.table({"value": values, "timestamp": [0] * 999 + [-5]})
    matrix = np.zeros((1000, 100), np.uint8)
    batches = Batches(encode([b"value" * 20] * 1000))
    target = Encoder()

    def once() -> None:
        target.begin(timestamp_ms=1)
        if use == "array":
            add_arrow(target, values)
        elif use == "table":
            add_arrow(target, table)
        elif use == "refused":
            with pytest.raises(RecordTypeError):
                add_arrow(target, table.rename_columns(["value", "other"]))
        elif use == "half":
            with pytest.raises(InvalidTimestampError):
                add_arrow(target, half)
        elif use == "numpy":
            add_numpy(target, matrix)
        else:
            add_arrow(target, ColumnStream([batches]))

    for _ in range(100):
        once()
    gc.collect()
    blocks, resident = sys.getallocatedblocks(), psutil.Process().memory_info().rss
    arrow = pa.total_allocated_bytes()
    for _ in range(1000):
        once()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 100
    assert pa.total_allocated_bytes() == arrow
    assert psutil.Process().memory_info().rss - resident < 16 << 20


# --- every writer ------------------------------------------------------------------------------


@pytest.mark.row("M9")
def test_polars_gives_records() -> None:
    import polars as pl

    frame = pl.DataFrame({"key": ["a", None], "value": [b"1" * 30, b"2"]})
    assert [row[:2] for row in tuples_of(frame)] == [(b"a", b"1" * 30), (None, b"2")]
    assert values_of(frame["value"]) == [b"1" * 30, b"2"]
    assert values_of(pl.Series(["x", "y"])) == [b"x", b"y"]


@pytest.mark.row("M9")
def test_duckdb_gives_records() -> None:
    import duckdb

    relation = duckdb.sql(
        "select 'k' || i as key, ('v' || i)::blob as value, make_timestamp(i * 1000) as timestamp, "
        "map {'h': ('x' || i)::blob} as headers from range(5000) t(i)"
    )
    found = tuples_of(relation)
    assert len(found) == 5000
    assert found[4321] == (b"k4321", b"v4321", 4321, [("h", b"x4321")])


@pytest.mark.row("M9")
def test_pandas_gives_records() -> None:
    import pandas as pd

    frame = pd.DataFrame({"key": ["a", None], "value": [b"1", b"2"]})
    assert [row[:2] for row in tuples_of(frame)] == [(b"a", b"1"), (None, b"2")]


@pytest.mark.row("M9")
def test_arro3_and_nanoarrow_give_records() -> None:
    import arro3.core as arro3
    import nanoarrow as na

    assert values_of(arro3.Array.from_arrow(pa.array([b"a", None]))) == [b"a", None]
    assert values_of(na.c_array([b"a", None, b"c"], na.binary())) == [b"a", None, b"c"]
