"""Encoding and decoding of Kafka's messages, by the descriptions of fields in the classes' ``__slots__``.

``__slots__`` of a class is a dictionary: field name -> its line of a table (codegen/messages.txt or records.txt)
from the type on, such as "[]Topic 3+ null 9+". Defaults are those of the arguments of `__init__`. When a class is
imported, its Schema turns both into C structs and finds the offsets of the slots in an object. `_reading` and
`_writing` then access fields directly; access by attributes takes two to three times as long.

Threads: a Schema is never changed; any thread may use it.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport INT64_MAX, int64_t

from logstore.protocol._fields cimport (
    BOOL, BYTES, FLOAT64, NUMBER, RECORDS, STRING, STRUCT, UUID, Field, Struct,
)
from logstore.protocol._reading cimport (
    Reader, integer, malformed, plain_old_string, read_struct, skip_tags, unsigned_varint,
)
from logstore.protocol._writing cimport Writer, plain_number, plain_old_text, write_struct

from functools import cache

from logstore.errors import UnsupportedVersionError

cdef enum:
    API_VERSIONS = 18
    NO_VERSION = 32767

#: type -> kind, bytes of a number, whether it has a sign
cdef dict SCALARS = {
    "int8": (NUMBER, 1, True),
    "int16": (NUMBER, 2, True),
    "uint16": (NUMBER, 2, False),
    "int32": (NUMBER, 4, True),
    "int64": (NUMBER, 8, True),
    "bool": (BOOL, 0, False),
    "float64": (FLOAT64, 0, False),
    "uuid": (UUID, 0, False),
    "string": (STRING, 0, False),
    "bytes": (BYTES, 0, False),
    "records": (RECORDS, 0, False),
}


@cython.final
cdef class Schema:
    """The fields of a message and of the structs in it, and the functions that encode and decode it.

    Owns: the C descriptions of the fields, and the classes, names and defaults that these point to.
    """

    cdef Struct *_structs
    cdef Field *_fields
    cdef list _kept
    cdef str _name
    cdef int _key  # API key; -1 for a record
    cdef int _first
    cdef int _last
    cdef int _flexible

    def __cinit__(self, type message):
        cdef list classes = [message, *(one for one in vars(message).values() if isinstance(one, type))]
        cdef dict places = {one.__name__: place for place, one in enumerate(classes)}
        cdef Field *field
        cdef Struct *struct
        self._name = message.__name__
        self._key = getattr(message, "API_KEY", -1)
        self._first = message.MIN_VERSION
        self._last = message.MAX_VERSION if message.UNSTABLE_VERSION is None else message.UNSTABLE_VERSION
        self._flexible = NO_VERSION if message.FLEXIBLE_SINCE is None else message.FLEXIBLE_SINCE
        self._kept = [classes]
        self._structs = <Struct *>PyMem_Calloc(len(classes), sizeof(Struct))
        self._fields = <Field *>PyMem_Calloc(sum([len(one.__slots__) for one in classes]) + 1, sizeof(Field))
        if self._structs == NULL or self._fields == NULL:
            raise MemoryError
        field = self._fields
        for place, one in enumerate(classes):
            struct = &self._structs[<Py_ssize_t>place]
            struct.type = <PyTypeObject *>one
            struct.fields = field
            value = one.__new__(one)
            for name, line in one.__slots__.items():
                self._describe(field, line.split(), places)
                field.offset = offset_of(value, name, one.__basicsize__)
                self._kept.append(name)
                field.name = <PyObject *>name
                if field.kind != STRUCT or field.is_array or field.first_nullable != NO_VERSION:
                    default = one.__init__.__kwdefaults__[name]
                    self._kept.append(default)
                    field.default_value = <PyObject *>default
                struct.has_tags |= field.is_tagged
                struct.count += 1
                field += 1

    cdef int _describe(self, Field *field, list words, dict places) except -1:
        """Fill in a field from the words of its line: type, versions and options."""
        cdef str kind = words[0].removeprefix("[]")
        field.is_array = kind != words[0]
        if kind in SCALARS:
            field.kind, field.size, field.is_signed = SCALARS[kind]
        else:
            field.kind = STRUCT
            field.nested = &self._structs[<Py_ssize_t>places[kind]]
        field.first, field.last = versions_of(words[1])
        field.first_nullable = NO_VERSION
        if len(words) == 2:
            return 0
        if "null" in words:
            field.first_nullable = versions_of(words[words.index("null") + 1])[0]
        if "tag" in words:
            field.is_tagged = True
            field.tag = int(words[words.index("tag") + 1])
        field.may_drop = "ignorable" in words
        return 0

    def __dealloc__(self):
        PyMem_Free(self._structs)
        PyMem_Free(self._fields)

    cdef int _check(self, int version) except -1:
        if not self._first <= version <= self._last:
            raise UnsupportedVersionError(
                f"{self._name} has versions {self._first} to {self._last}, not {version}")
        return 0

    cdef Reader _reader(self, object buffer, int version, Py_ssize_t position):
        self._check(version)
        return Reader(buffer, position, version, version >= self._flexible)

    cdef Writer _writer(self, int version):
        self._check(version)
        return Writer(version, version >= self._flexible)

    cdef object _message(self, Reader r):
        value = read_struct(r, self._structs)
        if r.p != r.end and self._key >= 0:
            malformed(r, "message", f"{r.end - r.p} bytes more than it has")
        return value

    def encode(self, value, int version):
        cdef Writer w = self._writer(version)
        write_struct(w, self._structs, value)
        return w.taken()

    def decode(self, buffer, int version, Py_ssize_t position=0):
        """Return the message; bytes after the fields of a record are ignored."""
        return self._message(self._reader(buffer, version, position))

    def encode_request(self, value, int version, int correlation_id, client_id, bint sized=True):
        """Return size unless ``sized`` is False, request header (version 1, or 2 with tagged fields) and body."""
        cdef Writer w = self._writer(version)
        if sized:
            plain_number(w, 0, 4)
        plain_number(w, self._key, 2)
        plain_number(w, version, 2)
        plain_number(w, correlation_id, 4)
        plain_old_text(w, client_id, "client_id")
        if w.flexible:
            plain_number(w, 0, 1)
        return self._framed(w, value, sized)

    def encode_response(self, value, int version, int correlation_id, bint sized=True):
        """Return size unless ``sized`` is False, response header and body.

        The header has version 0, or 1 with tagged fields; that of ApiVersions always has version 0.
        """
        cdef Writer w = self._writer(version)
        if sized:
            plain_number(w, 0, 4)
        plain_number(w, correlation_id, 4)
        if w.flexible and self._key != API_VERSIONS:
            plain_number(w, 0, 1)
        return self._framed(w, value, sized)

    cdef object _framed(self, Writer w, object value, bint sized):
        """Write the message after its header, and with ``sized`` the size of both before the header."""
        cdef Py_ssize_t size
        write_struct(w, self._structs, value)
        if not sized:
            return w.taken()
        size = w.size
        if size - 4 > 0x7FFFFFFF:
            raise ValueError(f"a frame of {size - 4} bytes: 2 GiB is the most")
        w.size = 0
        plain_number(w, size - 4, 4)
        w.size = size
        return w.taken()

    def decode_request(self, buffer, int version, Py_ssize_t position=0, int64_t max_items=INT64_MAX):
        """Return the client id and the message of a frame without its size; the caller knows key and version.

        Bytes behind the message are ignored, as Kafka's broker does: librdkafka sends some with Metadata.
        """
        cdef Reader r = self._reader(buffer, version, position)
        request_header(buffer, position)
        r.p += 8
        r.items_left = max_items
        client_id = plain_old_string(r, "client_id")
        if r.flexible:
            skip_tags(r)
        return client_id, read_struct(r, self._structs)

    def decode_response(self, buffer, int version, Py_ssize_t position=0):
        """Return the correlation id and the message of a frame without its size."""
        cdef Reader r = self._reader(buffer, version, position)
        cdef int correlation_id = <int>integer(r, "correlation_id", 4)
        if r.flexible and self._key != API_VERSIONS:
            skip_tags(r)
        return correlation_id, self._message(r)


@cache
def versions_of(text):
    """Return the first and the last version of a range such as "3+" or "0-12"."""
    first, _, last = text.rstrip("+").partition("-")
    return int(first), NO_VERSION if text.endswith("+") else int(last)


cdef Py_ssize_t offset_of(object value, str name, Py_ssize_t size) except -1:
    """Return the offset of a slot in an object: set it by name to a marker, and search the memory for that."""
    cdef object mark = object()
    cdef Py_ssize_t offset
    setattr(value, name, mark)
    for offset in range(sizeof(PyObject), size, sizeof(PyObject *)):
        if (<PyObject **>(<char *>(<PyObject *>value) + offset))[0] == <PyObject *>mark:
            return offset
    raise SystemError(f"{type(value).__qualname__}.{name} is not in the object")


def request_header(buffer, Py_ssize_t position=0):
    """Return API key, version and correlation id, with which every request begins, also an unknown one."""
    cdef Reader r = Reader(buffer, position, 0, False)
    cdef int key = <int>integer(r, "request_api_key", 2)
    cdef int version = <int>integer(r, "request_api_version", 2)
    return key, version, <int>integer(r, "correlation_id", 4)


def record_frame(buffer):
    """Return frame version, type and version of a metadata record, and the position of its fields."""
    cdef Reader r = Reader(buffer, 0, 0, True)
    cdef int64_t frame = unsigned_varint(r, "frame version")
    cdef int64_t kind = unsigned_varint(r, "record type")
    cdef int64_t version = unsigned_varint(r, "record version")
    return frame, kind, version, r.p - r.start
