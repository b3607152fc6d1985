"""What a log has written that may not be on disk, besides its active segment: sealed segments, and names of files.

A recovery point may rise over a segment only once that segment, the ones before it and the names of all of them are
on disk. `Unsynced` knows which are not, and syncs the names. Flushes and rolls sync the segments.
"""

from __future__ import annotations

from collections.abc import Collection

from logstore._segment import Segment
from logstore.log.directory.files import Directory


class Unsynced:
    """Part of an open log, guarded by its lock. Only `sync_names` is called without it, too."""

    def __init__(
        self, directory: Directory, root: Directory, segments: tuple[Segment, ...], *, names_are_synced: bool
    ) -> None:
        self._directory = directory
        self._root = root
        #: Sealed segments that may not be on disk, oldest first; a change replaces the tuple.
        self.segments = segments
        # As counts: with a flag, a change during the sync would be taken for synced.
        self.name_changes = 0 if names_are_synced else 1
        self.synced_name_changes = 0
        self._is_root_synced = names_are_synced  # whether the name of the log's directory is durable

    def add(self, sealed: Segment) -> None:
        """Record that a segment was sealed; its bytes may not be on disk."""
        self.segments = (*self.segments, sealed)

    def remove(self, segments: Collection[Segment]) -> None:
        """Record that segments are on disk, or are no longer of the log."""
        self.segments = tuple(segment for segment in self.segments if segment not in segments)

    def clear(self) -> None:
        """Record that every sealed segment is on disk."""
        self.segments = ()

    def names_changed(self) -> None:
        """Record that a file was created, renamed or removed, which is not durable yet."""
        self.name_changes += 1

    @property
    def names_are_synced(self) -> bool:
        """Return whether the names of the log's files are durable."""
        return self.name_changes == self.synced_name_changes

    def sync_names(self) -> None:
        """Make the names of the log's files and of its directory durable, if they are not yet."""
        changed = self.name_changes
        if changed > self.synced_name_changes:
            self._directory.sync()
            if not self._is_root_synced:
                self._root.sync()
                self._is_root_synced = True
            self.synced_name_changes = max(self.synced_name_changes, changed)
