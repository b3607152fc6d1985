"""State of one open log: its parts, and the steps that change several of them together.

All modules of `log` that work on one open log share its `State`, and the lock in it. Each part owns its fields, and
no other module assigns them: the offsets are `LogMarks`, the append `PartitionLog`, the files `Segments`, what is
on disk `Durability`, what rolls leave to do `Rolls`, producers and transactions `Transactions`. Methods whose names
end in ``_locked`` are called with the lock held.

Invariants, under the lock: those of the marks, see `LogMarks`; recovery point <= synced end; the
active segment ends at the log end offset unless a memory tail holds the rest.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from logstore._segment import Segment
from logstore.clock import Clock
from logstore.config.log import LogConfig
from logstore.errors import (
    OUT_OF_RESOURCES,
    DiskFullError,
    ForkedError,
    InvalidSettingError,
    LogClosedError,
    LogstoreError,
    NotLeaderError,
    RetentionWarning,
    StorageError,
    StorageFailedError,
    TooManyFilesError,
)
from logstore.io._files import File, fork_generation
from logstore.io._interrupts import held, shielded
from logstore.log._partition_log import READY_ATTEMPTS, PartitionLog
from logstore.log._producers import Producers
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import check_joint
from logstore.log.durability import Durability
from logstore.log.formats.checkpoints import LogKind
from logstore.log.formats.cleaned import Cleaned
from logstore.log.formats.last_stop import StopEvidence
from logstore.log.formats.recovery_point import published_file
from logstore.log.marks._marks import LogMarks
from logstore.log.marks._watermark import LogLock
from logstore.log.marks.policies import HighWatermarkPolicy, StandalonePolicy
from logstore.log.read.segment_holds import Holds
from logstore.log.recovery import recovery
from logstore.log.rolling import worker
from logstore.log.rolling.roll_age import RollAge
from logstore.log.rolling.rolls import Rolls
from logstore.log.root import PartitionFacts, Root
from logstore.log.space_quota import SpaceQuota
from logstore.log.transactions import Transactions
from logstore.log.write_modes import mode_of
from logstore.records import INT32_MAX, INT64_MAX, AbortedTransaction, TopicPartition

if TYPE_CHECKING:
    import random
    from types import FrameType

_logger = logging.getLogger(__name__)


#: Settings that cannot change while a log is open: field and key.
_FIXED = {"tail": "logstore.tail", "visible_after": "logstore.visible.after"}


def batches_of(data: bytes | bytearray) -> Iterator[memoryview]:
    """Iterate over the batches of a run, which must all be whole."""
    view = memoryview(data)
    while view:
        size = int.from_bytes(view[8:12], "big") + 12
        yield view[:size]
        view = view[size:]


def _callers_level() -> int:
    """Return the ``stacklevel`` of the nearest caller outside logstore, or a level beyond the last frame."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "logstore":
        frame, level = frame.f_back, level + 1
    return level


class State(PartitionLog):
    """One log that is open for writing: recovered, published, with its marks set.

    Owns its parts, and with `PartitionLog` the fields of an append. The two are halves of one object: compiled is
    what each append does, here is policy. Both halves assign the fields that `_partition_log.pxd` calls public; no
    other module does, not even one that works under the lock.
    """

    transactions: Transactions

    def __init__(
        self,
        name: TopicPartition,
        directory: Directory,
        root: Root,
        config: LogConfig,
        policy: HighWatermarkPolicy,
        clock: Clock,
        rng: random.Random | None,
        quota: SpaceQuota,
        kind: LogKind,
    ) -> None:
        self.name = name
        self.path = directory.path
        self.directory = directory
        self.root = root
        self.config = config
        self.clock = clock
        self.rng = rng
        self.lock = LogLock()
        self.fork = fork_generation()
        self.why_closed = "the log is closed; call Log.open() again"
        self.closed_error: type[LogClosedError] = LogClosedError
        # Acquired before `lock`, in this order.
        self.compacting = threading.Lock()  # held by a compaction, from its beginning to its end
        self.deleting = threading.Lock()  # held by a deletion, from its beginning until its files are unlinked
        self.segments_mutex = threading.Lock()  # held to remove segments: by a truncation, deletion or swap
        self.closing = False
        self.quota = quota
        found = recovery.recover(directory, config, root.found, clock.now_ms(), kind)
        root.begin()
        self.segments = found.segments
        self.holds = Holds()  #: of scans, which read on in removed segments
        self.transactions = Transactions(directory, found.segments, config, found.producers, clock.now_ms())
        self.published = published_file(directory)
        self._is_published = False  # whether the published file has the current offsets
        self._hides_aborted = False  # whether it may lack stable offsets, see `Transactions.listed_end`
        self._lists_late = False  # since a warning that has told it
        found.segments.begin_at(found.point.generation)
        is_new = found.point.sequence == 0
        end = found.segments.active.next_offset
        is_standalone = isinstance(policy, StandalonePolicy)
        start = found.log_start_offset
        # A standalone log shows what it has; of a replica, the checkpoint says what was on enough others.
        visible = start if is_standalone else max(start, min(root.found.high_watermark or 0, end))
        self.set_marks(LogMarks(start, end, found.synced_end, visible, clock, self.lock))
        self.follow(policy)
        self.set_limits(config.segment_bytes, config.segment_index_bytes)
        self.durability = Durability(self, directory, root.directory, found)
        self.recovery, self.unsynced, self.epochs = (
            self.durability.recovery,
            self.durability.unsynced,
            self.durability.epochs,
        )
        self.mode = mode_of(config, self.segments)
        self.cleaned = Cleaned(directory, found.names, start, end, compacts=config.compacts)
        self._warned_of_old = False
        self.look_back(clock.now_ms())
        self.roll_age = RollAge(rng)
        self.roll_after_ms = self.roll_age.next_ms(config)
        self.rolls = Rolls(self, worker.worker_of(directory.files))
        self.rolls.watch_locked()
        self.leader_epoch = max(found.highest_epoch, 0)
        is_empty = is_new and end == 0 and found.highest_epoch < 0
        was_unclean = not found.was_clean and not is_empty
        self.durability.judge_stop(
            StopEvidence(found.was_clean, is_empty, found.point.suspect, end, found.run),
            is_standalone=is_standalone,
        )
        self.transactions.settle(
            recovery.read_note(directory, found.point, found.names),
            found.synced_end if was_unclean else None,
            found.names,
        )
        if was_unclean:
            if is_standalone and not root.is_kafkas():
                # The epoch rises after an unclean stop. Followers compare epochs: in the same epoch, they could
                # not distinguish new batches from lost ones. Epoch 0 counts as used if its batches and its file
                # may be lost.
                self.leader_epoch = min(max(found.highest_epoch, 0 if end else -1) + 1, INT32_MAX)
            # Else Kafka, or the layer whose policy this is, assigns the epochs (`begin_epoch_locked`). It will lead
            # with its next one, and the log's must not be above that.
            _logger.info(
                "recovered: log=%s log_start_offset=%d log_end_offset=%d scanned_bytes=%d cut_bytes=%d",
                directory.path,
                self.log_start,
                end,
                found.scanned_bytes,
                found.cut_bytes,
            )
        replaced = found.point.suspect or found.cut_bytes > 0 or found.swapped
        if replaced:
            # Files may have been replaced: readers in other processes open them again when the generation rises.
            self.transactions.save_snapshot(end, self.segments.replaced())
        if is_new or replaced:
            if found.point.suspect:
                self.marks.raise_synced(end)
            self.durability.write_locked()
        elif found.kind_is_new:
            self.durability.write_locked(clean=found.was_clean)
        directory.files.untold.discard(directory.path)
        # The clean mark is removed durably before the first write: a crash would leave it on a torn log.
        self.must_unmark = found.point.clean
        with held(self.lock):
            if self.transactions.must_save:
                # A full disk took no index that was built again: readers in other processes wait for it.
                self._hide_aborted_locked()
            self.move_marks_locked()

    def look_back(self, now_ms: int) -> None:
        """Compute the timestamp below which retention deletes records; at open, new settings and retention."""
        keeps = self.config.retention_ms < 0 or not self.config.deletes
        self.old_below_ms = -1 if keeps or self._warned_of_old else now_ms - self.config.retention_ms

    def warn_of_old(self, timestamp_ms: int) -> None:
        """Warn the caller of an append, once, that retention deletes its records. Nothing is written before."""
        if timestamp_ms < 0:
            return  # records without timestamps: the age of their file counts
        self._warned_of_old = True
        self.old_below_ms = -1
        warnings.warn(
            f"{self.name}: records of {timestamp_ms} ms are appended, which are older than "
            f"retention.ms={self.config.retention_ms}: the next round of retention deletes them; set "
            "retention.ms=-1 to keep them",
            RetentionWarning,
            stacklevel=_callers_level(),
        )

    def next_offset_locked(self) -> int:
        """Return the offset of the next append."""
        return self.mode.next_offset(self.end.value)

    def check_open(self) -> None:
        if self.closed:
            raise self.closed_error(f"{self.name}: {self.why_closed}", path=self.path)
        self.check_process()

    def check_process(self) -> None:
        if self.fork != fork_generation():
            raise ForkedError(
                f"{self.name}: the log was opened before a fork; open it in the child with read_only=True, or "
                "for writing once the parent has closed it",
                path=self.path,
            )

    def check_writable(self) -> None:
        if not self.closed and self.failed is None and self.fork == fork_generation():
            return
        self.check_open()
        if self.failed is not None:
            raise StorageFailedError(
                f"{self.name}: an earlier write or flush failed and the log takes no more writes; call close(), "
                f"then Log.open() again ({self.failed})",
                path=self.path,
            ) from self.failed

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Guard a change of several parts: an exception that is no `LogstoreError` leaves the log failed.

        Code that raises a `LogstoreError` has restored the parts before, or has failed the log. Ctrl-C is never
        raised inside: such a change is made in `shielded`.
        """
        self.mutation_depth += 1
        try:
            yield
        except LogstoreError:
            self.mutation_depth -= 1
            raise
        else:
            self.mutation_depth -= 1

    @contextlib.contextmanager
    def storing_locked(self, *, is_append: bool = True) -> Iterator[None]:
        """Fail the log on a storage error inside the block, unless disk space or file descriptors ran out.

        These two errors are raised before anything has changed, so the log can be used on.
        """
        try:
            yield
        except OUT_OF_RESOURCES as error:
            self.counters.disk_full += is_append and isinstance(error, DiskFullError)
            raise
        except StorageError as error:
            raise self.fail_locked(error) from error

    @contextlib.contextmanager
    def storing(self) -> Iterator[None]:
        """Fail the log as `storing_locked` does, of a block that runs without the lock and appends nothing."""
        try:
            yield
        except OUT_OF_RESOURCES:
            raise
        except StorageError as error:
            with held(self.lock):
                raise self.fail_locked(error) from error

    def settle_interrupted_locked(self) -> None:
        """Fail the log if an interrupted change has left it inconsistent."""
        if (self.mutation_depth or self.appending) and self.failed is None:
            self.fail_locked(StorageError(f"{self.name}: an earlier call was ended in the middle of a change"))

    def check_whole_locked(self) -> None:
        """Raise if an interrupted change has left the log inconsistent; opening it again repairs it."""
        if not self.mutation_depth and not self.appending and not self.closed and self.failed is None:
            return
        self.settle_interrupted_locked()
        self.check_writable()

    def check_leads_locked(self) -> None:
        """Raise if clients may not append: the log is a replica whose layer has not said that it leads."""
        if not self.leads:
            raise NotLeaderError(
                f"{self.name}: this replica does not lead, so it takes no appends: append where the leader is, or, "
                "if no node runs here, open one on the store (logstore.replication.Node)"
            )

    def reserve_locked(self, size: int) -> None:
        """Reserve disk space for bytes to write, unless it is reserved already."""
        if size > self.reserved_bytes:
            self.reserved_bytes += self.quota.reserve(size - self.reserved_bytes)

    def spend_locked(self, size: int) -> None:
        """Record that reserved bytes are written."""
        self.reserved_bytes -= size

    def append_locked(self, data: Any, first: int, leader_epoch: int) -> None:
        size = len(data)
        # The same as `storing_locked`, with fewer calls, since each append of several batches comes here.
        try:
            self.reserve_locked(size)
            self.segments.active.append(data, first, leader_epoch)
            self.reserved_bytes -= size
        except OUT_OF_RESOURCES as error:
            self.counters.disk_full += isinstance(error, DiskFullError)
            raise
        except StorageError as error:
            raise self.fail_locked(error) from error

    def fail_locked(self, error: StorageError) -> StorageFailedError:
        """Refuse further writes: the page cache and the disk may differ from now on."""
        if self.failed is None:
            failure = (
                error
                if isinstance(error, StorageFailedError)
                else StorageFailedError(
                    f"{self.name}: {error}; call close(), then Log.open() again", path=self.path
                )
            )
            self.failed = failure
            _logger.error("log failed: log=%s error=%s", self.path, error)
            self.durability.suspect_locked()
        return self.failed

    def move_marks_locked(self, *, has_grown: bool = True, by_append: bool = False) -> None:
        """Move the high watermark and the last stable offset, then publish if anything changed.

        ``by_append``: a write to a segment has woken readers in other processes, which look for its end now.
        """
        if has_grown:
            self._is_published = False
        visible = max(self.wanted_mark(), self.high_watermark.value)
        moved = self.marks.raise_visible(visible, self.transactions.last_stable_offset(visible))
        if moved or not self._is_published:
            self.publish_locked(by_append=by_append)

    def tell_marks_locked(self) -> None:
        """Repeat the steps that an interrupt may have left out: move the marks, publish."""
        self._is_published = False
        self.move_marks_locked(has_grown=False)

    def publish_locked(self, *, by_append: bool = False) -> None:
        # The published end is that of the files: other processes would report a missing memory tail as damage.
        end = self.mode.end_of_files(self.end.value, self.segments.active.next_offset)
        self._is_published = False
        try:
            high_watermark, last_stable = min(self.high_watermark.value, end), self._last_stable_of_files(end)
            publish = self.published.put if by_append else self.published.write
            publish(self.segments.moment(), self.log_start, high_watermark, last_stable, end)
        except OUT_OF_RESOURCES as error:
            # Not fatal: readers in other processes lag until the next append; the log itself is whole.
            _logger.warning("published end not written: log=%s error=%s", self.path, error)
        except StorageError as error:
            raise self.fail_locked(error) from error
        else:
            self._is_published = True

    def _last_stable_of_files(self, end: int) -> int:
        """Return the last stable offset for readers that find aborted transactions in the files alone."""
        return max(self.log_start, min(self.last_stable.value, end, self.transactions.listed_end))

    def list_aborted_locked(self, entry: AbortedTransaction) -> None:
        """List an aborted transaction whose marker is in the active segment; its files may follow later."""
        self.transactions.note_aborted(entry)
        if self.transactions.must_save:
            self._hide_aborted_locked()

    def _hide_aborted_locked(self) -> None:
        self._hides_aborted = self.transactions.listed_end < INT64_MAX
        self.ask_follow_up(rolls=True)

    def save_aborted(self) -> None:
        """Write what the files of aborted transactions lack, without the lock; raises as `Transactions.save`."""
        if self._hides_aborted or self.transactions.must_save:
            with self.storing():
                self.transactions.save(self.lock, self.tell_listed_locked)

    def list_aborted(self) -> None:
        """Do what `save_aborted` does, or, without space or descriptors, have the next append ask for it again."""
        try:
            self.save_aborted()
        except OUT_OF_RESOURCES as error:
            if not self._lists_late:
                _logger.warning("aborted transactions are listed later: log=%s error=%s", self.path, error)
            self._lists_late = True
            with held(self.lock):
                self.transactions.falls_behind()
                self.ask_follow_up(rolls=True)
        else:
            self._lists_late = False

    def leave_unlisted_locked(self, error: DiskFullError) -> None:
        """Go on without space for the list: records are synced, but no recovery point rises over them."""
        self.transactions.falls_behind()
        _logger.warning("aborted transactions not listed: log=%s error=%s", self.path, error)

    def tell_listed_locked(self) -> bool:
        """Show readers in other processes what waited for such files; return whether the log is open."""
        if self.closed or self.failed is not None:
            return False
        if self._hides_aborted and self.transactions.listed_end == INT64_MAX:
            self._hides_aborted = False
            self.publish_locked()
        return True

    def facts_locked(self, recovery_point: int) -> PartitionFacts:
        """Return the offsets that the root's checkpoints may record, with this recovery point."""
        clean = self.cleaned.first_dirty_offset if self.config.compacts else None
        return PartitionFacts(recovery_point, self.log_start, self.high_watermark.value, clean)

    def check_joined(self, segment: Segment) -> None:
        """Raise if a sealed segment has lost its end, in a log whose segments are contiguous.

        Raises:
            DamagedLogError: the missing offsets are named.
        """
        if self.recovery.point.kind is LogKind.CONTIGUOUS:
            check_joint(segment, self.log_start, self.name)

    def skip_to_locked(self, offset: int) -> None:
        """Begin a segment at an offset that the active one cannot reach: relative offsets have 31 bits.

        The log of a leader has such gaps where a compaction deleted the records. Recovery treats a gap between
        segments as a lost tail, unless the gap is below the recovery point. So everything before the gap is
        synced first, and the recovery point is raised above the gap durably.
        """
        with self.storing_locked():
            self.drain_tail_locked()
            self.rolls.finish_locked()
            old = self.segments.active
            self.durability.sync_all_locked(old)
            # Before the gap exists, and synced: a recovery would report the gap as a loss or as damage.
            self.durability.write_synced_locked(recovery_point=old.next_offset, kind=LogKind.GAPPED)
            self.durability.note_start()
            old.index.load()
            self.segments.add(offset)
            try:
                self.directory.sync()
            except TooManyFilesError as error:
                # The new segment is active already and does not begin at the log end: appends would be misplaced.
                raise self.fail_locked(error) from error
            self.segments.seal(old)
            old.set_end(offset)
            self.unsynced.clear()
            self.end.advance(offset)
            self.marks.raise_synced(offset)
            # Explicitly: a list that falls behind in this moment must not leave the point below the gap.
            self.durability.write_synced_locked(recovery_point=offset, segment_base_offset=offset, position=0)
            self.transactions.rolled(offset, self.segments.generation)
            self.rolls.discard_locked()
        self.counters.rolls += 1

    def roll_locked(self, *, begin: Callable[[int], Segment] | None = None) -> None:
        """Seal the active segment and begin the next one.

        A roll switches to the prepared file, see `Rolls`. If there is none, or too many sealed segments are not
        synced, everything is done at once; callers avoid that by `get_ready`. ``begin`` makes the next segment
        from another file.
        """
        with self.storing_locked():
            if begin is None and self.rolls.may_switch_locked():
                self.rolls.switch_locked()
            elif begin is not None and self.rolls.may_adopt_locked():
                self.rolls.adopt_locked(begin)
            else:
                self._roll_at_once_locked(begin or self.segments.add)
        self.roll_after_ms = self.roll_age.next_ms(self.config)
        self.roll_age.begin(self.clock.now_ms())
        self.counters.rolls += 1
        self.rolls.watch_locked()

    def _roll_at_once_locked(self, begin: Callable[[int], object]) -> None:
        self.rolls.finish_locked()
        old = self.segments.active
        self.durability.sync_to_locked(old)
        if self.mode.in_memory:
            # Published before the recovery point rises: readers take a lower published end for that of a copy.
            self.publish_locked()
        self.durability.record_sync_locked(old)
        base = old.next_offset
        self.transactions.sync()
        # The indexes are loaded first: if one cannot be opened, nothing has changed.
        old.index.load()
        # The new file is made first: if there is no space for it, nothing has changed.
        begin(base)
        self.segments.seal(old)
        self.unsynced.add(old)
        if self.mode.head() is None:
            self.transactions.rolled(base, self.segments.generation)
        else:
            self.transactions.rolled(base, self.segments.generation, lambda: self._written_producers_locked(base))
        self.unsynced.names_changed()
        self.rolls.discard_locked()

    def is_ready_locked(self, size: int, span: int, newest: int) -> bool:
        """Return whether an append of these bytes, offsets and newest timestamp waits for no other file operation.

        False only if `make_ready` helps: not for a memory tail, nor for an append of more than one segment.
        """
        if self.closed or self.failed is not None or self.mode.in_memory:
            return True
        if self.must_unmark or not self.published.is_at_hand():
            return False
        if size <= self.config.segment_bytes and self.roll_is_due_locked(size, self.end.value + span - 1, newest):
            # The active file is not asked for: it is not written, and may have lost its descriptor to the next one.
            return self._can_switch_locked()
        return self.segments.active.file.is_at_hand()

    def must_wait_locked(self, size: int, span: int, newest: int) -> bool:
        """Return whether an append has to let `make_ready` prepare the next segment, however often it has before.

        Others may have filled each segment that this one has waited for. The roll at once, under the lock, is
        for logs that have no prepared segment, and for appends of more than one.
        """
        helps = not self.closed and self.failed is None and not self.mode.in_memory
        return (
            helps
            and size <= self.config.segment_bytes
            and self.roll_is_due_locked(size, self.end.value + span - 1, newest)
            and not self.rolls.may_switch_locked()
        )

    def _can_switch_locked(self) -> bool:
        return bool(self.rolls.may_switch_locked() and self.rolls.is_next_at_hand)

    def can_roll_locked(self) -> bool:
        """Return whether a roll waits for no file operation; False only if `get_ready_to_roll` helps."""
        helps = not self.closed and self.failed is None and not self.mode.in_memory
        return not helps or self.segments.active.size == 0 or self._can_switch_locked()

    def make_ready(self) -> None:
        """Do what `is_ready_locked` misses, without the lock; raises as `Rolls.make_ready`."""
        shielded(self._make_ready)

    def _make_ready(self) -> None:
        active = self.segments.active.file
        if self.must_unmark:
            self.durability.unmark()
        elif not (active.is_at_hand() and self.published.is_at_hand()):
            self._take_files(active)
        else:
            self._make_ready_to_roll()

    def _make_ready_to_roll(self) -> None:
        self.rolls.make_ready()
        file = self.rolls.next_file
        if file is not None and not (file.is_at_hand() and self.published.is_at_hand()):
            self._take_files(file)

    def get_ready_to_roll(self) -> None:
        """Do first, without the lock, what a roll of the active segment would wait for, as `get_ready`."""
        for _ in range(READY_ATTEMPTS):
            if self.can_roll_locked():
                break
            self._make_ready_to_roll()

    def _take_files(self, file: File) -> None:
        """Give the files of an append their descriptors, which files of other logs lose for that."""
        try:
            self.published.take_with(file)
        except OUT_OF_RESOURCES:
            raise
        except StorageError as error:
            with held(self.lock):
                if self.closed or self.segments.active.file is not file:
                    return  # rolled, and deleted perhaps
                raise self.fail_locked(error) from error

    def get_ready(self, size: int, span: int, newest: int) -> None:
        """Do first, without the lock, what an append of these bytes, offsets and newest timestamp would wait for.

        Another append may come between: see `must_wait_locked`.
        """
        for _ in range(READY_ATTEMPTS):
            if self.is_ready_locked(size, span, newest):
                break
            self.make_ready()

    def note_growth_locked(self) -> None:
        """Record that an append has grown the active segment: half full, it needs a next one soon."""
        if self.segments.active.size >= self.prepare_bytes:
            self.prepare_bytes = INT64_MAX
            self.ask_follow_up(rolls=True)

    def follow_up(self) -> None:
        """Do what an append has left to do, and ask for what the next ones need; without the lock."""
        # As one step: an interrupt in the middle would lose what the rest was asked for.
        shielded(self._follow_up)

    def _follow_up(self) -> None:
        self.has_work = False
        if self.rolls_have_work:
            self.rolls_have_work = False
            self.rolls.ask()
        if not self.epochs.is_saved:
            self.durability.save_epochs()

    def leave_follow_up(self) -> None:
        """Have the background do what `follow_up` does: for a caller that must wait for no file."""
        self.has_work = self.rolls_have_work = False
        shielded(self.rolls.ask)

    def _written_producers_locked(self, offset: int) -> Producers:
        """Return the producer state at an offset, replayed from the segments, without the memory tail."""
        point = self.recovery.point._replace(generation=self.segments.generation)
        return recovery.replay_producers(
            self.directory, self.segments, self.config, point, offset, self.clock.now_ms()
        )

    def reconfigure(self, config: LogConfig) -> None:
        """Apply new settings from the next append or roll on.

        Raises:
            InvalidSettingError: names every setting that cannot change while the log is open. Nothing has changed.
        """
        self.check_writable()
        with held(self.lock):
            self.check_reconfigure(config)
            self._reconfigure_locked(config)

    def check_reconfigure(self, config: LogConfig) -> None:
        """Raise what `reconfigure` raises for settings that cannot change; change nothing."""
        problems = {
            key: f"cannot change from {getattr(self.config, name)} to {getattr(config, name)} while the log is "
            "open; call close(), then Log.open() with the new setting"
            for name, key in _FIXED.items()
            if getattr(self.config, name) != getattr(config, name)
        }
        if problems:
            raise InvalidSettingError(problems)

    def _reconfigure_locked(self, config: LogConfig) -> None:
        self.cleaned.reconfigure(compacts=config.compacts)
        if not config.compacts:
            self.must_check_keys = False
        elif not self.config.compacts:
            self.must_check_keys = True
        self.config = config
        if not self.mode.in_memory:
            self.mode = mode_of(config, self.segments)
        self.segments.reconfigure(config)
        self.transactions.reconfigure(config)
        self.set_limits(config.segment_bytes, config.segment_index_bytes)
        self.rolls.watch_locked()
        self.roll_after_ms = self.roll_age.next_ms(config)
        self.look_back(self.clock.now_ms())

    def drain_tail_locked(self) -> None:
        """Write the memory tail into the segments."""
        while (head := self.mode.head()) is not None:
            # Each batch is written by itself: an append may have more batches than one segment takes. Batches in a
            # segment already are skipped: a full disk may have stopped an earlier call between two of them.
            for batch in batches_of(head.data):
                first = int.from_bytes(batch[:8], "big")
                if first < self.segments.active.next_offset:
                    continue
                last = first + int.from_bytes(batch[23:27], "big")
                if self.roll_is_due_locked(len(batch), last, head.max_timestamp_ms):
                    self.roll_locked()
                self.append_locked(batch, first, -1)
            if head.aborted is not None:
                self.list_aborted_locked(head.aborted)
            self.mode.drop_head()

    def name_close(self, reason: str, error: type[LogClosedError]) -> None:
        """Give the errors of calls to the closed log their class and reason, if there is a reason."""
        if reason:
            self.why_closed, self.closed_error = reason, error

    def begin_close(self) -> None:
        """Have a running compaction stop: the log is about to be closed."""
        self.closing = True

    def refuse_calls(self) -> None:
        """Take no more calls: the log is closed, or belongs to the parent of this process."""
        self.closed = True

    def close_locked(self) -> None:
        """Wake every waiter and close every file."""
        self.refuse_calls()
        self.rolls.forget_locked()
        self.marks.close()
        self.segments.close()
        self.transactions.close()
        self.durability.close()
        self.published.close()
