"""Answers that come while the consumer has not gone back yet to where its log was cut."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from logstore.batch._encode import encode
from logstore.client.partition_position import PartitionPosition, PositionRules
from logstore.clock import SYSTEM_CLOCK
from logstore.config.client import ConsumerConfig
from logstore.errors import LogstoreError
from logstore.records import TopicPartition
from logstore.remote.backend.cursors import Arrived, RemoteCursor
from logstore.remote.client import Fetched


def arrived(begin: int, end: int) -> Arrived:
    data = bytearray(encode([b"%d" % offset for offset in range(begin, end)]))
    data[:8] = begin.to_bytes(8, "big")
    return Arrived(begin, Fetched(bytes(data), end, end, end, 0, ()), epoch=3)


@pytest.fixture
def cursor() -> RemoteCursor:
    """A cursor whose consumer has taken 10 records."""
    client = cast("Any", SimpleNamespace(config=ConsumerConfig()))
    made = RemoteCursor(TopicPartition("flights", 0), "", client, SYSTEM_CLOCK, threading.Lock(), lambda: None)
    made.begin_locked(0)
    made.add_locked(arrived(0, 10))
    assert taken(made, 0) == (10, list(range(10)))
    return made


def taken(cursor: RemoteCursor, offset: int) -> tuple[int, list[int]]:
    """Read as a consumer does; return where it goes on, and the offsets of its records."""
    assert cursor.has_something_locked(offset)
    batches = cursor.read(offset)
    return batches.next_offset, [record.offset for record in batches]


@pytest.mark.parametrize("end", [8, 10, 11])
def test_what_comes_after_a_cut_is_read_from_the_cut_on(cursor: RemoteCursor, end: int) -> None:
    """Records that end below the old position would be passed over, others begin in the middle of their batch."""
    cursor.cut_locked(6, 0)
    cursor.add_locked(arrived(6, end))
    assert cursor._mark.value == -1  # a read is due, whatever the position
    assert taken(cursor, 10) == (6, [])
    assert taken(cursor, 6) == (end, list(range(6, end)))
    assert cursor._mark.value == end


def test_what_came_before_a_cut_and_was_not_read_is_fetched_again(cursor: RemoteCursor) -> None:
    cursor.add_locked(arrived(10, 20))
    cursor.cut_locked(16, 5)
    assert (cursor.buffered, cursor.epoch) == (0, 5)
    cursor.add_locked(arrived(16, 18))
    # The consumer is at 10: it has nothing to go back to, and 10 to 15 are wanted.
    assert not cursor.has_something_locked(10)
    assert (cursor.position, cursor.epoch) == (10, 3)
    cursor.add_locked(arrived(10, 18))
    assert taken(cursor, 10) == (18, list(range(10, 18)))


def test_a_consumer_at_the_cut_itself_goes_on(cursor: RemoteCursor) -> None:
    cursor.cut_locked(10, 0)
    cursor.add_locked(arrived(10, 12))
    assert taken(cursor, 10) == (12, [10, 11])
    assert cursor._mark.value == 12


@pytest.mark.parametrize("second", [8, 6, 4])
def test_a_second_cut_before_the_consumer_has_gone_back_keeps_the_lower_one(
    cursor: RemoteCursor, second: int
) -> None:
    lowest = min(6, second)
    cursor.cut_locked(6, 0)
    cursor.add_locked(arrived(6, 10))
    cursor.cut_locked(second, 0)
    assert (cursor.position, cursor.buffered) == (lowest, 0)
    cursor.add_locked(arrived(lowest, 12))
    assert taken(cursor, 10) == (lowest, [])
    assert taken(cursor, lowest) == (12, list(range(lowest, 12)))


@pytest.mark.parametrize("has_come_so_far", [True, False])
def test_an_error_beside_a_cut_is_raised_once_and_the_partition_is_fetched_again(
    cursor: RemoteCursor, has_come_so_far: bool
) -> None:
    """A mark at the position while an error waits would keep the consumer from reading for good."""
    at = 10 if has_come_so_far else 6
    cursor.cut_locked(6, 0)
    cursor.fail_locked(LogstoreError("planted"))
    if has_come_so_far:
        assert taken(cursor, at) == (6, [])
    assert cursor.has_something_locked(6)
    assert cursor._mark.value == -1  # a read is due
    with pytest.raises(LogstoreError, match="planted"):
        cursor.read(6)
    assert cursor._mark.value == cursor.position == 6
    assert not cursor.has_something_locked(6)


def test_a_cut_that_was_read_and_not_followed_is_told_again(cursor: RemoteCursor) -> None:
    """A Ctrl-C may come between the read and the assignment of the new position."""
    cursor.cut_locked(6, 0)
    cursor.add_locked(arrived(6, 12))
    assert taken(cursor, 10) == (6, [])
    assert taken(cursor, 10) == (6, [])
    assert taken(cursor, 6) == (12, list(range(6, 12)))


@pytest.mark.parametrize("offset", [3, 6, 8, 40])
def test_a_seek_overrides_a_cut(cursor: RemoteCursor, offset: int) -> None:
    position = PartitionPosition(cursor.name, cursor, "")
    position.offset = 10
    cursor.cut_locked(6, 0)
    cursor.add_locked(arrived(6, 9))
    position.go_to(offset)
    assert cursor._mark.value == -1  # a read is due, and has the thread fetch
    batches = cursor.read(offset)
    if offset in (6, 8):
        assert [record.offset for record in batches] == list(range(offset, 9))
    else:
        assert (batches.next_offset, cursor.position, cursor.buffered) == (offset, offset, 0)


@pytest.mark.parametrize("offset, epoch", [(40, 2), (4, -1), (10, -1), (10, 3)])
@pytest.mark.parametrize("is_wanted", [True, False], ids=["read", "paused"])
def test_a_seek_reaches_the_fetcher_at_once(cursor: RemoteCursor, offset: int, epoch: int, is_wanted: bool) -> None:
    """What it finds out about the former position, as that its epoch is unknown, is not about the new one."""
    cursor.is_wanted = is_wanted
    before = cursor.seeks
    cursor._sought(offset, epoch)
    assert (cursor.position, cursor.epoch, cursor.is_wanted) == (offset, epoch, is_wanted)
    assert (cursor.seeks > before) == ((offset, epoch) != (10, 3))


def test_an_error_of_a_fetch_is_not_told_after_a_seek_to_the_same_place(cursor: RemoteCursor) -> None:
    """As an offset out of range, once the reset has found that very offset: it would be reset once more."""
    cursor.error = LogstoreError("planted")
    cursor._sought(10, 3)
    assert not cursor.has_something_locked(10)
    cursor.add_locked(arrived(10, 12))
    assert taken(cursor, 10) == (12, [10, 11])


def test_a_position_after_a_cut_is_not_taken_for_the_one_that_was_sought(cursor: RemoteCursor) -> None:
    cursor._sought(15, 2)
    cursor.add_locked(arrived(15, 20))
    assert taken(cursor, 15) == (20, list(range(15, 20)))
    cursor.cut_locked(12, 1)
    assert taken(cursor, 20) == (12, [])
    cursor.add_locked(arrived(12, 18))
    assert taken(cursor, 12) == (18, list(range(12, 18)))
    # As after a poll that was interrupted. The record before 15 is another one now.
    assert not cursor.has_something_locked(15)
    assert (cursor.position, cursor.epoch) == (15, -1)


def test_nothing_behind_a_cut_counts_as_processed(cursor: RemoteCursor) -> None:
    """Nor as committed: the next commit is of the position after the cut."""
    rules = PositionRules(cast("Any", SimpleNamespace(offsets=None)), ConsumerConfig())
    partition = PartitionPosition(cursor.name, cursor, "")
    partition.offset = partition.done = partition.stored = 10
    partition.stored_epoch = 2
    cursor.cut_locked(6, 0)
    cursor.add_locked(arrived(6, 8))
    offsets: list[int] = []
    while len(offsets) < 2:
        run = rules.run_of(partition, 1 << 20, [partition])
        assert run is not None
        offsets += [record.offset for record in run.allow(10)]
    assert offsets == [6, 7]
    assert (partition.done, partition.stored, partition.stored_epoch) == (6, -1, -1)
