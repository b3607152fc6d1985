"""The store's own topics: no user writes them, and what holds the groups' offsets stays as it was made."""

from __future__ import annotations

import pytest

import logstore
from logstore.errors import InvalidPartitionsError, InvalidTopicError, PolicyViolationError, UnknownTopicError
from logstore.topic_names import CONSUMER_OFFSETS


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path, housekeeping="manual") as store:
        store.create_topic("flights").append(b"AA 1141")
        store.commit_offsets("billing", {("flights", 0): 1})
        yield store


def test_no_caller_writes_the_offsets_but_by_committing(store):
    topic = store.topic(CONSUMER_OFFSETS)
    producer = store.producer()
    for write in (
        lambda: topic.append(b"value", key=b"\0\1x"),
        lambda: topic.append_many([(b"key", b"value")]),
        lambda: topic.delete_records({0: 1}),
        lambda: producer.send(CONSUMER_OFFSETS, b"value", b"key"),
    ):
        with pytest.raises((InvalidTopicError, PolicyViolationError)):
            write()
    producer.close()
    assert [commit.offset for commit in store.committed("billing").values()] == [1]


def test_their_settings_and_their_number_of_partitions_stay(store):
    with pytest.raises(InvalidPartitionsError, match="fixed"):
        store.add_partitions(CONSUMER_OFFSETS, 50)
    for policy in ("delete", "compact,delete"):
        with pytest.raises(PolicyViolationError, match="compact"):
            store.alter_topic(CONSUMER_OFFSETS, {"cleanup.policy": policy})
    store.delete_topic(CONSUMER_OFFSETS)
    with pytest.raises(PolicyViolationError, match="compact"):
        store.create_topic(CONSUMER_OFFSETS)
    assert CONSUMER_OFFSETS not in store.topics(internal=True)


def test_a_deleted_topic_keeps_no_group_from_committing_the_others(store):
    store.create_topic("other").append(b"value")
    with store.consumer(group="crew", auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(["flights", "other"])
        while consumer.poll():
            pass
        store.delete_topic("other")
    assert {place.topic: commit.offset for place, commit in store.committed("crew").items()} == {"flights": 1}
    with pytest.raises(UnknownTopicError):
        store.topic("other")
