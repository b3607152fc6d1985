"""Verification of a partition's files, and a look at what is in them, without opening its log.

For tools: Kafka's files and logstore's, whole or damaged, in a directory of a log or alone. Nothing is
locked, recovered or changed, so all functions also work beside a running owner, whose last write may
be in progress. Damage is reported with file, position and offset; `repair` is responsible for repairs.
Memory grows with the indexes of one segment, not with the log.

Damage is defined as in `recovery`: bytes below the recovery point were synced. From it on, and in the
last segment of a log that has none, bad bytes are a torn tail, which the next open truncates.
"""

from __future__ import annotations

import enum
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any, NamedTuple

from logstore._index import OffsetIndex, TimeIndex
from logstore._segment import Segment
from logstore.batch._batch import BatchView, Record
from logstore.errors import CorruptRecordError, NotALogError, RecordError, StorageError
from logstore.io._files import LIBC, File, Files
from logstore.log.directory import files, next_segment
from logstore.log.directory.files import Directory, passing
from logstore.log.formats import checkpoints, leader_epochs, producer_snapshot, transaction_index
from logstore.log.formats.checkpoints import LogKind
from logstore.log.recovery import recovery
from logstore.records import BATCH_HEADER_BYTES

_CHUNK_BYTES = 1 << 20
_LIVE_ATTEMPTS = 3
_SIZE = struct.Struct(">qi")
_SIZE_BYTES = _SIZE.size


class Kind(enum.StrEnum):
    """Meaning of a problem for the log."""

    DAMAGE = "damage"  #: synced bytes are wrong or missing: records are lost
    TAIL = "tail"  #: bad bytes above the recovery point; the next open truncates them
    INDEX = "index"  #: an index disagrees with its segment; it can be rebuilt
    STATE = "state"  #: a small file beside the segments is damaged; the next open rebuilds it


class Problem(NamedTuple):
    """Problem in a file, and its place."""

    kind: Kind
    path: str
    position: int | None
    offset: int | None  #: of the first missing record, or of the one that an entry names
    what: str

    def __str__(self) -> str:
        places = [self.path]
        if self.position is not None:
            places.append(f"position {self.position}")
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        return f"{self.kind.value}: {', '.join(places)}: {self.what}"


class SegmentFacts(NamedTuple):
    """Files of one segment: sizes in bytes, -1 for a missing file."""

    base_offset: int
    path: str
    size: int
    index_size: int
    time_index_size: int
    modified_ms: int


class Found(NamedTuple):
    """Batch and its position in the file."""

    position: int
    batch: BatchView


# --- segments of a path -------------------------------------------------------------------------


class LogSegments(NamedTuple):
    """Directory of a log and the segments in it to examine, as named by a path."""

    directory: Directory
    bases: tuple[int, ...]


def find(path: str | os.PathLike[str], table: Files = LIBC) -> LogSegments:
    """Find the log of a path, which may be a partition's directory or one of its files.

    Raises:
        NotALogError: there is nothing of that name, or no segment.
    """
    here = Directory(path, table)
    try:
        names = here.names()
        files.segments_in(here, names)
        return LogSegments(here, tuple(next_segment.base_offsets(here, names)))
    except NotALogError:
        raise
    except StorageError:
        above = Directory(os.path.dirname(here.path), table)
        name = os.path.basename(here.path)
        stem = name.split(".", 1)[0] + files.LOG
        bases = files.base_offsets([stem])
        if name.startswith(files.NEXT) and above.exists() and (found := next_segment.find(above, above.names())):
            bases = [found[1]] if found[0] == name else []
        if not bases or not above.exists() or name not in above.names():
            raise NotALogError(
                "the path is neither a directory nor a segment file (twenty digits and .log); check the path",
                path=here.path,
            ) from None
        return LogSegments(above, tuple(bases))


def segments(examined: LogSegments) -> list[SegmentFacts]:
    """Return the segments to examine, by base offset."""
    names = set(examined.directory.names())
    return [_facts(examined.directory, base, names) for base in examined.bases]


def _facts(directory: Directory, base: int, names: set[str]) -> SegmentFacts:
    def size(suffix: str) -> int:
        name = files.segment_file(base, suffix)
        return _file(directory, name).size() if name in names else -1

    log = _log_file(directory, base)
    return SegmentFacts(
        base, log.path, log.size(), size(files.OFFSET_INDEX), size(files.TIME_INDEX), log.modified_ms()
    )


def _file(directory: Directory, name: str) -> File:
    return directory.files.lazy(directory.join(name))


def _log_file(directory: Directory, base: int) -> File:
    """Return the file with the batches of a segment."""
    file = _file(directory, files.segment_file(base, files.LOG))
    with passing(errno.ENOENT):
        file.size()
        return file
    return _file(directory, next_segment.segment_name(directory, base))


# --- batches -----------------------------------------------------------------------------------


def batches(path: str, table: Files = LIBC, *, position: int = 0, end: int | None = None) -> Iterator[Found]:
    """Yield every batch of a segment's file up to the position ``end``, each with its checksum verified.

    Raises:
        CorruptRecordError: the bytes from a position on are no whole batch; the position and the expected
            offset are named. The batches before it were yielded.
        UnsupportedFormatError: a batch of a format before Kafka 0.11.
    """
    offset: int | None = None
    with table.open(path) as file:
        size = file.size() if end is None else end
        while position < size:
            head = file.read(position, _SIZE_BYTES)
            claimed = _SIZE.unpack(head)[1] + _SIZE_BYTES if len(head) == _SIZE_BYTES else 0
            if not BATCH_HEADER_BYTES <= claimed <= size - position:
                raise CorruptRecordError(
                    f"{size - position} bytes are left, and the batch claims {claimed}"
                    if claimed
                    else f"{size - position} bytes are left, a batch header needs {BATCH_HEADER_BYTES}",
                    path=path,
                    position=position,
                    offset=offset,
                )
            try:
                view = BatchView(file.read(position, claimed)).check()
            except RecordError as error:
                raise type(error)(str(error), path=path, position=position, offset=offset) from error
            yield Found(position, view)
            position += view.size
            offset = view.next_offset


def records(found: Found, path: str) -> Iterator[Record]:
    """Yield the records of a batch; CorruptRecordError names file and position."""
    try:
        yield from found.batch
    except RecordError as error:
        raise type(error)(str(error), path=path, position=found.position, offset=found.batch.base_offset) from error


# --- the files beside a segment ----------------------------------------------------------------


def index_entries(directory: Directory, base: int) -> list[tuple[int, int]]:
    """Return (offset, position) pairs of an offset index, without the zeros after its end."""
    data = directory.read(files.segment_file(base, files.OFFSET_INDEX)) or b""
    entries = OffsetIndex().load(_without_zeros(data, 8))
    return [(base + relative, position) for relative, position in _each(entries)]


def time_entries(directory: Directory, base: int) -> list[tuple[int, int]]:
    """Return (timestamp, offset) pairs of a time index, without the zeros after its end."""
    data = directory.read(files.segment_file(base, files.TIME_INDEX)) or b""
    entries = TimeIndex().load(_without_zeros(data, 12))
    return [(timestamp, base + relative) for timestamp, relative in _each(entries)]


def _each(entries: OffsetIndex | TimeIndex) -> Iterator[tuple[int, int]]:
    return (entries.entry(number) for number in range(len(entries)))


def _without_zeros(data: bytes, entry_bytes: int) -> bytes:
    """Remove the zero entries at the end of an index file; its first entry may be zeros itself."""
    end = len(data) - len(data) % entry_bytes
    while end > entry_bytes and not any(data[end - entry_bytes : end]):
        end -= entry_bytes
    return b"" if end == entry_bytes and not any(data[:end]) and len(data) > end else data[:end]


def aborted_entries(directory: Directory, base: int) -> list[Any] | None:
    """Return the entries of a transaction index, or None if it is damaged."""
    return transaction_index.decode(directory.read(files.segment_file(base, files.ABORTED_INDEX)) or b"", base)


def snapshot_entries(directory: Directory, base: int) -> list[Any] | None:
    """Return the producers in a snapshot, or None if it is damaged."""
    return producer_snapshot.decode_snapshot(directory.read(files.segment_file(base, files.SNAPSHOT)) or b"", base)


# --- checking ----------------------------------------------------------------------------------


class Marks(NamedTuple):
    """Offsets of a log recorded beside its segments, as far as they are known."""

    promised: int | None  #: every byte below this offset was synced
    published: int | None  #: the log end offset that the writer published last
    start: int = 0  #: records below this offset were deleted


def marks(directory: Directory) -> Marks:
    """Read the recorded offsets of a logstore log; Kafka records none in a log's directory."""
    point = recovery.read_point(directory)
    published = checkpoints.decode_published(directory.read(checkpoints.PUBLISHED) or b"")
    return Marks(
        None if point is None else point.recovery_point,
        None if published is None else published.log_end_offset,
        0 if point is None else point.log_start_offset,
    )


def lost_segments(directory: Directory) -> Problem | None:
    """Return the problem of a partition without any segment; None if its recovery point claims no records."""
    if files.base_offsets(directory.names()):
        return None
    point = recovery.read_point(directory)
    if point is None or point.recovery_point <= point.log_start_offset:
        return None
    return Problem(
        Kind.DAMAGE,
        directory.path,
        None,
        point.log_start_offset,
        f"there is no segment, and offsets up to {point.recovery_point - 1} were promised",
    )


class Gap(NamedTuple):
    """Offsets missing between two segments."""

    path: str  #: of the segment before it
    first_offset: int
    end_offset: int  #: base offset of the next segment


def gaps(directory: Directory) -> list[Gap]:
    """Return the gaps between segments from the log start on; only the ends of segments are read."""
    point = recovery.read_point(directory) or recovery.read_start(directory)
    start = 0 if point is None else point.log_start_offset
    found = []
    for base, following in pairwise(_all_bases(directory)):
        if following <= start:
            continue
        # The owner may delete the segment meanwhile; damage is reported by verification.
        with passing(errno.ENOENT), suppress(RecordError), closing(_open(directory, base, following)) as segment:
            if not segment.index.is_joined():
                found.append(Gap(segment.path, max(segment.index.batches_end(), start), following))
    return found


def _all_bases(directory: Directory) -> list[int]:
    """Return the base offsets of the segments, those that exist only as ``.swap`` included."""
    names = [name.removesuffix(files.SWAP) for name in directory.names()]
    return sorted(set(next_segment.base_offsets(directory, names)))


def verify(
    examined: LogSegments,
    *,
    deep: bool = False,
    is_live: bool = False,
    is_compacted: bool = False,
    kind: LogKind = LogKind.UNRECORDED,
) -> Iterator[Problem]:
    """Yield every problem in the segments of a place and in the files beside them.

    ``deep`` checks every record, too. ``is_live``: a process writes the log now, and bytes after its
    published end are not checked. ``is_compacted``: offsets may be missing between segments, if the kind
    of the log was never recorded. ``kind`` is the kind in a catalogue.
    """
    known = marks(examined.directory)
    kind = recovery.read_kind(examined.directory).with_other(kind)
    may_have_gaps = kind.may_have_gaps(compacted=is_compacted)
    all_bases = _all_bases(examined.directory) or list(examined.bases)
    end: int | None = None
    for base in examined.bases:
        for attempt in range(_LIVE_ATTEMPTS if is_live else 1):
            # The owner may replace these files while they are compared, which would look like damage.
            if attempt:
                all_bases = _all_bases(examined.directory) or all_bases
            following = next((other for other in all_bases if other > base), None)
            found = _of_segment(examined.directory, base, following, known, deep, is_live, may_have_gaps)
            if not found.problems:
                break
        yield from found.problems
        end = found.end
    if examined.bases[-1] == all_bases[-1] and end is not None:
        yield from _promised(examined, known, end, is_live=is_live)
    yield from _beside(examined)
    yield from _aborted(examined, is_live=is_live)


class _Checked(NamedTuple):
    problems: list[Problem]
    end: int | None  #: end offset of the segment, if it is whole


def _of_segment(
    directory: Directory,
    base: int,
    following: int | None,
    known: Marks,
    deep: bool,
    is_live: bool,
    may_have_gaps: bool,
) -> _Checked:
    """Check one segment; no problems if its owner has deleted it meanwhile."""
    problems: list[Problem] = []
    with passing(*([errno.ENOENT] if is_live else [])), closing(_open(directory, base)) as segment:
        extent = segment.scan()
        problem = _judged(segment, extent, known, is_last=following is None, is_live=is_live)
        if problem is not None:
            problems.append(problem)
        elif following is not None:
            problems += _between(segment, extent.next_offset, following, known.start, may_have_gaps)
        if deep:
            problems += _records_of(segment.path, extent.valid_bytes, directory.files)
        problems += _indexes_of(directory, segment, extent.valid_bytes, is_live=is_live and following is None)
        return _Checked(problems, extent.next_offset if problem is None else None)
    return _Checked([], None)


def _open(directory: Directory, base: int, next_offset: int = -1) -> Segment:
    file = _log_file(directory, base)
    return Segment(file, base, size=file.size(), next_offset=next_offset, sealed=True)


def _judged(segment: Segment, extent: Any, known: Marks, *, is_last: bool, is_live: bool) -> Problem | None:
    if extent.problem is None:
        return None
    if is_last and is_live and known.published is not None and extent.next_offset >= known.published:
        return None
    if is_last and _is_zeros(segment.file, extent.valid_bytes):
        return None  # preallocated space, of Kafka's preallocate or left by a crash; it held no records
    torn = is_last and (known.promised is None or extent.next_offset >= known.promised)
    bad = extent.file_bytes - extent.valid_bytes
    what = f"{extent.problem}; {bad} bytes from here to the end of the file are not read"
    return Problem(Kind.TAIL if torn else Kind.DAMAGE, segment.path, extent.valid_bytes, extent.next_offset, what)


def _is_zeros(file: File, position: int) -> bool:
    while data := file.read(position, _CHUNK_BYTES):
        if data.count(0) != len(data):
            return False
        position += len(data)
    return True


def _between(segment: Segment, end: int, following: int, start: int, may_have_gaps: bool) -> Iterator[Problem]:
    if end > following:
        what = f"the segment ends at offset {end - 1}, but the next one begins at {following}"
        yield Problem(Kind.DAMAGE, segment.path, segment.size, following, what)
    elif max(end, start) < following and not may_have_gaps:
        end = max(end, start)
        what = f"offsets {end} to {following - 1} are missing before the next segment"
        yield Problem(Kind.DAMAGE, segment.path, segment.size, end, what)


def _records_of(path: str, valid_bytes: int, table: Files) -> Iterator[Problem]:
    for position, batch in batches(path, table, end=valid_bytes):
        try:
            batch.validate(contiguous=False)
        except RecordError as error:
            yield Problem(Kind.DAMAGE, path, position, batch.base_offset, str(error))


def _promised(examined: LogSegments, known: Marks, end: int, *, is_live: bool) -> Iterator[Problem]:
    """Yield the problem of a log that ends too early: segments missing at the end leave no other trace."""
    path = examined.directory.join(files.segment_file(examined.bases[-1], files.LOG))
    if known.promised is not None and end < known.promised:
        what = f"the log ends at offset {end}, but was synced up to {known.promised}"
        yield Problem(Kind.DAMAGE, path, None, end, what)
    elif known.published is not None and end < known.published and not is_live:
        what = (
            f"the log ends at offset {end}, but was written up to {known.published}: what was not synced is gone, "
            "as after a power cut"
        )
        yield Problem(Kind.TAIL, path, None, end, what)


# --- indexes -----------------------------------------------------------------------------------


def _indexes_of(directory: Directory, segment: Segment, valid_bytes: int, *, is_live: bool) -> Iterator[Problem]:
    base = segment.base_offset
    entries = index_entries(directory, base)
    by_position = {position: offset for offset, position in entries}
    times = time_entries(directory, base)
    path = directory.join(files.segment_file(base, files.OFFSET_INDEX))
    time_path = directory.join(files.segment_file(base, files.TIME_INDEX))
    yield from _rising(path, entries, "offset", "position")
    yield from _rising(time_path, times, "timestamp", "offset")
    wanted = {offset: timestamp for timestamp, offset in times}
    largest = -1
    try:
        for first, last, position, _size, timestamp, _epoch in segment.index.headers():
            if position >= valid_bytes:
                break
            largest = max(largest, timestamp)
            offset = by_position.pop(position, None)
            if offset is not None and not first <= offset <= last:
                what = f"the entry for position {position} says offset {offset}, there are {first} to {last}"
                yield Problem(Kind.INDEX, path, None, offset, what)
            claimed = next((wanted.pop(at) for at in _within(wanted, first, last)), None)
            if claimed is not None and claimed != largest:
                what = f"the entry says that nothing up to here is newer than {claimed}, but {largest} is"
                yield Problem(Kind.INDEX, time_path, None, last, what)
    except RecordError:
        return  # the scan has reported it
    is_whole = valid_bytes == segment.file.size()  # else the scan has reported why entries find no batch
    if is_whole and not is_live:
        for position, offset in by_position.items():
            yield Problem(Kind.INDEX, path, None, offset, f"no batch begins at position {position} of the segment")
        for offset, timestamp in wanted.items():
            what = f"the entry for timestamp {timestamp} names an offset that the segment does not hold"
            yield Problem(Kind.INDEX, time_path, None, offset, what)


def _within(wanted: dict[int, int], first: int, last: int) -> list[int]:
    if last - first < len(wanted):
        return [offset for offset in range(first, last + 1) if offset in wanted]
    return [offset for offset in wanted if first <= offset <= last]


def _rising(path: str, entries: list[tuple[int, int]], first: str, second: str) -> Iterator[Problem]:
    for number, (before, after) in enumerate(pairwise(entries), 1):
        if after[0] <= before[0] or after[1] <= before[1]:
            what = f"entry {number} ({first} {after[0]}, {second} {after[1]}) does not rise over the one before"
            yield Problem(Kind.INDEX, path, None, None, what)
            return


# --- small files -------------------------------------------------------------------------------


def _beside(examined: LogSegments) -> Iterator[Problem]:
    directory = examined.directory
    names = directory.names()
    for base in examined.bases:
        for suffix, decode in (
            (files.ABORTED_INDEX, transaction_index.decode),
            (files.SNAPSHOT, producer_snapshot.decode_snapshot),
        ):
            name = files.segment_file(base, suffix)
            data = directory.read(name, names)  # None too if its owner has just removed it
            if data is not None and decode(data, base) is None:
                yield Problem(Kind.STATE, directory.join(name), None, None, "the file is not whole")
    if leader_epochs.LEADER_EPOCHS in names:
        data = directory.read(leader_epochs.LEADER_EPOCHS)
        if data and checkpoints.decode_lines(data) is None:
            yield Problem(
                Kind.STATE, directory.join(leader_epochs.LEADER_EPOCHS), None, None, "the checkpoint is not whole"
            )
    for name, lost in (
        (checkpoints.RECOVERY, "what was promised is not known, and the next open scans everything"),
        (checkpoints.START, "where the log starts is said in one place only until it is written again"),
    ):
        data = directory.read(name, names)
        if data and checkpoints.decode_slots(data) is None:
            yield Problem(Kind.STATE, directory.join(name), None, None, f"neither slot is whole: {lost}")


def _aborted(examined: LogSegments, *, is_live: bool) -> Iterator[Problem]:
    """Yield aborted indexes that are missing or too short, which their own bytes do not show."""
    directory = examined.directory
    note = recovery.read_note(directory, recovery.read_point(directory))
    remedy = "readers ask the markers, and the next open for writing makes it again"
    if note.is_lost:
        what = f"it is missing or not whole: {remedy}"
        yield Problem(Kind.STATE, directory.join(transaction_index.NOTE), None, None, what)
        return
    bases = files.base_offsets(directory.names())
    for base in bases[:-1] if is_live else bases:
        name = files.segment_file(base, files.ABORTED_INDEX)
        data = directory.read(name) or b""
        if note.agrees(base, data, is_sealed=True):
            continue
        found, known = (
            len(data) // transaction_index.ENTRY_BYTES,
            (note.sums or {}).get(base, transaction_index.NOTHING).entries,
        )
        what = f"it lists {found} aborted transactions, and not the {known} that were listed: {remedy}"
        yield Problem(Kind.STATE, directory.join(name), None, None, what)
