"""The back end over brokers, held to the contract on brokers of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from logstore.batch._encode import encode
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
