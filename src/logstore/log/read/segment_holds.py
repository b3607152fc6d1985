"""Segment holds: segments that a scan can still read after they are deleted or compacted.

A `Hold` is made with its scan and lives as long. The log keeps no hold alive. A task that removes segments calls
`Holds.keep` before it changes anything. The files of held segments get a descriptor that stays open, their indexes
are loaded, and the aborted transactions are noted. It calls `Holds.lose` once the change is visible, for holds
that were made in between. Disk space is freed when the last hold is dropped.

Making, reading by and dropping a hold take no lock, and `Holds.lose` is called under the log's. A compaction calls
`Holds.keep` under it as well, at last. A deletion opens no file under the lock: `Holds.keep_leaving` names its
segments, and a scan that begins meanwhile keeps them itself.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Sequence

from logstore._segment import Segment
from logstore.errors import RecordError, StorageError
from logstore.io._file_region import FileRegion
from logstore.records import AbortedTransaction

_logger = logging.getLogger(__name__)

#: Limit of deleted segments that one hold keeps open, each with a descriptor. A hold of more is lost.
MAX_KEPT = 256

AbortedBetween = Callable[[int, int], list[AbortedTransaction]]


class Hold:
    """The segments that one scan holds. Any thread may read by it."""

    __slots__ = ("__weakref__", "_aborted", "_kept", "cuts", "end", "is_lost", "segments", "start")

    def __init__(self, start: int, end: int, cuts: int) -> None:
        self.start = start
        self.end = end
        self.cuts = cuts  #: the log's count of truncations: after another one nothing is held
        self.segments: tuple[Segment, ...] = ()
        self.is_lost = False
        self._kept: dict[Segment, FileRegion] = {}
        self._aborted: list[AbortedTransaction] | None = None

    @property
    def keeps(self) -> bool:
        """Return whether segments of the range have been removed from the log."""
        return bool(self._kept)

    def aborted_between(self, start: int, end: int, now: AbortedBetween) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch a range, as they were when the range was fixed."""
        # In the other order, the log could forget transactions after `_aborted` was found empty.
        found = now(start, end)
        if self._aborted is not None:
            found = [each for each in self._aborted if each.first_offset < end and each.last_offset >= start]
        return found

    def keep(self, doomed: Iterable[Segment], aborted_between: AbortedBetween) -> None:
        """Keep held segments readable though their files are about to be removed."""
        for segment in self._held_of(doomed):
            if segment in self._kept:
                continue
            if len(self._kept) >= MAX_KEPT:
                break
            try:
                if self._aborted is None:
                    self._aborted = aborted_between(self.start, self.end)
                # Load the indexes now: later, the file name may be that of another segment's index.
                segment.index.load()
                self._kept[segment] = FileRegion(segment.file, 0, 0, segment.base_offset, segment.base_offset)
            except (StorageError, RecordError) as error:
                _logger.warning("a scan cannot hold a deleted segment: segment=%s error=%s", segment.path, error)

    def lose(self, doomed: Iterable[Segment]) -> None:
        """Mark the hold as lost if a removed segment was not kept."""
        if any(segment not in self._kept for segment in self._held_of(doomed)):
            self.is_lost = True

    def _held_of(self, doomed: Iterable[Segment]) -> list[Segment]:
        return [segment for segment in doomed if segment in self.segments and segment.base_offset < self.end]


class Holds:
    """The holds of the scans of one log that are not dropped yet."""

    def __init__(self) -> None:
        # No WeakSet: iterating over one fails if another thread adds to it.
        self._all: weakref.WeakKeyDictionary[Hold, None] = weakref.WeakKeyDictionary()
        self._leaving: Sequence[Segment] = ()  # segments that a deletion is about to remove

    def take(
        self,
        start: int,
        end: int,
        cuts: int,
        segments_now: Callable[[], tuple[Segment, ...]],
        aborted_between: AbortedBetween,
    ) -> Hold:
        """Hold the segments of a range as they are now."""
        while True:
            hold = Hold(start, end, cuts)
            self._all[hold] = None
            while hold.segments is not (segments := segments_now()):
                # Read again: a task that removes segments has either seen this hold, or its change is seen here.
                hold.segments = segments
            # A deletion may have looked for holds before this one was there.
            hold.keep(self._leaving, aborted_between)
            if not hold.is_lost:
                return hold
            # The segments were removed before they were kept: their successors are held.

    def keep_leaving(self, doomed: Sequence[Segment], aborted_between: AbortedBetween) -> None:
        """Call `keep`, and have each hold that is made before `lose` keep these segments itself."""
        # In this order: a hold that is not found by `keep` finds what is leaving.
        self._leaving = doomed
        self.keep(doomed, aborted_between)

    def keep(self, doomed: Sequence[Segment], aborted_between: AbortedBetween) -> None:
        """Call `Hold.keep` of every hold, before segments are removed from the log."""
        for hold in self._living():
            hold.keep(doomed, aborted_between)

    def lose(self, doomed: Sequence[Segment]) -> None:
        """Call `Hold.lose` of every hold, once segments are removed from the log, before their files are closed."""
        for hold in self._living():
            hold.lose(doomed)
        self._leaving = ()

    def _living(self) -> list[Hold]:
        return [hold for each in self._all.keyrefs() if (hold := each()) is not None]
