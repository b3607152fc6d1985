# cython: language_level=3
"""The alarm of timed work, as other compiled modules see it; `_alarms.pyx` describes it."""

from libc.stdint cimport int64_t


cdef class Alarm:
    cdef readonly double due_s           # inf: nothing is due; -inf: it is never ticked
    cdef readonly object member          # a weak reference
    cdef Alarms _alarms                  # None: it is never ticked
    cpdef int set(self, double due_s) except -1


cdef class Alarms:
    cdef dict _members                   # weak reference -> Alarm
    cdef list _new                       # alarms that were set since the thread looked
    cdef list _heap                      # (due_s, number, Alarm); stale where the alarm has another due_s by now
    cdef int64_t _number
    cdef object _go                      # a lock; its release wakes the thread
    cdef readonly double sleeps_until_s  # of the thread; -inf: it takes what is new before it sleeps
    cdef int _wake(self) except -1
    cdef int _sort_in(self) except -1
