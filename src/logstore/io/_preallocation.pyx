# cython: language_level=3
"""How a segment's file grows: the write strategies behind one interface.

A `Growth` makes ready for an append, puts its bytes into the file and gives back what it took
ahead. It never changes what a file holds or how long it is: all strategies leave the same bytes
and the same size, and a crash under one is a crash under any. Each belongs to one segment, under
the log's lock. Figures of the three: `docs/decisions/0006-write-strategies.md`.
"""

from libc.errno cimport EINTR, ENOSPC
from libc.stdint cimport INT64_MAX

from logstore.io._files cimport OP_FALLOCATE, write_all

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    """
    enum: FALLOC_FL_KEEP_SIZE

cdef enum:
    FIRST_BYTES = 1 << 18           # a smaller segment takes nothing ahead: most partitions are idle
    LEAST_AHEAD_BYTES = 1 << 18
    MOST_AHEAD_BYTES = 1 << 24


cdef class Growth:
    """Extend: the file grows with each write, by what is written."""

    cdef int prepare(self, File file, int fd, int64_t size, int64_t end) except -1:
        """Before a write that takes the file from size to end. Never fails: it only makes the write cheaper."""
        return 0

    cdef int put(self, FileOps *ops, int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil:
        """Write all of data at position; 0 or the negative errno, when an unknown part is written."""
        return write_all(ops, fd, data, size, position)

    cdef int was_cut(self, int64_t size) except -1:
        """The file was cut to size, and what was taken ahead went with the cut."""
        return 0

    cpdef int release(self, File file, int64_t size) except -1:
        """Give back what was taken ahead of size, the end of the file.

        Raises:
            StorageError: the file system refused; the file holds what it held.
        """
        return 0


cdef class Preallocate(Growth):
    """Reserve blocks ahead of the end, without changing the size that the file shows.

    As much again as the segment holds, in steps of 256 KiB to 16 MiB and not past limit_bytes, at
    which the segment is rolled: a partition that is idle or small takes none. A file system that
    cannot, or has no room, is no error: the file then grows as under `Growth`.
    """

    def __cinit__(self, int64_t limit_bytes=INT64_MAX):
        self._limit = limit_bytes

    cdef int prepare(self, File file, int fd, int64_t size, int64_t end) except -1:
        cdef FileOps *ops = &file.files.ops
        cdef int64_t start, until
        cdef int status
        if end <= self.reserved or end < FIRST_BYTES:
            return 0
        start = max(self.reserved, size)
        until = end + min(max(end, <int64_t>LEAST_AHEAD_BYTES), <int64_t>MOST_AHEAD_BYTES)
        until = max(min(until, self._limit), end)
        file.files.calls[OP_FALLOCATE] += 1
        with nogil:
            status = ops.fallocate(ops.context, fd, FALLOC_FL_KEEP_SIZE, start, until - start)
        # Without room the write itself finds out, and a step later there may be some.
        self.reserved = until if status == 0 or status == -ENOSPC or status == -EINTR else INT64_MAX
        if status == 0 or status == -ENOSPC or status == -EINTR:
            # A part may have been taken before it failed.
            self._ahead = True
        return 0

    cdef int was_cut(self, int64_t size) except -1:
        self.reserved = 0
        self._ahead = False
        return 0

    cpdef int release(self, File file, int64_t size) except -1:
        # A segment that an earlier process left may have a tail that this one did not reserve.
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
