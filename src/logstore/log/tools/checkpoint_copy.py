"""Checkpoint copy: a log as of one moment, copied to another directory while it is written to.

Sealed files are never changed in place, so they are hard linked; of the active segment the whole batches
of the moment are copied. The recovery point of the copy is the end of its sealed part. Its first open recovers
the rest, so that indexes and producers match the batches in the copy, whatever was written meanwhile.

Called for backups of many logs (`store.admin.snapshots`); any thread, without the log's lock.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from logstore._segment import Segment
from logstore.errors import CheckpointCopyError, CorruptRecordError, LogstoreError, RecordError, StorageError
from logstore.io._files import errno_of
from logstore.io._interrupts import held
from logstore.log.directory import files
from logstore.log.directory.files import Directory, copy_bytes
from logstore.log.directory.segments import is_gone, scan_file
from logstore.log.formats import transaction_index
from logstore.log.formats.checkpoints import LogKind, RecoveryPoint
from logstore.log.formats.recovery_point import note_start, write_point
from logstore.log.formats.transaction_index import NOTHING, Sum
from logstore.log.state import State
from logstore.records import AbortedTransaction, TopicPartition

#: Small files that are replaced as a whole, and so copied as a whole.
_COPIED: Final = ("leader-epoch-checkpoint", "partition.metadata", "logstore.dropped")

#: Error codes of a link that is not possible: another file system, one without links, too many links.
_NO_LINK: Final = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


class LogCheckpoint(NamedTuple):
    """Log as of one moment: its files, and the size of the active one."""

    name: TopicPartition
    log_start_offset: int
    end_offset: int  #: the log end offset of the moment
    generation: int
    sealed: tuple[Segment, ...]
    active: Segment
    active_bytes: int
    synced_end: int
    aborted: tuple[AbortedTransaction, ...]  #: whose markers are in the active segment
    sums: Mapping[int, Sum] | None  #: of the aborted indexes; None if nothing was aborted
    kind: LogKind  #: whether segments are contiguous


class Copied(NamedTuple):
    """Bytes linked and copied for one log."""

    linked_bytes: int
    copied_bytes: int


def checkpoint(state: State) -> LogCheckpoint:
    """Return the log as it is now. Earlier appends are included, flushed or not."""
    state.check_writable()
    with held(state.lock):
        state.check_whole_locked()
        with state.change():
            state.drain_tail_locked()
        segments = state.segments.all
        listed = state.transactions.listed(segments[-1].base_offset)
        sums = state.transactions.sums
        return LogCheckpoint(
            name=state.name,
            log_start_offset=state.log_start,
            end_offset=state.end.value,
            generation=state.segments.generation,
            sealed=segments[:-1],
            active=segments[-1],
            active_bytes=segments[-1].size,
            synced_end=state.synced.value,
            aborted=tuple(listed),
            sums=None
            if sums is None
            else {segment.base_offset: sums.get(segment.base_offset, NOTHING) for segment in segments},
            kind=state.recovery.point.kind,
        )


def copy(state: State, checkpoint: LogCheckpoint, target: Directory, *, link: bool) -> Copied:
    """Build the log of a checkpoint in an empty directory. Durable on return, but for the directory's own name.

    Raises:
        CheckpointCopyError: a deletion, a truncation or a compaction happened meanwhile.
        DamagedLogError: offsets are missing between two segments.
        StorageError: the copy could not be written.
    """
    with suppress(LogstoreError):
        # An aborted index may still be in memory alone. Without it, the copy's first open builds it again.
        state.save_aborted()
    source = state.directory
    linked = copied = 0
    point = RecoveryPoint(
        0,
        checkpoint.generation,
        max(checkpoint.active.base_offset, checkpoint.log_start_offset),
        checkpoint.active.base_offset,
        0,
        checkpoint.log_start_offset,
        -1,
        lists_aborted=checkpoint.sums is not None,
        kind=checkpoint.kind,
    )
    try:
        names = set(source.names())
        for segment in checkpoint.sealed:
            state.check_joined(segment)
            is_synced = segment.next_offset <= checkpoint.synced_end
            for suffix in (files.LOG, files.OFFSET_INDEX, files.TIME_INDEX, files.SNAPSHOT, files.ABORTED_INDEX):
                name = files.segment_file(segment.base_offset, suffix)
                if name not in names and suffix != files.LOG:
                    continue
                # Hints need no sync. The aborted index is no hint: without it, readers could see aborted records.
                decides = suffix == files.ABORTED_INDEX or (suffix == files.LOG and not is_synced)
                size, was_linked = _take(source, target, name, link=link, sync=decides)
                linked, copied = linked + size * was_linked, copied + size * (not was_linked)
        snapshot = files.segment_file(checkpoint.active.base_offset, files.SNAPSHOT)
        if snapshot in names:
            _take(source, target, snapshot, link=link, sync=False)
        for name in _COPIED:
            data = source.read(name)
            if data is not None:
                target.replace(name, data, durable=False, whole=True)
        if checkpoint.sums is not None:
            # For readers only: the first open for writing rebuilds the index of the active segment.
            if checkpoint.aborted:
                index = files.segment_file(checkpoint.active.base_offset, files.ABORTED_INDEX)
                target.replace(index, transaction_index.encode(checkpoint.aborted), durable=False, whole=True)
            note = transaction_index.encode_note(checkpoint.active.base_offset, checkpoint.sums)
            target.replace(transaction_index.NOTE, note, durable=False, whole=True)
        name = files.segment_file(checkpoint.active.base_offset, files.LOG)
        copied += copy_bytes(checkpoint.active.file, target, name, 0, checkpoint.active_bytes)
        write_point(target, point)
        note_start(target, checkpoint.log_start_offset, checkpoint.kind)
    except (StorageError, RecordError) as error:
        # Bytes of a file that is truncated or replaced meanwhile may look like damage.
        if (
            is_gone(error)
            or _has_moved(state, checkpoint)
            or any(s.file.closed for s in (*checkpoint.sealed, checkpoint.active))
        ):
            raise _moved(checkpoint) from error
        raise
    if _has_moved(state, checkpoint):
        raise _moved(checkpoint)
    target.sync()
    return Copied(linked, copied)


def verify(checkpoint: LogCheckpoint, target: Directory) -> int:
    """Check every batch of a copy; return their size in bytes.

    Raises:
        CorruptRecordError: a batch is damaged, or records are missing.
    """
    total = 0
    bases = files.base_offsets(target.names())
    _verify_aborted(checkpoint, target)
    for base in bases:
        name = files.segment_file(base, files.LOG)
        extent = scan_file(target, name)
        problem = extent.problem
        if problem is None and base == bases[-1] and extent.next_offset != checkpoint.end_offset:
            problem = f"it ends at offset {extent.next_offset}, the log ended at {checkpoint.end_offset}"
        following = min((other for other in bases if other > base), default=extent.next_offset)
        is_hole = following > max(extent.next_offset, checkpoint.log_start_offset)
        if problem is None and is_hole and checkpoint.kind is LogKind.CONTIGUOUS:
            problem = f"offsets {extent.next_offset} to {following - 1} are missing before the next segment"
        if problem is not None:
            raise CorruptRecordError(
                f"{checkpoint.name}: the copy is damaged: {problem}",
                path=target.join(name),
                position=extent.valid_bytes,
            )
        total += extent.file_bytes
    if bases != [segment.base_offset for segment in (*checkpoint.sealed, checkpoint.active)]:
        raise CorruptRecordError(f"{checkpoint.name}: the copy has not all segments", path=target.path)
    return total


def _verify_aborted(checkpoint: LogCheckpoint, target: Directory) -> None:
    for base, known in (checkpoint.sums or {}).items():
        name = files.segment_file(base, files.ABORTED_INDEX)
        found = NOTHING.plus(target.read(name) or b"")
        if found != known:
            raise CorruptRecordError(
                f"{checkpoint.name}: the copy is damaged: it lists {found.entries} aborted transactions, and "
                f"{known.entries} were listed",
                path=target.join(name),
            )


def _has_moved(state: State, checkpoint: LogCheckpoint) -> bool:
    return (
        not set(checkpoint.sealed) <= set(state.segments.all) or state.segments.generation != checkpoint.generation
    )


def _moved(checkpoint: LogCheckpoint) -> CheckpointCopyError:
    return CheckpointCopyError(f"{checkpoint.name}: segments went away while they were copied; try again")


def _take(source: Directory, target: Directory, name: str, *, link: bool, sync: bool) -> tuple[int, bool]:
    """Link or copy one sealed file; return its size, and whether it was linked."""
    if link:
        try:
            source.files.link(source.join(name), target.join(name))
        except StorageError as error:
            if errno_of(error) not in _NO_LINK:
                raise
        else:
            with target.open(name, writable=sync) as file:
                if sync:
                    file.mark_dirty()
                    file.sync()
                return file.size(), True
    with source.open(name) as file:
        return copy_bytes(file, target, name, 0, file.size()), False
