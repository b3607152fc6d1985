"""Offsets that are positions: ``logstore.offset.mode=bytes``, the message ids of the paper of 2011.

The base offset of a batch is the number of bytes that were written to the log before it, so ids rise but
are not consecutive, and an id leads to its bytes without an index: in the file of its segment a batch lies
at its offset less the offset of the segment's first batch. An uncompressed batch has more bytes than
records, so offsets never meet; the records of one batch follow its base offset one by one. For readers these
are gaps between batches, as a compaction leaves them, and Kafka's clients take them as such.

This module alone says where the next batch goes. Under the log's lock.
"""

from __future__ import annotations

from logstore._segment import Segment
from logstore.log.directory.segments import Segments

_INT64_MAX = 2**63 - 1


class Positions:
    """Where the next batch goes in a log of this mode.

    Invariant: the answer is at least the log end offset, and it is the answer to the one before plus the
    size of what was written since, whatever was rolled or opened in between.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._known: tuple[str, int, int] | None = None  # path, generation, offset of the first batch

    def next(self, end: int, generation: int) -> int:
        """The base offset of the next batch in a log that ends at ``end``, in this generation of it."""
        for segment in reversed(self._segments.all):
            # An empty segment was rolled or began the log: the bytes before it are those of the one before.
            if segment.size:
                return max(end, self._start(segment, generation) + segment.size)
        return end

    def _start(self, segment: Segment, generation: int) -> int:
        """The offset of a segment's first batch, which may lie above the one that it is named for."""
        if self._known is not None and self._known[:2] == (segment.path, generation):
            return self._known[2]
        found = segment.read(segment.base_offset, 1, _INT64_MAX)
        assert found is not None
        start = int.from_bytes(found[0][:8], "big")
        self._known = segment.path, generation, start
        return start
