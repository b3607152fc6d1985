"""Encoding of messages as bytes, by the descriptions of their fields."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from logstore.protocol._fields cimport Struct


cdef class Writer:
    cdef PyObject *_bytes
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int version
    cdef bint flexible
    cdef int reserve(self, Py_ssize_t more) except -1
    cdef int _resize(self, Py_ssize_t capacity) except -1
    cdef bytes taken(self)


cdef int write_struct(Writer w, const Struct *s, object v) except -1
cdef int plain_number(Writer w, int64_t value, int size) except -1
cdef int plain_old_text(Writer w, object value, str name) except -1
