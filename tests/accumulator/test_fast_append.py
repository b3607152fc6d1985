"""Plain records of an appender go straight into its open batch, all others to the slow path."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.accumulator._batcher import FastAppend, FastBatcher
from logstore.batch._batch import Batches
from logstore.batch._encode import Encoder


class Slow(FastAppend):
    """Notes what does not go the quick way."""

    def __init__(self) -> None:
        self.slow: list[Any] = []
        self._batcher = FastBatcher()

    def _append_slowly(self, value: Any, key: Any, timestamp_ms: Any, headers: Any) -> None:
        self.slow.append((value, key, timestamp_ms, headers))


def test_plain_records_go_straight_into_an_open_batch() -> None:
    encoder, gatherer = Encoder().begin(timestamp_ms=7), Slow()
    encoder.add(b"first")
    gatherer._batcher.resume(encoder, None, 10_000)
    gatherer.append(b"v")
    gatherer.append(b"w", b"k")
    gatherer.append(b"x", key=b"")
    assert gatherer.slow == []
    assert encoder.pending_records == 4
    assert [(r.key, r.value, r.timestamp_ms) for r in Batches(bytes(encoder.finish()))] == [
        (None, b"first", 7),
        (None, b"v", 7),
        (b"k", b"w", 7),
        (b"", b"x", 7),
    ]


def test_everything_else_goes_the_slow_way() -> None:
    encoder, gatherer = Encoder().begin(timestamp_ms=7), Slow()
    others: list[Any] = [
        (None, None, None, None),
        (bytearray(b"v"), None, None, None),
        ("text", None, None, None),
        (b"v", "text", None, None),
        (b"v", bytearray(b"k"), None, None),
        (b"v", None, 5, None),
        (b"v", None, None, []),
    ]
    gatherer.append(b"before a batch is open")
    gatherer._batcher.resume(encoder, None, 10_000)
    gatherer.append(b"first of its batch")
    encoder.add(b"opens")
    for other in others:
        gatherer.append(*other)
    gatherer.append(bytes(20_000))  # there is no room
    gatherer._batcher.resume(encoder, None, 1)
    gatherer.append(b"full")
    gatherer._batcher.resume(encoder, None, 10_000)
    gatherer._batcher.pause()
    gatherer.append(b"paused")
    gatherer._batcher.resume(encoder.finish(), None, 10_000)
    gatherer.append(b"closed")
    assert gatherer.slow == [
        (b"before a batch is open", None, None, None),
        (b"first of its batch", None, None, None),
        *others,
        (bytes(20_000), None, None, None),
        (b"full", None, None, None),
        (b"paused", None, None, None),
        (b"closed", None, None, None),
    ]
    assert encoder.record_count == 1
    with pytest.raises(NotImplementedError):
        FastAppend().append(b"v")
