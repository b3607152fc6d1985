# cython: language_level=3
"""Segment file with its indexes, as other compiled modules see it; `_indexed.pyx` describes it."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from logstore.batch._batch cimport BatchHeader
from logstore.io._files cimport File, FileOps
from logstore._index cimport OffsetIndex, TimeIndex

cdef enum:
    WINDOW_BYTES = 16_384         # bytes that a search reads at once: an index interval and a batch

cdef int check_gap(FileOps *ops, int fd, const BatchHeader *header, int64_t expected, int64_t position,
                   int64_t bound) noexcept nogil
cdef int check_sum(FileOps *ops, int fd, int64_t position, int64_t bound) noexcept nogil
cdef object header_fields(bytes data, str path, int64_t position)


cdef class Indexed:
    cdef readonly int64_t base_offset
    cdef readonly File file
    cdef readonly OffsetIndex index
    cdef readonly TimeIndex times
    cdef readonly int64_t size
    cdef readonly int64_t next_offset
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t first_timestamp_ms
    cdef readonly bint sealed
    cdef public bint index_stale
    cdef readonly bint joined
    cdef int32_t _interval
    cdef int64_t _unindexed
    cdef bint _ready
    cdef int _load_indexes(self) except -1
    cdef int _rebuild(self) except -1
    cdef int _rebuild_hint(self) except -1
    cdef int _hop(self, int64_t position, int64_t bound) except -1
    cdef int64_t _find(self, int64_t offset, int64_t bound, uint8_t *window, int64_t room, int64_t *start,
                       int64_t *got) except -2
    cdef int64_t _candidate(self, int64_t offset, int64_t bound, int64_t *named, int64_t *room) except -2
    cdef int64_t _walk(self, int64_t offset, int64_t position, int64_t bound, uint8_t *window, int64_t room,
                       int64_t *start, int64_t *got) except -2
    cdef int _note(self, const uint8_t *p, int64_t position) except -1
