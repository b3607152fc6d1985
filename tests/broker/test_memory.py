"""Requests of very many tiny structs: the memory of a broker follows the bytes, not what they claim to be."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from logstore.broker import Broker
from logstore.broker.served import MOST_ITEMS
from logstore.protocol.generated.messages import ApiVersionsRequest, MetadataRequest
from logstore.store import Store
from tests.broker.process import ServedProcess, served_process
from tests.broker.wire import Wire, wire_at

MIB = 1 << 20
MOST_MORE = 300 * MIB


def _one_topic(count: int, partition: bytes) -> bytes:
    """One topic "a" in an array of one, with so many partitions."""
    return struct.pack(">ih", 1, 1) + b"a" + struct.pack(">i", count) + partition * count


def metadata(count: int) -> bytes:
    return struct.pack(">hhihi", 3, 1, 7, -1, count) + bytes(2 * count)


def metadata_with_tags(count: int) -> bytes:
    """Compact arrays: a topic of one byte for its name, which is "", and one for its tags."""
    varint = bytearray()
    rest = count + 1
    while rest > 0x7F:
        varint.append(rest & 0x7F | 0x80)
        rest >>= 7
    varint.append(rest)
    return struct.pack(">hhih", 3, 9, 7, -1) + b"\0" + bytes(varint) + b"\1\0" * count + b"\0\0\0\0"


def topics_deleted(count: int) -> bytes:
    return struct.pack(">hhihi", 20, 1, 7, -1, count) + bytes(2 * count + 4)


def fetch(count: int) -> bytes:
    head = struct.pack(">hhihiiiib", 1, 4, 7, -1, -1, 0, 0, MIB, 0)
    return head + _one_topic(count, bytes(16))


def fetch_that_forgets(count: int) -> bytes:
    head = struct.pack(">hhihiiiibiii", 1, 7, 7, -1, -1, 0, 0, MIB, 0, 0, -1, 0)
    return head + _one_topic(count, b"\0\1\0\0")


def produce(count: int) -> bytes:
    return struct.pack(">hhihhhi", 0, 3, 7, -1, -1, 1, 1) + _one_topic(count, bytes(8))


def produce_of_headers(count: int) -> bytes:
    """Partitions that look like batches until their bytes are checked."""
    batch = struct.pack(">qiib", 0, 49, 0, 2) + bytes(44)
    return struct.pack(">hhihhhi", 0, 3, 7, -1, -1, 1, 1) + _one_topic(count, struct.pack(">ii", 0, 61) + batch)


HOSTILE = [
    (metadata, 10_000_000),
    (metadata_with_tags, 10_000_000),
    (topics_deleted, 10_000_000),
    (fetch, 3_000_000),
    (fetch_that_forgets, 20_000_000),
    (produce, 6_000_000),
    (produce_of_headers, 1_400_000),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    with served_process(tmp_path_factory.mktemp("data") / "served") as process:
        yield process


def _peak(process: psutil.Process) -> int:
    """Return the most memory that a process has had since it was told to forget it."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize(("make", "count"), HOSTILE, ids=[make.__name__ for make, _ in HOSTILE])
def test_millions_of_items_close_their_connection_and_take_no_memory(
    served: ServedProcess, make: object, count: int
) -> None:
    assert callable(make)
    process, address = served.usage, served.address
    frame = make(count)
    assert len(frame) <= 100 * MIB
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # proc(5): the peak is that of now
    before = process.memory_info().rss
    with wire_at(address) as wire:
        wire.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert wire.frame() == b""
    assert _peak(process) - before < MOST_MORE
    with wire_at(address) as wire:
        wire.ask(ApiVersionsRequest(), 0)


@pytest.mark.parametrize(("make", "_count"), HOSTILE, ids=[make.__name__ for make, _ in HOSTILE])
def test_the_greatest_number_of_items_is_answered(served: ServedProcess, make: object, _count: int) -> None:
    assert callable(make)
    process, address = served.usage, served.address
    frame = make(MOST_ITEMS - 1)
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    before = process.memory_info().rss
    with wire_at(address) as wire:
        wire.socket.sendall(struct.pack(">i", len(frame)) + frame)
        assert struct.unpack(">i", wire.frame()[:4]) == (7,)
    assert _peak(process) - before < MOST_MORE


def test_one_item_too_many_is_no_request(broker: Broker, store: Store) -> None:
    topic = MetadataRequest.MetadataRequestTopic(name="flights")
    with Wire(broker) as wire:
        wire.send(MetadataRequest(topics=[topic] * (MOST_ITEMS + 1), allow_auto_topic_creation=False), 9)
        assert wire.frame() == b""
    with Wire(broker) as wire:
        wire.ask(MetadataRequest(topics=[topic] * MOST_ITEMS, allow_auto_topic_creation=False), 9)
    assert store.topics() == []
