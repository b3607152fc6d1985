# cython: language_level=3
"""Counts of a topic, as other compiled modules see them; `_counts.pyx` describes them."""

from libc.stdint cimport int64_t


cdef class TopicCounts:
    cdef public int64_t fetches             # of one partition each
    cdef public int64_t failed_fetches
    cdef public int64_t bytes_out
    cdef public int64_t failed_produces     # of one partition each
