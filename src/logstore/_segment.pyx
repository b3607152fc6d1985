# cython: language_level=3
"""Segment: a `.log` file of whole batches with its offset index and time index.

This module appends, reads and truncates the bytes of one segment, and locates `FileRegion`s of it for sockets.
`_segment_index` finds batches, `_segment_scan` checks them. `log/` decides when to roll, sync or remove a segment.
The log's lock serialises every method that changes a segment. Any thread may read at any time, up to `size`, which
is published after the bytes below it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free

from logstore.batch._batch cimport (
    AT_LEADER_EPOCH, BAD_CRC, CHECKED_FROM, CODEC_MASK, CONTROL_FLAG, HEADER_BYTES, SHORT, TRANSACTIONAL_FLAG,
    BatchHeader, Record, batch_crc, last_offset_of, parse_header, payload_of, raise_batch_status, whole_header,
)
from logstore.batch._bytes cimport OK, store32, store64
from logstore.batch._checked_batches cimport Checked, Piece, find, forget, keep, pieces_of, record_in
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore.io._files cimport OP_PREADV, OP_PWRITE, File, FileOps, Pace, raise_status, read_upto
from logstore.io._preallocation cimport Growth
from logstore._segment_index cimport (
    WINDOW_BYTES, SegmentIndex, Window, bytes_at, check_order, header_at, holds, window_over,
)
from logstore._segment_scan cimport Damage
from logstore.io._file_region cimport FileRegion
from logstore._index cimport OffsetIndex

from logstore._segment_scan import behind, extend, scan
from logstore.errors import CorruptRecordError, DiskFullError, StorageError, StorageFailedError

logstore_crc32c_init()

cdef Growth _EXTEND = Growth()


cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **data, Py_ssize_t size) except -1


cdef bytes shortened(PyObject *data, Py_ssize_t size):
    """Return the first bytes of an object without a copy; the caller gives its only reference away."""
    _PyBytes_Resize(&data, size)
    result = <bytes>data
    Py_DECREF(result)
    return result


cdef class Segment:
    """Segment of a log: one `.log` file with its indexes.

    Owns: its `File`, its `SegmentIndex`, which knows the end and finds batches, and the growth of the file. The
    index files belong to `log.directory.segments`.
    """

    def __cinit__(self, File file not None, int64_t base_offset, *, int32_t index_interval_bytes=4096,
                  int64_t size=0, int64_t next_offset=-1, bint sealed=False, Growth growth=None):
        self.file = file
        self.base_offset = base_offset
        self.index = SegmentIndex(file, base_offset, index_interval_bytes=index_interval_bytes, size=size,
                                  next_offset=next_offset, sealed=sealed)
        self._growth = _EXTEND if growth is None else growth
        self._damage = Damage()

    @property
    def path(self):
        """Path of the file, also after it was renamed."""
        return self.file.path

    @property
    def size(self):
        """Bytes of the valid part of the file."""
        return self.index.size

    @property
    def next_offset(self):
        """Offset after the last batch; -1 if it is not known."""
        return self.index.next_offset

    @property
    def sealed(self):
        """Whether no append may follow."""
        return self.index.sealed

    # -- writing ---------------------------------------------------------------------------------

    def append(self, batches: Buffer, int64_t next_offset: int, int32_t leader_epoch: int) -> int:
        """Append whole batches to the segment and index them.

        Base offsets from ``next_offset`` on and ``leader_epoch`` are set in the buffer, which must
        be writable; with ``leader_epoch`` -1 both are kept as they are. Returns the next offset.
        Nothing is synced.

        Raises:
            DiskFullError: the disk is full; a partial write was truncated, and nothing has changed.
            StorageFailedError: the write or that truncation failed; bytes after `size` are unknown.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE if leader_epoch < 0 else PyBUF_WRITABLE)
        try:
            return self.put(<uint8_t *>view.buf, view.len, next_offset, leader_epoch)
        finally:
            PyBuffer_Release(&view)

    cdef int64_t put(self, uint8_t *data, int64_t size, int64_t next_offset, int32_t leader_epoch) except -1:
        """Append as `append` does; the bytes must stay where they are meanwhile."""
        cdef const uint8_t *end = data + size
        cdef uint8_t *p = data
        cdef BatchHeader header
        cdef int status
        cdef FileOps *ops = &self.file.files.ops
        cdef int fd
        cdef bint keeps_gil
        cdef Pace pace
        cdef SegmentIndex index = self.index
        cdef int64_t position = index.size
        if 0 <= next_offset < index.next_offset:
            raise ValueError(f"offset {next_offset} is taken, the segment ends at {index.next_offset}")
        while p < end:
            raise_batch_status(whole_header(p, end, &header), p, end, None, None)
            if leader_epoch >= 0:
                store64(p, next_offset)
                store32(p + AT_LEADER_EPOCH, leader_epoch)
                header.base_offset = next_offset
            next_offset = last_offset_of(&header) + 1
            p += header.size
        if next_offset - 1 - self.base_offset > INT32_MAX or position + size > INT32_MAX:
            raise ValueError("the segment is full: it should have been rolled")
        fd = self.file.acquire()
        self._growth.prepare(self.file, fd, position, position + size)
        self.file.dirty = True
        self.file.files.calls[OP_PWRITE] += 1
        keeps_gil = self.file.keeps_gil(size, &pace)
        if keeps_gil:
            status = self._growth.put(ops, fd, data, size, position)
        else:
            with nogil:
                status = self._growth.put(ops, fd, data, size, position)
        self.file.wrote(keeps_gil, &pace, position, size)
        # Again: a concurrent sync may have started before the write, and cleared the mark.
        self.file.dirty = True
        self.file.release()
        if status < 0:
            self._cut_back(status)
        p = data
        while p < end:
            parse_header(p, end, &header)
            index._note(&header, position + (p - data))
            p += header.size
        index._publish(position + size, next_offset)
        return next_offset

    cdef int _cut_back(self, int status) except -1:
        """Truncate the bytes that a failed write may have left, then raise its error."""
        try:
            raise_status(status, "write", self.file.path, self.index.size)
        except StorageError as error:
            try:
                self.file.truncate(self.index.size)
                self._growth.was_cut(self.index.size)
            except StorageError as second:
                raise StorageFailedError(
                    f"a write failed and its part could not be truncated ({second}); "
                    "call close(), then Log.open() again",
                    path=self.file.path, position=self.index.size) from error
            if isinstance(error, DiskFullError):
                raise
            raise StorageFailedError("a write failed; call close(), then Log.open() again",
                                     path=self.file.path, position=self.index.size) from error

    def seal(self) -> None:
        """Seal the segment: add the final entry of the time index; no append may follow."""
        self.index.seal()

    def cut(self, int64_t position: int, int64_t next_offset: int) -> None:
        """Truncate the file of an active segment to ``position``, where ``next_offset`` would begin.

        Raises:
            StorageFailedError: the file could not be truncated.
        """
        # Lowered first: a reader with the old size would read truncated bytes.
        self.index._cut(position, next_offset)
        try:
            self.file.truncate(position)
        except StorageError as error:
            raise StorageFailedError(f"the segment could not be truncated: {error}", path=self.file.path) from error
        self._growth.was_cut(position)
        self.index._measure_times()

    # -- reading ---------------------------------------------------------------------------------

    def locate(
            self, int64_t offset: int, int64_t max_bytes: int, int64_t end_offset: int,
            int64_t hint: int = -1) -> FileRegion | None:
        """Return the `FileRegion` of whole batches from the one that holds ``offset`` on, or None if there is none.

        At most ``max_bytes``, but always one batch; batches from ``end_offset`` on are left out. The index gives
        the end of a large region: the batches inside are not looked at, and their receiver checks each CRC.
        A region that begins where an earlier one ended, or ends with the log, is found without a read there.
        """
        cdef SegmentIndex index = self.index
        cdef uint8_t span[WINDOW_BYTES]
        cdef Window window = window_over(span, WINDOW_BYTES)
        cdef BatchHeader *header = &window.header
        cdef int64_t position, end, first, next_offset, entry, jump, following = 0
        cdef int64_t bound = index.size, limit = index.next_offset
        cdef FileOps *ops = &self.file.files.ops
        cdef uint64_t owner = index.owner
        cdef BatchEnd *known = &self._ends[offset & (BATCH_ENDS - 1)]
        cdef OffsetIndex offsets
        cdef int status, fd
        if known.owner == owner and known.offset == offset and known.position + known.size <= bound:
            # An earlier region ended there, before this batch.
            position, header.base_offset, header.size = known.position, offset, known.size
            if offset >= end_offset:
                return None
        else:
            window.span = min(max(index._span(offset, bound), <int64_t>HEADER_BYTES), <int64_t>WINDOW_BYTES)
            position = index._find(offset, bound, &window)
            window.span = WINDOW_BYTES
            if position < 0 or header.base_offset >= end_offset:
                return None
        first = header.base_offset
        if not index.sealed and end_offset >= limit >= 0 and bound - position <= max_bytes:
            # All of it, up to the end of an append: the marks of the log are not above that.
            return FileRegion(self.file, position, bound - position, first, limit)
        offsets = index.offsets
        # The last entry that names a batch within the limits; it is read with the batches behind it, in one call.
        entry = min(offsets.last_by(position + max_bytes), offsets.floor_entry(end_offset - 1 - self.base_offset))
        end = position
        next_offset = first
        fd = self.file.acquire()
        try:
            with nogil:
                status = OK
                if entry >= 0 and position + header.size < offsets.position_at(entry) < bound:
                    jump = offsets.position_at(entry)
                    # Up to the header of the batch behind the region; what is missing is read at once after it.
                    window.span = min(max(position + max_bytes - jump, <int64_t>0) + HEADER_BYTES,
                                      <int64_t>WINDOW_BYTES)
                    status = header_at(ops, fd, jump, bound, &window)
                    window.span = WINDOW_BYTES
                    if status == OK and header.base_offset > first and (
                            last_offset_of(header) == self.base_offset + offsets.offset_at(entry)):
                        end = jump
                        next_offset = header.base_offset
                    # Else the index is wrong, or the log: the walk from the first batch decides.
                    status = OK
                while end < bound:
                    if next_offset >= end_offset and end > position:
                        break
                    status = header_at(ops, fd, end, bound, &window)
                    if status == OK:
                        status = check_order(header, next_offset - 1, limit)
                    if status != OK or header.base_offset >= end_offset:
                        break
                    if header.base_offset > next_offset:
                        # After a gap: the next search checks the batch more closely.
                        break
                    if end > position and end + header.size - position > max_bytes:
                        following = header.size
                        break
                    end += header.size
                    next_offset = last_offset_of(header) + 1
            if end == position or window.size < 0:
                index._raise_at(status, &window, end)
        finally:
            self.file.release()
        if following and owner == index.owner:
            known = &self._ends[next_offset & (BATCH_ENDS - 1)]
            known.owner, known.offset, known.position, known.size = owner, next_offset, end, following
        return FileRegion(self.file, position, end - position, first, next_offset)

    cdef int64_t _take(self, uint8_t *out, int64_t size, int64_t position) except -1:
        """Read into out; return the number of bytes read."""
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t got
        cdef int fd = self.file.acquire()
        self.file.files.calls[OP_PREADV] += 1
        with nogil:
            got = read_upto(ops, fd, out, size, position)
        self.file.release()
        raise_status(got, "read", self.file.path, position)
        return got

    def read(
            self, int64_t offset: int, int64_t max_bytes: int, int64_t end_offset: int,
            int64_t hint: int = -1) -> tuple[bytes, int, int] | None:
        """Read (bytes of whole batches, position, next offset) from the batch that holds ``offset`` on, or None.

        At most ``max_bytes``, but always one batch; batches from ``end_offset`` on are left out.
        ``hint`` is a position where that batch may begin, such as the end of the previous read.

        Raises:
            CorruptRecordError: the CRC, length or offset of the first batch is wrong; names file and position.
                If a later batch is wrong, the result ends before it.
        """
        cdef SegmentIndex index = self.index
        cdef uint8_t space[WINDOW_BYTES]
        cdef Window window = window_over(space, WINDOW_BYTES)
        cdef BatchHeader *header = &window.header
        cdef int64_t got = 0, position = -1, bound = index.size, want, next_offset = offset, seen
        cdef int64_t limit = index.next_offset, named = -1, span = WINDOW_BYTES
        cdef int status
        cdef bytes data = None
        cdef PyObject *whole
        cdef uint8_t *out = space
        cdef const uint8_t *first
        cdef const uint8_t *p
        cdef const uint8_t *end
        cdef const uint8_t *newest = NULL      # the last whole batch, and its expected base offset
        cdef int64_t before_newest = offset
        # Guess the position by the hint or the index: one system call then usually reads the batches.
        if 0 <= hint < bound:
            position = hint
        elif offset == self.base_offset:
            position = 0 if bound else -1
        else:
            position = index._candidate(offset, bound, &named, &span)
        if position >= 0:
            want = max(max_bytes, min(max(span, <int64_t>HEADER_BYTES), <int64_t>WINDOW_BYTES))
            want = min(want, bound - position)
            if want > WINDOW_BYTES:
                data = PyBytes_FromStringAndSize(NULL, want)
                out = <uint8_t *>PyBytes_AS_STRING(data)
            got = self._take(out, want, position)
            if parse_header(out, out + got, header) != OK or not holds(
                    header, offset, named, bound - position, limit) or (
                    named < 0 and header.base_offset != offset):
                # Another batch is here: the search finds the right one, or the damage.
                position = -1
            if position < 0 or header.size > got:
                data = None
            elif data is None:
                window.start, window.size = position, got
        if position < 0:
            position = index._find(offset, bound, &window)
            if position < 0:
                return None
        if header.base_offset >= end_offset:
            return None
        want = max(header.size, min(max_bytes, bound - position))
        if data is not None:
            want = min(want, got)
            if want < PyBytes_GET_SIZE(data):
                Py_INCREF(data)
                whole, data = <PyObject *>data, None
                data = shortened(whole, <Py_ssize_t>want)
        elif position + want <= window.start + window.size:
            data = PyBytes_FromStringAndSize(<const char *>bytes_at(&window, position), want)
        else:
            data = PyBytes_FromStringAndSize(NULL, want)
            out = <uint8_t *>PyBytes_AS_STRING(data)
            got = self._take(out, want, position)
            if got < header.size:
                raise CorruptRecordError(f"the file ends inside a batch of {header.size} bytes",
                                         path=self.file.path, position=position)
            want = got
        first = <const uint8_t *>PyBytes_AS_STRING(data)
        p = first
        end = p + want
        seen = header.base_offset - 1
        status = OK
        with nogil:
            # After the published end there may be a partial batch, which must not be read.
            while p < end and seen + 1 < end_offset:
                status = whole_header(p, end, header)
                if status == SHORT and p > first:
                    # The byte limit, or the published end, falls inside this batch.
                    status = OK
                    break
                if status == OK and header.base_offset >= end_offset:
                    break
                if status == OK and batch_crc(p, header.size) != header.crc:
                    status = BAD_CRC
                if status == OK:
                    status = check_order(header, seen, limit)
                if status != OK:
                    break
                if header.base_offset > seen + 1:
                    # After a gap: the next search checks the batch more closely.
                    break
                newest = p
                before_newest = next_offset
                seen = last_offset_of(header)
                next_offset = seen + 1
                p += header.size
        if p == first:
            raise_batch_status(status, p, end, self.file.path, position)
        # Damage after whole batches is raised by the read that begins there.
        want = p - first
        # The CRC does not cover base offsets: a damaged one is found by comparing the last with the segment's end.
        if position + want == bound == index.size and index.next_offset >= 0 and (
                next_offset > index.next_offset or (next_offset < index.next_offset and not index.sealed)):
            if newest == first:
                raise CorruptRecordError(
                    f"the last batch ends at offset {next_offset - 1}, the segment at {index.next_offset - 1}",
                    path=self.file.path, position=position)
            want = newest - first
            next_offset = before_newest
        if want != PyBytes_GET_SIZE(data):
            Py_INCREF(data)
            whole, data = <PyObject *>data, None
            data = shortened(whole, <Py_ssize_t>want)
        return data, position, next_offset

    def record_at(
            self, int64_t offset: int, name: tuple[str, int], int64_t limit: int, *,
            bint committed: bool = False) -> Record | None:
        """Return the record at ``offset``, without the rest of its batch, or None.

        None if the batch that the index names does not hold the record, if it is a control record, or if a
        compaction has deleted it. With ``committed`` also if it is of a transaction. The caller uses `read` to find
        out which. ``name`` is (topic, partition); ``limit`` is the largest size of a decompressed batch.

        Raises:
            CorruptRecordError: the batch is damaged; names file and position.
        """
        return self.find_record(offset, committed, name, limit)

    cdef Record find_record(self, int64_t offset, bint committed, object name, int64_t limit):
        """Return the record at an offset as `record_at` does."""
        cdef SegmentIndex index = self.index
        cdef uint8_t space[WINDOW_BYTES]
        cdef Window window = window_over(space, WINDOW_BYTES)
        cdef BatchHeader *header = &window.header
        cdef uint64_t owner = index.owner         # taken before the bytes: a truncation gives the file another one
        cdef Checked *known
        cdef Record found
        cdef bytes data, records = None
        cdef const uint8_t *p
        cdef const uint8_t *begin
        cdef const uint8_t *end
        cdef int64_t bound = index.size, named = -1, position, span = 0
        cdef int status = OK
        position = index._candidate(offset, bound, &named, &span)
        if position >= 0:
            known = find(owner, position)
            if known != NULL:
                found = self._known_record(known, position, offset, committed, name, space)
                if found is not None:
                    return found
            span = min(max(span, <int64_t>HEADER_BYTES), min(<int64_t>WINDOW_BYTES, bound - position))
            window.start, window.size = position, self._take(space, span, position)
            if parse_header(space, space + window.size, header) != OK or not holds(
                    header, offset, named, bound - position, index.next_offset):
                # A batch before it, which has no entry; or damage, and the search tells.
                position, named = -1, -1
        if position < 0:
            # Up to the end of the batch that the next entry names: the record is in one before it.
            window.span = min(max(index._span(offset, bound), <int64_t>HEADER_BYTES), <int64_t>WINDOW_BYTES)
            position = index._find(offset, bound, &window)
            if position < 0:
                return None
            known = find(owner, position)
            if known != NULL:
                found = self._known_record(known, position, offset, committed, name, space)
                if found is not None:
                    return found
        p = bytes_at(&window, position)
        end = space + window.size
        if (parse_header(p, end, header) != OK or header.attributes & CONTROL_FLAG
                or (committed and header.attributes & TRANSACTIONAL_FLAG)
                or not holds(header, offset, named, bound - position, index.next_offset)):
            return None
        if header.size > end - p:
            data = self.file.read(position, <Py_ssize_t>header.size)
            p = <const uint8_t *>PyBytes_AS_STRING(data)
            if PyBytes_GET_SIZE(data) < header.size:
                return None
        begin, end = p + HEADER_BYTES, p + header.size
        known = NULL
        with nogil:
            if not header.attributes & CODEC_MASK and (named >= 0 or header.size > WINDOW_BYTES):
                known = pieces_of(header, begin, end, HEADER_BYTES,
                                  logstore_crc32c(0, p + CHECKED_FROM, HEADER_BYTES - CHECKED_FROM))
            if known == NULL:
                status = OK if batch_crc(p, header.size) == header.crc else BAD_CRC
            elif known.pieces[(known.record_count - 1) // known.step + 1].sum != header.crc:
                free(known)
                status = BAD_CRC
        raise_batch_status(status, p, end, self.file.path, position)
        if header.attributes & CODEC_MASK:
            records = payload_of(p, header, limit)
            begin = <const uint8_t *>PyBytes_AS_STRING(records)
            end = begin + PyBytes_GET_SIZE(records)
            known = pieces_of(header, begin, end, 0, 0)
        if known != NULL:
            keep(known, owner, position, records)
        if header.record_count != <int64_t>header.last_offset_delta + 1:
            return record_in(begin, end, 0, header.record_count, header, offset, name)
        # No record of the batch is missing, so those before ``offset`` are skipped by their lengths.
        return record_in(begin, end, <int32_t>(offset - header.base_offset), 1, header, offset, name)

    cdef Record _known_record(self, Checked *known, int64_t position, int64_t offset, bint committed, object name,
                              uint8_t *space):
        """Return a record of a batch in the table; None if it has none at the offset, or the file has other bytes.

        ``space`` has room for `WINDOW_BYTES`.
        """
        cdef BatchHeader header
        cdef int64_t number = offset - known.base_offset
        cdef Piece piece, after
        cdef int32_t skipped
        cdef bytes records = None
        cdef const uint8_t *p = space
        cdef int64_t size
        if not 0 <= number < known.record_count or (committed and known.attributes & TRANSACTIONAL_FLAG):
            return None
        # Copied: another thread may remove the entry while the file is read.
        piece, after = known.pieces[number // known.step], known.pieces[number // known.step + 1]
        skipped = <int32_t>(number % known.step)
        header.base_offset, header.attributes = known.base_offset, known.attributes
        header.base_timestamp = header.max_timestamp = known.timestamp
        size = after.start - piece.start
        if known.records != NULL:
            records = <bytes>known.records
            p = <const uint8_t *>PyBytes_AS_STRING(records) + piece.start
            return record_in(p, p + size, skipped, 1, &header, offset, name)
        if size > WINDOW_BYTES:
            records = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
            p = <const uint8_t *>PyBytes_AS_STRING(records)
        if (self._take(<uint8_t *>p, size, position + piece.start) != size
                or logstore_crc32c(piece.sum, p, <size_t>size) != after.sum):
            return None
        return record_in(p, p + size, skipped, 1, &header, offset, name)

    # -- checking --------------------------------------------------------------------------------

    def scan(
            self, int64_t position: int = 0, *, int64_t next_offset: int = -1, int64_t end: int = -1,
            bint check: bool = True, bint adopt: bool = False) -> Extent:
        """Scan the batches from ``position`` on; see `logstore._segment_scan.scan`."""
        return scan(self.index, position, next_offset=next_offset, end=end, check=check, adopt=adopt)

    def extend(self, int64_t end_offset: int) -> None:
        """Add batches that another process has appended; see `logstore._segment_scan.extend`."""
        extend(self.index, self._damage, end_offset)

    def behind(self, int64_t position: int, int64_t limit: int, int64_t since: int = -1) -> tuple[int, int] | None:
        """Return the first trustworthy batch after damage, or None; see `logstore._segment_scan.behind`."""
        return behind(self.index, self._damage, position, limit, since)

    # -- life ------------------------------------------------------------------------------------

    def set_end(self, int64_t next_offset: int) -> None:
        """Set the end offset of a sealed segment; its last batch may end before it."""
        self.index.set_end(next_offset)

    def release(self) -> None:
        """Release the space preallocated past the end.

        Raises:
            StorageError: the file system refused; nothing has changed.
        """
        self._growth.release(self.file, self.index.size)

    def close(self) -> None:
        """Close the file."""
        forget(self.index.owner)
        self.file.close()

    def __repr__(self):
        return (f"<Segment {self.base_offset}..{self.index.next_offset - 1}, {self.index.size} bytes"
                f"{', sealed' if self.index.sealed else ''}>")
