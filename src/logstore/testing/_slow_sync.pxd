# cython: language_level=3
"""Syncs of a set time; see `_slow_sync.pyx`."""

from libc.stdint cimport int64_t

from logstore.io._file_ops cimport FileOps
from logstore.io._files cimport Files

cdef struct SlowSync:
    FileOps behind              # makes all other calls
    int64_t sync_ns
    int64_t write_ns


cdef class SlowSyncFiles(Files):
    cdef SlowSync _slow
