# cython: language_level=3
"""Write strategies of a segment's file: extend, preallocate or chunked.

A `Growth` prepares the file for an append, writes its bytes and releases blocks that it reserved
past the end. It never changes a file's contents or size: all strategies leave the same bytes and
the same size, and the same state after a crash. Each belongs to one segment, under the log's lock.
Figures of the three: `docs/decisions/0006-write-strategies.md`.
"""

from libc.errno cimport EINTR, ENOSPC
from libc.stdint cimport INT64_MAX

from logstore.io._files cimport OP_FALLOCATE, Call, write_all

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    """
    enum: FALLOC_FL_KEEP_SIZE

cdef enum:
    FIRST_BYTES = 1 << 18           # smaller segments reserve nothing: most partitions are idle
    LEAST_AHEAD_BYTES = 1 << 18
    MOST_AHEAD_BYTES = 1 << 24


cdef class Growth:
    """Extend: the file grows with each write, by the bytes written."""

    cdef int prepare(self, File file, int fd, int64_t size, int64_t end) except -1:
        """Prepare a write that extends the file from size to end. Never fails: it only makes the write cheaper."""
        return 0

    cdef int put(self, FileOps *ops, int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil:
        """Write all of data at position; return 0, or the negative errno, when an unknown part is written."""
        return write_all(ops, fd, data, size, position)

    cdef int was_cut(self, int64_t size) except -1:
        """Record that the file was truncated to size, which released the reserved blocks."""
        return 0

    cpdef int release(self, File file, int64_t size) except -1:
        """Release the blocks reserved past size, the end of the file.

        Raises:
            StorageError: the file system refused; the file's contents are unchanged.
        """
        return 0


cdef class Preallocate(Growth):
    """Reserve blocks ahead of the end, without changing the size that the file shows.

    It reserves as much as the segment holds, in steps of 256 KiB to 16 MiB. It never reserves past limit_bytes, at
    which the segment is rolled; an idle or small partition reserves none. A file system without support or free
    space is no error: the file then grows as under `Growth`.
    """

    def __cinit__(self, int64_t limit_bytes=INT64_MAX):
        self._limit = limit_bytes

    cdef int prepare(self, File file, int fd, int64_t size, int64_t end) except -1:
        cdef FileOps *ops = &file.files.ops
        cdef Call call
        cdef int64_t start, until, status
        if end <= self.reserved or end < FIRST_BYTES:
            return 0
        start = max(self.reserved, size)
        until = end + min(max(end, <int64_t>LEAST_AHEAD_BYTES), <int64_t>MOST_AHEAD_BYTES)
        until = max(min(until, self._limit), end)
        file.files.calls[OP_FALLOCATE] += 1
        call = Call(OP_FALLOCATE, fd, FALLOC_FL_KEEP_SIZE, -1, NULL, NULL, NULL, until - start, start)
        with nogil:
            status = ops.make(ops.context, &call)
        # On a full disk the write itself reports it; a step later there may be free space.
        self.reserved = until if status == 0 or status == -ENOSPC or status == -EINTR else INT64_MAX
        if status == 0 or status == -ENOSPC or status == -EINTR:
            # A part may have been reserved before the failure.
            self._ahead = True
        return 0

    cdef int was_cut(self, int64_t size) except -1:
        self.reserved = 0
        self._ahead = False
        return 0

    cpdef int release(self, File file, int64_t size) except -1:
        # An earlier process may have left reserved blocks, which this object does not know.
        if self._ahead or (self.reserved == 0 and size >= FIRST_BYTES and file.allocated_bytes() > size + 65_536):
            file.truncate(size)
        self.was_cut(size)
        return 0


cdef class Chunked(Growth):
    """Write in pieces of chunk_bytes, so that the kernel allocates small runs of pages."""

    def __cinit__(self, int64_t chunk_bytes=65_536):
        if chunk_bytes < 4096:
            raise ValueError(f"chunk_bytes: expected at least 4096, found {chunk_bytes}")
        self.chunk_bytes = chunk_bytes

    cdef int put(self, FileOps *ops, int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil:
        cdef int64_t done = 0, part
        cdef int status
        while done < size:
            part = min(self.chunk_bytes, size - done)
            status = write_all(ops, fd, data + done, part, position + done)
            if status < 0:
                return status
            done += part
        return 0
