"""The small facts of a log that outlive it: checkpoints as bytes, in both directions.

Pure functions over whole files; `files.Directory` reads and replaces them, the log's owner says
when. Safe from any thread. Damage is found here and named, never repaired: a damaged text
checkpoint raises `CorruptRecordError`, a damaged binary one is None (unknown, or read again).

**Kafka's text checkpoints** (`OffsetCheckpointFile`): in the root of the logs, one entry for each
partition. The format has no checksum, so a flipped digit cannot be seen; a cut, a missing line
and anything Kafka would not have written can. Hence such a file only ever lowers what our own says::

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
     4  8  sequence (unsigned); even ones stand at 0, odd ones at 4096
    12  8  generation (unsigned)
    20  8  recovery point
    28  8  base offset of the segment that holds the recovery point
    36  8  position of the recovery point in that segment
    44  8  log start offset
    52  8  replay from
    60  4  CRC-32C of bytes [0, 60)

The valid slot
with the highest sequence counts. It is a lower bound of what is on disk and is not synced, except
when a truncation lowers it: then *both* slots are written, so that no later tear of one can bring
the higher recovery point back.

**`logstore.start`** of a partition: the same two slots. Of them the log start offset and the kind count, and
only where `logstore.recovery` is lost: its other fields say nothing.

**`logstore.published`** of a partition: drawn in `_published`.

**`logstore.compacted`** of a partition: how far it is compacted, big-endian. Kafka keeps that in the
root's ``cleaner-offset-checkpoint``, which has no checksum: an offset that reads higher than it was
would let a tombstone go while a value before it is still there::

     0  2  magic "lc"        4  8  below this offset every key has one record
     2  2  version 1        12  4  CRC-32C of bytes [0, 12)

**`.kafka_cleanshutdown`** in the root: its presence is the fact, its content is for Kafka.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from logstore.batch._crc32c import crc32c
from logstore.errors import CorruptRecordError
from logstore.log.formats import _published
from logstore.records import TopicPartition

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

SLOT_BYTES = 64
SLOT_SPACING_BYTES = 4096
RECOVERY_BYTES = SLOT_SPACING_BYTES + SLOT_BYTES
PUBLISHED_BYTES = _published.SIZE

#: Published as the last thing of a partition that is removed. Even: nothing is under way any more.
GONE_GENERATION = 2**62

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_TEXT_VERSION = b"0"
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
_OFFSET_LINE = re.compile(rb"([A-Za-z0-9._-]{1,249}) (0|[1-9][0-9]{0,9}) (0|[1-9][0-9]{0,18})")

_SLOT = struct.Struct(">2sBBQQqqqqq")
_SLOT_MAGIC = b"lr"
_SLOT_VERSION = 1
_CLEAN, _SUSPECT, _CONTIGUOUS, _GAPPED, _LISTS_ABORTED = 1, 2, 4, 8, 16

_CRC = struct.Struct(">I")
_COMPACTED = struct.Struct(">2sHq")
_COMPACTED_MAGIC, _COMPACTED_VERSION = b"lc", 1


# --- Kafka's text ----------------------------------------------------------------------------


def decode_lines(data: bytes) -> list[bytes] | None:
    """The entry lines of one of Kafka's text checkpoints, None unless all of them are there."""
    lines = data.split(b"\n")
    # The last newline must be there: without it the last number may have lost digits.
    if len(lines) < 3 or lines.pop() != b"" or lines[0] != _TEXT_VERSION:
        return None
    if not _NUMBER.fullmatch(lines[1]) or int(lines[1]) != len(lines) - 2:
        return None
    return lines[2:]


def encode_lines(lines: Iterable[bytes]) -> bytes:
    """One of Kafka's text checkpoints with these entry lines."""
    entries = list(lines)
    return b"\n".join([_TEXT_VERSION, b"%d" % len(entries), *entries, b""])


def read_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """The offset of each partition in one of Kafka's text checkpoints.

    An empty file holds none: Kafka creates these files empty, long before it writes them. A
    partition without an entry is unknown, not at 0.

    >>> read_offsets(b"0\\n1\\nflights 0 42\\n", "recovery-point-offset-checkpoint")
    {TopicPartition(topic='flights', partition=0): 42}

    Raises:
        CorruptRecordError: the file is not whole, or holds what Kafka does not write.
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
    """One of Kafka's text checkpoints with these offsets, sorted by partition.

    >>> write_offsets({TopicPartition("flights", 0): 42})
    b'0\\n1\\nflights 0 42\\n'
    """
    assert all(0 <= offset <= INT64_MAX for offset in offsets.values())
    return encode_lines(
        b"%s %d %d" % (name.topic.encode("ascii"), name.partition, offsets[name]) for name in sorted(offsets)
    )


# --- the recovery point ----------------------------------------------------------------------


class LogKind(enum.StrEnum):
    """What a gap between two segments of a log means."""

    UNRECORDED = ""  #: of a log that was made before kinds were: a loss, or a gap that is meant
    CONTIGUOUS = "contiguous"  #: each segment ends where the next begins: a gap is a loss
    GAPPED = "gapped"  #: offsets are left out on purpose, as by Kafka's cleaner or in a replica: it says nothing

    def with_other(self, other: LogKind) -> LogKind:
        """What two places say together: one that knows of gaps is believed, one that says nothing is not asked.

        >>> LogKind.CONTIGUOUS.with_other(LogKind.GAPPED)
        <LogKind.GAPPED: 'gapped'>
        """
        return LogKind.GAPPED if LogKind.GAPPED in (self, other) else self or other


class RecoveryPoint(NamedTuple):
    """What one slot of ``logstore.recovery`` says. Offsets are lower bounds."""

    sequence: int  #: rises with each write of a slot
    generation: int  #: of the log; every truncation raises it
    recovery_point: int  #: every byte below this offset has been synced
    segment_base_offset: int  #: the segment that holds the recovery point
    position: int  #: where in that segment the recovery point is
    log_start_offset: int
    replay_from: int  #: no producer had state at this offset: replay from it; -1: from the newest snapshot
    clean: bool = False  #: the log was closed; nothing was written since
    suspect: bool = False  #: a sync failed: the page cache may differ from the disk
    kind: LogKind = LogKind.UNRECORDED
    lists_aborted: bool = False  #: there is a ``logstore.aborted``, or it is lost


_KIND_OF = {0: LogKind.UNRECORDED, _CONTIGUOUS: LogKind.CONTIGUOUS, _GAPPED: LogKind.GAPPED}
_FLAG_OF = {kind: flag for flag, kind in _KIND_OF.items()}


def slot_position(sequence: int) -> int:
    """Where in the file the slot of this sequence is written."""
    return SLOT_SPACING_BYTES if sequence % 2 else 0


def encode_slot(point: RecoveryPoint) -> bytes:
    """The 64 bytes to write at `slot_position` of the point's sequence."""
    assert 0 <= point.segment_base_offset <= point.recovery_point, point
    assert min(point.position, point.log_start_offset, point.replay_from + 1) >= 0, point
    flags = (_CLEAN if point.clean else 0) | (_SUSPECT if point.suspect else 0) | _FLAG_OF[point.kind]
    flags |= _LISTS_ABORTED if point.lists_aborted else 0
    body = _SLOT.pack(_SLOT_MAGIC, _SLOT_VERSION, flags, *point[:7])
    return body + _CRC.pack(crc32c(body))


def decode_slots(data: bytes) -> RecoveryPoint | None:
    """The newest whole slot of the file; None (unknown: scan everything) if there is none.

    ``data`` may be short or of any content: a file that was never written whole is no error.
    """
    newest: RecoveryPoint | None = None
    for position in (0, SLOT_SPACING_BYTES):
        point = _decode_slot(data[position : position + SLOT_BYTES])
        # A slot that stands in the place of the other was misdirected by something below us.
        if point is None or slot_position(point.sequence) != position:
            continue
        if newest is None or point.sequence > newest.sequence:
            newest = point
    return newest


def _decode_slot(slot: bytes) -> RecoveryPoint | None:
    if not _is_whole(slot, SLOT_BYTES):
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


# --- how far a log is compacted --------------------------------------------------------------


def encode_compacted(offset: int) -> bytes:
    """The bytes of ``logstore.compacted``."""
    body = _COMPACTED.pack(_COMPACTED_MAGIC, _COMPACTED_VERSION, offset)
    return body + _CRC.pack(crc32c(body))


def decode_compacted(data: bytes) -> int | None:
    """The offset in ``logstore.compacted``; None (nothing is known to be compacted) if it is damaged.

    >>> decode_compacted(encode_compacted(42))
    42
    """
    if not _is_whole(data, _COMPACTED.size + _CRC.size):
        return None
    magic, version, offset = _COMPACTED.unpack_from(data)
    return offset if (magic, version) == (_COMPACTED_MAGIC, _COMPACTED_VERSION) and offset >= 0 else None


# --- the published end -----------------------------------------------------------------------


class Published(NamedTuple):
    """How far the writing process has come, for readers in other processes."""

    generation: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


def encode_published(published: Published) -> bytes:
    """The 64 bytes of ``logstore.published``, for one `pwrite` after the bytes they promise."""
    assert published.last_stable_offset <= published.high_watermark <= published.log_end_offset, published
    return _published.pack(*published)


def decode_published(data: bytes) -> Published | None:
    """What the writer published; None if the bytes were read while they were written: read again.

    None too for marks that no log can have, which no writer publishes.
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


def _is_whole(data: bytes, size: int) -> bool:
    return len(data) == size and _CRC.unpack_from(data, size - _CRC.size)[0] == crc32c(data[: -_CRC.size])


# --- clean shutdown --------------------------------------------------------------------------


def was_shut_down_cleanly(root: Directory) -> bool:
    """Whether the last owner of this root closed it. What the file holds does not matter."""
    return CLEAN_SHUTDOWN in root.names()


def mark_clean_shutdown(root: Directory) -> None:
    """Say that every log below this root is closed and synced. On disk when it returns."""
    root.replace(CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}', durable=True)


def clear_clean_shutdown(root: Directory) -> None:
    """Take the mark away, before the first write after opening. On disk when it returns.

    Were the removal not synced, a power cut would bring the mark back over torn logs. It is synced
    even if the name is gone already: a process killed in here has removed it from the cache only.
    """
    root.remove(CLEAN_SHUTDOWN)
    root.sync()
