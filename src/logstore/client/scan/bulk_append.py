"""Bulk append to several partitions: split by key, validated as a whole, then written.

Every invalid record is found before the first byte is written. The records are encoded for each partition and
compared with the rules of its log. Only the disk can fail after that. If it fails after other partitions were
written, the error says which records are in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logstore.batch._encode import Encoder, timestamp_of
from logstore.client.backend import PartitionedTopic
from logstore.client.scan.topic_scan import TopicScan
from logstore.columns._partition_rows import RowPartitioner
from logstore.config.log import LogConfig, check_keys, check_timestamps
from logstore.errors import InvalidRecordError, LogstoreError, PartialAppendError
from logstore.log import Log
from logstore.log.moments import Time
from logstore.log.read.range import Scan
from logstore.records import Ack, AppendResult, Codec, TimestampType

_SPARE_ENCODERS = 16
_SPARE_BYTES = 4 << 20  #: a buffer that has grown past this is not kept

_spare: list[Encoder] = []


def append_by_key(
    topic: PartitionedTopic,
    records: Any,
    *,
    now_ms: int,
    keyless: int = 0,
    timestamp: Time | None = None,
    codec: Codec | None = None,
    ack: Ack | str | None = None,
) -> dict[int, AppendResult]:
    """Append records to the partitions that their keys choose; return the offsets by partition.

    ``records`` are those of `Log.append`; those without a key go to the partition ``keyless``.

    Raises:
        RecordError: a record cannot be written. None is.
        PartialAppendError: the disk failed after some partitions were written; it names them.
        and as `Log.append`.
    """
    settled = None if ack is None else Ack(ack)
    # The log's own settings: those of a topic are computed for each request.
    count, config = topic.partition_count, topic._log_to_write(keyless)._config
    append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    stamp = now_ms if timestamp is None or append_time else timestamp_of(timestamp)

    taken: list[Encoder] = []

    def begin(_partition: int) -> Encoder:
        try:
            encoder = _spare.pop()
        except IndexError:
            encoder = Encoder()
        taken.append(encoder)
        return _begin(encoder, config, stamp, codec)

    try:
        encoders = _encode(records, RowPartitioner(count, keyless, begin), keyless, begin)
        for encoder in encoders.values():
            encoder.finish()
            check_keys(encoder.null_keys, config)
            if not append_time:
                check_timestamps(encoder.min_timestamp_ms, encoder.max_timestamp_ms, config, now_ms)
        # Opened before anything is written: a partition that cannot be opened fails here.
        logs = {
            partition: topic._log_to_write(partition)
            for partition, encoder in encoders.items()
            if encoder.record_count
        }
        return _append(logs, encoders, settled)
    finally:
        _spare.extend(encoder for encoder in taken if encoder.pending_bytes <= _SPARE_BYTES)
        del _spare[_SPARE_ENCODERS:]


def _encode(
    records: Any, partitioner: RowPartitioner, keyless: int, begin: Callable[[int], Encoder]
) -> dict[int, Encoder]:
    """Encode the records; return batches that are still open, by partition."""
    if type(records) is not list:
        if isinstance(records, TopicScan | Scan):
            # An Arrow source gives a stream too, but of columns, and rows with headers are none of the usual ones.
            records = iter(records)
        elif hasattr(records, "__arrow_c_array__") or hasattr(records, "__arrow_c_stream__"):
            partitioner.add_arrow(records)
            return partitioner.encoders
        elif hasattr(records, "__array_interface__"):
            from logstore.columns._import import add_numpy

            encoder = begin(keyless)
            add_numpy(encoder, records)
            return {keyless: encoder}
        elif not isinstance(records, Iterable):
            raise InvalidRecordError(
                f"records must be a list, an Arrow array or a numpy array, found {type(records).__name__}"
            )
    partitioner.add_all(records)
    return partitioner.encoders


def _begin(encoder: Encoder, config: LogConfig, stamp_ms: int, codec: Codec | None) -> Encoder:
    chosen = config.codec if config.codec is not None else Codec(codec or 0)
    return encoder.begin(
        timestamp_ms=stamp_ms,
        codec=chosen,
        level=config.level_of(chosen),
        limits=config.batch_limits,
        append_time=config.timestamp_type is TimestampType.LOG_APPEND_TIME,
    )


def _append(logs: dict[int, Log], encoders: dict[int, Encoder], ack: Ack | None) -> dict[int, AppendResult]:
    results: dict[int, AppendResult] = {}
    for partition, log in logs.items():
        try:
            results[partition] = log._append_encoded(encoders[partition], ack=ack)
        except LogstoreError as error:
            if not results:
                raise
            left = [str(number) for number in logs if number not in results]
            raise PartialAppendError(
                f"{log.name}: {error}; partitions {', '.join(map(str, results))} of this append are written "
                f"(see `results`), {', '.join(left)} are not: append only the records of those again",
                results=results,
            ) from error
    return results
