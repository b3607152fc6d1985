"""The back end over brokers, held to the contract on brokers of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from logstore.batch._encode import encode
from logstore.config.log import LogConfig
from logstore.protocol.generated.messages import DescribeConfigsRequest
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.testing.conformance import BackendConformance, ProducerConformance
from logstore.testing.conformance.backends import BackendUnderTest
from tests.remote.fake_cluster import FakeCluster, FakePartition


class ClusterUnderTest(BackendUnderTest):
    """A client of three brokers, which lead partitions in turn."""

    def __init__(self, cluster: FakeCluster, client: Client) -> None:
        self.cluster = cluster
        self.backend = RemoteBackend(client)

    def create(self, topic: str, partitions: int = 1) -> None:
        with self.cluster.lock:
            self.cluster.topic(topic, partitions, leaders=list(self.cluster.brokers))

    def append(self, name: TopicPartition, values: Sequence[bytes], timestamp_ms: int = 0) -> None:
        if values:
            with self.cluster.lock:
                self.cluster.partition(name).put(encode(list(values), timestamp_ms=timestamp_ms))

    def delete(self, topic: str) -> None:
        with self.cluster.lock:
            del self.cluster.topics[topic]

    def add_partitions(self, topic: str, total: int) -> None:
        with self.cluster.lock:
            partitions = self.cluster.topics[topic].partitions
            partitions += [FakePartition() for _ in range(total - len(partitions))]

    def delete_before(self, name: TopicPartition, offset: int) -> None:
        with self.cluster.lock:
            self.cluster.partition(name).start = offset


class TestCluster(BackendConformance, ProducerConformance):
    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        with FakeCluster(3, long_polls=True) as cluster:
            client = Client(cluster.bootstrap, metadata_max_age_ms=200, retry_backoff_ms=5, fetch_max_wait_ms=100)
            scene = ClusterUnderTest(cluster, client)
            try:
                yield scene
            finally:
                scene.backend.close()


def test_the_settings_of_many_topics_are_left_to_the_brokers() -> None:
    """Each would cost a request, before the first batch is sent."""
    with (
        FakeCluster() as cluster,
        closing(RemoteBackend.open(cluster.bootstrap, {"max.request.size": 77})) as backend,
    ):
        names = [f"topic-{number}" for number in range(21)]
        for name in names:
            cluster.topic(name)
            cluster.topics[name].settings = {"max.message.bytes": "1000"}
        few = backend.batch_rules(names[:20])
        assert {each.config.max_message_bytes for each in few.values()} == {1_000}
        asked = len(cluster.requests(DescribeConfigsRequest))
        assert asked == 20
        many = backend.batch_rules(names)
        assert len(cluster.requests(DescribeConfigsRequest)) == asked
        assert {each.config.max_message_bytes for each in many.values()} == {LogConfig().max_message_bytes}
        for found in (few, many):
            assert {dict(each.limits)["max.request.size"] for each in found.values()} == {77}
