"""Aborted transactions of one segment: encoding and search of Kafka's ``.txnindex``.

Pure functions. An entry belongs to the segment that holds its abort *marker*; its first record
may be segments earlier. The file can be rebuilt by replaying batch headers, so `decode` returns
None for an inconsistent one. Kafka gives it no checksum, and no file at all to a segment without aborted
transactions. So a logstore log also stores the number of entries of each segment, and their checksum.

An entry is 34 bytes, big-endian (Kafka's `AbortedTxn`)::

     0  2  version 0
     2  8  producer id
    10  8  first offset of the transaction
    18  8  last offset: that of the abort marker
    26  8  last stable offset once the marker was written

Invariant, from entry to entry: last offsets rise, and last stable offsets do not fall. The second
lets a search stop early.

**`logstore.aborted`**: a partition has this file once it has an aborted transaction. The head is overwritten in
place after each entry. On a roll the whole file is replaced. Big-endian::

     0  2  magic "la"                       24  4  CRC-32C of bytes [0, 24)
     2  2  version 1                        28     16 bytes for each other segment with aborted transactions:
     4  8  base offset of a segment                 8  base offset
    12  4  number of its entries                    4  number of entries
    16  4  CRC-32C of its entries                   4  CRC-32C of the entries
    20  4  number of other segments         then CRC-32C of all from 28 on

A segment that is not named has no aborted transaction. The file is never the authority. If it is lost, or
disagrees with an index, as after a crash between the two writes, the markers in the log decide.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logstore.batch._crc32c import crc32c
from logstore.log.formats.checkpoints import CRC_BYTES, with_crc, without_crc
from logstore.records import INT64_MAX, AbortedTransaction

ENTRY_BYTES = 34
NOTE = "logstore.aborted"

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0

_HEAD = struct.Struct(">2sHqIII")
_HEAD_MAGIC, _HEAD_VERSION = b"la", 1
_LINE = struct.Struct(">qII")


class Collected(NamedTuple):
    """Aborted transactions that a committed reader of a range must skip.

    Unless ``is_complete``, the indexes of later segments may hold more of them.
    """

    transactions: list[AbortedTransaction]
    is_complete: bool


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """Encode entries, to append to a ``.txnindex`` or as all of it."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(data: bytes, base_offset: int = 0, end_offset: int = INT64_MAX) -> list[AbortedTransaction] | None:
    """Decode the entries of the segment ``[base_offset, end_offset)``, in the order of their markers.

    None if the bytes are no whole number of entries, contradict themselves, or name a marker outside the segment:
    the caller rebuilds the index. Pass the true ``end_offset``: without a checksum, only this bound detects most
    flipped bits in offsets.
    """
    if len(data) % ENTRY_BYTES:
        return None
    entries: list[AbortedTransaction] = []
    last_offset, last_stable_offset = base_offset - 1, 0
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != _VERSION or entry.producer_id < 0 or not 0 <= entry.first_offset <= entry.last_offset:
            return None
        if not last_offset < entry.last_offset < end_offset:
            return None
        if not last_stable_offset <= entry.last_stable_offset <= entry.last_offset + 1:
            return None
        last_offset, last_stable_offset = entry.last_offset, entry.last_stable_offset
        entries.append(entry)
    return entries


def collect(entries: Iterable[AbortedTransaction], fetch_offset: int, upper_bound_offset: int) -> Collected:
    """Collect the transactions that overlap ``[fetch_offset, upper_bound_offset)``, as Kafka does.

    A transaction that is still open when the last stable offset has reached the upper bound can only have begun at
    or after it. From the first such entry on, nothing more overlaps.
    """
    found = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return Collected(found, True)
    return Collected(found, False)


def truncate_to(entries: Sequence[AbortedTransaction], offset: int) -> list[AbortedTransaction]:
    """Return the entries whose marker is below ``offset``, the new log end offset."""
    return [entry for entry in entries if entry.last_offset < offset]


# --- counts and checksums ---------------------------------------------------------------------


class Sum(NamedTuple):
    """Number of entries in a segment's index, and the CRC-32C of their bytes."""

    entries: int = 0
    crc: int = 0

    def plus(self, data: bytes) -> Sum:
        """Return the sum after more entries, given as bytes, were appended."""
        return Sum(self.entries + len(data) // ENTRY_BYTES, crc32c(data, self.crc))


NOTHING = Sum()


class Note(NamedTuple):
    """Contents of ``logstore.aborted``."""

    sums: Mapping[int, Sum] | None  #: by base offset; None: there is no valid note
    is_lost: bool = False  #: a note was written before, and is lost or damaged

    def agrees(self, base_offset: int, data: bytes, *, is_sealed: bool) -> bool:
        """Return whether an index may be trusted. One that is still written may have more entries by now."""
        if self.sums is None:
            return not self.is_lost
        known = self.sums.get(base_offset, NOTHING)
        if is_sealed:
            return known == NOTHING.plus(data)
        return known == NOTHING.plus(data[: known.entries * ENTRY_BYTES])


def encode_head(base_offset: int, sum_: Sum, others: int) -> bytes:
    """Encode the first bytes of ``logstore.aborted``."""
    return with_crc(_HEAD.pack(_HEAD_MAGIC, _HEAD_VERSION, base_offset, *sum_, others))


def encode_note(base_offset: int, sums: Mapping[int, Sum]) -> bytes:
    """Encode ``logstore.aborted``, with the segment at ``base_offset`` in the head.

    >>> decode_note(encode_note(7, {0: Sum(2, 5), 7: Sum(1, 3)}))
    {7: Sum(entries=1, crc=3), 0: Sum(entries=2, crc=5)}
    """
    others = sorted((base, sum_) for base, sum_ in sums.items() if base != base_offset and sum_.entries)
    lines = b"".join([_LINE.pack(base, *sum_) for base, sum_ in others])
    return encode_head(base_offset, sums.get(base_offset, NOTHING), len(others)) + with_crc(lines)


def decode_note(data: bytes) -> dict[int, Sum] | None:
    """Return the sum of each segment that ``logstore.aborted`` names; None if the file is not whole."""
    start = _HEAD.size + CRC_BYTES
    head, lines = without_crc(data[:start]), without_crc(data[start:])
    if head is None or lines is None or len(head) != _HEAD.size:
        return None
    magic, version, base_offset, entries, crc, others = _HEAD.unpack(head)
    if (magic, version) != (_HEAD_MAGIC, _HEAD_VERSION) or len(lines) != others * _LINE.size:
        return None
    return {base_offset: Sum(entries, crc)} | {base: Sum(*sum_) for base, *sum_ in _LINE.iter_unpack(lines)}
