"""Record batch v2, written and read in the slowest and most obvious way: the model of the codec.

Kafka protocol guide, "Record Batch". Nothing in here is shared with the package.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
assert HEADER.size == HEADER_BYTES

Headers = tuple[tuple[str, bytes | None], ...]


class ModelRecord(NamedTuple):
    """One record, all of it decoded."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ModelBatch(NamedTuple):
    """The header of a batch, field by field, and its records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    records: tuple[ModelRecord, ...]


class Wrong(Exception):
    """The bytes are no record batch."""


def varint(value: int) -> bytes:
    """Zigzag, then seven bits a byte, least first, the top bit set on all but the last."""
    value = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """(value, place behind it)."""
    value = shift = 0
    while True:
        if place >= len(data):
            raise Wrong("cut varint")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 if value % 2 == 0 else -(value >> 1) - 1, place


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def read_sized(data: bytes, place: int) -> tuple[bytes | None, int]:
    size, place = read_varint(data, place)
    if size < -1 or place + size > len(data):
        raise Wrong("size")
    return (None, place) if size == -1 else (data[place : place + size], place + size)


def encode_record(record: ModelRecord, base_offset: int, base_timestamp: int) -> bytes:
    body = b"\0" + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
    body += sized(record.key) + sized(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        body += sized(name.encode()) + sized(value)
    return varint(len(body)) + body


def encode_batch(
    records: Iterable[ModelRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    record_count: int | None = None,
    compress: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """One batch; what is not given is what a producer would write."""
    records = list(records)
    if base_timestamp is None:
        base_timestamp = records[0].timestamp
    if max_timestamp is None:
        max_timestamp = max(record.timestamp for record in records)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset
    payload = compress(b"".join(encode_record(record, base_offset, base_timestamp) for record in records))
    count = len(records) if record_count is None else record_count
    tail = struct.pack(">hiqqqhii", attributes, last_offset_delta, base_timestamp, max_timestamp, *producer, count)
    crc = crc32c.crc32c(tail + payload)
    return struct.pack(">qiibI", base_offset, 49 + len(payload), leader_epoch, 2, crc) + tail + payload


def decode_batch(data: bytes, decompress: Callable[[int, bytes], bytes]) -> tuple[ModelBatch, bytes]:
    """(the batch at the front, the bytes behind it); raises Wrong."""
    if len(data) < HEADER_BYTES:
        raise Wrong("header")
    fields = HEADER.unpack_from(data)
    size = fields[1] + 12
    if fields[3] != 2 or size < HEADER_BYTES or size > len(data):
        raise Wrong("magic or length")
    if crc32c.crc32c(data[21:size]) != fields[4]:
        raise Wrong("crc")
    batch = ModelBatch(*fields, ())
    payload = data[HEADER_BYTES:size]
    if batch.attributes & 7:
        payload = decompress(batch.attributes & 7, payload)
    records, place = [], 0
    for _ in range(batch.record_count):
        length, place = read_varint(payload, place)
        end = place + length
        place += 1
        delta, place = read_varint(payload, place)
        offset_delta, place = read_varint(payload, place)
        key, place = read_sized(payload, place)
        value, place = read_sized(payload, place)
        header_count, place = read_varint(payload, place)
        headers = []
        for _ in range(header_count):
            name, place = read_sized(payload, place)
            header, place = read_sized(payload, place)
            headers.append(((name or b"").decode(), header))
        if place != end:
            raise Wrong("record length")
        timestamp = batch.max_timestamp if batch.attributes & 8 else batch.base_timestamp + delta
        records.append(ModelRecord(batch.base_offset + offset_delta, timestamp, key, value, tuple(headers)))
    return batch._replace(records=tuple(records)), data[size:]


def decode_run(data: bytes, decompress: Callable[[int, bytes], bytes]) -> list[ModelBatch]:
    """All batches of a run, one behind the other."""
    batches = []
    while data:
        batch, data = decode_batch(data, decompress)
        batches.append(batch)
    return batches
