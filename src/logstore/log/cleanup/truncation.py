"""Truncation of a log's end, deletion of its beginning, and removal of the whole.

The first two record the change in ``logstore.recovery``, durably, before the first byte is removed. A crash half
way then finds no recovery point or log start offset that claims removed records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise

from logstore._segment import Segment
from logstore.errors import (
    OUT_OF_RESOURCES,
    LogstoreError,
    OffsetOutOfRangeError,
    StorageError,
    TooManyFilesError,
)
from logstore.io._files import File
from logstore.io._interrupts import held
from logstore.log._partition_log import READY_ATTEMPTS
from logstore.log._producers import Producers
from logstore.log.directory import files
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
            # Before a file goes: it would be made again.
            state.transactions.halt()
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

    The log's lock is held throughout, file calls included, unlike in a deletion. Between the steps the log has no
    records, and its next offset is neither the old one nor the new one: an append in between would be acknowledged
    and lost. Only a replica begins again, and its appends come from the thread that makes this call.
    """
    state.check_writable()
    with held(state.deleting), held(state.segments_mutex), held(state.lock):
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
            if len(state.segments) > 1 or state.segments.detached:
                # Those of a deletion that found no space, too: the new log may reach the offsets of their names.
                _delete_locked(state)
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
    state.transactions.halt()
    state.directory.sync()
    state.segments.replaced()
    state.marks.restart(offset)
    # Whatever is not listed is gone with the old segments.
    state.durability.write_durably_locked(
        recovery_point=offset, segment_base_offset=offset, position=0, replay_from=-1
    )
    state.durability.note_start()
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
        point = at if starts_at_log_start else state.durability.allowed_point()
        at = min(at, point)
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
        state.transactions.has_new_active()
    state.unsynced.names_changed()
    return end


def delete_before(state: State, offset: int, sync_to: Callable[[int], None]) -> int:
    """See `Log.delete_before`. The new start becomes the recovery point if that is lower, so
    ``sync_to`` first syncs everything below it.

    The log's lock is held to choose the segments and to move the log start and the tuple of segments, and never
    during a file call but that of ``logstore.published``. One case is left: a log whose tail is in memory, or whose
    prepared segments other appends take, rolls under it to delete its active segment.
    """
    state.check_writable()
    with held(state.lock):
        _check_start_locked(state, offset)
    # After the check: one that passes only later, with a higher high watermark, would delete unsynced records.
    if state.synced.value < offset:
        sync_to(offset)
    with held(state.deleting):
        _begin_segment_at(state, offset)
        return _delete(state, offset, again=False)


def drop_below_start(state: State) -> None:
    """Remove segments below the log start, which an interrupted deletion has left."""
    with held(state.deleting):
        with held(state.lock):
            state.check_whole_locked()
            segments = state.segments.all
            if not state.segments.detached and (len(segments) < 2 or segments[1].base_offset > state.log_start):
                return
        _delete(state, state.log_start, again=True)


def _check_start_locked(state: State, offset: int) -> None:
    state.check_whole_locked()
    if offset > state.high_watermark.value:
        raise OffsetOutOfRangeError(
            f"{state.name}: cannot delete up to {offset}, the high watermark is {state.high_watermark.value}",
            offset=offset,
        )


def _begin_segment_at(state: State, offset: int) -> None:
    """Roll the active segment if it ends at an offset, so that it can be deleted; holding `State.deleting` alone.

    The next segment is prepared first. An append may take it: then this is repeated.
    """
    for left in reversed(range(READY_ATTEMPTS + 1)):
        with held(state.lock):
            _check_start_locked(state, offset)
            active = state.segments.active
            if offset <= state.log_start or offset != active.next_offset or not active.size:
                return
            if state.can_roll_locked() or not left:
                with state.storing_locked(is_append=False), state.change():
                    state.roll_locked()
                return
        state.get_ready_to_roll()


def _delete(state: State, offset: int, *, again: bool) -> int:
    """Raise the log start and delete the segments below it, as step 13 of docs/durability.md says; return it.

    ``again`` repeats a deletion whose files may be left. The caller holds `State.deleting`. A truncation and a swap
    wait for all but the unlinks, and so does an append that needs a new segment.
    """
    with held(state.segments_mutex):
        # A new segment may have its first name still, which names a segment that is removed below.
        state.rolls.finish_held()
        # Listed now: without a free descriptor this fails, and must do so before anything has changed.
        names = set(state.directory.names())
        with _failing(state):
            with held(state.lock):
                _check_start_locked(state, offset)
                if offset < state.log_start or (offset == state.log_start and not again):
                    return state.log_start
                # If this call ended here, a truncation below the offset would leave it in the next points.
                state.recovery.announce_start(offset)
            _promise_start(state, offset)
            doomed = _below(state, offset)
            # Without the lock: opening files and loading indexes under it would block appends.
            state.holds.keep_leaving(doomed, state.transactions.aborted_between)
            with held(state.lock):
                state.check_whole_locked()
                with state.change():
                    unused = _detach_locked(state, offset, doomed)
            if doomed and state.transactions.sums is not None:
                # An aborted index may have been made since; from now on none of these is.
                with suppress(*OUT_OF_RESOURCES):
                    names.update(state.directory.names())
            if unused is not None:
                unused.close()
            state.durability.save_epochs()
            state.segments.detached.put_aside(names)
    with _failing(state):
        state.segments.detached.unlink()
    with held(state.lock):
        state.unsynced.names_changed()
    if doomed:
        _logger.info("deleted segments: log=%s count=%d log_start_offset=%d", state.path, len(doomed), offset)
    return offset


def _promise_start(state: State, offset: int) -> None:
    """Make a log start durable, before any file below it is touched; on a full disk nothing is deleted."""
    try:
        state.durability.promise(offset)
    except OUT_OF_RESOURCES:
        with held(state.lock):
            state.recovery.settle_start()
        raise
    state.durability.note_start()


def _below(state: State, offset: int) -> list[Segment]:
    """Return the segments of which every record is below an offset."""
    segments = state.segments.all
    below = [s for s, after in pairwise(segments) if after.base_offset <= offset]
    # The first name of a segment names the one before it. An append may have rolled since rolls were finished.
    if below and segments[len(below)].path != _final_path(state, segments[len(below)]):
        below.pop()
    return below


def _final_path(state: State, segment: Segment) -> str:
    return state.directory.join(files.segment_file(segment.base_offset, files.LOG))


def _detach_locked(state: State, offset: int, doomed: list[Segment]) -> File | None:
    """Move the log start, which is durable, and take segments below it out of the log; touch none of their files.

    The caller has called `Holds.keep_leaving` for them. Returns a file that is not used any more, to be closed.
    """
    segments = state.segments
    state.marks.raise_synced(max(state.synced.value, min(offset, state.end.value)))
    state.marks.raise_start(offset)
    state.recovery.settle_start()
    # Readers elsewhere are told before the first file is missing.
    state.publish_locked(by_append=True)
    if doomed:
        following = segments.all[len(doomed)]
        segments.replace([*doomed, following], following)
    segments.detached.add(doomed)
    state.holds.lose(doomed)
    state.unsynced.remove(doomed)
    unused = state.transactions.dropped([segment.base_offset for segment in doomed])
    state.tell_listed_locked()  # what could not be listed may be gone
    state.counters.deleted_segments += len(doomed)
    state.note_epoch(-1)
    state.epochs.deleted_below(offset)
    return unused


@contextmanager
def _failing(state: State) -> Iterator[None]:
    """Fail the log if a block without its lock ends half way, unless space or descriptors ran out.

    After these two, what is left to delete is deleted by the next call, or by the next open.
    """
    try:
        with state.storing():
            yield
    except LogstoreError:
        raise
    except BaseException:
        with held(state.lock):
            state.fail_locked(StorageError(f"{state.name}: a deletion was interrupted half way"))
        raise


def _delete_locked(state: State) -> None:
    """Delete the segments below the log start under the log's lock, of a log that is about to begin again."""
    # Before the names are listed: no aborted index is made after that.
    state.transactions.halt()
    # Listed now: without a free descriptor this fails, and must do so before anything has changed.
    names = set(state.directory.names())
    start = state.log_start
    point = state.durability.allowed_point(start)
    state.durability.write_durably_locked(log_start_offset=start, recovery_point=point)
    state.durability.note_start()
    doomed = _below(state, start)
    state.holds.keep_leaving(doomed, state.transactions.aborted_between)
    unused = _detach_locked(state, start, doomed)
    if unused is not None:
        unused.close()
    if not state.epochs.is_saved:
        state.epochs.save_locked()
    state.segments.detached.put_aside(names)
    state.segments.detached.unlink()
    state.unsynced.names_changed()


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
