# cython: language_level=3
"""A run of replicated batches; `_replicated_run.pyx` describes it."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from logstore.batch._batch cimport BatchHeader


cdef struct ReplicatedBatch:      # what the header of one batch says
    int64_t position              # in the run
    int64_t size
    int64_t base_offset
    int64_t last_offset
    int64_t newest                # timestamp
    int64_t producer_id           # -1: none
    int32_t record_count
    int32_t leader_epoch
    int32_t producer_epoch
    int32_t base_sequence
    int32_t last_sequence
    int16_t attributes


cdef class ReplicatedRun:
    cdef Py_buffer _view
    cdef bint _holds
    cdef ReplicatedBatch *_batches
    cdef Py_ssize_t _capacity
    cdef readonly object bytes          # of the whole run
    cdef readonly Py_ssize_t count      # of the good batches
    cdef readonly Py_ssize_t taken      # of these, written
    cdef readonly object error          # of the first bad batch; None: all are good
    cdef readonly dict markers          # of control batches, by number: (`Marker`, coordinator epoch)
    cdef int _check(self) except -1
    cdef int _check_header(self, const uint8_t *p, const BatchHeader *header, int64_t next_offset, int32_t epoch,
                           int64_t position) except -1
    cdef int _keep(self, const BatchHeader *header, int64_t position) except -1
