"""Decoded columns hold what `json` and `struct` say, and nothing that they would refuse."""

from __future__ import annotations

import base64
import datetime
import json
import math
import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.columns._export import ColumnStream, columns_of
from logstore.columns._values import WORDS, JsonDecoder, StructDecoder
from logstore.columns.value_schema import decoder_of
from logstore.errors import PayloadError, RecordError

keys = st.sampled_from(["a", "b", "a.b", "é", "", "long key 123456789", "\\", '"'])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
trees = st.recursive(
    leaves, lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(keys, below, max_size=4))
)
objects = st.dictionaries(keys, trees, max_size=6)
writers = st.sampled_from(
    [
        {},
        {"ensure_ascii": False},
        {"indent": 2},
        {"separators": (",", ":")},
        {"indent": "\t", "separators": (" , ", "\r:")},
    ]
)


def run_of(*values: bytes | None, codec: int = 0, **bounds: Any) -> Batches:
    return Batches(
        encode([(None, value, 1) for value in values], codec=codec), topic="flights", partition=3, **bounds
    )


def decoded(
    schema: Any, *values: bytes | None, on_error: str = "raise", views: bool = False
) -> list[dict[str, Any]]:
    """The fields of values, one dictionary for each."""
    names, narrowed = decoder_of(schema, on_error)
    batch = pa.record_batch(columns_of(run_of(*values), names, decoder=narrowed(names), views=views))
    batch.validate(full=True)
    return batch.to_pylist()  # type: ignore[no-any-return]


def one(word: str, text: str, **choices: Any) -> Any:
    """What a field of a type holds, of a JSON value as text."""
    (row,) = decoded({"a": word}, b'{"a": ' + text.encode() + b"}", **choices)
    return row["a"]


def load(text: bytes) -> Any:
    """What RFC 8259 says, by Python's own parser."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text.decode("utf-8"), parse_constant=refuse)


# --- JSON beside Python's parser ---------------------------------------------------------------


@given(st.lists(st.one_of(st.none(), objects), max_size=8), writers, st.booleans())
def test_every_field_is_what_pythons_parser_finds(rows: list[Any], writer: Any, views: bool) -> None:
    values = [None if row is None else json.dumps(row, **writer).encode() for row in rows]
    schema = {f"c{n}": ("json", "/" + key.replace("~", "~0").replace("/", "~1")) for n, key in enumerate(KEYS)}
    found = decoded(schema, *values, views=views)
    for row, columns in zip(rows, found, strict=True):
        for n, key in enumerate(KEYS):
            raw = columns[f"c{n}"]
            expected = None if row is None else row.get(key)
            assert (None if raw is None else json.loads(raw)) == expected


KEYS = ["a", "b", "a.b", "é", "", "long key 123456789", "\\", '"']

#: Ends of what JSON allows, one after the other.
PIECES = (
    *rb"""{ } [ ] : , " \ \u00e9 \ud83d \ude00 0 1 - .5 e1 E+ true false null nul NaN -Infinity "a":""".split(),
    *(b'"a":1', b"/**/", b"'a'", b"01", b"1.", b" ", b"\n", b"\0", b"\x0b", b"\x1f"),
    *(b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
)
pieces = st.sampled_from(PIECES)


@given(objects, st.lists(st.tuples(st.floats(0, 1), st.booleans(), pieces), max_size=4))
@example({}, [(0.5, False, b'"a":01')])
@example({}, [(0.5, False, b'"a":1,')])
@example({}, [(0.5, False, b'"a":[1,]')])
@example({}, [(1.0, False, b"\xef\xbb\xbf")])
def test_a_text_is_refused_exactly_where_pythons_parser_refuses_it(row: Any, changes: list[Any]) -> None:
    text = bytearray(json.dumps(row, ensure_ascii=False).encode())
    for where, replace, piece in changes:
        place = int(where * len(text))
        text[place : place + replace * len(piece)] = piece
    try:
        found = load(bytes(text))
    except ValueError:
        found = None
    if isinstance(found, dict):
        (columns,) = decoded({"a": "json"}, bytes(text))
        expected = found.get("a")
        assert (None if columns["a"] is None else json.loads(columns["a"])) == expected
    else:
        with pytest.raises(PayloadError, match=r"flights-3: the value is no JSON object, .*\[offset 0\]"):
            decoded({"a": "json"}, bytes(text))
        assert decoded({"a": "json"}, bytes(text), on_error="null") == [{"a": None}]


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**200), 2**200)))
@example(0.1)
@example(5e-324)
@example(2**53 + 1)
@example(-0.0)
@example(9007199254740993.0)
def test_numbers_are_the_nearest_doubles(number: float) -> None:
    text = repr(number)
    found = one("float64", text)
    assert struct.pack("<d", found) == struct.pack("<d", float(text))


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("1e999")
@example("-1e999")
@example("1" + "0" * 400)
@example("0." + "0" * 400 + "1")
@example("0e99999999999999999999")
@example("1e-99999999999999999999")
def test_numbers_in_every_writing_are_the_nearest_doubles(text: str) -> None:
    assert struct.pack("<d", one("float64", text)) == struct.pack("<d", float(text))


def test_many_doubles_are_the_nearest() -> None:
    """Those with 15 to 17 digits, as programs write them, go the quick way."""
    rng = random.Random(1)
    numbers = [rng.uniform(-1, 1) * 10 ** rng.randrange(-20, 20) for _ in range(20_000)]
    rows = decoded({"a": "float64"}, *(b'{"a":%s}' % repr(number).encode() for number in numbers))
    assert [row["a"] for row in rows] == numbers


@given(st.integers(-(2**65), 2**65))
@example(2**63 - 1)
@example(2**63)
@example(-(2**63))
@example(-(2**63) - 1)
def test_whole_numbers_are_exact_or_refused(number: int) -> None:
    for word, bits in (("int64", 63), ("int32", 31), ("timestamp_ms", 63)):
        if word == "timestamp_ms":
            assert one(word, str(number % 10**12)) == datetime.datetime.fromtimestamp(
                number % 10**12 / 1000, datetime.UTC
            )
        elif -(2**bits) <= number < 2**bits:
            assert one(word, str(number)) == number
        else:
            with pytest.raises(PayloadError, match=f"fits {bits + 1} bits, found {number}"):
                one(word, str(number))


def test_a_whole_number_may_be_written_with_a_fraction_or_an_exponent() -> None:
    assert [one("int64", text) for text in ("2.0", "-3.00", "1e3", "1.5e1", "-0.0", "0e5")] == [
        2,
        -3,
        1000,
        15,
        0,
        0,
    ]
    for text in ("2.5", "1e-1", "1e300", "9007199254740994.0", '"2"', "true", "[2]", "{}"):
        with pytest.raises(PayloadError, match="field 'a': expected a whole number"):
            one("int64", text)


@given(st.text())
def test_strings_are_those_of_pythons_parser(text: str) -> None:
    assert one("string", json.dumps(text)) == text
    assert one("string", json.dumps(text, ensure_ascii=False)) == text


@pytest.mark.parametrize(
    "escape", [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud83dx", r"\ud83d\n", r"\udc00\ud800"]
)
def test_half_a_character_is_none(escape: str) -> None:
    with pytest.raises(PayloadError, match=r"field 'a': expected a string.*half a surrogate pair"):
        one("string", f'"x{escape}"')
    assert one("string", f'"x{escape}"', on_error="null") is None
    assert one("json", f'"x{escape}"') == f'"x{escape}"'  # as it stands
    # Where no caller asks for it, it is JSON like any other.
    assert decoded({"b": "int64"}, b'{"%s": "%s", "b": 1}' % (escape.encode(), escape.encode())) == [{"b": 1}]


@given(st.binary(max_size=50), st.booleans())
def test_binary_is_base64(data: bytes, escaped: bool) -> None:
    text = base64.b64encode(data).decode()
    assert one("binary", '"' + (text.replace("/", r"\/") if escaped else text) + '"') == data


@pytest.mark.parametrize("text", ["a", "ab", "abc", "ab=c", "a===", "====", "ab==ab==", "ab-_", "ab c", "é==="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match="expected a string in base64"):
        one("binary", f'"{text}"')


@given(
    st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)),
    st.integers(-23 * 60, 23 * 60),
    st.sampled_from("Tt "),
)
def test_times_and_dates_are_those_of_pythons_calendar(
    moment: datetime.datetime, minutes: int, between: str
) -> None:
    aware = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=minutes)))
    text = aware.isoformat().replace("T", between)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    batch = pa.record_batch(
        columns_of(run_of(b'{"a":"%s"}' % text.encode()), ["a"], decoder=decoder_of({"a": "timestamp"})[1](["a"]))
    )
    assert batch["a"].cast(pa.int64()).to_pylist() == [(aware - epoch) // datetime.timedelta(microseconds=1)]
    assert one("date", f'"{moment.date().isoformat()}"') == moment.date()


@pytest.mark.parametrize(
    "text",
    """2013-01-01|2013-01-01T05:00:00|2013-02-29T05:00:00Z|2013-13-01T05:00:00Z|2013-01-01T24:00:00Z
    2013-01-01T05:60:00Z|2013-01-01T05:00:60Z|2013-01-01T05:00:00.Z|2013-01-01T05:00:00+24:00|1
    0000-01-01T05:00:00Z|2013-01-01T05:00:00Zx|2013-01-01X05:00:00Z|2013-1-01T005:00:00Z|""".replace(
        "\n    ", "|"
    ).split("|"),
)
def test_a_time_without_its_offset_or_out_of_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match="offset from UTC, such as"):
        one("timestamp", f'"{text}"')
    assert one("timestamp", f'"{text}"', on_error="null") is None


def test_every_type_says_what_it_expected() -> None:
    for word in set(WORDS) - {"json"}:
        for text in ("[]", "{}", '"?"', "1.5", "true"):
            try:
                one(word, text)
            except PayloadError as error:
                assert str(error).startswith(f"flights-3: field 'a': expected ")  # noqa: F541
                assert error.code == 87
                assert isinstance(error, RecordError)
                assert one(word, text, on_error="null") is None
                break
        else:
            pytest.fail(f"{word} takes everything")


# --- which value of which object -----------------------------------------------------------------


def test_paths_lead_through_objects_and_not_through_lists() -> None:
    schema = {
        "a": "json", "a.b": "int64", "a.c.d": "int64", "dotted": ("int64", "/a.b"), "slash": ("int64", "/s~1t/~0"),
        "twice": ("int64", "a.b"),
    }  # fmt: skip
    text = b'{"a": {"b": 1, "c": {"d": 2}}, "a.b": 3, "s/t": {"~": 4}}'
    expected = {"a": '{"b": 1, "c": {"d": 2}}', "a.b": 1, "a.c.d": 2, "dotted": 3, "slash": 4, "twice": 1}
    assert decoded(schema, text) == [expected]
    nothing = dict.fromkeys(schema)
    for other in (b'{"a": [{"b": 1}]}', b'{"a": 1}', b'{"x": {"a": {"b": 1}}}'):
        assert decoded(schema, other)[0] | {"a": None} == nothing
    assert decoded(schema, b"{}", None) == [nothing, nothing]


def test_of_a_key_that_comes_twice_the_last_one_counts() -> None:
    schema = {"a": "json", "a.b": "int64", "a.c": "int64"}
    assert decoded(schema, b'{"a":{"b":1,"c":2},"a":{"b":3}}') == [{"a": '{"b":3}', "a.b": 3, "a.c": None}]
    assert decoded(schema, b'{"a":{"b":1},"a":5}') == [{"a": "5", "a.b": None, "a.c": None}]
    assert decoded(schema, b'{"a":5,"a":{"c":1,"b":1,"b":null}}') == [
        {"a": '{"c":1,"b":1,"b":null}', "a.b": None, "a.c": 1}
    ]
    # The first one is not looked at, so its type does not matter.
    assert decoded({"a": "int64"}, b'{"a":"x","a":2}') == [{"a": 2}]


def test_keys_with_escapes_are_the_same_keys() -> None:
    schema = {"flug": ("int64", "/Fl\u00fcge \U0001f600/n"), "quote": ("int64", '/"\\')}
    text = json.dumps({"Fl\u00fcge \U0001f600": {"n": 1}, '"\\': 2, "Fl\u00fcge": 3})
    assert decoded(schema, text.encode()) == [{"flug": 1, "quote": 2}]
    assert decoded(schema, json.dumps(json.loads(text), ensure_ascii=False).encode()) == [{"flug": 1, "quote": 2}]


def test_nesting_is_bounded_and_costs_no_stack() -> None:
    for opening, closing in ((b"[", b"]"), (b'{"b":', b"}")):
        deep = b'{"a":' + opening * 255 + b"1" + closing * 255 + b"}"
        assert decoded({"a": "json"}, deep) == [{"a": deep[5:-1].decode()}]
        deeper = b'{"a":' + opening * 256 + b"1" + closing * 256 + b"}"
        with pytest.raises(PayloadError, match="nested more than 256 deep"):
            decoded({"a": "json"}, deeper)
        with pytest.raises(PayloadError, match="nested more than 256 deep"):
            decoded({"a": "json"}, opening * 1_000_000)


def test_an_error_names_topic_partition_offset_and_what_was_found() -> None:
    values = [b'{"a": 1}'] * 700 + [b'{"a": "' + b"x" * 100 + b'"}'] + [b'{"a": 1}'] * 5
    with pytest.raises(
        PayloadError, match=r"flights-3: field 'a': expected a whole.*\"x{40}\"; .*\[offset 700\]"
    ) as one:
        decoded({"a": "int64"}, *values)
    assert one.value.offset == 700
    stream = ColumnStream([run_of(*values)], ["offset", "a"], decoder=JsonDecoder([("a", "int64", ("a",))]))
    with pytest.raises(pa.ArrowInvalid, match=r"PayloadError: flights-3: field 'a'.*offset 700"):
        pa.table(stream)
    assert decoded({"a": "int64"}, *values, on_error="null")[699:702] == [{"a": 1}, {"a": None}, {"a": 1}]


def test_a_field_that_is_bad_leaves_the_others_with_null_on_error() -> None:
    schema = {"a": "int64", "s": "string", "t": "bool"}
    found = decoded(
        schema, b'{"a":"x","s":"\\ud800","t":true}', b'{"a":1,"s":"y"', b'{"a":1,"s":"z"}', on_error="null"
    )
    assert found == [{"a": None, "s": None, "t": True}, dict.fromkeys(schema), {"a": 1, "s": "z", "t": None}]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("views", [False, True], ids=["binary", "view"])
def test_fields_stand_beside_or_in_place_of_the_value(views: bool, codec: int) -> None:
    values = [None if n % 7 == 0 else b'{"n": %d, "s": "%s"}' % (n, b"x" * (n % 50)) for n in range(500)]
    batches = run_of(*values, codec=codec, start_offset=3, end_offset=490)
    decoder = JsonDecoder([("n", "int64", ("n",)), ("s", "string", ("s",))])
    alone = pa.record_batch(columns_of(batches, decoder=decoder, views=views))
    assert alone.schema.names == ["key", "n", "s", "topic", "partition", "offset", "timestamp", "timestampType"]
    both = pa.record_batch(columns_of(batches, ["s", "value", "key", "n", "offset"], decoder=decoder, views=views))
    for batch in (alone, both):
        batch.validate(full=True)
        assert batch["n"].to_pylist() == [None if n % 7 == 0 else n for n in range(3, 490)]
        assert batch["s"].to_pylist() == [None if n % 7 == 0 else "x" * (n % 50) for n in range(3, 490)]
    assert both["value"].to_pylist() == values[3:490]


def test_an_array_splits_where_the_values_would_pass_its_limit() -> None:
    data = bytearray()
    for n in range(20):
        batch = bytearray(encode([b'{"s": "%s"}' % (b"%d" % n * 30)] * 10))
        batch[:8] = (n * 10).to_bytes(8, "big")
        data += batch
    stream = ColumnStream(
        [Batches(bytes(data))], ["s"], array_bytes=2_000, decoder=JsonDecoder([("s", "string", ("s",))])
    )
    table = pa.table(stream)
    table.validate(full=True)
    assert table["s"].num_chunks > 3
    assert table["s"].to_pylist() == [str(n) * 30 for n in range(20) for _ in range(10)]


# --- structs -------------------------------------------------------------------------------------

letters = st.lists(
    st.tuples(st.sampled_from("?bBhHiIlLqQefdxc"), st.integers(1, 3)) | st.tuples(st.just("s"), st.integers(1, 9)),
    min_size=1,
    max_size=8,
)


@given(st.sampled_from(["", "@", "=", "<", ">", "!"]), letters, st.data())
def test_structs_are_what_the_struct_module_unpacks(order: str, items: list[Any], data: st.DataObject) -> None:
    format = order + "".join(f"{count}{letter}" for letter, count in items)
    value = data.draw(st.binary(min_size=struct.calcsize(format), max_size=struct.calcsize(format)))
    unpacked = struct.unpack(format, value)
    names = [f"f{n}" for n in range(len(unpacked))]
    if not names:
        with pytest.raises(ValueError, match="names no field"):
            decoded({"format": format, "names": names}, value)
        return
    nothing, row = decoded({"format": format, "names": names}, None, value)
    assert nothing == dict.fromkeys(names)
    for name, expected in zip(names, unpacked, strict=True):
        if isinstance(expected, float) and math.isnan(expected):
            assert math.isnan(row[name])
        else:
            assert row[name] == expected


def test_a_structured_numpy_dtype_is_a_schema() -> None:
    import numpy as np

    dtype = np.dtype(
        [("id", "<i8"), ("delay", ">f4"), ("code", "S3"), ("on", "?"), ("at", "<M8[ms]"), ("u", ">u2")], align=True
    )
    rows = np.zeros(3, dtype)
    rows["id"], rows["delay"], rows["code"] = [1, -2, 2**60], [0.5, -1.25, 3], [b"abc", b"x", b""]
    rows["on"], rows["at"], rows["u"] = [True, False, True], ["2013-01-01T05:00", "1969-12-31", 0], [1, 256, 65535]
    found = decoded(dtype, *(row.tobytes() for row in rows))
    assert [row["id"] for row in found] == [1, -2, 2**60]
    assert [row["delay"] for row in found] == [0.5, -1.25, 3.0]
    assert [row["code"] for row in found] == [b"abc", b"x\0\0", b"\0\0\0"]
    assert [row["on"] for row in found] == [True, False, True]
    assert [row["u"] for row in found] == [1, 256, 65535]
    assert found[0]["at"] == datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC)


def test_a_struct_of_another_size_is_malformed() -> None:
    schema = {"format": "<qi", "names": ["a", "b"]}
    for value in (b"", bytes(11), bytes(13)):
        with pytest.raises(
            PayloadError, match=rf"flights-3: the value has {len(value)} bytes, .*_schema 12.*\[offset 1\]"
        ):
            decoded(schema, bytes(12), value)
        assert decoded(schema, value, bytes(12), on_error="null") == [{"a": None, "b": None}, {"a": 0, "b": 0}]


# --- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"a": "int"}, "field 'a': unknown type 'int'; known are int32, int64"),
        ({"a": 5}, r"field 'a': expected a type or \(type, path\), found 5"),
        ({"a": ("string", 5)}, r"expected a type or \(type, path\)"),
        ({"value": "string", "offset": "int64"}, r"field 'value', 'offset': every record has a column"),
        ({}, "names no field"),
        ({1: "string"}, "a field's name is a text, found 1"),
        ({"a..b": "string"}, "has an empty key"),
        ({"a": ("string", "/~2")}, "must be written as ~0"),
        ("json", "value_schema is a mapping"),
        ({"format": "<qz", "names": ["a"]}, "format '<qz': bad char"),
        ({"format": "<qq", "names": ["a"]}, "has 2 values, there are 1 names"),
        ({"format": "<qq", "names": ["a", "a"]}, "a name of its own"),
        ({"format": "<p", "names": ["a"]}, "character 'p' has no column"),
        ({"format": "<q", "names": "a"}, "a format and a list of names"),
        ({"format": "<q", "names": ["key"]}, r"field 'key'"),
    ],
)
def test_a_schema_that_says_nothing_sensible_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoder_of(schema)


def test_a_dtype_without_columns_is_refused() -> None:
    import numpy as np

    for dtype, message in ((np.dtype("i8"), "named fields"), (np.dtype([("a", "O")]), "field 'a'.*no column")):
        with pytest.raises(ValueError, match=message):
            decoder_of(dtype)
    with pytest.raises(ValueError, match="on_error is 'raise' or 'null', found 'skip'"):
        decoder_of({"a": "int64"}, "skip")


def test_json_may_have_fields_called_format_and_names() -> None:
    assert decoded({"format": "string", "names": "int64"}, b'{"format": "x", "names": 2}') == [
        {"format": "x", "names": 2}
    ]


def test_a_field_outside_of_the_struct_is_refused() -> None:
    for offset, width in ((-1, 2), (3, 2), (0, 0), (0, 5)):
        with pytest.raises(ValueError, match="are not in a struct of 4 bytes"):
            StructDecoder([("a", b"s", offset, width, False)], 4)


@pytest.mark.row("S11")
def test_decoding_makes_no_object_for_a_record() -> None:
    import sys

    decoder = JsonDecoder([("n", "int64", ("n",)), ("s", "string", ("s",))])

    def objects_of(count: int) -> int:
        batches = run_of(*[b'{"n": 1, "s": "text"}'] * count)
        columns_of(batches, decoder=decoder).__arrow_c_array__()
        before = sys.getallocatedblocks()
        kept = columns_of(batches, decoder=decoder).__arrow_c_array__()
        made = sys.getallocatedblocks() - before
        assert len(kept) == 2
        return made

    assert objects_of(10_000) <= objects_of(10) + 2
