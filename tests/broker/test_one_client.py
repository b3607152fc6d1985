"""What one client can take from a broker: its memory, its threads, its time and its places."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import socket
import struct
import threading

import pytest

from logstore.broker import Broker, serve
from logstore.broker import broker as broker_module
from logstore.broker import produce as produce_module
from logstore.broker._loop import Loop
from logstore.broker.fetching import fetches as fetches_module
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    MetadataRequest,
)
from logstore.store import Store
from logstore.testing import ManualClock
from tests.broker.test_turns import VERSION, answers, produce
from tests.broker.wire import Wire, wire_at
from tests.kit.waiting import wait_for

FETCH = 1
DESCRIBE_CONFIGS = 32
PIPELINED = 20


def described(*names: str) -> DescribeConfigsRequest:
    R = DescribeConfigsRequest.DescribeConfigsResource
    resources = [R(resource_type=2, resource_name=each, configuration_keys=None) for each in names]
    return DescribeConfigsRequest(resources=resources, include_documentation=True, include_synonyms=True)


def fetch(name: str, max_wait_ms: int, offset: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topic = FetchRequest.FetchTopic(topic=name, partitions=[part])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=[topic])


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


def test_a_reader_that_has_stopped_is_closed(store: Store) -> None:
    """Its answers pin files of segments that are deleted meanwhile."""
    store.create_topic("flights").append(b"x" * 900_000)
    with serve(store, "127.0.0.1:0", connections_max_idle_ms=200) as broker, Wire(broker) as wire:
        wire.socket.sendall(encode_request(fetch("flights", 0), 12, 7, None) * 100)
        wait_for(lambda: broker.metrics()["bytes_sendfile"])
        wait_for(lambda: broker.metrics()["connections"] == 0)


@pytest.mark.parametrize("asks_more", [False, True])
@pytest.mark.parametrize("is_half", [False, True])
def test_a_client_that_has_gone_keeps_no_place_for_its_longest_wait(
    store: Store, is_half: bool, asks_more: bool
) -> None:
    store.create_topic("flights")
    with serve(store, "127.0.0.1:0", connections_max_idle_ms=200) as broker, Wire(broker) as wire:
        wire.send(fetch("flights", 2**31 - 1), 12)
        if asks_more:  # from then on no request is taken
            wire.send(MetadataRequest(topics=[]), 12)
        wait_for(lambda: asked(broker, FETCH) == 1)
        if is_half:
            wire.socket.shutdown(socket.SHUT_WR)
        else:
            wire.socket.close()
        wait_for(lambda: broker.metrics()["connections"] == 0)


def test_a_slow_reader_and_a_long_wait_are_not_idle(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monkeypatch.setattr(broker_module, "Loop", functools.partial(Loop, clock=clock))
    topic = store.create_topic("flights")
    for _ in range(40):
        topic.append(b"x" * 900_000)
    with serve(store, "127.0.0.1:0", connections_max_idle_ms=200) as broker:
        sent = functools.partial(lambda: broker.metrics()["bytes_sendfile"])
        with Wire(broker) as idle, Wire(broker) as waiting, Wire(broker) as slow:
            waiting.send(fetch("flights", 2**31 - 1, offset=40), 12)
            slow.send(fetch("flights", 0, max_bytes=50_000_000), 12)
            wait_for(sent)
            clock.advance(150)
            before, size = sent(), struct.unpack(">i", slow.socket.recv(4))[0]
            while sent() == before:
                size -= len(slow.socket.recv(1 << 16))
            clock.advance(100)
            assert idle.frame() == b""
            while size:
                size -= len(slow.socket.recv(min(size, 1 << 16)))
            topic.append(b"ends the wait")
            waiting.receive(FetchRequest, 12)


class Failing(socket.socket):
    """A listener whose first connection is one that the network takes away."""

    code = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.code:
            code, self.code = self.code, 0
            raise OSError(code, os.strerror(code))
        return super().accept()


@pytest.mark.parametrize("code", [errno.EPERM, errno.EPROTO, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EMFILE])
def test_an_error_of_accept_ends_nothing(broker: Broker, code: int) -> None:
    listener = Failing()
    listener.code = code
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    broker._loop.post(lambda: broker._loop.listen(listener, "other"))
    with wire_at(listener.getsockname()) as wire:
        wire.ask(ApiVersionsRequest(), 0)
    assert not listener.code
    assert not broker.wait(0)


def test_an_error_in_what_the_loop_is_told_ends_nothing(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def fail() -> None:
        raise MemoryError

    loop = broker._loop
    loop.post(fail)
    loop.post(lambda: loop.call_later(0, fail))
    loop.post(lambda: loop.call_later(0, done.set))
    assert done.wait(10)
    with Wire(broker) as wire:
        wire.ask(ApiVersionsRequest(), 0)
    assert not broker.wait(0)
    assert caplog.text.count("a call of the loop failed") == 2


def test_an_error_about_one_connection_closes_that_one(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("flights").append(b"opens the log")

    def fail(*_: object) -> bytes:
        raise MemoryError

    with Wire(broker) as wire, Wire(broker) as other:
        monkeypatch.setattr(produce_module, "encode_response", fail)
        wire.send(produce("flights", b"no batch"), VERSION)
        assert wire.frame() == b""
        # A fetch that waits, when its mark moves and when its time is over.
        monkeypatch.setattr(fetches_module, "pieces_of", fail)
        for wait_ms in (60_000, 50):
            with Wire(broker) as waiting:
                begun = fetch("flights", wait_ms, offset=store["flights"].log(0).log_end_offset)
                begun.session_epoch = 0
                waiting.send(begun, 12)
                if wait_ms > 50:
                    wait_for(lambda: broker._requests._fetches._parked)
                    store["flights"].append(b"wakes it")
                assert waiting.frame() == b""
        monkeypatch.setattr(broker._requests, "closed", fail)
        with Wire(broker):
            pass
        other.ask(ApiVersionsRequest(), 0)
    assert not broker.wait(0)


def test_the_greatest_of_unfinished_requests_is_closed(store: Store) -> None:
    """Not the one that sends next."""
    head = struct.pack(">i", 1 << 20)
    with (
        serve(store, "127.0.0.1:0", queued_max_request_bytes=300_000) as broker,
        Wire(broker) as great,
        Wire(broker) as less,
        Wire(broker) as small,
    ):
        loop = broker._loop
        great.socket.sendall(head + bytes(150_000))
        less.socket.sendall(head + bytes(100_000))
        wait_for(lambda: loop.received_bytes == 250_008)
        frame = encode_request(
            MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="x" * 249)] * 260), 12, 7, None
        )
        small.socket.sendall(frame[:60_000])
        assert great.frame() == b""
        assert loop.received_bytes == 160_004
        small.socket.sendall(frame[60_000:])
        small.receive(MetadataRequest, 12)
        less.socket.sendall(bytes(1000))
        wait_for(lambda: loop.received_bytes == 101_004)


def test_timers_that_are_cancelled_are_not_kept(broker: Broker) -> None:
    """Each produce that waits for acks of replicas has one for its 30 s."""
    loop, done = broker._loop, threading.Event()
    called: list[int] = []
    counts: list[int] = []

    def call(n: int) -> None:
        called.append(n)
        if len(called) == 10:
            done.set()

    def many() -> None:
        for n in range(10_000):
            cancelled = loop.call_later(30, lambda: None)
            loop.cancel(cancelled)
            loop.cancel(cancelled)
            if n % 1000 == 0:
                loop.call_later(0.1 - n / 100_000, functools.partial(call, n))
        counts.append(loop.timer_count)

    loop.post(many)
    assert done.wait(10)
    assert counts[0] < 200
    assert sorted(called) == list(range(0, 10_000, 1000))


def test_what_has_not_begun_at_the_end_is_not_begun(store: Store) -> None:
    """A broker that is told to end has ten seconds or so, and its logs to mark as clean."""
    with contextlib.ExitStack() as stack, serve(store, "127.0.0.1:0") as broker:
        wires = [stack.enter_context(Wire(broker)) for _ in range(20)]
        with store._host.topics_table.unchanged():
            for n, wire in enumerate(wires):
                new = CreateTopicsRequest.CreatableTopic(name=f"topic-{n}", num_partitions=1, replication_factor=1)
                wire.send(CreateTopicsRequest(topics=[new]), 7)
            wait_for(lambda: asked(broker, 19) == len(wires))
            ending = threading.Thread(target=broker.close)
            ending.start()
            wait_for(lambda: broker._served._administration._work_queue.qsize() <= 1)
        ending.join()
        assert len(store.topics()) <= 4


def test_a_long_answer_is_sent_a_piece_in_each_turn(store: Store, broker: Broker) -> None:
    topic = store.create_topic("flights")
    for _ in range(20):
        topic.append(b"x" * 900_000)
    wire = Wire.__new__(Wire)
    with Wire(broker) as other, contextlib.closing(socket.socket()) as wire.socket:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        wire.socket.settimeout(20)
        wire.socket.connect(broker.address)
        other.send(fetch("flights", 0), 12)
        other.frame()
        calls = store._host.files.call_counts
        before, already = calls()["sendfile"], broker.metrics()["bytes_sendfile"]
        wire.send(fetch("flights", 0, max_bytes=50_000_000), 12)
        wire.send(fetch("flights", 0, max_bytes=50_000_000), 12)
        for _ in range(2):
            assert len(wire.frame()) > 20 * 900_000
        sent = broker.metrics()["bytes_sendfile"] - already
        assert sent <= (calls()["sendfile"] - before) * (1 << 20)
