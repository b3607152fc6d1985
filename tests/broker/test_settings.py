"""Listeners, limits and the defaults of a broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.config.broker import BrokerConfig
from logstore.config.schema import Setting
from logstore.errors import BrokerUnreachableError, InvalidSettingError, UnknownSettingError
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    MetadataRequest,
    MetadataResponse,
)
from logstore.records import TopicPartition
from logstore.store import Store
from logstore.topic_names import CONSUMER_OFFSETS
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

#: Kafka's numbers for the source of a setting.
STATIC_BROKER, DEFAULT = 4, 5


def wire_to(broker: Broker, number: int) -> Wire:
    wire = Wire.__new__(Wire)
    wire.socket = socket.create_connection(broker.addresses[number], 20)
    return wire


def told(wire: Wire) -> tuple[str, int]:
    answer = wire.ask(MetadataRequest(topics=[]), 12)
    assert isinstance(answer, MetadataResponse)
    (node,) = answer.brokers
    described = wire.ask(DescribeClusterRequest(), 1)
    assert isinstance(described, DescribeClusterResponse)
    (other,) = described.brokers
    assert (other.host, other.port) == (node.host, node.port)
    return node.host, node.port


def test_each_client_is_told_the_address_of_its_listener(store: Store) -> None:
    listeners = "127.0.0.1:0,INSIDE://127.0.0.2:0,OUTSIDE://127.0.0.1:0"
    outside = "OUTSIDE://broker.example.org:19092"
    with serve(store, listeners, {"advertised.listeners": outside}) as broker:
        assert broker.bootstrap == ",".join(f"{host}:{port}" for host, port in broker.addresses)
        with wire_to(broker, 0) as first, wire_to(broker, 1) as second, wire_to(broker, 2) as third:
            assert told(first) == broker.addresses[0]
            assert told(second) == broker.addresses[1]
            assert told(third) == ("broker.example.org", 19092)


def test_every_address_of_the_machine(store: Store) -> None:
    with serve(store, listeners="PLAINTEXT://:0") as broker:
        port = broker.address[1]
        wire = Wire.__new__(Wire)
        wire.socket = socket.create_connection(("127.0.0.3", port), 20)
        with wire:
            assert told(wire) == ("127.0.0.3", port)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "127.0.0.1"}, "expected NAME://HOST:PORT"),
        ({"listeners": ""}, "found nothing"),
        ({"listeners": "SSL://127.0.0.1:0"}, "neither TLS nor logins are served"),
        (
            {"listeners": "IN://127.0.0.1:0", "listener.security.protocol.map": "IN:SASL_SSL"},
            "IN asks for SASL_SSL",
        ),
        ({"advertised.listeners": "OUTSIDE://a:1"}, "OUTSIDE is not in listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "a client cannot connect to 0.0.0.0:1"),
        ({"advertised.listeners": "a:1,b:2"}, "more than once"),
        ({"max.connections": -1}, "max.connections"),
    ],
)
def test_settings_that_are_wrong_are_refused(store: Store, settings: dict[str, Setting], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        serve(store, None, {"listeners": "127.0.0.1:0", **settings})


def test_an_unknown_setting_and_an_address_of_another_machine(store: Store) -> None:
    with pytest.raises(UnknownSettingError, match="max_connections"):
        serve(store, "127.0.0.1:0", max_conections=5)
    with pytest.raises(BrokerUnreachableError, match="cannot be listened on"):
        serve(store, "192.0.2.1:0")


def test_settings_of_a_broker_are_taken_from_those_of_a_file() -> None:
    file = {"max.connections": "7", "num.partitions": "3", "listeners": "PLAINTEXT://127.0.0.1:1"}
    config = BrokerConfig.among(file, {"max_connections": "8"}, {"fetch.max.bytes": "1MiB"})
    assert (config.max_connections, config.fetch_max_bytes) == (8, 1 << 20)
    assert str(config.addresses()[0]) == "127.0.0.1:1"


def test_connections_of_one_address_are_limited(store: Store) -> None:
    with serve(store, "127.0.0.1:0,127.0.0.2:0", max_connections_per_ip=2, max_connections=3) as broker:
        first, second = Wire(broker), Wire(broker)
        first.ask(ApiVersionsRequest(), 0)
        second.ask(ApiVersionsRequest(), 0)
        with Wire(broker) as third:
            assert third.frame() == b""
        assert broker.metrics()["refused_connections"] == 1
        first.socket.close()
        wait_for(lambda: broker.metrics()["connections"] == 1)
        with Wire(broker) as third:
            third.ask(ApiVersionsRequest(), 0)
        second.socket.close()


def test_an_idle_connection_is_closed_and_one_that_waits_is_not(store: Store) -> None:
    with serve(store, "127.0.0.1:0", connections_max_idle_ms=150) as broker:
        with Wire(broker) as idle, Wire(broker) as busy:
            for _ in range(3):
                busy.ask(ApiVersionsRequest(), 0)
            assert idle.frame() == b""
        wait_for(lambda: broker.metrics()["connections"] == 0)
    with serve(store, "127.0.0.1:0", connections_max_idle_ms=-1) as broker, Wire(broker) as wire:
        wire.ask(ApiVersionsRequest(), 0)


@pytest.mark.row("K1", part="served by logstore")
@pytest.mark.parametrize(
    ("settings", "count"), [({}, 50), ({"offsets.topic.num.partitions": 1}, 1), ({"num.partitions": 3}, 50)]
)
def test_the_topic_of_offsets_has_kafkas_partitions_if_it_is_made_while_its_store_is_served(
    tmp_path: Path, settings: dict[str, int], count: int
) -> None:
    """Asked for by a client, and by a commit: their number cannot be changed later."""
    topic = MetadataRequest.MetadataRequestTopic(name=CONSUMER_OFFSETS)
    key = "offsets.topic.num.partitions"
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=[key]
    )
    with logstore.open(tmp_path / "asked", settings) as store:
        with serve(store, "127.0.0.1:0") as broker, Wire(broker) as wire:
            (found,) = wire.ask(MetadataRequest(topics=[topic]), 12).topics
            assert (found.error_code, found.is_internal, len(found.partitions)) == (0, True, count)
            (described,) = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
            source = STATIC_BROKER if key in settings else DEFAULT
            assert [(each.value, each.config_source) for each in described.configs] == [(str(count), source)]
        config = store[CONSUMER_OFFSETS].config
        assert (config.cleanup_policy, config.segment_bytes) == ("compact", 104_857_600)
    place = TopicPartition("flights", 0)
    for is_served in (True, False):
        with logstore.open(tmp_path / f"served-{is_served}", settings) as store:
            store.create_topic("flights")
            with serve(store, "127.0.0.1:0"):
                if is_served:
                    store.offsets.commit("crew", {place: 0})
            store.offsets.commit("crew", {place: 0})
            assert store[CONSUMER_OFFSETS].partition_count == (count if is_served else 1)
            assert list(store.offsets.committed("crew")) == [place]


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_the_end_of_one_of_two_brokers_changes_no_default_of_the_other(
    tmp_path: Path, first_ends_first: bool
) -> None:
    topic = MetadataRequest.MetadataRequestTopic(name=CONSUMER_OFFSETS)
    with logstore.open(tmp_path / "data") as store:
        brokers = [serve(store, "127.0.0.1:0") for _ in range(2)]
        if not first_ends_first:
            brokers.reverse()
        brokers[0].close()
        brokers[0].close()
        with brokers[1] as broker, Wire(broker) as wire:
            assert store.offsets.topic().partitions == 50
            (found,) = wire.ask(MetadataRequest(topics=[topic]), 12).topics
            assert len(found.partitions) == 50
        assert store.offsets.topic().partitions == 1


def _retention(store: Store, broker: Broker) -> list[int]:
    with Wire(broker) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="asked")]), 9)
        new = [
            CreateTopicsRequest.CreatableTopic(name="made", num_partitions=1, replication_factor=1),
            CreateTopicsRequest.CreatableTopic(
                name="kept",
                num_partitions=1,
                replication_factor=1,
                configs=[CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="-1")],
            ),
        ]
        wire.ask(CreateTopicsRequest(topics=new, timeout_ms=1000), 7)
    return [store[name].config.retention_ms for name in ("asked", "made", "kept") if name in store]


@pytest.mark.row("K1", part="served by logstore")
def test_topics_that_clients_make_have_kafkas_defaults(tmp_path: Path) -> None:
    week = 604_800_000
    with logstore.open(tmp_path / "silent") as store, serve(store, "127.0.0.1:0") as broker:
        assert _retention(store, broker) == [week, week, -1]
        assert store.create_topic("embedded").config.retention_ms == -1
    said = {"auto.create.topics.enable": "false", "retention.ms": "5000"}
    with logstore.open(tmp_path / "said", said) as store, serve(store, "127.0.0.1:0") as broker:
        assert _retention(store, broker) == [5000, -1]
