"""Fields of messages, read from bytes: numbers, strings, arrays, structs and tagged fields.

A function fills the slot of a field; the name of the field is for errors. So the generated code has one call for
each field, which keeps its C small. `_messages` knows the positions of the slots.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t


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


ctypedef object (*ReadStruct)(Reader)

cdef int put(PyObject **slot, object value) except -1
cdef object malformed(Reader r, str name, str problem)
cdef int64_t unsigned_varint(Reader r, str name) except -1
cdef int read_number(Reader r, PyObject **slot, str name, int size, bint is_signed) except -1
cdef int read_bool(Reader r, PyObject **slot, str name) except -1
cdef int read_float64(Reader r, PyObject **slot, str name) except -1
cdef object uuid_of(Reader r)
cdef int read_uuid(Reader r, PyObject **slot, str name) except -1
cdef int read_string(Reader r, PyObject **slot, str name, bint nullable) except -1
cdef int read_bytes(Reader r, PyObject **slot, str name, bint nullable) except -1
cdef int read_records(Reader r, PyObject **slot, str name, bint nullable) except -1
cdef int read_strings(Reader r, PyObject **slot, str name, bint nullable) except -1
cdef int read_numbers(Reader r, PyObject **slot, str name, bint nullable, int size) except -1
cdef int read_structs(Reader r, PyObject **slot, str name, bint nullable, ReadStruct item) except -1
cdef int read_struct(Reader r, PyObject **slot, str name, bint nullable, ReadStruct item) except -1
cdef int64_t integer(Reader r, str name, int size) except? -1
cdef object plain_old_string(Reader r, str name)
cdef int64_t tag_count(Reader r) except -1
cdef int64_t enter_tag(Reader r, const uint8_t **outer) except -1
cdef int leave_tag(Reader r, const uint8_t *outer) except -1
cdef int skip_tags(Reader r) except -1
