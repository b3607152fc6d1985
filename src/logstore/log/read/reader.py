"""Reader of one log: by offset, by time, in ranges. It takes no lock and has no visibility policy.

`Readable` is the common base of the writing log and of a reader in another process. They supply the log's start,
end and segments; it reads. A read takes the tuple of segments once. A segment that is dropped meanwhile is noticed
and raised as an offset out of range, never read as garbage.

`Readable` has the calls for consumers. `ReaderReplica` has those for brokers and replicas, `ReaderMaintenance`
those for maintenance. An object of these two is made at each use; it refers to the log and owns nothing.
"""

from __future__ import annotations

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
from logstore.log.directory.segments import check_joint, floor_of, is_gone
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.marks._watermark import Watermark
from logstore.log.moments import When, moment_of
from logstore.log.read import damage
from logstore.log.read._record_count import count_whole
from logstore.log.read.range import Bounds, Hint, Scan
from logstore.log.read.segment_holds import Hold
from logstore.records import INT64_MAX, AbortedTransaction, Isolation, TimestampOffset, TopicPartition
from logstore.renamed import keep_names

DEFAULT_READ_BYTES = 1 << 20

#: Count of attempts of a read whose segment is dropped or replaced meanwhile.
_ATTEMPTS = 8

#: Longest wait of a read for a truncation or swap in progress: generous for a slow disk.
REST_S = 5.0

_UNCOMMITTED = Isolation.READ_UNCOMMITTED

_Answer = TypeVar("_Answer")

_UNBOUNDED: Bounds = (INT64_MAX, None, None)


_REPLICAS = (
    "advance_high_watermark append_batch append_control append_encoded append_run epochs generation leader_epoch "
    "locate next_offset open_transaction producer_epoch truncate_to"
)
_MAINTENANCES = (
    "check_joined check_keys cleanable compact config facts oldest_segment reconfigure reserved_bytes retain roll "
    "segment_count segments size taken tick was_clean"
)
#: Names of `Log` until this release -> those of `Log.replica` and `Log.maintenance`.
_MOVED = {
    **{name: f"replica.{name}" for name in _REPLICAS.split()},
    **{name: f"maintenance.{name}" for name in _MAINTENANCES.split()},
    "adopt": "replica.ingest_file",
    "image": "maintenance.checkpoint",
    "copy_image": "maintenance.copy",
    "verify_image": "maintenance.verify",
}


@keep_names("Log", {name: (f"Log.{moved}", moved) for name, moved in _MOVED.items()})
class Readable(ABC):
    """The reading half of a log. Every method may be called from any thread."""

    name: TopicPartition
    path: str
    _config: LogConfig
    _clock: Clock

    # -- for an implementation to define

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
        """The end for consumers: records below it are not truncated any more."""

    @property
    @abstractmethod
    def last_stable_offset(self) -> int:
        """The end for ``read_committed``: every transaction below it is committed or aborted."""

    @property
    @abstractmethod
    def replica(self) -> ReaderReplica:
        """The calls of brokers and replicas."""

    @property
    @abstractmethod
    def maintenance(self) -> ReaderMaintenance:
        """The calls of maintenance."""

    @abstractmethod
    def _epochs(self) -> Epochs:
        """Return the leader epochs and their start offsets."""

    @abstractmethod
    def _marks(self) -> tuple[int, int, int]:
        """Return (log start offset, high watermark, last stable offset), all of one moment."""

    @abstractmethod
    def _cuts(self) -> int:
        """Return a count that rises with every truncation or segment swap; odd while one is in progress."""

    @abstractmethod
    def _wait_for_rest(self) -> None:
        """Wait until no truncation or swap is in progress, for `REST_S` at most."""

    @abstractmethod
    def _segments_now(self) -> tuple[Segment, ...]:
        """Return the segments, in order."""

    @abstractmethod
    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch a range."""

    @abstractmethod
    def _end_mark(self, isolation: Isolation) -> Watermark:
        """Return the watermark that a reader waits on."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the log is closed or was forked."""

    @abstractmethod
    def _elsewhere(self) -> object:
        """Return a stand-in for the log in a pickled scan: it opens the log again, for reading."""

    def _check_whole(self) -> None:  # noqa: B027  a log's writer knows that its files are whole
        """Raise if the files hold less than they should: called when nothing is found below the end."""

    @abstractmethod
    def _is_contiguous(self) -> bool:
        """Return whether each segment has to end where the next one begins."""

    def _check_joined(self, segment: Segment) -> None:
        """Raise if offsets between a segment and the next one were lost."""
        self._check_open()
        if segment.sealed and not segment.index.joined and self._is_contiguous():
            check_joint(segment, self.log_start_offset, self.name)

    # -- reading

    def end_offset(self, isolation: Isolation | str = Isolation.READ_UNCOMMITTED) -> int:
        """Return the end of the records visible to a reader of that isolation, exclusive."""
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
        """Read the record batches from the one that holds ``offset`` on, checked by their CRC.

        At most ``max_bytes`` of them, but always the first one whole. At the end of the visible records the result
        is empty. With ``timeout_s`` the call first waits that long for a record, or for a truncation below
        ``offset``. Iterating the result gives the records from ``offset`` on; its ``next_offset`` is where the
        next read continues.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset or above the end.
            CorruptRecordError: the batch at ``offset`` is damaged, or its segment missing; names file and
                position, and as ``next_offset`` the start of the next readable batch. Records before the
                damage are returned without an error.
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
        """Return the record at one offset, checked by CRC-32C.

        The first read of a batch checks all of it. The process keeps the sums of its pieces, of about 1 KiB each,
        and a later read reads and checks one piece. A compressed batch is kept decompressed instead: it was checked
        when it was put there. All logs of a process share 16 MiB for this, and drop what a truncation, a segment
        swap or `close` has made useless. The record itself refers to its own bytes only.

        None if there is no such record: compaction has deleted it, the offset is a transaction marker's
        or, for committed readers, its transaction was aborted.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset, or at the end or above it.
            CorruptRecordError: the stored batch is damaged; names file and position.
            LogClosedError, ForkedError: the log cannot be used.
        """
        if isolation is _UNCOMMITTED and self._is_visible(offset):
            segments = self._segments_now()
            place = floor_of(segments, offset)
            if place >= 0:
                try:
                    found = segments[place].record_at(offset, self.name, self._config.decompressed_max_bytes)
                except (StorageError, RecordError):
                    # Dropped or truncated meanwhile, or damaged: `_record_slowly` finds the record or the error.
                    found = None
                if found is not None:
                    return found
        self._check_open()
        return self._record_slowly(offset, Isolation(isolation))

    def _is_visible(self, offset: int) -> bool:
        """Return whether a record may be read at an offset; False too if anything is unusual."""
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
                pass  # damaged, or no longer held: read the log as it is now
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
                # A truncation may have lowered the end: "nothing up to the end" would skip records written since.
                if found is not None or batches.next_offset == offset or not self._was_cut_since(cuts):
                    return batches, found
        return self._read_once(offset, max_bytes, isolation, hint, bounds)

    def _behind_damage(
        self, error: RecordError, offset: int, max_bytes: int, isolation: Isolation, bounds: Bounds
    ) -> tuple[Batches, Hint]:
        """Read at an offset although the search for it has found damage before it.

        Raises:
            RecordError: the damage is at the offset; names the unreadable range.
        """
        segments, end = self._segments_now(), self.end_offset(isolation)
        since: damage.WholeBatch | None = None
        while True:
            before, since = since, damage.behind(segments, error, end, since)
            if before is not None and since is not None and since[:2] == before[:2]:
                raise error
            if since is None or since.base_offset > offset:
                error.bound(offset, end if since is None else min(since.base_offset, end))
                raise error
            try:
                found = since.segment.index.holding(offset, since.position)
                if found is None:
                    # Nothing is left in this segment. The next one is found without a search.
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
                position, base_offset = found
                read = since.segment.read(base_offset, max_bytes, end, position)
                assert read is not None
                batches = self._run_of((*read, since.segment.path), offset, end, isolation, bounds)
                return batches, (batches.path, batches.position + batches.size)
            except RecordError as another:
                if another.next_offset is not None:
                    raise
                # More damage on the way. The next readable batch is further on, so the loop ends.
                error = another

    def _was_cut_since(self, cuts: int) -> bool:
        """Return whether a truncation or swap may have come between reading the end and reading the files.

        If one is in progress, this waits for its end. Until then, each retry may find half-changed files, and take
        them for damage.
        """
        self._marks()
        if self._cuts() % 2:
            self._wait_for_rest()
            self._marks()
        return self._cuts() != cuts

    def _hold(self, start: int, end: int) -> Hold | None:
        """Hold the segments of a range for a scan; None if another process removes segments."""
        return None

    def _is_held(self, hold: Hold) -> bool:
        """Return whether the range of a hold may still be read as it was."""
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
            # Nothing from here to the end: a compaction has deleted the last records of the log.
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
            # A segment may end before the next begins, if a compaction has deleted its last records.
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
            self._config.decompressed_max_bytes,
            next_offset,
            self._marks() if marks is None else marks,
        )

    def _count_whole(
        self, offset: int, end: int, isolation: Isolation, hold: Hold | None = None
    ) -> tuple[int, int]:
        """Count records by headers from an offset up to a batch that must be read: (records, offset reached)."""
        self._check_open()

        def count(hold: Hold | None = None) -> tuple[int, int]:
            found = self._at_segment(offset, lambda segment: count_whole(segment, offset, end), end, hold)
            return (0, offset) if found is None else (found[0], found[1])

        if hold is not None and self._is_held(hold):
            try:
                held = count(hold)
            except (RecordError, OffsetOutOfRangeError, StorageError):
                pass  # as in `_read`
            else:
                if self._is_held(hold):
                    return held
        self._check_range(offset, self.end_offset(isolation))
        return count()

    def _undisturbed(self, look: Callable[[], _Answer]) -> _Answer:
        """Call ``look`` and return its result; retry if a truncation has changed the files meanwhile."""
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
        """Return the first result of ``look`` and its segment's path, from the segment of ``offset`` on."""
        for _ in range(_ATTEMPTS):
            segments = self._segments_now() if hold is None else hold.segments
            place = floor_of(segments, offset)
            if place < 0 and segments:
                # The log start rises before a segment is deleted: below it the offset is out of range, else
                # the file was lost.
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
                    # Without this check, offsets lost between this segment and the next would be skipped.
                    self._check_joined(segment)
            except StorageError as error:
                self._check_open()
                if hold is not None or (not is_gone(error) and not segment.file.closed):
                    raise
                # The segment was dropped, or replaced by a truncation, since the tuple was taken.
                self._check_range(offset, self.log_end_offset)
                if segments is self._segments_now() and self._cuts() % 2:
                    # Its replacement is not in place yet: immediate retries would use up all attempts before.
                    self._wait_for_rest()
            else:
                return None
        raise OffsetOutOfRangeError(
            f"{self.name}: the segment of offset {offset} keeps changing", offset=offset, path=self.path
        )

    def offset_for_time(
        self, timestamp: When, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED
    ) -> TimestampOffset | None:
        """Return the first record whose timestamp is at least ``timestamp``, or None.

        ``timestamp`` is milliseconds, an aware datetime, or a duration before now: a timedelta, or a text such
        as ``"-2h"``. Records need not be in the order of their timestamps; "first" is by offset.
        """
        self._check_open()
        wanted, isolation = moment_of(timestamp, self._clock), Isolation(isolation)
        return self._found_beside_cuts(lambda: self._find_time(wanted, isolation))

    def _found_beside_cuts(self, search: Callable[[], _Answer]) -> _Answer:
        """Search the whole log; again if it was truncated meanwhile, but not for ever."""
        for _ in range(_ATTEMPTS):
            cuts = self._cuts()
            found = self._undisturbed(search)
            if not self._was_cut_since(cuts):
                break
        return found

    def _find_time(self, wanted: int, isolation: Isolation) -> TimestampOffset | None:
        cuts = self._cuts()
        end = self.end_offset(isolation)
        with contextlib.suppress(OffsetOutOfRangeError):  # deleted meanwhile
            # Raise if the first segment is lost: it may have held the first such record.
            self._at_segment(self.log_start_offset, lambda _segment: (), end)
        for segment in self._segments_now():
            if segment.base_offset >= end:
                break
            try:
                begin = segment.index.offset_for_time(wanted)
                if begin is not None:
                    found = self._first_at(max(begin, self.log_start_offset), segment, wanted, isolation, end)
                    if found is not None:
                        return found
                self._check_joined(segment)
            except StorageError as error:
                self._check_open()
                if is_gone(error) or segment.file.closed:
                    # Deleted since: its records are below the log start now. Or truncated: the caller retries.
                    continue
                raise
        try:
            self._check_whole()
        except RecordError:
            # A writer that keeps truncating never leaves the end at rest.
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
        """Scan a range of records lazily: by offset, by timestamp or both.

        ``start`` and ``since`` are inclusive, ``end`` and ``until`` exclusive. Their defaults are the log start
        and the end of the visible records when the scan begins. A ``start`` below 0 counts offsets from that end:
        -10 is the last ten, or all if there are fewer. ``since`` and ``until`` are milliseconds, an aware
        datetime, or a duration before this call. A duration is a timedelta of either sign, or a text such as
        ``"-2h"`` (ms, s, m, h, d, w). ``limit`` is the maximum count of records. ``columns`` names the Arrow
        columns to make. Memory is that of one chunk of ``max_bytes``, however large the range.

        Damaged stored bytes raise an error, after the records before them. With ``on_damage="skip"`` they are
        skipped, and `Scan.left_out` names the missing offsets; every record is then checked before it is
        returned, which takes longer.

        Records deleted or compacted later stay readable for the scan until it is dropped; `Scan` gives the limits.

        Raises:
            OffsetOutOfRangeError: ``start`` or ``end`` is outside the log.
            InvalidTimestampError, RecordTypeError: ``since`` or ``until`` is no time.
            ValueError: ``on_damage`` is neither of these two words, or ``limit`` no count.
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
            # The range may have been deleted before it was held.
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
        """Block until the record at ``offset`` is visible; return False on timeout."""
        self._check_open()
        return self._end_mark(Isolation(isolation)).wait_for(offset + 1, timeout_s)


def _position_in(segment: Segment, hint: Hint) -> int:
    return hint[1] if hint is not None and hint[0] == segment.path else -1


class ReaderReplica:
    """The calls for brokers and replicas that only read."""

    __slots__ = ("log",)

    def __init__(self, log: Readable) -> None:
        self.log = log

    @property
    def epochs(self) -> Epochs:
        """Leader epochs and their start offsets. A reader in another process may see the newest one late."""
        return self.log._epochs()

    @property
    def generation(self) -> int:
        """A number that changes when records may have been lost: by a truncation, or by opening after a crash."""
        return self.log._cuts()

    def locate(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> FileRegion | None:
        """Return the file region of the batches of a read, for a socket to send; None at the end.

        The region pins its file: it stays whole when the segment is deleted. Its bytes are not
        checked; the receiver checks the CRC of each batch.

        Raises:
            OffsetOutOfRangeError: as `Log.read`.
        """
        log = self.log
        log._check_open()
        wanted = Isolation(isolation)

        def locate_once() -> FileRegion | None:
            end = log.end_offset(wanted)
            log._check_range(offset, end)
            if offset >= end:
                return None
            return located(log, offset, max_bytes, end)

        return log._undisturbed(locate_once)

    def offset_of_max_timestamp(
        self, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED
    ) -> TimestampOffset | None:
        """Return the record with the largest timestamp that can be seen, or None; of several, the first.

        Kafka's ListOffsets calls this timestamp -3 (KIP-734). The time indexes answer it, and one batch is read.
        Only if newer records are deleted, aborted or not visible yet, the batch headers of their segment are read,
        too. Records without a timestamp do not count.
        """
        log = self.log
        log._check_open()
        wanted = Isolation(isolation)
        return log._found_beside_cuts(lambda: _newest(log, wanted))


def _newest(log: Readable, isolation: Isolation) -> TimestampOffset | None:
    """Return the first record of the largest timestamp that can be seen, or None."""
    best: TimestampOffset | None = None
    end = log.end_offset(isolation)
    for segment in log._segments_now():
        if segment.base_offset >= end:
            break
        try:
            largest = segment.index.largest_timestamp()
            if largest is None or (best is not None and largest[0] <= best.timestamp_ms):
                continue
            found = _newest_in(log, segment, largest[0], isolation, end)
            if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                best = found
        except StorageError as error:
            log._check_open()
            # Deleted since: its records are below the log start now. Or truncated: the caller retries.
            if not (is_gone(error) or segment.file.closed):
                raise
    return best


def _newest_in(
    log: Readable, segment: Segment, largest: int, isolation: Isolation, end: int
) -> TimestampOffset | None:
    begin, start = segment.index.offset_for_time(largest), log.log_start_offset
    found = None if begin is None else log._first_at(max(begin, start), segment, largest, isolation, end)
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
        batches = log.read(max(-first, start), max_bytes=1, isolation=isolation)
        seen = ((record.timestamp_ms, -record.offset) for record in batches if record.offset <= last)
        best = max(best, *seen, (-1, 0))
    return None if best[0] < 0 else TimestampOffset(best[0], -best[1])


def located(log: Readable, offset: int, max_bytes: int, end: int) -> FileRegion | None:
    """Return the file region of whole batches from ``offset`` up to ``end``; None if no batch is there.

    The caller retries it if a truncation came between, see `Readable._undisturbed`.
    """
    found = log._at_segment(offset, lambda segment: _located(segment, offset, max_bytes, end), end)
    if found is None:
        log._check_whole()
    return None if found is None else found[0]


def _located(segment: Segment, offset: int, max_bytes: int, end: int) -> tuple[FileRegion, int, int] | None:
    found = segment.locate(offset, max_bytes, end)
    return None if found is None else (found, found.position, found.next_offset)


class ReaderMaintenance:
    """The calls for maintenance that only read: settings and segments of a log."""

    __slots__ = ("log",)

    def __init__(self, log: Readable) -> None:
        self.log = log

    @property
    def config(self) -> LogConfig:
        """The settings as they are now."""
        return self.log._config

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as they are now, in order, for planning: one may be dropped or cut at any time."""
        self.log._marks()
        return self.log._segments_now()

    @property
    def segment_count(self) -> int:
        return len(self.log._segments_now())

    @property
    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.log._segments_now())

    def check_joined(self, segment: Segment) -> None:
        """Raise if offsets between a segment and the next one were lost.

        Raises:
            DamagedLogError: names them, and how to read on.
        """
        self.log._check_joined(segment)
