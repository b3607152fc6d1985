"""A group's offset outlives the records that it speaks of: after a power cut it goes back to where they end."""

from __future__ import annotations

import sqlite3

import pytest

import logstore
from logstore.client.dbapi import DatabaseOffsets
from logstore.records import TopicPartition
from logstore.testing import SimDisk

FLIGHTS = TopicPartition("flights", 0)
NEW = [b"new %d" % n for n in range(9)]


def open_store(disk):
    return logstore.open("/data", files=disk, housekeeping="manual")


def values(consumer):
    return [record.value for record in consumer.poll(max_records=1000)]


def read_ahead_of_the_disk(store):
    """A topic with four synced records and six that are in the page cache only."""
    topic = store.create_topic("flights")
    topic.append_many([b"synced %d" % n for n in range(4)], ack="synced")
    topic.append_many([b"lost %d" % n for n in range(6)])


def seen_after_a_power_cut():
    """What a group reads that had committed, durably, behind records which a power cut then took."""
    disk = SimDisk(seed=1)
    store = open_store(disk)
    read_ahead_of_the_disk(store)
    consumer = store.consumer(group="g", auto_offset_reset="earliest")
    consumer.assign_topics(["flights"])
    assert len(values(consumer)) == 10
    consumer.commit(ack="synced")
    after = disk.crash("none")
    store.close()
    with open_store(after) as store:
        store["flights"].append_many(NEW, ack="synced")
        with store.consumer(group="g", auto_offset_reset="latest") as consumer:
            consumer.assign_topics(["flights"])
            return values(consumer)


@pytest.mark.crash
@pytest.mark.row("C3")
@pytest.mark.row("S20", part="killed processes")
def test_a_group_that_read_what_a_power_cut_took_reads_what_is_written_in_its_place():
    assert seen_after_a_power_cut() == NEW


@pytest.mark.crash
def test_without_the_epoch_acknowledged_records_are_passed_over(monkeypatch):
    monkeypatch.setattr("logstore.log.Log._epoch_before", lambda log, offset: -1)
    assert seen_after_a_power_cut() == NEW[6:]


@pytest.mark.crash
@pytest.mark.row("C13")
def test_offsets_in_a_database_go_back_too():
    disk = SimDisk(seed=1)
    database = sqlite3.connect(":memory:")
    offsets = DatabaseOffsets(database, "g")
    offsets.create_table()
    store = open_store(disk)
    read_ahead_of_the_disk(store)
    consumer = store.consumer(auto_offset_reset="earliest")
    consumer.assign_topics(["flights"])
    offsets.claim(consumer)
    with offsets.transaction(consumer):
        assert len(values(consumer)) == 10
    assert offsets.load() == {FLIGHTS: 10}
    after = disk.crash("none")
    store.close()
    with open_store(after) as store:
        store["flights"].append_many(NEW, ack="synced")
        with store.consumer(auto_offset_reset="latest") as consumer:
            consumer.assign_topics(["flights"])
            assert offsets.claim(consumer) == {FLIGHTS: 4}
            assert values(consumer) == NEW
    database.close()


@pytest.mark.crash
def test_after_a_kill_nothing_is_read_twice(tmp_path):
    """The epoch rises, too, and the records are all there: the offset holds."""
    disk = SimDisk(seed=1)
    store = open_store(disk)
    read_ahead_of_the_disk(store)
    consumer = store.consumer(group="g", auto_offset_reset="earliest")
    consumer.assign_topics(["flights"])
    assert len(values(consumer)) == 10
    consumer.commit()
    after = disk.kill()
    store.close()
    with open_store(after) as store:
        store["flights"].append_many(NEW)
        with store.consumer(group="g", auto_offset_reset="earliest") as consumer:
            consumer.assign_topics(["flights"])
            assert values(consumer) == NEW
