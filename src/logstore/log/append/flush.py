"""Flush: makes a log durable by rounds of syncs under group commit, and decides when a flush is due.

Nearly every round syncs the active segment alone: `_log_rounds` runs it. One of those here begins under the log's
lock: it writes a memory tail and unsaved leader epochs. Then it syncs, without the lock, the index of aborted
transactions, the sealed segments that are not on disk yet, the active segment, and the names of new files. Only
then does the recovery point rise. A failed sync is never retried.
"""

from __future__ import annotations

import logging
from functools import partial
from math import inf
from typing import NamedTuple
from weakref import proxy

from logstore._segment import Segment
from logstore.accumulator._alarms import NEVER, Alarm
from logstore.accumulator.timer import TICKER
from logstore.errors import OUT_OF_RESOURCES, DiskFullError, LogstoreError, StorageError, TooManyFilesError
from logstore.io._interrupts import held, locked, shielded
from logstore.log.append._group_commit import GroupCommit
from logstore.log.append._log_rounds import INDEX_ENTRIES, LogRounds
from logstore.log.cleanup.truncation import settle_locked
from logstore.log.directory.segments import is_dropped, sync_unless_dropped
from logstore.log.state import State
from logstore.records import INT64_MAX

_logger = logging.getLogger(__name__)


class _Round(NamedTuple):
    """The files and offsets of one round, as they were when it began."""

    target: int  #: the log end offset
    sealed: tuple[Segment, ...]
    active: Segment
    position: int  #: the size of the active segment
    generation: int
    unflushed: int  #: records since the last flush


class Flusher:
    """Syncs one log for all its threads."""

    def __init__(self, state: State) -> None:
        self._state = state
        # A proxy: in a cycle with its rounds, a log that was dropped would wait for the garbage collector.
        self.commit = GroupCommit(LogRounds(state, proxy(self)))
        self.settle_locked = partial(settle_locked, state)
        self._alarm: Alarm | None = None  #: while ``flush.ms`` is set
        self._waits_for_space = False  #: since a tick that has told it

    def sync_to(self, offset: int) -> None:
        """Return once everything below an offset is on disk; shares the sync with other callers.

        Raises:
            StorageFailedError: a sync failed, now or before.
            TooManyFilesError: no descriptor was free to sync a file. Nothing is lost, and no mark rises.
        """
        self.commit.run(offset)

    def sync_locked(self) -> None:
        """Sync to the log end offset under the lock, for close; appends wait and cannot move the end meanwhile."""
        state = self._state
        found = self._begin_locked()
        try:
            try:
                state.transactions.sync()
            except DiskFullError as error:
                state.leave_unlisted_locked(error)
            self._sync(found)
        except TooManyFilesError:
            raise
        except StorageError as error:
            raise state.fail_locked(error) from error
        self._end_locked(found)

    # -- rounds, as `LogRounds` calls them ---------------------------------------------------------

    def has_one_file_locked(self) -> bool:
        """Return whether a round has only the active segment to sync; raise if the log cannot be synced."""
        state = self._state
        state.check_whole_locked()
        return (
            not state.unsynced.segments
            and not state.mode.in_memory
            and state.epochs.is_saved
            and state.unsynced.names_are_synced
            and state.transactions.is_synced
        )

    def sync_failed(self, segment: Segment, error: LogstoreError) -> None:
        """Fail the log after a failed sync of a segment, unless the segment was dropped meanwhile."""
        if is_dropped(segment):
            return
        if isinstance(error, StorageError) and not isinstance(error, TooManyFilesError):
            with held(self._state.lock):
                raise self._state.fail_locked(error) from error
        raise error

    def sync_round(self) -> None:
        """Run a round that has more to sync: older segments, the active one, names; then the recovery point."""
        if self._state.mode.in_memory:
            shielded(self._sync_written)
        else:
            # Unshielded: after an interrupt, every step may be repeated.
            self._sync_written()

    def _sync_written(self) -> None:
        state = self._state
        with held(state.lock):
            found = self._begin_locked()
        try:
            self._sync_aborted()
            self._sync(found)
        except TooManyFilesError:
            # No sync was tried, so none has failed: the next flush syncs the same files.
            state.counters.untake_unflushed(found.unflushed)
            raise
        except StorageError as error:
            with held(state.lock):
                raise state.fail_locked(error) from error
        except BaseException:
            # Interrupted: without their count, unsynced records would not make a flush due.
            state.counters.untake_unflushed(found.unflushed)
            raise
        locked(state.lock, self.settle_locked, self._end_locked, found)

    def _begin_locked(self) -> _Round:
        state = self._state
        state.check_whole_locked()
        if state.mode.in_memory:
            with state.change():
                state.drain_tail_locked()
        if not state.epochs.is_saved:
            shielded(state.epochs.save_locked)
        active = state.segments.active
        unflushed = state.counters.take_unflushed()
        return _Round(
            state.end.value, state.unsynced.segments, active, active.size, state.segments.generation, unflushed
        )

    def _sync_aborted(self) -> None:
        """List the aborted transactions and sync the list; after the round has begun, which needs what is there."""
        state = self._state
        try:
            if state.transactions.must_save:
                shielded(state.save_aborted)
            state.transactions.sync_files()
        except DiskFullError as error:
            with held(state.lock):
                state.leave_unlisted_locked(error)

    def _sync(self, found: _Round) -> None:
        state = self._state
        began_s = state.clock.monotonic_s()
        for segment in found.sealed:
            sync_unless_dropped(segment)
        sync_unless_dropped(found.active)
        # The names last: a file system that writes them with the first sync of a new file has none left to write.
        state.unsynced.sync_names()
        state.counters.count_sync(began_s)

    def _end_locked(self, done: _Round) -> None:
        state = self._state
        # The log was closed or failed during the sync: no mark may rise.
        state.check_writable()
        if state.segments.generation != done.generation:
            # A truncation came between: the synced bytes may no longer be those in the log.
            return
        state.counters.flushes += 1
        state.unsynced.remove(done.sealed)
        state.marks.raise_synced(done.target)
        self.end_locked(done.active, done.target, done.position)

    def end_locked(self, active: Segment, target: int, position: int) -> None:
        """Let recovery point and marks follow a synced end: ``active`` ended with ``target`` at ``position``."""
        state = self._state
        if state.rolls.is_active_named:
            # Its index files are named by its base offset; beside a file without that name they would be strays.
            state.segments.save_indexes(state.segments.active, at_least=INDEX_ENTRIES)
        if state.synced.value > target:
            # Another round has synced further and written a higher recovery point: this round's would lower it.
            state.move_marks_locked()
            return
        try:
            # An epoch that is not in its file is found only by a scan; a higher recovery point would lose it.
            if state.epochs.is_saved and state.transactions.is_on_disk:
                base = active.base_offset
                state.durability.write_locked(recovery_point=target, segment_base_offset=base, position=position)
        except StorageError as error:
            self.point_failed_locked(error)
        # Only draining a memory tail grows the files; a sync moves marks that depend on the synced end.
        state.move_marks_locked(has_grown=state.mode.in_memory)

    def point_failed_locked(self, error: StorageError) -> None:
        """Deal with a recovery point that could not be written."""
        if not isinstance(error, OUT_OF_RESOURCES):
            raise self._state.fail_locked(error) from error
        # Not fatal: the recovery point on disk stays below the synced end, and the next open scans more.
        _logger.warning("recovery point not written: log=%s error=%s", self._state.path, error)

    @property
    def may_become_due(self) -> bool:
        """Return whether the settings ever ask for a flush."""
        config = self._state.config
        return config.flush_messages < INT64_MAX or config.flush_ms < INT64_MAX or self._state.mode.in_memory

    def is_due(self) -> bool:
        """Return whether the settings ask for a flush after the latest append."""
        state = self._state
        config = state.config
        if state.counters.unflushed_records >= config.flush_messages:
            return True
        if state.mode.size >= config.tail_bytes:
            return True
        return config.flush_ms < INT64_MAX and self._time_is_due()

    def _time_is_due(self) -> bool:
        state = self._state
        if state.counters.unflushed_records == 0:
            return False
        return (state.clock.monotonic_s() - state.counters.last_flush_s) * 1000 >= state.config.flush_ms

    def configure(self) -> None:
        """Have the timer thread flush by ``flush.ms`` from now on, or no longer."""
        state = self._state
        flush_ms = state.config.flush_ms
        if flush_ms == INT64_MAX:
            self.end_ticks()
            with held(state.lock):
                state.counters.flush_within(None, 0.0)
            return
        if self._alarm is None or self._alarm.due_s == -inf:  # a tick has failed: it was removed
            self._alarm = TICKER.add(self, state.clock)
        with held(state.lock):
            # Without a thread that ticks, an append does not look at a clock that may be a program's own.
            alarm = None if self._alarm is NEVER else self._alarm
            state.counters.flush_within(alarm, flush_ms / 1000)

    def end_ticks(self) -> None:
        """Have the timer thread forget this log."""
        if self._alarm is not None:
            self._alarm = None
            TICKER.remove(self)

    @property
    def _tick_waits(self) -> bool:
        return True

    def tick(self) -> None:
        """Flush if ``flush.ms`` has passed."""
        state = self._state
        if state.closed or state.failed is not None:
            return
        try:
            if self._time_is_due():
                self.sync_to(state.end.value)
                with held(state.lock):
                    if state.synced.value >= state.end.value:
                        state.counters.take_unflushed()  # those that a truncation has removed
            self._waits_for_space = False
        except OUT_OF_RESOURCES as error:
            if not self._waits_for_space:
                _logger.warning("a flush that was due waits for space: log=%s error=%s", state.path, error)
            self._waits_for_space = True
        state.counters.ask_flush()
