"""Descriptions of structs and fields for `_reading` and `_writing`; `_schema` fills them from the classes."""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_TYPE
from libc.stdint cimport uint32_t

cdef extern from "Python.h":
    bint PyType_IsSubtype(PyTypeObject *a, PyTypeObject *b)

cdef enum Kind:
    NUMBER
    BOOL
    FLOAT64
    UUID
    STRING  # this kind and the ones after it may be null
    BYTES
    RECORDS
    STRUCT

cdef struct Struct


cdef struct Field:
    Py_ssize_t offset  # of the slot in the object, in bytes
    Kind kind  # of the value, or of each item of an array
    bint is_array
    bint is_signed
    int size  # of a number in bytes
    int first  # first version that has the field
    int last  # last version that has it
    int first_nullable  # first version in which it may be null; NO_VERSION: none
    bint is_tagged
    uint32_t tag
    bint may_drop  # a version without the field may leave it out, even if it is not at its default
    Struct *nested
    PyObject *default_value  # NULL: a struct of defaults; an empty tuple: a list
    PyObject *name


cdef struct Struct:
    PyTypeObject *type
    Field *fields
    int count
    bint has_tags


cdef inline PyObject **slot_of(object v, const Field *f) noexcept:
    """Return the address of a field's slot in an object of its class."""
    return <PyObject **>(<char *>(<PyObject *>v) + f.offset)


cdef inline bint has(int version, const Field *f) noexcept:
    return f.first <= version <= f.last


cdef inline bint is_a(object v, const Struct *s) noexcept:
    return Py_TYPE(v) == s.type or PyType_IsSubtype(Py_TYPE(v), s.type)
