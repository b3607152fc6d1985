"""Truncation of a log's end, deletion of its beginning, and removal of the whole.

The first two record the change in ``logstore.recovery``, durably, before the first byte is removed. A crash half
way then finds no recovery point or log start offset that claims removed records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing, suppress

from logstore._segment import Segment
from logstore.errors import OUT_OF_RESOURCES, OffsetOutOfRangeError, StorageError, TooManyFilesError
from logstore.io._interrupts import held
from logstore.log._producers import Producers
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import floor_of
from logstore.log.formats import checkpoints, producer_snapshot
from logstore.log.formats.recovery_point import published_file
from logstore.log.recovery import recovery
from logstore.log.state import State
from logstore.log.write_modes import MemoryTail

_logger = logging.getLogger(__name__)


def truncate_to(state: State, offset: int) -> int:
    """See `LogReplica.truncate_to`."""
    state.check_writable()
    # Waits for a segment swap in progress: truncating during it would lose the swapped segment.
    with held(state.segments_mutex), held(state.lock):
        state.check_whole_locked()
        if offset >= state.end.value:
            # An epoch that this replica began as leader, and in which it wrote nothing, is unknown to the next
            # leader. Left in the table, it would be asked about for ever (as in Kafka's `UnifiedLog.truncateTo`).
            with state.change():
                state.epochs.truncated(state.end.value)
            return state.end.value
        if offset < state.log_start:
            raise OffsetOutOfRangeError(
                f"{state.name}: cannot cut to {offset}, the log starts at {state.log_start}", offset=offset
            )
        with state.change():
            state.drain_tail_locked()
        return cut_locked(state, offset)


def cut_locked(state: State, offset: int) -> int:
    """Truncate the end of the log; a failure half way fails the log, and the next open finishes."""
    state.segments.begin_change(cut=True)
    state.marks.begin_lowering()
    generation = state.segments.generation
    try:
        with state.change():
            state.rolls.finish_locked()
            end = _cut_segments_locked(state, offset)
            state.rolls.settle_locked()
            # A power cut would bring the names of removed files back.
            state.unsynced.sync_names()
    except StorageError as error:
        if isinstance(error, TooManyFilesError) and state.segments.generation == generation:
            # Raised while the truncation was prepared: nothing has changed.
            raise
        raise state.fail_locked(error) from error
    finally:
        state.marks.end_lowering()
        state.segments.end_change()
    state.counters.truncations += 1
    state.move_marks_locked()
    return end


def restart_at(state: State, offset: int) -> None:
    """See `LogReplica.restart_at`.

    Each step leaves a log that a crash may meet: the old one, empty at its log start; beside its segment, an empty
    one at ``offset``, which recovery removes as a lost tail, or as deleted; and the new log.
    """
    state.check_writable()
    with held(state.segments_mutex), held(state.lock):
        state.check_whole_locked()
        with state.change():
            state.drain_tail_locked()
        if state.end.value > state.log_start:
            cut_locked(state, state.log_start)
        with state.storing_locked(is_append=False), state.change():
            state.rolls.finish_locked()
            state.rolls.discard_locked()
            if state.segments.active.base_offset < state.log_start:
                # Its bytes are of deleted records. Beside them, a new segment would overlap them.
                state.roll_locked()
            if len(state.segments) > 1:
                _delete_locked(state, state.log_start)
            # The facts that would raise the log start again, or bring producers back, are lost first.
            state.root.forget([state.name])
            producer_snapshot.remove_all(state.directory)
            if offset < state.log_start:
                state.directory.remove(checkpoints.START)
        _restart_locked(state, offset)


def _restart_locked(state: State, offset: int) -> None:
    """Replace the one segment of an empty log by one that begins at an offset."""
    segments, old = state.segments, state.segments.all
    is_other = segments.active.base_offset != offset
    state.segments.begin_change(cut=True)
    state.marks.begin_lowering()
    try:
        with state.change():
            if is_other:
                with state.storing_locked(is_append=False):
                    segments.add(offset)
            try:
                _begin_again_locked(state, offset, old if is_other else ())
            except StorageError as error:
                raise state.fail_locked(error) from error
    finally:
        state.marks.end_lowering()
        state.segments.end_change()
    state.counters.truncations += 1
    state.move_marks_locked()


def _begin_again_locked(state: State, offset: int, old: tuple[Segment, ...]) -> None:
    state.directory.sync()
    state.segments.replaced()
    state.marks.restart(offset)
    state.durability.write_durably_locked(segment_base_offset=offset, position=0, replay_from=-1)
    state.durability.note_start_locked()
    state.publish_locked()
    state.segments.drop(old)
    state.unsynced.clear()
    producers = Producers(expiration_ms=state.config.producer_id_expiration_ms)
    state.transactions.restarted(
        [segment.base_offset for segment in old], producers, offset, state.segments.generation
    )
    state.note_epoch(-1)
    state.epochs.restarted()
    state.cleaned.restarted(offset)
    state.unsynced.names_changed()
    state.unsynced.sync_names()


def settle_locked(state: State) -> None:
    """Finish or undo an append that was interrupted under the log's lock; called by `locked`.

    An append whose end was not set yet is undone: its bytes are truncated, and the state recorded for them.
    One whose end was set is in the log.
    """
    if state.closed or state.failed is not None or state.mutation_depth:
        return
    if state.appending:
        if isinstance(state.mode, MemoryTail):
            state.end.advance(state.mode.held_end)
        elif state.segments.active.next_offset > state.end.value:
            cut_locked(state, state.end.value)
        state.end_append()
    state.tell_marks_locked()


def _cut_segments_locked(state: State, offset: int) -> int:
    segments = state.segments
    place = max(floor_of(segments.all, offset), 0)
    target = segments.all[place]
    position = target.index.position_of(offset)
    # A recovery point in a gap would name an offset without a batch: a truncation into a gap ends the log
    # before the gap. If no batch of the segment is left, the log ends at its base offset.
    end = target.base_offset
    for _, last, at, _, _, _ in target.index.headers(target.index.floor(offset)):
        if at >= position:
            break
        end = last + 1
    producers = None
    stable = None
    if not state.transactions.is_idle or state.transactions.sums is not None:
        # Replayed before any byte is removed: a transaction whose marker is truncated is open again, and hidden.
        known = state.recovery.point._replace(replay_from=-1)
        producers = recovery.replay_producers(
            state.directory, segments, state.config, known, end, state.clock.now_ms()
        )
        # Where readers see only flushed records, a marker above the high watermark must not show any.
        stable = producers.first_unstable_offset(min(state.high_watermark.value, end))
    # The log never ends below its start: offsets of deleted records would be used again. If the batch that holds
    # the log start is removed, the rest of its segment is deleted, and a new segment begins at the start.
    starts_at_log_start = end < state.log_start
    end = max(end, state.log_start)
    state.cleaned.truncated(end)
    # Listed and synced now: without a free descriptor this fails, and must do so before anything has changed.
    names = state.directory.names()
    state.directory.sync()
    # Lowered first, and durably: a crash would leave a recovery point above the end of the log.
    state.root.withdraw()
    if end < state.high_watermark.value:
        state.root.lower_high_watermark(state.name, end)
    synced = state.synced.value
    segments.replaced()
    state.marks.lower_synced(min(synced, end))
    try:
        at = min(target.base_offset, state.synced.value)
        point = at if starts_at_log_start else state.synced.value
        state.durability.write_durably_locked(
            recovery_point=point, segment_base_offset=at, position=0, replay_from=-1
        )
    except TooManyFilesError:
        if state.recovery.point.generation != state.segments.generation:
            # No slot holds the new generation yet.
            segments.not_replaced()
            state.marks.lower_synced(synced)
        raise
    state.marks.lower(end, end if stable is None else max(stable, state.log_start))
    state.publish_locked()
    for segment in reversed(segments.all[place + 1 :]):
        segments.drop([segment])
    state.unsynced.remove(set(state.unsynced.segments).difference(segments.all[:-1]))
    if starts_at_log_start:
        # Dropped first: without any segment, recovery begins one at the log start.
        segments.drop([target])
        target = segments.add(end)
    elif target.sealed:
        target = segments.rewrite(target, position, end)
    else:
        target.cut(position, end)
        target.file.sync()
    segments.trim_index_files(target)
    state.note_epoch(-1)
    state.epochs.truncated(end)
    state.cleaned.cut(end)
    if producers is not None:
        state.transactions.truncated(end, producers, state.segments.generation)
        state.transactions.save_snapshot(end, state.segments.generation)
    else:
        # An empty snapshot of an earlier truncation would hide the producers of batches to come.
        producer_snapshot.remove_beyond(state.directory, end, state.segments.generation, names)
    state.unsynced.names_changed()
    return end


def delete_before(state: State, offset: int, sync_to: Callable[[int], None]) -> int:
    """See `Log.delete_before`. The new start becomes the recovery point if that is lower, so
    ``sync_to`` first syncs everything below it.
    """
    state.check_writable()
    if state.synced.value < offset <= state.high_watermark.value:
        sync_to(offset)
    if offset == state.end.value and state.segments.active.size:
        # The active segment is rolled, to be deleted.
        state.rolls.make_ready()
    with held(state.segments_mutex), held(state.lock):
        state.check_whole_locked()
        if offset > state.high_watermark.value:
            raise OffsetOutOfRangeError(
                f"{state.name}: cannot delete up to {offset}, the high watermark is {state.high_watermark.value}",
                offset=offset,
            )
        if offset <= state.log_start:
            return state.log_start
        with state.storing_locked(is_append=False), state.change():
            return _delete_locked(state, offset)


def drop_below_start(state: State) -> None:
    """Remove segments below the log start, which an interrupted deletion has left."""
    with held(state.segments_mutex), held(state.lock):
        state.check_whole_locked()
        segments = state.segments.all
        if len(segments) < 2 or segments[1].base_offset > state.log_start:
            return
        with state.storing_locked(is_append=False), state.change():
            _delete_locked(state, state.log_start)


def _delete_locked(state: State, offset: int) -> int:
    segments = state.segments
    state.rolls.finish_locked()
    # Listed now: without a free descriptor this fails, and must do so before anything has changed.
    state.directory.names()
    if offset == segments.active.next_offset and segments.active.size:
        state.roll_locked()
        # Its file may have its first name still, which names a segment that is removed below.
        state.rolls.finish_locked()
    # In both slots: if one decays, the other must not refer to deleted segments. And before anything else
    # changes: on a full disk nothing is deleted, and the caller may retry.
    synced = max(state.synced.value, min(offset, state.end.value))
    try:
        state.durability.write_durably_locked(log_start_offset=offset, recovery_point=synced)
    except OUT_OF_RESOURCES:
        if state.recovery.point.log_start_offset != offset:
            raise
        # One slot has the new start durably: after an error to the caller, a crash would delete the records anyway.
        # If that slot decays, the next open misses segments that the older slot still names.
    state.durability.note_start_locked()
    state.marks.raise_synced(synced)
    state.marks.raise_start(offset)
    state.publish_locked()
    doomed = [s for s, after in zip(segments.all, segments.all[1:], strict=False) if after.base_offset <= offset]
    if doomed:
        bases = [segment.base_offset for segment in doomed]
        assert state.rolls.is_active_named, state.name
        state.holds.keep(doomed, state.transactions.aborted_between)
        segments.drop(doomed)
        state.holds.lose(doomed)
        state.unsynced.remove(doomed)
        state.transactions.dropped(bases)
        state.counters.deleted_segments += len(doomed)
        state.unsynced.names_changed()
        _logger.info("deleted segments: log=%s count=%d log_start_offset=%d", state.path, len(doomed), offset)
    state.note_epoch(-1)
    state.epochs.deleted_below(offset)
    return offset


def remove_partition(directory: Directory) -> bool:
    """Remove a partition's directory; return whether there was one. It may be called again.

    The removal is durable once the root is synced. The caller has recorded durably that the partition is deleted,
    and has closed the log. The published generation informs readers in other processes first. Otherwise they would
    wait for ever for a writer, or mistake a later log of the same name for this one.

    Raises:
        StorageError: some of its files remain.
    """
    names = directory.names_if_there()
    if names is None:
        return False
    if checkpoints.PUBLISHED in names:
        # A full disk may refuse the write. A reader then finds the segments missing.
        with suppress(StorageError), closing(published_file(directory)) as published:
            published.write(checkpoints.GONE_GENERATION, 0, 0, 0, 0)
    directory.remove_tree()
    return True
