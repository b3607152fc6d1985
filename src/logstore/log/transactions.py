"""Producers and transactions of one log: producer state with its snapshots, and the aborted index.

`Transactions` keeps four things consistent with the log's batches: `Producers`, the aborted index (``.txnindex``)
of each segment, the note, and the snapshots at segment boundaries. The note is the file ``logstore.aborted`` with
the checksums of these indexes. Changes are made under the log's lock; readers may call `aborted_between` at any
time.

An append only writes: an entry goes to the index of the active segment, if that is open, and to the head of the
note. Where a file has to be made, opened or replaced, the entry is kept in memory alone. `save` writes it later,
without the log's lock. Until then readers in other processes are shown no record from the first one of such a
transaction on (`listed_end`), and no recovery point rises over its marker.

Locks of `save`, in the order in which they are acquired: `_turn`, the log's lock, `_writing`. It holds `_writing`
for its file operations and waits for no lock meanwhile. So a change under the log's lock can wait for them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from logstore.config.log import LogConfig
from logstore.errors import OUT_OF_RESOURCES, RecordError, StorageError, TooManyFilesError
from logstore.io._files import File
from logstore.io._interrupts import held
from logstore.log._producers import ProducedBatch, Producers, ProducersOfLog
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Segments
from logstore.log.formats import aborted_files, producer_snapshot, transaction_index
from logstore.log.formats.aborted_files import AbortedFiles, AbortedIndex, WrittenFiles
from logstore.log.formats.transaction_index import ENTRY_BYTES, NOTHING, Note, Sum
from logstore.log.marks._watermark import LogLock
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
        self._index_entries = 0  # how many entries that file has
        # As counts, as in `Unsynced`: with a flag, a change during the sync would be taken for synced.
        self._name_changes = self._synced_name_changes = 0
        self._gaps = self._closed_gaps = 0  # as counts likewise, see `falls_behind`
        self._sealed_indexes: list[File] = []  # of segments that rolls have sealed, to be synced
        self._unused: list[File] = []  # to be closed once no `save` writes to them
        # Segments whose index file lacks entries of their list: the file has to be written again.
        self.unsaved: set[int] = set()
        # Segments whose index file lacks the last entries of their list, or is not there yet.
        self._behind: set[int] = set()
        self._turn = threading.Lock()  # held by one `save` at a time
        self._writing = threading.Lock()  # held by it for its file operations
        self._version = 0  # of the files; a change under the log's lock makes what `save` writes void
        # Segments replaced by the last compaction; their lists are kept for readers that hold the old ones.
        self._superseded: set[int] = set()
        # The entries in the files of compacted segments; the lists above may hold more.
        self._listed: dict[int, list[AbortedTransaction]] = {}
        self.has_producers = not self.is_idle
        self.last_expiry_ms = now_ms
        self.listed_end = INT64_MAX

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
        """Return whether the files of the aborted indexes are complete."""
        return not self.unsaved and not self._behind

    @property
    def is_on_disk(self) -> bool:
        """Return whether what was aborted below the synced end is on disk; else no recovery point may rise."""
        return self.is_saved and self._gaps == self._closed_gaps

    def falls_behind(self) -> None:
        """Record that the synced end may pass a marker whose index could not be written; `sync_files` ends that."""
        self._gaps += 1

    @property
    def must_save(self) -> bool:
        """Return whether `save` has something to do."""
        return self._note_behind or not self.is_saved

    @property
    def is_synced(self) -> bool:
        """Return whether `save` and `sync_files` would have nothing to do."""
        if self.must_save or not self.is_on_disk:
            return False
        if self._name_changes != self._synced_name_changes or self._sealed_indexes:
            return False
        return self._index_file is None or not (self._index_file.dirty or self._index_file.sync_failed)

    # -- appending

    def check(self, batch: ProducedBatch, origin: Origin) -> AppendResult | None:
        """Return None for a new batch, the first result for a duplicate; raise as `Producers.check`."""
        return self.producers.check(batch, origin)

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
        """List an aborted transaction whose marker is in the active segment; then look at `must_save`."""
        base = self._segments.active.base_offset
        entries = self._aborted[base]  # loaded at opening: no file is read under the lock
        entries.append(entry)
        if self.sums is None:
            self.sums = {}
        self.sums[base] = self.sums.get(base, NOTHING).plus(transaction_index.encode([entry]))
        if not self._put_entry(base, entries):
            # Readers in this process use the list. Others must not pass a transaction that they do not find.
            self.listed_end = min(self.listed_end, entry.first_offset)
            self._note_behind = True
        elif self._note_base != base or self._note_behind or not self._put_head():
            self._note_behind = True

    def _put_entry(self, base: int, entries: list[AbortedTransaction]) -> bool:
        """Write the newest entry to the index of the active segment, if that needs no other file operation."""
        file = self._index_file
        if base in self.unsaved or base in self._behind:
            return False
        if file is None or not file.is_at_hand():
            self._behind.add(base)
            return False
        try:
            file.write(transaction_index.encode(entries[-1:]), (len(entries) - 1) * ENTRY_BYTES)
        except StorageError:
            self.unsaved.add(base)
            return False
        self._index_entries = len(entries)
        return True

    def _put_head(self) -> bool:
        """Write the head of the note, in the same way.

        It is written after the index: of the active segment, an index may have more entries than the note counts.
        """
        file, sums = self._note_file, self.sums
        if file is None or sums is None or not file.is_at_hand():
            return False
        base = self._note_base
        others = sum(1 for other, known in sums.items() if other != base and known.entries)
        try:
            file.write(transaction_index.encode_head(base, sums.get(base, NOTHING), others), 0)
        except StorageError:
            return False
        return True

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
                    self.listed_end = min([self.listed_end, *(entry.first_offset for entry in entries)])
            elif entries:
                self.sums = {**(self.sums or {}), base: NOTHING.plus(data)}
        # Loaded now, so that no append under the log's lock reads a file.
        active = self._segments.active.base_offset
        if active in found or (note.sums is not None and active in note.sums) or note.is_lost:
            self._entries(active)
        self._aborted.setdefault(active, [])
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
        self._has_saved({base_offset})

    def _has_saved(self, bases: Collection[int]) -> None:
        """Record that the indexes of segments are in their files, or are not wanted any more."""
        self.unsaved.difference_update(bases)
        self._behind.difference_update(bases)
        if self.is_saved:
            self.listed_end = INT64_MAX

    def _note_sum(self, base_offset: int, known: Sum) -> None:
        if self.sums is not None:
            self.sums.pop(base_offset, None)
        if known.entries:
            self.sums = {**(self.sums or {}), base_offset: known}

    def _save_note(self) -> None:
        """Write the note: the sums of all indexes, beginning with that of the active segment."""
        self._close_note()
        if self.sums is None:
            return
        self._note_behind = True
        base, sums = self._segments.active.base_offset, self._sums_now()
        self._install_note(aborted_files.write_note(self._directory, base, sums), base, sums)

    def _sums_now(self) -> dict[int, Sum]:
        """Return the sums of the segments that are there."""
        there = {segment.base_offset for segment in self._segments.all}
        self.sums = {base: known for base, known in (self.sums or {}).items() if base in there and known.entries}
        return dict(self.sums)

    def _install_note(self, file: File | None, base: int, sums: Mapping[int, Sum]) -> None:
        """Write on in a note that has these sums, unless other segments have got entries meanwhile."""
        if file is None:
            return
        self._close_note()
        self._name_changes += 1
        others = {other: known for other, known in (self.sums or {}).items() if other != base and known.entries}
        if others != {other: known for other, known in sums.items() if other != base}:
            file.close()
            return
        self._note_file, self._note_base = file, base
        self._note_behind = self.sums is not None and self.sums.get(base, NOTHING) != sums.get(base, NOTHING)
        if self._note_behind and self._put_head():
            self._note_behind = False

    # -- files, written without the log's lock

    def save(self, lock: LogLock, settle_locked: Callable[[], bool]) -> None:
        """Write what the indexes and the note lack, without the log's lock, which the caller must not hold.

        ``settle_locked`` is called under the lock, before the files are looked at and after they were written: it
        returns whether the log is still open.

        Raises:
            DiskFullError, TooManyFilesError: there is no space for the index, or no free descriptor; retry later.
            StorageError: the index could not be written.
        """
        with held(self._turn):
            is_noted = True
            while is_noted:
                with held(lock):
                    saving = self._to_save() if settle_locked() else None
                if saving is None:
                    return
                with held(self._writing):
                    if saving.version != self._version:
                        continue
                    saved = aborted_files.write(self._directory, saving)
                with held(lock):
                    if saving.version != self._version:
                        saved.close()
                        continue
                    self._hand_over(saving, saved)
                    settle_locked()
                # A note that cannot be written is written by a later call: nothing waits for it. A broken index is
                # replaced by the next turn, or its error raised.
                is_noted = bool(saved.broken) or saving.sums is None or saved.note is not None

    def _to_save(self) -> AbortedFiles | None:
        """Return what `save` has to write now, None if nothing."""
        for unused in self._unused:
            if unused.sync_failed:
                self._sealed_indexes.append(unused)  # its next sync says so
            else:
                unused.close()
        self._unused = []
        if not self.must_save:
            return None
        active = self._segments.active.base_offset
        indexes = []
        for base in sorted(self.unsaved | self._behind):
            file = self._index_file if base == active and base not in self.unsaved else None
            written = 0 if file is None else self._index_entries
            indexes.append(AbortedIndex(base, tuple(self._aborted[base]), file, written, base in self.unsaved))
        sums = self._sums_now() if self._note_behind and self.sums is not None else None
        if sums is None:
            self._note_behind = False
            if not indexes:
                return None
        return AbortedFiles(self._version, tuple(indexes), active, sums)

    def _hand_over(self, saving: AbortedFiles, saved: WrittenFiles) -> None:
        """Write on in the files that were written, and in the same moment what has come since."""
        for index in saving.indexes:
            base, file = index.base_offset, saved.indexes.get(index.base_offset)
            if base in saved.broken:
                # Replaced by the next turn; an append writes nothing to it meanwhile.
                self.unsaved.add(base)
                continue
            rest = self._aborted[base][len(index.entries) :]
            self._name_changes += 1
            is_active = base == self._segments.active.base_offset
            if is_active and file is not self._index_file:
                self._close_index()
                self._index_file = file
            if is_active:
                self._index_entries = len(index.entries)
            is_whole = not rest or self._put_rest(base, file, rest, len(index.entries))
            # After that: a sync without the lock closes it, and must find in it whatever is written here.
            if not is_active and file is not None and file not in self._sealed_indexes:
                self._sealed_indexes.append(file)
            if is_whole:
                self.unsaved.discard(base)
                self._behind.discard(base)
        if saving.sums is not None:
            self._install_note(saved.note, saving.active, saving.sums)
        saved.close_unused()
        if self.is_saved:
            self.listed_end = INT64_MAX

    def _put_rest(self, base: int, file: File | None, rest: list[AbortedTransaction], written: int) -> bool:
        """Write entries that an append has listed while the others were written; return whether they are there."""
        try:
            if file is None or not file.is_at_hand():
                self._behind.add(base)
                self.unsaved.discard(base)
                return False
            file.write(transaction_index.encode(rest), written * ENTRY_BYTES)
        except StorageError:
            self.unsaved.add(base)
            return False
        if base == self._segments.active.base_offset:
            self._index_entries = written + len(rest)
        return True

    def halt(self) -> None:
        """Make void what `save` writes, and wait for its file operation; under the log's lock, before a change."""
        self._version += 1
        with held(self._writing):
            pass

    def sync_files(self) -> None:
        """Sync the indexes and the names of new ones. Called with or without the log's lock, after `save`."""
        # First: what is written after this may not be synced below.
        gaps = self._gaps
        if not self.is_saved:
            gaps = self._closed_gaps
        # Before the sealed ones: a roll may seal it in between.
        active = self._index_file
        self.sync_sealed()
        if active is not None and not (active.closed and not active.sync_failed):
            try:
                active.sync()
            except StorageError:
                if not active.closed or active.sync_failed:
                    raise
                # Replaced meanwhile, durably, by `save`.
        changed = self._name_changes
        if changed > self._synced_name_changes:
            self._directory.sync()
            self._synced_name_changes = max(self._synced_name_changes, changed)
        self._closed_gaps = max(self._closed_gaps, gaps)

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

    def begin_segment(self, sealed: int, base_offset: int, generation: int) -> dict[str, bytes]:
        """Record that the segment at ``sealed`` is, and one at ``base_offset`` follows, without a file operation.

        Returns the snapshots of the state at that offset, by name, for the caller to write; see `rolled`. The
        index of the sealed segment is synced by `sync_sealed`, or by the next `sync`. The next entry writes the
        note as a whole.
        """
        if self._index_file is not None:
            # One that lacks entries is opened again by `save`, which may be writing to it now.
            if sealed in self.unsaved or sealed in self._behind:
                self._unused.append(self._index_file)
                self._version += 1
            else:
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
        """Make the aborted indexes durable, and retry failed index and note writes; under the log's lock.

        Raises:
            DiskFullError, TooManyFilesError: there is no space for the index, or no free descriptor; retry later.
            StorageFailedError: the sync failed.
        """
        if self.must_save:
            self.halt()
            while (saving := self._to_save()) is not None:
                saved = aborted_files.write(self._directory, saving)
                self._hand_over(saving, saved)
                if saving.sums is not None and saved.note is None and not saved.broken:
                    break
        self.sync_files()

    def truncated(self, offset: int, producers: Producers, generation: int) -> None:
        """Use the replayed state after a truncation to an offset; forget aborted transactions above it."""
        self.halt()
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
        self._has_saved([base for base in self.unsaved | self._behind if base not in self._aborted])
        self._save_note()

    def has_new_active(self) -> None:
        """Record that a truncation has made another segment the active one, of a log in which nothing was aborted.

        Without an entry for it, `note_aborted` would have to read its index.
        """
        self._aborted.setdefault(self._segments.active.base_offset, [])

    def restarted(self, base_offsets: list[int], producers: Producers, offset: int, generation: int) -> None:
        """Forget every producer and transaction: the log begins again with an empty segment at an offset."""
        self.dropped(base_offsets)
        self.truncated(offset, producers, generation)

    def segments_replaced(self, base_offsets: list[int], listed: list[AbortedTransaction]) -> None:
        """Record that a compaction replaces these segments by one, which begins at the first of them.

        ``listed`` are the entries of the new segment's index file. Readers may still have bytes of the old
        segments. So until the next compaction, the list in memory has all aborted transactions of these.
        """
        self._stop_saving(base_offsets)
        for base in self._superseded.difference(base_offsets):
            self._aborted.pop(base, None)
        held = [self._listed.pop(base) if base in self._listed else self._entries(base) for base in base_offsets]
        self._aborted[base_offsets[0]] = [entry for entries in held for entry in entries]
        self._listed[base_offsets[0]] = listed
        # A reader that holds the old tuple of segments also asks for the segments after the first.
        self._superseded = set(base_offsets[1:])
        self._has_saved(base_offsets)
        if self.sums is not None:
            for base in base_offsets:
                self.sums.pop(base, None)
            self._note_sum(base_offsets[0], NOTHING.plus(transaction_index.encode(listed)))
            # The caller writes it, without the lock, before it changes a name.
            self._note_behind = True

    def dropped(self, base_offsets: list[int]) -> File | None:
        """Forget removed segments; return a file that is not used any more, for the caller to close."""
        unused = None
        self._stop_saving(base_offsets)
        self._has_saved(base_offsets)
        for base in base_offsets:
            self._aborted.pop(base, None)
            self._listed.pop(base, None)
            if self.sums is not None and self.sums.pop(base, None) is not None:
                # The next entry writes the whole note: a new head would count fewer segments than the note has.
                self._note_base = -1
                unused, self._note_file = self._note_file or unused, None
        return unused

    def _stop_saving(self, base_offsets: Collection[int]) -> None:
        """Keep `save` away from the indexes of segments that are about to be removed; see `halt`."""
        self._version += 1
        if not (self.unsaved | self._behind).isdisjoint(base_offsets):
            self.halt()

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
        """Close every file; what `save` writes is done before, so that the next opener does not meet it."""
        self.halt()
        for file in (*self._sealed_indexes, *self._unused):
            file.close()
        self._close_index()
        self._close_note()
