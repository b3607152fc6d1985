"""Very many partitions, connections and few descriptors: what a broker serves does not grow with them.

LOGSTORE_SERVED_TOPICS=20 for 10,000 partitions in 4,096 descriptors.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.batch._encode import encode
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import (
    CreateTopicsRequest,
    FetchRequest,
    ProduceRequest,
)
from tests.broker.process import ServedProcess, served_process
from tests.broker.wire import Wire, wire_at

MIB = 1 << 20
#: Of 500 partitions each, for which one request has a batch each; and less than half as many descriptors.
TOPICS, PARTITIONS = int(os.environ.get("LOGSTORE_SERVED_TOPICS", "5")), 500
DESCRIPTORS = TOPICS * PARTITIONS * 4_096 // 10_000
CONSUMERS, EACH = 1_000, 32
_PRODUCE, _FETCH = 9, 11


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServedProcess]:
    with served_process(tmp_path / "data", descriptors=request.param) as process:
        yield process


def create(wire: Wire, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    found = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=120_000), 5)
    assert [each.error_code for each in found.topics] == [0]


def produced(name: str, batches: dict[int, bytes]) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(index=number, records=each) for number, each in batches.items()]
    topic = ProduceRequest.TopicProduceData(name=name, partition_data=data)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def fetched(name: str, offsets: dict[int, int], max_bytes: int, max_wait_ms: int = 0) -> FetchRequest:
    partitions = [
        FetchRequest.FetchPartition(
            partition=number, fetch_offset=offset, partition_max_bytes=max_bytes, log_start_offset=-1
        )
        for number, offset in offsets.items()
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 * MIB,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=partitions)],
    )


@pytest.mark.parametrize("served", [DESCRIPTORS], indirect=True)
def test_more_partitions_than_descriptors_are_served(served: ServedProcess) -> None:
    with wire_at(served.address) as wire:
        for number in range(TOPICS):
            create(wire, f"t{number}", PARTITIONS)
        now_ms = time.time_ns() // 1_000_000
        for number in range(TOPICS):
            batches = {
                each: bytes(encode([b"%d %d" % (number, each)], timestamp_ms=now_ms)) for each in range(PARTITIONS)
            }
            answer = wire.ask(produced(f"t{number}", batches), _PRODUCE)
            [topic] = answer.responses
            assert {each.error_code for each in topic.partition_responses} == {0}
            assert {each.base_offset for each in topic.partition_responses} == {0}
        for number in range(TOPICS):
            answer = wire.ask(fetched(f"t{number}", dict.fromkeys(range(PARTITIONS), 0), MIB), _FETCH)
            [topic] = answer.responses
            assert {each.error_code for each in topic.partitions} == {0}
            wanted = {each: b"%d %d" % (number, each) for each in range(PARTITIONS)}
            assert all(wanted[each.partition_index] in bytes(each.records) for each in topic.partitions)
            assert len(topic.partitions) == PARTITIONS


@pytest.mark.parametrize("served", [200], indirect=True)
def test_answers_on_their_way_take_no_descriptor_that_others_need(served: ServedProcess) -> None:
    """Each region pins its file. One answer had errors for most partitions, and left no descriptor to anyone."""
    now_ms = time.time_ns() // 1_000_000
    batch = bytes(encode([bytes(32 << 10)], timestamp_ms=now_ms))
    with wire_at(served.address) as wire:
        create(wire, "t", PARTITIONS)
        for _ in range(2):
            answer = wire.ask(produced("t", dict.fromkeys(range(PARTITIONS), batch)), _PRODUCE)
            [topic] = answer.responses
            assert {each.error_code for each in topic.partition_responses} == {0}
        slow = [wire_at(served.address) for _ in range(8)]
        for each in slow:
            each.send(fetched("t", dict.fromkeys(range(PARTITIONS), 0), MIB), _FETCH)
        left = set(range(PARTITIONS))
        while left:
            answer = wire.ask(fetched("t", dict.fromkeys(left, 1), MIB), _FETCH)
            [topic] = answer.responses
            assert {each.error_code for each in topic.partitions} == {0}
            got = {each.partition_index for each in topic.partitions if each.records}
            assert got
            left -= got
        answer = wire.ask(produced("t", dict.fromkeys(range(PARTITIONS), batch)), _PRODUCE)
        [topic] = answer.responses
        assert {each.error_code for each in topic.partition_responses} == {0}
        create(wire, "u", 10)
        for each in slow:
            answer = each.receive(fetched("t", {}, 0), _FETCH)
            [topic] = answer.responses
            assert {each.error_code for each in topic.partitions} == {0}
            each.socket.close()


@pytest.mark.row("C19")
@pytest.mark.parametrize("served", [2 * CONSUMERS], indirect=True)
def test_a_thousand_consumers_cost_less_than_a_mebibyte_each_and_get_the_same(served: ServedProcess) -> None:
    """Each has one request on its way. When the first one is done, no other is far behind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < 2 * CONSUMERS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * CONSUMERS if hard < 0 else min(hard, 2 * CONSUMERS), hard))
    batch = bytes(encode([bytes(1_024)] * 16, timestamp_ms=time.time_ns() // 1_000_000))
    with wire_at(served.address) as wire:
        create(wire, "t", 1)
        for _ in range(EACH):
            wire.ask(produced("t", {0: batch}), _PRODUCE)
    before = served.usage.memory_info().rss
    selector = selectors.EpollSelector()
    consumers = [_Consumer(served.address, len(batch)) for _ in range(CONSUMERS)]
    try:
        for each in consumers:
            # A connection that waits to be accepted may lose its first packets, and repeats them a second later.
            each.ask()
            while not each.got:
                each.on_ready()
            selector.register(each.socket, selectors.EVENT_READ, each)
        for each in consumers:
            each.most = EACH
            each.ask()
        most = 0
        least_when_one_was_done = -1
        while any(each.got < EACH for each in consumers):
            ready = selector.select(60)
            assert ready, "no answer within a minute"
            for key, _ in ready:
                key.data.on_ready()
            most = max(most, served.usage.memory_info().rss)
            if least_when_one_was_done < 0 and any(each.got == EACH for each in consumers):
                least_when_one_was_done = min(each.got for each in consumers)
        assert (most - before) / CONSUMERS < MIB
        assert least_when_one_was_done >= EACH // 4
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        selector.close()
        for each in consumers:
            each.socket.close()


class _Consumer:
    """Reads one batch after the other."""

    def __init__(self, address: tuple[str, int], batch_bytes: int) -> None:
        self.socket = socket.create_connection(address, 60)
        self.got, self.most = 0, 1
        self._batch_bytes = batch_bytes
        self._found = bytearray()

    def ask(self) -> None:
        request = fetched("t", {0: 16 * self.got}, self._batch_bytes)
        self.socket.sendall(encode_request(request, _FETCH, self.got, "a test"))

    def on_ready(self) -> None:
        self._found += self.socket.recv(64 << 10)
        if len(self._found) < 4:
            return
        (size,) = struct.unpack_from(">i", self._found)
        if len(self._found) < 4 + size:
            return
        assert size > self._batch_bytes
        assert struct.unpack_from(">q", self._found, 4 + size - self._batch_bytes) == (16 * self.got,)
        self._found.clear()
        self.got += 1
        if self.got < self.most:
            self.ask()
