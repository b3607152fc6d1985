"""Fields of messages, written as bytes: numbers, strings, arrays, structs and tagged fields.

A function writes the value in the slot of a field; the name of the field is for errors.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t


cdef class Writer:
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int version
    cdef bint flexible
    cdef int reserve(self, Py_ssize_t more) except -1
    cdef bytes taken(self)


ctypedef int (*WriteStruct)(Writer, object) except -1

cdef object got(PyObject **slot, str name)
cdef int write_number(Writer w, PyObject **slot, str name, int size, bint is_signed) except -1
cdef int write_bool(Writer w, PyObject **slot, str name) except -1
cdef int write_float64(Writer w, PyObject **slot, str name) except -1
cdef int uuid_out(Writer w, object value) except -1
cdef int write_uuid(Writer w, PyObject **slot, str name) except -1
cdef int write_string(Writer w, PyObject **slot, str name, bint nullable) except -1
cdef int write_bytes(Writer w, PyObject **slot, str name, bint nullable) except -1
cdef int write_strings(Writer w, PyObject **slot, str name, bint nullable) except -1
cdef int write_numbers(Writer w, PyObject **slot, str name, bint nullable, int size) except -1
cdef int write_structs(Writer w, PyObject **slot, str name, bint nullable, WriteStruct item) except -1
cdef int write_struct(Writer w, PyObject **slot, str name, bint nullable, WriteStruct item) except -1
cdef int plain_number(Writer w, int64_t value, int size) except -1
cdef int plain_old_text(Writer w, object value, str name) except -1
cdef Py_ssize_t begin_tag(Writer w, uint32_t number) except -1
cdef int end_tag(Writer w, Py_ssize_t place) except -1
cdef int refuse(Writer w, object v, str name) except -1
cdef int misplaced(object v, type wanted) except -1
cdef bint differs(PyObject **slot, str name, object default) except -1
