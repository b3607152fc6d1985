"""Commits that a consumer does not wait for: their order, their answers, and what waits for them."""

from __future__ import annotations

import asyncio
import threading

import pytest

import logstore
import logstore.aio
from logstore.client.commits import CommitQueue, _Commit
from logstore.errors import (
    BrokerError,
    ConcurrentUseError,
    DiskFullError,
    GroupFencedError,
    InvalidGroupError,
    InvalidOffsetError,
)
from logstore.groups.offsets import OffsetAndMetadata
from logstore.records import TopicPartition
from tests.kit.waiting import wait_for

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


class Slow:
    """Makes commits once it is let; each may have an error."""

    def __init__(self, *errors):
        self.made = []
        self.errors = [*errors]
        self.is_free = threading.Event()
        self.has_begun = threading.Event()

    def __call__(self, offsets, ack):
        self.has_begun.set()
        assert self.is_free.wait(60)
        self.made.append(({name: each.offset for name, each in offsets.items()}, ack))
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


def at(offset, name=A, ack=None):
    return _Commit({name: OffsetAndMetadata(offset)}, ack, None)


def test_commits_that_wait_are_made_as_one_in_their_order():
    made = Slow()
    queue = CommitQueue(made)
    queue.put(at(1))
    assert made.has_begun.wait(60)
    for commit in (at(2), at(1, B), at(3), at(4, ack="synced"), at(5)):
        queue.put(commit)
    made.is_free.set()
    queue.drain()
    assert made.made == [({A: 1}, None), ({A: 3, B: 1}, None), ({A: 4}, "synced"), ({A: 5}, None)]
    assert [each.error for each in queue.answers] == [None] * 6


def test_the_thread_ends_with_the_last_commit_and_begins_again():
    made = Slow()
    made.is_free.set()
    queue = CommitQueue(made)
    queue.drain()
    for offset in range(3):
        queue.put(at(offset))
        queue.drain()
        assert queue._thread is None
    assert [offsets[A] for offsets, _ in made.made] == [0, 1, 2]


def test_an_error_is_that_of_its_commits_and_the_next_are_made():
    failure = DiskFullError("full")
    made = Slow(failure)
    made.is_free.set()
    queue = CommitQueue(made)
    queue.put(at(1))
    queue.drain()
    queue.put(at(2))
    queue.drain()
    assert [each.error for each in queue.answers] == [failure, None]


def test_of_commits_that_were_made_as_one_each_has_its_own_refusal():
    refusal = InvalidOffsetError("not that")
    made = Slow(None, refusal, None, refusal, None)
    queue = CommitQueue(made)
    queue.put(at(1))
    assert made.has_begun.wait(60)
    for offset in (2, 3, 4):
        queue.put(at(offset))
    made.is_free.set()
    queue.drain()
    assert [offsets[A] for offsets, _ in made.made] == [1, 4, 2, 3, 4]
    assert [each.error for each in queue.answers] == [None, None, refusal, None]


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 2)
        store.topic("flights").append_many([b"%d" % n for n in range(10)], partition=0)
        yield store


@pytest.fixture
def consumer(store):
    with store.consumer(group="crew", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([A])
        yield consumer


def planted(consumer, *errors):
    """Have the consumer's next commits end with these errors, and wait for `Slow.is_free`."""
    made = Slow(*errors)
    commit = consumer._commits._commit

    def late(group, offsets, ack, **given):
        made(offsets, ack)
        commit(group, offsets, ack, **given)

    consumer._commits._commit = late
    return made


def test_the_callback_is_called_by_the_next_poll_in_its_thread(store, consumer):
    made = planted(consumer)
    told = []
    consumer.poll(max_records=4)
    given = consumer.commit(wait=False, on_commit=lambda *found: told.append((threading.get_ident(), *found)))
    assert given == {A: OffsetAndMetadata(4)}
    consumer.poll(max_records=1)
    assert store.committed("crew") == {}
    assert told == []
    made.is_free.set()
    wait_for(lambda: consumer._commits._queue.answers)
    consumer.poll(max_records=1)
    assert [(thread, offsets[A].offset, error) for thread, offsets, error in told] == [
        (threading.get_ident(), 4, None)
    ]
    assert store.committed("crew")[A].offset == 4


@pytest.mark.parametrize("call", ["poll", "commit", "records", "close"])
def test_without_a_callback_the_next_call_raises_the_error_once(store, call):
    consumer = store.consumer(group="crew", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([A])
    made = planted(consumer, DiskFullError("full"))
    made.is_free.set()
    consumer.commit({A: 2}, wait=False)
    consumer._commits._queue.drain()
    with pytest.raises(DiskFullError):
        next(consumer.records()) if call == "records" else getattr(consumer, call)()
    consumer.close()
    assert store.committed("crew") == {}


@pytest.mark.parametrize(
    "error", [GroupFencedError("gone"), BrokerError("later", name="REBALANCE_IN_PROGRESS", code=27)]
)
def test_an_error_of_a_rebalance_is_logged_or_told(consumer, error, caplog):
    made = planted(consumer, error, error)
    made.is_free.set()
    consumer.commit({A: 2}, wait=False)
    consumer._commits.drain()
    consumer.poll()
    assert str(error) in caplog.text
    told = []
    consumer.commit({A: 2}, wait=False, on_commit=lambda _, error: told.append(error))
    consumer._commits.drain()
    consumer.poll()
    assert told == [error]


def test_a_callback_may_commit_again_but_not_poll(store, consumer):
    made = planted(consumer, DiskFullError("full"))
    made.is_free.set()
    refused = []

    def again(offsets, error):
        assert isinstance(error, DiskFullError)
        try:
            consumer.poll()
        except ConcurrentUseError as refusal:
            refused.append(refusal)
        consumer.commit(offsets, wait=False)

    consumer.commit({A: 2}, wait=False, on_commit=again)
    consumer._commits.drain()
    consumer.poll()
    consumer._commits.drain()
    assert store.committed("crew")[A].offset == 2
    assert len(refused) == 1


def test_an_error_of_a_callback_keeps_no_other_from_being_called(consumer):
    made = planted(consumer)
    told = []

    def fail(offsets, error):
        told.append(offsets)
        raise ZeroDivisionError

    consumer.commit({A: 1}, wait=False)
    assert made.has_begun.wait(60)
    for offset in (2, 3):
        consumer.commit({A: offset}, wait=False, on_commit=fail)
    made.is_free.set()
    consumer._commits.drain()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            consumer.poll()
    assert [each[A].offset for each in told] == [2, 3]
    consumer.poll()


@pytest.mark.parametrize("how", ["close", "error", "assign", "commit"])
def test_nothing_that_was_not_waited_for_is_lost(store, how):
    consumer = store.consumer(group="crew", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([A])
    made = planted(consumer)
    for offset in range(1, 9):
        consumer.commit({A: offset}, wait=False)
    freeing = threading.Timer(0.05, made.is_free.set)
    freeing.start()
    if how == "error":
        with pytest.raises(ZeroDivisionError), consumer:
            1 / 0  # noqa: B018
    else:
        {
            "close": consumer.close,
            "assign": lambda: consumer.assign([B]),
            "commit": lambda: consumer.commit({B: 1}),
        }[how]()
    assert store.committed("crew")[A].offset == 8
    consumer.close()
    freeing.join()


def test_automatic_commits_come_after_those_of_the_user(store):
    consumer = store.consumer(group="crew", auto_offset_reset="earliest", auto_commit_interval_ms=1)
    consumer.assign([A])
    made = planted(consumer)
    consumer.poll(max_records=3)
    consumer.commit(wait=False)
    assert made.has_begun.wait(60)
    made.is_free.set()
    consumer.poll(max_records=4)
    consumer.close()
    assert [offsets[A] for offsets, _ in made.made] == [3, 7]
    assert store.committed("crew")[A].offset == 7


def test_refusals(store, consumer):
    with pytest.raises(ValueError, match="wait=False"):
        consumer.commit({A: 1}, on_commit=print)
    with store.consumer() as without, pytest.raises(InvalidGroupError):
        without.commit({A: 1}, wait=False)


def test_a_task_commits_without_waiting(tmp_path):
    told = []

    async def work():
        async with logstore.aio.open(tmp_path) as store:
            await store.create_topic("flights", 1)
            async with store.consumer(group="crew", enable_auto_commit=False) as consumer:
                await consumer.assign([A])
                for offset in (1, 2, 3):
                    await consumer.commit({A: offset}, wait=False, on_commit=lambda *found: told.append(found))
            return (await store.committed("crew"))[A].offset

    assert asyncio.run(work()) == 3
    assert [(offsets[A].offset, error) for offsets, error in told] == [(1, None), (2, None), (3, None)]
