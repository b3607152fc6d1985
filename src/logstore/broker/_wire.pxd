# cython: language_level=3
"""Fields of requests and answers that the broker reads and writes without message objects.

Kafka's protocol guide, "Protocol Primitive Types": lengths and counts are int16 or int32 in older versions, and
unsigned varints of one more in flexible ones. Every length is compared with the bytes that are left.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from logstore.protocol._reading cimport Reader, integer, malformed, skip_tags, unsigned_varint
from logstore.protocol._writing cimport Writer, plain_number


cdef inline int64_t length_in(Reader r, str name, int size) except -2:
    """Read a length or count, which is at most the number of bytes left; -1 for null."""
    cdef int64_t length = unsigned_varint(r, name) - 1 if r.flexible else integer(r, name, size)
    if length < -1 or length > r.end - r.p:
        malformed(r, name, f"length {length}, {r.end - r.p} bytes are left")
    return length


cdef inline const uint8_t *taken(Reader r, int64_t size) noexcept:
    """Return the address of bytes that are there, and step over them."""
    r.p += size
    return r.p - size


cdef inline int skip_text(Reader r, str name) except -1:
    """Step over a string, which may be null."""
    cdef int64_t size = length_in(r, name, 2)
    r.p += max(size, <int64_t>0)
    return 0


cdef inline int end_struct(Reader r) except -1:
    """Step over the tagged fields of a struct."""
    return skip_tags(r) if r.flexible else 0


cdef inline int put_length(Writer w, int64_t length, int size) except -1:
    """Write a length or count."""
    cdef int64_t rest = length + 1
    if not w.flexible:
        return plain_number(w, length, size)
    while rest > 0x7F:
        plain_number(w, rest & 0x7F | 0x80, 1)
        rest >>= 7
    return plain_number(w, rest, 1)


cdef inline int put_raw(Writer w, const uint8_t *data, int64_t size) except -1:
    w.reserve(size)
    memcpy(w.data + w.size, data, <size_t>size)
    w.size += size
    return 0


cdef inline int put_end(Writer w) except -1:
    """Write that a struct has no tagged fields."""
    return plain_number(w, 0, 1) if w.flexible else 0


cdef inline bytes copied(const uint8_t *data, int64_t size):
    return PyBytes_FromStringAndSize(<const char *>data, size)
