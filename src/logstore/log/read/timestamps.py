"""Timestamps of records: the first record at or after one, and the record with the largest.

Each search is of one `View`; `Readable` makes it again if the log has changed meanwhile. The time indexes lead to
the batches that are read. No locks; any thread.
"""

from __future__ import annotations

from logstore._segment import Segment
from logstore.batch.runs import DEFAULT_READ_BYTES
from logstore.log.marks.view import View
from logstore.log.read.range import Hint
from logstore.log.read.viewed_log import ViewedLog
from logstore.records import Isolation, TimestampOffset


def first_since(
    log: ViewedLog, view: View, _hold: object, timestamp_ms: int, isolation: Isolation
) -> TimestampOffset | None:
    """Return the first record, by offset, whose timestamp is at least ``timestamp_ms``, or None."""
    start, end = view.log_start_offset, view.end_offset(isolation)
    # Raise if the first segment is lost: it may have held the first such record.
    log._at_segment(view, start, lambda _segment: (), end)
    for segment in view.segments:
        if segment.base_offset >= end:
            break
        begin = segment.index.offset_for_time(timestamp_ms)
        if begin is not None:
            found = _first_at(log, view, max(begin, start), segment, timestamp_ms, isolation)
            if found is not None:
                return found
        log._check_joined(segment)
    log._check_whole(view)
    return None


def newest(log: ViewedLog, view: View, _hold: object, isolation: Isolation) -> TimestampOffset | None:
    """Return the first record of the largest timestamp that can be seen, or None."""
    best: TimestampOffset | None = None
    end = view.end_offset(isolation)
    known = [(each.index.largest_timestamp(), each) for each in view.segments if each.base_offset < end]
    # From the newest on: with timestamps that rise, one segment is read. Of equal ones the first comes first.
    for largest, segment in sorted(
        ((found[0], each) for found, each in known if found is not None), key=lambda pair: pair[0], reverse=True
    ):
        if best is not None:
            if largest < best.timestamp_ms:
                break
            if largest == best.timestamp_ms and segment.base_offset > best.offset:
                continue
        found = _newest_in(log, view, segment, largest, isolation)
        if found is not None and (
            best is None or (found.timestamp_ms, -found.offset) > (best.timestamp_ms, -best.offset)
        ):
            best = found
    return best


def _first_at(
    log: ViewedLog, view: View, offset: int, segment: Segment, timestamp_ms: int, isolation: Isolation
) -> TimestampOffset | None:
    """Return the first such record of one segment from an offset on, or None."""
    hint: Hint = None
    end = view.end_offset(isolation)
    stop = segment.next_offset if segment.next_offset >= 0 else end
    while offset < min(end, stop):
        batches, hint = log._read_at(view, None, offset, DEFAULT_READ_BYTES, isolation, hint)
        found = batches.first_at_or_after(timestamp_ms)
        if found is not None:
            return TimestampOffset(*found)
        if not batches:
            break
        offset = batches.next_offset
    return None


def _newest_in(
    log: ViewedLog, view: View, segment: Segment, largest: int, isolation: Isolation
) -> TimestampOffset | None:
    start, end = view.log_start_offset, view.end_offset(isolation)
    begin = segment.index.offset_for_time(largest)
    found = None if begin is None else _first_at(log, view, max(begin, start), segment, largest, isolation)
    if found is not None:
        return found
    # The record is deleted, aborted, or cannot be seen yet. No record of a batch is newer than its header says, so
    # batches are read from the newest header on, until the next one cannot have a newer record.
    best = (-1, 0)  # timestamp, and the offset below 0: the larger one is the first of the newest
    headers = [
        (stamp, -first, last)
        for first, last, _, _, stamp, _ in segment.index.headers()
        if stamp >= 0 and last >= start and first < end
    ]
    for stamp, first, last in sorted(headers, reverse=True):
        if (stamp, first) < best:
            break
        batches, _ = log._read_at(view, None, max(-first, start), 1, isolation)
        seen = ((record.timestamp_ms, -record.offset) for record in batches if record.offset <= last)
        best = max(best, *seen, (-1, 0))
    return None if best[0] < 0 else TimestampOffset(best[0], -best[1])
