# cython: language_level=3
"""Scan of a segment's file, as other compiled modules see it; `_segment_scan.pyx` describes it."""

from libc.stdint cimport int64_t


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


cdef class Damage:
    cdef int64_t position           # of the last damage met, and of the first valid batch after it
    cdef int64_t goes_on_at
    cdef int64_t searched           # size of the file when no whole batch was found after damage
