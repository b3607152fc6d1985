"""A range of one log, read as records, chunks, values or Arrow columns.

A `Scan` keeps its bounds and, if the log can hold segments for it, a hold (`segment_holds`). For every chunk it
asks its log again for the position of the records, and whether they may still be read. Any number of uses may run
concurrently, in any threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from logstore.batch.runs import check_limit, limited, values_of
from logstore.columns.tables import Tabular
from logstore.errors import RecordError
from logstore.log.read.damage import DAMAGE, readable
from logstore.log.read.damage import left_out as left_out_by
from logstore.records import AbortedTransaction, Isolation, LeftOut, TimestampOffset, TopicPartition

if TYPE_CHECKING:
    from logstore.batch._batch import Batches, Record
    from logstore.columns._export import ColumnStream
    from logstore.log.marks.view import View
    from logstore.log.read.segment_holds import Hold

_logger = logging.getLogger(__name__)

#: The end of the previous read, (file, position): the next one begins there without a search.
Hint = tuple[str | None, int] | None

#: Bounds of a scan: (end offset, since ms, until ms); end and until are exclusive.
Bounds = tuple[int, int | None, int | None]


_NOWHERE: Hint = None


class ScannableLog(Protocol):
    """The interface of a log that a scan uses; `Readable` documents the methods."""

    @property
    def name(self) -> TopicPartition: ...
    def offset_for_time(self, timestamp: int, *, isolation: Isolation) -> TimestampOffset | None: ...
    def _read(
        self, offset: int, max_bytes: int, isolation: Isolation, hint: Hint, bounds: Bounds, hold: Hold | None
    ) -> tuple[Batches, Hint]: ...
    def _count_whole(self, offset: int, end: int, isolation: Isolation, hold: Hold | None) -> tuple[int, int]: ...
    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]: ...
    def _view(self) -> View: ...
    def _is_as_in(self, view: View) -> bool: ...
    def _elsewhere(self) -> object: ...


class Scan(Tabular):
    """A range of a log. Iterating it gives `Record`s; `chunks` whole runs; it is an Arrow stream too.

    Each use begins again at the start of the range. A scan can be pickled, and read in another process on the same
    machine: the log's directory is opened there read-only at the first read, and the range is the one that was
    fixed here. An iteration that has begun cannot be pickled.

    Records that retention deletes or compaction replaces later stay readable by the scan, and on the disk, until
    the scan and its iterators are dropped or the log is closed. A scan holds up to 256 removed segments, with a
    descriptor each. Nothing is held against `truncate_to`, nor by a scan that was pickled or is of a log that is
    open read-only. For these, deleted records are out of range, and compacted ones are read in their new form.
    """

    def __init__(
        self,
        log: ScannableLog,
        start: int,
        bounds: Bounds,
        isolation: Isolation,
        columns: list[str] | None,
        max_bytes: int,
        on_damage: str = "raise",
        limit: int | None = None,
        hold: Hold | None = None,
    ) -> None:
        if on_damage not in ("raise", "skip"):
            raise ValueError(f"on_damage= is 'raise' or 'skip', found {on_damage!r}")
        check_limit(limit)
        self._log = log
        self._hold = hold
        self._start = start
        self._bounds = bounds
        self._isolation = isolation
        self._columns = columns
        self._max_bytes = max_bytes
        self._skips = on_damage == "skip"
        self._limit = limit
        self._left_out: list[LeftOut] = []

    @property
    def start_offset(self) -> int:
        """The first offset of the range."""
        return self._start

    @property
    def end_offset(self) -> int:
        """The end of the range, exclusive."""
        return self._bounds[0]

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Offsets that the latest use of this scan has skipped so far, with ``on_damage="skip"``."""
        return tuple(self._left_out)

    def chunks(self) -> Iterator[Batches]:
        """Iterate over the range as runs of whole batches, one read each.

        Raises:
            CorruptRecordError: a stored batch is damaged, unless damage is skipped. Records before it were
                returned; its ``next_offset`` is where to continue.
        """
        return self._chunks() if self._limit is None else limited(self._chunks(), self._limit)

    def _chunks(self) -> Iterator[Batches]:
        log = self._log
        offset, hint = self._start, _NOWHERE
        end, since, _ = self._bounds
        left_out = self._left_out = []
        # Deleted segments that are held have no time search: records are filtered by their own timestamps.
        if since is not None and offset < end and (self._hold is None or not self._hold.keeps):
            try:
                found = log.offset_for_time(since, isolation=self._isolation)
            except DAMAGE:
                # No search then: records are filtered by their own timestamps.
                if not self._skips:
                    raise
            else:
                offset = end if found is None else max(offset, found.offset)
        while offset < end:
            try:
                batches, hint = log._read(offset, self._max_bytes, self._isolation, hint, self._bounds, self._hold)
            except RecordError as error:
                if not self._skips:
                    raise
                offset = self._leave_out(left_out, error, offset)
                hint = _NOWHERE
                continue
            if not batches:
                return
            if not self._skips:
                yield batches
            else:
                for part in readable(batches):
                    if isinstance(part, RecordError):
                        self._leave_out(left_out, part, offset)
                    else:
                        yield part
            offset = batches.next_offset

    def _leave_out(self, left_out: list[LeftOut], error: RecordError, offset: int) -> int:
        """Record the offsets lost to damage; return the offset to continue at."""
        found = left_out_by(self._log.name, error, offset, self._bounds[0])
        left_out.append(found)
        _logger.warning(
            "damage passed over: partition=%s first_offset=%d next_offset=%d path=%s position=%s reason=%s",
            *found,
        )
        return found.next_offset

    def __iter__(self) -> Iterator[Record]:
        for batches in self.chunks():
            yield from batches

    def values(self) -> Iterator[list[bytes | None]]:
        """Iterate over the values, in lists of one chunk each."""
        return values_of(self.chunks())

    def count(self) -> int:
        """Count the records of the range: as many as iterating it gives.

        Batch headers give the count where possible, without reading, checking or decompressing records. The
        two batches at the ends of the range are read. If times bound the range, a transaction in it was
        aborted, or damage is skipped, every record is read.

        Raises:
            OffsetOutOfRangeError, CorruptRecordError: as `chunks`; damage that no header shows goes unnoticed.
        """
        end, since, until = self._bounds
        log = self._log
        committed = self._isolation is Isolation.READ_COMMITTED
        if since is None and until is None and not self._skips:
            view = log._view()
            try:
                hold = self._hold
                hides = committed and (
                    log._aborted_between(self._start, end)
                    if hold is None
                    else hold.aborted_between(self._start, end, log._aborted_between)
                )
                total = -1 if hides else self._count_by_headers(log)
            except RecordError:
                # Truncated meanwhile, or damaged: counting each record below gives the count or the error.
                pass
            else:
                if not hides and log._is_as_in(view):
                    return total if self._limit is None else min(total, self._limit)
        total = sum(batches.count() for batches in self.chunks())
        return total if self._limit is None else min(total, self._limit)

    def _count_by_headers(self, log: ScannableLog) -> int:
        total, offset, end = 0, self._start, self._bounds[0]
        while offset < end:
            records, reached = log._count_whole(offset, end, self._isolation, self._hold)
            total += records
            if reached == offset:
                # Only a part of this batch is in the range.
                batches, _ = log._read(offset, 1, self._isolation, None, self._bounds, self._hold)
                if not batches:
                    break
                total += batches.count()
                reached = batches.next_offset
            offset = reached
        return total

    def _stream(self) -> ColumnStream:
        from logstore.columns._export import ColumnStream

        name = self._log.name
        return ColumnStream(self.chunks(), self._columns, topic=name.topic, partition=name.partition)

    def __reduce__(self) -> tuple[object, ...]:
        damage = "skip" if self._skips else "raise"
        ways = (self._isolation, self._columns, self._max_bytes, damage, self._limit)
        return Scan, (self._log._elsewhere(), self._start, self._bounds, *ways)

    def __repr__(self) -> str:
        return f"<Scan {self._log.name} from offset {self._start}, {self._bounds}>"
