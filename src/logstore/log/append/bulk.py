"""Bulk append: many finished batches of one producer, encoded and checked elsewhere.

The batches are consecutive in memory that the caller owns; they are stamped there and written with as few
calls as the segments allow. The caller has checked shape, keys and timestamps. CRCs are checked again here,
since they are replaced.

A single write never spans a roll: the snapshot that a roll writes must cover every batch below it, and
producer state is changed once for each write.
"""

from __future__ import annotations

from functools import partial

from logstore.batch._batch import stamp_producer
from logstore.io._interrupts import locked
from logstore.log.append.append import produced_run, write_locked
from logstore.log.cleanup.truncation import settle_locked
from logstore.log.space_quota import with_room
from logstore.log.state import State
from logstore.records import INT32_MAX, AppendResult, Origin, ProducerStamp


def append_run(
    state: State,
    run: bytearray,
    producer: ProducerStamp,
    max_timestamp_ms: int,
    now_ms: int,
    *,
    append_time: bool,
) -> AppendResult:
    """Stamp and write a run; raise as `LogReplica.append_run`."""
    stamp_producer(
        run,
        *producer[:3],
        transactional=producer.transactional,
        append_time_ms=now_ms if append_time else -1,
    )
    newest = now_ms if append_time else max_timestamp_ms
    rest = memoryview(run)
    first, last = -1, -2
    settle = partial(settle_locked, state)
    while rest:

        def write(piece: memoryview = rest, producer: ProducerStamp = producer) -> tuple[int, int, AppendResult]:
            return locked(state.lock, settle, _write_locked, state, piece, producer, newest, now_ms)

        size, count, result = with_room(state.quota, len(rest), write)
        first = result.first_offset if first < 0 else first
        last = result.last_offset
        if producer.producer_id >= 0:
            producer = producer._replace(base_sequence=(producer.base_sequence + count) & INT32_MAX)
        rest = rest[size:]
    return AppendResult(first, last, now_ms if append_time else -1)


def _write_locked(
    state: State, rest: memoryview, producer: ProducerStamp, newest: int, now_ms: int
) -> tuple[int, int, AppendResult]:
    """Write as many batches as one segment takes; return their bytes, their records and the result."""
    # Under the lock: a smaller segment.bytes may be set at any time.
    size, batch_count, count = _piece(rest, 0 if state.positions is not None else state.config.segment_bytes)
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


__all__ = ["append_run"]
