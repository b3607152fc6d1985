"""One append under the lock: check the writer, choose the segment, write, update the state.

The bytes come first; epochs, producer state and marks follow them, so that a reader or a crash in
between finds no mark above missing bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from logstore.batch._batch import BatchView, stamp_run
from logstore.batch._encode import Encoder
from logstore.errors import (
    FencedLeaderEpochError,
    InvalidRecordError,
    LogstoreError,
    RecordTooLargeError,
    UnexpectedOffsetError,
)
from logstore.io._interrupts import shielded
from logstore.log.append.validation import Admitted, check_keys
from logstore.log.cleanup.truncation import cut_locked
from logstore.log.producers import ProducedBatch
from logstore.log.state import State, batches_of
from logstore.records import INT32_MAX, AppendResult, Origin, TimestampType


class ProducerStamp(NamedTuple):
    """The producer of a batch: makes the append idempotent, and transactional if ``transactional`` is set."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False


NO_PRODUCER = ProducerStamp(-1, -1, -1)

#: Writes stamped or unstamped batches at the log end and returns the new end. As `_put_locked`.
Put = Callable[[State, Any, int, int, int, int, int], int]

_REPLICATION = Origin.REPLICATION
_CLIENT = Origin.CLIENT
_new_result = tuple.__new__


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
    admitted: Admitted | None = None,
    put: Put | None = None,
) -> AppendResult:
    """Write admitted batches at the log end offset and move the marks: one append, whole or not at all.

    ``span`` counts the offsets that they take, ``produced`` has the producer state's fields of a batch
    with a producer id. ``put`` brings the bytes into the segments, if not by writing ``data`` at their
    end. Raises as `Log.append_batch`.
    """
    state.check_whole_locked()
    if max_timestamp < state.old_below_ms:
        state.warn_of_old(max_timestamp)
    if state.must_check_keys and origin is _CLIENT:
        _check_keys(state, data)
    first = state.end.value
    leader_epoch = state.leader_epoch
    if origin is _REPLICATION:
        assert admitted is not None
        first, leader_epoch = _check_replicated_locked(state, admitted)
    elif state.positions is not None:
        first = state.next_offset_locked()
    if produced is not None:
        shift = first - produced.base_offset
        produced = produced._replace(base_offset=first, last_offset=produced.last_offset + shift)
        duplicate = state.transactions.check(produced, origin)
        if duplicate is not None:
            state.counters.duplicates += 1
            if state.config.timestamp_type is TimestampType.CREATE_TIME:
                duplicate = duplicate._replace(timestamp_ms=-1)
            return duplicate
    # An interrupt before the end is set leaves bytes that are not in the log: see `settle_locked`.
    state.appending = True
    # An interrupted append to a memory tail could not be undone, nor its producer be replayed from a file.
    change = _change_locked if state.tail is None or produced is None else _change_shielded_locked
    try:
        end = change(state, data, span, max_timestamp, produced, origin, now, first, leader_epoch, batch_count, put)
        counters = state.counters
        counters.appends += 1
        counters.appended_records += record_count
        counters.appended_batches += batch_count
        counters.appended_bytes += len(data)
        state.unflushed_records += record_count
        state.end.advance(end)
        state.move_marks_locked()
    except LogstoreError:
        state.appending = False
        raise
    state.appending = False
    return _new_result(AppendResult, (first, end - 1, -1, False))


def _check_keys(state: State, data: Any) -> None:
    """Check keys again: the caller may have checked before the log became a compacted one."""
    limit = state.config.decompressed_max_bytes
    check_keys(
        data.null_keys
        if isinstance(data, Encoder)
        else sum(BatchView(bytes(each)).validate(contiguous=False, limit=limit)[2] for each in batches_of(data)),
        state.config,
    )


def _change_shielded_locked(*args: Any) -> int:
    return shielded(_change_locked, *args)


def _change_locked(
    state: State,
    data: Any,
    span: int,
    max_timestamp: int,
    produced: ProducedBatch | None,
    origin: Origin,
    now: int,
    first: int,
    leader_epoch: int,
    batch_count: int,
    put: Put | None,
) -> int:
    """Write the bytes, then the epoch and producer state; return the offset after the last record."""
    if state.must_unmark:
        shielded(state.unmark_locked)
    if first + span - 1 - state.end.value > INT32_MAX:
        shielded(state.skip_to_locked, first)
    size = len(data)
    stamp = -1 if origin is _REPLICATION else leader_epoch
    if size > state.config.segment_bytes and batch_count == 1:
        raise RecordTooLargeError.over("a batch", size, state.config.batch_limits, ("send smaller batches",))
    end = first + span
    if state.tail is None:
        end = (put or _put_locked)(state, data, first, span, max_timestamp, stamp, batch_count)
    else:
        if state.tail.size >= 2 * state.config.tail_bytes:
            # A full disk keeps the tail from being written; growing on, it would exhaust memory.
            shielded(state.drain_tail_locked)
        stamp_run(data, -1 if stamp < 0 else first, leader_epoch)
    _note_epoch_locked(state, leader_epoch, first)
    if not state.epochs_saved:
        shielded(state.save_epochs_locked)
    aborted = None if produced is None else state.transactions.apply(produced, now)
    if state.tail is not None:
        state.tail.add(bytes(data), first + span, max_timestamp, aborted)
    elif aborted is not None:
        state.transactions.note_aborted(aborted)
    if produced is not None:
        state.expire_producers_locked(now)
    return end


def _note_epoch_locked(state: State, leader_epoch: int, first: int) -> None:
    latest = state.epochs.latest
    if latest is None or latest.epoch < leader_epoch:
        state.epochs.assign(leader_epoch, first)
        state.epochs_saved = False


def _check_replicated_locked(state: State, admitted: Admitted) -> tuple[int, int]:
    end = state.end.value
    if admitted.base_offset < end:
        raise UnexpectedOffsetError(
            f"{state.name}: a replicated batch begins at offset {admitted.base_offset}, the log ends at {end}",
            offset=admitted.base_offset,
        )
    latest = state.epochs.latest
    if latest is not None and admitted.leader_epoch < latest.epoch:
        raise FencedLeaderEpochError(
            f"{state.name}: a batch of leader epoch {admitted.leader_epoch}, the log has seen {latest.epoch}"
        )
    return admitted.base_offset, admitted.leader_epoch


def _put_locked(
    state: State, data: Any, first: int, span: int, max_timestamp: int, leader_epoch: int, batch_count: int
) -> int:
    """Write stamped or unstamped batches into the segments, rolling full ones; return the new end."""
    size = len(data)
    if state.roll_is_due_locked(size, first + span - 1, max_timestamp):
        shielded(state.roll_locked)
    by_position = state.positions is not None and leader_epoch >= 0
    if size <= state.config.segment_bytes and not (by_position and batch_count > 1):
        state.append_locked(data, first, leader_epoch)
        return first + span
    # More batches than one segment holds, or offsets that are positions: each batch is written by itself.
    view = memoryview(data)
    next_offset = end = first
    try:
        while len(view):
            length = int.from_bytes(view[8:12], "big") + 12
            count = int.from_bytes(view[23:27], "big") + 1
            if state.roll_is_due_locked(length, next_offset + count - 1, max_timestamp):
                shielded(state.roll_locked)
            # Released here: a traceback that refers to this frame would otherwise pin the encoder's bytes.
            with view[:length] as batch:
                state.append_locked(batch, next_offset, leader_epoch)
            if next_offset == first:
                # Before a roll raises the recovery point over the batch: a scan would no longer find its epoch.
                _note_epoch_locked(state, leader_epoch, first)
            end = next_offset + count
            next_offset += length if by_position else count
            rest = view[length:]
            view.release()
            view = rest
    except LogstoreError:
        # All or nothing: batches already written would stay behind the log end.
        if next_offset > first and state.failed is None:
            shielded(cut_locked, state, first)
        raise
    finally:
        view.release()
    return end


def add_records(encoder: Encoder, records: Any) -> None:
    """Add records of any kind that `Log.append` accepts to an encoder."""
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
    """Return the producer state's fields of an idempotent append, as if it began at offset 0."""
    if encoder.batch_count > 1:
        raise RecordTooLargeError(
            f"an idempotent append must fit one batch, this one takes {encoder.batch_count}; send fewer records"
        )
    return produced_run(producer, encoder.record_count, encoder.max_timestamp_ms)


def produced_run(producer: ProducerStamp, record_count: int, max_timestamp_ms: int) -> ProducedBatch:
    """Return the producer state's fields of records with consecutive sequences, as if they began at offset 0."""
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
