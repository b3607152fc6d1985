"""The asynchronous twin: the same results, a loop that goes on, and cancellations that lose nothing."""

from __future__ import annotations

import asyncio
import errno
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import logstore
from logstore import aio
from logstore.errors import (
    ConfigError,
    ConsumerClosedError,
    DirectoryLockedError,
    InvalidManifestError,
    ReadOnlyError,
    StorageFailedError,
    StoreClosedError,
    UnknownTopicError,
    WakeupError,
)
from logstore.records import RecordMetadata
from logstore.store.commit.staged_writer import Manifest
from logstore.testing._faults import FaultyFiles
from tests.kit.waiting import until


def looped(test):
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 120))

    return run


def off_the_main_thread(test):
    """Run a test in a thread of its own, and raise here what it raises."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with ThreadPoolExecutor(1) as threads:
            threads.submit(test, *args, **kwargs).result()

    return run


@pytest.fixture
def files():
    return FaultyFiles()


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("logstore-aio")]


# -- the same as the twin


@looped
async def test_what_is_sent_is_read(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights", partitions=3)
        assert await topic.partition_count() == 3
        async with store.producer(linger_ms=1) as producer:
            futures = [await producer.send("flights", b"%d" % n, b"k%d" % (n % 7)) for n in range(1_000)]
            metadata = await asyncio.gather(*futures)
        assert {at.topic for at in metadata} == {"flights"}
        assert await topic.append(b"last", b"k", ack="synced")
        await topic.append_many([(b"k", b"many")] * 10)
        assert await topic.append_many([]) == {}
        async with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            found = []
            while records := await consumer.poll(timeout_s=0.05):
                found += records
            assert len(found) == 1_011
            await consumer.commit()
        assert sum(each.offset for each in (await store.committed("g")).values()) == 1_011
        assert [lag.records for lag in await store.lag("g")] == [0, 0, 0]
        by_place = {(record.partition, record.offset): record.value for record in found}
        assert [by_place[at.partition, at.offset] for at in metadata] == [b"%d" % n for n in range(1_000)]
    with logstore.open(tmp_path / "data") as again:
        assert sum(log.log_end_offset for log in again["flights"].partitions) == 1_011


@looped
async def test_a_topic_and_a_scan_are_used_without_an_await_of_their_own(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        await store.create_topic("flights", partitions=2)
        assert [topic.name for topic in await store.create_topics(["left", "right"])] == ["left", "right"]
        await store.delete_topics(["left", "right"])
        assert (await store["flights"].append(b"0", b"k")).offset == 0
        await store["flights"].append_many([b"1", b"2"], partition=0)
        assert [record.value async for record in store["flights"].scan(partitions=0)][-2:] == [b"1", b"2"]
        assert await store.topic("flights").scan().count() == 3
        assert sum([len(values) async for values in store["flights"].scan().values()]) == 3
        assert sum([len(batch) async for batch in store["flights"].scan().batches()]) == 3
        assert sum([len(list(chunk)) async for chunk in store["flights"].scan().chunks()]) == 3
        assert (await store["flights"].scan().to_numpy())["offset"].size == 3
        topic = await store["flights"]
        assert (topic.name, topic.id) == ("flights", topic.sync.id)
        scan = topic.scan(start={0: 0, 1: 0})
        await topic.append_many([b"later"], partition=0)
        assert await scan.count() == 4  # not awaited before: its range is that of its first use
        fixed = await topic.scan()
        await topic.append_many([b"later"], partition=0)
        assert await fixed.count() == 4
        assert fixed.partitions == (0, 1)


@looped
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_store_says_which_topics_it_has(tmp_path, read_only):
    with logstore.open(tmp_path / "data") as owner:
        owner.create_topic("flights")
        if not read_only:
            owner.close()
        async with aio.open(tmp_path / "data", read_only=read_only) as store:
            assert "flights" in store
            assert "trains" not in store
            assert 5 not in store
            assert [name async for name in store] == ["flights"]
            (owner if read_only else store.sync).create_topic("trains")
            assert "trains" in store
            with pytest.raises(UnknownTopicError, match="ships"):
                await store["ships"]
            with pytest.raises(UnknownTopicError, match="ships"):
                await store["ships"].append(b"v")
            ships = store["ships"]
            (owner if read_only else store.sync).create_topic("ships")
            assert await ships.scan().count() == 0


def entered(thing):
    with thing:
        pass


async def each_of(thing):
    async for _ in thing:
        pass


async def done(write, *given):
    found = write(*given)
    if asyncio.iscoroutine(found):
        await found


#: What a program writes that has forgotten an await, and the words that say so.
FORGOTTEN = {
    "store": (lambda path, store, topic: aio.open(path).topics(), AttributeError, r"await logstore\.aio\.open"),
    "topic of a store": (
        lambda path, store, topic: aio.open(path)["flights"],
        TypeError,
        r"await logstore\.aio\.open",
    ),
    "store with": (lambda path, store, topic: entered(aio.open(path)), TypeError, "async with"),
    "open store with": (lambda path, store, topic: entered(store), TypeError, "async with"),
    "names": (lambda path, store, topic: list(store), TypeError, "async for"),
    "producer": (lambda path, store, topic: store.producer().send, AttributeError, r"await store\.producer"),
    "consumer": (lambda path, store, topic: store.consumer().poll, AttributeError, r"await store\.consumer"),
    "records": (lambda path, store, topic: list(topic.scan()), TypeError, "async for"),
    "range": (lambda path, store, topic: topic.scan().bounds, AttributeError, "`await` in front"),
    "id": (lambda path, store, topic: store["flights"].id, AttributeError, "`await` in front"),
    "consumer for": (lambda path, store, topic: list(store.consumer()), TypeError, "async for"),
    "consumer async for": (
        lambda path, store, topic: each_of(store.consumer()),
        TypeError,
        r"await store\.consumer",
    ),
}


@looped
@pytest.mark.parametrize("kind", FORGOTTEN)
async def test_a_missing_await_is_named(tmp_path, kind):
    write, error, words = FORGOTTEN[kind]
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights")
        with pytest.raises(error, match=words):
            await done(write, tmp_path / "data", store, topic)


@looped
async def test_a_store_can_be_awaited_as_well_as_entered(tmp_path):
    store = await aio.open(tmp_path / "data")
    assert store.path == str(tmp_path / "data")
    for name, value in {"read_only": False, "closed": False, "cluster_id": store.sync._host.cluster_id}.items():
        with pytest.warns(DeprecationWarning, match=rf"store.{name} is "):
            assert getattr(store, name) == value
    with pytest.warns(DeprecationWarning, match=r"store.ingest is "), pytest.raises(InvalidManifestError):
        await store.ingest(Manifest("", 0, "replay", ()))
    await store.create_topic("flights")
    producer = await store.producer()
    assert (await (await producer.send("flights", b"v"))).offset == 0
    await producer.close()
    assert producer.closed
    assert await store.topics() == ["flights"]
    await store.close()
    await store.close()
    assert store.sync._host.closed
    with pytest.raises(StoreClosedError):
        await store.topics()


@looped
async def test_errors_are_those_of_the_twin(tmp_path):
    with pytest.raises(ConfigError):
        await aio.open(tmp_path / "data", no_such_setting=1)
    async with aio.open(tmp_path / "data") as store:
        with pytest.raises(UnknownTopicError):
            await store.topic("trains")
        with pytest.raises(DirectoryLockedError):
            await aio.open(tmp_path / "data")
        async with aio.open(tmp_path / "data", read_only=True) as reader:
            with pytest.raises(ReadOnlyError):
                await reader.producer()
        async with store.producer() as producer:
            with pytest.raises(UnknownTopicError):
                await producer.send("trains", b"v")
    await until(lambda: not threads_of_ours())


@looped
async def test_a_failure_reaches_the_task_that_awaits_the_future(tmp_path, files):
    store = await aio.open(tmp_path / "data", files=files)
    await store.create_topic("flights")
    producer = await store.producer()
    files.fail("pwrite", 1, errno.EIO, path_contains=".log")
    future = await producer.send("flights", b"v")
    with pytest.raises(StorageFailedError):
        await future
    with pytest.raises(StorageFailedError):
        await future
    await producer.close()
    await store.close()


@looped
async def test_a_scan_gives_records_chunks_values_and_a_count(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights", partitions=2)
        await topic.append_many([(b"%d" % n, b"%d" % n) for n in range(500)])
        scan = await topic.scan(partitions=[0, 1])
        values = [record.value async for record in scan]
        assert sorted(map(int, values)) == list(range(500))
        assert [value async for chunk in scan.values() for value in chunk] == values
        assert [record.value async for chunk in scan.chunks() for record in chunk] == values
        assert sum([len(batch) async for batch in scan.batches()]) == 500 == await scan.count()
        assert scan.partitions == (0, 1)
        # A loop that is left early leaves nothing behind that the next one would meet.
        async for record in scan:
            assert record.value == values[0]
            break
        assert [record.value async for record in scan] == values


# -- consuming


@looped
async def test_a_consumer_that_waits_is_told_and_occupies_no_thread(tmp_path):
    """More consumers wait than there are threads, and a producer gets through to all of them."""
    async with aio.open(tmp_path / "data", threads=2) as store:
        topic = await store.create_topic("flights")
        consumers = [await store.consumer(auto_offset_reset="earliest") for _ in range(20)]
        for consumer in consumers:
            await consumer.assign_topics(["flights"])
        polls = [asyncio.create_task(consumer.poll(timeout_s=60)) for consumer in consumers]
        done, _ = await asyncio.wait(polls, timeout=0.01)
        assert not done
        await topic.append(b"news")
        assert [[record.value for record in records] for records in await asyncio.gather(*polls)] == [
            [b"news"]
        ] * 20
        for consumer in consumers:
            await consumer.close()


@looped
async def test_a_reader_beside_another_store_sees_what_it_writes(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights")
        async with aio.open(tmp_path / "data", read_only=True) as reader:
            async with reader.consumer(auto_offset_reset="earliest") as consumer:
                await consumer.assign_topics(["flights"])
                poll = asyncio.create_task(consumer.poll(timeout_s=60))
                await topic.append(b"news")
                assert [record.value for record in await poll] == [b"news"]


@looped
async def test_iterating_follows_the_log_until_the_consumer_is_closed(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights", partitions=2)
        consumer = await store.consumer(auto_offset_reset="earliest", max_poll_records=7)
        await consumer.assign_topics(["flights"])
        found = []

        async def follow():
            async for record in consumer:
                found.append(record.value)

        following = asyncio.create_task(follow())
        for n in range(100):
            await topic.append(b"%d" % n, partition=n % 2)
        await until(lambda: len(found) == 100)
        assert sorted(map(int, found)) == list(range(100))
        await consumer.close()
        await following
        with pytest.raises(ConsumerClosedError):
            await consumer.poll()


@looped
async def test_records_end_once_there_is_nothing_new(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights", partitions=3)
        await topic.append_many([(b"%d" % n, b"v") for n in range(50)])
        async with store.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            assert len([record async for record in consumer.records(timeout_s=0)]) == 50
            assert [record async for record in consumer.records(timeout_s=0)] == []


@looped
async def test_a_position_moves_with_each_record_that_is_handed_out(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights")
        await topic.append_many([b"%d" % n for n in range(100)])
        async with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            async for record in consumer:
                assert await consumer.position(("flights", 0)) == record.offset + 1
                if record.offset == 40:
                    break
            await consumer.commit()
            # What the loop did not take comes again.
            assert [record.offset for record in await consumer.poll(max_records=3)] == [41, 42, 43]
            await consumer.seek(("flights", 0), 7)
            assert (await consumer.poll(max_records=1))[0].offset == 7
        assert next(iter((await store.committed("g")).values())).offset == 8


@looped
async def test_wakeup_ends_a_poll(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        await store.create_topic("flights")
        async with store.consumer() as consumer:
            await consumer.assign_topics(["flights"])
            poll = asyncio.create_task(consumer.poll(timeout_s=60))
            await asyncio.wait([poll], timeout=0.01)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await poll
            assert await consumer.poll() == []


@looped
async def test_calls_of_several_tasks_take_turns(tmp_path):
    """A consumer is for one thread; here every call is on it, from any task."""
    async with aio.open(tmp_path / "data") as store:
        topic = await store.create_topic("flights")
        await topic.append_many([b"%d" % n for n in range(200)])
        async with store.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            polls = [consumer.poll(max_records=10) for _ in range(20)]
            positions = [consumer.position(("flights", 0)) for _ in range(20)]
            results = await asyncio.gather(*polls, *positions)
            offsets = sorted(record.offset for records in results[:20] for record in records)
            assert offsets == list(range(200))


# -- the loop goes on


# The main thread has its changes made in another one: there the watch would see none of them.
@pytest.mark.row("O9", part="file operations in other threads")
@off_the_main_thread
@looped
async def test_the_loops_own_thread_makes_no_file_operation(tmp_path, files):
    """Opening, creating, sending, rolling, syncing, reading, scanning, committing, deleting, closing."""
    files.watch_thread()
    async with aio.open(tmp_path / "data", files=files) as store:
        topic = await store.create_topic("flights", partitions=2, settings={"segment.bytes": 20_000})
        async with store.producer(batch_size=2_000, ack="synced", linger_ms=1) as producer:
            futures = [await producer.send("flights", b"x" * 100, b"%d" % n) for n in range(1_000)]
            await asyncio.gather(*futures)
            await producer.metrics()
        async with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            assert sum([len(await consumer.poll(timeout_s=60)) for _ in range(2)])
            await consumer.seek_to_beginning()
            assert len([record async for record in consumer.records(timeout_s=0)]) == 1_000
            await consumer.seek_to_time(0)
            await consumer.commit(ack="synced")
        assert len([record async for record in await topic.scan()]) == 1_000
        await topic.append_many([(b"k", b"v")] * 10, ack="synced")
        assert len(list(await topic.read(0))) > 100
        await topic.delete_records({0: 100})
        await store.describe_topic("flights")
        await store.alter_topic("flights", {"retention.ms": 1_000})
        await store.add_partitions("flights", 3)
        await store.housekeep()
        await store.flush()
        await store.delete_topic("flights")
    assert files.watched_calls() == 0
    assert files.counts()["fdatasync"] > 5
    # The watch itself works: this thread's own call is seen.
    logstore.open(tmp_path / "data", files=files).close()
    assert files.watched_calls() > 0


@pytest.mark.row("O9", part="a loop that goes on during syncs")
@looped
async def test_the_loop_goes_on_while_syncs_stand_still(tmp_path, files):
    """Were the loop to wait for one of them, no task could release them: the test would not end."""
    async with aio.open(tmp_path / "data", files=files) as store:
        topic = await store.create_topic("flights")
        files.hold_syncs(".log")
        append = asyncio.create_task(topic.append(b"v", ack="synced"))
        await until(lambda: files.held_syncs() > 0)
        async with store.producer() as producer:
            future = await producer.send("flights", b"w")
            assert isinstance(await future, RecordMetadata)
        assert not append.done()
        files.release_syncs()
        assert (await append).offset == 0


# -- cancelling


@looped
async def test_a_cancelled_poll_loses_no_record_and_leaves_no_thread_behind(tmp_path):
    """Cancelled at every point it can be: while it waits for its turn, for a thread, for news."""
    async with aio.open(tmp_path / "data", threads=2) as store:
        topic = await store.create_topic("flights", partitions=2)
        async with store.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            found, sent = [], 0
            for turn in range(300):
                poll = asyncio.create_task(consumer.poll(timeout_s=60, max_records=3))
                for _ in range(turn % 5):
                    await asyncio.sleep(0)
                if turn % 3 == 0:
                    await topic.append_many([(b"%d" % n, b"%d" % n) for n in range(sent, sent + 4)])
                    sent += 4
                poll.cancel()
                try:
                    found += await poll
                except asyncio.CancelledError:
                    pass
            while records := await consumer.poll():
                found += records
            assert sorted(int(record.value) for record in found) == list(range(sent))
        assert len(threads_of_ours()) <= 2


@looped
async def test_a_cancelled_call_keeps_the_next_one_out_until_its_thread_has_left(tmp_path, files):
    async with aio.open(tmp_path / "data", files=files) as store:
        topic = await store.create_topic("flights")
        await topic.append(b"v")
        async with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
            await consumer.assign_topics(["flights"])
            assert await consumer.poll()
            await consumer.commit()
            files.hold_syncs("__consumer_offsets")
            commit = asyncio.create_task(consumer.commit(ack="synced"))
            await until(lambda: files.held_syncs() > 0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            position = asyncio.create_task(consumer.position(("flights", 0)))
            done, _ = await asyncio.wait([position], timeout=0.01)
            assert not done
            files.release_syncs()
            assert await position == 1


@looped
async def test_a_store_whose_opening_was_cancelled_is_closed_again(tmp_path, files):
    for steps in range(1, 5):
        path = tmp_path / f"data-{steps}"

        async def open_store(path=path):
            return await aio.open(path, files=files)

        # A new store syncs its names: held there, it cannot be open before the cancellation.
        files.hold_syncs("")
        opening = asyncio.create_task(open_store())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        files.release_syncs()
        # Its thread ends when it has closed what it had opened: then the directory is free.
        await until(lambda: not threads_of_ours())
        async with aio.open(path) as store:
            assert await store.topics() == []
        await until(lambda: not threads_of_ours())


@looped
async def test_a_producer_whose_making_was_cancelled_is_closed_again(tmp_path):
    async with aio.open(tmp_path / "data", threads=1) as store:

        async def make():
            return await store.producer()

        for steps in range(4):
            making = asyncio.create_task(make())
            for _ in range(steps):
                await asyncio.sleep(0)
            making.cancel()
            try:
                await (await making).close()
            except asyncio.CancelledError:
                pass
        # The only thread has come through all of them, and none is left to warn of.
        await store.topics()


@looped
async def test_a_cancelled_wait_for_a_future_leaves_the_record_on_its_way(tmp_path):
    async with aio.open(tmp_path / "data") as store:
        await store.create_topic("flights")
        async with store.producer(linger_ms=60_000) as producer:
            future = await producer.send("flights", b"v")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await future
            await producer.flush()
            assert (await future).offset == 0
