"""The back end over a real Kafka, held to the contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.records import NewTopic, TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from logstore.testing.conformance import BackendConformance, ProducerConformance
from logstore.testing.conformance.backends import BackendUnderTest
from tests.interop.broker import Broker
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


class KafkaUnderTest(BackendUnderTest):
    """A client of the broker, and another one that changes its topics."""

    def __init__(self, bootstrap: str) -> None:
        self.other = Client(bootstrap, is_patient=True)
        self.backend = RemoteBackend(Client(bootstrap, metadata_max_age_ms=500))

    def create(self, topic: str, partitions: int = 1) -> None:
        self.other.create_topics([NewTopic(topic, partitions)])

    def append(self, name: TopicPartition, values: Sequence[bytes], timestamp_ms: int = 0) -> None:
        if values:
            with IdempotentProducer(self.other) as producer:
                producer.submit(name, encode(list(values), timestamp_ms=timestamp_ms))

    def delete(self, topic: str) -> None:
        self.other.delete_topics([topic])
        # The controller has deleted it; the broker's own metadata follow.
        wait_for(lambda: topic not in self.other.metadata().topics)

    def add_partitions(self, topic: str, total: int) -> None:
        self.other.create_partitions(topic, total)

    def delete_before(self, name: TopicPartition, offset: int) -> None:
        self.other.delete_records({name: offset})

    def close(self) -> None:
        self.backend.close()
        self.other.close()


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


class TestKafka(BackendConformance, ProducerConformance):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Broker) -> None:
        self.bootstrap = kafka.bootstrap

    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        scene = KafkaUnderTest(self.bootstrap)
        try:
            yield scene
        finally:
            for group in ("crew", "ground"):
                scene.backend.offsets.delete(group)
            scene.other.delete_topics(scene.backend.topics())
            scene.close()
