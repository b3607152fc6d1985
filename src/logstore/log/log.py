"""One partition's log for its one writer: open, close, roll, truncate, delete, maintain.

`reader` is responsible for reading, `writable` for appending. Owns the lock, the active segment and the order
of updates: bytes, then indexes, then producer state, then the log end offset, then the high watermark, then
the published end. One process writes a log; its methods may be called from any thread.
`docs/durability.md` argues what survives which crash.

Invariants, under the lock: log start <= last stable offset <= high watermark <= log end offset;
recovery point <= synced end <= log end offset; the active segment ends at the log end offset
unless a memory tail holds the rest.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Unpack, overload

from logstore._segment import Segment
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig, Setting
from logstore.config.schema import naming_arguments
from logstore.dropped import hand_over, wait_until
from logstore.errors import (
    LogstoreError,
    OffsetOutOfRangeError,
)
from logstore.io._files import LIBC, Files, fork_generation
from logstore.io._interrupts import held, locked, made, shielded
from logstore.log.append.append import ProducerStamp
from logstore.log.cleanup import retention, truncation
from logstore.log.cleanup.retention import OldestSegment, Retained
from logstore.log.compaction import compaction, plan
from logstore.log.compaction.compaction import Compacted, Throttle
from logstore.log.compaction.plan import Cleanable
from logstore.log.directory.files import Directory, parse_partition
from logstore.log.directory.lock import check_place
from logstore.log.formats.checkpoints import LogKind
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.policies import HighWatermarkPolicy, StandalonePolicy
from logstore.log.read.live_reader import LogReader
from logstore.log.read.reader import REST_S
from logstore.log.read.segment_holds import Hold
from logstore.log.root import PartitionFacts, Root
from logstore.log.space_quota import SpaceQuota, UnlimitedSpace
from logstore.log.state import State
from logstore.log.timer import TICKER
from logstore.log.tools import checkpoint_copy
from logstore.log.tools.checkpoint_copy import Copied, Image
from logstore.log.watermark import Watermark
from logstore.log.writable import Writable
from logstore.metrics import LogMetrics, Taken
from logstore.records import (
    AbortedTransaction,
    Isolation,
)

if TYPE_CHECKING:
    import random

    from logstore.config.generated_keywords import LogSettings

    class OpenOptions(LogSettings, total=False):
        """Keywords of `Log.open`, for its overloads."""

        create: bool
        owner: HighWatermarkPolicy | None
        clock: Clock
        files: Files
        rng: random.Random | None
        quota: SpaceQuota | None
        kind: LogKind
        drop_keyless: bool


INT64_MAX = 2**63 - 1

Path = str | os.PathLike[str]
Settings = LogConfig | Mapping[str, Setting] | None


class Log(Writable):
    """One partition's log, opened for writing.

    >>> with Log.open(tmp / "flights-0") as log:
    ...     log.append([b"AA 1141", (b"UA", b"UA 1545")])
    ...     [record.value for record in log.scan()]
    AppendResult(first_offset=0, last_offset=1, timestamp_ms=-1, duplicate=False)
    [b'AA 1141', b'UA 1545']
    """

    # -- opening and closing ---------------------------------------------------------------------

    @overload
    @classmethod
    def open(
        cls,
        path: Path,
        config: Settings = None,
        *,
        read_only: Literal[False] = False,
        **options: Unpack[OpenOptions],
    ) -> Log: ...

    @overload
    @classmethod
    def open(
        cls, path: Path, config: Settings = None, *, read_only: Literal[True], **options: Unpack[OpenOptions]
    ) -> LogReader: ...

    @classmethod
    @naming_arguments
    def open(
        cls,
        path: Path,
        config: Settings = None,
        *,
        read_only: bool = False,
        create: bool = True,
        owner: HighWatermarkPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
        files: Files = LIBC,
        rng: random.Random | None = None,
        quota: SpaceQuota | None = None,
        kind: LogKind = LogKind.UNRECORDED,
        drop_keyless: bool = False,
        **settings: Unpack[LogSettings],
    ) -> Log | LogReader:
        """Open the log of one partition, a directory ``topic-N``, and lock the root above it.

        ``config`` and ``settings`` are Kafka's topic settings (`LogConfig`). With ``read_only`` another
        process may write the log concurrently; nothing is locked, recovered or written. A log that was not
        closed is recovered: synced records are there, and so are written ones unless the machine went
        down. ``kind`` is the catalogue's record of a log that has lost its own. With
        ``cleanup.policy=compact`` a log that was not compacted before is read up to the first record
        without a key. Compaction would delete that record; ``drop_keyless`` permits it.

        Raises:
            NotALogError: the path is no partition, holds foreign files, or was written by Kafka.
            DirectoryLockedError: another process writes below this root; its pid is named.
            ReadOnlyError: the directory cannot be written.
            DamagedLogError: bytes that were synced are wrong. Nothing was changed.
            ConfigError: settings are unknown or out of range; every one is named.
            PolicyViolationError: compaction would delete records that have no key.
        """
        settled = LogConfig.of(config, **settings)
        directory = Directory(path, files)
        if read_only:
            return LogReader(directory, settled, clock, kind)
        keeper = owner or StandalonePolicy(settled)
        return made(
            lambda: cls(
                directory, settled, keeper, clock, rng, create, quota or UnlimitedSpace(), kind, drop_keyless
            ),
            Log.close,
        )

    def __init__(
        self,
        directory: Directory,
        config: LogConfig,
        owner: HighWatermarkPolicy,
        clock: Clock,
        rng: random.Random | None,
        create: bool,
        quota: SpaceQuota,
        kind: LogKind,
        drop_keyless: bool,
    ) -> None:
        name = parse_partition(directory.path)
        above = Directory(os.path.dirname(directory.path), directory.files)
        check_place(above, directory, create=create)
        root = Root.open_for_writing(above, name, clock)
        try:
            state = State(name, directory, root, config, owner, clock, rng, quota, kind)
        except BaseException:
            root.release(name, None)
            raise
        super().__init__(state, config, clock)
        self._keyed_below = (0, 0)  # of a generation: records below this offset have keys
        if state.synced.value < state.end.value and (config.tail == "memory" or config.visible_after == "flush"):
            # Without this flush, records synced above the recovery point would stay invisible.
            try:
                self.flush()
            except BaseException:
                self.close()
                raise
        if config.compacts and not state.is_keyed and not drop_keyless and self._holds_records():
            try:
                self.check_keys()
            except BaseException:
                self.close()
                raise
            with held(state.lock):
                state.note_clean_locked(state.first_dirty_offset)

    def _holds_records(self) -> bool:
        return self._state.end.value > self._state.log_start

    def close(self, *, reason: str = "") -> None:
        """Flush, save the indexes and snapshots, mark the log as clean and release the directory.

        May be called again. A log that has failed is closed without a flush; opening it recovers. An interrupt
        (Ctrl-C) is raised once the log is closed. Errors of later calls name the ``reason``, such as that the
        topic was deleted.
        """
        self._state.why_closed = reason or self._state.why_closed
        shielded(self._end)

    def _end(self) -> None:
        state = self._state
        if state.closed:
            return
        if state.fork != fork_generation():
            # The parent owns the files and the lock: releasing them here would unlock the parent's log.
            state.closed = True
            return
        if self._ticking:
            TICKER.remove(self)
        for appender in list(self._dropped_appenders):
            with contextlib.suppress(LogstoreError):  # reported by `_release_dropped` of the appender
                appender.close()
        if state.tail is not None and state.failed is None:
            # Reclaiming space for the tail locks other logs: under our lock, it could deadlock with their threads.
            with contextlib.suppress(LogstoreError):
                self.flush()
        # A compaction checks `closing` and stops; still running, it would change files under the next opener.
        state.closing = True
        with held(state.compacting), held(state.segments_mutex):
            self._close(state)

    def _close(self, state: State) -> None:
        facts = None
        try:
            with held(state.lock):
                state.settle_interrupted_locked()
            if state.failed is None:
                with held(state.lock):
                    state.segments.release(state.segments.active)
                state.check_writable()
                self._flusher.sync_to(state.end.value)
                state.sync_names()
                with held(state.lock):
                    if state.synced.value < state.end.value:
                        # Under the lock: after any other flush, another thread could append again.
                        self._flusher.sync_locked()
                    state.mark_clean_locked()
                    facts = PartitionFacts(
                        state.end.value,
                        state.log_start,
                        state.high_watermark.value,
                        state.first_dirty_offset if state.config.compacts else None,
                    )
                    state.closed = True
        finally:
            with held(state.lock):
                state.close_locked()
            state.root.release(self.name, facts)

    def __del__(self) -> None:
        state: State | None = getattr(self, "_state", None)
        if state is None or state.closed or state.fork != fork_generation() or sys.is_finalizing():
            return
        hand_over(self._release_dropped)

    def _release_dropped(self) -> None:
        """Release a dropped log as a killed process would; else its root would stay locked."""
        # An open appender refers to its log, so it is garbage too: its finalizer may run a moment later.
        wait_until(lambda: len(self._dropped_appenders) >= len(self._appenders))
        for appender in list(self._dropped_appenders):
            with contextlib.suppress(LogstoreError):
                appender.close()
        state = self._state
        with held(state.lock):
            state.close_locked()
        state.root.release(self.name, None)
        message = f"log {self.path} was dropped without close(): the next open recovers it"
        warnings.warn(message, ResourceWarning, stacklevel=1, source=self)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._state.closed else f"{self._state.log_start}..{self._state.end.value - 1}"
        return f"<Log {self.name} {state} {self.path!r}>"

    # -- offsets, epochs, metrics ----------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self._state.log_start

    @property
    def log_end_offset(self) -> int:
        return self._state.end.value

    @property
    def next_offset(self) -> int:
        """The offset of the next append: the log end offset, or a position with offset.mode=bytes."""
        with held(self._state.lock):
            return self._state.next_offset_locked()

    @property
    def high_watermark(self) -> int:
        return self._state.high_watermark.value

    @property
    def last_stable_offset(self) -> int:
        return self._state.last_stable.value

    @property
    def synced_end(self) -> int:
        """The offset below which everything is on disk."""
        return self._state.synced.value

    @property
    def was_clean(self) -> bool:
        """Whether the log had been closed cleanly before this open; if not, it may have lost its tail."""
        return self._state.was_clean

    @property
    def leader_epoch(self) -> int:
        """The leader epoch stamped into appended batches."""
        return self._state.leader_epoch

    @property
    def epochs(self) -> Epochs:
        return self._state.epochs

    def facts(self) -> PartitionFacts:
        """Return the offsets that the root's checkpoints may record now; all of them are on disk."""
        state = self._state
        state.check_open()
        with held(state.lock):
            return PartitionFacts(
                state.recovery.point.recovery_point,
                state.log_start,
                state.high_watermark.value,
                state.first_dirty_offset if state.config.compacts else None,
            )

    def metrics(self) -> LogMetrics:
        """Return the log's numbers at this moment."""
        # Before the lock: a thread of the parent may have held it at the fork, and a child would wait forever.
        self._state.check_process()
        with held(self._state.lock):
            return LogMetrics(
                log_start_offset=self._state.log_start,
                high_watermark=self._state.high_watermark.value,
                last_stable_offset=self._state.last_stable.value,
                log_end_offset=self._state.end.value,
                recovery_point=self._state.recovery.point.recovery_point,
                leader_epoch=self._state.leader_epoch,
                segment_count=len(self._state.segments),
                size=self._state.segments.size() + (0 if self._state.tail is None else self._state.tail.size),
                producer_count=len(self._state.transactions.producers),
                open_transactions=len(self._state.transactions.producers.open_transactions),
                was_clean=self._state.was_clean,
                recovered_bytes=self._state.recovered_bytes,
                cut_bytes=self._state.cut_bytes,
                counters=self._state.counters.snapshot(),
            )

    def _marks(self) -> tuple[int, int, int]:
        state = self._state
        return state.log_start, state.high_watermark.value, state.last_stable.value

    def _cuts(self) -> int:
        # In the other order, a truncation that begins between the two reads would show in neither.
        generation = self._state.generation
        return 2 * generation + (self._state.files_changing > 0)

    def _wait_for_rest(self) -> None:
        until_s = time.monotonic() + REST_S
        while self._state.files_changing and time.monotonic() < until_s:
            time.sleep(0.001)
            self._check_open()

    def _hold(self, start: int, end: int) -> Hold:
        return self._state.holds.take(start, end, self._state.cuts, self._segments_now)

    def _is_held(self, hold: Hold) -> bool:
        return not hold.is_lost and hold.cuts == self._state.cuts

    def _segments_now(self) -> tuple[Segment, ...]:
        return self._state.segments.all

    def _is_contiguous(self) -> bool:
        return self._state.recovery.point.kind is LogKind.CONTIGUOUS

    def _is_visible(self, offset: int) -> bool:
        # As inherited, with fewer calls: they are most of the cost of reading one record.
        state = self._state
        if state.closed or state.fork != fork_generation():
            return False
        return state.log_start <= offset < state.high_watermark.value

    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self._state.transactions.aborted_between(start_offset, end_offset)

    def _end_mark(self, isolation: Isolation) -> Watermark:
        return self._state.last_stable if isolation is Isolation.READ_COMMITTED else self._state.high_watermark

    def _check_open(self) -> None:
        self._state.check_open()

    # -- high watermark -----------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to ``offset``: for the log's owner only.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the log end offset.
        """
        self._state.check_open()
        locked(self._state.lock, self._settle_locked, self._advance_locked, offset)

    def _advance_locked(self, offset: int) -> None:
        if offset > self._state.end.value:
            raise OffsetOutOfRangeError(
                f"{self.name}: high watermark {offset} above the log end offset {self._state.end.value}",
                offset=offset,
            )
        if self._state.high_watermark.advance(offset):
            self._state.last_stable.advance(self._state.transactions.last_stable_offset(offset))
            self._state.publish_locked()

    # -- rolling ---------------------------------------------------------------------------------

    def roll(self) -> None:
        """Seal the active segment and begin a new one, unless the active one is empty."""
        self._state.check_writable()
        shielded(self._roll)

    def _roll(self) -> None:
        state = self._state
        with held(state.lock):
            state.check_whole_locked()
            with state.change():
                state.drain_tail_locked()
                if state.segments.active.size:
                    state.roll_locked()

    # -- truncating and deleting -----------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Truncate the log to end at or before ``offset``; return the new log end offset.

        A batch that holds ``offset`` inside is removed whole. Durable on return. The high watermark falls
        with the end, so this is for the log's owner: a follower that found its leader's end.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset.
            StorageFailedError: the truncation failed half way; opening the log again finishes it.
        """
        return shielded(truncation.truncate_to, self._state, offset)

    def delete_before(self, offset: int) -> int:
        """Raise the log start offset to ``offset`` and return it. Whole segments below are deleted at once.

        Readers that are inside a deleted segment finish; later ones get OffsetOutOfRangeError.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark. Nothing is deleted.
            DiskFullError, StorageFailedError: the new start could not be recorded.
        """
        return shielded(truncation.delete_before, self._state, offset, self._flusher.sync_to)

    # -- maintenance -----------------------------------------------------------------------------

    def retain(self, now_ms: int | None = None) -> Retained:
        """Delete old or surplus segments, by ``retention.ms`` and ``retention.bytes``.

        Also seals an active segment that has been idle for ``segment.ms``, and expires idle producers.
        A segment is as old as its newest record; with ``cleanup.policy=compact`` alone none is deleted.
        Deletions are as durable as those of `delete_before`. ``now_ms`` is the log's clock by default.

        Raises:
            DiskFullError, StorageFailedError: as `delete_before`.
        """
        return shielded(retention.retain, self._state, self._flusher.sync_to, now_ms)

    def oldest_segment(self, active_bytes: int = INT64_MAX) -> OldestSegment | None:
        """Return the first segment if it could be deleted whole, else None.

        Nothing at or above the high watermark can be. The active segment counts if it has ``active_bytes``.
        """
        self._state.check_open()
        return retention.oldest(self._state, active_bytes)

    def image(self) -> Image:
        """Capture the log as it is now, for `copy_image`."""
        return shielded(checkpoint_copy.capture, self._state)

    def copy_image(self, taken: Image, target: Directory, *, link: bool = True) -> Copied:
        """Build the log of an image in an empty directory, by hard links where possible.

        Durable on return, except for the directory's own name. The copy is a log that was not closed: it is
        recovered when it is opened.

        Raises:
            ImageMovedError: segments were deleted or swapped meanwhile; take another image.
            StorageError: the copy could not be written.
        """
        return checkpoint_copy.copy(self._state, taken, target, link=link)

    @staticmethod
    def verify_image(taken: Image, target: Directory) -> int:
        """Check every batch of a copy; return their bytes.

        Raises:
            CorruptRecordError: a batch is not as it was written, or records are missing.
        """
        return checkpoint_copy.verify(taken, target)

    @property
    def reserved_bytes(self) -> int:
        """Bytes that the log has reserved and not written yet."""
        return self._state.reserved_bytes

    @property
    def taken(self) -> Taken:
        """Disk and core usage of appends to this log since it was opened."""
        counters = self._state.counters
        return Taken(counters.appends, counters.appended_bytes, self._state.sync_s)

    def cleanable(self, now_ms: int | None = None) -> Cleanable:
        """Return the range that a compaction would clean, how dirty it is, and whether it is due."""
        return compaction.look(self._state, now_ms)

    def compact(
        self,
        *,
        map_bytes: int = compaction.MAP_BYTES,
        now_ms: int | None = None,
        throttle: Throttle | None = None,
    ) -> Compacted:
        """Keep only the newest record of each key in all sealed segments below the last stable offset.

        Runs whether or not it is due (`cleanable`). Offsets and order stay; appends and reads run
        concurrently. Records without a key are deleted, as in Kafka. Memory is that of a map of keys, at
        most ``map_bytes`` (24 bytes a key; a map that is too small takes several rounds), plus a few
        MiB. ``throttle`` is called with each count of bytes read or written, and may block. Durable on
        return.

        Raises:
            CorruptRecordError: a batch is damaged; its position is named, `cleanable` reports it from now
                on, and nothing was lost.
            DiskFullError, StorageError: the new segments could not be written. The old ones are there.
            InvalidSettingError: the log's ``cleanup.policy`` is not compact.
            LogClosedError: the log was closed meanwhile. Finished work is kept.
            StorageFailedError: the swap of segments failed half way; opening the log again finishes it.
        """
        return compaction.compact(
            self._state, self._flusher.sync_to, map_bytes=map_bytes, now_ms=now_ms, throttle=throttle
        )

    @naming_arguments
    def reconfigure(
        self, config: Settings = None, *, drop_keyless: bool = False, **settings: Unpack[LogSettings]
    ) -> None:
        """Apply new settings to the open log; existing segments keep their form.

        A log becomes a compacted one only if each of its records has a key, including those appended
        meanwhile, or with ``drop_keyless``.

        Raises:
            InvalidSettingError: a setting cannot change while the log is open; every one is named, and
                nothing has changed.
            PolicyViolationError: compaction would delete records that have no key. Nothing has changed.
            ConfigError: as `open`.
        """
        shielded(self._reconfigure, LogConfig.of(config, **settings), drop_keyless)

    def _reconfigure(self, settled: LogConfig, drop_keyless: bool) -> None:
        before = self._state.config
        begins = settled.compacts and not before.compacts and not drop_keyless
        if begins:
            self.check_keys()
        self._state.reconfigure(settled)
        self._settle(settled)
        if begins:
            # A record without a key may have been appended before the new settings refused such appends.
            try:
                self.check_keys()
            except BaseException:
                self._state.reconfigure(before)
                self._settle(before)
                raise

    def check_keys(self) -> None:
        """Check that every record appended since the last such call has a key.

        Raises:
            PolicyViolationError: a record has no key, so the log may not be compacted.
        """
        state = self._state
        if self.end_offset() < state.end.value:
            self.flush()  # unsynced records are not visible to `scan`
        generation, end = state.generation, self.end_offset()
        start = max(state.log_start, self._keyed_below[1] if self._keyed_below[0] == generation else 0)
        if start < end:
            plan.refuse_keyless(self.name, self.scan(start, end, on_damage="skip").chunks(), start)
        self._keyed_below = (generation, end)


__all__ = ["Log", "LogReader", "ProducerStamp"]
