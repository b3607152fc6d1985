"""Checkpoint files of a log: encoding and decoding.

Pure functions over whole files; `files.Directory` reads and replaces them, when the log's owner
calls it. Safe from any thread. Damage is detected here and reported, never repaired: a damaged text
checkpoint raises `CorruptRecordError`, a damaged binary one is None (unknown, or read again).

**Kafka's text checkpoints** (`OffsetCheckpointFile`): in the root of the logs, one entry for each partition. The
format has no checksum, so a flipped digit cannot be detected. A truncated file, a missing line and any text that
Kafka does not write can. So such a file only lowers the offsets in logstore's own::

    0                      version
    2                      number of entries
    flights-0 0 1042       topic partition offset; each line ends with a newline
    flights-1 0 977

**`logstore.recovery`** of a partition: two slots of 64 bytes at positions 0 and 4096, in
different sectors so that one torn write leaves the other. Big-endian::

     0  2  magic "lr"
     2  1  version 1
     3  1  flags: 1 clean, 2 suspect, 4 contiguous, 8 gapped (`LogKind`; neither: never recorded),
           16 lists aborted transactions
     4  8  sequence (unsigned); even ones are at 0, odd ones at 4096
    12  8  generation (unsigned)
    20  8  recovery point
    28  8  base offset of the segment that holds the recovery point
    36  8  position of the recovery point in that segment
    44  8  log start offset
    52  8  replay from
    60  4  CRC-32C of bytes [0, 60)

The valid slot with the highest sequence is used. It is a lower bound of the synced end and is not synced, except
when a truncation lowers it. Then *both* slots are written, so that no later torn write of one can bring the higher
recovery point back.

Between the slots, at 2048, is the run of the machine in which the log was written: `last_stop` shows its bytes.

**`logstore.start`** of a partition: the same two slots. Only the log start offset and the kind are used, and
only if `logstore.recovery` is lost: the other fields have no meaning.

**`logstore.published`** of a partition: laid out in `_published`.

**`logstore.compacted`** of a partition: the end of its compacted part, big-endian. Kafka keeps that in the root's
``cleaner-offset-checkpoint``, which has no checksum. A flipped digit could make the offset higher, and a tombstone
would be deleted while a value before it still exists::

     0  2  magic "lc"        4  8  below this offset every key has one record
     2  2  version 1        12  4  CRC-32C of bytes [0, 12)

**`logstore.dropped`** of a partition: the offset after the newest tombstone or transaction marker that may be
missing, laid out as ``logstore.compacted`` with the magic "ld". A file of its own: the loss of one must not be the
loss of both.

**`.kafka_cleanshutdown`** in the root: only its presence matters here, its content is for Kafka.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from logstore.batch._crc32c import crc32c
from logstore.errors import CorruptRecordError
from logstore.log.formats import _published, _recovery_slot
from logstore.records import INT32_MAX, INT64_MAX, TopicPartition

if TYPE_CHECKING:
    from logstore.log.directory.files import Directory

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY = "logstore.recovery"
START = "logstore.start"
PUBLISHED = "logstore.published"
COMPACTED = "logstore.compacted"
DROPPED = "logstore.dropped"

SLOT_BYTES = _recovery_slot.SLOT_BYTES
SLOT_SPACING_BYTES = _recovery_slot.SLOT_SPACING_BYTES
RUN_POSITION = 2048
RECOVERY_BYTES = SLOT_SPACING_BYTES + SLOT_BYTES
PUBLISHED_BYTES = _published.SIZE

#: Last generation published of a partition that is removed. Even: no change is in progress.
GONE_GENERATION = 2**62


_TEXT_VERSION = b"0"
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
_OFFSET_LINE = re.compile(rb"([A-Za-z0-9._-]{1,249}) (0|[1-9][0-9]{0,9}) (0|[1-9][0-9]{0,18})")

_SLOT = struct.Struct(">2sBBQQqqqqq")
_SLOT_MAGIC = b"lr"
_SLOT_VERSION = 1
_CLEAN, _SUSPECT, _CONTIGUOUS, _GAPPED, _LISTS_ABORTED = 1, 2, 4, 8, 16

_CRC = struct.Struct(">I")
CRC_BYTES = _CRC.size
_COMPACTED = struct.Struct(">2sHq")
_COMPACTED_MAGIC, _DROPPED_MAGIC, _COMPACTED_VERSION = b"lc", b"ld", 1


def with_crc(body: bytes) -> bytes:
    """Return the bytes with their CRC-32C after them."""
    return body + _CRC.pack(crc32c(body))


def without_crc(data: bytes) -> bytes | None:
    """Return the bytes before the CRC-32C at their end; None if it is not theirs."""
    body = data[: -_CRC.size]
    return body if data[len(body) :] == _CRC.pack(crc32c(body)) else None


def with_crc_line(text: bytes) -> bytes:
    """Return lines of text with a line behind them that has their CRC-32C, newlines included."""
    return b"%bcrc32c %08x\n" % (text, crc32c(text))


def without_crc_line(data: bytes) -> bytes | None:
    """Return the lines of text before the CRC-32C in the last one; None if it is not theirs."""
    text = data[: data.rfind(b"\n", 0, -1) + 1]
    return text if data == with_crc_line(text) else None


# --- Kafka's text ----------------------------------------------------------------------------


def decode_lines(data: bytes) -> list[bytes] | None:
    """Return the entry lines of one of Kafka's text checkpoints, None unless all of them are present."""
    lines = data.split(b"\n")
    # Without the last newline, the last number may have lost digits.
    if len(lines) < 3 or lines.pop() != b"" or lines[0] != _TEXT_VERSION:
        return None
    if not _NUMBER.fullmatch(lines[1]) or int(lines[1]) != len(lines) - 2:
        return None
    return lines[2:]


def encode_lines(lines: Iterable[bytes]) -> bytes:
    """Encode one of Kafka's text checkpoints with these entry lines."""
    entries = list(lines)
    return b"\n".join([_TEXT_VERSION, b"%d" % len(entries), *entries, b""])


def read_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition in one of Kafka's text checkpoints.

    An empty file holds none: Kafka creates these files empty, long before it writes them. A
    partition without an entry is unknown, not at 0.

    >>> read_offsets(b"0\\n1\\nflights 0 42\\n", "recovery-point-offset-checkpoint")
    {TopicPartition(topic='flights', partition=0): 42}

    Raises:
        CorruptRecordError: the file is not whole, or holds a line that Kafka does not write.
    """
    lines = decode_lines(data) if data else []
    if lines is None:
        raise CorruptRecordError("checkpoint is cut, or is not version 0 with its count of lines", path=path)
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines, start=3):
        match = _OFFSET_LINE.fullmatch(line)
        if match is None:
            raise CorruptRecordError(
                f"line {number}: expected topic, partition and offset, found {line[:80]!r}", path=path
            )
        name = TopicPartition(match[1].decode("ascii"), int(match[2]))
        offset = int(match[3])
        if name.partition > INT32_MAX or offset > INT64_MAX or name in offsets:
            raise CorruptRecordError(f"line {number}: {line!r} is out of range or a second entry", path=path)
        offsets[name] = offset
    return offsets


def write_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode one of Kafka's text checkpoints with these offsets, sorted by partition.

    >>> write_offsets({TopicPartition("flights", 0): 42})
    b'0\\n1\\nflights 0 42\\n'
    """
    assert all(0 <= offset <= INT64_MAX for offset in offsets.values())
    return encode_lines(
        b"%s %d %d" % (name.topic.encode("ascii"), name.partition, offsets[name]) for name in sorted(offsets)
    )


# --- the recovery point ----------------------------------------------------------------------


class LogKind(enum.StrEnum):
    """Meaning of a gap between two segments of a log."""

    UNRECORDED = ""  #: a log created before kinds were recorded: a gap is a loss, or intended
    CONTIGUOUS = "contiguous"  #: each segment ends where the next begins: a gap is a loss
    GAPPED = "gapped"  #: offsets are left out on purpose, as by Kafka's cleaner or in a replica: a gap is no loss

    def with_other(self, other: LogKind) -> LogKind:
        """Combine the kinds that two files record: ``GAPPED`` wins, ``UNRECORDED`` is ignored.

        >>> LogKind.CONTIGUOUS.with_other(LogKind.GAPPED)
        <LogKind.GAPPED: 'gapped'>
        """
        return LogKind.GAPPED if LogKind.GAPPED in (self, other) else self or other

    def may_have_gaps(self, *, compacted: bool) -> bool:
        """Return whether offsets may be missing between segments; if never recorded, only in a compacted log."""
        return self is LogKind.GAPPED or (self is LogKind.UNRECORDED and compacted)


class RecoveryPoint(NamedTuple):
    """One slot of ``logstore.recovery``. Offsets are lower bounds."""

    sequence: int  #: rises with each write of a slot
    generation: int  #: of the log; every truncation raises it
    recovery_point: int  #: every byte below this offset has been synced
    segment_base_offset: int  #: the segment that holds the recovery point
    position: int  #: position of the recovery point in that segment
    log_start_offset: int
    replay_from: int  #: no producer had state at this offset: replay from it; -1: from the newest snapshot
    clean: bool = False  #: the log was closed; nothing was written since
    suspect: bool = False  #: a sync failed: the page cache may differ from the disk
    kind: LogKind = LogKind.UNRECORDED
    lists_aborted: bool = False  #: a ``logstore.aborted`` was written; if it is missing, it is lost


_KIND_OF = {0: LogKind.UNRECORDED, _CONTIGUOUS: LogKind.CONTIGUOUS, _GAPPED: LogKind.GAPPED}


encode_slot = _recovery_slot.encode_slot
slot_position = _recovery_slot.slot_position


def decode_slots(data: bytes) -> RecoveryPoint | None:
    """Return the newest whole slot of the file; None (unknown: scan everything) if there is none.

    ``data`` may be short or of any content: a file that was never written whole is no error.
    """
    newest: RecoveryPoint | None = None
    for position in (0, SLOT_SPACING_BYTES):
        point = _decode_slot(data[position : position + SLOT_BYTES])
        # A slot in the place of the other is a misdirected write of the storage below.
        if point is None or slot_position(point.sequence) != position:
            continue
        if newest is None or point.sequence > newest.sequence:
            newest = point
    return newest


def _decode_slot(slot: bytes) -> RecoveryPoint | None:
    if len(slot) != SLOT_BYTES or without_crc(slot) is None:
        return None
    magic, version, flags, *numbers = _SLOT.unpack_from(slot)
    kind = _KIND_OF.get(flags & ~(_CLEAN | _SUSPECT | _LISTS_ABORTED))
    if magic != _SLOT_MAGIC or version != _SLOT_VERSION or kind is None:
        return None
    point = RecoveryPoint(*numbers)._replace(
        clean=bool(flags & _CLEAN),
        suspect=bool(flags & _SUSPECT),
        kind=kind,
        lists_aborted=bool(flags & _LISTS_ABORTED),
    )
    if min(numbers[:-1]) < 0 or point.replay_from < -1 or point.segment_base_offset > point.recovery_point:
        return None
    return point


# --- the compacted offset, and what was dropped ------------------------------------------------


def encode_compacted(offset: int) -> bytes:
    """Encode ``logstore.compacted``."""
    return _encode_offset(_COMPACTED_MAGIC, offset)


def decode_compacted(data: bytes) -> int | None:
    """Return the offset in ``logstore.compacted``; None (nothing is known to be compacted) if it is damaged.

    >>> decode_compacted(encode_compacted(42))
    42
    """
    return _decode_offset(_COMPACTED_MAGIC, data)


def encode_dropped(end: int) -> bytes:
    """Encode ``logstore.dropped``."""
    return _encode_offset(_DROPPED_MAGIC, end)


def decode_dropped(data: bytes) -> int | None:
    """Return the offset in ``logstore.dropped``; None if it is damaged.

    >>> decode_dropped(encode_dropped(42))
    42
    """
    return _decode_offset(_DROPPED_MAGIC, data)


def _encode_offset(magic: bytes, offset: int) -> bytes:
    return with_crc(_COMPACTED.pack(magic, _COMPACTED_VERSION, offset))


def _decode_offset(expected: bytes, data: bytes) -> int | None:
    body = without_crc(data)
    if body is None or len(body) != _COMPACTED.size:
        return None
    magic, version, offset = _COMPACTED.unpack(body)
    return offset if (magic, version) == (expected, _COMPACTED_VERSION) and offset >= 0 else None


# --- the published end -----------------------------------------------------------------------


class Published(NamedTuple):
    """Offsets that the writing process publishes for readers in other processes."""

    generation: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


def decode_published(data: bytes) -> Published | None:
    """Decode ``logstore.published``; None if the bytes were read while they were written: read again.

    None too for offsets that no log can have, which no writer publishes.
    """
    numbers = _published.unpack(data)
    if numbers is None:
        return None
    published = Published(*numbers)
    if min(published) < 0 or not (
        published.last_stable_offset <= published.high_watermark <= published.log_end_offset
    ):
        return None
    return published


# --- clean shutdown --------------------------------------------------------------------------


def was_shut_down_cleanly(root: Directory) -> bool:
    """Return whether the last owner of this root closed it. The file's content does not matter."""
    return CLEAN_SHUTDOWN in root.names()


def mark_clean_shutdown(root: Directory) -> None:
    """Mark every log below this root as closed and synced. Durable on return."""
    root.replace(CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}', durable=True)


def clear_clean_shutdown(root: Directory) -> None:
    """Remove the mark, before the first write after opening. Durable on return.

    Without the sync, a power cut would bring the mark back over torn logs. The directory is synced
    even if the name is missing: a process killed in this call has removed it from the cache only.
    """
    root.remove(CLEAN_SHUTDOWN)
    root.sync()
