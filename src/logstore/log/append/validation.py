"""Batch validation before an append, and the fields that it has to set. Writes nothing.

`admit` checks the bytes alone and runs outside the log's lock: shape, CRC, size, records,
timestamps. `Producers` checks sequences and epochs, which depend on the log's state, under the
lock. Rules are those of Kafka's log validation (LogValidator, UnifiedLog.analyzeAndValidate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logstore.batch._batch import BatchView, restamp_time, with_codec
from logstore.batch._codec import compress
from logstore.config.log import LogConfig, check_keys, check_timestamps
from logstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
)
from logstore.log._producers import ProducedBatch
from logstore.records import Codec, Origin, TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Admitted(NamedTuple):
    """A validated batch: its bytes, in a writable copy, and the fields that the log needs."""

    data: bytearray
    record_count: int
    span: int  #: offsets that it takes
    max_timestamp_ms: int
    produced: ProducedBatch | None  #: with the offsets of the batch itself


def admit(batch: Buffer, config: LogConfig, origin: Origin, now_ms: int) -> Admitted:
    """Check one whole batch and return a copy that is ready to be stamped.

    Raises:
        CorruptRecordError, UnsupportedFormatError, UnsupportedCodecError: the bytes are wrong.
        InvalidRecordError, InvalidTimestampError, RecordTooLargeError: a rule of the log is broken.
    """
    view = BatchView(batch)
    data = bytearray(view)
    trailing = memoryview(batch).nbytes - view.size
    if trailing:
        raise CorruptRecordError(f"{trailing} bytes behind the batch of {view.size}; append one batch at a time")
    view = BatchView(data)
    if view.size > config.max_message_bytes:
        raise too_large(view.size, config)
    view.check()
    _check_flags(view, origin)
    max_timestamp = view.max_timestamp_ms
    if origin is Origin.CLIENT:
        data, max_timestamp = _check_records(view, data, config, now_ms)
        view = BatchView(data)
    elif view.codec is not Codec.NONE or not view.is_control:
        view.validate(contiguous=False, limit=config.decompressed_max_bytes)
    produced = produced_of(view) if view.producer_id >= 0 else None
    admitted = Admitted(
        data,
        view.record_count,
        view.last_offset - view.base_offset + 1,
        max_timestamp,
        produced,
    )
    # The view's buffer export would make stamping the bytearray fail.
    del view
    return admitted


def too_large(size: int, config: LogConfig) -> RecordTooLargeError:
    """Return the error for a batch over the limit."""
    return RecordTooLargeError.over("a batch", size, config.batch_limits, ("send smaller batches",))


def produced_of(view: BatchView) -> ProducedBatch:
    """Return the producer state's fields of a batch."""
    marker, coordinator_epoch = view.marker or (None, -1)
    return ProducedBatch(
        base_offset=view.base_offset,
        last_offset=view.last_offset,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        base_sequence=view.base_sequence,
        last_sequence=view.last_sequence,
        timestamp_ms=view.max_timestamp_ms,
        is_transactional=view.is_transactional,
        is_control=view.is_control,
        marker=marker,
        coordinator_epoch=coordinator_epoch,
    )


def _check_flags(view: BatchView, origin: Origin) -> None:
    if origin is Origin.CLIENT and view.is_control:
        raise InvalidRecordError("a client may not write control batches; use append_control")
    if origin is Origin.COORDINATOR and not view.is_control:
        raise InvalidRecordError("a transaction coordinator writes control batches only")
    if view.delete_horizon_ms is not None:
        raise InvalidRecordError("a delete horizon is set by compaction only")
    if origin is Origin.CLIENT and view.record_count == 0:
        raise InvalidRecordError("the batch holds no records")
    numbered = view.producer_epoch >= 0 and view.base_sequence >= 0
    if view.producer_id >= 0 and not view.is_control and not numbered:
        raise InvalidRecordError(
            f"producer id {view.producer_id} with epoch {view.producer_epoch} and base sequence "
            f"{view.base_sequence}; both must be 0 or more"
        )
    if view.is_transactional and view.producer_id < 0:
        raise InvalidRecordError("a transactional batch needs a producer id")


def _check_records(view: BatchView, data: bytearray, config: LogConfig, now_ms: int) -> tuple[bytearray, int]:
    least, most, null_keys = view.validate(limit=config.decompressed_max_bytes)
    check_keys(null_keys, config)
    append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    codec = config.codec
    if codec is not None and codec is not view.codec:
        payload = view.payload(config.decompressed_max_bytes)
        packed = payload if codec is Codec.NONE else compress(codec, payload, config.level_of(codec))
        data = with_codec(view, codec, packed)
        if len(data) > config.max_message_bytes:
            raise too_large(len(data), config)
    if append_time:
        most = now_ms
    else:
        check_timestamps(least, most, config, now_ms)
    was_append_time = view.timestamp_type is TimestampType.LOG_APPEND_TIME
    if most != view.max_timestamp_ms or append_time or was_append_time:
        # A wrong maximum would mislead indexes and retention; Kafka corrects it too.
        del view
        restamp_time(data, most, append_time)
    return data, most
