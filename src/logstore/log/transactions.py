"""Producers and transactions of one log: producer state with its snapshots, and the aborted index.

`Transactions` keeps four things consistent with the log's batches: `Producers`, the aborted index (``.txnindex``)
of each segment, the note, and the snapshots at segment boundaries. The note is the file ``logstore.aborted`` with
the checksums of these indexes. Changes are made under the log's lock; readers may call `aborted_between` at any
time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from itertools import chain

from logstore.config.log import LogConfig
from logstore.errors import OUT_OF_RESOURCES, RecordError, StorageError, TooManyFilesError
from logstore.io._files import File
from logstore.log._producers import ProducedBatch, Producers, ProducersOfLog
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.formats import producer_snapshot, transaction_index
from logstore.log.formats.transaction_index import NOTHING, Note, Sum
from logstore.log.recovery import recovery
from logstore.records import INT64_MAX, AbortedTransaction, AppendResult, Origin

_logger = logging.getLogger(__name__)

#: Interval of the search for expired producers: Kafka's producer.id.expiration.check.interval.ms.
EXPIRY_PERIOD_MS = 600_000


class Transactions(ProducersOfLog):
    """Producer state and aborted transactions of one log."""

    def __init__(
        self, directory: Directory, segments: Segments, config: LogConfig, producers: Producers, now_ms: int
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._config = config
        self.producers = producers
        #: The sum of each segment's index, as in `logstore.aborted`, by base offset; None if nothing was aborted.
        self.sums: dict[int, Sum] | None = None
        self._note_file: File | None = None
        self._note_base = -1  # base offset of the segment in the head of the note
        self._note_behind = False  # whether the note could not be written and is out of date
        # Aborted transactions by the base offset of the segment. The lists only grow; a truncation replaces them.
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        self._index_file: File | None = None
        self._index_name_dirty = False
        self._sealed_indexes: list[File] = []  # of segments that rolls have sealed, to be synced
        # Segments whose index file lacks entries of their list: the file has to be written again.
        self.unsaved: set[int] = set()
        # Segments replaced by the last compaction; their lists are kept for readers that hold the old ones.
        self._superseded: set[int] = set()
        # The entries in the files of compacted segments; the lists above may hold more.
        self._listed: dict[int, list[AbortedTransaction]] = {}
        self.has_producers = not self.is_idle
        self.last_expiry_ms = now_ms

    def reconfigure(self, config: LogConfig) -> None:
        """Apply new settings."""
        self._config = config
        self.producers.expire_after(config.producer_id_expiration_ms)

    @property
    def is_idle(self) -> bool:
        """Return whether no producer has any state, so that recovery may replay from the end of the log."""
        return len(self.producers) == 0 and not self.producers.completed

    @property
    def is_saved(self) -> bool:
        """Return whether the files of the aborted indexes are complete; until then no recovery point may rise."""
        return not self.unsaved

    @property
    def is_synced(self) -> bool:
        """Return whether `sync` would have nothing to do."""
        if self.unsaved or self._note_behind or self._index_name_dirty or self._sealed_indexes:
            return False
        return self._index_file is None or not (self._index_file.dirty or self._index_file.sync_failed)

    # -- appending

    def check(self, batch: ProducedBatch, origin: Origin) -> AppendResult | None:
        """Return None for a new batch, the first result for a duplicate; raise as `Producers.check`."""
        known = self.producers.check(batch, origin)
        if known is None and batch.marker is not None:
            self.load_active()
        return known

    def load_active(self) -> None:
        """Load the entries of the active segment, before a marker is written: an index file may fail to open."""
        self._entries(self._segments.active.base_offset)

    def changing(self) -> Producers:
        """Return the producer state for a caller that records batches in it."""
        self.has_producers = True
        return self.producers

    def apply(self, batch: ProducedBatch, now_ms: int) -> AbortedTransaction | None:
        """Record a batch of the log; return the transaction that it aborts, if any.

        The caller passes the returned entry to `note_aborted` once the marker is in a segment.
        """
        producers = self.changing()
        return producers.abort_entry(producers.apply(batch, now_ms))

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """List an aborted transaction whose marker is in the active segment."""
        base = self._segments.active.base_offset
        entries = self._entries(base)
        entries.append(entry)
        if self.sums is None:
            self.sums = {}
        self.sums[base] = self.sums.get(base, NOTHING).plus(transaction_index.encode([entry]))
        if base in self.unsaved:
            return
        # Readers in this process use the list. If the file cannot be written, the next sync replaces it.
        try:
            if self._index_file is None:
                name = files.segment_file(base, files.ABORTED_INDEX)
                self._index_file = self._directory.open(name, create=True, writable=True)
                self._index_name_dirty = True
            data = transaction_index.encode([entry])
            self._index_file.write(data, (len(entries) - 1) * len(data))
        except StorageError:
            self.unsaved.add(base)
        if self._note_base != base:
            self._save_note()
        elif self._note_file is not None:
            # The note is written after the index: of the active segment, an index may have more entries than it.
            try:
                others = sum(1 for other, known in self.sums.items() if other != base and known.entries)
                self._note_file.write(transaction_index.encode_head(base, self.sums[base], others), 0)
            except StorageError:
                self._note_behind = True

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset: the first offset of an undecided transaction, or the high watermark."""
        if not self.has_producers:
            return high_watermark
        first_unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if first_unstable is None else min(first_unstable, high_watermark)

    def expire(self, now_ms: int) -> int:
        """Expire idle producers (``producer.id.expiration.ms``) every `EXPIRY_PERIOD_MS`; return their count."""
        if abs(now_ms - self.last_expiry_ms) < EXPIRY_PERIOD_MS:
            return 0
        self.last_expiry_ms = now_ms
        expired = self.producers.expire(now_ms)
        if expired:
            _logger.info("expired producers: log=%s count=%d", self._directory.path, len(expired))
        return len(expired)

    # -- reading

    def aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch ``[start_offset, end_offset)``.

        A transaction is listed in the segment of its marker, so later segments are read until the
        result is known to be complete.
        """
        # Known producers are not enough: they expire, but their aborted transactions stay in the log.
        if not self.has_producers and self.sums is None and not self._aborted:
            return []
        segments = self._segments.from_offset(start_offset)
        # Lazily: `collect` stops where no later entry can touch the range.
        entries = chain.from_iterable(self._entries(segment.base_offset) for segment in segments)
        return transaction_index.collect(entries, start_offset, end_offset).transactions

    def _entries(self, base_offset: int) -> list[AbortedTransaction]:
        entries = self._aborted.get(base_offset)
        if entries is None:
            entries = []
            for segment in self._segments.all:
                if segment.base_offset == base_offset:
                    entries = recovery.load_aborted(self._segments, segment, self._config, Note(self.sums))
            entries = self._aborted.setdefault(base_offset, entries)
        return entries

    # -- opening, rolling, truncating, compacting

    def settle(self, note: Note, rebuild_from: int | None, names: Sequence[str]) -> None:
        """Check the aborted index of each segment at opening; rebuild doubtful ones from the markers in the log.

        After an unclean stop, the indexes of the segments from the offset ``rebuild_from`` on are always rebuilt.
        ``names`` are the files in the directory.
        """
        found = set(files.base_offsets(names, files.ABORTED_INDEX))
        doubtful = INT64_MAX
        if rebuild_from is not None and (not self.is_idle or note.sums is not None or note.is_lost or found):
            doubtful = self._segments.from_offset(rebuild_from)[0].base_offset
        self.sums = None if note.sums is None else dict(note.sums)
        for segment in self._segments.all:
            base = segment.base_offset
            is_named = base in found or (note.sums is not None and base in note.sums)
            if base < doubtful and not note.is_lost and not is_named:
                continue
            data = self._directory.read(files.segment_file(base, files.ABORTED_INDEX)) or b""
            entries = transaction_index.decode(data, base, segment.next_offset)
            if base >= doubtful or entries is None or not note.agrees(base, data, is_sealed=True):
                entries = recovery.rebuild_aborted(self._segments, segment, self._config)
                try:
                    self._put(base, entries)
                except OUT_OF_RESOURCES:
                    # The log opens anyway: its segments could not be deleted from a full disk otherwise.
                    self.unsaved.add(base)
            elif entries:
                self.sums = {**(self.sums or {}), base: NOTHING.plus(data)}
        there = {segment.base_offset for segment in self._segments.all}
        # The note may also name a removed segment.
        if self.sums is not None and (self.sums != note.sums or not there.issuperset(self.sums)):
            self._save_note()

    def _put(self, base_offset: int, entries: list[AbortedTransaction]) -> None:
        """Replace the index of a segment durably; an empty or missing file means that nothing was aborted."""
        name = files.segment_file(base_offset, files.ABORTED_INDEX)
        self._aborted[base_offset] = entries
        data = transaction_index.encode(entries)
        self._note_sum(base_offset, NOTHING.plus(data))
        if base_offset == self._segments.active.base_offset:
            self._close_index()
        if entries:
            self._directory.replace(name, data, durable=True)
        else:
            self._directory.remove(name)
        self.unsaved.discard(base_offset)

    def _note_sum(self, base_offset: int, known: Sum) -> None:
        if self.sums is not None:
            self.sums.pop(base_offset, None)
        if known.entries:
            self.sums = {**(self.sums or {}), base_offset: known}

    def _save_note(self) -> None:
        """Write the note: the sums of all indexes, beginning with that of the active segment.

        If the note is lost or out of date, recovery reads the markers of the log, which takes time. So the note is
        written as a whole: after a power cut it is the old or the new one.
        """
        self._close_note()
        if self.sums is None:
            return
        there = {segment.base_offset for segment in self._segments.all}
        self.sums = {base: known for base, known in self.sums.items() if base in there and known.entries}
        base = self._segments.active.base_offset
        self._note_behind = True
        with contextlib.suppress(StorageError):
            self._directory.replace(
                transaction_index.NOTE, transaction_index.encode_note(base, self.sums), durable=False, whole=True
            )
            self._index_name_dirty = True
            self._note_file = self._directory.open(transaction_index.NOTE, writable=True)
            self._note_base = base
            self._note_behind = False

    def listed(self, base_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers are in a segment."""
        return list(self._entries(base_offset)) if self.sums is not None else []

    def rolled(
        self, base_offset: int, generation: int, producers_then: Callable[[], Producers] | None = None
    ) -> None:
        """Save the state at the base offset of a new segment.

        ``producers_then`` computes it if the producers are ahead, as while a memory tail is written.
        """
        # The index of a sealed segment is not synced later, and only an unclean open rebuilds the newest ones.
        # Its bytes were synced before the roll. If no descriptor is free, the next flush syncs its name, or fails.
        # No error may be raised here, since the segments have changed already.
        with contextlib.suppress(TooManyFilesError):
            self.sync()
        self._close_index()
        # The new segment has no aborted transactions and no file: without an entry, `_entries` would read one.
        self._aborted.setdefault(base_offset, [])
        if self.sums is not None and self.sums.get(self._note_base, NOTHING).entries:
            # The note is written as a whole now: the next entry overwrites only its head.
            self._save_note()
        # Without a snapshot at this offset, deletion of the segments below would lose the producer state.
        self.save_snapshot(base_offset, generation, producers_then)

    def begin_segment(self, base_offset: int, generation: int) -> dict[str, bytes]:
        """Record that the last segment was sealed and one at this base offset follows, without a file operation.

        Returns the snapshots of the state at that offset, by name, for the caller to write; see `rolled`. The
        index of the sealed segment is synced by `sync_sealed`, or by the next `sync`. The next entry writes the
        note as a whole.
        """
        if self._index_file is not None:
            self._sealed_indexes.append(self._index_file)
            self._index_file = None
        self._aborted.setdefault(base_offset, [])
        if self.sums is not None and self.sums.get(self._note_base, NOTHING).entries:
            # Its head may be lost in a power cut. Of a sealed segment, the note has to agree with the index: else
            # the markers decide, of which a compaction leaves out some.
            self._note_behind = True
        if not self.has_producers:
            return {}
        try:
            return producer_snapshot.encode_both(self.producers, base_offset, generation)
        except RecordError:
            return {}

    @property
    def is_noted(self) -> bool:
        """Return whether the note is up to date; until `sync` has written it, no recovery point may rise."""
        return not self._note_behind

    def sync_sealed(self) -> None:
        """Sync the aborted indexes of sealed segments. Called with or without the log's lock."""
        for file in tuple(self._sealed_indexes):
            file.sync()
            file.close()
            with contextlib.suppress(ValueError):  # another thread has synced it, too
                self._sealed_indexes.remove(file)

    def save_snapshot(
        self, offset: int, generation: int, producers_then: Callable[[], Producers] | None = None
    ) -> None:
        """Write the producer state at an offset, unless no producer has ever written here; see `rolled`.

        Snapshots only make the next open faster. So an error of the disk is ignored; the next open replays more.
        """
        if self.has_producers:
            with contextlib.suppress(StorageError, RecordError):
                producers = self.producers if producers_then is None else producers_then()
                producer_snapshot.save(self._directory, producers, offset, generation, durable=False)

    def save_own_snapshot(self, offset: int, generation: int) -> None:
        """Write only logstore's snapshot. Kafka's is for the start of a segment or the end of the log."""
        if self.has_producers:
            with contextlib.suppress(StorageError):
                producer_snapshot.save_own(self._directory, self.producers, offset, generation)

    def sync(self) -> None:
        """Make the aborted index of the active segment durable, and retry failed index and note writes.

        Raises:
            DiskFullError, TooManyFilesError: there is no space for the index, or no free descriptor; retry later.
            StorageFailedError: the sync failed.
        """
        self.sync_sealed()
        for base in sorted(self.unsaved):
            self._put(base, self._aborted[base])
        if self._note_behind:
            self._save_note()
        if self._index_file is not None:
            self._index_file.sync()
        if self._index_name_dirty:
            self._directory.sync()
            self._index_name_dirty = False

    def truncated(self, offset: int, producers: Producers, generation: int) -> None:
        """Use the replayed state after a truncation to an offset; forget aborted transactions above it."""
        self._close_index()
        self.producers = producers
        self.has_producers = self.has_producers or not self.is_idle
        producer_snapshot.remove_beyond(self._directory, offset, generation)
        # The lists of the index files are used from now on. A longer list may have a transaction without a marker:
        # the producer's next transaction would then appear aborted.
        self._aborted |= self._listed
        self._listed.clear()
        self._aborted = {base: entries for base, entries in self._aborted.items() if base < offset}
        active = self._segments.active
        entries = self._aborted.get(active.base_offset)
        if entries is None:
            # The index file has entries of truncated offsets, so the markers are read instead.
            entries = recovery.rebuild_aborted(self._segments, active, self._config)
        self._put(active.base_offset, transaction_index.truncate_to(entries, offset))
        self._save_note()

    def restarted(self, base_offsets: list[int], producers: Producers, offset: int, generation: int) -> None:
        """Forget every producer and transaction: the log begins again with an empty segment at an offset."""
        self.dropped(base_offsets)
        self.truncated(offset, producers, generation)

    def segments_replaced(self, base_offsets: list[int], listed: list[AbortedTransaction]) -> None:
        """Record that a compaction replaces these segments by one, which begins at the first of them.

        ``listed`` are the entries of the new segment's index file. Readers may still have bytes of the old
        segments. So until the next compaction, the list in memory has all aborted transactions of these.
        """
        for base in self._superseded.difference(base_offsets):
            self._aborted.pop(base, None)
        held = [self._listed.pop(base) if base in self._listed else self._entries(base) for base in base_offsets]
        self._aborted[base_offsets[0]] = [entry for entries in held for entry in entries]
        self._listed[base_offsets[0]] = listed
        # A reader that holds the old tuple of segments also asks for the segments after the first.
        self._superseded = set(base_offsets[1:])
        self.unsaved.difference_update(base_offsets)
        if self.sums is not None:
            for base in base_offsets:
                self.sums.pop(base, None)
            self._note_sum(base_offsets[0], NOTHING.plus(transaction_index.encode(listed)))
            self._save_note()

    def dropped(self, base_offsets: list[int]) -> File | None:
        """Forget removed segments; return a file that is not used any more, for the caller to close."""
        unused = None
        for base in base_offsets:
            self._aborted.pop(base, None)
            self._listed.pop(base, None)
            self.unsaved.discard(base)
            if self.sums is not None and self.sums.pop(base, None) is not None:
                # The next entry writes the whole note: a new head would count fewer segments than the note has.
                self._note_base = -1
                unused, self._note_file = self._note_file or unused, None
        return unused

    def _close_index(self) -> None:
        if self._index_file is not None:
            self._index_file.close()
            self._index_file = None

    def _close_note(self) -> None:
        self._note_base = -1
        if self._note_file is not None:
            self._note_file.close()
            self._note_file = None

    def close(self) -> None:
        for file in self._sealed_indexes:
            file.close()
        self._close_index()
        self._close_note()
