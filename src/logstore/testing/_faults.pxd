# cython: language_level=3
"""Planned faults, for other compiled tests; see `_faults.pyx`."""

from libc.stdint cimport int64_t

from logstore.io._file_ops cimport OP_COUNT, Call, FileOps
from logstore.io._files cimport Files

cdef struct Verdict:                # what is done with one call
    bint is_made                    # the call is passed to the wrapped table
    int error                       # errno that is returned instead of success; 0: none
    int64_t part                    # the most bytes that the call transfers


cdef class FaultyFiles(Files):
    cdef FileOps _behind            # makes the calls that do not fail
    cdef list _plans
    cdef public bint spares         # the plans wait
    cdef list _events               # None: calls are not recorded
    cdef dict _paths                # of the open descriptors
    cdef int64_t _counts[OP_COUNT]
    cdef int64_t _delays_ns[OP_COUNT]
    cdef int64_t _changes
    cdef bytes _held                # calls on files whose path contains it wait; None: no call waits
    cdef int _held_op               # the operation whose calls wait
    cdef unsigned long _held_thread  # only those of this thread; 0: those of every thread
    cdef int64_t _waiting
    cdef int64_t _releases
    cdef unsigned long _watched     # a thread whose calls are counted; 0: none
    cdef int64_t _watched_calls
    cdef int64_t _answer(self, const Call *call) except? -1
    cdef int _wait(self, int op, bytes path) except -1
    cdef int _hold(self, int op, str path_contains, unsigned long thread) except -1
    cdef Verdict _decide(self, const Call *call, bytes path, bytes new_path) except *
    cdef int64_t _pass_on(self, const Call *call) except? -1
    cdef int _lose(self, const Call *call) except -1
