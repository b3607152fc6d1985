"""Offsets that are positions: ``logstore.offset.mode=bytes``, the message ids of the paper of 2011.

The base offset of a batch is the number of bytes written to the log before it. So ids rise but are not
consecutive. An id gives the position of its bytes without an index: it is the batch's offset less that of the
segment's first batch. An uncompressed batch has more bytes than records, so offsets never overlap; the records of
one batch follow its base offset one by one. Readers and Kafka's clients see gaps between batches, as a compaction
leaves them.

This module is responsible for the base offset of the next batch. Called under the log's lock.
"""

from __future__ import annotations

from logstore._segment import Segment
from logstore.log.directory.segments import Segments
from logstore.records import INT64_MAX


class Positions:
    """Base offset of the next batch in a log of this mode.

    Invariant: the result is at least the log end offset. It is the previous result plus the bytes
    written since, even if the log was rolled or opened in between.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._known: tuple[str, int, int] | None = None  # path, generation, offset of the first batch

    def next(self, end: int, generation: int) -> int:
        """Return the base offset of the next batch in this generation of a log that ends at ``end``."""
        for segment in reversed(self._segments.all):
            # An empty segment has no first batch to count from: the bytes before it are the previous segment's.
            if segment.size:
                return max(end, self._start(segment, generation) + segment.size)
        return end

    def _start(self, segment: Segment, generation: int) -> int:
        """Return the offset of a segment's first batch, which may be above the segment's base offset."""
        if self._known is not None and self._known[:2] == (segment.path, generation):
            return self._known[2]
        found = segment.read(segment.base_offset, 1, INT64_MAX)
        assert found is not None
        start = int.from_bytes(found[0][:8], "big")
        self._known = segment.path, generation, start
        return start
