# cython: language_level=3
"""Rounds of syncs of one log; `_log_rounds.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore._segment cimport Segment
from logstore.log._partition_log cimport PartitionLog
from logstore.log.append._group_commit cimport GroupCommit, Rounds


cdef class LogRounds(Rounds):
    cdef PartitionLog _log
    cdef object _flusher
    cdef Segment _active            # of the running round
    cdef int64_t _target            # the log end offset when it began
    cdef int64_t _position          # the size of the active segment then
    cdef int64_t _generation
    cdef int64_t _unflushed         # records since the round before it
    cdef bint _begin_locked(self) except -1
    cdef bint _has_one_file_locked(self) except -1
    cdef int _sync_active(self) except -1
    cdef int _end_locked(self, GroupCommit commit) except -1
    cdef bint _is_plain_end(self) except -1
    cdef int _raise_recovery_point(self) except -1
