"""Rolls of one log: the file prepared for the next segment, and what earlier rolls have left to do.

An append must wait for no file operation but its own write. So a roll only switches to a file that was prepared,
under the log's lock. What follows is done without that lock: the new segment gets its final name, the sealed one
its index files, and both the syncs after which the recovery point rises. At most `MOST_UNSYNCED` sealed segments
are unsynced; then the next roll waits, and `Counters.roll_waits` counts it.

Locks, in the order in which they are acquired: ``State.segments_mutex``, ``State.lock``, `_mutex`. A thread that
holds `_mutex` never waits for another lock. So calls that have to finish a roll at once acquire it under the log's
lock: truncation, deletion, close, and an append of more than one segment. Syncs in the background hold no lock.

Invariants: only the active segment has a file that is not named by its base offset; a recovery point rises above a
sealed segment only after its bytes, the segments before it and the names of both are on disk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Protocol

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.dropped import UntilClosed
from logstore.errors import OUT_OF_RESOURCES, DiskFullError, LogstoreError, StorageError, StorageFailedError
from logstore.io._files import File
from logstore.io._interrupts import held
from logstore.log._partition_log import Counters
from logstore.log.directory import files, next_segment
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments, sync_unless_dropped
from logstore.log.directory.unsynced import Unsynced
from logstore.log.durability import Durability
from logstore.log.marks._watermark import LogLock
from logstore.log.rolling.worker import RollWorker
from logstore.log.transactions import Transactions
from logstore.log.write_modes import WriteMode
from logstore.records import INT64_MAX, TopicPartition

_logger = logging.getLogger(__name__)

MOST_UNSYNCED = 2


class RollingLog(Protocol):
    """The open log whose segments are rolled: its `State`."""

    name: TopicPartition
    path: str
    directory: Directory
    config: LogConfig
    segments: Segments
    transactions: Transactions
    mode: WriteMode
    lock: LogLock
    segments_mutex: Lock
    closed: bool
    failed: StorageFailedError | None
    durability: Durability
    unsynced: Unsynced

    @property
    def counters(self) -> Counters: ...

    def prepare_from(self, size: int) -> None: ...

    def ask_follow_up(self, *, rolls: bool = False) -> None: ...

    def storing(self) -> AbstractContextManager[None]: ...

    def storing_locked(self, *, is_append: bool) -> AbstractContextManager[None]: ...

    def move_marks_locked(self, *, has_grown: bool) -> None: ...

    def list_aborted(self) -> None: ...

    def leave_unlisted_locked(self, error: DiskFullError) -> None: ...


class _Roll:
    """One roll: the segment that it has sealed, and the new one with the snapshot for its base offset."""

    __slots__ = ("generation", "is_complete", "new", "old", "snapshots")

    def __init__(self, old: Segment, new: Segment, snapshots: dict[str, bytes], generation: int) -> None:
        self.old = old
        self.new = new
        self.snapshots = snapshots
        self.generation = generation
        self.is_complete = False  # all but the syncs is done


class Rolls:
    """Part of a `State`. Owns: the prepared file, and the list of rolls that are not finished."""

    def __init__(self, state: RollingLog, worker: RollWorker) -> None:
        self._whole = UntilClosed(state)
        self._worker = worker
        self._mutex = threading.Lock()
        self._next: File | None = None
        self._follows: Segment | None = None  # the segment that the prepared file follows
        self._unfinished: tuple[_Roll, ...] = ()
        self._left: tuple[tuple[File, str], ...] = ()  # prepared files that are not wanted any more, to be removed
        self._is_asked = False  # a task is submitted and has not begun
        self._is_sync_asked = False  # the same of the one that syncs

    @property
    def _state(self) -> RollingLog:
        state = self._whole.get()
        assert state is not None
        return state

    # -- under the log's lock

    def watch_locked(self) -> None:
        """Have the append that half fills the active segment ask for the next one."""
        state = self._state
        # Of a memory tail, the segments are written under the lock.
        needs_none = self._is_ready() or state.mode.in_memory
        state.prepare_from(INT64_MAX if needs_none else state.config.segment_bytes // 2)

    def _is_ready(self) -> bool:
        return self._next is not None and self._follows is self._state.segments.active

    def _is_open(self) -> bool:
        return not self._state.closed and self._state.failed is None

    @property
    def is_active_named(self) -> bool:
        """Whether the file of the active segment has its final name."""
        return all(roll.is_complete for roll in self._unfinished)

    def may_switch_locked(self) -> bool:
        """Return whether a roll can switch to the prepared file, without any file operation."""
        state = self._state
        return (
            self._is_ready()
            and self.is_active_named
            and len(state.unsynced.segments) < MOST_UNSYNCED
            and not state.mode.in_memory
        )

    @property
    def is_next_at_hand(self) -> bool:
        """Whether a roll finds the prepared file open: of many logs, the descriptor cache may have closed it."""
        file = self._next
        return file is None or file.is_at_hand()

    @property
    def next_file(self) -> File | None:
        """The prepared file, if there is one."""
        return self._next

    def switch_locked(self) -> None:
        """Seal the active segment and make the prepared file the active one."""
        state = self._state
        file, old = self._next, state.segments.active
        assert file is not None, state.name
        assert self._follows is old, (state.name, self._follows, old)
        old.index.load()
        old.seal()
        base = old.next_offset
        snapshots = state.transactions.begin_segment(old.base_offset, base, state.segments.generation)
        self._next = self._follows = None
        self._add_locked(old, state.segments.begin(file, base), snapshots)

    def _add_locked(self, old: Segment, new: Segment, snapshots: dict[str, bytes]) -> None:
        state = self._state
        state.unsynced.add(old)
        self._unfinished = (*self._unfinished, _Roll(old, new, snapshots, state.segments.generation))
        state.ask_follow_up(rolls=True)

    def may_adopt_locked(self) -> bool:
        """Return whether a roll to another file than the prepared one leaves every sync to the background."""
        state = self._state
        return (
            state.durability.has_durable_point
            and self.is_active_named
            and len(state.unsynced.segments) < MOST_UNSYNCED
            and not state.mode.in_memory
        )

    def adopt_locked(self, begin: Callable[[int], Segment]) -> None:
        """Seal the active segment and make another file than the prepared one the next; see `get_ready_to_adopt`.

        ``begin`` makes it from a base offset; if it raises an error, nothing has changed.
        """
        state = self._state
        old = state.segments.active
        base = old.next_offset
        old.index.load()
        new = begin(base)
        old.seal()
        snapshots = state.transactions.begin_segment(old.base_offset, base, state.segments.generation)
        self._add_locked(old, new, snapshots)
        state.unsynced.names_changed()
        if self._next is not None and self._follows is not None:
            self._left = (*self._left, (self._next, next_segment.name_after(self._follows.base_offset)))
            self._next = self._follows = None

    def get_ready_to_adopt(self) -> None:
        """Do what `may_adopt_locked` asks for, without the lock; the caller holds `State.segments_mutex`.

        Raises as `make_ready`.
        """
        state = self._state
        if len(state.unsynced.segments) >= MOST_UNSYNCED:
            state.counters.roll_waits += 1
            self.finish_held()
            self._sync_found()
        self._complete_all()
        if not state.durability.has_durable_point:
            with state.storing():
                # Without a recovery point, recovery of several segments would report a torn tail as damage.
                state.durability.make_point_durable()

    def remove_left(self) -> None:
        """Remove prepared files that no roll has used, without the lock, holding `State.segments_mutex`.

        So no file of that name is prepared meanwhile. Without space or descriptors, a later call removes them.
        """
        state = self._state
        with held(state.lock):
            left, self._left = self._left, ()
        try:
            with state.storing():
                while left:
                    file, name = left[0]
                    file.close()
                    state.directory.remove(name)
                    left = left[1:]
        except OUT_OF_RESOURCES as error:
            _logger.warning("a prepared file is removed later: log=%s error=%s", state.path, error)
            with held(state.lock):
                self._left = (*left, *self._left)

    def finish_locked(self) -> None:
        """Finish every roll at once, under the log's lock; may be called again after an error.

        Raises:
            StorageError: a file operation failed.
        """
        for roll in self._unfinished:
            self._complete(roll)
            self._sync(roll)
            self._save_note_locked()
            self._record_locked(roll)

    def settle_locked(self) -> None:
        """Remove the prepared file if a truncation has made another segment the active one."""
        if self._next is not None and not self._is_ready():
            self.discard_locked()
        else:
            self.watch_locked()

    def discard_locked(self) -> None:
        """Remove the prepared file, if there is one."""
        file, follows = self._next, self._follows
        self._next = self._follows = None
        self.watch_locked()
        if file is not None and follows is not None:
            file.close()
            self._state.directory.remove(next_segment.name_after(follows.base_offset))

    def forget_locked(self) -> None:
        """Close what is open, for a log that is closed or has failed: the next open finishes."""
        with held(self._mutex):  # waits for an operation in progress: the next opener must not meet it
            self._unfinished = ()
        if self._next is not None:
            self._next.close()
        self._whole.has_closed()

    # -- without it

    def ask(self) -> None:
        """Have the worker prepare the next segment, finish rolls and save epochs. Called without any lock."""
        if not self._is_asked:
            self._is_asked = True
            self._worker.submit(self._work)

    def _work(self) -> None:
        self._is_asked = False
        # First, since readers in other processes wait for it.
        self._try(self._list_aborted)
        self._try(self._complete_and_prepare)

    def _list_aborted(self) -> None:
        self._state.list_aborted()

    def _complete_and_prepare(self) -> None:
        state = self._state
        with held(state.segments_mutex):
            if self._is_open():
                if not state.durability.epochs.is_saved:
                    state.durability.save_epochs()
                self._complete_all()
                if state.segments.active.size >= state.config.segment_bytes // 2:
                    self._prepare()
        if self._unfinished and not self._is_sync_asked:
            self._is_sync_asked = True
            # A task of its own: the next segment of another log does not wait until this one is synced.
            self._worker.submit(self._sync_later, syncs=True)

    def _sync_later(self) -> None:
        self._is_sync_asked = False
        self._try(self.finish)

    def _try(self, step: Callable[[], None]) -> None:
        """Do a step of the background, unless the log is gone; its errors are those of the append that needs it."""
        state = self._whole.get()
        if state is None:
            return  # the log was closed, and is gone
        try:
            step()
        except OUT_OF_RESOURCES as error:
            # The append that needs the next segment tries again, and raises what it finds.
            _logger.warning("the next segment is not prepared yet: log=%s error=%s", state.path, error)
        except LogstoreError:
            # The log has failed, and says so at the next append.
            _logger.debug("background work of a log ended: log=%s", state.path, exc_info=True)

    def make_ready(self) -> None:
        """Do what a roll waits for: finish earlier ones if too many are not, and prepare the next segment.

        Raises:
            DiskFullError, TooManyFilesError: there is no space or no descriptor. Nothing has changed.
            StorageFailedError: a sync failed; the log takes no more writes.
        """
        state = self._state
        try:
            if len(state.unsynced.segments) >= MOST_UNSYNCED:
                state.counters.roll_waits += 1
                self.finish()
                self._sync_found()
            with held(state.segments_mutex):
                self._complete_all()
                self._prepare()
        except DiskFullError:
            state.counters.disk_full += 1
            raise

    def finish(self) -> None:
        """Finish every roll; raises as `make_ready`. Called without any lock."""
        if self._unfinished:
            with held(self._state.segments_mutex):
                self._complete_all()
            self.sync()

    def finish_held(self) -> None:
        """Finish every roll as `finish`, for a caller that holds `State.segments_mutex`."""
        self._complete_all()
        self.sync()

    def sync(self) -> None:
        """Sync what complete rolls have sealed, and raise the recovery point over it."""
        state = self._state
        for roll in self._unfinished:
            if not roll.is_complete:
                break
            # Without space for the list, no recovery point rises over the segment, but it can be deleted.
            state.list_aborted()
            with self._state.storing():
                self._sync(roll)
            with held(state.lock):
                if self._is_open():
                    self._record_locked(roll)

    def _sync_found(self) -> None:
        """Sync sealed segments that were found unsynced at opening, if they are too many."""
        state = self._state
        found, after = state.unsynced.segments, state.segments.active
        if len(found) < MOST_UNSYNCED:
            return
        with self._state.storing():
            for segment in found:
                sync_unless_dropped(segment)
            state.unsynced.sync_names()
        with held(state.lock):
            if self._is_open() and state.unsynced.segments is found and state.segments.active is after:
                state.unsynced.clear()
                self._raise_locked(after)

    def _prepare(self) -> None:
        """Create the file for the next segment, unless there is one; its name is durable on return.

        The caller holds `State.segments_mutex`.
        """
        state = self._state
        with held(state.lock):
            if not self._is_open() or self._is_ready():
                return
            active, is_first = state.segments.active, not state.durability.has_durable_point
        name = next_segment.name_after(active.base_offset)
        with self._state.storing():
            if is_first:
                # Without a recovery point, recovery of several segments would report a torn tail as damage.
                state.durability.make_point_durable()
            file = state.directory.open(name, create=True, writable=True, truncate=True)
            with held(state.lock):
                state.unsynced.names_changed()
            state.unsynced.sync_names()
        with held(state.lock):
            # One of that name that is still to be removed was this file.
            self._left = tuple(each for each in self._left if each[1] != name)
            is_wanted = state.segments.active is active and self._is_open()
            if is_wanted:
                self._next, self._follows = file, active
            self.watch_locked()
        if not is_wanted:
            # An append over several segments has rolled without it.
            file.close()
            state.directory.remove(name)

    def _complete_all(self) -> None:
        """Complete the files of every roll; holding `State.segments_mutex`."""
        with self._state.storing():
            for roll in self._unfinished:
                self._complete(roll)

    def _complete(self, roll: _Roll) -> None:
        """Name the new segment, and write the index files and snapshots of the sealed one, if that is not done."""
        state, segments = self._state, self._state.segments
        with held(self._mutex):
            if roll.is_complete:
                return
            name = state.directory.join(files.segment_file(roll.new.base_offset, files.LOG))
            if roll.new.path != name:
                roll.new.file.rename_to(name)
            segments.release(roll.old)
            segments.save_indexes(roll.old, complete=True)
            self._save_snapshots(roll)
            roll.is_complete = True

    def _sync(self, roll: _Roll) -> None:
        """Sync the sealed segment of a roll, those before it, its aborted index and the names."""
        state = self._state
        for segment in state.unsynced.segments:
            if segment.base_offset <= roll.old.base_offset:
                sync_unless_dropped(segment)
        if state.transactions.is_on_disk:
            state.transactions.sync_sealed()
        else:
            state.transactions.sync_files()  # what was written late
        state.directory.sync()

    def _save_note_locked(self) -> None:
        """Write what the aborted indexes and their note lack: only with aborted transactions."""
        transactions = self._state.transactions
        if transactions.must_save:
            try:
                with self._state.storing_locked(is_append=False):
                    transactions.sync()
            except DiskFullError as error:
                # A truncation goes on: it may be what frees the space.
                self._state.leave_unlisted_locked(error)

    def _save_snapshots(self, roll: _Roll) -> None:
        # A compaction since then has written a newer state of its own generation.
        wanted = roll.snapshots if roll.generation == self._state.segments.generation else {}
        try:
            for name, data in wanted.items():
                self._state.directory.replace(name, data, durable=False)
        except StorageError as error:
            # Snapshots only make the next open faster.
            _logger.warning("producers not saved: log=%s error=%s", self._state.path, error)

    def _raise_locked(self, active: Segment) -> None:
        """Raise synced end and recovery point to the base offset of a segment, and the marks that follow them."""
        self._state.durability.raise_locked(active)
        self._state.move_marks_locked(has_grown=False)

    def _record_locked(self, roll: _Roll) -> None:
        """Raise synced end and recovery point over a sealed segment that is on disk."""
        state = self._state
        if roll not in self._unfinished:
            return
        self._unfinished = tuple(other for other in self._unfinished if other is not roll)
        synced = [each for each in state.unsynced.segments if each.base_offset <= roll.old.base_offset]
        if synced:
            state.unsynced.remove(synced)
            self._raise_locked(roll.new)
