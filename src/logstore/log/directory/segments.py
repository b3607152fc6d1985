"""Segments of one log, in order: an immutable tuple that readers use without a lock.

This module opens, adds, swaps and drops whole segments with all their files, and saves their
indexes. `_segment` is responsible for a segment's contents, the log for when to roll or drop one.
Changes are made under the log's lock; a reader takes `all` once and works with that tuple.
"""

from __future__ import annotations

import bisect
import errno
import logging
from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from operator import attrgetter

from logstore._index import Entries
from logstore._segment import Segment
from logstore._segment_scan import Extent
from logstore.config.log import LogConfig
from logstore.errors import DamagedLogError, LogstoreError, StorageError
from logstore.io._files import File, errno_of
from logstore.io._preallocation import Chunked, Growth, Preallocate
from logstore.log.directory import files, next_segment
from logstore.log.directory._segment_set import SegmentSet
from logstore.log.directory.files import Directory

_logger = logging.getLogger(__name__)

_base_offset = attrgetter("base_offset")

#: Error codes of a rename that was refused and has changed nothing.
_NOT_RENAMED = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV)

_INDEX_FILES = (files.OFFSET_INDEX, files.TIME_INDEX)


def floor_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the last segment whose base offset is at most ``offset``; -1 if there is none."""
    # Most readers and writers ask for the newest one.
    if segments and offset >= segments[-1].base_offset:
        return len(segments) - 1
    return bisect.bisect_right(segments, offset, key=_base_offset) - 1


class NotTaken(LogstoreError):
    """File that did not become a segment; nothing has changed, and its bytes must be copied instead."""


class Detached:
    """Part of `Segments`. Owns: the files of segments that a deletion has taken out of the log, until unlinked.

    Called without the log's lock, but for `add`.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._segments: tuple[Segment, ...] = ()
        self._aside: list[str] = []  # renamed files, to be unlinked

    def __bool__(self) -> bool:
        """Return whether such files may still be there."""
        return bool(self._segments or self._aside)

    def add(self, doomed: Sequence[Segment]) -> None:
        """Record that segments are no part of the log any more; no file is touched."""
        self._segments = (*self._segments, *doomed)

    def put_aside(self, names: set[str]) -> None:
        """Rename the files, of which ``names`` are in the directory; with `State.segments_mutex` held.

        After an error it may be called again, with the names of then.
        """
        segments = self._segments
        self._aside += _put_aside(self._directory, segments, names)
        self._segments = self._segments[len(segments) :]

    def unlink(self) -> None:
        """Delete what `put_aside` has renamed, which may take long; holding `State.deleting` alone."""
        while self._aside:
            self._directory.remove(self._aside[-1])
            self._aside.pop()


def _put_aside(directory: Directory, doomed: Sequence[Segment], names: set[str]) -> list[str]:
    """Rename the files of segments and close them; return the new names, those of an earlier attempt too."""
    theirs = [files.segment_file(s.base_offset, suffix) for s in doomed for suffix in files.SEGMENT_SUFFIXES]
    earlier = [name + files.DELETED for name in theirs if name + files.DELETED in names]
    renamed = files.put_aside(directory, theirs, names)
    for segment in doomed:
        segment.close()
    return [*renamed, *(name for name in earlier if name not in renamed)]


class Segments(SegmentSet):
    """The segments of one log, with their files: opens, adds, swaps and drops them."""

    def __init__(self, directory: Directory, config: LogConfig, segments: Iterable[Segment] = ()) -> None:
        self.directory = directory
        self._config = config
        self.all = tuple(segments)
        self.detached = Detached(directory)

    @classmethod
    def open(
        cls, directory: Directory, config: LogConfig, *, writable: bool, names: list[str] | None = None
    ) -> Segments:
        """Open every segment in the directory, with the size of its file as its size.

        The contents are not read: recovery decides how much of the last segments is valid. ``names`` are those
        in the directory, if they are known.

        Raises:
            NotALogError: it is opened for reading, and a segment swap is unfinished.
        """
        if names is None:
            names = directory.names()
        if not writable:
            files.refuse_unfinished_swap(directory, names)
        # An open for writing has given the next segment its final name.
        following = None if writable else next_segment.find(directory, names)
        bases = files.base_offsets(names)
        return cls(directory, config, _opened(directory, config, bases, following, writable=writable))

    def follow(self, log_start_offset: int) -> bool:
        """Add the segments that the writer rolled since, and drop those it deleted; for a reader beside it.

        Only new files are opened. False if there is none. Of several, the newest may need another call: until its
        roll is finished, it is found as the one that follows the active segment.
        """
        known = self.active
        # In this order: a file that has lost its first name by now has its final one in a listing that begins now.
        following = next_segment.after(self.directory, known.base_offset)
        if following is not None:
            bases, end = [], following[1]
        else:
            bases = [base for base in files.base_offsets(self.directory.names()) if base > known.base_offset]
            if not bases:
                return False
            end = bases[0]
        known.extend(end)
        known.seal()
        known.set_end(end)
        whole = (*self.all, *_opened(self.directory, self._config, bases, following, writable=False))
        dropped = {s for s, after in pairwise(whole) if after.base_offset <= log_start_offset}
        self.all = tuple(segment for segment in whole if segment not in dropped)
        for segment in dropped:
            segment.close()
        return True

    # -- finding

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """Return the segment that may hold ``offset`` and all after it."""
        # The tuple is read once: a change between two reads would shift the indexes below.
        segments = self.all
        return segments[max(floor_of(segments, offset), 0) :]

    def size(self) -> int:
        """Return the bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.all)

    # -- changing

    def add(self, base_offset: int) -> Segment:
        """Create an empty segment after the others. Its name is not durable until a sync."""
        name = files.segment_file(base_offset, files.LOG)
        for suffix in (*_INDEX_FILES, files.ABORTED_INDEX):
            # Index files of a deleted segment with this base offset would name batches that this one does not have.
            self.directory.remove(files.segment_file(base_offset, suffix))
        return self.begin(self.directory.open(name, create=True, writable=True, truncate=True), base_offset)

    def begin(self, file: File, base_offset: int) -> Segment:
        """Make an empty open file the active segment."""
        segment = _segment(file, base_offset, self._config, size=0, next_offset=base_offset, sealed=False)
        self.all = (*self.all, segment)
        return segment

    def take(self, name: str, base_offset: int, *, size: int, next_offset: int) -> Segment:
        """Make a whole file of stamped batches the active segment: after the others, or replacing an empty one.

        Neither its name nor its bytes are durable until a sync. Readers of a replaced segment keep it.

        Raises:
            DiskFullError, TooManyFilesError: there is no space for the name, or the file could not be opened.
                Nothing has changed.
            NotTaken: the file is missing, or may not be renamed. Nothing has changed.
            StorageError: it could not be renamed, or ends at another offset or size than given.
        """
        final = files.segment_file(base_offset, files.LOG)
        try:
            # Opened and read before the rename: a failure after it would leave an unchecked file in the log.
            file = self.directory.open(name, writable=True)
        except StorageError as error:
            if errno_of(error) in _NOT_RENAMED:
                raise NotTaken(f"{name} could not be opened: {error}") from error
            raise
        file.mark_dirty()
        segment = _segment(file, base_offset, self._config, size=size, next_offset=next_offset, sealed=False)
        extent = segment.scan(next_offset=base_offset, adopt=True, check=False)
        if (segment.size, segment.next_offset) != (size, next_offset):
            raise StorageError(
                f"the file ends at offset {segment.next_offset}, position {segment.size}, and should at offset "
                f"{next_offset}, position {size}: {extent.problem or 'it has changed since it was checked'}",
                path=file.path,
            )
        for suffix in (*_INDEX_FILES, files.ABORTED_INDEX):
            self.directory.remove(files.segment_file(base_offset, suffix))
        try:
            file.rename_to(self.directory.join(final))
        except StorageError as error:
            file.close()
            if errno_of(error) in _NOT_RENAMED:
                raise NotTaken(f"{name} could not be renamed to {final}: {error}") from error
            raise
        replaced = [known for known in self.all[-1:] if known.base_offset == base_offset]
        self.all = (*self.all[: len(self.all) - len(replaced)], segment)
        for old in replaced:
            old.close()
        return segment

    def seal(self, segment: Segment) -> None:
        """Add the last time index entry of a segment, and write its complete, trimmed index files."""
        segment.seal()
        self.release(segment)
        self.save_indexes(segment, complete=True)

    def release(self, segment: Segment) -> None:
        """Release the space preallocated past a segment's end; a failure wastes space and loses no data."""
        try:
            segment.release()
        except StorageError as error:
            _logger.warning("room not given back: segment=%s error=%s", segment.path, error)

    def drop(self, doomed: Iterable[Segment]) -> None:
        """Remove segments from the log and delete their files; readers that hold them may finish.

        The tuple changes before the first byte is deleted.
        """
        doomed = list(doomed)
        # Listed first: without a free descriptor this fails, and must do so before anything has changed.
        names = set(self.directory.names())
        gone = {segment.base_offset for segment in doomed}
        self.all = tuple(segment for segment in self.all if segment.base_offset not in gone)
        for name in _put_aside(self.directory, doomed, names):
            self.directory.remove(name)

    def copy_prefix(self, segment: Segment, size: int) -> str:
        """Copy the first bytes of a segment to a new, synced file; return its name."""
        name = files.segment_file(segment.base_offset, files.LOG) + files.CLEANED
        files.copy_bytes(segment.file, self.directory, name, 0, size)
        return name

    def rewrite(self, old: Segment, size: int, next_offset: int) -> Segment:
        """Replace a segment by a copy of its first bytes, which becomes the active segment.

        Copy and name are durable on return. Readers of the old file keep it.
        """
        name = self.copy_prefix(old, size)
        final = files.segment_file(old.base_offset, files.LOG)
        for suffix in _INDEX_FILES:
            self.directory.remove(files.segment_file(old.base_offset, suffix))
        self.directory.rename(name, final)
        self.directory.sync()
        file = self.directory.open(final, writable=True)
        segment = _segment(file, old.base_offset, self._config, size=size, next_offset=next_offset, sealed=False)
        self.all = tuple(segment if s is old else s for s in self.all)
        old.close()
        segment.scan(adopt=True, check=False)
        return segment

    def begin_cleaned(self, base_offset: int) -> Segment:
        """Create an empty segment for compacted or rewritten batches; it is not used while it has this name."""
        name = files.segment_file(base_offset, files.LOG) + files.CLEANED
        file = self.directory.open(name, create=True, writable=True, truncate=True)
        return Segment(file, base_offset, index_interval_bytes=self._config.index_interval_bytes)

    def open_sealed(self, name: str, base_offset: int, size: int, next_offset: int) -> Segment:
        """Open a complete file of this name as a segment. It is not part of the log until `Segments.replace`."""
        file = self.directory.files.lazy(self.directory.join(name))
        return _segment(file, base_offset, self._config, size=size, next_offset=next_offset, sealed=True)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace a run of neighbouring segments by one; the caller is responsible for their files."""
        place = self.all.index(old[0])
        assert self.all[place : place + len(old)] == tuple(old), (old, self.all)
        self.all = (*self.all[:place], new, *self.all[place + len(old) :])

    def reconfigure(self, config: LogConfig) -> None:
        """Apply new settings from the next segment on."""
        self._config = config

    def save_indexes(self, segment: Segment, *, complete: bool = False, at_least: int = 1) -> None:
        """Write the new entries of a segment's indexes to their files; with ``complete``, empty ones too.

        Nothing is written before one of the indexes has ``at_least`` new entries. An active segment without an
        entry has no time index file: to create one for each small log would be a large part of a store's close.
        Kafka creates it when it opens the log. A missing offset index it reports as an error, so that one is there.
        Index files are hints, so a full disk is no error here: a reader finds shorter indexes, or none.
        """
        index = segment.index
        try:
            index.load()
            parts = ((files.OFFSET_INDEX, index.offsets), (files.TIME_INDEX, index.times))
            if not (complete or index.stale or max(len(e) - e.saved for _, e in parts) >= at_least):
                return
            for suffix, entries in parts:
                if not (complete or index.stale or entries.saved < len(entries)):
                    continue
                name = files.segment_file(segment.base_offset, suffix)
                is_empty = not (len(entries) or segment.sealed)
                if is_empty and suffix == files.TIME_INDEX:
                    # A file may be there: of batches that were truncated, or an unsound one.
                    self.directory.remove(name)
                elif segment.sealed or (index.stale and not is_empty) or not self._add_entries(name, entries):
                    # An index file is never shortened. A reader in another process may have mapped it: one that has
                    # not seen a truncation yet takes the segment for a sealed one, and would get a bus error.
                    self.directory.replace(name, entries.to_bytes(), durable=False)
                entries.mark_saved()
            index.mark_saved()
        except StorageError as error:
            _logger.warning("indexes not saved: segment=%s error=%s", segment.path, error)

    def _add_entries(self, name: str, entries: Entries) -> bool:
        """Append the new entries to an index file; return whether the file ended at the saved ones."""
        with self.directory.open(name, create=True, writable=True) as file:
            position = entries.saved * entries.entry_bytes
            if file.size() != position:
                return False
            file.write(entries.unsaved(), position)
            return True

    def trim_index_files(self, segment: Segment) -> None:
        """Write the active segment's index files from memory after a truncation, with no other entries."""
        segment.index.offsets.unmark_saved()
        segment.index.times.unmark_saved()
        # Empty ones too: entries of truncated batches would stay in the file.
        self.save_indexes(segment, complete=True)

    def close(self) -> None:
        """Close every file."""
        for segment in self.all:
            segment.close()


def _opened(
    directory: Directory,
    config: LogConfig,
    bases: list[int],
    following: tuple[str, int] | None = None,
    *,
    writable: bool,
) -> list[Segment]:
    """Open neighbouring segments, the newest as the active one.

    ``following`` is a segment after these whose writer has not given it its final name yet: (name, base offset).
    """
    named = [
        (base, directory.files.lazy(directory.join(files.segment_file(base, files.LOG)), writable=writable))
        for base in bases
    ]
    if following is not None:
        name, base = following
        final = directory.join(files.segment_file(base, files.LOG))
        named.append((base, directory.files.lazy(directory.join(name), renamed_to=final)))
    segments = []
    for (base, file), after in zip_longest(named, named[1:]):
        end = -1 if after is None else after[0]
        segments.append(_segment(file, base, config, size=file.size(), next_offset=end, sealed=end >= 0))
    return segments


def _segment(
    file: File, base_offset: int, config: LogConfig, *, size: int, next_offset: int, sealed: bool
) -> Segment:
    return Segment(
        file,
        base_offset,
        index_interval_bytes=config.index_interval_bytes,
        size=size,
        next_offset=next_offset,
        sealed=sealed,
        growth=None if sealed else _growth(config),
    )


def _growth(config: LogConfig) -> Growth:
    if config.write_strategy == "preallocate" or config.preallocate:
        return Preallocate(config.segment_bytes)
    return Chunked() if config.write_strategy == "chunked" else Growth()


def check_joint(segment: Segment, log_start: int, name: object) -> None:
    """Refuse a sealed segment that ends before the next one begins, in a log whose segments are contiguous.

    Raises:
        DamagedLogError: offsets at or above the log start are missing; they are named.
    """
    # A segment below the log start may have been deleted in part, or never been checked.
    if segment.index.joined or segment.next_offset <= log_start or segment.index.is_joined():
        return
    first, following = max(segment.index.batches_end(), log_start), segment.next_offset
    raise DamagedLogError(
        f"{name}: offsets {first} to {following - 1} are missing: the segment ends before the next one begins, so "
        f"a file was lost, emptied or cut; restore it from a copy, or read on from offset {following}, or accept "
        "the loss with `logstore segment repair --accept-gaps`",
        path=segment.path,
        position=segment.size,
        offset=first,
        next_offset=following,
    )


def sync_unless_dropped(segment: Segment) -> None:
    """Sync a segment's file. One that is deleted, or truncated to a new file, meanwhile need not be on disk."""
    try:
        segment.file.sync()
    except StorageError:
        if not is_dropped(segment):
            raise


def is_dropped(segment: Segment) -> bool:
    """Return whether a segment was deleted, or truncated to a new file, during its sync: it need not be on disk."""
    return segment.file.closed and not segment.file.sync_failed


def is_gone(error: Exception) -> bool:
    """Return whether an error means that a file is missing: its segment was dropped meanwhile."""
    return isinstance(error, StorageError) and errno_of(error) == errno.ENOENT


def scan_file(directory: Directory, name: str) -> Extent:
    """Check every batch of a segment's file that no log has open; its name begins with its base offset."""
    base = int(name[:20])
    with directory.open(name) as file:
        segment = Segment(file, base, size=file.size(), next_offset=-1, sealed=False)
        return segment.scan(next_offset=base)
