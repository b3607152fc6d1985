"""A log of any size in a moment: whole headers, indexes and checkpoints, and bodies that are holes.

Stands for a log that was written long ago and closed cleanly. The engine opens it as any other: every batch
below the end can be found, by offset and by time, and only who reads a body meets the hole (its CRC does not
fit). The active segment is empty, so that whatever is appended, and read at the tail, is real.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from logstore.config.log import LogConfig
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.formats import checkpoints
from logstore.log.formats.checkpoints import LogKind, RecoveryPoint
from logstore.log.formats.leader_epochs import EpochEntry, Epochs

HEADER = struct.Struct(">qiibIhiqqqhii")
GIB = 1 << 30

#: Records of 100 B take about so much of a batch.
RECORD_BYTES = 112

#: The time of the first batch, 2020-09-13; each later one is a second younger.
STARTED_MS = 1_600_000_000_000


def build(partition: Path, *, segments: int, segment_bytes: int = GIB, batch_bytes: int = 1 << 20) -> int:
    """Make a closed log of so many sealed segments; returns its log end offset.

    Only the headers take room on the disk, a page for each batch.
    """
    partition.mkdir(parents=True)
    per_batch = batch_bytes // RECORD_BYTES
    offset, timestamp = 0, STARTED_MS
    for _ in range(segments):
        name = files.segment_file(offset, files.LOG)
        fd = os.open(partition / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.ftruncate(fd, segment_bytes // batch_bytes * batch_bytes)
            for position in range(0, segment_bytes - batch_bytes + 1, batch_bytes):
                header = _header(offset, batch_bytes, per_batch, timestamp)
                os.pwrite(fd, header, position)
                offset, timestamp = offset + per_batch, timestamp + 1_000
        finally:
            os.close(fd)
    (partition / files.segment_file(offset, files.LOG)).touch()
    directory = Directory(partition)
    _save_indexes(directory)
    Epochs([EpochEntry(0, 0)]).save(directory, durable=False)
    point = RecoveryPoint(2, 0, offset, offset, 0, 0, offset, clean=True, kind=LogKind.CONTIGUOUS)
    slots = directory.open(checkpoints.RECOVERY, create=True, writable=True)
    slots.write(checkpoints.encode_slot(point), checkpoints.slot_position(point.sequence))
    slots.close()
    return offset


def index_bytes(partition: Path) -> int:
    """The size of all index files of a log: what its memory may grow by."""
    return sum(path.stat().st_size for path in partition.iterdir() if path.suffix in (".index", ".timeindex"))


def allocated_bytes(partition: Path) -> int:
    """The room that a log takes on the disk."""
    return sum(path.stat().st_blocks * 512 for path in partition.iterdir())


def _header(base_offset: int, size: int, count: int, timestamp_ms: int) -> bytes:
    return HEADER.pack(base_offset, size - 12, 0, 2, 0, 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)


def _save_indexes(directory: Directory) -> None:
    """As a roll leaves them, made from the headers by the engine itself."""
    segments = Segments.open(directory, LogConfig(), writable=True)
    try:
        for segment in segments.all[:-1]:
            segment.index.rebuild()
            segments.save_indexes(segment, complete=True)
    finally:
        segments.close()
