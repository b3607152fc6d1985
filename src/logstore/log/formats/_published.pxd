# cython: language_level=3
"""The published offsets, as the partition log writes them; `_published.pyx` shows the bytes."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from logstore.io._files cimport File
from logstore.io._shared_block cimport SharedBlock


cdef class PublishedFile:
    cdef File _file
    cdef SharedBlock _shared            # None: appends write
    cdef int32_t _left                  # appends that write until the file is mapped; below 1: it is mapped no more
    cpdef int put(self, uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable,
                  int64_t log_end) except -1
    cpdef bint is_at_hand(self) noexcept
    cdef int _write(self, uint8_t *block, bint then_share) except -1
