"""Sizes and times of a range of offsets in a log, read from indexes, for planning reads.

Nothing is decoded: a batch is found by its segment's index and its header. The results are for planning: a
segment that is deleted or truncated concurrently makes them coarser, never wrong, since readers ask the log again.
Any thread may call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from logstore._segment import Segment
from logstore.errors import RecordError, StorageError
from logstore.log.read.reader import Readable


def parts_of(log: Readable, start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Split ``start`` to ``end`` into at most ``parts`` ranges of about the same size in bytes.

    They are split between batches, so that no batch is read twice.

    >>> log = Log.open(tmp / "flights-0")
    >>> for n in range(100):
    ...     at = log.append([b"x" * 100])
    >>> parts_of(log, 0, 100, 2)
    [(0, 50), (50, 100)]
    """
    if parts < 2 or end - start < 2:
        return [(start, end)] if start < end else []
    map = _Bytes(log)
    try:
        first, last = map.before(start), map.before(end)
        sizes = [first + (last - first) * number // parts for number in range(1, parts)]
        # The first offset whose batch begins there or later: a batch begins at every split.
        cuts = [start + bisect_left(range(start, end), size, key=map.before) for size in sizes]
    except (RecordError, StorageError):
        cuts = [start + (end - start) * number // parts for number in range(1, parts)]
    bounds = sorted({start, end, *(cut for cut in cuts if start < cut < end)})
    return list(pairwise(bounds))


def offset_after(log: Readable, start: int, end: int, max_bytes: int) -> int:
    """Return the end of a range from ``start`` of whole batches with at most ``max_bytes``, or of one batch.

    At most ``end``, and above ``start`` where that is below ``end``. A batch that begins before ``start``
    counts as a whole.
    """
    if end - start < 2:
        return end
    map, offsets = _Bytes(log), range(start, end + 1)
    try:
        limit = map.before(start) + max_bytes
        beyond = start + bisect_right(offsets, limit, key=map.before)
        if beyond > end:
            return end
        # The batch before `beyond` passes the limit too; it is taken only where it is the first.
        whole = start + bisect_left(offsets, map.before(beyond - 1), key=map.before)
    except (RecordError, StorageError):
        return end
    return whole if whole > start else beyond


def narrowed(log: Readable, start: int, end: int, since_ms: int) -> tuple[int, int]:
    """Return the part of a range that holds all its records with a timestamp of ``since_ms`` or later.

    Uses the greatest timestamp of each segment, and its time index. A log stores no least timestamp: records
    need not be in the order of their timestamps.
    """
    maintenance = log.maintenance
    try:
        segments = [segment for segment in maintenance.segments if segment.base_offset < end]
        for segment in segments:
            # Records lost between two segments may be as new as ``since_ms``; only a full read would tell.
            maintenance.check_joined(segment)
        new = [place for place, segment in enumerate(segments) if _is_as_new(segment, since_ms)]
        if not new:
            return end, end
        first, last = segments[new[0]], new[-1]
        # Where in the segment to begin to look; earlier records are older.
        begin = first.offset_for_time(since_ms)
    except (RecordError, StorageError):
        return start, end
    start = max(start, first.base_offset if begin is None else begin)
    if last + 1 < len(segments):
        end = min(end, segments[last + 1].base_offset)
    return min(start, end), end


def _is_as_new(segment: Segment, since_ms: int) -> bool:
    # The active segment may have grown since it was measured.
    if not segment.sealed:
        return True
    newest = segment.largest_timestamp()
    return newest is not None and newest[0] >= since_ms


class _Bytes:
    """The segments of a log as they are now, concatenated."""

    def __init__(self, log: Readable) -> None:
        self._segments = log.maintenance.segments
        self._bases = [segment.base_offset for segment in self._segments]
        self._starts = [0]
        for segment in self._segments:
            self._starts.append(self._starts[-1] + segment.size)

    def before(self, offset: int) -> int:
        """Return the bytes before the batch that holds or follows an offset."""
        place = bisect_right(self._bases, offset) - 1
        return 0 if place < 0 else self._starts[place] + self._segments[place].position_of(offset)
