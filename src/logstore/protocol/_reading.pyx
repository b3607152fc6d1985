"""Decoding of messages from bytes: `read_struct` reads the fields of a struct into the slots of an object.

The bytes follow Kafka's protocol guide, "Protocol Primitive Types", and KIP-482 for flexible versions. Lengths and
counts are int16 or int32 in older versions, with -1 for null. In flexible versions they are unsigned varints of
the length plus one, with 0 for null, and each struct ends with its tagged fields.

Every length is untrusted: it is compared with the bytes that are left before anything is read or allocated. An item
of two bytes becomes an object of a hundred, so a caller may bound the items of all arrays, too.

Threads: a Reader belongs to one call.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT16_MAX, INT64_MAX, UINT16_MAX, int8_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from logstore.batch._bytes cimport load16, load32, load64
from logstore.protocol._fields cimport (
    BOOL, BYTES, NUMBER, RECORDS, STRING, STRUCT, UUID, Field, Struct, has, slot_of,
)

from base64 import urlsafe_b64encode

from logstore.errors import MalformedMessageError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)

cdef enum:
    UUID_BYTES = 16
    UUID_LETTERS = 22


@cython.final
@cython.freelist(8)
cdef class Reader:
    """State of one decoding: the bytes, the position in them, and the version.

    Owns: a buffer export of the source, released with the object. Views of records keep the source alive.
    """

    def __cinit__(self, source, Py_ssize_t position, int version, bint flexible):
        PyObject_GetBuffer(source, &self._buffer, PyBUF_SIMPLE)
        self._held = True
        if not 0 <= position <= self._buffer.len:
            raise ValueError(f"position {position} is outside of {self._buffer.len} bytes")
        self._source = source
        self._view = None
        self.start = <const uint8_t *>self._buffer.buf
        self.p = self.start + position
        self.end = self.start + self._buffer.len
        self.version = version
        self.flexible = flexible
        self.items_left = INT64_MAX

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._buffer)


cdef inline void put(PyObject **slot, object value) noexcept:
    cdef PyObject *before = slot[0]
    Py_INCREF(value)
    slot[0] = <PyObject *>value
    Py_XDECREF(before)


cdef object malformed(Reader r, str name, str problem):
    raise MalformedMessageError(f"{name}: {problem}", position=r.p - r.start)


cdef object short(Reader r, str name, int64_t need):
    malformed(r, name, f"needs {need} bytes, {r.end - r.p} are left")


cdef inline int need(Reader r, str name, int64_t size) except -1:
    if size > r.end - r.p:
        short(r, name, size)
    return 0


cdef int64_t unsigned_varint(Reader r, str name) except -1:
    """Read a varint of at most 32 bits."""
    cdef const uint8_t *p = r.p
    cdef uint64_t value = 0
    cdef int shift = 0
    while p < r.end:
        value |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            if value > 0xFFFFFFFFu:
                malformed(r, name, "a varint of more than 32 bits")
            r.p = p + 1
            return <int64_t>value
        p += 1
        shift += 7
        if shift > 28:
            malformed(r, name, "a varint of more than five bytes, so of more than 32 bits")
    malformed(r, name, "a varint ends before its last byte")


cdef inline const uint8_t *taken(Reader r, const Field *f, int64_t size) except NULL:
    """Return the address of the next ``size`` bytes, and move the position after them."""
    cdef const uint8_t *p = r.p
    if size > r.end - p:
        short(r, <str>f.name, size)
    r.p = p + size
    return p


cdef int64_t length_of(Reader r, const Field *f, bint nullable, bint is_short) except -2:
    """Read a length or count, which is at most the number of bytes left; return -1 for an allowed null."""
    cdef int64_t length
    if r.flexible:
        if r.p < r.end and r.p[0] < 0x80:
            length = r.p[0] - 1
            r.p += 1
        else:
            length = unsigned_varint(r, <str>f.name) - 1
    elif is_short:
        length = load16(taken(r, f, 2))
    else:
        length = load32(taken(r, f, 4))
    if length < 0:
        if length == -1 and nullable:
            return -1
        malformed(r, <str>f.name, "null, which this version does not allow" if length == -1 else f"length {length}")
    if length > r.end - r.p:
        short(r, <str>f.name, length)
    return length


cdef inline int64_t loaded(const uint8_t *p, int size) noexcept:
    return <int8_t>p[0] if size == 1 else load16(p) if size == 2 else load32(p) if size == 4 else load64(p)


cdef int64_t integer(Reader r, str name, int size) except? -1:
    need(r, name, size)
    r.p += size
    return loaded(r.p - size, size)


cdef double float64_at(const uint8_t *p) noexcept:
    cdef int64_t bits = load64(p)
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef object uuid_of(Reader r, str name):
    """Read a uuid as the 22 letters of Kafka's Uuid.toString; the zero uuid is an empty string."""
    need(r, name, UUID_BYTES)
    letters = urlsafe_b64encode(PyBytes_FromStringAndSize(<const char *>r.p, UUID_BYTES))
    r.p += UUID_BYTES
    return "" if load64(r.p - UUID_BYTES) == 0 and load64(r.p - 8) == 0 else letters[:UUID_LETTERS].decode()


cdef object text_of(Reader r, str name, int64_t length):
    if length > INT16_MAX:
        malformed(r, name, f"a string of {length} bytes, more than {<int>INT16_MAX}")
    try:
        text = PyUnicode_DecodeUTF8(<const char *>r.p, length, NULL)
    except UnicodeDecodeError as error:
        malformed(r, name, f"no UTF-8: {error.reason}")
    r.p += length
    return text


cdef object bytes_of(Reader r, int64_t length):
    found = PyBytes_FromStringAndSize(<const char *>r.p, length)
    r.p += length
    return found


cdef object records_of(Reader r, int64_t length):
    """Read records as a view of the given buffer, which the view keeps alive."""
    cdef Py_ssize_t first = r.p - r.start
    if r._view is None:
        r._view = memoryview(r._source)
        if not isinstance(r._source, (bytes, bytearray)) and (r._view.format != "B" or r._view.ndim != 1):
            r._view = r._view.cast("B")
    r.p += length
    return r._view[first:first + length]


cdef object read_struct(Reader r, const Struct *s):
    cdef object v = PyType_GenericAlloc(s.type, 0)
    cdef const Field *f
    cdef int n
    for n in range(s.count):
        f = &s.fields[n]
        if f.is_tagged or not has(r.version, f):
            put(slot_of(v, f), fresh(f))
        else:
            put(slot_of(v, f), read_field(r, f))
    if r.flexible:
        if s.has_tags and r.p < r.end and r.p[0] != 0:
            read_tags(r, s, v)
        else:
            skip_tags(r)
    return v


cdef inline object fresh(const Field *f):
    """Return the default of a field; a list or struct is a new one, not shared with other messages."""
    if f.default_value == NULL:
        return fresh_struct(f.nested)
    return [] if f.is_array and <object>f.default_value is not None else <object>f.default_value


cdef object fresh_struct(const Struct *s):
    cdef object v = PyType_GenericAlloc(s.type, 0)
    cdef int n
    for n in range(s.count):
        put(slot_of(v, &s.fields[n]), fresh(&s.fields[n]))
    return v


cdef inline object read_field(Reader r, const Field *f):
    cdef bint nullable = r.version >= f.first_nullable
    return read_array(r, f, nullable) if f.is_array else read_value(r, f, nullable)


cdef object read_array(Reader r, const Field *f, bint nullable):
    cdef int64_t count = length_of(r, f, nullable, False)
    cdef list items
    if count < 0:
        return None
    r.items_left -= count
    if r.items_left < 0:
        malformed(r, <str>f.name, f"{count} items, {-r.items_left} more than a message may have")
    items = []
    if f.kind == NUMBER:
        need(r, <str>f.name, count * f.size)
        while count > 0:
            items.append(loaded(r.p, f.size))
            r.p += f.size
            count -= 1
    while count > 0:
        items.append(read_value(r, f, False))
        count -= 1
    return items


cdef object read_value(Reader r, const Field *f, bint nullable):
    """Read a field that is no array, or one item of an array."""
    cdef int64_t found
    if f.kind == NUMBER:
        found = loaded(taken(r, f, f.size), f.size)
        return found if f.is_signed else found & UINT16_MAX
    if f.kind == STRING:
        found = length_of(r, f, nullable, True)
        return None if found < 0 else text_of(r, <str>f.name, found)
    if f.kind == STRUCT:
        return None if nullable and <int8_t>taken(r, f, 1)[0] < 0 else read_struct(r, f.nested)
    if f.kind == BYTES or f.kind == RECORDS:
        found = length_of(r, f, nullable, False)
        if found < 0:
            return None
        return bytes_of(r, found) if f.kind == BYTES else records_of(r, found)
    if f.kind == BOOL:
        return taken(r, f, 1)[0] != 0
    if f.kind == UUID:
        return uuid_of(r, "uuid" if f.is_array else <str>f.name)
    return float64_at(taken(r, f, 8))


cdef object plain_old_string(Reader r, str name):
    """Read a nullable string with an int16 length, even if the version is flexible."""
    cdef int64_t length = integer(r, name, 2)
    if length < 0:
        if length != -1:
            malformed(r, name, f"length {length}")
        return None
    need(r, name, length)
    return text_of(r, name, length)


cdef int read_tags(Reader r, const Struct *s, object v) except -1:
    """Read the tagged fields of a struct; unknown ones are skipped."""
    cdef int64_t count = unsigned_varint(r, "tagged fields")
    cdef int64_t tag, size
    cdef const uint8_t *outer = r.end
    cdef const Field *f
    cdef int n
    while count > 0:
        tag = unsigned_varint(r, "tag")
        size = unsigned_varint(r, "tag")
        need(r, "tagged field", size)
        r.end = r.p + size
        for n in range(s.count):
            f = &s.fields[n]
            if f.is_tagged and f.tag == tag and has(r.version, f):
                put(slot_of(v, f), read_field(r, f))
                break
        else:
            r.p = r.end
        if r.p != r.end:
            malformed(r, "tagged field", f"{r.end - r.p} bytes more than its value")
        r.end = outer
        count -= 1
    return 0


cdef int skip_tags(Reader r) except -1:
    """Skip the tagged fields of a struct in which none are known."""
    cdef int64_t count, size
    if r.p < r.end and r.p[0] == 0:
        r.p += 1
        return 0
    count = unsigned_varint(r, "tagged fields")
    while count > 0:
        unsigned_varint(r, "tag")
        size = unsigned_varint(r, "tag")
        need(r, "tagged field", size)
        r.p += size
        count -= 1
    return 0
