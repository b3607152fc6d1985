"""A consumer beside aiokafka's decoder: the same batches, one read from a store, one from memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import peers
import pytest
import records
from interleave import Bar, Runner, race
from runners import same

import logstore
from logstore import Consumer

pytestmark = pytest.mark.row("C2", "S11")

SIZE, PER_BATCH, BATCHES, PARTITIONS = 100, 1_000, 200, 4


def iterate_with_value(consumer: Consumer) -> int:
    for record in consumer.records(timeout_s=0):
        record.value  # noqa: B018
    return sum(map(consumer.position, consumer.assignment))


def iterate(consumer: Consumer) -> int:
    for _ in consumer.records(timeout_s=0):
        pass
    return sum(map(consumer.position, consumer.assignment))


def poll_with_value(consumer: Consumer) -> int:
    while found := consumer.poll():
        for record in found:
            record.value  # noqa: B018
    return sum(map(consumer.position, consumer.assignment))


@pytest.mark.parametrize(
    ("how", "work", "bar"),
    [
        ("iteration, value taken", iterate_with_value, Bar(1.8)),
        ("iteration, lazily", iterate, Bar(2.5)),
        ("polls of 500, value taken", poll_with_value, None),
    ],
    ids=["value", "lazy", "poll"],
)
def test_consume(benchmark: Any, places: Any, how: str, work: Callable[[Consumer], int], bar: Bar | None) -> None:
    """Every record of four partitions from the page cache, every CRC checked; theirs has its bytes in memory.

    aiokafka's decoder hands over each value to each caller; ours makes it when it is asked for. No program
    counts in the loop: how many there were is told by offsets on both sides.
    """
    groups = records.groups(SIZE, PER_BATCH, BATCHES)
    total = PER_BATCH * BATCHES
    with logstore.open(places()) as store:
        topic = store.create_topic("race", PARTITIONS)
        for number, group in enumerate(groups):
            topic.append_many(group, partition=number % PARTITIONS)
        store.flush()
        stored = [
            bytes(view) for log in topic.partitions for chunk in log.scan().chunks() for view in chunk.batches()
        ]
        assert sum(map(peers.decode, stored)) == total

        def begin() -> Consumer:
            consumer = store.consumer(auto_offset_reset="earliest")
            consumer.assign_topics(["race"])
            return consumer

        race(
            benchmark,
            Runner(work, same(total), begin, parts=("crc",)),
            {"aiokafka": Runner(lambda _: sum(map(peers.iterate, stored)), same(total))},
            workload=f"consume {SIZE} B, {how}",
            records=total,
            size=total * SIZE,
            bars={} if bar is None else {"aiokafka": bar},
            rounds=11,
            codec="none",
            output_bytes=sum(map(len, stored)),
        )
