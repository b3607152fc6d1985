# cython: language_level=3
"""libc as a table of file operations, defined in `_libc.pyx`."""

from libc.stdint cimport int64_t

from logstore.io._file_ops cimport Call

cdef int64_t call_libc(void *context, const Call *call) noexcept nogil
