"""Brokers that announce ports where nothing listens, batches whose codec does not exist, and missing ACLs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import logstore
from logstore.batch._batch import BatchView
from logstore.batch._crc32c import crc32c
from logstore.batch._encode import encode
from logstore.errors import BrokerError, BrokerUnreachableError, DeliveryTimeoutError, UnsupportedCodecError
from logstore.protocol.generated import messages as m
from logstore.records import TopicPartition
from logstore.remote.topics.store import RemoteStore
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeCluster, FakePartition

FLIGHTS = TopicPartition("flights", 0)
SOON = {
    "request.timeout.ms": 500,
    "default.api.timeout.ms": 1_000,
    "delivery.timeout.ms": 1_000,
    "retry.backoff.ms": 5,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "metadata.max.age.ms": 200,
    "fetch.max.wait.ms": 50,
}


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(2, long_polls=True) as made:
        made.topic("flights", 2, leaders=(1, 2))
        yield made


@pytest.fixture
def store(brokers: FakeCluster) -> Iterator[RemoteStore]:
    with logstore.connect(brokers.bootstrap, SOON) as made:
        yield made


# --- ports where nothing listens ---------------------------------------------------------------


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that is bound, so that no other program gets it, and at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def unheard(brokers: FakeCluster, deaf_port: int) -> Iterator[RemoteStore]:
    """A store whose bootstrap server answers, and names another port for itself."""
    bootstrap = brokers.bootstrap
    for each in brokers.brokers.values():
        each.advertised = deaf_port
    with logstore.connect(bootstrap, SOON) as made:
        yield made


def test_calls_name_the_address_that_the_broker_announces(unheard: RemoteStore, deaf_port: int) -> None:
    topic = unheard["flights"]
    calls = {
        "end": lambda: topic[0].end_offset(),
        "read": lambda: topic.read(0),
        "commit": lambda: unheard.commit_offsets("report", {FLIGHTS: 1}),
    }
    for call in calls.values():
        with pytest.raises(BrokerUnreachableError, match=rf"127\.0\.0\.1:{deaf_port}\): .*advertised\.listeners"):
            call()
    with pytest.raises(DeliveryTimeoutError, match=rf"they were not sent\. .*127\.0\.0\.1:{deaf_port}.*advertised"):
        topic.append(b"v")


def test_a_producer_and_a_consumer_go_on_once_something_listens(
    brokers: FakeCluster, unheard: RemoteStore, deaf_port: int
) -> None:
    with (
        unheard.consumer(auto_offset_reset="earliest") as consumer,
        unheard.producer(delivery_timeout_ms=60_000, linger_ms=0) as producer,
    ):
        consumer.assign([FLIGHTS])
        with pytest.raises(BrokerUnreachableError, match=rf"{deaf_port}\): .*advertised\.listeners"):
            consumer.poll(0.1)
        future = producer.send("flights", b"v", partition=0)
        for each in brokers.brokers.values():
            each.advertised = each.port
        assert future.result(60).offset == 0
        found: list[bytes | None] = []
        wait_for(lambda: found.extend(record.value for record in consumer.poll(0.1)) or found, 60)
        assert found == [b"v"]


# --- unknown codecs ----------------------------------------------------------------------------


def _with_codec(codec: int, value: bytes) -> bytes:
    """A batch that says to be compressed by a codec, and has the right checksum."""
    data = bytearray(encode([value], timestamp_ms=1))
    data[22] = data[22] & ~7 | codec
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_batch_of_an_unknown_codec_is_named_and_can_be_passed(
    brokers: FakeCluster, store: RemoteStore, codec: int
) -> None:
    partitions: list[FakePartition] = brokers.topics["flights"].partitions
    partitions[0].add([b"before"])
    partitions[0].put(_with_codec(codec, b"unknown"))
    partitions[0].add([b"after"])
    partitions[1].add([b"other"])
    assert BatchView(partitions[0].batches[1]).base_offset == 1
    with store.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([FLIGHTS, ("flights", 1)])
        found: list[bytes | None] = []

        def is_refused() -> bool:
            try:
                found.extend(record.value for record in consumer.poll(5))
            except UnsupportedCodecError as error:
                assert str(codec) in str(error)
                return True
            return False

        wait_for(is_refused, 60)
        assert consumer.position(FLIGHTS) == 1, "the batch is not passed over by itself"
        wait_for(is_refused, 60)
        consumer.seek(FLIGHTS, 2)
        wait_for(lambda: found.extend(record.value for record in consumer.poll(1)) or len(found) == 3, 60)
        assert sorted(found) == [b"after", b"before", b"other"]
    with pytest.raises(UnsupportedCodecError):
        list(store["flights"].scan())


# --- missing ACLs ------------------------------------------------------------------------------

TOPIC, GROUP, CLUSTER = 29, 30, 31


def _poll_as_member(store: RemoteStore) -> None:
    with store.consumer(group="report", enable_auto_commit=False) as consumer:
        consumer.subscribe(["flights"])
        consumer.poll(30)


@pytest.mark.parametrize(
    ("kind", "code", "call"),
    [
        (m.MetadataRequest, TOPIC, lambda store: store["flights"]),
        (m.ProduceRequest, TOPIC, lambda store: store["flights"].append(b"v")),
        (m.FetchRequest, TOPIC, lambda store: list(store["flights"].read(0))),
        (m.ListOffsetsRequest, TOPIC, lambda store: store["flights"][0].end_offset()),
        (m.DeleteTopicsRequest, TOPIC, lambda store: store.delete_topic("flights")),
        (m.DeleteRecordsRequest, TOPIC, lambda store: store["flights"].delete_records({0: 0})),
        (m.DescribeConfigsRequest, TOPIC, lambda store: store.describe_topic("flights")),
        (m.FindCoordinatorRequest, GROUP, lambda store: store.committed("report")),
        (m.OffsetFetchRequest, GROUP, lambda store: store.committed("report")),
        (m.OffsetCommitRequest, GROUP, lambda store: store.commit_offsets("report", {FLIGHTS: 1})),
        (m.OffsetCommitRequest, TOPIC, lambda store: store.commit_offsets("report", {FLIGHTS: 1})),
        (m.JoinGroupRequest, GROUP, _poll_as_member),
        (m.CreateTopicsRequest, CLUSTER, lambda store: store.create_topic("made")),
        (m.InitProducerIdRequest, CLUSTER, lambda store: store["flights"].append(b"v")),
    ],
)
def test_a_missing_acl_is_an_error_with_kafkas_code_and_is_not_asked_for_again(
    brokers: FakeCluster, store: RemoteStore, kind: type[Any], code: int, call: Callable[[RemoteStore], object]
) -> None:
    brokers.topics["flights"].partitions[0].add([b"v"])
    for each in brokers.brokers.values():
        each.plan(kind, *[code] * 5)
    before = len(brokers.requests(kind))
    with pytest.raises(BrokerError, match="AUTHORIZATION_FAILED") as raised:
        call(store)
    assert raised.value.code == code
    assert len(brokers.requests(kind)) == before + 1
