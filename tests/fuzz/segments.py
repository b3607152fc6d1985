"""Whole segments: scans of hostile files, and good files whose indexes are hostile.

The first must end in an error that says where, and what is read must be sound; the second must
give what the log gives without any index. Files are in memory where the machine has such a place.
"""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from logstore._index import OffsetIndex, TimeIndex
from logstore._segment import Segment
from logstore.batch._batch import Batches, Record
from logstore.batch._encode import encode
from logstore.errors import RecordError
from logstore.io._files import Files
from tests.fuzz.batches import HEADER_BYTES, LIMIT
from tests.fuzz.mutate import Mutator

BASE_OFFSET = 100
INTERVAL = 64
INT64_MAX = 2**63 - 1


class FuzzedSegment:
    """A directory in memory with one segment's files; made when it is first needed."""

    _made: FuzzedSegment | None = None

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self.path = Path(
            tempfile.mkdtemp(prefix="logstore-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)
        )
        atexit.register(shutil.rmtree, self.path, ignore_errors=True)
        self.files = Files(descriptor_limit=8)
        self.stem = str(self.path / f"{BASE_OFFSET:020d}")
        self._descriptors = {
            suffix: os.open(self.stem + suffix, os.O_RDWR | os.O_CREAT, 0o600)
            for suffix in (".log", ".index", ".timeindex")
        }

    @classmethod
    def get(cls) -> FuzzedSegment:
        if cls._made is None:
            cls._made = cls()
        return cls._made

    def write(self, suffix: str, data: bytes) -> None:
        descriptor = self._descriptors[suffix]
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))

    def segment(self, size: int, next_offset: int, *, sealed: bool = False) -> Segment:
        file = self.files.lazy(self.stem + ".log", writable=not sealed)
        return Segment(
            file, BASE_OFFSET, index_interval_bytes=INTERVAL, size=size, next_offset=next_offset, sealed=sealed
        )


# --- hostile bytes in a log ---------------------------------------------------------------------


def read_log(data: bytes) -> None:
    """A log file as recovery, a reader and a fetch meet it. The first eight bytes choose where they look."""
    offset = BASE_OFFSET + data[0] if data[1] & 1 else int.from_bytes(data[:8], "big") >> 1
    body = data[8:]
    place = FuzzedSegment.get()
    place.write(".log", body)
    place.write(".index", b"")
    place.write(".timeindex", b"")
    segment = place.segment(len(body), -1)
    extent = segment.scan()
    assert 0 <= extent.valid_bytes <= extent.file_bytes == len(body)
    assert extent.is_whole == (extent.valid_bytes == len(body))
    refusal: Exception | None = extent.error
    whole = Batches(body[: extent.valid_bytes])
    assert whole.size == 0 or whole.next_offset == extent.next_offset

    # A reader that knows no more than the file's size, and goes on behind damage.
    for _ in range(2):
        for read in (
            lambda: segment.read(offset, 300, INT64_MAX),
            lambda: segment.read(offset, 1 << 20, INT64_MAX, hint=data[2]),
            lambda: segment.locate(offset, 1 << 20, INT64_MAX),
            lambda: segment.index.position_of(offset),
            lambda: segment.record_at(offset, ("t", 0), LIMIT),
            lambda: segment.index.offset_for_time(data[3] * 40),
            lambda: list(segment.index.headers()),
            lambda: segment.index.continues_at(segment.size, offset),
            lambda: segment.index.continues_at(data[4], offset),
            segment.index.first_timestamp,
        ):
            try:
                found = read()
                if isinstance(found, Record):
                    assert found.offset == offset
                    _ = found.key, found.value, found.headers
                elif isinstance(found, tuple) and isinstance(found[0], bytes):
                    # What a read hands out is whole and begins where it says.
                    assert Batches(found[0]).next_offset == found[2]
                    assert body[found[1] : found[1] + len(found[0])] == found[0]
            except RecordError as error:
                refusal = error
        # And the owner, whose recovery keeps what is whole.
        segment.scan(check=bool(data[5] & 1), adopt=True)
    follower = place.segment(0, BASE_OFFSET)
    follower.extend(offset)
    segment.close()
    follower.close()
    if refusal is not None:
        raise refusal


# --- hostile indexes beside a good log ----------------------------------------------------------

BATCHES = 24


def good_log() -> list[bytes]:
    """Batches of 1 to 3 records with times that mostly rise."""
    out = []
    offset = BASE_OFFSET
    for turn in range(BATCHES):
        records = [(None, b"v" * (7 * turn % 60), 1_000 + 40 * turn + 7 * n) for n in range(1 + turn % 3)]
        data = bytearray(encode(records, timestamp_ms=0))
        data[:8] = offset.to_bytes(8, "big")
        offset += len(records)
        out.append(bytes(data))
    return out


_LOG = b"".join(good_log())
_END_OFFSET = BASE_OFFSET + sum(1 + turn % 3 for turn in range(BATCHES))
_written = False


def index_seeds() -> tuple[bytes, bytes]:
    """The entries that the log itself would write."""
    place = FuzzedSegment.get()
    place.write(".log", _LOG)
    segment = place.segment(len(_LOG), _END_OFFSET)
    segment.index.rebuild()
    return segment.index.offsets.to_bytes(), segment.index.times.to_bytes()


def changed_indexes(m: Mutator, seeds: tuple[bytes, bytes]) -> bytes:
    """Length of the offset index, offset index, time index; one or both of them changed."""
    index, times = bytearray(seeds[0]), bytearray(seeds[1])
    which = m.below(3)
    if which != 1:
        change_entries(m, index, ((0, 4), (4, 4)), 8)
    if which != 0:
        change_entries(m, times, ((0, 8), (8, 4)), 12)
    return struct.pack(">HBB", len(index), m.below(256), m.below(256)) + index + times


def change_entries(m: Mutator, data: bytearray, fields: Sequence[tuple[int, int]], entry_bytes: int) -> None:
    count = len(data) // entry_bytes
    while True:
        kind = m.below(10)
        if kind < 6 and count:
            at, size = fields[m.below(len(fields))]
            at += entry_bytes * m.below(count)
            if at + size <= len(data):
                m.set_number(data, at, size)
        elif kind == 6:
            data += bytes(m.below(30))
        elif kind == 7:
            from_, to = (entry_bytes * m.below(count + 1) for _ in range(2))
            data[to:to] = data[from_ : from_ + entry_bytes]
        else:
            m.change(data)
        if m.chance(0.6):
            return


def read_beside_indexes(data: bytes) -> None:
    """Finding and reading by a wrong index gives what the log holds, and the index is rebuilt."""
    global _written
    size, offset, flags = struct.unpack_from(">HBB", data)
    place = FuzzedSegment.get()
    if not _written:
        place.write(".log", _LOG)
        _written = True
    place.write(".index", data[4 : 4 + size])
    place.write(".timeindex", data[4 + size :])
    segment = place.segment(len(_LOG), _END_OFFSET, sealed=bool(flags & 1))
    offset = BASE_OFFSET + offset % (_END_OFFSET - BASE_OFFSET)
    found = segment.read(offset, 1, INT64_MAX)
    assert found is not None, offset
    run = Batches(found[0], start_offset=offset)
    assert run.records()[0].offset == offset
    assert _LOG[found[1] : found[1] + len(found[0])] == found[0]
    single = segment.record_at(offset, ("t", 0), LIMIT)
    assert single is None or single.value == run.records()[0].value
    time = 900 + 8 * (flags >> 1)
    start = segment.index.offset_for_time(time)
    newest = segment.index.largest_timestamp()
    assert newest == (1_000 + 40 * (BATCHES - 1) + 7 * ((BATCHES - 1) % 3), _END_OFFSET - 1), newest
    if start is None:
        assert time > newest[0]
    else:
        # Nothing that new precedes the position at which the search begins.
        assert time <= newest[0]
        assert all(record.timestamp_ms < time for record in _RECORDS if record.offset < start), (time, start)
    segment.close()


_RECORDS = Batches(_LOG).records()


# --- entries alone ------------------------------------------------------------------------------


def read_entries(data: bytes) -> None:
    """Both kinds of entries out of the same bytes, sound or not: every search and cut stays inside."""
    index = OffsetIndex().load(data)
    times = TimeIndex().load(data)
    for number in (0, 1, -1, 2**31 - 1, 2**63 - 1, -(2**63)):
        found = index.floor(number)
        if found is not None and index.is_sound(2**31):
            assert found[0] <= number
        times.last_below(number)
    for entries in (index, times):
        assert entries.size <= len(data)
        assert data.startswith(entries.to_bytes())
        if len(entries):
            entries.entry(len(entries) - 1)
        entries.unmark_saved()
        assert entries.unsaved() == entries.to_bytes()
    index.is_sound(1 << 20)
    times.is_sound()
    times.append(2**62, 2**30)
    index.cut_to(500)
    times.cut_to(500)
    try:
        index.append(2**31 - 1, 2**31 - 1)
    except ValueError:
        assert len(index)  # the last entry cannot be risen over


def changed_log(m: Mutator, run: bytes) -> bytes:
    """A changed run whose batches mostly begin at the segment's own base offset."""
    data = bytearray(run)
    if m.chance(0.7) and len(data) >= 8 + HEADER_BYTES:
        shift = BASE_OFFSET
        at = 8
        while at + HEADER_BYTES <= len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            data[at : at + 8] = ((int.from_bytes(data[at : at + 8], "big") + shift) & (2**64 - 1)).to_bytes(
                8, "big"
            )
            if size < HEADER_BYTES:
                break
            at += size
    return bytes(data)
