"""Encoding of messages as bytes: `write_struct` writes the fields of a struct from the slots of an object.

`_reading` describes the bytes. A value that the version cannot carry, or the field's type cannot hold, is refused.

Threads: a Writer belongs to one call.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.number cimport PyNumber_Index
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR, Py_XDECREF
from libc.stdint cimport (
    INT16_MAX, INT32_MAX, INT64_MAX, UINT16_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memmove

from logstore.batch._bytes cimport logstore_put16, logstore_put32, logstore_put64, logstore_varint_size
from logstore.protocol._fields cimport (
    BOOL, BYTES, NUMBER, RECORDS, STRING, STRUCT, UUID, Field, Struct, has, is_a, slot_of,
)

from base64 import urlsafe_b64decode, urlsafe_b64encode

from logstore.errors import ProtocolError, UnsupportedVersionError

cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *data, Py_ssize_t size) except NULL
    int _PyBytes_Resize(PyObject **data, Py_ssize_t size) except -1
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    UUID_BYTES = 16
    UUID_LETTERS = 22
    FIRST_CAPACITY = 256


@cython.final
@cython.freelist(8)
cdef class Writer:
    """State of one encoding: the bytes written so far, and the version.

    Owns: a bytes object, which grows; `taken` hands it over, so the bytes are not copied once more.
    """

    def __cinit__(self, int version, bint flexible):
        self.version = version
        self.flexible = flexible

    def __dealloc__(self):
        Py_XDECREF(self._bytes)

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Reserve memory for ``more`` bytes, and for what usually comes after them.

        Else the last fields of a message would have its records copied once more.
        """
        if more <= self.capacity - self.size:
            return 0
        return self._resize(max(self.size + more + FIRST_CAPACITY, 2 * self.capacity))

    cdef int _resize(self, Py_ssize_t capacity) except -1:
        self.capacity = 0  # after an error there is no memory
        if self._bytes == NULL:
            self._bytes = PyBytes_FromStringAndSize(NULL, capacity)
        else:
            _PyBytes_Resize(&self._bytes, capacity)
        self.data = <uint8_t *>PyBytes_AS_STRING(<object>self._bytes)
        self.capacity = capacity
        return 0

    cdef bytes taken(self):
        """Return the bytes. Nothing is written afterwards."""
        cdef bytes taken
        if not self.size:
            return b""
        self._resize(self.size)
        taken = <bytes>self._bytes
        Py_CLEAR(self._bytes)
        self.data, self.size, self.capacity = NULL, 0, 0
        return taken


cdef inline object got(object v, const Field *f):
    cdef PyObject *value = slot_of(v, f)[0]
    if value == NULL:
        raise AttributeError(<str>f.name)
    return <object>value


cdef object wrong(str name, object value, str wanted):
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    raise ProtocolError(f"{name} must be {wanted}, not {shown}")


cdef int number_out(Writer w, object value, const Field *f) except -1:
    """Write an integer. The only unsigned type is uint16."""
    cdef int64_t high = INT64_MAX >> (64 - 8 * f.size) if f.is_signed else UINT16_MAX
    cdef int64_t low = -high - 1 if f.is_signed else 0
    cdef int overflow = 0
    cdef int64_t found
    if not isinstance(value, int):
        value = index_of(value, <str>f.name, low, high)
    found = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not low <= found <= high:
        wrong(<str>f.name, value, f"an integer from {low} to {high}")
    return plain_number(w, found, f.size)


cdef object index_of(object value, str name, int64_t low, int64_t high):
    """Return the `int` of an integer of another type, such as numpy's."""
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


cdef int float64_out(Writer w, object value, const Field *f) except -1:
    cdef double found = 0
    cdef int64_t bits
    try:
        found = value
    except (TypeError, OverflowError):
        wrong(<str>f.name, value, "a number")
    memcpy(&bits, &found, 8)
    return plain_number(w, bits, 8)


cdef int uuid_out(Writer w, object value, str name) except -1:
    """Write a uuid from the 22 letters of Kafka's Uuid.toString; an empty string is the zero uuid."""
    cdef Py_ssize_t size = 0
    cdef bytes raw = bytes(UUID_BYTES)
    if value != "":
        utf8(value, name, &size)
        try:
            raw = urlsafe_b64decode(value + "==")
        except ValueError:
            raw = b""
        # The decoder ignores invalid letters, and bits after the last byte: encoding again detects both.
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


cdef int length_out(Writer w, int64_t length, const Field *f, bint is_short) except -1:
    """Write a length or count, -1 for null."""
    if length > INT32_MAX - 1:
        wrong(<str>f.name, length, "shorter than 2 GiB")
    if not w.flexible:
        return plain_number(w, length, 2 if is_short else 4)
    if length < 127:
        return plain_number(w, length + 1, 1)  # most lengths are so small; a varint of one byte needs no loop
    return unsigned_out(w, <uint64_t>(length + 1))


cdef const char *utf8(object value, str name, Py_ssize_t *size) except NULL:
    if not isinstance(value, str):
        wrong(name, value, "a str")
    try:
        return PyUnicode_AsUTF8AndSize(value, size)
    except UnicodeEncodeError:
        wrong(name, value, "a str without lone surrogates")


cdef int text_out(Writer w, object value, const Field *f) except -1:
    cdef Py_ssize_t size
    cdef const char *text = utf8(value, <str>f.name, &size)
    if size > INT16_MAX:
        wrong(<str>f.name, value, f"at most {<int>INT16_MAX} bytes as UTF-8")
    length_out(w, size, f, True)
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


cdef int bytes_out(Writer w, object value, const Field *f) except -1:
    cdef Py_buffer view
    cdef Py_ssize_t size
    if f.kind == RECORDS and hasattr(value, "read_into"):
        # A part of a file: its bytes come straight to where they are sent from.
        size = value.size
        length_out(w, size, f, False)
        w.reserve(size)
        value.read_into(PyMemoryView_FromMemory(<char *>w.data + w.size, size, PyBUF_WRITE))
        w.size += size
        return 0
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        wrong(<str>f.name, value, "bytes or a contiguous buffer")
    try:
        length_out(w, view.len, f, False)
        return raw_out(w, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef list listed(object value, const Field *f):
    """Return the items of an array; a string or bytes is refused, although it could be iterated."""
    if type(value) is list:
        return <list>value
    if isinstance(value, (str, bytes, bytearray, memoryview, dict)):
        wrong(<str>f.name, value, "a sequence")
    try:
        return list(value)
    except TypeError:
        wrong(<str>f.name, value, "a sequence")


cdef int write_struct(Writer w, const Struct *s, object v) except -1:
    cdef const Field *f
    cdef int n
    if not is_a(v, s):
        raise ProtocolError(f"a {(<type>s.type).__qualname__} is needed, found a {type(v).__name__}")
    for n in range(s.count):
        f = &s.fields[n]
        if has(w.version, f):
            if not f.is_tagged:
                write_field(w, f, got(v, f))
        elif not f.may_drop and differs(v, f):
            raise UnsupportedVersionError(
                f"{type(v).__qualname__}.{<str>f.name} is not in version {w.version} "
                "and cannot be dropped silently")
    if not w.flexible:
        return 0
    return write_tags(w, s, v) if s.has_tags else plain_number(w, 0, 1)


cdef inline bint differs(object v, const Field *f) except -1:
    """Return whether a field is not at its default."""
    cdef PyObject *value = slot_of(v, f)[0]
    if value != NULL and value == f.default_value:
        return False
    return value_differs(got(v, f), f)


cdef bint value_differs(object value, const Field *f) except -1:
    cdef int n
    if f.default_value == NULL:
        if not is_a(value, f.nested):
            return True
        for n in range(f.nested.count):
            if differs(value, &f.nested.fields[n]):
                return True
        return False
    default = <object>f.default_value
    if type(default) is tuple:
        return value is not None and len(value) != 0
    return value != default


cdef inline int write_field(Writer w, const Field *f, object value) except -1:
    if value is None and (f.is_array or f.kind >= STRING):
        return write_null(w, f)
    return write_array(w, f, value) if f.is_array else write_value(w, f, value)


cdef int write_null(Writer w, const Field *f) except -1:
    if w.version < f.first_nullable:
        raise UnsupportedVersionError(f"{<str>f.name} cannot be None in version {w.version}")
    if f.kind == STRUCT and not f.is_array:
        return plain_number(w, -1, 1)
    return length_out(w, -1, f, f.kind == STRING and not f.is_array)


cdef int write_array(Writer w, const Field *f, object value) except -1:
    cdef list items = listed(value, f)
    length_out(w, len(items), f, False)
    for item in items:
        write_value(w, f, item)
    return 0


cdef int write_value(Writer w, const Field *f, object value) except -1:
    """Write a field that is no array, or one item of an array."""
    if f.kind == NUMBER:
        return number_out(w, value, f)
    if f.kind == STRING:
        return text_out(w, value, f)
    if f.kind == STRUCT:
        if w.version >= f.first_nullable and not f.is_array:
            plain_number(w, 1, 1)
        return write_struct(w, f.nested, value)
    if f.kind == BOOL:
        return plain_number(w, 1 if value else 0, 1)
    if f.kind == BYTES or f.kind == RECORDS:
        return bytes_out(w, value, f)
    if f.kind == UUID:
        return uuid_out(w, value, "uuid" if f.is_array else <str>f.name)
    return float64_out(w, value, f)


cdef int write_tags(Writer w, const Struct *s, object v) except -1:
    """Write the number of tagged fields that are not at their defaults, then these fields."""
    cdef Py_ssize_t count_place = w.size
    cdef Py_ssize_t place
    cdef int count = 0
    cdef int n
    cdef const Field *f
    plain_number(w, 0, 1)
    for n in range(s.count):
        f = &s.fields[n]
        if f.is_tagged and has(w.version, f) and differs(v, f):
            unsigned_out(w, f.tag)
            place = w.size
            write_field(w, f, got(v, f))
            insert_size(w, place)
            count += 1
    w.data[count_place] = <uint8_t>count
    return 0


cdef int insert_size(Writer w, Py_ssize_t place) except -1:
    """Insert the size of a tagged field before it."""
    cdef Py_ssize_t size = w.size - place
    cdef int more = logstore_varint_size(size)
    w.reserve(more)
    memmove(w.data + place + more, w.data + place, size)
    w.size = place
    unsigned_out(w, size)
    w.size = place + more + size
    return 0
