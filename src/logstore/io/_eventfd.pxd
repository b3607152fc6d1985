# cython: language_level=3
"""The eventfd, as other compiled modules see it; `_eventfd.pyx` describes it."""

cimport cython


@cython.final
cdef class EventFd:
    cdef int _fd
    cpdef void set(self) noexcept
    cpdef void clear(self) noexcept
