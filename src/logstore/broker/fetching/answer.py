"""The answer to a fetch, byte by byte around the regions of files that it sends.

Kafka protocol guide, "Fetch Response". Bytes only; used by the loop's thread.
"""

from __future__ import annotations

import struct
from itertools import groupby

from logstore.broker.fetching._sessions import FetchedPartition
from logstore.broker.fetching.found import FoundPartition
from logstore.io._file_region import FileRegion

_FLEXIBLE = 12
#: The version from which on Kafka tells the leader to a client that has asked another node.
_LEADERS = 16
_BY_ID = 13


def pieces_of(
    version: int,
    correlation_id: int,
    found: list[tuple[FetchedPartition, FoundPartition]],
    *,
    code: int = 0,
    session_id: int = 0,
) -> list[bytes | FileRegion]:
    """Return the frame of an answer: bytes, and between them the regions of its partitions."""
    flexible = version >= _FLEXIBLE
    pieces: list[bytes | FileRegion] = []
    out = bytearray(struct.pack(">i", correlation_id) + (b"\0" if flexible else b""))
    out += struct.pack(">i", 0)  # throttle time
    if version >= 7:
        out += struct.pack(">hi", code, session_id)
    # A topic may come more than once: its partitions keep the order of their turns.
    topics = [(key, list(group)) for key, group in groupby(found, lambda each: each[0].topic)]
    out += _count(len(topics), flexible)
    for topic, partitions in topics:
        out += _topic(topic, version)
        out += _count(len(partitions), flexible)
        for wanted, each in partitions:
            _put_partition(out, wanted.partition, each, version)
            if each.region is not None:
                pieces += [bytes(out), each.region]
                out = bytearray()
            if flexible:
                out += _tagged(each, version)
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    pieces.append(bytes(out))
    size = sum(piece.size if isinstance(piece, FileRegion) else len(piece) for piece in pieces)
    first = pieces[0]
    assert isinstance(first, bytes)
    pieces[0] = struct.pack(">i", size) + first
    return pieces


def _topic(topic: bytes, version: int) -> bytes:
    if version >= _BY_ID:
        return topic
    return (_count(len(topic), True) if version >= _FLEXIBLE else struct.pack(">h", len(topic))) + topic


def _put_partition(out: bytearray, partition: int, found: FoundPartition, version: int) -> None:
    flexible = version >= _FLEXIBLE
    out += struct.pack(">ihqq", partition, found.code, found.high_watermark, found.last_stable_offset)
    if version >= 5:
        out += struct.pack(">q", found.log_start_offset)
    if found.aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        out += _count(len(found.aborted), flexible)
        for each in found.aborted:
            out += struct.pack(">qq", each.producer_id, each.first_offset)
            if flexible:
                out += b"\0"
    if version >= 11:
        out += struct.pack(">i", -1)  # no preferred replica
    # "No records" is zero bytes: some clients cannot read null.
    out += _count(0 if found.region is None else found.region.size, flexible)


def _tagged(found: FoundPartition, version: int) -> bytes:
    """Return the tagged fields of a partition: where it diverges has tag 0, the leader tag 1."""
    fields = []
    if found.diverging is not None:
        fields.append((0, struct.pack(">iq", *found.diverging)))
    if found.leader is not None and version >= _LEADERS:
        fields.append((1, struct.pack(">ii", *found.leader)))
    out = bytes([len(fields)])
    for tag, value in fields:
        out += bytes([tag, len(value) + 1]) + value + b"\0"
    return out


def _count(number: int, flexible: bool) -> bytes:
    """Return a length or count: four bytes, or an unsigned varint of one more."""
    if not flexible:
        return struct.pack(">i", number)
    number += 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
