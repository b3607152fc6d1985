"""The back end over a broker that is all the tests have of it: a second client does what its owner would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstore.batch._encode import encode
from logstore.config.log import Setting
from logstore.records import NewTopic, TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from logstore.testing.conformance.backends import BackendUnderTest
from tests.kit.waiting import wait_for


class ClientsUnderTest(BackendUnderTest):
    """A client of a broker, and another one that changes its topics."""

    backend: RemoteBackend

    def __init__(self, bootstrap: str, settings: Mapping[str, Setting] | None = None) -> None:
        self.other = Client(bootstrap, is_patient=True)
        self.backend = RemoteBackend(Client(bootstrap, {"metadata.max.age.ms": 500, **(settings or {})}))

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
