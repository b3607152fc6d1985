"""What the files of one partition hold, looked at without opening its log.

For tools and for the doubtful: Kafka's files and ours alike, whole or damaged, in a directory of a log
or alone. Nothing is locked, recovered or changed, so all of it also works beside a live owner, whose
last bytes may then be under way. Damage is found here and named with file, position and offset; what
to do about it is `repair`'s business. Memory grows with the indexes of one segment, not with the log.

What counts as damage follows `recovery`: bytes below the recovery point were promised; from it on, and in
the last segment of a log that has none, bad bytes are a torn tail, which the next open cuts.
"""

from __future__ import annotations

import enum
import os
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from logstore._index import OffsetIndex, TimeIndex
from logstore._segment import Segment
from logstore.batch._batch import BatchView, Record
from logstore.errors import CorruptRecordError, NotALogError, RecordError, StorageError
from logstore.io._files import LIBC, File, Files
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import is_gone
from logstore.log.formats import checkpoints, leader_epochs, producer_snapshot, transaction_index
from logstore.log.formats.checkpoints import LogKind
from logstore.log.recovery import recovery

HEADER_BYTES = 61
_CHUNK_BYTES = 1 << 20
_LIVE_ATTEMPTS = 3
_SIZE = struct.Struct(">qi")
_SIZE_BYTES = _SIZE.size


class Kind(enum.StrEnum):
    """What a problem means for the log."""

    DAMAGE = "damage"  #: promised bytes are wrong or missing: records are lost
    TAIL = "tail"  #: bad bytes that were never promised; the next open cuts them
    INDEX = "index"  #: an index disagrees with its segment; it can be made anew
    STATE = "state"  #: a small file beside the segments is damaged; the next open makes it anew


class Problem(NamedTuple):
    """One thing that is wrong, and where."""

    kind: Kind
    path: str
    position: int | None
    offset: int | None  #: of the first record that is not there, or that an entry speaks of
    what: str

    def __str__(self) -> str:
        places = [self.path]
        if self.position is not None:
            places.append(f"position {self.position}")
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        return f"{self.kind.value}: {', '.join(places)}: {self.what}"


class SegmentFacts(NamedTuple):
    """One segment as its files are: sizes in bytes, -1 for a file that is not there."""

    base_offset: int
    path: str
    size: int
    index_size: int
    time_index_size: int
    modified_ms: int


class Found(NamedTuple):
    """A batch and where it begins."""

    position: int
    batch: BatchView


# --- places ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """What a path means: a directory of a log and the segments in it that are looked at."""

    directory: Directory
    bases: tuple[int, ...]


def find(path: str | os.PathLike[str], table: Files = LIBC) -> Place:
    """The log behind a path, which may be a partition's directory or one of its files.

    Raises:
        NotALogError: there is nothing of that name, or no segment.
    """
    here = Directory(path, table)
    try:
        names = here.names()
    except StorageError:
        above = Directory(os.path.dirname(here.path), table)
        name = os.path.basename(here.path)
        stem = name.split(".", 1)[0] + files.LOG
        bases = files.base_offsets([stem])
        if not bases or not above.exists() or name not in above.names():
            raise NotALogError(
                "there is no such directory, nor a file of a segment (twenty digits and .log); check the path",
                path=here.path,
            ) from None
        return Place(above, tuple(bases))
    bases = files.base_offsets(names)
    if not bases:
        raise NotALogError("there are no segments in this directory; name that of a partition", path=here.path)
    return Place(here, tuple(bases))


def segments(place: Place) -> list[SegmentFacts]:
    """The segments of a place, by base offset."""
    names = set(place.directory.names())
    return [_facts(place.directory, base, names) for base in place.bases]


def _facts(directory: Directory, base: int, names: set[str]) -> SegmentFacts:
    def size(suffix: str) -> int:
        name = files.segment_file(base, suffix)
        return _file(directory, name).size() if name in names else -1

    log = _file(directory, files.segment_file(base, files.LOG))
    return SegmentFacts(
        base, log.path, size(files.LOG), size(files.OFFSET_INDEX), size(files.TIME_INDEX), log.modified_ms()
    )


def _file(directory: Directory, name: str) -> File:
    return directory.files.lazy(directory.join(name))


# --- batches -----------------------------------------------------------------------------------


def batches(path: str, table: Files = LIBC, *, position: int = 0, end: int | None = None) -> Iterator[Found]:
    """Every batch of a segment's file, each with a checksum that was compared; up to the position ``end``.

    Raises:
        CorruptRecordError: the bytes from a position on are no whole batch; it and the offset that was to
            come are named. What stands before was yielded.
        UnsupportedFormatError: a batch of a format before Kafka 0.11.
    """
    file = table.open(path)
    offset: int | None = None
    try:
        size = file.size() if end is None else end
        while position < size:
            head = file.read(position, _SIZE_BYTES)
            claimed = _SIZE.unpack(head)[1] + _SIZE_BYTES if len(head) == _SIZE_BYTES else 0
            if not HEADER_BYTES <= claimed <= size - position:
                raise CorruptRecordError(
                    f"{size - position} bytes are left, and the batch claims {claimed}"
                    if claimed
                    else f"{size - position} bytes are left, a batch header needs {HEADER_BYTES}",
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
    finally:
        file.close()


def records(found: Found, path: str) -> Iterator[Record]:
    """The records of a batch; CorruptRecordError names file and position."""
    try:
        yield from found.batch
    except RecordError as error:
        raise type(error)(str(error), path=path, position=found.position, offset=found.batch.base_offset) from error


# --- the files beside a segment ----------------------------------------------------------------


def index_entries(directory: Directory, base: int) -> list[tuple[int, int]]:
    """(offset, position) of an offset index, without the zeros behind its end."""
    data = directory.read(files.segment_file(base, files.OFFSET_INDEX)) or b""
    entries = OffsetIndex().load(_without_zeros(data, 8))
    return [(base + relative, position) for relative, position in _each(entries)]


def time_entries(directory: Directory, base: int) -> list[tuple[int, int]]:
    """(timestamp, offset) of a time index, without the zeros behind its end."""
    data = directory.read(files.segment_file(base, files.TIME_INDEX)) or b""
    entries = TimeIndex().load(_without_zeros(data, 12))
    return [(timestamp, base + relative) for timestamp, relative in _each(entries)]


def _each(entries: OffsetIndex | TimeIndex) -> Iterator[tuple[int, int]]:
    return (entries.entry(number) for number in range(len(entries)))


def _without_zeros(data: bytes, entry_bytes: int) -> bytes:
    """An index whose file is larger than what is in it ends with entries of zeros; the first may be one."""
    end = len(data) - len(data) % entry_bytes
    while end > entry_bytes and not any(data[end - entry_bytes : end]):
        end -= entry_bytes
    return b"" if end == entry_bytes and not any(data[:end]) and len(data) > end else data[:end]


def aborted_entries(directory: Directory, base: int) -> list[Any] | None:
    """The entries of a transaction index, or None if it is damaged."""
    return transaction_index.decode(directory.read(files.segment_file(base, files.ABORTED_INDEX)) or b"", base)


def snapshot_entries(directory: Directory, base: int) -> list[Any] | None:
    """The producers in a snapshot, or None if it is damaged."""
    return producer_snapshot.decode_snapshot(directory.read(files.segment_file(base, files.SNAPSHOT)) or b"", base)


# --- checking ----------------------------------------------------------------------------------


class Marks(NamedTuple):
    """What is said of a log beside its segments, as far as that is known."""

    promised: int | None  #: every byte below this offset was synced
    published: int | None  #: the log end offset that the writer published last
    start: int = 0  #: what lies below this offset was deleted


def marks(directory: Directory) -> Marks:
    """The promises of a log of ours; of Kafka's, nothing is known in its directory."""
    point = recovery.read_point(directory)
    data = directory.read(checkpoints.PUBLISHED)
    published = None if data is None else checkpoints.decode_published(data)
    return Marks(
        None if point is None else point.recovery_point,
        None if published is None else published.log_end_offset,
        0 if point is None else point.log_start_offset,
    )


def lost_segments(directory: Directory) -> Problem | None:
    """What is wrong with a partition in which there is no segment at all: nothing, if nothing was promised."""
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
    """Offsets that no segment holds, between two of them."""

    path: str  #: of the segment before it
    first_offset: int
    end_offset: int  #: where the next segment begins


def gaps(directory: Directory) -> list[Gap]:
    """The gaps between segments from the log start on, by the ends of segments alone."""
    point = recovery.read_point(directory) or recovery.read_start(directory)
    start = 0 if point is None else point.log_start_offset
    found = []
    for base, following in pairwise(_all_bases(directory)):
        if following <= start:
            continue
        try:
            segment = _open(directory, base, following)
        except StorageError as error:
            if is_gone(error):
                continue
            raise
        try:
            if not segment.is_joined():
                found.append(Gap(segment.path, max(segment.batches_end(), start), following))
        except RecordError:
            pass  # of damage in it a verification tells
        except StorageError as error:
            if not is_gone(error):  # deleted by its owner meanwhile
                raise
        finally:
            segment.close()
    return found


def _all_bases(directory: Directory) -> list[int]:
    """The base offsets of the segments, that of a new form included whose old one a compaction has taken away."""
    return sorted(set(files.base_offsets([name.removesuffix(files.SWAP) for name in directory.names()])))


def verify(
    place: Place,
    *,
    deep: bool = False,
    is_live: bool = False,
    is_compacted: bool = False,
    kind: LogKind = LogKind.UNRECORDED,
) -> Iterator[Problem]:
    """Everything that is wrong in the segments of a place and in what lies beside them.

    ``deep`` looks into every record, too. ``is_live``: a process writes the log now, and what lies
    behind its published end is not judged. ``is_compacted``: offsets may be missing between segments, if the kind
    of the log was never recorded; ``kind`` is what a catalogue says of it.
    """
    known = marks(place.directory)
    kind = recovery.read_kind(place.directory).with_other(kind)
    if kind is not LogKind.UNRECORDED:
        is_compacted = kind is LogKind.GAPPED
    all_bases = _all_bases(place.directory) or list(place.bases)
    end: int | None = None
    for base in place.bases:
        for attempt in range(_LIVE_ATTEMPTS if is_live else 1):
            # The owner may put other files in the place of these while they are compared.
            if attempt:
                all_bases = _all_bases(place.directory) or all_bases
            following = next((other for other in all_bases if other > base), None)
            found = _of_segment(place.directory, base, following, known, deep, is_live, is_compacted)
            if not found.problems:
                break
        yield from found.problems
        end = found.end
    if place.bases[-1] == all_bases[-1] and end is not None:
        yield from _promised(place, known, end, is_live=is_live)
    yield from _beside(place)
    yield from _aborted(place, is_live=is_live)


class _Checked(NamedTuple):
    problems: list[Problem]
    end: int | None  #: where the segment ends, if it is whole


def _of_segment(
    directory: Directory,
    base: int,
    following: int | None,
    known: Marks,
    deep: bool,
    is_live: bool,
    is_compacted: bool,
) -> _Checked:
    """What is wrong in one segment; nothing if its owner has deleted it meanwhile."""
    problems: list[Problem] = []
    try:
        segment = _open(directory, base)
    except StorageError as error:
        if is_live and is_gone(error):
            return _Checked([], None)
        raise
    try:
        extent = segment.scan()
        problem = _judged(segment, extent, known, is_last=following is None, is_live=is_live)
        if problem is not None:
            problems.append(problem)
        elif following is not None:
            problems += _between(segment, extent.next_offset, following, known.start, is_compacted)
        if deep:
            problems += _records_of(segment.path, extent.valid_bytes, directory.files)
        problems += _indexes_of(directory, segment, extent.valid_bytes, is_live=is_live and following is None)
        return _Checked(problems, extent.next_offset if problem is None else None)
    except StorageError as error:
        if is_live and is_gone(error):
            return _Checked([], None)
        raise
    finally:
        segment.close()


def _open(directory: Directory, base: int, next_offset: int = -1) -> Segment:
    file = _file(directory, files.segment_file(base, files.LOG))
    return Segment(file, base, size=file.size(), next_offset=next_offset, sealed=True)


def _judged(segment: Segment, extent: Any, known: Marks, *, is_last: bool, is_live: bool) -> Problem | None:
    if extent.problem is None:
        return None
    if is_last and is_live and known.published is not None and extent.next_offset >= known.published:
        return None
    if is_last and _is_zeros(segment.file, extent.valid_bytes):
        return None  # room that was taken ahead, by Kafka's preallocate or by a crash; nothing was promised there
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


def _between(segment: Segment, end: int, following: int, start: int, is_compacted: bool) -> Iterator[Problem]:
    if end > following:
        what = f"the segment ends at offset {end - 1}, but the next one begins at {following}"
        yield Problem(Kind.DAMAGE, segment.path, segment.size, following, what)
    elif max(end, start) < following and not is_compacted:
        end = max(end, start)
        what = f"offsets {end} to {following - 1} are missing before the next segment"
        yield Problem(Kind.DAMAGE, segment.path, segment.size, end, what)


def _records_of(path: str, valid_bytes: int, table: Files) -> Iterator[Problem]:
    for position, batch in batches(path, table, end=valid_bytes):
        try:
            batch.validate(contiguous=False)
        except RecordError as error:
            yield Problem(Kind.DAMAGE, path, position, batch.base_offset, str(error))


def _promised(place: Place, known: Marks, end: int, *, is_live: bool) -> Iterator[Problem]:
    """Segments that are missing at the end: nothing else tells of them."""
    if known.promised is not None and end < known.promised:
        path = place.directory.join(files.segment_file(place.bases[-1], files.LOG))
        what = f"the log ends at offset {end}, but was synced up to {known.promised}"
        yield Problem(Kind.DAMAGE, path, None, end, what)
    elif known.published is not None and end < known.published and not is_live:
        path = place.directory.join(files.segment_file(place.bases[-1], files.LOG))
        what = (
            f"the log ends at offset {end}, but was written up to {known.published}: what was not synced is gone, "
            "as after a power cut"
        )
        yield Problem(Kind.TAIL, path, None, end, what)


# --- indexes -----------------------------------------------------------------------------------


def _indexes_of(directory: Directory, segment: Segment, valid_bytes: int, *, is_live: bool) -> Iterator[Problem]:
    base = segment.base_offset
    by_position = dict(index_entries_by_position(directory, base))
    times = time_entries(directory, base)
    path = directory.join(files.segment_file(base, files.OFFSET_INDEX))
    time_path = directory.join(files.segment_file(base, files.TIME_INDEX))
    yield from _rising(path, index_entries(directory, base), "offset", "position")
    yield from _rising(time_path, times, "timestamp", "offset")
    wanted = {offset: timestamp for timestamp, offset in times}
    largest = -1
    try:
        for first, last, position, _size, timestamp, _epoch in segment.headers():
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
        return  # named already, by the scan
    is_whole = valid_bytes == segment.file.size()  # else the scan has named why entries lead nowhere
    if is_whole and not is_live:
        for position, offset in by_position.items():
            yield Problem(Kind.INDEX, path, None, offset, f"no batch begins at position {position} of the segment")
        for offset, timestamp in wanted.items():
            what = f"the entry for timestamp {timestamp} names an offset that the segment does not hold"
            yield Problem(Kind.INDEX, time_path, None, offset, what)


def index_entries_by_position(directory: Directory, base: int) -> Iterator[tuple[int, int]]:
    """(position, offset) of an offset index."""
    return ((position, offset) for offset, position in index_entries(directory, base))


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


def _beside(place: Place) -> Iterator[Problem]:
    directory = place.directory
    names = directory.names()
    for base in place.bases:
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


def _aborted(place: Place, *, is_live: bool) -> Iterator[Problem]:
    """Aborted indexes that are missing or cut: of themselves, they only say less."""
    directory = place.directory
    note = recovery.read_note(directory, recovery.read_point(directory))
    mended = "readers ask the markers, and the next open for writing makes it again"
    if note.is_lost:
        what = f"it is missing or not whole: {mended}"
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
        what = f"it lists {found} aborted transactions, and not the {known} that were listed: {mended}"
        yield Problem(Kind.STATE, directory.join(name), None, None, what)
