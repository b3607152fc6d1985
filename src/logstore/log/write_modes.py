"""Write modes: how appended batches get their offsets and reach the files.

A log has one mode. Nearly every log has `DIRECT`; the two others are those of Kafka's paper of 2011, by settings
that exclude each other. Called under the log's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.io._interrupts import together
from logstore.log.directory.segments import Segments
from logstore.records import INT64_MAX, AbortedTransaction


class Held(NamedTuple):
    """One append in the memory tail."""

    data: bytes
    next_offset: int
    max_timestamp_ms: int
    aborted: AbortedTransaction | None  #: the transaction that it aborts, if it is an abort marker


class WriteMode:
    """Offsets are counted, and batches are written to the active segment as they are appended."""

    in_memory = False  #: appended batches are held until a flush
    by_position = False  #: an offset says how many bytes are before it
    size = 0  #: bytes held in memory

    def next_offset(self, end: int) -> int:
        """Return the base offset of the next batch in a log that ends at ``end``."""
        return end

    def end_of_files(self, end: int, active_end: int) -> int:
        """Return where the files end, of a log that ends at ``end`` and its active segment at ``active_end``."""
        return end

    def most_bytes(self, segment_bytes: int) -> int:
        """Return how many bytes one write may take of several batches; each takes one batch at least."""
        return segment_bytes

    def head(self) -> Held | None:
        """Return the oldest append in memory; it stays until `drop_head`."""
        return None

    def drop_head(self) -> None:
        """Remove the oldest append from memory, once it is in the files."""


DIRECT = WriteMode()


class BytePositions(WriteMode):
    """Offsets are positions: ``logstore.offset.mode=bytes``, the message ids of the paper of 2011.

    The base offset of a batch is the number of bytes that were written to the log before it, so ids rise but
    are not consecutive. An id gives the position of its bytes without an index: in the file of its segment a batch
    is stored at its offset less the offset of the segment's first batch. An uncompressed batch has more bytes than
    records, so offsets never overlap; the records of one batch follow its base offset one by one. Readers and
    Kafka's clients see gaps between batches, as a compaction leaves them.

    Invariant: the result is at least the log end offset. It is the previous result plus the bytes
    written since, even if the log was rolled or opened in between.
    """

    by_position = True

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._known: tuple[str, int, int] | None = None  # path, generation, offset of the first batch

    def next_offset(self, end: int) -> int:
        for segment in reversed(self._segments.all):
            # An empty segment has no first batch to count from: the bytes before it are the previous segment's.
            if segment.size:
                return max(end, self._start(segment) + segment.size)
        return end

    def most_bytes(self, segment_bytes: int) -> int:
        return 0

    def _start(self, segment: Segment) -> int:
        """Return the offset of a segment's first batch, which may be above the segment's base offset."""
        generation = self._segments.generation
        if self._known is not None and self._known[:2] == (segment.path, generation):
            return self._known[2]
        found = segment.read(segment.base_offset, 1, INT64_MAX)
        assert found is not None
        start = int.from_bytes(found[0][:8], "big")
        self._known = segment.path, generation, start
        return start


class MemoryTail(WriteMode):
    """The newest batches are held in memory until they are flushed: ``logstore.tail=memory``.

    In Kafka's paper (Kreps et al., NetDB 2011) the newest records are in memory, and consumers see them once they
    are on disk. A process that is killed before a flush loses these records, but no consumer has seen them. The
    batches are stamped, and in the order of their offsets.
    """

    in_memory = True

    def __init__(self) -> None:
        self._batches: deque[Held] = deque()
        self.size = 0

    def end_of_files(self, end: int, active_end: int) -> int:
        return min(end, active_end)

    def add(self, held: Held, added: Callable[[], object]) -> None:
        """Hold one append of whole, stamped batches; no interrupt comes between that and ``added``."""
        self.size += len(held.data)
        together(partial(self._batches.append, held), added)

    @property
    def held_end(self) -> int:
        """The offset after the newest held append; -1 if there is none."""
        return self._batches[-1].next_offset if self._batches else -1

    def head(self) -> Held | None:
        return self._batches[0] if self._batches else None

    def drop_head(self) -> None:
        dropped = self._batches.popleft()
        # An interrupt in `add` may leave a size that counts a missing append. So an empty tail has size 0.
        self.size = self.size - len(dropped.data) if self._batches else 0


def mode_of(config: LogConfig, segments: Segments) -> WriteMode:
    """Return the mode that the settings of a log ask for, as it is opened or its settings change."""
    if config.tail == "memory":
        return MemoryTail()
    return BytePositions(segments) if config.offset_mode == "bytes" else DIRECT
