"""Durability of an open log: what of it is on disk, and the record of that for the next opening.

`Durability` writes ``logstore.recovery`` and the epochs' file, and syncs what a higher recovery point needs. It
decides when the mark of a clean close goes and comes. It neither rolls nor appends: `log.rolling` and `log.append`
call it. Methods whose names end in ``_locked`` are called with the log's lock held.

Invariant: a recovery point rises over bytes, names and epochs only once all of them are on disk.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Protocol

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.dropped import UntilClosed
from logstore.errors import OUT_OF_RESOURCES, FencedLeaderEpochError, StorageError, StorageFailedError
from logstore.io._interrupts import held
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.directory.unsynced import Unsynced
from logstore.log.formats.checkpoints import RecoveryPoint
from logstore.log.formats.epoch_file import EpochFile
from logstore.log.formats.last_stop import LastStop, Run, Stop, StopEvidence, judge
from logstore.log.formats.recovery_point import RecoveryPointFile, note_start
from logstore.log.marks._marks import LogMarks
from logstore.log.marks._watermark import LogLock, Watermark
from logstore.log.recovery.recovery import Recovered
from logstore.log.transactions import Transactions
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)

#: How often `Durability.promise` tries to write a slot without the log's lock; the last time it holds it.
WRITE_ATTEMPTS = 4


def _may_have_lost(found: Recovered, boot: bytes) -> bool:
    """Whether a sync of an earlier process may have failed, of which the kernel knows and no file tells."""
    was_written_again = found.point.suspect
    is_new_run = found.run is not None and found.run.boot != boot
    return not (found.was_clean or was_written_again or is_new_run)


class DurableLog(Protocol):
    """The open log whose durability this is: its `State`."""

    name: TopicPartition
    config: LogConfig
    segments: Segments
    transactions: Transactions
    lock: LogLock
    segments_mutex: Lock
    leader_epoch: int
    must_unmark: bool
    closed: bool
    failed: StorageFailedError | None

    @property
    def log_start(self) -> int: ...
    @property
    def end(self) -> Watermark: ...
    @property
    def synced(self) -> Watermark: ...
    @property
    def marks(self) -> LogMarks: ...
    def fail_locked(self, error: StorageError) -> StorageFailedError: ...
    def check_whole_locked(self) -> None: ...
    def has_unmarked(self) -> None: ...
    def storing(self) -> AbstractContextManager[None]: ...
    def storing_locked(self, *, is_append: bool) -> AbstractContextManager[None]: ...


class Durability:
    """Part of a `State`. Owns: the recovery file, the epochs' file, and the list of what is not on disk yet."""

    def __init__(self, log: DurableLog, directory: Directory, root: Directory, found: Recovered) -> None:
        self._whole = UntilClosed(log)
        self._directory = directory
        self.recovery = RecoveryPointFile(directory, found.point)
        unsynced = tuple(s for s in found.segments.all[:-1] if s.next_offset > found.synced_end)
        self.unsynced = Unsynced(directory, root, unsynced, names_are_synced=found.was_clean)
        self.epochs = EpochFile(directory, found.epochs, self.unsynced)
        #: What the opening found: see `Recovered`.
        self.was_clean, self.recovered_bytes = found.was_clean, found.scanned_bytes
        self.cut_bytes = found.cut_bytes
        self.has_durable_point = False  #: whether a power cut leaves a recovery point
        self._start_mutex = Lock()  # one writer of the log start's second copy; its holder waits for no other lock
        if found.segments.active.next_offset > found.synced_end:
            # An earlier process wrote these bytes, perhaps not to disk. Without the mark a flush would skip them.
            may_be_lost = _may_have_lost(found, directory.files.boot())
            for segment in (*unsynced, found.segments.active):
                segment.file.mark_dirty()
                if may_be_lost:
                    is_partly_synced = found.point.segment_base_offset == segment.base_offset
                    segment.file.doubt(found.point.position if is_partly_synced else 0, segment.size)

    @property
    def _log(self) -> DurableLog:
        log = self._whole.get()
        assert log is not None
        return log

    # -- the recovery point

    def point_now(self, *, clean: bool) -> RecoveryPoint:
        """Return the current recovery point; its position is the end of the active segment, if that is synced."""
        log = self._log
        active = log.segments.active
        synced = self.allowed_point()
        at_end = synced == active.next_offset and synced >= active.base_offset
        known: RecoveryPoint = self.recovery.point
        place = (active.base_offset, active.size) if at_end else (known.segment_base_offset, known.position)
        if place[0] < 0 or place[0] > synced:
            place = (min(log.segments.all[0].base_offset, synced), 0)
        return known._replace(
            generation=log.segments.generation,
            recovery_point=synced,
            segment_base_offset=place[0],
            position=place[1],
            log_start_offset=max(log.log_start, self.recovery.least_start),
            replay_from=synced if log.transactions.is_idle and synced == log.synced.value else -1,
            clean=clean,
            suspect=False,
            lists_aborted=log.transactions.sums is not None,
        )

    def allowed_point(self, log_start: int = 0) -> int:
        """Return the synced end, or a lower recovery point while an aborted transaction below it is not on disk.

        Only a scan from there on finds that one. The point is at least the ``log_start`` of a deletion.
        """
        log = self._log
        point: int = log.synced.value
        if not log.transactions.is_on_disk:
            point = min(point, max(self.recovery.point.recovery_point, log.log_start))
        return max(point, min(log_start, log.end.value))

    def write_locked(self, **changes: Any) -> None:
        """Write the current recovery point, with these fields changed; not synced."""
        self.recovery.write(self.point_now(clean=False)._replace(**changes))

    def write_durably_locked(self, **changes: Any) -> None:
        """Write the current recovery point, with these fields changed, to both slots; durable on return.

        So no slot says any more that the log was closed cleanly.
        """
        self.recovery.write_durably(self.point_now(clean=False)._replace(**changes))
        self._log.has_unmarked()

    def suspect_locked(self) -> None:
        """Have the next opening trust no cached page: after a failed write or sync, the disk may lack it.

        A disk that takes not even this mark leaves it to the memory of this process, which opens the log again.
        """
        try:
            self.recovery.write(self.recovery.point._replace(suspect=True, clean=False))
        except StorageError:
            self._directory.files.untold.add(self._directory.path)
            _logger.error("could not mark the log as suspect: log=%s", self._directory.path)

    def raise_locked(self, active: Segment) -> None:
        """Raise synced end and recovery point to the base offset of a segment: all before it is on disk.

        On a full disk, or without a free descriptor, the recovery point stays.

        Raises:
            StorageFailedError: the point could not be written, and the log has failed.
        """
        self._advance_locked(active)
        try:
            self._record_locked(active)
        except OUT_OF_RESOURCES as error:
            _logger.warning("recovery point not written: log=%s error=%s", self._directory.path, error)
        except StorageError as error:
            raise self._log.fail_locked(error) from error

    def _advance_locked(self, active: Segment) -> None:
        # At most the log end offset: in the middle of an append over several segments, readers would see a part.
        self._log.marks.raise_synced(min(active.base_offset, self._log.end.value))

    def _record_locked(self, active: Segment) -> None:
        # An epoch, or an aborted transaction, that is in no file is found only by a scan from this point on.
        if self.epochs.is_saved and self._log.transactions.is_on_disk:
            if self._log.synced.value == active.base_offset:
                base = active.base_offset
                self.write_locked(recovery_point=base, segment_base_offset=base, position=0)
            else:
                self.write_locked()

    def sync_to_locked(self, active: Segment) -> None:
        """Sync everything below a segment, and raise the synced end to its base offset.

        So after a crash, a log that was never flushed is scanned from its last two segments on, not from its
        start. `record_sync_locked` writes the recovery point.
        """
        for segment in self.unsynced.segments:
            segment.file.sync()
        if not self.epochs.is_saved:
            self.epochs.save_locked()
        self.unsynced.sync_names()
        self.unsynced.clear()
        self._advance_locked(active)

    def record_sync_locked(self, active: Segment) -> None:
        """Raise the recovery point as `sync_to_locked` has raised the synced end; the first one durably."""
        self._record_locked(active)
        if not self.has_durable_point:
            # Without a recovery point, recovery of several segments would report a torn tail as damage.
            self.recovery.sync()
            self.has_durable_point = True
            self.note_start(durable=False)

    def make_point_durable(self) -> None:
        """Sync the first recovery point, before the log has a second segment. Called without the lock."""
        self.recovery.sync()
        self.note_start(durable=False)
        with held(self._log.lock):
            self.has_durable_point = True

    def sync_all_locked(self, active: Segment) -> None:
        """Sync every file and name of the log up to the end of the active segment."""
        if not self.epochs.is_saved:
            self.epochs.save_locked()
        for segment in (*self.unsynced.segments, active):
            segment.file.sync()
        self.unsynced.names_changed()
        self.unsynced.sync_names()
        self._log.transactions.sync()

    def write_synced_locked(self, **changes: Any) -> None:
        """Write the current recovery point, with these fields changed, to the older slot; durable on return."""
        self.write_locked(**changes)
        self.recovery.sync()
        self.has_durable_point = True

    def promise(self, log_start: int = 0) -> None:
        """Write the current recovery point to both slots as `write_durably_locked`, without the log's lock.

        Each slot is synced before the other is written. A deletion gives its ``log_start``. It holds
        `State.segments_mutex`, and has called `RecoveryPointFile.announce_start`: so no point that is written
        meanwhile, of a flush or a roll, takes the offset back. In both slots: if one decays, the other must not
        refer to deleted segments.

        Raises:
            DiskFullError, TooManyFilesError: a slot could not be written or synced; of a deletion, the first one.
            StorageError: a write or sync failed, or the log has.
        """
        self._write_synced(log_start)
        try:
            self._write_synced(log_start)
        except OUT_OF_RESOURCES as error:
            if not log_start:
                raise
            # One slot has the new start durably: after an error to the caller, a crash would delete the records
            # anyway. If that slot decays, the next open misses segments that the older slot still names.
            _logger.warning("log start written to one slot only: log=%s error=%s", self._directory.path, error)
            return
        with held(self._log.lock):
            self._log.has_unmarked()

    def _write_synced(self, log_start: int) -> None:
        self._write_next(log_start)
        self.recovery.opened().sync()

    def _write_next(self, log_start: int) -> None:
        # A flush may write a newer point between the two steps, hardly ever twice in a row.
        for attempt in range(WRITE_ATTEMPTS):
            is_last = attempt + 1 == WRITE_ATTEMPTS
            with held(self._log.lock):
                # Of a log that has failed, the point says so, and this one would not.
                self._log.check_whole_locked()
                point = self._point_from(log_start)
                if is_last and self.recovery.write_next(point):
                    return
            if not is_last and self.recovery.write_next(point):
                return

    def _point_from(self, log_start: int) -> RecoveryPoint:
        """Return the current recovery point with at least this log start offset, and at least that high."""
        point = self.point_now(clean=False)
        start = max(point.log_start_offset, log_start)
        return point._replace(log_start_offset=start, recovery_point=self.allowed_point(log_start))

    def note_start(self, *, durable: bool = True) -> None:
        """Copy the log start offset and the log's kind from the recovery file to a second file."""
        with held(self._start_mutex):
            # Read in here: a writer that waited would take the newer copy back.
            point = self.recovery.point
            note_start(self._directory, point.log_start_offset, point.kind, durable=durable)

    # -- the clean mark

    def unmark_locked(self) -> None:
        """Remove the clean mark durably, before the first write: after a crash a torn log must not have it."""
        with self._log.storing_locked(is_append=False):
            self.write_durably_locked()

    def unmark(self) -> None:
        """Remove the clean mark as `unmark_locked` does, without the lock."""
        log = self._log
        with held(log.segments_mutex):
            with held(log.lock):
                if not log.must_unmark or log.closed or log.failed is not None:
                    return
                point = self.point_now(clean=False)
            with log.storing():
                self.recovery.write_durably(point)
            with held(log.lock):
                log.has_unmarked()

    def mark_clean_locked(self) -> None:
        """Save indexes, snapshot and epochs, and mark the log as cleanly closed."""
        log = self._log
        end = log.end.value
        log.segments.save_indexes(log.segments.active, complete=True)
        log.transactions.save_snapshot(end, log.segments.generation)
        log.transactions.sync()
        latest = self.epochs.table.latest
        if log.leader_epoch > (0 if latest is None else latest.epoch):
            # Nothing was written in this epoch. If it is not recorded, the next open uses the epoch before it.
            self.epochs.note(log.leader_epoch, end)
        if not self.epochs.is_saved and self.epochs.table.entries:
            self.epochs.save_locked()
        point = self.point_now(clean=True)
        if point != self.recovery.point._replace(sequence=point.sequence):
            self.recovery.write(point)
            # The mark is synced: after a power cut, recovery need not scan the log.
            self.recovery.sync()

    # -- the run of the machine

    def judge_stop(self, found: StopEvidence, *, is_standalone: bool) -> None:
        """Judge how the log was stopped, as `last_stop`, and record the machine's run for the next opening.

        A standalone log has no leader to tell of an unclean stop. Of a replica it is recorded until it is accepted.
        """
        run = self._run_now()
        self.last_stop: LastStop = judge(found, run, self._directory)
        run = run._replace(is_pending=self.last_stop.stop is Stop.UNCLEAN and not is_standalone)
        if run != found.recorded:
            try:
                self.recovery.write_run(run.encode())
            except OUT_OF_RESOURCES:
                # Without a record of this run, the next opening takes a stop without a close for unclean.
                if run.is_pending or (found.recorded is not None and found.recorded.boot == run.boot):
                    raise

    def accept_stop_locked(self) -> None:
        """Record that the last stop was dealt with, see `LogReplica.accept_stop`."""
        self.recovery.write_run(self._run_now().encode())

    def _run_now(self) -> Run:
        has_memory_tail = self._log.config.tail == "memory"
        return Run(self._directory.files.boot(), *self.recovery.identity(), has_memory_tail)

    # -- the leader epochs

    def save_epochs(self) -> None:
        """Write the epochs' file without the lock, if it lacks an epoch and the log can still be written."""
        log = self._log
        self.epochs.save(log.lock, lambda: not log.closed and log.failed is None)

    def begin_epoch_locked(self, epoch: int) -> None:
        """Record durably that a leader epoch begins at the log end offset, see `LogReplica.begin_epoch`."""
        log = self._log
        latest = self.epochs.table.latest
        newest = log.leader_epoch if latest is None else max(log.leader_epoch, latest.epoch)
        if epoch < newest:
            raise FencedLeaderEpochError(f"{log.name}: leader epoch {epoch} begins, the log has seen {newest}")
        with log.storing_locked(is_append=False):
            self.epochs.begin(epoch, log.end.value)
        try:
            self.unsynced.sync_names()
        except StorageError as error:
            # The file may name the new epoch after a power cut: batches of the old one must not follow.
            raise log.fail_locked(error) from error

    def close(self) -> None:
        """Close the recovery file."""
        self.recovery.close()
        self._whole.has_closed()
