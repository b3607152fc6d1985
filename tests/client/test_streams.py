"""Message streams: the paper's blocking iterators, which share the partitions of a topic."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

import logstore
from logstore.client.streams import ConsumerConnector
from logstore.errors import ConsumerClosedError, InvalidPartitionsError, UnknownTopicError

pytestmark = pytest.mark.row("V4")


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 5)
        store.create_topic("gates")
        yield store


def fill(store, count=100):
    for partition in range(5):
        store.topic("flights").append_many([b"%d" % n for n in range(count)], partition=partition)


def read_all(streams, seen, enough):
    """A thread for each stream, until ``enough`` is set by the one who sees the last record; the threads."""

    def read(number, stream):
        for record in stream:
            seen.append((number, record.partition, record.offset))
            if len(seen) >= enough[0]:
                enough[1].set()

    threads = [threading.Thread(target=read, args=each) for each in enumerate(streams)]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_streams_share_the_partitions_and_give_each_record_once(store, count):
    fill(store)
    seen, enough = [], (500, threading.Event())
    with ConsumerConnector(store, auto_offset_reset="earliest") as connector:
        streams = connector.create_message_streams({"flights": count})["flights"]
        assert len(streams) == count
        sizes = [len(stream.partitions) for stream in streams]
        assert sum(sizes) == 5
        assert max(sizes) - min(sizes) <= 1
        threads = read_all(streams, seen, enough)
        assert enough[1].wait(300)
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert Counter((partition, offset) for _, partition, offset in seen) == Counter(
        (partition, offset) for partition in range(5) for offset in range(100)
    )
    for partition in range(5):
        mine = [(number, offset) for number, place, offset in seen if place == partition]
        assert len({number for number, _ in mine}) == 1
        assert [offset for _, offset in mine] == list(range(100))


def test_a_stream_waits_for_what_comes(store):
    seen, enough = [], (1, threading.Event())
    with ConsumerConnector(store) as connector:
        made = connector.create_message_streams({"flights": 2, "gates": 1})
        assert {topic: len(streams) for topic, streams in made.items()} == {"flights": 2, "gates": 1}
        # The rule is "latest": a position is settled before anything comes.
        for stream in made["flights"]:
            for partition in stream.partitions:
                stream._consumer.position(partition)
        threads = read_all(made["flights"], seen, enough)
        store.topic("flights").append(b"late", partition=4)
        assert enough[1].wait(300)
        assert seen == [(1, 4, 0)]
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


def test_a_shutdown_commits_what_is_known_to_be_processed(store):
    fill(store, 10)
    connector = ConsumerConnector(store, "crew", auto_offset_reset="earliest")
    (stream,) = connector.create_message_streams({"flights": 1})["flights"]
    for _ in range(4):
        record = next(stream)
    assert record.offset == 3
    connector.shutdown()
    connector.shutdown()
    # The fourth is still in hand.
    assert store.committed("crew")[(record.topic, record.partition)].offset == 3
    assert list(stream) == []
    with pytest.raises(ConsumerClosedError):
        connector.create_message_streams({"flights": 1})


def test_offsets_are_committed_on_demand(store):
    fill(store, 10)
    with ConsumerConnector(store, "crew", auto_offset_reset="earliest", enable_auto_commit=False) as connector:
        (stream,) = connector.create_message_streams({"gates": 1, "flights": 1})["flights"]
        record = next(stream)
        connector.commit_offsets()
        assert store.committed("crew") == {}
        assert next(stream) != record
        assert store.committed("crew")[(record.topic, record.partition)].offset == 1


def test_a_waiting_stream_commits_at_once_and_goes_on_waiting(store):
    store.topic("gates").append(b"B2")
    seen, enough = [], (2, threading.Event())
    with ConsumerConnector(store, "crew", auto_offset_reset="earliest", enable_auto_commit=False) as connector:
        streams = connector.create_message_streams({"gates": 1})["gates"]
        threads = read_all(streams, seen, enough)
        while not seen:
            pass
        while not store.committed("crew"):
            connector.commit_offsets()
        store.topic("gates").append(b"B3")
        assert enough[1].wait(300)
    threads[0].join(300)
    assert [offset for _, _, offset in seen] == [0, 1]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"flights": 1, "nowhere": 1}, UnknownTopicError),
        ({"flights": 0}, InvalidPartitionsError),
        ({"flights": True}, InvalidPartitionsError),
    ],
)
def test_a_wrong_wish_makes_no_stream(store, wanted, error):
    connector = ConsumerConnector(store, "crew")
    with pytest.raises(error):
        connector.create_message_streams(wanted)
    connector.shutdown()
    assert store.offsets.groups() == []
