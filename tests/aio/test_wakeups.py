"""Waiting tasks of one loop: woken through one eventfd, which no append writes for a task that does not wait."""

from __future__ import annotations

import asyncio
import os

import pytest

from logstore import aio
from logstore.aio.wakeups import LoopWakeups
from logstore.io._notifier import Notifier, NotifierGroup
from tests.aio.test_aio import looped
from tests.kit.inside import awaited_by
from tests.kit.waiting import until


def eventfds() -> int:
    """How many eventfds of the package are open: those of the loop and of other libraries are not counted."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventfd]"
        except FileNotFoundError:
            continue  # of the listing itself
    return count


async def is_waiting(consumer: aio.Consumer, partitions: int = 1) -> None:
    """Wait until a consumer waits for the next records of that many partitions."""
    await until(lambda: awaited_by(consumer.sync) == partitions)


@looped
async def test_one_eventfd_serves_all_consumers_and_partitions_of_a_loop(tmp_path):
    before = eventfds()
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("t", partitions=20)
        consumers = [await store.consumer(auto_offset_reset="earliest") for _ in range(3)]
        for n, consumer in enumerate(consumers):
            await consumer.assign([("t", partition) for partition in range(n, 20, 3)])
        polls = [asyncio.create_task(consumer.poll(timeout_s=None)) for consumer in consumers]
        for consumer, partitions in zip(consumers, (7, 7, 6), strict=True):
            await is_waiting(consumer, partitions)
        assert eventfds() == before + 1
        for partition in (17, 3, 7):
            await topic.append(b"%d" % partition, partition=partition)
        assert sorted([record.value for poll in polls for record in await poll]) == [b"17", b"3", b"7"]
        for n, consumer in enumerate(consumers, 1):
            assert eventfds() == before + 1, n
            await consumer.close()
        assert eventfds() == before


@looped
async def test_a_busy_consumer_is_woken_for_each_record(tmp_path):
    """One lost wake-up, and a poll would not end."""
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("t", partitions=5)
        async with store.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics("t")
            for n in range(300):
                poll = asyncio.create_task(consumer.poll(timeout_s=None))
                if n % 3:
                    await asyncio.sleep(0)
                await topic.append(b"%d" % n, partition=n % 5)
                assert [record.value for record in await poll] == [b"%d" % n]


@looped
async def test_an_event_is_set_by_any_thread_until_its_notifier_has_left():
    loop = asyncio.get_running_loop()
    event, other = asyncio.Event(), asyncio.Event()
    joined, notifier = LoopWakeups.join(loop, event)
    beside, second = LoopWakeups.join(loop, other)
    assert beside is joined
    await asyncio.to_thread(notifier.notify)
    await asyncio.wait_for(event.wait(), 60)
    assert not other.is_set()
    joined.leave(notifier)
    event.clear()
    notifier.notify()
    second.notify()
    await asyncio.wait_for(other.wait(), 60)
    assert not event.is_set()
    joined.leave(second)
    joined.leave(second)
    # The next one gets an eventfd of its own.
    again, third = LoopWakeups.join(loop, event)
    assert again is not joined
    again.leave(third)


@looped
async def test_planted_a_group_that_tells_its_loop_only_the_first_time_is_found(tmp_path, monkeypatch):
    class Once(NotifierGroup):
        told = False

        def take(self) -> list[Notifier]:
            taken = super().take()
            if self.told:
                return []
            self.told = bool(taken)
            return taken

    monkeypatch.setattr("logstore.aio.wakeups.NotifierGroup", Once)
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("t")
        async with store.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics("t")
            for n in range(3):
                poll = asyncio.create_task(consumer.poll(timeout_s=None))
                await is_waiting(consumer)
                await topic.append(b"v")
                done, _ = await asyncio.wait([poll], timeout=0.5 if n else None)
                if not done:
                    poll.cancel()
                    return
    pytest.fail("the planted bug was not found")
