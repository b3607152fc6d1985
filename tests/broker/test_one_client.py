"""What one client can take from a broker: its memory, its threads, its time and its places."""

from __future__ import annotations

import contextlib

from logstore.broker import Broker
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    MetadataRequest,
)
from logstore.store import Store
from tests.broker.test_turns import VERSION, answers, produce
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

DESCRIBE_CONFIGS = 32
PIPELINED = 20


def described(*names: str) -> DescribeConfigsRequest:
    R = DescribeConfigsRequest.DescribeConfigsResource
    resources = [R(resource_type=2, resource_name=each, configuration_keys=None) for each in names]
    return DescribeConfigsRequest(resources=resources, include_documentation=True, include_synonyms=True)


def fetch(name: str, max_wait_ms: int, offset: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topic = FetchRequest.FetchTopic(topic=name, partitions=[part])
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=[topic]
    )


def asked(broker: Broker, key: int) -> int:
    """Return how many requests of a key were taken."""
    return broker._loop.by_key().get(key, (0, 0))[0]


def test_a_client_has_one_large_answer_at_a_time(store: Store, broker: Broker) -> None:
    """The next is not made before it is sent: many would be kept for a client that reads none of them."""
    topic = store.create_topic("flights")
    with Wire(broker) as wire, Wire(broker) as other:
        wire.socket.sendall(
            encode_request(fetch("flights", 60_000), 12, 100, None)
            + b"".join(encode_request(described("flights"), 4, n, None) for n in range(PIPELINED))
        )
        wait_for(lambda: asked(broker, DESCRIBE_CONFIGS))
        for n in range(1, 9):
            other.ask(described("flights"), 4)
            assert asked(broker, DESCRIBE_CONFIGS) == 1 + n
        topic.append(b"ends the fetch")
        wire.receive(FetchRequest, 12, 100)
        for n in range(PIPELINED):
            wire.receive(DescribeConfigsRequest, 4, n)


def test_a_client_that_goes_while_it_has_to_wait(store: Store, broker: Broker) -> None:
    store.create_topic("flights")
    with Wire(broker) as other:
        for _ in range(20):
            with Wire(broker) as wire:
                wire.socket.sendall(encode_request(described("flights"), 4, 7, None) * PIPELINED)
        with Wire(broker) as wire:
            wire.socket.sendall(encode_request(MetadataRequest(topics=[]), 12, 7, None) * PIPELINED)
            wire.socket.shutdown(1)
            for _ in range(PIPELINED):
                wire.receive(MetadataRequest, 12)
            assert wire.frame() == b""
        wait_for(lambda: broker._loop.connection_count == 1)
        other.ask(ApiVersionsRequest(), 0)
    wait_for(lambda: broker._loop.received_bytes == 0)


def test_changes_of_topics_hold_up_no_producer(store: Store, broker: Broker) -> None:
    """Of one whose batches take the way through the pool."""
    store.create_topic("flights").append(b"opens the log")
    table = store._host.topics_table
    with contextlib.ExitStack() as stack, Wire(broker) as producer:
        wires = [stack.enter_context(Wire(broker)) for _ in range(20)]
        with table.unchanged():
            for n, wire in enumerate(wires):
                new = CreateTopicsRequest.CreatableTopic(name=f"topic-{n}", num_partitions=1, replication_factor=1)
                wire.send(CreateTopicsRequest(topics=[new]), 7)
            wait_for(lambda: asked(broker, 19) == len(wires))
            producer.send(produce("flights", b"no batch"), VERSION)
            assert answers(producer) == [(87, -1)]
        for wire in wires:
            (made,) = wire.receive(CreateTopicsRequest, 7).topics
            assert made.error_code == 0
