"""Sizes and times of a range of offsets in a log, read from indexes, for planning reads.

No record is decoded: a batch is found by its segment's index and its header. A segment may be deleted or truncated
concurrently. Then the results are coarser but never wrong, since readers ask the log again. Any thread may call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from logstore._segment import Segment
from logstore.errors import RecordError, StorageError
from logstore.log.read.reader import Readable


def parts_of(log: Readable, start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Split ``start`` to ``end`` into at most ``parts`` ranges of about the same size in bytes.

    The range is split between batches, so that no batch is read twice. If the log cannot be read, it is split into
    about equal numbers of offsets.

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
        # The first offset whose batch begins at that position or later: so every split is between two batches.
        cuts = [start + bisect_left(range(start, end), size, key=map.before) for size in sizes]
    except (RecordError, StorageError):
        cuts = [start + (end - start) * number // parts for number in range(1, parts)]
    bounds = sorted({start, end, *(cut for cut in cuts if start < cut < end)})
    return list(pairwise(bounds))


def offset_after(log: Readable, start: int, end: int, max_bytes: int) -> int:
    """Return the end of the longest range from ``start`` whose batches have at most ``max_bytes`` together.

    The range has at least one batch, and ends between two batches or at ``end``. A batch that begins before
    ``start`` counts with all its bytes. If the log cannot be read, ``end`` is returned.
    """
    if end - start < 2:
        return end
    map, offsets = _Bytes(log), range(start, end + 1)
    try:
        limit = map.before(start) + max_bytes
        beyond = start + bisect_right(offsets, limit, key=map.before)
        if beyond > end:
            return end
        # The batch of offset `beyond - 1` ends past the limit: it is left out, unless it is the first one.
        whole = start + bisect_left(offsets, map.before(beyond - 1), key=map.before)
    except (RecordError, StorageError):
        return end
    return whole if whole > start else beyond


def narrowed(log: Readable, start: int, end: int, since_ms: int) -> tuple[int, int]:
    """Return the part of a range that holds all its records with a timestamp of ``since_ms`` or later.

    Uses the largest timestamp of each segment, and its time index. The part can hold older records too, since
    records need not be in the order of their timestamps. If the log cannot be read, the whole range is returned.
    """
    maintenance = log.maintenance
    try:
        segments = [segment for segment in maintenance.segments if segment.base_offset < end]
        for segment in segments:
            # Raises if records between two segments were lost: they may be as new, so the range stays whole.
            maintenance.check_joined(segment)
        new = [place for place, segment in enumerate(segments) if _is_as_new(segment, since_ms)]
        if not new:
            return end, end
        first, last = segments[new[0]], new[-1]
        # Every record of the segment below this offset is older.
        begin = first.index.offset_for_time(since_ms)
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
    newest = segment.index.largest_timestamp()
    return newest is not None and newest[0] >= since_ms


class _Bytes:
    """The bytes of a log: its current segments, concatenated."""

    def __init__(self, log: Readable) -> None:
        self._segments = log.maintenance.segments
        self._bases = [segment.base_offset for segment in self._segments]
        self._starts = [0]
        for segment in self._segments:
            self._starts.append(self._starts[-1] + segment.size)

    def before(self, offset: int) -> int:
        """Return the number of bytes before the batch that holds or follows an offset."""
        place = bisect_right(self._bases, offset) - 1
        return 0 if place < 0 else self._starts[place] + self._segments[place].index.position_of(offset)
