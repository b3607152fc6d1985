"""Batches on the wire, header by header: cut fetches, aborted transactions, sequences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.batch._batch import Batches, BatchView, stamp_run
from logstore.batch._encode import encode, encode_marker
from logstore.errors import CorruptRecordError, RecordError, UnsupportedFormatError
from logstore.protocol._batches import aborted_ranges, sequenced, whole_batches

FOREVER = 2**63 - 1


def run(*batches: bytes, start: int = 0) -> bytes:
    data = bytearray(b"".join(batches))
    stamp_run(data, start, 0)
    return bytes(data)


THREE = run(encode([b"a", b"b"]), encode([b"c"], codec=4), encode([b"d"] * 3))


def test_whole_batches_are_taken_and_the_rest_is_left() -> None:
    assert whole_batches(THREE) == (THREE, 6, BatchView(THREE).size)
    assert whole_batches(memoryview(b"x" + THREE)[1:]) == (THREE, 6, BatchView(THREE).size)
    assert whole_batches(None) == (b"", -1, 0)
    assert whole_batches(b"") == (b"", -1, 0)


@given(size=st.integers(0, len(THREE)))
def test_a_fetch_may_be_cut_anywhere(size: int) -> None:
    data, next_offset, first_bytes = whole_batches(THREE[:size])
    assert THREE.startswith(data)
    assert len(data) <= size
    views = Batches(data).batches()
    assert next_offset == (views[-1].next_offset if views else -1)
    # No more would have been whole.
    left = THREE[len(data) :]
    assert not left or size - len(data) < BatchView(left).size
    if size:
        assert first_bytes == (BatchView(THREE).size if size >= 61 else 61)
    else:
        assert first_bytes == 0


def test_what_is_no_batch_is_not_taken_for_one() -> None:
    old = bytearray(THREE)
    old[16] = 1
    with pytest.raises(UnsupportedFormatError):
        whole_batches(old)
    negative = bytearray(THREE)
    negative[8:12] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptRecordError):
        whole_batches(negative)


@given(data=st.binary(max_size=300))
def test_hostile_bytes_raise_or_give_what_they_hold(data: bytes) -> None:
    for make in (lambda: whole_batches(data), lambda: sequenced(bytearray(data), 1, 0, 0)):
        try:
            make()
        except RecordError:
            pass
    try:
        aborted_ranges(data, [(1, 0)])
    except RecordError:
        pass


@given(position=st.integers(0, len(THREE) - 1), value=st.integers(0, 255))
def test_a_changed_byte_anywhere_is_no_crash(position: int, value: int) -> None:
    data = bytearray(THREE)
    data[position] = value
    try:
        aborted_ranges(whole_batches(data)[0], [(-1, 0), (7, 2)])
        sequenced(data, 5, 0, 2**31 - 1)
    except RecordError:
        pass


def transactional(producer_id: int, count: int = 1) -> bytes:
    return encode([b"x"] * count, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def test_an_aborted_transaction_ends_with_its_marker() -> None:
    data = run(
        transactional(7, 2),  # 0, 1
        transactional(8),  # 2
        encode_marker(1, 0, 8, 0, 1),  # 3: commit
        encode_marker(0, 0, 7, 0, 1),  # 4: abort
        transactional(7),  # 5
        encode_marker(1, 0, 7, 0, 1),  # 6
        transactional(7),  # 7
        encode_marker(0, 0, 7, 0, 1),  # 8
        transactional(9),  # 9
    )
    listed = [(7, 7), (7, 0), (9, 9)]
    assert sorted(aborted_ranges(data, listed)) == [(7, 0, 4), (7, 7, 8), (9, 9, FOREVER)]
    visible = Batches(data, aborted=aborted_ranges(data, listed), committed_only=True)
    assert [offset for offset, *_ in visible.tuples()] == [2, 5]
    assert aborted_ranges(data, []) == ()
    assert aborted_ranges(b"", [(7, 0)]) == ((7, 0, FOREVER),)


def test_sequences_run_over_batches_and_wrap() -> None:
    data = bytearray(b"".join([encode([b"a"] * 3), encode([b"b"]), encode([b"c"] * 2, codec=1)]))
    found = sequenced(data, 1234, 5, 2**31 - 2)
    views = Batches(run(bytes(data))).batches()
    assert [view.base_sequence for view in views] == [2**31 - 2, 1, 2]
    assert [(view.producer_id, view.producer_epoch) for view in views] == [(1234, 5)] * 3
    assert [records for _, _, records, _ in found] == [3, 1, 2]
    assert [size for _, size, _, _ in found] == [view.size for view in views]
    assert sum(size for _, size, _, _ in found) == len(data)
    sequenced(data, -1, -1, -1)
    assert {view.base_sequence for view in Batches(run(bytes(data))).batches()} == {-1}


def test_a_cut_batch_gets_no_sequence() -> None:
    data: Any = bytearray(encode([b"abc"]))[:-1]
    with pytest.raises(CorruptRecordError):
        sequenced(data, 1, 0, 0)
    with pytest.raises(BufferError):
        sequenced(bytes(THREE), 1, 0, 0)
