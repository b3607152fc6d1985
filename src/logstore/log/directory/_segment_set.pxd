# cython: language_level=3
"""The segments of an open log, as other compiled modules see them; `_segment_set.pyx` describes them."""

from libc.stdint cimport int32_t, int64_t

from logstore._segment cimport Segment


cdef class SegmentSet:
    cdef public tuple all               # by base offset, the active one last
    cdef readonly int64_t generation    # rises when files are replaced
    cdef readonly int32_t changing      # truncations and segment swaps that are removing files
    cdef readonly int64_t cuts          # truncations since the log was opened; counted when one begins
    cdef Segment _active(self)
    cdef int64_t _moment(self) noexcept
