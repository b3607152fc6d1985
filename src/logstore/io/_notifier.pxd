# cython: language_level=3
"""Notifiers, as other compiled modules see them; `_notifier.pyx` describes them."""

from logstore.io._eventfd cimport EventFd


cdef class NotifierGroup:
    cdef EventFd _event
    cdef list _notified


cdef class Notifier:
    cdef object _clock
    cdef NotifierGroup _group           # None: it wakes a thread
    cdef object _bell                   # a lock, held but while it wakes the waiter
    cdef object _changed                # a Condition, where a clock other than the machine's waits
    cdef bint _notified                 # since the last wait
    cdef bint _waits
    cdef object _gate                   # a lock, held but while it tells `notify_first` that the waiter runs
    cdef bint _gives_way                # a thread is in `notify_first`
    cdef object __weakref__
    cpdef bint notify(self) except -1
    cdef bint _take_note(self) except -1
