"""Bulk append to several partitions: split by key, validated as a whole, then written.

Every invalid record is found before the first byte is written. The records are encoded for each partition and
compared with the rules of its log. Only the disk can fail after that. If it fails for some partitions, the error
says which records are in the log. Partitions that are to be synced are written side by side.
"""

from __future__ import annotations

from typing import Any

from logstore.batch._encode import Encoder, timestamp_of
from logstore.batch.moments import Time
from logstore.client.backend.source import PartitionedTopic
from logstore.client.scan.encoding import encode_by_key
from logstore.config.log import LogConfig
from logstore.errors import LogstoreError, PartialAppendError
from logstore.io.side_by_side import side_by_side
from logstore.log import Log
from logstore.records import Ack, AppendResult, Codec, TimestampType

_SPARE_ENCODERS = 16
_SPARE_BYTES = 4 << 20  #: a buffer that has grown past this is not kept

#: With the settings that each has begun with.
_spare: list[tuple[LogConfig, Codec | None, Encoder]] = []


def append_by_key(
    topic: PartitionedTopic,
    records: Any,
    *,
    count: int,
    now_ms: int,
    keyless: int = 0,
    timestamp: Time | None = None,
    codec: Codec | None = None,
    ack: Ack | str | None = None,
) -> dict[int, AppendResult]:
    """Append records to the partitions that their keys choose; return the offsets by partition.

    ``records`` are those of `Log.append`; those without a key go to the partition ``keyless``. ``count`` is the
    number of partitions.

    Raises:
        RecordError: a record cannot be written. None is.
        PartialAppendError: the disk failed after some partitions were written; it names them.
        and as `Log.append`.
    """
    settled = None if ack is None else Ack(ack)
    # A log's own settings: those of a topic are computed for each request. Always of the same log, so that the
    # encoders of the last call have them already.
    config = topic._log_to_write(0)._config
    if timestamp is None or config.timestamp_type is TimestampType.LOG_APPEND_TIME:
        stamp = now_ms
    else:
        stamp = timestamp_of(timestamp)

    taken: list[Encoder] = []

    def begin(_partition: int) -> Encoder:
        encoder = _begun(config, codec, stamp)
        taken.append(encoder)
        return encoder

    try:
        encoders = encode_by_key(records, count, keyless, begin)
        # Opened before anything is written: a partition that cannot be opened fails here.
        logs = {partition: topic._log_to_write(partition) for partition in encoders}
        for partition, log in logs.items():
            log._state.check_encoded(encoders[partition], now_ms, log._writer)
        is_synced = (settled or config.default_ack) is Ack.SYNCED
        return _append(logs, encoders, now_ms, settled, is_synced=is_synced)
    finally:
        _spare.extend((config, codec, encoder) for encoder in taken if encoder.pending_bytes <= _SPARE_BYTES)
        del _spare[_SPARE_ENCODERS:]


def _begun(config: LogConfig, codec: Codec | None, stamp_ms: int) -> Encoder:
    """Return an encoder with the settings of a log, without records."""
    try:
        known, known_codec, encoder = _spare.pop()
    except IndexError:
        encoder = Encoder()
    else:
        if known is config and known_codec is codec:
            return encoder.renew(stamp_ms)
    chosen = config.codec if config.codec is not None else Codec(codec or 0)
    return encoder.begin(
        timestamp_ms=stamp_ms,
        codec=chosen,
        level=config.level_of(chosen),
        limits=config.batch_limits,
        append_time=config.timestamp_type is TimestampType.LOG_APPEND_TIME,
    )


def _append(
    logs: dict[int, Log], encoders: dict[int, Encoder], now_ms: int, ack: Ack | None, *, is_synced: bool
) -> dict[int, AppendResult]:
    results: dict[int, AppendResult] = {}
    failed: dict[int, LogstoreError] = {}

    def append(partition: int) -> None:
        log, encoder = logs[partition], encoders[partition]
        try:
            result = log._state.append_plain(encoder, now_ms, log._writer) if ack is None else None
            results[partition] = result or log._append_encoded(encoder, ack=ack)
        except LogstoreError as error:
            failed[partition] = error

    full = [partition for partition in logs if encoders[partition].record_count]
    if is_synced:
        # Their syncs together take little longer than one. Writes alone do not gain: measured.
        side_by_side(append, full, logs[full[0]]._state.directory.files)
    else:
        for partition in full:
            append(partition)
            if failed:
                break
    for partition, error in failed.items():
        if not results:
            raise error
        written = {number: results[number] for number in logs if number in results}
        left = [str(number) for number in logs if number not in results]
        raise PartialAppendError(
            f"{logs[partition].name}: {error}; partitions {', '.join(map(str, written))} of this append are "
            f"written (see `results`), {', '.join(left)} are not: append only the records of those again",
            results=written,
        ) from error
    return {number: results[number] for number in full}
