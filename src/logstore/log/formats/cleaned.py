"""What compactions of a log have done, and what of it a restart must know: `logstore.compacted`.

`Cleaned` owns the offset below which each key has one record, and the record that all records have keys. It decides
nothing: `compaction` cleans, truncation lowers the offset, an open finds what was stored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from logstore.errors import StorageError
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.records import INT64_MAX

_logger = logging.getLogger(__name__)


class Cleaned:
    """Part of an open log, guarded by its lock."""

    def __init__(self, directory: Directory, names: Sequence[str], start: int, end: int, *, compacts: bool) -> None:
        """Find what was stored for a log from ``start`` to ``end``, with the files ``names`` in its directory."""
        self._directory = directory
        self._compacts = compacts
        self.is_keyed = False  #: a compaction, or a check of each record, has recorded that all have keys
        self.first_dirty_offset = self._found(names, start, end)  #: below it, each key has one record
        self.next_horizon_ms = INT64_MAX  #: the earliest delete horizon that the last compaction has seen
        self.error: str | None = None  #: the damage that a compaction has found
        self._keyed_below = (0, 0)

    def _found(self, names: Sequence[str], start: int, end: int) -> int:
        """Return the end of the last compaction, or the log start if it is higher or the log was truncated."""
        data = self._directory.read(checkpoints.COMPACTED, names)
        if data is not None and not self._compacts:
            self._forget_keys()
            data = None
        found = None if data is None else checkpoints.decode_compacted(data)
        self.is_keyed = found is not None
        if found is not None and found > end:
            # The log was truncated. When it grows, new records below the old offset would count as compacted.
            self._directory.replace(checkpoints.COMPACTED, checkpoints.encode_compacted(0), durable=True)
            found = None
        return max(start, found or 0)

    def _forget_keys(self) -> None:
        """Remove durably the record that all records have keys: appends without a key are allowed from now on."""
        if self._directory.remove(checkpoints.COMPACTED):
            self._directory.sync()
        self.is_keyed = False

    def reconfigure(self, *, compacts: bool) -> None:
        """Use a new ``cleanup.policy`` from now on."""
        if not compacts:
            self._forget_keys()
        self._compacts = compacts

    def note(self, offset: int, *, durable: bool = False) -> None:
        """Store the offset below which each key has one record; the next compaction continues there."""
        if self._compacts:
            try:
                self._directory.replace(
                    checkpoints.COMPACTED, checkpoints.encode_compacted(offset), durable=durable, whole=True
                )
            except StorageError as error:
                if durable:
                    raise
                # Not fatal: the next compaction after a restart only repeats work.
                _logger.warning("compacted offset not written: log=%s error=%s", self._directory.path, error)
        self.first_dirty_offset = offset

    def truncated(self, offset: int) -> None:
        """Lower the offset to a new log end: durably, or records that follow would count as compacted."""
        if offset < self.first_dirty_offset:
            self.note(offset, durable=True)

    def restarted(self, offset: int) -> None:
        """Begin again at an offset, with no record."""
        if self._compacts:
            self.truncated(offset)
        self.first_dirty_offset = offset

    def round_done(self, end_offset: int, next_horizon_ms: int) -> None:
        """Record that each key has one record below an offset, and when the first delete horizon there passes."""
        self.next_horizon_ms = next_horizon_ms
        self.note(end_offset)

    def ended(self, error: str | None) -> None:
        """Record the damage that has ended a compaction, or None; maintenance does not try again on the same."""
        self.error = error

    # -- keys of a log that is not compacted yet

    def keyed_from(self, generation: int) -> int:
        """Return the offset below which `checked_keys` has found keys in all records, in this generation."""
        return self._keyed_below[1] if self._keyed_below[0] == generation else 0

    def checked_keys(self, generation: int, end: int) -> None:
        """Record that every record below ``end`` has a key."""
        self._keyed_below = (generation, end)
