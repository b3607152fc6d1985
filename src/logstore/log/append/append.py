"""Append: from records to bytes at the log end, and their acknowledgement.

`LogWriter` encodes records and acquires the log's lock. `write_locked` is one append under the lock, in numbered
steps. Bytes are written first; leader epochs, producer state and marks follow. (Marks are offsets such as the log
end offset and the high watermark.) So a reader, or recovery after a crash, finds no mark above missing bytes. Any
thread may append. The lock is held for one write at a time, and never while space is reclaimed. The syncs of a
flush and of a roll run without it; `State.roll_locked` says which rolls are done under it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from logstore.batch._batch import BatchView, stamp_run
from logstore.batch._encode import Encoder, timestamp_of
from logstore.batch.moments import Time
from logstore.config.log import LogConfig, check_keys, check_timestamps
from logstore.errors import (
    OUT_OF_RESOURCES,
    AppendTruncatedError,
    ExpectedOffsetError,
    InvalidRecordError,
    LogstoreError,
    NotSyncedError,
    RecordTooLargeError,
)
from logstore.io._interrupts import held, locked, shielded
from logstore.log._partition_log import mark_appended
from logstore.log._producers import ProducedBatch
from logstore.log.append.flush import Flusher
from logstore.log.append.validation import Admitted, admit, too_large
from logstore.log.cleanup.truncation import cut_locked, settle_locked
from logstore.log.read.range import Scan
from logstore.log.space_quota import with_space
from logstore.log.state import State, batches_of
from logstore.log.write_modes import Held, MemoryTail
from logstore.records import INT32_MAX, Ack, AppendResult, Codec, Origin, ProducerStamp, TimestampType

_logger = logging.getLogger(__name__)


NO_PRODUCER = ProducerStamp(-1, -1, -1)

#: A function with the arguments of `_put_locked`: writes batches at the log end and returns the new end.
Put = Callable[[State, Any, int, int, int, int, int], int]

_CLIENT = Origin.CLIENT
_WRITTEN = Ack.WRITTEN
_new_result = tuple.__new__


class LogWriter:
    """Writing part of an open log: encoders, settings that each append needs, acknowledgements."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.flusher = Flusher(state)
        self.commit = self.flusher.commit
        self._clock = state.clock
        self.settle_locked = partial(settle_locked, state)
        self.is_ready_locked, self.must_wait_locked = state.is_ready_locked, state.must_wait_locked
        self.make_ready, self.follow_up = state.make_ready, state.follow_up
        self.leave_follow_up = state.leave_follow_up
        self._special_encoders: list[Encoder] = []
        self.configure(state.config)

    def configure(self, config: LogConfig) -> None:
        """Cache the settings that every append needs, and values derived from them."""
        self.config = config
        self.append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._codec = config.codec
        self._limits = config.batch_limits
        self._compacts = config.compacts
        self._default_ack = config.default_ack
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        # Replaced after the settings: an encoder with the old settings must not get into the new list.
        self._encoders: list[Encoder] = []
        #: Whether an append may have to flush even without ``ack="synced"``, by the settings.
        self._flushes = self.flusher.may_become_due
        self.flusher.configure()
        self.state.expect_records(
            plain=self._default_ack is _WRITTEN and not self._flushes and not self.append_time,
            synced=self._default_ack is Ack.SYNCED,
            times=not self.append_time,
            keys=self._compacts,
            before_max_ms=self._before_max_ms,
            after_max_ms=self._after_max_ms,
            codec=-1 if config.codec is None else int(config.codec),
            message_bytes=config.max_message_bytes,
            decompressed_bytes=config.decompressed_max_bytes,
        )

    def append(
        self,
        records: Any,
        timestamp: Time | None,
        codec: Codec | None,
        producer: ProducerStamp | None,
        ack: Ack | str | None,
        expect: int | None,
    ) -> AppendResult:
        """Encode records and write them; see `Log.append`."""
        self.state.check_writable()
        now = self._clock.now_ms()
        # Two pools: in one, a plain append could get an encoder with the codec or producer of another append.
        plain = producer is None and codec is None
        encoders = self._encoders if plain else self._special_encoders
        try:
            encoder = encoders.pop()
        except IndexError:
            encoder = self._begin(Encoder(), now, None, NO_PRODUCER)
        try:
            stamp = now if timestamp is None or self.append_time else timestamp_of(timestamp)
            if plain:
                encoder.renew(stamp)
            else:
                self._begin(encoder, stamp, codec, producer or NO_PRODUCER)
            if type(records) is list:
                encoder.add_all(records)
            else:
                # A scan is read record by record: as an Arrow stream, its default columns have no headers.
                add_records(encoder, iter(records) if isinstance(records, Scan) else records)
            encoder.finish()
            return self.append_encoded(encoder, producer, now, ack, expect)
        finally:
            encoders.append(encoder)

    def _begin(self, encoder: Encoder, stamp_ms: int, codec: Codec | None, producer: ProducerStamp) -> Encoder:
        chosen = self._codec
        if chosen is None:
            chosen = Codec.NONE if codec is None else Codec(codec)
        return encoder.begin(
            timestamp_ms=stamp_ms,
            codec=chosen,
            level=self.config.level_of(chosen),
            limits=self._limits,
            append_time=self.append_time,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=producer.base_sequence,
            transactional=producer.transactional,
        )

    def append_encoded(
        self,
        encoder: Encoder,
        producer: ProducerStamp | None,
        now: int,
        ack: Ack | str | None = None,
        expect: int | None = None,
    ) -> AppendResult:
        """Write the finished batches of an encoder and acknowledge them; see `LogReplica.append_encoded`."""
        settled = self.settled(ack)  # before the write: Ack refuses an unknown word
        state = self.state
        if encoder.record_count == 0:
            with held(state.lock):
                end = state.next_offset_locked()
            return AppendResult(end, end - 1, -1)
        if expect is None:
            result = state.append_encoded(encoder, producer, now, self)
        else:
            self.check(encoder, now)

            def write() -> tuple[AppendResult, int]:
                size, span, newest = len(encoder), encoder.record_count, encoder.max_timestamp_ms
                return self._write_when_ready(
                    size, span, newest, self._write_expected_locked, expect, encoder, producer, now
                )

            result, _ = with_space(state.quota, len(encoder), write)
            if state.has_work:
                state.follow_up()
        if settled is not _WRITTEN or self._flushes:
            self._acknowledge_encoder(encoder, result, settled)
        if self.append_time and not result.duplicate:
            return result._replace(timestamp_ms=encoder.max_timestamp_ms)
        return result

    def _acknowledge_encoder(self, encoder: Encoder, result: AppendResult, ack: Ack) -> None:
        try:
            self.acknowledge(result, ack, encoder.cuts)
        except AppendTruncatedError:
            # Appended again, it is written again.
            mark_appended(encoder, -1)
            raise

    def acknowledge_again(self, encoder: Encoder, ack: Ack | str | None) -> AppendResult:
        """Acknowledge batches that are in the log already: the call that wrote them was interrupted."""
        first = encoder.appended_at
        timestamp_ms = encoder.max_timestamp_ms if self.append_time else -1
        result = AppendResult(first, first + encoder.record_count - 1, timestamp_ms)
        self._acknowledge_encoder(encoder, result, self.settled(ack))
        return result

    def plain_encoder(self, now: int) -> Encoder:
        """Return a new encoder with the settings of a plain append."""
        return self._begin(Encoder(), now, None, NO_PRODUCER)

    def check(self, encoder: Encoder, now: int) -> None:
        """Raise if keys are missing in a compacted log, or a timestamp is too far from now."""
        if self._compacts:
            check_keys(encoder.null_keys, self.config)
        newest, oldest = encoder.max_timestamp_ms, encoder.min_timestamp_ms
        is_outside = now - oldest > self._before_max_ms or newest - now > self._after_max_ms
        if is_outside and not self.append_time:
            check_timestamps(oldest, newest, self.config, now)

    def write_other_locked(self, encoder: Encoder, producer: ProducerStamp | None, now: int) -> AppendResult:
        """Write batches that are not a plain append, see `PartitionLog`."""
        # Before the append: an interrupt may follow it.
        self.state._note_cuts(encoder)
        count = encoder.record_count
        produced = None if producer is None else produced_by(producer, encoder)
        newest, batches = encoder.max_timestamp_ms, encoder.batch_count
        return write_locked(self.state, encoder, count, count, batches, newest, produced, _CLIENT, now)

    def _write_expected_locked(
        self, expect: int, encoder: Encoder, producer: ProducerStamp | None, now: int
    ) -> AppendResult:
        state = self.state
        state.check_whole_locked()
        state.check_leads_locked()
        found = state.end.value
        if found != expect:
            raise ExpectedOffsetError(
                f"{state.name}: the append expects offset {expect}, the log ends at {found}; "
                "read what was written meanwhile and decide again",
                found=found,
                expected=expect,
            )
        return self.write_other_locked(encoder, producer, now)

    def append_batch(self, batch: Any, origin: Origin, ack: Ack | str | None) -> AppendResult:
        """Check one batch, write and acknowledge it; see `LogReplica.append_batch`."""
        settled = self.settled(ack)
        now = self._clock.now_ms()
        if origin is _CLIENT and type(batch) is bytes:
            # Another buffer may change while this thread waits for the lock: `admit` makes a copy.
            result = self.state.append_batch(batch, now, self, settled is Ack.SYNCED)
            if result is not None:
                if self._flushes and settled is _WRITTEN:
                    self.acknowledge(result)
                return result
        return self.append_admitted(admit(batch, self.config, origin, now), origin, now, ack)

    def append_turn(self, batches: list[bytes], ack: Ack | str | None) -> list[AppendResult | LogstoreError]:
        """Check batches of several clients, write and acknowledge them; see `LogReplica.append_turn`."""
        settled = self.settled(ack)
        cuts: list[int] = []
        results = self.state.append_turn(batches, self._clock.now_ms(), self, cuts)
        if settled is _WRITTEN and not self._flushes:
            return results
        written = [result for result in results if isinstance(result, AppendResult)]
        if written:
            try:
                # Sync once, for all of them.
                self.acknowledge(max(written, key=lambda result: result.last_offset), settled)
                if self.state.marks.cuts == min(cuts):
                    return results
            except LogstoreError:
                pass
            # An error names the batch that asked: each batch asks by itself for its own.
            each = zip(results, cuts, strict=True)
            return [self._acknowledged(result, settled, before) for result, before in each]
        return results

    def _acknowledged(
        self, result: AppendResult | LogstoreError, settled: Ack, cuts: int
    ) -> AppendResult | LogstoreError:
        if isinstance(result, AppendResult):
            try:
                self.acknowledge(result, settled, cuts)
            except LogstoreError as error:
                return error
        return result

    def admitted(self, batch: bytes, now: int) -> Admitted | LogstoreError:
        """Return one batch of a client as it is written, or the error that says what is wrong with it."""
        try:
            return admit(batch, self.config, _CLIENT, now)
        except LogstoreError as error:
            return error

    def attempt(
        self, batch: bytes, admitted: Admitted | LogstoreError | None, now: int
    ) -> tuple[AppendResult | LogstoreError, int]:
        """Append one batch of a client, not yet acknowledged as synced; return its result or its error.

        ``admitted`` is what `admitted` has returned for it; None: it was not asked. The number is that of the log's
        cuts before the batch: see `acknowledge`.
        """
        whole = self.admitted(batch, now) if admitted is None else admitted
        if isinstance(whole, LogstoreError):
            return whole, self.state.marks.cuts
        try:
            result, cuts = self._write_admitted(whole, _CLIENT, now)
            self.acknowledge(result)
        except LogstoreError as error:
            return error, self.state.marks.cuts
        return result, cuts

    def append_admitted(
        self, admitted: Admitted, origin: Origin, now: int, ack: Ack | str | None = None
    ) -> AppendResult:
        """Write one validated batch and acknowledge it; see `LogReplica.append_batch`."""
        settled = self.settled(ack)
        result, cuts = self._write_admitted(admitted, origin, now)
        self.acknowledge(result, settled, cuts)
        return result

    def _write_admitted(self, admitted: Admitted, origin: Origin, now: int) -> tuple[AppendResult, int]:
        """Write one validated batch; return its result, and the number of the log's cuts before it."""
        state = self.state

        def write() -> tuple[AppendResult, int]:
            return self._write_when_ready(
                len(admitted.data),
                admitted.span,
                admitted.max_timestamp_ms,
                write_locked,
                state,
                admitted.data,
                admitted.span,
                admitted.record_count,
                1,
                admitted.max_timestamp_ms,
                admitted.produced,
                origin,
                now,
            )

        result, cuts = with_space(state.quota, len(admitted.data), write)
        if state.has_work:
            state.follow_up()
        if self.append_time and not result.duplicate:
            return result._replace(timestamp_ms=now), cuts
        return result, cuts

    def _write_when_ready(
        self, size: int, span: int, newest: int, write: Callable[..., AppendResult], *arguments: Any
    ) -> tuple[AppendResult, int]:
        """Call ``write`` under the lock, once a roll that it needs waits for nothing.

        The number is that of the log's cuts before it: see `acknowledge`.
        """
        state = self.state

        def step() -> tuple[AppendResult, int] | None:
            # Another append may have taken the segment that was prepared.
            return None if state.must_wait_locked(size, span, newest) else (write(*arguments), state.marks.cuts)

        while True:
            state.get_ready(size, span, newest)
            result = locked(state.lock, self.settle_locked, step)
            if result is not None:
                return result

    def settled(self, ack: Ack | str | None) -> Ack:
        """Return the acknowledgement that an append asks for, by default that of the settings."""
        return self._default_ack if ack is None else Ack(ack)

    def acknowledge(self, result: AppendResult, ack: Ack = _WRITTEN, cuts: int = -1) -> None:
        """Wait until an append is as durable as ``ack`` and the settings require.

        ``cuts`` is the number of the log's cuts (`LogMarks.cuts`) under the lock of the append; -1: not known.

        Raises:
            AppendTruncatedError: it was to be synced, and a truncation since then has removed it.
        """
        try:
            if ack is Ack.SYNCED:
                self.sync_to(result.last_offset + 1)
                if cuts >= 0:
                    self.state._check_kept(result.first_offset, result.last_offset, cuts)
            elif self.flusher.is_due():
                self.flush()
        except OUT_OF_RESOURCES as error:
            if ack is Ack.SYNCED:
                raise self.not_synced(result, error) from error
            _logger.warning("a flush that was due waits for room: log=%s error=%s", self.state.path, error)

    def not_synced(self, result: AppendResult, error: LogstoreError) -> NotSyncedError:
        """Return the error of an append that is in the log, but not on disk.

        There is no space for the memory tail, or no descriptor was free for a sync. With the error of a failed
        append, the caller would append the records twice.
        """
        state = self.state
        return NotSyncedError(
            f"{state.name}: offsets {result.first_offset} to {result.last_offset} are in the log, but not "
            f"on the disk: {error}; free space and call flush(), do not append them again",
            path=state.path,
        )

    def flush(self) -> None:
        """Make everything that was appended before this call durable; see `Log.flush`."""
        self.state.check_writable()
        self.sync_to(self.state.end.value)

    def sync_to(self, offset: int) -> None:
        """Make everything below an offset durable."""
        # A memory tail is written to the disk first. If the disk is full, the quota reclaims space, and one retry
        # follows.
        mode = self.state.mode
        if mode.in_memory:
            with_space(self.state.quota, mode.size, lambda: self.flusher.sync_to(offset))
        else:
            self.commit.run(offset)


def write_locked(
    state: State,
    data: Any,
    span: int,
    record_count: int,
    batch_count: int,
    max_timestamp: int,
    produced: ProducedBatch | None,
    origin: Origin,
    now: int,
    put: Put | None = None,
) -> AppendResult:
    """Write validated batches at the log end offset and move the marks: one append, whole or not at all.

    ``span`` is the number of offsets that the batches take. ``produced`` has the fields for the producer state,
    if the batches have a producer id. ``put`` is called instead of `_put_locked` if the bytes get into the
    segments in another way (`ingest_file`). Raises as `LogReplica.append_batch`.
    """
    # 1. Refuse to write to a log that is closed, has failed, was left inconsistent, or is a follower's.
    state.check_whole_locked()
    state.check_leads_locked()
    if max_timestamp < state.old_below_ms:
        state.warn_of_old(max_timestamp)
    if state.must_check_keys and origin is _CLIENT:
        _check_keys(state, data)
    # 2. Choose the offsets.
    first = state.next_offset_locked()
    leader_epoch = state.leader_epoch
    # 3. Answer a repeated batch of a producer with its first result.
    if produced is not None:
        shift = first - produced.base_offset
        produced = produced._replace(base_offset=first, last_offset=produced.last_offset + shift)
        duplicate = state.transactions.check(produced, origin)
        if duplicate is not None:
            state.counters.duplicates += 1
            if state.config.timestamp_type is TimestampType.CREATE_TIME:
                duplicate = duplicate._replace(timestamp_ms=-1)
            return duplicate
    # 4. Write the bytes, then the epoch and producer state.
    # An interrupt before the log end offset rises leaves bytes after the end: `settle_locked` truncates them.
    state.begin_append()
    try:
        if state.must_unmark:
            shielded(state.durability.unmark_locked)
        if len(data) > state.config.segment_bytes and batch_count == 1:
            raise too_large(len(data), state.config)
        mode = state.mode
        if isinstance(mode, MemoryTail):
            held = (state, mode, data, span, max_timestamp, produced, now, first, leader_epoch)
            # Interrupted, a change of producers could not be undone: they are replayed from the files.
            end = _hold_locked(*held) if produced is None else shielded(_hold_locked, *held)
        else:
            end = (put or _put_locked)(state, data, first, span, max_timestamp, leader_epoch, batch_count)
            note_epoch_locked(state, leader_epoch, first)
            if produced is not None:
                _record_locked(state, produced, now)
        # 5. Count the append, raise the log end offset, then the marks that follow it.
        state.counters.count(record_count, batch_count, len(data))
        state.note_growth_locked()
        state.raise_end(data, first, end)
        state.move_marks_locked(by_append=True)
    except LogstoreError:
        state.end_append()
        raise
    state.end_append()
    return _new_result(AppendResult, (first, end - 1, -1, False))


def _check_keys(state: State, data: Any) -> None:
    """Check under the lock that records have keys: the first check may be older than cleanup.policy=compact."""
    limit = state.config.decompressed_max_bytes
    check_keys(
        data.null_keys
        if isinstance(data, Encoder)
        else sum(BatchView(bytes(each)).validate(contiguous=False, limit=limit)[2] for each in batches_of(data)),
        state.config,
    )


def _hold_locked(
    state: State,
    tail: MemoryTail,
    data: Any,
    span: int,
    max_timestamp: int,
    produced: ProducedBatch | None,
    now: int,
    first: int,
    leader_epoch: int,
) -> int:
    """Stamp batches and hold them in memory, then record epoch and producer; return the new log end offset."""
    if tail.size >= 2 * state.config.tail_bytes:
        # If the disk is full, this write fails, and so does the append: the tail must not exhaust memory.
        shielded(state.drain_tail_locked)
    stamp_run(data, first, leader_epoch)
    note_epoch_locked(state, leader_epoch, first)
    aborted = None if produced is None else state.transactions.apply(produced, now)
    tail.add(Held(bytes(data), first + span, max_timestamp, aborted), partial(mark_appended, data, first))
    if produced is not None:
        state.transactions.expire(now)
    return first + span


def _record_locked(state: State, produced: ProducedBatch, now: int) -> None:
    """Record the producer of batches that are in the files, and the transaction that they abort."""
    aborted = state.transactions.apply(produced, now)
    if aborted is not None:
        state.list_aborted_locked(aborted)
    state.transactions.expire(now)


def note_epoch_locked(state: State, leader_epoch: int, first: int) -> None:
    """Record the epoch of batches from an offset on; the log writes in no lower one from then on."""
    if state.epochs.note(leader_epoch, first):
        state.ask_follow_up()
    state.note_epoch(leader_epoch)


def _put_locked(
    state: State, data: Any, first: int, span: int, max_timestamp: int, leader_epoch: int, batch_count: int
) -> int:
    """Write batches into the segments, rolling full ones; return the new log end offset.

    Offsets and ``leader_epoch`` are set in the headers.
    """
    size = len(data)
    if state.roll_is_due_locked(size, first + span - 1, max_timestamp):
        shielded(state.roll_locked)
    by_position = state.mode.by_position
    if size <= state.config.segment_bytes and not (by_position and batch_count > 1):
        state.append_locked(data, first, leader_epoch)
        return first + span
    # Write one batch at a time: one segment cannot hold all of them, or offsets are positions.
    view = memoryview(data)
    next_offset = end = first
    try:
        while len(view):
            length = int.from_bytes(view[8:12], "big") + 12
            count = int.from_bytes(view[23:27], "big") + 1
            if state.roll_is_due_locked(length, next_offset + count - 1, max_timestamp):
                shielded(state.roll_locked)
            # The view is released at once: a traceback that refers to this frame would keep the encoder's buffer.
            with view[:length] as batch:
                state.append_locked(batch, next_offset, leader_epoch)
            if next_offset == first:
                # The epoch is recorded before a roll raises the recovery point above the batch: recovery does not
                # scan below the recovery point, so it would not find the epoch.
                note_epoch_locked(state, leader_epoch, first)
            end = next_offset + count
            next_offset += length if by_position else count
            rest = view[length:]
            view.release()
            view = rest
    except LogstoreError:
        # All or nothing: without this truncation, batches already written would stay after the log end offset.
        if next_offset > first and state.failed is None:
            shielded(cut_locked, state, first)
        raise
    finally:
        view.release()
    return end


def add_records(encoder: Encoder, records: Any) -> None:
    """Add records to an encoder, in any form that `Log.append` accepts."""
    if type(records) is list:
        encoder.add_all(records)
    elif hasattr(records, "__arrow_c_array__") or hasattr(records, "__arrow_c_stream__"):
        from logstore.columns._import import add_arrow

        add_arrow(encoder, records)
    elif hasattr(records, "__array_interface__"):
        from logstore.columns._import import add_numpy

        add_numpy(encoder, records)
    elif isinstance(records, Iterable):
        encoder.add_all(records)
    else:
        raise InvalidRecordError(
            f"records must be a list, an Arrow array or a numpy array, found {type(records).__name__}"
        )


def produced_by(producer: ProducerStamp, encoder: Encoder) -> ProducedBatch:
    """Return the fields of an idempotent append that producer state needs, with base offset 0."""
    if encoder.batch_count > 1:
        raise RecordTooLargeError(
            f"an idempotent append must fit one batch, this one takes {encoder.batch_count}; send fewer records"
        )
    return produced_run(producer, encoder.record_count, encoder.max_timestamp_ms)


def produced_run(producer: ProducerStamp, record_count: int, max_timestamp_ms: int) -> ProducedBatch:
    """Return the fields that producer state needs of records with consecutive sequences, with base offset 0."""
    return ProducedBatch(
        0,
        record_count - 1,
        producer.producer_id,
        producer.producer_epoch,
        producer.base_sequence,
        (producer.base_sequence + record_count - 1) & INT32_MAX,
        max_timestamp_ms,
        producer.transactional,
    )
