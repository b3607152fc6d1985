"""Unchanged clients of Kafka, and our own, against a broker."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import pytest

import logstore
from logstore.broker import Broker
from logstore.client.backend.findings import Level
from logstore.errors import ConfigError, InvalidPartitionsError, OffsetOutOfRangeError, PolicyViolationError
from logstore.records import TopicPartition
from logstore.remote.client import Client
from logstore.remote.diagnosis.diagnosis import IntendedUse, diagnose
from logstore.remote.diagnosis.rights import Purpose
from logstore.store import Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, which kafka-python reads with
    import kafka
    import kafka.admin
    import kafka.errors

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

#: As a broker's clients see them: key, value, headers.
RECORDS = [(b"k%d" % n, b"value %d" % n, [("h", b"%d" % n)]) for n in range(200)] + [
    (None, b"", []),
    (b"k", None, []),
]


@pytest.mark.row("O4")
@pytest.mark.row("P5", part="served by logstore")
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


@pytest.mark.row("O4")
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


@pytest.mark.row("O4")
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
    with pytest.raises(confluent_kafka.KafkaException, match="one replica"):
        admin.create_topics([confluent_kafka.admin.NewTopic("two", 1, 2)])["two"].result(20)
    admin.delete_topics(["flights"])["flights"].result(20)
    assert "flights" not in store


def test_a_client_that_asks_is_told_that_it_may_do_everything(flights: Store, broker: Broker) -> None:
    """Web consoles offer only what they are told."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    Operation, names = confluent_kafka.admin.AclOperation, confluent_kafka.TopicCollection(["flights"])
    of_cluster = {Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE}
    of_topic = {Operation.READ, Operation.WRITE, Operation.DELETE}
    of_both = {Operation.CREATE, Operation.ALTER, Operation.DESCRIBE}
    of_both |= {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
    told = admin.describe_cluster(include_authorized_operations=True).result(20)
    assert set(told.authorized_operations) == of_cluster | of_both
    told = admin.describe_topics(names, include_authorized_operations=True)["flights"].result(20)
    assert set(told.authorized_operations) == of_topic | of_both
    assert admin.describe_cluster().result(20).authorized_operations is None
    assert admin.describe_topics(names)["flights"].result(20).authorized_operations is None


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


# --- administration of what there is -----------------------------------------------------------


@pytest.fixture
def flights(store: Store) -> Store:
    topic = store.create_topic("flights", 2, retention_ms=9_000_000_000_000)
    for when in (1000, 3000, 2000):
        topic.append(b"AA", partition=0, timestamp=when)
    return store


def test_confluent_kafka_describes_and_changes_settings(flights: Store, broker: Broker) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    Resource, Entry = confluent_kafka.admin.ConfigResource, confluent_kafka.admin.ConfigEntry
    Operation, Source = confluent_kafka.admin.AlterConfigOpType, confluent_kafka.admin.ConfigSource

    def described(kind: str, name: str) -> dict[str, Any]:
        (found,) = admin.describe_configs([Resource(kind, name)]).values()
        return dict(found.result(20))

    found = described("topic", "flights")
    assert (found["retention.ms"].value, found["retention.ms"].source) == (
        "9000000000000",
        Source.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert set(found["cleanup.policy"].synonyms) == {"log.cleanup.policy"}
    found = described("broker", "1")
    assert {key: found[key].value for key in ("num.partitions", "default.replication.factor")} == {
        "num.partitions": "1",
        "default.replication.factor": "1",
    }
    assert all(each.is_read_only for each in found.values())

    def change(key: str, what: Any, value: str | None) -> None:
        entry = Entry(key, value, incremental_operation=what)
        (done,) = admin.incremental_alter_configs(
            [Resource("topic", "flights", incremental_configs=[entry])]
        ).values()
        done.result(20)

    change("cleanup.policy", Operation.APPEND, "delete")
    change("retention.ms", Operation.DELETE, None)
    change("segment.bytes", Operation.SET, "4096")
    config = flights["flights"].config
    assert (config.cleanup_policy, config.retention_ms, config.segment_bytes) == ("delete", -1, 4096)
    with pytest.raises(confluent_kafka.KafkaException, match="expected"):
        change("segment.bytes", Operation.SET, "no number")
    with pytest.raises(confluent_kafka.KafkaException, match="without a key"):
        change("cleanup.policy", Operation.SET, "compact")


def test_confluent_kafka_adds_partitions_deletes_records_and_lists_offsets(flights: Store, broker: Broker) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    New, Spec = confluent_kafka.admin.NewPartitions, confluent_kafka.admin.OffsetSpec
    place = confluent_kafka.TopicPartition("flights", 0)

    def offset(spec: Any) -> int:
        (found,) = admin.list_offsets({place: spec}).values()
        return int(found.result(20).offset)

    found = [
        offset(each) for each in (Spec.earliest(), Spec.latest(), Spec.max_timestamp(), Spec.for_timestamp(1500))
    ]
    assert found == [0, 3, 1, 1]
    (deleted,) = admin.delete_records([confluent_kafka.TopicPartition("flights", 0, 2)]).values()
    assert deleted.result(20).low_watermark == 2
    assert offset(Spec.earliest()) == flights["flights"].log(0).log_start_offset == 2
    (deleted,) = admin.delete_records([confluent_kafka.TopicPartition("flights", 0, 9)]).values()
    with pytest.raises(confluent_kafka.KafkaException, match=r"[Oo]ffset out of range"):
        deleted.result(20)
    admin.create_partitions([New("flights", 5)])["flights"].result(20)
    assert len(flights["flights"]) == 5
    with pytest.raises(confluent_kafka.KafkaException, match="already"):
        admin.create_partitions([New("flights", 5)])["flights"].result(20)
    described = admin.describe_topics(confluent_kafka.TopicCollection(["flights"]))["flights"].result(20)
    assert [each.id for each in described.partitions] == [0, 1, 2, 3, 4]
    elected = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [place]).result(20)
    assert elected[place].code() == confluent_kafka.KafkaError.ELECTION_NOT_NEEDED


def test_administration_by_aiokafka(flights: Store, broker: Broker) -> None:
    A = aiokafka.admin

    async def run() -> dict[str, Any]:
        admin = A.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            topic = A.config_resource.ConfigResource(A.config_resource.ConfigResourceType.TOPIC, "flights")
            node = A.config_resource.ConfigResource(A.config_resource.ConfigResourceType.BROKER, "1")
            found: dict[str, Any] = {"described": await admin.describe_configs([topic])}
            found["node"] = await admin.describe_configs([node])
            changed = A.config_resource.ConfigResource(
                A.config_resource.ConfigResourceType.TOPIC, "flights", {"segment.bytes": "4096"}
            )
            found["changed"] = await admin.alter_configs([changed])
            await admin.create_partitions({"flights": A.NewPartitions(3)})
            with pytest.raises(aiokafka.errors.InvalidPartitionsError):
                await admin.create_partitions({"flights": A.NewPartitions(3)})
            place = aiokafka.TopicPartition("flights", 0)
            found["deleted"] = await admin.delete_records({place: A.RecordsToDelete(2)})
            return found
        finally:
            await admin.close()

    found = asyncio.run(asyncio.wait_for(run(), 60))
    ((_, _, kind, name, settings),) = found["described"][0].resources
    assert (kind, name) == (2, "flights")
    assert {each[0]: each[1] for each in settings}["retention.ms"] == "9000000000000"
    ((_, _, _, _, settings),) = found["node"][0].resources
    assert {each[0]: each[1] for each in settings}["num.partitions"] == "1"
    # The older request gives the topic these settings, and no other of its own.
    assert dict(flights.describe_topic("flights").settings) == {"segment.bytes": "4096"}
    assert len(flights["flights"]) == 3
    assert flights["flights"].log(0).log_start_offset == 2
    assert list(found["deleted"].values()) == [2]


def test_administration_by_kafka_python(flights: Store, broker: Broker) -> None:
    A = kafka.admin
    admin = A.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        topic = A.ConfigResource(A.ConfigResourceType.TOPIC, "flights")
        found = admin.describe_configs([topic], include_synonyms=True, config_filter="all")
        assert found["topic"]["flights"]["retention.ms"]["value"] == "9000000000000"
        node = A.ConfigResource(A.ConfigResourceType.BROKER, "1")
        found = admin.describe_configs([node], config_filter="all")
        assert found["broker"]["1"]["num.partitions"]["value"] == "1"
        Operation = A.AlterConfigOp
        changes = {"retention.ms": (Operation.DELETE, None), "cleanup.policy": (Operation.APPEND, "delete")}
        admin.alter_configs([A.ConfigResource(A.ConfigResourceType.TOPIC, "flights", changes)])
        assert flights["flights"].config.retention_ms == -1
        admin.create_partitions({"flights": 3})
        assert len(flights["flights"]) == 3
        with pytest.raises(kafka.errors.InvalidPartitionsError):
            admin.create_partitions({"flights": 3})
        place = kafka.TopicPartition("flights", 0)
        listed = [
            admin.list_partition_offsets({place: each})[place].offset
            for each in (A.OffsetSpec.EARLIEST, A.OffsetSpec.LATEST, A.OffsetSpec.MAX_TIMESTAMP, 1500)
        ]
        assert listed == [0, 3, 1, 1]
        admin.delete_records({place: 2})
        assert flights["flights"].log(0).log_start_offset == 2
        (directory,) = admin.describe_log_dirs()
        assert flights._host.path in str(directory)
        assert admin.list_partition_reassignments() in ({}, [])
    finally:
        admin.close()


def test_administration_by_our_own_client(flights: Store, broker: Broker) -> None:
    with logstore.connect(broker.bootstrap) as cluster:
        topic = cluster["flights"]
        assert cluster.alter_topic("flights", segment_bytes=4096, retention_ms=None) == {"segment.bytes": "4096"}
        assert (topic.config.segment_bytes, topic.config.retention_ms) == (4096, -1)
        with pytest.raises(ConfigError, match=r"retention\.ms"):
            cluster.alter_topic("flights", {"retention.ms": -7})
        with pytest.raises(PolicyViolationError):
            cluster.alter_topic("flights", cleanup_policy="compact")
        told, known = cluster.describe_topic("flights"), flights.describe_topic("flights")
        assert (told.name, told.id, told.settings, told.config) == (
            known.name,
            known.id,
            known.settings,
            known.config,
        )
        assert [(each.log_start_offset, each.high_watermark, each.size) for each in told.partitions] == [
            (each.log_start_offset, each.high_watermark, each.size) for each in known.partitions
        ]
        assert cluster.add_partitions("flights", 4).partition_count == 4
        with pytest.raises(InvalidPartitionsError):
            cluster.add_partitions("flights", 4)
        assert topic.delete_records({0: 2, 1: -1}) == {0: 2, 1: 0}
        with pytest.raises(OffsetOutOfRangeError):
            topic.delete_records({0: 9})
        assert topic.offset_for_time(1500) == {0: (2000, 2), 1: None, 2: None, 3: None}
        assert [each.value for each in topic.scan()] == [b"AA"]
        made = cluster.create_topic("made", retention_ms=5, cleanup_policy="compact,delete")
        assert (made.config.retention_ms, made.config.cleanup_policy) == (5, "compact,delete")
        assert cluster.topics() == ["flights", "made"]
        cluster.delete_topics(["flights", "made"])
    assert flights.topics() == []


def test_offsets_of_leader_epochs_by_our_own_client(flights: Store, broker: Broker) -> None:
    log = flights["flights"].log(0)
    log.replica.begin_epoch(2)
    log.append([b"UA"])
    with Client(broker.bootstrap) as client:
        place = TopicPartition("flights", 0)
        found = {epoch: client.offset_for_leader_epoch({place: epoch})[place] for epoch in (0, 1, 2)}
        assert {epoch: (each.leader_epoch, each.end_offset) for epoch, each in found.items()} == {
            0: (0, 3),
            1: (0, 3),
            2: (2, 4),
        }
        assert client.log_dir_sizes(["flights"]) == {
            TopicPartition("flights", 0): log.maintenance.size,
            TopicPartition("flights", 1): 0,
        }


def test_the_doctor_finds_only_that_groups_are_not_served(flights: Store, broker: Broker) -> None:
    wanted = IntendedUse(topics=("flights",), purposes=(Purpose.PRODUCE, Purpose.CONSUME))
    found = [each for each in diagnose(broker.bootstrap, {}, wanted) if each.level is not Level.INFO]
    assert [each.name for each in found] == ["old-broker"]
    assert found[0].what.endswith("FindCoordinator, OffsetFetch, OffsetCommit")
