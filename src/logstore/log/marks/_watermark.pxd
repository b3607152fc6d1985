# cython: language_level=3
"""Offsets that can be waited for, as other compiled modules see them; `_watermark.pyx` describes them."""

from libc.stdint cimport int64_t

from cpython.object cimport PyObject

from logstore.io._notifier cimport Notifier

cdef extern from "pythread.h":
    ctypedef void *PyThread_type_lock


cdef class Registration:
    cdef readonly Watermark mark
    cdef readonly Notifier notifier
    cdef int64_t _wanted
    cdef Py_ssize_t _place              # in the heap of the watermark; -1: the notifier waits for nothing
    cpdef bint arm_for(self, int64_t wanted) except -1
    cpdef bint arm_while(self, int64_t value) except -1


cdef class Watermark:
    cdef readonly int64_t value         # only advance and reset set it, and it falls only by reset
    cdef object _clock
    cdef LogLock _lock                  # guards the mark, and notifies once it is released; None: notified at once
    cdef int64_t _lowest                # wanted by any waiter; INT64_MAX: there is none
    cdef bint _all                      # waiters are due: the offset fell, or the watermark was closed
    cdef bint _closed
    cdef PyObject **_heap               # of Registration, not counted: each removes itself; the lowest wanted first
    cdef Py_ssize_t _count
    cdef Py_ssize_t _capacity
    cpdef bint advance(self, int64_t value) except -1
    cdef int _owe(self) except -1
    cdef int _notify_due(self) except -1
    cdef int _add(self, Registration waiter, int64_t wanted) except -1
    cdef void _remove(self, Registration waiter) noexcept
    cdef void _sift(self, Registration waiter, Py_ssize_t place) noexcept


cdef class LogLock:
    cdef PyThread_type_lock _lock
    cdef bint _is_held
    cdef list _due                      # marks whose waiters are to be notified; None: there are none
    cpdef bint acquire(self, bint blocking=*, double timeout=*) except -1
    cdef bint _wait(self, double timeout) except -1
    cpdef release(self)
