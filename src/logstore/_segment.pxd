# cython: language_level=3
"""Segment, as other compiled modules see it; `_segment.pyx` describes it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from logstore._segment_index cimport SegmentIndex
from logstore._segment_scan cimport Damage
from logstore.batch._batch cimport Record
from logstore.batch._checked_batches cimport Checked
from logstore.io._files cimport File
from logstore.io._preallocation cimport Growth


cdef enum:
    BATCH_ENDS = 8                # a power of two

cdef struct BatchEnd:              # where a region ended: the place of the batch behind it
    uint64_t owner                # of the file's bytes, as in the table of checked batches; 0: none
    int64_t offset
    int64_t position
    int64_t size


cdef class Segment:
    cdef readonly File file
    cdef readonly int64_t base_offset
    cdef readonly SegmentIndex index
    cdef Growth _growth
    cdef Damage _damage
    cdef BatchEnd _ends[BATCH_ENDS]
    cdef int64_t put(self, uint8_t *data, int64_t size, int64_t next_offset, int32_t leader_epoch) except -1
    cdef int64_t _take(self, uint8_t *out, int64_t size, int64_t position) except -1
    cdef int _cut_back(self, int status) except -1
    cdef Record find_record(self, int64_t offset, bint committed, object name, int64_t limit)
    cdef Record _known_record(self, Checked *known, int64_t position, int64_t offset, bint committed, object name,
                              uint8_t *space)
