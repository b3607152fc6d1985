"""Arrays as keys, values and headers: their bytes are written, or they are refused; never their pointers."""

from __future__ import annotations

import array
import asyncio
import ctypes
import functools
import sys

import numpy as np
import pytest

import logstore
import logstore.aio
from logstore import Log
from logstore.errors import RecordTypeError

STRUCTURE = np.dtype([("id", "<i4"), ("name O", "S3")])  # a name like the format of objects

#: What holds no bytes, or not side by side, made when it is asked for.
REFUSED = {
    "objects": lambda: np.array([b"a", b"b"], dtype=object),
    "one object": lambda: np.array(b"a", dtype=object),
    "objects in structures": lambda: np.zeros(2, [("a", "i4"), ("b", object)]),
    "a view of objects": lambda: memoryview(np.array([b"a"], dtype=object)),
    "ctypes objects": lambda: (ctypes.py_object * 2)(b"a", b"b"),
    "pointers": lambda: (ctypes.c_char_p * 2)(b"a", b"b"),
    "pointers to numbers": lambda: (ctypes.POINTER(ctypes.c_int) * 1)(),
    "strided": lambda: np.arange(8, dtype="u1")[::2],
    "backwards": lambda: np.arange(8, dtype="u1")[::-1],
    "strided bytes": lambda: np.array([b"a", b"b", b"c"])[::2],
    "columns first": lambda: np.asfortranarray(np.arange(6, dtype="u1").reshape(2, 3)),
    "a column": lambda: np.arange(6, dtype="u1").reshape(2, 3)[:, :2],
    "a strided view": lambda: memoryview(b"abcd")[::2],
    "text": lambda: np.array(["a", "b"]),
    "one text": lambda: np.str_("a"),
    "array of text": lambda: array.array("w" if sys.version_info >= (3, 13) else "u", "ab"),  # u warns there
    "times": lambda: np.array([1, 2], "M8[s]"),
    "durations": lambda: np.array([1, 2], "m8[ms]"),
}

#: What has plain bytes.
TAKEN = {
    "bytes of one width": lambda: np.array([b"ab", b"c"]),
    "one bytes": lambda: np.bytes_(b"ab"),
    "numbers": lambda: np.arange(3, dtype="<f8"),
    "big-endian numbers": lambda: np.arange(3, dtype=">i8"),
    "complex numbers": lambda: np.arange(3, dtype="c16"),
    "truths": lambda: np.array([True, False]),
    "halves": lambda: np.arange(3, dtype="f2"),
    "rows": lambda: np.arange(6, dtype="u1").reshape(2, 3),
    "one number": lambda: np.array(5, "<i2"),
    "structures": lambda: np.array([(1, b"abc")], STRUCTURE),
    "nothing": lambda: np.zeros(0, "u1"),
    "an array": lambda: array.array("i", [1, 2]),
    "a view of numbers": lambda: memoryview(b"abcdefgh").cast("i"),
    "a view": lambda: memoryview(b"abcd")[1:3],
    "bytearray": lambda: bytearray(b"ab"),
}


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("t")
        store.create_topic("spread", 3)
        yield store


def produced(store, topic, value, key=None, headers=None):
    with store.producer() as producer:
        producer.send(topic, value, key, headers=headers)
        producer.flush()


def gathered(store, topic, value, key=None, headers=None):
    with store[topic][0].appender() as appender:
        appender.append(value, key, headers=headers)


def appended(store, topic, value, key=None, headers=None):
    store[topic].append(value, key, headers=headers)


def appended_many(store, topic, value, key=None, headers=None):
    store[topic].append_many([(b"k", b"v"), (key, value, None, headers)])


def appended_lazily(store, topic, value, key=None, headers=None):
    store[topic].append_many(iter([(key, value, None, headers)]))


def awaited(store, topic, value, key=None, headers=None):
    async def main():
        threads = logstore.aio.threads.Threads(1)
        try:
            async with logstore.aio.Producer(store.producer(), threads) as producer:
                await producer.send(topic, value, key, headers=headers)
        finally:
            threads.end()

    asyncio.run(main())


WAYS = [produced, gathered, appended, appended_many, appended_lazily, awaited]


@pytest.mark.parametrize("topic", ["t", "spread"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_what_has_no_plain_bytes_is_refused_everywhere(store, way, make, topic):
    for given in ({"value": make()}, {"value": b"v", "key": make()}, {"value": b"v", "headers": [("h", make())]}):
        with pytest.raises(RecordTypeError, match=r"bytes|buffer|encode"):
            way(store, topic, **given)
    assert store[topic].scan().count() == 0


@pytest.mark.parametrize("way", [produced, appended_many, gathered])
@pytest.mark.parametrize("make", TAKEN.values(), ids=TAKEN)
def test_plain_bytes_are_written_as_they_are(store, way, make):
    made = make()
    meant = bytes(made) if isinstance(made, bytes) else memoryview(made).tobytes()
    way(store, "t", made, made, [("h", made)])
    record = list(store["t"].scan())[-1]
    assert (record.key, record.value, record.headers) == (meant, meant, (("h", meant),))


#: As records, their items or rows are plain bytes.
ROWS = {"strided bytes", "a column"}


@pytest.mark.parametrize(
    "append", [lambda log: log.append, lambda log: log.replica.append_batch], ids=["records", "batch"]
)
@pytest.mark.parametrize(
    "make",
    [make for name, make in REFUSED.items() if name not in ROWS],
    ids=[name for name in REFUSED if name not in ROWS],
)
def test_a_whole_array_without_plain_bytes_is_refused(tmp_path, append, make):
    with Log.open(tmp_path / "t-0") as log:
        with pytest.raises(logstore.errors.RecordError):
            append(log)(make())
        assert log.log_end_offset == 0


@pytest.mark.parametrize("topic", ["t", "spread"])
def test_every_second_item_of_an_array_of_bytes_is_what_is_written(store, topic):
    items = np.array([b"aa", b"bb", b"cc", b"dd"])
    rows = np.arange(12, dtype="u1").reshape(4, 3)
    store[topic].append_many(items[::2])
    store[topic].append_many(items[::-1])
    store[topic].append_many(rows[::2])
    values = sorted(record.value for record in store[topic].scan())
    assert values == sorted([b"aa", b"cc", b"dd", b"cc", b"bb", b"aa", b"\0\1\2", b"\6\7\10"])


def test_the_error_says_what_was_found_and_what_to_do(store):
    put = functools.partial(store["t"].append)
    for made, words in (
        (
            REFUSED["objects"](),
            "a value .* found ndarray object, which holds references and no bytes .* encode its items",
        ),
        (
            REFUSED["strided"](),
            r"a value must be a contiguous buffer, found ndarray: .*; give its bytes, .*tobytes\(\)",
        ),
        (REFUSED["text"](), r"a value .* found ndarray <U1, which is text .*numpy.char.encode"),
    ):
        with pytest.raises(RecordTypeError, match=words):
            put(made)
    with pytest.raises(
        RecordTypeError, match=r"the array is a ndarray object of 1 dimension\(s\); as a list its items may be"
    ):
        store["t"].append_many(REFUSED["objects"]())
