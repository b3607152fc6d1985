"""Taking records away: the end of a log by truncation, its beginning by deletion.

Both say what they are about to do in ``logstore.recovery``, durably, before the first byte goes, so
that a crash in the middle finds a log that promises no more than is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from logstore.errors import NO_ROOM, OffsetOutOfRangeError, StorageError, TooManyFilesError
from logstore.io._interrupts import held
from logstore.log.recovery import recovery
from logstore.log.state import State

_logger = logging.getLogger(__name__)


def truncate_to(state: State, offset: int) -> int:
    """See `Log.truncate_to`."""
    state.check_writable()
    # A compaction that is at its swap has to be through with it: the log must not end in what it moves.
    with held(state.segments_mutex), held(state.lock):
        state.check_whole_locked()
        if offset >= state.end.value:
            return state.end.value
        if offset < state.log_start:
            raise OffsetOutOfRangeError(
                f"{state.name}: cannot cut to {offset}, the log starts at {state.log_start}", offset=offset
            )
        with state.change():
            state.drain_tail_locked()
        return cut_locked(state, offset)


def cut_locked(state: State, offset: int) -> int:
    """Cut the end of the log; a failure on the way poisons it, and the next open finishes."""
    state.files_changing += 1
    state.cuts += 1
    generation = state.generation
    try:
        with state.change():
            end = _cut_segments_locked(state, offset)
            # Durable on return, the names of what is gone included.
            state.sync_names()
    except StorageError as error:
        if isinstance(error, TooManyFilesError) and state.generation == generation:
            # Found while the cut was prepared: nothing has changed.
            raise
        raise state.fail_locked(error) from error
    finally:
        state.files_changing -= 1
    state.counters.truncations += 1
    state.move_marks_locked()
    return end


def settle_locked(state: State) -> None:
    """Put right what an interrupt has cut off under the log's lock; called by `locked`.

    An append whose end was not set yet was not there: its bytes are cut off again, and what was noted with them.
    One whose end was set is in the log.
    """
    if state.closed or state.failed is not None or state.mutation_depth:
        return
    if state.appending:
        if state.tail is not None:
            state.end.advance(state.tail.next_offset)
        elif state.segments.active.next_offset > state.end.value:
            cut_locked(state, state.end.value)
        state.appending = False
    state.tell_marks_locked()


def _cut_segments_locked(state: State, offset: int) -> int:
    segments = state.segments
    place = max(segments.floor(offset), 0)
    target = segments.all[place]
    position = target.position_of(offset)
    # Offsets behind the last batch are none, and no promise may name one: where the cut falls into a gap, the log
    # ends before it. Where nothing is left of the segment, it begins where it is named for.
    end = target.base_offset
    for _, last, at, _, _, _ in target.headers(target.indexed_floor(offset)):
        if at >= position:
            break
        end = last + 1
    producers = None
    stable = None
    if not state.transactions.is_idle or state.transactions.lists_aborted:
        # Asked before anything goes: a transaction whose marker is cut off is open again, and hidden.
        known = state.recovery.point._replace(replay_from=-1)
        producers = recovery.replay_producers(
            state.directory, segments, state.config, known, end, state.clock.now_ms()
        )
        # A marker that is not on disk yet decides nothing where only what is flushed is shown.
        stable = producers.first_unstable_offset(min(state.high_watermark.value, end))
    # Deleted records stay deleted, and their offsets are not given again: when the batch that held the
    # log start has to go, all that is left of its segment lies below, and a new one begins at the start.
    begins_anew = end < state.log_start
    end = max(end, state.log_start)
    if end < state.first_dirty_offset:
        # Else what is appended next would be taken for compacted.
        state.note_clean_locked(end, durable=True)
    # Asked now: where no directory can be opened, that has to show before anything has changed.
    state.directory.names()
    state.directory.sync()
    # Lowered first, and durably: a crash from here on finds a log that promises no more than is left.
    state.root.withdraw()
    synced = state.synced.value
    state.generation += 1
    state.synced.reset(min(synced, end))
    try:
        state.recovery.write_durably(
            state.point_now(clean=False)._replace(
                recovery_point=min(state.synced.value, target.base_offset) if begins_anew else state.synced.value,
                segment_base_offset=min(target.base_offset, state.synced.value),
                position=0,
                replay_from=-1,
            )
        )
    except TooManyFilesError:
        if state.recovery.point.generation != state.generation:
            # No slot says so yet.
            state.generation -= 1
            state.synced.reset(synced)
        raise
    state.must_unmark = False
    state.end.reset(end)
    state.high_watermark.reset(min(state.high_watermark.value, end))
    state.last_stable.reset(min(state.last_stable.value, end if stable is None else max(stable, state.log_start)))
    state.publish_locked()
    for segment in reversed(segments.all[place + 1 :]):
        segments.drop([segment])
    state.unsynced = [s for s in state.unsynced if s in segments.all[:-1]]
    if begins_anew:
        # Dropped first: without any segment, recovery begins one at the log start.
        segments.drop([target])
        target = segments.add(end)
    elif target.sealed:
        name = recovery.copy_prefix(state.directory, target, position)
        target = segments.replace(target, name, size=position, next_offset=end)
        target.scan(adopt=True, check=False)
    else:
        target.cut(position, end)
        target.file.sync()
    segments.trim_index_files(target)
    if state.epochs.truncate_from_end(end):
        state.epochs_saved = False
        state.save_epochs_locked()
    if producers is not None:
        state.transactions.truncated(end, producers, state.generation)
        state.transactions.save_snapshot(end, state.generation)
    state.names_changed()
    return end


def delete_before(state: State, offset: int, sync_to: Callable[[int], None]) -> int:
    """See `Log.delete_before`. The new start becomes the recovery point if that is lower, so what is
    below it has to be on disk: ``sync_to`` sees to that.
    """
    state.check_writable()
    if state.synced.value < offset <= state.high_watermark.value:
        sync_to(offset)
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
    """Remove segments that lie below the log start: a deletion that was cut off has left them."""
    with held(state.segments_mutex), held(state.lock):
        state.check_whole_locked()
        segments = state.segments.all
        if len(segments) < 2 or segments[1].base_offset > state.log_start:
            return
        with state.storing_locked(is_append=False), state.change():
            _delete_locked(state, state.log_start)


def _delete_locked(state: State, offset: int) -> int:
    segments = state.segments
    # Asked now: where no directory can be opened, that has to show before anything has changed.
    state.directory.names()
    if offset == segments.active.next_offset and segments.active.size:
        state.roll_locked()
    # In both slots: were one to decay, the other must not speak of segments that are gone. And before
    # anything else changes: without room for it, nothing is deleted, and the call may be repeated.
    synced = max(state.synced.value, min(offset, state.end.value))
    try:
        state.recovery.write_durably(
            state.point_now(clean=False)._replace(log_start_offset=offset, recovery_point=synced)
        )
    except NO_ROOM:
        if state.recovery.point.log_start_offset != offset:
            raise
        # One slot says so, durably: a kill would delete the records although the caller was told otherwise. Were
        # that slot to decay, the next open would miss the segments by what the older one says.
    state.note_start_locked()
    state.log_start = offset
    state.synced.advance(synced)
    state.must_unmark = False
    state.last_stable.advance(max(state.last_stable.value, offset))
    state.publish_locked()
    doomed = [s for s, after in zip(segments.all, segments.all[1:], strict=False) if after.base_offset <= offset]
    if doomed:
        bases = [segment.base_offset for segment in doomed]
        state.holds.keep(doomed, state.transactions.aborted_between)
        segments.drop(doomed)
        state.holds.lose(doomed)
        state.unsynced = [s for s in state.unsynced if s not in doomed]
        state.transactions.dropped(bases)
        state.counters.deleted_segments += len(doomed)
        state.names_changed()
        _logger.info("deleted segments: log=%s count=%d log_start_offset=%d", state.path, len(doomed), offset)
    if state.epochs.truncate_from_start(offset):
        state.epochs_saved = False
        state.save_epochs_locked()
    return offset
