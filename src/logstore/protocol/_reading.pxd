"""Decoding of messages from bytes, by the descriptions of their fields."""

from libc.stdint cimport int64_t, uint8_t

from logstore.protocol._fields cimport Struct


cdef class Reader:
    cdef Py_buffer _buffer
    cdef bint _held
    cdef object _source
    cdef object _view
    cdef const uint8_t *start
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef int version
    cdef bint flexible
    cdef int64_t items_left       # of arrays, that may still be read


cdef object read_struct(Reader r, const Struct *s)
cdef object malformed(Reader r, str name, str problem)
cdef int64_t unsigned_varint(Reader r, str name) except -1
cdef int64_t integer(Reader r, str name, int size) except? -1
cdef object plain_old_string(Reader r, str name)
cdef int skip_tags(Reader r) except -1
