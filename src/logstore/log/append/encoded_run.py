"""Append of a run: consecutive whole batches that were encoded elsewhere, such as by a task of Spark.

The run's bytes are the caller's, and its headers are stamped where they are. One write takes as many batches as one
segment does. `append_run` is the run's way through the log's lock; the lock's steps are those of `append`.
"""

from __future__ import annotations

from logstore.batch._batch import stamp_producer
from logstore.io._interrupts import locked
from logstore.log.append.append import NO_PRODUCER, LogWriter, produced_run, write_locked
from logstore.log.space_quota import with_space
from logstore.log.state import State
from logstore.records import INT32_MAX, AppendResult, Origin, ProducerStamp


def append_run(
    writer: LogWriter, run: bytearray, producer: ProducerStamp | None, max_timestamp_ms: int
) -> AppendResult:
    """See `LogReplica.append_run`."""
    state = writer.state
    state.check_writable()
    stamp = NO_PRODUCER if producer is None else producer
    now_ms, append_time = state.clock.now_ms(), writer.append_time
    stamp_producer(run, *stamp[:3], transactional=stamp.transactional, append_time_ms=now_ms if append_time else -1)
    newest = now_ms if append_time else max_timestamp_ms
    rest = memoryview(run)
    first, last = -1, -2
    # One write never spans a roll. The snapshot that a roll writes must cover every batch below the new
    # segment, but producer state changes only once for each write.
    while rest:

        def write(piece: memoryview = rest, stamp: ProducerStamp = stamp) -> tuple[int, AppendResult]:
            written = state.append_run(piece, stamp, newest, now_ms, writer)
            size, span = min(len(piece), state.config.segment_bytes), 1
            while written is None:
                # What a roll needs is prepared without the lock, however often another append takes it.
                state.get_ready(size, span, newest)
                settle = writer.settle_locked
                size, span, result = locked(
                    state.lock, settle, _write_piece_locked, state, piece, stamp, newest, now_ms
                )
                written = None if result is None else (size, result)
            return written

        size, written = with_space(state.quota, len(rest), write)
        if state.has_work:
            state.follow_up()
        first = written.first_offset if first < 0 else first
        last = written.last_offset
        if stamp.producer_id >= 0:
            count = last - written.first_offset + 1
            stamp = stamp._replace(base_sequence=(stamp.base_sequence + count) & INT32_MAX)
        rest = rest[size:]
    result = AppendResult(first, last, now_ms if append_time else -1)
    writer.acknowledge(result)
    return result


def _write_piece_locked(
    state: State, rest: memoryview, producer: ProducerStamp, newest: int, now_ms: int
) -> tuple[int, int, AppendResult | None]:
    """Write as many batches as one segment takes, and roll before if need be.

    Returns their bytes, their count of records, and the result: None if a roll would wait for a file, see
    `State.must_wait_locked`.
    """
    # Under the lock: a smaller segment.bytes may be set at any time.
    size, batch_count, count = _piece(rest, state.mode.most_bytes(state.config.segment_bytes))
    if state.must_wait_locked(size, count, newest):
        return size, count, None
    produced = produced_run(producer, count, newest) if producer.producer_id >= 0 else None
    result = write_locked(state, rest[:size], count, count, batch_count, newest, produced, Origin.CLIENT, now_ms)
    assert not result.duplicate, (state.name, producer)
    return size, count, result


def _piece(view: memoryview, limit: int) -> tuple[int, int, int]:
    """Return size, batch count and record count of the first batches, at least one, within ``limit`` bytes."""
    size = batch_count = count = 0
    while size < len(view):
        length = int.from_bytes(view[size + 8 : size + 12], "big") + 12
        if batch_count and size + length > limit:
            break
        count += int.from_bytes(view[size + 23 : size + 27], "big") + 1
        size, batch_count = size + length, batch_count + 1
    return size, batch_count, count
