"""Batches that are too large for their broker: the same records in smaller ones, with the same sequences."""

from __future__ import annotations

import pytest

from logstore.batch._batch import BatchView
from logstore.batch._encode import Encoder, encode
from logstore.protocol._batches import sequenced
from logstore.records import Codec, TopicPartition
from logstore.remote.produce.batches import NUMBER_STEP, HandedBatch, PendingBatch
from logstore.remote.produce.splitting import parts_of, split


def pending(data: bytes, *, sequence: int = -1, first_record: int = -1) -> PendingBatch:
    copy = bytearray(data)
    count = BatchView(copy).record_count
    if sequence >= 0:
        sequenced(copy, 7, 1, sequence)
    handed = HandedBatch(TopicPartition("t", 0), count, 1, data=copy)
    return PendingBatch(NUMBER_STEP, memoryview(copy), count, handed, True, first_record=first_record)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_the_parts_hold_the_records_as_they_were(codec: Codec) -> None:
    encoder = Encoder().begin(timestamp_ms=5, codec=codec)
    for number in range(100):
        encoder.add(b"v" * number, b"k%d" % number, 5 + number, [("h", b"%d" % number)])
    whole = bytes(encoder.finish())
    parts = split(whole, 1_000)
    assert len(parts) > 5
    assert {BatchView(each).codec for each in parts} == {codec}
    found = [record for each in parts for record in BatchView(each).check()]
    fields = [(each.key, each.value, each.timestamp_ms, each.headers) for each in found]
    wanted = [(each.key, each.value, each.timestamp_ms, each.headers) for each in BatchView(whole)]
    assert fields == wanted


def test_every_split_makes_at_least_two_parts() -> None:
    whole = encode([b"a", b"b", b"c"])
    assert [[each.value for each in BatchView(part)] for part in split(whole, 1 << 20)] == [[b"a"], [b"b", b"c"]]
    assert len(split(whole, 0)) == 3


def test_parts_take_the_sequences_and_the_place_of_the_whole() -> None:
    batch = pending(encode([b"v"] * 10), sequence=2**31 - 4)
    batch.tries, batch.is_lost = 3, True
    parts = parts_of(batch, 50)
    views = [BatchView(each.data) for each in parts]
    assert [view.base_sequence for view in views] == [2**31 - 4, 2**31 - 2, 0, 2, 4]
    assert {(view.producer_id, view.producer_epoch) for view in views} == {(7, 1)}
    assert [each.first_record for each in parts] == [0, 2, 4, 6, 8]
    assert [each.is_first for each in parts] == [True, False, False, False, False]
    assert all((each.tries, each.send_count, each.is_lost) == (0, 0, True) for each in parts)
    numbers = [each.number for each in parts]
    assert numbers == sorted(set(numbers))
    assert batch.number == numbers[0]
    assert numbers[-1] < batch.number + NUMBER_STEP
    again = parts_of(parts[1], 50)
    assert [each.first_record for each in again] == [2, 3]
    assert numbers[1] <= again[0].number < again[1].number < numbers[2]


def test_a_part_is_split_in_halves() -> None:
    part = pending(encode([b"v" * 10] * 16), first_record=4)
    assert [each.record_count for each in parts_of(part, 1 << 20)] == [5, 5, 5, 1]
