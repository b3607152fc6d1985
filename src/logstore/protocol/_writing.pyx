"""Fields of messages, written as bytes: numbers, strings, arrays, structs and tagged fields.

`_reading` describes the bytes. A value that the version cannot carry, or its type cannot hold, is refused.

Threads: a Writer belongs to one call.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject
from libc.stdint cimport (
    INT16_MAX, INT32_MAX, INT64_MAX, UINT16_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memmove

from logstore.batch._bytes cimport logstore_put16, logstore_put32, logstore_put64, logstore_varint_size

from base64 import urlsafe_b64decode, urlsafe_b64encode

from logstore.errors import ProtocolError, UnsupportedVersionError

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    UUID_BYTES = 16
    UUID_LETTERS = 22
    FIRST_CAPACITY = 256


@cython.final
@cython.freelist(8)
cdef class Writer:
    """Bytes written by one call, and their version.

    Owns: its memory, released when it is collected.
    """

    def __cinit__(self, int version, bint flexible):
        self.version = version
        self.flexible = flexible

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Reserve memory for so many more bytes."""
        cdef Py_ssize_t capacity
        cdef uint8_t *data
        if more <= self.capacity - self.size:
            return 0
        capacity = max(self.size + more, 2 * self.capacity, <Py_ssize_t>FIRST_CAPACITY)
        data = <uint8_t *>PyMem_Realloc(self.data, capacity)
        if data == NULL:
            raise MemoryError
        self.data = data
        self.capacity = capacity
        return 0

    cdef bytes taken(self):
        return PyBytes_FromStringAndSize(<const char *>self.data, self.size)


cdef object got(PyObject **slot, str name):
    if slot[0] == NULL:
        raise AttributeError(name)
    return <object>slot[0]


cdef object wrong(str name, object value, str wanted):
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    raise ProtocolError(f"{name} must be {wanted}, not {shown}")


cdef int refuse_none(Writer w, str name) except -1:
    raise UnsupportedVersionError(f"{name} cannot be None in version {w.version}")


cdef int number(Writer w, object value, str name, int size, bint is_signed) except -1:
    """Write an integer; the only unsigned type has 16 bits."""
    cdef int64_t high = INT64_MAX >> (64 - 8 * size) if is_signed else UINT16_MAX
    cdef int64_t low = -high - 1 if is_signed else 0
    cdef int overflow = 0
    cdef int64_t found
    if not isinstance(value, int):
        value = index_of(value, name, low, high)
    found = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not low <= found <= high:
        wrong(name, value, f"an integer from {low} to {high}")
    return plain_number(w, found, size)


cdef object index_of(object value, str name, int64_t low, int64_t high):
    """Convert an integer that is not an `int`, such as numpy's."""
    try:
        return PyNumber_Index(value)
    except TypeError:
        wrong(name, value, f"an integer from {low} to {high}")


cdef int plain_number(Writer w, int64_t value, int size) except -1:
    cdef uint8_t *p
    if w.capacity - w.size < 8:
        w.reserve(8)
    p = w.data + w.size
    if size == 1:
        p[0] = <uint8_t>value
    elif size == 2:
        logstore_put16(p, <uint16_t>value)
    elif size == 4:
        logstore_put32(p, <uint32_t>value)
    else:
        logstore_put64(p, <uint64_t>value)
    w.size += size
    return 0


cdef int write_number(Writer w, PyObject **slot, str name, int size, bint is_signed) except -1:
    return number(w, got(slot, name), name, size, is_signed)


cdef int write_bool(Writer w, PyObject **slot, str name) except -1:
    return plain_number(w, 1 if got(slot, name) else 0, 1)


cdef int write_float64(Writer w, PyObject **slot, str name) except -1:
    cdef double value = 0
    cdef int64_t bits
    found = got(slot, name)
    try:
        value = found
    except (TypeError, OverflowError):
        wrong(name, found, "a number")
    memcpy(&bits, &value, 8)
    return plain_number(w, bits, 8)


cdef int write_uuid(Writer w, PyObject **slot, str name) except -1:
    return named_uuid_out(w, got(slot, name), name)


cdef int uuid_out(Writer w, object value) except -1:
    return named_uuid_out(w, value, "uuid")


cdef int named_uuid_out(Writer w, object value, str name) except -1:
    """Write a uuid from the 22 letters of Kafka's Uuid.toString; an empty string is the zero uuid."""
    cdef Py_ssize_t size = 0
    cdef bytes raw = bytes(UUID_BYTES)
    if value != "":
        utf8(value, name, &size)
        try:
            raw = urlsafe_b64decode(value + "==")
        except ValueError:
            raw = b""
        # The decoder ignores foreign letters and bits behind the last byte.
        if len(raw) != UUID_BYTES or urlsafe_b64encode(raw)[:UUID_LETTERS].decode() != value:
            wrong(name, value, "the 22 letters of a uuid")
    return raw_out(w, PyBytes_AS_STRING(raw), UUID_BYTES)


cdef int unsigned_out(Writer w, uint64_t value) except -1:
    w.reserve(10)
    while value >= 0x80:
        w.data[w.size] = <uint8_t>(value | 0x80)
        w.size += 1
        value >>= 7
    w.data[w.size] = <uint8_t>value
    w.size += 1
    return 0


cdef int length_out(Writer w, int64_t length, str name, bint is_short) except -1:
    """Write a length or count, -1 for null."""
    if length > INT32_MAX - 1:
        wrong(name, length, "shorter than 2 GiB")
    if w.flexible:
        return unsigned_out(w, <uint64_t>(length + 1))
    return plain_number(w, length, 2 if is_short else 4)


cdef int null_out(Writer w, str name, bint nullable, bint is_short) except -1:
    if not nullable:
        refuse_none(w, name)
    return length_out(w, -1, name, is_short)


cdef const char *utf8(object value, str name, Py_ssize_t *size) except NULL:
    if not isinstance(value, str):
        wrong(name, value, "a str")
    try:
        return PyUnicode_AsUTF8AndSize(value, size)
    except UnicodeEncodeError:
        wrong(name, value, "a str without lone surrogates")


cdef int text_out(Writer w, object value, str name) except -1:
    cdef Py_ssize_t size
    cdef const char *text = utf8(value, name, &size)
    if size > INT16_MAX:
        wrong(name, value, f"at most {<int>INT16_MAX} bytes as UTF-8")
    length_out(w, size, name, True)
    return raw_out(w, text, size)


cdef int raw_out(Writer w, const void *data, Py_ssize_t size) except -1:
    w.reserve(size)
    if size:
        memcpy(w.data + w.size, data, size)
    w.size += size
    return 0


cdef int plain_old_text(Writer w, object value, str name) except -1:
    """Write a nullable string with an int16 length, even if the version is flexible."""
    cdef Py_ssize_t size
    cdef const char *text
    if value is None:
        return plain_number(w, -1, 2)
    text = utf8(value, name, &size)
    if size > INT16_MAX:
        wrong(name, value, f"at most {<int>INT16_MAX} bytes as UTF-8")
    plain_number(w, size, 2)
    return raw_out(w, text, size)


cdef int write_string(Writer w, PyObject **slot, str name, bint nullable) except -1:
    value = got(slot, name)
    if value is None:
        return null_out(w, name, nullable, True)
    return text_out(w, value, name)


cdef int write_bytes(Writer w, PyObject **slot, str name, bint nullable) except -1:
    cdef Py_buffer view
    value = got(slot, name)
    if value is None:
        return null_out(w, name, nullable, False)
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        wrong(name, value, "bytes or a contiguous buffer")
    try:
        length_out(w, view.len, name, False)
        return raw_out(w, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef list listed(object value, str name):
    """Return the items of an array; a string or bytes is refused, although it could be iterated."""
    if type(value) is list:
        return <list>value
    if isinstance(value, (str, bytes, bytearray, memoryview, dict)):
        wrong(name, value, "a sequence")
    try:
        return list(value)
    except TypeError:
        wrong(name, value, "a sequence")


cdef int write_strings(Writer w, PyObject **slot, str name, bint nullable) except -1:
    value = got(slot, name)
    if value is None:
        return null_out(w, name, nullable, False)
    cdef list items = listed(value, name)
    length_out(w, len(items), name, False)
    for item in items:
        text_out(w, item, name)
    return 0


cdef int write_numbers(Writer w, PyObject **slot, str name, bint nullable, int size) except -1:
    value = got(slot, name)
    if value is None:
        return null_out(w, name, nullable, False)
    cdef list items = listed(value, name)
    length_out(w, len(items), name, False)
    for item in items:
        number(w, item, name, size, True)
    return 0


cdef int write_structs(Writer w, PyObject **slot, str name, bint nullable, WriteStruct item) except -1:
    value = got(slot, name)
    if value is None:
        return null_out(w, name, nullable, False)
    cdef list items = listed(value, name)
    length_out(w, len(items), name, False)
    for one in items:
        item(w, one)
    return 0


cdef int write_struct(Writer w, PyObject **slot, str name, bint nullable, WriteStruct item) except -1:
    value = got(slot, name)
    if value is None:
        if not nullable:
            refuse_none(w, name)
        return plain_number(w, -1, 1)
    if nullable:
        plain_number(w, 1, 1)
    return item(w, value)


cdef Py_ssize_t begin_tag(Writer w, uint32_t number) except -1:
    """Return where the tagged field begins, for `end_tag`."""
    unsigned_out(w, number)
    return w.size


cdef int end_tag(Writer w, Py_ssize_t place) except -1:
    """Insert the size before the field."""
    cdef Py_ssize_t size = w.size - place
    cdef int more = logstore_varint_size(size)
    w.reserve(more)
    memmove(w.data + place + more, w.data + place, size)
    w.size = place
    unsigned_out(w, size)
    w.size = place + more + size
    return 0


cdef bint differs(PyObject **slot, str name, object default) except -1:
    """Return whether a field is not at its default; an empty tuple is the default of an array."""
    value = got(slot, name)
    if value is default:
        return False
    if type(default) is tuple:
        return value is not None and len(value) != 0
    return value != default


cdef int refuse(Writer w, object v, str name) except -1:
    """Raise for a field that the version does not carry and that must not be dropped."""
    raise UnsupportedVersionError(
        f"{type(v).__qualname__}.{name} is not in version {w.version} and cannot be dropped silently")


cdef int misplaced(object v, type wanted) except -1:
    raise ProtocolError(f"a {wanted.__qualname__} is needed, found a {type(v).__name__}")
