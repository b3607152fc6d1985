"""Partitions that are added to a topic: its readers get every record of them, whatever auto.offset.reset says."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading

import pytest

import logstore
import logstore.aio
from logstore.client.dbapi import DatabaseOffsets
from logstore.client.streams import ConsumerConnector
from logstore.records import TopicPartition
from logstore.store.catalog.topic_list import Catalogue, TopicEntry
from logstore.testing import ManualClock

RULES = pytest.mark.parametrize("rule", ["latest", "earliest", "none", "by_duration:PT1S"])


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights").append(b"old")
        yield store


def grow(store, total=3):
    """Add partitions, and one record to each before any reader can have seen it."""
    before = len(store["flights"])
    grown = store.add_partitions("flights", total)
    for number in range(before, total):
        grown.append(b"new %d" % number, partition=number)


def begun(store, group=None, rule="latest"):
    """A consumer of all of the topic that has begun at its end."""
    consumer = store.consumer(group=group, auto_offset_reset=rule)
    consumer.assign_topics(["flights"])
    consumer.seek_to_end()
    assert consumer.poll() == []
    return consumer


def values(records):
    return sorted(record.value for record in records)


@pytest.mark.row("C9")
@RULES
def test_a_running_consumer_reads_them_from_their_beginning(store, rule):
    consumer = begun(store, rule=rule)
    grow(store)
    assert values(consumer.poll()) == [b"new 1", b"new 2"]
    assert consumer.assignment == {TopicPartition("flights", n) for n in range(3)}
    grow(store, 4)
    assert values(consumer.records(timeout_s=0)) == [b"new 3"]


def test_a_consumer_of_single_partitions_keeps_to_them(store):
    consumer = store.consumer()
    consumer.assign([("flights", 0)])
    consumer.poll()
    grow(store)
    assert consumer.poll() == []
    assert consumer.assignment == {TopicPartition("flights", 0)}


def test_a_topic_that_is_assigned_again_has_lost_none_of_them(store):
    consumer = begun(store)
    grow(store)
    consumer.assign_topics(["flights"])
    assert values(consumer.poll()) == [b"new 1", b"new 2"]


@pytest.mark.parametrize("how", ["poll", "records"])
def test_a_reader_that_waits_is_woken_by_them(store, how):
    consumer = begun(store)
    found, waits = [], threading.Event()

    def read():
        waits.set()
        found.append(consumer.poll(timeout_s=60)[0] if how == "poll" else next(consumer.records(timeout_s=60)))

    thread = threading.Thread(target=read)
    thread.start()
    assert waits.wait(300)
    grow(store, 2)
    thread.join(300)
    assert not thread.is_alive()
    assert values(found) == [b"new 1"]


def test_an_event_loop_that_waits_is_woken_by_them(tmp_path):
    async def main():
        async with logstore.aio.open(tmp_path / "data") as store:
            await store.create_topic("flights")
            async with store.consumer() as consumer:
                await consumer.assign_topics(["flights"])
                assert await consumer.poll() == []
                waiting = asyncio.create_task(consumer.poll(timeout_s=60))
                await asyncio.sleep(0)  # the task has begun
                grown = await store.add_partitions("flights", 2)
                await grown.append(b"new 1", partition=1)
                return await asyncio.wait_for(waiting, 30)

    assert values(asyncio.run(main())) == [b"new 1"]


def test_a_reader_beside_the_writer_finds_them_too(store, tmp_path):
    clock = ManualClock()
    with logstore.open(tmp_path / "data", read_only=True, clock=clock) as beside:
        consumer = begun(beside)
        topic = beside["flights"]
        grow(store)
        store["flights"].append(b"busy", partition=0)
        clock.advance(1_000)
        assert values(consumer.records(timeout_s=0)) == [b"busy", b"new 1", b"new 2"]
        assert topic.partition_count == 3
        assert topic.scan().count() == 4


@RULES
def test_the_next_consumer_of_a_group_begins_at_their_beginning(store, rule):
    begun(store, "crew", rule).close()
    grow(store)
    with store.consumer(group="crew", auto_offset_reset=rule) as consumer:
        consumer.assign_topics(["flights"])
        assert values(consumer.poll()) == [b"new 1", b"new 2"]


def test_that_they_were_added_is_remembered_across_opens(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights").append(b"old")
        begun(store, "crew").close()
        grow(store, 2)
    with logstore.open(tmp_path) as store:
        grow(store, 3)
    with logstore.open(tmp_path) as store, store.consumer(group="crew") as consumer:
        consumer.assign([("flights", 2), ("flights", 1)])
        assert values(consumer.poll()) == [b"new 1", b"new 2"]


def test_a_group_that_comes_to_a_grown_topic_begins_as_its_rule_says(store):
    grow(store)
    with store.consumer(group="crew") as consumer:
        consumer.assign_topics(["flights"])
        assert consumer.poll() == []


def test_partitions_of_the_first_hour_follow_the_rule_although_the_group_has_commits(store):
    store.create_topic("gates", 2).append_many([b"a"], partition=1)
    store.commit_offsets("crew", {TopicPartition("gates", 0): 0})
    with store.consumer(group="crew") as consumer:
        consumer.assign_topics(["gates"])
        assert consumer.poll() == []


def test_commits_for_an_earlier_topic_of_that_name_say_nothing_of_them(store):
    begun(store, "crew").close()
    store.delete_topic("flights")
    store.create_topic("flights")
    grow(store)
    with store.consumer(group="crew") as consumer:
        consumer.assign_topics(["flights"])
        assert consumer.poll() == []


def test_a_running_consumer_commits_for_them(store):
    with begun(store, "crew") as consumer:
        grow(store)
        assert len(consumer.poll()) == 2
    found = store.committed("crew")
    assert {name.partition: commit.offset for name, commit in found.items()} == {0: 1, 1: 1, 2: 1}
    assert [lag.records for lag in store.lag("crew")] == [0, 0, 0]


def test_lag_counts_them_before_the_group_has_come_to_them(store):
    begun(store, "crew").close()
    grow(store)
    store["flights"].append_many([b"x", b"y"], partition=2)
    store["flights"].delete_records({1: 1})
    assert [(lag.partition.partition, lag.offset, lag.records, lag.lost) for lag in store.lag("crew")] == [
        (0, 1, 0, 0),
        (1, 0, 0, 1),
        (2, 0, 3, 0),
    ]
    asked = store.lag("crew", [TopicPartition("flights", 2)])
    assert [(lag.partition.partition, lag.records) for lag in asked] == [(2, 3)]
    assert store.lag("others") == []


def test_message_streams_share_them(store):
    seen, enough = [], threading.Event()

    def read(stream):
        for record in stream:
            seen.append(record.value)
            if len(seen) >= 4:
                enough.set()

    with ConsumerConnector(store) as connector:
        streams = connector.create_message_streams({"flights": 3})["flights"]
        threads = [threading.Thread(target=read, args=[stream]) for stream in streams]
        for thread in threads:
            thread.start()
        grow(store, 5)
        assert enough.wait(300)
        assert sum(len(stream.partitions) for stream in streams) == 5
        assert min(len(stream.partitions) for stream in streams) == 1
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert sorted(seen) == [b"new 1", b"new 2", b"new 3", b"new 4"]


@pytest.fixture
def database():
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        yield database


def test_a_group_in_a_database_begins_at_their_beginning(store, database):
    offsets = DatabaseOffsets(database, "crew")
    offsets.create_table()
    offsets.claim(begun(store))
    database.commit()
    grow(store)
    consumer = store.consumer()
    consumer.assign_topics(["flights"])
    offsets.claim(consumer)
    database.commit()
    assert values(consumer.poll()) == [b"new 1", b"new 2"]


def test_a_running_consumer_saves_them_beside_their_effects(store, database):
    database.execute("CREATE TABLE seen (value BLOB)")
    offsets = DatabaseOffsets(database, "crew")
    offsets.create_table()
    consumer = begun(store)
    offsets.claim(consumer)
    database.commit()
    grow(store)
    for fails in (True, False, False):
        try:
            with offsets.transaction(consumer) as cursor:
                for record in consumer.poll():
                    cursor.execute("INSERT INTO seen VALUES (?)", (record.value,))
                offsets.save(cursor, consumer)
                if fails:
                    raise RuntimeError("the power of the program is gone")
        except RuntimeError:
            assert offsets.load() == {TopicPartition("flights", 0): 1}
    assert sorted(database.execute("SELECT value FROM seen")) == [(b"new 1",), (b"new 2",)]
    assert offsets.load() == {TopicPartition("flights", n): 1 for n in range(3)}
    # A consumer of the same group that comes later fences this one, there too.
    offsets_of_another = DatabaseOffsets(database, "crew")
    offsets_of_another.claim(consumer)
    with pytest.raises(logstore.errors.GroupFencedError):
        offsets.save(database.cursor(), consumer)


def test_a_catalogue_that_says_nothing_of_them_is_read_as_before():
    grown = Catalogue(cluster_id="c", topics={"t": TopicEntry(id="i", partitions=3, made_with=1)})
    assert Catalogue.of_bytes(grown.to_bytes(), "p") == grown
    never = Catalogue(cluster_id="c", topics={"t": TopicEntry(id="i", partitions=3)})
    assert b"made_with" not in never.to_bytes()
