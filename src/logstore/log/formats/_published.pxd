# cython: language_level=3
"""The published offsets, as the partition log writes them; `_published.pyx` shows the bytes."""

from libc.stdint cimport int64_t, uint64_t

from logstore.io._files cimport File


cdef class PublishedFile:
    cdef File _file
    cdef int put(self, uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable,
                 int64_t log_end) except -1
