"""Groups of a real Kafka: this client's members share topics, by each protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.records import NewTopic, TopicPartition
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from tests.interop.cluster import Cluster
from tests.remote.backend.group_cases import Brokers, GroupCases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

#: Short sessions, also of members by KIP-848, whose brokers say how long they are.
GROUPS = {
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}


class KafkaBrokers(Brokers):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.admin = Client(cluster.bootstrap, is_patient=True)

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions)])

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions(topic, total)

    def append(self, name: TopicPartition, count: int) -> None:
        with IdempotentProducer(self.admin) as producer:
            producer.submit(name, encode([b"%d" % number for number in range(count)]))

    def move_coordinator(self, group: str) -> None:
        self.cluster.move_coordinator(group, self.cluster.coordinator(group) % 3 + 1)


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kafka"), properties=GROUPS) as cluster:
        yield cluster


class TestGroups(GroupCases):
    @pytest.fixture
    def brokers(self, cluster: Cluster) -> Iterator[Brokers]:
        made = KafkaBrokers(cluster)
        yield made
        made.admin.close()
