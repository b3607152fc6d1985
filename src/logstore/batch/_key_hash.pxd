# cython: language_level=3
"""Partition of a key: Kafka's murmur2 as a leaf for the other compiled modules."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    MURMUR2_SEED = 0x9747B28C
    MURMUR2_FACTOR = 0x5BD1E995
    MURMUR2_SHIFT = 24


cdef inline uint32_t murmur2_of(const uint8_t *data, int64_t size) noexcept nogil:
    """Compute MurmurHash2 of 32 bits with Kafka's seed, as `Utils.murmur2` in Java; words are little-endian."""
    cdef uint32_t h = <uint32_t>MURMUR2_SEED ^ <uint32_t>size
    cdef uint32_t k
    cdef const uint8_t *p = data
    cdef const uint8_t *words_end = data + (size & ~<int64_t>3)
    cdef int64_t rest = size & 3
    while p < words_end:
        memcpy(&k, p, 4)
        k *= <uint32_t>MURMUR2_FACTOR
        k ^= k >> MURMUR2_SHIFT
        k *= <uint32_t>MURMUR2_FACTOR
        h *= <uint32_t>MURMUR2_FACTOR
        h ^= k
        p += 4
    if rest:
        if rest == 3:
            h ^= <uint32_t>p[2] << 16
        if rest >= 2:
            h ^= <uint32_t>p[1] << 8
        h ^= p[0]
        h *= <uint32_t>MURMUR2_FACTOR
    h ^= h >> 13
    h *= <uint32_t>MURMUR2_FACTOR
    h ^= h >> 15
    return h


cdef inline int32_t partition_of_hash(uint32_t h, int32_t partition_count) noexcept nogil:
    """Return the partition of a key's hash, whose sign bit is cleared, not negated: `Utils.toPositive`."""
    return <int32_t>((h & 0x7FFFFFFF) % <uint32_t>partition_count)


cdef inline int32_t partition_of_key(const uint8_t *data, int64_t size, int32_t partition_count) noexcept nogil:
    """Return the partition of a key."""
    return partition_of_hash(murmur2_of(data, size), partition_count)


cdef int32_t hash_of(object key) except? -1
