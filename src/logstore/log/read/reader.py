"""Reading one log: by offset, by time, in ranges. No locks, no policy about what may be seen.

`Readable` is what the writing log and a reader in another process have in common: they say where
the log starts and ends and which segments there are, and everything about reading follows. A read
takes the tuple of segments once; a segment that is dropped meanwhile is noticed and answered as an
offset out of range, never as garbage.
"""

from __future__ import annotations

import bisect
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from logstore._segment import Segment
from logstore.batch._batch import Batches, Record, run_of
from logstore.clock import Clock, seconds_of
from logstore.config.log import LogConfig
from logstore.errors import CorruptRecordError, DamagedLogError, OffsetOutOfRangeError, RecordError, StorageError
from logstore.io._file_region import FileRegion
from logstore.log.directory.segments import check_joint, is_gone
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.moments import When, moment_of
from logstore.log.read import damage
from logstore.log.read._record_count import count_whole
from logstore.log.read.range import Bounds, Hint, Scan
from logstore.log.read.segment_holds import Hold
from logstore.log.watermark import Watermark
from logstore.records import AbortedTransaction, Isolation, TimestampOffset, TopicPartition

DEFAULT_READ_BYTES = 1 << 20

#: How often a read begins anew because its segment was dropped or replaced meanwhile.
_ATTEMPTS = 8

#: How long a read waits for a truncation or an exchange that is under way: generous for a slow disk.
REST_S = 5.0

_UNCOMMITTED = Isolation.READ_UNCOMMITTED

_Answer = TypeVar("_Answer")

_UNBOUNDED: Bounds = (2**63 - 1, None, None)


class Readable(ABC):
    """The reading half of a log. Every method may be called from any thread."""

    name: TopicPartition
    config: LogConfig
    path: str
    _clock: Clock

    # -- what an implementation says

    @property
    @abstractmethod
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    @property
    @abstractmethod
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """The end for consumers: records below it stay."""

    @property
    @abstractmethod
    def last_stable_offset(self) -> int:
        """The end for committed readers: every transaction below it is decided."""

    @property
    @abstractmethod
    def epochs(self) -> Epochs:
        """Which leader epoch wrote which offsets. A reader beside the writer may know the newest later."""

    @abstractmethod
    def _marks(self) -> tuple[int, int, int]:
        """(log start offset, high watermark, last stable offset), all of one moment."""

    @abstractmethod
    def _cuts(self) -> int:
        """Rises with every truncation; odd while one is under way."""

    @abstractmethod
    def _wait_for_rest(self) -> None:
        """Wait until no truncation or exchange is under way, for `REST_S` at the most."""

    @abstractmethod
    def _segments_now(self) -> tuple[Segment, ...]:
        """The segments, in order."""

    @abstractmethod
    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that touch a range."""

    @abstractmethod
    def _end_mark(self, isolation: Isolation) -> Watermark:
        """What a waiting reader waits on."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the log is closed or was forked."""

    @abstractmethod
    def _elsewhere(self) -> object:
        """What stands for the log in a scan that is pickled: it opens the log again, for reading."""

    def _check_whole(self) -> None:  # noqa: B027  a log's writer knows that its files are whole
        """Raise if the files hold less than they should: asked when nothing is found below the end."""

    @abstractmethod
    def _is_contiguous(self) -> bool:
        """Whether each segment has to end where the next one begins."""

    def check_joined(self, segment: Segment) -> None:
        """Refuse to pass from a segment to the next one over offsets that were lost.

        Raises:
            DamagedLogError: they are named, and how to read on.
        """
        self._check_open()
        if segment.sealed and not segment.joined and self._is_contiguous():
            check_joint(segment, self.log_start_offset, self.name)

    @property
    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self._segments_now())

    @property
    def segment_count(self) -> int:
        return len(self._segments_now())

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as they are now, in order, for planning: one may be dropped or cut at any time."""
        self._marks()
        return self._segments_now()

    # -- reading

    @property
    def generation(self) -> int:
        """Changes when records that were there may be gone: by a truncation, or by opening after a crash."""
        return self._cuts()

    def end_offset(self, isolation: Isolation | str = Isolation.READ_UNCOMMITTED) -> int:
        """The offset before which a reader of that isolation may read."""
        if Isolation(isolation) is Isolation.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        timeout_s: float = 0.0,
    ) -> Batches:
        """The record batches from the one that holds ``offset`` on, checked by their CRC.

        At most ``max_bytes`` of them, but always the first one whole. At the end of what may be
        seen the answer is empty; with ``timeout_s`` the call then waits that long for a record, or for a
        truncation below ``offset``.
        Iterating the answer gives the records from ``offset`` on; its ``next_offset`` is where the
        next read goes on.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset or above the end.
            CorruptRecordError: the batch at ``offset`` is damaged, or its segment missing; names file and position,
                and as ``next_offset`` where the next batch begins that can be read. What stands before the
                damage is given without an error.
            LogClosedError, ForkedError: the log cannot be used.
        """
        isolation = Isolation(isolation)
        if timeout_s != 0.0:
            left_s = seconds_of(timeout_s)
            if (left_s is None or left_s > 0) and offset == self.end_offset(isolation):
                self._check_open()
                self._end_mark(isolation).wait_while(offset, left_s)
        return self._read(offset, max_bytes, isolation)[0]

    def record_at(self, offset: int, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED) -> Record | None:
        """The record at one offset, checked by its batch's CRC; it keeps none of its neighbours in memory.

        None if there is no such record: a compaction has taken it, a transaction marker stands there
        or, for committed readers, its transaction was aborted.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset, or at the end or above it.
            CorruptRecordError: the stored batch is damaged; names file and position.
            LogClosedError, ForkedError: the log cannot be used.
        """
        if isolation is _UNCOMMITTED and self._is_visible(offset):
            segment = _floor_segment(self._segments_now(), offset)
            if segment is not None:
                try:
                    found = segment.record_at(offset, self.name, self.config.decompressed_max_bytes)
                except (StorageError, RecordError):
                    # Dropped or cut meanwhile, or damaged: the long way knows.
                    found = None
                if found is not None:
                    return found
        self._check_open()
        return self._record_slowly(offset, Isolation(isolation))

    def _is_visible(self, offset: int) -> bool:
        """Whether a record may be read at an offset; False too if anything is unusual."""
        self._check_open()
        start, end, _ = self._marks()
        return start <= offset < end

    def _record_slowly(self, offset: int, isolation: Isolation) -> Record | None:
        batches, _ = self._read(offset, 1, isolation)
        if offset >= self.end_offset(isolation):
            raise self._out_of_range(offset, self.log_start_offset, self.end_offset(isolation))
        for record in batches:
            return record.copy() if record.offset == offset else None
        return None

    def _read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        hint: Hint = None,
        bounds: Bounds = _UNBOUNDED,
        hold: Hold | None = None,
    ) -> tuple[Batches, Hint]:
        if hold is not None and self._is_held(hold):
            try:
                held = self._read_once(offset, max_bytes, isolation, hint, bounds, hold)
            except (RecordError, OffsetOutOfRangeError, StorageError):
                pass  # damaged, or no longer held: what the log says now is the answer
            else:
                if self._is_held(hold):
                    return held
        for _ in range(_ATTEMPTS):
            cuts = self._cuts()
            try:
                batches, found = self._read_once(offset, max_bytes, isolation, hint, bounds)
            except RecordError as error:
                if not self._was_cut_since(cuts):
                    if error.next_offset is not None:
                        raise  # a segment is missing, and where the next one begins is known
                    return self._behind_damage(error, offset, max_bytes, isolation, bounds)
            else:
                # "Nothing up to the end" holds for the end that was seen, which a cut may have lowered.
                if found is not None or batches.next_offset == offset or not self._was_cut_since(cuts):
                    return batches, found
        return self._read_once(offset, max_bytes, isolation, hint, bounds)

    def _behind_damage(
        self, error: RecordError, offset: int, max_bytes: int, isolation: Isolation, bounds: Bounds
    ) -> tuple[Batches, Hint]:
        """What can be read at an offset though the search for it has met damage before it.

        Raises:
            RecordError: the damage is at the offset; what cannot be read is named.
        """
        segments, end = self._segments_now(), self.end_offset(isolation)
        since: damage.Whole | None = None
        while True:
            before, since = since, damage.behind(segments, error, end, since)
            if before is not None and since is not None and since[:2] == before[:2]:
                raise error
            if since is None or since.base_offset > offset:
                error.bound(offset, end if since is None else min(since.base_offset, end))
                raise error
            try:
                found = damage.holding(since, offset)
                if found is None:
                    # Nothing there up to the next segment, which is found without a search.
                    first = offset
                    offset = min((each.base_offset for each in segments if each.base_offset > offset), default=end)
                    if since.segment.sealed and self._is_contiguous():
                        raise DamagedLogError(
                            f"{self.name}: offsets {first} to {offset - 1} are missing: the segment ends before "
                            f"the next one begins; read on from offset {offset}",
                            path=since.segment.path,
                            position=since.segment.size,
                            offset=first,
                            next_offset=offset,
                        )
                    return self._read_once(offset, max_bytes, isolation, None, bounds)
                read = found.segment.read(found.base_offset, max_bytes, end, found.position)
                assert read is not None
                batches = self._run_of((*read, found.segment.path), offset, end, isolation, bounds)
                return batches, (batches.path, batches.position + batches.size)
            except RecordError as another:
                if another.next_offset is not None:
                    raise
                # More of it on the way. What is found next lies behind, so this comes to an end.
                error = another

    def _was_cut_since(self, cuts: int) -> bool:
        """Whether a truncation or an exchange may have come between the look at the end and the look at the files.

        One that is under way is waited for: until it is over, every further look may find the same half of it, and
        take that for damage.
        """
        self._marks()
        if self._cuts() % 2:
            self._wait_for_rest()
            self._marks()
        return self._cuts() != cuts

    def _hold(self, start: int, end: int) -> Hold | None:
        """Hold the segments of a range for a scan; None where another process takes them away."""
        return None

    def _is_held(self, hold: Hold) -> bool:
        """Whether the range of a hold may still be read as it was."""
        return False

    def _read_once(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        hint: Hint,
        bounds: Bounds,
        hold: Hold | None = None,
    ) -> tuple[Batches, Hint]:
        self._check_open()
        committed = isolation is Isolation.READ_COMMITTED
        start, high_watermark, last_stable = marks = self._marks()
        end = last_stable if committed else high_watermark
        if not (start if hold is None else hold.start) <= offset <= end:
            raise self._out_of_range(offset, start, end)
        found = None
        if offset < end:
            found = self._at_segment(
                offset, lambda segment: segment.read(offset, max_bytes, end, _position_in(segment, hint)), end, hold
            )
            if found is None:
                self._check_whole()
        if found is None:
            # Nothing from here to the end: a compaction has taken the last records of the log.
            found = b"", 0, end, None
        batches = self._run_of(found, offset, end, isolation, bounds, marks, hold)
        return batches, (batches.path, batches.position + batches.size) if batches else None

    def _run_of(
        self,
        found: tuple[Any, ...],
        offset: int,
        end: int,
        isolation: Isolation,
        bounds: Bounds,
        marks: tuple[int, int, int] | None = None,
        hold: Hold | None = None,
    ) -> Batches:
        committed = isolation is Isolation.READ_COMMITTED
        data, position, next_offset, path = found
        aborted: Sequence[AbortedTransaction] = ()
        if data:
            # A segment may end before the next begins, where a compaction has taken its last records.
            next_offset = min(max(next_offset, offset + 1), end)
            if committed and hold is not None:
                aborted = hold.aborted_between(offset, next_offset, self._aborted_between)
            elif committed:
                aborted = self._aborted_between(offset, next_offset)
        return run_of(
            data,
            offset,
            min(end, bounds[0]),
            bounds[1],
            bounds[2],
            self.name.topic,
            self.name.partition,
            path,
            position,
            aborted,
            committed,
            self.config.decompressed_max_bytes,
            next_offset,
            self._marks() if marks is None else marks,
        )

    def _count_whole(
        self, offset: int, end: int, isolation: Isolation, hold: Hold | None = None
    ) -> tuple[int, int]:
        """(records, offset reached) from an offset on, by headers, up to a batch that must be looked into."""
        self._check_open()
        if hold is not None and self._is_held(hold):
            try:
                held = self._at_segment(offset, lambda segment: count_whole(segment, offset, end), end, hold)
            except (RecordError, OffsetOutOfRangeError, StorageError):
                pass  # as in `_read`
            else:
                if self._is_held(hold):
                    return (0, offset) if held is None else (held[0], held[1])
        self._check_range(offset, self.end_offset(isolation))
        found = self._at_segment(offset, lambda segment: count_whole(segment, offset, end), end)
        return (0, offset) if found is None else (found[0], found[1])

    def locate(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> FileRegion | None:
        """Where the batches of a read lie, for a socket to send; None at the end.

        The slice pins its file: it stays whole when the segment is deleted. Its bytes are not
        checked; who receives them checks the CRC of each batch.

        Raises:
            OffsetOutOfRangeError: as `read`.
        """
        self._check_open()
        isolation = Isolation(isolation)
        return self._undisturbed(lambda: self._locate_once(offset, max_bytes, isolation))

    def _locate_once(self, offset: int, max_bytes: int, isolation: Isolation) -> FileRegion | None:
        end = self.end_offset(isolation)
        self._check_range(offset, end)
        if offset >= end:
            return None
        found = self._at_segment(offset, lambda segment: _located(segment, offset, max_bytes, end), end)
        if found is None:
            self._check_whole()
        return None if found is None else found[0]

    def _undisturbed(self, look: Callable[[], _Answer]) -> _Answer:
        """What ``look`` answers, which looks again if a truncation has changed the files under it."""
        for _ in range(_ATTEMPTS):
            cuts = self._cuts()
            try:
                return look()
            except (RecordError, OffsetOutOfRangeError):
                if not self._was_cut_since(cuts):
                    raise
        return look()

    def _check_range(self, offset: int, end: int) -> None:
        start = self.log_start_offset
        if not start <= offset <= end:
            raise self._out_of_range(offset, start, end)

    def _out_of_range(self, offset: int, start: int, end: int) -> OffsetOutOfRangeError:
        held = f"holds {start} to {end - 1}" if start < end else f"is empty and begins and ends at {start}"
        return OffsetOutOfRangeError(
            f"{self.name}: offset {offset} is out of range, the log {held}; begin again at log_start_offset or at "
            "the end",
            offset=offset,
            path=self.path,
        )

    def _at_segment(
        self, offset: int, look: Callable[[Segment], tuple[Any, ...] | None], end: int, hold: Hold | None = None
    ) -> tuple[Any, ...] | None:
        """The first segment from the one that may hold ``offset`` on in which ``look`` finds something."""
        for _ in range(_ATTEMPTS):
            segments = self._segments_now() if hold is None else hold.segments
            place = bisect.bisect_right(segments, offset, key=_base_offset) - 1
            if place < 0 and segments:
                # The log start is moved before a segment goes. Deleted since, or the file was lost.
                self._check_range(offset, self.log_end_offset)
                first = segments[0].base_offset
                raise CorruptRecordError(
                    f"{self.name}: offsets {self.log_start_offset} to {first - 1} are missing, the first segment "
                    f"begins at {first}; restore the missing files from a copy, or read on from there",
                    path=self.path,
                    offset=offset,
                    next_offset=first,
                )
            try:
                for segment in segments[max(place, 0) :]:
                    if segment.base_offset >= end:
                        break
                    found = look(segment)
                    if found is not None:
                        return (*found, segment.path)
                    # Nothing is left in it: what comes next has to begin where it ends.
                    self.check_joined(segment)
            except StorageError as error:
                self._check_open()
                if hold is not None or (not is_gone(error) and not segment.file.closed):
                    raise
                # The segment was dropped, or replaced by a cut, since the tuple was taken.
                self._check_range(offset, self.log_end_offset)
                if segments is self._segments_now() and self._cuts() % 2:
                    # What takes its place is on the way.
                    self._wait_for_rest()
            else:
                return None
        raise OffsetOutOfRangeError(
            f"{self.name}: the segment of offset {offset} keeps changing", offset=offset, path=self.path
        )

    def offset_for_time(
        self, timestamp: When, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED
    ) -> TimestampOffset | None:
        """The first record whose timestamp is at least ``timestamp``, or None.

        ``timestamp`` is milliseconds, an aware datetime, or so long ago: a timedelta, or a text such as ``"-2h"``.
        Records need not lie in the order of their timestamps; "first" is by offset.
        """
        self._check_open()
        wanted, isolation = moment_of(timestamp, self._clock), Isolation(isolation)
        for _ in range(_ATTEMPTS):
            cuts = self._cuts()
            found = self._undisturbed(lambda: self._find_time(wanted, isolation))
            if not self._was_cut_since(cuts):
                break
        return found

    def _find_time(self, wanted: int, isolation: Isolation) -> TimestampOffset | None:
        cuts = self._cuts()
        end = self.end_offset(isolation)
        with contextlib.suppress(OffsetOutOfRangeError):  # deleted meanwhile
            # A file that was lost may have held the first one.
            self._at_segment(self.log_start_offset, lambda _segment: (), end)
        for segment in self._segments_now():
            if segment.base_offset >= end:
                break
            try:
                begin = segment.offset_for_time(wanted)
                if begin is not None:
                    found = self._first_at(max(begin, self.log_start_offset), segment, wanted, isolation, end)
                    if found is not None:
                        return found
                self.check_joined(segment)
            except StorageError as error:
                self._check_open()
                if is_gone(error) or segment.file.closed:
                    # Deleted since: what it held lies below the log start now. Or cut: then all is looked at anew.
                    continue
                raise
        try:
            self._check_whole()
        except RecordError:
            # Beside a writer that truncates again and again, the end is never seen at rest.
            if not self._was_cut_since(cuts):
                raise
        return None

    def _first_at(
        self, offset: int, segment: Segment, wanted: int, isolation: Isolation, end: int
    ) -> TimestampOffset | None:
        hint: Hint = None
        stop = segment.next_offset if segment.next_offset >= 0 else end
        while offset < min(end, stop):
            batches, hint = self._read(offset, DEFAULT_READ_BYTES, isolation, hint)
            found = batches.first_at_or_after(wanted)
            if found is not None:
                return TimestampOffset(*found)
            if not batches:
                break
            offset = batches.next_offset
        return None

    def scan(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        columns: list[str] | None = None,
        max_bytes: int = DEFAULT_READ_BYTES,
        on_damage: str = "raise",
    ) -> Scan:
        """A bounded, lazy look at a range of records: by offset, by timestamp or both.

        ``start`` and ``since`` are inclusive, ``end`` and ``until`` exclusive; left out, they are
        the log start and what may be seen when the scan begins. A ``start`` below 0 counts offsets from the end of
        what may be seen: -10 is the last ten, or all where there are fewer. ``since`` and ``until`` are
        milliseconds, an aware datetime, or so long before this call: a timedelta of either sign, or a text such as
        ``"-2h"`` (ms, s, m, h, d, w). ``limit`` is the most records that are read. ``columns`` names the Arrow
        columns to make. Memory is that of one chunk of ``max_bytes``, however large the range.

        Stored bytes that are damaged raise, behind what stands before them. With ``on_damage="skip"`` they are
        passed over, and `Scan.left_out` says which offsets are missing; every record is then walked through
        before it is handed out, which takes longer.

        What is deleted or compacted later stays readable for the scan until it is dropped; `Scan` says how far.

        Raises:
            OffsetOutOfRangeError: ``start`` or ``end`` lies outside the log.
            InvalidTimestampError, RecordTypeError: ``since`` or ``until`` is no time.
            ValueError: ``on_damage`` is none of these two words, or ``limit`` no count.
        """
        self._check_open()
        isolation = Isolation(isolation)
        visible = self.end_offset(isolation)
        first = self.log_start_offset if start is None else start
        if first < 0:
            first = max(visible + first, self.log_start_offset)
        last = visible if end is None else end
        self._check_range(first, visible)
        if not 0 <= last <= visible:
            self._check_range(last, visible)
        bounds = (
            last,
            None if since is None else moment_of(since, self._clock),
            None if until is None else moment_of(until, self._clock),
        )
        hold = self._hold(first, last)
        if hold is not None:
            # Deleted before it was held.
            self._check_range(first, visible)
        return Scan(self, first, bounds, isolation, columns, max_bytes, on_damage, limit, hold)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.scan())

    def wait_for(
        self,
        offset: int,
        *,
        timeout_s: float | None = None,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> bool:
        """Block until the record at ``offset`` may be seen; False if the time is over first."""
        self._check_open()
        return self._end_mark(Isolation(isolation)).wait_for(offset + 1, timeout_s)


def _position_in(segment: Segment, hint: Hint) -> int:
    return hint[1] if hint is not None and hint[0] == segment.path else -1


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _floor_segment(segments: tuple[Segment, ...], offset: int) -> Segment | None:
    """The last segment of one tuple that begins at or below an offset; most readers ask for the newest."""
    if segments and offset >= segments[-1].base_offset:
        return segments[-1]
    place = bisect.bisect_right(segments, offset, key=_base_offset) - 1
    return segments[place] if place >= 0 else None


def _located(segment: Segment, offset: int, max_bytes: int, end: int) -> tuple[FileRegion, int, int] | None:
    found = segment.locate(offset, max_bytes, end)
    return None if found is None else (found, found.position, found.next_offset)
