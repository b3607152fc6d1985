"""Consumers beside producers: at the end of a log they read from memory, and none makes a producer wait."""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

import logstore
from logstore.batch._encode import encode
from logstore.broker import Broker
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest, ProduceRequest
from logstore.store import Store
from tests.broker.process import served_process
from tests.broker.wire import Wire

MIB = 1 << 20


def _fetch(offset: int, size: int = MIB) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    topic = FetchRequest.FetchTopic(topic="flights", partitions=[partition])
    return FetchRequest(max_bytes=size, session_epoch=-1, topics=[topic])


def _produce(wire: Wire, batch: bytes) -> int:
    """Send a batch; return its first offset."""
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = ProduceRequest.TopicProduceData(name="flights", partition_data=[data])
    answer = wire.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
    part = answer.responses[0].partition_responses[0]
    assert part.error_code == 0
    return int(part.base_offset)


@pytest.mark.row("N3")
def test_consumers_at_the_end_of_a_log_read_from_memory(tmp_path: Path) -> None:
    values = [b"%08d" % n + bytes(992) for n in range(1_000)]
    with (
        served_process(tmp_path / "data") as served,
        logstore.connect(served.bootstrap) as cluster,
        cluster.producer(linger_ms=0) as producer,
        cluster.consumer(auto_offset_reset="earliest") as consumer,
    ):
        cluster.create_topic("flights")
        consumer.assign([("flights", 0)])
        shares = []
        # Of three rounds one: the kernel may drop a page of a library, and read it again.
        for _ in range(3):
            before, served_bytes = served.usage.io_counters().read_bytes, 0
            for _ in range(32):
                for value in values:
                    producer.send("flights", value, partition=0)
                producer.flush()
                found, until = 0, time.monotonic() + 60
                while found < len(values):
                    assert time.monotonic() < until
                    found += len(consumer.poll(1, len(values)))
                served_bytes += sum(map(len, values))
            shares.append((served.usage.io_counters().read_bytes - before) / served_bytes)
    assert min(shares) <= 0.0001, shares


@pytest.mark.row("P14")
def test_a_producer_waits_for_no_consumer(store: Store, broker: Broker) -> None:
    """Ten ask for 4 MiB each and take nothing: their sockets are full, and each batch is acknowledged."""
    store.create_topic("flights")
    batch = bytes(encode([b"v" * 10_000] * 50))
    with Wire(broker) as producer:
        for n in range(10):
            assert _produce(producer, batch) == 50 * n
        consumers = [Wire(broker) for _ in range(10)]
        try:
            for each in consumers:
                each.send(_fetch(0, 4 * MIB), 12)
            # Answered up to what a socket holds, and without another word.
            for n in range(10, 200):
                assert _produce(producer, batch) == 50 * n
            assert store["flights"].log(0).high_watermark == 10_000
            for each in consumers:
                answer = each.receive(FetchRequest, 12)
                assert len(answer.responses[0].partitions[0].records) > 3 * MIB
        finally:
            for each in consumers:
                each.socket.close()


@pytest.mark.row("S11", part="served by logstore")
def test_a_fetch_takes_as_much_memory_for_ten_thousand_records_as_for_ten(store: Store, broker: Broker) -> None:
    log = store.create_topic("flights").log(0)
    log.append([b"v" * 20] * 10)
    log.append([b"v" * 20] * 10_000)
    frames = [encode_request(_fetch(offset, size), 12, 7, "a test") for offset, size in ((0, 400), (10, MIB))]
    buffer = memoryview(bytearray(MIB))

    def peak_of(wire: Wire, frame: bytes) -> tuple[int, int]:
        """Return the size of the answer, and the most memory that was taken until it was here."""
        gc.collect()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        wire.socket.sendall(frame)
        filled, size = 0, 4
        while filled < size:
            filled += wire.socket.recv_into(buffer[filled:])
            if filled >= 4:
                size = 4 + struct.unpack_from(">i", buffer)[0]
        return size, tracemalloc.get_traced_memory()[1] - before

    with Wire(broker) as wire:
        for frame in frames * 3:  # what is loaded and kept once
            wire.socket.sendall(frame)
            assert wire.frame()
        tracemalloc.start()
        try:
            peaks = [min(peak_of(wire, frame) for _ in range(5)) for frame in frames]
        finally:
            tracemalloc.stop()
    (few_bytes, few), (many_bytes, many) = peaks
    assert many_bytes > 200_000 > 2_000 > few_bytes
    assert many <= few + 2_000
