"""Members of groups on brokers of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logstore.records import TopicPartition
from tests.remote.backend.group_cases import Brokers, GroupCases
from tests.remote.fake_cluster import FakeCluster, FakePartition


class FakeBrokers(Brokers):
    session_ms = 600
    heartbeat_ms = 50
    patience_s = 30.0

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap

    def create(self, topic: str, partitions: int) -> None:
        with self.cluster.lock:
            self.cluster.topic(topic, partitions, leaders=list(self.cluster.brokers))

    def add_partitions(self, topic: str, total: int) -> None:
        with self.cluster.lock:
            partitions = self.cluster.topics[topic].partitions
            partitions += [FakePartition() for _ in range(total - len(partitions))]

    def append(self, name: TopicPartition, count: int) -> None:
        with self.cluster.lock:
            self.cluster.partition(name).add([b"%d" % number for number in range(count)])

    def move_coordinator(self, group: str) -> None:
        for node in (1, 2, 3):
            self.cluster.groups.move(group, node)


class TestGroups(GroupCases):
    @pytest.fixture
    def brokers(self) -> Iterator[Brokers]:
        with FakeCluster(3, long_polls=True, session_ms=600, interval_ms=50) as cluster:
            yield FakeBrokers(cluster)
