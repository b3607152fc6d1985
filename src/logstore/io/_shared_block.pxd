# cython: language_level=3
"""A block shared with readers, as other compiled modules see it; `_shared_block.pyx` describes it."""

from libc.stdint cimport uint8_t


cdef class SharedBlock:
    cdef uint8_t *_data
    cdef Py_ssize_t _size
    cdef bint store(self, const uint8_t *block) noexcept
    cdef void close(self) noexcept


cdef SharedBlock share(int fd, Py_ssize_t size)
