"""Texts that are JSON, nearly JSON or nothing at all, beside Python's own parser.

The parser of values may neither take what RFC 8259 refuses, nor refuse what it allows, nor find
another value in it.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa

from logstore.batch._batch import Batches
from logstore.batch._encode import encode
from logstore.columns._export import columns_of
from logstore.columns._values import JsonDecoder
from logstore.errors import PayloadError
from tests.fuzz.mutate import Mutator

PIECES = (
    *rb"""{ } [ ] : , " \ \u00e9 \ud83d\ude00 \ud83d \/ 0 1 - .5 e1 E+9 true false null nul NaN Infinity""".split(),
    *rb"""{"a":{"b":1}} "a": "b": "a":1, ,"b":"c" [[[[ ]]]] 1e400 -0 0.1 1.7976931348623157e308 5e-324""".split(),
    *(b"123456789012345678901234567890", b" ", b"\n\t\r", b"\0", b"\x1f", b"\x7f"),
    *(b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
)

_TREES: list[Any] = [
    {},
    {"a": 1, "b": "text"},
    {"a": {"b": [1, 2.5, None, {"a": True}], "c": "x" * 30}, "b": 'é😀"\\/\b\f\n\r\t\0'},
    {"x": [[[[[]]]]], "a": {"b": {"b": {"b": -1e-7}}}, "é": {}, "": ""},
    {"a": -(2**63), "b": 2**63, "c": 0.1, "d": 1e22, "e": 123456.789},
    {"id": 17, "user": "u000017", "v": 3.25, "tags": ["a", "b"], "at": "2013-01-01T05:00:00Z"},
]

_CHECK = JsonDecoder(
    [("whole", "json", ("a",)), ("below", "json", ("a", "b")), ("other", "json", ("b",)), ("é", "json", ("é",))]
)
#: What cannot be had is null: no input may raise here.
_TYPED = JsonDecoder(
    [
        (f"{word} {'.'.join(path)}", word, path)
        for word in ("int32", "int64", "float64", "bool", "string", "binary", "timestamp_ms", "timestamp", "date")
        for path in (("a",), ("a", "b"), ("at",), ("id",), ("v",))
    ],
    null_bad=True,
)


def json_seeds() -> list[bytes]:
    texts = [json.dumps(tree).encode() for tree in _TREES]
    return texts + [json.dumps(tree, ensure_ascii=False, indent=1).encode() for tree in _TREES]


def changed_json(m: Mutator, seeds: list[bytes]) -> bytes:
    data = bytearray(seeds[m.below(len(seeds))])
    while m.chance(0.7):
        at = m.below(len(data) + 1)
        piece = PIECES[m.below(len(PIECES))]
        if m.chance(0.1):
            piece *= m.below(300)
        data[at : at + (len(piece) if m.chance(0.5) else 0)] = piece
    if m.chance(0.3):
        m.changes(data, seeds)
    return bytes(data)


def read_json(data: bytes) -> None:
    """Decode one value, and hold it beside what Python finds in it."""
    batches = Batches(encode([data], timestamp_ms=1), topic="t", partition=0)
    typed = pa.record_batch(columns_of(batches, decoder=_TYPED))
    typed.validate(full=True)
    expected = expected_of(data)
    try:
        columns = pa.record_batch(columns_of(batches, decoder=_CHECK))
    except PayloadError:
        assert expected is None or depth_of(data) > 256, "it is a JSON object"
        assert all(column.null_count for column in typed.columns[1:-5]), "null was promised"
        raise
    columns.validate(full=True)
    assert expected is not None, "it is no JSON object"
    (row,) = columns.to_pylist()
    for name, path in (("whole", ("a",)), ("below", ("a", "b")), ("other", ("b",)), ("é", ("é",))):
        assert same(None if row[name] is None else load(row[name]), found_at(expected, path)), name
    number = found_at(expected, ("v",))
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        (text,) = pa.record_batch(columns_of(batches, decoder=JsonDecoder([("v", "json", ("v",))])))[
            "v"
        ].to_pylist()
        assert same(typed["float64 v"].to_pylist()[0], float(text)), text


def expected_of(data: bytes) -> Any:
    """The object that Python's parser finds, or None."""
    try:
        found = load(data.decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def load(text: str) -> Any:
    """What RFC 8259 says, by Python's parser; which refuses to make an int of thousands of digits."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse, parse_int=lambda digits: int(digits[:4_000]))


def depth_of(data: bytes) -> int:
    """At least how deep a text is nested."""
    depth = most = 0
    inside = escaped = False
    for byte in data:
        if inside:
            inside = escaped or byte != 0x22
            escaped = not escaped and byte == 0x5C
        elif byte == 0x22:
            inside, escaped = True, False
        elif byte in b"[{":
            depth += 1
            most = max(most, depth)
        elif byte in b"]}":
            depth -= 1
    return most


def found_at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def same(left: Any, right: Any) -> bool:
    """Equal, to the last bit and type of a number."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    return type(left) is type(right) and bool(left == right)
