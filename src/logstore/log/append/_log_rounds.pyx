# cython: language_level=3
"""Rounds of syncs of one log, under group commit.

Nearly every round has one file to sync, the active segment. It runs here, as one compiled call: fdatasync without
the GIL and without the log's lock, then, under the lock, the synced end, the waiters and the recovery point. All
other rounds (sealed segments, new names, unsaved epochs, a memory tail) are those of `Flusher` in
`log.append.flush`, which also says which round is which. Both keep the same order, and the same promises.

Threads: the leader of the group commit alone calls `sync`.
"""

cimport cython
from libc.stdint cimport int64_t

from logstore._segment_index cimport SegmentIndex
from logstore.io._files cimport fork_generation
from logstore.log._partition_log cimport PartitionLog
from logstore.log._producers cimport Producers
from logstore.log.append._group_commit cimport GroupCommit, Rounds
from logstore.log.formats._recovery_slot cimport RecoverySlots

from logstore.errors import LogstoreError, StorageError
from logstore.io._interrupts import shielded
from logstore.log.formats.checkpoints import RecoveryPoint
from logstore.log.write_modes import DIRECT

cdef object _new = tuple.__new__
cdef object _DIRECT = DIRECT

cdef enum:
    ENTRIES = 64

#: A flush writes the index files after this many new entries. A reader, or the next open, then scans at most
#: 256 KiB of log. Writing them at each flush of one small record would add eight system calls to it.
INDEX_ENTRIES = ENTRIES


@cython.final
cdef class LogRounds(Rounds):
    """Rounds of a log: those that sync the active segment alone; `Flusher.sync_round` runs the others.

    Owns: the numbers of the running round.
    """

    def __init__(self, PartitionLog log not None, flusher):
        self._log = log
        self._flusher = flusher

    cpdef bint is_done(self, int64_t offset) except -1:
        """Return whether everything below an offset is on disk; raise if the log has failed or was closed."""
        cdef PartitionLog log = self._log
        # An end below it: truncated meanwhile. A wait for truncated bytes would never end.
        if log.synced.value >= offset or log.end.value < offset:
            return True
        if log.closed or log.failed is not None or log.fork != fork_generation():
            log.check_writable()
        return False

    cpdef sync(self, GroupCommit commit):
        """Make durable what is written now, raise the synced end, wake the waiters, write the recovery point."""
        cdef PartitionLog log = self._log
        cdef bint is_usual
        log.lock.acquire()
        try:
            is_usual = self._begin_locked()
        finally:
            log.lock.release()
        if not is_usual:
            self._flusher.sync_round()
            return
        try:
            self._sync_active()
            log.lock.acquire()
        except BaseException:
            # Interrupted, or no descriptor was free. Without their count, the records would not make a flush due.
            log.counters.untake_unflushed(self._unflushed)
            raise
        try:
            self._end_locked(commit)
        except LogstoreError:
            raise
        except BaseException as error:
            # Interrupted: the marks are repaired before another thread sees them.
            try:
                shielded(self._flusher.settle_locked)
            except BaseException as second:
                if second.__context__ is None:
                    second.__context__ = error
            raise error
        finally:
            log.lock.release()

    cdef bint _begin_locked(self) except -1:
        """Note what this round makes durable; False, with nothing done, if it has more to sync than one file."""
        cdef PartitionLog log = self._log
        if not self._has_one_file_locked() and not self._flusher.has_one_file_locked():
            return False
        self._target = log.end.value
        self._active = log.segments._active()
        self._position = self._active.index.size
        self._generation = log.segments.generation
        self._unflushed = log.counters.take_unflushed()
        return True

    cdef bint _has_one_file_locked(self) except -1:
        """Return whether plainly the active segment alone is left to sync; else `Flusher` looks, and may raise."""
        cdef PartitionLog log = self._log
        unsynced = log.unsynced
        return (not log.mutation_depth and not log.appending and not log.closed and log.failed is None
                and log.mode is _DIRECT and not unsynced.segments and log.epochs.is_saved
                and unsynced.name_changes == unsynced.synced_name_changes
                # Without a list of aborted transactions, no file of them is open.
                and log.transactions.sums is None and not log.transactions.unsaved)

    cdef int _sync_active(self) except -1:
        cdef PartitionLog log = self._log
        cdef double began_s = log.counters.last_flush_s
        try:
            self._active.file.sync()
        except LogstoreError as error:
            # Raises, and fails the log, unless the segment was dropped meanwhile. It never tries a second time.
            self._flusher.sync_failed(self._active, error)
        log.counters.count_sync(began_s)
        return 0

    cdef int _end_locked(self, GroupCommit commit) except -1:
        """Raise what a sync has made true: the synced end first, and the recovery point last."""
        cdef PartitionLog log = self._log
        if log.closed or log.failed is not None or log.fork != fork_generation():
            # Closed, or failed, during the sync: no mark may rise.
            log.check_writable()
        if log.segments.generation != self._generation:
            # A truncation came between: the synced bytes may no longer be those in the log.
            return 0
        log.counters.flushes += 1
        log.marks.raise_synced(self._target)
        # Before the recovery point: threads take longer to wake than it takes to write.
        commit.wake_served()
        if self._is_plain_end():
            self._raise_recovery_point()
            if log.high_watermark.value != log.wanted_mark():
                log.move_marks_locked(has_grown=False)
        else:
            self._flusher.end_locked(self._active, self._target, self._position)
        return 0

    cdef bint _is_plain_end(self) except -1:
        """Return whether nothing but the recovery point and the marks has to follow the synced end."""
        cdef PartitionLog log = self._log
        cdef SegmentIndex index = self._active.index
        return (self._active is log.segments._active() and log.synced.value == self._target and log.epochs.is_saved
                and not index.stale and index.offsets.count - index.offsets.saved < ENTRIES
                and index.times.count - index.times.saved < ENTRIES)

    cdef int _raise_recovery_point(self) except -1:
        """Write the recovery point, as `Durability.point_now` makes it, at the end of this round."""
        cdef PartitionLog log = self._log
        cdef Producers producers = log.transactions.producers
        cdef RecoverySlots recovery = log.recovery
        if log.transactions.unsaved:
            return 0
        # Of one write: a deletion writes the file without the log's lock.
        with recovery.turn:
            known = recovery.point
            point = _new(RecoveryPoint, (
                known[0] + 1, log.segments.generation, self._target, self._active.base_offset, self._position,
                max(log.marks.log_start, <int64_t>recovery.least_start),
                -1 if producers._states or producers._completed else self._target, False, False, known[9],
                log.transactions.sums is not None,
            ))
            try:
                recovery.put(point)
            except StorageError as error:
                self._flusher.point_failed_locked(error)
        return 0
