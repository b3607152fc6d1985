"""One partition's log for its one writer: append, flush, roll, truncate, delete.

Owns the lock, the active segment and the order in which things are made true: bytes, then indexes,
then producer state, then the log end offset, then the high watermark, then the published end. One
process writes a log; its methods may be called from any thread. `docs/durability.md` holds the
argument of what survives which crash.

Invariants, under the lock: log start <= last stable offset <= high watermark <= log end offset;
recovery point <= synced end <= log end offset; the active segment ends at the log end offset
unless a memory tail holds the rest.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, overload

from logstore._batch import stamp_run
from logstore._encode import Encoder, encode_marker, timestamp_of
from logstore._files import LIBC, Files, fork_generation
from logstore._segment import Segment
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config import LogConfig, Setting
from logstore.errors import (
    DiskFullError,
    FencedLeaderEpochError,
    ForkedError,
    InvalidRecordError,
    LogClosedError,
    LogstoreError,
    NotALogError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    StorageError,
    StorageFailedError,
    UnexpectedOffsetError,
)
from logstore.log import admission, files, recovery
from logstore.log.admission import Admitted
from logstore.log.appender import Appender
from logstore.log.checkpoint import Published
from logstore.log.commit import GroupCommit
from logstore.log.epochs import Epochs
from logstore.log.files import Directory
from logstore.log.owner import Owner, SoloOwner
from logstore.log.producers import ProducedBatch
from logstore.log.promises import PublishedFile, RecoveryFile
from logstore.log.reader import Readable, Time
from logstore.log.readonly import LogReader
from logstore.log.root import PartitionFacts, Root
from logstore.log.tail import MemoryTail
from logstore.log.ticker import TICKER
from logstore.log.transactions import Transactions
from logstore.log.watermark import Watermark
from logstore.metrics import Counters, LogMetrics
from logstore.records import (
    AbortedTransaction,
    Ack,
    AppendResult,
    Codec,
    Isolation,
    Marker,
    Origin,
    TimestampType,
    TopicPartition,
)

_logger = logging.getLogger(__name__)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ProducerStamp(NamedTuple):
    """Who writes a batch: makes the append idempotent, and transactional if it says so."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False


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
        cls, path: str | os.PathLike[str], config: LogConfig | Mapping[str, Setting] | None = None, *,
        read_only: Literal[False] = False, create: bool = True, owner: Owner | None = None,
        clock: Clock = SYSTEM_CLOCK, files: Files = LIBC, rng: random.Random | None = None, **settings: Setting,
    ) -> Log: ...

    @overload
    @classmethod
    def open(
        cls, path: str | os.PathLike[str], config: LogConfig | Mapping[str, Setting] | None = None, *,
        read_only: Literal[True], create: bool = True, owner: Owner | None = None,
        clock: Clock = SYSTEM_CLOCK, files: Files = LIBC, rng: random.Random | None = None, **settings: Setting,
    ) -> LogReader: ...

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], config: LogConfig | Mapping[str, Setting] | None = None, *,
        read_only: bool = False, create: bool = True, owner: Owner | None = None, clock: Clock = SYSTEM_CLOCK,
        files: Files = LIBC, rng: random.Random | None = None, **settings: Setting,
    ) -> Log | LogReader:
        """Open the log of one partition, a directory ``topic-N``, and lock the root above it.

        ``config`` and ``settings`` are Kafka's topic settings (`LogConfig`). With ``read_only`` the
        log may be written by another process at the same time; nothing is locked, recovered or
        written. A log that was not closed is recovered: what was synced is there, and so is what was
        written unless the machine went down.

        Raises:
            NotALogError: the path is no partition, holds foreign files, or was written by Kafka.
            DirectoryLockedError: another process writes below this root; its pid is named.
            ReadOnlyError: the directory cannot be written.
            DamagedLogError: bytes that were synced are wrong. Nothing was changed.
            ConfigError: settings are unknown or out of range; every one is named.
        """
        settled = LogConfig.of(config, **settings)
        directory = Directory(path, files)
        if read_only:
            return LogReader(directory, settled, clock)
        return cls(directory, settled, owner or SoloOwner(settled), clock, rng or random.Random(), create)

    def __init__(
        self, directory: Directory, config: LogConfig, owner: Owner, clock: Clock, rng: random.Random, create: bool
    ) -> None:
        self.name: TopicPartition = files.parse_partition(directory.path)
        self.config = config
        self.path = directory.path
        self._directory = directory
        self._owner = owner
        self._clock = clock
        self._rng = rng
        self._append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._lock = threading.Lock()
        self._fork = fork_generation()
        self._failed: StorageFailedError | None = None
        self._closed = False
        self._commit = GroupCommit()
        self._encoders: list[Encoder] = []
        self._counters = Counters()
        root = Directory(os.path.dirname(directory.path), directory.files)
        _check_place(root, directory, create)
        self._root = Root.open_for_writing(root, self.name, clock)
        try:
            self._start(root)
        except BaseException:
            self._root.release(self.name, None)
            raise

    def _start(self, root: Directory) -> None:
        directory, config, clock = self._directory, self.config, self._clock
        if not directory.exists():
            directory.create()
        found = recovery.recover(directory, config, self._root.found, clock.now_ms())
        self._segments = found.segments
        self._transactions = Transactions(directory, found.segments, config, found.producers)
        self._epochs = found.epochs
        self._recovery = RecoveryFile(directory, found.point)
        self._published = PublishedFile(directory)
        self._was_clean = found.was_clean
        self._names_dirty = not found.was_clean
        self._recovered_bytes, self._cut_bytes = found.scanned_bytes, found.cut_bytes
        self._generation = found.point.generation
        is_new = found.point.sequence == 0
        end = found.segments.active.next_offset
        self._log_start = found.log_start_offset
        self._end = Watermark(end, clock=clock)
        self._synced = Watermark(found.synced_end, clock=clock)
        self._high_watermark = Watermark(self._log_start, clock=clock)
        self._last_stable = Watermark(self._log_start, clock=clock)
        self._unsynced: list[Segment] = [s for s in found.segments.all[:-1] if s.next_offset > found.synced_end]
        if end > found.synced_end:
            # Written by a process that is gone: this one does not know what of it reached the disk.
            for segment in (*self._unsynced, found.segments.active):
                segment.file.mark_dirty()
        self._promises_durable = False
        self._tail = MemoryTail() if config.tail == "memory" else None
        self._unflushed_records = 0
        self._last_flush_s = clock.monotonic_s()
        self._roll_jitter_ms = self._new_jitter()
        latest = found.epochs.latest
        self._leader_epoch = 0 if latest is None else latest.epoch
        if not found.was_clean and not (is_new and end == 0):
            if not self._transactions.is_idle:
                self._transactions.rebuild_from(found.synced_end)
            # What came after an unclean stop is told from what came before: followers compare epochs.
            self._leader_epoch += 0 if latest is None else 1
            _logger.info(
                "recovered: log=%s log_start_offset=%d log_end_offset=%d scanned_bytes=%d cut_bytes=%d",
                directory.path, self._log_start, end, found.scanned_bytes, found.cut_bytes)
        suspect, self._suspect = found.point.suspect, False
        if is_new or suspect:
            if suspect:
                self._synced.advance(end)
            self._recovery.write(self._point_now(clean=False))
        # A clean mark goes before the first write, durably: it must not come back over a torn log.
        self._must_unmark = found.point.clean
        with self._lock:
            self._move_marks_locked()
        self._ticking = config.flush_ms < INT64_MAX
        if self._ticking:
            TICKER.add(self, clock)

    def close(self) -> None:
        """Flush, save the indexes and snapshots, mark the log as clean and let go of the directory.

        May be called again. A log that has failed is closed without a flush; opening it recovers.
        """
        if self._closed:
            return
        if self._fork != fork_generation():
            # The parent owns the files and the lock; the child only forgets them.
            self._closed = True
            return
        if self._ticking:
            TICKER.remove(self)
        facts = None
        try:
            if self._failed is None:
                self.flush()
                if self._names_dirty:
                    self._sync_names()
                with self._lock:
                    facts = self._close_cleanly_locked()
        finally:
            with self._lock:
                self._closed = True
                for mark in (self._end, self._synced, self._high_watermark, self._last_stable):
                    mark.close()
                self._segments.close()
                self._transactions.close()
                self._recovery.close()
                self._published.close()
            self._root.release(self.name, facts)

    def _close_cleanly_locked(self) -> PartitionFacts:
        end = self._end.value
        self._segments.save_indexes(self._segments.active, complete=True)
        self._transactions.save_snapshot(end, self._generation)
        point = self._point_now(clean=True)
        if point != self._recovery.point._replace(sequence=point.sequence):
            self._recovery.write(point)
            # The clean mark is a promise about the whole log, so it has to outlive a power cut.
            self._recovery.sync()
        return PartitionFacts(end, self._log_start, self._high_watermark.value)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._log_start}..{self._end.value - 1}"
        return f"<Log {self.name} {state} {self.path!r}>"

    # -- where the log stands --------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self._log_start

    @property
    def log_end_offset(self) -> int:
        return self._end.value

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.value

    @property
    def last_stable_offset(self) -> int:
        return self._last_stable.value

    @property
    def synced_end(self) -> int:
        """The offset below which everything is on disk."""
        return self._synced.value

    @property
    def was_clean(self) -> bool:
        """Whether the log had been closed cleanly before this open; if not, it may have lost its tail."""
        return self._was_clean

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches are stamped with."""
        return self._leader_epoch

    @property
    def epochs(self) -> Epochs:
        """Which epoch wrote which offsets."""
        return self._epochs

    def metrics(self) -> LogMetrics:
        """The log's numbers at this moment."""
        with self._lock:
            return LogMetrics(
                log_start_offset=self._log_start,
                high_watermark=self._high_watermark.value,
                last_stable_offset=self._last_stable.value,
                log_end_offset=self._end.value,
                recovery_point=self._recovery.point.recovery_point,
                leader_epoch=self._leader_epoch,
                segment_count=len(self._segments),
                size=self._segments.size() + (0 if self._tail is None else self._tail.size),
                producer_count=len(self._transactions.producers),
                open_transactions=len(self._transactions.producers.open_transactions),
                was_clean=self._was_clean,
                recovered_bytes=self._recovered_bytes,
                cut_bytes=self._cut_bytes,
                counters=Counters(**vars(self._counters)),
            )

    def _segments_now(self) -> tuple[Segment, ...]:
        return self._segments.all

    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self._transactions.aborted_between(start_offset, end_offset)

    def _end_mark(self, isolation: Isolation) -> Watermark:
        return self._last_stable if isolation is Isolation.READ_COMMITTED else self._high_watermark

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError(f"{self.name}: the log is closed; open it again", path=self.path)
        if self._fork != fork_generation():
            raise ForkedError(
                f"{self.name}: the log was opened before a fork; open it in the child with read_only=True, or "
                "for writing once the parent has closed it", path=self.path)

    def _check_writable(self) -> None:
        self._check_open()
        if self._failed is not None:
            raise StorageFailedError(
                f"{self.name}: an earlier write or flush failed and the log takes no more writes; close it and "
                f"open it again ({self._failed})", path=self.path) from self._failed

    # -- appending -------------------------------------------------------------------------------

    def append(
        self, records: Any, *, timestamp: Time | None = None, codec: Codec | None = None,
        producer: ProducerStamp | None = None, ack: Ack | str | None = None,
    ) -> AppendResult:
        """Write records at the log end offset, in one batch unless they are too large for one.

        ``records`` is a list of values, of (key, value), (key, value, timestamp) or (key, value,
        timestamp, headers), or of `Record`s; an Arrow array of values or an Arrow table with columns
        key, value, timestamp, headers; or a numpy array of fixed-size values. Keys and values are
        buffers or None. Records without a timestamp (ms or an aware datetime) get ``timestamp``, or
        the time of the append. ``producer`` makes the append idempotent; it must fit one batch.

        With ``ack="written"`` the records are in the page cache on return and survive the process;
        with ``"synced"`` they are on disk and survive power loss. The default is ``logstore.ack``.

        Returns the offsets given; for a sequence already written, the first ones and
        ``duplicate=True``.

        Raises:
            RecordTypeError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the
                records cannot be written. Nothing is.
            OutOfOrderSequenceError, DuplicateSequenceError, ProducerFencedError,
                InvalidTransactionError: ``producer`` does not fit. Nothing is written.
            DiskFullError: there is no room. Nothing is written; try again when there is.
            StorageFailedError: this or an earlier write or flush failed; the log takes no more writes.
        """
        self._check_writable()
        config = self.config
        now = self._clock.now_ms()
        stamp = producer or _NO_PRODUCER
        chosen = config.codec if config.codec is not None else (codec or Codec.NONE)
        try:
            encoder = self._encoders.pop()
        except IndexError:
            encoder = Encoder()
        try:
            encoder.begin(
                timestamp_ms=now if timestamp is None or self._append_time else timestamp_of(timestamp), codec=chosen,
                level=config.level_of(chosen), max_batch_bytes=min(config.max_message_bytes, config.segment_bytes),
                append_time=self._append_time, producer_id=stamp.producer_id, producer_epoch=stamp.producer_epoch,
                base_sequence=stamp.base_sequence, transactional=stamp.transactional,
            )
            add_records(encoder, records)
            encoder.finish()
            return self._append_encoded(encoder, None if producer is None else _produced(producer, encoder), now, ack)
        finally:
            self._encoders.append(encoder)

    def append_encoded(self, encoder: Encoder, *, ack: Ack | str | None = None) -> AppendResult:
        """Write the finished batches of an encoder; raises as `append`. For `Appender`."""
        self._check_writable()
        return self._append_encoded(encoder, None, self._clock.now_ms(), ack)

    def _append_encoded(
        self, encoder: Encoder, produced: ProducedBatch | None, now: int, ack: Ack | str | None
    ) -> AppendResult:
        count = encoder.record_count
        if count == 0:
            raise InvalidRecordError("there are no records to append")
        admission.check_keys(encoder.null_keys, self.config)
        append_time = self._append_time
        if not append_time:
            admission.check_timestamps(encoder.min_timestamp_ms, encoder.max_timestamp_ms, self.config, now)
        with self._lock:
            result = self._write_locked(
                encoder, count, count, encoder.batch_count, encoder.max_timestamp_ms, produced, Origin.CLIENT, now)
        self._acknowledge(result, ack)
        if append_time and not result.duplicate:
            return result._replace(timestamp_ms=encoder.max_timestamp_ms)
        return result

    def append_batch(
        self, batch: Any, *, ack: Ack | str | None = None, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Write one record batch at the log end offset.

        ``batch`` is a whole v2 record batch. Base offset and leader epoch are set in a copy of
        its header; its compressed records are kept as they are, unless the log imposes a codec. With
        ``origin=Origin.REPLICATION`` its own offsets and epoch are kept.

        With ``ack="written"`` the batch is in the page cache on return, with ``"synced"`` on disk.
        It is visible to consumers only below the high watermark.

        Returns the offsets given; for a sequence already written, the first ones and ``duplicate=True``.

        Raises:
            CorruptRecordError: length, magic or CRC-32C disagree with the bytes. Nothing is written.
            InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the batch breaks a rule of
                the log. Nothing is written.
            OutOfOrderSequenceError: a sequence is missing before this one. Nothing is written.
            ProducerFencedError: a newer producer epoch has written here. Nothing is written.
            UnexpectedOffsetError: a replicated batch begins below the log end offset.
            DiskFullError: there is no room. Nothing is written.
            StorageFailedError: this or an earlier write or flush failed; the log takes no more writes.
        """
        self._check_writable()
        now = self._clock.now_ms()
        admitted = admission.admit(batch, self.config, origin, now)
        with self._lock:
            result = self._write_locked(
                admitted.data, admitted.span, admitted.record_count, 1, admitted.max_timestamp_ms,
                admitted.produced, origin, now, admitted)
        self._acknowledge(result, ack)
        if self._append_time and not result.duplicate:
            return result._replace(timestamp_ms=now)
        return result

    def append_control(
        self, marker: Marker, *, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0,
        ack: Ack | str | None = None,
    ) -> AppendResult:
        """Write a transaction marker: the producer's open transaction here is committed or aborted.

        Raises:
            ProducerFencedError, CoordinatorFencedError: a newer epoch has written here.
            DiskFullError, StorageFailedError: as `append_batch`.
        """
        batch = encode_marker(int(marker), coordinator_epoch, producer_id, producer_epoch, self._clock.now_ms())
        return self.append_batch(batch, ack=ack, origin=Origin.COORDINATOR)

    def appender(
        self, *, linger_ms: int | None = None, batch_bytes: int | None = None, codec: Codec | None = None,
        ack: Ack | str | None = None,
    ) -> Appender:
        """A buffered appender for records that come one by one; see `Appender`."""
        self._check_writable()
        return Appender(
            self,
            linger_ms=self.config.linger_ms if linger_ms is None else linger_ms,
            batch_bytes=self.config.batch_bytes if batch_bytes is None else batch_bytes,
            codec=codec, ack=ack, clock=self._clock,
        )

    def _acknowledge(self, result: AppendResult, ack: Ack | str | None) -> None:
        ack = self.config.default_ack if ack is None else Ack(ack)
        if ack is Ack.SYNCED:
            self._sync_to(result.last_offset + 1)
        elif self._flush_is_due():
            self.flush()

    def _write_locked(
        self, data: Any, span: int, record_count: int, batch_count: int, max_timestamp: int,
        produced: ProducedBatch | None, origin: Origin, now: int, admitted: Admitted | None = None,
    ) -> AppendResult:
        self._check_writable()
        first = self._end.value
        leader_epoch = self._leader_epoch
        if origin is Origin.REPLICATION:
            assert admitted is not None
            first, leader_epoch = self._check_replicated_locked(admitted)
        if produced is not None:
            shift = first - produced.base_offset
            produced = produced._replace(base_offset=first, last_offset=produced.last_offset + shift)
            duplicate = self._transactions.check(produced, origin)
            if duplicate is not None:
                self._counters.duplicates += 1
                if self.config.timestamp_type is TimestampType.CREATE_TIME:
                    duplicate = duplicate._replace(timestamp_ms=-1)
                return duplicate
        if self._must_unmark:
            self._recovery.write_durably(self._point_now(clean=False))
            self._must_unmark = False
        latest = self._epochs.latest
        if latest is None or latest.epoch < leader_epoch:
            self._epochs.assign(leader_epoch, first)
            self._epochs.save(self._directory, durable=False)
            self._names_dirty = True
        size = len(data)
        keep = origin is Origin.REPLICATION
        if self._tail is not None:
            stamp_run(data, -1 if keep else first, leader_epoch)
            self._tail.add(bytes(data), first + span, max_timestamp)
        else:
            self._put_locked(data, first, span, batch_count, max_timestamp, -1 if keep else leader_epoch)
        if produced is not None:
            self._transactions.apply(produced, now)
        counters = self._counters
        counters.appends += 1
        counters.appended_records += record_count
        counters.appended_batches += batch_count
        counters.appended_bytes += size
        self._unflushed_records += record_count
        self._end.advance(first + span)
        self._move_marks_locked()
        return AppendResult(first, first + span - 1)

    def _check_replicated_locked(self, admitted: Admitted) -> tuple[int, int]:
        end = self._end.value
        if admitted.base_offset < end:
            raise UnexpectedOffsetError(
                f"{self.name}: a replicated batch begins at offset {admitted.base_offset}, the log ends at {end}",
                offset=admitted.base_offset)
        latest = self._epochs.latest
        if latest is not None and admitted.leader_epoch < latest.epoch:
            raise FencedLeaderEpochError(
                f"{self.name}: a batch of leader epoch {admitted.leader_epoch}, the log has seen {latest.epoch}")
        return admitted.base_offset, admitted.leader_epoch

    def _put_locked(
        self, data: Any, first: int, span: int, batch_count: int, max_timestamp: int, leader_epoch: int
    ) -> None:
        """Write stamped or unstamped batches into the segments, rolling where one is full."""
        size = len(data)
        if size > self.config.segment_bytes and batch_count == 1:
            raise RecordTooLargeError(
                f"a batch of {size} bytes does not fit segment.bytes {self.config.segment_bytes}")
        if self._roll_is_due_locked(size, first + span - 1, max_timestamp):
            self._roll_locked()
        if size <= self.config.segment_bytes:
            self._guarded_append_locked(data, first, leader_epoch)
            return
        # More batches than one segment holds: each is written by itself.
        view = memoryview(data)
        next_offset = first
        try:
            while len(view):
                length = int.from_bytes(view[8:12], "big") + 12
                count = int.from_bytes(view[23:27], "big") + 1
                if self._roll_is_due_locked(length, next_offset + count - 1, max_timestamp):
                    self._roll_locked()
                self._guarded_append_locked(view[:length], next_offset, leader_epoch)
                next_offset += count
                view = view[length:]
        except LogstoreError:
            # All or nothing: what is already written is not part of the log yet.
            if next_offset > first and self._failed is None:
                self._cut_locked(first)
            raise
        finally:
            view.release()

    def _guarded_append_locked(self, data: Any, first: int, leader_epoch: int) -> None:
        try:
            self._segments.active.append(data, first, leader_epoch)
        except DiskFullError:
            self._counters.disk_full += 1
            raise
        except StorageError as error:
            raise self._poison_locked(error) from error

    def _poison_locked(self, error: StorageError) -> StorageFailedError:
        """No more writes: what the kernel holds and what the disk holds may differ from now on."""
        if self._failed is None:
            failure = error if isinstance(error, StorageFailedError) else StorageFailedError(
                f"{self.name}: {error}; close the log and open it again", path=self.path)
            self._failed = failure
            self._suspect = True
            _logger.error("log failed: log=%s error=%s", self.path, error)
            try:
                # For the next open, in this or another process: do not trust pages that look clean.
                self._recovery.write(self._recovery.point._replace(suspect=True, clean=False))
            except StorageError:
                _logger.error("could not mark the log as suspect: log=%s", self.path)
        return self._failed

    # -- marks -----------------------------------------------------------------------------------

    def _move_marks_locked(self) -> None:
        """Move the high watermark and the last stable offset, then publish."""
        end = self._end.value
        mark = min(self._owner.high_watermark(end, self._synced.value, self._high_watermark.value), end)
        self._high_watermark.advance(mark)
        mark = self._high_watermark.value
        self._last_stable.advance(self._transactions.last_stable_offset(mark))
        self._publish_locked()

    def _publish_locked(self) -> None:
        # A memory tail is not in the files, so other processes must not look for it.
        end = self._end.value if self._tail is None else self._segments.active.next_offset
        try:
            self._published.write(
                Published(self._generation, self._log_start, self._high_watermark.value, self._last_stable.value, end))
        except DiskFullError:
            # Readers in other processes lag until the next append; the log itself is whole.
            _logger.warning("published end not written, the disk is full: log=%s", self.path)
        except StorageError as error:
            raise self._poison_locked(error) from error

    def advance_high_watermark(self, offset: int) -> None:
        """Show consumers what lies below ``offset``: for the log's owner only.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the log end offset.
        """
        self._check_open()
        with self._lock:
            if offset > self._end.value:
                raise OffsetOutOfRangeError(
                    f"{self.name}: high watermark {offset} above the log end offset {self._end.value}", offset=offset)
            if self._high_watermark.advance(offset):
                self._last_stable.advance(self._transactions.last_stable_offset(offset))
                self._publish_locked()

    # -- flushing --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything that was appended before this call durable. Blocks on the disk.

        Raises:
            StorageFailedError: the sync failed. It is not tried again: the log takes no more writes,
                and what was synced before is safe.
        """
        self._check_writable()
        self._sync_to(self._end.value)

    def _flush_is_due(self) -> bool:
        config = self.config
        if self._unflushed_records >= config.flush_messages:
            return True
        if self._tail is not None and self._tail.size >= config.tail_bytes:
            return True
        return config.flush_ms < INT64_MAX and self._time_flush_is_due()

    def _time_flush_is_due(self) -> bool:
        if self._unflushed_records == 0:
            return False
        return (self._clock.monotonic_s() - self._last_flush_s) * 1000 >= self.config.flush_ms

    def tick(self) -> None:
        """Do what time asks for: flush if ``flush.ms`` has passed. For whoever drives the log's clock."""
        if not self._closed and self._failed is None and self._time_flush_is_due():
            self.flush()

    def _sync_to(self, offset: int) -> None:
        self._commit.run(lambda: self._is_synced(offset), self._sync_round)

    def _is_synced(self, offset: int) -> bool:
        if self._synced.value >= offset:
            return True
        if self._end.value < offset:
            # Truncated meanwhile: there is nothing left that could be synced.
            return True
        self._check_writable()
        return False

    def _sync_round(self) -> None:
        """One round of group commit: older segments, names, the active segment; then the promise."""
        with self._lock:
            self._check_writable()
            self._drain_tail_locked()
            target = self._end.value
            active = self._segments.active
            position = active.size
            sealed = list(self._unsynced)
            names_dirty = self._names_dirty
            self._names_dirty = False
            generation = self._generation
            self._unflushed_records = 0
            self._last_flush_s = self._clock.monotonic_s()
        try:
            for segment in sealed:
                _sync_unless_dropped(segment)
            if names_dirty:
                self._sync_names()
            _sync_unless_dropped(active)
            self._transactions.sync()
        except StorageError as error:
            with self._lock:
                raise self._poison_locked(error) from error
        with self._lock:
            if self._generation != generation:
                # A truncation came between: what was synced may no longer be what is in the log.
                return
            self._counters.flushes += 1
            self._unsynced = [s for s in self._unsynced if s not in sealed]
            self._synced.advance(target)
            self._segments.save_indexes(self._segments.active)
            point = self._point_now(clean=False)._replace(
                recovery_point=target, segment_base_offset=active.base_offset, position=position)
            try:
                self._recovery.write(point)
            except DiskFullError:
                # The promise on disk stays lower than the truth: the next open scans more.
                _logger.warning("recovery point not written, the disk is full: log=%s", self.path)
            except StorageError as error:
                raise self._poison_locked(error) from error
            self._move_marks_locked()

    def _sync_names(self) -> None:
        self._directory.sync()
        self._root.directory.sync()

    def _drain_tail_locked(self) -> None:
        """Write what a memory tail holds into the segments."""
        if self._tail is None:
            return
        while (head := self._tail.head()) is not None:
            data, next_offset, max_timestamp = head
            first = int.from_bytes(data[:8], "big")
            if self._roll_is_due_locked(len(data), next_offset - 1, max_timestamp):
                self._roll_locked()
            self._guarded_append_locked(data, first, -1)
            self._tail.drop_head()

    def _point_now(self, *, clean: bool) -> Any:
        """The recovery point as it stands; the place of the offset is the end of the active segment."""
        active = self._segments.active
        synced = self._synced.value
        at_end = synced == active.next_offset and synced >= active.base_offset
        known = self._recovery.point
        place = (active.base_offset, active.size) if at_end else (known.segment_base_offset, known.position)
        if place[0] < 0 or place[0] > synced:
            place = (min(self._segments.all[0].base_offset, synced), 0)
        return known._replace(
            generation=self._generation, recovery_point=synced, segment_base_offset=place[0], position=place[1],
            log_start_offset=self._log_start, replay_from=synced if self._transactions.is_idle else -1,
            clean=clean, suspect=False,
        )

    # -- rolling ---------------------------------------------------------------------------------

    def _roll_is_due_locked(self, size: int, last_offset: int, max_timestamp: int) -> bool:
        segment = self._segments.active
        config = self.config
        if segment.size == 0:
            return last_offset - segment.base_offset > INT32_MAX
        if segment.size + size > config.segment_bytes or last_offset - segment.base_offset > INT32_MAX:
            return True
        first = segment.first_timestamp_ms
        if max_timestamp >= 0 and first >= 0 and max_timestamp - first > config.segment_ms - self._roll_jitter_ms:
            return True
        limit = config.segment_index_bytes
        return bool(segment.index.size + 8 > limit // 8 * 8 or segment.times.size + 12 > limit // 12 * 12)

    def roll(self) -> None:
        """Seal the active segment and begin another, unless it is empty."""
        self._check_writable()
        with self._lock:
            self._drain_tail_locked()
            if self._segments.active.size:
                self._roll_locked()

    def _roll_locked(self) -> None:
        """The sealed segment is synced before anything of the next one counts as synced.

        Not at once, though: the kernel writes it back meanwhile, and the roll after this one waits
        for the rest, so that at most two segments are unsynced and few appends ever wait.
        """
        try:
            for segment in self._unsynced:
                segment.file.sync()
            if not self._promises_durable:
                # With several segments, an unknown recovery point would call a torn tail damage.
                self._recovery.write(self._point_now(clean=False)._replace(suspect=self._suspect))
                self._recovery.sync()
                self._promises_durable = True
            old = self._segments.active
            base = old.next_offset
            # The new file first: if there is no room for it, nothing has changed.
            self._segments.add(base)
            self._segments.seal(old)
            self._unsynced = [old]
            self._transactions.rolled(base, self._generation)
        except DiskFullError:
            self._counters.disk_full += 1
            raise
        except StorageError as error:
            raise self._poison_locked(error) from error
        self._names_dirty = True
        self._roll_jitter_ms = self._new_jitter()
        self._counters.rolls += 1

    def _new_jitter(self) -> int:
        return self._rng.randint(0, min(self.config.segment_jitter_ms, self.config.segment_ms))

    # -- truncating and deleting -----------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cut the log so that it ends at or before ``offset``; returns the new log end offset.

        A batch that holds ``offset`` inside goes whole. Durable on return. The high watermark falls
        with the end, so this is for the log's owner: a follower that found its leader's end.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset.
            StorageFailedError: the cut failed half way; opening the log again finishes it.
        """
        self._check_writable()
        with self._lock:
            self._check_writable()
            if offset >= self._end.value:
                return self._end.value
            if offset < self._log_start:
                raise OffsetOutOfRangeError(
                    f"{self.name}: cannot cut to {offset}, the log starts at {self._log_start}", offset=offset)
            self._drain_tail_locked()
            return self._cut_locked(offset)

    def _cut_locked(self, offset: int) -> int:
        try:
            end = self._cut_segments_locked(offset)
        except StorageError as error:
            raise self._poison_locked(error) from error
        self._counters.truncations += 1
        self._move_marks_locked()
        return end

    def _cut_segments_locked(self, offset: int) -> int:
        segments = self._segments
        place = max(segments.floor(offset), 0)
        target = segments.all[place]
        position = target.position_of(offset)
        end = offset
        for base, _last, _at, _size, _time, _epoch in target.headers(position):
            end = min(base, offset)
            break
        # Lowered first, and durably: a crash from here on finds a log that promises no more than is left.
        self._generation += 1
        self._synced.reset(min(self._synced.value, end))
        self._recovery.write_durably(
            self._point_now(clean=False)._replace(
                recovery_point=self._synced.value, segment_base_offset=min(target.base_offset, self._synced.value),
                position=0, replay_from=-1))
        self._must_unmark = False
        self._end.reset(end)
        self._high_watermark.reset(min(self._high_watermark.value, end))
        self._last_stable.reset(min(self._last_stable.value, end))
        self._publish_locked()
        for segment in reversed(segments.all[place + 1 :]):
            segments.drop([segment])
        self._unsynced = [s for s in self._unsynced if s in segments.all[:-1]]
        if target.sealed:
            name = recovery.copy_prefix(self._directory, target, position)
            target = segments.replace(target, name, size=position, next_offset=end)
            target.scan(adopt=True, check=False)
        else:
            target.cut(position, end)
            target.file.sync()
        segments.trim_index_files(target)
        if self._epochs.truncate_from_end(end):
            self._epochs.save(self._directory, durable=False)
        if not self._transactions.is_idle:
            before = self._recovery.point._replace(generation=self._generation - 1)
            self._transactions.truncated(
                end, recovery.replay_producers(self._directory, segments, self.config, before, end, self._clock.now_ms()))
            self._transactions.save_snapshot(end, self._generation)
        self._names_dirty = True
        return end

    def delete_before(self, offset: int) -> int:
        """Raise the log start offset to ``offset``; returns it. Segments that lie below go at once.

        Readers that are inside a deleted segment finish; later ones get OffsetOutOfRangeError.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark. Nothing is deleted.
            DiskFullError, StorageFailedError: the new start could not be written down.
        """
        self._check_writable()
        with self._lock:
            self._check_writable()
            if offset > self._high_watermark.value:
                raise OffsetOutOfRangeError(
                    f"{self.name}: cannot delete up to {offset}, the high watermark is {self._high_watermark.value}",
                    offset=offset)
            if offset <= self._log_start:
                return self._log_start
            try:
                return self._delete_locked(offset)
            except DiskFullError:
                raise
            except StorageError as error:
                raise self._poison_locked(error) from error

    def _delete_locked(self, offset: int) -> int:
        segments = self._segments
        if offset == segments.active.next_offset and segments.active.size:
            self._roll_locked()
        self._log_start = offset
        self._synced.advance(min(offset, self._end.value))
        self._recovery.write(self._point_now(clean=False))
        self._recovery.sync()
        self._must_unmark = False
        self._last_stable.advance(max(self._last_stable.value, offset))
        self._publish_locked()
        doomed = [s for s, after in zip(segments.all, segments.all[1:], strict=False) if after.base_offset <= offset]
        if doomed:
            bases = [segment.base_offset for segment in doomed]
            segments.drop(doomed)
            self._unsynced = [s for s in self._unsynced if s not in doomed]
            self._transactions.dropped(bases)
            self._counters.deleted_segments += len(doomed)
            self._names_dirty = True
            _logger.info("deleted segments: log=%s count=%d log_start_offset=%d", self.path, len(doomed), offset)
        if self._epochs.truncate_from_start(offset):
            self._epochs.save(self._directory, durable=False)
        return offset


def _sync_unless_dropped(segment: Segment) -> None:
    try:
        segment.file.sync()
    except StorageError:
        # Deleted, or cut to a new file, while the sync was under way: nobody needs it on disk.
        if segment.file.sync_failed or not segment.file.closed:
            raise


_NO_PRODUCER = ProducerStamp(-1, -1, -1)


def add_records(encoder: Encoder, records: Any) -> None:
    """Give records of any kind that `Log.append` takes to an encoder."""
    if type(records) is list:
        encoder.add_all(records)
    elif hasattr(records, "__arrow_c_array__") or hasattr(records, "__arrow_c_stream__"):
        from logstore._arrow_in import add_arrow

        add_arrow(encoder, records)
    elif hasattr(records, "__array_interface__"):
        from logstore._arrow_in import add_numpy

        add_numpy(encoder, records)
    elif isinstance(records, Iterable):
        encoder.add_all(records)
    else:
        raise InvalidRecordError(f"records must be a list, an Arrow array or a numpy array, found {type(records).__name__}")


def _produced(producer: ProducerStamp, encoder: Encoder) -> ProducedBatch:
    if encoder.batch_count != 1:
        raise RecordTooLargeError(
            f"an idempotent append must fit one batch, this one takes {encoder.batch_count}; send fewer records")
    last = (producer.base_sequence + encoder.record_count - 1) & INT32_MAX
    return ProducedBatch(
        0, encoder.record_count - 1, producer.producer_id, producer.producer_epoch, producer.base_sequence, last,
        encoder.max_timestamp_ms, producer.transactional)


def _check_place(root: Directory, directory: Directory, create: bool) -> None:
    """Refuse a directory that is not ours to write, before anything is changed."""
    if not directory.exists():
        if not create:
            raise NotALogError("there is no log here; open it with create=True to begin one", path=directory.path)
        os.makedirs(root.path, exist_ok=True)
    names = directory.names() if directory.exists() else []
    foreign = files.foreign_names(names)
    if foreign:
        raise NotALogError(
            f"the directory holds files that belong to no log: {', '.join(foreign[:5])}; choose another, or move "
            "them away", path=directory.path)
    if files.base_offsets(names) and not files.is_ours(names) and not files.is_ours(root.names()):
        raise NotALogError(
            "Kafka wrote this log; open it with read_only=True, or adopt its root first", path=directory.path)
    strangers = files.foreign_directories(root)
    if strangers:
        raise NotALogError(
            f"the root above the log holds directories that are no partitions: {', '.join(strangers[:5])}; give "
            "logs a root of their own", path=root.path)


__all__ = ["Log", "LogReader", "ProducerStamp"]
