# cython: language_level=3
"""A region of a file, as other compiled modules see it; `_file_region.pyx` describes it."""

from libc.stdint cimport int64_t, uint8_t

from logstore.io._files cimport File


cdef class FileRegion:
    cdef readonly File file
    cdef int _fd
    cdef readonly int64_t position
    cdef readonly int64_t size
    cdef readonly int64_t base_offset
    cdef readonly int64_t next_offset
    cdef object _cut(self, int64_t found)
    cdef int _usable(self, int64_t start) except -1
    cdef object _sent(self, int64_t start, int64_t done, int64_t end, int64_t status)
