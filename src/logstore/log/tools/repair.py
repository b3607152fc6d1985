"""Repair of a partition that no process has open: rebuilding its indexes, or truncating damage.

Both work on the files of one directory, Kafka's or logstore's, under the lock of its root, which excludes
a running owner of either kind. `rebuild_indexes` loses nothing. `cut_damage` does what recovery never
does by itself: it truncates a log below its recovery point. The bytes it removes are first copied
or linked into ``.repaired/N`` in the partition, durably. So a crash at any point leaves the
old log or the truncated one, and the kept bytes with either.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig
from logstore.errors import CorruptRecordError, NotALogError
from logstore.log.directory import files, next_segment
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import RootLock
from logstore.log.directory.segments import Segments
from logstore.log.formats import checkpoints, producer_snapshot
from logstore.log.formats.checkpoints import LogKind
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.formats.recovery_point import note_start, write_point
from logstore.log.recovery import recovery
from logstore.log.tools.verify import LogSegments

_logger = logging.getLogger(__name__)

KEPT = ".repaired"
_EPOCH_AT, _EPOCH = 12, struct.Struct(">i")


class Cut(NamedTuple):
    """Bytes that a repair has removed, and the directory that keeps them."""

    offset: int  #: the new log end offset
    path: str  #: of the segment that was truncated
    position: int  #: where it was truncated
    size: int  #: bytes removed, of all segments together
    kept: str  #: the directory with the removed bytes


@contextmanager
def _locked(directory: Directory, clock: Clock) -> Iterator[Directory]:
    """Lock the root above a partition."""
    root = Directory(os.path.dirname(directory.path), directory.files)
    name = os.path.basename(directory.path)
    lock = RootLock.acquire(root, name, clock)
    try:
        next_segment.finish(directory, directory.names())
        yield root
    finally:
        lock.release(name)


def rebuild_indexes(
    examined: LogSegments, config: LogConfig | None = None, *, clock: Clock = SYSTEM_CLOCK
) -> list[str]:
    """Rebuild offset and time index of each segment of a place from its batches; return their paths.

    A segment is read up to its first bad byte. Durable on return.

    Raises:
        DirectoryLockedError: a process writes below the root.
        StorageError: a file cannot be read or written.
    """
    directory = examined.directory
    wanted = []
    with _locked(directory, clock):
        with closing(Segments.open(directory, config or LogConfig(), writable=True)) as segments:
            for segment in segments.all:
                if segment.base_offset not in examined.bases:
                    continue
                segment.scan(adopt=True)
                segment.index.mark_stale()
                if segment.sealed:
                    segment.seal()
                segments.save_indexes(segment, complete=True)
                for suffix in (files.OFFSET_INDEX, files.TIME_INDEX):
                    wanted.append(files.segment_file(segment.base_offset, suffix))
        # An active segment without an entry has no time index.
        there = set(directory.names())
        made = [directory.join(name) for name in wanted if name in there]
        for path in made:
            with directory.files.open(path, writable=True) as file:
                file.mark_dirty()
                file.sync()
        directory.sync()
    return made


def lower_epochs(directory: Directory, most: int, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Set leader epochs above ``most`` in batch headers to ``most``; return the number of batches changed.

    The log must be closed. The epoch of a batch is outside of its checksum. Each segment is replaced by a copy, as
    it may be a hard link of a snapshot. Durable on return; after a failure half way it may be called again.

    Raises:
        DirectoryLockedError: a process writes below the root.
        RecordError: a header is damaged.
        DiskFullError, StorageError: a file cannot be read or written.
    """
    count = 0
    with _locked(directory, clock):
        with closing(Segments.open(directory, LogConfig(), writable=True)) as segments:
            for segment in segments.all:
                places = [at for _, _, at, _, _, epoch in segment.index.headers() if epoch > most]
                if not places:
                    continue
                name = segments.copy_prefix(segment, segment.size)
                with directory.open(name, writable=True) as file:
                    for at in places:
                        file.write(_EPOCH.pack(most), at + _EPOCH_AT)
                    file.sync()
                directory.rename(name, files.segment_file(segment.base_offset, files.LOG))
                count += len(places)
        directory.sync()
        lowered = Epochs()
        for entry in (Epochs.load(directory) or Epochs()).entries:
            lowered.assign(min(entry.epoch, most), entry.start_offset)
        # Last: after a crash, a higher epoch in this file makes the caller repeat the change.
        lowered.save(directory, durable=True)
    _logger.info("lowered leader epochs: log=%s most=%d batches=%d", directory.path, most, count)
    return count


def accept_gaps(directory: Directory, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Let readers skip offsets missing between segments, for good: the loss is accepted. Durable on return.

    Raises:
        DirectoryLockedError: a process writes below the root.
        NotALogError: there are no segments.
    """
    files.segments_in(directory)
    with _locked(directory, clock):
        point = recovery.read_point(directory)
        if point is not None:
            write_point(directory, point._replace(kind=LogKind.GAPPED))
        known = point or recovery.read_start(directory)
        note_start(directory, 0 if known is None else known.log_start_offset, LogKind.GAPPED)
    _logger.warning("accepted gaps: log=%s", directory.path)


def cut_damage(directory: Directory, config: LogConfig | None = None, *, clock: Clock = SYSTEM_CLOCK) -> Cut | None:
    """Truncate a log before the first damage in its segments; None if there is none.

    All bytes from there on, good batches included, are kept in ``.repaired/N``. Recovery point and other
    recorded offsets are lowered to the new end, so that the log opens again. Durable on return.

    Raises:
        DirectoryLockedError: a process writes below the root.
        NotALogError: there are no segments.
        CorruptRecordError: offsets are missing between two whole segments: no truncation repairs that.
        DiskFullError: there is no space to keep the removed bytes; nothing was changed.
    """
    config = config or LogConfig()
    files.segments_in(directory)
    with _locked(directory, clock) as root, closing(Segments.open(directory, config, writable=True)) as segments:
        gaps_are_meant = recovery.read_kind(directory).may_have_gaps(compacted=config.compacts)
        return _cut_locked(root, directory, segments, gaps_are_meant=gaps_are_meant)


def _cut_locked(root: Directory, directory: Directory, segments: Segments, *, gaps_are_meant: bool) -> Cut | None:
    found = _first_damage(segments, gaps_are_meant=gaps_are_meant)
    if found is None:
        return None
    place, position, end = found
    target, later = segments.all[place], segments.all[place + 1 :]
    size = target.file.size() - position + sum(segment.file.size() for segment in later)
    kept = _keep(directory, segments, place, position)
    # Lowered before bytes are removed: a crash would leave a recovery point above the end of the log.
    _lower_promises(root, directory, target.base_offset, end)
    for segment in reversed(later):
        segments.drop([segment])
    segments.trim_index_files(segments.rewrite(target, position, end))
    directory.remove(files.segment_file(target.base_offset, files.ABORTED_INDEX))
    point = recovery.read_point(directory)
    producer_snapshot.remove_beyond(directory, end, 0 if point is None else point.generation)
    directory.sync()
    _logger.warning("cut damage: log=%s next_offset=%d bytes=%d kept=%s", directory.path, end, size, kept)
    return Cut(end, target.path, position, size, kept)


def _first_damage(segments: Segments, *, gaps_are_meant: bool) -> tuple[int, int, int] | None:
    """Return (index of the segment, position, next offset) of the first bytes that are no whole batch."""
    for place, segment in enumerate(segments.all):
        extent = segment.scan()
        if extent.problem is not None:
            return place, extent.valid_bytes, extent.next_offset
        following = segments.all[place + 1].base_offset if place + 1 < len(segments) else extent.next_offset
        if extent.next_offset > following:
            return place, segment.index.position_of(following), following
        if extent.next_offset < following and not gaps_are_meant:
            raise CorruptRecordError(
                f"offsets {extent.next_offset} to {following - 1} are missing between two whole segments: restore "
                "the segment between them from a copy, or accept the loss with --accept-gaps",
                path=segment.path,
                offset=extent.next_offset,
            )
    return None


# --- keeping -----------------------------------------------------------------------------------


def _keep(directory: Directory, segments: Segments, place: int, position: int) -> str:
    """Copy the end of a segment and link the later segments into a new directory; durable on return."""
    above = Directory(directory.join(KEPT), directory.files)
    above.create()
    directory.sync()
    kept = Directory(above.join(str(len(above.names()) + 1)), directory.files)
    kept.create()
    above.sync()
    target = segments.all[place]
    name = f"{files.segment_file(target.base_offset, files.LOG)}.from-{position}"
    files.copy_bytes(target.file, kept, name, position, target.file.size())
    for segment in segments.all[place + 1 :]:
        name = files.segment_file(segment.base_offset, files.LOG)
        directory.files.link(segment.path, kept.join(name))
    kept.sync()
    return kept.path


# --- recorded offsets --------------------------------------------------------------------------


def _lower_promises(root: Directory, directory: Directory, base: int, end: int) -> None:
    point = recovery.read_point(directory)
    if point is not None:
        promised = min(point.recovery_point, end)
        lowered = point._replace(
            generation=point.generation + 2,  # even: no change is in progress
            recovery_point=promised,
            segment_base_offset=min(base, promised),
            position=0,
            log_start_offset=min(point.log_start_offset, end),
            replay_from=-1,
            clean=False,
        )
        write_point(directory, lowered)
    noted = recovery.read_start(directory)
    if noted is not None:
        note_start(directory, min(noted.log_start_offset, end), noted.kind)
    compacted = checkpoints.decode_compacted(directory.read(checkpoints.COMPACTED) or b"")
    if compacted is not None and compacted > end:
        # Otherwise later appends would count as compacted.
        directory.replace(checkpoints.COMPACTED, checkpoints.encode_compacted(end), durable=True)
    # A reader would use the old end, and find it missing; without the file it finds the end itself.
    directory.remove(checkpoints.PUBLISHED)
    _lower_in_root(root, directory, end)


def _lower_in_root(root: Directory, directory: Directory, end: int) -> None:
    """Lower Kafka's checkpoints and clear the clean shutdown mark: Kafka would trust both."""
    if checkpoints.was_shut_down_cleanly(root):
        checkpoints.clear_clean_shutdown(root)
    try:
        name = files.parse_partition(directory.path)
    except NotALogError:
        return
    for file in (
        checkpoints.RECOVERY_POINTS,
        checkpoints.LOG_START_OFFSETS,
        checkpoints.HIGH_WATERMARKS,
        checkpoints.CLEANER_OFFSETS,
    ):
        data = root.read(file)
        if not data:
            continue
        try:
            offsets = checkpoints.read_offsets(data, root.join(file))
        except CorruptRecordError:
            continue  # no reader of the file trusts it
        if offsets.get(name, 0) > end:
            root.replace(file, checkpoints.write_offsets({**offsets, name: end}), durable=True)
