"""Every key in every version, and what is no request."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from logstore.broker import Broker
from logstore.broker.requests import API_VERSIONS, FAMILIES
from logstore.protocol.frames import decode_response, encode_request
from logstore.protocol.generated.messages import (
    AlterConfigsRequest,
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListOffsetsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from logstore.protocol.message import Message
from logstore.store import Store
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for


def _requests(version_of: str, topic_id: str) -> Iterator[tuple[int, int, Message]]:
    """A request of each key and version about one topic, or about one that does not exist."""
    for key, family in FAMILIES.items():
        for version in range(family.min_version, family.max_version + 1):
            yield key, version, _request(key, version, version_of, topic_id)


def _request(key: int, version: int, name: str, topic_id: str) -> Message:
    if key == 0:
        data = ProduceRequest.PartitionProduceData(index=0, records=b"no batch")
        topic = ProduceRequest.TopicProduceData(partition_data=[data])
        topic.name, topic.topic_id = (name, "") if version < 13 else ("", topic_id)
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    if key == 1:
        partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        fetched = FetchRequest.FetchTopic(partitions=[partition])
        fetched.topic, fetched.topic_id = (name, "") if version < 13 else ("", topic_id)
        return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[fetched])
    if key == 2:
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        return ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[asked])])
    if key == 3:
        return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    if key == 19:
        new = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return CreateTopicsRequest(topics=[new])
    if key == 20:
        if version < 6:
            return DeleteTopicsRequest(topic_names=["missing"])
        return DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="missing")])
    if key == 22:
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    if key == 60:
        return DescribeClusterRequest()
    return ApiVersionsRequest() if key == API_VERSIONS else _of_administration(key, name)


def _of_administration(key: int, name: str) -> Message:
    """A request about a topic's partition 0 that changes nothing."""
    if key == 21:
        begun = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
        return DeleteRecordsRequest(topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[begun])])
    if key == 23:
        ended = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
        return OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=[ended])]
        )
    if key == 32:
        described = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=2, resource_name=name, configuration_keys=None
        )
        return DescribeConfigsRequest(resources=[described])
    if key == 33:
        replaced = AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name)
        return AlterConfigsRequest(resources=[replaced])
    if key == 35:
        return DescribeLogDirsRequest(topics=None)
    if key == 37:
        grown = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=1, assignments=None)
        return CreatePartitionsRequest(topics=[grown])
    if key == 43:
        return ElectLeadersRequest(
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])]
        )
    if key == 44:
        changed = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name)
        return IncrementalAlterConfigsRequest(resources=[changed])
    if key == 46:
        return ListPartitionReassignmentsRequest(topics=None)
    if key == 61:
        asked = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0])
        return DescribeProducersRequest(topics=[asked])
    if key == 74:
        return ListConfigResourcesRequest()
    assert key == 75, key
    return DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)])


def test_every_key_and_version_is_answered(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    topic.append(b"AA 1141")
    with Wire(broker) as wire:
        for key, version, request in _requests("flights", topic.id):
            found = wire.ask(request, version)
            assert key == found.API_KEY
            if key == 0:
                (each,) = found.responses[0].partition_responses
                assert (each.error_code, each.base_offset) == (87, -1)
            elif key == 1:
                (part,) = found.responses[0].partitions
                assert (part.error_code, part.high_watermark, len(part.records) > 61) == (0, 1, True)
            elif key == 2:
                (part,) = found.topics[0].partitions
                assert (part.error_code, part.offset) == (0, 1)
            elif key in (3, 19, 20):
                (part,) = found.responses if key == 20 else found.topics
                assert part.error_code == {3: 0, 19: 36, 20: 3}[key]


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_refused_by_versions_that_need_one(broker: Broker, version: int) -> None:
    """Found by fuzzing: the answer could not be written, and the connection was closed."""
    topic = MetadataRequest.MetadataRequestTopic(name=None)
    with Wire(broker) as wire:
        (each,) = wire.ask(MetadataRequest(topics=[topic]), version).topics
        assert (each.error_code, each.name) == (42, "")


def test_many_requests_in_flight_are_answered_in_order(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    requests = list(_requests("flights", topic.id))
    with Wire(broker) as wire:
        wire.socket.sendall(
            b"".join(encode_request(each, version, n, None) for n, (_, version, each) in enumerate(requests))
        )
        for n, (_, version, each) in enumerate(requests):
            wire.receive(each, version, n)


def test_an_unknown_version_of_api_versions_gets_version_0_and_error_35(broker: Broker) -> None:
    with Wire(broker) as wire:
        body = struct.pack(">hhih", API_VERSIONS, 99, 7, -1)
        wire.socket.sendall(struct.pack(">i", len(body)) + body)
        found = decode_response(API_VERSIONS, 0, wire.frame()).message
        assert found.error_code == 35
        assert {each.api_key for each in found.api_keys} == set(FAMILIES)
        assert [each.min_version for each in found.api_keys if each.api_key == 0] == [0]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="largest size"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 7, -1), id="unknown key"),
        pytest.param(struct.pack(">ihhih", 10, 0, 99, 7, -1), id="unknown version"),
        pytest.param(struct.pack(">ihhihi", 14, 2, 1, 7, -1, -1) + b"\x7f\xff\xff\xff", id="count without bytes"),
    ],
)
def test_what_is_no_request_closes_that_connection_only(store: Store, broker: Broker, frame: bytes) -> None:
    with Wire(broker) as other, Wire(broker) as wire:
        wire.socket.sendall(frame)
        assert wire.frame() == b""
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0


def test_random_bodies_of_every_key_leave_the_broker_alive(store: Store, broker: Broker) -> None:
    rng = random.Random(20)
    topic = store.create_topic("flights")
    for key, version, request in _requests("flights", topic.id):
        frame = bytearray(encode_request(request, version, 7, "a test"))
        for _ in range(3):
            frame[rng.randrange(12, len(frame))] = rng.randrange(256)
        with Wire(broker) as wire:
            wire.socket.sendall(frame)
            wire.socket.shutdown(1)
            while wire.frame():
                pass
        assert key in FAMILIES
    assert store["flights"].log(0).log_end_offset == 0
    with Wire(broker) as wire:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_topic_that_is_named_many_times_is_described_once(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights", 100)
    M = MetadataRequest.MetadataRequestTopic
    asked = [M(name="flights")] * 1000 + [M(name=None, topic_id=topic.id)] * 1000
    with Wire(broker) as wire:
        found = wire.ask(MetadataRequest(topics=asked), 13)
    assert [len(each.partitions) for each in found.topics] == [100, 100]


def test_announced_bytes_reserve_nothing(broker: Broker) -> None:
    wires = [Wire(broker) for _ in range(50)]
    try:
        for wire in wires:
            wire.socket.sendall(struct.pack(">i", 100 << 20) + b"x")
        wait_for(lambda: broker._loop.received_bytes == 50 * 5)
    finally:
        for wire in wires:
            wire.socket.close()
    wait_for(lambda: broker._loop.received_bytes == 0)


@pytest.mark.row("C1", part="a client that reads nothing")
def test_a_client_that_does_not_read_is_not_read(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    topic.append(b"x" * 900_000)
    request = encode_request(_request(1, 12, "flights", topic.id), 12, 7, None)
    with Wire(broker) as slow, Wire(broker) as other:
        slow.socket.sendall(request * 400)
        # The other connections go on.
        assert other.ask(ApiVersionsRequest(), 0).error_code == 0
        for _ in range(400):
            assert len(slow.frame()) > 900_000
