# cython: language_level=3
"""libc as a table of file operations, defined in `_libc.pyx`."""

from logstore.io._file_ops cimport FileOps

cdef void set_libc(FileOps *ops) noexcept
