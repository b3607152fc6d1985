"""The aborted transactions of one segment: Kafka's ``.txnindex``, as bytes and as a search.

Pure functions. An entry belongs to the segment that holds its abort *marker*; its first record
may be segments away. The file is a hint that is rebuilt by replaying batch headers: what does not
hold together is None. It has no checksum, so a flipped bit in a producer id can pass; the caller
therefore reads it only below the recovery point of a log that was not torn, else rebuilds it.

An entry is 34 bytes, big-endian (Kafka's `AbortedTxn`)::

     0  2  version 0
     2  8  producer id
    10  8  first offset of the transaction
    18  8  last offset: that of the abort marker
    26  8  last stable offset once the marker was written

Invariant, from entry to entry: last offsets rise, and last stable offsets do not fall. The second
is what lets a search stop early.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logstore.log.checkpoint import INT64_MAX
from logstore.records import AbortedTransaction

ENTRY_BYTES = 34

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class Collected(NamedTuple):
    """The aborted transactions that a committed reader of a range must skip.

    Unless ``is_complete``, the indexes of later segments may hold more of them.
    """

    transactions: list[AbortedTransaction]
    is_complete: bool


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of these entries, to append to a ``.txnindex`` or to be all of it."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(data: bytes, base_offset: int = 0, end_offset: int = INT64_MAX) -> list[AbortedTransaction] | None:
    """The entries of the segment ``[base_offset, end_offset)``, in the order of their markers.

    None if the bytes are no whole number of entries, contradict themselves, or name a marker
    outside the segment: rebuild them. Give the true ``end_offset``: without a checksum it is what
    finds most flipped bits in offsets.
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
    """The transactions that overlap ``[fetch_offset, upper_bound_offset)``, as Kafka collects them.

    A transaction that is still open when the last stable offset has reached the upper bound can
    only have begun at or behind that bound: from the first such entry on, nothing more overlaps.
    """
    found = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return Collected(found, True)
    return Collected(found, False)


def truncate_to(entries: Sequence[AbortedTransaction], offset: int) -> list[AbortedTransaction]:
    """The entries whose marker is below ``offset``, the new log end."""
    return [entry for entry in entries if entry.last_offset < offset]
