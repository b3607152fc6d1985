"""What compactions of a log have done, and what a restart must know: `logstore.compacted`, `logstore.dropped`.

`Cleaned` owns the offset below which each key has one record, the record that all records have keys, and the offset
below which tombstones and transaction markers may be missing. It decides nothing: `compaction` cleans, truncation
lowers the offsets, an open finds what was stored.

**What was dropped** (``dropped_end``) matters to replicas: one that ends below it never gets those tombstones, so
it would keep the records that they delete. Two things hold at every moment, after a crash too:

1. each tombstone and marker that a compaction has deleted from this log is below ``dropped_end``;
2. no record is in this log that a tombstone below ``dropped_end``, or the marker of an aborted transaction there,
   would delete.

The first, since the number is stored durably before the segment without the tombstone gets its name; the second,
since a tombstone is deleted by a later round than the one that deletes what it replaces. A log that was begun as a
copy of another has the number of that other (`begin_copy`): it is above this log's end while the copy goes on, and
is lowered to the end when something else may follow (`end_copy`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from logstore.errors import StorageError
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.records import INT64_MAX

_logger = logging.getLogger(__name__)

#: Rounds that are kept apart, an even number: with ``delete.retention.ms`` of a day, one in 23 minutes.
MOST_ROUNDS = 64


class Cleaned:
    """Part of an open log, guarded by its lock."""

    def __init__(self, directory: Directory, names: Sequence[str], start: int, end: int, *, compacts: bool) -> None:
        """Find what was stored for a log from ``start`` to ``end``, with the files ``names`` in its directory."""
        self._directory = directory
        self._compacts = compacts
        self.is_keyed = False  #: a compaction, or a check of each record, has recorded that all have keys
        self.dropped_end = 0  #: every tombstone and marker that compaction has deleted is below it
        self._is_dropped_stored = False
        self.first_dirty_offset = self._found(names, start, end)  #: below it, each key has one record
        self._rounds: list[tuple[int, int]] = []  # of each: until when its tombstones stay, its end
        self.next_horizon_ms = INT64_MAX  #: the earliest delete horizon that the last compaction has seen
        self.error: str | None = None  #: the damage that a compaction has found
        self._keyed_below = (0, 0)

    def _found(self, names: Sequence[str], start: int, end: int) -> int:
        """Return the end of the last compaction, or the log start if it is higher or the log was truncated."""
        data = self._directory.read(checkpoints.COMPACTED, names)
        self._find_dropped(names, None if data is None else checkpoints.decode_compacted(data), end)
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

    def _find_dropped(self, names: Sequence[str], cleaned: int | None, end: int) -> None:
        """Find what was dropped. Without the file, or with a damaged one, all that was cleaned may have been."""
        data = self._directory.read(checkpoints.DROPPED, names)
        stored = None if data is None else checkpoints.decode_dropped(data)
        self._is_dropped_stored = stored is not None
        self.dropped_end = min(cleaned or 0 if stored is None else stored, end)
        if data is not None and stored != self.dropped_end:
            # Damaged, or of a copy that was cut short. What follows may come from another log: it is lowered first.
            self._store_dropped(self.dropped_end)

    def _store_dropped(self, end: int) -> None:
        self._directory.replace(checkpoints.DROPPED, checkpoints.encode_dropped(end), durable=True)
        self.dropped_end, self._is_dropped_stored = end, True

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
        self.cut(offset)

    def cut(self, end: int) -> None:
        """Lower what was dropped to a new log end. After the cut: until then the log lacks what it lacked."""
        self._rounds = [(until_ms, min(at, end)) for until_ms, at in self._rounds]
        self.end_copy(end)

    def round_done(self, end_offset: int, next_horizon_ms: int, until_ms: int) -> None:
        """Record that each key has one record below an offset, and when the first delete horizon there passes.

        A tombstone that this round has met for the first time stays until ``until_ms``.
        """
        self.next_horizon_ms = next_horizon_ms
        if len(self._rounds) == MOST_ROUNDS:
            # Of two, the earlier time with the later end: what may be dropped is never said too low.
            pairs = zip(self._rounds[::2], self._rounds[1::2], strict=True)
            self._rounds = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs]
        self._rounds.append((until_ms, end_offset))
        self.note(end_offset)

    # -- what was dropped

    @property
    def clean_end(self) -> int:
        """The offset below which no record is left that a tombstone would delete, in the log or dropped."""
        return max(self.first_dirty_offset, self.dropped_end)

    def begin_run(self) -> None:
        """Store durably what was dropped so far, if no file says it: from now on a missing file is a lost one."""
        if not self._is_dropped_stored:
            self._store_dropped(self.dropped_end)

    def will_drop(self, last_offset: int, now_ms: int, *, drops_markers: bool) -> None:
        """Record durably that tombstones or markers up to an offset are deleted; nothing of it is visible yet.

        The records of a committed transaction outlive the round that has cleaned its marker, until newer ones
        replace them. A copy that was begun before may have them. So with a marker the number reaches to the end of
        every round whose tombstones may go: one of them gave the marker its time, and was begun after those records
        had gone, so its end is above what such a copy was begun with. Rounds of an earlier process need no mention,
        as no copy outlasts a leader's process.
        """
        due = [end for until_ms, end in self._rounds if until_ms <= now_ms]
        end = max([last_offset + 1, *due]) if drops_markers else last_offset + 1
        if end > self.dropped_end:
            self._store_dropped(end)
        if drops_markers:
            # What they say is said.
            self._rounds = [each for each in self._rounds if each[0] > now_ms]

    def begin_copy(self, clean_end: int, start: int) -> None:
        """Begin an empty log from ``start`` on as a copy of one that is clean below ``clean_end``. Durable."""
        end = clean_end if clean_end > start else 0
        if end != self.dropped_end and max(end, self.dropped_end) > start:
            self._store_dropped(end)

    def end_copy(self, end: int) -> None:
        """Record durably that what follows at the log end may come from a log that is less clean."""
        if self.dropped_end > end:
            self._store_dropped(end)

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
