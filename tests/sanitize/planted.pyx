# cython: language_level=3
"""Faults on purpose, built like the core where the sanitizers are on: they have to be reported.

Never part of a wheel: `setup.py` compiles this with LOGSTORE_BUILD_SANITIZE only.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc


cdef extern from "<sched.h>" nogil:
    int sched_yield()


cdef int32_t _shift(int32_t value, int32_t by) noexcept nogil:
    return value << by


cdef int32_t _sum(int32_t a, int32_t b) noexcept nogil:
    return a + b


def write_behind(int64_t size):
    """Write one byte behind an allocation."""
    cdef uint8_t *memory = <uint8_t *>malloc(<size_t>size)
    memory[size] = 1                     # the heap overflow
    last = memory[size]
    free(memory)
    return last


def read_behind(bytes data not None):
    """Read behind a bytes object, whose last byte is the NUL that Python adds."""
    cdef const uint8_t *p = data
    return p[len(data) + 1]              # the overread


def read_freed(int64_t size):
    cdef uint8_t *memory = <uint8_t *>malloc(<size_t>size)
    memory[0] = 7
    free(memory)
    return memory[0]                     # the use after free


def shift(int32_t by):
    return _shift(1, by)


def add(int32_t a, int32_t b):
    return _sum(a, b)


def read_unaligned(bytes data not None):
    cdef const uint8_t *p = data
    cdef int i = 1 if <int64_t>p % 8 == 0 else 0
    return (<const int64_t *>(p + i))[0]


cdef int64_t _shared = 0


def add_unguarded(int64_t count):
    """Add to a number to which other threads add too, without the GIL and without a lock."""
    global _shared
    cdef int64_t i
    with nogil:
        for i in range(count):
            _shared += i                 # the data race
            sched_yield()                # so that the threads meet here
    return _shared
