"""A range of one log, and the shapes in which it is read.

A `Scan` keeps only its bounds; where the records lie, and whether they may still be read, its log
says again for every chunk. Any number of uses may go on at once, in any threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from logstore.errors import RecordError
from logstore.records import AbortedTransaction, Isolation, TimestampOffset, TopicPartition

if TYPE_CHECKING:
    from logstore._batch import Batches, Record

#: Where the read before ended, (file, position): the next one begins there without a search.
Hint = tuple[str | None, int] | None

#: What a scan lets through: (end offset, since ms, until ms); end and until are exclusive.
Bounds = tuple[int, int | None, int | None]


_NOWHERE: Hint = None


class Scanned(Protocol):
    """What a scan needs of its log: `Readable`, whose methods say what they do."""

    @property
    def name(self) -> TopicPartition: ...
    def offset_for_time(self, timestamp: int, *, isolation: Isolation) -> TimestampOffset | None: ...
    def _read(
        self, offset: int, max_bytes: int, isolation: Isolation, hint: Hint, bounds: Bounds
    ) -> tuple[Batches, Hint]: ...
    def _count_whole(self, offset: int, end: int, isolation: Isolation) -> tuple[int, int]: ...
    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]: ...
    def _cuts(self) -> int: ...
    def _was_cut_since(self, cuts: int) -> bool: ...


class Scan:
    """A range of a log. Iterating it gives `Record`s; `chunks` whole runs; it is an Arrow stream too.

    Each use begins anew at the start of the range.
    """

    def __init__(
        self,
        log: Scanned,
        start: int,
        bounds: Bounds,
        isolation: Isolation,
        columns: list[str] | None,
        max_bytes: int,
    ) -> None:
        self._log = log
        self._start = start
        self._bounds = bounds
        self._isolation = isolation
        self._columns = columns
        self._max_bytes = max_bytes

    @property
    def start_offset(self) -> int:
        """The first offset of the range."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The end of the range, exclusive."""
        return self._bounds[0]

    def chunks(self) -> Iterator[Batches]:
        """The range as runs of whole batches, one read each."""
        log = self._log
        offset, hint = self._start, _NOWHERE
        end, since, _ = self._bounds
        if since is not None and offset < end:
            found = log.offset_for_time(since, isolation=self._isolation)
            offset = end if found is None else max(offset, found.offset)
        while offset < end:
            batches, hint = log._read(offset, self._max_bytes, self._isolation, hint, self._bounds)
            if not batches:
                return
            yield batches
            offset = batches.next_offset

    def __iter__(self) -> Iterator[Record]:
        for batches in self.chunks():
            yield from batches

    def values(self) -> Iterator[list[bytes | None]]:
        """The values, in lists of one chunk each."""
        for batches in self.chunks():
            yield batches.values()

    def count(self) -> int:
        """How many records the range holds: as many as iterating it gives.

        Told by the headers of the batches where they can tell, without reading, checking or decompressing
        what is in them: all but the two at the ends of the range, unless times bound it or a
        transaction in it was aborted.

        Raises:
            OffsetOutOfRangeError, CorruptRecordError: as `chunks`; damage that no header shows goes unnoticed.
        """
        end, since, until = self._bounds
        log = self._log
        committed = self._isolation is Isolation.READ_COMMITTED
        if since is None and until is None and not (committed and log._aborted_between(self._start, end)):
            cuts = log._cuts()
            try:
                total = self._count_by_headers(log)
            except RecordError:
                # Cut meanwhile, or damaged: the long way knows.
                pass
            else:
                if not log._was_cut_since(cuts):
                    return total
        return sum(batches.count() for batches in self.chunks())

    def _count_by_headers(self, log: Scanned) -> int:
        total, offset, end = 0, self._start, self._bounds[0]
        while offset < end:
            records, reached = log._count_whole(offset, end, self._isolation)
            total += records
            if reached == offset:
                # A batch of which only a part lies in the range.
                batches, _ = log._read(offset, 1, self._isolation, None, self._bounds)
                if not batches:
                    break
                total += batches.count()
                reached = batches.next_offset
            offset = reached
        return total

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The range as an Arrow stream, for pyarrow, polars, duckdb, pandas and others."""
        return self._stream().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._stream().__arrow_c_schema__()

    def _stream(self) -> Any:
        from logstore._columns import ColumnStream

        name = self._log.name
        return ColumnStream(self.chunks(), self._columns, topic=name.topic, partition=name.partition)

    def __repr__(self) -> str:
        return f"<Scan {self._log.name} from offset {self._start}, {self._bounds}>"
