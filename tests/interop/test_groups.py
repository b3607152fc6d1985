"""Groups of a real Kafka: this client's members share topics, by each protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.client.consumer import open_consumer
from logstore.records import NewTopic, TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from tests.interop.broker import Broker
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_one_member_reads_all_commits_and_leaves(kafka: Broker, protocol: str) -> None:
    backend = RemoteBackend(Client(kafka.bootstrap, is_patient=True))
    admin = Client(kafka.bootstrap, is_patient=True)
    topic, group = f"alone-{protocol}", f"crew-{protocol}"
    admin.create_topics([NewTopic(topic, 4)])
    wanted = {(partition, b"%d" % number) for partition in range(4) for number in range(100)}
    with IdempotentProducer(admin) as producer:
        for partition in range(4):
            producer.submit(TopicPartition(topic, partition), encode([b"%d" % number for number in range(100)]))
    settings = {"group.protocol": protocol, "auto.offset.reset": "earliest"}
    got: list[tuple[int, bytes | None]] = []
    with open_consumer(backend, group, settings, {}) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: got.extend((one.partition, one.value) for one in consumer.poll(1.0)) or len(got) >= 400)
    assert len(got) == 400
    assert set(got) == wanted
    assert {name.partition: one.offset for name, one in backend.offsets.committed(group).items()} == dict.fromkeys(
        range(4), 100
    )
    assert all(name.topic == topic for name in backend.offsets.committed(group))
    # The members of the group are gone: its offsets may be deleted.
    assert backend.offsets.delete(group) == 4
    admin.delete_topics([topic])
    backend.close()
    admin.close()
