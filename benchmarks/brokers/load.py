"""Requests over bare sockets, made before they are sent: the client costs next to nothing beside the broker.

Produce requests go out with five in flight on one connection, as Kafka's own producer sends them. Fetches ask for
1 MiB of one partition, Kafka's default, and their bytes are only counted.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.processes import cpu_of
from benchmarks.records import values
from logstore.batch._batch import stamp_producer
from logstore.batch._encode import encode
from logstore.protocol.frames import decode_response, encode_request
from logstore.protocol.generated.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from logstore.protocol.message import Message
from logstore.records import Codec

SIZE = 1024  #: bytes of a record
IN_FLIGHT = 5
FETCH_BYTES = 1 << 20
_PRODUCE, _FETCH = 9, 11  # versions


class Took(NamedTuple):
    """What one work has taken: bytes of records, seconds of the wall clock, seconds of the broker's CPU."""

    size: int
    requests: int
    wall_s: float
    cpu_s: float


class Connection:
    """One connection to a broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(16 << 20))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: bytes | bytearray) -> None:
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """Return the next frame, valid until the next call."""
        self._fill(4)
        (size,) = struct.unpack_from(">i", self._buffer)
        self._fill(size)
        return self._buffer[:size]

    def _fill(self, size: int) -> None:
        filled = 0
        while filled < size:
            found = self._socket.recv_into(self._buffer[filled:size])
            if not found:
                raise EOFError("the broker has closed the connection")
            filled += found

    def ask(self, message: Message, version: int) -> Message:
        self.send(encode_request(message, version, 1, "bench"))
        return decode_response(message.API_KEY, version, bytes(self.receive())).message

    def create(self, *names: str) -> None:
        """Make topics of one partition, and wait until the broker leads them."""
        new = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names
        ]
        found = self.ask(CreateTopicsRequest(topics=new, timeout_ms=60_000), 5)
        assert isinstance(found, CreateTopicsResponse)
        assert not [each for each in found.topics if each.error_code], found
        wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names])
        while not self._are_led(wanted):
            time.sleep(0.01)

    def _are_led(self, wanted: MetadataRequest) -> bool:
        found = self.ask(wanted, 8)
        assert isinstance(found, MetadataResponse)
        return not any(
            topic.error_code or any(each.leader_id < 0 for each in topic.partitions) for topic in found.topics
        )

    def delete(self, *names: str) -> None:
        self.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=60_000), 4)


def batches(record_count: int, codec: Codec = Codec.NONE) -> list[bytes]:
    """Return some batches of as many records, with the present time."""
    now_ms = time.time_ns() // 1_000_000
    stock = values(SIZE, 16 * record_count)
    return [
        bytes(encode(stock[n * record_count : (n + 1) * record_count], timestamp_ms=now_ms, codec=int(codec)))
        for n in range(16)
    ]


def produce_frame(topic: str, batch: bytes) -> bytes:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    asked = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    return encode_request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[asked]), _PRODUCE, 1, "bench")


def numbered(topic: str, made: list[bytes], count: int, record_count: int, producer_id: int) -> list[bytes]:
    """Return the frames of one idempotent producer, whose sequences follow each other."""
    frames = []
    for n in range(count):
        batch = bytearray(made[n % len(made)])
        stamp_producer(batch, producer_id, 0, n * record_count)
        frames.append(produce_frame(topic, bytes(batch)))
    return frames


def produce(connection: Connection, frames: Iterable[bytes], record_count: int, pid: int) -> Took:
    """Send each frame, with some in flight, and check each answer."""
    waiting = done = 0
    cpu, wall = cpu_of(pid), time.perf_counter()
    for frame in frames:
        connection.send(frame)
        waiting += 1
        if waiting == IN_FLIGHT:
            check_produced(connection.receive())
            waiting -= 1
        done += 1
    for _ in range(waiting):
        check_produced(connection.receive())
    return Took(done * record_count * SIZE, done, time.perf_counter() - wall, cpu_of(pid) - cpu)


def _code_of_produced(frame: memoryview) -> int:
    # Size of the topic's name behind correlation id, tags and the count of topics; then partitions, index, error.
    at = 6 + frame[6] + 1 + 4
    (code,) = struct.unpack_from(">h", frame, at)
    return int(code)


def check_produced(frame: memoryview) -> None:
    code = _code_of_produced(frame)
    assert code == 0, f"produce was refused: error {code}"


def wait_until_taken(connection: Connection, frame: bytes) -> None:
    """Send a batch until the broker takes it: Kafka tells a leader before that has begun to lead."""
    for _ in range(1_000):
        connection.send(frame)
        if _code_of_produced(connection.receive()) == 0:
            return
        time.sleep(0.01)
    raise TimeoutError("the broker has not taken a batch in 10 s")


def repeated(frames: list[bytes], count: int) -> Iterable[bytes]:
    return itertools.islice(itertools.cycle(frames), count)


def fetch(connection: Connection, topic: str, end: int, times: int, pid: int) -> Took:
    """Read a partition from its start to an offset, so many times."""
    size = requests = 0
    frame, at = fetch_frame(topic)
    cpu, wall = cpu_of(pid), time.perf_counter()
    for _ in range(times):
        offset = 0
        while offset < end:
            # As the bare loop's client: it makes no message object while the broker has nothing to do.
            struct.pack_into(">q", frame, at, offset)
            connection.send(frame)
            offset, found = fetched(connection.receive(), topic, offset)
            size += found
            requests += 1
    return Took(size, requests, time.perf_counter() - wall, cpu_of(pid) - cpu)


def fetch_frame(topic: str, most_bytes: int = FETCH_BYTES) -> tuple[bytearray, int]:
    """Return a fetch request, and where in it the offset is."""
    offset = 0x1234_5678_9ABC_DEF0
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=most_bytes, log_start_offset=-1
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=most_bytes,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    frame = bytearray(encode_request(request, _FETCH, 1, "bench"))
    return frame, frame.index(struct.pack(">q", offset))


def fetched(frame: memoryview, topic: str, offset: int) -> tuple[int, int]:
    """Return the offset behind the last whole batch of an answer, and its bytes of records."""
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4
    _, code, _, _, _, aborted = struct.unpack_from(">ihqqqi", frame, at)
    assert code == 0, f"fetch was refused: error {code}"
    at += 34 + 16 * max(aborted, 0) + 4
    (size,) = struct.unpack_from(">i", frame, at)
    at += 4
    walked, offset = walk(frame, at, at + max(size, 0), offset)
    return offset, walked


def walk(frame: memoryview, at: int, end: int, offset: int = 0) -> tuple[int, int]:
    """Step over whole batches, as a client does; return their bytes, and the offset behind the last one."""
    began = at
    while at + 61 <= end:
        base, length = struct.unpack_from(">qi", frame, at)
        if at + 12 + length > end:
            break
        offset = base + struct.unpack_from(">i", frame, at + 23)[0] + 1
        at += 12 + length
    return at - began, offset


def round_trips(connection: Connection, frames: list[bytes], count: int) -> list[float]:
    """Return the seconds of each request when the next one waits for its answer, in rising order."""
    found = []
    for frame in repeated(frames, count):
        began = time.perf_counter()
        connection.send(frame)
        check_produced(connection.receive())
        found.append(time.perf_counter() - began)
    return sorted(found)
