"""The writing half of a log: append records, batches, markers and whole files, and make them durable.

`Writable` is to the writer what `Readable` is to every reader: it gets an open `State` and appends to it.
`log` is responsible for opening, closing and the owner's other operations. Any thread may append; the lock is
held for one write at a time, never while space is reclaimed or the disk is waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from logstore.batch._encode import Encoder, encode_marker, timestamp_of
from logstore.clock import Clock
from logstore.config.log import LogConfig
from logstore.errors import NO_ROOM, DiskFullError, ExpectedOffsetError, NotSyncedError
from logstore.io._interrupts import held, locked, shielded
from logstore.log.append import validation
from logstore.log.append.append import NO_PRODUCER, ProducerStamp, add_records, produced_by, write_locked
from logstore.log.append.appender import Appender
from logstore.log.append.bulk import append_run
from logstore.log.append.flush import Flusher
from logstore.log.append.ingest_file import Whole, adopt
from logstore.log.cleanup.truncation import settle_locked
from logstore.log.moments import Time
from logstore.log.producers import ProducedBatch
from logstore.log.read.live_reader import LogElsewhere
from logstore.log.read.range import Scan
from logstore.log.read.reader import Readable
from logstore.log.space_quota import with_room
from logstore.log.state import State
from logstore.log.timer import TICKER
from logstore.records import Ack, AppendResult, Codec, Marker, Origin, TimestampType

_logger = logging.getLogger(__name__)

INT64_MAX = 2**63 - 1

_WRITTEN = Ack.WRITTEN


class Writable(Readable):
    """The writing half of a log, over an open state."""

    def __init__(self, state: State, config: LogConfig, clock: Clock) -> None:
        self.name = state.name
        self.path = state.directory.path
        self._state = state
        self._lock = state.lock
        self._settle_locked = partial(settle_locked, state)
        self._clock = clock
        self._flusher = Flusher(state)
        self._ticking = False
        self._special_encoders: list[Encoder] = []
        self._appenders: set[int] = set()  #: the ids of those that are not closed
        self._dropped_appenders: set[Appender] = set()  #: the dropped ones among them; finalizers add to it
        self._settle(config)

    def _elsewhere(self) -> object:
        return LogElsewhere.of(self._state.directory, self.config, self._state.recovery.point.kind)

    def _settle(self, config: LogConfig) -> None:
        """Cache the settings that every append needs, and values derived from them."""
        self.config = config
        self._append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._codec = config.codec
        self._limits = config.batch_limits
        self._compacts = config.compacts
        self._default_ack = config.default_ack
        # After the settings: an encoder of the old list would be reused with the old settings.
        self._encoders: list[Encoder] = []
        #: Whether the settings may make an append flush unasked.
        self._flushes = self._flusher.may_become_due
        was_ticking, self._ticking = self._ticking, config.flush_ms < INT64_MAX
        if self._ticking and not was_ticking:
            TICKER.add(self, self._clock)
        elif was_ticking and not self._ticking:
            TICKER.remove(self)

    # -- appending -------------------------------------------------------------------------------

    def append(
        self,
        records: Any,
        *,
        timestamp: Time | None = None,
        codec: Codec | None = None,
        producer: ProducerStamp | None = None,
        ack: Ack | str | None = None,
        expect: int | None = None,
    ) -> AppendResult:
        """Write records at the log end offset, in one batch unless they are too large for one.

        ``records`` is a list of values, of (key, value), (key, value, timestamp) or (key, value,
        timestamp, headers), or of `Record`s; an Arrow array of values or an Arrow table with columns
        key, value, timestamp, headers; or a numpy array of fixed-size values. Keys and values are
        buffers or None. Records without a timestamp (ms or an aware datetime) get ``timestamp``, or
        the time of the append. ``producer`` makes the append idempotent; it must fit one batch. With
        ``expect`` the records are written only if the first one gets this offset.

        With ``ack="written"`` the records are in the page cache on return and survive the process;
        with ``"synced"`` they are on disk and survive power loss. The default is ``logstore.ack``.

        Returns the offsets given; for a sequence already written, the first ones and
        ``duplicate=True``. Without records nothing is written, and ``last_offset`` is one below ``first_offset``.

        Raises:
            RecordTypeError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the
                records cannot be written. Nothing is.
            OutOfOrderSequenceError, DuplicateSequenceError, ProducerFencedError,
                InvalidTransactionError: ``producer`` does not fit. Nothing is written.
            ExpectedOffsetError: the log does not end at ``expect``. Nothing is written.
            DiskFullError, TooManyFilesError: there is no room, or no file can be opened. Nothing is written;
                retry once there is room.
            StorageFailedError: this or an earlier write or flush failed; the log takes no more writes.
        """
        self._state.check_writable()
        now = self._clock.now_ms()
        # Two pools: an encoder left with a special append's codec or producer would write a plain one wrong.
        plain = producer is None and codec is None
        encoders = self._encoders if plain else self._special_encoders
        try:
            encoder = encoders.pop()
        except IndexError:
            encoder = self._begin(Encoder(), now, None, NO_PRODUCER)
        try:
            stamp = now if timestamp is None or self._append_time else timestamp_of(timestamp)
            if plain:
                encoder.renew(stamp)
            else:
                self._begin(encoder, stamp, codec, producer or NO_PRODUCER)
            if type(records) is list:
                encoder.add_all(records)
            else:
                # A scan is an Arrow stream too, but its default columns would lose the headers.
                add_records(encoder, iter(records) if isinstance(records, Scan) else records)
            encoder.finish()
            return self._append_encoded(
                encoder, None if producer is None else produced_by(producer, encoder), now, ack, expect
            )
        finally:
            encoders.append(encoder)

    def _begin(self, encoder: Encoder, stamp_ms: int, codec: Codec | None, producer: ProducerStamp) -> Encoder:
        config = self.config
        chosen = self._codec
        if chosen is None:
            chosen = Codec.NONE if codec is None else Codec(codec)
        return encoder.begin(
            timestamp_ms=stamp_ms,
            codec=chosen,
            level=config.level_of(chosen),
            limits=self._limits,
            append_time=self._append_time,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=producer.base_sequence,
            transactional=producer.transactional,
        )

    def append_encoded(
        self,
        encoder: Encoder,
        *,
        producer: ProducerStamp | None = None,
        ack: Ack | str | None = None,
        expect: int | None = None,
    ) -> AppendResult:
        """Write the finished batches of an encoder, for a batching caller; raise as `append`.

        ``producer`` is the producer in the header of its one batch.
        """
        self._state.check_writable()
        produced = None if producer is None else produced_by(producer, encoder)
        return self._append_encoded(encoder, produced, self._clock.now_ms(), ack, expect)

    def _append_encoded(
        self,
        encoder: Encoder,
        produced: ProducedBatch | None,
        now: int,
        ack: Ack | str | None,
        expect: int | None,
    ) -> AppendResult:
        settled = self._default_ack if ack is None else self._ack_of(ack)
        count = encoder.record_count
        if count == 0:
            return self._nothing_appended()
        if self._compacts:
            validation.check_keys(encoder.null_keys, self.config)
        newest = encoder.max_timestamp_ms
        if not self._append_time:
            validation.check_timestamps(encoder.min_timestamp_ms, newest, self.config, now)
        batches = encoder.batch_count
        # As `with_room`, with fewer calls: this runs for every append.
        for is_first in (True, False):
            try:
                result = locked(
                    self._lock,
                    self._settle_locked,
                    write_locked if expect is None else partial(self._write_expected_locked, expect),
                    self._state,
                    encoder,
                    count,
                    count,
                    batches,
                    newest,
                    produced,
                    Origin.CLIENT,
                    now,
                )
                break
            except DiskFullError:
                if not (is_first and self._state.quota.reclaim(len(encoder))):
                    raise
        if settled is not _WRITTEN or self._flushes:
            self._acknowledge(result, settled)
        if self._append_time and not result.duplicate:
            return result._replace(timestamp_ms=newest)
        return result

    def _nothing_appended(self) -> AppendResult:
        with held(self._lock):
            end = self._state.next_offset_locked()
        return AppendResult(end, end - 1, -1)

    def _write_expected_locked(self, expect: int, *args: Any) -> AppendResult:
        self._state.check_whole_locked()
        found = self._state.end.value
        if found != expect:
            raise ExpectedOffsetError(
                f"{self.name}: the append expects offset {expect}, the log ends at {found}; "
                "read what was written meanwhile and decide again",
                found=found,
                expected=expect,
            )
        return write_locked(*args)

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
        self._state.check_writable()
        settled = self._default_ack if ack is None else self._ack_of(ack)
        now = self._clock.now_ms()
        admitted = validation.admit(batch, self.config, origin, now)

        def write() -> AppendResult:
            return locked(
                self._lock,
                self._settle_locked,
                write_locked,
                self._state,
                admitted.data,
                admitted.span,
                admitted.record_count,
                1,
                admitted.max_timestamp_ms,
                admitted.produced,
                origin,
                now,
                admitted,
            )

        result = with_room(self._state.quota, len(admitted.data), write)
        self._acknowledge(result, settled)
        if self._append_time and not result.duplicate:
            return result._replace(timestamp_ms=now)
        return result

    def append_run(
        self, run: bytearray, *, producer: ProducerStamp | None = None, max_timestamp_ms: int
    ) -> AppendResult:
        """Write a run of consecutive whole batches that were encoded elsewhere.

        The caller has checked their records, keys, timestamps and sizes. Offsets, epoch, producer and, with
        log append time, the timestamp are set in ``run`` itself. ``max_timestamp_ms`` is the newest timestamp.
        Compressed records are kept as they are. The run is written on return, not synced: `flush`.

        Raises:
            CorruptRecordError: a batch is not whole, or its CRC-32C disagrees. Nothing is written.
            ProducerFencedError, OutOfOrderSequenceError, InvalidTransactionError: ``producer`` does not fit.
            DiskFullError: there is no room for the whole run. Its first batches may be written.
            StorageFailedError: this or an earlier write failed; the log takes no more writes.
        """
        self._state.check_writable()
        stamp = NO_PRODUCER if producer is None else producer
        result = append_run(
            self._state, run, stamp, max_timestamp_ms, self._clock.now_ms(), append_time=self._append_time
        )
        self._acknowledge(result, Ack.WRITTEN)
        return result

    def adopt(
        self, whole: Whole, runs: Iterable[tuple[bytearray, int]], *, producer: ProducerStamp | None = None
    ) -> AppendResult | None:
        """Append a whole file of batches by making it a segment; return None if it needs `append_run` instead.

        The caller has checked the file as for `append_run`. The file is below the log's directory, and has no
        writer any more. ``runs`` are its batches from the beginning, with their counts of records. On return
        the log owns the file and has renamed it. The append is not synced as a whole: `flush`.

        Raises:
            CorruptRecordError: a batch is not whole, or its CRC-32C disagrees. The log is unchanged; the file may
                be stamped up to there, and cannot be used any more. This holds for the following, too.
            ProducerFencedError, OutOfOrderSequenceError, InvalidTransactionError: ``producer`` does not fit.
            DiskFullError: there is no room in the log's budget, or for the name.
            StorageFailedError: this or an earlier write failed; the log takes no more writes.
        """
        self._state.check_writable()
        stamp = NO_PRODUCER if producer is None else producer
        # One file stands for many appends, so it is worth a thread, whose steps no interrupt separates.
        result = shielded(
            adopt, self._state, whole, runs, stamp, self._clock.now_ms(), append_time=self._append_time
        )
        if result is not None:
            self._acknowledge(result, Ack.WRITTEN)
        return result

    def open_transaction(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction in this log; None if it has none."""
        self._state.check_open()
        with held(self._state.lock):
            found = self._state.transactions.producers.get(producer_id)
            return None if found is None else found.transaction_first_offset

    def producer_epoch(self, producer_id: int) -> int:
        """Return the newest epoch with which a producer has written here; -1 if the producer is unknown."""
        self._state.check_open()
        with held(self._state.lock):
            found = self._state.transactions.producers.get(producer_id)
            return -1 if found is None else found.epoch

    def append_control(
        self,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
        ack: Ack | str | None = None,
    ) -> AppendResult:
        """Write a transaction marker, which commits or aborts the producer's open transaction here.

        Raises:
            ProducerFencedError, CoordinatorFencedError: a newer epoch has written here.
            DiskFullError, StorageFailedError: as `append_batch`.
        """
        batch = encode_marker(int(marker), coordinator_epoch, producer_id, producer_epoch, self._clock.now_ms())
        return self.append_batch(batch, ack=ack, origin=Origin.COORDINATOR)

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
            InvalidSettingError: ``linger_ms`` or ``batch_bytes`` is out of range of the setting of its name.
        """
        self._state.check_writable()
        config = self.config
        if linger_ms is not None:
            config = config.replace(linger_ms=linger_ms)
        if batch_bytes is not None:
            config = config.replace(batch_bytes=batch_bytes)
        return Appender(
            self,
            linger_ms=config.linger_ms,
            batch_bytes=config.batch_bytes,
            codec=codec,
            ack=None if ack is None else self._ack_of(ack),
            clock=self._clock,
        )

    @staticmethod
    def _ack_of(ack: Ack | str) -> Ack:
        """Convert to `Ack`; called before the write, so that an unknown word is refused first."""
        return Ack(ack)

    def _acknowledge(self, result: AppendResult, ack: Ack) -> None:
        try:
            if ack is Ack.SYNCED:
                self._sync_to(result.last_offset + 1)
            elif self._flusher.is_due():
                self.flush()
        except NO_ROOM as error:
            # The memory tail found no room, or no descriptor was free for a sync. The append itself has succeeded:
            # raised as a failed one, the caller would repeat it.
            if ack is Ack.SYNCED:
                raise NotSyncedError(
                    f"{self.name}: offsets {result.first_offset} to {result.last_offset} are in the log, but not "
                    f"on the disk: {error}; free space and call flush(), do not append them again",
                    path=self.path,
                ) from error
            _logger.warning("a flush that was due waits for room: log=%s error=%s", self.path, error)

    # -- flushing --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything that was appended before this call durable. Blocks on the disk.

        Raises:
            StorageFailedError: the sync failed. It is not retried: the log takes no more writes,
                and records synced before are safe.
            TooManyFilesError: no file could be opened to be synced. Nothing is lost: flush again.
        """
        self._state.check_writable()
        self._sync_to(self._state.end.value)

    def _sync_to(self, offset: int) -> None:
        # A memory tail is written first: a full disk would fail that, though the quota can reclaim space.
        tail = self._state.tail
        with_room(self._state.quota, 0 if tail is None else tail.size, lambda: self._flusher.sync_to(offset))

    def tick(self) -> None:
        """Flush if ``flush.ms`` has passed; for the owner of the log's clock."""
        self._state.check_process()
        self._flusher.tick()


__all__ = ["Writable"]
