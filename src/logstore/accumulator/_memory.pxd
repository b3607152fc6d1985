# cython: language_level=3
"""The buffer memory, as other compiled modules see it; `_memory.pyx` describes it."""

from libc.stdint cimport int64_t


cdef class BufferMemory:
    cdef readonly int64_t limit
    cdef readonly int64_t reserved
    cdef readonly int64_t waiting        # threads that wait for memory
    cdef object _clock
    cdef object _changed                 # a Condition
    cpdef bint try_reserve(self, int64_t size) except -1
    cpdef int release(self, int64_t size) except -1
