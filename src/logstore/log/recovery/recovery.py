"""Log recovery: from a directory to a log that can be trusted, after a clean or an unclean stop.

Below the recovery point every byte was synced: a bad batch there is damage, is reported with its
position, and nothing is truncated. From the recovery point on, the kernel may have kept later pages
and lost earlier ones: the log ends at the first bad batch. Later bytes are removed newest first, so
that a crash during recovery leaves a prefix. Indexes, snapshots and the epoch file are hints: checked
and rebuilt, never proof of which data exists. `docs/durability.md` holds the argument.

Runs once, under the root's lock, before any read or write of the log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from logstore._segment import Segment
from logstore._segment_scan import Extent
from logstore.config.log import LogConfig
from logstore.errors import DamagedLogError, LogstoreError, RecordError
from logstore.log._producers import ProducedBatch, Producers
from logstore.log.directory import files, next_segment
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments, check_joint, floor_of
from logstore.log.formats import checkpoints, producer_snapshot, transaction_index
from logstore.log.formats.checkpoints import LogKind, RecoveryPoint
from logstore.log.formats.last_stop import Run, decode_run
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.formats.transaction_index import Note
from logstore.log.recovery import interrupted_swap
from logstore.log.root import PartitionFacts
from logstore.records import INT64_MAX, AbortedTransaction, Marker

_logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """Parts of a recovered log."""

    segments: Segments
    producers: Producers
    epochs: Epochs
    highest_epoch: int  #: highest epoch ever known here, even of removed records; -1 if there was none
    point: RecoveryPoint  #: the content of the recovery file, or what to write there
    log_start_offset: int
    was_clean: bool
    synced_end: int  #: offset below which everything is known to be on disk
    names: Sequence[str]  #: of all files in the directory, and of some that recovery has removed
    cut_bytes: int = 0
    scanned_bytes: int = 0
    swapped: bool = False  #: a compaction was finished: sealed files were replaced
    kind_is_new: bool = False  #: the recovery file does not record the kind yet
    run: Run | None = None  #: the run of the machine in which the log was written, if that is recorded


class Seen(NamedTuple):
    """All batches with a producer id that a scan has read from an offset on."""

    from_offset: int
    batches: list[ProducedBatch]


_NOTHING_SEEN = Seen(INT64_MAX, [])


def recover(
    directory: Directory,
    config: LogConfig,
    facts: PartitionFacts,
    now_ms: int,
    kind: LogKind = LogKind.UNRECORDED,
) -> Recovered:
    """Recover the log of a directory: rebuild only files that a crash may have torn.

    ``kind`` is the catalogue's record of the log. The directory is created if it is missing.

    Raises:
        DamagedLogError: bytes that were synced are wrong or missing; nothing was changed.
        StorageError: a read failed, which is never taken for the end of a file.
    """
    names = directory.names_if_there()
    if names is None:
        directory.create()
        names = []
    # Before the segments are opened: a swap decides which files are the log.
    swapped = interrupted_swap.finish(directory, names, config)
    if swapped:
        names = directory.names()
    if next_segment.finish(directory, names):
        names = directory.names()
    segments = Segments.open(directory, config, writable=True, names=names)
    try:
        return _recover(directory, names, config, facts, now_ms, segments, kind)._replace(swapped=swapped)
    except BaseException:
        segments.close()
        raise


def _recover(
    directory: Directory,
    names: list[str],
    config: LogConfig,
    facts: PartitionFacts,
    now_ms: int,
    segments: Segments,
    given_kind: LogKind,
) -> Recovered:
    recovery_file = directory.read(checkpoints.RECOVERY) or b""
    known = checkpoints.decode_slots(recovery_file)
    point = _lowered(known, facts)
    # The mark of an earlier log of this process, which the disk has not taken.
    is_untold = directory.path in directory.files.untold
    if is_untold and point is not None:
        point = point._replace(suspect=True, clean=False)
    # The second file is read only if the first does not record everything.
    second = None if known is not None and known.kind else read_start(directory)
    kind = ((known and known.kind) or (second and second.kind) or LogKind.UNRECORDED).with_other(given_kind)
    noted = -1 if point is not None else noted_start(directory, facts)
    if len(segments) == 0:
        # Nothing was ever written, or everything is gone: beginning at 0 would give known offsets again.
        start = noted if point is None else point.log_start_offset
        if point is not None and point.recovery_point > start:
            raise DamagedLogError(
                f"the recovery point is {point.recovery_point}, but there is no segment; restore the "
                "partition's files from a copy",
                path=directory.path,
            )
        published = checkpoints.decode_published(directory.read(checkpoints.PUBLISHED) or b"")
        if point is None and published is not None and published.log_end_offset > start:
            # The published file is created after the first segment, and its name is durable after the segment's.
            raise DamagedLogError(
                f"the log ended at offset {published.log_end_offset}, but there is no segment, and no recovery "
                "point; restore the partition's files from a copy",
                path=directory.path,
            )
        # The recovery file first: a crash would leave a segment alone, which looks like Kafka's to the next open.
        directory.open(checkpoints.RECOVERY, create=True, writable=True).close()
        segments.add(start)
        # Here, and not at a clean close, which makes it for a log without one: a store closes all its logs at once.
        directory.open(files.segment_file(start, files.OFFSET_INDEX), create=True, writable=True).close()
    check_start(segments, point or second, facts)
    _check_emptied(segments, point, kind)
    cut, scanned, extents = _check_tail(segments, point, config, kind)
    names = files.remove_leftovers(directory, names)
    if is_untold or (point is not None and point.suspect):
        rewritten = _rewrite_suspects(segments, -1 if point is None else point.recovery_point)
        _logger.info("rewrote what a failed sync may have lost: log=%s bytes=%d", directory.path, rewritten)
    end = segments.active.next_offset
    # Kafka's text file has no checksum: preferred to our recovery file, a damaged one could hide records.
    start = max(segments.all[0].base_offset, noted if point is None else point.log_start_offset)
    if point is not None and not (point.clean and point.recovery_point == end):
        # An earlier copy of the file would bring deleted records back. The second file is never too high.
        second = second or read_start(directory, names)
        start = max(start, -1 if second is None else second.log_start_offset)
    start = min(start, end)
    names = producer_snapshot.remove_beyond(directory, end, 0 if point is None else point.generation, names)
    producers = replay_producers(directory, segments, config, point, end, now_ms, _seen(extents, point), names)
    producer_snapshot.remove_strays(directory, {segment.base_offset for segment in segments.all}, names)
    epochs, highest_epoch = _load_epochs(directory, segments, extents, start, end, point)
    if kind is LogKind.UNRECORDED and _is_joined(segments, start):
        # No offsets are missing between segments now, and recovery does not change that.
        kind = LogKind.CONTIGUOUS
    point = point or RecoveryPoint(0, 0, start, segments.active.base_offset, 0, start, -1, suspect=is_untold)
    return Recovered(
        segments=segments,
        producers=producers,
        epochs=epochs,
        highest_epoch=highest_epoch,
        point=point._replace(kind=kind),
        log_start_offset=start,
        was_clean=known is not None and known.clean and cut == 0 and known.recovery_point == end and not is_untold,
        synced_end=start if known is None else min(max(point.recovery_point, start), end),
        cut_bytes=cut,
        scanned_bytes=scanned,
        kind_is_new=kind is not point.kind,
        run=decode_run(recovery_file),
        names=names,
    )


def read_point(directory: Directory) -> RecoveryPoint | None:
    """Read ``logstore.recovery``; None if it is missing or no slot of it is whole."""
    return checkpoints.decode_slots(directory.read(checkpoints.RECOVERY) or b"")


def read_kind(directory: Directory) -> LogKind:
    """Read the log's kind, which gives the meaning of gaps between segments, from the partition's own files."""
    point = read_point(directory)
    if point is None or not point.kind:
        point = read_start(directory)
    return LogKind.UNRECORDED if point is None else point.kind


def read_start(directory: Directory, names: Sequence[str] | None = None) -> RecoveryPoint | None:
    """Read ``logstore.start``; only its log start offset and its kind are meaningful."""
    return checkpoints.decode_slots(directory.read(checkpoints.START, names) or b"")


def noted_start(directory: Directory, facts: PartitionFacts) -> int:
    """Return the log start offset if the recovery file is lost: the highest other record; none is too high."""
    start = read_start(directory)
    published = checkpoints.decode_published(directory.read(checkpoints.PUBLISHED) or b"")
    return max(
        facts.log_start_offset or 0,
        0 if start is None else start.log_start_offset,
        0 if published is None else published.log_start_offset,
    )


def _is_joined(segments: Segments, start: int) -> bool:
    """Return whether each segment above the log start ends where the next one begins."""
    try:
        return all(segment.index.is_joined() for segment in segments.all[:-1] if segment.next_offset > start)
    except RecordError:
        return False


def _lowered(point: RecoveryPoint | None, facts: PartitionFacts) -> RecoveryPoint | None:
    """Return the lower of our recovery point and Kafka's, if the root has one for the partition."""
    if point is None or facts.recovery_point is None or facts.recovery_point >= point.recovery_point:
        return point
    # The position belongs to the higher offset; -1 means that it is searched for.
    return point._replace(recovery_point=facts.recovery_point, segment_base_offset=-1, position=-1)


def check_start(segments: Segments, point: RecoveryPoint | None, facts: PartitionFacts) -> None:
    """Raise if the first segments are missing: a log start offset is on disk before anything below is deleted."""
    first = segments.all[0].base_offset
    if point is not None and first > max(point.log_start_offset, facts.log_start_offset or 0):
        raise DamagedLogError(
            f"the log starts at offset {point.log_start_offset}, but its first segment at {first}; restore the "
            "missing files from a copy",
            path=segments.directory.path,
        )


def _check_emptied(segments: Segments, point: RecoveryPoint | None, kind: LogKind) -> None:
    """Raise for an emptied sealed segment, known by its size; other gaps are found when a read crosses them."""
    if point is None or kind is not LogKind.CONTIGUOUS:
        return
    for segment in segments.all[:-1]:
        if segment.size == 0 and segment.next_offset <= point.recovery_point:
            check_joint(segment, point.log_start_offset, segments.directory.path)


# --- the tail ---------------------------------------------------------------------------------


def _check_tail(
    segments: Segments, point: RecoveryPoint | None, config: LogConfig, kind: LogKind
) -> tuple[int, int, list[tuple[Segment, Extent]]]:
    """Scan from the recovery point on and truncate after the last whole batch: (cut, scanned, extents)."""
    scanned = 0
    may_have_gaps = kind.may_have_gaps(compacted=config.compacts)
    extents: list[tuple[Segment, Extent]] = []
    if point is None:
        first, position, promised = segments.all[0], 0, -1
        next_offset = first.base_offset
    else:
        promised = point.recovery_point
        place = floor_of(segments.all, promised)
        if place < 0:
            place = 0
        first = segments.all[place]
        position, next_offset = _find_point(first, point, config)
    for segment in segments.from_offset(first.base_offset):
        starts_at = position if segment is first else 0
        expected = next_offset if segment is first else segment.base_offset
        try:
            extent = segment.scan(starts_at, next_offset=expected, adopt=True)
        except RecordError as error:
            # The scan reports later damage in its extent. This damage is before it, where everything was synced.
            raise _damaged_below(promised, error) from error
        extents.append((segment, extent))
        scanned += extent.valid_bytes - starts_at
        followers = [s for s in segments.all if s.base_offset > segment.base_offset]
        problem = extent.problem
        if problem is None and followers:
            following = followers[0].base_offset
            if extent.next_offset > following:
                raise DamagedLogError(
                    f"the segment ends at offset {extent.next_offset - 1}, but the next one begins at {following}",
                    path=segment.path,
                    position=extent.valid_bytes,
                )
            # A roll begins the next segment at the log end offset, so a gap above the recovery point is a tail
            # that was lost whole. Without a recovery point it is a loss, unless this log may have gaps.
            if extent.next_offset < following and (point is not None or not may_have_gaps):
                problem = f"offsets {extent.next_offset} to {following - 1} are missing"
            else:
                segment.set_end(following)
        if problem is None:
            continue
        if point is None and followers:
            # The synced end is unknown, and only the last segment can have been torn.
            raise DamagedLogError(
                f"the log has no recovery point, and a segment before the last is damaged: {problem}; restore it "
                "from a copy",
                path=segment.path,
                position=extent.valid_bytes,
            )
        cut = _cut_behind(segments, segment, extent, followers, problem)
        return cut, scanned, extents
    return 0, scanned, extents


def _find_point(segment: Segment, point: RecoveryPoint, config: LogConfig) -> tuple[int, int]:
    """Return (position, offset) of the recovery point in a segment.

    Raises:
        DamagedLogError: the bytes below the recovery point do not reach it.
    """
    promised = point.recovery_point
    if promised <= segment.base_offset:
        return 0, segment.base_offset
    is_inside = point.segment_base_offset == segment.base_offset and 0 <= point.position <= segment.size
    # The position is a hint: it is right if a batch with that offset begins there.
    if is_inside and segment.index.continues_at(point.position, promised):
        return point.position, promised
    offset, position = segment.base_offset, 0
    try:
        position = segment.index.floor(promised)
        for base, last, at, size, _timestamp, _epoch in segment.index.headers(position):
            if base >= promised:
                if offset < promised and not config.compacts:
                    break
                return at, promised
            if last >= promised:
                # A log start may be inside a batch, and be the recovery point if that is lower. All of that
                # batch was synced, so it is whole, or its last offset is damaged.
                extent = segment.scan(at, next_offset=base, end=at + size)
                if extent.error is not None:
                    raise _damaged_below(promised, extent.error)
                return at, base
            offset, position = last + 1, at + size
    except RecordError as error:
        if offset >= promised:
            # Everything below the recovery point is whole; the bad bytes are the tail, which the scan checks.
            return position, promised
        raise _damaged_below(promised, error) from error
    if offset < promised:
        raise DamagedLogError(
            f"the recovery point is {promised}, but the segment ends at offset {offset - 1}: {promised - offset} "
            "offsets that were synced are missing; restore the file from a copy",
            path=segment.path,
            position=segment.size,
        )
    return position, promised


def _damaged_below(promised: int, error: LogstoreError) -> DamagedLogError:
    return DamagedLogError(
        f"the file is damaged below the recovery point {promised}: {error}; nothing was truncated. Restore it "
        "from a copy, or open the log with read_only=True to save what is whole",
        path=error.path,
        position=error.position,
    )


def _cut_behind(
    segments: Segments, segment: Segment, extent: Extent, followers: list[Segment], problem: str
) -> int:
    """End the log after the last whole batch of a segment; delete later segments, newest first."""
    cut = extent.file_bytes - extent.valid_bytes + sum(s.size for s in followers)
    _logger.info(
        "cut an unsynced tail: log=%s next_offset=%d bytes=%d problem=%s",
        segments.directory.path,
        extent.next_offset,
        cut,
        problem,
    )
    for follower in reversed(followers):
        segments.drop([follower])
    if segment.sealed:
        segment = segments.rewrite(segment, extent.valid_bytes, extent.next_offset)
    else:
        segment.cut(extent.valid_bytes, extent.next_offset)
        # Synced before anything is written after it: else a later crash could bring old bytes back.
        segment.file.sync()
    segments.trim_index_files(segment)
    return cut


def _rewrite_suspects(segments: Segments, recovery_point: int) -> int:
    """Copy every segment that held unsynced bytes to a new file, since the kernel marks lost pages clean."""
    rewritten = 0
    for segment in segments.from_offset(recovery_point):
        was_sealed, next_offset = segment.sealed, segment.next_offset
        fresh = segments.rewrite(segment, segment.size, next_offset)
        if was_sealed:
            fresh.seal()
            fresh.set_end(next_offset)
        segments.save_indexes(fresh, complete=True)
        rewritten += fresh.size
    return rewritten


# --- producers, epochs, aborted transactions ---------------------------------------------------


def produced_batches(segments: Segments, start_offset: int, end_offset: int) -> Iterator[ProducedBatch]:
    """Iterate over the batches with a producer id in a range of offsets, from their headers."""
    for segment in segments.from_offset(start_offset):
        if segment.base_offset >= end_offset:
            return
        extent = segment.scan(
            segment.index.position_of(start_offset) if start_offset > segment.base_offset else 0,
            end=segment.size,
            check=False,
        )
        for fields in extent.produced:
            batch = ProducedBatch(*fields)
            if start_offset <= batch.base_offset < end_offset:
                yield batch


def _seen(extents: list[tuple[Segment, Extent]], point: RecoveryPoint | None) -> Seen:
    """Return the batches that the scan of the tail has read, from the recovery point or the first segment on."""
    if not extents:
        return _NOTHING_SEEN
    first = extents[0][0].base_offset
    return Seen(
        first if point is None else max(first, point.recovery_point),
        [ProducedBatch(*fields) for _, extent in extents for fields in extent.produced],
    )


def replay_producers(
    directory: Directory,
    segments: Segments,
    config: LogConfig,
    point: RecoveryPoint | None,
    end_offset: int,
    now_ms: int,
    seen: Seen = _NOTHING_SEEN,
    names: list[str] | None = None,
) -> Producers:
    """Replay producer state at ``end_offset``: the newest snapshot, and the batch headers after it.

    Batches in ``seen`` are not read a second time: after a crash they are most of the replay. ``names`` are those
    in the directory, if they are known.
    """
    if point is not None and point.replay_from >= 0:
        # No producer had state at that offset: there is no snapshot to load, and little to replay.
        start = min(max(point.replay_from, segments.all[0].base_offset), end_offset)
        producers = Producers(expiration_ms=config.producer_id_expiration_ms)
    else:
        generation = 0 if point is None else point.generation
        saved = producer_snapshot.load_newest(directory, end_offset, generation, names)
        if saved is not None and saved.offset < segments.all[0].base_offset:
            # Batches between the snapshot and the first segment are deleted: their sequences are unknown.
            saved = None
        start = segments.all[0].base_offset if saved is None else saved.offset
        producers = Producers(
            () if saved is None else saved.states,
            () if saved is None else saved.completed,
            expiration_ms=config.producer_id_expiration_ms,
        )
    if start < seen.from_offset:
        for batch in produced_batches(segments, start, min(seen.from_offset, end_offset)):
            producers.apply(batch, now_ms)
    # The scan may have begun with a batch that spans the recovery point: without the check it is applied twice.
    for batch in seen.batches:
        if max(start, seen.from_offset) <= batch.base_offset < end_offset:
            producers.apply(batch, now_ms)
    return producers


def _load_epochs(
    directory: Directory,
    segments: Segments,
    extents: list[tuple[Segment, Extent]],
    start: int,
    end: int,
    point: RecoveryPoint | None,
) -> tuple[Epochs, int]:
    """Load the leader epochs: those of the file within the log's offsets, and those of the scanned batches.

    A damaged file is rebuilt from the batch headers. A file that ends before the epoch of the last synced batch is
    an earlier copy of itself. The headers supply the missing epochs; without them these would be assigned again.

    Return also the highest epoch known before the truncation. Its records may be lost, but a consumer may have
    read them, so it is never assigned again.
    """
    epochs = Epochs.load(directory) or Epochs()
    known = epochs.latest
    if known is None or (point is not None and known.epoch < _epoch_before(segments, point.recovery_point)):
        for segment in segments.all if known is None else segments.from_offset(known.start_offset):
            for epoch, offset in segment.scan(end=segment.size, check=False).epochs:
                latest = epochs.latest
                if epoch >= 0 and (known is None or latest is None or epoch > latest.epoch):
                    epochs.assign(epoch, offset)
    highest = -1 if epochs.latest is None else epochs.latest.epoch
    epochs.truncate_from_end(end)
    for _, extent in extents:
        for epoch, offset in extent.epochs:
            latest = epochs.latest
            if epoch < 0 or offset >= end or (latest is not None and epoch <= latest.epoch):
                continue
            if latest is None or offset > latest.start_offset:
                epochs.assign(epoch, offset)
            else:
                # A lower epoch followed: a Kafka led after epochs that it had not assigned. Its file is kept for
                # its consumers; no later record gets a lower epoch than one before.
                highest = max(highest, epoch)
    epochs.truncate_from_start(start)
    return epochs, max(highest, -1 if epochs.latest is None else epochs.latest.epoch)


def _epoch_before(segments: Segments, offset: int) -> int:
    """Return the leader epoch of the batch before an offset; -1 if there is none, or it cannot be read."""
    place = floor_of(segments.all, offset - 1)
    epoch = -1
    if place >= 0:
        segment = segments.all[place]
        with contextlib.suppress(RecordError):
            for base, _, _, _, _, found in segment.index.headers(segment.index.floor(offset - 1)):
                if base >= offset:
                    break
                epoch = found
    return epoch


def read_note(directory: Directory, point: RecoveryPoint | None, names: Sequence[str] | None = None) -> Note:
    """Read ``logstore.aborted``, and whether the file has to exist."""
    data = directory.read(transaction_index.NOTE, names)
    sums = None if data is None else transaction_index.decode_note(data)
    had_one = data is not None or (point is not None and point.lists_aborted)
    return Note(sums, is_lost=sums is None and had_one)


def load_aborted(segments: Segments, segment: Segment, config: LogConfig, note: Note) -> list[AbortedTransaction]:
    """Load the aborted transactions of one segment from its ``.txnindex``, or by replay if that is not trusted.

    Without a note a missing file means that nothing was aborted, as in a directory that Kafka wrote.
    """
    data = segments.directory.read(files.segment_file(segment.base_offset, files.ABORTED_INDEX)) or b""
    end = segment.next_offset if segment.next_offset >= 0 else INT64_MAX
    entries = transaction_index.decode(data, segment.base_offset, end)
    if entries is None or not note.agrees(segment.base_offset, data, is_sealed=segment.sealed):
        return rebuild_aborted(segments, segment, config)
    return entries


def rebuild_aborted(segments: Segments, segment: Segment, config: LogConfig) -> list[AbortedTransaction]:
    """Replay the aborted transactions of one segment, from the state at its base offset and its headers."""
    produced = [ProducedBatch(*fields) for fields in segment.scan(end=segment.size, check=False).produced]
    data = segments.directory.read(producer_snapshot.snapshot_name(segment.base_offset)) or b""
    states = producer_snapshot.decode_snapshot(data, segment.base_offset)
    if states is None and any(batch.marker is Marker.ABORT for batch in produced):
        # Without that snapshot, the first offsets of the markers' transactions would be unknown: one may have
        # begun before the segment, even if batches of it are in there.
        producers = replay_producers(segments.directory, segments, config, None, segment.base_offset, -1)
    else:
        producers = Producers(states or (), expiration_ms=config.producer_id_expiration_ms)
    return [entry for batch in produced if (entry := producers.abort_entry(producers.apply(batch))) is not None]
