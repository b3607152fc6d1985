# cython: language_level=3
"""Write strategies of a segment's file, as other compiled modules see them; `_preallocation.pyx` describes them."""

from libc.stdint cimport int64_t, uint8_t

from logstore.io._files cimport File, FileOps


cdef class Growth:
    cdef int prepare(self, File file, int fd, int64_t size, int64_t end) except -1
    cdef int put(self, FileOps *ops, int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil
    cdef int was_cut(self, int64_t size) except -1
    cpdef int release(self, File file, int64_t size) except -1


cdef class Preallocate(Growth):
    cdef readonly int64_t reserved
    cdef int64_t _limit
    cdef bint _ahead


cdef class Chunked(Growth):
    cdef readonly int64_t chunk_bytes
