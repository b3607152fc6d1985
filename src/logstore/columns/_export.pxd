# cython: language_level=3
"""Columns for other compiled modules; `_export.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.columns._arrow cimport ArrowSchema
from logstore.columns._builder cimport Decoder, Table


cdef class ColumnBatch:
    cdef Table *_table
    cdef tuple _names
    cdef Decoder _decoder
    cdef bint _views                      # asked for, whether or not there is a column to hand out so
    cdef bint _spark                      # in Spark's types


cdef int set_schema(ArrowSchema *out, const char *name, const char *format, int64_t flags,
                    int64_t children) except -1
