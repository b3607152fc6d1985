# cython: language_level=3
"""Index of a segment file: where its batches end, and where each one is, by offset or time.

This module loads, checks, builds and uses the entries of both index files. An entry is only a hint. The batch at
its position must have the entry's last offset; otherwise the index is rebuilt from the batch headers.
`_segment_scan` and `_segment`, which build on this module, read the contents of batches.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, uint32_t

from logstore.batch._batch cimport (
    BAD_CRC,
    BAD_OFFSET,
    CHECKED_FROM,
    HEADER_BYTES,
    BatchHeader,
    last_offset_of,
    parse_header,
    raise_batch_status,
)
from logstore.batch._bytes cimport OK, load64
from logstore.batch._checked_batches cimport forget, new_owner
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore.io._files cimport OP_PREADV, File, FileOps, raise_status, read_upto
from logstore._index cimport OffsetIndex, TimeIndex

from logstore.errors import CorruptRecordError, RecordError, StorageError

logstore_crc32c_init()


cdef int check_gap(FileOps *ops, int fd, const BatchHeader *header, int64_t expected, int64_t position,
                   int64_t bound) noexcept nogil:
    """Return BAD_OFFSET if a batch after a gap overlaps the batch that follows it, else OK.

    The CRC does not cover base offsets. In a log without gaps a changed one makes a gap before its batch and an
    overlap after it. So a reader that finds a gap checks one more batch. If that batch is damaged itself, its base
    offset still counts if it is between ``expected``, the offset before the gap, and the end of the batch after
    the gap. Other damage gives such a number by chance only. If its base offset is too high as well, it overlaps
    the one behind it. Then that one counts: it is where it would be without the gap, or the gap was there before.
    """
    cdef uint8_t window[HEADER_BYTES]
    cdef BatchHeader following
    cdef int64_t at = position + header.size, before = last_offset_of(header), got
    cdef int64_t without_gap = expected + before - header.base_offset + 1  # where the following batch begins then
    cdef bint is_first = True
    while at < bound:
        # A read error here is met again, and reported, by the read that continues there.
        got = read_upto(ops, fd, window, min(<int64_t>HEADER_BYTES, bound - at), at)
        if got < HEADER_BYTES:
            return OK
        if parse_header(window, window + got, &following) != OK:
            return BAD_OFFSET if is_first and expected <= load64(window) <= before else OK
        if following.base_offset == without_gap or (is_first and following.base_offset <= before):
            return BAD_OFFSET
        if not is_first and following.base_offset > before:
            return OK
        is_first = False
        before = last_offset_of(&following)
        without_gap += before - following.base_offset + 1
        at += following.size
    return OK


cdef int check_sum(FileOps *ops, int fd, int64_t position, int64_t bound) noexcept nogil:
    """Return OK if the batch at position is whole; the caller meets a read error when it reads on.

    The CRC does not cover the length, but does not match the bytes of a wrong length. A batch that has grown over
    the next one makes a gap after it.
    """
    cdef uint8_t chunk[4096]
    cdef BatchHeader header
    cdef uint32_t crc
    cdef int64_t done, got = read_upto(ops, fd, chunk, min(<int64_t>sizeof(chunk), bound - position), position)
    if got < HEADER_BYTES or parse_header(chunk, chunk + got, &header) != OK:
        return OK
    done = min(got, <int64_t>header.size)
    crc = logstore_crc32c(0, chunk + CHECKED_FROM, <size_t>(done - CHECKED_FROM))
    while done < header.size:
        got = read_upto(ops, fd, chunk, min(<int64_t>sizeof(chunk), header.size - done), position + done)
        if got <= 0:
            return OK if got < 0 else BAD_CRC
        crc = logstore_crc32c(crc, chunk, <size_t>got)
        done += got
    return OK if crc == header.crc else BAD_CRC


cdef class SegmentIndex:
    """End, index entries and times of the batches in one segment file.

    A part of its `Segment`. Owns: the end of the file as readers may see it, and the entries of both indexes. The
    index files belong to `log.directory.segments`. Only methods of this class set its fields.
    """

    def __cinit__(self, File file not None, int64_t base_offset, *, int32_t index_interval_bytes=4096,
                  int64_t size=0, int64_t next_offset=-1, bint sealed=False):
        # next_offset -1: unknown, as in a reader beside the writer's process.
        self.file = file
        self.base_offset = base_offset
        self.size = size
        self.next_offset = next_offset
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp_ms = -1
        self.sealed = sealed
        self._interval = index_interval_bytes
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        # A new segment has no indexes to load; one found on disk loads them at the first search.
        self._ready = size == 0
        self.owner = new_owner()

    cdef int _note(self, const BatchHeader *header, int64_t position) except -1:
        """Index one batch at position; only this method decides which batches get an entry."""
        cdef int64_t last = last_offset_of(header)
        if self.first_timestamp_ms < 0:
            self.first_timestamp_ms = header.max_timestamp
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = last
        if self._unindexed > self._interval:
            self.offsets.add(<int32_t>(last - self.base_offset), <int32_t>position)
            self.times.add(self.max_timestamp_ms, <int32_t>(self.max_timestamp_offset - self.base_offset))
            self._unindexed = 0
        self._unindexed += header.size
        return 0

    cdef int _publish(self, int64_t position, int64_t next_offset) except -1:
        """Set the end, after the bytes below it and their entries: a reader that sees it must find them."""
        self.next_offset = next_offset
        self.size = position
        return 0

    cdef int _begin(self, int64_t position, int64_t next_offset) except -1:
        """Forget the batches from a position on; a scan follows, which notes them again."""
        self.owner = new_owner()
        if position == 0:
            self.offsets = OffsetIndex()
            self.times = TimeIndex()
            self.max_timestamp_ms = -1
            self.max_timestamp_offset = self.base_offset
            self.first_timestamp_ms = -1
            self._unindexed = 0
            self._ready = True
            return 0
        self.size = position
        self.next_offset = next_offset
        self._load_indexes()
        self._measure_times()
        return 0

    cdef int _cut(self, int64_t position, int64_t next_offset) except -1:
        """Lower the end and drop the entries beyond it, before the bytes go; `_measure_times` must follow."""
        self._load_indexes()
        self._publish(position, next_offset)
        forget(self.owner)
        self.owner = new_owner()
        self.offsets.cut_to(position)
        self.times.cut_to(next_offset - self.base_offset)
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = self.base_offset
        if position == 0:
            # The age of the segment counts from its next batch.
            self.first_timestamp_ms = -1
        return 0

    def seal(self):
        """Add the final entry of the time index; no batch may follow."""
        self._load_indexes()
        if self.size:
            self.times.add(self.max_timestamp_ms, <int32_t>(self.max_timestamp_offset - self.base_offset))
        self.sealed = True

    def set_end(self, int64_t next_offset):
        """Set the end offset of a sealed segment; its last batch may end before it."""
        self.next_offset = next_offset
        self.joined = False

    def _measure_times(self):
        """Find the largest timestamp and the bytes since the last index entry, from the tail of the log.

        The last entry of the time index holds the largest timestamp up to the batch that it names. It does not
        cover later batches: the file may have lost entries, or hold a wrong one. Several threads may run this
        concurrently: the results are set together, at the end.
        """
        cdef uint8_t span[HEADER_BYTES]
        cdef Window window = window_over(span, HEADER_BYTES)
        cdef TimeIndex times = self.times
        cdef int64_t position = 0, bound = self.size, last, named
        if times.count:
            last = self.base_offset + times.offset_at(times.count - 1)
            named = times.timestamp_at(times.count - 1)
            position = self._find(last, bound, &window)
            if position < 0 or last_offset_of(&window.header) != last or window.header.max_timestamp != named:
                self._rebuild()
                return
        elif self.offsets.count:
            self._rebuild()
            return
        self.first_timestamp()
        self._hop(position, bound)
        self._unindexed = bound - (self.offsets.position_at(self.offsets.count - 1) if self.offsets.count else 0)

    cdef int _hop(self, int64_t position, int64_t bound) except -1:
        """Find the largest timestamp in the headers between a position and the end."""
        cdef uint8_t span[HEADER_BYTES]
        cdef Window window = window_over(span, HEADER_BYTES)
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t largest = -1, offset = self.base_offset
        cdef int status = OK, fd = self.file.acquire()
        with nogil:
            while position < bound:
                status = header_at(ops, fd, position, INT64_MAX, &window)
                if status != OK:
                    break
                if window.header.max_timestamp > largest:
                    largest = window.header.max_timestamp
                    offset = last_offset_of(&window.header)
                position += window.header.size
        self.file.release()
        self._raise_at(status, &window, position)
        # An append may have set a larger one meanwhile.
        if largest > self.max_timestamp_ms:
            self.max_timestamp_ms = largest
            self.max_timestamp_offset = offset
        return 0

    cdef int _raise_at(self, int status, const Window *window, int64_t position) except -1:
        """Raise the error of a read into the window that failed, or of a status for the batch at position."""
        raise_status(window.size, "read", self.file.path, position)
        return raise_batch_status(status, bytes_at(window, position), window.data + window.size, self.file.path,
                                  position)

    # -- indexes ---------------------------------------------------------------------------------

    @property
    def path(self):
        """Path of the file, also after it was renamed."""
        return self.file.path

    def replace(self, OffsetIndex offsets, TimeIndex times):
        """Use index entries that were read from their files; unsound ones are rebuilt from the log."""
        # Entries beyond the known end are no damage: their batches were truncated or not checked yet.
        offsets.cut_to(self.size)
        if self.next_offset >= 0:
            times.cut_to(self.next_offset - self.base_offset)
        self.offsets = offsets
        self.times = times
        self._ready = True
        if not offsets.is_sound(self.size) or not times.is_sound() or (
                offsets.count == 0 and self.size > 2 * <int64_t>self._interval + WINDOW_BYTES):
            self._rebuild_hint()

    def load(self):
        """Load or rebuild the indexes, if they are not loaded."""
        self._load_indexes()

    cdef int _load_indexes(self) except -1:
        cdef OffsetIndex offsets
        cdef TimeIndex times
        if self._ready:
            return 0
        offsets = OffsetIndex()
        times = TimeIndex()
        try:
            self._load_one(offsets, ".index")
            # An active segment that is too small for an entry has no time index after a clean close.
            if self.sealed or offsets.count:
                self._load_one(times, ".timeindex")
        except StorageError:
            # A missing or unreadable index is only a missing hint.
            self._rebuild_hint()
            return 0
        self.replace(offsets, times)
        return 0

    cdef int _load_saved(self, int64_t end_offset) except -1:
        """Begin at the last batch that the saved index names below an offset; wrong entries are not used."""
        cdef int64_t entry, position, file_bytes = self.file.size()
        cdef OffsetIndex offsets = OffsetIndex()
        cdef TimeIndex times = TimeIndex()
        self.size = 0
        self.next_offset = self.base_offset
        self._ready = True
        try:
            self._load_one(offsets, ".index")
            self._load_one(times, ".timeindex")
        except StorageError:
            return 0
        if not offsets.is_sound(file_bytes) or not times.is_sound():
            return 0
        entry = offsets.floor_entry(end_offset - 1 - self.base_offset)
        if entry < 0:
            return 0
        position = offsets.position_at(entry)
        named = self.base_offset + offsets.offset_at(entry)
        data = self.file.read(position, HEADER_BYTES)
        try:
            _, last, size, _, _ = header_fields(data, self.file.path, position)
        except RecordError:
            return 0
        if last != named or size > file_bytes - position:
            return 0
        self.offsets, self.times = offsets, times
        self.offsets.cut(entry + 1)
        self.times.cut_to(named + 1 - self.base_offset)
        self.size = position + size
        self.next_offset = named + 1
        try:
            self._measure_times()
        except RecordError:
            # Damage on the way: a read there, or a search by time, raises it. The entries of the file lead
            # past it, so that the rest can be read.
            self.offsets, self.times, self.max_timestamp_ms = offsets, times, -1
        return 0

    def _load_one(self, entries, suffix):
        # A growing file is read, not mapped: reading a map past a truncation would be a bus error.
        file = self.file.files.open(self.file.path[:len(self.file.path) - 4] + suffix)
        try:
            if self.sealed:
                entries.map(file.map())
            else:
                entries.load(file.read(0, file.size()))
        finally:
            file.close()

    def mark_stale(self) -> None:
        """Have both index files written from the entries: what they hold is not known."""
        self.stale = True

    def mark_saved(self) -> None:
        """Record that both index files hold the entries."""
        self.stale = False

    cdef int _raise_not_followed(self, int64_t position) except -1:
        raise CorruptRecordError("the batch is damaged: the next one does not follow it, and its CRC-32C does "
                                 "not fit its bytes", path=self.file.path, position=position)

    cdef int _rebuild(self) except -1:
        """Rebuild the indexes from the batch headers; `stale` marks them for saving.

        They are built aside and set at the end. Otherwise another thread could take partial entries or times for
        complete ones, or an append could add to a half built index.
        """
        cdef int64_t position = 0, seen = self.base_offset - 1
        cdef int64_t before = -1                # position of the batch before
        cdef int64_t bound = self.size, limit = self.next_offset
        cdef int status
        cdef uint8_t span[HEADER_BYTES]
        cdef Window window = window_over(span, HEADER_BYTES)
        cdef const BatchHeader *header = &window.header
        cdef FileOps *ops = &self.file.files.ops
        cdef int fd
        cdef SegmentIndex fresh = SegmentIndex(self.file, self.base_offset, index_interval_bytes=self._interval)
        fd = self.file.acquire()
        try:
            while position < bound:
                with nogil:
                    status = header_at(ops, fd, position, bound, &window)
                    if status == OK:
                        status = check_order(header, seen, limit)
                    if status == OK and header.base_offset > seen + 1:
                        status = check_gap(ops, fd, header, seen + 1, position, bound)
                        if status == OK and before >= 0:
                            status = check_sum(ops, fd, before, bound)
                if status == BAD_CRC:
                    self._raise_not_followed(before)
                self._raise_at(status, &window, position)
                fresh._note(header, position)
                seen = last_offset_of(header)
                before = position
                position += header.size
                if position >= bound and self.size > bound:
                    # Appended meanwhile. No other thread runs between this check and the end of the loop.
                    bound, limit = self.size, self.next_offset
        except BaseException:
            # Batches before the damage stay searchable; the times of a part would be wrong for the whole.
            fresh.max_timestamp_ms = -1
            raise
        finally:
            self.file.release()
            if self.size < position:
                # Truncated meanwhile.
                fresh.offsets.cut_to(self.size)
                fresh.times.cut_to(self.next_offset - self.base_offset)
                fresh.max_timestamp_ms = -1
            elif self.sealed and position and fresh.max_timestamp_ms >= 0:
                fresh.times.add(fresh.max_timestamp_ms, <int32_t>(fresh.max_timestamp_offset - self.base_offset))
            self.offsets = fresh.offsets
            self.times = fresh.times
            self.max_timestamp_ms = fresh.max_timestamp_ms
            self.max_timestamp_offset = fresh.max_timestamp_offset
            self.first_timestamp_ms = fresh.first_timestamp_ms
            self._unindexed = fresh._unindexed
            self._ready = True
            self.stale = True
        return 0

    cdef int _rebuild_hint(self) except -1:
        """Rebuild as `_rebuild` does, up to the first bad header; a reader that reads there gets the error."""
        try:
            self._rebuild()
        except RecordError:
            pass
        return 0

    def rebuild(self):
        """Rebuild both indexes from the batch headers.

        Raises:
            CorruptRecordError: a header is wrong; names file and position.
        """
        self._rebuild()

    def largest_timestamp(self):
        """Return (timestamp, offset) of the newest record by time, or None for an empty segment."""
        self._load_indexes()
        if self.max_timestamp_ms < 0:
            self._measure_times()
        if self.max_timestamp_ms < 0:
            return None
        return self.max_timestamp_ms, self.max_timestamp_offset

    def first_timestamp(self):
        """Return the largest timestamp of the first batch, or None: the age of a segment counts from it."""
        if self.first_timestamp_ms < 0 and self.size:
            for _, _, _, _, max_timestamp, _ in self.headers(0):
                self.first_timestamp_ms = max_timestamp
                break
        return None if self.first_timestamp_ms < 0 else self.first_timestamp_ms

    # -- finding ---------------------------------------------------------------------------------

    cdef int64_t _find(self, int64_t offset, int64_t bound, Window *window) except -2:
        """Return the position of the first batch that ends at or after offset, or -1; window as in _walk."""
        cdef int64_t entry, found = -1
        cdef int wrong = 0
        cdef OffsetIndex offsets
        self._load_indexes()
        # One reference until the end: another thread may replace the index by a shorter one.
        offsets = self.offsets
        entry = offsets.floor_entry(offset - self.base_offset)
        while entry >= 0:
            try:
                found = self._walk_from(entry, offsets, offset, bound, window)
            except RecordError:
                found = -3
            if found != -3:
                break
            # The entry does not match the batch at its position. The index or the log is wrong. A walk from the
            # previous entry decides, or from the beginning of the log if that entry is wrong too.
            wrong += 1
            entry = entry - 1 if wrong == 1 else -1
        if entry < 0:
            found = self._walk(offset, 0, bound, window)
        if wrong:
            # The log is sound up to here, so the index was wrong.
            self._rebuild_hint()
        return found

    cdef int64_t _candidate(self, int64_t offset, int64_t bound, int64_t *named, int64_t *span) except -2:
        """Return the position of the batch that must hold offset, by the index alone, or -1 if it is not certain.

        It is certain where every batch is large enough for an entry of its own: one read then replaces the
        two from the entry before. The caller must check the header with `holds`, with named as last offset.
        span is the number of bytes before the next entry.
        """
        cdef OffsetIndex offsets
        cdef int64_t entry, position, before, relative = offset - self.base_offset
        self._load_indexes()
        offsets = self.offsets
        entry = offsets.floor_entry(relative)
        before = offsets.position_at(entry) if entry >= 0 else 0
        if entry < 0 or offsets.offset_at(entry) != relative:
            entry += 1
            # Between entries this close there may be smaller batches, which have no entries.
            if entry >= offsets.count or offsets.position_at(entry) - before <= 2 * <int64_t>self._interval:
                return -1
        position = offsets.position_at(entry)
        if not 0 <= position < bound:
            return -1
        named[0] = self.base_offset + offsets.offset_at(entry)
        span[0] = (offsets.position_at(entry + 1) if entry + 1 < offsets.count else bound) - position
        return position

    cdef int64_t _span(self, int64_t offset, int64_t bound) except -1:
        """Return the bytes from where a search for an offset begins to the end of the batch that ends it."""
        cdef OffsetIndex offsets
        cdef int64_t entry
        self._load_indexes()
        offsets = self.offsets
        entry = offsets.floor_entry(offset - self.base_offset)
        return max((offsets.position_at(entry + 2) if entry + 2 < offsets.count else bound)
                   - (offsets.position_at(entry) if entry >= 0 else 0), <int64_t>0)

    cdef int64_t _walk_from(self, int64_t entry, OffsetIndex offsets, int64_t offset, int64_t bound,
                            Window *window) except -2:
        """Call _walk from the batch that an index entry names; -3 if the entry does not match the log."""
        cdef int64_t position = offsets.position_at(entry), named = self.base_offset + offsets.offset_at(entry)
        if (not 0 <= position < bound or self._walk(named, position, bound, window) != position
                or last_offset_of(&window.header) != named):
            return -3
        return position if named >= offset else self._walk(offset, position, bound, window)

    cdef int64_t _walk(self, int64_t offset, int64_t position, int64_t bound, Window *window) except -2:
        """Step from batch to batch until one ends at or after offset; -1 if there is none below bound.

        The window then holds the header that was found.
        """
        cdef const BatchHeader *header = &window.header
        cdef FileOps *ops = &self.file.files.ops
        cdef int status = OK, fd
        cdef int64_t seen = self.base_offset - 1, limit = self.next_offset
        cdef int64_t before = -1                # position of the batch before
        cdef int64_t span = window.span
        cdef bint follows = position == 0       # the expected base offset is known
        if bound < self.size:
            limit = -1
        fd = self.file.acquire()
        self.file.files.calls[OP_PREADV] += 1
        with nogil:
            while position < bound:
                status = header_at(ops, fd, position, bound, window)
                if status == OK:
                    status = check_order(header, seen, limit)
                if status == OK and follows and header.base_offset > seen + 1:
                    status = check_gap(ops, fd, header, seen + 1, position, bound)
                    if status == OK and before >= 0:
                        status = check_sum(ops, fd, before, bound)
                if status != OK:
                    break
                seen = last_offset_of(header)
                before = position
                follows = True
                if seen >= offset:
                    break
                position += header.size
                if header.size > window.span:
                    # Batches are large here: bytes after the next header would not be used.
                    window.span = HEADER_BYTES
            if status == OK and position >= bound and before >= 0 and seen + 1 < limit:
                # A gap at the end of the segment, as a compaction leaves it, or a last batch whose damaged
                # length includes the batches after it.
                status = check_sum(ops, fd, before, bound)
        self.file.release()
        window.span = span
        if status == BAD_CRC:
            self._raise_not_followed(before)
        self._raise_at(status, window, position)
        return position if position < bound else -1

    def offset_for_time(self, int64_t timestamp_ms):
        """Return the offset from which to search for the first record with at least that timestamp, or None.

        None: every record of this segment is older.
        """
        cdef int64_t entry
        cdef uint8_t span[HEADER_BYTES]
        cdef Window window = window_over(span, HEADER_BYTES)
        cdef int64_t named, offset
        cdef TimeIndex times
        newest = self.largest_timestamp()
        if newest is None or newest[0] < timestamp_ms:
            return None
        times = self.times
        entry = times.below(timestamp_ms)
        if entry < 0:
            return self.base_offset
        offset = self.base_offset + times.offset_at(entry)
        named = times.timestamp_at(entry)
        # The batch that the entry names must have its timestamp; a wrong entry could skip records. The
        # entries may have changed: the search rebuilds them when it finds a wrong one.
        if (self._find(offset, self.size, &window) >= 0 and window.header.max_timestamp == named
                and last_offset_of(&window.header) == offset):
            return window.header.base_offset
        self._rebuild()
        return self.base_offset

    def headers(self, int64_t position=0):
        """Yield (base offset, last offset, position, size, max timestamp, leader epoch) of each batch."""
        cdef int64_t seen = self.base_offset - 1
        while position < self.size:
            data = self.file.read(position, HEADER_BYTES)
            base, last, size, max_timestamp, epoch = header_fields(data, self.file.path, position)
            # A valid header does not show that its batch is complete: the file may end inside the batch.
            if size > self.size - position:
                raise CorruptRecordError(
                    f"the batch at base offset {base} takes {size} bytes, the file ends after "
                    f"{self.size - position}", path=self.file.path, position=position)
            if base <= seen:
                raise CorruptRecordError(f"base offset {base} does not rise over offset {seen}",
                                         path=self.file.path, position=position)
            seen = last
            yield base, last, position, size, max_timestamp, epoch
            position += size

    def continues_at(self, int64_t position, int64_t offset):
        """Return whether an offset is next at a position: of the batch there or, at the end, of the next append."""
        cdef BatchHeader header
        cdef bytes data
        cdef const uint8_t *p
        if position != self.size:
            data = self.file.read(position, HEADER_BYTES)
            p = <const uint8_t *>PyBytes_AS_STRING(data)
            return parse_header(p, p + len(data), &header) == OK and header.base_offset == offset
        next_offset, position = self.base_offset, 0
        try:
            for _, last, at, size, _, _ in self.headers(self.floor(offset)):
                next_offset, position = last + 1, at + size
        except RecordError:
            return False
        return next_offset == offset and position == self.size

    def floor(self, int64_t offset):
        """Return the position of a batch that ends below an offset, near it if the index is sound; or 0."""
        cdef int64_t entry, named
        cdef OffsetIndex offsets
        self._load_indexes()
        offsets = self.offsets
        entry = offsets.floor_entry(offset - 1 - self.base_offset)
        while entry >= 0:
            position = offsets.position_at(entry)
            named = self.base_offset + offsets.offset_at(entry)
            try:
                for _, last, _, _, _, _ in self.headers(position):
                    if last == named:
                        return position
                    break
            except RecordError:
                # The entry or the log is wrong: the walk from an earlier entry will find out.
                pass
            entry -= 1
        return 0

    def is_joined(self):
        """Return whether the last batch of a sealed segment ends where the next one begins; True is cached.

        Raises:
            CorruptRecordError: a batch near its end is damaged.
        """
        cdef uint8_t span[WINDOW_BYTES]
        cdef Window window = window_over(span, WINDOW_BYTES)
        if not self.joined:
            self.joined = (self.next_offset == self.base_offset
                           or self._find(self.next_offset - 1, self.size, &window) >= 0)
        return self.joined

    def batches_end(self):
        """Return the offset after the last batch, by its header, not by the next segment's base offset."""
        end = self.base_offset
        for _, last, _, _, _, _ in self.headers(self.floor(max(self.next_offset, end))):
            end = last + 1
        return end

    def holding(self, int64_t offset, int64_t position):
        """Return (position, base offset) of the first batch that ends at or after ``offset``, or None.

        The search starts at ``position``, where a batch must begin.

        Raises:
            CorruptRecordError, UnsupportedFormatError: damage on the way; names file and position.
        """
        cdef uint8_t span[WINDOW_BYTES]
        cdef Window window = window_over(span, WINDOW_BYTES)
        position = self._walk(offset, position, self.size, &window)
        return None if position < 0 else (position, window.header.base_offset)

    def position_of(self, int64_t offset):
        """Return the position of the batch that holds or follows ``offset``; the size if there is none."""
        cdef uint8_t span[HEADER_BYTES]
        cdef Window window = window_over(span, HEADER_BYTES)
        position = self._find(offset, self.size, &window)
        return self.size if position < 0 else position


cdef object header_fields(bytes data, str path, int64_t position):
    cdef BatchHeader header
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    raise_batch_status(parse_header(p, p + len(data), &header), p, p + len(data), path, position)
    return header.base_offset, last_offset_of(&header), header.size, header.max_timestamp, header.leader_epoch
