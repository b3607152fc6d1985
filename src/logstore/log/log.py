"""One partition's log for its one writer: open, close, append, read.

`read.reader` is responsible for reading and `append` for appending. `replica` has the calls of brokers, and
`maintenance` those of maintenance tasks. `Log` owns the lock, the active segment and the order of updates: bytes,
indexes, producer state, log end offset, high watermark, published end. One process writes a log; any of its
threads may call the methods. `docs/durability.md` explains which records survive which crash.

Invariants, under the lock: log start <= last stable offset <= high watermark <= log end offset;
recovery point <= synced end <= log end offset; the active segment ends at the log end offset
unless a memory tail holds the rest.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Unpack, overload

from logstore._segment import Segment
from logstore.batch._batch import BatchView
from logstore.batch._encode import Encoder
from logstore.batch.moments import Time
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig
from logstore.config.schema import naming_arguments
from logstore.dropped import hand_over, wait_until
from logstore.errors import DiskFullError, LogClosedError, LogstoreError, OffsetOutOfRangeError
from logstore.io._files import LIBC, Files, fork_generation
from logstore.io._interrupts import held, made, shielded
from logstore.log.append.append import LogWriter
from logstore.log.cleanup import truncation
from logstore.log.directory.files import Directory, parse_partition
from logstore.log.directory.lock import check_place
from logstore.log.formats.checkpoints import LogKind
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.maintenance import LogMaintenance, Settings
from logstore.log.marks._watermark import Watermark
from logstore.log.marks.policies import HighWatermarkPolicy, policy_for
from logstore.log.marks.view import View
from logstore.log.read.live_reader import LogElsewhere, LogReader
from logstore.log.read.reader import REST_S, Answer, Readable
from logstore.log.read.segment_holds import Hold
from logstore.log.recovery.recovered import RecoveredLog
from logstore.log.replica import LogReplica
from logstore.log.root import Root
from logstore.log.space_quota import SpaceQuota, UnlimitedSpace
from logstore.log.state import State
from logstore.metrics import LogMetrics
from logstore.records import AbortedTransaction, Ack, AppendResult, Codec, Isolation, ProducerStamp
from logstore.renamed import warn

if TYPE_CHECKING:
    import random

    from logstore.batch._batch import Record
    from logstore.batch.record_types import Records
    from logstore.config.generated.keywords import LogSettings
    from logstore.log.append.appender import Appender

    class OpenOptions(LogSettings, total=False):
        """Keywords of `Log.open`, for its overloads."""

        create: bool
        policy: HighWatermarkPolicy | None
        clock: Clock
        files: Files
        rng: random.Random | None
        quota: SpaceQuota | None
        kind: LogKind
        drop_keyless: bool


_logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]

_UNCOMMITTED, _COMMITTED = Isolation


class Log(Readable):
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
        policy: HighWatermarkPolicy | None = None,
        owner: HighWatermarkPolicy | None = None,  # former name
        clock: Clock = SYSTEM_CLOCK,
        files: Files = LIBC,
        rng: random.Random | None = None,
        quota: SpaceQuota | None = None,
        kind: LogKind = LogKind.UNRECORDED,
        drop_keyless: bool = False,
        **settings: Unpack[LogSettings],
    ) -> Log | LogReader:
        """Open the log of one partition, a directory ``topic-N``, and lock the root above it.

        Blocks on the disk: a program with an event loop calls `recover` in a thread, and attaches the log.

        ``config`` and ``settings`` are Kafka's topic settings (`LogConfig`). With ``read_only`` another
        process may write the log concurrently; nothing is locked, recovered or written. A log that was not
        closed is recovered: synced records are kept, and so are written ones unless the machine went
        down. ``kind`` is the kind of the log in the store's catalogue, for a log that has lost its own record of
        it. With ``cleanup.policy=compact`` a log that was never compacted is searched for records without a
        key. Compaction would delete them, so the first one found is an error, unless ``drop_keyless`` is given.

        Raises:
            NotALogError: the path is no partition, holds foreign files, or (for writing) was written by Kafka.
            DirectoryLockedError: another process writes below this root; its pid is named.
            ReadOnlyError: the directory cannot be written.
            DamagedLogError: bytes that were synced are wrong. Nothing was changed.
            ConfigError: settings are unknown or out of range; every one is named.
            PolicyViolationError: compaction would delete records that have no key.
        """
        if "gate" in settings:
            warn("gate= of Log.open", "quota=", level=4)
            quota = settings.pop("gate")  # type: ignore[typeddict-item]
        settled = LogConfig.of(config, **settings)
        directory = Directory(path, files)
        if read_only:
            return LogReader(directory, settled, clock, kind)
        if owner is not None:
            former = "Log.open(owner=...) is Log.open(policy=...) now; the next release deletes the old name"
            warnings.warn(former, DeprecationWarning, 3)
            policy = owner
        return made(
            lambda: cls._recovered(
                directory, settled, policy, clock, rng, create, quota, kind, drop_keyless
            ).attach(),
            Log.close,
        )

    @classmethod
    @naming_arguments
    def recover(
        cls,
        path: Path,
        config: Settings = None,
        *,
        create: bool = True,
        policy: HighWatermarkPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
        files: Files = LIBC,
        rng: random.Random | None = None,
        quota: SpaceQuota | None = None,
        kind: LogKind = LogKind.UNRECORDED,
        drop_keyless: bool = False,
        **settings: Unpack[LogSettings],
    ) -> RecoveredLog[Log]:
        """Do the part of `open` that takes file operations and time, in any thread; `RecoveredLog.attach` the rest.

        The arguments are those of `open` for writing. On return the root is locked, a torn tail is truncated, and
        the marks are set. Records that were synced before are on disk; others are after the next flush, as after
        `open`. Blocks on the disk; after a crash it reads what may not be on disk.

        Raises:
            NotALogError, DirectoryLockedError, ReadOnlyError, DamagedLogError, ConfigError, PolicyViolationError:
                as `open`. The root is not locked then.

        >>> with Log.recover(tmp / "flights-0") as recovered:
        ...     log = recovered.attach()
        >>> log.close()
        """
        settled = LogConfig.of(config, **settings)
        directory = Directory(path, files)
        return made(
            lambda: cls._recovered(directory, settled, policy, clock, rng, create, quota, kind, drop_keyless),
            RecoveredLog.close,
        )

    @classmethod
    def _recovered(
        cls,
        directory: Directory,
        config: LogConfig,
        policy: HighWatermarkPolicy | None,
        clock: Clock,
        rng: random.Random | None,
        create: bool,
        quota: SpaceQuota | None,
        kind: LogKind,
        drop_keyless: bool,
    ) -> RecoveredLog[Log]:
        chosen = policy or policy_for(config)
        space = quota or UnlimitedSpace()
        return RecoveredLog(cls(directory, config, chosen, clock, rng, create, space, kind, drop_keyless))

    def __init__(
        self,
        directory: Directory,
        config: LogConfig,
        policy: HighWatermarkPolicy,
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
            state = State(name, directory, root, config, policy, clock, rng, quota, kind)
        except BaseException:
            root.release(name, None)
            raise
        self.name = name
        self.path = directory.path
        self._config = config
        self._clock = clock
        self._state = state
        self._lock = state.lock
        self._writer = LogWriter(state)
        self._flusher = self._writer.flusher
        self._appenders: set[int] = set()  #: the ids of appenders that are not closed
        self._dropped_appenders: set[Appender] = set()  #: those that were dropped; their finalizers add them
        end = state.end.value
        try:
            if state.synced.value < end and (config.tail == "memory" or config.visible_after == "flush"):
                # Without this flush, records above the recovery point would stay invisible, even synced ones.
                self.flush()
            if config.compacts and not state.cleaned.is_keyed and not drop_keyless and end > state.log_start:
                self.maintenance.check_keys()
                with held(state.lock):
                    state.cleaned.note(state.cleaned.first_dirty_offset)
        except BaseException:
            self.close()
            raise

    def close(self, *, reason: str = "", error: type[LogClosedError] = LogClosedError) -> None:
        """Flush, save the indexes and snapshots, mark the log as clean and release the directory.

        May be called again. A log that has failed is closed without a flush; opening it recovers. If the disk has
        no space to finish the last roll or for the mark, the records are flushed all the same: the next open
        recovers. An interrupt (Ctrl-C) is raised once the log is closed. Errors of later calls name the ``reason``,
        such as that the topic was deleted, and are of the class ``error``.
        """
        shielded(self._end, reason, error)

    def _end(self, reason: str, error: type[LogClosedError]) -> None:
        state = self._state
        state.name_close(reason, error)
        if state.closed:
            return
        if state.fork != fork_generation():
            # The parent owns the files and the lock: releasing them here would unlock the parent's log.
            state.refuse_calls()
            return
        self._flusher.end_ticks()
        self._close_dropped()
        if state.mode.in_memory and state.failed is None:
            # Space for the tail is reclaimed under the locks of other logs: with this log's lock held, that could
            # deadlock with their threads.
            with contextlib.suppress(LogstoreError):
                self.flush()
        # A running compaction stops when it sees `closing`; else it would change files of the next opener, as
        # would a deletion.
        state.begin_close()
        with held(state.compacting), held(state.deleting), held(state.segments_mutex):
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
                full: DiskFullError | None = None
                try:
                    state.rolls.finish_held()
                except DiskFullError as error:
                    full = error
                self._flusher.sync_to(state.end.value)
                state.unsynced.sync_names()
                with held(state.lock):
                    # Again under the lock: before, another thread could append, and roll.
                    if full is None:
                        try:
                            with state.storing_locked(is_append=False):
                                state.rolls.finish_locked()
                                state.rolls.discard_locked()
                        except DiskFullError as error:
                            full = error
                    if state.synced.value < state.end.value:
                        self._flusher.sync_locked()
                    if full is None:
                        try:
                            state.durability.mark_clean_locked()
                            state.tell_listed_locked()
                            facts = state.facts_locked(state.end.value)
                        except DiskFullError as error:
                            full = error
                    if full is not None:
                        # Every record is on disk, under a name that the next open knows.
                        _logger.warning("closed without the mark of a clean stop: log=%s error=%s", self.path, full)
                    state.refuse_calls()
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
        """Release a dropped log without a flush, as if its process was killed; else its root would stay locked."""
        # An open appender refers to its log, so it is garbage too: its finalizer may run a moment later.
        wait_until(lambda: len(self._dropped_appenders) >= len(self._appenders))
        self._close_dropped()
        state = self._state
        # The maintenance thread may be making or naming the next file: it must be done before another one may open
        # the log, whose file of that name it would empty.
        with held(state.segments_mutex), held(state.lock):
            state.close_locked()
        state.root.release(self.name, None)
        message = f"log {self.path} was dropped without close(): the next open recovers it"
        warnings.warn(message, ResourceWarning, stacklevel=1, source=self)

    def _close_dropped(self) -> None:
        for appender in list(self._dropped_appenders):
            with contextlib.suppress(LogstoreError):  # reported by `_release_dropped` of the appender
                appender.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._state.closed else f"{self._state.log_start}..{self._state.end.value - 1}"
        return f"<Log {self.name} {state} {self.path!r}>"

    # -- calls of brokers and of maintenance -------------------------------------------------------

    @property
    def replica(self) -> LogReplica:
        """The calls of brokers, replicas and transaction coordinators."""
        return LogReplica(self, self._writer)

    @property
    def maintenance(self) -> LogMaintenance:
        """The calls of maintenance: rolling, retention, compaction, checkpoints, settings."""
        return LogMaintenance(self, self._writer)

    # -- appending, flushing, deleting -----------------------------------------------------------

    def append(
        self,
        records: Records,
        *,
        timestamp: Time | None = None,
        codec: Codec | None = None,
        producer: ProducerStamp | None = None,
        ack: Ack | str | None = None,
        expect: int | None = None,
    ) -> AppendResult:
        """Write records at the log end offset, in one batch unless they are too large for one.

        ``records`` is a list of values, of (key, value), (key, value, timestamp) or (key, value, timestamp,
        headers), or of `Record`s. It can also be an Arrow array of values, an Arrow table with columns key, value,
        timestamp, headers, or a numpy array of fixed-size values. Keys and values are buffers or None. Records
        without a timestamp (ms or an aware datetime) get ``timestamp``, or the time of the append. ``producer``
        makes the append idempotent; the records must then fit one batch. With ``expect`` the records are written
        only if the first one gets this offset.

        With ``ack="written"`` the records are in the page cache on return and survive the process;
        with ``"synced"`` they are on disk and survive power loss. The default is ``logstore.ack``. With
        ``logstore.tail=memory``, written records are in memory until a flush, and do not survive the process.

        Returns the offsets of the records. For a sequence already written, these are the offsets of the first
        append, with ``duplicate=True``. Without records nothing is written, and ``last_offset`` is one below
        ``first_offset``.

        Raises:
            RecordTypeError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: a record breaks a
                rule of the log. Nothing is written.
            OutOfOrderSequenceError, DuplicateSequenceError, ProducerFencedError,
                InvalidTransactionError: ``producer`` does not fit. Nothing is written.
            ExpectedOffsetError: the log does not end at ``expect``. Nothing is written.
            DiskFullError, TooManyFilesError: there is no space, or no file can be opened. Nothing is written;
                retry once there is space.
            NotSyncedError: with ``"synced"``, the records are written, but no space or file was left to sync them.
            AppendTruncatedError: with ``"synced"``, a truncation has removed the records meanwhile.
            StorageFailedError: this or an earlier write or flush failed; the log takes no more writes.
        """
        is_plain = timestamp is None and codec is None and producer is None and expect is None
        if is_plain and type(records) is list and (ack is None or ack is Ack.SYNCED or ack == "synced"):
            result = self._state.append(records, self._writer, ack is not None)
            if result is not None:
                return result
        return self._writer.append(records, timestamp, codec, producer, ack, expect)

    def _append_encoded(
        self, encoder: Encoder, *, producer: ProducerStamp | None = None, ack: Ack | str | None = None
    ) -> AppendResult:
        """Append as `LogReplica.append_encoded`; an accumulator needs no `LogReplica` for each batch."""
        result = self._state._append_gathered(encoder, producer, ack, self._writer)
        if result is not None:
            return result
        self._state.check_writable()
        if encoder.appended_at >= 0:
            return self._writer.acknowledge_again(encoder, ack)
        return self._writer.append_encoded(encoder, producer, self._clock.now_ms(), ack)

    def _append_encoded_turn(
        self, encoders: list[Encoder], producers: list[ProducerStamp | None]
    ) -> list[AppendResult]:
        """Append the batches of several encoders in one write, as many of the first as are plain, perhaps none."""
        return self._state._append_gathered_turn(encoders, producers, self._writer)

    def _loss_of(self, first_offset: int, last_offset: int, cuts: int) -> LogstoreError | None:
        """Return the error of records that a truncation has removed since; ``cuts``: those of their encoder."""
        return self._state._loss_of(first_offset, last_offset, cuts)

    def _holds_batch(self, offset: int, producer: ProducerStamp) -> bool:
        """Return whether a batch of that producer and sequence begins at an offset, visible or not."""
        try:
            region = self.replica.fetch_region(offset, max_bytes=1, to_log_end=True).region
        except OffsetOutOfRangeError:
            return False
        if region is None:
            return False
        try:
            found = BatchView(region.read())
        finally:
            region.close()
        return (found.base_offset, found.producer_id, found.producer_epoch, found.base_sequence) == (
            offset,
            *producer[:3],
        )

    def appender(
        self,
        *,
        linger_ms: int | None = None,
        batch_bytes: int | None = None,
        codec: Codec | None = None,
        ack: Ack | str | None = None,
    ) -> Appender:
        """Open a buffered appender for single records; see `Appender`.

        Raises:
            InvalidSettingError: ``linger_ms`` or ``batch_bytes`` is outside the range of the setting of that name.
        """
        self._state.check_writable()
        config = self._config
        if linger_ms is not None:
            config = config.replace(linger_ms=linger_ms)
        if batch_bytes is not None:
            config = config.replace(batch_bytes=batch_bytes)
        from logstore.log.append.appender import Appender  # here: its imports take 3 ms, and few programs use it

        return Appender(
            self,
            linger_ms=config.linger_ms,
            batch_bytes=config.batch_bytes,
            codec=codec,
            ack=None if ack is None else Ack(ack),
            clock=self._clock,
        )

    def flush(self) -> None:
        """Make everything that was appended before this call durable. Blocks on the disk.

        Raises:
            StorageFailedError: the sync failed. It is not retried: the log takes no more writes,
                and records synced before are safe.
            DiskFullError: there is no space to write a memory tail. Nothing is lost: free space and flush again.
            TooManyFilesError: no file could be opened to be synced. Nothing is lost: flush again.
        """
        self._state._flush(self._writer)

    def delete_before(self, offset: int) -> int:
        """Raise the log start offset to ``offset``, unless it is higher already; return the log start offset.

        Segments that are wholly below it are deleted at once. Readers that are inside a deleted segment finish;
        later reads get OffsetOutOfRangeError.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark. Nothing is deleted.
            DiskFullError, StorageFailedError: the new start could not be recorded.
        """
        return shielded(truncation.delete_before, self._state, offset, self._flusher.sync_to)

    def record_at(self, offset: int, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED) -> Record | None:
        """Return the record at one offset; see `Readable.record_at`. Nearly always this is one compiled call."""
        committed = isolation is not _UNCOMMITTED and Isolation(isolation) is _COMMITTED
        found = self._state.record_at(offset, committed, self.name)
        if found is None:
            self._check_open()
            found = self._record_slowly(offset, Isolation(isolation))
        return found

    # -- offsets, metrics ------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self._state.log_start

    @property
    def log_end_offset(self) -> int:
        return self._state.end.value

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

    def _epochs(self) -> Epochs:
        return self._state.epochs.table

    def metrics(self) -> LogMetrics:
        """Return the log's numbers at this moment."""
        # Before the lock: if a thread of the parent held it at the fork, a child would wait for it for ever.
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
                size=self._state.segments.size() + self._state.mode.size,
                producer_count=len(self._state.transactions.producers),
                open_transactions=len(self._state.transactions.producers.open_transactions),
                was_clean=self._state.durability.was_clean,
                recovered_bytes=self._state.durability.recovered_bytes,
                cut_bytes=self._state.durability.cut_bytes,
                counters=self._state.counters.snapshot(),
            )

    # -- hooks of `Readable` ----------------------------------------------------------------------

    def _view(self) -> View:
        return self._state.view()

    def _is_as_in(self, view: View) -> bool:
        return self._state.segments.moment() == view.generation

    def _look_again(self, look: Callable[..., Answer], arguments: tuple[object, ...]) -> Answer:
        """Look while no truncation, swap or deletion can begin: those in a row would disturb each look."""
        with held(self._state.segments_mutex):
            return self._look(look, self._view(), arguments)

    def _segments_now(self) -> tuple[Segment, ...]:
        return self._state.segments.all

    def _generation(self) -> int:
        return self._state.segments.moment()

    def _wait_for_rest(self) -> None:
        until_s = time.monotonic() + REST_S
        while self._state.segments.changing and time.monotonic() < until_s:
            time.sleep(0.001)
            self._check_open()

    def _hold(self, start: int, end: int) -> Hold:
        state = self._state
        return state.holds.take(
            start, end, state.segments.cuts, self._segments_now, state.transactions.aborted_between
        )

    def _is_held(self, hold: Hold) -> bool:
        return not hold.is_lost and hold.cuts == self._state.segments.cuts

    def _is_contiguous(self) -> bool:
        return self._state.recovery.point.kind is LogKind.CONTIGUOUS

    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self._state.transactions.aborted_between(start_offset, end_offset)

    def _end_mark(self, isolation: Isolation) -> Watermark:
        return self._state.last_stable if isolation is Isolation.READ_COMMITTED else self._state.high_watermark

    def _live_end(self, isolation: Isolation) -> Watermark:
        return self._end_mark(isolation)

    def _check_open(self) -> None:
        self._state.check_open()

    def _settle(self, config: LogConfig) -> None:
        """Use other settings from now on: `LogMaintenance.reconfigure` has applied them."""
        self._config = config

    def _elsewhere(self) -> object:
        return LogElsewhere.of(self._state.directory, self._config, self._state.recovery.point.kind)
