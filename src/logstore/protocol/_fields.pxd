"""Structs and their fields as `_reading` and `_writing` walk them; `_schema` fills them from the classes."""

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
    STRING  # this and those behind it may be null
    BYTES
    RECORDS
    STRUCT

cdef struct Struct


cdef struct Field:
    Py_ssize_t offset  # of the slot in the object
    Kind kind  # of the value, or of each item of an array
    bint is_array
    bint is_signed
    int size  # of a number in bytes
    int first  # and last version that have it
    int last
    int first_nullable  # version, or one that does not exist
    bint is_tagged
    uint32_t tag
    bint may_drop  # by a version without it, even if it is not at its default
    Struct *nested
    PyObject *default_value  # NULL: a struct of defaults; an empty tuple: a list
    PyObject *name


cdef struct Struct:
    PyTypeObject *type
    Field *fields
    int count
    bint has_tags


cdef inline PyObject **slot_of(object v, const Field *f) noexcept:
    """Return the place of a field in an object of its class."""
    return <PyObject **>(<char *>(<PyObject *>v) + f.offset)


cdef inline bint has(int version, const Field *f) noexcept:
    return f.first <= version <= f.last


cdef inline bint is_a(object v, const Struct *s) noexcept:
    return Py_TYPE(v) == s.type or PyType_IsSubtype(Py_TYPE(v), s.type)
