"""`logstore.connect`: a program that was written for a store runs on a cluster, here on brokers of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore.client.store import ONLY_OF_STORES
from logstore.errors import (
    BrokerUnreachableError,
    ClientClosedError,
    InvalidSettingError,
    PartialAppendError,
)
from logstore.records import TopicPartition
from logstore.remote.topics.store import RemoteStore
from tests.remote.fake_cluster import FakeCluster
from tests.remote.topics.connected import ConnectedCases

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "howto" / "cluster.md"


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(3, long_polls=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(brokers: FakeCluster) -> Iterator[RemoteStore]:
    with logstore.connect(brokers.bootstrap, retry_backoff_ms=5, metadata_max_age_ms=200) as store:
        yield store


def test_a_partition_that_refuses_leaves_the_others_written_and_is_named(cluster, brokers):
    topic = cluster.create_topic("t", partitions=2)
    with brokers.lock:
        brokers.partition(TopicPartition("t", 1)).refuses = 10  # MESSAGE_TOO_LARGE
    with pytest.raises(PartialAppendError, match=r"partitions t-0 of this append are written .* t-1 may be not"):
        topic.append_many([(b"%d" % number, b"v") for number in range(20)])


def test_settings_are_those_of_kafka(brokers):
    with pytest.raises(InvalidSettingError, match="acks"):
        logstore.connect(brokers.bootstrap, acks="some")
    with pytest.raises(InvalidSettingError, match=r"bootstrap\.servers"):
        logstore.connect()


def test_no_broker_is_said_at_once(brokers):
    with pytest.raises(BrokerUnreachableError):
        logstore.connect("127.0.0.1:1", socket_connection_setup_timeout_ms=200)


def test_a_cluster_that_is_closed_is_closed(cluster):
    topic = cluster.create_topic("t")
    assert "open" in repr(cluster)
    cluster.close()
    cluster.close()
    assert "closed" in repr(cluster)
    for call in (cluster.topics, lambda: topic.append(b"a"), cluster.consumer, lambda: topic.read(0)):
        with pytest.raises(ClientClosedError):
            call()


def test_the_page_lists_what_only_a_store_has():
    """Each call that raises, with the advice of its message."""
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    told = {row.split("`")[1].removesuffix("()"): row.split(" | ")[-1].removesuffix(" |") for row in rows}
    assert {name: told.get(name) for name in ONLY_OF_STORES} == ONLY_OF_STORES


class TestBrokersOfThisProcess(ConnectedCases):
    pass
