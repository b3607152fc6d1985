# cython: language_level=3
"""Two sparse indexes, as the segment uses them; `_index.pyx` shows their bytes."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from logstore.io._files cimport Mapping

cdef enum:
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12


cdef class Entries:
    cdef uint8_t *_memory
    cdef Mapping _mapping
    cdef const uint8_t *data
    cdef int _entry_bytes
    cdef int64_t _capacity
    cdef readonly int64_t count
    cdef readonly int64_t saved          # entries that the file holds
    cdef int _drop_padding(self) except -1
    cdef int _grow(self, int64_t capacity) except -1
    cdef uint8_t *_append(self) except NULL
    cdef int cut(self, int64_t count) except -1


cdef class OffsetIndex(Entries):
    cdef int add(self, int32_t relative_offset, int32_t position) except -1
    cdef int64_t floor_entry(self, int64_t relative_offset) noexcept nogil
    cdef int64_t last_by(self, int64_t position) noexcept nogil
    cdef int32_t offset_at(self, int64_t entry) noexcept nogil
    cdef int32_t position_at(self, int64_t entry) noexcept nogil


cdef class TimeIndex(Entries):
    cdef int add(self, int64_t timestamp, int32_t relative_offset) except -1
    cdef int64_t below(self, int64_t timestamp) noexcept nogil
    cdef int64_t timestamp_at(self, int64_t entry) noexcept nogil
    cdef int32_t offset_at(self, int64_t entry) noexcept nogil
