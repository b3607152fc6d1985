# cython: language_level=3
"""Columns for other compiled modules; `_export.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.columns._arrow cimport ArrowSchema
from logstore.columns._builder cimport Layout, Table


cdef class ColumnBatch:
    cdef Table *_table
    cdef Layout _layout


cdef bytes format_of_column(int column, Layout layout)
cdef int set_schema(ArrowSchema *out, const char *name, const char *format, int64_t flags,
                    int64_t children) except -1
