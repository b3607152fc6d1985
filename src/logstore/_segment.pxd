# cython: language_level=3
"""One segment as other compiled modules see it; `_segment.pyx` says what it answers for."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from logstore._batch cimport BatchHeader
from logstore._files cimport File, Files
from logstore._growth cimport Growth
from logstore._index cimport OffsetIndex, TimeIndex


cdef class Slice:
    cdef readonly File file
    cdef int _fd
    cdef readonly int64_t position
    cdef readonly int64_t size
    cdef readonly int64_t base_offset
    cdef readonly int64_t next_offset
    cdef int _usable(self, int64_t start) except -1
    cdef object _sent(self, int64_t start, int64_t done, int64_t status)


cdef class Extent:
    cdef readonly int64_t valid_bytes
    cdef readonly int64_t next_offset
    cdef readonly int64_t file_bytes
    cdef readonly int64_t batch_count
    cdef readonly int64_t record_count
    cdef readonly int64_t max_timestamp_ms
    cdef readonly list produced
    cdef readonly list epochs
    cdef readonly str problem
    cdef readonly object error


cdef class Segment:
    cdef readonly int64_t base_offset
    cdef readonly File file
    cdef readonly str path
    cdef readonly OffsetIndex index
    cdef readonly TimeIndex times
    cdef readonly int64_t size
    cdef readonly int64_t next_offset
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t first_timestamp_ms
    cdef readonly bint sealed
    cdef public bint index_stale
    cdef int32_t _interval
    cdef Growth _growth
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
    cdef int _cut_back(self, int status) except -1
    cdef void _count(self, Extent extent, const BatchHeader *header) noexcept nogil
    cdef object _produced(self, const uint8_t *p, const BatchHeader *header, int64_t at_hand,
                          int64_t position)
