"""More clients than the process has descriptors for, and many at once that announce or send what is hostile."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path
from typing import Any

from logstore.batch._crc32c import crc32c
from logstore.batch._encode import encode
from logstore.protocol.generated.messages import ApiVersionsRequest, CreateTopicsRequest, ProduceRequest
from tests.broker.process import ServedProcess, served_process
from tests.broker.test_memory import HOSTILE, MIB, MOST_MORE, _peak
from tests.broker.wire import Wire, wire_at

DESCRIPTORS = 64


def _make(wire: Wire, name: str, **settings: str) -> None:
    R = CreateTopicsRequest
    configs = [R.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    new = R.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    assert wire.ask(R(topics=[new], timeout_ms=1000), 7).topics[0].error_code == 0


def _send(wire: Wire, name: str, records: bytes) -> tuple[int, int]:
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
    found: Any = wire.ask(ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[topic]), 9)
    (answer,) = found.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def _forget_peak(process: ServedProcess) -> int:
    Path(f"/proc/{process.usage.pid}/clear_refs").write_text("5")  # proc(5): the peak is that of now
    return int(process.usage.memory_info().rss)


def test_sockets_that_take_every_descriptor_fail_no_log(tmp_path: Path) -> None:
    """A roll needs descriptors: the connections wait for theirs, and the log has its own."""
    batch = bytes(encode([b"v" * 1_000]))
    with served_process(tmp_path / "data", descriptors=DESCRIPTORS) as served, contextlib.ExitStack() as others:
        with wire_at(served.address) as wire:
            _make(wire, "flights", segment_bytes="4096")
            assert _send(wire, "flights", batch) == (0, 0)
            many = [others.enter_context(wire_at(served.address)) for _ in range(2 * DESCRIPTORS)]
            for n in range(1, 60):  # a roll each third time
                assert _send(wire, "flights", batch) == (0, n)
            assert served.usage.num_fds() >= DESCRIPTORS - 2
            last = many.pop()
            last.send(ApiVersionsRequest(), 0)
            for each in many:
                each.socket.close()
            assert last.receive(ApiVersionsRequest, 0).error_code == 0
            assert _send(wire, "flights", batch) == (0, 60)


def test_announcements_of_100_mib_take_no_memory(tmp_path: Path) -> None:
    with served_process(tmp_path / "data") as served, contextlib.ExitStack() as stack:
        before = _forget_peak(served)
        for _ in range(200):
            wire = stack.enter_context(wire_at(served.address))
            wire.socket.sendall(struct.pack(">i", 100 * MIB) + b"\0")
        with wire_at(served.address) as wire:
            wire.ask(ApiVersionsRequest(), 0)
        assert _peak(served.usage) - before < 30 * MIB


def test_hostile_requests_of_several_clients_at_once_take_no_more_memory(tmp_path: Path) -> None:
    """Each of the greatest number of items, so that it is decoded and answered."""
    with served_process(tmp_path / "data") as served, contextlib.ExitStack() as stack:
        before = _forget_peak(served)
        wires = [stack.enter_context(wire_at(served.address)) for _ in HOSTILE]
        for wire, (make, _) in zip(wires, HOSTILE, strict=True):
            frame = make(65_000)
            wire.socket.sendall(struct.pack(">i", len(frame)) + frame)
        for wire in wires:
            assert struct.unpack(">i", wire.frame()[:4]) == (7,)
        assert _peak(served.usage) - before < MOST_MORE


def _bomb(mib: int) -> bytes:
    """Return a batch that decompresses to so many MiB, which claim to be one record."""
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(MIB)
    packed = b"".join(packer.compress(zeros) for _ in range(mib)) + packer.flush()
    batch = bytearray(encode([b"v"]))[:61] + packed
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, 1)  # gzip
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def test_a_decompression_bomb_for_a_compacted_topic_is_refused(tmp_path: Path) -> None:
    """The keys of its records are looked at."""
    bomb = _bomb(900)
    assert len(bomb) < MIB
    with served_process(tmp_path / "data") as served, wire_at(served.address) as wire:
        _make(wire, "kept", cleanup_policy="compact")
        before = _forget_peak(served)
        code, offset = _send(wire, "kept", bomb)
        assert (code, offset) == (10, -1)
        assert _peak(served.usage) - before < MOST_MORE
        assert _send(wire, "kept", bytes(encode([(b"key", b"v")]))) == (0, 0)
