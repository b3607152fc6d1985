"""What every message is made of: numbers, strings, arrays, structs and tagged fields as bytes.

Functions that read take the name of the field and set it; functions that write take it and get it: the
generated code is one call a field, which is what keeps its C small.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t


cdef class Reader:
    cdef Py_buffer _buffer
    cdef bint _held
    cdef object _source
    cdef object _view
    cdef const uint8_t *start
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef Py_ssize_t origin
    cdef int version
    cdef bint flexible


cdef class Writer:
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int version
    cdef bint flexible
    cdef int room(self, Py_ssize_t more) except -1
    cdef bytes taken(self)


ctypedef object (*ReadStruct)(Reader)
ctypedef int (*WriteStruct)(Writer, object) except -1

cdef object malformed(Reader r, str name, str problem)

cdef int read_int8(Reader r, object v, str name) except -1
cdef int read_int16(Reader r, object v, str name) except -1
cdef int read_uint16(Reader r, object v, str name) except -1
cdef int read_int32(Reader r, object v, str name) except -1
cdef int read_int64(Reader r, object v, str name) except -1
cdef int read_bool(Reader r, object v, str name) except -1
cdef int read_float64(Reader r, object v, str name) except -1
cdef int read_uuid(Reader r, object v, str name) except -1
cdef int read_string(Reader r, object v, str name, bint nullable) except -1
cdef int read_bytes(Reader r, object v, str name, bint nullable) except -1
cdef int read_records(Reader r, object v, str name, bint nullable) except -1
cdef int read_strings(Reader r, object v, str name, bint nullable) except -1
cdef int read_numbers(Reader r, object v, str name, bint nullable, int size) except -1
cdef int read_structs(Reader r, object v, str name, bint nullable, ReadStruct item) except -1
cdef int read_struct(Reader r, object v, str name, bint nullable, ReadStruct item) except -1
cdef int64_t plain_int16(Reader r, str name) except? -1
cdef int64_t plain_int32(Reader r, str name) except? -1
cdef object plain_old_string(Reader r, str name)
cdef int64_t tag_count(Reader r) except -1
cdef int64_t enter_tag(Reader r, const uint8_t **outer) except -1
cdef int leave_tag(Reader r, const uint8_t *outer) except -1
cdef int skip_tags(Reader r) except -1

cdef int write_int8(Writer w, object v, str name) except -1
cdef int write_int16(Writer w, object v, str name) except -1
cdef int write_uint16(Writer w, object v, str name) except -1
cdef int write_int32(Writer w, object v, str name) except -1
cdef int write_int64(Writer w, object v, str name) except -1
cdef int write_bool(Writer w, object v, str name) except -1
cdef int write_float64(Writer w, object v, str name) except -1
cdef int write_uuid(Writer w, object v, str name) except -1
cdef int write_string(Writer w, object v, str name, bint nullable) except -1
cdef int write_bytes(Writer w, object v, str name, bint nullable) except -1
cdef int write_records(Writer w, object v, str name, bint nullable) except -1
cdef int write_strings(Writer w, object v, str name, bint nullable) except -1
cdef int write_numbers(Writer w, object v, str name, bint nullable, int size) except -1
cdef int write_structs(Writer w, object v, str name, bint nullable, WriteStruct item) except -1
cdef int write_struct(Writer w, object v, str name, bint nullable, WriteStruct item) except -1
cdef int plain_number(Writer w, int64_t value, int size) except -1
cdef int plain_old_text(Writer w, object value, str name) except -1
cdef Py_ssize_t begin_tag(Writer w, uint32_t number) except -1
cdef int end_tag(Writer w, Py_ssize_t place) except -1
cdef int refuse(Writer w, object v, str name) except -1
cdef bint differs(object v, str name, object default) except -1
