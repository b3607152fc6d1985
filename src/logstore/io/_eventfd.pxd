# cython: language_level=3
"""The eventfd, as other compiled modules see it; `_eventfd.pyx` describes it."""


cdef class EventFd:
    cdef int _fd
    cdef void set(self) noexcept
    cdef void clear(self) noexcept
