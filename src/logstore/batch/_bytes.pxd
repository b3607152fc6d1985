# cython: language_level=3
"""Big-endian numbers and variable-length integers, read and written in place.

Leaves only: pointers and integers in, a status out, no allocation. Every reader carries the end
of its range and checks it before it loads. Formats: Kafka protocol guide, "Protocol Primitive Types"
(VARINT and VARLONG are zigzag-encoded, as in Protocol Buffers).
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint16_t logstore_be16(const uint8_t *p) {
        uint16_t v;
        memcpy(&v, p, 2);
        return __builtin_bswap16(v);
    }
    static inline uint32_t logstore_be32(const uint8_t *p) {
        uint32_t v;
        memcpy(&v, p, 4);
        return __builtin_bswap32(v);
    }
    static inline uint64_t logstore_be64(const uint8_t *p) {
        uint64_t v;
        memcpy(&v, p, 8);
        return __builtin_bswap64(v);
    }
    static inline void logstore_put16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
    static inline void logstore_put32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
    static inline void logstore_put64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }
    /* Bytes that the varint of a value takes: one for each started group of seven bits. For every highest bit from
       0 to 63, (9 * bit + 73) / 64 is bit / 7 + 1 without a division by 7. */
    static inline int logstore_varint_size(uint64_t zigzag) {
        return (9 * (63 ^ __builtin_clzll(zigzag | 1)) + 73) >> 6;
    }
    #define LOGSTORE_LIKELY(x) __builtin_expect(!!(x), 1)
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "logstore's core is written for little-endian machines"
    #endif
    """
    uint16_t logstore_be16(const uint8_t *p) noexcept nogil
    uint32_t logstore_be32(const uint8_t *p) noexcept nogil
    uint64_t logstore_be64(const uint8_t *p) noexcept nogil
    void logstore_put16(uint8_t *p, uint16_t v) noexcept nogil
    void logstore_put32(uint8_t *p, uint32_t v) noexcept nogil
    void logstore_put64(uint8_t *p, uint64_t v) noexcept nogil
    int logstore_varint_size(uint64_t zigzag) noexcept nogil
    bint LOGSTORE_LIKELY(bint x) noexcept nogil

cdef enum Status:
    OK = 0
    SHORT = -1        # the range ends inside the value
    MALFORMED = -2    # no encoding of any value


cdef inline int16_t load16(const uint8_t *p) noexcept nogil:
    return <int16_t>logstore_be16(p)


cdef inline int32_t load32(const uint8_t *p) noexcept nogil:
    return <int32_t>logstore_be32(p)


cdef inline int64_t load64(const uint8_t *p) noexcept nogil:
    return <int64_t>logstore_be64(p)


cdef inline void store16(uint8_t *p, int16_t value) noexcept nogil:
    logstore_put16(p, <uint16_t>value)


cdef inline void store32(uint8_t *p, int32_t value) noexcept nogil:
    logstore_put32(p, <uint32_t>value)


cdef inline void store64(uint8_t *p, int64_t value) noexcept nogil:
    logstore_put64(p, <uint64_t>value)


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int varlong_size(int64_t value) noexcept nogil:
    """Return the bytes that write_varlong takes for value: 1 to 10."""
    return logstore_varint_size(zigzag(value))


cdef inline uint8_t *write_varlong(uint8_t *p, int64_t value) noexcept nogil:
    """Encode value at p, which has room for varlong_size(value) bytes; return the byte after."""
    cdef uint64_t rest = zigzag(value)
    while rest >= 0x80:
        p[0] = <uint8_t>(rest | 0x80)
        rest >>= 7
        p += 1
    p[0] = <uint8_t>rest
    return p + 1


cdef inline int read_varlong(
        const uint8_t **cursor, const uint8_t *end, int64_t *out) noexcept nogil:
    """Decode one zigzag varlong at *cursor and step over it.

    On a status below OK, *cursor and *out are left as they were.
    """
    cdef const uint8_t *p = cursor[0]
    cdef uint64_t value = 0
    cdef int shift = 0
    while p < end:
        value |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            # The tenth byte holds one bit; more would be cut off silently.
            if shift == 63 and p[0] > 1:
                return MALFORMED
            out[0] = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
            cursor[0] = p + 1
            return OK
        p += 1
        shift += 7
        if shift > 63:
            return MALFORMED
    return SHORT


cdef inline int read_varint(
        const uint8_t **cursor, const uint8_t *end, int32_t *out) noexcept nogil:
    """Decode one zigzag varint of at most 32 bits at *cursor and step over it.

    On a status below OK, *cursor and *out are left as they were.
    """
    cdef const uint8_t *p = cursor[0]
    cdef uint64_t value
    cdef int shift = 0
    # Most lengths and deltas take one byte or two: one check, and these are decoded without a loop.
    if LOGSTORE_LIKELY(end - p >= 2):
        value = p[0]
        if value < 0x80:
            out[0] = <int32_t>((<uint32_t>value >> 1) ^ -(<uint32_t>value & 1))
            cursor[0] = p + 1
            return OK
        if p[1] < 0x80:
            value = (value & 0x7F) | (<uint64_t>p[1] << 7)
            out[0] = <int32_t>((<uint32_t>value >> 1) ^ -(<uint32_t>value & 1))
            cursor[0] = p + 2
            return OK
    value = 0
    while p < end:
        value |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            if value >> 32:
                return MALFORMED
            out[0] = <int32_t>((<uint32_t>value >> 1) ^ -(<uint32_t>value & 1))
            cursor[0] = p + 1
            return OK
        p += 1
        shift += 7
        if shift > 28:
            return MALFORMED
    return SHORT
