"""`logstore.connect`: a program that was written for a store runs on a cluster, here on brokers of this process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore.batch._encode import encode
from logstore.client.store import ONLY_OF_STORES
from logstore.config.client import ConsumerConfig
from logstore.config.remote import ClusterConsumerConfig
from logstore.errors import (
    BrokerUnreachableError,
    ClientClosedError,
    ForkedError,
    InvalidSettingError,
    PartialAppendError,
)
from logstore.protocol.generated import messages as m
from logstore.records import Isolation, TopicPartition
from logstore.remote.topics.store import RemoteStore
from tests.kit.waiting import wait_for
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


def test_a_consumer_says_how_it_fetches_and_the_client_says_the_rest(brokers):
    brokers.topic("t")

    def asked() -> list[tuple[str, int, int]]:
        return [(each.rack_id, each.max_wait_ms, each.min_bytes) for each in brokers.requests(m.FetchRequest)]

    with logstore.connect(brokers.bootstrap, client_rack="one", fetch_max_wait_ms=70) as cluster:
        own = {"fetch.min.bytes": 5, "client.rack": "two", "fetch.max.wait.ms": 500, "max.partition.fetch.bytes": 0}
        for said, expected in ({}, ("one", 70, 1)), (own, ("two", 500, 5)):
            with cluster.consumer(said) as consumer:
                consumer.assign([("t", 0)])
                assert consumer.poll() == []
                wait_for(lambda: expected in asked())  # noqa: B023  used at once


def test_the_isolation_of_a_connection_holds_for_what_says_none(brokers):
    brokers.topic("t")
    partition = brokers.partition(TopicPartition("t", 0))
    aborted = encode([b"aborted"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    partition.mark(7, commit=False, first=partition.put(aborted))
    partition.add([b"kept"])
    with logstore.connect(brokers.bootstrap, isolation_level="read_committed") as cluster:
        for said, expected in (None, [b"kept"]), ("read_uncommitted", [b"aborted", b"kept"]):
            own = {} if said is None else {"isolation": said}
            topic = cluster["t"]
            assert [record.value for record in topic.scan(**own)] == expected
            assert [record.value for record in topic.read(0, **own)] == expected
            assert (topic.record_at(0, 0, **own) is None) == (said is None)
            assert [record.value for record in topic[0].scan(**own)] == expected
            assert [record.value for record in topic[0].read(0, **own)] == expected
            assert (topic[0].record_at(0, **own) is None) == (said is None)
            own = {} if said is None else {"isolation_level": said}
            with cluster.consumer(auto_offset_reset="earliest", **own) as consumer:
                consumer.assign([("t", 0)])
                found = []
                while len(found) < len(expected):
                    found += consumer.poll(30) or pytest.fail("nothing came")
                assert [record.value for record in found] == expected


@pytest.mark.parametrize("kind", [ConsumerConfig, ClusterConsumerConfig])
def test_a_default_that_a_settings_object_says_holds_against_the_connection(brokers, kind):
    said = kind.of({"isolation.level": "read_uncommitted", "fetch.max.bytes": 52_428_800})
    others = (
        kind(isolation_level="read_uncommitted"),
        pickle.loads(pickle.dumps(said)),
        said.replace(group_id="crew"),
    )
    with logstore.connect(brokers.bootstrap, isolation_level="read_committed", fetch_max_bytes=1_000) as cluster:
        for config in (said, *others):
            with cluster.consumer(config) as consumer:
                assert consumer._isolation is Isolation.READ_UNCOMMITTED
        with cluster.consumer(said) as consumer:
            assert consumer._config.fetch_max_bytes == 52_428_800
        for config in kind(), kind.of({"group.id": "crew"}), None:
            with cluster.consumer(config) as consumer:
                assert consumer._isolation is Isolation.READ_COMMITTED
                assert consumer._config.fetch_max_bytes == 1_000
    assert said == kind()
    assert said.changed() == {}


def test_the_end_of_a_partition_is_that_of_the_isolation_of_its_connection(brokers):
    brokers.topic("t")
    partition = brokers.partition(TopicPartition("t", 0))
    partition.add([b"kept"], timestamp_ms=10)
    opened = encode(
        [b"open"], timestamp_ms=11, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    partition.put(opened)
    partition.stable = 1
    for said, end in ("read_committed", 1), ("read_uncommitted", 2):
        with logstore.connect(brokers.bootstrap, isolation_level=said) as cluster:
            reader = cluster["t"][0]
            assert (reader.end_offset(), reader.scan().end_offset) == (end, end)
            assert reader.end_offset(isolation="read_uncommitted") == 2
            assert (reader.offset_for_time(11) is None) == (end == 1)


def test_a_forked_child_is_refused_by_each_call(brokers):
    name = TopicPartition("t", 0)
    brokers.topic("t")
    with logstore.connect(brokers.bootstrap) as cluster:
        topic, backend = cluster["t"], cluster._backend
        offsets, partition = backend.offsets, topic[0]
        calls = {
            "store.topic": lambda: cluster.topic("t"),
            "store.topics": cluster.topics,
            "store.create_topic": lambda: cluster.create_topic("other"),
            "store.alter_topic": lambda: cluster.alter_topic("t", {"retention.ms": 5}),
            "store.add_partitions": lambda: cluster.add_partitions("t", 2),
            "store.describe_topic": lambda: cluster.describe_topic("t"),
            "store.delete_topics": lambda: cluster.delete_topics(["t"]),
            "store.producer": cluster.producer,
            "store.consumer": cluster.consumer,
            "topic.append": lambda: topic.append(b"v"),
            "topic.scan": lambda: list(topic.scan()),
            "topic.partition_count": lambda: topic.partition_count,
            "topics": backend.topics,
            "facts": lambda: backend.facts("t"),
            "look_again": lambda: backend.look_again(["t"]),
            "check_exists": lambda: backend.check_exists(name, topic.id),
            "start_offsets": lambda: backend.start_offsets([name]),
            "end_offsets": lambda: backend.end_offsets([name], Isolation.READ_UNCOMMITTED),
            "offsets_for_times": lambda: backend.offsets_for_times({name: 1}, Isolation.READ_UNCOMMITTED),
            "epoch_ends": lambda: backend.epoch_ends({name: 0}),
            "partition": lambda: backend.partition(name),
            "ends": lambda: backend.ends([name], Isolation.READ_UNCOMMITTED),
            "partition.end_offset": lambda: partition.end_offset(Isolation.READ_UNCOMMITTED),
            "partition.read": lambda: partition.read(0, max_bytes=1, isolation=Isolation.READ_UNCOMMITTED),
            "offsets.committed": lambda: offsets.committed("crew"),
            "offsets.groups": offsets.groups,
            "offsets.commit": lambda: offsets.commit("crew", {name: 0}),
            "offsets.delete": lambda: offsets.delete("crew"),
        }
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            try:
                for each, call in calls.items():
                    try:
                        call()
                    except ForkedError:
                        continue
                    except Exception as error:  # noqa: BLE001  told to the parent
                        os.write(tell, f"{each} raises {error!r}; ".encode())
                    else:
                        os.write(tell, f"{each} works; ".encode())
                cluster.close()
                os.write(tell, b"end")
            finally:
                os._exit(0)
        os.close(tell)
        with open(told, "rb") as answer:
            assert answer.read() == b"end"
        os.waitpid(child, 0)
        assert cluster.topics() == ["t"]
