# cython: language_level=3
"""One segment: a `.log` file of whole batches with its offset index and time index.

This module appends, finds, reads, scans and cuts the bytes of one segment, and hands slices of it
to sockets. It decides nothing: when to roll, sync or remove is the business of `log/`. The log's
lock serialises every method that changes a segment; any thread may read at any time, bounded by
the `size` that is published after the bytes it promises.

An index is followed only as a hint: the batch at its position must have the last offset that the
entry names, else the index is rebuilt from the batch headers.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject_AsFileDescriptor
from libc.errno cimport EAGAIN, EINTR, errno as c_errno
from libc.stdint cimport INT32_MAX, INT64_MAX, uint32_t
from libc.stdlib cimport free, malloc

from logstore._batch cimport (
    APPEND_TIME_FLAG, AT_LEADER_EPOCH, BAD_CRC, BAD_OFFSET, CHECKED_FROM, CODEC_MASK, CONTROL_FLAG, HEADER_BYTES,
    SHORT, TRANSACTIONAL_FLAG, BatchHeader, Record, RecordView, batch_crc, last_offset_of, marker_of, next_record,
    parse_header, payload_of, raise_batch_status,
)
from logstore._bytes cimport OK, read_varint, store32, store64
from logstore._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore._files cimport (
    OP_PREADV, OP_PWRITE, OP_SENDFILE, File, FileOps, raise_status, read_upto,
)
from logstore._growth cimport Growth
from logstore._index cimport OffsetIndex, TimeIndex

import os

from logstore.errors import CorruptRecordError, DiskFullError, RecordError, StorageError, StorageFailedError

logstore_crc32c_init()

cdef extern from "<sys/socket.h>" nogil:
    ssize_t c_send "send"(int fd, const void *data, size_t size, int flags)
    enum: MSG_NOSIGNAL

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **data, Py_ssize_t size) except -1
    ctypedef struct PyObject

cdef enum:
    WINDOW_BYTES = 16_384         # what finding an offset reads at once: an index interval and a batch
    CHUNK_BYTES = 1 << 20         # what a scan reads at once
    COPY_BYTES = 1 << 18          # what a slice copies to a socket at once

cdef Growth _EXTEND = Growth()

HEADER = HEADER_BYTES
SUFFIX_DIGITS = 20


cdef int check_gap(FileOps *ops, int fd, const BatchHeader *header, int64_t position, int64_t bound) noexcept nogil:
    """BAD_OFFSET if a batch behind a gap overlaps the batch behind it, else OK.

    The CRC does not cover base offsets. In a log without gaps a changed one makes a gap before its
    batch and an overlap behind it, so whoever finds a gap looks one batch further.
    """
    cdef uint8_t window[HEADER_BYTES]
    cdef BatchHeader following
    cdef int64_t at = position + header.size, got
    if at >= bound:
        return OK
    # What cannot be read or parsed here is met, and named, by whoever goes on to it.
    got = read_upto(ops, fd, window, min(<int64_t>HEADER_BYTES, bound - at), at)
    if got < HEADER_BYTES or parse_header(window, window + got, &following) != OK:
        return OK
    return BAD_OFFSET if following.base_offset <= last_offset_of(header) else OK


cdef int check_sum(FileOps *ops, int fd, int64_t position, int64_t bound) noexcept nogil:
    """OK if the batch at position is whole; of a read error the caller learns when it reads on.

    Its length is not covered by its CRC, but a wrong length does not fit it either: a batch that
    has grown over the next one makes a gap behind it.
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


cdef inline bint holds(const BatchHeader *header, int64_t offset, int64_t named, int64_t room,
                       int64_t limit) noexcept nogil:
    """Whether a batch holds offset, ends at named (-1: anywhere), and lies in room bytes and below limit."""
    cdef int64_t last = last_offset_of(header)
    return (header.base_offset <= offset <= last and (last == named or named < 0) and header.size <= room
            and (last < limit or limit < 0))


cdef int32_t skip_records(const uint8_t **cursor, const uint8_t *end, int32_t count) noexcept nogil:
    """Step over count records by their lengths alone; 1 if the next one may be read, 0 if they are malformed."""
    cdef const uint8_t *p = cursor[0]
    cdef int32_t size
    while count > 0:
        if read_varint(&p, end, &size) != OK or size < 0 or size > end - p:
            return 0
        p += size
        count -= 1
    cursor[0] = p
    return 1


cdef class Extent:
    """What a scan found: how far the segment is whole, and what the state above is rebuilt from.

    ``problem`` is None for a whole segment, else the sentence that says what is wrong at
    ``valid_bytes``. ``produced`` lists the batches that carry a producer id, as tuples
    (base offset, last offset, producer id, producer epoch, base sequence, last sequence,
    max timestamp, is transactional, is control, marker, coordinator epoch); ``epochs`` lists
    (leader epoch, first offset) wherever the epoch changes.
    """

    @property
    def is_whole(self):
        return self.problem is None

    def __repr__(self):
        return (f"<Extent {self.valid_bytes} of {self.file_bytes} bytes, next offset {self.next_offset}"
                + (f": {self.problem}" if self.problem else "") + ">")


# Never cleared by the collector of cycles, which would take the file away before the end.
@cython.no_gc_clear
@cython.final
cdef class Slice:
    """Whole batches in a segment's file: what a fetch sends.

    Owns: a pin on the file's descriptor, so the bytes stay readable when the segment is deleted.
    """

    def __cinit__(self, File file, int64_t position, int64_t size, int64_t base_offset, int64_t next_offset):
        self._fd = -1
        self.file = file
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.next_offset = next_offset
        self._fd = file.acquire()

    def __dealloc__(self):
        if self._fd >= 0:
            self.file.release()

    def close(self):
        """Let go of the file."""
        if self._fd >= 0:
            self._fd = -1
            self.file.release()

    cdef int _usable(self, int64_t start) except -1:
        if self._fd < 0:
            raise ValueError("the slice is closed")
        if start < 0 or start > self.size:
            raise ValueError(f"a slice of {self.size} bytes cannot be sent from byte {start}")
        return 0

    def read(self):
        """The bytes. They are not checked: their reader checks the CRC of each batch."""
        self._usable(0)
        data = self.file.read(self.position, self.size)
        if len(data) != self.size:
            raise CorruptRecordError(f"{self.size} bytes expected, {len(data)} are there",
                                     path=self.file.path, position=self.position)
        return data

    def send_to(self, socket, int64_t start=0):
        """Send the bytes from ``start`` on with sendfile; returns how many went.

        A blocking socket takes all of them, a non-blocking one what it has room for (0: none now).

        Raises:
            OSError: the socket's error, as from `socket.send`.
        """
        cdef int out = PyObject_AsFileDescriptor(socket)
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t done = start, count = 0
        self._usable(start)
        self.file.files.calls[OP_SENDFILE] += 1
        with nogil:
            while done < self.size:
                count = ops.sendfile(ops.context, out, self._fd, self.position + done,
                                     <size_t>(self.size - done))
                if count == -EINTR:
                    continue
                if count <= 0:
                    break
                done += count
        return self._sent(start, done, count)

    def copy_to(self, socket, int64_t start=0):
        """As `send_to`, through a buffer: for sockets that sendfile cannot serve."""
        cdef int out = PyObject_AsFileDescriptor(socket)
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t done = start, count = 0, got, offered
        cdef uint8_t *buffer
        self._usable(start)
        buffer = <uint8_t *>malloc(COPY_BYTES)
        if buffer == NULL:
            raise MemoryError
        self.file.files.calls[OP_PREADV] += 1
        with nogil:
            while done < self.size:
                got = read_upto(ops, self._fd, buffer, min(<int64_t>COPY_BYTES, self.size - done),
                                self.position + done)
                if got <= 0:
                    count = got
                    break
                offered = 0
                while offered < got:
                    count = c_send(out, buffer + offered, <size_t>(got - offered), MSG_NOSIGNAL)
                    if count < 0:
                        count = -c_errno
                        if count == -EINTR:
                            continue
                        break
                    offered += count
                done += offered
                if offered < got:
                    break
        free(buffer)
        return self._sent(start, done, count)

    cdef object _sent(self, int64_t start, int64_t done, int64_t status):
        if done == start and start < self.size:
            if status == 0:
                raise CorruptRecordError("the file ends inside the slice", path=self.file.path,
                                         position=self.position + done)
            if status != -EAGAIN:
                raise OSError(-status, os.strerror(-status))
        return done - start

    def __len__(self):
        return self.size

    def __repr__(self):
        return f"<Slice {self.file.path!r} {self.position}+{self.size}, from offset {self.base_offset}>"


cdef class Segment:
    """One `.log` file with its indexes.

    Owns: its `File` and its index entries. The index files belong to `log.segments`.
    """

    def __cinit__(self, File file not None, int64_t base_offset, *, int32_t index_interval_bytes=4096,
                  int64_t size=0, int64_t next_offset=-1, bint sealed=False, Growth growth=None):
        # next_offset -1: not known, as in a reader beside the writer's process.
        self.file = file
        self.path = file.path
        self.base_offset = base_offset
        self.size = size
        self.next_offset = next_offset
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp_ms = -1
        self.sealed = sealed
        self._interval = index_interval_bytes
        self._growth = _EXTEND if growth is None else growth
        self.index = OffsetIndex()
        self.times = TimeIndex()
        # A new segment has nothing to load; one that is found on disk loads when it is first asked.
        self._ready = size == 0

    # -- writing ---------------------------------------------------------------------------------

    def append(self, batches, int64_t next_offset, int32_t leader_epoch):
        """Write whole batches behind the segment and index them.

        Base offsets from ``next_offset`` on and ``leader_epoch`` are set in the buffer, which has to
        be writable; with ``leader_epoch`` -1 both are kept as they are. Returns the next offset.
        Nothing is synced.

        Raises:
            DiskFullError: there is no room; the file is cut back and nothing has changed.
            StorageFailedError: the write or the cut-back failed; bytes behind `size` are unknown.
        """
        cdef Py_buffer view
        cdef const uint8_t *end
        cdef uint8_t *p
        cdef BatchHeader header
        cdef int status
        cdef FileOps *ops = &self.file.files.ops
        cdef int fd
        cdef int64_t position = self.size
        PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE if leader_epoch < 0 else PyBUF_WRITABLE)
        try:
            p = <uint8_t *>view.buf
            end = p + view.len
            if 0 <= next_offset < self.next_offset:
                raise ValueError(f"offset {next_offset} is taken, the segment ends at {self.next_offset}")
            while p < end:
                status = parse_header(p, end, &header)
                if status == OK and header.size > end - p:
                    status = SHORT
                raise_batch_status(status, p, end, None, None)
                if leader_epoch >= 0:
                    store64(p, next_offset)
                    store32(p + AT_LEADER_EPOCH, leader_epoch)
                    header.base_offset = next_offset
                next_offset = last_offset_of(&header) + 1
                p += header.size
            if next_offset - 1 - self.base_offset > INT32_MAX or position + view.len > INT32_MAX:
                raise ValueError("the segment is full: it should have been rolled")
            fd = self.file.acquire()
            self._growth.prepare(self.file, fd, position, position + view.len)
            self.file.dirty = True
            self.file.files.calls[OP_PWRITE] += 1
            with nogil:
                status = self._growth.put(ops, fd, <const uint8_t *>view.buf, view.len, position)
            self.file.release()
            if status < 0:
                self._cut_back(status)
            p = <uint8_t *>view.buf
            while p < end:
                self._note(p, position + (p - <uint8_t *>view.buf))
                parse_header(p, end, &header)
                p += header.size
            # Published last: a reader that sees the new size finds bytes, indexes and times behind it.
            self.next_offset = next_offset
            self.size = position + view.len
        finally:
            PyBuffer_Release(&view)
        return next_offset

    cdef int _cut_back(self, int status) except -1:
        """Take away what a failed write may have left, then say what failed."""
        try:
            raise_status(status, "write", self.path, self.size)
        except StorageError as error:
            try:
                self.file.truncate(self.size)
                self._growth.was_cut(self.size)
            except StorageError as second:
                raise StorageFailedError(
                    f"a write failed and its part could not be cut off ({second}); "
                    "close the log and open it again",
                    path=self.path, position=self.size) from error
            if isinstance(error, DiskFullError):
                raise
            raise StorageFailedError("a write failed; close the log and open it again",
                                     path=self.path, position=self.size) from error

    cdef int _note(self, const uint8_t *p, int64_t position) except -1:
        """Index one batch at position: the only place that decides which batches get an entry."""
        cdef BatchHeader header
        cdef int64_t last
        parse_header(p, p + HEADER_BYTES, &header)
        last = last_offset_of(&header)
        if self.first_timestamp_ms < 0:
            self.first_timestamp_ms = header.max_timestamp
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = last
        if self._unindexed > self._interval:
            self.index.add(<int32_t>(last - self.base_offset), <int32_t>position)
            self.times.add(self.max_timestamp_ms, <int32_t>(self.max_timestamp_offset - self.base_offset))
            self._unindexed = 0
        self._unindexed += header.size
        return 0

    def seal(self):
        """No more appends: the time index gets its final entry."""
        self.ensure_indexes()
        if self.size:
            self.times.add(self.max_timestamp_ms, <int32_t>(self.max_timestamp_offset - self.base_offset))
        self.sealed = True

    def cut(self, int64_t position, int64_t next_offset):
        """Cut the file of an active segment to ``position``, where ``next_offset`` would begin.

        Raises:
            StorageFailedError: the file could not be cut.
        """
        self.ensure_indexes()
        # Readers are turned away before the bytes go.
        self.next_offset = next_offset
        self.size = position
        self.index.cut_to(position)
        self.times.cut_to(next_offset - self.base_offset)
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = self.base_offset
        try:
            self.file.truncate(position)
        except StorageError as error:
            raise StorageFailedError(f"could not cut the segment: {error}", path=self.path) from error
        self._growth.was_cut(position)
        if position == 0:
            # The age of the segment counts from the batch that comes next.
            self.first_timestamp_ms = -1
        self._measure_times()

    def _measure_times(self):
        """Largest timestamp and the bytes since the last index entry, from the tail of the log.

        The last entry of the time index is the largest timestamp up to the batch that it names, and
        of nothing behind it: the file may have lost entries, or hold a wrong one. Any thread may be
        in here beside another: what is found is told as a whole, at the end.
        """
        cdef uint8_t window[HEADER_BYTES]
        cdef BatchHeader header
        cdef TimeIndex times = self.times
        cdef int64_t start = 0, got = 0, position = 0, bound = self.size, last, named
        if times.count:
            last = self.base_offset + times.offset_at(times.count - 1)
            named = times.timestamp_at(times.count - 1)
            position = self._find(last, bound, window, HEADER_BYTES, &start, &got)
            if position >= 0:
                parse_header(window + (position - start), window + got, &header)
            if position < 0 or last_offset_of(&header) != last or header.max_timestamp != named:
                self._rebuild()
                return
        elif self.index.count:
            self._rebuild()
            return
        self.first_timestamp()
        self._hop(position, bound)
        self._unindexed = bound - (self.index.position_at(self.index.count - 1) if self.index.count else 0)

    cdef int _hop(self, int64_t position, int64_t bound) except -1:
        """Take the largest timestamp from the headers between a position and the end."""
        cdef BatchHeader header
        cdef uint8_t window[HEADER_BYTES]
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t got = 0, largest = -1, offset = self.base_offset
        cdef int status = OK, fd = self.file.acquire()
        with nogil:
            while position < bound:
                got = read_upto(ops, fd, window, HEADER_BYTES, position)
                status = parse_header(window, window + max(got, <int64_t>0), &header)
                if status != OK:
                    break
                if header.max_timestamp > largest:
                    largest = header.max_timestamp
                    offset = last_offset_of(&header)
                position += header.size
        self.file.release()
        raise_status(got, "read", self.path, position)
        raise_batch_status(status, window, window + got, self.path, position)
        # Appends may have gone on meanwhile.
        if largest > self.max_timestamp_ms:
            self.max_timestamp_ms = largest
            self.max_timestamp_offset = offset
        return 0

    # -- indexes ---------------------------------------------------------------------------------

    def set_indexes(self, OffsetIndex index, TimeIndex times):
        """Use index entries that were read from their files; unsound ones are rebuilt from the log."""
        # Entries of bytes that are gone, or not judged yet, are not wrong: they are not there.
        index.cut_to(self.size)
        if self.next_offset >= 0:
            times.cut_to(self.next_offset - self.base_offset)
        self.index = index
        self.times = times
        self._ready = True
        if not index.is_sound(self.size) or not times.is_sound() or (
                index.count == 0 and self.size > 2 * <int64_t>self._interval + WINDOW_BYTES):
            self._rebuild_hint()

    def ensure_indexes(self):
        """Load or rebuild the indexes, if that has not happened."""
        self._load_indexes()

    cdef int _load_indexes(self) except -1:
        cdef OffsetIndex index
        cdef TimeIndex times
        if self._ready:
            return 0
        index = OffsetIndex()
        times = TimeIndex()
        try:
            self._load_one(index, ".index")
            self._load_one(times, ".timeindex")
        except StorageError:
            # Missing or unreadable: a hint that is not there.
            self._rebuild_hint()
            return 0
        self.set_indexes(index, times)
        return 0

    def _load_one(self, entries, suffix):
        # A sealed index file is mapped, since nobody cuts it; a growing one is read.
        file = self.file.files.open(self.path[:len(self.path) - 4] + suffix)
        try:
            if self.sealed:
                entries.map(file.map())
            else:
                entries.load(file.read(0, file.size()))
        finally:
            file.close()

    cdef int _rebuild(self) except -1:
        """Make the indexes anew from the batch headers; `index_stale` tells to write them.

        They are made aside and put in place at the end, so that nobody beside this thread takes the
        entries or times of a part for those of the whole, and no append notes into what is half made.
        """
        cdef int64_t position = 0, got, seen = self.base_offset - 1
        cdef int64_t bound = self.size, limit = self.next_offset
        cdef BatchHeader header
        cdef int status
        cdef uint8_t window[HEADER_BYTES]
        cdef FileOps *ops = &self.file.files.ops
        cdef int fd
        cdef Segment fresh = Segment(self.file, self.base_offset, index_interval_bytes=self._interval)
        fd = self.file.acquire()
        try:
            while position < bound:
                with nogil:
                    got = read_upto(ops, fd, window, HEADER_BYTES, position)
                    status = parse_header(window, window + max(got, <int64_t>0), &header)
                    if status == OK and header.size > bound - position:
                        status = SHORT
                    if status == OK and (header.base_offset <= seen or
                                         (limit >= 0 and last_offset_of(&header) >= limit)):
                        status = BAD_OFFSET
                    if status == OK and header.base_offset > seen + 1:
                        status = check_gap(ops, fd, &header, position, bound)
                raise_status(got, "read", self.path, position)
                raise_batch_status(status, window, window + got, self.path, position)
                fresh._note(window, position)
                seen = last_offset_of(&header)
                position += header.size
                if position >= bound and self.size > bound:
                    # Appended meanwhile. No thread runs between this look and the end of the loop.
                    bound, limit = self.size, self.next_offset
        except BaseException:
            # What stands before the damage can be found; the times of a part are not those of the whole.
            fresh.max_timestamp_ms = -1
            raise
        finally:
            self.file.release()
            if self.size < position:
                # Cut meanwhile.
                fresh.index.cut_to(self.size)
                fresh.times.cut_to(self.next_offset - self.base_offset)
                fresh.max_timestamp_ms = -1
            elif self.sealed and position and fresh.max_timestamp_ms >= 0:
                fresh.times.add(fresh.max_timestamp_ms, <int32_t>(fresh.max_timestamp_offset - self.base_offset))
            self.index = fresh.index
            self.times = fresh.times
            self.max_timestamp_ms = fresh.max_timestamp_ms
            self.max_timestamp_offset = fresh.max_timestamp_offset
            self.first_timestamp_ms = fresh.first_timestamp_ms
            self._unindexed = fresh._unindexed
            self._ready = True
            self.index_stale = True
        return 0

    cdef int _rebuild_hint(self) except -1:
        """As `_rebuild`, for a reader: entries up to the first bad header, which fails who reads there."""
        try:
            self._rebuild()
        except RecordError:
            pass
        return 0

    def rebuild_indexes(self):
        """Make both indexes anew from the batch headers.

        Raises:
            CorruptRecordError: a header is wrong; names file and position.
        """
        self._rebuild()

    def largest_timestamp(self):
        """(timestamp, offset) of the newest record by time, or None for an empty segment."""
        self._load_indexes()
        if self.max_timestamp_ms < 0:
            self._measure_times()
        if self.max_timestamp_ms < 0:
            return None
        return self.max_timestamp_ms, self.max_timestamp_offset

    def first_timestamp(self):
        """The largest timestamp of the first batch, or None: the age of a segment counts from it."""
        if self.first_timestamp_ms < 0 and self.size:
            for _, _, _, _, max_timestamp, _ in self.headers(0):
                self.first_timestamp_ms = max_timestamp
                break
        return None if self.first_timestamp_ms < 0 else self.first_timestamp_ms

    # -- finding ---------------------------------------------------------------------------------

    cdef int64_t _find(self, int64_t offset, int64_t bound, uint8_t *window, int64_t room, int64_t *start,
                       int64_t *got) except -2:
        """Position of the first batch whose last offset is at least offset, or -1; window as in _walk."""
        cdef int64_t entry, position, named
        cdef int wrong = 0
        cdef OffsetIndex index
        self._load_indexes()
        # This one to the end: another thread may put a shorter one in its place.
        index = self.index
        entry = index.floor_entry(offset - self.base_offset)
        while entry >= 0:
            position = index.position_at(entry)
            named = self.base_offset + index.offset_at(entry)
            try:
                found = self._walk_checked(named, offset, position, bound, <size_t>window, room, <size_t>start,
                                           <size_t>got)
            except RecordError:
                found = -3
            if found != -3:
                break
            # The entry does not name the batch that it points to. Index or log: what stands before it will
            # tell, the next entry if it is right, else the log from its beginning.
            wrong += 1
            entry = entry - 1 if wrong == 1 else -1
        if entry < 0:
            found = self._walk(offset, 0, bound, window, room, start, got)
        if wrong:
            # The log is sound up to here, so it was the index.
            self._rebuild_hint()
        return found

    cdef int64_t _candidate(self, int64_t offset, int64_t bound, int64_t *named, int64_t *room) except -2:
        """Position of the batch that must hold offset, by the index alone, or -1 if the index cannot say.

        It can where every batch is large enough for an entry of its own: one read then answers what takes
        two from the entry before. The batch counts only if `holds` says so of its header, with named for
        its last offset. room is what lies before the next entry.
        """
        cdef OffsetIndex index
        cdef int64_t entry, position, before, relative = offset - self.base_offset
        self._load_indexes()
        index = self.index
        entry = index.floor_entry(relative)
        before = index.position_at(entry) if entry >= 0 else 0
        if entry < 0 or index.offset_at(entry) != relative:
            entry += 1
            # Between entries no further apart there may be smaller batches, which have none.
            if entry >= index.count or index.position_at(entry) - before <= 2 * <int64_t>self._interval:
                return -1
        position = index.position_at(entry)
        if position >= bound:
            return -1
        named[0] = self.base_offset + index.offset_at(entry)
        room[0] = (index.position_at(entry + 1) if entry + 1 < index.count else bound) - position
        return position

    def _walk_checked(self, int64_t named, int64_t offset, int64_t position, int64_t bound, size_t window,
                      int64_t room, size_t start, size_t got):
        """_walk from an index entry that names the last offset `named`; -3 if it does not fit the log."""
        cdef BatchHeader header
        cdef int64_t *first = <int64_t *>start
        cdef int64_t *count = <int64_t *>got
        cdef int64_t found
        if position >= bound:
            return -3
        found = self._walk(named, position, bound, <uint8_t *>window, room, first, count)
        if found != position or first[0] != position:
            return -3
        if parse_header(<uint8_t *>window, <uint8_t *>window + count[0], &header) != OK:
            return -3
        if last_offset_of(&header) != named:
            return -3
        if named >= offset:
            return position
        return self._walk(offset, position, bound, <uint8_t *>window, room, first, count)

    cdef int64_t _walk(self, int64_t offset, int64_t position, int64_t bound, uint8_t *window, int64_t room,
                       int64_t *start, int64_t *got) except -2:
        """Step from batch to batch until one ends at or behind offset; -1 if there is none below bound.

        The window then holds got[0] bytes of the file from start[0] on, the found header among them.
        """
        cdef BatchHeader header
        cdef FileOps *ops = &self.file.files.ops
        cdef int status = OK, fd
        cdef int64_t seen = self.base_offset - 1, limit = self.next_offset
        cdef int64_t before = -1                # where the batch before begins
        cdef bint follows = position == 0       # what has to come first is known
        if bound < self.size:
            limit = -1
        fd = self.file.acquire()
        self.file.files.calls[OP_PREADV] += 1
        with nogil:
            if not (start[0] <= position and position + HEADER_BYTES <= start[0] + got[0]):
                got[0] = 0
            while position < bound:
                if got[0] == 0 or position + HEADER_BYTES > start[0] + got[0]:
                    start[0] = position
                    got[0] = read_upto(ops, fd, window, min(room, bound - position), position)
                    if got[0] < 0:
                        break
                status = parse_header(window + (position - start[0]), window + got[0], &header)
                if status == OK and header.size > bound - position:
                    status = SHORT
                if status == OK and (
                        header.base_offset <= seen or (limit >= 0 and last_offset_of(&header) >= limit)):
                    status = BAD_OFFSET
                if status == OK and follows and header.base_offset > seen + 1:
                    status = check_gap(ops, fd, &header, position, bound)
                    if status == OK and before >= 0:
                        status = check_sum(ops, fd, before, bound)
                if status != OK:
                    break
                seen = last_offset_of(&header)
                before = position
                follows = True
                if seen >= offset:
                    break
                position += header.size
                if header.size > room:
                    # Batches are large here: what stands behind the next header would not be used.
                    room = HEADER_BYTES
            if status == OK and got[0] >= 0 and position >= bound and before >= 0 and seen + 1 < limit:
                # A gap at the end of the segment, as a compaction leaves it, or a last batch whose
                # length has swallowed the ones behind it.
                status = check_sum(ops, fd, before, bound)
        self.file.release()
        if got[0] < 0:
            status = <int>got[0]
            got[0] = 0
            raise_status(status, "read", self.path, position)
        if status == BAD_CRC:
            raise CorruptRecordError("the batch is damaged: the next one does not follow it, and its CRC-32C does "
                                     "not fit its bytes", path=self.path, position=before)
        if status != OK:
            raise_batch_status(status, window + (position - start[0]), window + got[0], self.path, position)
        return position if position < bound else -1

    def locate(self, int64_t offset, int64_t max_bytes, int64_t end_offset, int64_t hint=-1):
        """The `Slice` of whole batches from the one that holds ``offset`` on, or None if there is none.

        At most ``max_bytes``, but always one batch; batches from ``end_offset`` on are left out.
        """
        cdef uint8_t window[WINDOW_BYTES]
        cdef BatchHeader header
        cdef int64_t start = 0, got = 0, position, end, first, next_offset
        cdef int64_t bound = self.size, limit = self.next_offset
        cdef FileOps *ops = &self.file.files.ops
        cdef int status, fd
        position = self._find(offset, bound, window, WINDOW_BYTES, &start, &got)
        if position < 0:
            return None
        parse_header(window + (position - start), window + got, &header)
        first = header.base_offset
        if first >= end_offset:
            return None
        end = position
        next_offset = first
        fd = self.file.acquire()
        try:
            with nogil:
                status = OK
                while end < bound:
                    if next_offset >= end_offset and end > position:
                        break
                    if end + HEADER_BYTES > start + got:
                        start = end
                        got = read_upto(ops, fd, window, min(<int64_t>HEADER_BYTES, bound - end), end)
                        if got < 0:
                            break
                    status = parse_header(window + (end - start), window + got, &header)
                    if status == OK and header.size > bound - end:
                        status = SHORT
                    if status == OK and (header.base_offset < next_offset or
                                         (limit >= 0 and last_offset_of(&header) >= limit)):
                        status = BAD_OFFSET
                    if status != OK or header.base_offset >= end_offset:
                        break
                    if header.base_offset > next_offset:
                        # Behind a gap: the next search looks at it more closely.
                        break
                    if end > position and end + header.size - position > max_bytes:
                        break
                    end += header.size
                    next_offset = last_offset_of(&header) + 1
            raise_status(got, "read", self.path, end)
            raise_batch_status(status, window + (end - start), window + got, self.path, end)
        finally:
            self.file.release()
        return Slice(self.file, position, end - position, first, next_offset)

    def read(self, int64_t offset, int64_t max_bytes, int64_t end_offset, int64_t hint=-1):
        """(bytes of whole batches, position, next offset) from the batch that holds ``offset`` on, or None.

        At most ``max_bytes``, but always one batch; batches from ``end_offset`` on are left out.
        ``hint`` is a position where that batch may begin: the end of the read before.

        Raises:
            CorruptRecordError: a batch's CRC, length or offset is wrong; names file and position.
        """
        cdef uint8_t window[WINDOW_BYTES]
        cdef BatchHeader header
        cdef int64_t start = 0, got = 0, position = -1, bound = self.size, want, next_offset = offset, seen
        cdef int64_t limit = self.next_offset, named = -1, room = WINDOW_BYTES
        cdef FileOps *ops = &self.file.files.ops
        cdef int status, fd
        cdef bytes data = None
        cdef uint8_t *out = window
        cdef const uint8_t *first
        cdef const uint8_t *p
        cdef const uint8_t *end
        # Where the batch should be, by the hint or the index, so that one read brings all.
        if 0 <= hint < bound:
            position = hint
        elif offset == self.base_offset:
            position = 0 if bound else -1
        else:
            position = self._candidate(offset, bound, &named, &room)
        if position >= 0:
            want = max(max_bytes, min(max(room, <int64_t>HEADER_BYTES), <int64_t>WINDOW_BYTES))
            want = min(want, bound - position)
            if want > WINDOW_BYTES:
                data = PyBytes_FromStringAndSize(NULL, want)
                out = <uint8_t *>PyBytes_AS_STRING(data)
            fd = self.file.acquire()
            self.file.files.calls[OP_PREADV] += 1
            with nogil:
                got = read_upto(ops, fd, out, want, position)
            self.file.release()
            raise_status(got, "read", self.path, position)
            start = position
            if parse_header(out, out + got, &header) != OK or not holds(
                    &header, offset, named, bound - position, limit) or (
                    named < 0 and header.base_offset != offset):
                # Not where that offset is: the search tells where it is, or what is wrong.
                position = -1
            if position < 0 or header.size > got:
                data = None
                got = 0
        if position < 0:
            position = self._find(offset, bound, window, WINDOW_BYTES, &start, &got)
            if position < 0:
                return None
            parse_header(window + (position - start), window + got, &header)
        if header.base_offset >= end_offset:
            return None
        want = max(header.size, min(max_bytes, bound - position))
        if data is not None:
            want = min(want, got)
            if want < PyBytes_GET_SIZE(data):
                data = data[:want]
        elif position + want <= start + got:
            data = PyBytes_FromStringAndSize(<const char *>window + (position - start), want)
        else:
            data = PyBytes_FromStringAndSize(NULL, want)
            out = <uint8_t *>PyBytes_AS_STRING(data)
            fd = self.file.acquire()
            self.file.files.calls[OP_PREADV] += 1
            with nogil:
                got = read_upto(ops, fd, out, want, position)
            self.file.release()
            raise_status(got, "read", self.path, position)
            if got < header.size:
                raise CorruptRecordError(f"the file ends inside a batch of {header.size} bytes",
                                         path=self.path, position=position)
            want = got
        first = <const uint8_t *>PyBytes_AS_STRING(data)
        p = first
        end = p + want
        seen = header.base_offset - 1
        status = OK
        with nogil:
            # Behind the end that was published there may be half a batch: nothing of it is looked at.
            while p < end and seen + 1 < end_offset:
                status = parse_header(p, end, &header)
                if status == OK and header.size > end - p:
                    status = SHORT
                if status == SHORT and p > first:
                    # The byte limit, or the end that was published, cuts here.
                    status = OK
                    break
                if status == OK and header.base_offset >= end_offset:
                    break
                if status == OK and batch_crc(p, header.size) != header.crc:
                    status = BAD_CRC
                if status == OK and (
                        header.base_offset <= seen or (limit >= 0 and last_offset_of(&header) >= limit)):
                    status = BAD_OFFSET
                if status != OK:
                    break
                if header.base_offset > seen + 1:
                    # Behind a gap: the next search looks at it more closely.
                    break
                seen = last_offset_of(&header)
                next_offset = seen + 1
                p += header.size
        if status != OK:
            raise_batch_status(status, p, end, self.path,
                               position + (p - first))
        want = p - first
        # The CRC does not cover base offsets, so the last one is held against the segment's end.
        if position + want == bound == self.size and self.next_offset >= 0 and (
                next_offset > self.next_offset or (next_offset < self.next_offset and not self.sealed)):
            raise CorruptRecordError(
                f"the last batch ends at offset {next_offset - 1}, the segment at {self.next_offset - 1}",
                path=self.path, position=position)
        if want != len(data):
            data = data[:want]
        return data, position, next_offset

    def record_at(self, int64_t offset, name, int64_t limit):
        """The record at ``offset``, with no more of its batch than itself, or None.

        None if the batch that the index names does not hold it, if it is a control record, or if a
        compaction has taken it: `read` then says which. ``name`` is (topic, partition), ``limit``
        bounds a decompressed batch.

        Raises:
            CorruptRecordError: the batch is damaged; names file and position.
        """
        cdef uint8_t window[WINDOW_BYTES]
        cdef BatchHeader header
        cdef RecordView view
        cdef Record record
        cdef bytes data
        cdef const uint8_t *p
        cdef const uint8_t *begin
        cdef const uint8_t *end
        cdef const uint8_t *own
        cdef int64_t bound = self.size, got = 0, named = -1, position, room = 0, start = 0
        cdef int32_t left
        cdef FileOps *ops = &self.file.files.ops
        cdef int status, fd
        position = self._candidate(offset, bound, &named, &room)
        if position >= 0:
            room = min(max(room, <int64_t>HEADER_BYTES), min(<int64_t>WINDOW_BYTES, bound - position))
            fd = self.file.acquire()
            self.file.files.calls[OP_PREADV] += 1
            with nogil:
                got = read_upto(ops, fd, window, room, position)
            self.file.release()
            raise_status(got, "read", self.path, position)
            start = position
        else:
            position = self._find(offset, bound, window, WINDOW_BYTES, &start, &got)
            if position < 0:
                return None
        p = window + (position - start)
        got -= position - start
        if (parse_header(p, p + got, &header) != OK or header.attributes & CONTROL_FLAG
                or not holds(&header, offset, named, bound - position, self.next_offset)):
            return None
        if header.size > got:
            data = self.file.read(position, <Py_ssize_t>header.size)
            p = <const uint8_t *>PyBytes_AS_STRING(data)
            if PyBytes_GET_SIZE(data) < header.size:
                return None
        if batch_crc(p, header.size) != header.crc:
            raise_batch_status(BAD_CRC, p, p + header.size, self.path, position)
        end = p + header.size
        if header.attributes & CODEC_MASK:
            data = payload_of(p, &header, limit)
            p = <const uint8_t *>PyBytes_AS_STRING(data)
            end = p + PyBytes_GET_SIZE(data)
        else:
            p += HEADER_BYTES
        left = header.record_count
        if left == header.last_offset_delta + 1:
            # None is missing, so the ones before it are only stepped over.
            left = skip_records(&p, end, <int32_t>(offset - header.base_offset))
        while True:
            begin = p
            status = next_record(&p, end, header.base_offset, header.base_timestamp, &view)
            left -= 1
            if status != OK or view.offset >= offset or left <= 0:
                break
        if status != OK or view.offset != offset or left < 0:
            return None
        # Only its own bytes are kept, not those of the whole batch.
        record = Record.__new__(Record)
        data = PyBytes_FromStringAndSize(<const char *>begin, <Py_ssize_t>(view.end - begin))
        own = <const uint8_t *>PyBytes_AS_STRING(data)
        record._owner = data
        record._key = own + (view.key - begin)
        record._key_size = view.key_size
        record._value = own + (view.value - begin)
        record._value_size = view.value_size
        record._headers = own + (view.headers - begin)
        record._end = own + (view.end - begin)
        if view.headers[0] == 0:
            record._headers_object = ()
        record.topic, record.partition = name
        record.offset = offset
        record._timestamp_type = (header.attributes & APPEND_TIME_FLAG) != 0
        record.timestamp_ms = header.max_timestamp if record._timestamp_type else view.timestamp
        return record

    def offset_for_time(self, int64_t timestamp_ms):
        """Position to begin looking for the first record with at least that timestamp, or None.

        None: no record of this segment is that new.
        """
        cdef int64_t entry
        cdef uint8_t window[HEADER_BYTES]
        cdef BatchHeader header
        cdef int64_t start = 0, got = 0, position, named, offset
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
        # The batch that the entry names must have its timestamp; a wrong entry could skip records. By
        # now the entries may be others: the search makes them anew where it finds a wrong one.
        position = self._find(offset, self.size, window, HEADER_BYTES, &start, &got)
        if position >= 0:
            parse_header(window + (position - start), window + got, &header)
            if header.max_timestamp == named and last_offset_of(&header) == offset:
                return header.base_offset
        self._rebuild()
        return self.base_offset

    # -- scanning --------------------------------------------------------------------------------

    def headers(self, int64_t position=0):
        """Yield (base offset, last offset, position, size, max timestamp, leader epoch) of each batch."""
        cdef int64_t seen = self.base_offset - 1
        while position < self.size:
            data = self.file.read(position, HEADER_BYTES)
            base, last, size, max_timestamp, epoch = _header_fields(data, self.path, position)
            # A header that is whole says nothing about the batch behind it: the file may end inside.
            if size > self.size - position:
                raise CorruptRecordError(
                    f"the batch at base offset {base} takes {size} bytes, the file ends after "
                    f"{self.size - position}", path=self.path, position=position)
            if base <= seen:
                raise CorruptRecordError(f"base offset {base} does not rise over offset {seen}",
                                         path=self.path, position=position)
            seen = last
            yield base, last, position, size, max_timestamp, epoch
            position += size

    def extend(self, int64_t end_offset):
        """Take batches that another process has appended, up to an end that it has published.

        For readers beside a writer's process. Ends early where the file does not hold that much.
        """
        cdef int64_t position, got, file_bytes
        cdef BatchHeader header
        cdef uint8_t window[HEADER_BYTES]
        cdef FileOps *ops = &self.file.files.ops
        cdef int status, fd
        if not self._ready:
            # The index that the writer has saved leads near the end; what is wrong in it is left out.
            self._start_from_saved_index(end_offset)
        position = self.size
        # A header that is whole says nothing about the batch behind it: the file may end inside.
        file_bytes = self.file.size() if self.next_offset < end_offset else 0
        fd = self.file.acquire()
        try:
            while self.next_offset < end_offset:
                with nogil:
                    got = read_upto(ops, fd, window, HEADER_BYTES, position)
                    status = parse_header(window, window + max(got, <int64_t>0), &header)
                raise_status(got, "read", self.path, position)
                if (status != OK or header.base_offset < self.next_offset
                        or last_offset_of(&header) >= end_offset or header.size > file_bytes - position):
                    break
                if header.base_offset > self.next_offset and check_gap(ops, fd, &header, position, INT64_MAX) != OK:
                    break
                self._note(window, position)
                position += header.size
                self.next_offset = last_offset_of(&header) + 1
                self.size = position
        finally:
            self.file.release()

    def _start_from_saved_index(self, int64_t end_offset):
        cdef int64_t entry, position
        file_bytes = self.file.size()
        self.size = 0
        self.next_offset = self.base_offset
        self._ready = True
        index, times = OffsetIndex(), TimeIndex()
        try:
            self._load_one(index, ".index")
            self._load_one(times, ".timeindex")
        except StorageError:
            return
        if not index.is_sound(file_bytes) or not times.is_sound():
            return
        self.index, self.times = index, times
        entry = self.index.floor_entry(end_offset - 1 - self.base_offset)
        if entry < 0:
            self.index, self.times = OffsetIndex(), TimeIndex()
            return
        position = self.index.position_at(entry)
        named = self.base_offset + self.index.offset_at(entry)
        data = self.file.read(position, HEADER_BYTES)
        try:
            _, last, size, _, _ = _header_fields(data, self.path, position)
        except RecordError:
            last = -1
        if last != named or size > file_bytes - position:
            self.index, self.times = OffsetIndex(), TimeIndex()
            return
        self.index.cut(entry + 1)
        self.times.cut_to(named + 1 - self.base_offset)
        self.size = position + size
        self.next_offset = named + 1
        try:
            self._measure_times()
        except RecordError:
            # Damage on the way: who reads there, or asks for a time, is told. The rest can be read, by
            # the entries of the file, which lead behind it.
            self.index, self.times, self.max_timestamp_ms = index, times, -1

    def begins_batch(self, int64_t position, int64_t offset):
        """Whether a batch with that base offset has its header at a position."""
        cdef BatchHeader header
        cdef bytes data = self.file.read(position, HEADER_BYTES)
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
        return parse_header(p, p + len(data), &header) == OK and header.base_offset == offset

    def ends_at(self, int64_t offset):
        """Whether the last batch of the file ends right before an offset."""
        next_offset, position = self.base_offset, 0
        try:
            for _, last, at, size, _, _ in self.headers(self.indexed_floor(offset)):
                next_offset, position = last + 1, at + size
        except RecordError:
            return False
        return next_offset == offset and position == self.size

    def indexed_floor(self, int64_t offset):
        """Position of a batch that ends below an offset, near it if the index is sound; 0 if none is known."""
        cdef int64_t entry, named
        cdef OffsetIndex index
        self._load_indexes()
        index = self.index
        entry = index.floor_entry(offset - 1 - self.base_offset)
        while entry >= 0:
            position = index.position_at(entry)
            named = self.base_offset + index.offset_at(entry)
            try:
                for _, last, _, _, _, _ in self.headers(position):
                    if last == named:
                        return position
                    break
            except RecordError:
                # The entry is wrong or the log is: whoever walks there from an earlier one will see.
                pass
            entry -= 1
        return 0

    def set_end(self, int64_t next_offset):
        """Tell where a sealed segment ends, which its own last batch need not reach."""
        self.next_offset = next_offset

    def position_of(self, int64_t offset):
        """Position of the batch that holds or follows ``offset``; the size if there is none."""
        cdef uint8_t window[HEADER_BYTES]
        cdef int64_t start = 0, got = 0
        position = self._find(offset, self.size, window, HEADER_BYTES, &start, &got)
        return self.size if position < 0 else position

    def scan(self, int64_t position=0, *, int64_t next_offset=-1, int64_t end=-1, bint check=True,
             bint adopt=False):
        """Walk the batches from ``position`` to the end of the file; an `Extent` says what is whole.

        At the top of the loop the bytes below the cursor are batches with good headers (and, with
        ``check``, good checksums) whose offsets rise from ``next_offset`` and end below the extent's
        next offset. ``adopt`` makes the extent the segment's own: size, next offset, indexes and
        times are set from it. Memory does not grow with the batches.

        Raises:
            StorageError: a read failed, which is never taken for the end of the file.
        """
        cdef Extent extent = Extent()
        cdef FileOps *ops = &self.file.files.ops
        cdef BatchHeader header
        cdef int status = OK, fd, producing = 0
        cdef int64_t file_bytes = self.file.size() if end < 0 else end
        cdef int64_t start = position, got = 0, done, part
        cdef int64_t room = min(<int64_t>CHUNK_BYTES, max(file_bytes - position, <int64_t>HEADER_BYTES))
        cdef uint32_t crc
        cdef int32_t epoch = -2
        cdef uint8_t *window = <uint8_t *>malloc(<size_t>room)
        cdef uint8_t *spill = NULL
        if window == NULL:
            raise MemoryError
        if next_offset < 0:
            next_offset = self.base_offset
        extent.file_bytes = file_bytes
        extent.max_timestamp_ms = -1
        extent.produced = []
        extent.epochs = []
        if adopt:
            if position == 0:
                self.index = OffsetIndex()
                self.times = TimeIndex()
                self.max_timestamp_ms = -1
                self.max_timestamp_offset = self.base_offset
                self.first_timestamp_ms = -1
                self._unindexed = 0
                self._ready = True
            else:
                self.size = position
                self.next_offset = next_offset
                self._load_indexes()
                self._measure_times()
        fd = self.file.acquire()
        try:
            while position < file_bytes:
                with nogil:
                    producing = 0
                    while position < file_bytes:
                        if got == 0 or position + HEADER_BYTES > start + got:
                            start = position
                            got = read_upto(ops, fd, window, min(room, file_bytes - position), position)
                            if got < 0:
                                break
                        status = parse_header(window + (position - start), window + got, &header)
                        if status == OK and header.size > file_bytes - position:
                            status = SHORT
                        if status == OK and (header.base_offset < next_offset
                                             or last_offset_of(&header) - self.base_offset > INT32_MAX):
                            status = BAD_OFFSET
                        if status == OK and header.base_offset > next_offset:
                            status = check_gap(ops, fd, &header, position, file_bytes)
                        if status != OK:
                            break
                        if check:
                            if position + header.size > start + got and start != position:
                                start = position
                                got = read_upto(ops, fd, window, min(room, file_bytes - position), position)
                                if got < 0:
                                    break
                            if position + header.size <= start + got:
                                crc = batch_crc(window + (position - start), header.size)
                            else:
                                # A batch larger than the window: its sum is taken part by part, behind
                                # the header, which stays for what follows.
                                crc = logstore_crc32c(0, window + CHECKED_FROM, <size_t>(got - CHECKED_FROM))
                                done = got
                                if spill == NULL:
                                    spill = <uint8_t *>malloc(CHUNK_BYTES)
                                    if spill == NULL:
                                        got = -12
                                        break
                                while done < header.size:
                                    part = min(<int64_t>CHUNK_BYTES, header.size - done)
                                    part = read_upto(ops, fd, spill, part, position + done)
                                    if part <= 0:
                                        break
                                    crc = logstore_crc32c(crc, spill, <size_t>part)
                                    done += part
                                if done < header.size:
                                    got = part if part < 0 else -5
                                    break
                            if crc != header.crc:
                                status = BAD_CRC
                                break
                        producing = header.producer_id >= 0 or header.leader_epoch != epoch or adopt
                        if producing:
                            break
                        self._count(extent, &header)
                        next_offset = last_offset_of(&header) + 1
                        position += header.size
                if got < 0:
                    raise_status(got, "read", self.path, position)
                if status != OK or not producing:
                    break
                if header.leader_epoch != epoch:
                    epoch = header.leader_epoch
                    extent.epochs.append((epoch, header.base_offset))
                if header.producer_id >= 0:
                    extent.produced.append(self._produced(window + (position - start), &header,
                                                          start + got - position, position))
                if adopt:
                    self._note(window + (position - start), position)
                self._count(extent, &header)
                next_offset = last_offset_of(&header) + 1
                position += header.size
            extent.valid_bytes = position
            extent.next_offset = next_offset
            if status != OK:
                try:
                    if status == BAD_CRC:
                        raise CorruptRecordError(
                            f"CRC-32C of the batch at base offset {header.base_offset} "
                            "does not fit its bytes",
                            path=self.path, position=position)
                    raise_batch_status(status, window + (position - start), window + got, self.path, position)
                except Exception as error:
                    extent.problem = str(error)
                    extent.error = error
        finally:
            self.file.release()
            free(window)
            free(spill)
        if adopt:
            self.size = extent.valid_bytes
            self.next_offset = extent.next_offset
        return extent

    cdef void _count(self, Extent extent, const BatchHeader *header) noexcept nogil:
        extent.batch_count += 1
        extent.record_count += header.record_count
        if header.max_timestamp > extent.max_timestamp_ms:
            extent.max_timestamp_ms = header.max_timestamp

    cdef object _produced(self, const uint8_t *p, const BatchHeader *header, int64_t at_hand,
                          int64_t position):
        """One entry of Extent.produced; a marker that is not at hand is read for its few bytes."""
        cdef bytes small
        cdef object marker = None
        cdef int32_t coordinator_epoch = -1
        cdef int32_t last_sequence = -1
        if header.base_sequence >= 0:
            last_sequence = <int32_t>((<int64_t>header.base_sequence + header.last_offset_delta) & 0x7FFFFFFF)
        if header.attributes & CONTROL_FLAG:
            if at_hand < header.size:
                small = self.file.read(position, <Py_ssize_t>min(header.size, <int64_t>CHUNK_BYTES))
                p = <const uint8_t *>PyBytes_AS_STRING(small)
                at_hand = len(small)
            if at_hand >= header.size:
                found = marker_of(p, header)
                if found is not None:
                    marker, coordinator_epoch = found
        return (header.base_offset, last_offset_of(header), header.producer_id, header.producer_epoch,
                header.base_sequence, last_sequence, header.max_timestamp,
                (header.attributes & TRANSACTIONAL_FLAG) != 0, (header.attributes & CONTROL_FLAG) != 0,
                marker, coordinator_epoch)

    def release(self):
        """Give back the room that was taken ahead of the end.

        Raises:
            StorageError: the file system refused; nothing has changed.
        """
        self._growth.release(self.file, self.size)

    def close(self):
        """Let go of the file."""
        self.file.close()

    def __repr__(self):
        return (f"<Segment {self.base_offset}..{self.next_offset - 1}, {self.size} bytes"
                f"{', sealed' if self.sealed else ''}>")


cdef _header_fields(bytes data, str path, int64_t position):
    cdef BatchHeader header
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    raise_batch_status(parse_header(p, p + len(data), &header), p, p + len(data), path, position)
    return header.base_offset, last_offset_of(&header), header.size, header.max_timestamp, header.leader_epoch
