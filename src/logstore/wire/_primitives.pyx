"""What every message is made of: numbers, strings, arrays, structs and tagged fields as bytes.

The bytes follow Kafka's protocol guide, "Protocol Primitive Types", and KIP-482 for the flexible forms:
lengths and counts are int16 or int32, -1 for null, in old versions, and one more than that as an unsigned
varint, 0 for null, in flexible ones, where each struct ends with its tagged fields.

Every length is a claim: it is compared with what is left before anything is taken or allocated.

Threads: a Reader and a Writer belong to one call.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.number cimport PyNumber_Index
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from logstore._bytes cimport (
    load16, load32, load64, logstore_put16, logstore_put32, logstore_put64, logstore_varint_size,
)

from logstore.errors import MalformedMessageError, ProtocolError, UnsupportedVersionError

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    LONGEST_STRING = 0x7FFF
    UUID_BYTES = 16
    UUID_LETTERS = 22
    FIRST_CAPACITY = 256

cdef const char *LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


# --- reading -----------------------------------------------------------------------------------


@cython.final
cdef class Reader:
    """Where one call is in the bytes it reads, and which version it takes them for.

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


cdef object malformed(Reader r, str name, str problem):
    raise MalformedMessageError(f"{name}: {problem}", position=r.p - r.start)


cdef object short(Reader r, str name, int64_t need):
    malformed(r, name, f"needs {need} bytes, {r.end - r.p} are left")


cdef inline int need(Reader r, str name, int64_t size) except -1:
    if size > r.end - r.p:
        short(r, name, size)
    return 0


cdef int64_t unsigned_varint(Reader r, str name) except -1:
    """A varint of at most 32 bits."""
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
            malformed(r, name, "a varint of more than five bytes")
    malformed(r, name, "a varint ends before its last byte")


cdef int64_t length_of(Reader r, str name, bint nullable, bint is_short) except -2:
    """A length or count: -1 for null where the version knows null, else at most as many as bytes are left."""
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


cdef int read_int8(Reader r, object v, str name) except -1:
    need(r, name, 1)
    setattr(v, name, <int>(<int8_t>r.p[0]))
    r.p += 1
    return 0


cdef int read_int16(Reader r, object v, str name) except -1:
    need(r, name, 2)
    setattr(v, name, load16(r.p))
    r.p += 2
    return 0


cdef int read_uint16(Reader r, object v, str name) except -1:
    need(r, name, 2)
    setattr(v, name, <uint16_t>load16(r.p))
    r.p += 2
    return 0


cdef int read_int32(Reader r, object v, str name) except -1:
    need(r, name, 4)
    setattr(v, name, load32(r.p))
    r.p += 4
    return 0


cdef int read_int64(Reader r, object v, str name) except -1:
    need(r, name, 8)
    setattr(v, name, load64(r.p))
    r.p += 8
    return 0


cdef int read_bool(Reader r, object v, str name) except -1:
    need(r, name, 1)
    setattr(v, name, r.p[0] != 0)
    r.p += 1
    return 0


cdef int read_float64(Reader r, object v, str name) except -1:
    cdef int64_t bits
    cdef double value
    need(r, name, 8)
    bits = load64(r.p)
    memcpy(&value, &bits, 8)
    setattr(v, name, value)
    r.p += 8
    return 0


cdef int read_uuid(Reader r, object v, str name) except -1:
    cdef char text[UUID_LETTERS + 2]
    cdef uint32_t three
    cdef const uint8_t *p
    cdef int n
    need(r, name, UUID_BYTES)
    p = r.p
    if load64(p) == 0 and load64(p + 8) == 0:
        setattr(v, name, "")
    else:
        for n in range(6):
            three = <uint32_t>p[3 * n] << 16
            if n < 5:
                three |= <uint32_t>p[3 * n + 1] << 8 | p[3 * n + 2]
            text[4 * n] = LETTERS[three >> 18]
            text[4 * n + 1] = LETTERS[three >> 12 & 63]
            text[4 * n + 2] = LETTERS[three >> 6 & 63]
            text[4 * n + 3] = LETTERS[three & 63]
        setattr(v, name, PyUnicode_DecodeUTF8(text, UUID_LETTERS, NULL))
    r.p += UUID_BYTES
    return 0


cdef object text_of(Reader r, str name, int64_t length):
    if length > LONGEST_STRING:
        malformed(r, name, f"a string of {length} bytes, more than {<int>LONGEST_STRING}")
    try:
        text = PyUnicode_DecodeUTF8(<const char *>r.p, length, NULL)
    except UnicodeDecodeError as error:
        malformed(r, name, f"no UTF-8: {error.reason}")
    r.p += length
    return text


cdef int read_string(Reader r, object v, str name, bint nullable) except -1:
    cdef int64_t length = length_of(r, name, nullable, True)
    setattr(v, name, None if length < 0 else text_of(r, name, length))
    return 0


cdef int read_bytes(Reader r, object v, str name, bint nullable) except -1:
    cdef int64_t length = length_of(r, name, nullable, False)
    if length < 0:
        setattr(v, name, None)
    else:
        setattr(v, name, PyBytes_FromStringAndSize(<const char *>r.p, length))
        r.p += length
    return 0


cdef int read_records(Reader r, object v, str name, bint nullable) except -1:
    """A view of the given buffer, which it keeps alive."""
    cdef int64_t length = length_of(r, name, nullable, False)
    cdef Py_ssize_t first
    if length < 0:
        setattr(v, name, None)
    else:
        if r._view is None:
            view = memoryview(r._source)
            r._view = view if view.format == "B" and view.ndim == 1 else view.cast("B")
        first = r.p - r.start
        setattr(v, name, r._view[first:first + length])
        r.p += length
    return 0


cdef int read_strings(Reader r, object v, str name, bint nullable) except -1:
    cdef int64_t count = length_of(r, name, nullable, False)
    cdef list items
    if count < 0:
        setattr(v, name, None)
        return 0
    items = []
    while count > 0:
        items.append(text_of(r, name, length_of(r, name, False, True)))
        count -= 1
    setattr(v, name, items)
    return 0


cdef int read_numbers(Reader r, object v, str name, bint nullable, int size) except -1:
    cdef int64_t count = length_of(r, name, nullable, False)
    cdef list items
    if count < 0:
        setattr(v, name, None)
        return 0
    need(r, name, count * size)
    items = []
    while count > 0:
        items.append(<int>(<int8_t>r.p[0]) if size == 1 else load32(r.p) if size == 4 else load64(r.p))
        r.p += size
        count -= 1
    setattr(v, name, items)
    return 0


cdef int read_structs(Reader r, object v, str name, bint nullable, ReadStruct item) except -1:
    cdef int64_t count = length_of(r, name, nullable, False)
    cdef list items
    if count < 0:
        setattr(v, name, None)
        return 0
    items = []
    while count > 0:
        items.append(item(r))
        count -= 1
    setattr(v, name, items)
    return 0


cdef int read_struct(Reader r, object v, str name, bint nullable, ReadStruct item) except -1:
    cdef int8_t present
    if nullable:
        need(r, name, 1)
        present = <int8_t>r.p[0]
        r.p += 1
        if present < 0:
            setattr(v, name, None)
            return 0
    setattr(v, name, item(r))
    return 0


cdef int64_t plain_int16(Reader r, str name) except? -1:
    need(r, name, 2)
    r.p += 2
    return load16(r.p - 2)


cdef int64_t plain_int32(Reader r, str name) except? -1:
    need(r, name, 4)
    r.p += 4
    return load32(r.p - 4)


cdef object plain_old_string(Reader r, str name):
    """A nullable string with an int16 before it, also where the version is flexible."""
    cdef int64_t length = plain_int16(r, name)
    if length < 0:
        if length != -1:
            malformed(r, name, f"length {length}")
        return None
    need(r, name, length)
    return text_of(r, name, length)


cdef int64_t tag_count(Reader r) except -1:
    return unsigned_varint(r, "tagged fields")


cdef int64_t enter_tag(Reader r, const uint8_t **outer) except -1:
    """The number of the next tagged field. The reader ends with that field until `leave_tag`."""
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
    """Over the tagged fields of a struct that has none of ours."""
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


# --- writing -----------------------------------------------------------------------------------


@cython.final
cdef class Writer:
    """The bytes of one call so far, and the version they are written for.

    Owns: its memory, given back when it is collected.
    """

    def __cinit__(self, int version, bint flexible):
        self.version = version
        self.flexible = flexible

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef int room(self, Py_ssize_t more) except -1:
        """Memory for so many bytes more."""
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


cdef object wrong(str name, object value, str wanted):
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    raise ProtocolError(f"{name} must be {wanted}, not {shown}")


cdef int refuse_none(Writer w, str name) except -1:
    raise UnsupportedVersionError(f"{name} cannot be None in version {w.version}")


cdef int number(Writer w, object value, str name, int size, int64_t low, int64_t high) except -1:
    cdef int64_t found = 0
    try:
        found = value if isinstance(value, int) else PyNumber_Index(value)
    except (TypeError, OverflowError):
        wrong(name, value, f"an integer from {low} to {high}")
    if not low <= found <= high:
        wrong(name, value, f"an integer from {low} to {high}")
    return plain_number(w, found, size)


cdef int plain_number(Writer w, int64_t value, int size) except -1:
    cdef uint8_t *p
    w.room(8)
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


cdef int write_int8(Writer w, object v, str name) except -1:
    return number(w, getattr(v, name), name, 1, -0x80, 0x7F)


cdef int write_int16(Writer w, object v, str name) except -1:
    return number(w, getattr(v, name), name, 2, -0x8000, 0x7FFF)


cdef int write_uint16(Writer w, object v, str name) except -1:
    return number(w, getattr(v, name), name, 2, 0, 0xFFFF)


cdef int write_int32(Writer w, object v, str name) except -1:
    return number(w, getattr(v, name), name, 4, -0x80000000LL, 0x7FFFFFFF)


cdef int write_int64(Writer w, object v, str name) except -1:
    return number(w, getattr(v, name), name, 8, INT64_MIN, INT64_MAX)


cdef int write_bool(Writer w, object v, str name) except -1:
    return plain_number(w, 1 if getattr(v, name) else 0, 1)


cdef int write_float64(Writer w, object v, str name) except -1:
    cdef double value = 0
    cdef int64_t bits
    found = getattr(v, name)
    try:
        value = found
    except (TypeError, OverflowError):
        wrong(name, found, "a number")
    memcpy(&bits, &value, 8)
    return plain_number(w, bits, 8)


cdef int letter_of(char letter) noexcept:
    if b"A" <= letter <= b"Z":
        return letter - 65
    if b"a" <= letter <= b"z":
        return letter - 97 + 26
    if b"0" <= letter <= b"9":
        return letter - 48 + 52
    return 62 if letter == b"-" else 63 if letter == b"_" else -1


cdef int write_uuid(Writer w, object v, str name) except -1:
    """The 22 letters of Kafka's Uuid.toString, or the zero uuid for the empty string."""
    cdef Py_ssize_t size, n
    cdef const char *text
    cdef uint64_t bits = 0
    cdef int letter
    value = getattr(v, name)
    if value == "":
        plain_number(w, 0, 8)
        return plain_number(w, 0, 8)
    text = utf8(value, name, &size)
    if size != UUID_LETTERS:
        wrong(name, value, "the 22 letters of a uuid")
    w.room(UUID_BYTES + 8)
    for n in range(UUID_LETTERS):
        letter = letter_of(text[n])
        if letter < 0 or n == UUID_LETTERS - 1 and letter & 15:
            wrong(name, value, "the 22 letters of a uuid")
        bits = bits << 6 | <uint64_t>letter
        if n & 3 == 3:
            w.data[w.size] = <uint8_t>(bits >> 16)
            w.data[w.size + 1] = <uint8_t>(bits >> 8)
            w.data[w.size + 2] = <uint8_t>bits
            w.size += 3
    w.data[w.size] = <uint8_t>(bits >> 4)
    w.size += 1
    return 0


cdef int unsigned_out(Writer w, uint64_t value) except -1:
    w.room(10)
    while value >= 0x80:
        w.data[w.size] = <uint8_t>(value | 0x80)
        w.size += 1
        value >>= 7
    w.data[w.size] = <uint8_t>value
    w.size += 1
    return 0


cdef int length_out(Writer w, int64_t length, str name, bint is_short) except -1:
    """A length or count, -1 for null."""
    if length > 0x7FFFFFFE:
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
    if size > LONGEST_STRING:
        wrong(name, value, f"at most {<int>LONGEST_STRING} bytes as UTF-8")
    length_out(w, size, name, True)
    return raw_out(w, text, size)


cdef int raw_out(Writer w, const void *data, Py_ssize_t size) except -1:
    w.room(size)
    if size:
        memcpy(w.data + w.size, data, size)
    w.size += size
    return 0


cdef int plain_old_text(Writer w, object value, str name) except -1:
    """A nullable string with an int16 before it, also where the version is flexible."""
    cdef Py_ssize_t size
    cdef const char *text
    if value is None:
        return plain_number(w, -1, 2)
    text = utf8(value, name, &size)
    if size > LONGEST_STRING:
        wrong(name, value, f"at most {<int>LONGEST_STRING} bytes as UTF-8")
    plain_number(w, size, 2)
    return raw_out(w, text, size)


cdef int write_string(Writer w, object v, str name, bint nullable) except -1:
    value = getattr(v, name)
    if value is None:
        return null_out(w, name, nullable, True)
    return text_out(w, value, name)


cdef int write_bytes(Writer w, object v, str name, bint nullable) except -1:
    cdef Py_buffer view
    value = getattr(v, name)
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


cdef int write_records(Writer w, object v, str name, bint nullable) except -1:
    return write_bytes(w, v, name, nullable)


cdef list listed(object value, str name):
    """The items of an array; a string or bytes is none, though it could be iterated."""
    if type(value) is list:
        return <list>value
    if isinstance(value, (str, bytes, bytearray, memoryview, dict)):
        wrong(name, value, "a sequence")
    try:
        return list(value)
    except TypeError:
        wrong(name, value, "a sequence")


cdef int write_strings(Writer w, object v, str name, bint nullable) except -1:
    value = getattr(v, name)
    if value is None:
        return null_out(w, name, nullable, False)
    cdef list items = listed(value, name)
    length_out(w, len(items), name, False)
    for item in items:
        text_out(w, item, name)
    return 0


cdef int write_numbers(Writer w, object v, str name, bint nullable, int size) except -1:
    cdef int64_t high = 0x7F if size == 1 else 0x7FFFFFFF if size == 4 else 0x7FFFFFFFFFFFFFFFLL
    value = getattr(v, name)
    if value is None:
        return null_out(w, name, nullable, False)
    cdef list items = listed(value, name)
    length_out(w, len(items), name, False)
    for item in items:
        number(w, item, name, size, -high - 1, high)
    return 0


cdef int write_structs(Writer w, object v, str name, bint nullable, WriteStruct item) except -1:
    value = getattr(v, name)
    if value is None:
        return null_out(w, name, nullable, False)
    cdef list items = listed(value, name)
    length_out(w, len(items), name, False)
    for one in items:
        item(w, one)
    return 0


cdef int write_struct(Writer w, object v, str name, bint nullable, WriteStruct item) except -1:
    value = getattr(v, name)
    if value is None:
        if not nullable:
            refuse_none(w, name)
        return plain_number(w, -1, 1)
    if nullable:
        plain_number(w, 1, 1)
    return item(w, value)


cdef Py_ssize_t begin_tag(Writer w, uint32_t number) except -1:
    """Where the tagged field begins, for `end_tag`."""
    unsigned_out(w, number)
    return w.size


cdef int end_tag(Writer w, Py_ssize_t place) except -1:
    """Puts the size before the field."""
    cdef Py_ssize_t size = w.size - place
    cdef int more = logstore_varint_size(size)
    w.room(more)
    memmove(w.data + place + more, w.data + place, size)
    w.size = place
    unsigned_out(w, size)
    w.size = place + more + size
    return 0


cdef bint differs(object v, str name, object default) except -1:
    """Whether a field is not at its default; an empty tuple stands for an array without items."""
    value = getattr(v, name)
    if value is default:
        return False
    if type(default) is tuple:
        return value is not None and len(value) != 0
    return value != default


cdef int refuse(Writer w, object v, str name) except -1:
    """A field that the version does not carry, and that must not be dropped, was given."""
    raise UnsupportedVersionError(
        f"{type(v).__qualname__}.{name} is not in version {w.version} and cannot be dropped silently")
