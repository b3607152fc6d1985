"""Retention: deletes whole segments from the start of a log by age and size, for `LogMaintenance.retain`.

Rules of Kafka's `UnifiedLog.deleteOldSegments`: a segment is as old as its newest record, by the record's own
timestamp. Offsets at or above the high watermark are never deleted; with only ``cleanup.policy=compact`` nothing
is deleted. Records are deleted even if no reader has read them. Called by maintenance tasks, from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.errors import DamagedLogError, RecordError, StorageError
from logstore.io._interrupts import held
from logstore.log._partition_log import READY_ATTEMPTS
from logstore.log.cleanup import truncation
from logstore.log.state import State
from logstore.records import INT64_MAX

_logger = logging.getLogger(__name__)

#: A time after all others, in ms.
NEVER: Final = INT64_MAX


class Retained(NamedTuple):
    """Result of one pass over a log."""

    log_start_offset: int
    deleted_segments: int = 0
    deleted_bytes: int = 0
    rolled: bool = False  #: the active segment was sealed, since it was older than segment.ms
    expired_producers: int = 0


class OldestSegment(NamedTuple):
    """Segment that a log would delete first."""

    timestamp_ms: int  #: of its newest record
    end_offset: int  #: the log start offset after its deletion
    size: int


def oldest(state: State, active_bytes: int) -> OldestSegment | None:
    """See `LogMaintenance.oldest_segment`."""
    with held(state.lock):
        segments, high_watermark = state.segments.all, state.high_watermark.value
    first = segments[0]
    is_active = len(segments) == 1
    end = first.next_offset if is_active else segments[1].base_offset
    if first.size == 0 or end > high_watermark or (is_active and first.size < active_bytes):
        return None
    return OldestSegment(_timestamp_of(first), end, first.size)


def retain(state: State, sync_to: Callable[[int], None], now_ms: int | None = None) -> Retained:
    """See `LogMaintenance.retain`; ``sync_to`` syncs the records to be deleted."""
    state.check_writable()
    now = state.clock.now_ms() if now_ms is None else now_ms
    rolled = _roll_if_idle(state, now)
    # Of an idle log, no append asks for it again.
    state.list_aborted()
    with held(state.lock):
        state.check_whole_locked()
        expired = state.transactions.expire(now)
        state.look_back(now)
    if rolled:
        state.rolls.ask()
    truncation.drop_below_start(state)
    with held(state.lock):
        segments, high_watermark = state.segments.all, state.high_watermark.value
    doomed = list(_doomed(state.config, segments, high_watermark, now))
    start = state.log_start
    if doomed:
        if doomed[-1].base_offset == segments[-1].base_offset:
            # Every segment. The active one is deleted too, unless a writer has appended meanwhile.
            end = high_watermark
        else:
            end = segments[len(doomed)].base_offset
        _tell_of_holes(state, doomed)
        start = truncation.delete_before(state, end, sync_to)
        _logger.info(
            "retention: log=%s segments=%d bytes=%d log_start_offset=%d",
            state.path,
            len(doomed),
            sum(segment.size for segment in doomed),
            start,
        )
    return Retained(start, len(doomed), sum(segment.size for segment in doomed), rolled, expired)


def _tell_of_holes(state: State, doomed: list[Segment]) -> None:
    """Log the gaps between segments to be deleted: they cannot be detected afterwards."""
    for segment in doomed:
        try:
            if segment.sealed:
                state.check_joined(segment)
        except DamagedLogError as error:
            _logger.error("retention deletes up to behind a loss: log=%s error=%s", state.path, error)
        except (RecordError, StorageError):
            pass  # damage in it is deleted with it


def rests_until(
    config: LogConfig, segments: tuple[Segment, ...], log_start: int, high_watermark: int, now_ms: int
) -> int:
    """Return the first time at which `retain` has something to delete in a log without appends, in ms.

    A time at or before ``now_ms`` means now, `NEVER` that it has nothing to delete at any time.
    """
    if not segments or (len(segments) > 1 and segments[1].base_offset <= log_start):
        return now_ms  # lost, or a deletion was cut short
    if next(_doomed(config, segments, high_watermark, now_ms), None) is not None:
        return now_ms
    if not config.deletes or config.retention_ms < 0 or not any(segment.size for segment in segments):
        return NEVER
    return _timestamp_of(segments[0]) + config.retention_ms + 1


def _doomed(
    config: LogConfig, segments: tuple[Segment, ...], high_watermark: int, now_ms: int
) -> Iterator[Segment]:
    """Yield the first segments, as many as must be deleted."""
    if not config.deletes:
        return
    excess = -1
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - config.retention_bytes
    for place, segment in enumerate(segments):
        is_last = place + 1 == len(segments)
        end = segment.next_offset if is_last else segments[place + 1].base_offset
        if end > high_watermark or (is_last and segment.size == 0):
            return
        # Kafka deletes by size first, and then by age among the remaining segments.
        is_excess = 0 <= segment.size <= excess
        if not is_excess and not 0 <= config.retention_ms < now_ms - _timestamp_of(segment):
            return
        excess -= segment.size
        yield segment


def _timestamp_of(segment: Segment) -> int:
    newest = segment.index.largest_timestamp()
    # Records without a timestamp are as old as their file.
    return segment.file.modified_ms() if newest is None else newest[0]


def _is_idle(state: State, now_ms: int) -> bool:
    """Return whether the active segment began longer than segment.ms ago, and no append has sealed it.

    Kafka rolls at the next append only, so that the last segment of an idle topic is never compacted. Its age
    counts from its first record, or from its creation here if that is later. Otherwise a roll would follow every
    few imported old records.
    """
    active = state.segments.active
    if active.size == 0 or state.mode.in_memory:
        return False
    first = active.index.first_timestamp()
    since = max(state.roll_age.began_ms, -1 if first is None else first)
    return since >= 0 and now_ms - since > state.roll_after_ms


def _roll_if_idle(state: State, now_ms: int) -> bool:
    """Seal an idle active segment; what the roll waits for is done before the lock is acquired."""
    for left in reversed(range(READY_ATTEMPTS)):
        if _is_idle(state, now_ms):
            state.get_ready_to_roll()
        with held(state.lock):
            state.check_whole_locked()
            if not _is_idle(state, now_ms):
                return False
            if left and not state.can_roll_locked():
                continue  # an append has rolled in between, and has taken what was prepared
            with state.change():
                state.roll_locked()
            return True
    return False
