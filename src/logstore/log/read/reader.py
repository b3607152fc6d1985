"""Reader of one log: by offset, by time, in ranges. It takes no lock and has no visibility policy.

`Readable` is the common base of the writing log and of a reader in another process. They supply the `View`, the
segments and marks of one moment; it reads. A read works on one view. If the log has changed when it ends, what it
found may be of two moments, and an error may come from files that were removed: the read is made again, on a newer
view. In the log's own process that is once, with changes stopped; a reader in another process cannot stop them.

`Readable` has the calls for consumers. `ReaderReplica` has those for brokers and replicas, `ReaderMaintenance`
those for maintenance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from logstore._segment import Segment
from logstore.batch._batch import Batches, Record, run_of
from logstore.batch.moments import When, moment_of
from logstore.batch.runs import DEFAULT_READ_BYTES
from logstore.clock import Clock, seconds_of
from logstore.config.log import LogConfig
from logstore.errors import CorruptRecordError, LogChangedError, OffsetOutOfRangeError, RecordError, StorageError
from logstore.log.directory.segments import check_joint, floor_of
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.marks._watermark import Watermark
from logstore.log.marks.view import UNSETTLED, View
from logstore.log.read._record_count import count_whole
from logstore.log.read.maintenance import ReaderMaintenance
from logstore.log.read.range import Bounds, Hint, Scan
from logstore.log.read.remainder import read_behind
from logstore.log.read.replica import ReaderReplica
from logstore.log.read.segment_holds import Hold
from logstore.log.read.timestamps import first_since
from logstore.records import INT64_MAX, AbortedTransaction, Isolation, TimestampOffset, TopicPartition
from logstore.renamed import keep_names

#: Longest wait of a read for a truncation or swap in progress: generous for a slow disk.
REST_S = 5.0

_UNCOMMITTED = Isolation.READ_UNCOMMITTED
_COMMITTED = Isolation.READ_COMMITTED

#: What a look at a log finds.
Answer = TypeVar("Answer")

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
    def _view(self) -> View:
        """Return the segments and marks, all of one moment; raise if the log is closed or was forked."""

    @abstractmethod
    def _is_as_in(self, view: View) -> bool:
        """Return whether no truncation or segment swap has begun or ended since a view was taken."""

    @abstractmethod
    def _wait_for_rest(self) -> None:
        """Wait until no truncation or swap is in progress, for `REST_S` at most."""

    @abstractmethod
    def _aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch a range."""

    @abstractmethod
    def _end_mark(self, isolation: Isolation) -> Watermark:
        """Return the watermark that a reader waits on."""

    def _live_end(self, isolation: Isolation) -> Watermark | None:
        """Return `_end_mark` if this process moves it; None if the end has to be asked for."""
        return None

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the log is closed or was forked."""

    @abstractmethod
    def _elsewhere(self) -> object:
        """Return a stand-in for the log in a pickled scan: it opens the log again, for reading."""

    @abstractmethod
    def _look_again(self, look: Callable[..., Answer], arguments: tuple[object, ...]) -> Answer:
        """Look as `_look` in a newer view: the log has changed during the first look."""

    @abstractmethod
    def _segments_now(self) -> tuple[Segment, ...]:
        """Return the segments as they are known; of a closed log as well."""

    @abstractmethod
    def _generation(self) -> int:
        """Return the generation as it is known; of a closed log as well. See `View.generation`."""

    def _check_whole(self, view: View) -> None:  # noqa: B027  a log's writer knows that its files are whole
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

    _readable_end = end_offset  #: what a consumer's cursor asks of any partition

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
        if isolation is not _UNCOMMITTED:
            isolation = Isolation(isolation)
        if timeout_s != 0.0:
            left_s = seconds_of(timeout_s)
            if (left_s is None or left_s > 0) and offset == self.end_offset(isolation):
                self._check_open()
                self._end_mark(isolation).wait_while(offset, left_s)
        return self._read(offset, max_bytes, isolation)[0]

    def _sought(self, offset: int, epoch: int) -> None:  # noqa: B027  the same for all
        """Do nothing: a log keeps nothing of those who read it."""

    def _epoch_before(self, offset: int) -> int:
        """Return the leader epoch of the record before an offset; -1 if it has none, or is not in the log."""
        epoch = self._epochs().epoch_at(offset - 1) if offset > 0 else None
        return -1 if epoch is None else epoch

    def _end_of_epoch(self, epoch: int) -> int | None:
        """Return the offset at which the records of a leader epoch end; None for an epoch unknown to the log.

        For an epoch without records it is the offset where the next older one has ended, as in Kafka's
        OffsetForLeaderEpoch.
        """
        known, end = self._epochs().end_offset_for(epoch, self.log_end_offset)
        return None if known < 0 else end

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
        if isolation is _UNCOMMITTED:
            view = self._view()
            place = floor_of(view.segments, offset)
            if place >= 0 and view.log_start_offset <= offset < view.high_watermark:
                try:
                    found = view.segments[place].record_at(offset, self.name, self._config.decompressed_max_bytes)
                    if found is not None and self._is_as_in(view):
                        return found
                except (StorageError, RecordError):
                    pass  # dropped or truncated meanwhile, or damaged: `_record_slowly` finds record or error
        return self._record_slowly(offset, Isolation(isolation))

    def _record_slowly(self, offset: int, isolation: Isolation) -> Record | None:
        batches, _ = self._read(offset, 1, isolation)
        end = batches.last_stable_offset if isolation is _COMMITTED else batches.high_watermark
        if offset >= end:
            raise self._out_of_range(offset, batches.log_start_offset, end)
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
        view = self._view()
        end = view.end_offset(isolation)
        if hold is None and offset == end:
            # Nothing is read, so nothing can be of another moment.
            return self._run_of(view, end, (b"", 0, end, None), offset, isolation, bounds), None
        return self._of_one_moment(self._read_at, view, hold, offset, max_bytes, isolation, hint, bounds)

    def _of_one_moment(
        self, look: Callable[..., Answer], view: View, hold: Hold | None = None, *arguments: object
    ) -> Answer:
        """Return what ``look`` finds, which is called with a view, a hold or None, and the arguments.

        If the log was truncated or swapped meanwhile, it looks again in a newer view (`_look_again`). An error is
        raised if the log is as in the view, so that the error comes from what is stored.

        Raises:
            OffsetOutOfRangeError: raised by ``look``: the offset is out of the range of one moment.
            LogChangedError: another process changed the log during each of many looks.
        """
        if hold is not None and self._is_held(hold):
            try:
                found = look(View(*view[:4], hold.segments, view.generation), hold, *arguments)
            except (RecordError, OffsetOutOfRangeError, StorageError):
                pass  # damaged, or no longer held: read the log as it is now
            else:
                if self._is_held(hold):
                    return found
        try:
            return self._look(look, view, arguments)
        except LogChangedError:
            return self._look_again(look, arguments)

    def _look(self, look: Callable[..., Answer], view: View, arguments: tuple[object, ...]) -> Answer:
        """Look in one view, or in the next one if a truncation is in progress.

        Raises:
            LogChangedError: a truncation or swap has begun or ended, or a segment was deleted, since the view was
                taken; the cause is what was found in files of two moments.
        """
        if view.generation == UNSETTLED:
            # Nothing would be found above the offset of the truncation, and taken for a gap.
            self._wait_for_rest()
            view = self._view()
        found_wrong: Exception | None = None
        try:
            found = look(view, None, *arguments)
            if self._is_as_in(view):
                return found
        except (RecordError, StorageError) as error:
            self._check_open()
            if self._is_latest(view):
                raise
            found_wrong = error
        # Not out of range: a consumer would begin again where auto.offset.reset says, and skip records.
        raise LogChangedError(
            f"{self.name}: the log was truncated, deleted or compacted while it was read; read again",
            path=self.path,
        ) from found_wrong

    def _is_latest(self, view: View) -> bool:
        """Return whether the log still has what is in a view: nothing was truncated, swapped or deleted since.

        If a truncation or swap is in progress, this waits for its end. Until then, each look may find half-changed
        files, and take them for damage.
        """
        now = self._view()
        if now.generation % 2:
            self._wait_for_rest()
            now = self._view()
        return (now.generation, now.log_start_offset) == (view.generation, view.log_start_offset) and (
            now.segments is view.segments or set(view.segments).issubset(now.segments)
        )

    def _hold(self, start: int, end: int) -> Hold | None:
        """Hold the segments of a range for a scan; None if another process removes segments."""
        return None

    def _is_held(self, hold: Hold) -> bool:
        """Return whether the range of a hold may still be read as it was."""
        return False

    def _read_at(
        self,
        view: View,
        hold: Hold | None,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        hint: Hint = None,
        bounds: Bounds = _UNBOUNDED,
    ) -> tuple[Batches, Hint]:
        """Read in a view, past damage before the offset; see `read`."""
        try:
            return self._read_whole(view, hold, offset, max_bytes, isolation, hint, bounds)
        except RecordError as error:
            # If where to continue is known, a segment is missing.
            if hold is not None or error.next_offset is not None:
                raise
            return read_behind(self, view, error, offset, max_bytes, isolation, bounds)

    def _read_whole(
        self,
        view: View,
        hold: Hold | None,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        hint: Hint,
        bounds: Bounds,
    ) -> tuple[Batches, Hint]:
        end = view.end_offset(isolation)
        start = view.log_start_offset if hold is None else hold.start
        if not start <= offset <= end:
            self._check_range(offset, start, end)
        found = None
        if offset < end:
            found = self._at_segment(
                view,
                offset,
                lambda segment: segment.read(
                    offset, max_bytes, end, -1 if hint is None else _position_in(segment, hint)
                ),
                end,
            )
            if found is None:
                self._check_whole(view)
        if found is None:
            # Nothing from here to the end: a compaction has deleted the last records of the log.
            found = b"", 0, end, None
        batches = self._run_of(view, end, found, offset, isolation, bounds, hold)
        return batches, (batches.path, batches.position + batches.size) if batches else None

    def _run_of(
        self,
        view: View,
        end: int,
        found: tuple[Any, ...],
        offset: int,
        isolation: Isolation,
        bounds: Bounds,
        hold: Hold | None = None,
    ) -> Batches:
        committed = isolation is _COMMITTED
        data, position, next_offset, path = found
        aborted: Sequence[AbortedTransaction] = ()
        if data:
            # A segment may end before the next begins, if a compaction has deleted its last records.
            next_offset = min(max(next_offset, offset + 1), end)
            if committed and hold is not None:
                aborted = hold.aborted_between(offset, next_offset, self._aborted_between)
            elif committed:
                aborted = self._aborted_in(view, offset, next_offset)
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
            view[:3],
        )

    def _aborted_in(self, view: View, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch a range, whose first record was found in a view.

        Raises:
            OffsetOutOfRangeError: the record was deleted meanwhile.
        """
        found = self._aborted_between(start_offset, end_offset)
        # A deletion removes lists with their segments: without them, aborted records would be shown. The log start
        # rises before that.
        start = self.log_start_offset
        if start > start_offset:
            self._check_range(start_offset, start, view.log_end_offset)
        return found

    def _count_whole(
        self, offset: int, end: int, isolation: Isolation, hold: Hold | None = None
    ) -> tuple[int, int]:
        """Count records by headers from an offset up to a batch that must be read: (records, offset reached)."""

        def count(view: View, hold: Hold | None) -> tuple[int, int]:
            start = view.log_start_offset if hold is None else hold.start
            self._check_range(offset, start, view.end_offset(isolation))
            found = self._at_segment(view, offset, lambda segment: count_whole(segment, offset, end), end)
            return (0, offset) if found is None else (found[0], found[1])

        return self._of_one_moment(count, self._view(), hold)

    def _check_range(self, offset: int, start: int, end: int) -> None:
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
        self, view: View, offset: int, look: Callable[[Segment], tuple[Any, ...] | None], end: int
    ) -> tuple[Any, ...] | None:
        """Return the first result of ``look`` and its segment's path, from the segment of ``offset`` on."""
        segments = view.segments
        place = floor_of(segments, offset)
        if place < 0 and segments:
            # The log start rises before a segment is deleted, so the file was lost.
            first = segments[0].base_offset
            raise CorruptRecordError(
                f"{self.name}: offsets {view.log_start_offset} to {first - 1} are missing, the first segment "
                f"begins at {first}; restore the missing files from a copy, or read on from there",
                path=self.path,
                offset=offset,
                next_offset=first,
            )
        for segment in segments[max(place, 0) :]:
            if segment.base_offset >= end:
                break
            found = look(segment)
            if found is not None:
                return (*found, segment.path)
            # Without this check, offsets lost between this segment and the next would be skipped.
            self._check_joined(segment)
        return None

    def offset_for_time(
        self, timestamp: When, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED
    ) -> TimestampOffset | None:
        """Return the first record whose timestamp is at least ``timestamp``, or None.

        ``timestamp`` is milliseconds, an aware datetime, or a duration before now: a timedelta, or a text such
        as ``"-2h"``. Records need not be in the order of their timestamps; "first" is by offset.
        """
        self._check_open()
        wanted, isolation = moment_of(timestamp, self._clock), Isolation(isolation)
        return self._of_one_moment(partial(first_since, self), self._view(), None, wanted, isolation)

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
        view = self._view()
        visible, held_from = view.end_offset(isolation), view.log_start_offset
        first = held_from if start is None else start
        if first < 0:
            first = max(visible + first, held_from)
        last = visible if end is None else end
        self._check_range(first, held_from, visible)
        if not 0 <= last <= visible:
            self._check_range(last, held_from, visible)
        bounds = (
            last,
            None if since is None else moment_of(since, self._clock),
            None if until is None else moment_of(until, self._clock),
        )
        hold = self._hold(first, last)
        if hold is not None:
            # The range may have been deleted before it was held.
            self._check_range(first, self.log_start_offset, visible)
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


def _position_in(segment: Segment, hint: tuple[str | None, int]) -> int:
    return hint[1] if hint[0] == segment.path else -1
