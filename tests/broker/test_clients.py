"""Unchanged clients of Kafka, and our own, against a broker."""

from __future__ import annotations

import asyncio
import warnings

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import pytest

import logstore
from logstore.broker import Broker
from logstore.store import Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, which kafka-python reads with
    import kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: As a broker's clients see them: key, value, headers.
RECORDS = [(b"k%d" % n, b"value %d" % n, [("h", b"%d" % n)]) for n in range(200)] + [
    (None, b"", []),
    (b"k", None, []),
]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_produces_and_consumes(store: Store, broker: Broker, codec: str) -> None:
    store.create_topic("flights", partitions=3)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "compression.type": codec}
    )
    for key, value, headers in RECORDS:
        producer.produce("flights", value, key, 1, headers=headers)
    assert producer.flush(20) == 0
    assert [(r.key, r.value, list(r.headers)) for r in store["flights"].log(1).read(0)] == RECORDS

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("flights", 1, 0)])
    found = []
    while len(found) < len(RECORDS):
        found += consumer.consume(len(RECORDS) - len(found), 20)
    consumer.close()
    assert [(m.key(), m.value(), m.headers() or []) for m in found] == RECORDS
    assert broker.metrics()["bytes_sendfile"] > 0


def test_aiokafka_produces_and_consumes(store: Store, broker: Broker) -> None:
    store.create_topic("flights")

    async def run() -> list[tuple[bytes | None, bytes | None]]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True
        ) as producer:
            for key, value, headers in RECORDS:
                await producer.send("flights", value, key, headers=headers)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition("flights", 0)])
            return [(each.key, each.value) for each in [await consumer.getone() for _ in RECORDS]]
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(run(), 60)) == [(key, value) for key, value, _ in RECORDS]


def test_kafka_python_produces_and_consumes(store: Store, broker: Broker) -> None:
    store.create_topic("flights")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    for key, value, headers in RECORDS:
        producer.send("flights", value, key, headers=headers)
    producer.flush(20)
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    consumer.assign([kafka.TopicPartition("flights", 0)])
    found = [next(consumer) for _ in RECORDS]
    consumer.close()
    assert [(each.key, each.value) for each in found] == [(key, value) for key, value, _ in RECORDS]


def test_our_own_client_creates_a_topic_and_sees_what_an_embedded_append_writes(
    store: Store, broker: Broker
) -> None:
    with logstore.connect(broker.bootstrap) as cluster:
        topic = cluster.create_topic("flights", 2)
        topic.append(b"over the network", partition=0)
        assert [each.value for each in store["flights"].log(0).read(0)] == [b"over the network"]
        store["flights"].append(b"embedded", partition=0)
        assert [each.value for each in topic.scan()] == [b"over the network", b"embedded"]
        cluster.delete_topic("flights")
    assert "flights" not in store


def test_administration_by_confluent_kafka(store: Store, broker: Broker) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([confluent_kafka.admin.NewTopic("flights", 4, config={"retention.ms": "1000"})])
    made["flights"].result(20)
    assert store["flights"].config.retention_ms == 1000
    assert len(admin.list_topics("flights", 20).topics["flights"].partitions) == 4
    assert set(admin.list_topics(timeout=20).topics) == {"flights"}
    described = admin.describe_cluster().result(20)
    assert described.cluster_id == store._host.cluster_id
    assert [node.id for node in described.nodes] == [1]
    with pytest.raises(confluent_kafka.KafkaException, match="exists already"):
        admin.create_topics([confluent_kafka.admin.NewTopic("flights", 4)])["flights"].result(20)
    with pytest.raises(confluent_kafka.KafkaException, match="one node"):
        admin.create_topics([confluent_kafka.admin.NewTopic("two", 1, 2)])["two"].result(20)
    admin.delete_topics(["flights"])["flights"].result(20)
    assert "flights" not in store


def test_a_fetch_that_waits_is_woken_by_an_embedded_append(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 60_000,  # a poll that was not woken would end the test by its own time
            "socket.timeout.ms": 100_000,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("flights", 0, 0)])
    assert consumer.poll(0.5) is None
    topic.append(b"now")
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.value() == b"now"
