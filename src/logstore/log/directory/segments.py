"""The segments of one log, in order: an immutable tuple that readers take as it is.

This module opens, adds, swaps and drops whole segments with all their files, and saves their
indexes. What is in a segment is `_segment`'s business; when to roll or drop one is the log's.
Changes are made under the log's lock; a reader takes `all` once and works with that tuple.
"""

from __future__ import annotations

import bisect
import errno
import logging
from collections.abc import Iterable, Sequence
from itertools import pairwise

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.errors import DamagedLogError, DiskFullError, LogstoreError, StorageError
from logstore.io._files import File, errno_of
from logstore.io._preallocation import Chunked, Growth, Preallocate
from logstore.log.directory import files
from logstore.log.directory.files import Directory

_logger = logging.getLogger(__name__)

#: What a rename says that was refused and has done nothing.
_NOT_RENAMED = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV)

_INDEX_FILES = (files.OFFSET_INDEX, files.TIME_INDEX)


class NotTaken(LogstoreError):
    """A file did not become a segment, and nothing has changed: its bytes have to be copied."""


class Segments:
    """The segments of one log, by base offset. The last one is active, the others are sealed."""

    def __init__(self, directory: Directory, config: LogConfig, segments: Iterable[Segment] = ()) -> None:
        self.directory = directory
        self._config = config
        self._all: tuple[Segment, ...] = tuple(segments)
        self._bases: tuple[int, ...] = tuple(segment.base_offset for segment in self._all)

    @classmethod
    def open(
        cls, directory: Directory, config: LogConfig, *, writable: bool, names: list[str] | None = None
    ) -> Segments:
        """Every segment that is in the directory, with the size of its file taken for its own.

        Nothing in the files is looked at: recovery decides how much of the last ones is true. ``names`` are those
        in the directory, if they are known.

        Raises:
            NotALogError: it is opened for reading, and a compaction is at its swap.
        """
        if names is None:
            names = directory.names()
        if not writable:
            files.refuse_swaps(directory, names)
        bases = files.base_offsets(names)
        segments = []
        for place, base in enumerate(bases):
            sealed = place + 1 < len(bases)
            path = directory.join(files.segment_file(base, files.LOG))
            file = directory.files.lazy(path, writable=writable)
            next_offset = bases[place + 1] if sealed else -1
            segments.append(_segment(file, base, config, size=file.size(), next_offset=next_offset, sealed=sealed))
        return cls(directory, config, segments)

    def follow(self, log_start_offset: int) -> bool:
        """For a reader beside the writer: take the segments that were begun since, drop those deleted.

        Only new files are opened. False if there is none.
        """
        known = self.active
        bases = [base for base in files.base_offsets(self.directory.names()) if base > known.base_offset]
        if not bases:
            return False
        known.extend(bases[0])
        known.seal()
        known.set_end(bases[0])
        fresh = []
        for place, base in enumerate(bases):
            file = self.directory.files.lazy(self.directory.join(files.segment_file(base, files.LOG)))
            sealed = place + 1 < len(bases)
            end = bases[place + 1] if sealed else -1
            fresh.append(_segment(file, base, self._config, size=file.size(), next_offset=end, sealed=sealed))
        whole = (*self._all, *fresh)
        dropped = {s for s, after in pairwise(whole) if after.base_offset <= log_start_offset}
        self._set(segment for segment in whole if segment not in dropped)
        for segment in dropped:
            segment.close()
        return True

    # -- finding

    @property
    def all(self) -> tuple[Segment, ...]:
        """The segments as they are now; the tuple never changes."""
        return self._all

    @property
    def active(self) -> Segment:
        return self._all[-1]

    def __len__(self) -> int:
        return len(self._all)

    def floor(self, offset: int) -> int:
        """Place of the last segment whose base offset is at most ``offset``; -1 if there is none.

        >>> Segments(Directory("/nowhere"), LogConfig()).floor(2600)
        -1
        """
        return bisect.bisect_right(self._bases, offset) - 1

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that may hold ``offset`` and all behind it."""
        # One read of the tuple: the places below must not shift between two.
        segments = self._all
        place = bisect.bisect_right([s.base_offset for s in segments], offset) - 1 if segments else 0
        return segments[max(place, 0) :]

    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self._all)

    # -- changing

    def add(self, base_offset: int) -> Segment:
        """Create an empty segment behind the others. Its name is not durable until a sync."""
        name = files.segment_file(base_offset, files.LOG)
        for suffix in (*_INDEX_FILES, files.ABORTED_INDEX):
            # Left of an earlier life of this base offset; a new segment must not find it.
            self.directory.remove(files.segment_file(base_offset, suffix))
        file = self.directory.open(name, create=True, writable=True, truncate=True)
        segment = _segment(file, base_offset, self._config, size=0, next_offset=base_offset, sealed=False)
        self._set((*self._all, segment))
        return segment

    def take(self, name: str, base_offset: int, *, size: int, next_offset: int) -> Segment:
        """Make a whole file of stamped batches the active segment: behind the others, or in an empty one's place.

        Its name is not durable until a sync, nor are its bytes. Readers of an empty one keep that.

        Raises:
            DiskFullError, TooManyFilesError: there is no room for the name, or the file could not be opened.
                Nothing has changed.
            NotTaken: the file is gone, or may not be moved. Nothing has changed.
            StorageError: it could not be named, or has other batches than was said.
        """
        final = files.segment_file(base_offset, files.LOG)
        try:
            # Opened and read first: once it has the name of a segment, it is the log's.
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
            segment.follow_name()
        except StorageError as error:
            file.close()
            if errno_of(error) in _NOT_RENAMED:
                raise NotTaken(f"{name} could not be renamed to {final}: {error}") from error
            raise
        replaced = [known for known in self._all[-1:] if known.base_offset == base_offset]
        self._set((*self._all[: len(self._all) - len(replaced)], segment))
        for old in replaced:
            old.close()
        return segment

    def seal(self, segment: Segment) -> None:
        """Give a segment its last time index entry and whole, trimmed index files."""
        segment.seal()
        self.release(segment)
        self.save_indexes(segment, complete=True)

    def release(self, segment: Segment) -> None:
        """Give back the room that was taken ahead of a segment's end; what cannot be is lost room, no data."""
        try:
            segment.release()
        except StorageError as error:
            _logger.warning("room not given back: segment=%s error=%s", segment.path, error)

    def drop(self, doomed: Iterable[Segment]) -> None:
        """Take segments out of the log and remove their files; readers that hold them may finish.

        All are renamed first, so that a crash finds none of them half alive, and the tuple changes
        before the first byte goes.
        """
        doomed = list(doomed)
        # First: what cannot be listed, for want of a descriptor, has to show before anything has changed.
        names = set(self.directory.names())
        gone = {segment.base_offset for segment in doomed}
        self._set(segment for segment in self._all if segment.base_offset not in gone)
        renamed = []
        for segment in doomed:
            for suffix in files.SEGMENT_SUFFIXES:
                name = files.segment_file(segment.base_offset, suffix)
                if name not in names:
                    continue
                try:
                    self.directory.rename(name, name + files.DELETED)
                    renamed.append(name + files.DELETED)
                except DiskFullError:
                    # A longer name may need a new block of the directory, and deleting is how room is made.
                    self.directory.remove(name)
        for segment in doomed:
            segment.close()
        for name in renamed:
            self.directory.remove(name)

    def replace(self, old: Segment, name: str, *, size: int, next_offset: int) -> Segment:
        """Put a whole, synced file in the place of a segment's, which becomes the active one.

        The name is durable on return. Readers of the old file keep it.
        """
        final = files.segment_file(old.base_offset, files.LOG)
        for suffix in _INDEX_FILES:
            self.directory.remove(files.segment_file(old.base_offset, suffix))
        self.directory.rename(name, final)
        self.directory.sync()
        file = self.directory.open(final, writable=True)
        segment = _segment(file, old.base_offset, self._config, size=size, next_offset=next_offset, sealed=False)
        self._set(segment if s is old else s for s in self._all)
        old.close()
        return segment

    def begin_cleaned(self, base_offset: int) -> Segment:
        """An empty segment beside the others to write their new form into; worthless while it has this name."""
        name = files.segment_file(base_offset, files.LOG) + files.CLEANED
        file = self.directory.open(name, create=True, writable=True, truncate=True)
        return Segment(file, base_offset, index_interval_bytes=self._config.index_interval_bytes)

    def open_sealed(self, name: str, base_offset: int, size: int, next_offset: int) -> Segment:
        """A segment whose whole file has this name. It is none of the log's until `Segments.exchange`."""
        file = self.directory.files.lazy(self.directory.join(name))
        return _segment(file, base_offset, self._config, size=size, next_offset=next_offset, sealed=True)

    def exchange(self, old: Sequence[Segment], new: Segment) -> None:
        """Put one segment in the place of a run of neighbours, whose files are the caller's business."""
        place = self._all.index(old[0])
        assert self._all[place : place + len(old)] == tuple(old), (old, self._all)
        self._set((*self._all[:place], new, *self._all[place + len(old) :]))

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from the next segment on."""
        self._config = config

    def reopen_active(self) -> Segment:
        """The last segment, which was sealed, as the active one: the ones behind it are gone."""
        old = self.active
        if not old.sealed:
            return old
        file = self.directory.open(files.segment_file(old.base_offset, files.LOG), writable=True)
        segment = _segment(
            file, old.base_offset, self._config, size=old.size, next_offset=old.next_offset, sealed=False
        )
        self._set((*self._all[:-1], segment))
        old.close()
        return segment

    def save_indexes(self, segment: Segment, *, complete: bool = False, at_least: int = 1) -> None:
        """Bring a segment's index files up to what is in memory; with ``complete``, empty ones too.

        Not before ``at_least`` entries of one of them are new.
        They are hints, so a full disk is no error here: a reader finds shorter indexes, or none.
        """
        try:
            segment.ensure_indexes()
            new = max(len(entries) - entries.saved for entries in (segment.index, segment.times))
            if new < at_least and not complete and not segment.index_stale:
                return
            for suffix, entries in ((files.OFFSET_INDEX, segment.index), (files.TIME_INDEX, segment.times)):
                name = files.segment_file(segment.base_offset, suffix)
                if segment.sealed or segment.index_stale:
                    # A sealed index is replaced as a whole: somebody may have mapped the old one.
                    if complete or segment.index_stale or entries.saved < len(entries):
                        self.directory.replace(name, entries.to_bytes(), durable=False)
                elif complete or entries.saved < len(entries):
                    self._write_behind(name, entries)
                entries.mark_saved()
            segment.index_stale = False
        except StorageError as error:
            _logger.warning("indexes not saved: segment=%s error=%s", segment.path, error)

    def _write_behind(self, name: str, entries: object) -> None:
        file = self.directory.open(name, create=True, writable=True)
        try:
            position = entries.saved * entries.entry_bytes  # type: ignore[attr-defined]
            file.truncate(position)
            file.write(entries.unsaved(), position)  # type: ignore[attr-defined]
        finally:
            file.close()

    def trim_index_files(self, segment: Segment) -> None:
        """After a cut: let the index files of the active segment hold what is in memory, no more."""
        segment.index.unmark_saved()
        segment.times.unmark_saved()
        # Empty ones too: entries of what was cut would stay, and name batches that are none.
        self.save_indexes(segment, complete=True)

    def close(self) -> None:
        """Close every file."""
        for segment in self._all:
            segment.close()

    def _set(self, segments: Iterable[Segment]) -> None:
        self._all = tuple(segments)
        self._bases = tuple(segment.base_offset for segment in self._all)


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
    """Refuse a sealed segment that ends before the next one begins; for a log whose segments lie end to end.

    Raises:
        DamagedLogError: offsets at or above the log start are missing; they are named.
    """
    # The log start may have moved over it since it was deleted in part, or was never looked at.
    if segment.joined or segment.next_offset <= log_start or segment.is_joined():
        return
    first, following = max(segment.batches_end(), log_start), segment.next_offset
    raise DamagedLogError(
        f"{name}: offsets {first} to {following - 1} are missing: the segment ends before the next one begins, so "
        f"a file was lost, emptied or cut; restore it from a copy, or read on from offset {following}, or accept "
        "the loss with `logstore segment repair --accept-gaps`",
        path=segment.path,
        position=segment.size,
        offset=first,
        next_offset=following,
    )


def is_gone(error: StorageError) -> bool:
    """Whether an error says that a file is no longer there: its segment was dropped meanwhile."""
    return errno_of(error) == errno.ENOENT


__all__ = ["NotTaken", "Segments", "check_joint", "is_gone"]
