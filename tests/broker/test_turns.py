"""Frames as they arrive, turns of the loop, and the order of what is gathered in one."""

from __future__ import annotations

import base64
import socket
import struct
from pathlib import Path

import pytest

import logstore
from logstore.batch._encode import encode
from logstore.broker import Broker, serve
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)
from logstore.store import Store
from tests.broker.wire import Wire
from tests.kit.inside import state_of
from tests.log.append.test_append_turn import of_producer

VERSION = 12


def produce(name: str, *records: bytes, acks: int = 1, topic_id: str = "") -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(index=n, records=each) for n, each in enumerate(records)]
    topic = ProduceRequest.TopicProduceData(partition_data=data)
    topic.name, topic.topic_id = name, topic_id
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def batch(*values: bytes) -> bytes:
    return bytes(encode(list(values)))


def answers(wire: Wire, version: int = VERSION, correlation_id: int = 7) -> list[tuple[int, int]]:
    response = wire.receive(ProduceRequest, version, correlation_id)
    assert isinstance(response, ProduceResponse)
    return [
        (each.error_code, each.base_offset) for topic in response.responses for each in topic.partition_responses
    ]


def values_of(store: Store, name: str, partition: int = 0) -> list[bytes]:
    return [bytes(record.value) for record in store[name].log(partition)]


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_frames_that_arrive_in_pieces(store: Store, broker: Broker, piece: int) -> None:
    store.create_topic("flights").append(b"opens the log")
    frames = [encode_request(produce("flights", batch(b"%d" % n)), VERSION, n, "a test") for n in range(8)]
    frames.insert(3, encode_request(ApiVersionsRequest(), 0, 100, None))
    data = b"".join(frames)
    with Wire(broker) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), piece):
            wire.socket.sendall(data[start : start + piece])
        for n in (0, 1, 2):
            assert answers(wire, correlation_id=n) == [(0, n + 1)]
        wire.receive(ApiVersionsRequest, 0, 100)
        for n in range(3, 8):
            assert answers(wire, correlation_id=n) == [(0, n + 1)]
    assert values_of(store, "flights")[1:] == [b"%d" % n for n in range(8)]


def test_large_frames_and_what_follows_them(store: Store, broker: Broker) -> None:
    store.create_topic("flights", max_message_bytes=8_000_000).append(b"opens the log")
    large = [bytes([n]) * 3_000_001 for n in range(3)]
    data = b"".join(
        encode_request(produce("flights", batch(value)), VERSION, n, None)
        + encode_request(produce("flights", batch(b"small")), VERSION, n + 10, None)
        for n, value in enumerate(large)
    )
    with Wire(broker) as wire:
        wire.socket.sendall(data)
        for n in range(3):
            assert answers(wire, correlation_id=n) == [(0, 2 * n + 1)]
            assert answers(wire, correlation_id=n + 10) == [(0, 2 * n + 2)]
    assert values_of(store, "flights")[1:] == [value for each in large for value in (each, b"small")]


def test_more_requests_than_may_be_in_progress(store: Store, broker: Broker) -> None:
    store.create_topic("flights").append(b"opens the log")
    frame = encode_request(produce("flights", batch(b"v")), VERSION, 7, None)
    with Wire(broker) as wire:
        wire.socket.sendall(frame * 1000)
        assert [answers(wire) for _ in range(1000)] == [[(0, n + 1)] for n in range(1000)]


def test_a_client_that_sends_no_more_is_still_answered(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    topic.append(b"opens the log")
    with Wire(broker) as wire, state_of(topic.log(0)).lock:
        wire.socket.sendall(encode_request(produce("flights", batch(b"v")), VERSION, 7, None) * 3)
        wire.socket.sendall(struct.pack(">i", 500) + b"half a frame")
        wire.socket.shutdown(socket.SHUT_WR)
        with Wire(broker) as other:  # the loop has seen both
            other.ask(ApiVersionsRequest(), 0)
        state_of(topic.log(0)).lock.release()
        assert [answers(wire) for _ in range(3)] == [[(0, 1)], [(0, 2)], [(0, 3)]]
        assert wire.frame() == b""
        state_of(topic.log(0)).lock.acquire()


@pytest.mark.row("M6", part="served by logstore")
def test_batches_behind_one_that_waits_keep_their_order(store: Store, broker: Broker) -> None:
    """Those of another partition of the same connection, too; other connections go on."""
    topic = store.create_topic("flights", partitions=2)
    for partition in (0, 1):
        topic.append(b"opens the log", partition=partition)
    requests = [produce("flights", of_producer(7, n, [b"%d" % n])) for n in range(6)]
    with Wire(broker) as wire, Wire(broker) as other:
        with state_of(topic.log(0)).lock:
            wire.socket.sendall(
                b"".join(encode_request(each, VERSION, n, None) for n, each in enumerate(requests))
                + encode_request(MetadataRequest(topics=[]), 12, 50, None)
                + encode_request(produce("flights", b"no batch"), VERSION, 51, None)
            )
            other.send(produce("missing", batch(b"x")), VERSION)
            assert answers(other) == [(3, -1)]
        for n in range(6):
            assert answers(wire, correlation_id=n) == [(0, n + 1)]
        wire.receive(MetadataRequest, 12, 50)
        assert answers(wire, correlation_id=51) == [(87, -1)]
    assert values_of(store, "flights")[1:] == [b"%d" % n for n in range(6)]


def test_batches_behind_one_whose_log_is_not_open_keep_their_order(tmp_path: Path) -> None:
    """Those of a producer without sequences, too: nothing else would put them right."""
    with logstore.open(tmp_path / "own") as store:
        for name in ("open", "closed"):
            store.create_topic(name).append(b"before")
    with logstore.open(tmp_path / "own") as store, serve(store, "127.0.0.1:0") as broker, Wire(broker) as wire:
        store["open"].append(b"opens the log")
        both = produce("open", batch(b"1"))
        both.topic_data += produce("closed", batch(b"1")).topic_data
        requests = [both, produce("open", batch(b"2")), produce("open", batch(b"3"))]
        wire.socket.sendall(b"".join(encode_request(each, VERSION, 7, None) for each in requests))
        for _ in requests:
            wire.frame()
        assert values_of(store, "open")[2:] == [b"1", b"2", b"3"]


def test_the_bytes_of_an_id_are_no_name(store: Store, broker: Broker) -> None:
    """Also where a way to the topic of that name is known."""
    name = "flights-of-today"
    store.create_topic(name).append(b"opens the log")
    alike = base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")
    by_id = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(topic_id=alike)])
    by_id.topic_data[0].partition_data = produce(name, batch(b"by id")).topic_data[0].partition_data
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetches = [
        FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=[each])
        for each in (
            FetchRequest.FetchTopic(topic=name, partitions=[part]),
            FetchRequest.FetchTopic(topic_id=alike, partitions=[part]),
        )
    ]
    with Wire(broker) as wire:
        for number in range(3):
            assert wire.ask(by_id, 13).responses[0].partition_responses[0].error_code == 100
            assert wire.ask(fetches[1], 13).responses[0].partitions[0].error_code == 100
            wire.send(produce(name, batch(b"by name")), VERSION)
            assert answers(wire) == [(0, 1 + number)]
            assert wire.ask(fetches[0], 12).responses[0].partitions[0].error_code == 0


def test_each_partition_of_a_request_is_answered_for_itself(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights", partitions=4)
    for partition in (0, 1, 3):
        topic.append(b"opens the log", partition=partition)
    wrong = batch(b"wrong")[:-1] + b"!"
    with Wire(broker) as wire:
        for first in (1, 2):
            wire.send(produce("flights", batch(b"a"), wrong, batch(b"c"), batch(b"d")), VERSION)
            assert answers(wire) == [(0, first), (2, -1), (0, first - 1), (0, first)]
        # A duplicate gets the offset that it has.
        for _ in range(2):
            wire.send(produce("flights", of_producer(7, 0, [b"e"])), VERSION)
            assert answers(wire) == [(0, 3)]


def test_a_topic_that_is_made_again_is_found_by_its_name_and_by_its_new_id(store: Store, broker: Broker) -> None:
    old = store.create_topic("flights")
    old.append(b"opens the log")
    with Wire(broker) as wire:
        wire.send(produce("flights", batch(b"old")), VERSION)
        assert answers(wire) == [(0, 1)]
        wire.send(produce("", batch(b"old"), topic_id=old.id), 13)
        assert answers(wire, 13) == [(0, 2)]
        store.delete_topic("flights")
        new = store.create_topic("flights")
        wire.send(produce("", batch(b"lost"), topic_id=old.id), 13)
        assert answers(wire, 13) == [(100, -1)]
        wire.send(produce("flights", batch(b"new")), VERSION)
        assert answers(wire) == [(0, 0)]
        wire.send(produce("", batch(b"newer"), topic_id=new.id), 13)
        assert answers(wire, 13) == [(0, 1)]
    assert values_of(store, "flights") == [b"new", b"newer"]


def test_acks_0_of_a_turn(store: Store, broker: Broker) -> None:
    store.create_topic("flights").append(b"opens the log")
    with Wire(broker) as wire:
        quiet = encode_request(produce("flights", batch(b"v"), acks=0), VERSION, 1, None)
        wire.socket.sendall(quiet * 5 + encode_request(produce("flights", batch(b"told")), VERSION, 2, None))
        assert answers(wire, correlation_id=2) == [(0, 6)]
