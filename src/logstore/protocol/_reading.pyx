"""Fields of messages, read from bytes: numbers, strings, arrays, structs and tagged fields.

The bytes follow Kafka's protocol guide, "Protocol Primitive Types", and KIP-482 for the flexible forms:
lengths and counts are int16 or int32, -1 for null, in old versions, and one more than that as an unsigned
varint, 0 for null, in flexible ones, where each struct ends with its tagged fields.

Every length is untrusted: it is compared with the bytes that are left before anything is read or allocated.

Threads: a Reader belongs to one call.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT16_MAX, UINT16_MAX, int8_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from logstore.batch._bytes cimport load16, load32, load64

from base64 import urlsafe_b64encode

from logstore.errors import MalformedMessageError

cdef enum:
    UUID_BYTES = 16
    UUID_LETTERS = 22


@cython.final
@cython.freelist(8)
cdef class Reader:
    """Position of one call in the bytes that it reads, and their version.

    Owns: a buffer export on the source until it is collected; views of records keep the source themselves.
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

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._buffer)


cdef int put(PyObject **slot, object value) except -1:
    cdef PyObject *before = slot[0]
    Py_INCREF(value)
    slot[0] = <PyObject *>value
    Py_XDECREF(before)
    return 0


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


cdef int64_t length_of(Reader r, str name, bint nullable, bint is_short) except -2:
    """Read a length or count: -1 for null if allowed, else at most the number of bytes that are left."""
    cdef int64_t length
    if r.flexible:
        length = unsigned_varint(r, name) - 1
    elif is_short:
        need(r, name, 2)
        length = load16(r.p)
        r.p += 2
    else:
        need(r, name, 4)
        length = load32(r.p)
        r.p += 4
    if length < 0:
        if length == -1 and nullable:
            return -1
        malformed(r, name, "null, which this version does not allow" if length == -1 else f"length {length}")
    if length > r.end - r.p:
        short(r, name, length)
    return length


cdef inline int64_t loaded(const uint8_t *p, int size) noexcept:
    return <int8_t>p[0] if size == 1 else load16(p) if size == 2 else load32(p) if size == 4 else load64(p)


cdef int64_t integer(Reader r, str name, int size) except? -1:
    need(r, name, size)
    r.p += size
    return loaded(r.p - size, size)


cdef int read_number(Reader r, PyObject **slot, str name, int size, bint is_signed) except -1:
    cdef int64_t found = integer(r, name, size)
    return put(slot, found if is_signed else found & UINT16_MAX)


cdef int read_bool(Reader r, PyObject **slot, str name) except -1:
    need(r, name, 1)
    put(slot, r.p[0] != 0)
    r.p += 1
    return 0


cdef int read_float64(Reader r, PyObject **slot, str name) except -1:
    cdef int64_t bits
    cdef double value
    need(r, name, 8)
    bits = load64(r.p)
    memcpy(&value, &bits, 8)
    put(slot, value)
    r.p += 8
    return 0


cdef object uuid_of(Reader r):
    """Read a uuid as the 22 letters of Kafka's Uuid.toString; the zero uuid is an empty string."""
    need(r, "uuid", UUID_BYTES)
    letters = urlsafe_b64encode(PyBytes_FromStringAndSize(<const char *>r.p, UUID_BYTES))
    r.p += UUID_BYTES
    return "" if load64(r.p - UUID_BYTES) == 0 and load64(r.p - 8) == 0 else letters[:UUID_LETTERS].decode()


cdef int read_uuid(Reader r, PyObject **slot, str name) except -1:
    need(r, name, UUID_BYTES)
    return put(slot, uuid_of(r))


cdef object text_of(Reader r, str name, int64_t length):
    if length > INT16_MAX:
        malformed(r, name, f"a string of {length} bytes, more than {<int>INT16_MAX}")
    try:
        text = PyUnicode_DecodeUTF8(<const char *>r.p, length, NULL)
    except UnicodeDecodeError as error:
        malformed(r, name, f"no UTF-8: {error.reason}")
    r.p += length
    return text


cdef int read_string(Reader r, PyObject **slot, str name, bint nullable) except -1:
    cdef int64_t length = length_of(r, name, nullable, True)
    put(slot, None if length < 0 else text_of(r, name, length))
    return 0


cdef int read_bytes(Reader r, PyObject **slot, str name, bint nullable) except -1:
    cdef int64_t length = length_of(r, name, nullable, False)
    if length < 0:
        put(slot, None)
    else:
        put(slot, PyBytes_FromStringAndSize(<const char *>r.p, length))
        r.p += length
    return 0


cdef int read_records(Reader r, PyObject **slot, str name, bint nullable) except -1:
    """Read records as a view of the given buffer, which the view keeps alive."""
    cdef int64_t length = length_of(r, name, nullable, False)
    cdef Py_ssize_t first
    if length < 0:
        put(slot, None)
    else:
        if r._view is None:
            r._view = memoryview(r._source)
            if not isinstance(r._source, (bytes, bytearray)) and (r._view.format != "B" or r._view.ndim != 1):
                r._view = r._view.cast("B")
        first = r.p - r.start
        put(slot, r._view[first:first + length])
        r.p += length
    return 0


cdef int read_strings(Reader r, PyObject **slot, str name, bint nullable) except -1:
    cdef int64_t count = length_of(r, name, nullable, False)
    cdef list items
    if count < 0:
        put(slot, None)
        return 0
    items = []
    while count > 0:
        items.append(text_of(r, name, length_of(r, name, False, True)))
        count -= 1
    put(slot, items)
    return 0


cdef int read_numbers(Reader r, PyObject **slot, str name, bint nullable, int size) except -1:
    cdef int64_t count = length_of(r, name, nullable, False)
    cdef list items
    if count < 0:
        put(slot, None)
        return 0
    need(r, name, count * size)
    items = []
    while count > 0:
        items.append(loaded(r.p, size))
        r.p += size
        count -= 1
    put(slot, items)
    return 0


cdef int read_structs(Reader r, PyObject **slot, str name, bint nullable, ReadStruct item) except -1:
    cdef int64_t count = length_of(r, name, nullable, False)
    cdef list items
    if count < 0:
        put(slot, None)
        return 0
    items = []
    while count > 0:
        items.append(item(r))
        count -= 1
    put(slot, items)
    return 0


cdef int read_struct(Reader r, PyObject **slot, str name, bint nullable, ReadStruct item) except -1:
    cdef int8_t present
    if nullable:
        need(r, name, 1)
        present = <int8_t>r.p[0]
        r.p += 1
        if present < 0:
            put(slot, None)
            return 0
    put(slot, item(r))
    return 0


cdef object plain_old_string(Reader r, str name):
    """Read a nullable string with an int16 length, even if the version is flexible."""
    cdef int64_t length = integer(r, name, 2)
    if length < 0:
        if length != -1:
            malformed(r, name, f"length {length}")
        return None
    need(r, name, length)
    return text_of(r, name, length)


cdef int64_t tag_count(Reader r) except -1:
    return unsigned_varint(r, "tagged fields")


cdef int64_t enter_tag(Reader r, const uint8_t **outer) except -1:
    """Return the number of the next tagged field. The reader ends with that field until `leave_tag`."""
    cdef int64_t number = unsigned_varint(r, "tag")
    cdef int64_t size = unsigned_varint(r, "tag")
    need(r, "tagged field", size)
    outer[0] = r.end
    r.end = r.p + size
    return number


cdef int leave_tag(Reader r, const uint8_t *outer) except -1:
    if r.p != r.end:
        malformed(r, "tagged field", f"{r.end - r.p} bytes more than its value")
    r.end = outer
    return 0


cdef int skip_tags(Reader r) except -1:
    """Skip the tagged fields of a struct that has no known ones."""
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
